"""Matrix products and convolutions: a register tile of MR rows by NV vectors.

The accumulators of a tile live in named vector registers; per step of the reduction a tile loads NV vectors of packed
weights, broadcasts MR activations and does MR x NV multiply-adds (Goto and van de Geijn, Anatomy of High-Performance
Matrix Multiplication, 2008, with the micro-kernel written out). The epilogue is computed in the store.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from itertools import pairwise

from sterna.ir import dtypes
from sterna.ir.memory import REGISTER, SCRATCH, STACK
from sterna.schedule.schedule import Schedule
from sterna.schedule.strategies.ahead import fetch_ahead
from sterna.schedule.strategies.analysis import (
    Context,
    cheap,
    divisors,
    inline_elementwise,
    product,
    size,
    stored_apart,
)
from sterna.schedule.strategies.operands import Contraction, analyse, bytes_of, least_cycles
from sterna.schedule.strategies.padding import Padded, pad_rows, padded_of
from sterna.schedule.strategies.register_tile import (
    MOST_PRODUCTS,
    STEPS,
    RegisterTile,
    by_lane,
    crowded,
    largest_tile,
    most_steps,
    part_by_lane,
    register_tile,
)
from sterna.schedule.strategies.tasks import block_tasks, even_group, extent_of, make_tasks, shared, wanted_tasks
from sterna.schedule.strategies.weights import stored_type
from sterna.te import expr as E
from sterna.te.axis import Axis
from sterna.te.conditions import cuts, needed
from sterna.te.expr import Reduce
from sterna.te.tensor import Kernel, Tensor

#: Tiles that read a panel of weights from which on it is widened for all of them, and not in each.
TILES_OF_A_PANEL = 4
#: Where code is to be small: sums of a tile, and their steps, from which on a loop finishes them.
LOOPED_SUMS, LOOPED_STEPS = 4, 24
#: Registers of a target from which on a loop over rows holds the constants of elementary functions. V8 is up to 3 %
#: slower with such loops.
FINISHING_REGISTERS = 16
#: Of L2, what a widened panel may take.
SHARE_OF_L2 = 0.75


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
    saves_memory = context.target.saves_memory
    clips = not saves_memory and _slides_in_batch(contraction)
    padded = padded_of(contraction.stage, context) if saves_memory or clips else None
    clips = clips and padded is not None
    inline_elementwise(s, [padded.stage.name] if padded is not None else [])
    lanes = contraction.picked or context.lanes(kernel)
    cycles = least_cycles(contraction, lanes * context.target.rate)
    rows, vectors = largest_tile(contraction, context, lanes, cycles)
    parts = padded_rows(contraction) if padded is None else {}
    # What is picked for one vector serves no other.
    most = (rows, 1 if contraction.picked else vectors)
    lengths = parts.get(contraction.rows[-1]) if contraction.rows else None
    tile = register_tile(contraction, lanes, context, most, lengths)
    widened = not parts and padded is None and widens_panels(contraction, tile, context)
    loops = split_tiles(s, out, contraction, tile)
    s.reorder(out, loops.columns, *loops.rows, *loops.inner, loops.vector, loops.lane)
    if padded is not None and clips:
        place = clipped_tiles(s, out, padded, loops, contraction, tile, context)
    elif padded is not None:
        place = padded_tiles(s, out, padded, loops.columns, loops.rows, contraction, context)
    elif parts:
        place = part_tasks(s, out, loops, contraction, parts, cycles, context)
    else:
        place = tile_tasks(s, out, loops.columns, loops.rows, contraction, cycles, context, widened)
    if _finishes_in_loop(contraction, tile, context):
        acc = _sums_apart(s, acc, out, place, contraction, tile)
    elif _finishes_by_rows(kernel, contraction, tile, context):
        acc = _sums_apart(s, acc, out, place, contraction, tile)
        s.unroll(out, loops.vector)
        s.vectorize(out, loops.lane)
    else:
        write_tiles(s, out, loops)
    accumulate(s, acc, out, place, contraction, tile, context)
    if clips:
        clip_loops(s, acc)
    if widened:
        _widen_panels(s, acc, out, loops.columns, place, contraction, tile)
    elif padded is None and not parts:
        fetch_ahead(s, acc, out, loops.columns, loops.rows, contraction, context)
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


def padded_tiles(
    s: Schedule, out: str, padded: Padded, columns: str, rows: list[str], contraction: Contraction, context: Context,
    wide: str = "",
) -> str:  # fmt: skip
    """Orders the loops over tiles in blocks of rows, padded one after the other, and makes the tasks; returns the
    axis of one tile.

    Args:
        columns: the loop over panels; rows: the outer axes of the rows.
        wide: a stage that widens what is padded, which is inlined in it.
    """
    axis = contraction.rows.index(contraction.stage.axes[padded.axis])
    if axis == len(rows) - 1:
        blocks, within = rows[axis], []
    else:
        blocks, inner = s.split(out, rows[axis], padded.rows)
        within = [inner, *rows[axis + 1 :]]
    s.reorder(out, *rows[:axis], blocks, columns, *within)
    pad_rows(s, out, block_tasks(s, out, rows[:axis], blocks, context), wide or padded.stage.name, 1, context.target)
    return within[-1] if within else columns


def _slides_in_batch(contraction: Contraction) -> bool:
    """Whether windows of a batch of products slide over a padded left operand, each tap of which is several products:
    then a loop over some taps costs no more for each than one over all."""
    left, batch = contraction.left, contraction.batch
    rows = [a for a in contraction.rows if a not in batch]
    slid = {a for i in left.indices if not i.symbols().isdisjoint(rows) for a in contraction.inner if a in i.symbols()}
    deep = any(a not in slid and a.extent != 1 for a in contraction.inner)
    return bool(batch and slid) and deep and isinstance(left.tensor, Tensor) and left.tensor.body is not None


def clipped_tiles(
    s: Schedule, out: str, padded: Padded, loops: TileLoops, contraction: Contraction, tile: RegisterTile,
    context: Context,
) -> str:  # fmt: skip
    """Orders the loops over tiles of a batch of products, and makes the tasks: what the products of one panel of
    columns read is padded for them. Returns the axis of one tile."""
    batch = loops.rows[: len(contraction.batch)]
    rows = loops.rows[len(batch) :]
    s.reorder(out, *batch, loops.columns, *rows)
    task = block_tasks(s, out, batch, loops.columns, context)
    pad_rows(s, out, task, padded.stage.name, tile.lanes, context.target)
    return rows[-1]


def clip_loops(s: Schedule, acc: str) -> None:
    """Lets the loops of a sum that are not written out leave out what reads padding alone."""
    state = s.stages[acc]
    assert isinstance(state.body, Reduce)
    asked = {a for condition in needed(state.body.a) for a in condition.symbols()}
    for axis in state.body.axes:
        if axis in asked and axis.name in state.leaves and axis.name not in state.annotations:
            s.clip(acc, axis.name)


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


def _finishes_in_loop(contraction: Contraction, tile: RegisterTile, context: Context) -> bool:
    """Whether what follows the sums of a tile is a loop over them, and not code for each: a few instructions more of
    a result, where code is to be small and sums are long."""
    if not context.target.written(contraction.stage.dtype) or tile.lanes > 1 or tile.rows * tile.vectors < LOOPED_SUMS:
        return False
    return product([a.extent for a in contraction.inner]) >= LOOPED_STEPS


def _finishes_by_rows(kernel: Kernel, contraction: Contraction, tile: RegisterTile, context: Context) -> bool:
    """Whether what follows the sums of a tile is a loop over its rows, of several vectors each: an elementary function.

    Its dozen constants find no registers beside the sums. Written out for every vector of a tile, they are loaded again
    and again, and sums are spilled; in a loop over sums that lie on the stack they stay in registers: 7 % fewer
    instructions of YOLOv5n (SiLU) with 32 registers of 128 bits, and half the code. Of open rows the last tile is no
    loop of a known length, in which sums could leave their registers.
    """
    after = kernel.stages[kernel.stages.index(contraction.stage) + 1 :]
    known = all(a.extent.is_const for a in contraction.stage.axes)
    if not known or min(tile.rows, tile.vectors, tile.lanes) == 1:
        return False
    if all(t.body is None or cheap(t.body) for t in after):
        return False
    best = context.target.registers(contraction.stage.dtype) >= FINISHING_REGISTERS
    return context.choose("finished_in_loop", lambda: (True, False), best)


def _sums_apart(s: Schedule, acc: str, out: str, place: str, contraction: Contraction, tile: RegisterTile) -> str:
    """Lets the sums of a tile leave their registers before they are finished; returns the stage that they are made
    in."""
    sums = s.cache_write(acc)
    s.compute_at(acc, out, place, STACK)
    axes = [axis.name for axis in s.stages[acc].tensor.axes]
    if tile.lanes > 1:
        vector, lane = s.split(acc, contraction.columns.name, tile.lanes)
        s.vectorize(acc, lane)
        axes = [*(name for name in axes if name != contraction.columns.name), vector]
    for axis in axes:
        s.unroll(acc, axis)
    return sums


def accumulate(
    s: Schedule, acc: str, out: str, place: str, contraction: Contraction, tile: RegisterTile, context: Context
) -> None:
    """Computes the contraction where a tile of `out` begins, in registers: reduction loops, then rows, then the vectors
    of a row. A constant right operand is packed for that."""
    s.compute_at(acc, out, place, REGISTER)
    vector, lane = s.split(acc, contraction.columns.name, tile.lanes)
    taken = by_lane(contraction, context)
    most = most_steps(tile.rows, tile.vectors, tile.lanes, context, taken, contraction.stage.dtype)
    if taken and crowded(contraction, tile, context):
        most = min(most, tile.lanes)
    most = context.choose("unrolled", lambda: (n for n in STEPS if n * tile.rows * tile.vectors <= MOST_PRODUCTS), most)
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
    right = [r for r, a in zip(rows, contraction.rows, strict=True) if a in contraction.batch]
    if right:
        # In a batch, every product has its own weights.
        order = [*right, column_outer, *(r for r in rows if r not in right)]
        s.reorder(out, *order)
        return make_tasks(s, out, order, cycles, context, order[-1])
    extents = [extent_of(s.stages[out], r) for r in rows]
    target = context.target
    known = all(e.is_const for e in extents)
    many = shared(target, cycles) and product(extents) >= 2 * target.cores
    fits = 2 * bytes_of(contraction.right) <= target.l2_bytes
    panels = size(extent_of(s.stages[out], column_outer))
    first = "columns"
    if known and many and (fits or widened):
        first = "panels" if not fits and (panels % target.cores == 0 or panels >= 4 * target.cores) else "rows"
    others = ("columns", "rows", *(("panels",) if many else ())) if known else ()
    first = context.choose("order", lambda: others, first)
    if first == "columns":
        return make_tasks(s, out, [column_outer, *rows], cycles, context, rows[-1])
    if first == "panels":
        s.parallel(out, column_outer)
        return rows[-1]
    tasks = wanted_tasks(cycles)
    if widened:
        # Fewer and larger blocks.
        tasks = min(tasks, 4 * target.cores, max(target.cores, product(extents) // (2 * TILES_OF_A_PANEL)))
    return _row_blocks(s, out, column_outer, rows, tasks, context, many)


def _row_blocks(
    s: Schedule, out: str, columns: str, rows: list[str], tasks: int, context: Context, parallel: bool
) -> str:
    """Walks panels of columns once for every block of rows, which are about so many; returns the axis of one tile.

    Args:
        parallel: whether blocks are tasks.
    """
    s.reorder(out, *rows[:-1], columns, rows[-1])
    lead = rows[0]
    for row in rows[1:-1]:
        lead = s.fuse(out, lead, row)
    extent = size(extent_of(s.stages[out], lead))
    group = even_group(extent, tasks, context.target.cores)
    group = context.choose("block", lambda: divisors(extent), group)
    block, order = lead, [columns, *rows[1:][-1:]]
    if group > 1:
        block, within = s.split(out, lead, group)
        order.insert(1, within)
    s.reorder(out, block, *order)
    if parallel:
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


def _pack(s: Schedule, contraction: Contraction, nr: int) -> None:
    """Stores a constant right operand in panels of NR columns, in the order in which a tile reads them: of a batch, the
    panels of each product together, so that one is read without steps to the next."""
    right = contraction.right.tensor
    if not any(p is right for p in s.kernel.params):
        return
    assert isinstance(right, Tensor)
    at = next(d for d, i in enumerate(contraction.right.indices) if contraction.columns in i.symbols())
    if contraction.right.indices[at] != contraction.columns.var:
        return
    batch = [d for d, i in enumerate(contraction.right.indices) if not i.symbols().isdisjoint(contraction.batch)]
    rest = [(d, "") for d in range(len(right.shape)) if d != at and d not in batch]
    s.pack(right.name, {at: nr}, [*((d, "") for d in batch), (at, "o"), *rest, (at, "i")])
