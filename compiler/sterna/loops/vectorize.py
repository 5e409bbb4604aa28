"""Turns vectorized loops into vector statements.

A loop of a number of iterations that is no power of two becomes one vector of the next power of two of which only the
first lanes are active. A body that vectors cannot express (an index that is not linear in the loop's variable) becomes
an unrolled loop instead.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sterna.ir.integer import ZERO, Symbol, as_int
from sterna.loops import program as P
from sterna.te import expr as E
from sterna.te.expr import Expr


class _NotLinearError(Exception):
    pass


def vectorize(stmt: P.Stmt) -> P.Stmt:
    """Replaces every loop of kind "vectorized" inside a statement."""
    if not isinstance(stmt, P.For) or stmt.kind != "vectorized":
        return P.map_children(stmt, vectorize)
    lanes = int(stmt.extent)
    try:
        return P.seq(*(_vector_stmt(s, stmt.symbol, lanes, stmt.width or lanes) for s in P.members(stmt.body)))
    except _NotLinearError:
        return P.map_children(stmt.changed(kind="unrolled"), vectorize)


def _vector_stmt(stmt: P.Stmt, symbol: Symbol, n: int, wanted: int) -> P.Stmt:
    if not isinstance(stmt, P.Store):
        raise _NotLinearError
    stride = stmt.index.coefficient(symbol)
    if not stride or stride < 0:
        raise _NotLinearError
    width = 1 << (wanted - 1).bit_length()
    value = _spread(_Vectors(symbol, width, None if n == width else n).of(stmt.value), width)
    return stmt.changed(
        index=stmt.index.substitute({symbol: ZERO}), value=value, stride=stride, active=None if n == width else n
    )


@dataclass
class _Vectors:
    """Expressions for all iterations of a loop at once; of one lane where all of them agree."""

    symbol: Symbol
    lanes: int
    active: int | None
    done: dict[Expr, Expr] = field(default_factory=dict)

    def of(self, expr: Expr) -> Expr:
        if (known := self.done.get(expr)) is None:
            self.done[expr] = known = self._of(expr)
        return known

    def _of(self, expr: Expr) -> Expr:
        if isinstance(expr, (E.Load, E.IndexValue)):
            (index,) = E.positions(expr)
            stride = index.coefficient(self.symbol)
            if isinstance(expr, E.Load) and (stride is None or stride < 0):
                return self.near(expr)
            if stride is None:
                raise _NotLinearError
            if stride == 0:
                return expr
            first = index.substitute({self.symbol: ZERO})
            if isinstance(expr, E.Load):
                return expr.changed(indices=(first,), lanes=self.lanes, stride=stride, active=self.active)
            return expr.changed(index=first, lanes=self.lanes, stride=stride)
        children = expr.children()
        new = tuple(map(self.of, children))
        if all(c.lanes == 1 for c in new):
            return expr.with_children(new) if children else expr
        return expr.with_children(tuple(_spread(c, self.lanes) for c in new))

    def near(self, load: E.Load) -> Expr:
        """Lanes that lie near one another in an order of their own, picked from one vector."""
        (index,) = load.indices
        count = self.lanes if self.active is None else self.active
        places = [index.substitute({self.symbol: as_int(n)}) for n in range(count)]
        apart = [place - places[0] for place in places]
        if load.dtype == "bool" or not all(each.is_const for each in apart):
            raise _NotLinearError
        steps = list(map(int, apart))
        first, span = min(steps), max(steps) - min(steps) + 1
        width = max(2, 1 << (span - 1).bit_length())
        if width > self.lanes:
            raise _NotLinearError
        order = tuple(step - first for step in steps) + (0,) * (self.lanes - count)
        vector = load.changed(indices=(places[0] + first,), lanes=width, active=None if width == span else span)
        return P.Shuffle(load.dtype, a=vector, order=order, lanes=self.lanes)


def _spread(expr: Expr, lanes: int) -> Expr:
    if expr.lanes == lanes:
        return expr
    if isinstance(expr, E.Const):
        return expr.changed(lanes=lanes)
    return P.Broadcast(expr.dtype, a=expr, lanes=lanes)
