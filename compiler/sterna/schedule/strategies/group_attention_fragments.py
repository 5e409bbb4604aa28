"""Attention of 16-bit floats as one kernel of groups of threads: both products by fragments of matrices, softmax in
float32 (T. Dao et al., FlashAttention, 2022).

A task has rows of queries and goes through the keys block by block. The scores of a block are stored from fragments to
shared memory; there threads find the greatest of each row and the exponentials, which are rounded to the type of the
values and multiplied by them, into shared memory again. A thread has some columns of a row of the result in registers,
with the sum of the row's weights, and rescales them from block to block (`schedule.online`).
"""

from __future__ import annotations

from sterna.intrinsics import Intrinsic
from sterna.ir import dtypes
from sterna.ir.memory import REGISTER, Memory
from sterna.schedule.schedule import Schedule
from sterna.schedule.strategies.analysis import (
    Context,
    fused,
    inline_elementwise,
    product,
    size,
    stored_apart,
)
from sterna.schedule.strategies.attention import Attention
from sterna.schedule.strategies.fragment_plan import PADDING, THREADS, TURN, intrinsic_of
from sterna.schedule.strategies.group_fragments import brought, by_threads, rows_apart
from sterna.schedule.strategies.operands import Contraction
from sterna.targets.target import Target
from sterna.te import expr as E
from sterna.te.tensor import Kernel

#: Rows of queries of a task, and the keys of a block, the most and the least.
ROWS, KEYS = 32, (32, 16)
#: Subgroups of a task, and rows and groups of columns that the threads of one have: each thread a row and a group.
SUBGROUPS, EACH, GROUPS = 4, 8, 4
#: Groups of columns where threads store the result themselves: what those of a row store is then a whole sector.
WIDE_GROUPS = 16
#: Rows and columns of a fragment.
SIDE = 16
#: Columns of the result, at most.
MOST_COLUMNS = 128
_FLOAT = 4


def keys_of(depth: int, columns: int, dtype: str, target: Target) -> int:
    """The keys of a block, by the sizes of queries and values; 0 where a target does not compute such attention."""
    shared = next((m for m in target.memories if m.reach == "block" and m.loadable), None)
    threads = target.threads
    if shared is None or threads is None or dtype not in target.fragment_types or dtypes.size(dtype) == _FLOAT:
        return 0
    if not SIDE // 2 < columns <= MOST_COLUMNS or depth < SIDE // 2 or threads.most < SUBGROUPS * THREADS:
        return 0
    return next((keys for keys in KEYS if _shared_bytes(depth, columns, keys) <= shared.bytes), 0)


def _shared_bytes(depth: int, columns: int, keys: int) -> int:
    """Of a task: queries, keys, values, products, scores and exponentials, the result's terms, and what a row has."""
    deep, wide = (-(-n // SIDE) * SIDE for n in (depth, columns))
    halves = ROWS * deep + deep * keys + keys * wide + ROWS * keys
    halves += PADDING // 2 * (2 * ROWS + deep + keys)
    floats = ROWS * (2 * keys + wide + 3 * PADDING // _FLOAT + 2 * (GROUPS + 1))
    return 2 * halves + _FLOAT * floats + 10 * 64


def fits(found: Attention, context: Context) -> bool:
    """Whether a target has fragments for two products of 16-bit floats with softmax in float32 between them, and memory
    for their tiles."""
    rows = _rows(found.values), _rows(found.queries)
    return found.values.stage.dtype == "float32" and rows == (1, 1) and _tiles_of(found, context) is not None


def _tiles_of(found: Attention, context: Context) -> tuple[int, int, int, Intrinsic] | None:
    """The depth of queries, the columns of values, the keys of a block, and the intrinsic for both products; None where
    there are none."""
    dtype = found.values.right.dtype
    depth, columns = product([a.extent for a in found.queries.inner]), size(found.values.columns.extent)
    keys = keys_of(depth, columns, dtype, context.target)
    types = (found.queries.left.dtype, found.queries.right.dtype, found.queries.stage.dtype)
    if not keys:
        return None
    plain = (False, False)
    intrinsic, other = (intrinsic_of(context, each, "", plain) for each in (types, (dtype, dtype, "float32")))
    return (depth, columns, keys, intrinsic) if intrinsic is not None and intrinsic is other else None


def propose(kernel: Kernel, found: Attention, context: Context, shared: Memory) -> Schedule:
    """The schedule of two products of 16-bit floats with softmax between them that `fits`."""
    tiles, dtype = _tiles_of(found, context), found.values.right.dtype
    assert tiles is not None
    depth, columns, keys, intrinsic = tiles
    s = Schedule(kernel, context.target.known_intrinsics, context.target.memories)
    acc, out = stored_apart(s, found.values.stage)
    summed = found.queries.stage.name
    wide = -(-columns // SIDE) * SIDE
    stages = _shared_bytes(depth, columns, keys) + ROWS * (_FLOAT * wide + PADDING) <= shared.bytes
    groups = GROUPS if stages else WIDE_GROUPS
    sums = s.online_in_matrices(acc, found.scores.name, keys, groups, SIDE, dtype)
    block = {what: f"{acc}_{what}" for what in ("scores", "peak", "powers", "weight", "values", "part")}
    left, right, scored = _matrices(s, found.queries, summed)
    inline_elementwise(s, [acc] if stages else [], also=[summed] if stages else [acc, summed])

    # The output: a task for each block of rows. Each thread has a row and every few columns of the result, which are
    # stored from shared memory if there is room for it, so that what neighbours store lies side by side.
    *batch, row, column = _axes(s, out)
    tile, row = s.split(out, row, ROWS, overhang=True)
    whole, column = s.split(out, column, wide, overhang=True)
    s.reorder(out, *batch, tile, whole, row, column)
    task = fused(s, out, [*batch, tile, whole])
    s.parallel(out, task)
    if stages:
        # Parts of rows that lie apart have to be whole sectors of the result.
        many = wide if columns == wide else TURN * PADDING // _FLOAT
        order = rows_apart(s, out, [row, column], many * _FLOAT // PADDING, PADDING // _FLOAT)
        by_threads(s, out, fused(s, out, order), (SUBGROUPS,))
        s.compute_at(acc, out, task, shared)
        *lead, row, column = _axes(s, acc)
        one, row = s.split(acc, row, ROWS)
        whole, column = s.split(acc, column, wide)
        s.reorder(acc, *lead, one, whole, row, column)
        s.pad_rows(acc, PADDING // _FLOAT)
    owner = acc if stages else out
    lane = _own(s, owner, row, column, groups)
    s.compute_at(sums, owner, lane, REGISTER)
    *lead, group, own = _axes(s, sums)
    s.reorder(sums, "block", *lead, group, own)
    for axis in (lead[-1], group, own):
        s.unroll(sums, axis)

    subgroups = (SUBGROUPS,)
    s.compute_at(left, out, task, shared)
    brought(s, left, subgroups, -(-depth // SIDE) * SIDE, context)

    for stage in (block["scores"], scored, right, block["peak"], block["powers"], block["weight"]):
        s.compute_at(stage, sums, "block", shared)
    brought(s, right, subgroups, keys, context)
    _fragments(s, scored, keys, intrinsic)
    for stage in (block["scores"], block["powers"]):
        # Both read floats of a block whose rows are padded.
        *batch, row, one, key = _axes(s, stage)
        s.reorder(stage, *batch, one, row, key)
        order = rows_apart(s, stage, [*batch, one, row, key], keys * _FLOAT // PADDING, PADDING // _FLOAT)
        by_threads(s, stage, fused(s, stage, order), subgroups)
    s.pad_rows(block["scores"], PADDING // _FLOAT)
    s.pad_rows(block["powers"], PADDING // 2)
    for stage in (block["peak"], block["weight"]):
        _, lane = s.split(stage, "key", GROUPS)
        partial = s.rfactor(stage, lane)
        s.compute_at(partial, sums, "block", shared)
        for each, along in ((partial, "lane"), (stage, "")):
            own = s.cache_write(each)
            s.compute_at(own, each, _by_rows(s, each, along), REGISTER)

    for stage in (block["values"], block["part"]):
        s.compute_at(stage, sums, "block", shared)
    brought(s, block["values"], subgroups, wide, context)
    _fragments(s, block["part"], wide, intrinsic)
    return s


def _own(s: Schedule, stage: str, row: str, column: str, groups: int) -> str:
    """Gives each thread every so many-th column of a row of a tile, or of several rows, where there are more groups;
    returns the axis of the threads of a subgroup. Rows of threads side by side lie apart: with the padding of rows they
    are in different banks."""
    ty, row = s.split(stage, row, EACH)
    row, several = s.split(stage, row, EACH * groups // THREADS)
    column, group = s.split(stage, column, groups)
    s.reorder(stage, ty, row, group, several, column)
    lane = s.fuse(stage, row, group)
    s.bind(stage, ty, "thread.y")
    s.bind(stage, lane, "thread.x")
    for axis in (several, column):
        s.unroll(stage, axis)
    return lane


def _rows(c: Contraction) -> int:
    """Axes of rows that are not those of a batch."""
    return sum(a.extent != 1 for a in c.rows if a not in c.batch)


def _axes(s: Schedule, stage: str) -> list[str]:
    return [a.name for a in s.stages[stage].tensor.axes]


def _matrices(s: Schedule, c: Contraction, stage: str) -> tuple[str, str, str]:
    """The queries and the keys as matrices, and the stage of their products."""
    batch, inner = [a.name for a in c.batch], [a.name for a in c.inner]
    body = c.stage.body
    assert isinstance(body, E.Reduce)
    assert isinstance(body.a, E.Binary)
    return s.as_matrices(stage, batch, inner, SIDE, (False, False), c.columns in E.axes_of(body.a.a))


def _by_rows(s: Schedule, stage: str, along: str) -> str:
    """The rows of a stage of a block: each subgroup has some, its threads the positions of an axis of a row, or, where
    there is none, a row each; returns the axis of these."""
    own = _axes(s, stage)
    row = own[own.index("block") - 1]
    one, row = s.split(stage, row, ROWS)
    ty, row = s.split(stage, row, EACH)
    s.reorder(stage, "block", one, ty, row, *([along] if along else ()))
    lane = s.fuse(stage, row, along) if along else row
    s.bind(stage, ty, "thread.y")
    s.bind(stage, lane, "thread.x")
    return lane


def _fragments(s: Schedule, stage: str, columns: int, intrinsic: Intrinsic) -> None:
    """Cuts a product of a block, of so many columns, into fragments: subgroups share them."""
    names = _axes(s, stage)
    (depth,) = (a.name for a in s.stages[stage].axes if a.reduction)
    *batch, column = names
    row = batch.pop(-2 if batch[-1] == "block" else -1)
    whole, owners, fragments, lanes = list[str](), list[str](), list[str](), list[str]()
    for axis, tile in ((row, ROWS), (column, columns)):
        one, within = s.split(stage, axis, tile)
        shares = 2 if tile // SIDE % 2 == 0 else 1
        owner, own = s.split(stage, within, tile // shares)
        fragment, lane = s.split(stage, own, SIDE)
        for axes, each in zip((whole, owners, fragments, lanes), (one, owner, fragment, lane), strict=True):
            axes.append(each)
    times, word = s.split(stage, depth, intrinsic.size("w"))
    word, group = s.split(stage, word, 1)
    s.reorder(stage, *batch, *whole, *owners, times, *fragments, *lanes, word, group)
    s.bind(stage, fused(s, stage, owners), "thread.y")
    for axis in (times, *fragments):
        s.unroll(stage, axis)
    s.tensorize(stage, *lanes, word, group, intrinsic.name)
    s.pad_rows(stage, PADDING // _FLOAT)


__all__ = ["fits", "keys_of", "propose"]
