"""Strategies: they propose the schedule of a kernel from its structure and the target's capabilities.

A strategy names no target and no operator: it looks at how the stages reduce and what they read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sterna.schedule.schedule import Schedule
from sterna.schedule.strategies import (
    attention,
    blocks,
    contraction,
    dot,
    elementwise,
    instruction,
    parts,
    recurrence,
    rows,
    separable,
    stream,
    tile,
    window,
)
from sterna.schedule.strategies.analysis import Context, compares_floats
from sterna.schedule.strategies.weights import narrow_weights
from sterna.te.tensor import Kernel

FAMILIES: tuple[Callable[[Kernel, Context], Schedule | None], ...] = (
    recurrence.propose,
    instruction.propose,
    tile.propose,
    dot.propose,
    blocks.propose,
    stream.propose,
    parts.propose,
    contraction.propose,
    window.propose,
    separable.propose,
    attention.propose,
    elementwise.propose,
)


def propose(kernel: Kernel, context: Context) -> Schedule:
    """A schedule for the kernel: from the first family that has one for it.

    Order matters: a recurrence holds contractions, a contraction is also a reduction, and everything can be computed
    row by row.
    """
    if not context.target.compares_floats and compares_floats(kernel):
        context = replace(context, target=replace(context.target, vector_bits=0))
    schedule = _propose(kernel, context)
    narrow_weights(schedule, context)
    return schedule


def _propose(kernel: Kernel, context: Context) -> Schedule:
    for family in FAMILIES:
        schedule = family(kernel, context)
        if schedule is not None:
            return schedule
    return rows.propose(kernel, context)


__all__ = ["Context", "propose"]
