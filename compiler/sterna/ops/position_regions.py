"""Pooling of regions whose bins read channels of their own: every bin of a region has a map for each result.

J. Dai et al., "R-FCN" (2016), section 2; "Deformable Convolutional Networks" (2017), section 2.2. Channel
(d * group + i) * group + j of the maps belongs to result d and to bins in row i and column j of group x group parts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sterna.ir.graph import TensorType
from sterna.ir.integer import Int, as_int
from sterna.loops.build import Array, ProgramBuilder, both, number
from sterna.ops.formulas import count as count_of
from sterna.ops.formulas import half_away
from sterna.ops.operator import Attribute, Operator, Types, case, opaque, unfit
from sterna.ops.types import check_dtype, present, same_dtype
from sterna.te import expr as E
from sterna.te.expr import Expr

Attributes = Mapping[str, Any]
_LEAST = 0.1  # pixels along a side of a region, whatever its corners are


def _types(types: Types, attributes: Attributes) -> tuple[TensorType, ...]:
    x, rois = present(types, 0, 1)
    dtype = same_dtype((x, rois))
    check_dtype(dtype, ("float32", "float64"))
    height, width, group = (int(attributes[name]) for name in ("height", "width", "group"))
    if x.rank != 4 or rois.rank != 2 or rois.shape[1] != 5 or min(height, width, group) < 1:
        raise unfit(f"regions {rois} of {x}")
    if not x.shape[3].is_const or int(x.shape[3]) % (group * group):
        raise unfit(f"{x.shape[3]} channels are not {group} x {group} for every result")
    return (TensorType(dtype, (rois.shape[0], as_int(height), as_int(width), as_int(int(x.shape[3]) // group**2))),)


def _deformed_types(types: Types, attributes: Attributes) -> tuple[TensorType, ...]:
    (y,) = _types(types, attributes)
    rois, moves = present(types, 1, 2)
    results, parts, samples = int(y.shape[3]), attributes["parts"], attributes["samples"]
    if samples < 1 or parts < 1 or moves.rank != 4 or moves.dtype != y.dtype or not moves.shape[1].is_const:
        raise unfit(f"displacements {moves} of {parts} x {parts} parts, {samples} x {samples} samples")
    classes = int(moves.shape[1]) // 2
    if moves.shape != (rois.shape[0], as_int(2 * classes), as_int(parts), as_int(parts)) or results % max(classes, 1):
        raise unfit(f"displacements {moves} of {results} results in {rois}")
    return (y,)


def _edges(p: ProgramBuilder, rois: Array, roi: Int, attributes: Attributes, shift: float) -> list[Expr]:
    """Left, top, width, height of a region in elements of the maps, whose last pixels are part of it."""
    edges = [
        p.let((half_away(rois[roi, k]) + (1.0 if k > 2 else 0.0)) * attributes["scale"] - shift, "edge")
        for k in range(1, 5)
    ]
    sizes = [p.let(E.maximum(edges[n + 2] - edges[n], _LEAST), "size") for n in range(2)]
    return [*edges[:2], *sizes]


def _channel(d: Int, i: Int, j: Int, y: Array, group: int) -> Int:
    rows, columns = (cell * group // extent for cell, extent in ((i, y.shape[1]), (j, y.shape[2])))
    return (d * group + rows) * group + columns


def _pool(p: ProgramBuilder, attributes: Attributes) -> None:
    x, rois, y = p.input(0), p.input(1), p.output
    with p.places(y.shape[:1]) as (roi,):
        image = p.index(E.cast(rois[roi, 0], "int32"), x.shape[0])
        left, top, wide, high = _edges(p, rois, roi, attributes, 0.0)
        parts = [p.let(size / float(int(cells)), "part") for size, cells in ((high, y.shape[1]), (wide, y.shape[2]))]
        results = p.array("results", y.dtype, (y.shape[3],))
        with p.loop(y.shape[1], "i") as i:
            rows = _bin(p, top, parts[0], i, x.shape[1])
            with p.loop(y.shape[2], "j") as j:
                columns = _bin(p, left, parts[1], j, x.shape[2])
                p.fill(results, 0.0)
                with p.loop(rows[1], "a") as a, p.loop(columns[1], "b") as b:
                    row, column = p.index(rows[0] + a, x.shape[1]), p.index(columns[0] + b, x.shape[2])
                    with p.loop(y.shape[3], "d") as d:
                        results[d] = results[d] + x[image, row, column, _channel(d, i, j, y, attributes["group"])]
                total = p.let(E.cast(E.maximum(number(rows[1] * columns[1], "int32"), 1), y.dtype))
                with p.loop(y.shape[3], "d") as d:
                    y[roi, i, j, d] = results[d] / total


def _bin(p: ProgramBuilder, start: Expr, part: Expr, cell: Int, extent: Int) -> tuple[Int, Int]:
    """The first pixel of a bin, and how many of its pixels lie on the maps."""
    n = E.cast(number(cell, "int32"), start.dtype)
    size = count_of(extent, start.dtype)

    def clipped(edge: Expr) -> Expr:
        return p.let(E.cast(E.minimum(E.maximum(edge, 0.0), size), "int32"))

    first = clipped(E.unary("floor", n * part + start))
    end = clipped(E.unary("ceil", (n + 1.0) * part + start))
    return p.index(first, extent), p.bound(end - first, extent)


def _deformed(p: ProgramBuilder, attributes: Attributes) -> None:
    x, rois, moves, y = p.input(0), p.input(1), p.input(2), p.output
    parts, samples, factor = attributes["parts"], attributes["samples"], attributes["factor"]
    each = int(y.shape[3]) // (int(moves.shape[1]) // 2)
    with p.places(y.shape[:1]) as (roi,):
        image = p.index(E.cast(rois[roi, 0], "int32"), x.shape[0])
        left, top, wide, high = _edges(p, rois, roi, attributes, 0.5)
        bins = [p.let(size / float(int(cells)), "bin") for size, cells in ((high, y.shape[1]), (wide, y.shape[2]))]
        with p.loop(y.shape[1], "i") as i, p.loop(y.shape[2], "j") as j, p.loop(y.shape[3], "d") as d:
            row, column = i * parts // y.shape[1], j * parts // y.shape[2]
            starts = []
            for cell, start, size, part, axis in ((i, top, high, bins[0], 1), (j, left, wide, bins[1], 0)):
                move = moves[roi, d // each * 2 + axis, row, column] * factor * size
                starts.append(p.let(E.cast(number(cell, "int32"), y.dtype) * part + start + move, "start"))
            channel = _channel(d, i, j, y, attributes["group"])
            total, found = p.variable("total", E.const(0.0, y.dtype)), p.variable("found", E.const(0.0, y.dtype))
            with p.loop(samples, "a") as a:
                v = _place(p, starts[0], bins[0], a, samples, x.shape[1])
                with p.loop(samples, "b") as b:
                    h = _place(p, starts[1], bins[1], b, samples, x.shape[2])
                    with p.when(both(v[0], h[0])):
                        above, below = (
                            x[image, r, h[1], channel] * (1.0 - h[3]) + x[image, r, h[2], channel] * h[3]
                            for r in v[1:3]
                        )
                        total.add(above * (1.0 - v[3]) + below * v[3])
                        found.add(1.0)
            y[roi, i, j, d] = total.value / E.maximum(found.value, 1.0)


def _place(
    p: ProgramBuilder, start: Expr, part: Expr, n: Int, samples: int, extent: Int
) -> tuple[Expr, Int, Int, Expr]:
    """(whether a sample lies on the maps, the lower of its two pixels, the upper, how near the upper one)."""
    place = p.let(start + E.cast(number(n, "int32"), start.dtype) * (part / float(samples)), "place")
    size = count_of(extent, start.dtype)
    inside = both(place >= -0.5, place <= size - 0.5)
    inner = p.let(E.minimum(E.maximum(place, 0.0), size - 1.0))
    low = E.cast(inner, "int32")
    return inside, p.index(low, extent), p.index(low + 1, extent), p.let(inner - E.unary("floor", inner))


_ROIS = np.array([[0, 0, 0, 4, 4], [1, 1.5, 0.5, 6.2, 3.7], [1, -3, -2, 9, 11], [0, 20, 20, 21, 21]], np.float32)
_SHAPE = (
    Attribute("height", "int", "bins of a region"),
    Attribute("width", "int", "bins of a region"),
    Attribute("group", "int", "parts of a region along each side that have maps of their own"),
    Attribute("scale", "float", "of the regions' coordinates", 1.0),
)
OPERATORS: tuple[Operator, ...] = (
    opaque(
        "position_roi_pool",
        "Regions (image, x, y, x, y, the last pixels included) of images [N, H, W, results * group * group], each cut "
        "into bins of whole pixels of which the mean counts, of a map that belongs to the bin; 0 where a bin does not "
        "lie on the image (R-FCN).",
        _types,
        _pool,
        _SHAPE,
        cases=(
            case(("float32", (2, 5, 6, 8)), _ROIS, height=2, width=2, group=2),
            case(("float32", (2, 5, 6, 12)), _ROIS * np.float32(2), height=3, width=4, group=2, scale=0.5),
        ),
    ),
    opaque(
        "deformable_roi_pool",
        "As `position_roi_pool`, but of points that are sampled bilinearly, in bins that are moved: the third operand "
        "[regions, 2 * classes, parts, parts] holds horizontal and vertical displacements of a region's parts, in "
        "widths and heights of it.",
        _deformed_types,
        _deformed,
        (
            *_SHAPE,
            Attribute("parts", "int", "of a region along each side that are moved together"),
            Attribute("samples", "int", "points of a bin along each side"),
            Attribute("factor", "float", "of the displacements", 1.0),
        ),
        cases=(
            case(
                ("float32", (2, 5, 6, 8)),
                _ROIS,
                ("float32", (4, 2, 2, 2)),
                height=2,
                width=2,
                group=2,
                parts=2,
                samples=2,
                factor=0.1,
            ),
            case(
                ("float32", (2, 5, 6, 4)),
                _ROIS,
                ("float32", (4, 4, 3, 3)),
                height=3,
                width=4,
                group=1,
                parts=3,
                samples=3,
                factor=0.3,
                scale=0.5,
            ),
        ),
    ),
)
