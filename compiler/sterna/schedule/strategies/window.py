"""Reductions over a small window with channels innermost: depthwise convolution, pooling, reductions over leading axes.

Channels are the lanes; a few neighbouring outputs are computed together, so that the inputs their windows share and the
weights are loaded once.
"""

from __future__ import annotations

from sterna.schedule.schedule import Schedule
from sterna.schedule.strategies.analysis import (
    SHARE_CYCLES,
    Context,
    inline_elementwise,
    outermost_task,
    product,
    reductions,
    size,
    stride_of,
)
from sterna.te.tensor import Kernel, Tensor


def propose(kernel: Kernel, context: Context) -> Schedule | None:
    """The schedule of a kernel with one reduction whose last axis is contiguous in what it reads, else None."""
    found = reductions(kernel)
    if len(found) != 1 or len(kernel.outputs) != 1:
        return None
    (stage,) = found
    out = kernel.outputs[0]
    r = stage.reduction
    assert r is not None
    if (
        r.index is not None
        or not stage.axes
        or len(out.axes) != len(stage.axes)
        or any(a.extent != b.extent for a, b in zip(stage.axes, out.axes, strict=True))
    ):
        return None
    channels = stage.axes[-1]
    steps = [stride_of(load, channels, context.strides) for load in stage.reads()]
    if 1 not in steps or any(step not in (0, 1) for step in steps):
        return None
    return _schedule(kernel, stage, context)


def _schedule(kernel: Kernel, stage: Tensor, context: Context) -> Schedule:
    s = Schedule(kernel)
    acc = stage.name
    if acc in s.outputs:
        out = acc
        acc = s.cache_write(acc)
    else:
        out = s.outputs[0]
    inline_elementwise(s)
    r = stage.reduction
    assert r is not None
    axes = [a.name for a in s.stages[out].tensor.axes]
    lanes = context.lanes(kernel)
    window = product([a.extent for a in r.axes])
    vectors = -(-size(stage.axes[-1].extent) // lanes)
    along = stage.axes[-2] if len(stage.axes) > 1 else None
    tile = _tile(size(along.extent), window, context.target.vector_registers) if along is not None else 1
    # Without a neighbouring output to share loads with, several vectors hide the latency of the sum.
    wide = 1 if tile > 1 else min(4, vectors)
    channel_outer, channel_inner = s.split(out, axes[-1], lanes * wide)
    channel_vector, lane = s.split(out, channel_inner, lanes)
    outer = axes[:-1]
    inner: list[str] = []
    if along is not None:
        outer[-1], unrolled = s.split(out, axes[-2], tile)
        inner = [unrolled]
    s.reorder(out, channel_outer, *outer, *inner, channel_vector, lane)
    place = outer[-1] if outer else channel_outer
    work = product([a.extent for a in stage.axes]) * window
    # Such kernels wait for loads: three per multiply-add rather than one per many.
    if 3 * context.cycles(kernel, work) >= SHARE_CYCLES:
        if all(a.extent.is_const for a in stage.axes):
            fused = channel_outer
            for row in outer[:-1]:
                fused = s.fuse(out, fused, row)
            s.parallel(out, fused)
            place = place if place != channel_outer else fused
        else:
            place = outermost_task(s, out, [channel_outer, *outer], place)
    for axis in inner:
        s.unroll(out, axis)
    s.unroll(out, channel_vector)
    s.vectorize(out, lane)
    s.compute_at(acc, out, place, "register")
    vector, acc_lane = s.split(acc, stage.axes[-1].name, lanes)
    reduced = [a.name for a in r.axes]
    s.reorder(acc, *reduced, *(a.name for a in stage.axes[:-1]), vector, acc_lane)
    for a in stage.axes[:-1]:
        s.unroll(acc, a.name)
    s.unroll(acc, vector)
    s.vectorize(acc, acc_lane)
    budget, total = 256, tile * wide
    for reduced_axis in reversed(r.axes):
        total *= size(reduced_axis.extent)
        if total > budget:
            break
        s.unroll(acc, reduced_axis.name)
    return s


def _tile(extent: int, window: int, registers: int) -> int:
    """Neighbouring outputs per tile: as many as registers allow beside the weights, without a tail if possible."""
    room = max(1, min(8, registers - min(window, registers // 2) - 4))
    return max(range(1, min(room, extent) + 1), key=lambda t: (extent / (-(-extent // t) * t)) * (t / (t + 1.0)))
