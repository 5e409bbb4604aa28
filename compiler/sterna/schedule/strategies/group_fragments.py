"""Sums of products by fragments of matrices, for groups of threads whose target has some: matrix products and
convolutions (implicit GEMM) of 16-bit floats, or of float32 rounded to TF32, added up in float32; of bytes, in int32.

A task has a tile of the result. The parts of both matrices that a step in depth needs are brought into shared memory by
all of its threads, from wherever their elements lie; each subgroup has a few fragments of sums in registers. They are
stored to shared memory, from where the threads compute what follows with the sums and store it side by side.

Constants whose terms of a sum should lie side by side are packed so ahead of time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd, prod

from sterna.ir import dtypes
from sterna.ir.integer import ZERO, Atom, Int, as_int
from sterna.ir.memory import BANKS, FRAGMENT, Memory
from sterna.ir.remainders import rejoined
from sterna.schedule.matrices import copied as copied_of
from sterna.schedule.schedule import Schedule
from sterna.schedule.strategies.analysis import Context, fused, inline_elementwise, size, stored_apart
from sterna.schedule.strategies.fragment_plan import (
    COPIED,
    PADDING,
    SUM,
    THREADS,
    TURN,
    Plan,
    chosen,
    free_runs,
    in_order,
    multiplied_by,
    plan_of,
    right_of,
    run_of,
    shared_bytes,
    with_image,
)
from sterna.schedule.strategies.group_banks import waiting
from sterna.schedule.strategies.group_neighbours import stored_together, with_aligned_rows
from sterna.schedule.strategies.group_order import in_panels
from sterna.schedule.strategies.warpgroups import by_warpgroups, copied, in_blocks
from sterna.te import expr as E
from sterna.te.axis import Axis
from sterna.te.conditions import limits
from sterna.te.expr import Load
from sterna.te.layout import dense_strides
from sterna.te.tensor import Kernel, Tensor

#: Elements of a row of weights for each zero behind it: fragments are filled up all the same.
MOST_FILLED = 3


def propose(kernel: Kernel, stage: Tensor, context: Context, shared: Memory) -> Schedule | None:
    """The schedule of a kernel whose only sum is a stage, each element of which its output reads at its own place; None
    if no fragments of the target compute it, or would be mostly empty."""
    plan = plan_of(kernel, stage, context)
    if plan is None:
        return None
    by_subgroups = with_image(chosen(plan, stage, context, shared), kernel, stage, shared)
    plan = by_warpgroups(by_subgroups, stage, context, shared) or by_subgroups
    if shared_bytes(plan) > shared.most:
        return None
    plan = in_order(plan, stage, context)
    s = Schedule(kernel, context.target.known_intrinsics, context.target.memories)
    acc, out = stored_apart(s, stage)
    if plan.packed:
        s.pack(right_of(stage, plan.swapped).tensor.name, {}, [(d, "") for d in plan.packed])
    for load in E.loads(s.stages[acc].body):
        with_aligned_rows(s, load, context, MOST_FILLED)
    names = {a: b.name for a, b in zip(stage.axes, s.stages[out].tensor.axes, strict=True)}
    inner = [a.name for a in plan.folded]
    # From an image elements are gathered one by one, so that they wait for no bank.
    batch, run = [a.name for a in plan.batch], 1 if plan.image is not None else run_of(plan.folded, plan.intrinsic)
    left, right, sums = s.as_matrices(acc, batch, inner, plan.depth, plan.turned, plan.swapped, run)
    if plan.in_memory:
        in_blocks(s, left)
        in_blocks(s, right)
    stored = s.cache_read(sums, acc)
    # An image that the kernel pads itself is padded once, as it comes to shared memory.
    factor, _ = multiplied_by(stage, plan.swapped)
    padded = [load.tensor.name for load in E.loads(factor) if plan.image is not None and load.tensor.name in s.stages]
    inline_elementwise(s, padded, also=[acc] if acc not in (t.name for t in kernel.stages) else ())
    own = plan.rows_at_once * plan.tile[1] // (plan.threads * plan.groups)
    together = stored_together(s, out, stored, min(COPIED // SUM, own), context)
    task, part = _tasks(s, out, names, stage.axes[-1], plan, together)
    s.compute_at(sums, out, task, FRAGMENT)
    step = _products(s, sums, plan)
    s.compute_at(stored, out, part, shared)
    _stored(s, stored, plan, _behind_sums(plan, stage.axes[-1], together))
    if plan.image is not None:
        (image,) = padded or [s.cache_read(E.loads(s.stages[left].body)[0].tensor.name, left)]
        s.compute_at(image, out, task, shared)
        by_threads(s, image, fused(s, image, [a.name for a in s.stages[image].tensor.axes]), plan.subgroups)
        if plan.image.padding:
            s.pad_rows(image, plan.image.padding, plan.image.behind)
    rows = (plan.tile[0] if plan.turned[0] else plan.depth, plan.depth if plan.turned[1] else plan.tile[1])
    for matrix, along in zip((left, right), rows, strict=True):
        s.compute_at(matrix, sums, step, shared)
        if plan.in_memory:
            copied(s, matrix, plan.groups, plan.threads)
        else:
            along_depth = plan.turned[1] if matrix == right else not plan.turned[0]
            beside = plan.beside.name if plan.beside is not None and matrix == left else ""
            brought(s, matrix, plan.subgroups, along, context, free_runs(plan, along_depth), beside)
    return s


def _tasks(s: Schedule, out: str, names: dict[Axis, str], columns: Axis, plan: Plan, together: int) -> tuple[str, str]:
    """Cuts the output into tiles, whose elements the threads share, so many neighbours each; returns the axes of the
    tasks, and of the parts of a tile whose sums are in shared memory together."""
    batch = [names[a] for a in plan.batch if a.extent != 1]
    beside = list[str]()
    if plan.beside is not None:
        at = batch.index(names[plan.beside])
        batch[at], within = s.split(out, batch[at], plan.many)
        beside.append(within)
    # What is left of a task's number beside an axis of one position is not seen to be all of it, by an open size.
    single = [names[a] for a in plan.batch if a.extent == 1]
    s.reorder(out, *single, *batch, *beside, *(names[a] for a in plan.rows), names[columns])
    down, row = s.split(out, fused(s, out, [names[a] for a in plan.rows]), plan.tile[0], overhang=True)
    across, column = s.split(out, names[columns], plan.tile[1], overhang=True)
    part, row = s.split(out, row, plan.rows_at_once)
    tiles = in_panels(s, out, [down], across, *plan.panel)
    s.reorder(out, *batch, *tiles, *single, part, *beside, row, column)
    task = fused(s, out, [*batch, *tiles])
    s.parallel(out, task)
    s.unroll(out, part)
    if together > 1:
        column, lane = s.split(out, column, together)
        s.vectorize(out, lane)
    if beside:
        order = by_rows(s, out, [row, column], beside[0], plan.tile[1] // together)
    else:
        order = rows_apart(s, out, [row, column], _runs(plan, columns), PADDING // SUM // together)
    by_threads(s, out, fused(s, out, order), plan.subgroups, plan.threads)
    return task, part


def _stored(s: Schedule, stored: str, plan: Plan, behind: int) -> None:
    """Stores the fragments of a part of a tile, each by the subgroup that has it, with rows that so many elements are
    free behind."""
    *batch, row, column = (a.name for a in s.stages[stored].tensor.axes)
    owned = _owned(s, stored, (row, column), (plan.rows_at_once, plan.tile[1]), plan)
    batch, beside = _taken_apart(s, stored, batch, plan)
    s.reorder(stored, *batch, *owned.whole, *owned.owners, *beside, *owned.fragments, *owned.lanes)
    s.bind(stored, fused(s, stored, owned.owners), "thread.y")
    for axis in (*beside, *owned.fragments):
        s.unroll(stored, axis)
    s.from_tiles(stored, *owned.lanes)
    if behind:
        s.pad_rows(stored, behind)


def _behind_sums(plan: Plan, columns: Axis, together: int) -> int:
    """How many elements are free behind the rows of a task's sums, so that threads which read them, so many neighbours
    each, are in different banks: none where that is no better."""
    width, padding = plan.tile[1], PADDING // SUM
    if plan.in_memory:
        return 2 * padding  # threads of eight rows store a pair each
    if _runs(plan, columns) < TURN and plan.beside is None:
        return padding
    turn = min(THREADS, BANKS // together) * together
    own = [n for n in range(turn * TURN) if n % width < size(columns.extent)]

    def waits(more: int) -> int:
        """The turns that wait where rows have so much behind them."""
        turns: dict[int, list[int]] = {}
        for n in own:
            turns.setdefault(n // turn, []).append(n // width * (width + more) + n % width)
        return sum(waiting(places, SUM) for places in turns.values())

    return min((padding, 0), key=waits)


def _runs(plan: Plan, columns: Axis) -> int:
    """The runs of a row of sums that threads read in a turn, where rows are to be apart: parts of rows that lie apart
    have to be whole sectors of the result."""
    return plan.tile[1] * SUM // PADDING if size(columns.extent) % plan.tile[1] == 0 else TURN


def brought(
    s: Schedule,
    matrix: str,
    subgroups: Sequence[int],
    length: int,
    context: Context,
    free: int = 0,
    beside: str = "",
) -> None:
    """Lets the threads bring a matrix, each a few neighbours by one copy where those are neighbours in memory and the
    tile; else element by element. Rows are padded to an odd number of runs.

    Args:
        length: of a row; free: runs behind it with which threads may copy rows in their order; 0: they may not.
        beside: an axis along which rows lie side by side in memory; "": there is none.
    """
    t, body = s.stages[matrix].tensor, s.stages[matrix].body
    *axes, along = (a.name for a in t.axes)
    run, read = COPIED // dtypes.size(t.dtype), copied_of(body)
    even = length // run % 2 == 0
    if isinstance(read, Load) and in_runs(read, t.axes[-1], run, context) and _in_whole_runs(body, t.axes[-1], run):
        along, _ = s.split(matrix, along, run)
        order = [*axes, along]
        if beside:
            order = by_rows(s, matrix, [a for a in order if a != beside], beside, length // run)
        elif even and not free:
            order = rows_apart(s, matrix, order, length // run)
        by_threads(s, matrix, fused(s, matrix, order), subgroups)
        s.transfer(matrix, asynchronous=True)
    else:
        by_threads(s, matrix, fused(s, matrix, [*axes, along]), subgroups)
    if even:
        s.pad_rows(matrix, run * max(1, free))


def by_rows(s: Schedule, stage: str, axes: Sequence[str], beside: str, many: int) -> list[str]:
    """The axes of a stage, rows and what is along them last, in an order in which threads that access the device's
    memory together have the same rows of all matrices that lie side by side, and those that access shared memory in a
    turn have rows of one.

    Args:
        beside: the axis of the matrices; many: iterations along a row.
    """
    *lead, row, along = axes
    outer, row = s.split(stage, row, max(1, 2 * TURN // many))
    order = [*lead, outer, beside, row, along]
    s.reorder(stage, *order)
    return order


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
    multiple of it, too: no tile ends among them, nor the tensor, as windows in a row of one channel let it."""
    assert isinstance(load.tensor, Tensor)
    if any(not n.is_const or size(n) % run for n in (axis.extent, load.tensor.shape[-1])):
        return False
    # Windows that become rows are taken apart along the axis, but not within a run.
    part, lane = Axis("part", axis.extent // run), Axis("lane", as_int(run))
    known: dict[Atom, Int] = {axis: part.var * run + lane.var}
    strides = context.strides.get(load.tensor.name) or dense_strides(load.tensor.shape)
    indices = (index.substitute(known) for index in load.indices)
    at = rejoined(sum((index * step for index, step in zip(indices, strides, strict=True)), ZERO))
    rest = at - lane.var
    return lane not in rest.symbols() and all(step % run == 0 for step in (rest.const, *rest.terms.values()))


def _in_whole_runs(body: E.Expr | None, axis: Axis, run: int) -> bool:
    """Whether zeros take the place of all neighbours along an axis, from a multiple of their number on, or of none."""
    lane = Axis("lane", as_int(run))
    known: dict[Atom, Int] = {axis: Axis("part", axis.extent // run).var * run + lane.var}
    found = limits(body.condition) if isinstance(body, E.Select) else []
    return found is not None and all(lane not in side.substitute(known).symbols() for pair in found for side in pair)


def by_threads(s: Schedule, stage: str, elements: str, subgroups: Sequence[int], threads: int = THREADS) -> None:
    """Gives the elements of a stage to the threads of so many subgroups, neighbours to neighbours.

    Args:
        threads: of a subgroup, or of a warpgroup in its place.
    """
    rest, x = s.split(stage, elements, threads)
    _, y = s.split(stage, rest, prod(subgroups))
    s.bind(stage, x, "thread.x")
    s.bind(stage, y, "thread.y")


def _products(s: Schedule, sums: str, plan: Plan) -> str:
    """Cuts the sums of a task into fragments; returns the axis of steps in depth."""
    *batch, row, column = (a.name for a in s.stages[sums].tensor.axes)
    *taps, depth = (a.name for a in s.stages[sums].axes if a.reduction)
    owned = _owned(s, sums, (row, column), plan.tile, plan)
    step, within = s.split(sums, depth, plan.depth)
    times, word = s.split(sums, within, plan.terms)
    word, group = s.split(sums, word, plan.intrinsic.size("g"))
    batch, beside = _taken_apart(s, sums, batch, plan)
    fragments = (*beside, *owned.fragments)
    order = (*owned.whole, *owned.owners, *taps, step, times, *fragments, *owned.lanes, word, group)
    s.reorder(sums, *batch, *order)
    s.bind(sums, fused(s, sums, owned.owners), "thread.y")
    step = fused(s, sums, [*taps, step])
    for axis in (times, *fragments):
        s.unroll(sums, axis)
    if plan.buffers > 1:
        s.pipeline(sums, step, plan.buffers)
    s.tensorize(sums, *owned.lanes, word, group, plan.intrinsic.name)
    return step


def _taken_apart(s: Schedule, stage: str, batch: Sequence[str], plan: Plan) -> tuple[list[str], list[str]]:
    """The axes of a batch, and that of the matrices of one task, if it has several."""
    if plan.beside is None:
        return [*batch], []
    kept, at = [*batch], plan.batch.index(plan.beside)
    kept[at], within = s.split(stage, kept[at], plan.many)
    return kept, [within]


@dataclass(frozen=True)
class _Owned:
    """A tile of fragments, rows and columns each: the one tile, the subgroups, what each has, and its elements."""

    whole: tuple[str, str]
    fragments: tuple[str, str]
    owners: tuple[str, str]
    lanes: tuple[str, str]


def _owned(s: Schedule, stage: str, axes: tuple[str, str], tile: tuple[int, int], plan: Plan) -> _Owned:
    """Cuts the rows and columns of a tile into fragments, neighbours of neighbouring subgroups, so that the first
    fragments of all of them are the first rows."""

    def cut(n: int) -> tuple[str, str, str, str]:
        # The tile of a task is the whole of it, and of a constant size.
        one, within = s.split(stage, axes[n], tile[n])
        fragment, lane = s.split(stage, within, plan.intrinsic.size(("row", "lane")[n]))
        fragment, owner = s.split(stage, fragment, plan.subgroups[n])
        return one, fragment, owner, lane

    return _Owned(*zip(cut(0), cut(1), strict=True))
