"""Matrix products and convolutions: a register tile of MR rows by NV vectors.

The accumulators of a tile live in named vector registers; per step of the reduction a tile loads NV vectors of packed
weights, broadcasts MR activations and does MR x NV multiply-adds (Goto and van de Geijn, Anatomy of High-Performance
Matrix Multiplication, 2008, with the micro-kernel written out). The epilogue is computed in the store.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from math import gcd

from sterna.ir import dtypes
from sterna.ir.integer import ZERO, Atom, Int, as_int
from sterna.ir.memory import REGISTER, SCRATCH
from sterna.schedule.schedule import Schedule
from sterna.schedule.strategies.analysis import (
    CACHE_LINE,
    Context,
    contraction_operands,
    inline_elementwise,
    product,
    reductions,
    size,
    stored_apart,
    stride_of,
)
from sterna.schedule.strategies.tasks import (
    L2_RATE,
    even_group,
    extent_of,
    make_tasks,
    shared,
    wanted_tasks,
)
from sterna.schedule.strategies.weights import stored_type
from sterna.te import expr as E
from sterna.te.axis import Axis
from sterna.te.conditions import cuts
from sterna.te.expr import Load
from sterna.te.groups import sizes_of_groups
from sterna.te.layout import dense_strides
from sterna.te.tensor import Kernel, Tensor

#: Tiles that read a panel of weights from which on it is widened for all of them, and not in each.
TILES_OF_A_PANEL = 4
#: Vectors that pairs of loads reach from one address: 1 KB with registers of 128 bits.
PAIRED = 64
#: Bytes that come from behind L2 in a cycle.
L3_RATE = 16
#: Of L2, what a widened panel may take.
SHARE_OF_L2 = 0.75


@dataclass(frozen=True)
class Contraction:
    """How the axes of a contraction are used: `columns` by the right operand alone, `rows` by the left one.

    Args:
        picked: columns of a vector, where small groups of them read elements of the left operand that lie near one
            another, so that these are picked from one vector; 0 where all columns read the same element.
    """

    stage: Tensor
    left: Load
    right: Load
    columns: Axis
    rows: tuple[Axis, ...]
    inner: tuple[Axis, ...]
    picked: int = 0


@dataclass(frozen=True)
class RegisterTile:
    """A tile of `rows` by `vectors`, each of `lanes` columns."""

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
    contraction = analyse(kernel, context)
    if contraction is None:
        return None
    s = Schedule(kernel)
    acc, out = stored_apart(s, contraction.stage)
    inline_elementwise(s)
    lanes = contraction.picked or context.lanes(kernel)
    cycles = least_cycles(contraction, lanes * context.target.rate)
    rows, vectors = largest_tile(contraction, context, lanes, cycles)
    parts = padded_rows(contraction)
    # What is picked for one vector serves no other.
    most = (rows, 1 if contraction.picked else vectors)
    lengths = parts.get(contraction.rows[-1]) if contraction.rows else None
    tile = register_tile(contraction, lanes, context, most, lengths)
    widened = not parts and widens_panels(contraction, tile, context)
    loops = split_tiles(s, out, contraction, tile)
    s.reorder(out, loops.columns, *loops.rows, *loops.inner, loops.vector, loops.lane)
    if parts:
        place = part_tasks(s, out, loops, contraction, parts, cycles, context)
    else:
        place = tile_tasks(s, out, loops.columns, loops.rows, contraction, cycles, context, widened)
    write_tiles(s, out, loops)
    accumulate(s, acc, out, place, contraction, tile, context)
    if widened:
        _widen_panels(s, acc, out, loops.columns, place, contraction, tile)
    return s


def padded_rows(contraction: Contraction) -> dict[Axis, tuple[int, ...]]:
    """The row axes along which the left operand is padded in the kernel itself, and into parts of which lengths they
    are cut where a tap of the window begins or ceases to read padding alone."""
    left, reduction = contraction.left, contraction.stage.reduction
    assert isinstance(left.tensor, Tensor)
    if left.tensor.body is None or reduction is None:
        return {}
    padded = E.substitute_index(left.tensor.body, dict(zip(left.tensor.axes, left.indices, strict=True)))
    found: dict[Axis, tuple[int, ...]] = {}
    for row in contraction.rows:
        if all(a.extent.is_const for a in (row, *reduction.axes)):
            at = cuts(padded, row, reduction.axes)
            if len(at) > 2:
                found[row] = tuple(end - first for first, end in pairwise(at))
    return found


def part_tasks(
    s: Schedule,
    out: str,
    loops: TileLoops,
    contraction: Contraction,
    parts: Collection[Axis],
    cycles: int,
    context: Context,
) -> str:
    """Cuts rows into parts of which each has its own taps, and makes the tasks; returns the axis of one tile.

    Tasks have to be whole iterations of one loop: panels of columns where there are as many as cores share, else those
    of a row axis.
    """
    names = {a: o.name for a, o in zip(contraction.stage.axes, s.stages[out].tensor.axes, strict=True)}
    s.partition(out, *(names[a] for a in parts))
    panels = size(extent_of(s.stages[out], loops.columns))
    cores = context.target.cores
    if shared(context.target, cycles):
        if panels % cores and panels < 4 * cores and len(loops.rows) > 1:
            lead = max(loops.rows[:-1], key=lambda r: size(extent_of(s.stages[out], r)))
            s.reorder(out, lead, loops.columns, *(r for r in loops.rows if r != lead))
            s.parallel(out, lead)
        else:
            s.parallel(out, loops.columns)
    return loops.rows[-1]


def register_tile(
    contraction: Contraction,
    lanes: int,
    context: Context,
    most: tuple[int, int] | None = None,
    lengths: Sequence[int] | None = None,
) -> RegisterTile:
    """The tile of the least estimated time.

    Args:
        most: rows and vectors that it may have; as many as caches and registers hold if it is None.
        lengths: of the parts that the rows are computed in, if they are cut into any.
    """
    vectors = -(-size(contraction.columns.extent) // lanes)
    rows, vectors = tile_shape(
        tuple(lengths) if lengths else (size(contraction.rows[-1].extent) if contraction.rows else 1,),
        vectors,
        product([a.extent for a in contraction.inner]),
        context.target.vector_registers,
        context.target.rate,
        context.target.loads_per_cycle,
        lanes,
        most or (rows_in_cache(contraction, context) if contraction.rows else 1, vectors),
        context.target.l2_bytes if context.target.l1_bytes else 0,
        context.target.tile_registers,
        by_lane(contraction, context),
    )
    return RegisterTile(rows, vectors, lanes)


def split_tiles(s: Schedule, out: str, contraction: Contraction, tile: RegisterTile, row: str = "") -> TileLoops:
    """Splits the axes of the stage that reads a contraction element by element into tiles.

    Args:
        row: the axis whose iterations are the rows of tiles, if it is a part of the last row axis.
    """
    names = {a.name: o.name for a, o in zip(contraction.stage.axes, s.stages[out].tensor.axes, strict=True)}
    columns, within = s.split(out, names[contraction.columns.name], tile.columns)
    vector, lane = s.split(out, within, tile.lanes)
    rows = [names[r.name] for r in contraction.rows]
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


def accumulate(
    s: Schedule, acc: str, out: str, place: str, contraction: Contraction, tile: RegisterTile, context: Context
) -> None:
    """Computes the contraction where a tile of `out` begins, in registers: reduction loops, then rows, then the vectors
    of a row. A constant right operand is packed for that."""
    s.compute_at(acc, out, place, REGISTER)
    vector, lane = s.split(acc, contraction.columns.name, tile.lanes)
    taken = by_lane(contraction, context)
    most = most_steps(tile.rows, tile.vectors, tile.lanes, context, taken)
    if taken and _crowded(contraction, tile, context):
        most = min(most, tile.lanes)
    reduced, steps = _reduction_loops(s, acc, contraction, tile.lanes, most, taken)
    rows = [r.name for r in contraction.rows]
    s.reorder(acc, *reduced, *rows, vector, lane)
    for n, axis in enumerate([*steps, *rows]):
        if n == 0 and taken and tile.lanes > 1:
            s.by_lane(acc, axis, tile.lanes)
        else:
            s.unroll(acc, axis)
    s.unroll(acc, vector)
    s.vectorize(acc, lane)
    _pack(s, contraction, tile.columns)


def analyse(kernel: Kernel, context: Context) -> Contraction | None:
    stage = single_reduction(kernel)
    return None if stage is None else contraction_of(stage, kernel, context)


def single_reduction(kernel: Kernel) -> Tensor | None:
    """The only stage that reduces, if the only output has its elements."""
    found = reductions(kernel)
    if len(found) != 1 or len(kernel.outputs) != 1:
        return None
    (stage,) = found
    if len(kernel.outputs[0].axes) != len(stage.axes) or any(
        a.extent != b.extent for a, b in zip(stage.axes, kernel.outputs[0].axes, strict=True)
    ):
        return None
    return stage


def contraction_of(stage: Tensor, kernel: Kernel, context: Context) -> Contraction | None:
    """How a stage is a contraction, if the register-tiled core can compute it."""
    operands = contraction_operands(stage)
    if operands is None or not stage.axes or stage.axes[-1].extent == 1:
        return None
    columns = stage.axes[-1]
    for left, right in (operands, operands[::-1]):
        picked = 0
        if any(columns in i.symbols() for i in left.indices) and not _in_blocks(left, columns, context):
            picked = _columns_picked(left, columns, context)
            if not picked:
                continue
        if not any(columns in i.symbols() for i in right.indices):
            continue
        packable = any(p is right.tensor for p in kernel.params)
        if not packable and stride_of(right, columns, context.strides) != 1:
            continue
        assert stage.reduction is not None
        rows = stage.axes[:-1]
        # Of a batch, every product has its own right operand: rows of a tile share theirs.
        batch = tuple(a for a in rows if any(a in i.symbols() for i in right.indices))
        shared = tuple(a for a in rows if a not in batch)
        if batch and not shared and not packable and _is_window(right, batch, stage.reduction.axes):
            continue
        return Contraction(stage, left, right, columns, (*batch, *shared), stage.reduction.axes, picked)
    return None


def _is_window(load: Load, axes: Sequence[Axis], reduced: Sequence[Axis]) -> bool:
    """Whether neighbours along some of the axes read elements in common."""
    found = ({a for a in (*axes, *reduced) if a in index.symbols()} for index in load.indices)
    return any(not each.isdisjoint(axes) and not each.isdisjoint(reduced) for each in found)


def _in_blocks(left: Load, columns: Axis, context: Context) -> bool:
    """Whether the left operand reads one channel for a whole vector of columns: the groups of a grouped convolution
    are as wide as vectors."""
    lanes = context.target.lanes(32)
    values: dict[Atom, Int] = {columns: columns.var - columns.var % lanes}
    return all(
        columns not in i.symbols() or (size(columns.extent) % lanes == 0 and i.substitute(values) == i)
        for i in left.indices
    )


def _columns_picked(left: Load, columns: Axis, context: Context) -> int:
    """How many columns are a vector where groups of them, smaller than it, read elements of the left operand that one
    vector holds; 0 if there are no such groups."""
    lanes = context.target.lanes(32)
    sizes = sizes_of_groups([left], columns)
    if len(sizes) != 1 or lanes == 1:
        return 0
    (size,) = sizes
    for groups in range(lanes // size, 1, -1):
        apart = [_apart(left, columns, n * size, context) for n in range(groups)]
        steps = [each for each in apart if each is not None]
        if len(steps) == groups and max(steps) - min(steps) < lanes:
            return groups * size
    return 0


def _apart(left: Load, columns: Axis, column: int, context: Context) -> int | None:
    """Elements from what column 0 reads to what another one reads; None if that varies."""
    assert isinstance(left.tensor, Tensor)
    strides = context.strides.get(left.tensor.name) or dense_strides(left.tensor.shape)
    total = ZERO
    for index, stride in zip(left.indices, strides, strict=True):
        total = total + (index.substitute({columns: as_int(column)}) - index.substitute({columns: ZERO})) * stride
    return int(total) if total.is_const else None


def largest_tile(contraction: Contraction, context: Context, lanes: int, cycles: int) -> tuple[int, int]:
    """The most rows and vectors of a tile. Where one tile would be all of a kernel that is worth sharing, it is
    several, side by side.

    Args:
        lanes: columns of a vector.
        cycles: of the kernel.
    """
    vectors = -(-size(contraction.columns.extent) // lanes)
    rows, target = product([a.extent for a in contraction.rows]), context.target
    panels = 1
    if rows <= target.vector_registers and shared(target, cycles):
        panels = max(1, min(target.cores, vectors // 2))
    return rows_in_cache(contraction, context) if contraction.rows else 1, -(-vectors // panels)


def rows_in_cache(contraction: Contraction, context: Context) -> int:
    """How many rows of the left operand can be walked side by side without evicting one another from L1.

    Lines whose addresses differ by a multiple of the size of one way fall into the same set, which holds one line a
    way. A tile reads one line of every row again and again; rows of 1,024 floats, say, all share a set.
    """
    target = context.target
    if not target.l1_bytes:
        return 1 << 30
    stride = stride_of(contraction.left, contraction.rows[-1], context.strides)
    if stride is None:
        return 1 << 30
    way = target.l1_bytes // target.l1_ways
    apart = abs(stride) * dtypes.size(contraction.left.tensor.dtype)
    return target.l1_ways * (way // gcd(way, apart)) if apart >= CACHE_LINE else 1 << 30


@lru_cache(maxsize=4096)
def tile_shape(
    rows: tuple[int, ...],
    vectors: int,
    depth: int,
    registers: int,
    rate: float,
    loads: float,
    lanes: int,
    most: tuple[int, int],
    l2_bytes: int = 0,
    together: int = 0,
    by_lane: bool = False,
) -> tuple[int, int]:
    """(MR, NV): the tile of the least estimated time over all its full and partial instances, at most `most`; of rows
    in parts of so many.

    A step of the reduction is bound by its multiply-adds (`rate` per cycle), its loads (`loads` per cycle) or, where a
    panel of the right operand does not stay in L2 until the next tile, by the rate of what lies behind. A tile costs
    a few cycles to begin and to store.

    Args:
        together: registers for accumulators and all operands of a step, 0 where operands need not be there at once.
        by_lane: whether a load brings as many elements of the left operand as a vector has lanes, which stay in a
            register for so many steps; vectors of the right operand are loaded two at a time.
    """
    vector = lanes * dtypes.size("float32")
    best: tuple[float, int, int] | None = None
    for nv in range(1, min(vectors, 8, most[1]) + 1):
        for mr in range(1, min(max(rows), registers, most[0]) + 1):
            # One register is left over: compilers load the next operand before the last use of the one before it, and
            # a sum that lies on the stack meanwhile is waited for in every step.
            fits = mr * nv + nv + 1 < registers
            if together or by_lane:
                fits = mr * nv + nv + mr <= (together or registers)
            if not fits and mr * nv > 1:
                break
            cost = 0.0
            for m, many_m in ((mr, sum(n // mr for n in rows)), *((n % mr, 1) for n in rows)):
                for n, many_n in ((nv, vectors // nv), (vectors % nv, 1)):
                    if m and n and many_m and many_n:
                        far = l2_bytes and depth * nv * vector > l2_bytes
                        # Fewer than eight accumulators leave the pipeline waiting for each sum (latency 4, two ports).
                        busy = max(m * n / rate, (m + n) / loads)
                        if by_lane:
                            # Narrow machines do as many instructions in a cycle as multiply-adds, whatever they do.
                            busy = (m * n + m / lanes + n / 2) / rate
                        step = max(busy, 4.0 if lanes > 1 else 1.0)
                        step = max(step, n * vector / L3_RATE) if far else step
                        cost += many_m * many_n * (depth * step + 12 + 2 * m * n)
            if best is None or cost < best[0] * 0.999:
                best = (cost, mr, nv)
    assert best is not None
    return best[1], best[2]


def tile_tasks(
    s: Schedule, out: str, column_outer: str, rows: list[str], contraction: Contraction, cycles: int, context: Context,
    widened: bool = False,
) -> str:  # fmt: skip
    """Orders the loops over tiles and makes the tasks; returns the axis of one tile.

    Panels of columns come first, so that one stays in L1 for all rows. Weights that stay in L2 are walked
    once for every block of rows instead: then the block stays in a cache too, that of the worker that computed it in
    the kernel before.

    Args:
        rows: the outer axes of the rows, the last one in tiles.
        cycles: of the kernel.
        widened: whether panels are widened: each once for as many rows as can be, so that its rows are one task.
    """
    if not rows:
        return make_tasks(s, out, [column_outer], cycles, context, column_outer)
    right = [
        r
        for r, a in zip(rows, contraction.rows, strict=True)
        if any(a in i.symbols() for i in contraction.right.indices)
    ]
    if right:
        # In a batch, every product has its own weights.
        order = [*right, column_outer, *(r for r in rows if r not in right)]
        s.reorder(out, *order)
        return make_tasks(s, out, order, cycles, context, order[-1])
    extents = [extent_of(s.stages[out], r) for r in rows]
    target = context.target
    known = all(e.is_const for e in extents)
    many = shared(target, cycles) and product(extents) >= 2 * target.cores
    fits = 2 * _bytes(contraction.right) <= target.l2_bytes
    if not known or not many or not (fits or widened):
        return make_tasks(s, out, [column_outer, *rows], cycles, context, rows[-1])
    panels = size(extent_of(s.stages[out], column_outer))
    if not fits and (panels % target.cores == 0 or panels >= 4 * target.cores):
        s.parallel(out, column_outer)
        return rows[-1]
    s.reorder(out, *rows[:-1], column_outer, rows[-1])
    lead = rows[0]
    for row in rows[1:-1]:
        lead = s.fuse(out, lead, row)
    tasks = wanted_tasks(cycles)
    if widened:
        # Fewer and larger blocks.
        tasks = min(tasks, 4 * target.cores, max(target.cores, product(extents) // (2 * TILES_OF_A_PANEL)))
    group = even_group(size(extent_of(s.stages[out], lead)), tasks, target.cores)
    block, order = lead, [column_outer, *rows[1:][-1:]]
    if group > 1:
        block, within = s.split(out, lead, group)
        order.insert(1, within)
    s.reorder(out, block, *order)
    s.parallel(out, block)
    return order[-1]


def widens_panels(contraction: Contraction, tile: RegisterTile, context: Context) -> bool:
    """Whether a panel of weights is widened before it is read: they are stored in 16 bits, and it stays in L2."""
    right = contraction.right.tensor
    panel = product([a.extent for a in contraction.inner]) * tile.columns * dtypes.size("float32")
    if tile.lanes == 1 or panel > SHARE_OF_L2 * context.target.l2_bytes:
        return False
    return isinstance(right, Tensor) and bool(stored_type(right, contraction.stage, context))


def _widen_panels(
    s: Schedule, acc: str, out: str, columns: str, place: str, contraction: Contraction, tile: RegisterTile
) -> None:
    """Widens a panel of weights once for all tiles that read it, where they are many."""
    packing = s.packings.get(contraction.right.tensor.name)
    leaves = s.stages[out].leaves
    if packing is None or columns not in leaves or columns == place:
        return
    between = leaves[leaves.index(columns) + 1 : leaves.index(place) + 1]
    if product([extent_of(s.stages[out], axis) for axis in between]) < TILES_OF_A_PANEL:
        return
    wide = s.cache_read(packing.packed.name, acc)
    s.compute_at(wide, out, columns, SCRATCH)
    _, lane = s.split(wide, s.stages[wide].leaves[-1], tile.lanes)
    s.vectorize(wide, lane)


def least_cycles(contraction: Contraction, multiply_adds: float) -> int:
    """The least cycles of a contraction: for its multiply-adds (in a cycle), or to read the weights from L2."""
    work = product([a.extent for a in (*contraction.stage.axes, *contraction.inner)]) / multiply_adds
    return max(int(work), _bytes(contraction.right) // L2_RATE)


def _bytes(load: Load) -> int:
    assert isinstance(load.tensor, Tensor)
    return product(list(load.tensor.shape)) * dtypes.size(load.tensor.dtype)


def by_lane(contraction: Contraction, context: Context) -> bool:
    """Whether vectors are multiplied by elements of vectors of the left operand: the target does, and elements of
    neighbouring steps or rows lie side by side."""
    along = (*contraction.inner[-1:], *contraction.rows[-1:])
    beside = any(stride_of(contraction.left, axis, context.strides) == 1 for axis in along)
    return context.target.by_lane and not contraction.picked and beside


def _reduction_loops(
    s: Schedule, acc: str, contraction: Contraction, lanes: int, most: int, taken: bool
) -> tuple[list[str], list[str]]:
    """The reduction loops of a tile, outermost first, and those that are written out: the innermost ones, of `most`
    steps at most.

    Args:
        taken: whether operands are taken from vectors lane by lane: of a longer loop a part is written out then.
    """
    loops, steps = [a.name for a in contraction.inner], 1
    written: list[str] = []
    for axis in reversed(contraction.inner):
        extent = size(axis.extent)
        if steps * extent <= most:
            steps *= extent
            written.insert(0, axis.name)
            continue
        if taken and not written and lanes > 1:
            loops[-1:] = s.split(acc, axis.name, part_by_lane(axis, lanes, most))
            written = loops[-1:]
        break
    return loops, written


def most_steps(rows: int, vectors: int, lanes: int, context: Context, taken: bool) -> int:
    """Steps of a reduction that the body of a tile may hold, of so many rows and vectors: the target says how many
    multiply-adds. Where each vector of the right operand is used for few of them, it says how many may be loaded.

    Args:
        taken: whether operands of the left are taken from vectors of so many lanes.
    """
    steps = context.target.unrolled_products // (rows * vectors)
    return min(steps, max(lanes, PAIRED // vectors)) if taken else steps


def _crowded(contraction: Contraction, tile: RegisterTile, context: Context) -> bool:
    """Whether pairs of loads reach several rows of the left operand from one address, but not all: compilers load two
    neighbouring vectors of these rows at a time then, and move sums where registers are too few for them (3 x 3 of 64
    channels: 1.33 instructions a multiply-add, 1.20 if a step takes one vector of each row)."""
    apart = stride_of(contraction.left, contraction.rows[-1], context.strides) if contraction.rows else None
    if apart is None or tile.rows * (tile.vectors + 2) <= context.target.vector_registers:
        return False
    return 3 * abs(apart) <= PAIRED * tile.lanes < (tile.rows - 1) * abs(apart)


def part_by_lane(axis: Axis, lanes: int, most: int) -> int:
    """How many steps of a long reduction are written out: whole vectors, without a tail if that is not much less."""
    extent = size(axis.extent) if axis.extent.is_const else 0
    wanted = max(1, most // lanes) if extent else 1
    even = max((n for n in range(1, wanted + 1) if extent % (n * lanes) == 0), default=0)
    return lanes * (even if 2 * even >= wanted else wanted)


def _pack(s: Schedule, contraction: Contraction, nr: int) -> None:
    """Stores a constant right operand in panels of NR columns, in the order in which a tile reads them."""
    right = contraction.right.tensor
    if not any(p is right for p in s.kernel.params):
        return
    assert isinstance(right, Tensor)
    at = next(d for d, i in enumerate(contraction.right.indices) if contraction.columns in i.symbols())
    if contraction.right.indices[at] != contraction.columns.var:
        return
    rest = [(d, "") for d in range(len(right.shape)) if d != at]
    s.pack(right.name, {at: nr}, [(at, "o"), *rest, (at, "i")])
