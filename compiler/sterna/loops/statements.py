"""The statements of loop programs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal, TypeVar

from sterna.intrinsics import Intrinsic, TileShape
from sterna.ir.integer import ZERO, Int, Symbol, as_int, of
from sterna.ir.threads import ThreadAxis
from sterna.loops.values import Buffer, Variable
from sterna.te.expr import Expr, Load

#: Those of a thread axis have the threads of a task for their iterations.
LoopKind = Literal["serial", "unrolled", "lanes", "vectorized", "parallel"] | ThreadAxis
#: Whom a barrier waits for: the threads of the task, or all workers of the call.
Reach = Literal["block", "device"]
S = TypeVar("S", bound="Stmt")


class Stmt:
    """A statement."""

    def changed(self: S, **fields: Any) -> S:
        """The statement with other values in some fields: `dataclasses.replace` in a fraction of its time."""
        new = object.__new__(type(self))
        new.__dict__.update(self.__dict__, **fields)
        return new

    def inside(self) -> tuple[Stmt, ...]:
        """Statements directly inside it."""
        return ()

    def computes(self) -> Expr | None:
        """The value that it computes itself, apart from positions."""
        return None

    def places(self) -> tuple[Int, ...]:
        """The positions that it holds itself, apart from those inside its value."""
        return ()


@dataclass(frozen=True, eq=False)
class Seq(Stmt):
    stmts: tuple[Stmt, ...]

    def inside(self) -> tuple[Stmt, ...]:
        return self.stmts


@dataclass(frozen=True, eq=False)
class For(Stmt):
    """start <= symbol < extent; a parallel loop runs the tasks that the runtime hands out. A vectorized loop may ask
    for vectors of `width` lanes although it has fewer iterations: the tail of a reduction that is kept in lanes.

    A loop of kind "lanes" is an unrolled one whose iterations repeat numbers in all lanes that lie side by side in
    memory: these are loaded as vectors of `width` elements and used lane by lane.

    One that stays `rolled` is as it should be for code in flash: compilers are asked not to write it out. Of one whose
    iterations are `apart`, as none reads what another one writes, compilers may make vectors: for rows of hand-written
    programs, which begin and end anywhere.

    A loop over threads gives each iteration to a thread of the task. A task has as many threads along an axis as the
    widest loop over it, and all of them run what stands outside of such loops; those beyond a loop's extent skip it."""

    symbol: Symbol
    extent: Int
    kind: LoopKind
    body: Stmt
    width: int | None = None
    start: Int = ZERO
    rolled: bool = False
    apart: bool = False

    def inside(self) -> tuple[Stmt, ...]:
        return (self.body,)

    def places(self) -> tuple[Int, ...]:
        return (self.start, self.extent)


@dataclass(frozen=True, eq=False)
class If(Stmt):
    """`then` where index < limit, else `otherwise`. Stands where a tile or a tail is chosen, never in a hot loop."""

    index: Int
    limit: Int
    then: Stmt
    otherwise: Stmt | None = None

    def inside(self) -> tuple[Stmt, ...]:
        return (self.then,) if self.otherwise is None else (self.then, self.otherwise)

    def places(self) -> tuple[Int, ...]:
        return (self.index, self.limit)


@dataclass(frozen=True, eq=False)
class Branch(Stmt):
    """`then` where a value (a scalar bool) holds, else `otherwise`: what a hand-written program decides by its data."""

    condition: Expr
    then: Stmt
    otherwise: Stmt | None = None

    def inside(self) -> tuple[Stmt, ...]:
        return (self.then,) if self.otherwise is None else (self.then, self.otherwise)

    def computes(self) -> Expr:
        return self.condition


@dataclass(frozen=True, eq=False)
class Break(Stmt):
    """Leaves the innermost loop, which is serial; the last statement of its sequence. Every loop has an extent, so no
    data can keep a program from ending."""


@dataclass(frozen=True, eq=False)
class LetIndex(Stmt):
    """Names a position for the rest of the enclosing sequence."""

    symbol: Symbol
    value: Int

    def places(self) -> tuple[Int, ...]:
        return (self.value,)


@dataclass(frozen=True, eq=False)
class Let(Stmt):
    """Names a value for the rest of the enclosing sequence."""

    variable: Variable
    value: Expr

    def computes(self) -> Expr:
        return self.value


@dataclass(frozen=True, eq=False)
class Declare(Stmt):
    """A mutable variable for the rest of the enclosing sequence; its first value comes from an `Assign`."""

    variable: Variable


@dataclass(frozen=True, eq=False)
class Assign(Stmt):
    variable: Variable
    value: Expr

    def computes(self) -> Expr:
        return self.value


@dataclass(frozen=True, eq=False)
class Alloc(Stmt):
    """Storage for the rest of the enclosing sequence."""

    buffer: Buffer


@dataclass(frozen=True, eq=False)
class Store(Stmt):
    """Writes `value` at a flat element offset; lanes lie `stride` apart, only the first `active` are written. Of a tile
    each of the `rows` is consecutive, `pitch` elements from one to the next."""

    buffer: Buffer
    index: Int
    value: Expr
    stride: int = 1
    active: int | None = None
    rows: int = 0
    pitch: int = 0

    def computes(self) -> Expr:
        return self.value

    def places(self) -> tuple[Int, ...]:
        return (self.index,)


@dataclass(frozen=True, eq=False)
class Tiles(Stmt):
    """The body with the tile registers of the hardware configured, which is undone after it.

    Inside, variables that have rows are registers. They are assigned zeros, a load with rows, or what an intrinsic
    makes of them, into its own accumulators; they are stored to memory as a whole.

    Args:
        shapes: rows and bytes of a row, by number of the register; registers: of every tile variable of the body.
        operands: of fragments, which one of the intrinsic's each register holds (`Variable.operand`).
    """

    intrinsic: Intrinsic
    shapes: tuple[TileShape, ...]
    registers: dict[Variable, int]
    body: Stmt
    operands: tuple[int, ...] = ()

    @property
    def configuration(self) -> bytes:
        """The memory that the hardware is configured by."""
        assert self.intrinsic.tiles is not None
        assert self.intrinsic.tiles.configuration is not None
        return self.intrinsic.tiles.configuration(self.shapes)

    def inside(self) -> tuple[Stmt, ...]:
        return (self.body,)


@dataclass(frozen=True, eq=False)
class Slice:
    """What an instruction takes from memory: elements of a buffer, a constant step from one to the next along each
    dimension of the operand."""

    buffer: Buffer
    start: Int
    strides: tuple[int, ...]
    shape: tuple[int, ...]

    @property
    def ends(self) -> tuple[int, int]:
        """The least and the greatest element, counted from the start."""
        steps = [(n - 1) * s for n, s in zip(self.shape, self.strides, strict=True)]
        return sum(min(0, s) for s in steps), sum(max(0, s) for s in steps)

    def runs(self) -> Iterator[tuple[Int, int, int]]:
        """The elements as runs of constant step: (first, how many, step)."""
        *outer, inner = self.shape or (1,)
        *pitches, step = self.strides or (1,)
        for place in product(*map(range, outer)):
            first = self.start + sum(n * p for n, p in zip(place, pitches, strict=True))
            yield first, inner, step


@dataclass(frozen=True, eq=False)
class Instruction(Stmt):
    """An intrinsic over memory: computes its behaviour, of operands in the order of `intrinsic.inputs`, into `result`.
    What is no slice is a value with a name."""

    intrinsic: Intrinsic
    result: Slice
    operands: tuple[Slice | Variable, ...]

    @property
    def slices(self) -> tuple[Slice, ...]:
        """What it reads from memory beside the result, which it may read, too."""
        return tuple(o for o in self.operands if isinstance(o, Slice))

    def places(self) -> tuple[Int, ...]:
        return (self.result.start, *(s.start for s in self.slices))


@dataclass(frozen=True, eq=False)
class Require(Stmt):
    """Leaves the kernel with the status KERNEL_FAILED where a bool does not hold."""

    value: Expr

    def computes(self) -> Expr:
        return self.value


@dataclass(frozen=True, eq=False)
class Barrier(Stmt):
    """Waits until all have come here. Of reach "device": every worker of the call; it stands outside of parallel loops,
    and in a kernel with one, scratch is shared by all workers. Of reach "block": the threads of the task."""

    reach: Reach = "device"


@dataclass(frozen=True, eq=False)
class LastTask(Stmt):
    """Runs `body` in the last of the tasks that come here with the same index, `count` of them, which sees all that the
    others had written before they came; in the body the index is `symbol`, by which alone it may tell one task from
    another. All threads of a task come by, once, and wait for one another: it is a barrier of theirs.

    Args:
        counters: an element for each index, how many tasks have come: 0 before the first one, and again after the last.
    """

    counters: Buffer
    symbol: Symbol
    index: Int
    count: int
    body: Stmt

    def inside(self) -> tuple[Stmt, ...]:
        return (self.body,)

    def places(self) -> tuple[Int, ...]:
        return (self.index,)


@dataclass(frozen=True, eq=False)
class Copy(Stmt):
    """Copies `elements` consecutive elements from source[at] to destination[to], buffers of one type. An asynchronous
    copy happens at any time between here and the `Wait` for its group by the same thread.

    What is `fetched` comes from memory that loads reach slowly: the program around the kernels says how, by DMA maybe
    (`sterna_fetch`). Whoever writes an asynchronous fetch writes its wait (`loops.panels`)."""

    destination: Buffer
    to: Int
    source: Buffer
    at: Int
    elements: int
    asynchronous: bool = False
    group: int = 0
    fetched: bool = False

    def places(self) -> tuple[Int, ...]:
        return (self.to, self.at)


@dataclass(frozen=True, eq=False)
class Prefetch(Stmt):
    """Asks for the cache line of an element that is read later: a hint, which changes no result."""

    buffer: Buffer
    index: Int

    def places(self) -> tuple[Int, ...]:
        return (self.index,)


@dataclass(frozen=True, eq=False)
class Commit(Stmt):
    """Makes a batch of the asynchronous copies of a group that this thread has begun since its last batch; there may be
    none. All threads of a task come by. Whoever writes it writes the waits for the group, too (`loops.pipelines`)."""

    group: int


@dataclass(frozen=True, eq=False)
class Wait(Stmt):
    """Waits until the asynchronous copies of a group that this thread began have ended; of fetches, all of them.

    Args:
        in_flight: the group's last batches, so many, may go on, and what is of no batch yet.
    """

    group: int
    fetched: bool = False
    in_flight: int = 0


@dataclass(frozen=True, eq=False)
class Settle(Stmt):
    """Waits until the products of what lies in memory, which subgroups hold the sums of, have ended. From where one is
    written to here it may read its operands at any time, and nothing else may have the sums.

    Args:
        in_flight: so many of those that were begun last may go on.
    """

    in_flight: int = 0


def elements_of(copy: Copy) -> For:
    """A copy as a loop over its elements, which generators write where their language has no better way."""
    n = Symbol("moved", 0, copy.elements - 1)
    load = Load(copy.source.dtype, tensor=copy.source, indices=(copy.at + of(n),))
    return For(n, as_int(copy.elements), "serial", Store(copy.destination, copy.to + of(n), load))
