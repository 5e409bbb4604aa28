"""Operators of old quantized graphs, whose tensors of 8 and 32 bits come with the least and the greatest number.

A tensor of integers q with a range from low to high stands for low + (q - lowest) (high - low) / (highest - lowest),
as `quantization_utils.h` of TensorFlow has it. Ranges may be computed as the model runs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sterna.errors import error
from sterna.frontends.tensorflow.operators.convolution import TRANSLATORS as CONVOLUTIONS
from sterna.frontends.tensorflow.translation import Translation, Translator
from sterna.ir import dtypes
from sterna.ir.graph import Value

Three = tuple[Value, Value, Value]


class _Ranged(NamedTuple):
    """Integers, and the numbers (float32, without dimensions) that the lowest and the highest stand for."""

    data: Value
    low: Value
    high: Value


def _number(t: Translation, value: float) -> Value:
    return t.scalar(value, "float32")


def _scalar_of(t: Translation, position: int) -> Value:
    x = t.input(position)
    if x.type.elements != 1:
        raise t.unsupported("with a range for each channel")
    return t.cast(t.reshape(x, ()), "float32")


def _ranged(t: Translation, data: int, low: int, high: int) -> _Ranged:
    return _Ranged(t.input(data), _scalar_of(t, low), _scalar_of(t, high))


def _limits(dtype: str) -> tuple[int, int]:
    low, high = dtypes.limits(dtype)
    return int(low), int(high)


def _level(t: Translation, x: _Ranged) -> Value:
    """What one step of the integers stands for."""
    low, high = _limits(x.data.dtype)
    return t.op("div", t.op("sub", x.high, x.low), _number(t, float(high - low)))


def _rounded(t: Translation, x: Value) -> Value:
    return t.op("round_away", x)


def _levels_of(t: Translation, x: Value, low: Value, high: Value, dtype: str) -> Value:
    """Numbers as levels of a range, in float32, before they are kept within those that there are."""
    lowest, highest = _limits(dtype)
    width = t.op("sub", high, low)
    flat = t.op("equal", width, _number(t, 0.0))
    scale = t.op("div", _number(t, float(highest - lowest)), t.op("where", flat, _number(t, 1.0), width))
    level = t.op("sub", _rounded(t, t.op("mul", x, scale)), _rounded(t, t.op("mul", low, scale)))
    return t.op("where", flat, _number(t, 0.0), level)


def _quantized(t: Translation, x: Value, low: Value, high: Value, dtype: str) -> Value:
    """FloatToQuantized."""
    lowest, highest = _limits(dtype)
    level = t.op("clip", _levels_of(t, x, low, high, dtype), min=0.0, max=float(highest - lowest))
    return t.cast(t.op("add", t.cast(level, "int32"), t.scalar(lowest, "int32")), dtype)


def _real(t: Translation, x: _Ranged) -> Value:
    """A tensor as numbers, in single precision. Of 32 bits the lowest level is far away: TensorFlow's rounding of it
    moves all numbers, which is done alike here."""
    level = _level(t, x)
    lowest, _ = _limits(x.data.dtype)
    start = _start(t, x, level)
    if x.data.dtype == "int32":
        away = t.op("mul", level, _number(t, float(-lowest)))
        return t.op("add", t.op("add", start, away), t.op("mul", t.cast(x.data, "float32"), level))
    steps = t.op("add", t.cast(x.data, "float32"), _number(t, float(-lowest)))
    return t.op("add", t.op("mul", steps, level), start)


def _start(t: Translation, x: _Ranged, level: Value) -> Value:
    """The lowest number as a multiple of a level's, in single precision."""
    flat = t.op("equal", level, _number(t, 0.0))
    start = _rounded(t, t.op("div", x.low, t.op("where", flat, _number(t, 1.0), level)))
    return t.op("where", flat, x.low, t.op("mul", start, level))


def _single_real(t: Translation, x: _Ranged) -> Value:
    """QuantizedToFloat, for single numbers: in double precision, but for the lowest one."""
    lowest, highest = _limits(x.data.dtype)
    level = t.op("div", t.cast(t.op("sub", x.high, x.low), "float64"), t.scalar(float(highest - lowest), "float64"))
    steps = t.op("sub", t.cast(x.data, "float64"), t.scalar(float(lowest), "float64"))
    start = t.cast(_start(t, x, t.cast(level, "float32")), "float64")
    return t.cast(t.op("add", start, t.op("mul", steps, level)), "float32")


def _single_level(t: Translation, x: Value, low: Value, high: Value, dtype: str) -> Value:
    """FloatToQuantized, for single numbers: in double precision."""
    lowest, highest = _limits(dtype)
    steps = float(highest - lowest + 1)
    flat = t.op("equal", low, high)
    width = t.op("where", flat, t.scalar(1.0, "float64"), t.cast(t.op("sub", high, low), "float64"))
    scale = t.op("div", t.scalar(steps, "float64"), t.op("mul", width, t.scalar(steps / (steps - 1.0), "float64")))
    level, start = (t.cast(_rounded(t, t.op("mul", t.cast(v, "float64"), scale)), "int64") for v in (x, low))
    level = t.op("where", flat, t.scalar(0, "int64"), t.op("sub", level, start))
    level = t.op("add", level, t.scalar(lowest, "int64"))
    return t.cast(t.op("clip", level, min=lowest, max=highest), dtype)


def _zero_of(t: Translation, x: _Ranged) -> Value:
    """The level that stands for 0, as int32."""
    lowest, _ = _limits(x.data.dtype)
    level = _levels_of(t, _number(t, 0.0), x.low, x.high, x.data.dtype)
    return t.op("add", t.cast(level, "int32"), t.scalar(lowest, "int32"))


# ---------------------------------------------------------------- from and to numbers
def quantize(t: Translation) -> Three:
    """QuantizeV2."""
    x, low, high = t.input(0), _scalar_of(t, 1), _scalar_of(t, 2)
    dtype, mode = t.dtype("T", "uint8"), str(t.option("mode", "MIN_COMBINED"))
    lowest, highest = _limits(dtype)
    if int(t.option("axis", -1)) != -1 or highest > 1 << 16:
        raise t.unsupported(f"to {dtype} along the axis {t.option('axis', -1)}")
    zero = _number(t, 0.0)
    wide = t.op("maximum", _number(t, 1.0), t.op("maximum", t.op("abs", low), t.op("abs", high)))
    least = t.op("mul", wide, _number(t, float(t.option("ensure_minimum_range", 0.01))))
    low = t.op("minimum", zero, low)
    high = t.op("maximum", zero, t.op("maximum", high, t.op("add", low, least)))
    if mode == "MIN_FIRST":
        return _quantized(t, x, low, high, dtype), low, high
    if mode == "SCALED":
        return _scaled(t, x, low, high, dtype)
    scale = t.op("div", _number(t, float(highest - lowest)), t.op("sub", high, low))
    kept = t.op("minimum", t.op("maximum", x, low), high)
    level = t.op("mul", t.op("sub", kept, low), scale)
    if lowest < 0:
        level = t.op("sub", level, _number(t, (highest - lowest + 1) / 2))
    level = t.op("clip", _rounded(t, level), min=float(lowest), max=float(highest))
    return t.cast(level, dtype), low, high


def _scaled(t: Translation, x: Value, low: Value, high: Value, dtype: str) -> Three:
    """By one factor, 0 being the level 0."""
    lowest, highest = _limits(dtype)
    lowest += int(bool(t.option("narrow_range", False))) if lowest < 0 else 0
    zero, huge = _number(t, 0.0), _number(t, np.finfo(np.float32).max)
    factors = []
    for bound, end in ((low, lowest), (high, highest)):
        product = t.op("mul", _number(t, float(end)), bound)
        there = t.op("greater", product, zero)
        factor = t.op("div", _number(t, float(end)), t.op("where", there, bound, _number(t, 1.0)))
        factors.append(t.op("where", there, factor, huge))
    factor = t.op("minimum", *factors)
    low, high = (t.op("div", _number(t, float(end)), factor) for end in (lowest, highest))
    level = t.op("mul", t.op("minimum", t.op("maximum", x, low), high), factor)
    even = t.option("round_mode", "HALF_AWAY_FROM_ZERO") == "HALF_TO_EVEN"
    return t.cast(t.op("round" if even else "round_away", level), dtype), low, high


def dequantize(t: Translation) -> Value:
    """Dequantize in its three modes."""
    x, mode = _ranged(t, 0, 1, 2), str(t.option("mode", "MIN_COMBINED"))
    if int(t.option("axis", -1)) != -1 or mode not in ("MIN_COMBINED", "MIN_FIRST", "SCALED"):
        raise t.unsupported(f"in the mode {mode}, axis {t.option('axis', -1)}")
    dtype = t.dtype("dtype", "float32")
    if mode == "MIN_FIRST":
        return t.cast(_real(t, x), dtype)
    lowest, highest = _limits(x.data.dtype)
    wide = t.cast(x.data, "float32")
    if mode == "SCALED":
        lowest += int(bool(t.option("narrow_range", False))) if lowest < 0 else 0
        factor = t.op("div", x.high, _number(t, float(highest)))
        if lowest < 0:
            factor = t.op("maximum", t.op("div", x.low, _number(t, float(lowest))), factor)
        return t.cast(t.op("mul", wide, factor), dtype)
    if lowest < 0:
        wide = t.op("add", wide, _number(t, (highest - lowest + 1) / 2))
    return t.cast(t.op("add", t.op("mul", wide, _level(t, x)), x.low), dtype)


def requantization_range(t: Translation) -> tuple[Value, Value]:
    """The least and the greatest number that a tensor has; the least is 0 at most, so that there is a level for 0."""
    x = _ranged(t, 0, 1, 2)
    axes = tuple(range(x.data.type.rank))
    low, high = (
        t.op(f"reduce_{end}", x.data, axes=axes, keep_dims=False) if axes else x.data for end in ("min", "max")
    )
    least, greatest = (_single_real(t, x._replace(data=end)) for end in (low, high))
    return t.op("minimum", least, _number(t, 0.0)), greatest


def _narrowed(t: Translation, x: _Ranged, low: Value, high: Value) -> Three:
    dtype = t.dtype("out_type", "uint8")
    if (x.data.dtype, dtype) == ("int32", "uint8"):
        return _narrowed_in_fixed_point(t, x, low, high), low, high
    return _quantized(t, _real(t, x), low, high, dtype), low, high


def _narrowed_in_fixed_point(t: Translation, x: _Ranged, low: Value, high: Value) -> Value:
    """From 32 to 8 bits by integers that have 16 bits of a fraction: RequantizeManyInNewRange, whose constants are
    partly of single and partly of double precision."""

    def wide(v: Value) -> Value:
        return t.cast(v, "float64")

    def whole(v: Value) -> Value:
        return t.cast(t.op("where", flat, t.scalar(0.0, v.dtype), v), "int64")

    steps, one = t.scalar(255.0, "float64"), 1 << 16
    width = t.op("sub", high, low)
    flat = t.op("equal", width, _number(t, 0.0))
    width = t.op("where", flat, _number(t, 1.0), width)
    scale = t.op("mul", t.scalar(255.0 * one, "float64"), wide(t.op("sub", x.high, x.low)))
    scale = whole(t.op("div", scale, wide(width)))
    middle = t.op("mul", t.op("add", x.low, x.high), _number(t, 0.5))
    middle = t.op("mul", middle, t.cast(t.op("div", steps, wide(width)), "float32"))
    start = t.op("mul", t.op("mul", wide(low), steps), t.scalar(float(one), "float64"))
    offset = t.op("sub", whole(t.op("mul", middle, _number(t, one))), whole(t.op("div", start, wide(width))))
    level = t.op("bit_shift", t.op("mul", t.cast(x.data, "int64"), scale), t.scalar(32, "int64"), direction="RIGHT")
    level = t.op("add", t.op("add", level, offset), t.scalar(one // 2, "int64"))
    level = t.op("bit_shift", level, t.scalar(16, "int64"), direction="RIGHT")
    return t.cast(t.op("clip", level, min=0, max=255), "uint8")


def requantize(t: Translation) -> Three:
    return _narrowed(t, _ranged(t, 0, 1, 2), _scalar_of(t, 3), _scalar_of(t, 4))


def shrink_range(t: Translation) -> Three:
    """QuantizeDownAndShrinkRange: the range becomes that of the tensor, with 0 in it."""
    return _narrowed(t, _ranged(t, 0, 1, 2), *requantization_range(t))


def _uniform(t: Translation, x: Value) -> tuple[Value, Value]:
    """Scales and zero points, of all or along an axis, beside a tensor."""
    axis, scales, zeros = int(t.option("quantization_axis", -1)), t.input(1), t.input(2)
    if axis == -1:
        return t.reshape(scales, ()), t.reshape(zeros, ())
    shape = [size if n == axis else 1 for n, size in enumerate(x.shape)]
    return t.reshape(scales, shape), t.reshape(zeros, shape)


def uniform_quantize(t: Translation) -> Value:
    """UniformQuantize: floor(x / scale + 1 / 2) + zero point, kept within bounds."""
    x, dtype = t.input(0), t.dtype("Tout", "int8")
    scale, zero = _uniform(t, x)
    inverse = t.op("div", t.scalar(1.0, scale.dtype), scale)
    level = t.op("floor", t.op("add", t.op("mul", x, inverse), t.scalar(0.5, x.dtype)))
    level = t.op("clip", level, min=-(2.0**31), max=2.0**31 - 128)  # float32 below 2^31
    low, high = (
        int(t.option(f"quantization_{end}_val", n)) for end, n in zip(("min", "max"), _limits(dtype), strict=True)
    )
    return t.cast(t.op("clip", t.op("add", t.cast(level, "int32"), zero), min=low, max=high), dtype)


def uniform_dequantize(t: Translation) -> Value:
    x = t.input(0)
    scale, zero = _uniform(t, x)
    steps = t.op("sub", t.cast(x, "int32"), zero)
    return t.cast(t.op("mul", t.cast(steps, scale.dtype), scale), t.dtype("Tout", "float32"))


# ---------------------------------------------------------------- products and sums
def _product(t: Translation, function: Translator, a: _Ranged, b: _Ranged) -> Three:
    """A product of tensors whose zeros have been taken away, in int32."""
    moved = [t.op("sub", t.cast(x.data, "int32"), _zero_of(t, x)) for x in (a, b)]
    # Integers of 8 bits up to 255 and their sums are exact in float32 up to 2^24; int32 has them all.
    made = function(t.again(*moved))
    if not isinstance(made, Value):
        raise error("E0108", f"{t.kind} gives no tensor")
    level = t.op("mul", _level(t, a), _level(t, b))
    low, high = (t.op("mul", level, _number(t, float(end))) for end in (-(2**31), 2**31))
    return made, low, high


def conv(t: Translation) -> Three:
    depthwise = "Depthwise" in t.kind
    function = CONVOLUTIONS["DepthwiseConv2dNative" if depthwise else "Conv2D"]
    return _product(t, function, _ranged(t, 0, 2, 3), _ranged(t, 1, 4, 5))


def matmul(t: Translation) -> Three:
    def product(inner: Translation) -> Value:
        a, b = (inner.input(n) for n in (0, 1))
        a = inner.transpose(a, (1, 0)) if t.option("transpose_a", False) else a
        b = inner.transpose(b, (1, 0)) if t.option("transpose_b", False) else b
        return inner.op("matmul", a, b)

    return _product(t, product, _ranged(t, 0, 2, 3), _ranged(t, 1, 4, 5))


def multiply(t: Translation) -> Three:
    return _product(t, lambda inner: inner.op("mul", inner.input(0), inner.input(1)), *_two(t))


def _two(t: Translation) -> tuple[_Ranged, _Ranged]:
    return _ranged(t, 0, 2, 3), _ranged(t, 1, 4, 5)


def add(t: Translation) -> Three:
    """QuantizedAdd and QuantizedBiasAdd: both in a range of int32 that 2^14 or 2^17 sums fit in."""
    a, b = _two(t)
    ends = [v for x in (a, b) for v in (x.high, t.op("neg", x.low))]
    high = ends[0]
    for each in ends[1:]:
        high = t.op("maximum", high, each)
    bias = t.kind == "QuantizedBiasAdd"
    high = t.op("mul", high, _number(t, float(1 << (17 if bias else 14))))
    if bias:
        level = t.op("mul", high, _number(t, 2.0**-31))
        both = (t.cast(_rounded(t, t.op("div", _real(t, x), level)), "int32") for x in (a, b))
        return t.op("add", *both), t.op("neg", high), high
    # Two levels of each, 0 and 1, say what all are: multiples of a whole number.
    parts = []
    for x in (a, b):
        numbers = (_single_real(t, x._replace(data=t.scalar(n, x.data.dtype))) for n in (0, 1))
        first, second = (_single_level(t, number, t.op("neg", high), high, "int32") for number in numbers)
        steps = t.op("mul", t.cast(x.data, "int32"), t.op("sub", second, first))
        parts.append(t.op("add", steps, first))
    return t.op("add", *parts), t.op("neg", high), high


# ---------------------------------------------------------------- on integers alone
def _kept(most: float | None, computed: bool = False) -> Translator:
    """QuantizedRelu and its like: integers below the one for 0 become it, and those above a bound that, which
    is an operand where it is computed."""

    def translate(t: Translation) -> Three:
        x = _ranged(t, 0, 2, 3) if computed else _ranged(t, 0, 1, 2)
        bound = _scalar_of(t, 1) if computed else None if most is None else _number(t, most)
        ends = [_single_level(t, v, x.low, x.high, x.data.dtype) for v in (_number(t, 0.0), bound) if v is not None]
        y = t.op("maximum", x.data, ends[0])
        if bound is not None:
            y = t.op("minimum", y, ends[1])
        return y, x.low, x.high

    return translate


def pool(t: Translation) -> Three:
    x = _ranged(t, 0, 1, 2)
    if t.kind == "QuantizedMaxPool":
        made = CONVOLUTIONS["MaxPool"](t.again(x.data))
    else:  # means are cut, not rounded
        made = CONVOLUTIONS["AvgPool"](t.again(t.cast(x.data, "float32")))
        assert isinstance(made, Value)
        made = t.cast(t.op("floor", t.op("add", made, _number(t, 1e-3))), x.data.dtype)
    assert isinstance(made, Value)
    return made, x.low, x.high


def concat(t: Translation) -> Three:
    """QuantizedConcat: every operand in the range of all, with 0 in it."""
    count = int(t.option("N", 0)) or (len(t.items) - 1) // 3
    first = t.kind == "QuantizedConcat"
    axis, start = t.integer_of(0 if first else count, "the axis"), 1 if first else 0
    behind = start + count + (0 if first else 1)
    parts = [_ranged(t, start + n, behind + n, behind + count + n) for n in range(count)]
    low, high = _number(t, 0.0), parts[0].high
    for part in parts:
        low, high = t.op("minimum", low, part.low), t.op("maximum", high, part.high)
    dtype = parts[0].data.dtype
    found = []
    for part in parts:
        same = t.op("logical_and", t.op("equal", part.low, low), t.op("equal", part.high, high))
        new = _quantized(t, _real(t, part), low, high, dtype)
        found.append(t.op("where", same, part.data, new))
    return t.op("concat", *found, axis=axis % found[0].type.rank), low, high


def reshape(t: Translation) -> Three:
    return t.reshape(t.input(0), t.dims(1, "sizes")), _scalar_of(t, 2), _scalar_of(t, 3)


TRANSLATORS: dict[str, Translator] = {
    "Dequantize": dequantize, "QuantizeDownAndShrinkRange": shrink_range, "QuantizeV2": quantize,
    "QuantizedAdd": add, "QuantizedAvgPool": pool, "QuantizedBiasAdd": add, "QuantizedConcat": concat,
    "QuantizedConcatV2": concat, "QuantizedConv2D": conv, "QuantizedDepthwiseConv2D": conv,
    "QuantizedMatMul": matmul, "QuantizedMaxPool": pool, "QuantizedMul": multiply, "QuantizedRelu": _kept(None),
    "QuantizedRelu6": _kept(6.0), "QuantizedReluX": _kept(None, computed=True), "UniformQuantize": uniform_quantize,
    "UniformDequantize": uniform_dequantize, "QuantizedReshape": reshape, "RequantizationRange": requantization_range,
    "Requantize": requantize,
}  # fmt: skip
