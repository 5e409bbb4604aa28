"""Recurrences whose steps a group of threads computes together.

Every stage that is kept is a nest of its own, whose elements the threads share. Of a step's products each thread adds
up one after the other in a register, from the state that all of them read in shared memory and from weights that
neighbours read side by side. Threads wait for one another between nests where the pass over barriers says so.
"""

from __future__ import annotations

from collections.abc import Sequence

from sterna.ir import dtypes
from sterna.ir.memory import REGISTER
from sterna.schedule.schedule import Schedule
from sterna.schedule.strategies.analysis import Context, at_least, contraction_operands, fused, product, size
from sterna.schedule.strategies.recurrence import kept_stages
from sterna.targets.target import Target
from sterna.te.axis import Axis
from sterna.te.expr import Reduce
from sterna.te.scan import parts
from sterna.te.tensor import Kernel, Tensor


def threads_of(kernel: Kernel, target: Target) -> int:
    """How many threads share the steps of a kernel; 0 where it is no recurrence that a group of them can compute: one
    with open sizes, with a stage of one number for each step, or with more between its nests than shared memory
    holds."""
    scan, threads = kernel.scan, target.threads
    shared = next((m for m in target.memories if m.reach == "block" and m.loadable), None)
    if scan is None or threads is None or shared is None:
        return 0
    s = Schedule(kernel)
    before, steps, after = _parts(kernel)
    kept = kept_stages(s, scan, steps)
    # The first axis of a step is time.
    own = {t: t.axes[1:] if t in steps else t.axes for t in (*before, *steps, *after) if t.name in kept}
    if not all(axes and all(a.extent.is_const for a in axes) for axes in own.values()):
        return 0
    states = {carry.next.name for carry in scan.carries}
    elements = {t: product([a.extent for a in axes]) for t, axes in own.items()}
    stored = sum(
        _rounded((2 if t in steps else 1) * n * dtypes.size(t.dtype), shared.boundary)
        for t, n in elements.items()
        if t.name not in s.outputs or t.name in states
    )
    if stored > shared.bytes:
        return 0
    return min(threads.most, at_least(max(n for t, n in elements.items() if t in steps)))


def _rounded(nbytes: int, alignment: int) -> int:
    return -(-nbytes // alignment) * alignment


def propose(kernel: Kernel, context: Context) -> Schedule | None:
    """The schedule of a kernel with a recurrence for a group of threads, else None."""
    group = threads_of(kernel, context.target)
    if not group or kernel.scan is None:
        return None
    s = Schedule(kernel, context.target.known_intrinsics, context.target.memories)
    before, steps, after = _parts(kernel)
    kept = kept_stages(s, kernel.scan, steps)
    for t in kernel.stages:
        if t.name not in kept:
            s.inline(t.name)
    packed: set[str] = set()
    for t in (*before, *steps, *after):
        if t.name in kept:
            _share(s, t, t.axes[t in steps :], group, packed)
    return s


def _parts(kernel: Kernel) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
    """The stages before the recurrence, of its steps, and after it."""
    assert kernel.scan is not None
    return parts(kernel.scan, [(t, t.body) for t in kernel.stages if t.body is not None])


def _share(s: Schedule, t: Tensor, own: Sequence[Axis], group: int, packed: set[str]) -> None:
    """Gives the elements of a stage along these axes to the threads of the group."""
    acc = s.cache_write(t.name) if isinstance(s.stages[t.name].body, Reduce) else ""
    _, thread = s.split(t.name, fused(s, t.name, [a.name for a in own]), group)
    s.bind(t.name, thread, "thread.x")
    if acc:
        s.compute_at(acc, t.name, thread, REGISTER)
        _pack(s, t, packed)


def _pack(s: Schedule, t: Tensor, packed: set[str]) -> None:
    """Stores the weights of a product so that what threads side by side read lies side by side."""
    for load in contraction_operands(t) or ():
        tensor = load.tensor
        at = next((d for d, i in enumerate(load.indices) if i == t.axes[-1].var), None)
        known = tensor.name not in packed and any(p is tensor for p in s.kernel.params)
        if not known or at is None or size(t.axes[-1].extent) == 1:
            continue
        rest = [(d, "") for d in range(len(load.indices)) if d != at]
        s.pack(tensor.name, {}, [*rest, (at, "")])
        packed.add(tensor.name)
