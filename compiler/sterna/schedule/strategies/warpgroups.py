"""Fragments of which warpgroups hold the sums, while both factors are multiplied where they lie: which tiles pay, and
how matrices come to lie in the blocks that the instructions read.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil

from sterna.intrinsics import FRAGMENTS, Intrinsic
from sterna.intrinsics.fragment import AT_ONCE, BLOCK, COLUMNS, ROWS
from sterna.ir.memory import Memory
from sterna.schedule.schedule import Schedule
from sterna.schedule.strategies.analysis import Context, fused, product, size
from sterna.schedule.strategies.fragment_plan import (
    BUFFERS,
    Plan,
    buffers_of,
    is_along,
    multiplied_by,
    shared_bytes,
)
from sterna.schedule.strategies.fragment_tiles import MOST
from sterna.te.tensor import Tensor

#: Rows and columns of a task that may be tried.
TILES = ((128, 256), (256, 128), (128, 128), (64, 256), (128, 64), (64, 128), (64, 64))
#: Blocks along a row that neighbouring threads copy, so that what they ask for of memory is whole sectors.
TOGETHER = 4


def by_warpgroups(plan: Plan, stage: Tensor, context: Context, shared: Memory) -> Plan | None:
    """A plan with products of warpgroups in place of one of subgroups; None where the target has none, too much of
    them would be of no use, or there are too few tiles for all multiprocessors."""
    threads = context.target.threads
    if threads is None or plan.image is not None:
        return None
    terms = product([a.extent for a in plan.folded])
    if not _in_runs(plan, stage, context) or terms % AT_ONCE:  # zeros that fill a step up are not copied
        return None
    rows, columns = product([a.extent for a in plan.rows]), size(stage.axes[-1].extent)
    batch = product([a.extent for a in plan.batch])

    def tasks(tile: tuple[int, int]) -> int:
        return batch * ceil(rows / tile[0]) * ceil(columns / tile[1])

    def cost(found: Plan) -> float:
        tile = found.tile
        waves = ceil(tasks(tile) / threads.multiprocessors)
        return waves * tile[0] * tile[1] * (1 + MOST * (1 / tile[0] + 1 / tile[1]))

    def fits(found: Plan) -> bool:
        return shared_bytes(found) <= shared.most and found.threads * found.groups <= threads.most

    plans = (_of(plan, tile, context) for tile in TILES)
    fitting = [found for found in plans if found is not None and fits(found)]
    enough = [found for found in fitting if tasks(found.tile) >= threads.multiprocessors]
    best = min(enough, key=cost, default=None)
    if best is None:
        return None
    steps = best.taps * (terms // AT_ONCE)
    # One is read by the product that goes on while the next step begins (`loops.pipelines`).
    return replace(best, buffers=min(steps, buffers_of(best, stage, context, shared, spare=1)))


def _of(plan: Plan, tile: tuple[int, int], context: Context) -> Plan | None:
    """The plan with a tile of warpgroups, two of them where it has rows or columns for these."""
    down, across = (2, 1) if tile[0] >= 2 * ROWS else (1, 2 if tile[1] >= 2 * COLUMNS[0] else 1)
    intrinsic = _intrinsic(plan, tile[1] // across, context)
    if intrinsic is None:
        return None
    return replace(plan, intrinsic=intrinsic, tile=tile, subgroups=(down, across), depth=AT_ONCE, buffers=BUFFERS)


def _intrinsic(plan: Plan, columns: int, context: Context) -> Intrinsic | None:
    """The target's product of warpgroups of so many columns, of the types and orders of the plan's own."""
    wanted, orders = plan.intrinsic.operands, plan.intrinsic.settings["orders"]
    known = (FRAGMENTS[name] for name in context.target.fragments)
    return next(
        (
            i
            for i in known
            if i.tiles is not None and i.tiles.in_memory and (i.operands, i.lanes) == (wanted, columns)
            if i.settings["orders"] == orders
        ),
        None,
    )


def _in_runs(plan: Plan, stage: Tensor, context: Context) -> bool:
    """Whether neighbours of both matrices lie side by side in memory, which are then copied together."""
    left, right = multiplied_by(stage, plan.swapped)
    along = [plan.rows[-1:] if plan.turned[0] else plan.folded[-1:]]
    along.append(plan.folded[-1:] if plan.turned[1] else stage.axes[-1:])
    packed = bool(plan.packed)
    sizes = all(size(axes[-1].extent) % BLOCK == 0 and axes[-1].extent.is_const for axes in along)
    return sizes and is_along(left, along[0], context) and (packed or is_along(right, along[1], context))


def in_blocks(s: Schedule, matrix: str) -> None:
    """Lets a matrix lie in the blocks that warpgroups read, of neighbours along its last dimension."""
    rank = len(s.stages[matrix].tensor.axes)
    s.fold(matrix, rank - 1, BLOCK)
    s.permute(matrix, *range(rank - 2), rank - 1, rank - 2, rank)


def copied(s: Schedule, matrix: str, groups: int, threads: int) -> None:
    """Lets threads copy a matrix in blocks, 16 bytes each: whole sectors of memory, to different banks."""
    *lead, blocks, across, along = (a.name for a in s.stages[matrix].tensor.axes)
    far, near = s.split(matrix, across, BLOCK)
    few, each = s.split(matrix, blocks, TOGETHER)
    order = [*lead, far, few, each, near]
    s.reorder(matrix, *order, along)
    rest, x = s.split(matrix, fused(s, matrix, order), threads)
    _, y = s.split(matrix, rest, groups)
    s.bind(matrix, x, "thread.x")
    s.bind(matrix, y, "thread.y")
    s.transfer(matrix, asynchronous=True)
