"""Writes out unrolled loops.

Declarations inside an unrolled body get a name of their own in every copy.
"""

from __future__ import annotations

from dataclasses import replace

from sterna.ir.integer import Atom, Int, Symbol, as_int, of
from sterna.loops import program as P
from sterna.te import expr as E
from sterna.te.expr import Expr


def unroll(stmt: P.Stmt) -> P.Stmt:
    """Replaces every loop of kind "unrolled" (its extent is constant) by copies of its body."""
    return _Copy({}, {}, "").stmt(stmt)


class _Copy:
    """A copy of statements with values for symbols and new buffers for old ones."""

    def __init__(self, values: dict[Atom, Int], buffers: dict[P.Buffer, P.Buffer], suffix: str):
        self.values, self.buffers, self.suffix = values, buffers, suffix
        self.memo: dict[Expr, Expr] = {}

    def stmt(self, s: P.Stmt) -> P.Stmt:
        if isinstance(s, P.For):
            if s.kind != "unrolled":
                return replace(s, start=self.index(s.start), extent=self.index(s.extent), body=self.stmt(s.body))
            copies = []
            for n in range(int(s.extent)):
                inner = _Copy(
                    {**self.values, s.symbol: as_int(n)}, dict(self.buffers), f"{self.suffix}_{n}" if n else self.suffix
                )
                copies.append(inner.stmt(s.body))
            return P.seq(*copies)
        if isinstance(s, P.LetIndex):
            value = self.index(s.value)
            if not self.suffix:
                return replace(s, value=value)
            symbol = Symbol(s.symbol.name + self.suffix, s.symbol.lo, s.symbol.hi)
            self._define(s.symbol, of(symbol))
            return P.LetIndex(symbol, value)
        if isinstance(s, P.Alloc):
            if not self.suffix:
                return s
            copy = replace(s.buffer, name=s.buffer.name + self.suffix)
            self.buffers[s.buffer] = copy
            self.memo = {}
            return P.Alloc(copy)
        if isinstance(s, P.Store):
            return replace(
                s, buffer=self.buffers.get(s.buffer, s.buffer), index=self.index(s.index), value=self.expr(s.value)
            )
        if isinstance(s, P.If):
            return replace(
                s,
                index=self.index(s.index),
                limit=self.index(s.limit),
                then=self._block(s.then),
                otherwise=None if s.otherwise is None else self._block(s.otherwise),
            )
        return P.map_children(s, self.stmt)

    def _block(self, s: P.Stmt) -> P.Stmt:
        return _Copy(dict(self.values), dict(self.buffers), self.suffix).stmt(s)

    def _define(self, symbol: Symbol, value: Int) -> None:
        self.values[symbol] = value
        self.memo = {}

    def index(self, index: Int) -> Int:
        return index.substitute(self.values) if self.values else index

    def expr(self, e: Expr) -> Expr:
        if not self.values and not self.buffers:
            return e
        substituted = E.substitute_index(e, self.values, self.memo)
        if not self.buffers:
            return substituted

        def moved(node: Expr) -> Expr | None:
            if isinstance(node, E.Load) and isinstance(node.tensor, P.Buffer) and node.tensor in self.buffers:
                return replace(node, tensor=self.buffers[node.tensor])
            return None

        return E.rewrite(substituted, moved)
