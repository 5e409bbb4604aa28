"""Limits that are written as a comparison and a choice, as extrema: for vectors of floats that compilers cannot compare
for each lane by itself, but have extrema of."""

from __future__ import annotations

from sterna.ir import dtypes
from sterna.loops.lanewise import operation
from sterna.te import expr as E
from sterna.te.expr import Expr
from sterna.te.rectifiers import is_leaky

_EXTREMA = {"lt": "maximum", "gt": "minimum"}


def as_extremum(node: Expr) -> Expr | None:
    """limit if x < limit else x, of vectors of floats and a constant, as the greater of both, the same with >, and what
    `is_leaky`; None for anything else. What is no number stays so in all."""
    if not (isinstance(node, E.Select) and node.lanes > 1 and dtypes.is_float(node.dtype)):
        return None
    if is_leaky(node):
        return operation("maximum", node.b, node.a)
    test, limit, x = node.condition, node.a, node.b
    if not (isinstance(test, E.Compare) and test.op in _EXTREMA and isinstance(limit, E.Const)):
        return None
    return operation(_EXTREMA[test.op], x, limit) if (test.a, test.b) == (x, limit) else None
