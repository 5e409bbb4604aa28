"""Kernels without reductions: element-wise chains, broadcasts, data movement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import lcm, prod

from sterna.ir import dtypes
from sterna.ir.integer import Int, Mod
from sterna.ir.memory import STACK
from sterna.schedule.schedule import Schedule
from sterna.schedule.strategies.analysis import (
    NEAR,
    Context,
    divisors,
    expanded,
    expanded_loads,
    inline_elementwise,
    product,
    readers,
    reductions,
    size,
    stride_of,
    value_lanes,
)
from sterna.schedule.strategies.tasks import make_tasks, shared, wanted_tasks
from sterna.te import expr as E
from sterna.te.axis import Axis
from sterna.te.conditions import cuts
from sterna.te.layout import dense_strides
from sterna.te.tensor import Kernel, Tensor

#: Copies of a body that are written out so that each computes what it chooses.
MOST_COPIES = 64
#: The most squares of a transpose that are made one after the other along the rows that are read.
IN_A_ROW = 8
#: Rows of such a square.
MOST_SQUARED = 16
#: Vectors of a row that are written out.
MOST_VECTORS = 24
#: Vectors of what is kept of a block of rows.
KEPT_ROWS = 4
#: Elements at computed positions that are put together to vectors, at most: positions of more do not stay in registers.
MOST_GATHERED = 4
#: Parts that a row may be cut into: each is code.
MOST_PARTS = 5


def propose(kernel: Kernel, context: Context) -> Schedule | None:
    """The schedule of a kernel without reductions, else None."""
    if reductions(kernel):
        return None
    s = Schedule(kernel)
    kept = _kept(kernel, context)
    if kept and not context.choose("keep", lambda: (True, False), True):
        kept = []
    inline_elementwise(s, kept)
    if kept:
        _with_kept(s, kept, context)
        return s
    for out in s.outputs:
        _loops(s, out, context, alone=len(s.outputs) == 1)
    return s


def _kept(kernel: Kernel, context: Context) -> list[str]:
    """Stages that say where the elements of a row, or one element, are read, and others of the same axes: worth
    computing for many rows at once, in vectors."""
    if len(kernel.outputs) != 1 or context.lanes(kernel) == 1:
        return []
    (out,) = kernel.outputs
    reads = out.reads()
    placed = {load.tensor for read in reads for i in read.indices for v in i.expressions() for load in E.loads(v)}
    stages = [t for t in kernel.stages if t is not out and not isinstance(t.body, E.Load)]
    depth = max((len(t.axes) for t in stages if t in placed), default=0)
    axes = out.axes[:depth]
    if not depth or depth < len(out.axes) - 1:
        return []
    here = tuple(a.var for a in axes)
    return [
        t.name
        for t in stages
        if tuple(a.extent for a in t.axes) == tuple(a.extent for a in axes)
        and all(load.indices == here for load in reads if load.tensor is t)
        and readers(kernel, t) == [out]
    ]


def _with_kept(s: Schedule, kept: Sequence[str], context: Context) -> None:
    """Blocks of rows: first what is kept of each, in vectors along the rows, then the rows themselves."""
    (out,) = s.outputs
    lanes = context.lanes(s.kernel)
    axes = s.stages[out].tensor.axes
    depth = len(s.stages[kept[0]].tensor.axes)
    outer, within = [a.name for a in axes[:depth]], list[str]()
    wanted = KEPT_ROWS * lanes
    while len(outer) > 1 and size(axes[len(outer) - 1].extent) < wanted:
        wanted = max(1, wanted // size(axes[len(outer) - 1].extent))
        within.insert(0, outer.pop())
    outer[-1], row = s.split(out, outer[-1], wanted)
    within.insert(0, row)
    rows, vectors = product([a.extent for a in axes[:depth]]), -(-product([a.extent for a in axes[depth:]]) // lanes)
    gathered = [load for load in s.stages[out].tensor.reads() if any(i.expressions() for i in load.indices)]
    if depth < len(axes) or len(gathered) <= MOST_GATHERED:
        across = axes[-1].name if depth < len(axes) else within.pop()
        vector, lane = s.split(out, across, lanes)
        within += [vector, lane]
        s.vectorize(out, lane)
    s.reorder(out, *outer, *within)
    # About eight cycles for an element or vector at a computed position.
    place = make_tasks(s, out, outer, 8 * rows * vectors * len(gathered), context, outer[-1])
    for name in kept:
        s.compute_at(name, out, place, STACK)
        _, lane = s.split(name, s.stages[name].tensor.axes[-1].name, lanes)
        s.vectorize(name, lane)


def _loops(s: Schedule, out: str, context: Context, alone: bool) -> None:
    """Vectors along the last axis; blocks of the others as tasks."""
    axes = s.stages[out].tensor.axes
    lanes = context.lanes(s.kernel)
    if steps := choosing_axes(s, out):
        choose_apart(s, out, steps, lanes, context, alone)
        return
    if lanes > 1 and (across := _transposed(s, out, context)):
        _square_tiles(s, out, across, _square_lanes(s, out, context), context, alone)
        return
    last, width = axes[-1].name, size(axes[-1].extent)
    parts = lanes > 1 and _in_parts(s, out)
    if lanes > 1:
        lanes = _row_lanes(s, out, parts, context)
    if parts:
        s.partition(out, last)
    rows = product([a.extent for a in axes[:-1]])
    # Memory, not arithmetic, is the limit: about eight cycles per vector.
    cycles = 8 * rows * width // lanes
    if alone and rows > 1:
        make_tasks(s, out, [a.name for a in axes[:-1]], cycles, context)
    elif alone and not parts and shared(context.target, cycles):
        vectors = -(-width // lanes)
        block, last = s.split(out, last, -(-vectors // wanted_tasks(cycles)) * lanes)
        s.parallel(out, block)
    if lanes > 1 and width > 1:
        vector, lane = s.split(out, last, lanes)
        written_out = not parts and -(-width // lanes) <= MOST_VECTORS
        by_rule = written_out and _bent(s, out, context)
        if context.choose("unrolled", lambda: (True, False) if written_out else (), by_rule):
            s.unroll(out, vector)
        s.vectorize(out, lane)
    elif 1 < width <= 4:
        s.unroll(out, last)


def _row_lanes(s: Schedule, out: str, parts: bool, context: Context) -> int:
    """Lanes of a row whose elements lie side by side: those of the widest values that it is computed from, so that
    bytes fill registers, too, what integers are narrowed to among them; twice those of floats that are rounded to
    bytes; those of 32 bits where a row is less.

    Args:
        parts: whether the parts of the row ask for no position.
    """
    lanes, state = context.lanes(s.kernel), s.stages[out]
    last, body = state.tensor.axes[-1], expanded(s, state.body)
    conditions = (n for n in E.walk(body) if isinstance(n, E.Compare))
    asked = {id(n) for c in conditions if any(isinstance(n, E.IndexValue) for n in c.children()) for n in c.children()}
    bits = max((dtypes.bits(n.dtype) for n in E.walk(body) if not (parts and id(n) in asked)), default=32)
    wide = context.target.lanes(max(bits, dtypes.bits(state.tensor.dtype)))
    if context.target.interleaves and _only_narrows(body):
        wide = max(lanes, min(MOST_SQUARED, context.target.lanes(dtypes.bits(body.dtype))))
    if context.target.rounds_bytes and isinstance(state.body, E.Nearest):
        wide = 2 * lanes  # instructions narrow two vectors at once
    near = all(_is_near(load, last, context) for load in expanded_loads(s, state.body))
    return wide if near and wide > lanes and size(last.extent) >= wide else lanes


def _only_narrows(body: E.Expr) -> bool:
    """Whether integers are moved into fewer bits: several of their vectors make one, which is stored at once."""
    moved = isinstance(body, E.Cast) and isinstance(body.a, E.Load)
    return moved and dtypes.is_integer(body.dtype) and dtypes.is_integer(body.a.dtype)  # type: ignore[attr-defined]


def _is_near(load: E.Load, axis: Axis, context: Context) -> bool:
    """Whether what neighbouring iterations of an axis read is in few vectors."""
    step = stride_of(load, axis, context.strides)
    return abs(step) <= NEAR if step is not None else not any(i.expressions() for i in load.indices)


def _square_lanes(s: Schedule, out: str, context: Context) -> int:
    """Lanes of a square that is transposed in registers, and so its rows: those of the type that is moved, where that
    is narrow and vectors are interleaved; else those of 32 bits."""
    lanes, target = context.lanes(s.kernel), context.target
    narrow = min(value_lanes([expanded(s, s.stages[out].body)], target), MOST_SQUARED)
    return max(lanes, narrow) if target.interleaves else lanes


def choosing_axes(s: Schedule, out: str) -> dict[str, int]:
    """The axes, but for the last, whose position chooses among several values, and after how many steps the choice is
    the same again; none where that would be too many copies of the body."""
    axes = s.stages[out].tensor.axes
    found: dict[str, int] = {}
    for index in choices(s, out):
        for axis in (a for a in axes[:-1] if a in index.symbols()):
            if not axis.extent.is_const:
                return {}
            repeats = [atom.divisor for atom in index.atoms() if isinstance(atom, Mod) and atom.value == axis.var]
            step = repeats[0] if len(repeats) == 1 and index.symbols() == {axis} else size(axis.extent)
            found[axis.name] = lcm(found.get(axis.name, 1), min(step, size(axis.extent)))
    return found if 1 < prod(found.values()) <= MOST_COPIES else {}


def choices(s: Schedule, stage: str) -> list[Int]:
    """The positions that a stage compares with a number to choose among values, those of inlined stages included."""
    conditions = (n.condition for n in E.walk(expanded(s, s.stages[stage].body)) if isinstance(n, E.Select))
    equal = (c for c in conditions if isinstance(c, E.Compare) and c.op == "eq")
    return list(dict.fromkeys(c.a.index for c in equal if isinstance(c.a, E.IndexValue) and isinstance(c.b, E.Const)))


def choose_apart(s: Schedule, out: str, steps: Mapping[str, int], lanes: int, context: Context, alone: bool) -> None:
    """A body for every choice, one after the other within a vector of the last axis: what several of them need is
    computed once."""
    axes = s.stages[out].tensor.axes
    outer, inner = [], []
    for axis in axes[:-1]:
        step = steps.get(axis.name, 1)
        if step == size(axis.extent):
            inner.append(axis.name)
        elif step > 1:
            around, within = s.split(out, axis.name, step)
            outer.append(around)
            inner.append(within)
        else:
            outer.append(axis.name)
    vectors, lane = s.split(out, axes[-1].name, lanes)
    s.reorder(out, *outer, vectors, *inner, lane)
    if alone:
        # Every element is a few operations, and stored.
        cycles = 4 * product([a.extent for a in axes]) // lanes
        make_tasks(s, out, [*outer, vectors], cycles, context)
    for name in inner:
        s.unroll(out, name)
    if lanes > 1 and size(axes[-1].extent) > 1:
        s.vectorize(out, lane)


def _bent(s: Schedule, out: str, context: Context) -> bool:
    """Whether neighbouring elements along the last axis read elements whose distance varies: in each vector of a row
    that is written out, it is known."""
    state = s.stages[out]
    last = state.tensor.axes[-1]
    return any(
        stride_of(load, last, context.strides) is None
        for load in expanded_loads(s, state.body)
        if isinstance(load.tensor, Tensor)
    )


def _in_parts(s: Schedule, out: str) -> bool:
    """Whether the last axis falls into a few parts, each of which reads elements side by side or asks nothing."""
    state = s.stages[out]
    along = state.tensor.axes[-1]
    if not along.extent.is_const:
        return False
    ends = max((len(cuts(load, along, turns=True)) for load in expanded_loads(s, state.body)), default=0)
    return 2 < ends <= MOST_PARTS + 1


def _transposed(s: Schedule, out: str, context: Context) -> str:
    """The axis along which what is scattered along the last one lies side by side in memory; "" if there is none."""
    *others, last = s.stages[out].tensor.axes
    if size(last.extent) < 2:
        return ""
    for load in expanded_loads(s, s.stages[out].body):
        if stride_of(load, last, context.strides) in (0, 1):
            continue
        for axis in reversed(others):
            if stride_of(load, axis, context.strides) == 1 and size(axis.extent) > 1:
                return axis.name
    return ""


def _farther_apart(s: Schedule, out: str, across: str, context: Context) -> bool:
    """Whether the rows that are read lie farther apart than those that are written, and all sizes are known. Rows a
    power of two apart share few sets of the caches: it is theirs that have to be walked along."""
    tensor = s.stages[out].tensor
    if not all(a.extent.is_const for a in tensor.axes):
        return False
    written = context.strides.get(out) or dense_strides(tensor.shape)
    pitch = int(written[[a.name for a in tensor.axes].index(across)])
    steps = [stride_of(load, tensor.axes[-1], context.strides) for load in expanded_loads(s, s.stages[out].body)]
    return any(step is not None and step > pitch for step in steps)


def _square_tiles(s: Schedule, out: str, across: str, lanes: int, context: Context, alone: bool) -> None:
    """Squares of as many rows as a vector has lanes, which are transposed in registers: each row is loaded and stored
    whole."""
    *others, last = (a.name for a in s.stages[out].tensor.axes)
    outer, row = s.split(out, across, lanes)
    columns, lane = s.split(out, last, lanes)
    rows = [outer if name == across else name for name in others]
    order = [*rows, columns]
    tiles = -(-size(s.stages[out].tensor.axes[others.index(across)].extent) // lanes)
    block = max(divisors(tiles, IN_A_ROW)) if _farther_apart(s, out, across, context) else 1
    if s.stages[out].tensor.axes[others.index(across)].extent.is_const:
        block = context.choose("block", lambda: divisors(tiles, 4 * IN_A_ROW), block)
    if block > 1:
        blocks, within = s.split(out, outer, block)
        order = [*(blocks if name == outer else name for name in rows), columns, within]
    s.reorder(out, *order, row, lane)
    if alone:
        cycles = 8 * product([a.extent for a in s.stages[out].tensor.axes]) // lanes
        make_tasks(s, out, order, cycles, context)
    s.unroll(out, row)
    s.vectorize(out, lane)
