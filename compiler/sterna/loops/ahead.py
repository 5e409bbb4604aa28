"""What a sum asks for of a constant before its reader needs it: the next part, evenly over all steps in which this one
is read.

A part that many rows are multiplied by lies in L2 after the first of them, which waits for memory. The next part comes
meanwhile, in all steps of all rows, so that its first row finds it.
"""

from __future__ import annotations

from math import prod

from sterna.ir import dtypes
from sterna.ir.extremum import minimum
from sterna.ir.integer import ZERO, Int
from sterna.loops import program as P
from sterna.loops.nest import Fetch, Nest
from sterna.loops.program import Buffer
from sterna.schedule.decisions import Ahead, StageSchedule

#: Bytes that come at once, of every target that asks.
_LINE = 64


def next_part(s: StageSchedule, ahead: Ahead, buffer: Buffer, sums: Nest, around: Nest) -> Fetch | None:
    """What the sums of a tile ask for; None where loops have no constant number of steps, or more than there are
    elements.

    Args:
        buffer: of the constant, its parts one after the other.
        sums: the nest of the sums, none of whose loops is entered.
        around: that of their reader, all of whose loops over parts and rounds are.
    """
    parts, *within = buffer.shape
    elements = prod(int(n) for n in within)
    rounds, steps = [around.nominal_extent(axis) for axis in ahead.rounds], _steps(s, ahead, sums)
    values = [around.value(axis) for axis in (ahead.part, *ahead.rounds)]
    if not all(n.is_const for n in (*rounds, *steps)) or any(v is None for v in values):
        return None
    each = elements // prod(int(n) for n in (*rounds, *steps))
    if each == 0:
        return None
    part, *places = (v for v in values if v is not None)
    tile = ZERO
    for place, n in zip(places, rounds, strict=True):
        tile = tile * n + place
    for n in steps:
        tile = tile * n
    return Fetch(buffer, minimum(part + 1, parts - 1) * elements + tile * each, each)


def _steps(s: StageSchedule, ahead: Ahead, sums: Nest) -> list[Int]:
    """Iterations of the sum's loops down to the one that asks."""
    return [sums.extent(leaf) for leaf in _loops(s, ahead)]


def _loops(s: StageSchedule, ahead: Ahead) -> list[str]:
    outer = s.leaves[: s.leaves.index(ahead.axis) + 1]
    return [leaf for leaf in outer if leaf in s.reduction_leaves]


def asking(s: StageSchedule, ahead: Ahead, fetch: Fetch, nest: Nest) -> P.Stmt:
    """The statements of one step, whose place the loops entered say."""
    step = ZERO
    for leaf, n in zip(_loops(s, ahead), _steps(s, ahead, nest), strict=True):
        value = nest.value(leaf)
        assert value is not None
        step = step * n + value
    line = _LINE // dtypes.size(fetch.buffer.dtype)
    index = fetch.first + step * fetch.each
    return P.seq(*(P.Prefetch(fetch.buffer, index + n) for n in range(0, fetch.each, line)))
