"""Detectors: anchors, boxes from their encodings, and boxes that overlap better ones (SSD, GluonCV)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from sterna.errors import error
from sterna.frontends.mxnet.operators.ordering import ranked
from sterna.frontends.mxnet.translation import Translation, Translator
from sterna.ir.graph import Value
from sterna.ir.integer import as_int

_MOST_ANCHORS = 1 << 22


def prior_boxes(t: Translation) -> Value:
    """Anchors of every element of an image: all sizes with the first ratio, then the first size with the others."""
    height, width = t.extent(t.input(0), 2), t.extent(t.input(0), 3)
    sizes, ratios = t.said.numbers("sizes", (1.0,)), t.said.numbers("ratios", (1.0,))
    steps, offsets = t.said.numbers("steps", (-1.0, -1.0)), t.said.numbers("offsets", (0.5, 0.5))
    if not sizes or not ratios or len(steps) != 2 or len(offsets) != 2 or min(ratios) <= 0:
        raise error("E0109", f"{t.kind} with sizes {list(sizes)}, ratios {list(ratios)}")
    if height * width * (len(sizes) + len(ratios)) > _MOST_ANCHORS:
        raise error("E0112", f"{t.kind} of {height} x {width} would give too many anchors")
    down, right = (step if step > 0 else 1 / n for step, n in zip(steps, (height, width), strict=True))
    pairs = [(size, math.sqrt(ratios[0])) for size in sizes] + [(sizes[0], math.sqrt(r)) for r in ratios[1:]]
    y, x = np.meshgrid((np.arange(height) + offsets[0]) * down, (np.arange(width) + offsets[1]) * right, indexing="ij")
    rows = []
    for size, ratio in pairs:
        w, h = size * height / width * ratio / 2, size / ratio / 2
        rows.append(np.stack([x - w, y - h, x + w, y + h], -1))
    boxes = np.stack(rows, 2).reshape(1, -1, 4)
    return t.constant(np.clip(boxes, 0, 1) if t.said.flag("clip") else boxes, t.input(0).dtype)


def _columns(t: Translation, x: Value, first: int = 0, count: int = 4) -> list[Value]:
    """Elements of the last dimension, each as a tensor that ends with size 1."""
    return [t.part(x, x.type.rank - 1, first + n, 1) for n in range(count)]


def _row(t: Translation, parts: Sequence[Value]) -> Value:
    return t.op("concat", *parts, axis=parts[0].type.rank - 1)


def corners(t: Translation, boxes: Value) -> Value:
    """(left, top, right, bottom) of (middle, width, height)."""
    x, y, w, h = _columns(t, boxes)
    w, h = (t.op("mul", v, t.number(0.5, v)) for v in (w, h))
    return _row(t, [t.op("sub", x, w), t.op("sub", y, h), t.op("add", x, w), t.op("add", y, h)])


def centers(t: Translation, boxes: Value) -> Value:
    """(middle, width, height) of (left, top, right, bottom)."""
    a, b, c, d = _columns(t, boxes)
    half = t.number(0.5, boxes)
    middle = [t.op("mul", t.op("add", low, high), half) for low, high in ((a, c), (b, d))]
    return _row(t, [*middle, t.op("sub", c, a), t.op("sub", d, b)])


def overlap(t: Translation, a: Value, b: Value) -> Value:
    """The part of their union that boxes share, as corners; both broadcast, the last dimension goes."""
    zero = t.number(0, a)
    sides = []
    parts_a, parts_b = _columns(t, a), _columns(t, b)
    for n in (0, 1):
        low = t.op("maximum", parts_a[n], parts_b[n])
        high = t.op("minimum", parts_a[n + 2], parts_b[n + 2])
        sides.append(t.op("maximum", t.op("sub", high, low), zero))
    shared = t.op("mul", *sides)
    areas = [
        t.op("mul", *(t.op("maximum", t.op("sub", p[n + 2], p[n]), zero) for n in (0, 1)))
        for p in (parts_a, parts_b)
    ]  # fmt: skip
    union = t.op("sub", t.op("add", *areas), shared)
    positive = t.op("greater", union, zero)
    y = t.op("where", positive, t.op("div", shared, t.op("where", positive, union, t.number(1, a))), zero)
    return t.squeezed(y, y.type.rank - 1)


def kept_boxes(
    t: Translation, boxes: Value, classes: Value | None, valid: Value, threshold: float, *, inclusive: bool
) -> Value:
    """Which boxes no better valid one covers: bools (N, boxes), for boxes (N, boxes, 4) with the best first.

    Args:
        classes: (N, boxes); boxes of different ones do not cover each other.
        inclusive: the threshold itself is too much.
    """
    count = t.extent(boxes, 1)
    order = t.counting(count)
    limit = t.number(threshold, boxes)

    def step(number: Value, carried: list[Value]) -> tuple[list[Value], list[Value]]:
        (alive,) = carried
        place = t.reshape(t.cast(number, "int64"), [1])
        this = t.op("gather", boxes, place, axis=1)
        shared = overlap(t, this, boxes)
        covered = t.op("greater_equal" if inclusive else "greater", shared, limit)
        covered = t.op("logical_and", covered, t.op("greater", order, place))
        counts = t.op("gather", alive, place, axis=1)
        covered = t.op("logical_and", covered, t.truth(counts))
        if classes is not None:
            covered = t.op("logical_and", covered, t.op("equal", t.op("gather", classes, place, axis=1), classes))
        return [t.op("where", covered, t.number(0, alive), alive)], []

    (alive,), _ = t.repeat(count, [t.cast(valid, "int32")], step)
    return t.truth(alive)


def _by_order(t: Translation, rows: Value, places: Value) -> Value:
    """Rows (N, boxes, width) in another order (N, k)."""
    return t.op("gather_nd", rows, t.spread(places, 2), batch_dims=1)


def detection(t: Translation) -> Value:
    """MultiBoxDetection: (class, score, box) of every anchor, the best first; class -1 where nothing is, or a better
    box covers it."""
    scores, encoded, anchors = t.input(0), t.input(1), t.input(2)
    batch, classes, count = t.sizes(scores, 3)
    background = t.said.integer("background_id", 0)
    if background != 0:
        raise t.unsupported(f"with the background {background}")
    if classes < 2 or t.elements(encoded) != batch * count * 4 or t.elements(anchors) != count * 4:
        raise error("E0108", f"{t.kind} of {scores.type}, {encoded.type} and {anchors.type}")
    variances = t.said.numbers("variances", (0.1, 0.1, 0.2, 0.2))
    if len(variances) != 4:
        raise error("E0109", f"{t.kind} with variances {list(variances)}")
    objects = t.part(scores, 1, 1, classes - 1)
    best = t.op("reduce_max", objects, axes=(1,), keep_dims=False)
    labels = t.op("arg_max", objects, axis=1, keep_dims=False, last=False)
    deltas = t.reshape(encoded, [batch, count, 4])
    boxes = _decoded(t, deltas, centers(t, t.reshape(anchors, [1, count, 4])), variances)
    if t.said.flag("clip", default=True):
        boxes = t.op("clip", boxes, min=0.0, max=1.0)
    least = t.said.finite("threshold", 0.01)
    found = t.op("greater_equal", best, t.number(least, best))
    keys = t.op("where", found, best, t.number(-1, best))
    _, order = ranked(t, keys, 1, count, largest=True)
    labels = t.op("where", found, t.cast(labels, best.dtype), t.number(-1, best))
    rows = t.op("concat", t.spread(labels, 2), t.spread(best, 2), boxes, axis=2)
    rows = t.op("where", t.spread(found, 2), rows, t.number(-1, rows))
    rows = _by_order(t, rows, order)
    threshold, most = t.said.finite("nms_threshold", 0.5), t.said.integer("nms_topk", -1)
    if not 0 < threshold <= 1:
        return rows
    most = count if most <= 0 else min(most, count)
    head = t.part(rows, 1, 0, most)
    label = t.reshape(t.part(head, 2, 0, 1), [batch, most])
    valid = t.op("greater_equal", label, t.number(0, label))
    by_class = None if t.said.flag("force_suppress") else label
    kept = kept_boxes(t, t.part(head, 2, 2, 4), by_class, valid, threshold, inclusive=True)
    label = t.op("where", kept, label, t.number(-1, label))
    head = t.op("concat", t.spread(label, 2), t.part(head, 2, 1, 5), axis=2)
    if most == count:
        return head
    # What is beyond the first so many is no detection.
    rest = t.part(rows, 1, most, count - most)
    none = t.op("expand", t.number(-1, rows), shape=tuple(map(as_int, (batch, count - most, 1))))
    return t.op("concat", head, t.op("concat", none, t.part(rest, 2, 1, 5), axis=2), axis=1)


def _decoded(t: Translation, deltas: Value, anchors: Value, scales: Sequence[float]) -> Value:
    """Boxes as corners, of what they differ by from anchors (middle, width, height)."""
    dx, dy, dw, dh = (
        t.op("mul", part, t.number(scale, part)) for part, scale in zip(_columns(t, deltas), scales, strict=True)
    )
    x, y, w, h = _columns(t, anchors)
    middle = [t.op("add", t.op("mul", d, size), at) for d, size, at in ((dx, w, x), (dy, h, y))]
    sizes = [t.op("mul", t.op("exp", d), size) for d, size in ((dw, w), (dh, h))]
    return corners(t, _row(t, [*middle, *sizes]))


def box_nms(t: Translation) -> tuple[Value, ...]:
    """Rows with the best score first, without those that a better one covers; the rest is -1."""
    x = t.input(0)
    if x.type.rank < 2:
        raise error("E0108", f"{t.kind} of {x.type}")
    *outer, count, width = t.static(x)
    start, score_at = t.said.integer("coord_start", 2), t.said.integer("score_index", 1)
    label_at, background = t.said.integer("id_index", -1), t.said.integer("background_id", -1)
    if not (0 <= start <= width - 4 and 0 <= score_at < width and -1 <= label_at < width):
        raise error("E0109", f"{t.kind} of {x.type} with boxes at {start} and scores at {score_at}")
    batch = math.prod(outer)
    rows = t.reshape(x, [batch, count, width])

    def column(value: Value, n: int) -> Value:
        return t.reshape(t.part(value, 2, n, 1), [batch, t.extent(value, 1)])

    score = column(rows, score_at)
    valid = t.op("greater", score, t.number(t.said.finite("valid_thresh", 0.0), score))
    if label_at >= 0 and background >= 0:
        label = column(rows, label_at)
        other = t.op("logical_not", t.op("equal", label, t.number(background, label)))
        valid = t.op("logical_and", valid, other)
    # Invalid rows come last, whatever their score is.
    keys = t.op("where", valid, score, t.number(-3e38 if score.dtype != "float16" else -6.5e4, score))
    most = t.said.integer("topk", -1)
    most = count if most < 1 else min(most, count)
    _, order = ranked(t, keys, 1, most, largest=True)
    rows = _by_order(t, rows, order)
    valid = t.truth(_by_order(t, t.spread(t.cast(valid, "int32"), 2), order))
    valid = t.reshape(valid, [batch, most])
    boxes = t.part(rows, 2, start, 4)
    formats = [t.said.choice(name, "corner", "corner", "center") for name in ("in_format", "out_format")]
    as_corners = corners(t, boxes) if formats[0] == "center" else boxes
    labels = None if label_at < 0 or t.said.flag("force_suppress") else column(rows, label_at)
    kept = kept_boxes(t, as_corners, labels, valid, t.said.finite("overlap_thresh", 0.5), inclusive=False)
    if formats[0] != formats[1]:
        boxes = as_corners if formats[1] == "corner" else centers(t, boxes)
        parts = [(0, start), (start + 4, width - start - 4)]
        left, right = (t.part(rows, 2, first, size) if size else None for first, size in parts)
        rows = t.op("concat", *(part for part in (left, boxes, right) if part is not None), axis=2)
    # Those that are kept move up.
    rank = t.op("where", kept, t.op("sub", t.scalar(most, "int64"), t.counting(most)), t.scalar(0, "int64"))
    _, order = ranked(t, t.cast(rank, "float32"), 1, most, largest=True)
    rows = t.op("where", t.spread(kept, 2), rows, t.number(-1, rows))
    rows = t.pad(_by_order(t, rows, order), (0, 0, 0), (0, count - most, 0), value=-1)
    return (t.reshape(rows, [*outer, count, width]),)


def box_iou(t: Translation) -> Value:
    a, b = t.input(0), t.input(1)
    if t.said.choice("format", "corner", "corner", "center") == "center":
        a, b = corners(t, a), corners(t, b)
    first, second = a.shape[:-1], b.shape[:-1]
    a = t.reshape(a, [*first, *[1] * len(second), 4])
    return overlap(t, a, t.reshape(b, [*[1] * len(first), *second, 4]))


def box_decode(t: Translation) -> Value:
    deltas, anchors = t.input(0), t.input(1)
    if t.said.choice("format", "center", "corner", "center") == "corner":
        anchors = centers(t, anchors)
    scales = tuple(t.said.finite(f"std{n}", 1.0) for n in range(4))
    limit = t.said.number("clip", -1.0)
    if limit > 0:
        dx, dy, dw, dh = _columns(t, deltas)
        # The limit is of the logarithm, after its scale.
        low = [t.op("minimum", d, t.number(limit / s, d)) for d, s in zip((dw, dh), scales[2:], strict=True)]
        deltas = _row(t, [dx, dy, *low])
    return _decoded(t, deltas, anchors, scales)


TRANSLATORS: dict[str, Translator] = {
    **dict.fromkeys(("_contrib_MultiBoxDetection", "_npx_multibox_detection", "MultiBoxDetection"), detection),
    **dict.fromkeys(("_contrib_MultiBoxPrior", "_npx_multibox_prior", "MultiBoxPrior"), prior_boxes),
    "_contrib_box_decode": box_decode,
    "_contrib_box_iou": box_iou,
    **dict.fromkeys(("_contrib_box_nms", "_contrib_box_non_maximum_suppression"), box_nms),
}
