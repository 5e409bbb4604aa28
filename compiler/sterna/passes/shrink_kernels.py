"""Smaller code for firmware, for a few more instructions: kernels that differ only in sizes run one code, which is
given the sizes, and those that take little of a run have loops in place of code that is written out.

Where every size is a constant, offsets are parts of instructions, and neighbouring places are reached from one
register. A size that is an argument takes a register or an instruction of its own wherever it is used. So what is
changed is chosen by bytes that are saved per instruction that is added, as long as these stay below a share of the
model's instructions (`passes.code_savings`).

    forms      each kernel as it was planned; and, of those that take little of a run, in tiles of fewer registers
    general    the program of kernels that share, and their arguments           loops.generalize
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sterna.ir.graph import halves_of
from sterna.loops.effort import BYTES, effort
from sterna.loops.generalize import generalize
from sterna.passes.code_savings import Form, choose_forms
from sterna.passes.context import PassContext
from sterna.passes.plan_kernels import exact_weights, known_weights, propose_schedule, realize
from sterna.passes.stages import Finished, Planned
from sterna.targets.target import Target
from sterna.te.tensor import Kernel

#: How much of a model's instructions may be added, by what code is to be.
MOST_ADDED = {"fast": 0.055, "small": 0.1, "smallest": 1.0}
#: Of a model's instructions, how much a kernel takes at most that is looked at in other forms, and how many bytes of
#: code it takes at least.
_SMALL_SHARE, _LEAST_CODE = 0.05, 250
#: Registers and written out products of tiles; what a kernel takes at most of a model's instructions for the second,
#: which has no instructions for products of bytes.
_FEW, _FEWEST, _FEWEST_SHARE = (4, 4), (2, 2), 0.005


def applies(context: PassContext) -> bool:
    """Whether code lies in the flash of a small machine."""
    return context.target.static


def shrink_kernels(finished: Finished, context: PassContext) -> Finished:
    """The same kernels, in other forms where that saves flash, and with one program for several."""
    target = context.target
    runs = [finished.kernel_of.count(n) for n in range(len(finished.kernels))]
    forms = [
        Form(n, planned, effort(planned.function, target.vector_bits)) for n, planned in enumerate(finished.kernels)
    ]
    total = sum(form.effort.instructions * runs[form.kernel] for form in forms)
    # Other forms read weights where they lie, which fetches are for; and what was tuned stays.
    if target.code == "fast" and target.flash is None and context.options.tuning is None:
        for form in tuple(forms):
            share = form.effort.instructions * runs[form.kernel] / max(total, 1)
            if share <= _SMALL_SHARE and form.effort.written * BYTES >= _LEAST_CODE:
                forms += _smaller(form, share, finished, context)
    kernels = list(finished.kernels)
    chosen = choose_forms(forms, runs, target, MOST_ADDED[target.code] * total)
    for form in chosen.alone:
        kernels[form.kernel] = form.planned
    for sharing in chosen.sharing:
        general = generalize([form.planned.function for form in sharing])
        for form, arguments in zip(sharing, general.arguments, strict=True):
            kernels[form.kernel] = replace(form.planned, general=general.function, arguments=arguments)
    return replace(finished, kernels=tuple(kernels))


def _smaller(form: Form, share: float, finished: Finished, context: PassContext) -> Iterator[Form]:
    """A kernel in tiles of fewer registers."""
    call = next(c for c, k in zip(finished.sequence.calls, finished.kernel_of, strict=True) if k == form.kernel)
    if not isinstance(call.kernel, Kernel) or form.planned.schedule is None:
        return
    # What is known of weights holds for all calls of a kernel as it was asked for the target.
    exact = exact_weights(call, frozenset() if context.options.widened else halves_of(finished.graph))
    known = known_weights(call, context.target)
    seen = [form.planned.schedule.steps]
    for target in _lesser(context.target, share):
        schedule = propose_schedule(call, target, context.options.stored_weights, exact, known)
        if schedule is None or schedule.steps in seen:
            continue
        seen.append(schedule.steps)
        planned: Planned = realize(call, schedule, target, form.planned.function.name)
        yield Form(form.kernel, planned, effort(planned.function, target.vector_bits))


def _lesser(target: Target, share: float) -> Iterator[Target]:
    yield target.in_fewer_registers(*_FEW)
    if share <= _FEWEST_SHARE:
        yield replace(target.in_fewer_registers(*_FEWEST), int_dot=())
