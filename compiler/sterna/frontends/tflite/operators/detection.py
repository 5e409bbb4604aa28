"""Custom operators of detectors: TFLite_Detection_PostProcess and MediaPipe's transposed convolution with a bias."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from flatbuffers import flexbuffers

from sterna.errors import error
from sterna.frontends.tflite.operators.activations import dequantize
from sterna.frontends.tflite.operators.convolution import spread_convolution
from sterna.frontends.tflite.translation import QUANTIZED, Translation, Translator
from sterna.ir.graph import Value


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


def post_process(t: Translation) -> tuple[Value, ...]:
    """Boxes from their encodings relative to anchors, without those that overlap a better one, and their classes."""
    settings = custom_options(t)
    try:
        most, each = int(settings["max_detections"]), int(settings.get("max_classes_per_detection", 1))
        classes = int(settings["num_classes"])
        scales = [float(settings[f"{name}_scale"]) for name in ("y", "x", "h", "w")]
        overlap, least = float(settings["nms_iou_threshold"]), float(settings["nms_score_threshold"])
    except (KeyError, TypeError, ValueError):
        raise error("E0109", f"{t.kind} lacks a setting") from None
    if settings.get("use_regular_nms", False):
        raise t.unsupported("with one suppression per class")
    if most < 1 or each < 1 or classes < 1 or 0.0 in scales:
        raise error("E0109", f"{t.kind} has a setting that means nothing")
    boxes = _decoded(t, scales)
    batch, anchors, columns = t.sizes(t.input(1), 3)
    if batch != 1 or columns not in (classes, classes + 1) or most * each > anchors:
        raise t.unsupported(f"of {t.input(1).type} for {classes} classes and {most} detections")
    scores = _real(t, 1)
    if columns != classes:  # the background comes first
        scores = t.op("slice", scores, starts=(0, 0, 1), sizes=(1, anchors, classes), steps=(1, 1, 1))
    each = min(each, classes)
    best, labels = t.builder.add_all("top_k", scores, k=(each,), axis=2, sources=t.sources, name=f"{t.name}/top_k")
    greatest = t.op("slice", best, starts=(0, 0, 0), sizes=(1, anchors, 1), steps=(1, 1, 1))
    chosen, count = t.builder.add_all(
        "non_max_suppression", boxes, t.reshape(greatest, (1, 1, anchors)), t.constant(most, "int64"),
        t.constant(overlap, "float32"), t.constant(np.nextafter(np.float32(least), np.float32(-np.inf)), "float32"),
        size=most, sources=t.sources, name=f"{t.name}/suppressed",
    )  # fmt: skip
    rows = t.op("slice", chosen, starts=(0, 2), sizes=(most, 1), steps=(1, 1))
    rows = t.reshape(rows, (most,))
    there = t.op("greater_equal", rows, t.scalar(0, "int64"))

    def gathered(x: Value, width: int) -> Value:
        """[most, width] of the chosen anchors, zeros where there are none."""
        flat = t.reshape(x, (anchors, width))
        found = t.op("gather", flat, t.op("maximum", rows, t.scalar(0, "int64")), axis=0)
        return t.op("where", t.reshape(there, (most, 1)), found, t.scalar(0, x.dtype))

    kept = t.reshape(gathered(boxes, 4), (1, most, 4))
    if each > 1:
        kept = t.op("gather", kept, t.constant(np.repeat(np.arange(most), each), "int32"), axis=1)
    kinds = t.reshape(t.cast(gathered(labels, each), "float32"), (1, most * each))
    values = t.reshape(gathered(best, each), (1, most * each))
    total = t.op("mul", t.cast(t.reshape(count, (1,)), "float32"), t.scalar(float(each), "float32"))
    return kept, kinds, values, total


def _decoded(t: Translation, scales: list[float]) -> Value:
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


TRANSLATORS: dict[str, Translator] = {}
CUSTOM_TRANSLATORS: dict[str, Translator] = {
    "Convolution2DTransposeBias": transpose_conv_bias,
    "TFLite_Detection_PostProcess": post_process,
}
