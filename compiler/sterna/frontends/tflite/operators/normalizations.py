"""What relates elements to those beside them: softmax and its logarithm, norms, responses of neighbouring channels."""

from __future__ import annotations

import math

import numpy as np

from sterna.errors import error
from sterna.frontends.tflite import fixed_point
from sterna.frontends.tflite.operators import wide_activations
from sterna.frontends.tflite.translation import QUANTIZED, Translation, Translator
from sterna.ir import dtypes
from sterna.ir.graph import Value

_EIGHT = ("int8", "uint8")


def softmax(t: Translation) -> Value:
    x, beta = t.input(0), float(t.option("beta", 0.0))
    if x.dtype == "int16" and t.is_quantized():
        return wide_activations.softmax(t)
    if x.dtype in _EIGHT and t.is_quantized():
        table = fixed_point.softmax_table(beta, t.scale(0))
        return t.op("softmax_fixed", x, t.constant(table), axis=-1, to=t.result().kind)
    return t.op("softmax", x if beta == 1.0 else t.op("mul", x, t.scalar(beta, x.dtype)), axis=-1)


def log_softmax(t: Translation) -> Value:
    x = t.input(0)
    if not (x.dtype in QUANTIZED and t.is_quantized()):
        return t.op("log_softmax", x, axis=-1)
    if x.dtype not in _EIGHT:
        raise t.unsupported(f"on quantized {x.dtype}")
    return _log_softmax_of_bytes(t)


def _log_softmax_of_bytes(t: Translation) -> Value:
    """Exponentials of the differences from the greatest element are looked up and summed up one after the other, as
    float32; the logarithm of the sum is taken from what the integers stand for."""
    x = t.input(0)
    x_scale = np.float32(t.scale(0))
    y_scale, y_zero = t.per_tensor(t.result())
    axis = x.type.rank - 1
    greatest = t.op("reduce_max", x, axes=(axis,), keep_dims=True)
    difference = t.op("sub", t.cast(x, "int32"), t.cast(greatest, "int32"))
    powers = np.exp((-x_scale * np.arange(255, -1, -1).astype(np.float32)).astype(np.float64)).astype(np.float32)
    terms = t.op("lookup", t.cast(t.moved(difference, 255), "uint8"), t.constant(powers))
    total = t.op("sum_in_order", terms, axis=axis)
    # Rounded once: the runtime's own logarithm of float32 is as near as that but for its last bit.
    logarithm = t.cast(t.op("log", t.cast(total, "float64")), "float32")
    top = t.op("mul", t.cast(greatest, "float32"), t.scalar(x_scale, "float32"))
    shift = t.op("div", t.op("add", top, logarithm), t.scalar(y_scale, "float32"))
    unit = t.scalar(x_scale / np.float32(y_scale), "float32")
    level = t.op("round", t.op("sub", t.op("mul", t.cast(x, "float32"), unit), shift))
    return t.stored(t.cast(level, "int32"), y_zero, dtypes.limits(t.result().kind))


# ---------------------------------------------------------------- norms
def l2_normalization(t: Translation) -> Value:
    x = t.input(0)
    axes = (x.type.rank - 1,)
    if x.dtype in QUANTIZED:
        return _norm_of_bytes(t)
    total = t.op("reduce_sum", t.op("mul", x, x), axes=axes, keep_dims=True)
    # The least norm that divides: TensorFlow Lite's own epsilon.
    norm = t.op("maximum", t.op("sqrt", total), t.scalar(1e-6, x.dtype))
    return t.activated(t.op("div", x, norm))


def _norm_of_bytes(t: Translation) -> Value:
    """In units of 1 / 128, whatever the operand's scale."""
    x = t.input(0)
    y_scale, y_zero = t.per_tensor(t.result())
    if x.dtype not in _EIGHT or y_scale != 1 / 128 or y_zero != (128 if x.dtype == "uint8" else 0):
        raise t.unsupported(f"of {x.dtype} with a result of scale {y_scale:g} and zero point {y_zero}")
    centered = t.centered(x, t.zero(0))
    total = t.op("reduce_sum", t.op("mul", centered, centered), axes=(x.type.rank - 1,), keep_dims=True)
    multiplier, shift = (t.op("inverse_root_fixed", total, gives=gives) for gives in ("multiplier", "shift"))
    if x.dtype == "uint8":
        rows = t.op("mul", centered, t.scalar(128, "int32"))
        return t.stored(t.op("fixed_multiply", rows, multiplier, shift))
    none = t.scalar(0, "int32")
    right = t.moved(shift, -7)
    left = t.op("maximum", t.op("neg", right), none)
    return t.stored(t.op("fixed_multiply", centered, multiplier, t.op("maximum", right, none), left))


def local_response_normalization(t: Translation) -> Value:
    x = t.input(0)
    radius, bias, alpha, beta = (
        t.option(k, d) for k, d in (("radius", 0), ("bias", 0.0), ("alpha", 0.0), ("beta", 0.0))
    )
    *outer, channels = t.static(x)
    if radius < 0:
        raise error("E0109", f"the radius is {radius}")
    base = t.op("expand", t.scalar(bias, x.dtype), shape=x.shape)
    if radius:
        # The reference kernel's window leaves its upper end out.
        squares = t.reshape(t.op("mul", x, x), (math.prod(outer), channels, 1))
        window = {"kernel": (2 * radius,), "strides": (1,), "dilations": (1,)}
        total = t.op("sum_pool", t.pad(squares, (0, radius, 0), (0, radius - 1, 0)), **window)
        base = t.moved(t.op("mul", t.reshape(total, x.shape), t.scalar(alpha, x.dtype)), bias)
    return t.op("mul", x, t.op("pow", base, t.scalar(-beta, x.dtype)))


TRANSLATORS: dict[str, Translator] = {
    "L2_NORMALIZATION": l2_normalization,
    "LOCAL_RESPONSE_NORMALIZATION": local_response_normalization,
    "LOG_SOFTMAX": log_softmax,
    "SOFTMAX": softmax,
}
