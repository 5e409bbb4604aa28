"""What the statements of a loop program work on: buffers, variables, and values beyond those of tensor expressions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sterna.intrinsics import Intrinsic
from sterna.ir import dtypes
from sterna.ir.integer import ZERO, Int, as_int
from sterna.ir.memory import Memory, Scope
from sterna.te.expr import Expr
from sterna.te.layout import dense_strides, most_elements


@dataclass(frozen=True, eq=False)
class Buffer:
    """Memory seen by a kernel as a flat array.

    Args:
        shape: logical sizes of the tensor it holds.
        strides: in elements, one per dimension.
        origin: element at which the tensor's first element lies (a tensor inside a padded buffer starts later).
        elements: the most that the whole buffer can have; every access lies in 0 <= index < elements.
        size: elements of the whole buffer as an expression, where it depends on dimensions.
        vector: elements that always are one vector together; 0 where there is no such thing.
        start: the byte offset as an expression, where it depends on what the call record brings; `slot` is the most.
        slot: position in the call record's `in` or `out`, or byte offset in `params`, `scratch` or a memory.
        may_alias: an output may take the memory of this input, or this output that of an input.
    """

    name: str
    dtype: str
    shape: tuple[Int, ...]
    strides: tuple[Int, ...]
    elements: int
    scope: Scope
    origin: Int = ZERO
    slot: int = 0
    may_alias: bool = False
    size: Int | None = None
    vector: int = 0
    start: Int | None = None

    @property
    def begin(self) -> Int:
        """The byte offset in `params`, `scratch` or a memory."""
        return as_int(self.slot) if self.start is None else self.start

    def offset(self, indices: tuple[Int, ...]) -> Int:
        """The flat element offset of a logical position."""
        total = self.origin
        for index, stride in zip(indices, self.strides, strict=True):
            total = total + index * stride
        return total

    @property
    def end(self) -> int:
        """The byte offset behind it."""
        return self.slot + self.elements * dtypes.size(self.dtype)

    def meets(self, other: Buffer) -> bool:
        """Whether two buffers are one, or lie at the same bytes of a memory, one after the other."""
        if self is other:
            return True
        same = self.scope == other.scope and isinstance(self.scope, Memory)
        return same and self.slot < other.end and other.slot < self.end

    def __repr__(self) -> str:
        return f"Buffer({self.name})"


def dense_buffer(name: str, dtype: str, shape: tuple[Int, ...], scope: Scope, slot: int = 0) -> Buffer:
    """A buffer that holds a compact tensor and nothing else; at least one element."""
    return Buffer(name, dtype, shape, dense_strides(shape), most_elements(shape), scope, slot=slot)


@dataclass(frozen=True, eq=False)
class Variable:
    """A named value: a register of a promoted buffer (mutable) or a shared subexpression (assigned once). A tile has
    `rows`, all its elements are its lanes, row by row.

    Args:
        threads: that hold a tile together; operand: of a tile, which one of its intrinsic's it is, counted from 1; 0:
            the accumulators.
    """

    name: str
    dtype: str
    lanes: int
    rows: int = 0
    threads: int = 1
    operand: int = 0


@dataclass(frozen=True)
class Read(Expr):
    """The current value of a variable."""

    variable: Variable = None  # type: ignore[assignment]
    __hash__ = Expr.__hash__

    def text(self, show: Callable[[Expr], str]) -> str:
        return self.variable.name


@dataclass(frozen=True)
class Lane(Expr):
    """One element of a vector, or as many consecutive ones as the value has lanes."""

    a: Expr = None  # type: ignore[assignment]
    lane: int = 0
    __hash__ = Expr.__hash__

    def text(self, show: Callable[[Expr], str]) -> str:
        return f"{show(self.a)}.{self.lane}" + (f":{self.lanes}" if self.lanes > 1 else "")

    def children(self) -> tuple[Expr, ...]:
        return (self.a,)

    def with_children(self, children: tuple[Expr, ...]) -> Expr:
        return self.changed(a=children[0])


@dataclass(frozen=True)
class Broadcast(Expr):
    """A scalar in every lane; of a vector, its lanes over and over."""

    a: Expr = None  # type: ignore[assignment]
    __hash__ = Expr.__hash__

    def text(self, show: Callable[[Expr], str]) -> str:
        return f"{show(self.a)} x{self.lanes}"

    def children(self) -> tuple[Expr, ...]:
        return (self.a,)

    def with_children(self, children: tuple[Expr, ...]) -> Expr:
        return self.changed(a=children[0])


@dataclass(frozen=True)
class Apply(Expr):
    """What a hardware intrinsic over vectors or tiles makes of its operands: accumulators, if it adds to them, then
    those of its behaviour, flat; `extents` of its axes, where some have fewer positions than the behaviour."""

    intrinsic: Intrinsic = None  # type: ignore[assignment]
    operands: tuple[Expr, ...] = ()
    extents: tuple[int, ...] = ()
    __hash__ = Expr.__hash__

    def text(self, show: Callable[[Expr], str]) -> str:
        return f"{self.intrinsic.name}({', '.join(map(show, self.operands))})"

    def children(self) -> tuple[Expr, ...]:
        return self.operands

    def with_children(self, children: tuple[Expr, ...]) -> Expr:
        return self.changed(operands=children)


@dataclass(frozen=True)
class Assemble(Expr):
    """A vector of scalars."""

    elements: tuple[Expr, ...] = ()
    __hash__ = Expr.__hash__

    def children(self) -> tuple[Expr, ...]:
        return self.elements

    def with_children(self, children: tuple[Expr, ...]) -> Expr:
        return self.changed(elements=children)


@dataclass(frozen=True)
class Blend(Expr):
    """The first `active` lanes of `a`, the others of `b`."""

    a: Expr = None  # type: ignore[assignment]
    b: Expr = None  # type: ignore[assignment]
    active: int = 0
    __hash__ = Expr.__hash__

    def text(self, show: Callable[[Expr], str]) -> str:
        return f"blend({show(self.a)}, {show(self.b)}, {self.active})"

    def children(self) -> tuple[Expr, ...]:
        return (self.a, self.b)

    def with_children(self, children: tuple[Expr, ...]) -> Expr:
        return self.changed(a=children[0], b=children[1])


@dataclass(frozen=True)
class Shuffle(Expr):
    """Lanes of a vector, or of two of one type, in a constant order: those of `a` count from 0, `b` follows."""

    a: Expr = None  # type: ignore[assignment]
    b: Expr | None = None
    order: tuple[int, ...] = ()
    __hash__ = Expr.__hash__

    def text(self, show: Callable[[Expr], str]) -> str:
        return f"shuffle({', '.join(map(show, self.children()))}; {', '.join(map(str, self.order))})"

    def children(self) -> tuple[Expr, ...]:
        return (self.a,) if self.b is None else (self.a, self.b)

    def with_children(self, children: tuple[Expr, ...]) -> Expr:
        return self.changed(a=children[0], b=children[1] if len(children) > 1 else None)

    def source_of(self, lane: int) -> tuple[Expr, int]:
        """The operand that a lane comes from, and its lane there."""
        n = self.order[lane]
        if n < self.a.lanes:
            return self.a, n
        assert self.b is not None
        return self.b, n - self.a.lanes


@dataclass(frozen=True)
class Exchange(Expr):
    """What a value is in the thread whose number along x differs in one bit, which `distance` has.

    It is the whole value of a `Let`. All threads of the task come by, and those whose numbers differ in this bit and
    those below are of one subgroup: then no memory and no barrier is needed. Numbers of 32 or 64 bits."""

    a: Expr = None  # type: ignore[assignment]
    distance: int = 1
    __hash__ = Expr.__hash__

    def text(self, show: Callable[[Expr], str]) -> str:
        return f"exchange({show(self.a)}, {self.distance})"

    def children(self) -> tuple[Expr, ...]:
        return (self.a,)

    def with_children(self, children: tuple[Expr, ...]) -> Expr:
        return self.changed(a=children[0])


def joined(*parts: Expr) -> Expr:
    """One vector of several, as many as a power of two, one after the other."""
    if len(parts) == 1:
        return parts[0]
    half = len(parts) // 2
    a, b = joined(*parts[:half]), joined(*parts[half:])
    lanes = a.lanes + b.lanes
    if a == b:
        return Shuffle(a.dtype, a=a, order=tuple(range(a.lanes)) * 2, lanes=lanes)
    return Shuffle(a.dtype, a=a, b=b, order=tuple(range(lanes)), lanes=lanes)
