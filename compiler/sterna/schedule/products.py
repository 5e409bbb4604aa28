"""Sums of products of integers."""

from __future__ import annotations

from sterna.ir import dtypes
from sterna.te import expr as E
from sterna.te.expr import Expr, Reduce


def factors(body: Expr) -> tuple[Expr, Expr] | None:
    """What a sum of products of two integers multiplies, before either is widened."""
    if not isinstance(body, Reduce) or body.combiner != "sum":
        return None
    product = body.a
    if not isinstance(product, E.Binary) or product.op != "mul" or not dtypes.is_integer(product.dtype):
        return None

    def narrow(e: Expr) -> Expr:
        wide = isinstance(e, E.Cast) and dtypes.is_integer(e.a.dtype) and contains(e.dtype, e.a.dtype)
        return e.a if wide and isinstance(e, E.Cast) else e

    return narrow(product.a), narrow(product.b)


def contains(wide: str, narrow: str) -> bool:
    """Whether an integer type has every value of another."""
    (a, b), (c, d) = dtypes.limits(wide), dtypes.limits(narrow)
    return a <= c and d <= b
