"""The loops of stages: bounds inference, tails, storage.

Nests are emitted recursively, outer axes first, with every extent known:

- *Tails.* Where a split leaves a remainder, the loop over full tiles is followed by the same nest once more with the
  inner extent of the remainder: no guard in any iteration. Where the outer axis is the parallel one, or was fused, the
  choice is made once per tile by an `If`. A remainder whose size is known only at run time is done in tiles of 8, 4, 2
  and 1 iterations (and so on), where each is done or not: vectors and registers keep constant sizes on every machine.
- *Bounds.* A stage placed by `compute_at` is computed for the region that its readers need within one iteration of
  that axis: the least index (a symbolic integer in the outer loops' variables) and a constant extent per dimension.
- *Storage.* That region gets a buffer of its extents; indices into it are relative to the least index.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from sterna.ir.extremum import Extremum, maximum, minimum
from sterna.ir.integer import ONE, ZERO, Int, Symbol, as_int, of
from sterna.ir.memory import FRAGMENT, REGISTER, TILE
from sterna.ir.threads import THREADS, ThreadAxis
from sterna.loops import exchanges, rescaled
from sterna.loops import program as P
from sterna.loops.ahead import asking, next_part
from sterna.loops.bodies import Place, loop_name
from sterna.loops.clip import clipped
from sterna.loops.copies import as_copies
from sterna.loops.inline import producers_first
from sterna.loops.innermost import InnermostLoops
from sterna.loops.nest import Cursor, Nest, Phase, Region, Remainder, Tile, multiple, whole
from sterna.loops.partition import parts_of
from sterna.loops.pipelines import Ring, UnpipelinedError, pipelined
from sterna.loops.program import Buffer, Stmt, most, seq
from sterna.loops.regions import infer_regions
from sterna.schedule.decisions import Ahead, RaggedTail, Split, StageSchedule
from sterna.schedule.schedule import Schedule
from sterna.te import expr as E
from sterna.te.axis import Axis
from sterna.te.conditions import cuts, terms_in
from sterna.te.expr import Reduce
from sterna.te.position import is_rest
from sterna.te.tensor import Tensor


class Nests(InnermostLoops):
    """Emits the nests of a kernel's stages one after the other, as `lower` and `loops.scan` ask for them.

    Attributes:
        order: the stages, producers first.
        n_tasks: of the last nest that has any.
        entered: by their kind, the loops over threads around what is emitted, where stages are shared by exchanges.
    """

    def __init__(self, schedule: Schedule, sinks: Sequence[str]):
        """`sinks`: stages that are computed although no other may read them."""
        super().__init__(schedule)
        self.order = producers_first(self.bodies, sinks)
        self.n_tasks = ONE
        self.groups = 0  # of copies
        self.entered: dict[str, tuple[Symbol, Int]] = {}

    def all_of(self, t: Tensor) -> Stmt:
        """A stage that no other contains."""
        return self.stage(self.stages[t.name], whole(t))

    def at_time(self, t: Tensor, time: Int) -> Stmt:
        """A stage whose first axis is time, at one time."""
        nest = Nest(self.stages[t.name], whole(t))
        nest.bound[t.axes[0].name] = time
        return self._moved(nest.stage, self._level(Cursor(nest)))

    def stage(self, s: StageSchedule, region: Region) -> Stmt:
        """The loops that compute a region of a stage: one nest, or one for every part of a partitioned stage."""
        if not s.partitioned:
            return self._moved(s, self._level(Cursor(Nest(s, region))))
        if within := self._reduced_within(s):
            cut = {a.name: self._cuts(s, within, a) for a in s.tensor.axes if a.name in s.partitioned}
            return self._moved(s, self._level(Cursor(Nest(s, region, cuts=cut))))
        body = self.bodies[s.name]
        if "parallel" in s.annotations.values():
            # Tasks are iterations of one loop, which is around the parts.
            cut = {a.name: cuts(body, a, turns=True) for a in s.tensor.axes if a.name in s.partitioned}
            return self._moved(s, self._level(Cursor(Nest(s, region, cuts=cut))))
        parts: list[Stmt] = []
        for part in parts_of(body, s.tensor, s.partitioned, turns=s.attach is None):
            inside = part.within(region)
            if inside is None:
                continue
            named = [self._named(n, s, f"{a.name}.first") for a, n in zip(s.tensor.axes, inside.least, strict=True)]
            least = tuple(first for _, first in named)
            self.bodies[s.name] = part.body
            nest = self._level(Cursor(Nest(s, replace(inside, least=least))))
            parts.append(seq(*(let for let, _ in named), nest))
        self.bodies[s.name] = body
        return seq(*parts)

    def _reduced_within(self, s: StageSchedule) -> list[StageSchedule]:
        """The sums that are computed within the loops of a stage, of which each element reads the one at its place."""
        own = tuple(a.var for a in s.tensor.axes)
        read = {load.tensor.name for load in E.loads(self.bodies[s.name]) if load.indices == own}
        within = (self.stages[n] for n in self.order if n in read and n in self.stages)
        return [r for r in within if r.attach is not None and r.attach[0] == s.name and isinstance(r.body, Reduce)]

    def _cuts(self, s: StageSchedule, within: Sequence[StageSchedule], axis: Axis) -> list[int]:
        """The positions along an axis of a stage where conditions of the sums within it change."""
        found: set[int] = set()
        for r in within:
            body, own = self.bodies[r.name], r.tensor.axes[s.tensor.axes.index(axis)]
            assert isinstance(body, Reduce)
            found.update(cuts(body.a, own, body.axes))
        return sorted(found)

    def _parts(self, cursor: Cursor, axis: str) -> Stmt:
        """The rest of a nest for every part of an axis, whose loop comes next."""
        nest, s = cursor.nest, cursor.nest.stage
        parts = [nest.part(axis, first, end) for first, end in pairwise(nest.cuts[axis])]
        if s.annotations.get(cursor.leaf) != "parallel":
            return seq(*(self._level(cursor.within(part)) for part in parts))
        if cursor.leaf != axis:
            self.refuse(
                f"{axis} of stage {s.name} is cut into parts, and tasks are made of it", "make others the tasks"
            )
        self.n_tasks = extent = nest.extent(axis)
        task = self.symbol(s, axis, extent)
        body: Stmt | None = None
        for part in reversed(parts):
            first, end = part.parts[axis]
            place = self.symbol(s, axis, end - first)
            inside = P.LetIndex(place, maximum(minimum(of(task) - first, end - first - 1), 0))
            here = seq(inside, self._bind(cursor.within(part), of(place)))
            body = here if body is None else P.If(of(task), as_int(end), here, body)
        assert body is not None
        return P.For(task, extent, "parallel", body)

    def _sum_within(self, s: StageSchedule, region: Region, around: Nest) -> Stmt:
        """The loops of a stage that is placed in a nest: of a sum in a part of its domain, over the terms that are not
        zero there."""
        if s.ahead is not None:
            return self._fetching(s, s.ahead, region, around)
        body = self.bodies[s.name]
        if s.clipped:
            return self._clipped(s, region)
        if not around.parts or s not in self._reduced_within(around.stage):
            return self.stage(s, region)
        assert isinstance(body, Reduce)
        at = {
            a: around.parts[b.name]
            for a, b in zip(s.tensor.axes, around.stage.tensor.axes, strict=True)
            if b.name in around.parts
        }
        terms = terms_in(body, at)
        self.bodies[s.name] = terms.body
        nest = self._level(Cursor(Nest(s, region, reduced=terms.ranges)))
        self.bodies[s.name] = body
        return nest

    def _clipped(self, s: StageSchedule, region: Region) -> Stmt:
        """The loops of a sum over what can be other than zero in a region."""
        body, lets, ranges = self.bodies[s.name], [], {}
        assert isinstance(body, Reduce)
        for axis in (a for a in body.axes if a.name in s.clipped):
            first, end = clipped(body, axis, s.tensor, region)
            let_first, first = self._named(first, s, f"{axis.name}.first")
            let_end, end = self._named(end, s, f"{axis.name}.end")
            lets += [let_first, let_end]
            ranges[axis.name] = (first, end)
        return seq(*lets, self._level(Cursor(Nest(s, region, reduced=ranges))))

    def _named(self, value: Int, s: StageSchedule, name: str) -> tuple[Stmt | None, Int]:
        """A value with a name of its own where it is the smaller or greater of two, and what gives it that."""
        if not any(isinstance(atom, Extremum) for atom in value.atoms()):
            return None, value
        symbol = Symbol(self.unique(loop_name(s, name)), *value.bounds())
        return P.LetIndex(symbol, value), of(symbol)

    def _fetching(self, s: StageSchedule, ahead: Ahead, region: Region, around: Nest) -> Stmt:
        """The loops of a sum that ask for what its reader needs next."""
        buffer = self.places[self.schedule.stored_tensor(self.kernel.tensor(ahead.tensor)).name].buffer
        nest = Nest(s, region)
        fetch = next_part(s, ahead, buffer, nest, around)
        if fetch is None:
            return self._level(Cursor(nest))
        first = Symbol(self.unique(loop_name(s, f"{ahead.axis}.ahead")), *fetch.first.bounds())
        nest.fetch = replace(fetch, first=of(first))
        return seq(P.LetIndex(first, fetch.first), self._level(Cursor(nest)))

    def _moved(self, s: StageSchedule, nest: Stmt) -> Stmt:
        """The nest of a stage that is transferred, with copies for its stores; others as they are."""
        if not s.transferred:
            return nest
        buffer, group = self.places[s.name].buffer, self.groups
        self.groups += 1
        moved = as_copies(nest, buffer, s.asynchronous, group)
        own = [c for c in P.walk(moved) if isinstance(c, P.Copy) and c.group == group]
        if named := [b.name for c in own for b in P.touched(c) if b.scope.is_variables or b.scope.is_tiles]:
            self.refuse(f"{named[0]} is in registers, which no copy reaches", "place it in a memory")
        stores = [x for x in P.walk(moved) if isinstance(x, P.Store) and x.buffer is buffer]
        if any(not isinstance(x.value, E.Const) for x in stores):
            self.refuse(f"stage {s.name} does more than copy", "transfer stages that only copy")
        return moved

    # -- one nest
    def _level(self, cursor: Cursor) -> Stmt:
        """The loops from the cursor's leaf inward."""
        nest, s = cursor.nest, cursor.nest.stage
        if cursor.at_end:
            return exchanges.combined(self, cursor) if cursor.phase is Phase.COMBINE else self._store(cursor)
        leaf = cursor.leaf
        if s.tensorized is not None and leaf == s.tensorized.first:
            return self._tensorized(cursor)
        if s.from_tiles is not None and leaf == s.from_tiles[0]:
            return self._tile_stored(cursor)
        if (axis := nest.to_cut(leaf)) is not None:
            return self._parts(cursor, axis)
        if nest.settled(leaf):
            return self._placed(cursor)
        if leaf in s.reduction_leaves:
            if cursor.phase is Phase.WHOLE:
                saved = dict(self.places)
                prologue, places = self._prologue(nest)
                self.places.update(places)
                phases = [Phase.INIT]
                if all(most(as_int(end) - first) > 0 for first, end in nest.reduced.values()):
                    phases.append(Phase.UPDATE)
                if s.across:
                    phases.append(Phase.COMBINE)
                if s.name in self.tiles and not s.keeps_tiles:
                    phases.append(Phase.STORE)
                parts = [self._level(cursor.during(phase)) for phase in phases]
                self.places = saved
                return seq(*prologue, *parts)
            if cursor.phase.skips_reduction:
                return self._level(cursor.inward())
        extent = nest.extent(leaf)
        kind: Any = s.annotations.get(leaf, "serial")
        ragged = nest.remainder(leaf)
        if kind in THREADS:
            return self._over_threads(cursor, kind, extent)
        if kind == "parallel":
            self.n_tasks = extent
        if extent == 1 and kind != "parallel" and not (kind == "vectorized" and nest.width(leaf, extent)):
            return self._bind(cursor, ZERO)
        if kind in ("unrolled", "lanes") and not extent.is_const:
            kind = "serial"
        if ragged is not None and kind != "parallel":
            main: Stmt | None = None
            if ragged.full != ZERO:
                symbol = self.symbol(s, leaf, ragged.full)
                main = self._bind(cursor.within(nest.full_tile(leaf)), of(symbol))
                main = main if ragged.full == 1 else P.For(symbol, ragged.full, kind, main, s.by_lane.get(leaf))
            return seq(main, self._tail(cursor, leaf, ragged))
        if kind == "lanes":
            symbol = self.symbol(s, leaf, extent)
            return P.For(symbol, extent, kind, self._bind(cursor, of(symbol)), s.by_lane[leaf])
        width = nest.width(leaf, extent) if kind == "vectorized" else None
        # A tail of one iteration stays a vector, so its variable must not collapse to a constant.
        symbol = self.symbol(s, leaf, extent if width is None else width)
        loop = P.For(symbol, extent, kind, self._bind(cursor, of(symbol)), width)
        return self._pipelined(s, leaf, loop) if leaf in s.pipelined else loop

    def _pipelined(self, s: StageSchedule, leaf: str, loop: P.For) -> Stmt:
        """A loop that brings what later iterations read, in rings behind all else that the loop has."""
        within = [a.buffer for a in P.walk(loop.body) if isinstance(a, P.Alloc)]

        def rings(filled: Sequence[Buffer], depth: int) -> list[Ring]:
            return self.rings(filled, depth, [b for b in within if b not in filled])

        self.groups += 1
        try:
            return pipelined(loop, s.pipelined[leaf], rings, self.groups - 1, self.unique)
        except UnpipelinedError as problem:
            self.refuse(f"{leaf} of stage {s.name} is no pipeline: {problem}", "place what it reads at that axis")

    def _over_threads(self, cursor: Cursor, kind: ThreadAxis, extent: Int) -> Stmt:
        """A loop over threads, of one iteration too: all threads run what stands outside of such loops. A tail is
        chosen within it, since it is some thread's."""
        s = cursor.nest.stage
        if s.scope is not None and s.scope.private and cursor.leaf not in s.across:
            self.refuse(f"stage {s.name} is each thread's own, and several compute it", "place it in a shared memory")
        if (within := self.entered.get(kind)) is not None and within[1] == extent:
            return self._bind(cursor, of(within[0]))
        symbol = self.symbol(s, cursor.leaf, extent)
        loops = self.entered
        if any(each.across for each in self.stages.values()):
            # What a thread has in registers it reads in loops of its own: those are the ones around.
            self.entered = {**loops, kind: (symbol, extent)}
        outside, self.threads = self.threads, {**self.threads, symbol: extent}
        around, self.lanes = self.lanes, self.lanes | ({symbol} if kind == "thread.x" else set())
        body = self._bind(cursor, of(symbol))
        self.threads, self.lanes, self.entered = outside, around, loops
        return P.For(symbol, extent, kind, body)

    def _bind(self, cursor: Cursor, value: Int) -> Stmt:
        """The body of a leaf's loop: what follows from its value, tails to choose, stages placed here, inner loops."""
        nest = cursor.nest
        nest.bound[cursor.leaf] = value
        lets: list[Stmt] = []

        def name(part: str, index: Int, extent: Int) -> Int:
            if self.overhangs and not is_rest(index) and (last := index.bounds()[1]) is not None:
                extent = maximum(extent, last + 1)
            symbol = self.symbol(nest.stage, part, extent)
            lets.append(P.LetIndex(symbol, index))
            self.follows(symbol, index, extent)
            return of(symbol)

        nest.unfuse(name)
        s = nest.stage
        asks = cursor.phase is Phase.UPDATE and s.ahead is not None and cursor.leaf == s.ahead.axis
        fetch = asking(s, s.ahead, nest.fetch, nest) if asks and s.ahead and nest.fetch else None
        return seq(*lets, fetch, self._decided(cursor))

    def _decided(self, cursor: Cursor) -> Stmt:
        """The rest of the nest once for every way in which a tile can be a full one or a tail."""
        nest = cursor.nest
        undecided = nest.undecided()
        if undecided is None:
            return self._placed(cursor)
        outer, index, remainder = undecided
        if remainder.full == ZERO:
            return self._tail(cursor, outer, remainder)
        first = nest.full_tile(outer)
        symbol = self.symbol(nest.stage, outer, remainder.full)
        first.bound[outer] = of(symbol)
        name = None if remainder.full == 1 else P.LetIndex(symbol, index)
        self.follows(symbol, index, remainder.full)
        return P.If(
            index,
            remainder.full,
            seq(name, self._decided(cursor.within(first))),
            self._tail(cursor, outer, remainder),
        )

    def _tail(self, cursor: Cursor, outer: str, remainder: Remainder) -> Stmt:
        """What remains after the full tiles of a split: one smaller tile, if its size may depend on a dimension. Where
        it may not (lanes, unrolled loops), tiles of sizes that are powers of two, each of them or not."""
        nest = cursor.nest
        split, s = nest.stage.split_of(outer), nest.stage
        if s.tensorized is not None and split.inner == s.tensorized.row:
            # Whole tiles: the last one begins earlier.
            assert isinstance(split, Split)
            tile = Tile(as_int(split.factor), nest.extent(split.parent) - split.factor)
            return self._tail_tile(cursor, outer, tile, remainder.full)
        if remainder.rest.is_const or not nest.fixed(split.inner):
            return self._tail_tile(cursor, outer, Tile(remainder.rest), remainder.full)
        parts: list[Stmt] = []
        size = 1 << (most(remainder.rest).bit_length() - 1)
        while size:
            left = remainder.rest % (2 * size)
            if most(left) >= size:
                part, lets = nest.fork(), []
                tile = Tile(as_int(size))
                if isinstance(split, RaggedTail):
                    part.bound[split.part] = remainder.rest // (2 * size) * (2 * size)
                else:
                    start = multiple(nest.extent(split.parent), split.factor, 2 * size)
                    if not start.is_const:
                        symbol = Symbol(self.unique(loop_name(nest.stage, f"{outer}.at")), *start.bounds())
                        lets.append(P.LetIndex(symbol, start))
                        start = of(symbol)
                    tile = Tile(as_int(size), start)
                body = self._tail_tile(cursor.within(part), outer, tile, remainder.full)
                parts.append(P.If(as_int(size - 1), left, seq(*lets, body)))
            size //= 2
        return seq(*parts)

    def _tail_tile(self, cursor: Cursor, outer: str, tile: Tile, value: Int) -> Stmt:
        last = cursor.nest.fork()
        last.tiles[outer] = tile
        entered = last.entered(outer)
        if outer == cursor.leaf:
            body = self._bind(cursor.within(last), value)
        else:
            last.bound[outer] = value
            body = self._decided(cursor.within(last))
        if self.overhangs and self.threads and not tile.size.is_const:
            # What threads bring for it together is a full tile's.
            body = P.If(ZERO, tile.size, body)
        # Where the inner loop is around the outer one, it goes through whole tiles.
        return body if entered is None else P.If(entered, tile.size, body)

    def _placed(self, cursor: Cursor) -> Stmt:
        """Stages placed at this axis, then the rest of the nest."""
        nest = cursor.nest
        here = [n for n in self.order if self.stages[n].attach == (nest.stage.name, cursor.leaf)]
        if not here or cursor.phase.skips_reduction:
            return seq(rescaled.factors(self, cursor), self._level(cursor.inward()))
        saved, taken = dict(self.places), dict(self.taken)
        regions = infer_regions(nest, self.stages, self.bodies, self.order, self.threads, self.entered)
        if isinstance(regions, str):
            self._uncovered(nest.stage.name, regions)
        parts: list[Stmt | None] = []
        for name in here:
            if name not in regions:  # nothing in this part of its reader
                continue
            s = self.stages[name]
            region = regions[name]
            if s.scope is None or not s.scope.is_allocated:
                blocks = s.blocks
                buffer = self.allocated(s, region, blocks)
                parts.append(P.Alloc(buffer))
                self.places[name] = Place(buffer, region.least, None, blocks, s.turned)
            parts.append(self._sum_within(s, region, nest))
        parts += [rescaled.factors(self, cursor), self._level(cursor.inward())]
        self.places, self.taken = saved, taken
        return seq(*parts)

    def _prologue(self, nest: Nest) -> tuple[list[Stmt], dict[str, Place]]:
        """What a reduction keeps beside its result: argmin and argmax the extreme value so far, others their tiles."""
        body, s = self.bodies[nest.stage.name], nest.stage
        assert isinstance(body, Reduce)
        if s.keeps_tiles:
            self.tiles[s.name] = self.places[s.name].buffer
            return [], {}
        if s.tensorized is not None and s.tensorized.row:
            unit = s.tensorized.intrinsic.tiles
            scope = FRAGMENT if unit is not None and unit.threads > 1 else TILE
            self.tiles[s.name] = tiles = replace(
                self.places[s.name].buffer, name=self.unique(f"{s.name}_tile"), scope=scope
            )
            return [P.Alloc(tiles)], {}
        if body.combiner == "rescaled":
            return rescaled.kept(self, nest)
        if body.index is None:
            return [], {}
        inner = [
            x
            for x in s.leaves[min(n for n, leaf in enumerate(s.leaves) if leaf in s.reduction_leaves) :]
            if x not in s.reduction_leaves
        ]
        if inner:
            self.refuse(
                f"{body.combiner} with axis {inner[0]} inside the reduction", "reorder the reduced axes innermost"
            )
        name = f"{nest.stage.name}_best"
        buffer = Buffer(self.unique(name), body.a.dtype, (ONE,), (ONE,), 1, REGISTER)
        return [P.Alloc(buffer)], {name: Place(buffer, (ZERO,))}
