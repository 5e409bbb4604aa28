"""The kernels of a model, one by one: what the tuner chooses for, and a bundle of one alone to measure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from io import BytesIO

from sterna.choices import BY_RULE, Chooser
from sterna.codegen.generators import KernelSet, module, source
from sterna.compiled import Compiled, Library
from sterna.ir.graph import Graph, Value, halves_of, tensor_type
from sterna.libraries import build_library
from sterna.loops.program import Function
from sterna.options import Options
from sterna.passes.context import context_of
from sterna.passes.kernels import CPU, Call
from sterna.passes.linearize import CallSequence
from sterna.passes.memory_plan import plan_memory
from sterna.passes.pack import pack_params
from sterna.passes.placement import with_transfers
from sterna.passes.plan_kernels import exact_weights, fingerprint, finish_call, known_weights, propose_schedule
from sterna.passes.programs import lower_call
from sterna.passes.stages import Outline, Planned, call_multiply_adds
from sterna.passes.views import Views
from sterna.pipeline import walk
from sterna.schedule.schedule import Schedule
from sterna.schedule.strategies import KnownWeights
from sterna.te.tensor import Kernel


@dataclass(frozen=True, eq=False)
class Task:
    """A kernel to tune.

    Args:
        kernel: its fingerprint; name: for people; calls: how often a model calls it.
        call: the first of them, as if its tensors lay densely.
        exact, known, weights: as `plan_kernels.propose_schedule` has them.
    """

    kernel: str
    name: str
    calls: int
    call: Call
    exact: tuple[tuple[str, str], ...]
    known: KnownWeights
    options: Options

    def schedule(self, chooser: Chooser = BY_RULE) -> Schedule:
        """What the strategies propose."""
        stored = self.options.stored_weights
        found = propose_schedule(self.call, self.options.target, stored, dict(self.exact), self.known, chooser)
        assert found is not None
        return found

    @property
    def multiply_adds(self) -> int:
        """Of one call."""
        return int(call_multiply_adds(self.call))


def tasks_of(graph: Graph, options: Options) -> tuple[list[Task], list[str]]:
    """The kernels of a model that strategies schedule, and the names of those that cannot be measured alone: their
    sizes are only known when the model runs. Of a model for a device, those that are there."""
    outline = walk(graph, context_of(options), "group-channels")
    assert isinstance(outline, Outline)
    halves = frozenset() if options.widened else halves_of(outline.graph)
    found: dict[str, Task] = {}
    left: list[str] = []
    place = CPU if options.target.device is None else options.target.device.kind
    for call in outline.sequence.calls:
        if not isinstance(call.kernel, Kernel) or call.place != place:
            continue
        if not _is_static(call.kernel):
            left.append(call.kernel.name)
            continue
        exact, known = exact_weights(call, halves), known_weights(call, options.target)
        own = fingerprint(call, options.stored_weights, exact, known)
        if own in found:
            found[own] = replace(found[own], calls=found[own].calls + 1)
            continue
        alone = replace(call, layouts={}, in_place=())
        name = call.sources[0] if call.sources else call.kernel.name
        found[own] = Task(own, name, 1, alone, tuple(exact.items()), known, replace(options, tuning=None))
    return list(found.values()), left


def _is_static(kernel: Kernel) -> bool:
    tensors = (*kernel.inputs, *kernel.params, *kernel.outputs)
    return all(n.is_const for t in tensors for n in t.shape) and all(
        a.extent.is_const for t in kernel.stages for a in t.all_axes
    )


def lowered(task: Task, schedule: Schedule) -> Function:
    """A task's loops, before vectors, unrolling and registers."""
    return lower_call(task.call, schedule, task.options.target)


def alone(task: Task, schedule: Schedule) -> Compiled:
    """A bundle's contents of that kernel alone.

    Raises:
        SternaError: the schedule leads to no loops, or the toolchain failed.
    """
    kernel, options = task.call.kernel, task.options
    assert isinstance(kernel, Kernel)
    values = {t: Value(t.name, tensor_type(t.dtype, t.shape)) for t in (*kernel.inputs, *kernel.outputs)}
    inputs, outputs = tuple(values[t] for t in kernel.inputs), tuple(values[t] for t in kernel.outputs)
    counters = tuple(v for v, old in zip(outputs, task.call.outputs, strict=True) if old in task.call.counters)
    call = replace(task.call, inputs=inputs, outputs=outputs, counters=counters)
    function = finish_call(call, lowered(task, schedule), options.target, "k0")
    kept = tuple(v for v in outputs if v not in counters)
    return _compiled(Graph("kernel", inputs, kept, ()), call, Planned(schedule, function, call.place), options.alone)


def _compiled(graph: Graph, call: Call, kernel: Planned, options: Options) -> Compiled:
    target, functions, comments = options.target, [kernel.function], [["kernel"]]
    views, contents = Views(), BytesIO()
    plan = plan_memory(graph, [call], views)
    if target.static:
        plan = plan.with_scratch([kernel.function.scratch_bytes], target.tensor_memories)
    params_at = pack_params([call], [kernel], [0], contents, target.alignment)
    libraries: Sequence[Library] = ()
    if target.library:
        data = build_library(functions, comments, "kernel", options)
        libraries = (Library(target.library, target, data, (kernel,)),)
    kernels = KernelSet("kernel", functions, comments)
    there = target.device is not None
    return Compiled(
        graph=graph,
        options=options,
        model="kernel",
        views=views,
        calls=(call,),
        kernels=(kernel,),
        kernel_of=(0,),
        plan=plan,
        params=contents.getvalue(),
        params_at=params_at,
        states_at=(),
        # What has a library is run, not read.
        source="" if libraries or there else source(kernels, target, ()),
        module=module(kernels, target) if there else "",
        placement=with_transfers(graph, views, CallSequence((call,)), plan).placement,
        libraries=tuple(libraries),
    )
