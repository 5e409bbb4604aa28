"""Sums of products of numbers that are widened before they are multiplied."""

from __future__ import annotations

from sterna.ir import dtypes
from sterna.te import expr as E
from sterna.te.expr import Expr, Reduce


def multiplies(reduction: Reduce) -> bool:
    """Whether a reduction adds up products."""
    return reduction.combiner == "sum" and isinstance(reduction.a, E.Binary) and reduction.a.op == "mul"


def factors(body: Expr) -> tuple[Expr, Expr] | None:
    """What a sum of products multiplies, before either factor is widened; None of floats of their own type."""
    if not isinstance(body, Reduce) or body.combiner != "sum":
        return None
    product = body.a
    if not isinstance(product, E.Binary) or product.op != "mul":
        return None
    found = _narrow(product.a), _narrow(product.b)
    whole = dtypes.is_integer(product.dtype)
    return found if whole or any(e.dtype != product.dtype for e in found) else None


def _narrow(e: Expr) -> Expr:
    """A number before it was widened."""
    return e.a if isinstance(e, E.Cast) and contains(e.dtype, e.a.dtype) else e


def contains(wide: str, narrow: str) -> bool:
    """Whether a type has every value of another, both of integers or both of floats."""
    if dtypes.is_float(wide) and dtypes.is_float(narrow):
        return wide == narrow or dtypes.bits(wide) > max(dtypes.bits(narrow), 16)
    if not (dtypes.is_integer(wide) and dtypes.is_integer(narrow)):
        return False
    (a, b), (c, d) = dtypes.limits(wide), dtypes.limits(narrow)
    return a <= c and d <= b
