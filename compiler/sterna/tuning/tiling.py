"""The loops of a schedule as plain numbers: how often stages are computed, how large their tiles are, what they read.

`loops.lower` finds the same exactly, with symbolic bounds, tails and statements, in 1 to 5 ms. Here a tail is a
fraction of an iteration, and what a tile needs of a stage is a number of elements in each dimension.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import ceil, prod
from operator import add, sub

from sterna.schedule.decisions import Fuse, Split, StageSchedule
from sterna.schedule.schedule import Schedule
from sterna.schedule.strategies.analysis import size
from sterna.tuning.reads import Body, Read, body_of

#: By axis of a stage, how many values it takes.
Spans = dict[str, float]
#: What a loop becomes that is no loop: its iterations are written out, or lanes.
WRITTEN_OUT, LANES = ("unrolled", "lanes"), ("vectorized", "tensorized")


@dataclass
class Nest:
    """The loops of a stage.

    Args:
        stage: what the schedule decided; body: what an element takes, with stages that are computed in place.
        shape: elements of each dimension that a full tile of the nest has; runs: how often it runs.
        extents: iterations of each axis, those that were split or fused among them, on the average over full tiles and
            tails; full: of a full tile.
    """

    stage: StageSchedule
    body: Body
    shape: tuple[float, ...]
    runs: float
    extents: Spans
    full: Spans

    @property
    def is_held(self) -> bool:
        """Whether registers hold its results."""
        return self.stage.scope is not None and self.stage.scope.is_variables

    def kind(self, leaf: str) -> str:
        """What becomes of a loop."""
        return self.stage.annotations.get(leaf, "serial")

    def spans(self, open_: set[str], full: bool = False) -> Spans:
        """By axis of the stage, how many values it takes while these loops run and all others stand still."""
        extents = self.full if full else self.extents
        known = {leaf: extents[leaf] if leaf in open_ else 1.0 for leaf in self.stage.leaves}
        for relation in reversed(self.stage.relations):
            if isinstance(relation, Split):
                outer, inner = known.get(relation.outer, 1.0), known.get(relation.inner, 1.0)
                width = (outer - 1.0) * relation.factor + inner if outer > 1.0 else inner
                known[relation.parent] = min(width, extents[relation.parent])
            elif isinstance(relation, Fuse):
                width, second = known.get(relation.fused, 1.0), extents[relation.second]
                known[relation.second] = min(width, second)
                known[relation.first] = ceil(width / second)
        return known

    def leaves_inside(self, leaf: str) -> set[str]:
        """The loops within one."""
        leaves = self.stage.leaves
        return {*leaves[leaves.index(leaf) + 1 :]}


@dataclass(frozen=True)
class Level:
    """A loop on the way from the kernel's outside to a stage.

    Args:
        nest, leaf: whose loop it is; runs: how often it is begun.
    """

    nest: Nest
    leaf: str
    runs: float


class Tiling:
    """The loops of all stages of a schedule.

    Attributes:
        nests: by the name of the stage, readers first.
    """

    def __init__(self, schedule: Schedule):
        self._schedule = schedule
        self._bodies = {name: self._whole(s) for name, s in schedule.stages.items() if not s.inlined}
        self.order = [*reversed(self._producers_first())]
        self.nests: dict[str, Nest] = {}
        self._placed: dict[tuple[str, str], tuple[float, Mapping[str, Spans], Mapping[str, Spans]]] = {}
        self._sizes = {name: {a.name: float(size(a.extent)) for a in s.axes} for name, s in schedule.stages.items()}
        for name in self.order:
            self._nest(name)
        self._fetched = {name: [r for r in body.reads if not self.is_held(r)] for name, body in self._bodies.items()}

    def is_held(self, read: Read) -> bool:
        """Whether a read is of a stage that registers hold."""
        source = self.nests.get(read.name)
        return source is not None and source.is_held

    def levels(self, nest: Nest) -> Iterator[Level]:
        """The loops around the body of a stage, innermost first."""
        leaves = nest.stage.leaves
        while True:
            runs = nest.runs * prod(nest.extents[leaf] for leaf in leaves)
            for leaf in reversed(leaves):
                runs /= nest.extents[leaf]
                yield Level(nest, leaf, runs)
            if nest.stage.attach is None:
                return
            reader, axis = nest.stage.attach
            nest = self.nests[reader]
            leaves = nest.stage.leaves[: nest.stage.leaves.index(axis) + 1]

    def touched(self, level: Level) -> float:
        """Bytes of memory that all iterations of a loop read, each once: its stage, and those that are computed within
        its loops."""
        nest, open_ = level.nest, level.nest.leaves_inside(level.leaf) | {level.leaf}
        total = 0.0
        for name, spans in self._needed(nest, open_).items():
            for read in self._fetched[name]:
                total += read.bytes(spans)
        return total

    def _nest(self, name: str) -> None:
        s, runs, sizes = self._schedule.stages[name], 1.0, self._sizes[name]
        shape = full = tuple(sizes[a.name] for a in s.tensor.axes)
        if s.attach is not None:
            if s.attach not in self._placed:
                self._placed[s.attach] = self._place(*s.attach)
            runs, needed, most = self._placed[s.attach]
            if (spans := needed.get(name)) is not None:
                shape = tuple(spans[a.name] for a in s.tensor.axes)
                full = tuple(most[name][a.name] for a in s.tensor.axes)
        average, whole = _extents(s, sizes, shape), _extents(s, sizes, full, full=True)
        self.nests[name] = Nest(s, self._bodies[name], full, runs, average, whole)

    def _place(self, reader: str, axis: str) -> tuple[float, Mapping[str, Spans], Mapping[str, Spans]]:
        """How often a run passes a place in the loops of a stage, and what is needed there: on the average, and in a
        full tile."""
        nest = self.nests[reader]
        inside = nest.leaves_inside(axis)
        runs = nest.runs * prod(nest.extents[leaf] for leaf in nest.stage.leaves if leaf not in inside)
        needed = self._needed(nest, inside)
        # Without tails an average tile is a full one.
        return runs, needed, needed if nest.extents == nest.full else self._needed(nest, inside, full=True)

    def _needed(self, nest: Nest, open_: set[str], full: bool = False) -> Mapping[str, Spans]:
        """The stages that are computed while these loops of a nest run, itself first, and how many values their axes
        take."""
        wanted: dict[str, Spans] = {nest.stage.name: nest.spans(open_, full)}
        first: dict[str, tuple[float, ...]] = {}
        stages = self._schedule.stages
        for name in self.order[self.order.index(nest.stage.name) :]:
            if (own := wanted.get(name)) is None:
                continue
            for read in self._bodies[name].reads:
                s = stages.get(read.name)
                if s is None or s.attach is None or not self._within(s.attach, nest, open_, wanted):
                    continue
                widths, at = read.widths(own), read.first
                found = wanted.get(read.name)
                if found is None:
                    wanted[read.name] = found = {**self._sizes[read.name]}
                else:
                    before = first[read.name]
                    old = [found[a.name] for a in s.tensor.axes]
                    ends = map(max, map(add, before, old), map(add, at, widths))
                    at = tuple(map(min, before, at))
                    widths = tuple(map(min, map(sub, ends, at), read.sizes))
                first[read.name] = at
                found.update(zip((a.name for a in s.tensor.axes), widths, strict=True))
        return wanted

    def _within(self, attach: tuple[str, str], nest: Nest, open_: set[str], wanted: Mapping[str, object]) -> bool:
        """Whether a stage is computed within these loops: at one of them, at the one right around them, or in a stage
        that is."""
        reader, axis = attach
        if reader != nest.stage.name:
            return reader in wanted
        leaves = nest.stage.leaves
        at = leaves.index(axis) + 1
        return axis in open_ or (at < len(leaves) and leaves[at] in open_) or at == len(leaves)

    def _whole(self, s: StageSchedule) -> Body:
        """What an element of a stage takes, with the stages that are computed in place."""
        body = body_of(s.body)
        operations, reads, stages = body.operations, list[Read](), self._schedule.stages
        pending = [*body.reads]
        while pending:
            read = pending.pop()
            source = stages.get(read.name)
            if source is None or not source.inlined:
                reads.append(read)
                continue
            inner = body_of(source.body)
            operations += inner.operations
            pending += [each.within(source.tensor.axes, read) for each in inner.reads]
        return Body(operations, tuple(reads))

    def _producers_first(self) -> list[str]:
        order: dict[str, None] = {}

        def visit(name: str) -> None:
            if name in order or name not in self._bodies:
                return
            for read in self._bodies[name].reads:
                visit(read.name)
            order[name] = None

        for name, s in self._schedule.stages.items():
            if not s.inlined and s.attach is None:
                visit(name)
        return [*order]


def _extents(s: StageSchedule, sizes: Spans, shape: tuple[float, ...], full: bool = False) -> Spans:
    """Iterations of all axes, those that were split or fused among them; of inner ones on the average, or in a full
    tile."""
    found = {**sizes}
    found.update(zip((a.name for a in s.tensor.axes), shape, strict=True))
    for relation in s.relations:
        if isinstance(relation, Split):
            whole = found[relation.parent]
            outer = float(max(1, ceil(whole / relation.factor)))
            found[relation.outer] = outer
            found[relation.inner] = min(whole, float(relation.factor)) if full else whole / outer
        elif isinstance(relation, Fuse):
            found[relation.fused] = found[relation.first] * (relation.pitch or found[relation.second])
    return found
