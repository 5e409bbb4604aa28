"""Quantized tensors: integers q that stand for scale * (q - zero point) (quantized_decomposed, torchao).

A real tensor that was made of integers is remembered together with them, so that products of two such tensors are made
of the integers themselves, exactly, in int32.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sterna.errors import error
from sterna.frontends.pytorch.translation import Translation, Translator
from sterna.frontends.standard import standard
from sterna.ir import dtypes
from sterna.ir.graph import Value
from sterna.ir.integer import Int, as_int

_SMALL = ("int8", "uint8")


def _limits(t: Translation, dtype: str) -> tuple[int, int]:
    """The least and greatest integer; those of the type where they are left out."""
    low, high = dtypes.limits(dtype)
    return t.integer("quant_min", low), t.integer("quant_max", high)


def _spread(t: Translation, value: Any, x: Value, axis: int | None, dtype: str) -> Value:
    """A scale or zero point so that it broadcasts against a tensor."""
    made = t.as_value(value, dtype)
    if axis is None or made.type.elements == 1:
        return t.reshape(made, ())
    return t.reshape(made, [made.type.elements if n == axis else 1 for n in range(x.type.rank)])


def quantized(t: Translation, axis: int | None, scale: Any, zero: Any) -> Value:
    """round(x / scale) + zero point, clamped."""
    x, dtype = t.cast(t.tensor("input"), "float32"), t.scalar_type("int8")
    low, high = _limits(t, dtype)
    inverse = t.op("reciprocal", _spread(t, scale, x, axis, "float32"))
    whole = t.op("round", t.op("mul", x, inverse))
    if zero is not None:
        whole = t.op("add", whole, _spread(t, zero, x, axis, "float32"))
    return t.cast(t.op("clip", whole, min=float(low), max=float(high)), dtype)


def dequantized(t: Translation, axis: int | None, scale: Any, zero: Any) -> Value:
    """(q - zero point) * scale."""
    q = t.tensor("input")
    scales = _spread(t, scale, q, axis, "float32")
    zeros = None if zero is None else _spread(t, zero, q, axis, "int32")
    if zeros is not None and zeros.data is not None and not zeros.data.any():
        zeros = None
    whole = t.cast(q, "int32")
    whole = whole if zeros is None else t.op("sub", whole, zeros)
    y = t.cast(t.op("mul", t.cast(whole, "float32"), scales), str(t.arg("out_dtype", "float32")))
    if q.dtype in _SMALL:
        t.shared.dequantized[y] = (q, scales, zeros, axis if scales.type.rank else None)
    return y


def _channel(t: Translation) -> int:
    return t.axis(t.integer("axis", 0), t.tensor("input").type.rank)


def quantize_tensor(t: Translation) -> Value:
    return quantized(t, None, t.arg("scale"), t.arg("zero_point", 0))


def dequantize_tensor(t: Translation) -> Value:
    return dequantized(t, None, t.arg("scale"), t.arg("zero_point", 0))


def quantize_channel(t: Translation) -> Value:
    return quantized(t, _channel(t), t.arg("scales"), t.arg("zero_points"))


def dequantize_channel(t: Translation) -> Value:
    return dequantized(t, _channel(t), t.arg("scales"), t.arg("zero_points"))


def choose_tensor(t: Translation) -> tuple[Value, Value]:
    """Scale and zero point that a tensor's least and greatest element ask for."""
    x = t.cast(t.tensor("input"), "float32")
    low, high = _limits(t, t.scalar_type("int8"))
    zero = t.scalar(0.0, "float32")
    axes = tuple(range(x.type.rank))
    least = t.op("minimum", t.op("reduce_min", x, axes=axes, keep_dims=False), zero)
    greatest = t.op("maximum", t.op("reduce_max", x, axes=axes, keep_dims=False), zero)
    eps = t.scalar(t.number("eps", 1.1920929e-07), "float32")
    if "symmetric" in t.kind:
        size = t.op("maximum", t.op("neg", least), greatest)
        scale = t.op("maximum", t.op("div", size, t.scalar((high - low) / 2, "float32")), eps)
        return t.cast(scale, "float64"), t.scalar(0, "int64")
    scale = t.op("maximum", t.op("div", t.op("sub", greatest, least), t.scalar(float(high - low), "float32")), eps)
    place = t.op("sub", t.scalar(float(low), "float32"), t.op("round", t.op("div", least, scale)))
    return t.cast(scale, "float64"), t.cast(t.op("clip", place, min=float(low), max=float(high)), "int64")


def choose_token(t: Translation) -> tuple[Value, Value]:
    """The same for every row."""
    x = t.cast(t.tensor("input"), "float32")
    axes = (x.type.rank - 1,)
    low, high = dtypes.limits(t.scalar_type("int8"))
    zero = t.scalar(0.0, "float32")
    least = t.op("minimum", t.op("reduce_min", x, axes=axes, keep_dims=True), zero)
    greatest = t.op("maximum", t.op("reduce_max", x, axes=axes, keep_dims=True), zero)
    scale = t.op("div", t.op("sub", greatest, least), t.scalar(float(high - low), "float32"))
    scale = t.op("maximum", scale, t.scalar(float(np.finfo(np.float32).eps), "float32"))
    ends = [t.op("div", end, scale) for end in (least, greatest)]
    left = t.op("add", t.scalar(float(low), "float32"), ends[0])
    right = t.op("add", t.scalar(float(high), "float32"), ends[1])
    below = t.op("sub", t.scalar(float(low), "float32"), ends[0])
    above = t.op("sub", t.scalar(float(high), "float32"), ends[1])
    nearer = t.op("greater", t.op("add", left, right), zero)
    place = t.op("clip", t.op("where", nearer, below, above), min=float(low), max=float(high))
    return t.cast(scale, "float64"), t.cast(t.op("round", place), "int64")


def quantize_token(t: Translation) -> Value:
    x = t.cast(t.tensor("input"), "float32")
    dtype = t.scalar_type("int8")
    low, high = _limits(t, dtype)
    scale, zero = t.cast(t.tensor("scales"), "float32"), t.cast(t.tensor("zero_points"), "float32")
    whole = t.op("round", t.op("add", t.op("mul", x, t.op("reciprocal", scale)), zero))
    return t.cast(t.op("clip", whole, min=float(low), max=float(high)), dtype)


def dequantize_token(t: Translation) -> Value:
    gap = t.op("sub", t.cast(t.tensor("input"), "float32"), t.cast(t.tensor("zero_points"), "float32"))
    y = t.op("mul", gap, t.cast(t.tensor("scales"), "float32"))
    return t.cast(y, str(t.arg("output_dtype", "float32")))


def _blocks(t: Translation, x: Value) -> tuple[Value, list[Int], list[int]]:
    """A tensor cut into blocks: (so shaped, blocks per dimension, sizes of a block). A dimension whose blocks are of
    one element, or that is one block, may be open where that is known (1 and -1)."""
    block = list(t.ints("block_size"))
    if len(block) != x.type.rank:
        raise error("E0109", f"block_size is {block} for {x.type}")
    counts = []
    for n, size in enumerate(x.shape):
        if block[n] == 1:
            counts.append(size)
            continue
        whole = t.extent(x, n)
        block[n] = whole if block[n] in (-1, 0) else block[n]
        if whole % block[n]:
            raise error("E0108", f"blocks of {block} do not cover {x.type}")
        counts.append(as_int(whole // block[n]))
    wide = [n for pair in zip(counts, block, strict=True) for n in pair]
    return t.reshape(x, wide), counts, block


def _of_blocks(t: Translation, value: Value, counts: list[Int]) -> Value:
    """One number per block so that it broadcasts against the blocks."""
    return t.reshape(value, [n for count in counts for n in (count, 1)])


def choose_affine(t: Translation) -> tuple[Value, Value]:
    """torchao: scales and zero points of the blocks of a tensor that is quantized as the model runs."""
    x = t.cast(t.tensor("input"), "float32")
    (low, high), how = _limits(t, t.scalar_type("int8", "target_dtype")), str(t.arg("mapping_type"))
    wide, counts, block = _blocks(t, x)
    inner = tuple(range(1, wide.type.rank, 2))
    nothing, ends = t.scalar(0.0, "float32"), []
    for operator, side in (("reduce_min", "minimum"), ("reduce_max", "maximum")):
        ends.append(t.op(side, t.op(operator, wide, axes=inner, keep_dims=False), nothing))
    least, most = ends
    if how == "SYMMETRIC":
        largest = t.op("maximum", t.op("neg", least), most)
        scale = t.op("div", largest, t.scalar((high - low) / 2, "float32"))
    elif how == "SYMMETRIC_NO_CLIPPING_ERR":
        parts = [t.op("div", end, t.scalar(limit, "float32")) for end, limit in ((least, low), (most, high))]
        scale = t.op("maximum", *parts)
    elif how == "ASYMMETRIC":
        scale = t.op("div", t.op("sub", most, least), t.scalar(high - low, "float32"))
    else:
        raise t.unsupported(f"with the mapping {how}")
    eps = t.arg("eps")
    scale = t.op("maximum", scale, t.scalar(np.finfo(np.float32).tiny if eps is None else eps, "float32"))
    if how == "ASYMMETRIC":
        zero = t.op("sub", t.scalar(low, "float32"), t.op("round", t.op("div", least, scale)))
        zero = t.op("clip", zero, min=float(low), max=float(high))
    else:
        zero = t.expand(t.scalar(int((high + low + 1) / 2), "float32"), scale.shape)
    # A dimension that is one block goes, unless it is kept.
    shape = [count for count, b in zip(counts, block, strict=True) if t.flag("keepdim") or b == 1 or count != 1]
    types = t.scalar_type("float32", "scale_dtype"), t.scalar_type("int32", "zero_point_dtype")
    scale, zero = (t.cast(t.reshape(value, shape), kind) for value, kind in zip((scale, zero), types, strict=True))
    return scale, zero


def quantize_affine(t: Translation) -> Value:
    """torchao: in blocks of any form."""
    x = t.tensor("input")
    dtype = t.scalar_type("int8", "output_dtype")
    low, high = _limits(t, dtype)
    wide, counts, _ = _blocks(t, x)
    wide = t.cast(wide, "float32")
    inverse = t.op("reciprocal", t.cast(_of_blocks(t, t.tensor("scale"), counts), "float32"))
    whole = t.op("round", t.op("mul", wide, inverse))
    zero = t.maybe("zero_point")
    if zero is not None and str(t.arg("zero_point_domain", "INT")) == "INT":
        whole = t.op("add", whole, t.cast(_of_blocks(t, zero, counts), "float32"))
    return t.reshape(t.cast(t.op("clip", whole, min=float(low), max=float(high)), dtype), x.shape)


def dequantize_affine(t: Translation) -> Value:
    q = t.tensor("input")
    wide, counts, block = _blocks(t, q)
    scale, zero = t.cast(t.tensor("scale"), "float32"), t.maybe("zero_point")
    real = t.cast(wide, "float32")
    if zero is not None:
        real = t.op("sub", real, t.cast(_of_blocks(t, zero, counts), "float32"))
    y = t.reshape(t.op("mul", real, _of_blocks(t, scale, counts)), q.shape)
    split = [n for n, count in enumerate(counts) if count != 1]
    y = t.cast(y, t.scalar_type("float32", "output_dtype"))
    if q.dtype in _SMALL and len(split) <= 1 and all(block[n] == 1 for n in split):
        axis = split[0] if split else None
        zeros = None if zero is None else _spread(t, t.reshape(zero, (zero.type.elements,)), q, axis, "int32")
        scales = _spread(t, t.reshape(scale, (scale.type.elements,)), q, axis, "float32")
        t.shared.dequantized[y] = (q, scales, zeros, axis)
    return y


# ---------------------------------------------------------------- products of integers
def _integers(t: Translation, x: Value, w: Value, channel: int) -> tuple[Value, ...] | None:
    """(x, its zero point, w, its zero point, the product of the scales) of a product of dequantized tensors.

    Args:
        channel: the weight's dimension that becomes the result's channels; its scales may differ along it.
    """
    a, b = t.shared.dequantized.get(x), t.shared.dequantized.get(w)
    if a is None or b is None or a[3] is not None or b[3] not in (None, channel):
        return None
    zeros = []
    for q, _, zero, _ in (a, b):
        if zero is None:
            zeros.append(t.scalar(0, q.dtype))
        elif not zero.type.rank:
            zeros.append(t.cast(zero, q.dtype))
        elif zero.data is None or (zero.data != zero.data.reshape(-1)[0]).any():
            return None
        else:
            zeros.append(t.scalar(int(zero.data.reshape(-1)[0]), q.dtype))
    scales = t.reshape(b[1], (b[1].type.elements,)) if b[1].type.rank else b[1]
    return a[0], zeros[0], b[0], zeros[1], t.op("mul", a[1], scales)


def integer_linear(t: Translation, x: Value, w: Value, bias: Value | None, transposed: bool = False) -> Value | None:
    """x w^T + bias of dequantized tensors, by a product of their integers; None where they are not both.

    Args:
        transposed: the weight is given as (in, out).
    """
    if w.type.rank != 2:
        return None
    found = _integers(t, x, w, 1 if transposed else 0)
    if found is None:
        return None
    q, q_zero, weight, w_zero, scale = found
    weight = weight if transposed else t.transpose(weight, (1, 0))
    y = standard(t, "MatMulInteger", q, weight, q_zero, w_zero)
    real = t.op("mul", t.cast(y, "float32"), scale)
    return real if bias is None else t.op("add", real, bias)


def integer_convolution(
    t: Translation, x: Value, w: Value, bias: Value | None, settings: dict[str, Any]
) -> Value | None:
    """A convolution of dequantized tensors by their integers; None where they are not both."""
    found = _integers(t, x, w, 0)
    if found is None:
        return None
    q, q_zero, weight, w_zero, scale = found
    y = t.cast(standard(t, "ConvInteger", q, weight, q_zero, w_zero, **settings), "float32")
    rest = (1,) * (y.type.rank - 2)
    real = t.op("mul", y, t.reshape(scale, (scale.shape[0], *rest)) if scale.type.rank else scale)
    return real if bias is None else t.op("add", real, t.reshape(bias, (bias.shape[0], *rest)))


def fake_tensor(t: Translation) -> Value:
    """Rounded to what a quantized tensor can hold, and back: fake quantization."""
    x = t.floating()
    scale, zero = _spread(t, t.arg("scale"), x, None, "float32"), _spread(t, t.arg("zero_point", 0), x, None, "float32")
    return _faked(t, x, scale, zero)


def fake_channel(t: Translation) -> Value:
    x = t.floating()
    axis = t.axis(t.integer("axis"), x.type.rank)
    return _faked(t, x, *(_spread(t, t.arg(name), x, axis, "float32") for name in ("scale", "zero_point")))


def fake_with_mask(translate: Translator) -> Translator:
    """With where the result was not clamped."""

    def run(t: Translation) -> tuple[Value, Value]:
        y, x = translate(t), t.floating()
        assert isinstance(y, Value)
        scale, zero = t.as_value(t.arg("scale"), "float32"), t.as_value(t.arg("zero_point", 0), "float32")
        if scale.type.rank:
            axis = t.axis(t.integer("axis"), x.type.rank)
            scale, zero = (_spread(t, value, x, axis, "float32") for value in (scale, zero))
        whole = t.op("add", t.op("round", t.op("div", x, scale)), zero)
        low, high = (t.scalar(t.number(name), "float32") for name in ("quant_min", "quant_max"))
        return y, t.op("logical_and", t.op("greater_equal", whole, low), t.op("less_equal", whole, high))

    return run


def fake_learned(translate: Translator) -> Translator:
    """With zero points that were learned: rounded, and clamped."""

    def run(t: Translation) -> Any:
        zero = t.op("round", t.as_value(t.arg("zero_point"), "float32"))
        zero = t.op("clip", zero, min=t.number("quant_min"), max=t.number("quant_max"))
        return translate(t.having(zero_point=zero))

    return run


def _faked(t: Translation, x: Value, scale: Value, zero: Value) -> Value:
    whole = t.op("add", t.op("round", t.op("div", x, scale)), zero)
    kept = t.op("clip", whole, min=t.number("quant_min"), max=t.number("quant_max"))
    return t.op("mul", t.op("sub", kept, zero), scale)


_FAMILIES: dict[str, Translator] = {
    "quantize_per_tensor": quantize_tensor, "dequantize_per_tensor": dequantize_tensor,
    "quantize_per_channel": quantize_channel, "dequantize_per_channel": dequantize_channel,
    "choose_qparams": choose_tensor, "choose_qparams_symmetric": choose_tensor,
}  # fmt: skip

TRANSLATORS: dict[str, Translator] = {
    **{f"quantized_decomposed.{name}.{overload}": function for name, function in _FAMILIES.items()
       for overload in ("default", "tensor", "tensor2")},
    "quantized_decomposed.choose_qparams_per_token.default": choose_token,
    "quantized_decomposed.choose_qparams_per_token_asymmetric.default": choose_token,
    "quantized_decomposed._choose_qparams_per_token_asymmetric_impl.default": choose_token,
    "quantized_decomposed.quantize_per_token.default": quantize_token,
    "quantized_decomposed.dequantize_per_token.default": dequantize_token,
    "torchao.choose_qparams_affine.default": choose_affine,
    "torchao.quantize_affine.default": quantize_affine, "torchao.dequantize_affine.default": dequantize_affine,
    "quant.quantize_affine.default": quantize_affine, "quant.dequantize_affine.default": dequantize_affine,
    "aten.fake_quantize_per_tensor_affine.default": fake_tensor,
    "aten.fake_quantize_per_tensor_affine.tensor_qparams": fake_tensor,
    "aten.fake_quantize_per_channel_affine.default": fake_channel,
    "aten.fake_quantize_per_tensor_affine_cachemask.default": fake_with_mask(fake_tensor),
    "aten.fake_quantize_per_channel_affine_cachemask.default": fake_with_mask(fake_channel),
    "aten._fake_quantize_learnable_per_tensor_affine.default": fake_learned(fake_tensor),
    "aten._fake_quantize_learnable_per_channel_affine.default": fake_learned(fake_channel),
}  # fmt: skip
