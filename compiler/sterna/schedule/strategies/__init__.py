"""Strategies: they propose the schedule of a kernel from its structure and the target's capabilities.

A strategy names no target and no operator: it looks at how the stages reduce and what they read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from weakref import WeakKeyDictionary

from sterna.choices import BY_RULE
from sterna.errors import SternaError
from sterna.schedule.schedule import Schedule
from sterna.schedule.strategies import (
    attention,
    blocks,
    contraction,
    dot,
    elementwise,
    group_recurrence,
    groups,
    instruction,
    parts,
    recurrence,
    rows,
    separable,
    stream,
    tile,
    window,
)
from sterna.schedule.strategies.analysis import Context, KnownWeights, compares_floats, scales_longs
from sterna.schedule.strategies.counts import negate_counts
from sterna.schedule.strategies.groups import SIMPLER
from sterna.schedule.strategies.weights import narrow_weights
from sterna.targets.features import widths
from sterna.te.tensor import Kernel

Family = Callable[[Kernel, Context], "Schedule | None"]

#: The value of the knob "family" that leaves it to the order of the families.
FIRST = "first"
#: The narrowest vectors that are chosen where a target has wider ones.
LEAST_BITS = 128

FAMILIES: tuple[Family, ...] = (
    group_recurrence.propose,
    recurrence.propose,
    groups.propose,
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
    floats = not context.target.compares_floats and compares_floats(kernel)
    if floats or (not context.target.long_vectors and scales_longs(kernel)):
        context = replace(context, target=replace(context.target, vector_bits=0))
    bits = context.target.vector_bits
    chosen = context.choose("vector_bits", lambda: _other_widths(context), bits)
    if chosen != bits:
        context = replace(context, target=replace(context.target, vector_bits=chosen))
    wanted = context.choose("family", lambda: _able(kernel, context)[1:], FIRST)
    schedule = _propose(kernel, context, wanted)
    negate_counts(schedule, context)
    narrow_weights(schedule, context)
    return schedule


def _other_widths(context: Context) -> list[int]:
    """Narrower vectors than the target's, and the wider ones that its features have, in bits: a description may know
    the processor badly. Where there are no vectors, that stays so."""
    bits = context.target.vector_bits
    narrower = [b for b in (bits // 2, bits // 4) if b >= LEAST_BITS]
    return [*narrower, *(b for b in widths(context.target) if 0 < bits < b)]


def _propose(kernel: Kernel, context: Context, wanted: str = FIRST) -> Schedule:
    """As the wanted family proposes, or, of equal right, the first that does."""
    for family in FAMILIES:
        if wanted in (FIRST, name_of(family)) and (schedule := family(kernel, context)) is not None:
            return schedule
    return rows.propose(kernel, context)


def _able(kernel: Kernel, context: Context) -> list[str]:
    """The families that have a schedule for a kernel, in order. A search asks thousands of times, of a few contexts."""
    context = replace(context, chooser=BY_RULE)
    known = _ABLE.setdefault(kernel, [])
    for asked, names in known:
        if asked == context:
            return names
    # Rows know nothing of a recurrence's steps: their loops could not be built.
    families = FAMILIES if kernel.scan is not None else (*FAMILIES, rows.propose)
    found = [name_of(family) for family in families if _proposes(family, kernel, context)]
    known.append((context, found))
    return found


#: What has been found of kernels, for as long as they live.
_ABLE: WeakKeyDictionary[Kernel, list[tuple[Context, list[str]]]] = WeakKeyDictionary()


def _proposes(family: Family, kernel: Kernel, context: Context) -> bool:
    try:
        return family(kernel, context) is not None
    except SternaError:
        return False  # a step that is illegal for what another family is there for


def name_of(family: Family) -> str:
    """What the knob "family" calls one."""
    return family.__module__.rpartition(".")[2]


__all__ = ["SIMPLER", "Context", "KnownWeights", "propose"]
