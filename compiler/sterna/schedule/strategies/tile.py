"""Sums of products of bytes by the target's products of tiles: matrix products, convolutions and dense layers.

Blocks of accumulators, two by two where there are as many, stay in tile registers while the reduction runs: a step of
it loads as many tiles as it multiplies. They are stored to memory of a block's size, from where the epilogue computes
with vectors. The rows of a left tile are places of a line of the image, a constant step apart, so nothing is copied, or
of several lines where one is shorter than a tile; the weights are packed as a right tile is loaded.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sterna.intrinsics import TILES, Intrinsic, TileUnit
from sterna.ir.memory import SCRATCH
from sterna.schedule.schedule import Schedule
from sterna.schedule.strategies.analysis import Context, inline_elementwise, product, size, stored_apart, stride_of
from sterna.schedule.strategies.contraction import tile_tasks
from sterna.schedule.strategies.dot import pack_groups
from sterna.schedule.strategies.operands import Contraction, analyse, least_cycles
from sterna.schedule.strategies.register_tile import tile_shape
from sterna.te.axis import Axis
from sterna.te.tensor import Kernel


@dataclass(frozen=True)
class _Plan:
    """How tiles compute a contraction.

    Args:
        depth: the reduced axis along the rows of a left tile; step: how much of it a product takes.
        rows: of a tile; block: tiles of a block of accumulators, down and across.
        lines: of the image in a block; if there are several its tiles walk through all of them, `pitch` places from one
            to the next.
    """

    intrinsic: Intrinsic
    contraction: Contraction
    depth: Axis
    step: int
    rows: int
    block: tuple[int, int]
    lines: int = 1
    pitch: int = 0


def propose(kernel: Kernel, context: Context) -> Schedule | None:
    """The schedule of a kernel with one contraction of bytes by constant ones, if tiles are the faster way."""
    plan = _plan(kernel, context)
    if plan is None:
        return None
    contraction, intrinsic = plan.contraction, plan.intrinsic
    lanes, (down, across) = intrinsic.lanes, plan.block
    s = Schedule(kernel)
    acc, out = stored_apart(s, contraction.stage)
    inline_elementwise(s)
    nr = across * lanes
    names = {a.name: o.name for a, o in zip(contraction.stage.axes, s.stages[out].tensor.axes, strict=True)}
    column_outer, column_inner = s.split(out, names[contraction.columns.name], nr)
    column_vector, column_lane = s.split(out, column_inner, context.target.lanes(32))
    rows = [names[r.name] for r in contraction.rows]
    within = [rows.pop()] if plan.pitch else []
    height = plan.lines if plan.pitch else down * plan.rows
    rows[-1], row = s.split(out, rows[-1], height)
    s.reorder(out, column_outer, *rows, row, *within, column_vector, column_lane)
    outer = replace(contraction, rows=contraction.rows[: len(rows)])
    place = tile_tasks(s, out, column_outer, rows, outer, least_cycles(contraction, _multiply_adds(intrinsic)), context)
    s.unroll(out, column_vector)
    s.vectorize(out, column_lane, whole=True)
    s.compute_at(acc, out, place, SCRATCH)
    others = [a.name for a in contraction.rows]
    walked = others.pop()
    if plan.pitch:
        walked = s.fuse(acc, others.pop(), walked, plan.pitch)
    down_outer, tile_row = s.split(acc, walked, plan.rows)
    across_outer, lane = s.split(acc, contraction.columns.name, lanes)
    steps, part = s.split(acc, plan.depth.name, plan.step)
    word, group = s.split(acc, part, intrinsic.group)
    reduced = [steps if a is plan.depth else a.name for a in contraction.inner]
    s.reorder(acc, *reduced, *others, down_outer, across_outer, tile_row, lane, word, group)
    for axis in (*others, down_outer, across_outer):
        s.unroll(acc, axis)
    s.tensorize(acc, tile_row, lane, word, group, intrinsic.name)
    pack_groups(s, contraction.right, contraction.columns, plan.depth, (nr, lanes), (intrinsic.group,) * 2)
    return s


def _plan(kernel: Kernel, context: Context) -> _Plan | None:
    if not context.target.int_tile:
        return None
    contraction = analyse(kernel, context)
    if contraction is None or contraction.stage.dtype != "int32" or not contraction.rows:
        return None
    # Tiles are loaded from memory as they lie there, without conversion.
    if contraction.left.tensor not in kernel.inputs or contraction.right.tensor not in kernel.params:
        return None
    extents = [a.extent for a in (*contraction.stage.axes, *contraction.inner)]
    reduced = [a for a in contraction.inner if stride_of(contraction.left, a, context.strides) == 1]
    along = stride_of(contraction.left, contraction.rows[-1], context.strides)
    if len(reduced) != 1 or not along or along < 0 or any(not n.is_const for n in extents):
        return None
    (depth,) = reduced
    if any(contraction.columns in i.symbols() for i in contraction.left.indices):
        return None
    # Both must be dimensions of the weights as they are, so that they can be packed.
    if any(a.var not in contraction.right.indices for a in (depth, contraction.columns)):
        return None
    types = (contraction.left.dtype, contraction.right.dtype)
    intrinsic = next((TILES[n] for n in context.target.int_tile if TILES[n].operands == types), None)
    if intrinsic is None or (step := _step(size(depth.extent), intrinsic)) is None:
        return None
    rows, columns = size(contraction.rows[-1].extent), -(-size(contraction.columns.extent) // intrinsic.lanes)
    steps = product([a.extent for a in contraction.inner]) // step
    found: list[tuple[float, float, _Plan]] = []
    for lines, pitch in ((1, 0), *_lines(contraction, along, context)):
        places = (lines - 1) * pitch + rows
        tiles = -(-places // intrinsic.size("row"))
        for down, across in _blocks(intrinsic, tiles, columns):
            if down == tiles or not pitch:
                cycles = _cycles(intrinsic, (tiles, columns), (down, across), steps) / lines
                plan = _Plan(intrinsic, contraction, depth, step, -(-places // tiles), (down, across), lines, pitch)
                found.append((cycles, (down + across) / (down * across), plan))
    # Among equally fast ones, the one with the fewest loads.
    cycles, _, plan = min(found, key=lambda each: each[:2])
    return plan if cycles < _vector_cycles(contraction, context) else None


def _lines(contraction: Contraction, along: int, context: Context) -> list[tuple[int, int]]:
    """How many lines of the image tiles can walk through in one go, with how many places there are from one to the next
    (padding included, which is computed and left out)."""
    if len(contraction.rows) < 2:
        return []
    line, place = contraction.rows[-2:]
    down = stride_of(contraction.left, line, context.strides)
    if not down or down % along or down // along < size(place.extent):
        return []
    height = size(line.extent)
    return [(lines, down // along) for lines in range(2, height + 1) if height % lines == 0]


def _step(depth: int, intrinsic: Intrinsic) -> int | None:
    """How much of the depth a product takes, so that all take the same; None where that would be too little."""
    groups, rest = divmod(depth, intrinsic.group)
    least = -(-depth // _depth(intrinsic))
    if rest:
        return None
    steps = next((n for n in range(least, 2 * least + 1) if groups % n == 0), None)
    return None if steps is None else depth // steps


def _blocks(intrinsic: Intrinsic, tiles: int, columns: int) -> list[tuple[int, int]]:
    """Blocks whose accumulators and operands fit the registers: those of a row of right tiles and one left tile."""
    found, registers = [], _unit(intrinsic).registers
    for down in range(1, min(tiles, registers) + 1):
        for across in range(1, min(columns, registers) + 1):
            operands = 2 if down == 1 else across + 1
            if down * across + operands <= registers:
                found.append((down, across))
    return found


def _cycles(intrinsic: Intrinsic, tiles: tuple[int, int], block: tuple[int, int], steps: int) -> float:
    """Cycles of one row of the image: bound by products, loads or chains of sums; then tiles are stored and read."""
    total, unit = 0.0, _unit(intrinsic)
    (down, across), store = block, intrinsic.cycles + 2 * intrinsic.size("row")
    for m, many_m in ((down, tiles[0] // down), (tiles[0] % down, 1)):
        for n, many_n in ((across, tiles[1] // across), (tiles[1] % across, 1)):
            if m and n:
                busy = max(intrinsic.cycles * m * n, unit.load_cycles * (m + n), intrinsic.latency)
                total += many_m * many_n * (steps * busy + intrinsic.latency + store * m * n)
    return total


def _vector_cycles(contraction: Contraction, context: Context) -> float:
    """The same by the target's dot products of vectors, or by multiply-adds where it has none."""
    target = context.target
    lanes = target.lanes(32)
    rows, vectors = size(contraction.rows[-1].extent), -(-size(contraction.columns.extent) // lanes)
    depth = -(-product([a.extent for a in contraction.inner]) // (4 if target.int_dot else 1))
    down, across, _ = tile_shape(
        (rows,), vectors, depth, target.vector_registers, target.rate, target.loads_per_cycle, lanes, (1 << 30, vectors)
    )
    busy = max(down * across / target.rate, (down + across) / target.loads_per_cycle)
    return rows * vectors / (down * across) * (depth * busy + 12 + 2 * down * across)


def _multiply_adds(intrinsic: Intrinsic) -> float:
    """In a cycle, of whole tiles."""
    return intrinsic.size("row") * intrinsic.lanes * _depth(intrinsic) / intrinsic.cycles


def _depth(intrinsic: Intrinsic) -> int:
    """The most products that are added up per accumulator."""
    return intrinsic.size("w") * intrinsic.group


def _unit(intrinsic: Intrinsic) -> TileUnit:
    assert intrinsic.tiles is not None
    return intrinsic.tiles
