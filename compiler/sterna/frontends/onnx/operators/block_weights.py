"""Weights of few bits in blocks that have a scale each: products by them, and tables whose rows are gathered."""

from __future__ import annotations

import numpy as np

from sterna.errors import error
from sterna.frontends.onnx.narrow_weights import PRODUCT
from sterna.frontends.onnx.operators import arithmetic
from sterna.frontends.onnx.operators.microsoft import plain
from sterna.frontends.onnx.translation import Translation, Translator, axes_of
from sterna.ir import dtypes
from sterna.ir.graph import Array, Value
from sterna.ir.integer import Int
from sterna.ir.limits import check_table, counting

#: What a number of 4 bits stands for (bitsandbytes): FP4, NF4 (Dettmers et al., QLoRA, appendix E).
_FOUR_BITS = (
    (0, 0.00520833, 0.66666667, 1, 0.33333333, 0.5, 0.16666667, 0.25),
    (
        -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
        -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
        0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0,
    ),
)  # fmt: skip
#: `accuracy_level` of activations that may be rounded to 8 bits.
_EIGHT_BITS = 4
#: The greatest number of digits of 8 bits with a sign: of one and of three, with room for the rounding of a product.
_GREATEST = {1: 127, 3: 127 * 0x10100}
#: What the largest activation of a block is at least, so that steps and their inverses are normal numbers.
_LEAST = 1e-30


def product_of_blocks(
    t: Translation, x: Value, codes: Array, scales: Value, zeros: Array | int, bits: int, digits: int
) -> Value:
    """The product (..., N) of activations (..., K) by weights scale * (code - zero).

    Args:
        codes: (N, blocks, length), less than 2^bits; x has at most as many elements in a row, and zeros follow.
        scales: (N, blocks); zeros: as many bytes, or one number.
        digits: of 8 bits that activations are rounded to, with a step per block: 1, or 3 for float32.
    """
    columns, blocks, length = codes.shape
    lead = x.shape[:-1]
    rows = Int({}, 1)
    for n in lead:
        rows = rows * n
    depth = t.extent(x, -1)
    flat = t.pad(t.reshape(t.cast(x, "float32"), (rows, depth)), (0, 0), (0, blocks * length - depth))
    flat = t.reshape(flat, (rows, blocks, length))
    peak = t.op("reduce_max", t.op("abs", flat), axes=(2,), keep_dims=False)
    peak = t.op("maximum", peak, t.scalar(_LEAST, "float32"))
    greatest = t.scalar(float(_GREATEST[digits]), "float32")
    inverse, step = t.op("div", greatest, peak), t.op("div", peak, greatest)
    whole = t.op("round", t.op("mul", flat, t.reshape(inverse, (rows, blocks, 1))))
    excess = t.op("reduce_sum", whole, axes=(2,), keep_dims=False)
    given: list[Value] = []
    if isinstance(zeros, int):
        excess = t.op("mul", excess, t.scalar(float(zeros), "float32"))
    else:
        given = [t.constant(np.ascontiguousarray(zeros.T))]
    quantized = t.reshape(t.op("digits", flat, inverse, count=digits), (rows, digits, blocks * length))
    operands = (quantized, step, excess, t.constant(_in_parts(codes, bits)), t.transpose(scales, (1, 0)), *given)
    y = t.op("matmul_blocks", *operands, bits=bits)
    return t.cast(t.reshape(y, (*lead, columns)), x.dtype)


def _in_parts(codes: Array, bits: int) -> Array:
    """(N, blocks, length) numbers as bytes (depth, N): each holds a number of every part of its block."""
    columns, blocks, length = codes.shape
    parts = 8 // bits
    apart = codes.reshape(columns, blocks, parts, length // parts)
    whole = np.zeros((columns, blocks, length // parts), np.uint8)
    for n in range(parts):
        whole |= apart[:, :, n] << (n * bits)
    return np.ascontiguousarray(whole.reshape(columns, -1).T)


def unpacked(data: Array, bits: int, count: int) -> Array:
    """(rows, bytes) as (rows, count) numbers of a few bits, those in the lowest bits first."""
    parts = np.stack([(data >> shift) & ((1 << bits) - 1) for shift in range(0, 8, bits)], axis=-1)
    return np.ascontiguousarray(parts.reshape(len(data), -1)[:, :count].astype(np.uint8))


def matmul_nbits(t: Translation) -> Value:
    """The product with weights (N, blocks, bytes) of few bits, one scale per block of K, or per `g_idx` of it."""
    x, packed, scales = t.input(0), t.array(1, "weights"), t.input(2)
    bits, block = t.attribute("bits", 4), t.attribute("block_size", 32)
    n, k = t.attribute("N"), t.attribute("K")
    if bits not in (2, 4, 8) or not n or not k:
        raise t.unsupported(f"of {bits} bits")
    blocks = -(-k // block)
    codes = unpacked(packed.reshape(n, -1), bits, blocks * block)
    known = not t.has(3) or t.input(3).dtype == "uint8"
    if t.has(4) or not known:
        y = _widened_product(t, codes, (n, k, blocks, block))
    else:
        zeros: Array | int = 1 << (bits - 1)
        if t.has(3):
            zeros = unpacked(t.array(3, "zero points").reshape(n, -1), bits, blocks)
        scale = t.reshape(scales, (n, blocks))
        digits = 1 if t.attribute("accuracy_level", 0) == _EIGHT_BITS else 3
        y = product_of_blocks(t, x, codes.reshape(n, blocks, block), scale, zeros, bits, digits)
    return t.op("add", y, t.input(5)) if t.has(5) else y


def _widened_product(t: Translation, codes: Array, sizes: tuple[int, int, int, int]) -> Value:
    """The product where rows of the weights are in groups of any order, or zero points are no integers."""
    (n, k, blocks, block), x, bits = sizes, t.input(0), t.attribute("bits", 4)
    weight = t.constant(codes, x.dtype)
    scale = t.reshape(t.cast(t.input(2), x.dtype), (n, blocks))
    if t.has(3) and t.input(3).dtype == x.dtype:
        zero = t.reshape(t.input(3), (n, blocks))
    elif t.has(3):
        zero = t.constant(unpacked(t.array(3, "zero points").reshape(n, -1), bits, blocks), x.dtype)
    else:
        zero = t.op("expand", t.scalar(1 << (bits - 1), x.dtype), shape=(n, blocks))
    if t.has(4):
        group = t.constant(np.resize(t.array(4, "groups").astype(np.int64), blocks * block))
        zero, scale = (t.op("gather", value, group, axis=1) for value in (zero, scale))
        wide = t.op("mul", t.op("sub", weight, zero), scale)
    else:
        zero, scale = (t.reshape(value, (n, blocks, 1)) for value in (zero, scale))
        wide = t.op("mul", t.op("sub", t.reshape(weight, (n, blocks, block)), zero), scale)
        wide = t.reshape(wide, (n, blocks * block))
    if blocks * block != k:
        wide = t.op("slice", wide, starts=(0, 0), sizes=(n, k), steps=(1, 1))
    return arithmetic.matmul(plain(t, [x, t.transpose(wide, (1, 0))]))


def matmul_bnb4(t: Translation) -> Value:
    """The product with weights of 4 bits that number the values of a table, one scale per block."""
    x, packed, scales = t.input(0), t.array(1, "weights"), t.input(2)
    n, k, block = t.attribute("N"), t.attribute("K"), t.attribute("block_size")
    kind = t.attribute("quant_type", 1)
    if not n or not k or not block or kind not in (0, 1) or packed.size * 2 < n * k:
        raise error("E0109", f"{packed.size} bytes for {n} x {k} weights in blocks of {block}")
    if not t.attribute("transB", 1):
        raise t.unsupported("without transB")
    table = np.array(_FOUR_BITS[kind], np.float32)
    table = np.concatenate([table, -table]) if kind == 0 else table
    codes = np.stack([packed.reshape(-1) >> 4, packed.reshape(-1) & 15], axis=-1).reshape(-1)[: n * k]
    values = t.op("gather", t.constant(table, x.dtype), t.constant(codes.reshape(n, k).astype(np.int32)), axis=0)
    check_table(n, k)
    place = (np.arange(n * k) // block).reshape(n, k)
    scale = t.op("gather", t.reshape(t.cast(scales, x.dtype), (int(scales.type.elements),)), t.constant(place), axis=0)
    return arithmetic.matmul(plain(t, [x, t.transpose(t.op("mul", values, scale), (1, 0))]))


def gather_block_quantized(t: Translation) -> Value:
    """Rows of a table in few bits, widened; scales go with blocks of another axis."""
    data, indices, scales = t.input(0), t.input(1), t.input(2)
    rank, bits, block = data.type.rank, t.attribute("bits", 4), t.attribute("block_size", 128)
    (axis,) = axes_of((t.attribute("gather_axis", 0),), rank)
    (along,) = axes_of((t.attribute("quantize_axis", 1),), rank)
    if axis == along:
        raise t.unsupported("along the axis of its blocks")
    sizes, zero = list(t.static(data)), t.optional(3)
    default, parts = 0, 1
    if data.dtype == "uint8":
        default = 1 << (bits - 1)
        if bits != 8:
            if bits not in (2, 4) or along != rank - 1:
                raise t.unsupported(f"of {bits} bits along dimension {along}")
            parts = 8 // bits
            sizes[-1] *= parts
            if zero is not None:
                given, blocks = t.array(3, "zero points"), t.static(scales)
                plainly = unpacked(given.reshape(-1, given.shape[-1]), bits, blocks[-1])
                zero = t.constant(plainly.reshape(blocks))

    def chosen(x: Value) -> Value:
        return t.op("gather", x, t.cast(indices, "int64"), axis=axis)

    # The indices stand in the place of their axis; those before it keep theirs.
    at = along if along < axis else along + indices.type.rank - 1
    rows = chosen(t.cast(data, "uint8" if data.dtype == "uint8" else "int8"))
    if parts > 1:
        # The table stays as it is: only the rows that are chosen are taken apart.
        shifts = t.constant(np.arange(0, 8, bits, dtype=np.uint8))
        apart = t.op("bit_shift", t.reshape(rows, (*rows.shape, 1)), shifts, direction="RIGHT")
        apart = t.op("bitwise_and", apart, t.scalar((1 << bits) - 1, "uint8"))
        rows = t.reshape(apart, (*rows.shape[:-1], rows.shape[-1] * parts))
    extent = t.extent(rows, at)

    def spread(x: Value) -> Value:
        return t.op("gather", chosen(x), t.constant(counting(extent) // block), axis=at)

    wide = t.cast(rows, "int32")
    if zero is not None:
        few = zero if zero.dtype == "uint8" else t.cast(zero, "int8")
        wide = t.op("sub", wide, t.cast(spread(few), "int32"))
    elif default:
        wide = t.op("sub", wide, t.scalar(default, "int32"))
    return t.op("mul", t.cast(wide, scales.dtype), spread(scales))


def narrow_product(t: Translation) -> Value:
    """A product by weights (K, N), or (N, K) where they are `transposed`, of 4 or 2 bits that the model widens first,
    with a scale for every column or for every block of `block_size` in it."""
    weight, zero = t.array(1, "weights"), t.optional(3)
    bits = 2 if dtypes.from_numpy(weight.dtype).endswith("2") else 4
    numbers = weight.astype(np.int16)
    if not t.attribute("transposed", 0):
        numbers = numbers.T
    columns, depth = numbers.shape
    block = t.attribute("block_size", 0) or depth
    blocks = -(-depth // block)
    even = -(-block // (8 // bits)) * (8 // bits)
    shift = 1 << (bits - 1) if dtypes.is_signed(dtypes.from_numpy(weight.dtype)) else 0
    codes = np.zeros((columns, blocks * block), np.uint8)
    codes[:, :depth] = numbers + shift
    codes = np.pad(codes.reshape(columns, blocks, block), ((0, 0), (0, 0), (0, even - block)))

    def per_block(value: Array) -> Array:
        """A scale or zero point as (N, blocks)."""
        if value.size == 1:
            return np.broadcast_to(value.reshape(1, 1), (columns, blocks))
        if value.ndim == 1:
            return np.broadcast_to(value.reshape(-1, 1), (columns, blocks))
        return value if t.attribute("transposed", 0) else value.T

    scales = t.constant(per_block(t.array(2, "scales")), t.input(2).dtype)
    zeros = shift if zero is None else (per_block(t.array(3, "zero points").astype(np.int16)) + shift).astype(np.uint8)
    x = t.input(0)
    if even != block:
        lead = (*x.shape[:-1],)
        wide = t.pad(x, (0,) * x.type.rank, (*[0] * len(lead), blocks * block - depth))
        wide = t.reshape(wide, (*lead, blocks, block))
        x = t.reshape(t.pad(wide, (0,) * (len(lead) + 2), (*[0] * len(lead), 0, even - block)), (*lead, blocks * even))
    y = product_of_blocks(t, x, codes, scales, zeros, bits, 3)
    return t.op("add", y, t.input(4)) if t.has(4) else y


INNER_TRANSLATORS: dict[str, Translator] = {PRODUCT: narrow_product}
MICROSOFT_TRANSLATORS: dict[str, Translator] = {
    "GatherBlockQuantized": gather_block_quantized,
    "MatMulBnb4": matmul_bnb4,
    "MatMulNBits": matmul_nbits,
}
