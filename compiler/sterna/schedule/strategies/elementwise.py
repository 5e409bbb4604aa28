"""Kernels without reductions: element-wise chains, broadcasts, data movement."""

from __future__ import annotations

from sterna.schedule.schedule import Schedule
from sterna.schedule.strategies.analysis import Context, inline_elementwise, product, reductions, size
from sterna.schedule.strategies.tasks import make_tasks, shared, wanted_tasks
from sterna.te.tensor import Kernel


def propose(kernel: Kernel, context: Context) -> Schedule | None:
    """The schedule of a kernel without reductions, else None."""
    if reductions(kernel):
        return None
    s = Schedule(kernel)
    inline_elementwise(s)
    for out in s.outputs:
        _loops(s, out, context, alone=len(s.outputs) == 1)
    return s


def _loops(s: Schedule, out: str, context: Context, alone: bool) -> None:
    """Vectors along the last axis; blocks of the others as tasks."""
    axes = s.stages[out].tensor.axes
    lanes = context.lanes(s.kernel)
    last, width = axes[-1].name, size(axes[-1].extent)
    rows = product([a.extent for a in axes[:-1]])
    # Memory, not arithmetic, is the limit: about eight cycles per vector.
    cycles = 8 * rows * width // lanes
    if alone and rows > 1:
        make_tasks(s, out, [a.name for a in axes[:-1]], cycles, context)
    elif alone and shared(context.target, cycles):
        vectors = -(-width // lanes)
        block, last = s.split(out, last, -(-vectors // wanted_tasks(cycles)) * lanes)
        s.parallel(out, block)
    if lanes > 1 and width > 1:
        _, lane = s.split(out, last, lanes)
        s.vectorize(out, lane)
    elif 1 < width <= 4:
        s.unroll(out, last)
