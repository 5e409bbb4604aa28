"""Images: resizing by each of TensorFlow's conventions, cutting boxes out, and choosing boxes."""

from __future__ import annotations

from typing import Any

import numpy as np

from sterna.errors import error
from sterna.frontends.cropping import crops
from sterna.frontends.soft_suppression import soft_suppressed
from sterna.frontends.tensorflow.translation import Translation, Translator
from sterna.frontends.tflite.operators import reductions
from sterna.ir.graph import Array, Value

#: Elements of a matrix that resizes an axis, and images of a batch whose boxes are chosen.
_LARGEST, _MOST_IMAGES = 1 << 24, 256


def bilinear(t: Translation) -> Any:
    """The result is float32, whatever the image is."""
    return reductions.resize_bilinear(t.again(t.cast(t.input(0), "float32"), t.item(1)))  # type: ignore[arg-type]


def nearest(t: Translation) -> Any:
    return reductions.resize_nearest(t)  # type: ignore[arg-type]


def _matrix(t: Translation, size: int, result: int, rows: Array, axis: int, x: Value) -> Value:
    """An axis of images multiplied by a matrix."""
    weights = t.constant(rows.astype(np.float32))  # (result, size)
    order = [n for n in range(4) if n != axis] + [axis]
    moved = t.op("matmul", t.transpose(x, order), t.transpose(weights, (1, 0)))
    return t.transpose(moved, [order.index(n) for n in range(4)])


def area(t: Translation) -> Value:
    """ResizeArea: every new pixel is the mean of what it covers."""
    return _by_matrices(t, _area_rows)


def _area_rows(size: int, result: int, aligned: bool, half: bool) -> Array:
    scale = _scale(size, result, aligned)
    rows = np.zeros((result, size))
    for n in range(result):
        first, last = n * scale, (n + 1) * scale
        for at in range(int(np.floor(first)), int(np.ceil(last))):
            rows[n, min(max(at, 0), size - 1)] += min(last, at + 1) - max(first, at)
    return rows / scale


def bicubic(t: Translation) -> Value:
    """ResizeBicubic: Keys' kernel of -0.75, or of -0.5 with half pixel centers, without what lies outside."""
    return _by_matrices(t, _cubic_rows)


def _cubic_rows(size: int, result: int, aligned: bool, half: bool) -> Array:
    scale = _scale(size, result, aligned)
    a = -0.5 if half else -0.75
    rows = np.zeros((result, size))
    for n in range(result):
        at = (n + 0.5) * scale - 0.5 if half else n * scale
        low = int(np.floor(at))
        # The part of the way is one of 1024 steps, as TensorFlow's table has it.
        part = np.rint((at - low) * 1024) / 1024
        weights = []
        for k in range(-1, 3):
            d = abs(part - k)
            near = ((a + 2) * d - (a + 3)) * d * d + 1
            weights.append(near if d <= 1 else ((a * d - 5 * a) * d + 8 * a) * d - 4 * a if d < 2 else 0.0)
        if half:
            weights = [w if 0 <= low + k < size else 0.0 for k, w in zip(range(-1, 3), weights, strict=True)]
            total = sum(weights)
            weights = [w / total for w in weights] if abs(total) >= 1000 * np.finfo(np.float32).tiny else weights
        for k, w in zip(range(-1, 3), weights, strict=True):
            rows[n, min(max(low + k, 0), size - 1)] += w
    return rows


def _scale(size: int, result: int, aligned: bool) -> float:
    return float(
        np.float32(size - 1) / np.float32(result - 1)
        if aligned and result > 1
        else np.float32(size) / np.float32(result)
    )


def _by_matrices(t: Translation, rows: Any) -> Value:
    x, wanted = t.cast(t.input(0), "float32"), t.integers(1, "sizes")
    if x.type.rank != 4 or len(wanted) != 2 or min(wanted) < 1:
        raise error("E0108", f"{t.kind} of {x.type} to {wanted}")
    aligned, half = bool(t.option("align_corners", False)), bool(t.option("half_pixel_centers", False))
    for axis, result in zip((1, 2), wanted, strict=True):
        size = t.extent(x, axis)
        if size * result > _LARGEST:
            raise error("E0112", f"{t.kind} of {x.type} to {wanted} is too large")
        x = _matrix(t, size, result, rows(size, result, aligned, half), axis, x)
    return x


def crop_and_resize(t: Translation) -> Value:
    """Boxes (y, x, y, x) from 0 to 1 of images, each of one size; what lies outside is `extrapolation_value`."""
    image, boxes, which = t.input(0), t.input(1), t.input(2)
    height, width = t.integers(3, "the sizes")
    _, rows, columns, depth = image.shape
    if not (rows.is_const and columns.is_const and depth.is_const):
        raise t.open_sizes(image)
    count = boxes.shape[0]
    image = t.cast(image, "float32")

    def places(first: int, extent: int, result: int) -> Value:
        """(boxes, result) positions in the image."""
        column = [t.op("slice", boxes, starts=(0, n), sizes=(count, 1), steps=(1, 1)) for n in (first, first + 2)]
        last = float(extent - 1)
        if result == 1:
            return t.op("mul", t.op("add", *column), t.scalar(0.5 * last, "float32"))
        step = t.op("mul", t.op("sub", column[1], column[0]), t.scalar(last / (result - 1), "float32"))
        counted = t.reshape(t.counting(result, "float32"), (1, result))
        return t.op("add", t.op("mul", column[0], t.scalar(last, "float32")), t.op("mul", counted, step))

    y, x = places(0, int(rows), height), places(1, int(columns), width)
    outside = float(t.option("extrapolation_value", 0.0))
    return crops(t, image, which, y, x, outside, nearest=t.option("method", "bilinear") == "nearest")


# ---------------------------------------------------------------- boxes
def suppress(t: Translation) -> tuple[Value, ...]:
    """NonMaxSuppression to V5: as many boxes as are left; with `pad_to_max_output_size`, as many as are asked for."""
    boxes, scores = t.cast(t.input(0), "float32"), t.cast(t.input(1), "float32")
    most = t.integer_of(2, "the most boxes")
    overlap = (
        float(t.option("iou_threshold", 0.5)) if t.kind == "NonMaxSuppression" else float(t.scalar_of(3, "an overlap"))
    )
    least = float(t.scalar_of(4, "a score")) if len(t.items) > 4 else -np.inf
    count = scores.shape[0]
    if boxes.type.rank != 2 or scores.type.rank != 1 or most < 0:
        raise error("E0108", f"{most} of boxes {boxes.type} with scores {scores.type}")
    sigma = float(t.scalar_of(5, "a sigma")) if len(t.items) > 5 else 0.0
    if sigma > 0.0:
        return _softly(t, boxes, scores, most, least, sigma)
    chosen, found = t.builder.add_all(
        "non_max_suppression", t.reshape(boxes, (1, count, 4)), t.reshape(scores, (1, 1, count)),
        t.constant(most, "int64"), t.constant(np.float32(overlap)), t.constant(np.float32(least)),
        size=max(most, 1), sources=t.sources, name=f"{t.name}/suppressed",
    )  # fmt: skip
    padded = bool(t.option("pad_to_max_output_size", False))
    if padded:
        kept: Any = most
    else:
        kept = t.builder.bind_size(found, t.builder.name("boxes"), 0, most, sources=t.sources)
    rows = t.reshape(t.op("slice", chosen, starts=(0, 2), sizes=(kept, 1), steps=(1, 1)), (kept,))
    there = t.op("greater_equal", rows, t.scalar(0, "int64"))
    rows = t.op("maximum", rows, t.scalar(0, "int64"))
    places, total = t.cast(rows, "int32"), t.cast(t.reshape(found, ()), "int32")
    if t.kind == "NonMaxSuppressionV5":
        best = t.op("where", there, t.op("gather", scores, rows, axis=0), t.scalar(0, "float32"))
        return places, t.cast(best, t.input(1).dtype), total
    return places, total


def _softly(t: Translation, boxes: Value, scores: Value, most: int, least: float, sigma: float) -> tuple[Value, ...]:
    """NonMaxSuppressionV5 with a sigma: boxes that overlap a chosen one keep exp(-iou^2 / (2 sigma)) of their score.

    With a sigma the kernel does not look at the limit of overlap.
    """
    limit, kind = min(most, t.extent(scores, 0)), t.input(1).dtype
    padded = bool(t.option("pad_to_max_output_size", False))
    if limit == 0:
        none, size = t.scalar(0, "int32"), most if padded else 0
        return t.op("expand", none, shape=(size,)), t.op("expand", t.scalar(0, kind), shape=(size,)), none
    places, best, found = soft_suppressed(t, boxes, scores, limit, least, sigma)
    if padded:
        wide = [t.pad(each, (0,), (most - limit,)) for each in (places, best)]
        return t.cast(wide[0], "int32"), t.cast(wide[1], kind), t.cast(found, "int32")
    kept = t.builder.bind_size(found, t.builder.name("boxes"), 0, limit, sources=t.sources)
    cut = [t.op("slice", each, starts=(0,), sizes=(kept,), steps=(1,)) for each in (places, best)]
    return t.cast(cut[0], "int32"), t.cast(cut[1], kind), t.cast(found, "int32")


def combined(t: Translation) -> tuple[Value, ...]:
    """CombinedNonMaxSuppression: each class for itself, then the best of all; boxes (batch, boxes, 1 or classes, 4)."""
    boxes, scores = t.input(0), t.input(1)
    batch, count, classes = t.sizes(scores, 3)
    _, _, q, _ = t.sizes(boxes, 4)
    if batch > _MOST_IMAGES:
        raise t.unsupported(f"of {batch} images")
    each, most = t.integer_of(2, "the most of a class"), t.integer_of(3, "the most")
    overlap, least = float(t.scalar_of(4, "an overlap")), float(t.scalar_of(5, "a score"))
    per_class = bool(t.option("pad_per_class", False))
    size = min(most, each * classes) if per_class else most
    each = min(each, count)
    results: list[list[Value]] = [[], [], [], []]
    for n in range(batch):
        corner = t.op("slice", boxes, starts=(n, 0, 0, 0), sizes=(1, count, q, 4), steps=(1,) * 4)
        corner = t.transpose(t.reshape(corner, (count, q, 4)), (1, 0, 2))
        if q != classes:
            corner = t.op("expand", corner, shape=(classes, count, 4))
        flat = t.reshape(corner, (classes * count, 4))
        points = t.op("slice", scores, starts=(n, 0, 0), sizes=(1, count, classes), steps=(1,) * 3)
        points = t.transpose(t.reshape(points, (count, classes)), (1, 0))
        chosen, _ = t.builder.add_all(
            "non_max_suppression", corner, t.reshape(points, (classes, 1, count)), t.constant(each, "int64"),
            t.constant(np.float32(overlap)), t.constant(np.float32(least)), size=classes * each,
            sources=t.sources, name=f"{t.name}/suppressed",
        )  # fmt: skip
        columns = [
            t.reshape(t.op("slice", chosen, starts=(0, c), sizes=(classes * each, 1), steps=(1, 1)), (classes * each,))
            for c in (0, 2)
        ]
        none = t.scalar(0, "int64")
        there = t.op("greater_equal", columns[1], none)
        kind, row = (t.op("maximum", c, none) for c in columns)
        place = t.op("add", t.op("mul", kind, t.scalar(count, "int64")), row)
        value = t.op("gather", t.reshape(points, (classes * count,)), place, axis=0)
        value = t.op("where", there, value, t.scalar(-np.inf, "float32"))
        taken = min(size, classes * each)
        best, order = t.builder.add_all("top_k", value, k=(taken,), axis=0, sources=t.sources, name=f"{t.name}/top_k")
        held = t.op("greater", best, t.scalar(-np.inf, "float32"))
        zero = t.scalar(0.0, "float32")
        corners = t.op("gather", flat, t.op("gather", place, order, axis=0), axis=0)
        if t.option("clip_boxes", True):
            corners = t.op("clip", corners, min=0.0, max=1.0)
        corners = t.op("where", t.reshape(held, (taken, 1)), corners, zero)
        kinds = t.op("where", held, t.cast(t.op("gather", kind, order, axis=0), "float32"), zero)
        best = t.op("where", held, best, zero)
        results[0].append(t.reshape(t.pad(corners, (0, 0), (size - taken, 0)), (1, size, 4)))
        results[1].append(t.reshape(t.pad(best, (0,), (size - taken,)), (1, size)))
        results[2].append(t.reshape(t.pad(kinds, (0,), (size - taken,)), (1, size)))
        results[3].append(t.op("reduce_sum", t.cast(held, "int32"), axes=(0,), keep_dims=True))
    joined = [column[0] if batch == 1 else t.op("concat", *column, axis=0) for column in results]
    return tuple(joined)


TRANSLATORS: dict[str, Translator] = {
    "CombinedNonMaxSuppression": combined, "CropAndResize": crop_and_resize, "NonMaxSuppression": suppress,
    "NonMaxSuppressionV2": suppress, "NonMaxSuppressionV3": suppress, "NonMaxSuppressionV4": suppress,
    "NonMaxSuppressionV5": suppress, "ResizeArea": area, "ResizeBicubic": bicubic, "ResizeBilinear": bilinear,
    "ResizeNearestNeighbor": nearest,
}  # fmt: skip
