"""Operators of one operand: activations, what changes the element type.

A function of elements of 8 bits is a table of 256 entries, computed here; those of 16 bits are interpolated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from sterna.errors import error
from sterna.frontends.tflite import fixed_point
from sterna.frontends.tflite.operators import wide_activations
from sterna.frontends.tflite.translation import QUANTIZED, Translation, Translator, quantization_of
from sterna.ir import dtypes
from sterna.ir.graph import Array, Value
from sterna.ir.limits import forget, walked

_EIGHT = ("int8", "uint8")


# ---------------------------------------------------------------- tables
def looked_up(t: Translation, function: Callable[[Array], Array]) -> Value:
    """A float32 function of a quantized operand of 8 bits, as a table."""
    x_scale, x_zero = t.per_tensor(t.info(0))
    y_scale, y_zero = t.per_tensor(t.result())
    entries = fixed_point.table(t.info(0).kind, x_scale, x_zero, y_scale, y_zero, function)
    return t.op("lookup", t.input(0), t.constant(entries))


def _with_table(
    function: Callable[[Array], Array], real: Callable[[Translation, Value], Value]
) -> Callable[[Translation], Value]:
    """Floats by core operators, 8 bits by a table of the function."""

    def translate(t: Translation) -> Value:
        x = t.input(0)
        if x.dtype in _EIGHT and t.is_quantized():
            return looked_up(t, function)
        if x.dtype in QUANTIZED and t.is_quantized():
            return wide_activations.looked_up(t, function)
        return real(t, x)

    return translate


def _named(operator: str, **attributes: Any) -> Callable[[Translation, Value], Value]:
    return lambda t, x: t.op(operator, x, **attributes)


def _exp_float32(x: Array) -> Array:
    return np.asarray(np.exp(x.astype(np.float64)), x.dtype)


def _logistic(x: Array) -> Array:
    with np.errstate(over="ignore"):
        return np.asarray(x.dtype.type(1) / (x.dtype.type(1) + _exp_float32(-x)), x.dtype)


def _tanh(x: Array) -> Array:
    return np.asarray(np.tanh(x.astype(np.float64)), x.dtype)


def logistic(t: Translation) -> Value:
    x = t.input(0)
    if x.dtype == "int16" and t.is_quantized():
        return wide_activations.logistic(t)
    return _with_table(_logistic, _named("sigmoid"))(t)


def tanh(t: Translation) -> Value:
    x = t.input(0)
    if x.dtype == "int16" and t.is_quantized():
        return wide_activations.tanh(t)
    return _with_table(_tanh, _named("tanh"))(t)


def gelu(t: Translation) -> Value:
    approximate = bool(t.option("approximate", False))

    def function(x: Array) -> Array:
        wide = x.astype(np.float64)
        if approximate:
            inner = math.sqrt(2.0 / math.pi) * (wide + 0.044715 * wide**3)
            return np.asarray(0.5 * wide * (1.0 + np.tanh(inner)), x.dtype)
        erf = np.array([math.erf(v * math.sqrt(0.5)) for v in wide.reshape(-1)]).reshape(wide.shape)
        return np.asarray(0.5 * wide * (1.0 + erf), x.dtype)

    return _with_table(function, _named("gelu", approximate="tanh" if approximate else "none"))(t)


def _elu(x: Array) -> Array:
    return np.where(x < 0, np.expm1(x.astype(np.float64)), x).astype(x.dtype)


# ---------------------------------------------------------------- rectifiers
def _rectifier(low: float | None, high: float | None) -> Translator:
    def translate(t: Translation) -> Value:
        x = t.input(0)
        if not (x.dtype in QUANTIZED and t.is_quantized()):
            return t.op("relu", x) if (low, high) == (0.0, None) else t.op("clip", x, min=low, max=high)
        y_scale, y_zero = t.per_tensor(t.result())
        least, most = dtypes.limits(t.result().kind)

        def level(bound: float) -> int:
            return y_zero + fixed_point.away(float(np.float32(bound) / np.float32(y_scale)))

        bounds = (
            least if low is None else max(least, level(low)),
            most if high is None else min(most, level(high)),
        )
        factor = float(np.float32(t.scale(0)) / np.float32(y_scale))
        return t.stored(t.scaled(t.centered(x, t.zero(0)), factor), bounds=bounds)

    return translate


def leaky_relu(t: Translation) -> Value:
    x, alpha = t.input(0), np.float32(t.option("alpha", 0.0))
    if not (x.dtype in QUANTIZED and t.is_quantized()):
        return t.op("leaky_relu", x, alpha=float(alpha))
    y_scale, y_zero = t.per_tensor(t.result())
    x_scale = np.float32(t.scale(0))
    scales = [float(x_scale * alpha / np.float32(y_scale)), float(x_scale / np.float32(y_scale))]
    centered = t.centered(x, t.zero(0))
    below, above = (t.scaled(centered, abs(s)) for s in scales)
    if scales[0] < 0:
        raise t.unsupported("with a negative slope on integers")
    positive = t.op("greater_equal", centered, t.scalar(0, "int32"))
    return t.stored(t.op("where", positive, above, below), y_zero, dtypes.limits(t.result().kind))


def prelu(t: Translation) -> Value:
    x, alpha = t.input(0), t.input(1)
    if not (x.dtype in QUANTIZED and t.is_quantized()):
        return t.op("prelu", x, alpha)
    y_scale = np.float32(t.per_tensor(t.result())[0])
    x_scale, alpha_scale = np.float32(t.scale(0)), np.float32(t.scale(1))
    centered = t.centered(x, t.zero(0))
    above = t.scaled(centered, float(x_scale / y_scale))
    slope = t.op("mul", centered, t.centered(alpha, t.zero(1)))
    below = t.scaled(slope, float(x_scale * alpha_scale / y_scale))
    positive = t.op("greater_equal", centered, t.scalar(0, "int32"))
    return t.stored(t.op("where", positive, above, below))


def hard_swish(t: Translation) -> Value:
    x = t.input(0)
    if not (x.dtype in QUANTIZED and t.is_quantized()):
        return t.op("hard_swish", x)
    if x.dtype == "int16":
        raise t.unsupported("on 16 bits")  # as in TensorFlow Lite
    entries = fixed_point.hard_swish_table(x.dtype, *t.per_tensor(t.info(0)), *t.per_tensor(t.result()))
    return t.op("lookup", x, t.constant(entries))


# ---------------------------------------------------------------- element types
def quantize(t: Translation) -> Value:
    x, y = t.input(0), t.result()
    scale, zero = t.per_tensor(y)
    low, high = dtypes.limits(y.kind)
    if dtypes.is_float(x.dtype):
        level = t.op("round_away", t.op("div", x, t.scalar(scale, "float32")))
        # Beyond every type and zero point, and exact in float32.
        near = t.cast(t.op("clip", level, min=-float(1 << 24), max=float(1 << 24)), "int32")
        return t.stored(near, zero, (low, high))
    factor = t.scale(0) / scale
    return t.stored(t.scaled(t.centered(x, t.zero(0)), factor), zero, (low, high))


def dequantize(t: Translation) -> Value:
    x, info = t.input(0), t.info(0)
    if dtypes.is_float(x.dtype):
        return _widened(t, x)
    q = quantization_of(info)
    zeros, scales = q.zero_points.astype(np.int32), q.scales
    if len(scales) > 1:
        shape = [1] * x.type.rank
        shape[q.axis] = len(scales)
        scales = scales.reshape(shape)
        zeros = np.broadcast_to(zeros, (len(q.scales),)).reshape(shape)
    else:
        scales, zeros = scales.reshape(()), zeros.reshape(())
    wide = t.cast(x, "int32")
    if zeros.any():
        wide = t.op("sub", wide, t.constant(zeros, "int32"))
    return t.op("mul", t.cast(wide, "float32"), t.constant(scales, "float32"))


def densify(t: Translation) -> Value:
    """Sparse weights, which are dense from the moment they are read.

    Raises:
        SternaError: E0107, they are not constant.
    """
    return t.constant(t.array(0, "weights"))


def _widened(t: Translation, x: Value) -> Value:
    """Half-width floats in float32; weights are widened now."""
    if x.data is not None:
        t.builder.halves.add(x.dtype)
        wide = walked(x.data).astype(np.float32)
        forget(x.data)
        return t.constant(wide)
    return t.cast(x, "float32")


def cast(t: Translation) -> Value:
    return t.cast(t.input(0), t.result().kind)


def bit_cast(t: Translation) -> Value:
    x, to = t.input(0), t.result().kind
    if dtypes.bits(x.dtype) != dtypes.bits(to):
        raise t.unsupported(f"from {x.dtype} to {to}")
    return t.op("bit_cast", x, to=to)


# ---------------------------------------------------------------- floats and integers as they are
def _plain(operator: str) -> Translator:
    return lambda t: t.op(operator, t.input(0))


def absolute(t: Translation) -> Value:
    x = t.input(0)
    if not (x.dtype in QUANTIZED and t.is_quantized()):
        return t.op("abs", x)
    magnitude = t.op("abs", t.centered(x, t.zero(0)))
    y_scale = t.per_tensor(t.result())[0]
    if t.scale(0) == y_scale:
        return t.stored(magnitude)
    return t.stored(t.scaled(magnitude, float(np.float32(t.scale(0)) / np.float32(y_scale))))


def negative(t: Translation) -> Value:
    if t.input(0).dtype in QUANTIZED and t.is_quantized():
        raise t.unsupported(f"on quantized {t.input(0).dtype}")
    return t.op("neg", t.input(0))


def square(t: Translation) -> Value:
    return t.op("mul", t.input(0), t.input(0))


def _rsqrt(t: Translation, x: Value) -> Value:
    return t.op("reciprocal", t.op("sqrt", x))


def inverse_root(t: Translation) -> Value:
    x = t.input(0)
    if x.dtype in _EIGHT and t.is_quantized():
        entries = fixed_point.inverse_root_table(x.dtype, *t.per_tensor(t.info(0)), *t.per_tensor(t.result()))
        return t.op("lookup", x, t.constant(entries))
    return _of_positive(lambda x: np.asarray(x.dtype.type(1) / np.sqrt(x), x.dtype), _rsqrt, 1)(t)


def square_root(t: Translation) -> Value:
    """Of integers through float32, cut off and not rounded; negative numbers stop the runtime and count as 0 here."""
    x = t.input(0)
    if not (x.dtype in QUANTIZED and t.is_quantized()):
        return t.op("sqrt", x)
    real = t.op("mul", t.cast(t.centered(x, t.zero(0)), "float32"), t.scalar(t.scale(0), "float32"))
    root = t.op("sqrt", t.op("maximum", real, t.scalar(0.0, "float32")))
    level = t.op("div", root, t.scalar(t.per_tensor(t.result())[0], "float32"))
    return t.stored(t.cast(t.op("minimum", level, t.scalar(float(1 << 24), "float32")), "int32"))


def _of_positive(
    function: Callable[[Array], Array], real: Callable[[Translation, Value], Value], end: int
) -> Callable[[Translation], Value]:
    """A function that is defined for positive operands; others have the least or the greatest result (end 0 or 1)."""

    def translate(t: Translation) -> Value:
        if t.result().kind not in QUANTIZED or t.result().quantization is None:
            return real(t, t.input(0))
        scale, zero = t.per_tensor(t.result())
        bound = np.float32(dtypes.limits(t.result().kind)[end] - zero) * np.float32(scale)

        def whole(x: Array) -> Array:
            inside = x > 0
            return np.where(inside, function(np.where(inside, x, x.dtype.type(1))), x.dtype.type(bound))

        return _with_table(whole, real)(t)

    return translate


def fake_quant(t: Translation) -> Value:
    """Floats on a grid (TensorFlow, FakeQuantWithMinMaxVars): the range is nudged so that 0 lies on it."""
    low, high = np.float32(t.option("min", 0.0)), np.float32(t.option("max", 0.0))
    bits, narrow = t.option("num_bits", 8), bool(t.option("narrow_range", False))
    if not low < high or not np.isfinite([low, high]).all() or not 2 <= bits <= 16:
        raise error("E0109", f"the range is {low} to {high} with {bits} bits")
    least, most = float(narrow), float((1 << bits) - 1)
    scale = np.float32((high - low) / np.float32(most - least))
    if not 0 < scale < np.inf:
        raise error("E0109", f"the range of {low} to {high} is in steps of {scale}")
    zero = np.float32(least) - low / scale
    nudged = np.float32(fixed_point.away(float(min(max(zero, np.float32(least)), np.float32(most)))))
    start, end = (np.float32(least) - nudged) * scale, (np.float32(most) - nudged) * scale
    shifted = t.moved(t.op("clip", t.input(0), min=float(start), max=float(end)), -float(start))
    steps = t.op("round_away", t.op("mul", shifted, t.scalar(np.float32(1.0) / scale, "float32")))
    return t.moved(t.op("mul", steps, t.scalar(scale, "float32")), float(start))


_FUNCTIONS: Mapping[str, Translator] = MappingProxyType(
    {
        "COS": _plain("cos"),
        "ELU": _with_table(_elu, _named("elu")),
        "EXP": _with_table(_exp_float32, _named("exp")),
        "LOG": _of_positive(lambda x: np.log(x.astype(np.float64)).astype(x.dtype), _named("log"), 0),
        "RSQRT": inverse_root,
        "SIN": _plain("sin"),
        "SQRT": square_root,
    }
)
TRANSLATORS: dict[str, Translator] = {
    **_FUNCTIONS,
    "ABS": absolute,
    "BITCAST": bit_cast,
    "CAST": cast,
    "CEIL": _plain("ceil"),
    "DENSIFY": densify,
    "DEQUANTIZE": dequantize,
    "FAKE_QUANT": fake_quant,
    "FLOOR": _plain("floor"),
    "GELU": gelu,
    "HARD_SWISH": hard_swish,
    "LEAKY_RELU": leaky_relu,
    "LOGICAL_NOT": _plain("logical_not"),
    "LOGISTIC": logistic,
    "NEG": negative,
    "PRELU": prelu,
    "QUANTIZE": quantize,
    "RELU": _rectifier(0.0, None),
    "RELU6": _rectifier(0.0, 6.0),
    "RELU_0_TO_1": _rectifier(0.0, 1.0),
    "RELU_N1_TO_1": _rectifier(-1.0, 1.0),
    "ROUND": _plain("round"),
    "SIGN": _plain("sign"),
    "SQUARE": square,
    "TANH": tanh,
}
