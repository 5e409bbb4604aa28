"""Loop programs that are the same but for numbers, walked side by side: the least general program of which each of them
is a case (anti-unification; G. D. Plotkin, A Note on Inductive Generalization, 1970).

Whatever stands at a place of all programs is compared there: names may differ, as may the numbers in positions, the
constants in values and where buffers begin; all else may not. But a loop that only some have is one of one iteration in
the others, and a limit that only some have is none in the others.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Any, cast

from sterna.ir import dtypes
from sterna.ir.extremum import Extremum
from sterna.ir.integer import Atom, FloorDiv, Int, Mod, Symbol, as_int, of
from sterna.ir.memory import PARAM
from sterna.loops import program as P
from sterna.loops.statements import Stmt
from sterna.te import expr as E
from sterna.te.expr import Expr
from sterna.te.position import IndexAtom

#: What one number is in each of the programs.
Numbers = tuple[int, ...]
#: What stands for these numbers in the program for all.
Make = Callable[[Numbers], Int]


class DiffersError(Exception):
    """The programs are not the same but for numbers."""


def together(functions: Sequence[P.Function], make: Make) -> P.Function:
    """The program of which each of `functions` is a case; it has the name and the names of the first.

    Args:
        make: gives what stands for numbers of which not all are the same.

    Raises:
        DiffersError: there is none.
    """
    return _Walk(len(functions), make).function(functions)


class _Walk:
    """A walk over several programs at once. Every method takes what stands at one place of each."""

    def __init__(self, count: int, make: Make):
        self.count, self.make = count, make
        #: The symbols of each program, by those of the program for all.
        self.symbols: list[dict[Symbol, Symbol]] = [{} for _ in range(count)]
        #: Of each program, the variables of loops that it has not itself; those of the program for all, which therefore
        #: may have any factor in that program: they are 0.
        self.single: list[set[Symbol]] = [set() for _ in range(count)]
        self.free: set[tuple[int, Symbol]] = set()
        #: Buffers and variables of the programs, by identity: those that stand for one another, and that for all.
        self.partners: dict[int, tuple[tuple[Any, ...], Any]] = {}
        #: By identity, with the values themselves: an identity is that of one object only as long as it lives.
        self.values: dict[tuple[int, ...], tuple[Sequence[Expr], Expr]] = {}

    def function(self, functions: Sequence[P.Function]) -> P.Function:
        first = functions[0]
        if any(f.dims or f.has_barriers for f in functions):
            raise DiffersError
        buffers = {side: self.any([getattr(f, side) for f in functions]) for side in ("inputs", "params", "outputs")}
        return replace(
            first,
            **buffers,
            n_tasks=self.position([f.n_tasks for f in functions]),
            scratch_bytes=max(f.scratch_bytes for f in functions),
            body=self.any([f.body for f in functions]),
        )

    def any(self, values: Sequence[Any]) -> Any:
        """What all of them are a case of."""
        if any(isinstance(v, P.For) for v in values):
            values = self.loops(values)
        first: Any = values[0]
        if isinstance(first, Expr):
            return self.value(values)
        if any(type(v) is not type(first) for v in values):
            raise DiffersError
        if isinstance(first, Int):
            return self.position(values)
        if isinstance(first, tuple):
            return tuple([self.any(each) for each in _at_each_place(values)])
        if isinstance(first, Symbol):
            return self.symbol(values)
        if isinstance(first, (P.Buffer, P.Variable)):
            return self.named(values)
        if isinstance(first, (Stmt, P.Slice)):
            return self.fields(values)
        if any(v != first for v in values):
            raise DiffersError
        return first

    def fields(self, values: Sequence[Any]) -> Any:
        """Statements and values of one kind, field by field."""
        first, changed = values[0], {}
        for name in (f.name for f in fields(first)):
            own = [getattr(v, name) for v in values]
            if (both := self.any(own)) is not own[0]:
                changed[name] = both
        if not changed:
            return first
        return first.changed(**changed) if isinstance(first, (Stmt, Expr)) else replace(first, **changed)

    def loops(self, values: Sequence[Any]) -> Sequence[Any]:
        """Statements of which some are loops: all are, the others of one iteration."""
        made: list[Any] = []
        for n, value in enumerate(values):
            if isinstance(value, P.For) or not isinstance(value, Stmt):
                made.append(value)
                continue
            once = Symbol("once", 0, 0)
            self.single[n].add(once)
            made.append(P.For(once, as_int(1), "serial", value))
        return made

    # -- what has a name
    def named(self, values: Sequence[Any]) -> Any:
        """Buffers or variables, which stand for one another wherever they occur."""
        found = {n: known for n, value in enumerate(values) if (known := self.partners.get(id(value))) is not None}
        if not found:
            made = self.buffer(values) if isinstance(values[0], P.Buffer) else self.variable(values)
            self.partners.update((id(value), (tuple(values), made)) for value in values)
            return made
        known, made = next(iter(found.values()))
        if any(a is not b for a, b in zip(known, values, strict=True)):
            raise DiffersError
        return made

    def symbol(self, symbols: Sequence[Symbol]) -> Symbol:
        """The variable of a loop, or a position with a name, where it is defined."""
        lows, highs = ([getattr(s, side) for s in symbols] for side in ("lo", "hi"))
        lo = None if None in lows else min(lows)
        named = next((s for s, single in zip(symbols, self.single, strict=True) if s not in single), symbols[0])
        new = Symbol(named.name, lo, None if None in highs else max(highs))
        for n, symbol in enumerate(symbols):
            self.symbols[n][symbol] = new
            if symbol in self.single[n]:
                self.free.add((n, new))
        return new

    @staticmethod
    def variable(variables: Sequence[P.Variable]) -> P.Variable:
        first = variables[0]
        if any((v.dtype, v.lanes, v.rows) != (first.dtype, first.lanes, first.rows) for v in variables):
            raise DiffersError
        return first

    def buffer(self, buffers: Sequence[P.Buffer]) -> P.Buffer:
        first = buffers[0]
        facts = [(b.dtype, len(b.shape), b.scope, b.may_alias, b.vector) for b in buffers]
        if any(each != facts[0] for each in facts):
            raise DiffersError
        slots = tuple(b.slot for b in buffers)
        start = None
        if len(set(slots)) > 1:
            if first.scope.is_allocated and first.scope != PARAM:
                raise DiffersError
            start = self.make(slots)
        # Nothing but lowering reads a shape; the largest says how much memory is meant.
        largest = max(buffers, key=lambda b: b.elements)
        return replace(
            first,
            shape=largest.shape,
            strides=largest.strides,
            origin=largest.origin,
            elements=largest.elements,
            slot=max(slots),
            start=start,
        )

    # -- positions
    def position(self, indices: Sequence[Int]) -> Int:
        """A position that is each of them, by its program's symbols."""
        plain: dict[tuple[Symbol, ...], list[int]] = {}
        others: list[list[tuple[tuple[Atom, ...], int]]] = []
        for n, index in enumerate(indices):
            own: list[tuple[tuple[Atom, ...], int]] = []
            for monomial, coefficient in index.terms.items():
                if all(isinstance(a, Symbol) for a in monomial):
                    key = tuple(sorted((self.known(n, a) for a in monomial), key=id))
                    plain.setdefault(key, [0] * self.count)[n] = coefficient
                else:
                    own.append((monomial, coefficient))
            others.append(own)
        total = self.numbers(tuple(i.const for i in indices))
        for symbols, coefficients in plain.items():
            free = [any((n, s) in self.free for s in symbols) for n in range(self.count)]
            some = next((c for c, any_will_do in zip(coefficients, free, strict=True) if not any_will_do), 0)
            numbers = tuple(some if any_will_do else c for c, any_will_do in zip(coefficients, free, strict=True))
            total = total + self.numbers(numbers) * _product([of(s) for s in symbols])
        for terms in _at_each_place(others):
            atoms = _product([self.atom(each) for each in _at_each_place([monomial for monomial, _ in terms])])
            total = total + self.numbers(tuple(c for _, c in terms)) * atoms
        return total

    def numbers(self, numbers: Numbers) -> Int:
        return as_int(numbers[0]) if len(set(numbers)) == 1 else self.make(numbers)

    def known(self, n: int, atom: Atom) -> Symbol:
        assert isinstance(atom, Symbol)
        found = self.symbols[n].get(atom)
        if found is None:
            raise DiffersError  # a dimension of the model
        return found

    def atom(self, atoms: Sequence[Atom]) -> Int:
        first, kind = atoms[0], type(atoms[0])
        if any(type(a) is not kind for a in atoms):
            raise DiffersError
        if isinstance(first, Symbol):
            found = {self.known(n, a) for n, a in enumerate(atoms)}
            if len(found) > 1:
                raise DiffersError
            return of(found.pop())
        if isinstance(first, IndexAtom):
            bounds = {(a.lo, a.hi) for a in atoms}
            values = [a.value for a in atoms if isinstance(a, IndexAtom)]
            if len(bounds) > 1:
                raise DiffersError
            return first.map(lambda _: self.value(values))
        if isinstance(first, (FloorDiv, Mod)):
            fixed: set[object] = {a.divisor for a in atoms if isinstance(a, (FloorDiv, Mod))}
        else:
            fixed = {a.kind for a in atoms if isinstance(a, Extremum)}
        if len(fixed) != 1:
            raise DiffersError
        parts = tuple([self.position(each) for each in _at_each_place([a.parts() for a in atoms])])
        return first.rebuild(parts)

    # -- values
    def value(self, values: Sequence[Expr]) -> Expr:
        key = tuple(map(id, values))
        if (found := self.values.get(key)) is None:
            self.values[key] = found = (values, self.node(values))
        return found[1]

    def node(self, values: Sequence[Expr]) -> Expr:
        first = values[0]
        if any((v.dtype, v.lanes) != (first.dtype, first.lanes) for v in values):
            raise DiffersError
        if all(isinstance(v, E.Const) for v in values):
            return first if all(v == first for v in values) else self.constant(values)
        if (limits := {_limit(v) for v in values}) != {""} and "" in limits and len(limits) == 2:
            values = [_limited(v, max(limits)) for v in values]
            first = values[0]
        if any(type(v) is not type(first) for v in values):
            raise DiffersError
        return cast(Expr, self.fields(values))

    def constant(self, values: Sequence[Expr]) -> Expr:
        """Constants that differ, as a number that is given."""
        first = values[0]
        constants = [v.value for v in values if isinstance(v, E.Const)]
        if first.dtype == "float32":
            bits = tuple(struct.unpack("<i", struct.pack("<f", c))[0] for c in constants)
            value = E.bitcast(E.index_value(self.make(bits), "int32"), "float32")
        elif dtypes.is_integer(first.dtype) and all(-(1 << 31) <= c < 1 << 31 for c in constants):
            value = E.index_value(self.make(tuple(map(int, constants))), first.dtype)
        else:
            raise DiffersError
        return value if first.lanes == 1 else P.Broadcast(first.dtype, a=value, lanes=first.lanes)


def _limit(value: Expr) -> str:
    """ "minimum" or "maximum", where a value is that of another and a constant."""
    limited = isinstance(value, E.Binary) and value.op in ("minimum", "maximum") and isinstance(value.b, E.Const)
    return value.op if limited and isinstance(value, E.Binary) else ""


def _limited(value: Expr, op: str) -> Expr:
    """The same value, with a limit that none exceeds."""
    if _limit(value) or value.dtype == "bool":
        return value
    if dtypes.is_float(value.dtype):
        none = math.inf if op == "minimum" else -math.inf
    else:
        none = dtypes.limits(value.dtype)[op == "minimum"]
    limit = E.Const(value.dtype, value=none, lanes=value.lanes)
    return E.Binary(value.dtype, op=op, a=value, b=limit, lanes=value.lanes)


def _at_each_place(rows: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
    """The columns of rows that are equally long."""
    if any(len(row) != len(rows[0]) for row in rows):
        raise DiffersError
    return list(zip(*rows, strict=True))


def _product(factors: Sequence[Int]) -> Int:
    total = as_int(1)
    for factor in factors:
        total = total * factor
    return total
