"""Weights that are stored small (`constexpr_*`), and tensors of integers that stand for real numbers."""

from __future__ import annotations

import numpy as np

from sterna.errors import error
from sterna.frontends.coreml.mil.constants import unpacked_bits
from sterna.frontends.coreml.mil.translation import Translation, Translator
from sterna.frontends.standard import standard
from sterna.ir.graph import Array, Value
from sterna.ir.limits import check_table


def _made(t: Translation, array: Array, like: Array) -> Value:
    return t.constant(array.astype(like.dtype))


def _affine(t: Translation) -> Value:
    data, scale, zero = t.table("quantized_data"), t.table("scale"), t.table("zero_point")
    axis = t.integer("axis")
    shape = [1] * data.ndim
    shape[axis] = -1
    scales, zeros = (a.astype(np.float32).reshape(shape if a.size > 1 else [1] * data.ndim) for a in (scale, zero))
    return _made(t, (data.astype(np.float32) - zeros) * scales, scale)


def _repeated(small: Array, shape: tuple[int, ...]) -> Array:
    """Every element of `small` stands for a block."""
    for axis, size in enumerate(shape):
        if not small.shape[axis] or size % small.shape[axis]:
            raise error("E0109", f"blocks {list(small.shape)} of {list(shape)}")
        small = np.repeat(small, size // small.shape[axis], axis)
    return small


def _scaled(t: Translation, data: Array) -> Value:
    scale = t.table("scale")
    result = data.astype(np.float32)
    if t.given("offset"):
        result = result - _repeated(t.table("offset").astype(np.float32), data.shape)
    return _made(t, result * _repeated(scale.astype(np.float32), data.shape), scale)


def _looked_up(t: Translation, indices: Array) -> Value:
    """Table entries of K leading dimensions of blocks, then entries, then elements of a vector."""
    lut = t.table("lut")
    if lut.ndim != indices.ndim + 2:
        raise error("E0109", f"a table of {lut.ndim} dimensions for indices of {indices.ndim}")
    entries, width = lut.shape[-2:]
    if indices.size and indices.max() >= entries:
        raise error("E0109", f"index {indices.max()} of {entries} entries")
    check_table(*indices.shape, width)
    blocks = lut.shape[:-2]
    place = np.zeros(indices.shape, np.int64)
    for axis, count in enumerate(blocks):
        size = indices.shape[axis]
        if not count or size % count:
            raise error("E0109", f"tables {list(blocks)} for indices {list(indices.shape)}")
        along = (np.arange(size) // max(size // count, 1)).reshape([-1 if n == axis else 1 for n in range(len(blocks))])
        place = place * count + along
    found = lut.reshape(-1, entries, width)[place, indices.astype(np.int64)]
    if width == 1:
        return t.constant(found[..., 0])
    axis = t.integer("vector_axis") % indices.ndim
    moved = np.moveaxis(found, -1, axis + 1)
    return t.constant(moved.reshape([s * width if n == axis else s for n, s in enumerate(indices.shape)]))


def _lut(t: Translation) -> Value:
    if not t.given("shape"):
        return _looked_up(t, t.table("indices"))
    # Operator set CoreML6: the indices are packed bytes.
    lut, shape = t.table("lut"), t.ints("shape")
    check_table(*shape)
    count, bits = int(np.prod(shape)), max(1, (lut.size - 1).bit_length())
    indices = unpacked_bits(t.table("indices").astype(np.uint8).reshape(-1), bits, count)
    if count and indices.max() >= lut.size:
        raise error("E0109", f"index {indices.max()} of {lut.size} entries")
    return t.constant(lut.reshape(-1)[indices].reshape(shape))


def _dense(mask: Array, held: Array) -> Array:
    if int(mask.sum()) != held.size:
        raise error("E0109", f"{held.size} elements for {int(mask.sum())} places")
    result = np.zeros(mask.shape, held.dtype)
    result[mask.astype(bool)] = held.reshape(-1)
    return result


def _sparse(t: Translation) -> Value:
    mask = t.table("mask")
    if t.given("shape"):
        shape = t.ints("shape")
        check_table(*shape)
        mask = unpacked_bits(mask.astype(np.uint8).reshape(-1), 1, int(np.prod(shape))).reshape(shape)
    return t.constant(_dense(mask, t.table("nonzero_data")))


def _lut_to_sparse(t: Translation) -> tuple[Value, Value]:
    mask = t.table("indices_mask").astype(bool)
    values = np.asarray(_looked_up(t, _dense(mask, t.table("indices_nonzero_data"))).data)
    if values.shape != mask.shape:
        axis = t.integer("vector_axis") % mask.ndim
        mask = np.repeat(mask, values.shape[axis] // mask.shape[axis], axis)
    return t.constant(mask.astype(np.uint8)), t.constant(values[mask])


def _sparse_scaled(t: Translation) -> tuple[Value, Value]:
    mask = t.table("data_mask").astype(bool)
    values = np.asarray(_scaled(t, _dense(mask, t.table("nonzero_data"))).data)
    return t.constant(mask.astype(np.uint8)), t.constant(values[mask])


def _cast(t: Translation) -> Value:
    return t.constant(t.table("source_val").astype({"fp32": np.float32, "fp16": np.float16}[t.text("output_dtype")]))


def _quantize(t: Translation) -> Value:
    x = t.arg("input")
    zero = t.maybe("zero_point")
    wanted = t.text("output_dtype", "int8")
    zero = zero if zero is not None else t.constant(np.zeros(t.arg("scale").type.sizes, wanted))
    return standard(t, "QuantizeLinear", x, t.arg("scale"), t.cast(zero, wanted), axis=t.integer("axis", 0))


def _dequantize(t: Translation) -> Value:
    x, scale, zero = t.arg("input"), t.arg("scale"), t.maybe("zero_point")
    zero = None if zero is None else t.cast(zero, x.dtype)
    return standard(t, "DequantizeLinear", x, scale, zero, axis=t.integer("axis", 0))


TRANSLATORS: dict[str, Translator] = {
    "constexpr_affine_dequantize": _affine,
    "constexpr_blockwise_shift_scale": lambda t: _scaled(t, t.table("data")),
    "constexpr_cast": _cast,
    "constexpr_lut_to_dense": _lut,
    "constexpr_lut_to_sparse": _lut_to_sparse,
    "constexpr_sparse_blockwise_shift_scale": _sparse_scaled,
    "constexpr_sparse_to_dense": _sparse,
    "dequantize": _dequantize,
    "quantize": _quantize,
}
