"""Kernels whose tasks are run by groups of threads, as on a GPU: the elements of a kernel, its sums, and tiles of
products whose operands the threads of a task bring into their shared memory together.

Other families have a schedule for what is not here: one thread then runs each task.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from sterna.choices import Choice
from sterna.ir import dtypes
from sterna.ir.memory import Memory
from sterna.schedule.schedule import Schedule
from sterna.schedule.strategies import (
    fragment_plan,
    group_attention,
    group_chain,
    group_fragments,
    group_parts,
    group_rows,
    group_tiles,
    group_transposes,
    group_windows,
)
from sterna.schedule.strategies.analysis import (
    Context,
    at_least,
    expanded_loads,
    fused,
    inline_elementwise,
    product,
    reductions,
    stages_apart,
    stored_apart,
    stride_of,
)
from sterna.schedule.strategies.group_neighbours import (
    bring_in_order,
    neighbours,
)
from sterna.schedule.strategies.group_row_threads import SHORT_ROW, ShortRow, short_row
from sterna.schedule.strategies.group_sums import in_register
from sterna.schedule.strategies.operands import single_reduction
from sterna.te.expr import Reduce
from sterna.te.tensor import Kernel, Tensor

#: The value of the knob "form" that leaves it to the order of the forms.
FIRST = "first"
#: What asks less of the proofs over open sizes than what the rules say, in the order in which it is tried where that is
#: not proved: products without fragments, then without tiles, and threads that have one element each.
SIMPLER: tuple[Choice, ...] = ({"form": "tiles"}, {"form": "elements"}, {"form": "elements", "neighbours": 1})
#: Threads of a task that may be tried where each has elements of its own.
THREADS = (32, 64, 128, 256, 512)
#: Terms of a reduction from which on several threads share it, and results below which they do.
LONG_SUM, FEW_SUMS = 64, 4096
#: The share of the shared memory of a task that its rows take.
SHARE = 0.5
#: Terms from which on they also do with more results, as long as a multiprocessor has fewer of them than these: it
#: waits for memory where few threads ask.
VERY_LONG_SUM, ASKING = 256, 1024


def propose(kernel: Kernel, context: Context) -> Schedule | None:
    """The schedule of a kernel for groups of threads, else None; also where tasks have one thread."""
    if context.target.threads is None or kernel.scan is not None:
        return None
    if not all(out.axes for out in kernel.outputs):
        return None
    shared = next((m for m in context.target.memories if m.reach == "block" and m.loadable), None)
    if not reductions(kernel):
        crossed = None if shared is None else group_transposes.propose(kernel, context, shared)
        return crossed or _elements(kernel, context)
    if len(kernel.outputs) > 1:
        joined = group_parts.propose(kernel, context, lambda parts: propose(parts, context))
        return joined or (None if shared is None else group_rows.propose(kernel, context, shared))
    stage = single_reduction(kernel)
    if stage is None or not isinstance(stage.body, Reduce) or not _read_in_place(kernel, stage):
        if shared is None:
            return None
        return (
            group_chain.propose(kernel, context)
            or group_attention.propose(kernel, context, shared)
            or group_rows.propose(kernel, context, shared)
        )
    if shared is None:
        return _elements(kernel, context, stage.name)
    forms: dict[str, Callable[[], Schedule | None]] = {
        "fragments": partial(group_fragments.propose, kernel, stage, context, shared),
        "tiles": partial(group_tiles.propose, kernel, stage, context, shared),
        "windows": partial(group_windows.propose, kernel, stage, context, shared),
        "rows": partial(group_rows.propose, kernel, context, shared),
    }
    wanted = context.choose("form", lambda: (*forms, "elements"), FIRST)
    pays: dict[str, Callable[[], bool]] = {
        "fragments": partial(fragment_plan.pays, kernel, stage, context),
        "windows": lambda: not _is_long(kernel, stage),
        "rows": partial(_is_for_rows, kernel, stage, context),
    }
    for name, form in forms.items():
        if wanted not in (FIRST, name) or (wanted == FIRST and name in pays and not pays[name]()):
            continue
        found = form()
        if found is not None and (name != "rows" or stage.body.index is None or _exchanges(found)):
            return found
    return _elements(kernel, context, stage.name, shared)


def _is_for_rows(kernel: Kernel, stage: Tensor, context: Context) -> bool:
    """Whether the threads of a task share each sum: there are few sums, or neighbours in memory are terms of one."""
    assert isinstance(stage.body, Reduce)
    assert context.target.threads is not None
    terms, elements = (product([a.extent for a in axes]) for axes in (stage.body.axes, kernel.outputs[0].axes))
    few = max(FEW_SUMS, ASKING * context.target.threads.multiprocessors if terms >= VERY_LONG_SUM else 0)
    return (terms >= LONG_SUM and elements < few) or (terms >= SHORT_ROW and _is_of_rows(kernel, stage, context))


def _is_long(kernel: Kernel, stage: Tensor) -> bool:
    """Whether there are few sums of many terms, which one thread alone would take long for."""
    assert isinstance(stage.body, Reduce)
    terms, elements = (product([a.extent for a in axes]) for axes in (stage.body.axes, kernel.outputs[0].axes))
    return terms >= LONG_SUM and elements < FEW_SUMS


def _exchanges(s: Schedule) -> bool:
    return any(step.primitive == "across" for step in s.steps)


def _read_in_place(kernel: Kernel, stage: Tensor) -> bool:
    """Whether every element of a reduction is read at its own place, through any stages between."""
    s = Schedule(kernel)
    inline_elementwise(s)
    out = kernel.outputs[0]
    if stage is out:
        return True
    own = tuple(a.var for a in out.axes)
    loads = [load for load in expanded_loads(s, s.stages[out.name].body) if load.tensor is stage]
    return all(load.indices == own for load in loads)


def _is_of_rows(kernel: Kernel, stage: Tensor, context: Context) -> bool:
    """Whether a reduction is over rows of the greatest tensor that it reads: neighbours in memory are its terms, and
    what a thread with a row of its own reads lies far from what the thread beside it does."""
    s = Schedule(kernel)
    inline_elementwise(s)
    body = stage.body
    assert isinstance(body, Reduce)
    read = [(load, load.tensor) for load in expanded_loads(s, body.a) if isinstance(load.tensor, Tensor)]
    if not read or not body.axes or not stage.axes or not all(a.extent.is_const for a in stage.all_axes):
        return False
    greatest, _ = max(read, key=lambda each: product(each[1].shape))
    apart, beside = (stride_of(greatest, axis, context.strides) for axis in (stage.axes[-1], body.axes[-1]))
    return beside == 1 and apart is not None and apart >= int(body.axes[-1].extent)


def _schedule(kernel: Kernel, context: Context) -> Schedule:
    return Schedule(kernel, context.target.known_intrinsics, context.target.memories)


def _elements(kernel: Kernel, context: Context, reduced: str = "", shared: Memory | None = None) -> Schedule:
    """A thread for every element of the outputs, and its sum in a register if there is one; of short rows, by way of
    shared memory."""
    assert context.target.threads is not None
    most_of_any = context.target.threads.most
    s = _schedule(kernel, context)
    acc = stored_apart(s, kernel.tensor(reduced))[0] if reduced else ""
    inline_elementwise(s, also=stages_apart(s))
    elements = max(product([a.extent for a in out.axes]) for out in kernel.outputs)
    most = min(context.target.threads.preferred, at_least(elements))
    for out in s.outputs:
        *axes, last = (a.name for a in s.stages[out].tensor.axes)
        many, threads = neighbours(s, out, most, context, acc)
        threads = context.choose("threads", lambda: (n for n in THREADS if n <= most_of_any), threads)
        if many > 1 and axes:
            # The last axis by itself, so that it is seen where a sum for each lane lies.
            last, lane = s.split(out, last, many)
            block, thread = s.split(out, fused(s, out, [*axes, last]), threads, overhang=True)
        else:
            block, thread = s.split(out, fused(s, out, [*axes, last]), threads * many, overhang=True)
            if many > 1:
                thread, lane = s.split(out, thread, many)
        if many > 1:
            s.vectorize(out, lane)
        s.parallel(out, block)
        s.bind(out, thread, "thread.x")
        if acc:
            row = short_row(s, acc, context)
            in_register(s, acc, out, thread, many)
            if row is not None and shared is not None and many == 1:
                _bring_rows(s, row, block, threads, shared)
    return s


def _bring_rows(s: Schedule, row: ShortRow, block: str, threads: int, shared: Memory) -> None:
    """Lets the threads of a task bring the rows that they reduce, side by side."""
    (out,) = s.outputs
    if threads * (row.terms + row.padding[0]) * dtypes.size(row.dtype) > SHARE * shared.bytes:
        return
    local = s.cache_read(row.tensor, row.reader)
    bring_in_order(s, local, out, block, shared, threads)
    if row.padding[0]:
        s.pad_rows(local, *row.padding)
