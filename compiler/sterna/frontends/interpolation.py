"""Tensors read between their elements, at computed positions: what warps of pictures are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

import numpy as np

from sterna.errors import error
from sterna.frontends.emitter import Emitter
from sterna.ir.graph import Value

#: Dimensions that may be read between elements: every one doubles the elements that are read.
MOST_AXES = 6
#: Positions (int64) and how many elements there are, to positions that exist.
_Fix = Callable[[Emitter, Value, int], Value]


def _wrapped(t: Emitter, at: Value, size: int) -> Value:
    return t.op("mod", at, t.scalar(size, "int64"), truncated=False)


def _nearest(t: Emitter, at: Value, size: int) -> Value:
    return t.op("minimum", t.op("maximum", at, t.scalar(0, "int64")), t.scalar(size - 1, "int64"))


def _mirrored(t: Emitter, at: Value, size: int) -> Value:
    """Thrown back at the middle of the first and the last element."""
    if size == 1:
        return t.op("mul", at, t.scalar(0, "int64"))
    last = t.scalar(size - 1, "int64")
    round_trip = _wrapped(t, t.op("add", at, last), 2 * (size - 1))
    return t.op("abs", t.op("sub", round_trip, last))


def _reflected(t: Emitter, at: Value, size: int) -> Value:
    """Thrown back at the outer edge of the first and the last element."""
    at = _wrapped(t, at, 2 * size)
    other = t.op("sub", t.scalar(2 * size - 1, "int64"), at)
    return t.op("where", t.op("less", at, t.scalar(size, "int64")), at, other)


#: Names of SciPy: what stands for positions outside.
MODES: dict[str, _Fix] = {
    "constant": _nearest, "nearest": _nearest, "wrap": _wrapped, "mirror": _mirrored, "reflect": _reflected,
}  # fmt: skip


def sampled(
    t: Emitter, x: Value, places: Sequence[Value], linear: bool, mode: str, fill: float, before: Sequence[Value] = ()
) -> Value:
    """A tensor at positions along some of its dimensions.

    Args:
        places: positions as floats, all of one shape, for as many dimensions.
        linear: between two elements of every dimension; else the nearest element.
        mode: a key of `MODES`; "constant": every element outside is `fill`, between which is interpolated too.
        before: numbers (int64) of elements of the dimensions before those, of the same shape.

    Returns:
        Of the positions' shape and the dimensions of `x` that are left.

    Raises:
        SternaError: E0107 or E0113.
    """
    if not places or len(places) > MOST_AXES:
        raise error("E0113", f"{t.kind} of {len(places)} dimensions is not supported")
    shape, first = places[0].shape, len(before)
    rest = x.shape[first + len(places) :]
    taps = [_taps(t, place, t.extent(x, first + n), linear, mode) for n, place in enumerate(places)]
    columns = [t.reshape(each, (*shape, 1)) for each in before]
    total: Value | None = None
    for corner in product(*taps):
        index = t.op("concat", *columns, *(t.reshape(at, (*shape, 1)) for at, _, _ in corner), axis=len(shape))
        read = t.op("gather_nd", x, index)
        inside, weight = None, None
        for _, there, share in corner:
            if there is not None:
                inside = there if inside is None else t.op("logical_and", inside, there)
            if share is not None:
                weight = share if weight is None else t.op("mul", weight, share)
        wide = (*shape, *(1,) * len(rest))
        if inside is not None:
            inside = t.op("expand", t.reshape(inside, wide), shape=read.shape)
            read = t.op("where", inside, read, t.scalar(fill, x.dtype))
        if weight is not None:
            read = t.op("mul", read, t.reshape(weight, wide))
        total = read if total is None else t.op("add", total, read)
    assert total is not None
    return total


def _taps(
    t: Emitter, place: Value, size: int, linear: bool, mode: str
) -> list[tuple[Value, Value | None, Value | None]]:
    """The elements that a position is read of: which, whether they are there, and their share."""

    def tap(at: Value, share: Value | None) -> tuple[Value, Value | None, Value | None]:
        whole = t.cast(at, "int64")
        there = None
        if mode == "constant":
            above = t.op("greater_equal", whole, t.scalar(0, "int64"))
            there = t.op("logical_and", above, t.op("less", whole, t.scalar(size, "int64")))
        return MODES[mode](t, whole, size), there, share

    if not linear:
        return [tap(t.op("round_away", place), None)]
    low = t.op("floor", place)
    part = t.op("sub", place, low)
    one = t.scalar(1, place.dtype)
    return [tap(low, t.op("sub", one, part)), tap(t.op("add", low, one), part)]


def projected(t: Emitter, matrix: Value, height: int, width: int) -> tuple[Value, Value, Value]:
    """Where the pixels of pictures come from.

    Args:
        matrix: (pictures, 8): a, b and c of x' = (a0 x + a1 y + a2) / k, y' = (b0 x + b1 y + b2) / k,
            k = c0 x + c1 y + 1.

    Returns:
        Rows and columns, (pictures, height, width), and where there are none, as k is 0 (bool).
    """
    count = matrix.shape[0]
    across = t.constant(np.arange(width, dtype=np.float32).reshape(1, 1, width))
    down = t.constant(np.arange(height, dtype=np.float32).reshape(1, height, 1))

    def number(n: int) -> Value:
        part = t.op("slice", matrix, starts=(0, n), sizes=(count, 1), steps=(1, 1))
        return t.reshape(part, (count, 1, 1))

    def line(n: int, last: Value) -> Value:
        both = t.op("add", t.op("mul", number(n), across), t.op("mul", number(n + 1), down))
        return t.op("add", both, last)

    below = line(6, t.scalar(1, "float32"))
    nowhere = t.op("equal", below, t.scalar(0, "float32"))
    below = t.op("where", nowhere, t.scalar(1, "float32"), below)
    return t.op("div", line(3, number(5)), below), t.op("div", line(0, number(2)), below), nowhere


def filled_where(t: Emitter, nowhere: Value, fill: float, made: Value) -> Value:
    """Pixels of (pictures, height, width, channels) that come from nowhere are `fill`."""
    nowhere = t.op("expand", t.reshape(nowhere, (*nowhere.shape, 1)), shape=made.shape)
    return t.op("where", nowhere, t.scalar(fill, made.dtype), made)


def between(t: Emitter, below: Value, above: Value, part: Value) -> Value:
    """The number at a part of the way, 0 to 1, from one to another; either of them may be infinite."""
    zero, one = t.scalar(0, part.dtype), t.scalar(1, part.dtype)
    made = t.op("add", t.op("mul", below, t.op("sub", one, part)), t.op("mul", above, part))
    # 0 times infinity is no number: where one of both alone counts it is taken as it is.
    first = t.op("logical_or", t.op("equal", part, zero), t.op("equal", below, above))
    return t.op("where", first, below, t.op("where", t.op("equal", part, one), above, made))


def numbers_of(t: Emitter, count: Value, height: int, width: int) -> Value:
    """The number of its picture for every pixel, (pictures, height, width); `count` has as many rows."""
    rows = t.reshape(t.counting(count.shape[0]), (count.shape[0], 1, 1))
    return t.op("expand", rows, shape=(count.shape[0], height, width))
