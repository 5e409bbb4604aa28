"""Long sums in parts that are one launch: of the tasks that share a tile of the result, the last one adds up the parts
and computes what follows (split-K with a counter for each tile, as in NVIDIA's CUTLASS).

The parts have the schedule that they have alone. The result has their tiles, and its threads their elements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sterna.ir.memory import REGISTER
from sterna.schedule.decisions import Step
from sterna.schedule.saved import apply
from sterna.schedule.schedule import Schedule
from sterna.schedule.strategies.analysis import Context, expanded_loads, inline_elementwise
from sterna.schedule.strategies.tasks import extent_of
from sterna.te.expr import Reduce
from sterna.te.split_sums import SharedSum, shared_sum_of
from sterna.te.tensor import Kernel

#: The steps about the loops of an output.
_OF_LOOPS = ("split", "fuse", "reorder", "parallel", "bind", "vectorize", "unroll")


def propose(kernel: Kernel, context: Context, alone: Callable[[Kernel], Schedule | None]) -> Schedule | None:
    """The schedule of a sum in parts and its total, else None.

    Args:
        alone: what is proposed for the parts by themselves.
    """
    found = shared_sum_of(kernel)
    made = alone(found.alone) if found is not None else None
    if found is None or made is None:
        return None
    s = apply(kernel, made.steps, context.target.known_intrinsics, context.target.memories)
    out, parts = s.outputs[0], s.stages[found.parts.name]
    task = next((leaf for leaf in parts.leaves if parts.annotations.get(leaf) == "parallel"), None)
    # Tasks with the same tile are as far apart as there are tiles only where the part is the first digit.
    if task is None or task == "part" or parts.first_of(task) != "part":
        return None
    total = s.cache_write(out) if found.total.name == out else found.total.name
    placed = [name for name, stage in s.stages.items() if stage.attach is not None or stage.inlined]
    inline_elementwise(s, placed)
    if not _in_place(s, out, total, placed):
        return None
    _as_the_parts(s, out, found, [step for step in made.steps if step.stage == found.parts.name])
    *_, last = s.stages[out].leaves
    if s.stages[out].annotations.get(last) != "vectorized" and _is_beside(s, out, last):
        # A kernel of its own has neighbouring elements in neighbouring threads.
        return None
    _added_up(s, out, total)
    s.by_last_tasks(out, found.parts.name, found.arrivals.name)
    return s


def _is_beside(s: Schedule, out: str, axis: str) -> bool:
    """Whether a loop of a thread goes over elements that lie side by side, one access each."""
    state = s.stages[out]
    return state.annotations.get(axis) in (None, "unrolled") and extent_of(state, axis) != 1


def _in_place(s: Schedule, out: str, total: str, placed: Sequence[str]) -> bool:
    """Whether every element of the result reads the sum at its own place, and nothing that only the parts have."""
    own = tuple(a.var for a in s.stages[out].tensor.axes)
    loads = expanded_loads(s, s.stages[out].body)
    computed = [name for name in placed if not s.stages[name].inlined]
    return all(load.indices == own for load in loads if load.tensor.name == total) and not any(
        load.tensor.name in computed for load in loads
    )


def _as_the_parts(s: Schedule, out: str, found: SharedSum, steps: Sequence[Step]) -> None:
    """Gives the result the loops of the parts, without that over parts itself."""
    result = s.stages[out].tensor
    names: dict[str, str | None] = {a.name: b.name for a, b in zip(found.parts.axes[1:], result.axes, strict=True)}
    names[found.parts.axes[0].name] = None
    for step in steps:
        if step.primitive not in _OF_LOOPS:
            continue
        first, *rest = step.arguments
        own = names[first]
        if step.primitive == "split":
            outer, inner = (None, None) if own is None else s.split(out, own, *rest)
            names |= {f"{first}.o": outer, f"{first}.i": inner}
        elif step.primitive == "fuse":
            other = names[rest[0]]
            both = s.fuse(out, own, other, *rest[1:]) if own is not None and other is not None else own or other
            names[f"{first}+{rest[0]}"] = both
        elif step.primitive == "reorder":
            s.reorder(out, *(name for axis in step.arguments if (name := names[axis]) is not None))
        elif own is not None:
            getattr(s, step.primitive)(out, own, *rest)


def _added_up(s: Schedule, out: str, total: str) -> None:
    """The sum of the parts of each element, or of those of a vector, in registers."""
    state, body = s.stages[total], s.stages[total].body
    assert isinstance(body, Reduce)
    *outer, last = s.stages[out].leaves
    if s.stages[out].annotations.get(last) != "vectorized":
        s.compute_at(total, out, last, REGISTER)
        return
    lane = state.tensor.axes[-1].name
    s.reorder(total, *(leaf for leaf in state.leaves if leaf != lane), lane)
    s.vectorize(total, lane)
    s.compute_at(total, out, outer[-1], REGISTER)
