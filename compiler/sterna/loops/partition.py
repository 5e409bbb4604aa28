"""The parts of a stage's domain in which the conditions of its body are settled (loop partitioning).

`select(0 <= h - 1 < 8, x[h - 1], 0)` is 0 for h < 1, x[h - 1] for 1 <= h < 9, and 0 again after that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, product

from sterna.ir.extremum import maximum, minimum
from sterna.ir.integer import Int, Symbol, of
from sterna.loops.nest import Region
from sterna.te import expr as E
from sterna.te.axis import Axis
from sterna.te.expr import Expr
from sterna.te.tensor import Tensor

#: Where a comparison holds, as the sign of left - right: from which difference on it changes, and whether below.
_CHANGES = {"lt": (0, True), "ge": (0, False), "le": (1, True), "gt": (1, False)}


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


def parts_of(body: Expr, tensor: Tensor, axes: Sequence[str]) -> Iterator[Part]:
    """The parts of a stage, in order.

    Args:
        axes: along which the stage is cut; the others are left whole.
    """
    cuts = [_cuts(body, a) if a.name in axes else None for a in tensor.axes]
    ranges = [[None] if c is None else list(pairwise(c)) for c in cuts]
    for chosen in product(*ranges):
        inside = {a: Symbol(a.name, r[0], r[1] - 1) for a, r in zip(tensor.axes, chosen, strict=True) if r is not None}
        settled = _settled(E.substitute_index(body, {a: of(s) for a, s in inside.items()}))
        yield Part(chosen, E.substitute_index(settled, {s: of(a) for a, s in inside.items()}))


def _cuts(body: Expr, axis: Axis) -> list[int]:
    """The positions along an axis where a condition changes, between 0 and the axis's extent."""
    end = int(axis.extent)
    found = {0, end}
    for node in E.walk(body):
        difference = _difference(node)
        if not isinstance(node, E.Compare) or difference is None or difference.symbols() != {axis}:
            continue
        step = difference.coefficient(axis)
        if not step or node.op not in _CHANGES:
            continue
        # step * position reaches `threshold` at the first position of the upper side, or falls below it there.
        threshold = _CHANGES[node.op][0] - int(difference.const)
        at = -(-threshold // step) if step > 0 else -threshold // -step + 1
        found.add(min(max(at, 0), end))
    return sorted(found)


def _difference(node: Expr) -> Int | None:
    """left - right of a comparison of positions."""
    if not isinstance(node, E.Compare):
        return None
    sides = []
    for side in (node.a, node.b):
        if isinstance(side, E.IndexValue):
            sides.append(side.index)
        elif isinstance(side, E.Const) and isinstance(side.value, int):
            sides.append(Int({}, int(side.value)))
        else:
            return None
    return sides[0] - sides[1]


def _settled(body: Expr) -> Expr:
    """The body without the conditions that the bounds of its symbols decide."""

    def rule(node: Expr) -> Expr | None:
        if isinstance(node, E.Compare) and (difference := _difference(node)) is not None and node.op in _CHANGES:
            threshold, below = _CHANGES[node.op]
            lo, hi = difference.bounds()
            if hi is not None and hi < threshold:
                return E.const(below, "bool")
            if lo is not None and lo >= threshold:
                return E.const(not below, "bool")
        if isinstance(node, E.Binary) and node.op == "and":
            for one, other in ((node.a, node.b), (node.b, node.a)):
                if isinstance(one, E.Const):
                    return other if one.value else one
        if isinstance(node, E.Select) and isinstance(node.condition, E.Const):
            return node.a if node.condition.value else node.b
        return None

    return E.rewrite(body, rule)
