"""The axes of one stage while its loops are emitted: their extents, their values, and what is still open."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from types import MappingProxyType

from sterna.ir.division import ceil_div
from sterna.ir.integer import ZERO, Atom, Int, IntLike, Symbol, as_int, of
from sterna.loops.values import Buffer
from sterna.schedule.decisions import Fuse, RaggedTail, Split, StageSchedule
from sterna.te.position import divided
from sterna.te.tensor import Tensor


@dataclass(frozen=True)
class Region:
    """What is needed of a stage: least index and extent per dimension."""

    least: tuple[Int, ...]
    extent: tuple[Int, ...]


def whole(tensor: Tensor) -> Region:
    """All of a stage."""
    return Region(tuple(ZERO for _ in tensor.axes), tuple(a.extent for a in tensor.axes))


@dataclass(frozen=True)
class Remainder:
    """A split that does not come out even: `full` whole tiles, then `rest` iterations."""

    full: Int
    rest: Int


@dataclass(frozen=True)
class Tile:
    """What is decided about one tile of an uneven split.

    Args:
        size: its iterations of the inner axis.
        start: the position on the split axis at which it begins, if that is no multiple of the split's factor.
    """

    size: Int
    start: Int | None = None


@dataclass(frozen=True)
class Fetch:
    """What the steps of a sum ask for of a constant: from element `first` on, `each` of them a step."""

    buffer: Buffer
    first: Int
    each: int


@dataclass
class Nest:
    """One stage's nest in the course of its emission.

    Args:
        region: the part of the stage that is computed.
        bound: values of axes that are known: those of loops entered, and what follows from them.
        tiles: by the outer axis of an uneven split, the tile that is being emitted, where that is decided.
        reduced: (first, end) of reduced axes of which not all iterations are wanted.
        cuts: the positions at which axes are still to be cut into parts; parts: (first, end) of the part of an axis
            that is being emitted, where it was.
        fetch: what the steps of a sum ask for before it is read.
    """

    stage: StageSchedule
    region: Region
    bound: dict[str, Int] = field(default_factory=dict)
    tiles: dict[str, Tile] = field(default_factory=dict)
    reduced: Mapping[str, tuple[IntLike, IntLike]] = field(default_factory=dict)
    cuts: Mapping[str, Sequence[int]] = field(default_factory=dict)
    parts: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    fetch: Fetch | None = None

    def fork(self) -> Nest:
        return replace(self, bound=dict(self.bound), tiles=dict(self.tiles))

    def part(self, axis: str, first: int, end: int) -> Nest:
        """A copy in which an axis has the iterations first <= i < end alone."""
        at = [a.name for a in self.stage.tensor.axes].index(axis)
        least, extent = list(self.region.least), list(self.region.extent)
        least[at], extent[at] = least[at] + first, as_int(end - first)
        nest = self.fork()
        nest.region = Region(tuple(least), tuple(extent))
        nest.cuts = {a: c for a, c in self.cuts.items() if a != axis}
        nest.parts = {**self.parts, axis: (first, end)}
        return nest

    def to_cut(self, leaf: str) -> str | None:
        """The axis of which a leaf is a part, if it is still to be cut."""
        return next((axis for axis in self.cuts if leaf in self.stage.leaves_of(axis)), None)

    def full_tile(self, outer: str) -> Nest:
        """A copy in which an uneven split is within its full tiles."""
        nest = self.fork()
        nest.tiles[outer] = Tile(as_int(self.stage.split_of(outer).factor))
        return nest

    def in_whole_tiles(self) -> Nest:
        """A copy in which a tile of an open size has as many iterations as a full one."""
        nest = self.fork()
        for r in self.stage.relations:
            if isinstance(r, Split) and r.outer in self.bound and not self.extent(r.inner).is_const:
                nest.tiles[r.outer] = replace(self.tiles.get(r.outer, Tile(ZERO)), size=as_int(r.factor))
        return nest

    # -- extents
    def extent(self, axis: str) -> Int:
        """Iterations of an axis, given what is decided about tiles; an outer axis counts its tail."""
        for r in self.stage.relations:
            if isinstance(r, Split) and axis in (r.outer, r.inner):
                if axis == r.inner and r.outer in self.tiles:
                    return self.tiles[r.outer].size
                n = self.extent(r.parent)
                if axis == r.outer:
                    return ceil_div(n, r.factor)
                if r.overhangs:
                    return as_int(r.factor)
                return n if self._one_tile(r, n) else as_int(r.factor)
            if isinstance(r, Fuse) and axis == r.fused and r.pitch:
                return (self.extent(r.first) - 1) * r.pitch + r.width
            if isinstance(r, Fuse) and axis == r.fused:
                return self.extent(r.first) * self.extent(r.second)
            if isinstance(r, RaggedTail) and axis == r.inner and r.outer in self.tiles:
                return self.tiles[r.outer].size
        return self._root_extent(axis)

    def fixed(self, axis: str) -> bool:
        """Whether the iterations of an axis must be of a constant number: lanes of a vector, an unrolled loop. What is
        split further has tails of its own, unless its outer part is such a loop."""
        if axis in self.stage.leaves:
            return self.stage.annotations.get(axis) in ("unrolled", "lanes", "vectorized")
        return any(self.fixed(r.outer) for r in self.stage.relations if isinstance(r, Split) and r.parent == axis)

    def _one_tile(self, r: Split, n: Int) -> bool:
        """Whether all iterations of a split axis make one tile, full or not."""
        hi = n.bounds()[1]
        return hi is not None and hi <= r.factor and (n.is_const or not self.fixed(r.inner))

    def nominal_extent(self, axis: str) -> Int:
        """Iterations of an axis in a full tile."""
        return Nest(self.stage, self.region).extent(axis)

    def width(self, leaf: str, extent: Int) -> int | None:
        """The lanes of vectors that a tail of a vectorized axis must share: those of a factored reduction, or what the
        schedule says."""
        if leaf in self.stage.whole:
            factor = next(r.factor for r in self.stage.relations if isinstance(r, Split) and r.inner == leaf)
            return factor if extent != factor else None
        if not any(isinstance(r, RaggedTail) for r in self.stage.relations):
            return None
        nominal = self.nominal_extent(leaf)
        return int(nominal) if nominal != extent else None

    def _root_extent(self, axis: str) -> Int:
        for a, extent in zip(self.stage.tensor.axes, self.region.extent, strict=True):
            if a.name == axis:
                return extent
        if axis in self.reduced:
            first, end = self.reduced[axis]
            return as_int(end) - first
        return next(a.extent for a in self.stage.axes if a.name == axis)

    def remainder(self, axis: str) -> Remainder | None:
        """If the axis is the outer one of an uneven split whose tile is not decided: its parts."""
        if axis in self.tiles:
            return None
        for r in self.stage.relations:
            if isinstance(r, Split) and r.outer == axis and not r.overhangs:
                n = self.extent(r.parent)
                if n % r.factor != ZERO and not self._one_tile(r, n):
                    return Remainder(n // r.factor, n % r.factor)
            if isinstance(r, RaggedTail) and r.outer == axis and r.full != ZERO:
                return Remainder(r.full, r.rest)
        return None

    def entered(self, outer: str) -> Int | None:
        """Where the loop over the inner part of an uneven split stands, if it is around the one over the outer part: it
        goes through whole tiles. Of a factored reduction that is the lane, counted from the stage's first."""
        split = self.stage.split_of(outer)
        value = self.bound.get(split.inner)
        if value is None or isinstance(split, Split):
            return value
        names = [a.name for a in self.stage.tensor.axes]
        return self.region.least[names.index(split.inner)] + value

    def undecided(self) -> tuple[str, Int, Remainder] | None:
        """An outer axis of an uneven split whose value is known and whose tile is not decided."""
        for r in self.stage.relations:
            if (
                isinstance(r, (Split, RaggedTail))
                and r.outer not in self.tiles
                and (remainder := self.remainder(r.outer)) is not None
            ):
                value = self.value(r.outer)
                if value is not None:
                    return r.outer, value, remainder
        return None

    # -- values
    def value(self, axis: str) -> Int | None:
        """The value of an axis, if the loops entered so far determine it."""
        if axis in self.bound:
            return self.bound[axis]
        for r in self.stage.relations:
            if isinstance(r, Split) and r.parent == axis:
                outer, inner = self.value(r.outer), self.value(r.inner)
                if outer is None or inner is None:
                    return None
                tile = self.tiles.get(r.outer)
                return (outer * r.factor if tile is None or tile.start is None else tile.start) + inner
        return None

    def settled(self, leaf: str) -> bool:
        """Whether a leaf needs no loop any more because the axis it was split from is known."""
        if leaf in self.bound:
            return True
        return any(
            isinstance(r, Split) and leaf in (r.outer, r.inner) and self.settled(r.parent) for r in self.stage.relations
        )

    def unfuse(self, name: Callable[[str, Int, Int], Int]) -> None:
        """Values of axes that were fused into ones that are known by now.

        Args:
            name: gives (axis, value, extent) a name of its own and returns that.
        """
        for r in reversed(self.stage.relations):
            if not isinstance(r, Fuse) or r.first in self.bound:
                continue
            value = self.value(r.fused)
            if value is None:
                continue
            size = as_int(r.pitch) if r.pitch else self.extent(r.second)
            first, second = divided(value, size)
            for part, index in ((r.first, first), (r.second, second)):
                simple = not index.terms or (len(index.terms) == 1 and isinstance(next(iter(index.terms))[0], Symbol))
                self.bound[part] = index if simple else name(part, index, self.extent(part))

    def axis_values(self, spatial_only: bool = False) -> dict[Atom, Int] | str:
        """Values of the stage's own axes, those of its region shifted by its least index; the name of an axis that no
        loop determines, if there is one."""
        values: dict[Atom, Int] = {}
        least = dict(zip((a.name for a in self.stage.tensor.axes), self.region.least, strict=True))
        least |= {name: as_int(first) for name, (first, _) in self.reduced.items()}
        for axis in self.stage.tensor.axes if spatial_only else self.stage.axes:
            value = self.value(axis.name)
            if value is None:
                return axis.name
            values[axis] = least.get(axis.name, ZERO) + value
        return values

    def opened(
        self, entered: Mapping[str, tuple[Symbol, Int]] = MappingProxyType({})
    ) -> tuple[Nest, dict[Symbol, Int]]:
        """The nest with a free symbol for every loop that is not entered yet, and the extents of these symbols.

        Args:
            entered: by their kind, loops over threads around the nest, in which its own ones of that extent are theirs.
        """
        nest, free = self.fork(), {}

        def open_axis(axis: str, extent: Int) -> None:
            hi = extent.bounds()[1]
            symbol = Symbol(axis, 0, None if hi is None else max(hi - 1, 0))
            if extent != 1:
                free[symbol] = extent
            nest.bound[axis] = of(symbol)
            nest.unfuse(lambda part, index, size: index)

        # Parts of a split that are both free range over what was split, exactly; where it comes out even this follows.
        for r in self.stage.relations:
            if isinstance(r, Split) and not (r.overhangs or nest.settled(r.parent) or self._entered(r.parent)):
                extent = nest.extent(r.parent)
                if not extent.is_const or extent % r.factor != ZERO:
                    open_axis(r.parent, extent)
        for leaf in self.stage.leaves:
            if not nest.settled(leaf):
                around = entered.get(self.stage.annotations.get(leaf, ""))
                if around is not None and around[1] == nest.extent(leaf):
                    nest.bound[leaf] = of(around[0])
                    nest.unfuse(lambda part, index, size: index)
                    continue
                open_axis(leaf, nest.extent(leaf))
        return nest, free

    def _entered(self, axis: str) -> bool:
        """Whether the value of an axis, or of a part of it, is known, or it was fused with another."""
        if axis in self.bound:
            return True
        return any(
            (isinstance(r, Split) and r.parent == axis and (self._entered(r.outer) or self._entered(r.inner)))
            or (isinstance(r, Fuse) and axis in (r.first, r.second))
            for r in self.stage.relations
        )


class Phase(Enum):
    """What of a reduction a nest writes."""

    WHOLE = "whole"
    """before the first reduced axis; all of it where there is none"""
    INIT = "init"
    """what accumulators begin with"""
    UPDATE = "update"
    """what is combined with them"""
    COMBINE = "combine"
    """what the threads of a subgroup have, with one another"""
    STORE = "store"
    """accumulators that are tiles, to memory"""

    @property
    def skips_reduction(self) -> bool:
        """Whether the nest has no loops over reduced axes, nor stages placed within them."""
        return self in (Phase.INIT, Phase.COMBINE, Phase.STORE)


@dataclass(frozen=True)
class Cursor:
    """Where the emission of a nest stands: before the loop of the leaf `level`, outer ones first."""

    nest: Nest
    level: int = 0
    phase: Phase = Phase.WHOLE

    @property
    def leaf(self) -> str:
        """The axis whose loop comes next."""
        return self.nest.stage.leaves[self.level]

    @property
    def at_end(self) -> bool:
        """Whether all loops are there."""
        return self.level == len(self.nest.stage.leaves)

    def inward(self) -> Cursor:
        """Behind the loop of this leaf."""
        return replace(self, level=self.level + 1)

    def within(self, nest: Nest) -> Cursor:
        """At the same place of another variant of the nest."""
        return replace(self, nest=nest)

    def during(self, phase: Phase) -> Cursor:
        """In another phase, with a copy of the nest of its own."""
        return Cursor(self.nest.fork(), self.level, phase)


def multiple(n: Int, factor: int, size: int) -> Int:
    """Where what remains of n after whole tiles and then whole pieces of `size` begins."""
    return n // size * size if factor % size == 0 else n // factor * factor + n % factor // size * size
