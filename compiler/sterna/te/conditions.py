"""Where the conditions of an expression change, and what is left of it where they are settled.

`select(0 <= h - 1 < 8, x[h - 1], 0)` changes at h = 1 and h = 9, `x[max(h - 3, 3 - h)]` at h = 3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from sterna.ir.extremum import Extremum
from sterna.ir.integer import Int, Symbol, as_int, of
from sterna.te import expr as E
from sterna.te.axis import Axis
from sterna.te.expr import Expr, Load, Reduce
from sterna.te.tensor import Tensor

#: Where a comparison holds, as the sign of left - right: from which difference on it changes, and whether below.
_CHANGES = {"lt": (0, True), "ge": (0, False), "le": (1, True), "gt": (1, False)}


def cuts(body: Expr, axis: Axis, reduced: Sequence[Axis] = (), turns: bool = False) -> list[int]:
    """The positions along an axis where a condition changes, between 0 and the axis's extent.

    Args:
        reduced: axes that the condition may ask for too: where it changes for any of their values.
        turns: whether it counts, too, where in an index the smaller or greater of two positions becomes the other.
    """
    end = int(axis.extent)
    found = {0, end}
    for node in E.walk(body):
        if turns and isinstance(node, Load):
            found.update(turn for index in node.indices for turn in _turns(index, axis, 0, end))
        difference = _difference(node)
        if not isinstance(node, E.Compare) or difference is None or node.op not in _CHANGES:
            continue
        beside = [a for a in reduced if a in difference.symbols() and a.extent.is_const]
        if difference.symbols() != {axis, *beside}:
            continue
        step = difference.coefficient(axis)
        if not step:
            continue
        for values in product(*(range(int(a.extent)) for a in beside)):
            # step * position reaches `threshold` at the first position of the upper side, or falls below it there.
            there = difference.substitute({a: as_int(n) for a, n in zip(beside, values, strict=True)})
            threshold = _CHANGES[node.op][0] - int(there.const)
            at = -(-threshold // step) if step > 0 else -threshold // -step + 1
            found.add(min(max(at, 0), end))
    return sorted(found)


def _turns(index: Int, axis: Axis, first: int, end: int) -> set[int]:
    """The positions first < i < end of an axis where an extremum in an index becomes the other operand: what that
    leaves may have more of them on either side."""
    here = Symbol(axis.name, first, end - 1)
    for atom in index.substitute({axis: of(here)}).atoms():
        if not isinstance(atom, Extremum):
            continue
        difference = atom.operands[0] - atom.operands[1]
        step = difference.coefficient(here)
        if not step or difference.symbols() != {here}:
            continue
        const = int(difference.const)
        turn = -(const // step) if step > 0 else -(-const // -step)
        if first < turn < end:
            return {turn} | _turns(index, axis, first, turn) | _turns(index, axis, turn, end)
    return set()


@dataclass(frozen=True)
class Terms:
    """A reduction in a part of its domain: (first, end) of what is left of each reduced axis that was cut, and the
    body there."""

    ranges: Mapping[str, tuple[int, int]]
    body: Reduce


def terms_in(body: Reduce, ranges: Mapping[Axis, tuple[int, int]]) -> Terms:
    """The terms of a sum that are not zero in a part of its domain, where each lies between the first and the last one
    along every reduced axis.

    Args:
        ranges: (first, end) of the axes of the part.
    """
    inside = {a: Symbol(a.name, first, end - 1) for a, (first, end) in ranges.items()}
    left: dict[Axis, tuple[int, int]] = {}
    for axis in body.axes:
        if body.combiner != "sum" or not axis.extent.is_const or not _asked_for(body.a, axis):
            continue
        known = {a: of(s) for a, s in inside.items()}
        there = [
            n
            for n in range(int(axis.extent))
            if not _zero(settled(E.substitute_index(body.a, {**known, axis: as_int(n)})))
        ]
        left[axis] = (there[0], there[-1] + 1) if there else (0, 0)
    inside |= {a: Symbol(a.name, first, max(end - 1, first)) for a, (first, end) in left.items()}
    left_over = settled(E.substitute_index(body.a, {a: of(s) for a, s in inside.items()}))
    element = E.substitute_index(left_over, {s: of(a) for a, s in inside.items()})
    return Terms({a.name: r for a, r in left.items()}, replace(body, a=element))


def _asked_for(body: Expr, axis: Axis) -> bool:
    """Whether a condition of a body depends on an axis."""
    differences = (_difference(node) for node in E.walk(body))
    return any(difference is not None and axis in difference.symbols() for difference in differences)


def _zero(term: Expr) -> bool:
    """Whether a term is a product with zero; what it is multiplied by is a number."""
    if isinstance(term, E.Binary) and term.op == "mul":
        return _zero(term.a) or _zero(term.b)
    return isinstance(term, E.Const) and term.value == 0


def needed(term: Expr) -> list[Int]:
    """What is at least zero wherever a product is not zero, as the conditions of its factors say; what they are
    multiplied by is a number."""
    if isinstance(term, E.Binary) and term.op == "mul":
        return [*needed(term.a), *needed(term.b)]
    if isinstance(term, Load) and isinstance(term.tensor, Tensor):
        body = term.tensor.body
        if body is None or isinstance(body, Reduce):
            return []
        return needed(E.substitute_index(body, dict(zip(term.tensor.axes, term.indices, strict=True))))
    return _holding(term.condition) if isinstance(term, E.Select) and _zero(term.b) else []


def limits(condition: Expr) -> list[tuple[Int, Int]] | None:
    """Positions and what they are less than, all of them, exactly where a condition holds; None of a condition that
    says something else."""
    if isinstance(condition, E.Binary) and condition.op == "and":
        parts = limits(condition.a), limits(condition.b)
        return None if parts[0] is None or parts[1] is None else parts[0] + parts[1]
    found = _holding(condition)
    if len(found) != 1:
        return None
    below = Int({term: -step for term, step in found[0].terms.items() if step < 0}, 0)
    return [(below, found[0] + below + 1)]


def _holding(condition: Expr) -> list[Int]:
    """What is at least zero where a condition holds."""
    if isinstance(condition, E.Binary) and condition.op == "and":
        return [*_holding(condition.a), *_holding(condition.b)]
    difference = _difference(condition)
    if difference is None or not isinstance(condition, E.Compare) or condition.op not in _CHANGES:
        return []
    threshold, below = _CHANGES[condition.op]
    return [threshold - 1 - difference if below else difference - threshold]


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


def settled(body: Expr) -> Expr:
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
