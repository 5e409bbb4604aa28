"""The parts of a stage's domain in which the conditions of its body are settled (loop partitioning).

`select(0 <= h - 1 < 8, x[h - 1], 0)` is 0 for h < 1, x[h - 1] for 1 <= h < 9, and 0 again after that. Neighbours that
are one constant everywhere are one part: the rows above an image are filled from edge to edge.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, product

from sterna.ir.extremum import maximum, minimum
from sterna.ir.integer import Symbol, of
from sterna.loops.nest import Region
from sterna.te import expr as E
from sterna.te.conditions import cuts, settled
from sterna.te.expr import Expr
from sterna.te.tensor import Tensor


@dataclass(frozen=True)
class Part:
    """A box of a stage's domain, and the stage's body there.

    Args:
        ranges: (first, end) per dimension; None for a dimension that is not cut.
    """

    ranges: tuple[tuple[int, int] | None, ...]
    body: Expr

    def within(self, region: Region) -> Region | None:
        """What of a region lies in the part; None if that is nothing. Where the region begins somewhere that only the
        loops around it determine, the extent is 0 or less where nothing does."""
        least, extent = [], []
        for cut, first, size in zip(self.ranges, region.least, region.extent, strict=True):
            start, end = first, first + size
            if cut is not None:
                start, end = maximum(first, cut[0]), minimum(end, cut[1])
            greatest = (end - start).bounds()[1]
            if greatest is not None and greatest <= 0:
                return None
            least.append(start)
            extent.append(end - start)
        return Region(tuple(least), tuple(extent))


def parts_of(body: Expr, tensor: Tensor, axes: Sequence[str], turns: bool = False) -> Iterator[Part]:
    """The parts of a stage, in order.

    Args:
        axes: along which the stage is cut; the others are left whole.
        turns: whether it is cut, too, where an index becomes another one (`cuts`).
    """
    yield from _joined([*_cut(body, tensor, axes, turns)], len(tensor.axes))


def _cut(body: Expr, tensor: Tensor, axes: Sequence[str], turns: bool) -> Iterator[Part]:
    at = [cuts(body, a, turns=turns) if a.name in axes else None for a in tensor.axes]
    ranges = [[None] if c is None else list(pairwise(c)) for c in at]
    for chosen in product(*ranges):
        inside = {a: Symbol(a.name, r[0], r[1] - 1) for a, r in zip(tensor.axes, chosen, strict=True) if r is not None}
        left = settled(E.substitute_index(body, {a: of(s) for a, s in inside.items()}))
        yield Part(chosen, E.substitute_index(left, {s: of(a) for a, s in inside.items()}))


def _joined(parts: Sequence[Part], dimensions: int) -> list[Part]:
    """Parts, of which those that are neighbours along one dimension and hold the same constant are one."""
    found = list(parts)
    for d in reversed(range(dimensions)):
        seen = list[Part]()
        for part in found:
            n = next((n for n, before in enumerate(seen) if _continues(before, part, d)), None)
            if n is None:
                seen.append(part)
            else:
                first, last = seen[n].ranges[d], part.ranges[d]
                assert first is not None
                assert last is not None
                ranges = (*part.ranges[:d], (first[0], last[1]), *part.ranges[d + 1 :])
                seen[n] = Part(ranges, part.body)
        found = seen
    return found


def _continues(before: Part, after: Part, d: int) -> bool:
    """Whether a part begins along a dimension where another of the same constant ends, and is as large in the rest."""
    first, last = before.ranges[d], after.ranges[d]
    if first is None or last is None or first[1] != last[0]:
        return False
    others = [(*part.ranges[:d], *part.ranges[d + 1 :]) for part in (before, after)]
    return others[0] == others[1] and isinstance(after.body, E.Const) and after.body == before.body
