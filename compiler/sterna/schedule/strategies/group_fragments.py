"""Sums of products by fragments of matrices, for groups of threads whose target has some: matrix products and
convolutions of 16-bit floats, or of float32 rounded to TF32 (implicit GEMM), added up in float32.

A task has a tile of the result. The parts of both matrices that a step in depth needs are brought into shared memory by
all of its threads, from wherever their elements lie; each subgroup has a few fragments of sums in registers. They are
stored to shared memory, from where the threads compute what follows with the sums and store it side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product as pairs
from math import ceil, gcd, prod

from sterna.intrinsics import FRAGMENTS, Intrinsic
from sterna.intrinsics.fragment import ORDERS
from sterna.ir import dtypes
from sterna.ir.integer import ZERO
from sterna.ir.memory import BANKS, Memory
from sterna.ir.remainders import rejoined
from sterna.schedule.matrices import multiplied, rounding_of
from sterna.schedule.schedule import Schedule
from sterna.schedule.strategies.analysis import (
    Context,
    at_least,
    fused,
    inline_elementwise,
    product,
    size,
    stored_apart,
    stride_of,
)
from sterna.schedule.strategies.group_banks import WORD
from sterna.schedule.strategies.group_images import Image, image_of
from sterna.schedule.strategies.group_neighbours import stored_together, with_aligned_rows
from sterna.te import expr as E
from sterna.te.axis import Axis
from sterna.te.expr import Load, Reduce
from sterna.te.layout import dense_strides
from sterna.te.tensor import Kernel, Tensor

#: Rows and columns of the tile of a task, at most and at least, as far as it is halved for the sake of more tasks.
MOST, LEAST = 64, 32
#: Rows, columns and depth below which most of a fragment would be of no use.
FEW = 8
#: Tasks that keep a device busy.
BUSY = 64
#: Subgroups of a task.
SUBGROUPS = 4
#: Threads of a subgroup.
THREADS = 32
#: Fragments along the depth that shared memory holds at a time.
STEPS = 2
#: Bytes of a copy that a thread makes at a time, and of a sum.
COPIED, SUM = 16, 4
#: Steps in depth whose matrices are in shared memory together: one is brought while another is multiplied.
BUFFERS = 2
#: What others may be tried of a tile's sides and of these.
SIDES, MANY_SUBGROUPS, MANY_STEPS, MANY_BUFFERS = (16, 32, 64, 128), (1, 2, 4, 8), (1, 2, 4), (2, 3, 4)
#: Bytes between the rows of a matrix in shared memory that let neighbouring rows lie in other banks.
PADDING = 16
#: Runs of so many bytes that shared memory takes in a turn.
TURN = BANKS * WORD // PADDING


@dataclass(frozen=True)
class _Plan:
    """How fragments compute a sum of products.

    Args:
        swapped: whether the second factor is the left one; turned: see `Schedule.as_matrices`.
        batch, rows: axes of the result; folded: reduced axes that are the depth.
        depth: of a step; tile: rows and columns of a task; subgroups: along both.
        buffers: steps whose matrices are in shared memory together.
        image: what the windows that are the rows of the left factor slide over, if it comes to shared memory first.
    """

    intrinsic: Intrinsic
    swapped: bool
    turned: tuple[bool, bool]
    batch: tuple[Axis, ...]
    rows: tuple[Axis, ...]
    folded: tuple[Axis, ...]
    depth: int
    tile: tuple[int, int]
    subgroups: tuple[int, int]
    buffers: int = BUFFERS
    image: Image | None = None


def propose(kernel: Kernel, stage: Tensor, context: Context, shared: Memory) -> Schedule | None:
    """The schedule of a kernel whose only sum is a stage, each element of which its output reads at its own place; None
    if no fragments of the target compute it, or would be mostly empty."""
    plan = _plan(stage, context)
    if plan is not None:
        plan = _chosen(plan, context, shared)
    if plan is None or _shared_bytes(plan) > shared.bytes:
        return None
    plan = _with_image(plan, kernel, stage, shared)
    s = Schedule(kernel, context.target.known_intrinsics, context.target.memories)
    acc, out = stored_apart(s, stage)
    for load in E.loads(s.stages[acc].body):
        with_aligned_rows(s, load, context)
    names = {a: b.name for a, b in zip(stage.axes, s.stages[out].tensor.axes, strict=True)}
    inner = [a.name for a in plan.folded]
    left, right, sums = s.as_matrices(
        acc, [a.name for a in plan.batch], inner, plan.depth, plan.turned, plan.swapped
    )  # fmt: skip
    inline_elementwise(s, also=[acc] if acc not in (t.name for t in kernel.stages) else ())
    own = prod(plan.tile) // (THREADS * prod(plan.subgroups))
    together = stored_together(s, out, sums, min(COPIED // SUM, own), context)
    task = _tasks(s, out, names, stage.axes[-1], plan, together)
    s.compute_at(sums, out, task, shared)
    step = _products(s, sums, plan)
    if plan.image is not None:
        gathered = E.loads(s.stages[left].body)
        image = s.cache_read(gathered[0].tensor.name, left)
        s.compute_at(image, out, task, shared)
        by_threads(s, image, fused(s, image, [a.name for a in s.stages[image].tensor.axes]), plan.subgroups)
        if plan.image.padding:
            s.pad_rows(image, plan.image.padding, plan.image.behind)
    rows = (plan.tile[0] if plan.turned[0] else plan.depth, plan.depth if plan.turned[1] else plan.tile[1])
    for matrix, along in zip((left, right), rows, strict=True):
        s.compute_at(matrix, sums, step, shared)
        brought(s, matrix, plan.subgroups, along, context)
    s.pad_rows(sums, PADDING // SUM)
    return s


def _tasks(s: Schedule, out: str, names: dict[Axis, str], columns: Axis, plan: _Plan, together: int) -> str:
    """Cuts the output into tiles, whose elements the threads share, so many neighbours each; returns the axis of the
    tasks."""
    batch = [names[a] for a in plan.batch]
    s.reorder(out, *batch, *(names[a] for a in plan.rows), names[columns])
    down, row = s.split(out, fused(s, out, [names[a] for a in plan.rows]), plan.tile[0], overhang=True)
    across, column = s.split(out, names[columns], plan.tile[1], overhang=True)
    s.reorder(out, down, across, row, column)
    task = fused(s, out, [*batch, down, across])
    s.parallel(out, task)
    if together > 1:
        column, lane = s.split(out, column, together)
        s.vectorize(out, lane)
    # Parts of rows that lie apart have to be whole sectors of the result.
    runs = plan.tile[1] * SUM // PADDING if size(columns.extent) % plan.tile[1] == 0 else TURN
    order = rows_apart(s, out, [row, column], runs, PADDING // SUM // together)
    by_threads(s, out, fused(s, out, order), plan.subgroups)
    return task


def brought(s: Schedule, matrix: str, subgroups: Sequence[int], length: int, context: Context) -> None:
    """Lets the threads bring a matrix with padded rows, each a few neighbours by one copy where those are neighbours in
    memory and in the tile; else element by element.

    Args:
        length: of a row.
    """
    t, body = s.stages[matrix].tensor, s.stages[matrix].body
    *axes, along = (a.name for a in t.axes)
    run = COPIED // dtypes.size(t.dtype)
    if isinstance(body, Load) and in_runs(body, t.axes[-1], run, context):
        along, _ = s.split(matrix, along, run)
        by_threads(s, matrix, fused(s, matrix, rows_apart(s, matrix, [*axes, along], length // run)), subgroups)
        s.transfer(matrix, asynchronous=True)
    else:
        by_threads(s, matrix, fused(s, matrix, [*axes, along]), subgroups)
    s.pad_rows(matrix, run)


def rows_apart(s: Schedule, stage: str, axes: Sequence[str], many: int, each: int = 1) -> list[str]:
    """The axes of a stage, rows and what is along them last, in an order in which threads that access shared memory in
    one turn are in different banks, where rows have padding of a run: what they have of different rows is of rows
    as far apart as a row has runs.

    Args:
        many: runs of `PADDING` bytes in a row; each: iterations along a row for one of them.
    """
    *lead, row, along = axes
    part = gcd(many, TURN)
    if part == TURN:
        return [*axes]
    whole, row = s.split(stage, row, TURN)
    far, near = s.split(stage, row, part)
    parts = list[str]()
    if many > part:
        between, along = s.split(stage, along, part * each)
        parts.append(between)
    order = [*lead, whole, *parts, near, far, along]
    s.reorder(stage, *order)
    return order


def in_runs(load: Load, axis: Axis, run: int, context: Context) -> bool:
    """Whether so many neighbours along an axis, from a multiple of their number on, are neighbours in memory, at a
    multiple of it, too: no tile ends among them."""
    assert isinstance(load.tensor, Tensor)
    strides = context.strides.get(load.tensor.name) or dense_strides(load.tensor.shape)
    at = sum((index * step for index, step in zip(load.indices, strides, strict=True)), ZERO)
    steps = [step for monomial, step in rejoined(at).terms.items() if monomial != (axis,)]
    whole = axis.extent.is_const and size(axis.extent) % run == 0 and all(step % run == 0 for step in steps)
    return whole and stride_of(load, axis, context.strides) == 1 and at.const % run == 0


def by_threads(s: Schedule, stage: str, elements: str, subgroups: Sequence[int]) -> None:
    """Gives the elements of a stage to the threads of so many subgroups, neighbours to neighbours."""
    rest, x = s.split(stage, elements, THREADS)
    _, y = s.split(stage, rest, prod(subgroups))
    s.bind(stage, x, "thread.x")
    s.bind(stage, y, "thread.y")


def _products(s: Schedule, sums: str, plan: _Plan) -> str:
    """Cuts the sums of a task into fragments; returns the axis of steps in depth."""
    *batch, row, column = (a.name for a in s.stages[sums].tensor.axes)
    *taps, depth = (a.name for a in s.stages[sums].axes if a.reduction)
    whole, owners, fragments, lanes = list[str](), list[str](), list[str](), list[str]()
    for n, axis in enumerate((row, column)):
        # The tile of a task is the whole of it, and of a constant size.
        one, tile = s.split(sums, axis, plan.tile[n])
        owner, own = s.split(sums, tile, plan.tile[n] // plan.subgroups[n])
        fragment, lane = s.split(sums, own, plan.intrinsic.size(("row", "lane")[n]))
        for axes, each in zip((whole, owners, fragments, lanes), (one, owner, fragment, lane), strict=True):
            axes.append(each)
    step, within = s.split(sums, depth, plan.depth)
    times, word = s.split(sums, within, plan.intrinsic.size("w"))
    word, group = s.split(sums, word, 1)
    s.reorder(sums, *batch, *whole, *owners, *taps, step, times, *fragments, *lanes, word, group)
    s.bind(sums, fused(s, sums, owners), "thread.y")
    step = fused(s, sums, [*taps, step])
    for axis in (times, *fragments):
        s.unroll(sums, axis)
    s.pipeline(sums, step, plan.buffers)
    s.tensorize(sums, *lanes, word, group, plan.intrinsic.name)
    return step


# ---------------------------------------------------------------- the choice
def _plan(stage: Tensor, context: Context) -> _Plan | None:
    assert context.target.threads is not None
    reduction, pair = stage.reduction, multiplied(stage.body) if stage.body is not None else None
    if reduction is None or pair is None or not stage.axes:
        return None
    if not context.target.fragments or not all(a.extent.is_const for a in stage.all_axes):
        return None
    columns = stage.axes[-1]
    swapped = columns in E.axes_of(pair[0])
    a, b = pair[::-1] if swapped else pair
    if columns in E.axes_of(a) or columns not in E.axes_of(b):
        return None
    batch = tuple(axis for axis in stage.axes[:-1] if axis in E.axes_of(b))
    rows = tuple(axis for axis in stage.axes[:-1] if axis not in batch)
    many = [product([axis.extent for axis in axes]) for axes in (rows, (columns,), reduction.axes)]
    if not rows or min(many) < FEW:
        return None
    turned = (
        _is_along(a, (rows[-1],), context) and not _is_along(a, reduction.axes, context),
        _is_along(b, reduction.axes, context) and not _is_along(b, (columns,), context),
    )
    found = intrinsic_of(context, (a.dtype, b.dtype, reduction.dtype), rounding_of(reduction), turned)
    if found is None:
        return None
    folded = _folded(reduction, found.size("w"))
    depth = found.size("w") * (STEPS if _steps(folded, found) % STEPS == 0 else 1)
    tile = _tile(many[0], many[1], product([axis.extent for axis in batch]))
    return _Plan(found, swapped, turned, batch, rows, folded, depth, tile, _subgroups(tile, SUBGROUPS))


def _steps(folded: Sequence[Axis], intrinsic: Intrinsic) -> int:
    """Fragments along the depth."""
    return ceil(product([axis.extent for axis in folded]) / intrinsic.size("w"))


def _chosen(plan: _Plan, context: Context, shared: Memory) -> _Plan:
    """The plan with what somebody else chooses of it."""
    threads = context.target.threads
    assert threads is not None

    def fits(tried: _Plan) -> bool:
        return _shared_bytes(tried) <= shared.bytes and THREADS * prod(tried.subgroups) <= threads.most

    def of(tile: tuple[int, int], subgroups: int = SUBGROUPS) -> _Plan:
        return replace(plan, tile=tile, subgroups=_subgroups(tile, subgroups))

    tile = context.choose("tile", lambda: (sides for sides in pairs(SIDES, SIDES) if fits(of(sides))), plan.tile)
    many = context.choose("subgroups", lambda: (n for n in MANY_SUBGROUPS if fits(of(tile, n))), SUBGROUPS)
    plan = of(tile, many)
    whole, word = _steps(plan.folded, plan.intrinsic), plan.intrinsic.size("w")
    depths = (n * word for n in MANY_STEPS if whole % n == 0 and fits(replace(plan, depth=n * word)))
    plan = replace(plan, depth=context.choose("depth", lambda: depths, plan.depth))
    more = (n for n in MANY_BUFFERS if fits(replace(plan, buffers=n)))
    return replace(plan, buffers=context.choose("buffers", lambda: more, plan.buffers))


def _with_image(plan: _Plan, kernel: Kernel, stage: Tensor, shared: Memory) -> _Plan:
    """The plan with what windows slide over in shared memory where their elements would be gathered otherwise; in
    shorter steps in depth if there is no room for it else."""
    pair = multiplied(stage.body) if stage.body is not None else None
    assert pair is not None
    factor = pair[plan.swapped]
    given = isinstance(factor, Load) and any(factor.tensor is t for t in kernel.inputs)
    if not given or plan.turned[0] or len(plan.folded) < 2:
        return plan
    assert isinstance(factor, Load)
    for depth in dict.fromkeys((plan.depth, plan.intrinsic.size("w"))):
        image = image_of(factor, plan.rows, plan.folded, plan.tile[0], depth)
        tried = replace(plan, depth=depth, image=image)
        if image is not None and _shared_bytes(tried) + image.bytes <= shared.bytes:
            return tried
    return plan


def _is_along(factor: E.Expr, axes: Sequence[Axis], context: Context) -> bool:
    """Whether neighbours along one of some axes lie side by side in memory."""
    return any(stride_of(load, axis, context.strides) == 1 for load in E.loads(factor)[:1] for axis in axes)


def intrinsic_of(
    context: Context, types: tuple[str, str, str], rounding: str, turned: tuple[bool, bool]
) -> Intrinsic | None:
    """The target's intrinsic for factors of these types that are rounded and lie so, and sums of the last one."""
    assert context.target.threads is not None
    orders = tuple(ORDERS[turns] for turns in turned)
    known = (FRAGMENTS[name] for name in context.target.fragments)
    wanted = {"rounding": rounding, "orders": orders}
    return next((i for i in known if (*i.operands, i.dtype) == types and wanted.items() <= i.settings.items()), None)


def _folded(reduction: Reduce, words: int) -> tuple[Axis, ...]:
    """The last reduced axis where fragments divide it, such as the channels of a convolution; else all together."""
    *others, last = reduction.axes
    return (last,) if not others or size(last.extent) % words == 0 else tuple(reduction.axes)


def _tile(rows: int, columns: int, batch: int) -> tuple[int, int]:
    """Rows and columns of a task: as many as there are or fit, but fewer where that would be few tasks."""
    tile = [max(16, min(MOST, at_least(n))) for n in (rows, columns)]
    while batch * ceil(rows / tile[0]) * ceil(columns / tile[1]) < BUSY and max(tile) > LEAST:
        tile[tile.index(max(tile))] //= 2
    return tile[0], tile[1]


def _subgroups(tile: tuple[int, int], most: int) -> tuple[int, int]:
    """How many subgroups there are along a tile, at most so many: each has a fragment at least."""
    down = min(2, most, tile[0] // 16)
    across = min(most // down, tile[1] // 16)
    return min(most // across, tile[0] // 16), across


def _shared_bytes(plan: _Plan) -> int:
    """Of the tile's sums and of both matrices in a step."""
    (rows, columns), depth = plan.tile, plan.depth
    left = (depth, rows) if plan.turned[0] else (rows, depth)
    right = (columns, depth) if plan.turned[1] else (depth, columns)
    matrices = sum(lines * (_size(plan) * along + PADDING) for lines, along in (left, right))
    return rows * (4 * columns + PADDING) + plan.buffers * (matrices + 2 * 64)


def _size(plan: _Plan) -> int:
    """Bytes of an element of both matrices."""
    return dtypes.size(plan.intrinsic.operands[0])
