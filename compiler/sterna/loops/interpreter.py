"""Loop programs run one statement after the other with NumPy scalars: slow, obvious, and what the code generators are
held to. It runs programs as they are written and as `finish` leaves them.

The meaning of every operation is that of `te.operations`. Every access is checked against its buffer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from sterna.errors import SternaError, internal_error
from sterna.intrinsics import Intrinsic
from sterna.ir import dtypes
from sterna.ir.integer import Atom, Int, Symbol, as_int
from sterna.loops import program as P
from sterna.loops.evaluators import position_of, value_of
from sterna.te import expr as E
from sterna.te.expr import Expr
from sterna.te.interpreter import evaluate_stage
from sterna.te.operations import operation
from sterna.te.position import IndexAtom
from sterna.te.tensor import COMBINING, Tensor

Array = np.ndarray[Any, Any]


def run_function(function: P.Function, memory: Mapping[str, Array], dims: Mapping[Symbol, int] | None = None) -> None:
    """Runs all tasks of a loop program, in order.

    Args:
        memory: for every input, param and output a one-dimensional array of at least the buffer's elements, by the
            buffer's name. Outputs are written. Those that count tasks are zeros when a model is loaded, and here, too.
        dims: sizes of the dimensions of `function.dims`.

    Raises:
        SternaError: E0901, the program leaves a buffer.
    """
    run = prepared(function, memory, dims)
    with np.errstate(all="ignore"):
        run.stmt(function.body)


def prepared(function: P.Function, memory: Mapping[str, Array], dims: Mapping[Symbol, int] | None) -> Run:
    """The state before the first statement.

    Raises:
        SternaError: E0901, memory is missing, too small or of another type.
    """
    run = Run(function.name, dict(memory), dict(dims or {}))
    for buffer in (*function.inputs, *function.params, *function.outputs):
        array = run.memory.get(buffer.name)
        if array is None or array.ndim != 1 or array.size < buffer.elements:
            raise internal_error(f"{function.name} was given no memory for {buffer.name}")
        if array.dtype != dtypes.to_numpy(buffer.dtype):
            raise internal_error(f"{buffer.name} of {function.name} is {buffer.dtype}, not {array.dtype}")
    for s in P.walk(function.body):
        if isinstance(s, P.LastTask):
            run.array(s.counters)[:] = 0
    return run


class LeftError(Exception):
    """The innermost loop is left."""


class Run:
    """The state of a program that is run.

    Args:
        ready: expressions and positions that have been evaluated before, by their `id`, which is theirs as long as they
            are kept here.
    """

    def __init__(
        self,
        name: str,
        memory: dict[str, Array],
        symbols: dict[Symbol, int],
        ready: dict[int, tuple[Expr | Int, Callable[[Run], Any]]] | None = None,
    ):
        self.name, self.memory, self.symbols = name, memory, symbols
        self.ready = {} if ready is None else ready
        self.variables: dict[P.Variable, Any] = {}
        self.local: dict[P.Buffer, Array] = {}
        self.tiles: dict[tuple[P.Buffer, int], Array] = {}

    # -- statements
    def stmt(self, s: P.Stmt) -> None:
        if isinstance(s, P.Seq):
            for inner in s.stmts:
                self.stmt(inner)
        elif isinstance(s, (P.Let, P.Assign)):
            self.variables[s.variable] = self.value(s.value)
        elif isinstance(s, P.Store):
            self.store(s)
        elif isinstance(s, P.LetIndex):
            self.symbols[s.symbol] = value = self.position(s.value)
            if (s.symbol.lo is not None and value < s.symbol.lo) or (s.symbol.hi is not None and value > s.symbol.hi):
                raise self.error(f"{s.symbol.name} is {value}, not {s.symbol.lo} to {s.symbol.hi}")
        elif isinstance(s, P.For):
            self.loop(s)
        elif isinstance(s, P.Tiles):
            self.stmt(s.body)
        elif isinstance(s, (P.If, P.Branch)):
            if (chosen := self.chosen(s)) is not None:
                self.stmt(chosen)
        elif isinstance(s, P.Break):
            raise LeftError
        elif isinstance(s, P.Require):
            if not self.value(s.value):
                raise self.error("a test at run time fails")
        elif isinstance(s, P.Alloc):
            self.allocate(s.buffer)
        elif isinstance(s, P.Copy):
            self.copy(s)
        elif isinstance(s, P.Instruction):
            self.instruction(s)
        elif isinstance(s, P.LastTask):
            if self.is_last(s):
                self.stmt(s.body)
        elif isinstance(s, P.Prefetch):
            self.places(s.buffer, self.array(s.buffer), self.position(s.index), 1, 1)
        elif not isinstance(s, (P.Declare, P.Barrier, P.Commit, P.Wait, P.Settle)):
            raise self.error(f"no such statement: {type(s).__name__}")

    def chosen(self, s: P.If | P.Branch) -> P.Stmt | None:
        """The branch that is taken."""
        if isinstance(s, P.Branch):
            return s.then if self.value(s.condition) else s.otherwise
        return s.then if self.position(s.index) < self.position(s.limit) else s.otherwise

    def is_last(self, s: P.LastTask) -> bool:
        """Counts a task that comes by; whether all of its index have come."""
        self.symbols[s.symbol] = index = self.position(s.index)
        counters = self.array(s.counters)
        place = self.places(s.counters, counters, index, 1, 1)
        last = bool(counters[place] == s.count - 1)
        counters[place] = 0 if last else counters[place] + 1
        return last

    def allocate(self, buffer: P.Buffer) -> None:
        # Not zeros: whoever reads what was never written shall notice.
        data = np.full(buffer.elements * dtypes.size(buffer.dtype), 0x7E, np.uint8)
        self.local[buffer] = data.view(dtypes.to_numpy(buffer.dtype))

    def loop(self, s: P.For) -> None:
        try:
            for n in range(self.position(s.start), self.position(s.extent)):
                self.symbols[s.symbol] = n
                self.stmt(s.body)
        except LeftError:
            pass

    def copy(self, s: P.Copy) -> None:
        target, origin = (
            (array := self.array(buffer))[self.places(buffer, array, self.position(index), s.elements, 1)]
            for buffer, index in ((s.destination, s.to), (s.source, s.at))
        )
        target[:] = origin

    def instruction(self, s: P.Instruction) -> None:
        """An intrinsic over memory, by its behaviour."""
        arrays = {}
        for tensor, operand in zip(s.intrinsic.inputs, s.operands, strict=True):
            given = self.taken(operand) if isinstance(operand, P.Slice) else self.variables[operand]
            arrays[tensor.name] = np.array(given).reshape([int(n) for n in tensor.shape])
        new = evaluate_stage(s.intrinsic.behaviour, arrays)
        result = self.taken(s.result)
        result[...] = combined(s.intrinsic, result, new) if s.intrinsic.accumulates else new

    def taken(self, s: P.Slice) -> Array:
        """The elements of a buffer that an instruction takes, as an array that can be written to."""
        array, first, (least, greatest) = self.array(s.buffer), self.position(s.start), s.ends
        self.places(s.buffer, array, first + least, greatest - least + 1, 1)
        steps = [n * array.strides[0] for n in s.strides]
        return as_strided(array[first:], s.shape, steps)

    def store(self, s: P.Store) -> None:
        lanes = s.value.lanes
        first, count = self.position(s.index), lanes if s.active is None else s.active
        value = np.broadcast_to(self.value(s.value), lanes)
        if s.buffer.scope.is_tiles:
            self.tiles[s.buffer, first] = value
            return
        array = self.array(s.buffer)
        if s.rows:
            for row, part in enumerate(value.reshape(s.rows, -1)):
                array[self.places(s.buffer, array, first + row * s.pitch, part.size, 1)] = part
            return
        array[self.places(s.buffer, array, first, count, s.stride)] = value[:count]

    # -- values
    def value(self, e: Expr) -> Any:
        """The value: without dimensions, or with one of as many elements as it has lanes."""
        found = self.ready.get(id(e))
        if found is None:
            found = self.ready[id(e)] = e, value_of(e)
        return found[1](self)

    def position(self, index: Int) -> int:
        found = self.ready.get(id(index))
        if found is None:
            found = self.ready[id(index)] = index, position_of(index)
        return int(found[1](self))

    def atom(self, atom: Atom) -> int:
        """The value of a symbol, or of a position that is computed."""
        return int(self.value(atom.value)) if isinstance(atom, IndexAtom) else self.symbols[atom]  # type: ignore[index]

    def product(self, e: P.Apply, operands: list[Array]) -> Array:
        """What an intrinsic makes of its operands."""
        return np.asarray(self.apply(e, operands))

    @staticmethod
    def apply(e: P.Apply, operands: list[Array]) -> Any:
        """An intrinsic, by its behaviour; one of fewer positions than it has is one of zeros beyond them."""
        axes = e.intrinsic.axes
        last: dict[Atom, Int] = {
            a: as_int(n - 1) for a, n in zip(axes, e.extents or [int(a.extent) for a in axes], strict=True)
        }
        values, arrays = operands[-len(e.intrinsic.inputs) :], {}
        for load, value in zip(e.intrinsic.reads, values, strict=True):
            assert isinstance(load.tensor, Tensor)
            whole = [int(n) for n in load.tensor.shape]
            have = [int(i.substitute(last)) + 1 for i in load.indices] if e.extents else whole
            missing = [(0, n - m) for n, m in zip(whole, have, strict=True)]
            arrays[load.tensor.name] = np.pad(value.reshape(have), missing)
        behaviour = e.intrinsic.behaviour
        kept = tuple(slice(0, int(last[a]) + 1) for a in behaviour.axes)
        if e.intrinsic.exact is not None:
            before = np.zeros([int(n) for n in behaviour.shape], operands[0].dtype)
            before[kept] = operands[0].reshape(before[kept].shape)
            return e.intrinsic.exact(before, *arrays.values())[kept].reshape(-1)
        result = evaluate_stage(behaviour, arrays)[kept].reshape(-1)
        return combined(e.intrinsic, operands[0], result) if e.intrinsic.accumulates else result

    # -- memory
    def array(self, buffer: P.Buffer) -> Array:
        found = self.local.get(buffer)
        return self.memory[buffer.name] if found is None else found

    def places(self, buffer: P.Buffer, array: Array, first: int, count: int, stride: int) -> slice:
        last = first + (count - 1) * stride
        if first < 0 or last >= min(array.size, buffer.elements):
            raise self.error(f"{buffer.name}[{first} to {last}] of {buffer.elements} elements")
        return slice(first, last + 1, stride)

    def error(self, what: str) -> SternaError:
        return internal_error(f"{self.name}: {what}")


def combined(intrinsic: Intrinsic, old: Array, new: Array) -> Array:
    """What an intrinsic that accumulates leaves where something was before."""
    a, b = (E.const(0, intrinsic.dtype) for _ in range(2))
    both = E.Binary(intrinsic.dtype, op=COMBINING[intrinsic.reduction.combiner], a=a, b=b)
    return np.asarray(operation(both, [old, new]))
