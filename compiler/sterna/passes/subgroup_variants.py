"""Kernels whose threads exchange values in subgroups, where a target's devices may have these.

Not all of its devices do, or they have narrower ones. So a kernel that would use exchanges keeps its program without
them, and has one more for every width of `optional_subgroups`, which is scheduled, lowered, proved and printed like any
other. All of them read the same operands and the same weights, so that what loads a bundle takes the one that its
device can run, and nothing else of the bundle knows.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import chain

from sterna.choices import BY_RULE
from sterna.errors import SternaError
from sterna.ir.graph import halves_of
from sterna.ir.integer import Symbol
from sterna.ir.sizes import dimensions
from sterna.loops import program as P
from sterna.passes.context import PassContext
from sterna.passes.kernels import CPU, Call
from sterna.passes.plan_kernels import exact_weights, fingerprint, finish_call, known_weights, propose_schedule
from sterna.passes.stages import Finished, Planned
from sterna.schedule.schedule import Schedule
from sterna.targets.target import Target
from sterna.te.tensor import Kernel

#: What is said of a program that cannot be had, or not be proved: there is one without exchanges.
_REFUSED = frozenset(("E0302", "E0303", "E0304", "E0305", "E0306"))


def applies(context: PassContext) -> bool:
    """Whether devices of the target may have subgroups."""
    return context.target.device is not None and bool(_widths(context.target))


def exchange(finished: Finished, context: PassContext) -> Finished:
    """The kernels of the device with their programs for subgroups."""
    halves = frozenset() if context.options.widened else halves_of(finished.graph)
    dims, first = dimensions(finished.graph), dict[int, Call]()
    for call, k in zip(finished.sequence.calls, finished.kernel_of, strict=True):
        first.setdefault(k, call)
    kernels = list(finished.kernels)
    for k, kernel in enumerate(kernels):
        if kernel.place != CPU:
            kernels[k] = replace(kernel, exchanging=exchanging(first[k], kernel, context, halves, dims))
    return replace(finished, kernels=tuple(kernels))


def exchanging(
    call: Call, planned: Planned, context: PassContext, halves: Collection[str], dims: Sequence[Symbol]
) -> tuple[tuple[int, P.Function], ...]:
    """What `Planned.exchanging` holds.

    Args:
        planned: the kernel without exchanges.
        halves: types that weights are stored in where they lose nothing; dims: of the graph.
    """
    target, found = context.target_of(call), dict[int, P.Function]()
    widths = _widths(target)
    if not widths or not planned.function.has_threads or not _reduces(call) or _is_tuned(call, context, halves):
        return ()
    for width in widths:
        wide = target.with_subgroup(width)
        name = f"{planned.function.name}_subgroup{width}"
        try:
            schedule = _proposed(call, wide, context, halves)
            if schedule is not None and all(step.primitive != "across" for step in schedule.steps):
                continue  # to finish a program takes longest
            lowered = context.programs.lowered(call, schedule, wide)
            if P.exchanged(lowered.body) == 1:
                continue
            function = finish_call(call, lowered, wide, name, dims)
        except SternaError as problem:
            if not _REFUSED.issuperset(problem.codes):
                raise
            continue
        # Of short rows fewer threads than a subgroup has exchange what they have.
        least = P.exchanged(function.body)
        waits_less = _barriers(function) < _barriers(planned.function)
        if least > 1 and waits_less and _takes_its_place(function, schedule, planned):
            found.setdefault(least, function)
    return tuple(found.items())


def _barriers(function: P.Function) -> int:
    return sum(isinstance(s, P.Barrier) for s in P.walk(function.body))


def _widths(target: Target) -> tuple[int, ...]:
    """The widths of subgroups that its devices may have, where they are not known to have any."""
    threads = target.threads
    return () if threads is None or threads.subgroup > 1 else threads.optional_subgroups


def _reduces(call: Call) -> bool:
    """Whether threads of a kernel could have anything to exchange."""
    if not isinstance(call.kernel, Kernel):
        return call.shared is not None
    return any(stage.reduction is not None for stage in call.kernel.stages)


def _is_tuned(call: Call, context: PassContext, halves: Collection[str]) -> bool:
    """Whether the kernel was chosen by measurements, which then stand for the device as it is."""
    tuning, target = context.options.tuning, context.target_of(call)
    if tuning is None or not isinstance(call.kernel, Kernel):
        return False
    own = fingerprint(call, context.options.stored_weights, exact_weights(call, halves), known_weights(call, target))
    return tuning.chooser(own, target) is not BY_RULE


def _proposed(call: Call, target: Target, context: PassContext, halves: Collection[str]) -> Schedule | None:
    stored, known = context.options.stored_weights, known_weights(call, target)
    return propose_schedule(call, target, stored, exact_weights(call, halves), known)


def _takes_its_place(function: P.Function, schedule: Schedule | None, planned: Planned) -> bool:
    """Whether a program is called as the planned one is: with the same operands, with weights that are stored alike,
    and with no scratch."""
    other = planned.function
    if function.scratch_bytes or other.scratch_bytes or function.dims != other.dims:
        return False
    pairs = zip(
        chain(function.inputs, function.params, function.outputs),
        chain(other.inputs, other.params, other.outputs),
        strict=False,
    )
    alike = all(_place(a) == _place(b) for a, b in pairs) and len(function.params) == len(other.params)
    return alike and _stored(schedule) == _stored(planned.schedule)


def _place(buffer: P.Buffer) -> tuple[object, ...]:
    return buffer.scope, buffer.slot, buffer.dtype, buffer.elements


def _stored(schedule: Schedule | None) -> list[str]:
    """The steps of a schedule that say how weights are stored."""
    if schedule is None:
        return []
    own = {*schedule.packings, *schedule.narrowed, *schedule.replaced, *schedule.derived}
    return [str(step) for step in schedule.steps if own.intersection((step.stage, *map(str, step.arguments)))]
