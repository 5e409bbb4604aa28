"""Sums of products of integers, and the hardware intrinsics that compute them."""

from __future__ import annotations

import operator

from sterna.intrinsics import Intrinsic, TileIntrinsic
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


def matching(body: Expr, intrinsic: Intrinsic) -> bool | None:
    """Whether a stage's body is an intrinsic's behaviour: False as it stands, True with its factors swapped, None
    if it is not."""
    found = factors(body)
    if found is None or body.dtype != intrinsic.dtype:
        return None
    # Tiles are loaded as they lie in memory; vectors are widened on the way.
    takes = operator.eq if isinstance(intrinsic, TileIntrinsic) else contains
    for swapped, pair in ((False, found), (True, found[::-1])):
        if all(takes(wanted, e.dtype) for wanted, e in zip(intrinsic.operands, pair, strict=True)):
            return swapped
    return None
