"""Operations that round as arithmetic, where the target has no instructions for them."""

from __future__ import annotations

from sterna.ir import dtypes
from sterna.loops.lanewise import bits, cast, comparison, constant, operation, select
from sterna.te import expr as E
from sterna.te.expr import Expr


def by_arithmetic(node: E.Nearest | E.Binary) -> Expr:
    """The same value."""
    return _nearest(node) if isinstance(node, E.Nearest) else _shifted(node)


def _shifted(node: E.Binary) -> Expr:
    """`round_shift` of numbers that do not leave their type by the half."""
    one = constant(1, node.a)
    half = operation("shift_left", one, operation("sub", node.b, 1))
    return operation("shift_right", operation("add", node.a, half), node.b)


def _nearest(node: E.Nearest) -> Expr:
    """Clamped first, which changes nothing, for the limits are integers; then the sum with a large
    number rounds, so that all of it is a handful of instructions on every machine, vectors or not."""
    low, high = (float(limit - node.zero) for limit in dtypes.limits(node.dtype))
    x = node.a
    above = select(comparison("gt", x, low), x, constant(low, x))
    inside = select(comparison("lt", above, high), above, constant(high, x))
    shift, shift_bits, integer = E.SHIFTS[x.dtype]
    return cast(operation("add", bits(operation("add", inside, shift), integer), node.zero - shift_bits), node.dtype)
