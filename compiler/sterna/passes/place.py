"""The choice of calls for the device, by what they are estimated to cost there and on the CPU, with the copies between.

Everything begins on the device, except what it cannot run and what the user keeps from it. A call moves to the CPU
where that makes the estimate smaller by at least what a copy takes: one that few threads can share, and what lies
between two such calls. Chains are made of what this leaves on the device, and stay there (`passes.chains`). What a
launch costs is not counted, because launches wait behind one another while the device works; nor are copies of the
model's inputs and outputs, because a user who names a device wants the model there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from fnmatch import fnmatchcase
from itertools import pairwise

from sterna.errors import Diagnostic, SternaError
from sterna.ir import dtypes
from sterna.ir.graph import Value
from sterna.ir.integer import Symbol
from sterna.ir.sizes import all_definitions, dimensions, symbols_of
from sterna.loops import program as P
from sterna.loops.math import expand_math
from sterna.passes import stay
from sterna.passes.context import PassContext
from sterna.passes.device_cost import on_device
from sterna.passes.kernels import CPU, Call
from sterna.passes.placement import Coherence, controlled
from sterna.passes.plan_kernels import is_open, proved_schedule
from sterna.passes.stages import Outline, Sequenced, call_bytes, call_multiply_adds
from sterna.targets.target import Device, Target
from sterna.te import expr as E
from sterna.te.expr import Expr
from sterna.te.layout import most_elements
from sterna.te.tensor import Kernel, constant_of
from sterna_runtime.advice import Advice, Option

#: Bytes that a core moves in a nanosecond, its cycles in one, and multiply-adds in one that no vectors help with.
_CPU_BYTES, _CPU_CYCLES, _CPU_SCALAR = 8.0, 3.0, 1.0
#: How often everything is looked at once more.
_ROUNDS = 4


def applies(context: PassContext) -> bool:
    return context.target.device is not None


def place(outline: Outline, context: PassContext, tried: bool = False) -> Outline:
    """The calls with their places, and the copies.

    Args:
        tried: kernels may still be joined to what `device_for` names.

    Raises:
        SternaError: E0203, `device_for` names what the model does not have or a place that there is not.
    """
    device = context.target.device
    assert device is not None
    sequence = outline.sequence
    coherence = Coherence(outline.graph, outline.views, sequence, outline.plan)
    fixed, stays = _fixed(outline, device, context, tried)
    costs = [(_on_cpu(call, context.host), on_device(call, context.target)) for call in sequence.calls]
    places = [fixed.get(n, device.kind) for n in range(len(sequence.calls))]
    ends = frozenset((*outline.graph.arguments, *outline.graph.results))
    total = _totals(costs, coherence, device, ends)
    places = _improved(places, fixed, costs, coherence, device, total)
    stays |= _estimated(places, fixed, costs, device, total)
    calls = tuple(
        replace(call, place=where, stay=stays.get(n))
        for n, (call, where) in enumerate(zip(sequence.calls, places, strict=True))
    )
    return replace(outline, sequence=replace(sequence, calls=calls, placement=coherence.placement(places)))


def on_cpu(sequenced: Sequenced, context: PassContext) -> Set[Call]:
    """The calls over known sizes that are on the CPU whatever anything costs."""
    calls = sequenced.sequence.calls
    inside = controlled(sequenced.sequence)
    gives = _giving_sizes(sequenced)
    return {call for n, call in enumerate(calls) if n in inside or gives(call) or not may_stay(call, context)}


def _fixed(
    outline: Outline, device: Device, context: PassContext, tried: bool
) -> tuple[dict[int, str], dict[int, stay.Stay]]:
    """The calls whose place is not chosen by cost, and why those on the CPU are there."""
    calls = outline.sequence.calls
    _check_names(calls, device, context, tried)
    wanted = {n: own for n, call in enumerate(calls) if (own := _wanted(call, context)) is not None}
    stays = {n: stay.asked(pattern) for n, (pattern, where) in wanted.items() if where == CPU}
    keep = {n: device.kind for n, call in enumerate(calls) if call.on_device}
    stays = {n: why for n, why in stays.items() if n not in keep}
    for n, why in _unable(outline, device, context):
        stays[n] = why
    return {**{n: where for n, (_, where) in wanted.items()}, **keep, **dict.fromkeys(stays, CPU)}, stays


def _check_names(calls: Sequence[Call], device: Device, context: PassContext, tried: bool) -> None:
    """Raises E0203 for what `device_for` names and there is not; arguments as of `place`."""
    problems = []
    for pattern, where in context.options.device_for:
        if where not in ("cpu", device.kind):
            title = f'there is no device "{where}"'
            fix = Advice(Option("device_for", {pattern: "cpu"}), ", or ", Option("device_for", {pattern: device.kind}))
            problems.append(Diagnostic("E0203", title, (), fix))
        elif not any(_called(call, pattern) for call in calls):
            title = f'no node or kernel of the model is called "{pattern}"'
            problems.append(Diagnostic("E0203", title, (), "`sterna inspect` lists them; * stands for any text"))
    if problems and not tried:
        raise SternaError(problems)


def _unable(outline: Outline, device: Device, context: PassContext) -> Iterator[tuple[int, stay.Stay]]:
    """The calls that cannot be on the device, and why."""
    given, inside = _giving_sizes(outline), controlled(outline.sequence)
    for n, call in enumerate(outline.sequence.calls):
        if n in inside:
            yield n, stay.CONTROLLED
        elif sizes := given(call):
            yield n, stay.gives(sizes)
        elif why := _lacking(call, device) or _unproved(call, outline, context):
            yield n, why


def _giving_sizes(sequenced: Sequenced) -> Callable[[Call], list[Symbol]]:
    """Tells which sizes of the graph a call computes."""
    storage = sequenced.views.storage
    given = {storage(node.output).root: size for size, node in all_definitions(sequenced.graph).items()}
    return lambda call: [given[root] for value in call.outputs if (root := storage(value).root) in given]


def may_stay(call: Call, context: PassContext) -> bool:
    """Whether neither the device nor the user sends a kernel, by itself, to the CPU."""
    device = context.target.device
    wanted = _wanted(call, context)
    return device is not None and _lacking(call, device) is None and (wanted is None or wanted[1] != CPU)


def _wanted(call: Call, context: PassContext) -> tuple[str, str] | None:
    """The place that `device_for` names for a call, the last one that fits, after the text that fits; None where none
    does."""
    rows = ((pattern, where) for pattern, where in reversed(context.options.device_for) if _called(call, pattern))
    return next(((pattern, CPU if where == "cpu" else where) for pattern, where in rows), None)


def _called(call: Call, pattern: str) -> bool:
    return any(fnmatchcase(name, pattern) for name in (call.name, call.kernel.name, *call.sources))


def _unproved(call: Call, outline: Outline, context: PassContext) -> stay.Stay | None:
    """Why the loops of a kernel over open sizes are not shown to be right on the device; those of others always are."""
    if not is_open(call):
        return None
    try:
        proved_schedule(call, context.target, dimensions(outline.graph), context.programs)
    except SternaError as problem:
        return stay.unproved(symbols_of([value.shape for value in (*call.inputs, *call.outputs)]), problem)
    return None


def _lacking(call: Call, device: Device) -> stay.Stay | None:
    """Why the device does not take a kernel: of its buffers, or of the types that it computes with."""
    buffers = len(call.inputs) + len(call.outputs)
    if buffers > device.buffers:
        return stay.crowded(buffers, device.buffers)
    types = set(device.lacks) and set(device.lacks) & set(_types(call.kernel))
    return stay.lacking(types) if types else None


def _types(kernel: Kernel | P.Function) -> Iterator[str]:
    """The element types of a kernel's tensors and values, those by which elementary functions are computed included."""
    if isinstance(kernel, Kernel):
        yield from (t.dtype for t in (*kernel.inputs, *kernel.params, *kernel.stages))
        values = [_with_constants(stage.body) for stage in kernel.stages if stage.body is not None]
    else:
        yield from (b.dtype for b in (*kernel.inputs, *kernel.params, *kernel.outputs))
        statements = list(P.walk(kernel.body))
        yield from (s.buffer.dtype for s in statements if isinstance(s, P.Alloc))
        values = [value for s in statements if (value := P.value_of(s)) is not None]
    yield from (part.dtype for value in values for part in E.walk(expand_math(value, doubles=False)))


def _with_constants(body: Expr) -> Expr:
    """With the constants that stages hold in their places, where schedules put them: a power by one may be products."""
    return E.rewrite(body, lambda node: constant_of(node) if isinstance(node, E.Load) else None)


def _on_cpu(call: Call, host: Target) -> float:
    """Nanoseconds there, on one core."""
    work = P.most(call_multiply_adds(call)) / (_CPU_CYCLES * host.rate * host.lanes(32))
    moved = call_bytes(call)
    return max(work, moved / (_CPU_BYTES if isinstance(call.kernel, Kernel) else _CPU_SCALAR))


def _totals(
    costs: Sequence[tuple[float, float]], coherence: Coherence, device: Device, ends: Set[Value]
) -> Callable[[Sequence[str]], float]:
    """What calls take in places that are tried, with copies; `ends`: whose copies do not count."""

    def total(tried: Sequence[str]) -> float:
        copies = sum(
            device.copy_ns + most_elements(t.value.shape) * dtypes.size(t.value.dtype) / device.copied_bytes_per_ns
            for t in coherence.placement(tried).transfers
            if t.value not in ends
        )
        return copies + sum(cost[where != CPU] for cost, where in zip(costs, tried, strict=True))

    return total


def _estimated(
    places: Sequence[str],
    fixed: Mapping[int, str],
    costs: Sequence[tuple[float, float]],
    device: Device,
    total: Callable[[Sequence[str]], float],
) -> dict[int, stay.Stay]:
    """Why calls are on the CPU that the estimate has moved there: what each would take on the device, all others being
    where they are."""
    moved = [n for n, where in enumerate(places) if where == CPU and n not in fixed]
    here = total(places) if moved else 0.0
    found = {}
    for n in moved:
        there = total([device.kind if k == n else where for k, where in enumerate(places)])
        found[n] = stay.estimated(costs[n], costs[n][0] + there - here)
    return found


def _improved(
    places: list[str],
    fixed: Mapping[int, str],
    costs: Sequence[tuple[float, float]],
    coherence: Coherence,
    device: Device,
    total: Callable[[Sequence[str]], float],
) -> list[str]:
    """Better places, by moving one call at a time, or all between two that are on the CPU."""
    best = total(places)
    for _ in range(_ROUNDS):
        before = best
        for group in _candidates(places, fixed, costs, coherence):
            if any(places[n] == CPU for n in group):
                continue
            tried = list(places)
            for n in group:
                tried[n] = CPU
            if (cost := total(tried)) < best - device.copy_ns:
                places, best = tried, cost
        if best == before:
            break
    return places


def _candidates(
    places: Sequence[str], fixed: Mapping[int, str], costs: Sequence[tuple[float, float]], coherence: Coherence
) -> Iterable[tuple[int, ...]]:
    """Calls that might be better on the CPU: faster there, beside one that is there, or all between two of those."""
    there = [n for n, where in enumerate(places) if where == CPU]
    near = set().union(*(coherence.touching(n) for n in there)) if there else set()
    for n, (cpu, own) in enumerate(costs):
        if n not in fixed and (cpu < own or not near.isdisjoint(coherence.touching(n))):
            yield (n,)
    for first, last in pairwise(there):
        between = tuple(range(first + 1, last))
        if between and not any(n in fixed for n in between):
            yield between
