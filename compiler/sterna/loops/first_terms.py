"""Reductions that are written out begin with their first term, not with what a loop would begin with.

A sum in a register is set to zero and its terms are added one by one. Where all of that stands in one run of
statements, the first addition is left out: a product in place of a multiply-add, and nothing to set. Only the sign of a
sum of zeros may differ.
"""

from __future__ import annotations

from sterna.loops import program as P
from sterna.te import expr as E
from sterna.te.expr import Expr
from sterna.te.tensor import COMBINING, identity


def first_terms(stmt: P.Stmt) -> P.Stmt:
    """Rewrites every run of straight-line statements inside a statement."""
    out: list[P.Stmt | None] = []
    started: dict[P.Variable, int] = {}
    for member in P.members(stmt):
        s = member
        if P.children(s):
            out.append(P.map_children(s, first_terms))
            started = {}
            continue
        if isinstance(s, P.Assign) and (at := started.pop(s.variable, None)) is not None:
            start = out[at]
            assert isinstance(start, P.Assign)
            term = _term(s.variable, s.value, start.value)
            if term is not None and s.variable not in _read(term):
                out[at], s = None, s.changed(value=term)
        value = P.value_of(s)
        read = set() if value is None else _read(value)
        for index in P.positions_of(s):
            read |= {v for e in index.expressions() for v in _read(e)}
        for variable in read:
            started.pop(variable, None)
        if isinstance(s, P.Assign) and isinstance(s.value, E.Const):
            started[s.variable] = len(out)
        out.append(s)
    return P.seq(*out)


def _term(variable: P.Variable, update: Expr, start: Expr) -> Expr | None:
    """What a variable is after an update, if it held what changes nothing before."""
    assert isinstance(start, E.Const)
    if isinstance(update, E.Fma):
        if _is(update.c, variable) and start.value == 0:
            return E.Binary(update.dtype, op="mul", a=update.a, b=update.b, lanes=update.lanes)
        return None
    if not isinstance(update, E.Binary):
        return None
    combiner = next((c for c, op in COMBINING.items() if op == update.op), None)
    if combiner is None or identity(combiner, start.dtype) != start.changed(lanes=1):
        return None
    if _is(update.a, variable):
        return update.b
    return update.a if _is(update.b, variable) else None


def _is(value: Expr, variable: P.Variable) -> bool:
    return isinstance(value, P.Read) and value.variable is variable


def _read(value: Expr) -> set[P.Variable]:
    found = {node.variable for node in E.walk(value) if isinstance(node, P.Read)}
    for node in E.walk(value):
        for index in E.positions(node):
            for computed in index.expressions():
                found |= _read(computed)
    return found
