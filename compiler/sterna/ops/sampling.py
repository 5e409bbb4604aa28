"""Operators that read where other operands say: images sampled at computed positions, reversed sequences, folding."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from sterna.ir import dtypes
from sterna.ir.extremum import maximum, minimum
from sterna.ir.graph import TensorType
from sterna.ir.integer import Int, as_int
from sterna.ops.formulas import at, count, rounded, wide, widened
from sterna.ops.operator import Application, Attribute, Fusion, Operator, Types, case, unfit
from sterna.ops.resize import cubic_weights
from sterna.ops.types import check_dtype, present, single
from sterna.te import expr as E
from sterna.te.expr import Expr
from sterna.te.position import position
from sterna.te.tensor import Tensor, compute, reduce, reduce_axis

Taps = list[tuple[Expr, Expr | None]]  # positions as floats that are whole numbers, and their weights


# ---------------------------------------------------------------- grid sample
def _grid_type(types: Types, attributes: Mapping[str, Any]) -> TensorType:
    x, grid = present(types, 0, 1)
    check_dtype(grid.dtype, dtypes.FLOATS)
    if x.rank < 3 or grid.rank != x.rank or grid.shape[-1] != x.rank - 2 or grid.shape[0] != x.shape[0]:
        raise unfit(f"a grid of {grid} does not fit {x}")
    return TensorType(x.dtype, (*grid.shape[:-1], x.shape[-1]))


def _reflected(x: Expr, low: float, span: Expr) -> Expr:
    """A position thrown back at both borders, the first at `low` and `span` apart, however far away it is."""
    if isinstance(span, E.Const) and float(span.value) <= 0:
        return E.const(low, x.dtype) + x * 0.0
    period = span * 2.0
    # Of an open size, which may be one element: then there is no position but the first.
    period = period if isinstance(span, E.Const) else E.maximum(period, 1.0)
    distance = E.unary("abs", x - low)
    rest = distance - E.unary("floor", distance / period) * period
    inner = E.minimum(rest, period - rest) + low
    return inner if isinstance(span, E.Const) else E.minimum(inner, span + low)


def _taps(x: Expr, mode: str) -> Taps:
    if mode == "nearest":
        return [(E.unary("rint", x), None)]
    base = E.unary("floor", x)
    t = x - base
    if mode == "linear":
        return [(base, 1.0 - t), (base + 1.0, t)]
    return [(base + float(k - 1), weight) for k, weight in enumerate(cubic_weights(t, -0.75))]


def _whole(value: Expr) -> Expr:
    """A float that is a whole number, as an integer; far ones are clamped."""
    return E.cast(value, "int32")


def _or_nowhere(tap: Expr, last: Expr) -> Expr:
    """A position as an integer; -1 where it lies outside."""
    inside = E.both(E.compare("ge", tap, 0.0), E.compare("le", tap, last))
    assert inside is not None
    return E.select(inside, _whole(tap), E.const(-1, "int32"))


def _stages(
    applied: Application,
    kind: str,
    places: Sequence[Int],
    each: Sequence[tuple[int, int]],
    formula: Callable[[int, int, Sequence[Int]], Expr],
) -> dict[tuple[int, int], Tensor]:
    """What all channels share: a stage for each dimension and tap."""
    return {
        (d, k): compute(applied.stage(f"{kind}{d}_{k}"), places, lambda *here, d=d, k=k: formula(d, k, here))
        for d, k in each
    }


def _grid_sample(applied: Application) -> Tensor:
    x, grid = applied.input(0), applied.input(1)
    spatial = len(x.shape) - 2
    share_dtype = wide(grid.dtype)
    sizes = x.shape[1:-1]
    corners, padding, mode = applied["align_corners"], applied["padding"], applied["mode"]
    low = 0.0 if corners else -0.5

    def number(size: Int) -> Expr:
        return count(size, share_dtype)

    def settled(value: Expr, size: Int) -> Expr:
        if padding == "border":
            return E.maximum(E.minimum(value, number(size - 1)), 0.0)
        return _reflected(value, low, number(size - 1 if corners else size)) if padding == "reflection" else value

    def taps(d: int, here: Sequence[Int]) -> Taps:
        share = widened(at(grid, (*here, as_int(spatial - 1 - d))))
        size = sizes[d]
        where = (share + 1.0) * 0.5 * number(size - 1) if corners else ((share + 1.0) * number(size) - 1.0) * 0.5
        if padding != "zeros":
            high = number(size - 1) if corners else number(size) - 0.5
            outside = E.binary("or", E.compare("lt", where, low), E.compare("gt", where, high))
            where = E.select(outside, settled(where, size), where)
        found = _taps(where, mode)
        return [(settled(tap, size), weight) for tap, weight in found] if mode == "cubic" else found

    def whole(d: int, k: int, here: Sequence[Int]) -> Expr:
        """The position of a tap; -1 where zeros are read."""
        tap = taps(d, here)[k][0]
        return _or_nowhere(tap, number(sizes[d] - 1)) if padding == "zeros" else _whole(tap)

    def weighed(d: int, k: int, here: Sequence[Int]) -> Expr:
        share = taps(d, here)[k][1]
        assert share is not None
        return share

    places = grid.shape[:-1]
    count_of = {"nearest": 1, "linear": 2, "cubic": 4}[mode]
    each = [(d, k) for d in range(spatial) for k in range(count_of)]

    positions = _stages(applied, "place", places, each, whole)
    weights = {} if mode == "nearest" else _stages(applied, "weight", places, each, weighed)

    def at_once(*index: Int) -> Expr:
        """The sum over all taps of all dimensions."""
        *here, c = index
        total: Expr | None = None
        for chosen in product(range(count_of), repeat=spatial):
            source: list[Int] = []
            inside: Expr | None = None
            weight: Expr | None = None
            for d, k in enumerate(chosen):
                found = at(positions[d, k], here)
                if padding == "zeros":
                    inside = E.both(inside, E.compare("ge", found, 0))
                source.append(position(found, sizes[d]))
                if weights:
                    share_of = at(weights[d, k], here)
                    weight = share_of if weight is None else weight * share_of
            value = at(x, (index[0], *source, c))
            element: Expr = value if mode == "nearest" else E.cast(widened(value), share_dtype)
            if inside is not None:
                element = E.select(inside, element, 0)
            term = element if weight is None else element * weight
            total = term if total is None else total + term
        assert total is not None
        return E.cast(total, x.dtype)

    def by_rows(here: Sequence[Int], c: Int, source: Sequence[Int] = ()) -> Expr:
        """The same from chosen positions on, summed along the last dimension first, then over those sums: 20 products
        of a cubic sample of an image, where all weights at once take 32."""
        d, total = len(source), None
        if d == spatial:
            return E.cast(widened(at(x, (here[0], *source, c))), share_dtype)
        for k in range(count_of):
            found = at(positions[d, k], here)
            term = by_rows(here, c, (*source, position(found, sizes[d])))
            if padding == "zeros":
                term = E.select(E.compare("ge", found, 0), term, 0)
            term = term * at(weights[d, k], here)
            total = term if total is None else total + term
        assert total is not None
        return total

    def body(*index: Int) -> Expr:
        *here, c = index
        # Of two taps, four products by the weights of elements take fewer vectors than six by those of dimensions.
        return E.cast(by_rows(here, c), x.dtype) if mode == "cubic" else at_once(*index)

    return compute(applied.name, applied.output.shape, body)


# ---------------------------------------------------------------- deformable convolution
def _patches_type(types: Types, attributes: Mapping[str, Any]) -> TensorType:
    x, offset = present(types, 0, 1)
    kernel, groups = attributes["kernel"], attributes["offset_groups"]
    if x.rank != 4 or offset.rank != 4 or offset.shape[-1] != groups * math.prod(kernel) * 2:
        raise unfit(f"offsets of {offset} do not fit {x} and a kernel of {list(kernel)}")
    return TensorType(x.dtype, (*offset.shape[:-1], as_int(math.prod(kernel)), x.shape[-1]))


def _patches(applied: Application) -> Tensor:
    x, offset, mask = applied.input(0), applied.input(1), applied.inputs[2] if len(applied.inputs) > 2 else None
    kernel, strides, dilations, pads = applied["kernel"], applied["strides"], applied["dilations"], applied["pads"]
    per_group = int(x.shape[-1]) // applied["offset_groups"]
    taps_each = math.prod(kernel)
    sizes = x.shape[1:-1]

    def taps(d: int, n: Int, i: Int, j: Int, tap: Int) -> Taps:
        k = tap % taps_each
        p, within = (i, k // kernel[1]) if d == 0 else (j, k % kernel[1])
        base = E.cast(E.index_value(p * strides[d] - pads[d] + within * dilations[d]), "float32")
        moved = widened(at(offset, (n, i, j, tap * 2 + d)))
        return _taps(base + E.cast(moved, "float32"), "linear")

    def whole(d: int, k: int, here: Sequence[Int]) -> Expr:
        return _or_nowhere(taps(d, *here)[k][0], count(sizes[d] - 1, "float32"))

    def weight(d: int, k: int, here: Sequence[Int]) -> Expr:
        share = taps(d, *here)[k][1]
        assert share is not None
        return share

    places = (*offset.shape[:-1], as_int(applied["offset_groups"] * taps_each))
    each = [(d, k) for d in range(2) for k in range(2)]
    positions, weights = (_stages(applied, name, places, each, f) for name, f in (("place", whole), ("weight", weight)))

    def body(n: Int, i: Int, j: Int, k: Int, c: Int) -> Expr:
        here = (n, i, j, c // per_group * taps_each + k)
        total: Expr | None = None
        for a, b in product(range(2), repeat=2):
            h, w = at(positions[0, a], here), at(positions[1, b], here)
            inside = E.both(E.compare("ge", h, 0), E.compare("ge", w, 0))
            assert inside is not None
            value = at(x, (n, position(h, sizes[0]), position(w, sizes[1]), c))
            element = E.select(inside, E.cast(widened(value), "float32"), 0.0)
            term = element * at(weights[0, a], here) * at(weights[1, b], here)
            total = term if total is None else total + term
        assert total is not None
        if mask is not None:
            total = total * E.cast(widened(at(mask, here)), "float32")
        return E.cast(total, x.dtype)

    return compute(applied.name, applied.output.shape, body)


# ---------------------------------------------------------------- reversed sequences
def _reverse_type(types: Types, attributes: Mapping[str, Any]) -> TensorType:
    x, lengths = present(types, 0, 1)
    check_dtype(lengths.dtype, ("int32", "int64"))
    time, batch = attributes["time_axis"], attributes["batch_axis"]
    if x.rank < 2 or {time, batch} != {0, 1} or lengths.shape != (x.shape[batch],):
        raise unfit(f"lengths of {lengths} for {x}")
    return x


def _reverse(applied: Application) -> Tensor:
    x, lengths = applied.input(0), applied.input(1)
    time, batch = applied["time_axis"], applied["batch_axis"]

    def body(*index: Int) -> Expr:
        length = at(lengths, (index[batch],))
        t = E.index_value(index[time], length.dtype)
        source = E.select(t < length, length - 1 - t, t)
        return at(x, (*index[:time], position(source, x.shape[time]), *index[time + 1 :]))

    return compute(applied.name, applied.output.shape, body)


# ---------------------------------------------------------------- folding
def _fold_type(types: Types, attributes: Mapping[str, Any]) -> TensorType:
    (x,) = present(types, 0)
    kernel, sizes = attributes["kernel"], attributes["sizes"]
    if x.rank != 3 or int(x.shape[1]) % math.prod(kernel) or int(x.shape[2]) != math.prod(_blocks(attributes)):
        raise unfit(f"{x} does not hold blocks of {list(kernel)} from an image of {list(sizes)}")
    return TensorType(x.dtype, (x.shape[0], as_int(int(x.shape[1]) // math.prod(kernel)), *map(as_int, sizes)))


def _blocks(attributes: Mapping[str, Any]) -> list[int]:
    """How many blocks there are along each dimension."""
    rank = len(attributes["sizes"])
    pads = attributes["pads"]
    rows = zip(attributes["sizes"], attributes["kernel"], attributes["strides"], attributes["dilations"], strict=True)
    return [
        (size + pads[d] + pads[d + rank] - dilation * (extent - 1) - 1) // stride + 1
        for d, (size, extent, stride, dilation) in enumerate(rows)
    ]


def _flat(index: Sequence[Int], sizes: Sequence[int]) -> Int:
    total = as_int(0)
    for i, size in zip(index, sizes, strict=True):
        total = total * size + i
    return total


def _fold(applied: Application) -> Tensor:
    """Every element of the image adds up the blocks' elements that lie on it."""
    x, kernel = applied.input(0), applied["kernel"]
    counts = _blocks(applied.attributes)
    inner = [reduce_axis(f"k{d}", extent) for d, extent in enumerate(kernel)]

    def body(n: Int, c: Int, *place: Int) -> Expr:
        inside: Expr | None = None
        blocks = []
        for d, (p, k) in enumerate(zip(place, inner, strict=True)):
            reach = p + applied["pads"][d] - k.var * applied["dilations"][d]
            block = reach // applied["strides"][d]
            if applied["strides"][d] != 1:
                inside = E.both(inside, E.compare("eq", E.index_value(reach % applied["strides"][d]), 0))
            inside = E.both(inside, E.in_range(block, counts[d]))
            blocks.append(maximum(minimum(block, counts[d] - 1), 0))
        row = c * math.prod(kernel) + _flat([k.var for k in inner], kernel)
        value = widened(at(x, (n, row, _flat(blocks, counts))))
        return reduce("sum", value if inside is None else E.select(inside, value, 0), *inner)

    axes = ["n", "c", *(f"i{d}" for d in range(len(kernel)))]
    if x.dtype == wide(x.dtype):
        return compute(applied.name, applied.output.shape, body, axes)
    stage = compute(applied.stage("wide"), applied.output.shape, body, axes)
    return rounded(applied.name, stage, x.dtype)


F = "float32"
_SETTINGS = (
    ("linear", "zeros"),
    ("linear", "reflection"),
    ("nearest", "border"),
    ("cubic", "zeros"),
    ("cubic", "border"),
)
OPERATORS: tuple[Operator, ...] = (
    Operator(
        "grid_sample",
        "Images, channels last, sampled at positions that a grid gives as shares from -1 to 1.",
        single(_grid_type),
        _grid_sample,
        Fusion.OPAQUE,
        (
            Attribute("mode", "string", "how samples are made", "linear", ("nearest", "linear", "cubic")),
            Attribute("padding", "string", "what lies outside", "zeros", ("zeros", "border", "reflection")),
            Attribute("align_corners", "bool", "whether -1 and 1 are centers of elements, not their edges", False),
        ),
        cases=tuple(
            case(
                (F, (2, 5, 4, 2)),
                (F, (2, 3, 6, 2)),
                mode=mode,
                padding=padding,
                align_corners=n % 2 == 0,
                low=-1.6,
                high=1.6,
            )
            for n, (mode, padding) in enumerate(_SETTINGS)
        ),
    ),
    Operator(
        "deform_patches",
        "What each element of a kernel reads at each position of a deformable convolution: linear samples of "
        "(N, H, W, C), moved by offsets and weighed by a mask, as (N, rows, columns, kernel, C).",
        single(_patches_type),
        _patches,
        Fusion.OPAQUE,
        (
            Attribute("kernel", "ints", "size of the window"),
            Attribute("strides", "ints", "its step"),
            Attribute("dilations", "ints", "distance of its elements"),
            Attribute("pads", "ints", "positions before the image at which it starts"),
            Attribute("offset_groups", "int", "channels fall into so many groups, each with its own offsets", 1),
        ),
        cases=(
            case(
                (F, (1, 5, 5, 2)),
                (F, (1, 4, 4, 8)),
                (F, (1, 4, 4, 4)),
                kernel=(2, 2),
                strides=(1, 1),
                dilations=(1, 1),
                pads=(0, 0),
            ),
        ),
    ),
    Operator(
        "reverse_sequence",
        "The first elements of every sequence, as many as its length says, in the opposite order.",
        single(_reverse_type),
        _reverse,
        Fusion.INJECTIVE,
        (
            Attribute("time_axis", "int", "along which sequences run"),
            Attribute("batch_axis", "int", "along which they differ"),
        ),
        cases=(
            case((F, (4, 3, 2)), np.array([1, 4, 3]), time_axis=0, batch_axis=1),
            case((F, (2, 5)), np.array([5, 2], np.int32), time_axis=1, batch_axis=0),
        ),
    ),
    Operator(
        "fold",
        "Blocks, the columns of (N, C * block, blocks), added up where they lie in images.",
        single(_fold_type),
        _fold,
        Fusion.REDUCTION,
        (
            Attribute("sizes", "ints", "of the image"),
            Attribute("kernel", "ints", "of a block"),
            Attribute("strides", "ints", "from block to block"),
            Attribute("dilations", "ints", "distance of a block's elements"),
            Attribute("pads", "ints", "around the image: all before, then all behind"),
        ),
        cases=(
            case((F, (1, 8, 9)), sizes=(4, 4), kernel=(2, 2), strides=(1, 1), dilations=(1, 1), pads=(0, 0, 0, 0)),
            case((F, (2, 12, 4)), sizes=(4, 5), kernel=(2, 3), strides=(2, 2), dilations=(1, 1), pads=(0, 0, 0, 0)),
        ),
    ),
)
