"""How far apart two positions are that are only known at run time: `x[i : i + 1]` has one row, whatever `i` is.

Loops over positions are written like this, and Paddle's exporter cuts the end off at the size of the tensor and counts
in floating point. What is found here holds unless something is cut off or rounded: translations test at run time that
it does (`Translation.agree`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sterna.ir.graph import Node, Value

#: Longest vector of positions that is looked at.
MOST = 16
_SAME = ("reshape", "cast")
_BOUNDED = ("minimum", "maximum")


@dataclass(frozen=True)
class Position:
    """An element of a tensor of integers, plus a number; of no tensor where that is the number itself."""

    base: Value | None
    element: int
    plus: float

    def shifted(self, by: float) -> Position:
        return Position(self.base, self.element, self.plus + by)


def distance(start: Position, end: Position) -> int | None:
    """`end - start`, if it is known and whole."""
    apart = end.plus - start.plus
    known = (start.base, start.element) == (end.base, end.element) and apart.is_integer()
    return int(apart) if known else None


def positions(value: Value, nodes: Sequence[Node]) -> list[Position] | None:
    """The elements of a tensor in order; None if it has too many.

    Args:
        nodes: among which those stand that made it, in order; what others made is not looked into.
    """
    if not value.type.is_static or int(value.type.elements) > MOST:
        return None
    makers = {output: node for node in nodes for output in node.outputs}
    return _positions(value, makers)


def _positions(value: Value, makers: dict[Value, Node]) -> list[Position]:
    count = int(value.type.elements)
    if value.data is not None:
        return [Position(None, 0, float(n)) for n in np.asarray(value.data).reshape(-1)]
    node = makers.get(value)
    operands = [] if node is None else [each for each in node.inputs if each is not None]
    static = all(each.type.is_static and int(each.type.elements) <= count for each in operands)
    if node is not None and static:
        if node.op in _SAME and operands[0].type.elements == count:
            return _positions(operands[0], makers)
        if node.op == "concat" and value.type.rank == 1:
            return [each for operand in operands for each in _positions(operand, makers)]
        constant = [each.data for each in operands]
        if len(operands) == 2 and (constant[0] is None) != (constant[1] is None):
            side = int(constant[0] is not None)
            found = _with_constant(node.op, side, operands[side], constant[1 - side], count, makers)
            if found is not None:
                return found
    return [Position(value, n, 0.0) for n in range(count)]


def _with_constant(
    op: str, side: int, running: Value, data: object, count: int, makers: dict[Value, Node]
) -> list[Position] | None:
    """An operator between a constant and what is computed at run time, the operand `side`; None for others."""
    if running.type.elements != count:
        return None
    if op in _BOUNDED:
        return _positions(running, makers)
    if op == "add" or (op == "sub" and side == 0):
        by = np.broadcast_to(np.asarray(data, np.float64).reshape(-1), (count,)) * (1 if op == "add" else -1)
        return [each.shifted(float(n)) for each, n in zip(_positions(running, makers), by, strict=True)]
    return None
