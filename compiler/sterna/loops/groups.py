"""Loop programs written by hand whose tasks a group of threads runs, and the scans of what its threads have.

    def doubled_prefix(p: GroupBuilder) -> None:        # sums of all elements before each one, of rows of 64
        x, y = p.input(0), p.output
        with p.tasks(x.shape[0], "row") as row, p.lanes(64) as lane:
            before, _ = p.scanned((x[row, lane],), lane, 64, 1, (0.0,), add)
            y[row, lane] = before[0]

No program writes a barrier: `loops.barriers` places them, and `loops.races` proves that none is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from sterna.ir import dtypes
from sterna.ir.integer import Int, IntLike, Symbol, as_int, of
from sterna.ir.memory import Memory
from sterna.loops import program as P
from sterna.loops.build import Array, ProgramBuilder
from sterna.te import expr as E
from sterna.te.expr import Expr
from sterna.te.layout import most_elements
from sterna_runtime.abi import aligned

#: What is combined: one number or several.
State = tuple[Expr, ...]
#: The state of two runs of elements, the earlier one first; need not be commutative.
Combine = Callable[[State, State], State]


@dataclass(frozen=True)
class ThreadGroup:
    """The threads of a task.

    Args:
        most: how many there can be; subgroup: neighbours whose registers reach one another, 1 where none do.
        memory: that they share.
        tasks: that the device runs at a time.
    """

    most: int
    subgroup: int
    memory: Memory
    tasks: int


class GroupBuilder(ProgramBuilder):
    """A loop program in the making whose tasks are run by groups of threads."""

    def __init__(
        self, name: str, inputs: Sequence[P.Buffer | None], outputs: Sequence[P.Buffer], group: ThreadGroup
    ) -> None:
        super().__init__(name, inputs, outputs)
        self.group = group
        self.shared_bytes = 0

    @contextmanager
    def lanes(self, count: int) -> Iterator[Int]:
        """The threads of a task, by number; around all that it does."""
        symbol = Symbol(self._name("lane"), 0, count - 1)
        with self._block() as body:
            yield of(symbol)
        self.emit(P.For(symbol, as_int(count), "thread.x", P.seq(*body)))

    @contextmanager
    def below(self, index: Int, limit: IntLike) -> Iterator[None]:
        """What is done only where index < limit; nothing is asked where that always holds."""
        end = as_int(limit)
        most = (index - end).bounds()[1]
        with self._block() as body:
            yield
        self.emit(P.seq(*body) if most is not None and most < 0 else P.If(index, end, P.seq(*body)))

    def named(self, name: str, value: Int) -> Int:
        """A position under a name: of where it comes from, what proves bounds then knows no more than its own."""
        lo, hi = value.bounds()
        symbol = Symbol(self._name(name), lo, hi)
        self.emit(P.LetIndex(symbol, value))
        return of(symbol)

    def shared(self, name: str, dtype: str, shape: Sequence[IntLike]) -> Array:
        """Memory that the threads of a task share. Numbers of fewer than 32 bits take 32: some devices have no others
        there."""
        sizes = tuple(as_int(n) for n in shape)
        buffer = P.dense_buffer(self._name(name), dtype, sizes, self.group.memory, self.shared_bytes)
        self.shared_bytes += aligned(most_elements(sizes) * dtypes.size(dtype))
        self.emit(P.Alloc(buffer))
        return Array(self, buffer)

    def at(self, array: Array, *indices: Int) -> Expr:
        """An element as it is now, at positions that conditions around keep within the array, which is proved."""
        return self.let(
            E.Load(array.dtype, tensor=array.buffer, indices=(array.buffer.offset(indices),)), array.buffer.name
        )

    def put(self, array: Array, *indices: Int, value: Expr) -> None:
        """Writes an element at such positions."""
        self.emit(P.Store(array.buffer, array.buffer.offset(indices), self.typed(value, array.dtype)))

    def exchanged(self, value: Expr, distance: int) -> Expr:
        """What the thread has whose number differs in the bit of `distance`; exchanged are 32 or 64 bits."""
        kind = carried(value.dtype)
        return E.cast(self.let(P.Exchange(kind, a=E.cast(value, kind), distance=distance), "other"), value.dtype)

    def scanned(
        self, state: State, lane: Int, threads: int, apart: int, identity: State, combine: Combine
    ) -> tuple[State, State]:
        """(what all earlier threads have together, what all of them have) for each thread of a task.

        Threads whose numbers are `apart` apart follow one another: there are so many scans side by side. Those of a
        subgroup exchange what they have in pairs: after every exchange a thread knows the total of twice as many, and
        what of it lies before itself. What is left is a tree in shared memory, in which each step adds up what lies
        twice as far back (W. D. Hillis, G. L. Steele, Data Parallel Algorithms, 1986).
        """
        before, total, width = identity, tuple(self.let(each) for each in state), apart
        while width < min(threads, self.group.subgroup):
            other = tuple(self.exchanged(each, width) for each in total)
            later = E.compare("eq", E.index_value(lane // width % 2, "int32"), E.const(1, "int32"))
            ahead = combine(other, before)
            before = tuple(self.let(E.select(later, a, b)) for a, b in zip(ahead, before, strict=True))
            pairs = zip(combine(other, total), combine(total, other), strict=True)
            total = tuple(self.let(E.select(later, a, b)) for a, b in pairs)
            width *= 2
        if width == threads:
            return before, total
        return self._across(before, total, lane, (threads // width, width, apart), identity, combine)

    def _across(
        self, before: State, total: State, lane: Int, sizes: tuple[int, int, int], identity: State, combine: Combine
    ) -> tuple[State, State]:
        """The same where runs of `width` threads have been scanned, of which each `apart` of them have one total."""
        runs, width, apart = sizes
        run, column = lane // width, lane % apart
        sides = [self.shared("totals", carried(each.dtype), (2, runs, apart)) for each in total]
        first = lane % width

        def put(side: int, values: State) -> None:
            with self.below(first, apart):
                for array, value in zip(sides, values, strict=True):
                    self.put(array, as_int(side), run, column, value=E.cast(value, array.dtype))

        def get(side: int, which: Int) -> State:
            return tuple(
                E.cast(self.at(a, as_int(side), which, column), v.dtype) for a, v in zip(sides, total, strict=True)
            )

        put(0, total)
        side, step = 0, 1
        while step < runs:
            mine = [self.variable("mine", each) for each in get(side, run)]
            with self.below(as_int(step - 1), run):
                earlier = combine(get(side, run - step), tuple(each.value for each in mine))
                for variable, value in zip(mine, [self.let(each) for each in earlier], strict=True):
                    variable.set(value)
            put(1 - side, tuple(each.value for each in mine))
            side, step = 1 - side, 2 * step
        found = [self.variable("before", each) for each in before]
        with self.below(as_int(0), run):
            earlier = combine(get(side, run - 1), before)
            for variable, value in zip(found, [self.let(each) for each in earlier], strict=True):
                variable.set(value)
        everything = get(side, as_int(runs - 1))
        return tuple(each.value for each in found), everything


def carried(dtype: str) -> str:
    """The type in which threads hand a number on: of 32 or 64 bits."""
    if dtypes.bits(dtype) >= 32 and dtype != "bool":
        return dtype
    return "float32" if dtypes.is_float(dtype) else "int32"
