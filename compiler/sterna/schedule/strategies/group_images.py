"""What windows slide over, in memory that threads share. Where channels are few, the elements of a window lie here and
there, and threads that gather them from the device's memory ask for more sectors than they need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod

from sterna.ir import dtypes
from sterna.ir.integer import Int
from sterna.ir.memory import BANKS, SECTOR
from sterna.schedule.strategies.analysis import size
from sterna.schedule.strategies.group_banks import SUBGROUP, WORD, waiting
from sterna.te.axis import Axis
from sterna.te.expr import Load
from sterna.te.layout import dense_strides
from sterna.te.tensor import Tensor


@dataclass(frozen=True)
class Image:
    """The part of a tensor that the windows of some neighbouring positions slide over.

    Args:
        bytes: of it, with padding; padding: elements behind each row; behind: dimensions of a row, the last ones.
    """

    bytes: int
    padding: int
    behind: int


def image_of(load: Load, rows: Sequence[Axis], taps: Sequence[Axis], many: int, depth: int) -> Image | None:
    """What so many windows slide over, so that threads that gather elements wait for few banks; None where nothing
    slides, and where it is more than what threads ask for that gather the windows from the device's memory.

    Args:
        load: of an element of a window; rows: the axes of the windows' positions; taps: those within a window.
        depth: elements of a window that threads side by side have at a time.
    """
    tensor, each = load.tensor, dtypes.size(load.dtype)
    assert isinstance(tensor, Tensor)
    if any(index.coefficient(a) is None for index in load.indices for a in (*rows, *taps)):
        return None
    slides = [d for d, index in enumerate(load.indices) if _names(index, rows) and _names(index, taps)]
    strides = dense_strides(tensor.shape)
    if not slides or not all(n.is_const for n in strides):
        return None
    extents = _within(rows, many) | {a: size(a.extent) for a in taps}
    shape = [1 + sum(_step(i, a) * (n - 1) for a, n in extents.items()) for i in load.indices]
    window = [_at(load.indices, taps, n) for n in range(prod(size(a.extent) for a in taps))]
    if prod(shape) > many * _sectors(window, [int(n) for n in strides], SECTOR // each):
        return None

    def strides_of(behind: int, padding: int) -> list[int]:
        """Of the copy's dimensions."""
        inner, outer = shape[len(shape) - behind :], shape[1 : len(shape) - behind]
        line = [*outer, prod(inner) + padding]
        return [*(prod(line[d:]) for d in range(len(line))), *(prod(inner[d + 1 :]) for d in range(behind))]

    def turns(behind: int, padding: int) -> int:
        """That gathering some windows takes beyond one for each access."""
        strides = strides_of(behind, padding)
        places = [sum(p * n for p, n in zip(at, strides, strict=True)) for at in window]
        whole = [*places, *places[-1:] * (-len(places) % depth)]
        steps = [whole[n : n + depth] for n in range(0, len(whole), depth)]
        next_line, beside = (
            sum(_step(i, a) * n for i, n in zip(load.indices, strides, strict=True) for a in axes)
            for axes in (rows[-2:-1], rows[-1:])
        )
        # Windows side by side, and the last of a line with the first of the next one.
        at_once = max(1, SUBGROUP // depth)
        samples = [[(first + n) * beside for n in range(at_once)] for first in range(0, 4, at_once)]
        if at_once > 1:
            last = (size(rows[-1].extent) - 1) * beside
            samples.append([last, *(next_line + n * beside for n in range(at_once - 1))])
        return sum(
            waiting([at + place for at in each_of for place in step], each) for step in steps for each_of in samples
        )

    def held(behind: int, padding: int) -> int:
        return shape[0] * strides_of(behind, padding)[0] * each

    # By at most half of the banks, so that threads which store the end of a row and the next one do not wait, either.
    # What is behind lines is less than what is behind each of their positions.
    line = len(shape) - 1 - slides[0]
    tried = [(line, 0)]
    for behind in dict.fromkeys((*([line] if len(slides) > 1 else ()), 1)):
        if 0 < behind <= line:
            tried += [(behind, n) for n in range(2, BANKS * WORD // each // 2 + 1, 2)]
    waits = next((n for n in tried if not turns(*n)), None) or min(tried, key=lambda n: turns(*n))
    return Image(held(*waits), waits[1], waits[0])


def _names(index: Int, axes: Sequence[Axis]) -> bool:
    return not index.symbols().isdisjoint(axes)


def _step(index: Int, axis: Axis) -> int:
    return abs(index.coefficient(axis) or 0)


def _within(rows: Sequence[Axis], many: int) -> dict[Axis, int]:
    """How many positions of each axis some windows have, at most, that follow one another from a multiple of their
    number on."""
    found, aligned = dict[Axis, int](), True
    for axis in reversed(rows):
        extent = size(axis.extent)
        if axis is rows[0]:
            found[axis] = min(many, extent)
        elif aligned and extent % many == 0:
            found[axis], many = many, 1
        else:
            # They go on in the next row of positions, and begin there too where they are no whole number of rows.
            found[axis] = extent
            aligned = aligned and many % extent == 0
            many = many // extent if aligned else (many + extent - 2) // extent + 1
    return found


def _at(indices: Sequence[Int], taps: Sequence[Axis], number: int) -> list[int]:
    """Where an element of a window is, from its first."""
    at = dict[Axis, int]()
    for axis in reversed(taps):
        number, at[axis] = divmod(number, size(axis.extent))
    return [sum(_step(index, a) * n for a, n in at.items()) for index in indices]


def _sectors(window: Sequence[Sequence[int]], strides: Sequence[int], more: int) -> int:
    """Elements of the sectors that a window's lie in: of each run of neighbours `more` beyond them."""
    places = sorted(sum(p * n for p, n in zip(at, strides, strict=True)) for at in window)
    return len(places) + more * (1 + sum(b - a > 1 for a, b in pairwise(places)))


__all__ = ["Image", "image_of"]
