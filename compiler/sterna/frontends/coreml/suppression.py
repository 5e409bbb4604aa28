"""Boxes that overlap better ones are left out: an operation, a layer and a model of Core ML, which differ in little."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sterna.errors import error
from sterna.frontends.emitter import Emitter
from sterna.ir.graph import Value

#: Images of a batch, each of which is suppressed for itself.
_MOST_IMAGES = 256


@dataclass(frozen=True)
class Chosen:
    """Of every image the boxes that are left, the best first: boxes (B, most, 4), scores (B, most, C), their positions
    (B, most) in int32, and how many there are (B) in int32. What lies behind them is 0, positions are -1."""

    boxes: Value
    scores: Value
    places: Value
    counts: Value


def suppressed(
    t: Emitter, boxes: Value, scores: Value, overlap: Value, least: Value | None, most: int, per_class: bool,
    never_empty: bool,
) -> Chosen:  # fmt: skip
    """The boxes of the highest scores, one after the other, without those that overlap one before them.

    The score of a box is the greatest of its classes (NeuralNetwork.proto, NonMaximumSuppressionLayerParams).

    Args:
        boxes: (B, N, 4) of centre x, y, width and height; scores: (B, N, C); both in float32.
        overlap: a box that shares more of the union than this is left out, one element.
        least: boxes of a lower score are left out, one element.
        most: how many are chosen at the most.
        per_class: only boxes of the same best class are compared.
        never_empty: where all scores are too low, the box of the greatest is chosen.

    Raises:
        SternaError: E0107 to E0109.
    """
    batch, count, classes = t.sizes(scores, 3)
    if t.sizes(boxes, 3) != (batch, count, 4) or not count or not classes:
        raise error("E0108", f"boxes {boxes.type} with scores {scores.type}")
    if not 1 <= most <= 1 << 24 or batch > _MOST_IMAGES:
        raise error("E0109", f"{most} boxes of each of {batch} images")
    kept = min(most, count)
    images = [_image(t, boxes, scores, n, overlap, least, kept, per_class, never_empty) for n in range(batch)]
    columns = [parts[0] if batch == 1 else t.op("concat", *parts, axis=0) for parts in zip(*images, strict=True)]
    rest = most - kept
    return Chosen(
        t.pad(columns[0], (0, 0, 0), (0, rest, 0)),
        t.pad(columns[1], (0, 0, 0), (0, rest, 0)),
        t.pad(columns[2], (0, 0), (0, rest), -1),
        columns[3],
    )


def _image(
    t: Emitter, boxes: Value, scores: Value, n: int, overlap: Value, least: Value | None, kept: int, per_class: bool,
    never_empty: bool,
) -> tuple[Value, ...]:  # fmt: skip
    """One image of a batch: (1, kept, 4), (1, kept, C), (1, kept), (1)."""
    _, count, classes = t.static(scores)
    box = t.reshape(t.op("slice", boxes, starts=(n, 0, 0), sizes=(1, count, 4), steps=(1,) * 3), (count, 4))
    score = t.reshape(
        t.op("slice", scores, starts=(n, 0, 0), sizes=(1, count, classes), steps=(1,) * 3), (count, classes)
    )
    best = t.op("reduce_max", score, axes=(1,), keep_dims=False)
    out = t.scalar(-math.inf, "float32")
    if least is not None:
        fit = t.op("greater_equal", best, t.reshape(least, ()))
        if never_empty:
            some = t.op("reduce_max", t.cast(fit, "int32"), axes=(0,), keep_dims=True)
            first = t.op("equal", t.counting(count), t.cast(t.op("arg_max", best, axis=0, keep_dims=True), "int64"))
            fit = t.op("where", t.cast(some, "bool"), fit, first)
        best = t.op("where", fit, best, out)
    groups = classes if per_class else 1
    grouped = t.reshape(best, (1, count))
    if groups > 1:
        own = t.reshape(t.cast(t.op("arg_max", score, axis=1, keep_dims=False), "int64"), (1, count))
        grouped = t.op("where", t.op("equal", own, t.reshape(t.counting(groups), (groups, 1))), grouped, out)
    chosen, _ = t.builder.add_all(
        "non_max_suppression", t.reshape(box, (1, count, 4)), t.reshape(grouped, (1, groups, count)),
        t.constant(kept, "int64"), t.reshape(overlap, ()), t.constant(-math.inf, "float32"), size=groups * kept,
        center_point_box=True, sources=t.sources, name=f"{t.name}/suppressed",
    )  # fmt: skip
    size = groups * kept
    rows = t.reshape(t.op("slice", chosen, starts=(0, 2), sizes=(size, 1), steps=(1, 1)), (size,))
    nothing = t.scalar(0, "int64")
    if groups > 1:  # the best of all groups
        there = t.op("greater_equal", rows, nothing)
        value = t.op("gather", best, t.op("maximum", rows, nothing), axis=0)
        value = t.op("where", there, value, out)
        _, order = t.builder.add_all("top_k", value, k=(kept,), axis=0, sources=t.sources, name=f"{t.name}/top_k")
        rows = t.op("gather", rows, order, axis=0)
    there = t.op("greater_equal", rows, nothing)
    places = t.op("maximum", rows, nothing)

    def taken(x: Value, width: int) -> Value:
        found = t.op("where", t.reshape(there, (kept, 1)), t.op("gather", x, places, axis=0), t.scalar(0.0, "float32"))
        return t.reshape(found, (1, kept, width))

    counts = t.op("reduce_sum", t.cast(there, "int32"), axes=(0,), keep_dims=True)
    return taken(box, 4), taken(score, classes), t.reshape(t.cast(rows, "int32"), (1, kept)), counts
