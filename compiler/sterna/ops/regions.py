"""Operators on regions of images that the data names."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from sterna.ir.graph import TensorType
from sterna.ir.integer import Int, as_int
from sterna.loops.build import ProgramBuilder, both, equal, number
from sterna.ops.formulas import count as count_of
from sterna.ops.formulas import half_away
from sterna.ops.operator import Attribute, Operator, Types, case, opaque, unfit
from sterna.ops.types import check_dtype, present, same_dtype
from sterna.te import expr as E
from sterna.te.expr import Expr

Attributes = Mapping[str, Any]

#: Most samples along one side of a bin: a region may be given larger than any image.
MOST_SAMPLES = 256


def _align_types(types: Types, attributes: Attributes) -> tuple[TensorType, ...]:
    x, rois, batch = present(types, 0, 1, 2)
    dtype = same_dtype((x, rois))
    check_dtype(dtype, ("float32", "float64"))
    check_dtype(batch.dtype, ("int32", "int64"))
    if x.rank != 4 or rois.rank != 2 or rois.shape[1] != 4 or batch.shape != rois.shape[:1]:
        raise unfit(f"regions {rois} of {x}, images {batch}")
    size = (as_int(attributes["height"]), as_int(attributes["width"]))
    return (TensorType(dtype, (rois.shape[0], *size, x.shape[3])),)


def _align(p: ProgramBuilder, attributes: Attributes) -> None:
    x, rois, y = p.input(0), p.input(1), p.output
    scale, offset = attributes["scale"], 0.5 if attributes["half_pixel"] else 0.0
    greatest = attributes["mode"] == "max"
    with p.places(y.shape[:1]) as (roi,):
        image = p.index(p.input(2)[roi], x.shape[0])
        left, top, right, bottom = (p.let(rois[roi, k] * scale - offset, "edge") for k in range(4))
        bins: list[Expr] = []
        counts: list[Int] = []
        for low, high, cells in ((top, bottom, y.shape[1]), (left, right, y.shape[2])):
            size = high - low if attributes["half_pixel"] else E.maximum(high - low, 1.0)
            part = p.let(size / float(int(cells)), "part")
            bins.append(part)
            ratio = attributes["sampling_ratio"]
            samples = E.unary("ceil", part) if ratio <= 0 else E.const(ratio, part.dtype)
            counts.append(p.bound(E.cast(samples, "int32"), MOST_SAMPLES))
        total = p.let(E.maximum(number(counts[0], "int32") * number(counts[1], "int32"), 1))
        none = p.let(equal(number(counts[0] * counts[1], "int32"), 0))
        results = p.array("results", y.dtype, (y.shape[3],))
        with p.loop(y.shape[1], "i") as i, p.loop(y.shape[2], "j") as j:
            p.fill(results, -math.inf if greatest else 0.0)
            with p.loop(counts[0], "a") as a:
                v = _sample(p, top, bins[0], i, a, counts[0], x.shape[1])
                with p.loop(counts[1], "b") as b:
                    h = _sample(p, left, bins[1], j, b, counts[1], x.shape[2])
                    with p.when(both(v[0], h[0])):
                        corners = [
                            (r, c, p.let(w * u)) for r, w in ((v[1], 1.0 - v[3]), (v[2], v[3]))
                            for c, u in ((h[1], 1.0 - h[3]), (h[2], h[3]))
                        ]  # fmt: skip
                        with p.loop(y.shape[3], "channel") as channel:
                            parts = [w * x[image, r, c, channel] for r, c, w in corners]
                            if greatest:
                                most = E.maximum(E.maximum(parts[0], parts[1]), E.maximum(parts[2], parts[3]))
                                results[channel] = E.maximum(results[channel], most)
                            else:
                                results[channel] = results[channel] + (parts[0] + parts[1] + parts[2] + parts[3])
                    if greatest:
                        with p.otherwise(), p.loop(y.shape[3], "channel") as channel:
                            results[channel] = E.maximum(results[channel], 0.0)
            if greatest:
                with p.when(none):
                    p.fill(results, 0.0)
            divisor = p.let(E.cast(total, y.dtype))
            with p.loop(y.shape[3], "channel") as channel:
                y[roi, i, j, channel] = results[channel] if greatest else results[channel] / divisor


def _sample(
    p: ProgramBuilder, start: Expr, part: Expr, cell: Int, n: Int, count: Int, extent: Int
) -> tuple[Expr, Int, Int, Expr]:
    """(whether a sample lies on the image, the lower of its two pixels, the upper, how near the upper one)."""
    dtype = start.dtype
    step = part / E.cast(number(count, "int32"), dtype)
    corner = start + part * E.cast(number(cell, "int32"), dtype)
    place = p.let(corner + (E.cast(number(n, "int32"), dtype) + 0.5) * step, "place")
    size = count_of(extent, dtype)
    inside = both(place >= -1.0, place <= size)
    inner = p.let(E.minimum(E.maximum(place, 0.0), size - 1.0))
    low = E.cast(inner, "int32")
    return inside, p.index(low, extent), p.index(low + 1, extent), p.let(inner - E.unary("floor", inner))


def _pool_types(types: Types, attributes: Attributes) -> tuple[TensorType, ...]:
    x, rois = present(types, 0, 1)
    dtype = same_dtype((x, rois))
    check_dtype(dtype, ("float32", "float64"))
    if x.rank != 4 or rois.rank != 2 or rois.shape[1] != 5:
        raise unfit(f"regions {rois} of {x}")
    return (TensorType(dtype, (rois.shape[0], as_int(attributes["height"]), as_int(attributes["width"]), x.shape[3])),)


def _pool(p: ProgramBuilder, attributes: Attributes) -> None:
    """R. Girshick, "Fast R-CNN" (2015), section 2.1: bins of whole pixels, which may overlap by one."""
    x, rois, y = p.input(0), p.input(1), p.output
    with p.places(y.shape[:1]) as (roi,):
        image = p.index(E.cast(rois[roi, 0], "int32"), x.shape[0])

        def pixel(k: int) -> Expr:
            return p.let(half_away(rois[roi, k] * attributes["scale"]), "edge")

        left, top, right, bottom = (pixel(k) for k in range(1, 5))
        parts = [
            p.let(E.maximum(high - low + 1.0, 1.0) / float(int(cells)), "part")
            for low, high, cells in ((top, bottom, y.shape[1]), (left, right, y.shape[2]))
        ]
        results = p.array("results", y.dtype, (y.shape[3],))
        with p.loop(y.shape[1], "i") as i:
            rows = _bin(p, top, parts[0], i, x.shape[1])
            with p.loop(y.shape[2], "j") as j:
                columns = _bin(p, left, parts[1], j, x.shape[2])
                p.fill(results, -math.inf)
                with p.loop(rows[1], "a") as a, p.loop(columns[1], "b") as b:
                    row, column = p.index(rows[0] + a, x.shape[1]), p.index(columns[0] + b, x.shape[2])
                    with p.loop(y.shape[3], "channel") as channel:
                        results[channel] = E.maximum(results[channel], x[image, row, column, channel])
                with p.when(equal(number(rows[1] * columns[1], "int32"), 0)):
                    p.fill(results, 0.0)
                with p.loop(y.shape[3], "channel") as channel:
                    y[roi, i, j, channel] = results[channel]


def _bin(p: ProgramBuilder, start: Expr, part: Expr, cell: Int, extent: Int) -> tuple[Int, Int]:
    """The first pixel of a bin, and how many of its pixels lie on the image."""
    n = E.cast(number(cell, "int32"), start.dtype)
    size = count_of(extent, start.dtype)

    def clipped(edge: Expr) -> Expr:
        return p.let(E.cast(E.minimum(E.maximum(start + edge, 0.0), size), "int32"))

    first, end = clipped(E.unary("floor", n * part)), clipped(E.unary("ceil", (n + 1.0) * part))
    return p.index(first, extent), p.bound(end - first, extent)


_ROIS = np.array([[0, 0, 4, 4], [1.5, 0.5, 6.2, 3.7], [-3, -2, 9, 11]], np.float32)
_IMAGES = np.array([0, 1, 1], np.int64)
_IMAGE = ("float32", (2, 5, 6, 3))
OPERATORS: tuple[Operator, ...] = (
    opaque(
        "roi_align",
        "Regions (x, y, x, y) of images [N, H, W, C], each cut into bins of which points are sampled bilinearly and "
        "averaged; with `max`, the greatest of all weighted pixels, as ONNX has it. The third operand says of which "
        "image a region is.",
        _align_types,
        _align,
        (
            Attribute("height", "int", "bins of a region"),
            Attribute("width", "int", "bins of a region"),
            Attribute("sampling_ratio", "int", "points of a bin along each side; 0: as many as it has pixels", 0),
            Attribute("scale", "float", "of the regions' coordinates", 1.0),
            Attribute("mode", "string", "what is made of the points", "avg", ("avg", "max")),
            Attribute("half_pixel", "bool", "coordinates count from corners of pixels, not from their centers", True),
        ),
        cases=(
            case(_IMAGE, _ROIS, _IMAGES, height=2, width=3),
            case(_IMAGE, _ROIS, _IMAGES, height=2, width=2, sampling_ratio=2, scale=0.5, half_pixel=False),
            case(_IMAGE, _ROIS, _IMAGES, height=3, width=2, mode="max"),
        ),
    ),
    opaque(
        "roi_pool",
        "Regions (image, x, y, x, y, the last pixels included) of images [N, H, W, C], each cut into bins of whole "
        "pixels of which the greatest counts; 0 where a bin does not lie on the image.",
        _pool_types,
        _pool,
        (
            Attribute("height", "int", "bins of a region"),
            Attribute("width", "int", "bins of a region"),
            Attribute("scale", "float", "of the regions' coordinates", 1.0),
        ),
        cases=(
            case(_IMAGE, np.column_stack([_IMAGES, _ROIS]).astype(np.float32), height=2, width=3),
            case(_IMAGE, np.column_stack([_IMAGES, _ROIS * 2 - 1]).astype(np.float32), height=3, width=2, scale=0.5),
        ),
    ),
)
