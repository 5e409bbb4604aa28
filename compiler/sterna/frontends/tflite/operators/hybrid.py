"""Float activations with integer weights: activations are quantized while the model runs, a row or an image at a time.

Sums of products are exact integers; what follows is float32 (TensorFlow Lite, "dynamic range quantization").
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sterna.errors import error
from sterna.frontends.tflite.translation import Translation, quantization_of
from sterna.ir.graph import Array, Value

#: Element types of the weights that such a layer may have.
INTEGERS = ("int8", "uint8", "int4", "int2")


def symmetric(t: Translation, x: Value, axes: Sequence[int]) -> tuple[Value, Value]:
    """int8 elements between -127 and 127, and what one of them stands for, for the range over the axes."""
    greatest = t.op("reduce_max", t.op("abs", x), axes=tuple(axes), keep_dims=True)
    one, most = t.scalar(1.0, "float32"), t.scalar(127.0, "float32")
    empty = t.op("equal", greatest, t.scalar(0.0, "float32"))
    inverse = t.op("div", most, t.op("where", empty, most, greatest))
    scale = t.op("where", empty, one, t.op("div", greatest, most))
    q = t.op("clip", t.op("round_away", t.op("mul", x, inverse)), min=-127.0, max=127.0)
    return t.cast(q, "int8"), scale


def asymmetric(t: Translation, x: Value, axes: Sequence[int]) -> tuple[Value, Value, Value]:
    """int8 elements, what one of them stands for, and which of them is zero (int32), for the range over the axes."""

    def real(value: float) -> Value:
        return t.scalar(value, "float64")

    zero = t.scalar(0.0, "float32")
    low = t.cast(t.op("minimum", t.op("reduce_min", x, axes=tuple(axes), keep_dims=True), zero), "float64")
    high = t.cast(t.op("maximum", t.op("reduce_max", x, axes=tuple(axes), keep_dims=True), zero), "float64")
    empty = t.op("equal", low, high)
    span = t.op("where", empty, real(255.0), t.op("sub", high, low))
    step = t.op("div", span, real(255.0))
    below, above = t.op("div", low, step), t.op("div", high, step)
    from_low, from_high = t.op("sub", real(-128.0), below), t.op("sub", real(127.0), above)
    nearer = t.op("less", t.op("add", real(128.0), t.op("abs", below)), t.op("add", real(127.0), t.op("abs", above)))
    place = t.op("clip", t.op("where", nearer, from_low, from_high), min=-128.0, max=127.0)
    offset = t.op("where", empty, t.scalar(0, "int32"), t.cast(t.op("round_away", place), "int32"))
    scale = t.cast(step, "float32")
    inverse = t.op("div", t.scalar(1.0, "float32"), scale)
    q = t.op("round_away", t.op("add", t.cast(offset, "float32"), t.op("mul", x, inverse)))
    return t.cast(t.op("clip", q, min=-128.0, max=127.0), "int8"), scale, offset


def signed_weights(t: Translation, position: int = 1) -> Array:
    """The constant weights; the zero point of unsigned ones is 128, whatever the file says."""
    w = np.asarray(t.array(position, "weights"))
    return (w.astype(np.int16) - 128).astype(np.int8) if w.dtype == np.uint8 else w


def scales_of(t: Translation, channels: int, position: int = 1) -> Array:
    """The scales of weights: one, or one for each channel."""
    scales = quantization_of(t.info(position)).scales
    if len(scales) not in (1, channels):
        raise error("E0114", f'the tensor "{t.info(position).name}" has {len(scales)} scales for {channels} channels')
    return scales if len(scales) > 1 else scales.reshape(())


def product(t: Translation, x: Value, weights: Array, scales: Array, is_asymmetric: bool) -> Value:
    """Rows of floats times [depth, units] weights."""
    constant = t.constant(np.ascontiguousarray(weights))
    if is_asymmetric:
        q, scale, offset = asymmetric(t, x, (1,))
        total = t.op("matmul_integer", q, constant)
        sums = t.constant(weights.astype(np.int32).sum(0), "int32")
        total = t.op("sub", total, t.op("mul", offset, sums))
    else:
        q, scale = symmetric(t, x, (1,))
        total = t.op("matmul_integer", q, constant)
    return t.op("mul", t.cast(total, "float32"), t.op("mul", scale, t.constant(scales, "float32")))


def fully_connected(t: Translation, x: Value) -> Value:
    """Rows of floats through a layer with integer weights."""
    weights = signed_weights(t).T
    y = product(t, x, weights, scales_of(t, weights.shape[-1]), bool(t.option("asymmetric_quantize_inputs", False)))
    return t.activated(t.op("add", y, t.input(2)) if t.has(2) else y)


def batch_matmul(t: Translation, x: Value, weights: Value) -> Value:
    """Matrices of floats (..., rows, depth) times integer ones (..., depth, units), which may be computed.

    Raises:
        SternaError: E0113, the weights have scales along another dimension than that of the units.
    """
    depth, units = weights.type.rank - 2, weights.type.rank - 1
    scales = scales_of(t, t.extent(weights, units))
    if scales.ndim and quantization_of(t.info(1)).axis != (depth if t.option("adj_y", False) else units):
        raise t.unsupported(f'with scales along dimension {quantization_of(t.info(1)).axis} of "{t.info(1).name}"')
    rows = (x.type.rank - 1,)
    if t.option("asymmetric_quantize_inputs", False):
        q, scale, offset = asymmetric(t, x, rows)
        sums = t.op("reduce_sum", t.cast(weights, "int32"), axes=(depth,), keep_dims=True)
        total = t.op("sub", t.op("matmul_integer", q, weights), t.op("mul", offset, sums))
    else:
        q, scale = symmetric(t, x, rows)
        total = t.op("matmul_integer", q, weights)
    return t.op("mul", t.cast(total, "float32"), t.op("mul", scale, t.constant(scales, "float32")))


def convolution(
    t: Translation, amounts: Sequence[tuple[int, int]], order: Sequence[int], settings: dict[str, Any]
) -> Value:
    """Images of floats through a convolution with integer weights; the weight's dimensions move into `order`."""
    x = t.input(0)
    weights = signed_weights(t).transpose(order)
    channels = weights.shape[-1]
    scales = scales_of(t, channels)
    axes = tuple(range(1, x.type.rank))
    before, after = (0, *(b for b, _ in amounts), 0), (0, *(a for _, a in amounts), 0)
    if scales.ndim or t.kind == "DEPTHWISE_CONV_2D":
        q, scale, offset = asymmetric(t, x, axes)
        # What the border stands for is only known at run time: the zero point is taken off before.
        centered = t.op("sub", t.cast(q, "int32"), offset)
        last = t.pad(t.cast(centered, "int16"), before, after)
    else:
        q, scale = symmetric(t, x, axes)
        last = t.pad(q, before, after)
    total = t.op("conv_integer", last, t.constant(np.ascontiguousarray(weights)), **settings)
    y = t.op("mul", t.op("mul", t.cast(total, "float32"), t.constant(scales, "float32")), scale)
    return t.activated(t.op("add", y, t.input(2)) if t.has(2) else y)
