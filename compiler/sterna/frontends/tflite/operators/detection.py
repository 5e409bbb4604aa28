"""Custom operators of detectors: TFLite_Detection_PostProcess and MediaPipe's transposed convolution with a bias."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from flatbuffers import flexbuffers

from sterna.errors import error
from sterna.frontends.tflite.operators.activations import dequantize
from sterna.frontends.tflite.operators.convolution import spread_convolution
from sterna.frontends.tflite.translation import QUANTIZED, Translation, Translator
from sterna.ir.graph import Value
from sterna.ir.limits import counting


def custom_options(t: Translation) -> dict[str, Any]:
    """The settings of a custom operator that are a flexbuffer.

    Raises:
        SternaError: E0109, they are not.
    """
    try:
        settings = flexbuffers.Loads(t.node.custom)
    except Exception:  # whatever a malformed buffer makes the reader trip over
        settings = None
    if not isinstance(settings, dict):
        raise error("E0109", f"the settings of {t.kind} cannot be read")
    return settings


def _real(t: Translation, position: int) -> Value:
    """An operand in float32."""
    x = t.input(position)
    if x.dtype not in QUANTIZED:
        return x
    single = Translation(t.node, t.name, [x], t.builder, [t.info(position)], t.results, t.origin)
    return dequantize(single)


@dataclass(frozen=True)
class _Settings:
    """What TFLite_Detection_PostProcess is told.

    Args:
        most: detections in the result; each: classes of a detection; per_class: detections of a class, where each class
            is suppressed for itself.
        scales: of y, x, height and width in the encodings.
        overlap: the part of their union that two boxes may share; least: the score that a detection needs.
    """

    most: int
    each: int
    per_class: int
    classes: int
    scales: tuple[float, ...]
    overlap: float
    least: float
    is_regular: bool

    @staticmethod
    def of(t: Translation) -> _Settings:
        """The settings of an operator.

        Raises:
            SternaError: E0109, one is missing or means nothing.
        """
        given = custom_options(t)
        try:
            settings = _Settings(
                int(given["max_detections"]),
                int(given.get("max_classes_per_detection", 1)),
                int(given.get("detections_per_class", 100)),
                int(given["num_classes"]),
                tuple(float(given[f"{name}_scale"]) for name in ("y", "x", "h", "w")),
                float(given["nms_iou_threshold"]),
                float(given["nms_score_threshold"]),
                bool(given.get("use_regular_nms", False)),
            )
        except (KeyError, TypeError, ValueError):
            raise error("E0109", f"{t.kind} lacks a setting") from None
        if min(settings.most, settings.each, settings.classes, settings.per_class) < 1 or 0.0 in settings.scales:
            raise error("E0109", f"{t.kind} has an invalid setting")
        return settings


def post_process(t: Translation) -> tuple[Value, ...]:
    """Boxes from their encodings relative to anchors, without those that overlap a better one, and their classes."""
    settings = _Settings.of(t)
    boxes = _decoded(t, settings.scales)
    batch, anchors, columns = t.sizes(t.input(1), 3)
    classes = settings.classes
    if batch != 1 or columns not in (classes, classes + 1):
        raise t.unsupported(f"of {t.input(1).type} for {classes} classes")
    scores = _real(t, 1)
    if columns != classes:  # the background comes first
        scores = t.op("slice", scores, starts=(0, 0, 1), sizes=(1, anchors, classes), steps=(1, 1, 1))
    return (_by_class if settings.is_regular else _of_all_classes)(t, settings, boxes, scores)


def _suppressed(t: Translation, settings: _Settings, boxes: Value, scores: Value, most: int) -> tuple[Value, Value]:
    """Rows (0, class, anchor) of the boxes that no better one of their class covers, at most so many of each, then
    rows of -1; and how many there are."""
    _, classes, _ = t.static(scores)
    # Scores count from the least on, not above it.
    least = np.nextafter(np.float32(settings.least), np.float32(-np.inf))
    chosen, count = t.builder.add_all(
        "non_max_suppression", boxes, scores, t.constant(most, "int64"), t.constant(settings.overlap, "float32"),
        t.constant(least, "float32"), size=classes * most, sources=t.sources, name=f"{t.name}/suppressed",
    )  # fmt: skip
    return chosen, count


def non_max_suppression(t: Translation) -> tuple[Value, ...]:
    """The best boxes that no better one covers, then zeros; the fifth version gives their scores too."""
    boxes, scores, most = t.input(0), t.input(1), t.integer_of(2, "the most boxes")
    overlap, least = np.float32(t.scalar_of(3, "an overlap")), np.float32(t.scalar_of(4, "a score"))
    if t.has(5) and t.scalar_of(5, "a sigma") != 0.0:
        raise t.unsupported("that lowers scores by how much boxes overlap (soft)")
    anchors, width = t.sizes(boxes, 2)
    if width != 4 or t.sizes(scores, 1) != (anchors,) or most < 0 or not overlap > 0:
        raise error("E0108", f"{most} of boxes {boxes.type} with scores {scores.type}, overlaps of {overlap:g}")
    # An overlap as large as that suppresses too.
    limit = np.nextafter(overlap, np.float32(-np.inf))
    chosen, count = t.builder.add_all(
        "non_max_suppression", t.reshape(boxes, (1, anchors, 4)), t.reshape(scores, (1, 1, anchors)),
        t.constant(most, "int64"), t.constant(limit, "float32"), t.constant(least, "float32"),
        size=max(most, 1), sources=t.sources, name=f"{t.name}/suppressed",
    )  # fmt: skip
    rows = _column(t, t.op("slice", chosen, starts=(0, 0), sizes=(most, 3), steps=(1, 1)), 2)
    places = t.cast(t.op("maximum", rows, t.scalar(0, "int64")), "int32")
    total = t.cast(t.reshape(count, ()), "int32")
    if t.kind == "NON_MAX_SUPPRESSION_V4":
        return places, total
    return places, t.reshape(_chosen(t, t.reshape(scores, (1, anchors)), 1, rows), (most,)), total


def _column(t: Translation, rows: Value, n: int) -> Value:
    count, _ = t.static(rows)
    return t.reshape(t.op("slice", rows, starts=(0, n), sizes=(count, 1), steps=(1, 1)), (count,))


def _chosen(t: Translation, x: Value, width: int, rows: Value) -> Value:
    """[len(rows), width] of the chosen anchors, zeros where there are none."""
    (count,), (_, anchors, *_) = t.static(rows), t.static(x)
    none = t.scalar(0, "int64")
    there = t.reshape(t.op("greater_equal", rows, none), (count, 1))
    found = t.op("gather", t.reshape(x, (anchors, width)), t.op("maximum", rows, none), axis=0)
    return t.op("where", there, found, t.scalar(0, x.dtype))


def _of_all_classes(t: Translation, settings: _Settings, boxes: Value, scores: Value) -> tuple[Value, ...]:
    """The fast way: an anchor stands for its best classes, and the best of them suppresses."""
    _, anchors, classes = t.static(scores)
    most, each = settings.most, min(settings.each, classes)
    best, labels = t.builder.add_all("top_k", scores, k=(each,), axis=2, sources=t.sources, name=f"{t.name}/top_k")
    greatest = t.op("slice", best, starts=(0, 0, 0), sizes=(1, anchors, 1), steps=(1, 1, 1))
    chosen, count = _suppressed(t, settings, boxes, t.reshape(greatest, (1, 1, anchors)), most)
    rows = _column(t, chosen, 2)

    def of_each(x: Value) -> Value:
        """As many columns as classes are asked for; there may be fewer."""
        padded = t.pad(_chosen(t, x, each, rows), (0, 0), (0, settings.each - each))
        return t.reshape(t.cast(padded, "float32"), (1, most * settings.each))

    kept = t.reshape(_chosen(t, boxes, 4, rows), (1, most, 4))
    if settings.each > 1:
        kept = t.op("gather", kept, t.constant(counting(most * settings.each) // settings.each, "int32"), axis=1)
    return kept, of_each(labels), of_each(best), t.cast(t.reshape(count, (1,)), "float32")


def _by_class(t: Translation, settings: _Settings, boxes: Value, scores: Value) -> tuple[Value, ...]:
    """The regular way: every class suppresses for itself, then the best of all that are left."""
    _, anchors, classes = t.static(scores)
    per_class = min(settings.per_class, anchors)
    turned = t.transpose(scores, (0, 2, 1))
    chosen, _ = _suppressed(t, settings, boxes, turned, per_class)
    labels, rows = _column(t, chosen, 1), _column(t, chosen, 2)
    none = t.scalar(0, "int64")
    there = t.op("greater_equal", rows, none)
    place = t.op("add", t.op("mul", labels, t.scalar(anchors, "int64")), rows)
    found = t.op("gather", t.reshape(turned, (classes * anchors,)), t.op("maximum", place, none), axis=0)
    values = t.op("where", there, found, t.scalar(-np.inf, "float32"))
    count, most = min(settings.most, classes * per_class), settings.most
    best, order = t.builder.add_all("top_k", values, k=(count,), axis=0, sources=t.sources, name=f"{t.name}/top_k")
    last = t.op("gather", rows, order, axis=0)
    missing = t.op("less", last, none)
    kinds = t.op("where", missing, t.scalar(0.0, "float32"), t.cast(t.op("gather", labels, order, axis=0), "float32"))
    total = t.op("reduce_sum", t.cast(t.op("logical_not", missing), "float32"), axes=(0,), keep_dims=True)
    best = t.op("where", missing, t.scalar(0.0, "float32"), best)
    kept = t.pad(_chosen(t, boxes, 4, last), (0, 0), (most - count, 0))
    kinds, best = (t.reshape(t.pad(x, (0,), (most - count,)), (1, most)) for x in (kinds, best))
    return t.reshape(kept, (1, most, 4)), kinds, best, total


def _decoded(t: Translation, scales: Sequence[float]) -> Value:
    """Corners (y, x, y, x) of every anchor's box."""
    codes, anchors = _real(t, 0), _real(t, 2)
    batch, count, width = t.sizes(codes, 3)
    if batch != 1 or width < 4 or t.static(anchors) != (count, 4):
        raise error("E0108", f"boxes {codes.type} and anchors {anchors.type} do not fit together")

    def column(x: Value, n: int) -> Value:
        rank = x.type.rank
        starts, sizes = [0] * rank, list(t.static(x))
        starts[-1], sizes[-1] = n, 1
        return t.reshape(t.op("slice", x, starts=tuple(starts), sizes=tuple(sizes), steps=(1,) * rank), (1, count, 1))

    corners = []
    for n in range(2):
        size = column(anchors, 2 + n)
        place = t.op("div", column(codes, n), t.scalar(scales[n], "float32"))
        center = t.op("add", t.op("mul", place, size), column(anchors, n))
        length = t.op("exp", t.op("div", column(codes, 2 + n), t.scalar(scales[2 + n], "float32")))
        half = t.op("mul", t.op("mul", t.scalar(0.5, "float32"), length), size)
        corners.append((t.op("sub", center, half), t.op("add", center, half)))
    (top, bottom), (left, right) = corners
    return t.op("concat", top, left, bottom, right, axis=2)


def transpose_conv_bias(t: Translation) -> Value:
    """MediaPipe's Convolution2DTransposeBias."""
    if len(t.node.custom) != 12:
        raise error("E0109", f"the settings of {t.kind} cannot be read")
    kind, *strides = struct.unpack("<iii", t.node.custom)
    x, w = t.input(0), t.input(1)
    _, *sizes, _ = t.sizes(x, 4)
    _, *extents, _ = t.sizes(w, 4)
    width, height = strides
    steps = (height, width)
    if min(steps) < 1 or kind not in (1, 2) or x.dtype != "float32":
        raise t.unsupported(f"with padding {kind}, strides {list(steps)} and {x.dtype}")
    same = kind == 1
    wanted = [
        size * stride if same else (size - 1) * stride + extent
        for size, stride, extent in zip(sizes, steps, extents, strict=True)
    ]
    y = spread_convolution(t, x, w, wanted, steps, same)
    return t.op("add", y, t.input(2)) if t.has(2) else y


TRANSLATORS: dict[str, Translator] = {
    "NON_MAX_SUPPRESSION_V4": non_max_suppression,
    "NON_MAX_SUPPRESSION_V5": non_max_suppression,
}
CUSTOM_TRANSLATORS: dict[str, Translator] = {
    "Convolution2DTransposeBias": transpose_conv_bias,
    "TFLite_Detection_PostProcess": post_process,
}
