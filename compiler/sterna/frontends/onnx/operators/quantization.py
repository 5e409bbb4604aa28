"""Quantized operators: numbers q of few bits stand for scale * (q - zero point).

Sums of products are exact in int32; what follows is float32, rounded to the nearest integer (halves to even) before the
zero point is added, and saturated.
"""

from __future__ import annotations

import math

import numpy as np

from sterna.errors import error
from sterna.frontends.onnx.file import element_type
from sterna.frontends.onnx.operators import convolution
from sterna.frontends.onnx.translation import Translation, Translator, axes_of, is_float
from sterna.ir import dtypes
from sterna.ir.graph import Array, Value
from sterna.ir.limits import walked

_FAR = float(1 << 24)  # beyond every quantized type and zero point, and exact in float32


def spread(t: Translation, value: Value, x: Value, axis: int, block: int = 0) -> Value:
    """A scale or zero point so that it broadcasts against `x`: one number, one per position of an axis or block."""
    if value.type.elements == 1:
        return t.reshape(value, ())
    sizes = t.static(x)
    (axis,) = axes_of((axis,), len(sizes))
    if block:
        given = t.static(value)
        if len(given) != len(sizes) or given[axis] * block < sizes[axis]:
            raise error("E0108", f"{value.type} in blocks of {block} does not cover {x.type}")
        wide = t.reshape(value, (*given[: axis + 1], 1, *given[axis + 1 :]))
        wide = t.op("expand", wide, shape=(*given[: axis + 1], block, *given[axis + 1 :]))
        wide = t.reshape(wide, (*given[:axis], given[axis] * block, *given[axis + 1 :]))
        if given[axis] * block == sizes[axis]:
            return wide
        return t.op("slice", wide, starts=(0,) * len(sizes), sizes=sizes, steps=(1,) * len(sizes))
    if value.type.rank != 1 or value.shape[0] != x.shape[axis]:
        raise error("E0108", f"a scale or zero point of {value.type} does not fit dimension {axis} of {x.type}")
    return t.reshape(value, [size if n == axis else 1 for n, size in enumerate(sizes)])


def quantized(t: Translation, ratio: Value, zero: Value | None, dtype: str, saturate: bool = True) -> Value:
    """x / scale as elements of a quantized type."""
    if dtype in dtypes.NARROW_FLOATS:
        if zero is not None and dtype == "float4_e2m1fn":
            ratio = t.op("add", ratio, t.cast(zero, ratio.dtype))
        return t.cast(ratio, dtype, saturate)
    if ratio.dtype == "float32" and dtypes.bits(dtype) <= 16 and (known := _one_number(zero)) is not None:
        return t.op("round_to_integer", ratio, to=dtype, zero=known)
    if ratio.dtype == "float32" and dtypes.bits(dtype) <= 8:
        # 16 bits leave room for the zero point on either side.
        whole = t.cast(t.op("round_to_integer", ratio, to="int16"), "int32")
    else:
        near = t.op("clip", t.cast(t.op("round", ratio), "float32"), min=-_FAR, max=_FAR)
        whole = t.cast(near, "int32")
    if zero is not None and not _all_zero(zero):
        whole = t.op("add", whole, t.cast(zero, "int32"))
    low, high = dtypes.limits(dtype)
    return t.cast(t.op("clip", whole, min=low, max=high), dtype)


def real(t: Translation, x: Value, scale: Value, zero: Value | None) -> Value:
    """scale * (x - zero) in float32; scale and zero point broadcast already."""
    if zero is not None and not _all_zero(zero) and x.dtype not in dtypes.NARROW_FLOATS:
        value = t.cast(t.op("sub", t.cast(x, "int32"), t.cast(zero, "int32")), "float32")
    else:
        value = t.cast(x, "float32")
    return t.op("mul", value, t.cast(scale, "float32"))


def _one_number(zero: Value | None) -> int | None:
    """A zero point that is known and the same everywhere."""
    if zero is None:
        return 0
    if zero.data is None or zero.data.size == 0:
        return None
    values = dtypes.stored(walked(zero.data)).reshape(-1)
    return int(values[0]) if (values == values[0]).all() else None


def _all_zero(value: Value | None) -> bool:
    return value is None or (value.data is not None and not dtypes.stored(walked(value.data)).any())


def quantize_linear(t: Translation) -> Value:
    x, scale = t.input(0), t.input(1)
    axis, block = t.attribute("axis", 1), t.attribute("block_size", 0)
    zero = t.optional(2)
    dtype = zero.dtype if zero is not None else element_type(t.attribute("output_dtype", 0) or 2)
    if t.attribute("precision", 0):
        wide = element_type(t.attribute("precision"))
    else:
        wide = x.dtype if is_float(x) and x.dtype == scale.dtype else "float32"
    ratio = t.op("div", t.cast(x, wide), t.cast(spread(t, scale, x, axis, block), wide))
    if zero is not None:
        zero = spread(t, zero, x, axis, block)
    return quantized(t, ratio, zero, dtype, bool(t.attribute("saturate", 1)))


def dequantize_linear(t: Translation) -> Value:
    x, scale = t.input(0), t.input(1)
    axis, block = t.attribute("axis", 1), t.attribute("block_size", 0)
    zero = None if t.optional(2) is None else spread(t, t.input(2), x, axis, block)
    y = real(t, x, spread(t, scale, x, axis, block), zero)
    code = t.attribute("output_dtype", 0)
    return t.cast(y, element_type(code) if code else scale.dtype)


# ---------------------------------------------------------------- products
def centered(t: Translation, x: Value, zero: Value | None) -> Value:
    """x - zero in int32."""
    wide = t.cast(x, "int32")
    return wide if _all_zero(zero) or zero is None else t.op("sub", wide, t.cast(zero, "int32"))


def product(t: Translation, a: Value, b: Value, a_zero: Value | None, b_zero: Value | None) -> Value:
    """The sum of (a - a_zero) (b - b_zero) in int32.

    Taken apart, so that both stay in few bits: the sum of a b, less a_zero times the sum of b, less b_zero times that
    of a - a_zero. A constant b is made int8, and its zero point part of it where there is room.
    """
    rows = None if a_zero is None else _along_rows(t, a_zero)
    if min(a.type.rank, b.type.rank) < 2:
        return _plain_product(t, centered(t, a, rows), centered(t, b, b_zero))
    if b.data is None and (number := _one_number(b_zero)) is not None:
        # Computed, and so is its signed form.
        shift = 128 if b.dtype == "uint8" else 0
        b = t.cast(t.op("sub", t.cast(b, "int32"), t.scalar(shift, "int32")), "int8") if shift else b
        left_over: Array | None = np.array(number - shift, np.int32)
    else:
        b, left_over = signed_weight(t, b, b_zero)
    if left_over is None and not _all_zero(b_zero):
        return _plain_product(t, centered(t, a, rows), centered(t, b, b_zero))
    y = t.op("matmul_integer", a, b)
    if rows is not None and not _all_zero(rows):
        total = t.op("reduce_sum", t.cast(b, "int32"), axes=(b.type.rank - 2,), keep_dims=True)
        y = t.op("sub", y, t.op("mul", t.cast(rows, "int32"), total))
    if left_over is not None and left_over.any():
        along = t.op("reduce_sum", centered(t, a, rows), axes=(a.type.rank - 1,), keep_dims=True)
        y = t.op("sub", y, t.op("mul", along, t.constant(left_over, "int32")))
    return y


def signed_weight(t: Translation, w: Value, zero: Value | None) -> tuple[Value, Array | None]:
    """Constant weights of 8 bits as int8, and what zero point is left beside them: none where w - zero is int8.

    The second result is None where the weights or their zero point are not known; then they stay as they are.
    """
    if w.data is None or w.dtype not in ("int8", "uint8") or (zero is not None and zero.data is None):
        return w, None
    given = np.zeros((), np.int16) if zero is None or zero.data is None else zero.data.astype(np.int16)
    given = given.reshape(()) if given.size == 1 else given
    whole = walked(w.data).astype(np.int16)
    if not given.any() and w.dtype == "int8":
        return w, given.astype(np.int32)
    centred = whole - given
    if centred.min(initial=0) >= -128 and centred.max(initial=0) <= 127:
        return t.constant(centred.astype(np.int8)), np.zeros((), np.int32)
    shift = 128 if w.dtype == "uint8" else 0
    return t.constant((whole - shift).astype(np.int8)), (given - shift).astype(np.int32)


def _along_rows(t: Translation, zero: Value) -> Value:
    """The zero point of a left operand: one number, or one per row."""
    if zero.type.elements == 1:
        return t.reshape(zero, ())
    return t.reshape(zero, (*zero.shape, 1)) if zero.type.rank == 1 else zero


def _plain_product(t: Translation, a: Value, b: Value) -> Value:
    left = t.reshape(a, (1, *a.shape)) if a.type.rank == 1 else a
    right = t.reshape(b, (*b.shape, 1)) if b.type.rank == 1 else b
    y = t.op("matmul", left, right)
    shape = list(y.shape)
    if b.type.rank == 1:
        shape.pop()
    if a.type.rank == 1:
        shape.pop(-1 if b.type.rank == 1 else -2)
    return t.reshape(y, shape)


def matmul_integer(t: Translation) -> Value:
    return product(t, t.input(0), t.input(1), t.optional(2), t.optional(3))


def qlinear_matmul(t: Translation) -> Value:
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = (t.input(n) for n in range(8))
    acc = t.cast(product(t, a, b, a_zero, b_zero), "float32")
    factor = _factor(t, _along_rows(t, a_scale), _last(t, b_scale), _along_rows(t, y_scale))
    return quantized(t, t.op("mul", acc, factor), _along_rows(t, y_zero), y_zero.dtype)


def _last(t: Translation, value: Value) -> Value:
    return t.reshape(value, ()) if value.type.elements == 1 else value


def _factor(t: Translation, a_scale: Value, b_scale: Value, y_scale: Value) -> Value:
    a, b, y = (t.cast(v, "float32") for v in (a_scale, b_scale, y_scale))
    return t.op("div", t.op("mul", a, b), y)


def convolution_integer(t: Translation, x: Value, w: Value, x_zero: Value | None, w_zero: Value | None) -> Value:
    """The convolution of (x - x_zero) with (w - w_zero), in int32, channels last."""
    if w_zero is not None:
        tail = [1] * (w.type.rank - 1)
        w_zero = t.reshape(w_zero, () if w_zero.type.elements == 1 else (*w_zero.shape, *tail))
    x_zero = None if x_zero is None else t.reshape(x_zero, ())
    w, left_over = signed_weight(t, w, w_zero)
    known = left_over is not None or _all_zero(w_zero)
    apart = left_over is not None and left_over.any()
    if not known or (x_zero is not None and x_zero.data is None) or (apart and t.attribute("group", 1) != 1):
        if apart:
            w_zero = t.constant(left_over, "int32")
        return convolution.convolved(t, centered(t, x, x_zero), centered(t, w, None if known and not apart else w_zero))
    # Padding is the zero point itself, so that all windows have the same correction.
    zero = 0 if x_zero is None or x_zero.data is None else int(x_zero.data)
    y = convolution.convolved(t, x, w, zero, "conv_integer")
    if zero:
        total = t.op("reduce_sum", t.cast(w, "int32"), axes=tuple(range(1, w.type.rank)), keep_dims=False)
        y = t.op("sub", y, t.op("mul", total, t.scalar(zero, "int32")))
    if apart and left_over is not None:
        # The sum of a window is a convolution with ones.
        one = t.constant(np.ones((1, *w.type.sizes[1:]), np.int8))
        window = convolution.convolved(t, x, one, zero, "conv_integer")
        window = t.op("sub", window, t.scalar(zero * math.prod(w.type.sizes[1:]), "int32"))
        y = t.op("sub", y, t.op("mul", window, t.constant(left_over.reshape(-1), "int32")))
    return y


def conv_integer(t: Translation) -> Value:
    return t.channels_first(convolution_integer(t, t.input(0), t.input(1), t.optional(2), t.optional(3)))


def qlinear_conv(t: Translation) -> Value:
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero = (t.input(n) for n in range(8))
    acc = convolution_integer(t, x, w, x_zero, w_zero)
    if t.has(8):
        acc = t.op("add", acc, t.cast(t.input(8), "int32"))
    factor = _factor(t, _last(t, x_scale), _last(t, w_scale), _last(t, y_scale))
    y = quantized(t, t.op("mul", t.cast(acc, "float32"), factor), _last(t, y_zero), y_zero.dtype)
    return t.channels_first(y)


def dynamically_quantized(t: Translation, x: Value) -> tuple[Value, Value, Value]:
    """uint8 elements, scale and zero point for the range of a tensor (ONNX, DynamicQuantizeLinear)."""
    both = t.op("byte_scale", x)
    scale, zero = (t.reshape(t.op("slice", both, starts=(n,), sizes=(1,), steps=(1,)), ()) for n in range(2))
    zero_point = t.cast(zero, "uint8")
    return quantized(t, t.op("div", x, scale), zero_point, "uint8"), scale, zero_point


def dynamic_quantize_linear(t: Translation) -> tuple[Value, ...]:
    return dynamically_quantized(t, t.input(0))


TRANSLATORS: dict[str, Translator] = {
    "ConvInteger": conv_integer,
    "DequantizeLinear": dequantize_linear,
    "DynamicQuantizeLinear": dynamic_quantize_linear,
    "MatMulInteger": matmul_integer,
    "QLinearConv": qlinear_conv,
    "QLinearMatMul": qlinear_matmul,
    "QuantizeLinear": quantize_linear,
}
