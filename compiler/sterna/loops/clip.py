"""Loops over reduced axes that begin and end where terms can be other than zero.

Of a window of 128 taps over a row with 64 zeros at either end, the results 9 to 17 read zeros alone by the taps before
the 47th. Where a tile of them is computed, its loop over taps begins there.
"""

from __future__ import annotations

from sterna.ir.division import ceil_div
from sterna.ir.extremum import maximum, minimum
from sterna.ir.integer import ZERO, Int
from sterna.loops.nest import Region
from sterna.te.axis import Axis
from sterna.te.conditions import needed
from sterna.te.expr import Reduce
from sterna.te.tensor import Tensor


def clipped(body: Reduce, axis: Axis, tensor: Tensor, region: Region) -> tuple[Int, Int]:
    """(first, end) of a reduced axis in a part of a stage: terms outside are zero for every element of it. Where there
    are none inside, the end is at most the first.

    Args:
        tensor: the stage; region: the part.
    """
    first, end = ZERO, axis.extent
    places = zip(tensor.axes, region.least, region.extent, strict=True)
    spans = {a: (least, least + size - 1) for a, least, size in places}
    spans |= {a: (ZERO, a.extent - 1) for a in body.axes if a is not axis}
    for condition in needed(body.a):
        step = condition.coefficient(axis)
        greatest = _greatest(condition - axis.var * (step or 0), spans)
        if not step or greatest is None:
            continue
        if step > 0:
            first = maximum(first, ceil_div(-greatest, step))
        else:
            end = minimum(end, greatest // -step + 1)
    return first, end


def _greatest(value: Int, spans: dict[Axis, tuple[Int, Int]]) -> Int | None:
    """The greatest value over the spans of axes; None where it is not linear in them, or asks for others."""
    total, values = value, []
    for axis, (least, last) in spans.items():
        step = value.coefficient(axis)
        if step is None:
            return None
        total = total - axis.var * step
        values.append((last if step > 0 else least) * step)
    return sum(values, total) if total.is_const else None
