"""Operators that read pictures at computed places: projections, glimpses, fractional pools, suppression by overlaps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from sterna.errors import error
from sterna.frontends.emitter import MOST_TAPS
from sterna.frontends.interpolation import filled_where, numbers_of, projected, sampled
from sterna.frontends.standard import standard
from sterna.frontends.tensorflow.operators.convolution import TRANSLATORS as CONVOLUTIONS
from sterna.frontends.tensorflow.operators.images import bilinear
from sterna.frontends.tensorflow.translation import Translation, Translator
from sterna.ir.graph import Value


# ---------------------------------------------------------------- projections
def project(t: Translation) -> Value:
    """ImageProjectiveTransformV2 and V3: every pixel of the result from where eight numbers say."""
    x, matrix = t.input(0), t.cast(t.input(1), "float32")
    height, width = t.integers(2, "the sizes")
    fill = float(t.scalar_of(3, "a value")) if t.kind.endswith("V3") else 0.0
    if x.type.rank != 4 or matrix.type.rank != 2 or min(height, width) < 1:
        raise error("E0108", f"{t.kind} of {x.type} by {matrix.type} to {height} x {width}")
    mode = str(t.option("fill_mode", "CONSTANT")).upper()
    matrix = t.op("expand", matrix, shape=(x.shape[0], 8))
    *places, nowhere = projected(t, matrix, height, width)
    places_in = [_within(t, at, t.extent(x, n + 1), mode) for n, at in enumerate(places)]
    linear = str(t.option("interpolation", "NEAREST")).upper() == "BILINEAR"
    wide = t.cast(x, "float32") if linear else x
    before = (numbers_of(t, x, height, width),)
    made = sampled(t, wide, places_in, linear, "constant", fill, before)
    # TensorFlow cuts what it has between integers.
    return filled_where(t, nowhere, fill, t.cast(made, x.dtype))


def _within(t: Translation, at: Value, size: int, mode: str) -> Value:
    """Positions outside led back, as the kernel's MapCoordinate does."""
    if mode == "CONSTANT":
        return at
    zero, last = t.scalar(0, "float32"), t.scalar(float(size - 1), "float32")
    if size < 2:
        return t.op("expand", zero, shape=at.shape)
    if mode == "NEAREST":
        return t.op("minimum", t.op("maximum", at, zero), last)

    def turned(x: Value, period: float) -> Value:
        share = t.op("floor", t.op("div", x, t.scalar(period, "float32")))
        return t.op("sub", x, t.op("mul", share, t.scalar(period, "float32")))

    if mode == "WRAP":
        # So many whole pictures away as there are steps between its first and last pixel.
        share = t.op("div", at, last)
        below = t.op("add", t.op("floor", t.op("neg", share)), t.scalar(1.0, "float32"))
        above = t.op("neg", t.op("floor", share))
        turns = t.op("where", t.op("less", at, zero), below, above)
        outside = t.op("logical_or", t.op("less", at, zero), t.op("greater", at, last))
        moved = t.op("add", at, t.op("mul", turns, t.scalar(float(size), "float32")))
        return t.op("minimum", t.op("maximum", t.op("where", outside, moved, at), zero), last)
    if mode != "REFLECT":
        raise t.unsupported(f"with the fill mode {mode}")
    inner = turned(at, 2.0 * size)
    other = t.op("sub", t.scalar(2.0 * size - 1.0, "float32"), inner)
    inner = t.op("where", t.op("less", inner, t.scalar(float(size), "float32")), inner, other)
    return t.op("minimum", t.op("maximum", inner, zero), last)


def glimpse(t: Translation) -> Value:
    """ExtractGlimpse and its second version: windows around places; what lies outside is 0.

    Noise in place of zeros is refused.
    """
    x, offsets = t.input(0), t.cast(t.input(2), "float32")
    sizes, batch = t.integers(1, "the sizes"), x.shape[0]
    if x.type.rank != 4 or len(sizes) != 2 or min(sizes) < 1:
        raise error("E0108", f"{t.kind} of {x.type} to {sizes}")
    if str(t.option("noise", "uniform")) != "zero":
        raise t.unsupported("with random numbers around pictures", "save it with the noise zero")
    normalized, centered = bool(t.option("normalized", True)), bool(t.option("centered", True))
    rows = []
    inside: Value | None = None
    for n, size in enumerate(sizes):
        extent = t.extent(x, n + 1)
        at = t.op("slice", offsets, starts=(0, n), sizes=(batch, 1), steps=(1, 1))
        at = t.op("mul", at, t.scalar(float(extent), "float32")) if normalized else at
        # The second version takes pixels as they are, from the center or not.
        plain = t.kind.endswith("V2") and not normalized
        if centered:
            at = at if plain else t.op("mul", at, t.scalar(0.5, "float32"))
            at = t.op("add", at, t.scalar(extent / 2, "float32"))
        if not t.kind.endswith("V2") or (centered and normalized):
            at = t.op("sub", at, t.scalar(size / 2, "float32"))
        places = t.op("add", t.cast(at, "int64"), t.reshape(t.counting(size), (1, size)))
        there = t.op("greater_equal", places, t.scalar(0, "int64"))
        there = t.op("logical_and", there, t.op("less", places, t.scalar(extent, "int64")))
        shape = (batch, size, 1) if n == 0 else (batch, 1, size)
        there = t.reshape(there, shape)
        inside = there if inside is None else t.op("logical_and", inside, there)
        kept = t.op("minimum", t.op("maximum", places, t.scalar(0, "int64")), t.scalar(extent - 1, "int64"))
        rows.append(t.op("expand", t.reshape(kept, shape), shape=(batch, *sizes)))
    assert inside is not None
    number = numbers_of(t, x, sizes[0], sizes[1])
    index = t.op("concat", *(t.reshape(v, (batch, *sizes, 1)) for v in (number, *rows)), axis=3)
    read = t.op("gather_nd", x, index)
    inside = t.op("expand", t.reshape(inside, (batch, *sizes, 1)), shape=read.shape)
    return t.op("where", inside, read, t.scalar(0, x.dtype))


# ---------------------------------------------------------------- pools of uneven windows
def _bounds(size: int, ratio: float, name: str) -> list[int]:
    """Where windows begin, of `size` elements in windows of 1 and 2: TensorFlow draws them at random at every run, of
    the two ways that it has the even one is taken here."""
    count = math.floor(size / ratio)
    if not 1 <= count <= min(size, MOST_TAPS):
        raise error("E0109", f"{name} of {size} elements by {ratio}")
    return [0, *(math.ceil(size / count * n) for n in range(1, count)), size]


def fractional(t: Translation) -> tuple[Value, ...]:
    """FractionalAvgPool and FractionalMaxPool: windows between bounds, which are results as well."""
    x, ratios = t.input(0), [float(r) for r in t.option("pooling_ratio", (1.0, 1.0, 1.0, 1.0))]
    if x.type.rank != 4 or len(ratios) != 4 or ratios[0] != 1 or ratios[3] != 1:
        raise error("E0109", f"{t.kind} of {x.type} by {ratios}")
    operator = "reduce_max" if "Max" in t.kind else "reduce_mean"
    more = int(bool(t.option("overlapping", False)))
    found = []
    for axis in (1, 2):
        size = t.extent(x, axis)
        bounds = _bounds(size, ratios[axis], t.kind)
        x = _pooled(t, x, axis, bounds, more, operator)
        found.append(t.constant(bounds, "int64"))
    return x, *found


def _pooled(t: Translation, x: Value, axis: int, bounds: Sequence[int], more: int, operator: str) -> Value:
    parts = []
    for first, end in pairwise(bounds):
        last = min(end + more, bounds[-1])
        starts, sizes = [0] * 4, list(x.shape)
        starts[axis], sizes[axis] = first, last - first  # type: ignore[call-overload]
        part = t.op("slice", x, starts=tuple(starts), sizes=tuple(sizes), steps=(1,) * 4)
        parts.append(t.op(operator, part, axes=(axis,), keep_dims=True))
    return t.op("concat", *parts, axis=axis) if len(parts) > 1 else parts[0]


# ---------------------------------------------------------------- suppression by given overlaps
def suppressed(t: Translation) -> Value:
    """NonMaxSuppressionWithOverlaps: of boxes in the order of their scores those that overlap none before them."""
    overlaps, scores = t.input(0), t.cast(t.input(1), "float32")
    most, limit = t.integer_of(2, "the most boxes"), float(t.scalar_of(3, "an overlap"))
    least = float(t.scalar_of(4, "a score"))
    (count,) = t.sizes(scores, 1)
    limited = min(most, count)
    if t.sizes(overlaps, 2) != (count, count) or limited < 1:
        raise error("E0108", f"{t.kind} of {overlaps.type} with {scores.type}")
    _, order = t.builder.add_all("top_k", scores, k=(count,), axis=0, sources=t.sources, name=f"{t.name}/order")
    near = t.op("gather", t.op("gather", t.cast(overlaps, "float32"), order, axis=0), order, axis=1)
    near = t.op("greater", near, t.scalar(limit, "float32"))
    start = t.op("greater", t.op("gather", scores, order, axis=0), t.scalar(least, "float32"))

    def step(number: Value, carried: list[Value]) -> tuple[list[Value], list[Value]]:
        (kept,) = carried
        own = t.op("gather", kept, t.reshape(number, (1,)), axis=0)
        row = t.reshape(t.op("gather", near, t.reshape(number, (1,)), axis=1), (count,))
        after = t.op("greater", t.counting(count), t.reshape(number, (1,)))
        lost = t.op("logical_and", t.op("logical_and", row, after), own)
        return [t.op("logical_and", kept, t.op("logical_not", lost))], []

    (kept,), _ = t.repeat(count, [start], step)
    chosen, found = t.builder.add_all(
        "compress", order, kept, axis=0, size=count, sources=t.sources, name=f"{t.name}/kept"
    )
    total = t.op("minimum", t.reshape(found, ()), t.scalar(limited, "int64"))
    size = t.builder.bind_size(total, t.builder.name("boxes"), 0, limited, sources=t.sources)
    return t.cast(t.op("slice", chosen, starts=(0,), sizes=(size,), steps=(1,)), "int32")


# ---------------------------------------------------------------- fused convolutions
def padded_conv(t: Translation) -> Value:
    """FusedPadConv2D and FusedResizeAndPadConv2D: a picture resized, its edges mirrored, and convolved."""
    x, position = t.input(0), 1
    if t.kind.startswith("FusedResize"):
        x = bilinear(t.again(x, t.item(1), align_corners=bool(t.option("resize_align_corners", False))))
        position = 2
    pairs = np.asarray(t.array(position, "the widths")).reshape(-1, 2)
    mode = str(t.option("mode", "REFLECT"))
    if mode == "SYMMETRIC":
        for axis, (before, after) in enumerate(pairs.tolist()):
            places = np.pad(np.arange(t.extent(x, axis)), (before, after), mode="symmetric")
            x = x if before == after == 0 else t.op("gather", x, t.constant(places, "int64"), axis=axis)
    else:
        x = standard(t, "Pad", x, t.constant(pairs.T.reshape(-1), "int64"), mode="reflect")
    made = CONVOLUTIONS["Conv2D"](t.again(x, t.item(position + 1)))
    assert isinstance(made, Value)
    return made


TRANSLATORS: dict[str, Translator] = {
    "ExtractGlimpse": glimpse, "ExtractGlimpseV2": glimpse, "FractionalAvgPool": fractional,
    "FractionalMaxPool": fractional, "FusedPadConv2D": padded_conv, "FusedResizeAndPadConv2D": padded_conv,
    "ImageProjectiveTransformV2": project, "ImageProjectiveTransformV3": project,
    "NonMaxSuppressionWithOverlaps": suppressed,
}  # fmt: skip
