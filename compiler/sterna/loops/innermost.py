"""The innermost loops of stages that hardware intrinsics compute."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace

from sterna.intrinsics import Form
from sterna.ir.integer import of
from sterna.loops import program as P
from sterna.loops.nest import Cursor, Phase
from sterna.loops.program import Buffer, Stmt, seq
from sterna.loops.storage import Storage
from sterna.loops.tensorize import (
    ScatteredOperandError,
    Uses,
    accumulators_of,
    memory_statement,
    stored_tile,
    tile_statement,
    vector_statement,
)
from sterna.schedule.matching import match
from sterna.schedule.schedule import Schedule
from sterna.te import expr as E
from sterna.te.tensor import identity


class InnermostLoops(Storage):
    """Emits what is inside of all other loops of a nest, as an intrinsic.

    Attributes:
        tiles: of stages whose accumulators are tiles.
    """

    def __init__(self, schedule: Schedule):
        super().__init__(schedule)
        self.tiles: dict[str, Buffer] = {}

    @abstractmethod
    def _level(self, cursor: Cursor) -> Stmt:
        """The loops from the cursor's leaf inward."""

    def _tensorized(self, cursor: Cursor) -> Stmt:
        """The innermost loops as an intrinsic."""
        s, t = cursor.nest.stage, cursor.nest.stage.tensorized
        assert t is not None
        vectors = t.intrinsic.form is Form.VECTORS
        if t.intrinsic.form is not Form.TILES:
            if t.intrinsic.accumulates and cursor.phase is Phase.WHOLE:
                return seq(*(self._tensorized(cursor.during(phase)) for phase in (Phase.INIT, Phase.UPDATE)))
            if cursor.phase is Phase.INIT:
                return self._first_vectors(cursor) if vectors else self._first_elements(cursor)
        # Of one row too, an axis of tiles has a symbol of its own.
        tiles = t.intrinsic.form is Form.TILES
        uses = self._uses(cursor, [2 if tiles else int(a.extent) for a in t.intrinsic.axes])
        try:
            if tiles:
                bound = (n for leaf, n in cursor.nest.bound.items() if s.annotations.get(leaf) == "unrolled")
                written_out = None if s.keeps_tiles else {symbol for n in bound for symbol in n.symbols()}
                return tile_statement(cursor.phase, self.tiles.get(s.name), uses, written_out)
            return vector_statement(uses) if vectors else memory_statement(uses, self.unique)
        except ScatteredOperandError as problem:
            fix = "split by a constant that divides the extent, pack or copy the operand, or reorder its axes"
            self.refuse(f"{t.intrinsic.name} in stage {s.name}: {problem}", fix)

    def _tile_stored(self, cursor: Cursor) -> Stmt:
        """The innermost loops of a stage that stores tiles."""
        nest, s = cursor.nest, cursor.nest.stage
        assert s.from_tiles is not None
        assert isinstance(s.body, E.Load)
        source = self.stages.get(s.body.tensor.name)
        if source is None or source.tensorized is None or not source.keeps_tiles:
            self.refuse(
                f"{s.body.tensor.name} is in no tiles, and {s.name} stores some", "place it in the scope fragment"
            )
        intrinsic = source.tensorized.intrinsic
        sizes = [int(n) for n in intrinsic.behaviour.shape]
        if [nest.extent(axis) for axis in s.from_tiles] != sizes:
            self.refuse(f"{' and '.join(s.from_tiles)} are no tiles of {sizes[0]} x {sizes[1]}", "split axes by that")
        symbols = [self.symbol(s, axis, n) for axis, n in zip(s.from_tiles, sizes, strict=True)]
        nest.bound.update({axis: of(symbol) for axis, symbol in zip(s.from_tiles, symbols, strict=True)})
        nest.unfuse(lambda part, index, extent: index)
        values = self._axis_values(nest)
        load = self.resolved(s.body, values)
        store = self._write(s.name, tuple(values[a] for a in s.tensor.axes), load)
        assert isinstance(store, P.Store)
        assert isinstance(load, E.Load)
        try:
            return stored_tile(store, load, intrinsic, (symbols[0], sizes[0]), symbols[1])
        except ScatteredOperandError as problem:
            self.refuse(f"tiles in stage {s.name}: {problem}", "let rows and lanes of tiles be those of the storage")

    def _first_vectors(self, cursor: Cursor) -> Stmt:
        """What the accumulators of an intrinsic over vectors begin with: plain vectors."""
        nest, s = cursor.nest, cursor.nest.stage
        assert s.tensorized is not None
        intrinsic = s.tensorized.intrinsic
        if intrinsic.rows > 1:
            return self._first_blocks(cursor)
        lane = s.tensorized.axes[len(intrinsic.behaviour.axes) - 1]
        lanes = nest.extent(lane)
        if not lanes.is_const:
            self.refuse(f"{lane} of stage {s.name} has no constant size", "split by a constant")
        across = self.symbol(s, lane, intrinsic.lanes)
        nest.bound[lane] = of(across)
        body = self._level(cursor.inward())
        return P.For(across, lanes, "vectorized", body, intrinsic.lanes if lanes != intrinsic.lanes else None)

    def _first_blocks(self, cursor: Cursor) -> Stmt:
        """What the accumulators of an intrinsic over rows of vectors begin with, whole blocks."""
        intrinsic = cursor.nest.stage.tensorized.intrinsic  # type: ignore[union-attr]
        uses = self._uses(cursor, [int(a.extent) for a in intrinsic.axes])
        index, _ = accumulators_of(uses)
        first = identity(intrinsic.reduction.combiner, intrinsic.dtype)
        return replace(uses.store, index=index, value=replace(first, lanes=intrinsic.elements))

    def _first_elements(self, cursor: Cursor) -> Stmt:
        """What the results of an intrinsic over memory begin with: plain loops."""
        nest, s = cursor.nest, cursor.nest.stage
        assert s.tensorized is not None
        loops = []
        for axis in s.tensorized.axes:
            if axis not in s.reduction_leaves:
                extent = nest.extent(axis)
                loops.append((self.symbol(s, axis, extent), extent))
                nest.bound[axis] = of(loops[-1][0])
        nest.unfuse(lambda part, index, extent: index)
        body = self._store(cursor)
        for symbol, extent in reversed(loops):
            body = P.For(symbol, extent, "serial", body)
        return body

    def _uses(self, cursor: Cursor, least: Sequence[int]) -> Uses:
        """The innermost statement in the terms of the stage's intrinsic; `least`: the positions that the symbol of each
        axis has room for, whatever a tail has."""
        nest, s, t = cursor.nest, cursor.nest.stage, cursor.nest.stage.tensorized
        assert t is not None
        updates = cursor.phase in (Phase.WHOLE, Phase.UPDATE)
        axes = []
        for axis, room in zip(t.axes, least, strict=True):
            extent = nest.extent(axis)
            fits = extent.is_const and int(extent) <= room
            axes.append((self.symbol(s, axis, room if fits else extent), extent))
        nest.bound.update({axis: of(symbol) for axis, (symbol, _) in zip(t.axes, axes, strict=True)})
        nest.unfuse(lambda part, index, extent: index)
        values = self._axis_values(nest, spatial_only=not updates)
        memory = self._write(s.name, tuple(values[a] for a in s.tensor.axes), E.const(0, s.tensor.dtype))
        assert isinstance(memory, P.Store)
        places: tuple[tuple[E.Load, E.Expr], ...] = ()
        if updates:
            names = {symbol: own.name for (symbol, _), own in zip(axes, t.intrinsic.axes, strict=True)}
            roles = {a: frozenset(names[v] for v in n.symbols() if v in names) for a, n in values.items()}
            found = match(self.bodies[s.name], t.intrinsic, roles)
            assert not isinstance(found, str), found
            places = tuple((load, self.resolved(e, values)) for load, e in found.places)
        return Uses(t.intrinsic, memory, places, tuple(axes))
