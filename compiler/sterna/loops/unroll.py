"""Writes out unrolled loops.

Declarations inside an unrolled body get a name of their own in every copy, and of values chosen by the position in the
loop, a copy computes only its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sterna.errors import internal_error
from sterna.ir.integer import ZERO, Atom, Int, Symbol, as_int, of
from sterna.loops import program as P
from sterna.loops.by_lane import from_lanes
from sterna.te import expr as E
from sterna.te.expr import Expr
from sterna.te.position import rewrite_all, rewrite_index


def unroll(stmt: P.Stmt) -> P.Stmt:
    """Replaces every loop of kind "unrolled" or "lanes" (its extent is constant) by copies of its body."""
    return Copies({}, {}, {}, {}, {}).stmt(stmt)


def by_several(loop: P.For, count: int) -> P.Stmt:
    """The loop with `count` iterations in one, which divides how many it has; its body has no loop to leave."""
    trips = loop.extent - loop.start
    if trips % count != 0:
        raise internal_error(f"{trips} iterations of the loop over {loop.symbol.name} do not come by {count}")
    rest = trips // count
    most = rest.bounds()[1]
    outer = Symbol(loop.symbol.name, 0, None if most is None else max(0, most - 1))
    names: dict[str, int] = {}
    first = ZERO if rest == 1 else of(outer) * count
    copies = [Copies({loop.symbol: loop.start + first + n}, {}, {}, names, {}).stmt(loop.body) for n in range(count)]
    return P.seq(*copies) if rest == 1 else loop.changed(symbol=outer, extent=rest, start=ZERO, body=P.seq(*copies))


def written_out(stmt: P.Stmt, values: dict[Atom, Int]) -> P.Stmt:
    """A copy of a statement with values for symbols, its unrolled loops written out."""
    return Copies(dict(values), {}, {}, {}, {}).stmt(stmt)


class Copies:
    """A copy of statements with values for symbols and new buffers and variables for old ones."""

    def __init__(
        self,
        values: dict[Atom, Int],
        buffers: dict[P.Buffer, P.Buffer],
        variables: dict[P.Variable, P.Variable],
        names: dict[str, int],
        choosing: dict[Expr, bool],
        behind: Mapping[P.Buffer, Int] | None = None,
    ):
        """`behind`: elements that what an old buffer has lies behind the beginning of the new one."""
        self.values, self.buffers, self.variables, self.names = values, buffers, variables, names
        self.behind = behind or {}
        self.choosing = choosing
        self.memo: dict[Expr, Expr] = {}
        self.choices: dict[Expr, Expr] = {}

    def stmt(self, s: P.Stmt) -> P.Stmt:
        if isinstance(s, P.For):
            if s.kind not in ("unrolled", "lanes"):
                return s.changed(start=self.index(s.start), extent=self.index(s.extent), body=self.stmt(s.body))
            if _leaves(s.body):
                raise internal_error(f"the loop over {s.symbol.name} is left and cannot be unrolled")
            copies = []
            for n in range(int(s.extent)):
                inner = Copies(
                    {**self.values, s.symbol: as_int(n)},
                    dict(self.buffers),
                    dict(self.variables),
                    self.names,
                    self.choosing,
                    self.behind,
                )
                copies.append(inner.stmt(s.body))
            done = P.seq(*copies)
            return from_lanes(done, s.width or int(s.extent)) if s.kind == "lanes" else done
        if isinstance(s, P.LetIndex):
            value = self.index(s.value)
            name = self._fresh(s.symbol.name)
            if name == s.symbol.name:
                return s.changed(value=value)
            symbol = Symbol(name, s.symbol.lo, s.symbol.hi)
            self._define(s.symbol, of(symbol))
            return P.LetIndex(symbol, value)
        if isinstance(s, P.Alloc):
            name = self._fresh(s.buffer.name)
            if name == s.buffer.name:
                return s
            copy = replace(s.buffer, name=name)
            self.buffers[s.buffer] = copy
            self.memo = {}
            return P.Alloc(copy)
        if isinstance(s, P.Store):
            return s.changed(
                buffer=self.buffers.get(s.buffer, s.buffer), index=self._at(s.buffer, s.index), value=self.expr(s.value)
            )
        if isinstance(s, P.Prefetch):
            return s.changed(buffer=self.buffers.get(s.buffer, s.buffer), index=self._at(s.buffer, s.index))
        if isinstance(s, P.Copy):
            destination, source = (self.buffers.get(b, b) for b in (s.destination, s.source))
            to, at = self._at(s.destination, s.to), self._at(s.source, s.at)
            return s.changed(destination=destination, source=source, to=to, at=at)
        if isinstance(s, P.Instruction):
            operands = tuple(self._slice(o) if isinstance(o, P.Slice) else self.variables.get(o, o) for o in s.operands)
            return s.changed(result=self._slice(s.result), operands=operands)
        if isinstance(s, P.If):
            index, limit = self.index(s.index), self.index(s.limit)
            least, most = (limit - index).bounds()
            if least is not None and least > 0:
                return self._block(s.then)
            otherwise = None if s.otherwise is None else self._block(s.otherwise)
            if most is not None and most <= 0:
                return P.seq(otherwise)
            return s.changed(index=index, limit=limit, then=self._block(s.then), otherwise=otherwise)
        if isinstance(s, P.LastTask):
            counters = self.buffers.get(s.counters, s.counters)
            return s.changed(counters=counters, index=self.index(s.index), body=self._block(s.body))
        if isinstance(s, P.Let):
            named = self.expr(s.value)
            return P.Let(self._variable(s.variable), named)
        if isinstance(s, P.Declare):
            return P.Declare(self._variable(s.variable))
        if isinstance(s, P.Assign):
            return P.Assign(self.variables.get(s.variable, s.variable), self.expr(s.value))
        if isinstance(s, P.Branch):
            otherwise = None if s.otherwise is None else self._block(s.otherwise)
            return P.Branch(self.expr(s.condition), self._block(s.then), otherwise)
        return P.map_children(s, self.stmt)

    def _block(self, s: P.Stmt) -> P.Stmt:
        inner = Copies(
            dict(self.values), dict(self.buffers), dict(self.variables), self.names, self.choosing, self.behind
        )
        return inner.stmt(s)

    def _slice(self, s: P.Slice) -> P.Slice:
        return replace(s, buffer=self.buffers.get(s.buffer, s.buffer), start=self._at(s.buffer, s.start))

    def _at(self, buffer: P.Buffer, index: Int) -> Int:
        """Where an element of a buffer lies in the new one."""
        return self.index(index) + self.behind.get(buffer, ZERO)

    def _variable(self, variable: P.Variable) -> P.Variable:
        """The variable that a declaration declares in this copy."""
        name = self._fresh(variable.name)
        if name == variable.name:
            return variable
        self.variables[variable] = copy = replace(variable, name=name)
        self.memo = {}
        return copy

    def _fresh(self, name: str) -> str:
        """The name, or for a further copy one that no other stage of lowering makes."""
        n = self.names.get(name, 0)
        while n and f"{name}_u{n}" in self.names:
            n += 1
        self.names[name] = n + 1
        if n:
            self.names[f"{name}_u{n}"] = 1
        return f"{name}_u{n}" if n else name

    def _define(self, symbol: Symbol, value: Int) -> None:
        self.values[symbol] = value
        self.memo, self.choices = {}, {}

    def index(self, index: Int) -> Int:
        substituted = index.substitute(self.values) if self.values else index
        if not self.buffers and not self.variables:
            return substituted
        return rewrite_index(substituted, self.moved)

    def moved(self, e: Expr) -> Expr:
        """A value that stands where all symbols are replaced already."""
        return rewrite_all(e, self._moved)

    def expr(self, e: Expr) -> Expr:
        if self.values and self._chooses(e):
            e = self._chosen(e)
        return E.rewrite(e, self._copied, self.memo)

    def _copied(self, node: Expr) -> Expr | None:
        placed = E.with_positions(node, self.index)
        moved = self._moved(node if placed is None else placed)
        return placed if moved is None else moved

    def _chooses(self, e: Expr) -> bool:
        """Whether a value, the same in every copy, is one of several."""
        if (known := self.choosing.get(e)) is None:
            self.choosing[e] = known = any(isinstance(n, E.Select) and _comparison(n) is not None for n in E.walk(e))
        return known

    def _chosen(self, e: Expr) -> Expr:
        """The value with only what this copy chooses: most of the others is not even looked at."""
        if (known := self.choices.get(e)) is not None:
            return known
        comparison = _comparison(e) if isinstance(e, E.Select) else None
        if isinstance(e, E.Select) and comparison is not None:
            index, number = comparison
            place = self.index(index)
            if place.is_const:
                self.choices[e] = result = self._chosen(e.a if int(place) == number else e.b)
                return result
        children = e.children()
        new = tuple(map(self._chosen, children))
        result = e.with_children(new) if any(n is not c for n, c in zip(new, children, strict=True)) else e
        self.choices[e] = result
        return result

    def _moved(self, node: Expr) -> Expr | None:
        if isinstance(node, E.Load) and isinstance(node.tensor, P.Buffer) and node.tensor in self.buffers:
            first, behind = node.indices[0], self.behind.get(node.tensor, ZERO)
            return node.changed(tensor=self.buffers[node.tensor], indices=(first + behind, *node.indices[1:]))
        if isinstance(node, P.Read) and node.variable in self.variables:
            return node.changed(variable=self.variables[node.variable])
        return None


def _comparison(select: E.Select) -> tuple[Int, int] | None:
    """What a choice depends on, if that is whether a position is a certain number."""
    condition = select.condition.a if isinstance(select.condition, P.Broadcast) else select.condition
    if not isinstance(condition, E.Compare) or condition.op != "eq" or condition.lanes != 1:
        return None
    if not isinstance(condition.a, E.IndexValue) or not isinstance(condition.b, E.Const):
        return None
    return condition.a.index, int(condition.b.value)


def _leaves(stmt: P.Stmt) -> bool:
    """Whether a loop's body leaves the loop."""
    return isinstance(stmt, P.Break) or any(
        _leaves(child) for child in P.children(stmt) if not isinstance(child, P.For)
    )
