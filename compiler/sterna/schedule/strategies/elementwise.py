"""Kernels without reductions: element-wise chains, broadcasts, data movement."""

from __future__ import annotations

from sterna.schedule.schedule import Schedule
from sterna.schedule.strategies.analysis import TASK_GRAIN, Context, inline_elementwise, product, reductions, size
from sterna.te.tensor import Kernel

_BLOCK = 4096  # elements of a flat kernel that one task does


def propose(kernel: Kernel, context: Context) -> Schedule | None:
    """The schedule of a kernel without reductions, else None."""
    if reductions(kernel):
        return None
    s = Schedule(kernel)
    inline_elementwise(s)
    lanes = context.lanes(kernel)
    for out in s.outputs:
        axes = [a.name for a in s.stages[out].tensor.axes]
        if not axes:
            continue
        extents = [a.extent for a in s.stages[out].tensor.axes]
        large = product(extents) >= 2 * TASK_GRAIN and len(s.outputs) == 1
        last, width = axes[-1], size(extents[-1])
        if len(axes) == 1 and large and width > 2 * _BLOCK:
            block, last = s.split(out, last, _BLOCK)
            s.parallel(out, block)
        elif len(axes) > 1 and large:
            fused = axes[0]
            for axis in axes[1:-1]:
                fused = s.fuse(out, fused, axis)
            s.parallel(out, fused)
        if lanes > 1 and width > 1:
            _, lane = s.split(out, last, lanes)
            s.vectorize(out, lane)
        elif 1 < width <= 4:
            s.unroll(out, last)
    return s
