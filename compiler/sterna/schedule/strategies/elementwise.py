"""Kernels without reductions: element-wise chains, broadcasts, data movement."""

from __future__ import annotations

from sterna.schedule.schedule import Schedule
from sterna.schedule.strategies.analysis import (
    SHARE_CYCLES,
    Context,
    divisor_near,
    inline_elementwise,
    outermost_task,
    product,
    reductions,
    size,
)
from sterna.te.tensor import Kernel

_BLOCK = 4096  # elements of a flat kernel that one task does


def propose(kernel: Kernel, context: Context) -> Schedule | None:
    """The schedule of a kernel without reductions, else None."""
    if reductions(kernel):
        return None
    s = Schedule(kernel)
    inline_elementwise(s)
    for out in s.outputs:
        _loops(s, out, context.lanes(kernel), alone=len(s.outputs) == 1)
    return s


def _loops(s: Schedule, out: str, lanes: int, alone: bool) -> None:
    """Vectors along the last axis; blocks of the others as tasks."""
    axes = s.stages[out].tensor.axes
    last, width = axes[-1].name, size(axes[-1].extent)
    rows = product([a.extent for a in axes[:-1]])
    # Memory, not arithmetic, is the limit: some eight cycles per vector.
    if alone and 8 * rows * width // lanes >= SHARE_CYCLES:
        if rows == 1:
            block, last = s.split(out, last, _BLOCK)
            s.parallel(out, block)
        elif any(not a.extent.is_const for a in axes[:-1]):
            outermost_task(s, out, [a.name for a in axes[:-1]], "")
        else:
            fused = axes[0].name
            for axis in axes[1:-1]:
                fused = s.fuse(out, fused, axis.name)
            group = divisor_near(rows, max(1, _BLOCK // width))
            s.parallel(out, s.split(out, fused, group)[0] if group > 1 else fused)
    if lanes > 1 and width > 1:
        _, lane = s.split(out, last, lanes)
        s.vectorize(out, lane)
    elif 1 < width <= 4:
        s.unroll(out, last)
