"""Reductions over a small window with channels innermost: depthwise convolution, pooling, reductions over leading axes.

Channels are the lanes; a few neighbouring outputs are computed together, so that the inputs their windows share and the
weights are loaded once.
"""

from __future__ import annotations

from sterna.ir import dtypes
from sterna.ir.memory import REGISTER
from sterna.schedule.schedule import Schedule
from sterna.schedule.strategies.analysis import (
    CACHE_LINE,
    NEAR,
    Context,
    evenly,
    inline_elementwise,
    partial_sums,
    product,
    reductions,
    results_in_vectors,
    size,
    stored_apart,
    stride_of,
    value_lanes,
)
from sterna.schedule.strategies.padding import conditional, pad_rows, padded_of
from sterna.schedule.strategies.tasks import block_tasks, make_tasks
from sterna.te.expr import Reduce
from sterna.te.tensor import Kernel, Tensor

WIDE = 2  # vectors of channels, where there are several sums: these lie in a row in memory

FEW = 3  # neighbouring outputs that registers hold beside what they read, whatever the window

UNROLLED = (16, 64, 256, 512)  # multiply-adds of vectors that may be tried written out
MOST_BESIDE = 16  # neighbouring outputs that may be tried together


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
    return _schedule(kernel, stage, context) if channel_steps(stage, context) else None


def byte_lanes(stage: Tensor, kernel: Kernel, context: Context) -> int:
    """Lanes of the vectors of a reduction. Extrema of narrow types fill registers. Where one instruction widens a
    register of bytes to two of 16 bits, and two multiply those, sums of bytes are computed in two registers."""
    lanes, r = context.lanes(kernel), stage.reduction
    assert r is not None
    if lanes > 1 and r.combiner in ("max", "min"):
        # What only pads is in parts that ask for no position.
        bodies = [t.body for t in kernel.stages if t.body is not None and not conditional(t)]
        narrow = value_lanes(bodies, context.target)
        if size(stage.axes[-1].extent) >= narrow > lanes:
            return narrow
    wide = 2 * lanes
    reads = stage.reads()
    bytes_only = all(dtypes.bits(load.dtype) == 8 for load in reads) and dtypes.bits(kernel.outputs[0].dtype) == 8
    return wide if context.target.widens_products and bytes_only and size(stage.axes[-1].extent) % wide == 0 else lanes


def channel_steps(stage: Tensor, context: Context) -> bool:
    """Whether a reduction reads neighbouring channels (its last axis) where they are neighbours in memory, or nearly:
    lanes are picked from whole vectors then; or one for all of them."""
    steps = [stride_of(load, stage.axes[-1], context.strides) for load in stage.reads()]
    near = (1, NEAR) if context.target.lanes(32) > 1 else (1,)
    return any(step in near for step in steps) and all(step in (0, *near) for step in steps)


def store_tiles(s: Schedule, out: str, stage: Tensor, acc: str, lanes: int, context: Context) -> None:
    """Computes a short window, whose outputs lie along rows of channels, tile by tile where `out` stores it: channels
    outermost, since a vector of them keeps its weights in registers."""
    r = stage.reduction
    assert r is not None
    *rows, along, channels = (a.name for a in s.stages[out].tensor.axes)
    beside, window = size(stage.axes[-2].extent), product([a.extent for a in r.axes])
    by_rule = _tile(beside, window, context.target.registers(stage.dtype))
    tile = context.choose("tile", lambda: range(1, min(beside, MOST_BESIDE) + 1), by_rule)
    vector, lane = s.split(out, channels, lanes)
    tiles, unrolled = s.split(out, along, tile)
    s.reorder(out, vector, *rows, tiles, unrolled, lane)
    s.unroll(out, unrolled)
    s.vectorize(out, lane)
    s.compute_at(acc, out, tiles, REGISTER)
    _accumulate(s, acc, stage, lanes, tile, context)


def _schedule(kernel: Kernel, stage: Tensor, context: Context) -> Schedule:
    s = Schedule(kernel)
    acc, out = stored_apart(s, stage)
    padded = padded_of(stage, context)
    inline_elementwise(s, [padded.stage.name] if padded is not None else [])
    r = stage.reduction
    assert r is not None
    axes = [a.name for a in s.stages[out].tensor.axes]
    lanes = byte_lanes(stage, kernel, context)
    window = product([a.extent for a in r.axes])
    vectors = -(-size(stage.axes[-1].extent) // lanes)
    along = stage.axes[-2] if len(stage.axes) > 1 else None
    registers = context.target.registers(stage.dtype)
    if lanes > 1:
        registers //= max(1, lanes // context.target.lanes(dtypes.bits(stage.dtype)))
    beside = size(along.extent) if along is not None else 1
    if padded is not None and stage.axes[padded.axis] is along:
        beside = padded.rows
    apart = padded is None and not _sharing(stage)
    # A register for each sum leaves room for few of them, which share their loads, even where there are eight.
    best = 1 if apart else _tile(beside, window, registers, FEW if lanes == context.lanes(kernel) else 1)
    tile = context.choose("tile", lambda: range(1, min(beside, MOST_BESIDE) + 1), best)
    # Without a neighbouring output to share loads with, several vectors hide the latency of the sum; where there is
    # never one, long parts of rows are read one after the other, as they lie in memory.
    most = registers // 2 if apart else 4
    best = 1 if tile > 1 else evenly(vectors, most)
    wide = context.choose("vectors", lambda: range(1, min(most, vectors) + 1), best)
    sums, summed = (1, "") if tile > 1 else partial_sums(r, context.target.registers(stage.dtype), WIDE)
    if sums > 1:
        wide = min(WIDE, wide)
    before, blocks = axes[:0], ""
    if padded is not None:
        before = axes[: padded.axis]
        blocks, axes[padded.axis] = s.split(out, axes[padded.axis], padded.rows)
    channel_outer, channel_inner = s.split(out, axes[-1], lanes * wide)
    channel_vector, lane = s.split(out, channel_inner, lanes)
    outer = axes[:-1]
    inner: list[str] = []
    if along is not None:
        outer[-1], unrolled = s.split(out, outer[-1], tile)
        inner = [unrolled]
    # Where a cache line holds several vectors, the next channels are in it: walking positions first would fetch each
    # line once for every vector.
    dtype_bytes = dtypes.size(stage.dtype)
    narrow = lanes > 1 and lanes * dtype_bytes < CACHE_LINE and context.target.l1_bytes > 0
    # A vector of channels that walks along positions keeps its weights in registers; a pool has none.
    walks = len(outer) > 1 and (narrow or not _has_weights(stage))
    by_position = context.choose("by_position", lambda: (True, False), apart or walks)
    nest = [*outer, channel_outer] if by_position else [*outer[:-1], channel_outer, *outer[-1:]]
    # Such kernels wait for loads: three for each multiply-add, where products need one for many.
    cycles = 3 * context.cycles(kernel, product([a.extent for a in stage.axes]) * window)
    if padded is None:
        s.reorder(out, *nest, *inner, channel_vector, lane)
        place = make_tasks(s, out, nest, cycles, context, nest[-1])
    else:
        nest = [x for x in nest if x not in before]
        s.reorder(out, *before, blocks, *nest, *inner, channel_vector, lane)
        place = nest[-1]
        pad_rows(s, out, block_tasks(s, out, before, blocks, context), padded.stage.name, lanes, context.target)
    for axis in inner:
        s.unroll(out, axis)
    s.unroll(out, channel_vector)
    s.vectorize(out, lane)
    if sums > 1:
        _, part = s.split(acc, summed, sums)
        partial = s.rfactor(acc, part, outermost=True)
        s.compute_at(partial, out, place, REGISTER)
        _accumulate(s, partial, stage, lanes, sums * wide, context)
    s.compute_at(acc, out, place, REGISTER)
    _accumulate(s, acc, stage, lanes, tile * wide, context)
    return s


def _accumulate(s: Schedule, acc: str, stage: Tensor, lanes: int, results: int, context: Context) -> None:
    """The loops of a sum in registers: what is reduced outside, channels in vectors inside, short loops unrolled."""
    state = s.stages[acc]
    assert isinstance(state.body, Reduce)
    reduced = results_in_vectors(s, acc, stage.axes[-1].name, lanes)
    shared = _shared(stage)
    # Lanes two apart are picked from vectors that neighbours along the row have in common.
    if shared in reduced[:-1] and all(
        stride_of(load, stage.axes[-1], context.strides) != NEAR for load in stage.reads()
    ):
        reduced = [*(name for name in reduced if name != shared), shared]
        s.reorder(acc, *reduced, *(x for x in s.stages[acc].leaves if x not in reduced))
    extents = {a.name: size(a.extent) for a in state.body.axes}
    budget, total = context.choose("unrolled", lambda: UNROLLED, 256), results
    for name in reversed(reduced):
        total *= extents[name]
        if total > budget:
            break
        s.unroll(acc, name)


def _shared(stage: Tensor) -> str:
    """The reduced axis along which windows of neighbouring outputs overlap, if they do: what they share is loaded once
    where it is the innermost."""
    r = stage.reduction
    assert r is not None
    if len(stage.axes) < 2:
        return ""
    along = stage.axes[-2]
    for index in (index for load in stage.reads() for index in load.indices if along in index.symbols()):
        for axis in r.axes:
            step, tap = index.coefficient(along), index.coefficient(axis)
            if axis in index.symbols() and (not step or not tap or abs(step) <= abs(tap) * (size(axis.extent) - 1)):
                return axis.name
    return ""


def _sharing(stage: Tensor) -> bool:
    """Whether neighbouring outputs read something in common: elements where their windows overlap, or weights."""
    if len(stage.axes) < 2 or _shared(stage):
        return len(stage.axes) > 1
    return _has_weights(stage)


def _has_weights(stage: Tensor) -> bool:
    """Whether neighbouring outputs read the same elements of something."""
    return any(not any(stage.axes[-2] in index.symbols() for index in load.indices) for load in stage.reads())


def _tile(extent: int, window: int, registers: int, least: int = 1) -> int:
    """Neighbouring outputs per tile: as many as registers allow besides the weights, or `least` of them where these are
    loaded for each tile again, without a tail if possible."""
    room = max(least, min(8, registers - min(window, registers // 2) - 4))
    return max(range(1, min(room, extent) + 1), key=lambda t: (extent / (-(-extent // t) * t)) * (t / (t + 1.0)))
