"""Everything else that reduces: softmax, normalization, means over any axes, arg-reductions; and the default for all.

All stages that must be kept are computed per row: the axes of the output that every reduction shares. A reduction over
a contiguous axis keeps one partial result per lane (rfactor) and combines the lanes at the end.
"""

from __future__ import annotations

from collections.abc import Sequence

from sterna.ir import dtypes
from sterna.ir.memory import REGISTER, SCRATCH, STACK
from sterna.schedule.schedule import Schedule
from sterna.schedule.strategies.analysis import (
    Context,
    expanded_loads,
    inline_elementwise,
    partial_sums,
    product,
    reductions,
    results_in_vectors,
    row_axes,
    size,
    stages_needed,
    stride_of,
    value_lanes,
    worth_keeping,
)
from sterna.schedule.strategies.tasks import make_tasks
from sterna.te.axis import Axis
from sterna.te.expr import Reduce
from sterna.te.tensor import Kernel, Tensor

#: Elements of a row that is kept on the stack, at most.
_STACKED = 256
#: Sums that a long one is cut into where it is not added up in vectors: each is off by an eighth of its roundings
#: (`partial_sums` says why), and none waits for the one before it.
SUMS = 8
#: Terms of a sum from which on it is cut into those.
_MANY = 64
#: Lanes of the narrowest vectors that a short row is reduced in, unless the target has only narrower ones.
_LEAST_LANES = 4


def propose(kernel: Kernel, context: Context) -> Schedule:
    """A schedule that computes the kernel row by row."""
    s = Schedule(kernel)
    lanes = _lanes(kernel, context)
    moved: dict[str, str] = {}
    for out in list(s.outputs):
        if isinstance(s.stages[out].body, Reduce):
            moved[out] = s.cache_write(out)
    by_rule = worth_keeping(kernel, s)
    kept = [t.name for t in _between(kernel, s) if context.choose(f"keep_{t.name}", yes_or_no, t.name in by_rule)]
    inline_elementwise(s, kept)
    for out in s.outputs:
        _output(s, out, kept, context, lanes)
    return s


def _lanes(kernel: Kernel, context: Context) -> int:
    """Those of bytes and 16-bit numbers where a kernel finds extrema of long rows of them; else of 32 bits."""
    lanes, found = context.lanes(kernel), reductions(kernel)
    if lanes == 1 or any(t.reduction is None or t.reduction.combiner not in ("max", "min") for t in found):
        return lanes
    narrow = value_lanes([t.body for t in kernel.stages if t.body is not None], context.target)
    return max(lanes, narrow) if all(size(t.all_axes[-1].extent) >= 2 * narrow for t in found) else lanes


def _between(kernel: Kernel, s: Schedule) -> list[Tensor]:
    """Element-wise stages that are no output."""
    return [t for t in kernel.stages if t.name not in s.outputs and not isinstance(t.body, Reduce)]


def yes_or_no() -> tuple[bool, bool]:
    return (True, False)


def _output(s: Schedule, out: str, kept: list[str], context: Context, lanes: int) -> None:
    state = s.stages[out]
    placed = stages_needed(s, out)
    if not placed:
        if state.leaves and lanes > 1 and size(state.tensor.axes[-1].extent) > 1:
            _, lane = s.split(out, state.tensor.axes[-1].name, lanes)
            s.vectorize(out, lane)
        return
    rows, rest = row_axes(s, out, placed)
    # Where the reductions go over an axis before the last, neighbouring rows lie side by side: a vector holds one
    # element of each of them.
    contiguous = bool(rows) and rows[-1] is state.tensor.axes[-1] and _lanes_along(s, placed, rows[-1], context)
    outer = [a.name for a in rows]
    columns = [a.name for a in rest]
    inner: list[str] = []
    if contiguous and lanes > 1 and size(rows[-1].extent) > 1:
        outer[-1], lane = s.split(out, rows[-1].name, lanes)
        inner = [lane]
    elif columns and lanes > 1 and size(rest[-1].extent) > 1:
        columns[-1], lane = s.split(out, rest[-1].name, lanes)
        inner = [lane]
    if not outer:
        # Nothing is outside the reductions: the row is the whole output.
        whole, within = s.split(out, columns[0], 1 << 30)
        columns[0] = within
        outer = [whole]
    s.reorder(out, *outer, *columns, *inner)
    place = outer[-1]
    work = sum(product([a.extent for a in t.all_axes]) for t in s.kernel.stages)
    # Softmax, normalization and the like are left for this family: about eight operations per element and stage.
    cycles = 8 * context.cycles(s.kernel, work)
    if len(s.outputs) == 1 and rows:
        place = make_tasks(s, out, outer, cycles, context, place)
    for axis in inner:
        s.vectorize(out, axis)
    beside = lanes if contiguous else 1
    row = product([a.extent for a in rest]) * beside if rest else beside
    again = _read_in_reductions(s)
    for name in placed:
        _place(s, name, out, place, context, lanes, contiguous, row, name in again)


def place_rows(s: Schedule, stage: str, needed: Sequence[str], context: Context, lanes: int) -> None:
    """Computes a stage row by row, and the stages that its rows need at the start of each."""
    *rows, last = s.stages[stage].tensor.axes
    _, lane = s.split(stage, last.name, lanes)
    s.vectorize(stage, lane)
    again = _read_in_reductions(s)
    for name in needed:
        place = rows[-1].name
        _place(s, name, stage, place, context, lanes, contiguous=False, row=size(last.extent), again=name in again)


def _lanes_along(s: Schedule, placed: list[str], axis: Axis, context: Context) -> bool:
    """Whether the reductions read contiguously along their last spatial axis."""
    for name in placed:
        state = s.stages[name]
        if not isinstance(state.body, Reduce):
            continue
        if state.body.index is not None or not state.tensor.axes:
            return False
        last = state.tensor.axes[-1]
        steps = [
            stride_of(load, last, context.strides)
            for load in expanded_loads(s, state.body)
            if isinstance(load.tensor, Tensor)
        ]
        if 1 not in steps or any(step not in (0, 1) for step in steps):
            return False
    return True


def _place(
    s: Schedule,
    name: str,
    out: str,
    axis: str,
    context: Context,
    lanes: int,
    contiguous: bool,
    row: int,
    again: bool,
) -> None:
    """Computes a stage below an axis of the output.

    Args:
        row: how many elements it has there if it is no reduction; again: whether another reduction combines them.
    """
    state = s.stages[name]
    body = state.body
    spatial = [a.name for a in state.tensor.axes]
    if not isinstance(body, Reduce):
        s.compute_at(name, out, axis, SCRATCH if row > _STACKED else STACK)
        if lanes > 1 and spatial and size(state.tensor.axes[-1].extent) > 1:
            _, lane = s.split(name, spatial[-1], lanes)
            s.vectorize(name, lane)
        return
    if again:
        # Registers have no positions that a loop could count through.
        s.compute_at(name, out, axis, SCRATCH)
        return
    if contiguous and lanes > 1:
        sums, summed = partial_sums(body, context.target.vector_registers, 1)
        if sums > 1:
            _, part = s.split(name, summed, sums)
            partial = s.rfactor(name, part, outermost=True)
            s.compute_at(partial, out, axis, REGISTER)
            results_in_vectors(s, partial, spatial[-1], lanes)
        s.compute_at(name, out, axis, REGISTER)
        results_in_vectors(s, name, spatial[-1], lanes)
        return
    last = body.axes[-1] if body.axes else None
    steps = (
        [stride_of(load, last, context.strides) for load in expanded_loads(s, body) if isinstance(load.tensor, Tensor)]
        if last is not None
        else []
    )
    # A short row is reduced in narrower vectors: one element after the other, each would wait for the one before it.
    while last is not None and lanes > _LEAST_LANES and size(last.extent) < 2 * lanes:
        lanes //= 2
    if (
        last is not None
        and lanes > 1
        and body.index is None
        and size(last.extent) >= 2 * lanes
        and 1 in steps
        and all(x in (0, 1) for x in steps)
        and body.combiner in ("sum", "max", "min", "prod")
    ):
        sums = 4 if size(last.extent) >= 8 * lanes else 1
        most = size(last.extent) // lanes
        sums = context.choose("sums", lambda: (n for n in (1, 2, 4, 8) if n <= most), sums)
        several = sums > 1
        keep_lanes(s, name, last.name, lanes * sums, out, axis, lanes)
        # Whole vectors are combined first, then halves: lane after lane, the combination would take longer than most
        # rows.
        width = lanes if several else lanes // 2
        while width > 1:
            keep_lanes(s, name, "lane", width, out, axis, width, of_registers=True)
            width //= 2
        s.compute_at(name, out, axis, REGISTER)
        for leaf in list(s.stages[name].leaves):
            s.unroll(name, leaf)
        return
    if lanes == 1 and last is not None and many_terms(body, body.axes[-1:]):
        keep_lanes(s, name, last.name, SUMS, out, axis, lanes)
        spatial = list(s.stages[name].leaves)
    s.compute_at(name, out, axis, REGISTER)
    for leaf in spatial:
        s.unroll(name, leaf)


def many_terms(reduction: Reduce, axes: Sequence[Axis]) -> bool:
    """Whether a reduction is a sum of floats, which depends on the order of its terms, that is long along some axes."""
    summed = reduction.combiner == "sum" and reduction.index is None and dtypes.is_float(reduction.dtype)
    return summed and product([a.extent for a in axes]) >= _MANY


def _read_in_reductions(s: Schedule) -> set[str]:
    """The stages whose elements reductions combine."""
    return {
        load.tensor.name
        for state in s.stages.values()
        if isinstance(state.body, Reduce)
        for load in expanded_loads(s, state.body)
        if any(axis in i.symbols() for i in load.indices for axis in state.body.axes)
    }


def keep_lanes(
    s: Schedule, name: str, reduced: str, width: int, out: str, place: str, lanes: int, of_registers: bool = False
) -> None:
    """Keeps `width` partial results of a reduction, in vectors of so many lanes.

    Args:
        of_registers: it reduces what registers hold, which have no index: its loop is written out.
    """
    short = of_registers or size(next(a.extent for a in s.stages[name].axes if a.name == reduced)) <= 4 * lanes
    _, inner = s.split(name, reduced, width)
    partial = s.rfactor(name, inner)
    s.compute_at(partial, out, place, REGISTER)
    lane = s.split(partial, "lane", lanes)[1] if lanes > 1 else ""
    loops = [x for x in s.stages[partial].leaves if x in s.stages[partial].reduction_leaves]
    s.reorder(partial, *loops, *[x for x in s.stages[partial].leaves if x not in loops])
    for leaf in s.stages[partial].leaves:
        if leaf != lane and (leaf not in loops or short):
            s.unroll(partial, leaf)
    if lane:
        s.vectorize(partial, lane)
