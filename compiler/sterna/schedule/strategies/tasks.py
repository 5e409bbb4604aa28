"""How the work of a kernel is cut into tasks, which workers share.

Tasks are blocks of the outer loops, in the order in which memory is walked: workers take neighbouring ones, the same in
every run, so that what a worker computes in one kernel is still in its cache for the next, and so are its weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt, log2

from sterna.ir.division import ceil_div
from sterna.ir.integer import Int
from sterna.schedule.decisions import Fuse, Split, StageSchedule
from sterna.schedule.schedule import Schedule
from sterna.schedule.strategies.analysis import Context, product, reductions, size
from sterna.targets.target import Target

#: Cycles of one task: enough that taking it costs little in comparison.
TASK_CYCLES = 1024
#: The most tasks that are worth having: the number of chunks that the pool hands out.
MOST_TASKS = 32
#: Tasks that may be tried.
TASKS = (1, 2, 4, 8, 16, 32, 64)
#: Bytes that come from L2 in a cycle.
L2_RATE = 32


def shared(target: Target, cycles: int) -> bool:
    """Whether a kernel of this many cycles is worth sharing."""
    return target.cores > 1 and cycles >= target.share_cycles


def wanted_tasks(cycles: int) -> int:
    """How many tasks a kernel of this many cycles is cut into."""
    return min(MOST_TASKS, max(1, cycles // TASK_CYCLES))


def make_tasks(s: Schedule, out: str, axes: Sequence[str], cycles: int, context: Context, place: str = "") -> str:
    """Makes blocks of the outer axes of a nest the tasks, if that is worth it.

    Args:
        axes: the outermost ones, in order.
        cycles: of the whole kernel.
        place: the last of them, if something is placed there: it stays a loop of its own where there are tasks enough.

    Returns:
        What `place` is called then.
    """
    if not shared(context.target, cycles):
        return place
    extents = [extent_of(s.stages[out], a) for a in axes]
    if any(not e.is_const for e in extents):
        return outermost_task(s, out, axes, place)
    wanted = context.choose("tasks", lambda: TASKS, wanted_tasks(cycles))
    fused, count, last = axes[0], size(extents[0]), axes[0]
    for axis, extent in zip(axes[1:], extents[1:], strict=True):
        if axis != place or 2 * count < wanted:
            fused, count, last = s.fuse(out, fused, axis), count * size(extent), axis
    group = even_group(count, wanted, context.target.cores)
    inner = fused
    if group > 1:
        fused, inner = s.split(out, fused, group)
    s.parallel(out, fused)
    return inner if last == place else place


def block_tasks(s: Schedule, out: str, before: Sequence[str], block: str, context: Context) -> str:
    """Makes the outermost axes one, and that the tasks if the kernel is worth sharing.

    Args:
        before: all but the last of them, in order; block: the last one.

    Returns:
        What the axis is called; what a task needs is placed there.
    """
    task = block
    for axis in reversed(before):
        task = s.fuse(out, axis, task)
    work = sum(product([a.extent for a in t.all_axes]) for t in reductions(s.kernel))
    if shared(context.target, context.cycles(s.kernel, work)):
        s.parallel(out, task)
    return task


def even_group(n: int, tasks: int, cores: int) -> int:
    """A divisor of n: how many of n iterations a task takes, for about `tasks` tasks, shared evenly by the cores."""
    wanted = max(1.0, n / tasks)

    def cost(group: int) -> float:
        count = n // group
        return -(-count // cores) * cores / count * (1 + 0.03 * abs(log2(group / wanted)))

    small = [d for d in range(1, isqrt(n) + 1) if n % d == 0]
    return min([*small, *(n // d for d in reversed(small))], key=cost)


def outermost_task(s: Schedule, out: str, axes: Sequence[str], place: str) -> str:
    """Tasks where dimensions are only known at run time: the outermost axis of such a size comes first and is the
    parallel one, fused with what has a constant size. Returns what `place`, one of the axes, is called then."""
    state = s.stages[out]
    dynamic = next((a for a in axes if not extent_of(state, a).is_const), axes[0])
    order = [dynamic, *(a for a in axes if a != dynamic)]
    s.reorder(out, *order)
    fused = order[0]
    while len(order) > 1 and extent_of(state, order[1]).is_const and order[1] != place:
        fused = s.fuse(out, fused, order.pop(1))
    s.parallel(out, fused)
    return fused if place == dynamic else place


def extent_of(state: StageSchedule, axis: str) -> Int:
    """Iterations of an axis of a root stage."""
    for r in state.relations:
        if isinstance(r, Split) and axis in (r.outer, r.inner):
            return ceil_div(extent_of(state, r.parent), r.factor) if axis == r.outer else Int({}, r.factor)
        if isinstance(r, Fuse) and axis == r.fused:
            return extent_of(state, r.first) * extent_of(state, r.second)
    return next(a.extent for a in state.axes if a.name == axis)
