"""A model run call by call, every buffer in memory of its own, with kernels as tensor expressions; and loop programs
run on what those were given. What generators make is held to it (`debug.bisect`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.lib.stride_tricks import as_strided

from sterna.errors import internal_error
from sterna.ir import dtypes
from sterna.ir.graph import Array, Graph, Value
from sterna.ir.integer import Int
from sterna.loops import program as P
from sterna.loops.effort import effort
from sterna.loops.interpreter import Run, prepared, run_function
from sterna.loops.threads import run_threads
from sterna.passes.kernels import Call
from sterna.passes.linearize import CallSequence, Choice, Control
from sterna.passes.views import Views
from sterna.te.interpreter import run_kernel
from sterna.te.layout import most_elements
from sterna.te.tensor import Kernel, Tensor

#: What memory holds before it is written: no index, and no number that a sum would not show.
_UNWRITTEN = 0x7E


class TooLongError(Exception):
    """A loop program takes more statements than it was allowed."""


@dataclass(frozen=True)
class Executed:
    """A call as it was run first.

    Args:
        inputs, outputs: flat buffers, by the call's operands, before and after it.
        written: which elements of the outputs it wrote.
    """

    call: Call
    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]
    written: tuple[Array, ...]


@dataclass
class Simulation:
    """A run of a graph's calls as tensor expressions.

    Args:
        memory: of every buffer, by the value that owns it, as it is after the run.
        executed: the calls that ran, in the order in which they did first.
    """

    graph: Graph
    views: Views
    sequence: CallSequence
    memory: dict[Value, Array] = field(default_factory=dict)
    executed: dict[Call, Executed] = field(default_factory=dict)

    def run(self, inputs: Mapping[str, Array]) -> None:
        """Runs everything from the model's first state; `inputs` by name, strings as their numbers."""
        for value in self.graph.arguments:
            self.memory[value] = np.ascontiguousarray(dtypes.stored(inputs[value.name])).reshape(-1)
        for value, state in zip(self.graph.live_in, self.graph.states, strict=True):
            buffer = self.buffer(value)
            buffer[:] = 0 if state.initial is None else np.ascontiguousarray(dtypes.stored(state.initial)).reshape(-1)
        self.block(0, len(self.sequence.calls), self.sequence.control)

    def value(self, value: Value) -> Array:
        """The elements of a value, wherever it lies."""
        if value.data is not None:
            return value.data
        place = self.views.storage(value)
        array = _at(self.buffer(place.root), value.type.sizes, place.origin, place.strides)
        return array.view(dtypes.to_numpy(value.dtype))

    def buffer(self, root: Value) -> Array:
        """The memory of a buffer, of elements that nothing has written yet where it is new."""
        if root not in self.memory:
            self.memory[root] = unwritten(root)
        return self.memory[root]

    def block(self, first: int, last: int, control: Sequence[Control]) -> None:
        n = first
        waiting = [c for c in control if first <= c.first and c.last <= last]
        while n < last:
            if not waiting or waiting[0].first != n:
                self.call(self.sequence.calls[n])
                n += 1
                continue
            over = waiting.pop(0)
            inner = [c for c in waiting if c.last <= over.last]
            waiting = [c for c in waiting if c.last > over.last]
            for begin, end in self.ranges(over):
                self.block(begin, end, inner)
            n = over.last

    def ranges(self, over: Control) -> Iterator[tuple[int, int]]:
        """The ranges of calls that a control runs, one after the other."""
        if isinstance(over, Choice):
            chosen = bool(self.value(over.condition).reshape(-1)[0])
            yield (over.first, over.middle) if chosen else (over.middle, over.last)
            return
        count = over.count if over.trips is None else int(self.value(over.trips).reshape(-1)[0])
        number = 0
        while (count is None or number < count) and (
            over.condition is None or bool(self.value(over.condition).reshape(-1)[0])
        ):
            if number >= over.limit:
                raise internal_error(f"{over.name} makes more than its {over.limit} iterations")
            if over.number is not None:
                self.buffer(over.number)[0] = number
            yield over.first, over.last
            number += 1

    def call(self, call: Call) -> None:
        roots = [self.views.storage(value).root for value in call.outputs]
        inputs = tuple(self.buffer(self.views.storage(value).root) for value in call.inputs)
        if call in self.executed:
            before = [self.buffer(root) for root in roots]
        else:
            inputs = tuple(array.copy() for array in inputs)
            before = [unwritten(root) for root in roots]
        outputs, written = run_call(call, inputs, before)
        for root, array, where in zip(roots, outputs, written, strict=True):
            self.buffer(root)[where] = array[where]
        if call not in self.executed:
            self.executed[call] = Executed(call, inputs, tuple(outputs), tuple(written))


def unwritten(root: Value) -> Array:
    """Memory for a buffer."""
    kind = dtypes.to_numpy(dtypes.storage(root.dtype))
    return np.full(most_elements(root.shape) * kind.itemsize, _UNWRITTEN, np.uint8).view(kind)


def run_call(call: Call, inputs: Sequence[Array], before: Sequence[Array]) -> tuple[list[Array], list[Array]]:
    """What a call makes of flat buffers, by its tensor expressions; and which elements it writes.

    Args:
        before: what the outputs hold; it is not changed.
    """
    if not isinstance(call.kernel, Kernel):
        return _run_program(call, call.kernel, inputs, before)
    kernel = call.kernel
    arrays = {
        t.name: _operand(_read_as(array, t.dtype), t, call) for t, array in zip(kernel.inputs, inputs, strict=True)
    }
    arrays |= {t.name: array for t, array in zip(kernel.params, call.constants, strict=True)}
    made = run_kernel(kernel, arrays)
    outputs = [array.copy() for array in before]
    written = [np.zeros(array.size, bool) for array in before]
    for t, output, where in zip(kernel.outputs, outputs, written, strict=True):
        _operand(output, t, call)[...] = made[t.name]
        _operand(where, t, call)[...] = True
    return outputs, written


def _run_program(
    call: Call, program: P.Function, inputs: Sequence[Array], before: Sequence[Array]
) -> tuple[list[Array], list[Array]]:
    """The same for a loop program: what two runs over different memory agree on is what it writes."""
    others = [np.bitwise_not(array.view(np.uint8)).view(array.dtype) for array in before]
    first, second = (run_loops(program, inputs, call.constants, given) for given in (before, others))
    same = [
        (a.view(np.uint8) == b.view(np.uint8)).reshape(a.size, -1).all(axis=1)
        for a, b in zip(first, second, strict=True)
    ]
    return first, same


def run_loops(
    function: P.Function, inputs: Sequence[Array], params: Sequence[Array], before: Sequence[Array], most: int = 0
) -> list[Array]:
    """What a loop program makes of flat buffers.

    Args:
        params: as the program reads them.
        before: what the outputs hold; it is not changed.
        most: statements that it may take; 0: any number.

    Raises:
        TooLongError: it takes more.
    """
    outputs = [array.copy() for array in before]
    memory: dict[str, Array] = {}
    for buffers, arrays in ((function.inputs, inputs), (function.outputs, outputs)):
        memory |= {buffer.name: _read_as(arrays[buffer.slot], buffer.dtype) for buffer in buffers}
    for buffer, array in zip(function.params, params, strict=True):
        memory[buffer.name] = np.ascontiguousarray(dtypes.stored(array)).reshape(-1)
    if has_threads(function):
        if most and effort(function).instructions > most:
            raise TooLongError
        run_threads(function, memory)
        return outputs
    if not most:
        run_function(function, memory)
        return outputs
    with np.errstate(all="ignore"):
        _Limited(prepared(function, memory, None), most).stmt(function.body)
    return outputs


def has_threads(function: P.Function) -> bool:
    """Whether several threads run a task: so only after all passes over loops, which put barriers between them."""
    return any(count > 1 for count in P.thread_counts(function.body).values())


class _Limited(Run):
    """A run of so many statements at most."""

    def __init__(self, run: Run, most: int):
        super().__init__(run.name, run.memory, run.symbols)
        self.left = most

    def stmt(self, s: P.Stmt) -> None:
        self.left -= 1
        if self.left < 0:
            raise TooLongError
        super().stmt(s)


def _read_as(array: Array, dtype: str) -> Array:
    """The same memory as elements of a kernel's type: a kernel may take truth values for bytes."""
    return array.view(dtypes.to_numpy(dtype))


def _operand(flat: Array, tensor: Tensor, call: Call) -> Array:
    """The elements of a kernel's tensor within the buffer that it lies in."""
    shape, layout = tuple(int(n) for n in tensor.shape), call.layouts.get(tensor.name)
    if layout is None:
        return flat[: int(np.prod(shape, dtype=np.int64))].reshape(shape)
    return _at(flat, shape, layout.origin, layout.strides)


def _at(flat: Array, shape: Sequence[int], origin: Int, strides: Sequence[Int]) -> Array:
    return as_strided(flat[int(origin) :], shape, [int(s) * flat.itemsize for s in strides])
