"""Functions of 16 bits: points of a curve, with straight lines between them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sterna.frontends.tflite import fixed_point
from sterna.frontends.tflite.translation import Translation
from sterna.ir.graph import Array, Value


def looked_up(t: Translation, function: Callable[[Array], Array]) -> Value:
    """A float32 function of an operand of 16 bits."""
    x_scale, x_zero = t.per_tensor(t.info(0))
    y_scale, y_zero = t.per_tensor(t.result())
    points = fixed_point.wide_table(x_scale, x_zero, y_scale, y_zero, function, "float32")
    return t.op("interpolate", t.input(0), t.constant(points))


def _multiplier(scale: float) -> tuple[int, int]:
    """A scale in units of 1 / 12288, as a multiplier of 15 bits and a shift to the right."""
    factor, shift = float(np.float32(scale)) * 4096.0 * 3.0, 0
    while factor <= 32767.0 / 2.0 and shift <= 30:
        factor, shift = factor * 2.0, shift + 1
    return int(factor), shift


def _power_of_two(scale: float) -> int | None:
    exponent = np.log2(scale)
    nearest = round(exponent)
    return nearest if abs(exponent - nearest) < 1e-3 else None


def sigmoid(t: Translation, x: Value, function: str, scale: float) -> Value:
    """The logistic function or tanh of numbers of 16 bits with a scale."""
    power = _power_of_two(scale)
    # Powers of two that need no rounding.
    if power == -12 or (power == -11 and function == "tanh"):
        multiplier, shift = 3 << (12 + power), 0
    else:
        multiplier, shift = _multiplier(scale)
    table = t.constant(fixed_point.sigmoid_table())
    return t.op("sigmoid_fixed", x, table, function=function, multiplier=multiplier, shift=shift)


def logistic(t: Translation) -> Value:
    return sigmoid(t, t.input(0), "logistic", t.scale(0))


def tanh(t: Translation) -> Value:
    return sigmoid(t, t.input(0), "tanh", t.scale(0))


def softmax(t: Translation) -> Value:
    span = float((1 << 16) - 1)
    exponentials = fixed_point.wide_table(10.0 / span, 32767, 2.0 / span, 0, np.exp)
    reciprocals = fixed_point.wide_table(1.0 / span, -32768, 2.0 / span, 0, lambda x: 1.0 / (1.0 + x))
    factor = float(np.float32(t.scale(0)) * np.float32(t.option("beta", 0.0))) / (10.0 / span)
    multiplier, shift = fixed_point.quantize_multiplier(factor)
    return t.op(
        "softmax_fixed_16", t.input(0), t.constant(exponentials), t.constant(reciprocals),
        axis=-1, multiplier=multiplier, shift=shift,
    )  # fmt: skip
