"""The axes of one stage while its loops are emitted: their extents, their values, and what is still open."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from sterna.ir.integer import ZERO, Atom, Int, Symbol, as_int, ceil_div, of
from sterna.schedule.schedule import Fuse, RaggedTail, Split, StageState


@dataclass(frozen=True)
class Region:
    """What is needed of a stage: least index and extent per dimension."""

    least: tuple[Int, ...]
    extent: tuple[Int, ...]


@dataclass(frozen=True)
class Remainder:
    """A split that does not come out even: `full` whole tiles, then `rest` iterations."""

    full: Int
    rest: Int


@dataclass
class Nest:
    """One stage's nest in the course of its emission.

    Args:
        region: the part of the stage that is computed.
        bound: values of axes that are known: those of loops entered, and what follows from them.
        tail: outer axes of uneven splits of which it is decided whether this is a full tile or the tail.
    """

    stage: StageState
    region: Region
    bound: dict[str, Int] = field(default_factory=dict)
    tail: dict[str, bool] = field(default_factory=dict)

    def fork(self) -> Nest:
        return Nest(self.stage, self.region, dict(self.bound), dict(self.tail))

    # -- extents
    def extent(self, axis: str) -> Int:
        """Iterations of an axis, given what is decided about tails; an outer axis counts its tail."""
        for r in self.stage.relations:
            if isinstance(r, Split) and axis in (r.outer, r.inner):
                n = self.extent(r.parent)
                if axis == r.outer:
                    return ceil_div(n, r.factor)
                if n.is_const:
                    size = int(n)
                    return as_int(size if size <= r.factor else size % r.factor if self.tail.get(r.outer) else r.factor)
                return as_int(r.factor)
            if isinstance(r, Fuse) and axis == r.fused:
                return self.extent(r.first) * self.extent(r.second)
            if isinstance(r, RaggedTail) and axis == r.inner and self.tail.get(r.outer):
                return as_int(r.rest)
        return self._root_extent(axis)

    def nominal_extent(self, axis: str) -> Int:
        """Iterations of an axis in a full tile."""
        return Nest(self.stage, self.region).extent(axis)

    def _root_extent(self, axis: str) -> Int:
        for a, extent in zip(self.stage.tensor.axes, self.region.extent, strict=True):
            if a.name == axis:
                return extent
        return next(a.extent for a in self.stage.axes if a.name == axis)

    def split_of(self, outer: str) -> Split | None:
        """The split whose outer part an axis is."""
        return next((r for r in self.stage.relations if isinstance(r, Split) and r.outer == outer), None)

    def remainder(self, axis: str) -> Remainder | None:
        """If the axis is the outer one of an uneven split whose variant is open: its parts."""
        if axis in self.tail:
            return None
        for r in self.stage.relations:
            if isinstance(r, Split) and r.outer == axis:
                n = self.extent(r.parent)
                if not n.is_const and n % r.factor != ZERO:
                    return Remainder(n // r.factor, n % r.factor)
                if n.is_const and int(n) > r.factor and int(n) % r.factor:
                    return Remainder(n // r.factor, n % r.factor)
            if isinstance(r, RaggedTail) and r.outer == axis and r.full:
                return Remainder(as_int(r.full), as_int(r.rest))
        return None

    def undecided(self) -> tuple[str, Int, Remainder] | None:
        """An outer axis of an uneven split whose value is known and whose variant is open."""
        for r in self.stage.relations:
            if isinstance(r, Split) and r.outer not in self.tail and (remainder := self.remainder(r.outer)) is not None:
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
                return outer * r.factor + inner
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
            size = self.extent(r.second)
            for part, index in ((r.first, value // size), (r.second, value % size)):
                simple = not index.terms or (len(index.terms) == 1 and isinstance(next(iter(index.terms))[0], Symbol))
                self.bound[part] = index if simple else name(part, index, self.extent(part))

    def axis_values(self, spatial_only: bool = False) -> dict[Atom, Int] | str:
        """Values of the stage's own axes, those of its region shifted by its least index; the name of an axis that no
        loop determines, if there is one."""
        values: dict[Atom, Int] = {}
        least = dict(zip((a.name for a in self.stage.tensor.axes), self.region.least, strict=True))
        for axis in self.stage.tensor.axes if spatial_only else self.stage.axes:
            value = self.value(axis.name)
            if value is None:
                return axis.name
            values[axis] = least.get(axis.name, ZERO) + value
        return values

    def opened(self) -> tuple[Nest, set[Symbol]]:
        """The nest with a free symbol for every loop that is not entered yet, and these symbols."""
        nest, free = self.fork(), set()
        for leaf in self.stage.leaves:
            if nest.settled(leaf):
                continue
            extent = nest.extent(leaf)
            hi = extent.bounds()[1]
            symbol = Symbol(leaf, 0, None if hi is None else max(hi - 1, 0))
            if extent != 1:
                free.add(symbol)
            nest.bound[leaf] = of(symbol)
            nest.unfuse(lambda part, index, size: index)
        return nest, free
