"""Attention as one kernel: softmax(Q K + mask) V, a block of rows of queries at a time.

The scores of a block, and what softmax makes of them, stay in L2; only the result is stored (T. Dao et al.,
FlashAttention, 2022, who also cut the rows; here whole rows of scores are kept: eight of them fit an L2 of 1 MB up to
4,096 keys). Both products are the register-tiled core, softmax is computed row by row between them.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from sterna.ir import dtypes
from sterna.ir.memory import SCRATCH
from sterna.schedule.schedule import Schedule
from sterna.schedule.strategies.analysis import (
    Context,
    cheap,
    divisors,
    inline_elementwise,
    reductions,
    size,
    stored_apart,
)
from sterna.schedule.strategies.contraction import accumulate, split_tiles, write_tiles
from sterna.schedule.strategies.operands import Contraction, contraction_of
from sterna.schedule.strategies.register_tile import register_tile
from sterna.schedule.strategies.rows import place_rows
from sterna.schedule.strategies.tasks import block_tasks
from sterna.targets.target import Target
from sterna.te.tensor import Kernel, Tensor

#: The share of L2 for the scores of a block and their softmax; keys and values pass through the rest.
SHARE_OF_CACHE = 0.25
#: A block has at least this many rows: about as many as a register tile.
LEAST_ROWS = 8


@dataclass(frozen=True)
class Attention:
    """The stages of such a kernel: the scores as they are stored, and their product; softmax's result; the product
    with the values."""

    scores: Tensor
    queries: Contraction
    shares: Tensor
    values: Contraction


def block_rows(keys: int, target: Target, itemsize: int) -> int:
    """The most rows of queries in a block, by the number of keys."""
    return int(target.l2_bytes * SHARE_OF_CACHE / (2 * keys * itemsize))


def propose(kernel: Kernel, context: Context) -> Schedule | None:
    """The schedule of a kernel of two products with softmax between them, else None."""
    found = analyse(kernel, context)
    if found is None or not is_known(found):
        return None
    s = Schedule(kernel)
    acc, out = stored_apart(s, found.values.stage)
    summed = found.queries.stage.name
    if summed == found.scores.name:
        summed = s.cache_write(summed)
    kept = [t.name for t in _between(found)]
    inline_elementwise(s, [found.scores.name, found.shares.name, *kept])
    lanes = context.lanes(kernel)
    tile = register_tile(found.values, lanes, context)
    keys, item = size(found.shares.shape[-1]), dtypes.size(found.scores.dtype)
    *_, queries, _column = s.stages[out].tensor.axes
    most = size(queries.extent)
    rows = _even(most, max(1, block_rows(keys, context.target, item)))
    rows = context.choose("block", lambda: divisors(most), rows)
    block, row = s.split(out, queries.name, rows)
    loops = split_tiles(s, out, found.values, tile, row)
    *before, tiles = loops.rows
    s.reorder(out, *before, block, loops.columns, tiles, *loops.inner, loops.vector, loops.lane)
    task = block_tasks(s, out, before, block, context)
    write_tiles(s, out, loops)
    accumulate(s, acc, out, tiles, found.values, tile, context)
    s.compute_at(found.shares.name, out, task, SCRATCH)
    place_rows(s, found.shares.name, kept, context, lanes)
    s.compute_at(found.scores.name, out, task, SCRATCH)
    tile = register_tile(found.queries, lanes, context)
    loops = split_tiles(s, found.scores.name, found.queries, tile)
    s.reorder(
        found.scores.name, *loops.rows[:-1], loops.columns, loops.rows[-1], *loops.inner, loops.vector, loops.lane
    )
    write_tiles(s, found.scores.name, loops)
    accumulate(s, summed, found.scores.name, loops.rows[-1], found.queries, tile, context)
    return s


def _even(rows: int, most: int) -> int:
    """Rows of a block: a divisor, so that all blocks are one program, unless blocks would be small."""
    divisor = max(n for n in range(1, min(most, rows) + 1) if rows % n == 0)
    return divisor if 2 * divisor > min(most, rows) else ceil(rows / ceil(rows / most))


def _between(found: Attention) -> list[Tensor]:
    """Stages of softmax that are kept: those that reduce, and the exponentials, which are read twice."""
    kept: list[Tensor] = []

    def visit(t: Tensor) -> None:
        for load in t.reads():
            source = load.tensor
            if isinstance(source, Tensor) and source.body is not None and source is not found.scores:
                visit(source)
                if source not in kept:
                    kept.append(source)

    visit(found.shares)
    return [t for t in kept if t.reduction is not None or (t.body is not None and not cheap(t.body))]


def analyse(kernel: Kernel, context: Context) -> Attention | None:
    """The stages of a kernel of two products with softmax between them, None of another one."""
    found = reductions(kernel)
    if len(found) != 4 or len(kernel.outputs) != 1:
        return None
    first, peak, total, last = found
    values, queries = contraction_of(last, kernel, context), contraction_of(first, kernel, context)
    if values is None or queries is None or (_combiner(peak), _combiner(total)) != ("max", "sum"):
        return None
    shares = values.left.tensor
    scores = peak.reads()[0].tensor
    if not isinstance(shares, Tensor) or not isinstance(scores, Tensor):
        return None
    if (
        not {peak, total} <= _sources(shares)
        or scores.body is None
        or (scores.reduction is not None and scores is not first)
    ):
        return None
    if len(values.rows) != len(queries.rows):
        return None
    if scores.shape != first.shape or shares.shape != first.shape or len(kernel.outputs[0].axes) != len(last.axes):
        return None
    return Attention(scores, queries, shares, values)


def is_known(found: Attention) -> bool:
    """Whether all sizes are numbers."""
    axes = (*found.queries.stage.all_axes, *found.values.stage.all_axes)
    return all(a.extent.is_const for a in axes)


def _combiner(t: Tensor) -> str:
    return t.reduction.combiner if t.reduction is not None else ""


def _sources(t: Tensor) -> set[Tensor]:
    """The stages that an element-wise stage is computed from."""
    found = {x.tensor for x in t.reads() if isinstance(x.tensor, Tensor)}
    return found.union(*(_sources(x) for x in found if x.reduction is None))
