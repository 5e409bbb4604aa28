"""Expressions and positions of loop programs as Python functions of the state, for the interpreter.

A program evaluates the same few expressions very often. What does not change is found once for each: the kind of node,
types, constants. What is left are calls that NumPy answers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from sterna.errors import SternaError
from sterna.ir import dtypes
from sterna.ir.integer import Atom, FloorDiv, Int, Mod, Symbol
from sterna.loops import program as P
from sterna.te import expr as E
from sterna.te.expr import Expr
from sterna.te.operations import operator_of
from sterna.te.position import IndexAtom

Array = np.ndarray[Any, Any]


class State(Protocol):
    """What expressions read of a program that is run: `interpreter.Run`."""

    variables: dict[P.Variable, Any]
    tiles: dict[tuple[P.Buffer, int], Array]
    symbols: dict[Symbol, int]

    def array(self, buffer: P.Buffer) -> Array: ...
    def places(self, buffer: P.Buffer, array: Array, first: int, count: int, stride: int) -> slice: ...
    def product(self, e: P.Apply, operands: list[Array]) -> Array: ...
    def atom(self, atom: Atom) -> int: ...
    def error(self, what: str) -> SternaError: ...


Value = Callable[[State], Any]
Position = Callable[[State], int]


def value_of(e: Expr) -> Value:
    """The value: without dimensions, or with one of as many elements as it has lanes."""
    if isinstance(e, P.Read):
        return _variable(e)
    if isinstance(e, E.Const):
        constant = np.full(() if e.lanes == 1 else e.lanes, e.value).astype(dtypes.to_numpy(e.dtype))
        constant.flags.writeable = False
        return lambda run: constant
    if isinstance(e, E.IndexValue):
        return _index_value(e)
    if isinstance(e, E.Load):
        return _load(e)
    operands, dtype = [value_of(child) for child in e.children()], dtypes.to_numpy(e.dtype)
    if isinstance(e, P.Apply):
        # The state's business: threads of a subgroup share what it makes.
        return lambda run: run.product(e, [operand(run) for operand in operands]).astype(dtype, copy=False)
    if isinstance(e, E.Fma) and e.lanes == 1 and e.dtype in ("float32", *dtypes.HALVES):
        return _rounded_once(operands, dtype)
    made = _made(e)
    if len(operands) == 1:
        (only,) = operands
        return lambda run: np.asarray(made(only(run))).astype(dtype, copy=False)
    if len(operands) == 2:
        first, second = operands
        return lambda run: np.asarray(made(first(run), second(run))).astype(dtype, copy=False)
    return lambda run: np.asarray(made(*[operand(run) for operand in operands])).astype(dtype, copy=False)


def _rounded_once(operands: list[Value], dtype: Any) -> Value:
    """A multiplication and an addition: of scalars, Python's own are the fastest float64."""
    a, b, c = operands
    return lambda run: dtype.type(float(a(run)) * float(b(run)) + float(c(run)))


def _made(e: Expr) -> Callable[..., Any]:
    """What becomes of the operands."""
    if isinstance(e, P.Broadcast):
        lanes = e.lanes
        return lambda a: np.resize(a, lanes)
    if isinstance(e, P.Lane):
        taken = slice(e.lane, e.lane + e.lanes) if e.lanes > 1 else e.lane
        return lambda a: a[taken]
    if isinstance(e, P.Shuffle):
        order = list(e.order)
        return lambda *operands: np.concatenate(operands)[order]
    if isinstance(e, P.Blend):
        kept = np.arange(e.lanes) < e.active
        return lambda a, b: np.where(kept, a, b)
    if isinstance(e, P.Assemble):
        return lambda *operands: np.stack(operands)
    return operator_of(e)


def _variable(e: P.Read) -> Value:
    variable = e.variable

    def read(run: State) -> Any:
        found = run.variables.get(variable)
        if found is None:
            raise run.error(f"{variable.name} is read before it has a value")
        return found

    return read


def _index_value(e: E.IndexValue) -> Value:
    at, dtype = position_of(e.index), dtypes.to_numpy(e.dtype)
    if e.lanes == 1:
        return lambda run: np.asarray(at(run)).astype(dtype)
    steps = np.arange(e.lanes) * e.stride
    return lambda run: np.asarray(at(run) + steps).astype(dtype)


def _load(e: E.Load) -> Value:
    buffer, at = e.tensor, position_of(e.indices[0])
    assert isinstance(buffer, P.Buffer)
    if buffer.scope.is_tiles:
        return lambda run: run.tiles[buffer, at(run)]
    count, stride, lanes = e.lanes if e.active is None else e.active, e.stride, e.lanes

    def one(run: State) -> Any:
        array = run.array(buffer)
        return array[run.places(buffer, array, at(run), 1, 1).start]

    def rows(run: State) -> Any:
        array, first = run.array(buffer), at(run)
        starts = (first + row * e.pitch for row in range(e.rows))
        return np.concatenate([array[run.places(buffer, array, start, lanes // e.rows, 1)] for start in starts])

    def several(run: State) -> Any:
        array = run.array(buffer)
        result = np.zeros(lanes, array.dtype)
        result[:count] = array[run.places(buffer, array, at(run), count, stride)]
        return result

    return rows if e.rows else one if lanes == 1 else several


def position_of(index: Int) -> Position:
    """The value of a position."""
    constant = index.const
    parts = [(coefficient, tuple(_atom(atom) for atom in monomial)) for monomial, coefficient in index.terms.items()]
    if not parts:
        return lambda run: constant
    if len(parts) == 1 and len(parts[0][1]) == 1:
        factor, (only,) = parts[0]
        return lambda run: constant + factor * only(run)

    def total(run: State) -> int:
        found = constant
        for coefficient, atoms in parts:
            product = coefficient
            for atom in atoms:
                product *= atom(run)
            found += product
        return found

    return total


def _atom(atom: Atom) -> Position:
    if isinstance(atom, Symbol):
        return lambda run: run.symbols[atom]
    if isinstance(atom, IndexAtom):
        value = value_of(atom.value)
        return lambda run: int(value(run))
    if isinstance(atom, (FloorDiv, Mod)):
        inner, divisor = position_of(atom.value), atom.divisor
        if isinstance(atom, Mod):
            return lambda run: inner(run) % divisor
        return lambda run: inner(run) // divisor
    return lambda run: int(atom.evaluate(run.atom))
