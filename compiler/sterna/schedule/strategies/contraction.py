"""Matrix products and convolutions: a register tile of MR rows by NV vectors.

The accumulators of a tile live in named vector registers; per step of the reduction a tile loads NV vectors of packed
weights, broadcasts MR activations and does MR x NV multiply-adds (Goto and van de Geijn, Anatomy of High-Performance
Matrix Multiplication, 2008, with the micro-kernel written out). The epilogue is computed in the store.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import gcd

from sterna.ir import dtypes
from sterna.ir.integer import Atom, Int
from sterna.schedule.schedule import Schedule
from sterna.schedule.strategies.analysis import (
    CACHE_LINE,
    SHARE_CYCLES,
    TASK_CYCLES,
    Context,
    contraction_operands,
    divisor_near,
    inline_elementwise,
    outermost_task,
    product,
    reductions,
    size,
    stride_of,
)
from sterna.te.expr import Load
from sterna.te.tensor import Axis, Kernel, Tensor


@dataclass(frozen=True)
class Shape:
    """How the axes of a contraction are used: `columns` by the right operand alone, `rows` by the left one."""

    stage: Tensor
    left: Load
    right: Load
    columns: Axis
    rows: tuple[Axis, ...]
    inner: tuple[Axis, ...]


@dataclass(frozen=True)
class RegisterTile:
    """A tile of `rows` by `vectors` of so many lanes."""

    rows: int
    vectors: int
    lanes: int

    @property
    def columns(self) -> int:
        return self.vectors * self.lanes


@dataclass(frozen=True)
class TileLoops:
    """The loops of a stage that stores a contraction tile by tile: over tiles of columns, over rows (those of tiles
    last), over the rows of one tile (none if the contraction has no rows), its vectors, their lanes."""

    columns: str
    rows: list[str]
    inner: list[str]
    vector: str
    lane: str


def propose(kernel: Kernel, context: Context) -> Schedule | None:
    """The schedule of a kernel with one contraction and element-wise stages around it, else None."""
    shape = analyse(kernel, context)
    if shape is None:
        return None
    s = Schedule(kernel)
    acc = shape.stage.name
    if acc in s.outputs:
        out = acc
        acc = s.cache_write(acc)
    else:
        out = s.outputs[0]
    inline_elementwise(s)
    tile = register_tile(shape, context.lanes(kernel), context)
    loops = split_tiles(s, out, shape, tile)
    s.reorder(out, loops.columns, *loops.rows, *loops.inner, loops.vector, loops.lane)
    place = make_tasks(s, out, loops.columns, loops.rows, shape, (tile.rows, tile.columns), context)
    write_tiles(s, out, loops)
    accumulate(s, acc, out, place, shape, tile, context)
    return s


def register_tile(shape: Shape, lanes: int, context: Context) -> RegisterTile:
    """The tile of the least estimated time."""
    rows, vectors = tile_shape(
        size(shape.rows[-1].extent) if shape.rows else 1,
        -(-size(shape.columns.extent) // lanes),
        product([a.extent for a in shape.inner]),
        context.target.vector_registers,
        context.target.rate,
        context.target.loads_per_cycle,
        lanes,
        rows_in_cache(shape, context) if shape.rows else 1,
    )
    return RegisterTile(rows, vectors, lanes)


def split_tiles(s: Schedule, out: str, shape: Shape, tile: RegisterTile, row: str = "") -> TileLoops:
    """Splits the axes of the stage that reads a contraction element by element into tiles.

    Args:
        row: the axis whose iterations are the rows of tiles, if it is a part of the last row axis.
    """
    names = {a.name: o.name for a, o in zip(shape.stage.axes, s.stages[out].tensor.axes, strict=True)}
    columns, within = s.split(out, names[shape.columns.name], tile.columns)
    vector, lane = s.split(out, within, tile.lanes)
    rows = [names[r.name] for r in shape.rows]
    inner: list[str] = []
    if rows:
        rows[-1], unrolled = s.split(out, row or rows[-1], tile.rows)
        inner = [unrolled]
    return TileLoops(columns, rows, inner, vector, lane)


def write_tiles(s: Schedule, out: str, loops: TileLoops) -> None:
    """Writes out the loops within a tile, which are in order."""
    for axis in (*loops.inner, loops.vector):
        s.unroll(out, axis)
    s.vectorize(out, loops.lane)


def accumulate(s: Schedule, acc: str, out: str, place: str, shape: Shape, tile: RegisterTile, context: Context) -> None:
    """Computes the contraction where a tile of `out` begins, in registers: reduction loops, then rows, then the vectors
    of a row. A constant right operand is packed for that."""
    s.compute_at(acc, out, place, "register")
    vector, lane = s.split(acc, shape.columns.name, tile.lanes)
    reduced = [a.name for a in shape.inner]
    s.reorder(acc, *reduced, *(r.name for r in shape.rows), vector, lane)
    for row in shape.rows:
        s.unroll(acc, row.name)
    s.unroll(acc, vector)
    s.vectorize(acc, lane)
    unroll_short(s, acc, shape, tile.rows * tile.vectors, context.target.unrolled_products)
    _pack(s, shape, tile.columns)


def analyse(kernel: Kernel, context: Context) -> Shape | None:
    found = reductions(kernel)
    if len(found) != 1 or len(kernel.outputs) != 1:
        return None
    (stage,) = found
    if len(kernel.outputs[0].axes) != len(stage.axes) or any(
        a.extent != b.extent for a, b in zip(stage.axes, kernel.outputs[0].axes, strict=True)
    ):
        return None
    return shape_of(stage, kernel, context)


def shape_of(stage: Tensor, kernel: Kernel, context: Context) -> Shape | None:
    """How a stage is a contraction, if the register-tiled core can compute it."""
    operands = contraction_operands(stage)
    if operands is None or not stage.axes or stage.axes[-1].extent == 1:
        return None
    columns = stage.axes[-1]
    for left, right in (operands, operands[::-1]):
        if any(columns in i.symbols() for i in left.indices) and not _in_blocks(left, columns, context):
            continue
        if not any(columns in i.symbols() for i in right.indices):
            continue
        packable = any(p is right.tensor for p in kernel.params)
        if not packable and stride_of(right, columns, context.strides) != 1:
            continue
        assert stage.reduction is not None
        return Shape(stage, left, right, columns, stage.axes[:-1], stage.reduction.axes)
    return None


def _in_blocks(left: Load, columns: Axis, context: Context) -> bool:
    """Whether the left operand reads one channel for a whole vector of columns: the groups of a grouped convolution
    are as wide as vectors."""
    lanes = context.target.lanes(32)
    values: dict[Atom, Int] = {columns: columns.var - columns.var % lanes}
    return all(
        columns not in i.symbols() or (size(columns.extent) % lanes == 0 and i.substitute(values) == i)
        for i in left.indices
    )


def rows_in_cache(shape: Shape, context: Context) -> int:
    """How many rows of the left operand can be walked side by side without throwing one another out of the first cache.

    Lines whose addresses differ by a multiple of the size of one way fall into the same set, which holds one line a
    way. A tile reads one line of every row again and again; rows of 1,024 floats, say, all share a set.
    """
    target = context.target
    if not target.l1_bytes:
        return 1 << 30
    stride = stride_of(shape.left, shape.rows[-1], context.strides)
    if stride is None:
        return 1 << 30
    way = target.l1_bytes // target.l1_ways
    apart = abs(stride) * dtypes.size(shape.left.tensor.dtype)
    return target.l1_ways * (way // gcd(way, apart)) if apart >= CACHE_LINE else 1 << 30


@lru_cache(maxsize=4096)
def tile_shape(
    rows: int, vectors: int, depth: int, registers: int, rate: float, loads: float, lanes: int, most_rows: int
) -> tuple[int, int]:
    """(MR, NV): the tile of the least estimated time over all its full and partial instances, MR at most `most_rows`.

    A step of the reduction is bound by its multiply-adds (`rate` per cycle) or by its loads (`loads` per cycle); a tile
    costs a few cycles to begin and to store.
    """
    best: tuple[float, int, int] | None = None
    for nv in range(1, min(vectors, 8) + 1):
        for mr in range(1, min(rows, registers, most_rows) + 1):
            if mr * nv + nv + 1 > registers and mr * nv > 1:
                break
            cost = 0.0
            for m, many_m in ((mr, rows // mr), (rows % mr, 1)):
                for n, many_n in ((nv, vectors // nv), (vectors % nv, 1)):
                    if m and n and many_m and many_n:
                        # Fewer than eight accumulators leave the pipeline waiting for each sum (latency 4, two ports).
                        step = max(m * n / rate, (m + n) / loads, 4.0 if lanes > 1 else 1.0)
                        cost += many_m * many_n * (depth * step + 12 + 2 * m * n)
            if best is None or cost < best[0] * 0.999:
                best = (cost, mr, nv)
    assert best is not None
    return best[1], best[2]


def make_tasks(
    s: Schedule, out: str, column_outer: str, rows: list[str], shape: Shape, tile: tuple[int, int], context: Context
) -> str:
    """Makes the outer axes the tasks, coarse enough to be worth handing out; returns the axis of one tile.

    Args:
        tile: rows and columns of a register tile.
    """
    depth = product([a.extent for a in shape.inner])
    place = rows[-1] if rows else column_outer
    if context.cycles(s.kernel, product([a.extent for a in shape.stage.axes]) * depth) < SHARE_CYCLES:
        return place
    if any(not a.extent.is_const for a in s.stages[out].tensor.axes):
        return outermost_task(s, out, [column_outer, *rows], place)
    fused = column_outer
    for row in rows[:-1]:
        fused = s.fuse(out, fused, row)
    if rows:
        tiles = -(-size(shape.rows[-1].extent) // tile[0])
        wanted = max(1, TASK_CYCLES // max(1, context.cycles(s.kernel, depth * tile[0] * tile[1])))
        group = divisor_near(tiles, wanted)
        if group < tiles:
            outer, place = s.split(out, rows[-1], group) if group > 1 else (rows[-1], "")
            fused = s.fuse(out, fused, outer)
    s.parallel(out, fused)
    return place if place and place != column_outer else fused


def unroll_short(s: Schedule, acc: str, shape: Shape, accumulators: int, budget: int) -> None:
    """Writes out the innermost reduction loops while the body holds at most `budget` multiply-adds."""
    total = accumulators
    for axis in reversed(shape.inner):
        total *= size(axis.extent)
        if total > budget:
            return
        s.unroll(acc, axis.name)


def _pack(s: Schedule, shape: Shape, nr: int) -> None:
    """Stores a constant right operand in panels of NR columns, in the order in which a tile reads them."""
    right = shape.right.tensor
    if not any(p is right for p in s.kernel.params):
        return
    assert isinstance(right, Tensor)
    at = next(d for d, i in enumerate(shape.right.indices) if shape.columns in i.symbols())
    if shape.right.indices[at] != shape.columns.var:
        return
    rest = [(d, "") for d in range(len(right.shape)) if d != at]
    s.pack(right.name, {at: nr}, [(at, "o"), *rest, (at, "i")])
