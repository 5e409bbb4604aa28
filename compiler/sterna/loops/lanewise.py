"""Nodes of expressions as late passes build them: nothing is folded, constants have as many lanes as what they meet."""

from __future__ import annotations

from sterna.loops.minimax import FORMATS
from sterna.te import expr as E
from sterna.te.expr import Expr


def constant(value: float, like: Expr, dtype: str | None = None) -> Expr:
    return E.const(value, dtype or like.dtype).changed(lanes=like.lanes)


def operation(op: str, a: Expr, b: Expr | float) -> Expr:
    return E.Binary(a.dtype, op=op, a=a, b=b if isinstance(b, Expr) else constant(b, a), lanes=a.lanes)


def comparison(op: str, a: Expr, b: Expr | float) -> Expr:
    return E.Compare("bool", op=op, a=a, b=b if isinstance(b, Expr) else constant(b, a), lanes=a.lanes)


def fma(a: Expr, b: Expr | float, c: Expr | float) -> Expr:
    b, c = (v if isinstance(v, Expr) else constant(v, a) for v in (b, c))
    return E.Fma(a.dtype, a=a, b=b, c=c, lanes=a.lanes)


def unary(op: str, a: Expr) -> Expr:
    return E.Unary(a.dtype, op=op, a=a, lanes=a.lanes)


def select(condition: Expr, a: Expr | float, b: Expr) -> Expr:
    return E.Select(b.dtype, condition=condition, a=a if isinstance(a, Expr) else constant(a, b), b=b, lanes=b.lanes)


def cast(a: Expr, dtype: str) -> Expr:
    return a if a.dtype == dtype else E.Cast(dtype, a=a, lanes=a.lanes)


def bits(a: Expr, dtype: str) -> Expr:
    return E.Bitcast(dtype, a=a, lanes=a.lanes)


def power_of_two(t: Expr) -> Expr:
    """2**(n - b) of the sum of n and the magic number, where b is the bias of the type."""
    form = FORMATS[t.dtype]
    return bits(operation("shift_left", bits(t, form.bits), form.mantissa), form.dtype)
