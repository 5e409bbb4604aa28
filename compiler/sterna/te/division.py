"""Which values are quotients of integers that a machine has to divide for."""

from __future__ import annotations

from sterna.ir import dtypes
from sterna.te import expr as E
from sterna.te.expr import Expr
from sterna.te.tensor import constant_of

QUOTIENTS = ("div", "floor_div", "mod")


def is_quotient(node: Expr) -> bool:
    """Whether a node is a quotient or remainder of integers whose divisor is not known: by a constant, compilers
    multiply."""
    return (
        isinstance(node, E.Binary)
        and node.op in QUOTIENTS
        and dtypes.is_integer(node.dtype)
        and constant_of(node.b) is None
    )
