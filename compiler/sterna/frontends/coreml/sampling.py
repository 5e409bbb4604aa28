"""Grids of points that images are sampled at, as programs and networks both name them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sterna.errors import error
from sterna.frontends.emitter import Emitter
from sterna.ir.graph import Array, Value
from sterna.ir.limits import counting

STRICT, ALIGN, DEFAULT, OFFSET, UNALIGN = (
    "STRICT_ALIGN_CORNERS", "ALIGN_CORNERS", "DEFAULT", "OFFSET_CORNERS", "UNALIGN_CORNERS",
)  # fmt: skip


def grid(mode: str, size: int, wanted: int) -> Array:
    """Where along a dimension of `size` elements the `wanted` samples lie (`resize_bilinear`, sampling_mode).

    Raises:
        SternaError: E0109, there is no such mode.
    """
    steps = counting(wanted).astype(np.float64)
    if mode == ALIGN and wanted == 1:
        points = np.full(1, (size - 1) / 2)
    elif mode in (STRICT, ALIGN):
        points = steps * ((size - 1) / max(wanted - 1, 1))
    elif mode == DEFAULT:
        points = steps * (size / wanted)
    elif mode == OFFSET:
        points = (steps + 0.5) * (max(1, size - 1) / wanted)
    elif mode == UNALIGN:
        points = (steps + 0.5) * (size / wanted) - 0.5
    else:
        raise error("E0109", f"there is no way of sampling called {mode}")
    return np.asarray(np.clip(points, 0, size - 1))


def sampled(t: Emitter, x: Value, axis: int, points: Array, linear: bool) -> Value:
    """`x` at points along a dimension: between its elements, or the element at or below."""
    # Points that are elements but for a rounding are those elements.
    nearest = np.round(points)
    points = np.where(np.abs(points - nearest) < 1e-6, nearest, points)
    low = np.floor(points).astype(np.int64)
    if np.array_equal(points, np.arange(t.extent(x, axis))):
        return x
    below = t.op("gather", x, t.constant(low), axis=axis)
    part = points - low
    if not linear or not part.any():
        return below
    high = np.minimum(low + 1, t.extent(x, axis) - 1)
    above = t.op("gather", x, t.constant(high), axis=axis)
    shape = [1] * x.type.rank
    shape[axis] = len(points)
    weight = t.constant(part.reshape(shape), x.dtype)
    return t.op("add", below, t.op("mul", t.op("sub", above, below), weight))


def resized(t: Emitter, x: Value, sizes: Sequence[int], linear: bool, mode: str) -> Value:
    """The last dimensions of `x` sampled to `sizes`."""
    for n, wanted in enumerate(sizes):
        axis = x.type.rank - len(sizes) + n
        if wanted < 1 or wanted > 1 << 24:
            raise error("E0109", f"an image of {wanted} points")
        x = sampled(t, x, axis, grid(mode, t.extent(x, axis), wanted), linear)
    return x


def upsampling_of(size: int, factor: float) -> int:
    """The size of an image that is made `factor` times as large."""
    return int(np.floor(size * factor + 1e-6))


def box_points(t: Emitter, mode: str, first: Value, last: Value, wanted: int) -> Value:
    """Where between the first and the last point of boxes, (boxes, 1) each, the `wanted` samples lie: the modes of
    `grid`, with the box in place of the image (NeuralNetwork.proto, SamplingMode).

    Raises:
        SternaError: E0109, there is no such mode.
    """

    def number(value: float) -> Value:
        return t.scalar(value, "float32")

    length = t.op("sub", last, first)
    steps = counting(wanted).astype(np.float32)
    if mode in (STRICT, ALIGN):
        if wanted == 1:
            return t.op("add", first, t.op("mul", length, number(0.5))) if mode == ALIGN else first
        return t.op("add", first, t.op("mul", length, t.constant(steps[None] / (wanted - 1), "float32")))
    if mode == DEFAULT:
        spacing, parts, shift = t.op("add", length, number(1.0)), steps / wanted, 0.0
    elif mode == OFFSET:
        spacing, parts, shift = t.op("maximum", length, number(1.0)), (steps + 0.5) / wanted, 0.0
    elif mode == UNALIGN:
        spacing, parts, shift = t.op("add", length, number(1.0)), (steps + 0.5) / wanted, -0.5
    else:
        raise error("E0109", f"there is no way of sampling called {mode}")
    points = t.op("add", first, t.op("mul", spacing, t.constant(parts[None], "float32")))
    points = t.op("add", points, number(shift)) if shift else points
    return t.op("maximum", t.op("minimum", points, last), first)
