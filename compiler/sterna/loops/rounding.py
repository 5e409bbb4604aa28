"""The nearest integer of few bits as arithmetic, where the target has no instructions for it."""

from __future__ import annotations

from sterna.ir import dtypes
from sterna.loops.lanewise import bits, cast, comparison, constant, operation, select
from sterna.te import expr as E
from sterna.te.expr import Expr


def by_arithmetic(node: E.Nearest) -> Expr:
    """The same value. Clamped first, which changes nothing, for the limits are integers; then the sum with a large
    number rounds, so that all of it is a handful of instructions on every machine, vectors or not."""
    low, high = (float(limit - node.zero) for limit in dtypes.limits(node.dtype))
    x = node.a
    above = select(comparison("gt", x, low), x, constant(low, x))
    inside = select(comparison("lt", above, high), above, constant(high, x))
    shift, shift_bits, integer = E.SHIFTS[x.dtype]
    return cast(operation("add", bits(operation("add", inside, shift), integer), node.zero - shift_bits), node.dtype)
