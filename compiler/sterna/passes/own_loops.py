"""Loops of a variant's own over the weights of the target: for processors with fewer registers.

Of tiles that fill 32 registers, compilers keep a part in memory where there are 16, and every step moves it to and fro.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sterna.ir.graph import halves_of
from sterna.ir.sizes import dimensions
from sterna.loops.program import Function
from sterna.passes.context import PassContext
from sterna.passes.kernels import CPU, Call
from sterna.passes.plan_kernels import exact_weights, known_weights, realize
from sterna.passes.stages import Planned, Written
from sterna.schedule.schedule import Schedule
from sterna.schedule.strategies import Context, propose
from sterna.targets.target import Target
from sterna.te.tensor import Kernel


def own_loops(written: Written, target: Target, context: PassContext) -> Sequence[Planned]:
    """The kernels as a variant runs them: by schedules for it, where it has fewer registers than the target, or than
    what runs beside its device, and they read the weights as they lie. One plan of memory serves both, so scratch is no
    more; one graph, unless the target says that each has its own, so tasks are as many."""
    first = context.host
    if target.vector_registers >= first.vector_registers or target.vector_bits != first.vector_bits:
        return written.kernels
    halves = frozenset() if context.options.widened else halves_of(written.graph)
    firsts = {k: call for call, k in reversed(list(zip(written.sequence.calls, written.kernel_of, strict=True)))}
    dims = dimensions(written.graph)
    found: list[Planned] = []
    for n, kernel in enumerate(written.kernels):
        if kernel.place != CPU:
            found.append(kernel)
            continue
        call = firsts[n]
        exact, known = exact_weights(call, halves), known_weights(call, first)
        given = Context(target, {}, context.options.stored_weights, exact, known)
        schedule = _schedule(call, kernel.schedule, given)
        own = None if schedule is None else realize(call, schedule, target, kernel.function.name, dims)
        serves = own is not None and _serves(own.function, kernel.function, first.own_graphs)
        found.append(own if own is not None and serves else kernel)
    return found


def _schedule(call: Call, shared: Schedule | None, given: Context) -> Schedule | None:
    """The variant's schedule, if it reads the constants as the shared one does."""
    if shared is None or not isinstance(call.kernel, Kernel):
        return None
    panels = {name: packing.factors[0][1][0] for name, packing in shared.packings.items() if packing.factors}
    strides = {name: layout.strides for name, layout in call.layouts.items()}
    own = propose(call.kernel, replace(given, strides=strides, panels=panels))
    return own if _stored(own) == _stored(shared) else None


def _stored(schedule: Schedule) -> tuple[object, ...]:
    """In which form every constant is stored."""
    packed = {name: (packing.factors, packing.order) for name, packing in schedule.packings.items()}
    narrowed = {name: tensor.dtype for name, tensor in schedule.narrowed.items()}
    return packed, narrowed, sorted(schedule.replaced), sorted(schedule.derived)


def _serves(own: Function, shared: Function, apart: bool) -> bool:
    """Whether a kernel can stand for another one: constants in the same places, no more scratch, and the same tasks,
    unless graphs are apart."""
    places = [[(b.slot, b.elements, b.dtype) for b in f.params] for f in (own, shared)]
    return (
        (apart or own.n_tasks == shared.n_tasks)
        and own.scratch_bytes <= shared.scratch_bytes
        and own.has_barriers == shared.has_barriers
        and places[0] == places[1]
    )
