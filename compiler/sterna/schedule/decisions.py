"""What the steps of a schedule have decided: about each stage, and about the constants of the kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from sterna.intrinsics import Form, Intrinsic
from sterna.ir.integer import Int
from sterna.ir.memory import Scope
from sterna.te.axis import Axis
from sterna.te.expr import Expr, Reduce
from sterna.te.interpreter import evaluate_stage
from sterna.te.tensor import Tensor


@dataclass(frozen=True)
class Step:
    """One scheduling decision: a primitive, the stage it changes, and its arguments (JSON values)."""

    primitive: str
    stage: str
    arguments: tuple[Any, ...] = ()

    def __str__(self) -> str:
        return f"{self.primitive}({', '.join([self.stage, *map(str, self.arguments)])})"


@dataclass
class Split:
    """parent = outer * factor + inner. What overhangs has whole tiles only; the last one reaches beyond the axis."""

    parent: str
    outer: str
    inner: str
    factor: int
    overhangs: bool = False


@dataclass
class Fuse:
    """fused = first * extent(second) + second; with a pitch, fused = first * pitch + second up to the last of both, of
    which those that are beyond the `width` of the second axis are computed and left out."""

    fused: str
    first: str
    second: str
    pitch: int = 0
    width: int = 0


@dataclass(frozen=True)
class RaggedTail:
    """In the last iteration (`full`) of an outer axis, the inner axis has only `rest` of its `factor` iterations: what
    remains of a reduction that rfactor has cut into lanes. Where `rest` depends on a dimension, it is done in several
    parts, and `part` is the axis of one iteration whose value is where the part begins."""

    outer: str
    inner: str
    factor: int
    full: Int
    rest: Int
    part: str


@dataclass(frozen=True)
class Tensorized:
    """The innermost axes of a stage as one intrinsic.

    Args:
        axes: in the order of the intrinsic's behaviour, those reduced last.
    """

    intrinsic: Intrinsic
    axes: tuple[str, ...]

    @property
    def first(self) -> str:
        """The outermost of the axes."""
        return self.axes[0]

    @property
    def row(self) -> str | None:
        """The rows of a tile, of one over tiles."""
        return self.axes[0] if self.intrinsic.form is Form.TILES else None

    def role(self, axis: str) -> str:
        """The axis of the behaviour that an axis of the stage stands for."""
        return self.intrinsic.axes[self.axes.index(axis)].name


@dataclass(frozen=True)
class Ahead:
    """What of a constant the loops of a sum ask for before its reader needs it.

    Args:
        tensor: the constant; axis: of the sum, whose every iteration asks.
        part: the axis of the sum's reader each of whose iterations reads a part of the constant of its own.
        rounds: those within it that read the same part again, outermost first.
    """

    tensor: str
    axis: str
    part: str
    rounds: tuple[str, ...]


@dataclass
class StageSchedule:
    """What the steps so far have decided about one stage.

    Args:
        whole: vectorized axes that take all lanes of their vectors even where a tail has fewer iterations.
        by_lane: elements of the vectors that axes written out by lane take what they repeat from.
        transferred: the stage, which only copies, is moved by copies; asynchronous: which go on until they
            are waited for.
        ahead: what of a constant is fetched while the stage, a sum, is computed.
        partitioned: axes along which the stage is computed part by part, as its conditions say.
        pipelined: buffers, by the axis whose iterations bring what later ones read.
        padded: (elements, dimensions): what each row of the storage has room for beyond its own, and how many of the
            last dimensions are a row.
        turned: elements by which each row of the storage is turned against the one before it.
        clipped: reduced axes whose loops begin and end where terms can be other than zero.
        from_tiles: the rows and lanes of a stage that stores tiles, innermost.
        last_of: of an output, another one and the one that counts its tasks, the last of which compute this one.
    """

    tensor: Tensor
    body: Expr
    leaves: list[str]
    relations: list[Split | Fuse | RaggedTail] = field(default_factory=list)
    annotations: dict[str, str] = field(default_factory=dict)
    across: dict[str, int] = field(default_factory=dict)
    attach: tuple[str, str] | None = None
    inlined: bool = False
    scope: Scope | None = None
    whole: set[str] = field(default_factory=set)
    by_lane: dict[str, int] = field(default_factory=dict)
    tensorized: Tensorized | None = None
    ahead: Ahead | None = None
    partitioned: tuple[str, ...] = ()
    clipped: tuple[str, ...] = ()
    padded: tuple[int, int] | None = None
    turned: int = 0
    pipelined: dict[str, int] = field(default_factory=dict)
    transferred: bool = False
    asynchronous: bool = False
    from_tiles: tuple[str, str] | None = None
    last_of: tuple[str, str] | None = None

    @property
    def name(self) -> str:
        return self.tensor.name

    @property
    def keeps_tiles(self) -> bool:
        """Whether its elements stay in tiles of the hardware."""
        return self.scope is not None and self.scope.is_tiles

    @property
    def overhanging(self) -> list[int]:
        """The dimensions of which there may be iterations beyond the last element."""
        cut = {self.first_of(r.parent) for r in self.relations if isinstance(r, Split) and r.overhangs}
        return [d for d, a in enumerate(self.tensor.axes) if a.name in cut]

    def first_of(self, axis: str) -> str:
        """The outermost of the axes that one was fused from; itself if it was not."""
        fused = next((r for r in self.relations if isinstance(r, Fuse) and r.fused == axis), None)
        return axis if fused is None else self.first_of(fused.first)

    @property
    def axes(self) -> tuple[Axis, ...]:
        reduction = self.body.axes if isinstance(self.body, Reduce) else ()
        return self.tensor.axes + reduction

    @property
    def blocks(self) -> tuple[tuple[int, int], ...]:
        """(dimension, size) of the blocks that the results of the stage lie in, where an intrinsic gives several rows
        of them as one vector."""
        done = self.tensorized
        if done is None or done.intrinsic.form is not Form.VECTORS or done.intrinsic.rows == 1:
            return ()
        parents = {r.inner: r.parent for r in self.relations if isinstance(r, Split)}
        names = [a.name for a in self.tensor.axes]
        own = zip(done.axes, done.intrinsic.behaviour.shape, strict=False)
        return tuple((names.index(parents.get(axis, axis)), int(size)) for axis, size in own)

    def split_of(self, outer: str) -> Split | RaggedTail:
        """The split, or the factored reduction, whose outer part an axis is."""
        return next(r for r in self.relations if isinstance(r, (Split, RaggedTail)) and r.outer == outer)

    def leaves_of(self, axis: str) -> set[str]:
        """The leaves that the value of an axis depends on."""
        if axis in self.leaves:
            return {axis}
        found: set[str] = set()
        for r in self.relations:
            if isinstance(r, Split) and r.parent == axis:
                found |= self.leaves_of(r.outer) | self.leaves_of(r.inner)
            elif isinstance(r, Fuse) and axis in (r.first, r.second):
                found |= self.leaves_of(r.fused)
        return found

    def iterations(self, axis: str) -> int | None:
        """Iterations of the inner part of a split, of the outer one where what is split has been split before, and
        evenly, of an axis that is not split and has a constant number, and of such axes fused."""
        fused = next((r for r in self.relations if isinstance(r, Fuse) and r.fused == axis), None)
        if fused is not None:
            both = self.iterations(fused.first), self.iterations(fused.second)
            return None if fused.pitch or None in both else prod(n for n in both if n is not None)
        own = next((a.extent for a in self.axes if a.name == axis), None)
        if own is not None:
            return int(own) if own.is_const else None
        factors = {r.inner: r.factor for r in self.relations if isinstance(r, Split)}
        if axis in factors:
            return factors[axis]
        split = next((r for r in self.relations if isinstance(r, Split) and r.outer == axis), None)
        parts = {part for r in self.relations if isinstance(r, Split) for part in (r.outer, r.inner)}
        derived = split is not None and split.parent in parts
        whole = self.iterations(split.parent) if split is not None and derived else None
        return None if split is None or whole is None or whole % split.factor else whole // split.factor

    def extent(self, axis: str) -> int | None:
        """Iterations of the loop over an axis, a last one that is not whole among them; None if they are not known."""
        own = next((a.extent for a in self.axes if a.name == axis), None)
        if own is not None:
            return int(own) if own.is_const else None
        for r in self.relations:
            if isinstance(r, Fuse) and r.fused == axis:
                first, second = self.extent(r.first), self.extent(r.second)
                return None if r.pitch or first is None or second is None else first * second
            if isinstance(r, Split) and axis in (r.outer, r.inner):
                whole = self.extent(r.parent)
                return r.factor if axis == r.inner else None if whole is None else -(-whole // r.factor)
        return None

    @property
    def reduction_leaves(self) -> set[str]:
        """Leaves derived from a reduction axis."""
        names = {a.name for a in self.axes if a.reduction}
        for r in self.relations:
            if isinstance(r, Split) and r.parent in names:
                names |= {r.outer, r.inner}
            elif isinstance(r, Fuse) and r.first in names:
                names.add(r.fused)
        return names


@dataclass(frozen=True)
class Packing:
    """A constant stored in another order: dimensions are split by a factor (padded with zeros) and permuted.

    `order` lists the dimensions of the packed array: (dimension, "o" | "m" | "i" | ""), the letters naming the parts
    of a split one, outer, middle and inner: one of two factors has a middle part.
    """

    source: Tensor
    packed: Tensor
    factors: tuple[tuple[int, tuple[int, ...]], ...]
    order: tuple[tuple[int, str], ...]

    def apply(self, array: np.ndarray) -> np.ndarray:
        """The packed array: padded, reshaped and transposed."""
        factors = dict(self.factors)
        pads = [(0, -n % factors.get(d, (1,))[0]) for d, n in enumerate(array.shape)]
        shape: list[int] = []
        position: dict[tuple[int, str], int] = {}
        for d, n in enumerate(array.shape):
            for part, size in parts_of(n, factors.get(d, ())):
                position[(d, part)] = len(shape)
                shape.append(size)
        padded = np.pad(array, pads) if any(after for _, after in pads) else array
        return np.ascontiguousarray(padded.reshape(shape).transpose([position[o] for o in self.order]))

    def index(self, indices: Sequence[Int]) -> tuple[Int, ...]:
        factors = dict(self.factors)
        parts = {"o": lambda i, f: i // f[0], "m": lambda i, f: i % f[0] // f[-1], "i": lambda i, f: i % f[-1]}
        return tuple(parts[part](indices[d], factors[d]) if part else indices[d] for d, part in self.order)


def parts_of(size: int, factors: Sequence[int]) -> list[tuple[str, int]]:
    """The parts of a dimension that a packing splits, and how many positions each has."""
    if not factors:
        return [("", size)]
    middle = [("m", factors[0] // factors[1])] if len(factors) > 1 else []
    return [("o", -(-size // factors[0])), *middle, ("i", factors[-1])]


@dataclass(frozen=True)
class Derived:
    """A constant computed at compile time from other constants: the stage that says how, and those that it reads."""

    stage: Tensor
    before: tuple[Tensor, ...] = ()

    def apply(self, constants: Mapping[str, np.ndarray]) -> np.ndarray:
        """The constant, from those of the kernel by name."""
        known = dict(constants)
        for stage in self.before:
            known[stage.name] = evaluate_stage(stage, known)
        return evaluate_stage(self.stage, known)
