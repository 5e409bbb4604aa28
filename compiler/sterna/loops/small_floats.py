"""16-bit floats are computed in float32 and rounded after every operation: what their own arithmetic would give.

Only conversions are left for the generators to render; everything else that touches these types moves bits.
"""

from __future__ import annotations

from sterna.ir import dtypes
from sterna.loops.rounding import whole_half
from sterna.te import expr as E
from sterna.te.expr import Expr

#: Operations that give integers.
_WHOLE = ("floor", "ceil", "trunc", "rint")


def widen_small_floats(expr: Expr) -> Expr:
    """The expression without arithmetic or comparisons on 16-bit floats."""
    return E.rewrite(expr, _rule)


def _rule(node: Expr) -> Expr | None:
    if isinstance(node, (E.Unary, E.Binary, E.Compare, E.Fma)):
        operands = node.children()
        if not any(c.dtype in dtypes.HALVES for c in operands):
            return None
        wide = node.with_children(tuple(_cast(c, "float32") if c.dtype in dtypes.HALVES else c for c in operands))
        return _to_small(wide.changed(dtype="float32"), node.dtype) if node.dtype in dtypes.HALVES else wide
    if isinstance(node, E.IndexValue) and node.dtype in dtypes.HALVES:
        return _to_small(node.changed(dtype="float32"), node.dtype)
    if isinstance(node, E.Cast):
        if node.dtype == "float16" and node.a.dtype == "float32":
            return _to_small(node.a, node.dtype)
        kinds = {node.dtype, node.a.dtype}
        if "float32" not in kinds and kinds.intersection(dtypes.HALVES):
            return _cast(_cast(node.a, "float32"), node.dtype)
    return None


def _to_small(a: Expr, dtype: str) -> Expr:
    """A float32 as a 16-bit float."""
    if dtype == "float16" and isinstance(a, E.Unary) and a.op in _WHOLE and _was_half(a.a):
        a = whole_half(a.op, a.a)
    return _cast(a, dtype)


def _was_half(a: Expr) -> bool:
    return isinstance(a, E.Cast) and a.a.dtype == "float16"


def _cast(a: Expr, dtype: str) -> Expr:
    if isinstance(a, E.Const):
        return E.const(a.value, dtype).changed(lanes=a.lanes)
    return E.Cast(dtype, a=a, lanes=a.lanes) if a.dtype != dtype else a
