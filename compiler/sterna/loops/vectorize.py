"""Turns vectorized loops into vector statements.

A loop of a number of iterations that is no power of two becomes one vector of the next power of two of which only the
first lanes are active. An index that is not linear in the loop's variable may still be one of lanes that lie near one
another, if all of them are known: the unrolled loops around are written out where that makes them so. A body that
vectors cannot express becomes an unrolled loop instead, but for elements at positions that are computed: those are put
together to vectors, which is as fast as one by one, and what is done with them takes a lane's part of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from sterna.ir.integer import ZERO, Int, Symbol, as_int
from sterna.loops import program as P
from sterna.loops.unroll import written_out
from sterna.loops.values import joined
from sterna.te import expr as E
from sterna.te.expr import Expr


class _NotLinearError(Exception):
    pass


def vectorize(stmt: P.Stmt) -> P.Stmt:
    """Replaces every loop of kind "vectorized" inside a statement."""
    return _vectorize(stmt, unrolled=False)


def _vectorize(stmt: P.Stmt, unrolled: bool) -> P.Stmt:
    """
    Args:
        unrolled: whether an unrolled loop stands around it, which can be written out.

    Raises:
        _NotLinearError: where that may help.
    """
    if isinstance(stmt, P.For) and stmt.kind == "unrolled" and _only_stores(stmt):
        try:
            return P.map_children(stmt, lambda s: _vectorize(s, unrolled=True))
        except _NotLinearError:
            copies = (written_out(stmt.body, {stmt.symbol: as_int(n)}) for n in range(int(stmt.extent)))
            return P.seq(*(_vectorize(copy, unrolled) for copy in copies))
    if not isinstance(stmt, P.For) or stmt.kind != "vectorized":
        return P.map_children(stmt, lambda s: _vectorize(s, unrolled))
    lanes = int(stmt.extent)
    if isinstance(stmt.body, P.If) and _is_common(stmt.body, stmt.symbol, lanes):
        inside = P.map_children(stmt.body, lambda s: _vectorize(stmt.changed(body=s), unrolled))
        # Of the last one, so that it is seen of all.
        return inside.changed(index=stmt.body.index.substitute({stmt.symbol: as_int(lanes - 1)}))
    try:
        return P.seq(*_vector_stmts(P.members(stmt.body), stmt.symbol, lanes, stmt.width or lanes))
    except _NotLinearError:
        if unrolled:
            raise
    try:
        return P.seq(*_vector_stmts(P.members(stmt.body), stmt.symbol, lanes, stmt.width or lanes, together=True))
    except _NotLinearError:
        return P.map_children(stmt.changed(kind="unrolled"), lambda s: _vectorize(s, unrolled))


def _is_common(stmt: P.If, symbol: Symbol, lanes: int) -> bool:
    """Whether a condition holds for all iterations of a loop or for none: both sides are multiples of what the loop
    moves on by."""
    step = stmt.index.coefficient(symbol)
    if step is None or step < 0 or stmt.limit.coefficient(symbol) != 0:
        return False
    sides = (stmt.index.substitute({symbol: ZERO}), stmt.limit)
    return not step or all(n % (step * lanes) == 0 for s in sides for n in (s.const, *s.terms.values()))


def _only_stores(stmt: P.Stmt) -> bool:
    """Whether nothing inside a loop has a name, of which copies would need their own."""
    return all(isinstance(s, (P.For, P.Store, P.Seq)) for s in P.walk(stmt))


def _vector_stmts(
    stmts: Sequence[P.Stmt], symbol: Symbol, n: int, wanted: int, together: bool = False
) -> Iterator[P.Stmt]:
    width = 1 << (wanted - 1).bit_length()
    active = None if n == width else n
    vectors = _Vectors(symbol, width, active, together)
    for stmt in stmts:
        if isinstance(stmt, P.Let):
            yield vectors.let(stmt)
            continue
        if not isinstance(stmt, P.Store):
            raise _NotLinearError
        stride = stmt.index.coefficient(symbol)
        if not stride or stride < 0:
            raise _NotLinearError
        value = _spread(vectors.of(stmt.value), width)
        yield stmt.changed(index=stmt.index.substitute({symbol: ZERO}), value=value, stride=stride, active=active)


@dataclass
class _Vectors:
    """Expressions for all iterations of a loop at once; of one lane where all of them agree.

    Args:
        together: elements at computed positions are put together.
    """

    symbol: Symbol
    lanes: int
    active: int | None
    together: bool
    done: dict[Expr, Expr] = field(default_factory=dict)
    variables: dict[P.Variable, P.Variable] = field(default_factory=dict)

    def let(self, stmt: P.Let) -> P.Let:
        """The name of a vector where the value is one."""
        value = self.of(stmt.value)
        if value.lanes == 1:
            return stmt.changed(value=value)
        self.variables[stmt.variable] = named = replace(stmt.variable, lanes=value.lanes)
        return P.Let(named, value)

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
        if isinstance(expr, P.Read) and (named := self.variables.get(expr.variable)) is not None:
            return P.Read(named.dtype, variable=named, lanes=named.lanes)
        children = expr.children()
        new = tuple(map(self.of, children))
        if all(c.lanes == 1 for c in new):
            return expr.with_children(new) if children else expr
        return expr.with_children(tuple(_spread(c, self.lanes) for c in new))

    def near(self, load: E.Load) -> Expr:
        """Lanes that lie near one another in an order of their own, picked from one vector or two."""
        (index,) = load.indices
        count = self.lanes if self.active is None else self.active
        places = [index.substitute({self.symbol: as_int(n)}) for n in range(count)]
        apart = [place - places[0] for place in places]
        if load.dtype == "bool":
            raise _NotLinearError
        if not all(each.is_const for each in apart):
            return self.put_together(load, places)
        if isinstance(load.tensor, P.Buffer) and load.tensor.vector:
            return self.in_blocks(load, places)
        steps = list(map(int, apart))
        first, span = min(steps), max(steps) - min(steps) + 1
        if steps == list(range(count)):
            return load.changed(indices=(places[0],), lanes=self.lanes, stride=1, active=self.active)

        def part(start: int, size: int, width: int) -> Expr:
            return load.changed(indices=(places[0] + start,), lanes=width, active=None if width == size else size)

        order = tuple(step - first for step in steps) + (0,) * (self.lanes - count)
        if span > 2 * self.lanes:
            raise _NotLinearError
        if span > self.lanes:
            a, b = part(first, self.lanes, self.lanes), part(first + self.lanes, span - self.lanes, self.lanes)
            return P.Shuffle(load.dtype, a=a, b=b, order=order, lanes=self.lanes)
        vector = part(first, span, max(2, 1 << (span - 1).bit_length()))
        return P.Shuffle(load.dtype, a=vector, order=order, lanes=self.lanes)

    def put_together(self, load: E.Load, places: Sequence[Int]) -> Expr:
        """Lanes that lie anywhere, each loaded by itself."""
        (index,) = load.indices
        computed = any(
            self.symbol in i.symbols() for v in index.expressions() for n in E.walk(v) for i in E.positions(n)
        )
        if not self.together or not computed or len(places) < self.lanes:
            raise _NotLinearError
        if isinstance(load.tensor, P.Buffer) and (load.tensor.vector or load.tensor.scope.is_variables):
            raise _NotLinearError
        return P.Assemble(load.dtype, elements=tuple(load.changed(indices=(p,)) for p in places), lanes=self.lanes)

    def in_blocks(self, load: E.Load, places: Sequence[Int]) -> Expr:
        """Lanes of vectors that storage in blocks consists of, each loaded as a whole."""
        assert isinstance(load.tensor, P.Buffer)
        size = load.tensor.vector
        if not all(place.is_const for place in places) or self.lanes % size:
            raise _NotLinearError
        known = [int(place) for place in places]
        wanted = known + [known[-1]] * (self.lanes - len(known))
        return joined(*(_from_blocks(load, wanted[n : n + size], size) for n in range(0, self.lanes, size)))


def _from_blocks(load: E.Load, places: Sequence[int], size: int) -> Expr:
    """One vector of elements of several."""
    blocks = sorted({place // size for place in places})
    vectors = {b: load.changed(indices=(as_int(b * size),), lanes=size, stride=1, active=None) for b in blocks}
    order = tuple(place % size for place in places)
    result: Expr = vectors[blocks[0]]
    if len(blocks) == 1:
        return result if order == tuple(range(size)) else P.Shuffle(load.dtype, a=result, order=order, lanes=size)
    for n, block in enumerate(blocks[1:]):
        order = tuple(
            size + place % size if place // size == block else (place % size if n == 0 else lane)
            for lane, place in enumerate(places)
        )
        result = P.Shuffle(load.dtype, a=result, b=vectors[block], order=order, lanes=size)
    return result


def _spread(expr: Expr, lanes: int) -> Expr:
    if expr.lanes == lanes:
        return expr
    if isinstance(expr, E.Const):
        return expr.changed(lanes=lanes)
    return P.Broadcast(expr.dtype, a=expr, lanes=lanes)
