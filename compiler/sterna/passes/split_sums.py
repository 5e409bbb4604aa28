"""Long reductions that too few tasks share, as two kernels each: parts, and their sum (split-K, `te.split_sums`).

A product with one row, or a convolution of a small image, has few elements and long sums. Where its tasks are fewer
than a device has multiprocessors, most of those would wait. How many parts there are is the least of an estimate: work
and bytes at the device's rates, by the share of multiprocessors that have a task in every wave, and what another launch
takes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf

from sterna.errors import SternaError
from sterna.intrinsics import Intrinsic
from sterna.ir.graph import TensorType, Value
from sterna.loops.program import most
from sterna.passes.context import PassContext
from sterna.passes.decisions import Decide
from sterna.passes.kernels import Call, in_place
from sterna.passes.plan_kernels import propose_schedule
from sterna.passes.stages import Sequenced, call_bytes, call_multiply_adds
from sterna.schedule.schedule import Schedule
from sterna.schedule.strategies.operands import single_reduction
from sterna.targets.target import Target
from sterna.te.axis import Axis
from sterna.te.split_sums import split_sum
from sterna.te.tensor import Kernel, Tensor

#: Parts of a reduction, at most, and terms along its longest axis that a part has, at least.
MOST_PARTS, LEAST_TERMS = 32, 16
#: Parts come out even for vectors where their terms are a multiple of this; for fragments, of what these add up.
WHOLE = 8
#: Waves of tasks from which on a device is busy whatever the last wave leaves over.
WAVES = 2
#: Of the estimate for one kernel, what two have to save.
GAIN = 0.15


def applies(context: PassContext) -> bool:
    return context.target.threads is not None and context.target.device is not None


@dataclass(frozen=True)
class _Parts:
    """A kernel as two; `axis` and `count`: of the parts."""

    kernels: tuple[Kernel, Kernel]
    axis: str
    count: int


def split_sums(sequenced: Sequenced, context: PassContext) -> Sequenced:
    """The calls, those that pay in two."""
    made: dict[str, _Parts | None] = {}

    def parts_of(call: Call) -> tuple[Call, ...]:
        if call.key not in made:
            made[call.key] = _chosen(call, context.target, context.decide)
        parts = made[call.key]
        return (call,) if parts is None else _apart(call, parts)

    return replace(sequenced, sequence=sequenced.sequence.replaced(parts_of))


def _chosen(call: Call, target: Target, decide: Decide) -> _Parts | None:
    """The parts of a call's kernel; None where one kernel is better."""
    found = _reduction(call)
    schedule = _schedule(call, target) if found is not None else None
    assert target.threads is not None
    if found is None or schedule is None or (schedule.tasks or inf) >= WAVES * target.threads.multiprocessors:
        return None
    kernel, stage, axis = found
    terms, whole = int(axis.extent), max(WHOLE, *(i.size("w") for i in _used(schedule) if i.tiles is not None), 1)
    candidates: dict[int, _Parts | None] = {1: None}
    for parts in range(2, min(MOST_PARTS, terms // LEAST_TERMS) + 1):
        if terms % (parts * whole) == 0:
            candidates[parts] = _Parts(split_sum(kernel, stage, axis, parts), axis.name, parts)
    costs = {
        n: sum(_nanoseconds(each, target) for each in ((call,) if parts is None else _apart(call, parts)))
        for n, parts in candidates.items()
    }
    best = min(costs, key=lambda n: costs[n])
    rule = best if costs[best] <= (1 - GAIN) * costs[1] else 1
    return candidates[decide("parts", call.key, tuple(candidates), rule)]


def _reduction(call: Call) -> tuple[Kernel, Tensor, Axis] | None:
    """The only reduction of a kernel, a plain one over known sizes, and its longest axis."""
    kernel = call.kernel
    if not isinstance(kernel, Kernel) or kernel.scan is not None or any(t.must_hold for t in kernel.stages):
        return None
    stage = single_reduction(kernel)
    if stage is None or stage.reduction is None or stage.reduction.index is not None or not stage.axes:
        return None
    sizes = (n for t in (*kernel.inputs, *kernel.params, *kernel.stages) for n in t.shape)
    if not stage.reduction.axes or not all(n.is_const for n in (*sizes, *(a.extent for a in stage.all_axes))):
        return None
    return kernel, stage, max(stage.reduction.axes, key=lambda a: int(a.extent))


def _apart(call: Call, parts: _Parts) -> tuple[Call, ...]:
    """A call as two, with what they hand on."""
    first, second = parts.kernels
    (partial,) = first.outputs
    between = Value(f"{call.name}:parts", TensorType(partial.dtype, partial.shape))
    assert isinstance(call.kernel, Kernel)
    inputs = dict(zip((t.name for t in call.kernel.inputs), call.inputs, strict=True)) | {partial.name: between}
    constants = dict(zip((t.name for t in call.kernel.params), call.constants, strict=True))

    def of(kernel: Kernel, name: str, outputs: tuple[Value, ...]) -> Call:
        tensors = {t.name for t in (*kernel.inputs, *kernel.outputs)}
        return replace(
            call,
            name=name,
            kernel=kernel,
            inputs=tuple(inputs[t.name] for t in kernel.inputs),
            outputs=outputs,
            constants=tuple(constants[t.name] for t in kernel.params),
            layouts={tensor: layout for tensor, layout in call.layouts.items() if tensor in tensors},
            in_place=in_place(kernel),
            key=f"{call.key}\n{kernel.name}: {parts.axis} in {parts.count}",
        )

    return of(first, between.name, (between,)), of(second, call.name, call.outputs)


# ---------------------------------------------------------------- the estimate
def _nanoseconds(call: Call, target: Target) -> float:
    """What a call takes: its work or its bytes, whichever is longer, as if every wave of tasks took the same time."""
    threads, device, schedule = target.threads, target.device, _schedule(call, target)
    assert threads is not None
    assert device is not None
    if schedule is None or not schedule.tasks:
        return inf
    work = most(call_multiply_adds(call)) / min(map(device.rate, _used(schedule)), default=device.rate())
    moved = call_bytes(call) / device.bytes_per_ns
    return max(work, moved) / threads.busy(schedule.tasks) + device.launch_ns


def _used(schedule: Schedule) -> list[Intrinsic]:
    return [stage.tensorized.intrinsic for stage in schedule.stages.values() if stage.tensorized is not None]


def _schedule(call: Call, target: Target) -> Schedule | None:
    """What strategies propose for a call's kernel; None where they find nothing."""
    try:
        return propose_schedule(call, target)
    except SternaError:
        return None
