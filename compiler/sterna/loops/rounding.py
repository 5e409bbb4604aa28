"""Operations that round as arithmetic, where the target has no instructions for them, or compilers do not use them."""

from __future__ import annotations

from sterna.ir import dtypes
from sterna.loops.lanewise import bits, cast, comparison, constant, operation, select, unary
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


def whole_half(op: str, x: Expr) -> Expr:
    """`floor`, `ceil`, `trunc` or `rint` of a float32 that float16 can hold: the sum with a large number rounds.

    Compilers take a rounded half float for an operation on half floats, and where the processor has none, they make it
    of one element at a time. A result of 0 has the sign of x.
    """
    shift = E.SHIFTS[x.dtype][0]
    sign = operation("and", bits(x, "int32"), constant(-(2**31), x, "int32"))
    if op == "trunc":
        x = unary("abs", x)
    whole = operation("sub", operation("add", x, shift), shift)
    if op in ("floor", "trunc"):
        whole = select(comparison("gt", whole, x), operation("sub", whole, 1.0), whole)
    elif op == "ceil":
        whole = select(comparison("lt", whole, x), operation("add", whole, 1.0), whole)
    return bits(operation("or", bits(whole, "int32"), sign), "float32")
