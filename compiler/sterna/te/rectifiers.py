"""Choices by the sign of a number that are extrema: for machines whose vectors of floats are not compared."""

from __future__ import annotations

from sterna.ir import dtypes
from sterna.te import expr as E
from sterna.te.expr import Expr


def is_leaky(node: Expr) -> bool:
    """Whether it is x, or x times a constant above 0 and up to 1 where x is below 0: the greater of both, bit for bit,
    and NaN where x is NaN."""
    if not isinstance(node, E.Select) or not dtypes.is_float(node.dtype):
        return False
    test, scaled, x = node.condition, node.a, node.b
    if not (isinstance(test, E.Compare) and test.op == "lt" and isinstance(test.b, E.Const) and test.b.value == 0):
        return False
    if test.a != x or not isinstance(scaled, E.Binary) or scaled.op != "mul":
        return False
    return any(
        isinstance(slope, E.Const) and 0 < slope.value <= 1 and other == x
        for slope, other in ((scaled.a, scaled.b), (scaled.b, scaled.a))
    )
