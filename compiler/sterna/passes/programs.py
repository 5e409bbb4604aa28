"""The loop programs of kernels, each made once: places of calls are tried with the programs that are kept after all.

To prove the loops of a kernel over open sizes right takes up to seconds. It is asked for when a place is chosen, once
more with chains, and when kernels are finished.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sterna.errors import SternaError
from sterna.loops.checks import with_checks
from sterna.loops.finish import Arithmetic, finish
from sterna.loops.lanes import in_lanes
from sterna.loops.lower import lower
from sterna.loops.program import Function
from sterna.passes.kernels import Call
from sterna.schedule.schedule import Schedule
from sterna.targets.features import splits_longs, without_roots
from sterna.targets.target import Target


class Programs:
    """Those of one model; of what was refused the errors."""

    def __init__(self) -> None:
        self._lowered: dict[tuple[Any, ...], tuple[Target, Function]] = {}
        # With what is known by its identity, so that nothing else has it meanwhile.
        self._finished: dict[tuple[Any, ...], tuple[Target, Function, Function | SternaError]] = {}

    def lowered(self, call: Call, schedule: Schedule | None, target: Target) -> Function:
        """A kernel's loops before vectors, unrolling and registers: as a schedule says, or, for one that is a loop
        program already, as its own form for groups of threads."""
        steps = None if schedule is None else tuple(map(str, schedule.steps))
        key = (call.key, call.kernel.name, steps, id(target))
        if key not in self._lowered:
            self._lowered[key] = target, lower_call(call, schedule, target)
        return self._lowered[key][1]

    def plain(self, call: Call, target: Target) -> Function:
        """The loops of a kernel that is a loop program, without groups of threads."""
        assert isinstance(call.kernel, Function)
        key = (call.key, call.kernel.name, "plain", id(target))
        if key not in self._lowered:
            self._lowered[key] = target, in_lanes(call.kernel, target.lanes)
        return self._lowered[key][1]

    def finished(self, call: Call, lowered: Function, target: Target) -> Function:
        """A kernel's loop program as generators render it.

        Args:
            lowered: its loops, as one of the functions above gave them, or what a pass has made of those.

        Raises:
            SternaError: E0305 to E0309, as of `loops.finish`.
        """
        key = (id(lowered), call.in_place, id(target))
        if key not in self._finished:
            try:
                self._finished[key] = target, lowered, finish_lowered(call, lowered, target)
            except SternaError as problem:
                self._finished[key] = target, lowered, problem
        made = self._finished[key][2]
        if isinstance(made, SternaError):
            raise made
        return made


def lower_call(call: Call, schedule: Schedule | None, target: Target) -> Function:
    """A kernel's loops before vectors, unrolling and registers."""
    if isinstance(call.kernel, Function):
        return in_lanes(call.program(target.threads, target.memories), target.lanes)
    assert schedule is not None
    return lower(schedule, call.layouts, target.alignment)


def finish_lowered(call: Call, lowered: Function, target: Target) -> Function:
    """A kernel's loop program as generators render it, of its loops."""
    if call.in_place:
        lowered = replace(
            lowered,
            inputs=tuple(replace(b, may_alias=True) if n in call.in_place else b for n, b in enumerate(lowered.inputs)),
            outputs=tuple(replace(b, may_alias=True) for b in lowered.outputs),
        )
    return with_checks(finish(lowered, arithmetic(target)), call.kernel)


def arithmetic(target: Target) -> Arithmetic:
    """What a target has instructions for. Where groups of threads run kernels, float64 is slow or missing; so it is
    where an FPU has none."""
    rootless = without_roots(target)
    doubles = target.threads is None and "float64" not in rootless
    return Arithmetic(target.rounded, rootless, doubles, target.compares_floats, splits_longs(target))
