"""Which pass, kernel or code generator makes an output wrong? The first one that does, found by running what each made.

The way is walked from the model to the bundle. The graph is run by the interpreter after passes, the first wrong one
found by halves. Then the calls are run one after the other as tensor expressions, and every kernel on what its call was
given there: by every code generator, all kernels in one bundle in which they read and write memory of their own. A
kernel that differs is looked into: its weights, its loops after each of the passes over them, run by the interpreter,
and if those are right, it is the generators. What is left is the memory plan, or the runtime.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from sterna import pipeline
from sterna.bundle.writer import write_bundle
from sterna.codegen.generators import GENERATORS
from sterna.compiled import Compiled
from sterna.debug.comparison import Inputs, Run, TensorCheck, compare, is_users, nearby, said, with_spread
from sterna.debug.interpret import Strings, interpret
from sterna.debug.simulate import Executed, Simulation, TooLongError, has_threads, run_call, run_loops, unwritten
from sterna.emulate.machines import load_for
from sterna.errors import SternaError
from sterna.ir import dtypes
from sterna.ir.graph import Array, Graph, Value, tensor_type
from sterna.ir.sizes import all_definitions
from sterna.loops import finish
from sterna.loops.program import Function
from sterna.options import WEIGHTS, Options
from sterna.passes.context import PassContext, context_of
from sterna.passes.kernels import CPU
from sterna.passes.linearize import CallSequence
from sterna.passes.memory_plan import plan_memory
from sterna.passes.placement import with_transfers
from sterna.passes.plan_kernels import round_weights
from sterna.passes.stages import Lowered, Packed, Sequenced
from sterna.passes.views import Views
from sterna.pipeline import graph_passes
from sterna.scratch import temporary_directory

Say = Callable[[str], None]
Tensors = Mapping[str, Array]

#: Statements of a loop program that are worth the interpreter's time: about half a minute.
MOST_STATEMENTS = 3_000_000


@dataclass(frozen=True)
class Fault:
    """What makes the first wrong tensor.

    Args:
        stage: a name of `PIPELINE`, of `LOOP_PASSES` ("loops/NAME"), "import", "memory" or "runtime", or "generator".
        check: the tensor, with its largest difference; None where the stage failed altogether.
        generators: those whose code is wrong.
        node, kernel: the bundle's node and the kernel that compute it; sources: the model's nodes in it.
        problem: why the stage failed, or what else is to be said.
    """

    stage: str
    check: TensorCheck | None = None
    generators: tuple[str, ...] = ()
    node: str = ""
    kernel: str = ""
    sources: tuple[str, ...] = ()
    problem: str = ""


@dataclass(frozen=True)
class Bisection:
    """What was compared, and the fault if there is one.

    Args:
        reference: what the imported graph was compared with.
        passes: over graphs, in order; kernels: number of distinct ones; calls: of them, that were run.
        generators: that were tried; notes: what could not be.
        apart: why there is a difference, where the import differs from the reference by design.
    """

    reference: str
    tolerance: float
    passes: tuple[str, ...] = ()
    kernels: int = 0
    calls: int = 0
    generators: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    fault: Fault | None = None
    apart: tuple[str, ...] = ()


def bisect(
    graph: Graph, name: str, options: Options, inputs: Inputs, wanted: Tensors, tolerance: float, say: Say
) -> Bisection:
    """Looks for the first fault of an imported graph's way to a bundle.

    Args:
        graph: of static sizes; inputs: of one run, from the model's first state.
        wanted: the outputs that are right.
        tolerance: of the largest difference of a tensor, relative to its largest magnitude; four times what rounding
            does to it is allowed too.

    Raises:
        SternaError: the model cannot be compiled at all.
    """
    bound = max(tolerance, options.math)
    return _Search(graph, context_of(options, name), inputs, wanted, tolerance, bound, say).run()


def first_wrong_pass(
    graph: Graph, context: PassContext, inputs: Inputs, wanted: Tensors, tolerance: float
) -> Fault | None:
    """The first pass over graphs after which an output differs from what is wanted."""
    passes = graph_passes(context)
    graphs: list[Graph] = [graph]
    problem = ""
    for each in passes:
        try:
            graphs.append(each.run(graphs[-1], context))
        except Exception as mistake:  # whatever a wrong pass trips over
            if is_users(mistake):
                raise
            problem = said(mistake)
            break

    def wrong(n: int) -> TensorCheck | str | None:
        try:
            found = interpret(graphs[n], inputs)
        except Exception as mistake:  # whatever a wrong graph trips over
            return said(mistake)
        return disagreement(found, wanted, partial(interpret, nearby(graph)), inputs, tolerance)

    if wrong(len(graphs) - 1) is None:
        return Fault(passes[len(graphs) - 1].name, problem=problem) if problem else None
    right, bad = 0, len(graphs) - 1
    while bad - right > 1:
        middle = (right + bad) // 2
        right, bad = (middle, bad) if wrong(middle) is None else (right, middle)
    what = wrong(bad)
    stage = passes[bad - 1].name
    if isinstance(what, str):
        return Fault(stage, problem=what)
    before: dict[str, Array] = {}
    interpret(graphs[right], inputs, lambda value, array: before.update({value.name: array}))
    return first_difference(graphs[bad], inputs, before, tolerance, stage) or Fault(stage, what)


def disagreement(got: Tensors, wanted: Tensors, run: Run, inputs: Inputs, tolerance: float) -> TensorCheck | None:
    """The first tensor that differs by more than the tolerance, and by more than rounding explains.

    Args:
        run: what gives `wanted`, or almost: how far that is from it for other inputs shows what rounding does.
    """
    checks = tuple(compare(name, array, wanted[name]) for name, array in got.items() if name in wanted)
    wrong = tuple(check for check in checks if not check.error <= tolerance)
    spread = with_spread(wrong, run, inputs, wanted) if wrong else ()
    return next((check for check in spread if not check.within(tolerance)), None)


class _FoundError(Exception):
    """Ends a run of the interpreter."""


def first_difference(graph: Graph, inputs: Inputs, known: Tensors, tolerance: float, stage: str) -> Fault | None:
    """The first tensor of a graph that differs from the known one of that name."""
    names = dict(zip(graph.outputs, graph.output_names, strict=True))
    found: list[tuple[Value, TensorCheck]] = []

    def observe(value: Value, array: Array) -> None:
        name = names.get(value, value.name)
        if name in known and known[name].shape == array.shape:
            check = compare(name, array, known[name])
            if not check.error <= tolerance:
                found.append((value, check))
                raise _FoundError

    try:
        interpret(graph, inputs, observe)
    except _FoundError:
        ((value, check),) = found
        node = graph.producers()[value]
        return Fault(stage, check, node=node.name, sources=node.sources)
    return None


@dataclass
class _Search:
    """One search. `bound` is the tolerance of outputs, with what options allow besides."""

    graph: Graph
    context: PassContext
    inputs: Inputs
    wanted: Tensors
    tolerance: float
    bound: float
    say: Say

    def __post_init__(self) -> None:
        self.strings = Strings(self.graph)

    def run(self) -> Bisection:
        found = Bisection("the interpreter", self.tolerance, tuple(each.name for each in graph_passes(self.context)))
        self.say("running the graph after its passes")
        fault = first_wrong_pass(self.graph, self.context, self.inputs, self.wanted, self.bound)
        if fault is not None:
            return replace(found, fault=fault)
        states = self.states()
        if isinstance(states, Fault):
            return replace(found, fault=states)
        packed: Packed = states["pack"]
        found = replace(found, kernels=len(packed.kernels))
        if all_definitions(packed.graph):
            note = "sizes depend on the data: kernels were not run one by one"
            return replace(found, notes=(note,), fault=self.whole())
        self.say("running every call as tensor expressions")
        simulation = self.simulated(states["split-sums"])
        if (fault := self.wrong_calls(simulation, states)) is not None:
            return replace(found, fault=fault)
        self.wanted = self.results(simulation)
        kernels = Kernels(self, simulation, states)
        fault = kernels.fault() or self.whole()
        left = len(packed.sequence.calls) - len(kernels.calls)
        notes = [*kernels.notes, *([f"{left} calls do not run with these inputs"] if left else [])]
        return replace(found, calls=len(kernels.calls), generators=kernels.tried, notes=tuple(notes), fault=fault)

    def states(self) -> dict[str, Any] | Fault:
        """What every pass made, up to the packed weights; or the pass that failed."""
        made: dict[str, Any] = {}
        state: Any = self.graph
        for each in pipeline.PIPELINE:
            try:
                state = made[each.name] = each.run(state, self.context) if each.applies(self.context) else state
                if each.verify is not None:
                    each.verify(state, each.name)
            except Exception as mistake:  # whatever a wrong pass trips over
                if is_users(mistake):
                    raise
                return Fault(each.name, problem=said(mistake))
            if each.name == "pack":
                break
        return made

    def simulated(self, sequenced: Sequenced) -> Simulation:
        dtype = WEIGHTS[self.context.options.weights]
        stored = round_weights(sequenced, self.context.target, dtype) if dtype else sequenced
        simulation = Simulation(stored.graph, stored.views, stored.sequence)
        simulation.run(self.strings.all_numbered(self.inputs))
        return simulation

    def wrong_calls(self, simulation: Simulation, states: Mapping[str, Any]) -> Fault | None:
        """The calls as tensor expressions beside the graph that they were made of."""
        if self.context.options.weights != "fp32":
            return None  # the graph's are not rounded
        graph = simulation.graph
        known: dict[Value, Array] = {}
        interpret(graph, self.inputs, known.__setitem__)
        computed = {value for group in states["chains"].groups[graph] for value in group.outputs}
        for node in graph.nodes:
            for value in node.outputs:
                if value in computed and value.type.elements != 0:
                    check = compare(value.name, simulation.value(value), known[value])
                    if not check.error <= self.tolerance:
                        return Fault(self.stage_of_calls(states), check, node=node.name, sources=node.sources)
        return None

    def results(self, simulation: Simulation) -> dict[str, Array]:
        """The outputs, strings as their texts."""
        pairs = zip(simulation.graph.results, simulation.graph.result_names, strict=True)
        return {name: self.strings.texts(np.array(simulation.value(value))) for value, name in pairs}

    def stage_of_calls(self, states: Mapping[str, Any]) -> str:
        """The pass before whose groups the calls are right: what joins them, or else makes calls of them."""
        linearize = next(each for each in pipeline.PIPELINE if each.name == "linearize")
        for before, wrong in (("linearize", "split-sums"), ("join", "chains"), ("fuse", "join")):
            made = states[before]
            got = self.results(self.simulated(made if before == "linearize" else linearize.run(made, self.context)))
            if all(compare(name, array, self.wanted[name]).error <= self.tolerance for name, array in got.items()):
                return wrong
        return "linearize"

    def whole(self) -> Fault | None:
        """The bundle itself: what its parts do not explain is the memory plan's, if it is gone without one."""
        self.say("running the bundle")
        wrong = self.bundle_differs(debug=False)
        if wrong is None:
            return None
        return Fault("runtime" if self.bundle_differs(debug=True) else "memory", wrong)

    def bundle_differs(self, debug: bool) -> TensorCheck | None:
        context = replace(self.context, options=replace(self.context.options, debug=debug))
        got = run_bundle(pipeline.walk(self.graph, context), self.inputs)
        return disagreement(got, self.wanted, partial(interpret, nearby(self.graph)), self.inputs, self.bound)


class Kernels:
    """Every call that ran, on what it was given, by every code generator."""

    def __init__(self, search: _Search, simulation: Simulation, states: Mapping[str, Any]):
        self.search, self.simulation = search, simulation
        self.packed: Packed = states["pack"]
        self.lowered: Lowered = states["lower"]
        positions = self.packed.plan.positions
        # Later passes change calls, but not which there are, except that the plan of memory leaves some out.
        executed = {n: simulation.executed.get(simulation.sequence.calls[at]) for n, at in enumerate(positions)}
        #: By the number of a call that ran: what it was given, and what it made of that.
        self.calls = {n: each for n, each in executed.items() if each is not None}
        asked = search.context.options.generator
        able = sorted(
            (g for g in GENERATORS if GENERATORS[g].load().makes(search.context.host)), key=lambda g: g != asked
        )
        #: What makes the library of the CPU; the kernels of a device are in one language.
        self.generators = tuple(able if self.has(CPU) else able[:1])
        self.notes: tuple[str, ...] = ()

    def has(self, place: str) -> bool:
        """Whether there are kernels of a place."""
        return any(kernel.place == place for kernel in self.packed.kernels)

    @property
    def tried(self) -> tuple[str, ...]:
        """The generators and the device whose kernels ran."""
        device = self.search.context.target.device
        there = (device.kind,) if device is not None and self.has(device.kind) else ()
        return (*(self.generators if self.has(CPU) else ()), *there)

    def fault(self) -> Fault | None:
        """The first kernel that differs, and why."""
        wrong: dict[int, dict[str, TensorCheck]] = {}
        for generator in self.generators:
            self.search.say(f"running every kernel by the generator {generator}")
            try:
                found = self.differing(generator)
            except SternaError as mistake:
                if "E0402" not in mistake.codes:
                    return Fault("generator", generators=(generator,), problem=said(mistake))
                self.generators = tuple(g for g in self.generators if g != generator)
                self.notes += (f"the generator {generator} was not tried: {mistake.diagnostics[0].title}",)
                continue
            for n, check in found:
                wrong.setdefault(n, {})[generator] = check
        return self.explained(min(wrong), wrong[min(wrong)]) if wrong else None

    def differing(self, generator: str) -> list[tuple[int, TensorCheck]]:
        """The calls whose kernels this generator makes wrong, with the first wrong output of each."""
        options = replace(self.search.context.options, generator=generator)
        context = replace(self.search.context, options=options)
        state: Any = self.packed
        names = [each.name for each in pipeline.PIPELINE]
        for each in pipeline.PIPELINE[names.index("pack") + 1 :]:
            state = each.run(state, context)
        given = {f"c{n}.in{m}": a for n, each in self.calls.items() for m, a in enumerate(each.inputs)}
        got = run_bundle(self.apart(state), given)
        found = []
        for n, executed in self.calls.items():
            # Counters are no outputs of the bundle.
            outputs = [got.get(f"c{n}.out{m}", array) for m, array in enumerate(executed.outputs)]
            if (check := self.compared(executed, outputs)) is not None:
                found.append((n, check))
        return found

    def apart(self, compiled: Compiled) -> Compiled:
        """The same kernels and weights as a model whose nodes have nothing to do with each other."""
        inputs: list[Value] = []
        outputs: list[Value] = []
        calls, numbers = [], list(self.calls)
        for n in numbers:
            executed = self.calls[n]
            ins = tuple(_flat(f"c{n}.in{m}", array) for m, array in enumerate(executed.inputs))
            outs = tuple(_flat(f"c{n}.out{m}", array) for m, array in enumerate(executed.outputs))
            call = compiled.calls[n]
            counters = tuple(v for v, old in zip(outs, call.outputs, strict=True) if old in call.counters)
            inputs += ins
            outputs += (v for v in outs if v not in counters)
            calls.append(replace(call, name=f"c{n}", inputs=ins, outputs=outs, counters=counters))
        graph, views = Graph("kernels", tuple(inputs), tuple(outputs), ()), Views()
        plan = plan_memory(graph, calls, views)
        return replace(
            compiled,
            graph=graph,
            views=views,
            calls=tuple(calls),
            kernel_of=tuple(compiled.kernel_of[n] for n in numbers),
            params_at=tuple(compiled.params_at[n] for n in numbers),
            plan=plan,
            states_at=(),
            control=(),
            placement=with_transfers(graph, views, CallSequence(tuple(calls)), plan).placement,
        )

    def compared(self, executed: Executed, outputs: Sequence[Array]) -> TensorCheck | None:
        """The first output that differs from what the tensor expressions give, where those write it."""
        call, written = executed.call, executed.written

        def by_name(arrays: Sequence[Array]) -> dict[str, Array]:
            numbered = enumerate(zip(call.outputs, arrays, written, strict=True))
            return {f"{n} {value.name}": array.reshape(-1)[where] for n, (value, array, where) in numbered}

        def run(inputs: Inputs) -> dict[str, Array]:
            return by_name(run_call(call, list(inputs.values()), executed.outputs)[0])

        given = {str(n): array for n, array in enumerate(executed.inputs)}
        wrong = disagreement(by_name(outputs), by_name(executed.outputs), run, given, self.search.tolerance)
        return None if wrong is None else replace(wrong, name=wrong.name.partition(" ")[2])

    def explained(self, n: int, wrong: Mapping[str, TensorCheck]) -> Fault:
        """Why a kernel is wrong: its weights, a pass over its loops, or the generators that make it so."""
        executed, k = self.calls[n], self.packed.kernel_of[n]
        call, kernel = self.packed.sequence.calls[n], self.packed.kernels[k]
        check = next(iter(wrong.values()))
        by = tuple(wrong) if call.place == CPU else (call.place,)
        named = Fault("generator", check, by, call.name, kernel.function.name, call.sources)
        params = kernel.schedule.stored(call.constants) if kernel.schedule is not None else list(call.constants)
        if not self.is_packed(n, kernel.function, params):
            return replace(named, stage="pack", generators=())
        self.search.say(f"running {kernel.function.name} by the interpreter")
        try:
            stage = self.wrong_loops(executed, self.lowered.lowered[k], kernel.function, params)
        except TooLongError:
            if len(wrong) < len(self.generators):
                return named
            problem = "the kernel is too large for the interpreter: its schedule, its loops or all generators are wrong"
            return replace(named, stage="loops", generators=(), problem=problem)
        if stage is None:
            return named
        return replace(named, stage=stage.name, check=stage.check or check, generators=(), problem=stage.problem)

    def is_packed(self, n: int, function: Function, params: Sequence[Array]) -> bool:
        """Whether the weights of a call lie in params.bin as its kernel reads them."""
        at = self.packed.params_at[n][0]
        for buffer, array in zip(function.params, params, strict=True):
            data = np.ascontiguousarray(array).tobytes()
            if self.packed.params[at + buffer.slot : at + buffer.slot + len(data)] != data:
                return False
        return True

    def wrong_loops(
        self, executed: Executed, lowered: Function, finished: Function, params: Sequence[Array]
    ) -> _Wrong | None:
        """The first stage of a kernel's loops that the interpreter finds wrong."""

        def wrong(name: str, function: Function) -> _Wrong | None:
            before = [unwritten(self.simulation.views.storage(v).root) for v in executed.call.outputs]
            try:
                outputs = run_loops(function, executed.inputs, params, before, MOST_STATEMENTS)
            except SternaError as mistake:
                return _Wrong(name, None, said(mistake))
            check = self.compared(executed, outputs)
            return None if check is None else _Wrong(name, check)

        if (whole := wrong("loops", finished)) is None:
            return None
        if has_threads(finished):
            return replace(whole, problem=whole.problem or "its schedule, its loops or a pass over them is wrong")
        if (first := wrong("lower", lowered)) is not None:
            return first
        function = lowered
        for each in finish.LOOP_PASSES:
            function = each.run(function)
            if (found := wrong(f"loops/{each.name}", function)) is not None:
                return found
        return whole


@dataclass(frozen=True)
class _Wrong:
    """A stage of a kernel's loops: what differs, or why the program cannot be run."""

    name: str
    check: TensorCheck | None
    problem: str = ""


def _flat(name: str, array: Array) -> Value:
    return Value(name, tensor_type(dtypes.from_numpy(array.dtype), array.shape))


def run_bundle(compiled: Compiled, inputs: Inputs) -> dict[str, Array]:
    """What a bundle gives, from its first state."""
    target = compiled.options.target
    with (
        temporary_directory("bisect") as directory,
        load_for(write_bundle(compiled, Path(directory) / "bundle"), target, compiled.options.threads) as bundle,
    ):
        return bundle.run(dict(inputs))
