"""Operations that sample images: at grids of points, in boxes, and after affine maps."""

from __future__ import annotations

from sterna.errors import error
from sterna.frontends.coreml.mil.translation import Translation, Translator
from sterna.frontends.coreml.sampling import DEFAULT, box_points, resized, upsampling_of
from sterna.frontends.coreml.suppression import suppressed
from sterna.frontends.cropping import crops
from sterna.frontends.standard import standard
from sterna.ir.graph import Value
from sterna.ir.integer import as_int

#: Which of a box's four numbers are start (or centre) and end (or size) of its height, and of its width.
_BOXES = {
    "CORNERS_HEIGHT_FIRST": ((0, 2), (1, 3)), "CORNERS_WIDTH_FIRST": ((1, 3), (0, 2)),
    "CENTER_SIZE_HEIGHT_FIRST": ((0, 2), (1, 3)), "CENTER_SIZE_WIDTH_FIRST": ((1, 3), (0, 2)),
}  # fmt: skip
_PADDING = {"constant": "zeros", "border": "border", "reflection": "reflection", "symmetric": "reflection"}
_NORMALIZED = "normalized_minus_one_to_one"


def _column(t: Translation, x: Value, n: int) -> Value:
    return t.op("slice", x, starts=(0, n), sizes=(x.shape[0], 1), steps=(1, 1))


def _crop_resize(t: Translation) -> Value:
    """Boxes of images, each of one size. To operator set CoreML6 boxes are (N, 1, 4, 1, 1), all of all images, or
    (N, 1, 5, 1, 1) with the image's number; from CoreML7 on (N, 4), with `box_indices`."""
    x = t.arg("x")
    batch, channels, rows, columns = t.sizes(x, 4)
    height, width = t.integer("target_height", 1), t.integer("target_width", 1)
    kind, mode = t.text("box_coordinate_mode", "CORNERS_HEIGHT_FIRST"), t.text("sampling_mode", DEFAULT)
    if kind not in _BOXES or height < 1 or width < 1:
        raise error("E0109", f"boxes {kind} of {height} x {width}")
    old = t.given("roi")
    boxes = t.cast(t.arg("roi" if old else "boxes"), "float32")
    if old:
        boxes = t.reshape(boxes, (boxes.shape[0], t.extent(boxes, 2)))
    count = boxes.shape[0]
    images: Value | None = None
    if old and t.extent(boxes, 1) == 5:
        images = t.cast(_column(t, boxes, 0), "int32")
        boxes = t.op("slice", boxes, starts=(0, 1), sizes=(count, 4), steps=(1, 1))
    elif not old:
        given = t.maybe("box_indices")
        images = t.counting(count, "int32") if given is None else t.cast(given, "int32")
    if boxes.type.rank != 2 or t.extent(boxes, 1) != 4:
        raise error("E0108", f"boxes are {boxes.type}")
    total = count if images is not None else count * batch
    if images is None:
        shape = (count, batch, 4)
        boxes = t.reshape(t.op("expand", t.reshape(boxes, (count, 1, 4)), shape=shape), (total, 4))
        images = t.op("expand", t.reshape(t.counting(batch, "int32"), (1, batch)), shape=(count, batch))
    images = t.reshape(images, (total,))
    scale, normalized = float(t.number("spatial_scale", 1.0)), t.flag("normalized_coordinates")

    def points(which: tuple[int, int], extent: int, wanted: int) -> Value:
        first, last = (_column(t, boxes, n) for n in which)
        factor = t.scalar(scale * (extent - 1 if normalized else 1), "float32")
        first, last = t.op("mul", first, factor), t.op("mul", last, factor)
        if kind.startswith("CENTER"):
            half = t.op("mul", last, t.scalar(0.5, "float32"))
            first, last = t.op("sub", first, half), t.op("add", first, half)
        return box_points(t, mode, first, last, wanted)

    vertical, horizontal = _BOXES[kind]
    y, x_ = points(vertical, rows, height), points(horizontal, columns, width)
    made = crops(t, t.cast(t.transpose(x, (0, 2, 3, 1)), "float32"), images, y, x_, float(t.number("pad_value", 0.0)))
    made = t.cast(t.transpose(made, (0, 3, 1, 2)), x.dtype)
    if not old:
        return made
    return t.reshape(made, (count, total // count if count.is_const else batch, channels, height, width))


def _sampled(t: Translation, x: Value, grid: Value, pixels: bool, corners: bool) -> Value:
    """`x` at (B, H, W, 2) columns and rows, by the settings of `resample`.

    Args:
        pixels: the grid counts elements; else it has shares from -1 to 1, where the outermost are the centres of
            elements (`corners`), or their outer edges.
    """
    mode = {"bilinear": "linear", "nearest": "nearest"}.get(t.text("sampling_mode").lower())
    kind = t.text("padding_mode").lower()
    if mode is None or kind not in _PADDING:
        raise t.unsupported(f"with {t.text('sampling_mode')} and {kind}")
    # Reflection at centres is that of shares between centres, reflection at edges that of shares between edges.
    wanted = corners and not pixels if kind in ("constant", "border") else kind == "reflection"
    rows, columns = t.extent(x, 2), t.extent(x, 3)
    if wanted and min(rows, columns) == 1:
        wanted = False if kind != "reflection" else wanted
        if kind == "reflection":
            raise t.unsupported("that reflects at a single element")
    if pixels or wanted != corners:
        scales, shifts = [], []
        for size in (columns, rows):
            # share -> element -> share of the wanted kind
            a, b = (1.0, 0.0) if pixels else ((size - 1) / 2,) * 2 if corners else (size / 2, (size - 1) / 2)
            scales.append(a * 2 / (size - 1) if wanted else a * 2 / size)
            shifts.append(b * 2 / (size - 1) - 1 if wanted else (2 * b + 1) / size - 1)
        grid = t.op("mul", grid, t.constant(scales, "float32"))
        grid = t.op("add", grid, t.constant(shifts, "float32"))
    value = float(t.number("padding_value", 0.0)) if kind == "constant" else 0.0
    moved = t.op("sub", x, t.scalar(value, x.dtype)) if value else x
    made = standard(
        t, "GridSample", moved, t.cast(grid, x.dtype), mode=mode, padding_mode=_PADDING[kind], align_corners=int(wanted)
    )
    return t.op("add", made, t.scalar(value, x.dtype)) if value else made


def _resample(t: Translation) -> Value:
    x, grid = t.arg("x"), t.cast(t.arg("coordinates"), "float32")
    if x.type.rank != 4 or grid.type.rank != 4 or t.extent(grid, 3) != 2:
        raise error("E0108", f"{x.type} at {grid.type}")
    kind = t.text("coordinates_mode").lower()
    if kind not in ("unnormalized", _NORMALIZED, "normalized_zero_to_one"):
        raise error("E0109", f"there are no coordinates called {kind}")
    if kind == "normalized_zero_to_one":
        grid = t.op("sub", t.op("mul", grid, t.scalar(2.0, "float32")), t.scalar(1.0, "float32"))
    return _sampled(t, x, grid, kind == "unnormalized", t.flag("align_corners"))


def _affine(t: Translation) -> Value:
    """The elements of an image at where a matrix (D, 6) takes those of the result, in shares from -1 to 1."""
    x, matrix = t.arg("x"), t.cast(t.arg("transform_matrix"), "float32")
    if x.type.rank != 4 or matrix.type.rank != 2 or t.extent(matrix, 1) != 6:
        raise error("E0108", f"{x.type} moved by {matrix.type}")
    if t.text("coordinates_mode").lower() != _NORMALIZED or not t.flag("align_corners"):
        raise t.unsupported("with coordinates but those from -1 to 1 at the centres of corners")
    height, width = t.integer("output_height"), t.integer("output_width")
    batch, channels = x.shape[0], x.shape[1]
    matrix = t.reshape(t.op("expand", matrix, shape=(batch, as_int(6))), (batch, 2, 3))
    sizes = t.dimensions((batch, channels, as_int(height), as_int(width)))
    grid = standard(t, "AffineGrid", matrix, t.cast(sizes, "int64"), align_corners=1)
    return _sampled(t, x, grid, pixels=False, corners=True)


def _upscaled(t: Translation) -> list[int]:
    x = t.arg("x")
    return [upsampling_of(t.extent(x, n - 2), t.number(name, 1)) for n, name in enumerate(_SCALES)]


_SCALES = ("scale_factor_height", "scale_factor_width")


def _resize_bilinear(t: Translation) -> Value:
    sizes = [t.integer("target_size_height", 1), t.integer("target_size_width", 1)]
    return resized(t, t.arg("x"), sizes, True, t.text("sampling_mode", DEFAULT))


def _resize_nearest(t: Translation) -> Value:
    sizes = [t.integer("target_size_height", 1), t.integer("target_size_width", 1)]
    return resized(t, t.arg("x"), sizes, False, DEFAULT)


def _resize(t: Translation) -> Value:
    """The last `resized_dims` of the sizes; 0 keeps a size."""
    x, count = t.arg("x"), t.integer("resized_dims")
    sizes = [int(size) for size in t.ints("shape")]
    sizes = sizes[len(sizes) - count :]
    known = [size or t.extent(x, n - len(sizes)) for n, size in enumerate(sizes)]
    linear = t.text("interpolation_mode", "LINEAR") == "LINEAR"
    return resized(t, x, known, linear, t.text("sampling_mode", DEFAULT))


def _upsample_bilinear(t: Translation) -> Value:
    corners = t.flag("align_corners", True)
    half = t.flag("half_pixel_centers", not corners)
    if corners and half:
        raise t.unsupported("with align_corners and half_pixel_centers")
    mode = "STRICT_ALIGN_CORNERS" if corners else "UNALIGN_CORNERS" if half else DEFAULT
    return resized(t, t.arg("x"), _upscaled(t), True, mode)


def _suppress(t: Translation) -> tuple[Value, ...]:
    """From operator set CoreML7 on boxes and scores stand in the last dimension, and there is no least score."""
    boxes, scores = t.arg("boxes"), t.arg("scores")
    dtype, old = boxes.dtype, t.given("score_threshold")
    boxes, scores = t.cast(boxes, "float32"), t.cast(scores, "float32")
    if not old:
        boxes, scores = (t.transpose(each, (0, 2, 1)) for each in (boxes, scores))
    overlap = t.cast(t.arg("iou_threshold"), "float32")
    least = t.cast(t.arg("score_threshold"), "float32") if old else None
    found = suppressed(
        t, boxes, scores, overlap, least, t.integer("max_boxes"), t.flag("per_class_suppression"), never_empty=True
    )
    columns = (t.cast(found.boxes, dtype), t.cast(found.scores, t.arg("scores").dtype))
    if old:
        return *columns, found.places, found.counts
    return *(t.transpose(each, (0, 2, 1)) for each in columns), found.places


TRANSLATORS: dict[str, Translator] = {
    "affine": _affine,
    "crop_resize": _crop_resize,
    "non_maximum_suppression": _suppress,
    "resample": _resample,
    "resize": _resize,
    "resize_bilinear": _resize_bilinear,
    "resize_nearest_neighbor": _resize_nearest,
    "upsample_bilinear": _upsample_bilinear,
    "upsample_nearest_neighbor": lambda t: resized(t, t.arg("x"), _upscaled(t), False, DEFAULT),
}
