"""Attention as one kernel of groups of threads: softmax(Q K + mask) V, of which no score leaves its task.

A task has a block of rows of queries and goes through the keys block by block (T. Dao et al., FlashAttention, 2022).
The scores of a block are a product of tiles that ends in shared memory; there the threads find their greatest and the
exponentials. Each thread keeps some rows and columns of the result in registers, with the sum of the weights as one
column more, and rescales them from block to block (`schedule.online`).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product as pairs

from sterna.ir import dtypes
from sterna.ir.memory import REGISTER, SECTOR, Memory
from sterna.schedule.online import weighted_by_softmax
from sterna.schedule.schedule import Schedule
from sterna.schedule.strategies import group_attention_fragments as by_fragments
from sterna.schedule.strategies.analysis import Context, fused, inline_elementwise, size, stored_apart
from sterna.schedule.strategies.attention import Attention, analyse
from sterna.schedule.strategies.group_banks import in_banks
from sterna.schedule.strategies.group_neighbours import bring, fetched_together
from sterna.schedule.strategies.operands import Contraction
from sterna.targets.target import Target
from sterna.te.tensor import Kernel

#: Rows and columns that one thread has, the latter at most.
OWN = 4
#: Threads of a row, at least: what they store side by side is a whole sector.
LEAST = SECTOR // 4  # of floats
#: What others may be tried of a block's rows and keys, and of its depth.
SIDES, DEPTHS = (16, 32, 64), (4, 8, 16)
#: Columns of the result, at most.
MOST_COLUMNS = 128
_FLOAT = 4


@dataclass(frozen=True)
class _Block:
    """What a task computes at a time.

    Args:
        rows: of queries; keys: of a step; depth: terms of a product whose operands are in shared memory at a time.
    """

    rows: int = 32
    keys: int = 32
    depth: int = 8


def group_of(columns: int, target: Target, block: _Block = _Block()) -> tuple[int, int] | None:
    """The threads of a task along rows and columns of the result; None where a target has none, or not enough of them
    or of their memory."""
    shared = next((m for m in target.memories if m.reach == "block" and m.loadable), None)
    if target.threads is None or shared is None or columns > MOST_COLUMNS:
        return None
    y, fewest = block.rows // OWN, 1 << (-(-columns // OWN) - 1).bit_length()
    x = max(fewest, LEAST)
    staged = block.depth * max(block.rows + OWN + block.keys + OWN, columns + OWN)
    needed = (block.rows * (2 * block.keys + OWN + 2) + staged) * _FLOAT
    # Each row of a thread has a thread of its own where greatest scores are found.
    return (y, x) if fewest >= OWN and y * x <= target.threads.most and needed <= shared.bytes else None


def found_in(kernel: Kernel, context: Context) -> Attention | None:
    """The products of a kernel that `propose` has a schedule for, with softmax between them; None of another one, such
    as one between whose products is something else that begins with the greatest and the sum of a row."""
    found = analyse(kernel, context)
    if found is None or found.values.columns is not found.values.stage.axes[-1] or not found.values.rows:
        return None
    # Rows and keys may be of open sizes: the last block has fewer.
    if not all(a.extent.is_const for a in (found.values.columns, *found.queries.inner)):
        return None
    if dtypes.size(found.values.right.dtype) < _FLOAT:
        fits = by_fragments.fits(found, context)
    else:
        known = group_of(size(found.values.columns.extent), context.target) is not None
        fits = known and dtypes.size(found.values.stage.dtype) == _FLOAT
    if not fits:
        return None
    stages = Schedule(kernel).stages
    weighted = weighted_by_softmax(stages[found.values.stage.name].body, found.scores.name, stages)
    return None if weighted is None else found


def propose(kernel: Kernel, context: Context, shared: Memory) -> Schedule | None:
    """The schedule of a kernel of two products with softmax between them, else None."""
    found = found_in(kernel, context)
    if found is None:
        return None
    if dtypes.size(found.values.right.dtype) < _FLOAT:
        return by_fragments.propose(kernel, found, context, shared)
    columns = size(found.values.columns.extent)
    tile = _chosen(columns, context)
    group = group_of(columns, context.target, tile)
    assert group is not None
    y, x = group
    share = min(OWN, -(-columns // x))
    s = Schedule(kernel, context.target.known_intrinsics, context.target.memories)
    acc, out = stored_apart(s, found.values.stage)
    sums = s.online(acc, found.scores.name, tile.keys, share, x)
    block = {what: f"{acc}_{what}" for what in ("scores", "peak", "powers", "part")}
    inline_elementwise(s, also=[acc])

    # The output: a task for each block of rows, its threads along rows and columns.
    *batch, row, column = [a.name for a in s.stages[out].tensor.axes]
    rows, row = s.split(out, row, tile.rows, overhang=True)
    ty, row = s.split(out, row, OWN)
    whole, column = s.split(out, column, x * share, overhang=True)
    # Threads side by side have columns and keys side by side: what one has lies as far apart as there are threads.
    column, tx = s.split(out, column, x)
    s.reorder(out, *batch, rows, whole, ty, tx, row, column)
    s.parallel(out, fused(s, out, [*batch, rows, whole]))
    s.bind(out, ty, "thread.y")
    s.bind(out, tx, "thread.x")
    for axis in (row, column):
        s.unroll(out, axis)

    # Threads side by side have neighbours of a row; those of the next rows are turned to the banks beside them.
    for turned in (block["scores"], block["powers"]):
        s.swizzle(turned, max(1, x // OWN))

    # Its sums, block by block of keys.
    s.compute_at(sums, out, tx, REGISTER)
    *lead, each, group_axis, own = _axes(s, sums)
    s.reorder(sums, "block", *lead, each, group_axis, own)
    for axis in (each, group_axis, own):
        s.unroll(sums, axis)

    s.compute_at(block["scores"], sums, "block", shared)
    _scores(s, block["scores"], found.queries, found.queries.stage.name, tile, (y, x), shared, context)

    s.compute_at(block["peak"], sums, "block", shared)
    _, lane = s.split(block["peak"], "key", OWN)
    partial = s.rfactor(block["peak"], lane)
    s.compute_at(partial, sums, "block", shared)
    s.pad_rows(partial, 1)
    _by_rows(s, partial, tile, "lane", s.cache_write(partial))
    _by_rows(s, block["peak"], tile, "", s.cache_write(block["peak"]))

    s.compute_at(block["powers"], sums, "block", shared)
    _, key = s.split(block["powers"], "key", x)
    _by_rows(s, block["powers"], tile, key)

    part = block["part"]
    s.compute_at(part, sums, "block", REGISTER)
    terms, term = s.split(part, "key", tile.depth)
    s.reorder(part, terms, term, *_axes(s, part))
    for axis in _axes(s, part):
        s.unroll(part, axis)
    values = found.values
    many = fetched_together(values.right, {values.columns: x * share, values.inner[-1]: tile.depth}, context)
    bring(s, s.cache_read(values.right.tensor.name, part), part, terms, (y, x), shared, many)
    return s


def _chosen(columns: int, context: Context) -> _Block:
    """The block by the rule, or what somebody else chooses of it: of those that threads and memory are enough for."""

    def fits(block: _Block) -> bool:
        return group_of(columns, context.target, block) is not None

    sides = context.choose(
        "tile", lambda: (each for each in pairs(SIDES, SIDES) if fits(_Block(*each))), (_Block.rows, _Block.keys)
    )
    depths = (n for n in DEPTHS if fits(_Block(*sides, n)))
    return _Block(*sides, context.choose("depth", lambda: depths, _Block.depth))


def _axes(s: Schedule, stage: str) -> list[str]:
    return [a.name for a in s.stages[stage].tensor.axes]


def _scores(
    s: Schedule,
    scores: str,
    c: Contraction,
    product: str,
    tile: _Block,
    group: tuple[int, int],
    shared: Memory,
    context: Context,
) -> None:
    """The scores of a block: tiles of a product, in registers until they are whole."""
    y, x = group
    row, _block, key = _axes(s, scores)[-3:]
    many_rows, many_keys, depth = tile.rows, tile.keys, tile.depth
    _, row = s.split(scores, row, many_rows)
    ty, row = s.split(scores, row, many_rows // y)
    _, key = s.split(scores, key, many_keys)
    rows, keys = c.rows[-1].name, c.columns.name
    tiles, sharing = (
        {rows: many_rows, keys: many_keys},
        {rows: (y, many_rows // y), keys: (min(x, many_keys), max(1, many_keys // x))},
    )
    if 1 < x < many_keys and many_keys % x == 0:
        each_of, within = s.fold(product, _axes(s, product).index(keys), x)
        tiles = {rows: many_rows, each_of: many_keys // x, within: x}
        sharing = {rows: sharing[rows], within: (x, 1)}
        key, tx = s.split(scores, key, x)
    else:
        tx, key = s.split(scores, key, max(1, many_keys // x))
    s.reorder(scores, ty, tx, row, key)
    s.bind(scores, ty, "thread.y")
    s.bind(scores, tx, "thread.x")
    for axis in (row, key):
        s.unroll(scores, axis)
    s.compute_at(product, scores, tx, REGISTER)
    *others, last = [a.name for a in c.inner]
    part, term = s.split(product, last, depth)
    s.reorder(product, *others, part, term, *_axes(s, product))
    for axis in _axes(s, product):
        s.unroll(product, axis)
    for load in (c.left, c.right):
        many = fetched_together(load, {c.columns: many_keys, c.inner[-1]: depth}, context)
        local = s.cache_read(load.tensor.name, product)
        order = in_banks(s, local, product, last, tiles | {last: depth}, sharing)
        bring(s, local, product, part, group, shared, many, order or ())


def _by_rows(s: Schedule, stage: str, tile: _Block, along: str, sums: str = "") -> None:
    """The rows of a stage of a block: threads along y have some each, those along x the positions of an axis, or, where
    there is none, a row each."""
    own = _axes(s, stage)
    row = own[own.index("block") - 1]
    _, row = s.split(stage, row, tile.rows)
    ty, row = s.split(stage, row, OWN)
    s.bind(stage, ty, "thread.y")
    s.bind(stage, along or row, "thread.x")
    if sums:
        s.compute_at(sums, stage, along or row, REGISTER)


__all__ = ["found_in", "group_of", "propose"]
