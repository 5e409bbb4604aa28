"""Long reductions that too few tasks share, in parts, and their sum (split-K, `te.split_sums`).

A product with one row, or a convolution of a small image, has few elements and long sums. Where its tasks are fewer
than a device has multiprocessors, most of those would wait. The sum of the parts is a second kernel, or what the last
of the tasks does that share a result. Which, and how many parts there are, is the least of an estimate: work and bytes
at the device's rates, by the share of multiprocessors that have a task in every wave, and what another launch takes, or
the last tasks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf

from sterna.errors import SternaError
from sterna.intrinsics import Intrinsic
from sterna.ir.graph import TensorType, Value
from sterna.loops.program import most
from sterna.passes.context import PassContext
from sterna.passes.kernels import CPU, Call, in_place
from sterna.passes.place import on_cpu
from sterna.passes.plan_kernels import propose_schedule
from sterna.passes.stages import Outline, Sequenced, call_bytes, call_multiply_adds
from sterna.schedule.schedule import Schedule
from sterna.schedule.strategies.operands import single_reduction
from sterna.targets.target import Target
from sterna.te.axis import Axis
from sterna.te.split_sums import shared_sum, split_sum
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
    """A kernel as two, and the two as one where that is better; `axis` and `count`: of the parts."""

    kernels: tuple[Kernel, Kernel]
    joined: Kernel | None
    axis: str
    count: int


def split_sums(sequenced: Sequenced, context: PassContext, placed: Callable[[Sequenced], Outline]) -> Sequenced:
    """The calls, those that pay in parts; what is on the CPU whatever it costs there stays whole.

    Args:
        placed: chooses where calls run. What is one kernel has to run on the device, so that it stays two where one of
            these would not.
    """
    whole = on_cpu(sequenced, context)
    made: dict[str, _Parts | None] = {}
    apart: dict[Call, tuple[Call, ...]] = {}
    for call in sequenced.sequence.calls:
        if call not in whole and call.key not in made:
            made[call.key] = _chosen(call, context)
        parts = None if call in whole else made[call.key]
        apart[call] = (call,) if parts is None else _apart(call, parts)
    found = replace(sequenced, sequence=sequenced.sequence.replaced(apart.__getitem__))
    if not any(parts is not None and parts.joined is not None for parts in made.values()):
        return found
    here = {value for call in placed(found).sequence.calls if call.place == CPU for value in call.outputs}

    def at_once(call: Call) -> tuple[Call, ...]:
        parts = None if call in whole else made[call.key]
        if parts is None or parts.joined is None or any(v in here for each in apart[call] for v in each.outputs):
            return apart[call]
        return (_joined(call, parts, parts.joined),)

    return replace(sequenced, sequence=sequenced.sequence.replaced(at_once))


def _chosen(call: Call, context: PassContext) -> _Parts | None:
    """The parts of a call's kernel; None where one kernel is better."""
    target, found = context.target, _reduction(call)
    schedule = _schedule(call, target) if found is not None else None
    assert target.threads is not None
    results = WAVES * target.threads.multiprocessors
    if found is None or schedule is None or (schedule.tasks or inf) >= results:
        return None
    kernel, stage, axis = found
    terms, whole = int(axis.extent), max(WHOLE, *(i.size("w") for i in _used(schedule) if i.tiles is not None), 1)
    candidates: dict[int, _Parts | None] = {1: None}
    costs = {1: _nanoseconds(call, target)}
    for parts in range(2, min(MOST_PARTS, terms // LEAST_TERMS) + 1):
        if terms % (parts * whole) == 0:
            two = _Parts(split_sum(kernel, stage, axis, parts), None, axis.name, parts)
            one = replace(two, joined=shared_sum(kernel, stage, axis, parts, results))
            cost, at_once = _of_two(call, two, target), _of_one(call, one, target)
            candidates[parts], costs[parts] = (one, at_once) if at_once < cost else (two, cost)
    best = min(costs, key=lambda n: costs[n])
    rule = best if costs[best] <= (1 - GAIN) * costs[1] else 1
    chosen = candidates[context.decide("parts", call.key, tuple(candidates), rule)]
    unproved = chosen is not None and chosen.joined is not None and not _is_proved(call, chosen, chosen.joined, context)
    return replace(chosen, joined=None) if chosen is not None and unproved else chosen


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


def _joined(call: Call, parts: _Parts, kernel: Kernel) -> Call:
    """A call as one, with memory for what its tasks share."""
    _, partial, arrivals = kernel.outputs
    between = Value(f"{call.name}:parts", TensorType(partial.dtype, partial.shape))
    counters = Value(f"{call.name}:arrivals", TensorType(arrivals.dtype, arrivals.shape))
    return replace(
        call,
        kernel=kernel,
        outputs=(*call.outputs, between, counters),
        counters=(counters,),
        in_place=(),
        key=f"{call.key}\n{kernel.name}: {parts.axis} in {parts.count}",
        on_device=True,
    )


def _is_proved(call: Call, parts: _Parts, kernel: Kernel, context: PassContext) -> bool:
    """Whether the last tasks are proved to read what those of the same result wrote."""
    joined = _joined(call, parts, kernel)
    try:
        lowered = context.programs.lowered(joined, propose_schedule(joined, context.target), context.target)
        context.programs.finished(joined, lowered, context.target)
    except SternaError:
        return False
    return True


# ---------------------------------------------------------------- the estimate
def _of_two(call: Call, parts: _Parts, target: Target) -> float:
    return sum(_nanoseconds(each, target) for each in _apart(call, parts))


def _of_one(call: Call, parts: _Parts, target: Target) -> float:
    """What the parts take, and then the last task of each result, which reads the others' from the cache."""
    threads, device = target.threads, target.device
    assert threads is not None
    assert device is not None
    assert parts.joined is not None
    joined = _joined(call, parts, parts.joined)
    takes = threads.last_tasks and len(joined.inputs) + len(joined.outputs) <= device.buffers
    schedule = _schedule(joined, target) if takes else None
    if schedule is None or not schedule.tasks or not any(s.last_of for s in schedule.stages.values()):
        return inf
    first, second = _apart(call, parts)
    read = call_bytes(second) / device.cache_bytes_per_ns / threads.busy(schedule.tasks // parts.count)
    return _nanoseconds(first, target) + device.latency_ns + read


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
