"""Does a compiled model give what it should, and if not, which tensor is the first that does not?

The whole way is checked first: the bundle against the runtime of the model's format, or the interpreter. Only if an
output differs is the fault looked for, backwards along the way: is it the memory plan (it vanishes when no memory is
reused), a kernel (a tensor differs from what the interpreter computes from the same optimized graph), a pass (the graph
before it was still right) or the import?
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from sterna.api import options_of
from sterna.bundle.writer import write_bundle
from sterna.debug.bisect import Bisection, Fault, bisect, first_difference, first_wrong_pass
from sterna.debug.comparison import Checks, Difference, Inputs, Run, TensorCheck, compare, with_spread, worst
from sterna.debug.interpret import interpret
from sterna.debug.scratch import folder_for
from sterna.debug.trades import Trade, judge_trades
from sterna.driver import Compiled, Options, compile_graph, reading
from sterna.emulate.machines import load_for, why_not_emulated
from sterna.errors import SternaError, error
from sterna.fast import decide
from sterna.frontends import frontend
from sterna.frontends.formats import AUTO, Model, read_model, reference_for, references
from sterna.frontends.frontend import Reference
from sterna.frontends.source import Source
from sterna.ir.graph import Graph, Value
from sterna.ir.integer import Symbol
from sterna.ir.sizes import open_dimensions
from sterna.passes.context import context_of
from sterna.runtime.here import why_not_here
from sterna.runtime.signature import specs_of
from sterna_runtime import Bundle
from sterna_runtime.advice import Advice, Option
from sterna_runtime.inputs import Array, match_inputs, only_input
from sterna_runtime.library import is_replaced
from sterna_runtime.names import model_name
from sterna_runtime.random_inputs import random_inputs

TOLERANCE = 1e-4  # relative to the tensor's largest magnitude

Say = Callable[[str], None]


@dataclass(frozen=True)
class Report:
    """The result of `verify_model`.

    Args:
        outputs: of the model without options that trade accuracy, beside those of the reference.
        first: the first tensor that differs, if one of them does.
        trades: those options, each beside the same without.
        missing: why the runtime of the model's format is not the reference; empty where it is or was not asked for.
        apart: why the outputs differ, where the import of the nodes at fault differs from the reference by design; why
            they may, without `first`.
    """

    reference: str
    tolerance: float
    outputs: tuple[TensorCheck, ...]
    first: Difference | None = None
    trades: tuple[Trade, ...] = ()
    missing: str = ""
    apart: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether every output is within the tolerance, or what rounding explains, and every trade within its bound."""
        return all(check.within(self.tolerance) for check in self.outputs) and all(trade.ok for trade in self.trades)

    @property
    def error(self) -> float:
        """The largest relative error of all outputs."""
        return max((check.error for check in self.outputs), default=0.0)


def verify_model(
    model: Model,
    options: Options | None = None,
    *,
    inputs: Mapping[str, Array] | None = None,
    seed: int = 0,
    tolerance: float = TOLERANCE,
    against: str = AUTO,
    progress: Say | None = None,
) -> Report:
    """Compiles a model, runs it here and compares every output.

    Args:
        options: for a target that this machine or an emulator here can run (`api.options_of`); None: the usual ones.
        inputs: arrays by name; without them random ones, made from `seed`. Where dimensions stay open, the model is
            compiled once and tried at several sizes.
        tolerance: of the largest difference, relative to the output's largest magnitude.
        against: the runtime of the model's format (`frontends.formats.references` has all), "interpreter", or "auto":
            the former if it is installed.
        progress: called with a few words at the start of every longer step.

    Raises:
        SternaError: the model cannot be compiled, E06xx an input does not fit, E0004 or E0009 there is no reference.
    """
    asked, say = options or options_of(), progress or (lambda words: None)
    graph, name, reference, again = _read(model, asked, against, say)
    plain = asked.exact
    if (symbols := open_dimensions(graph)) and inputs is None:
        trials = trial_sizes(symbols)
        feeds = [random_inputs(specs_of(graph, trial), seed, graph.strings) for trial in trials]
        graphs = [partial(again, trial) for trial in trials]
        report = _Check(graph, name, plain, tolerance, reference, say).at_sizes(feeds, graphs)
    else:
        feeds = [_fed(graph, inputs, seed)]
        report = _Check(graph, name, plain, tolerance, reference, say).at_one_size(feeds[0])
    if not report.ok or asked == plain:
        return report
    traded = decide(graph, name, asked, say).options if asked.math else asked
    say("comparing what was traded")
    return replace(report, trades=judge_trades(graph, name, traded, feeds, tolerance))


def bisect_model(
    model: Model,
    options: Options | None = None,
    *,
    inputs: Mapping[str, Array] | None = None,
    seed: int = 0,
    tolerance: float = TOLERANCE,
    against: str = AUTO,
    progress: Say | None = None,
) -> Bisection:
    """Finds the first pass, kernel or code generator that makes an output wrong; arguments as for `verify_model`.

    Dimensions that are open are bound to sizes between their bounds.

    Raises:
        SternaError: the model cannot be compiled, E06xx an input does not fit, E0004 or E0009 there is no reference.
    """
    asked, say = options or options_of(), progress or (lambda words: None)
    graph, name, reference, again = _read(model, asked, against, say)
    notes: tuple[str, ...] = ()
    if symbols := open_dimensions(graph):
        sizes = trial_sizes(symbols)[-1]
        graph = again(sizes)
        notes = (f"with {', '.join(f'{each} = {size}' for each, size in sizes.items())}; other sizes were not tried",)
    fed = _fed(graph, inputs, seed)
    say("running the interpreter")
    meant = interpret(graph, fed)
    fault = _wrong_import(graph, fed, meant, reference, tolerance)
    if fault is not None:
        apart = reference.apart(fault.sources)
        return Bisection(reference.name, tolerance, notes=notes, fault=fault, apart=apart)
    made = decide(graph, name, asked, say).options if asked.math else asked
    found = bisect(graph, name, made, fed, meant, tolerance, say)
    return replace(found, reference=reference.name, notes=notes + found.notes)


def _wrong_import(
    graph: Graph, fed: Inputs, meant: Mapping[str, Array], reference: Reference, tolerance: float
) -> Fault | None:
    """The first tensor that the imported graph computes otherwise than the model's own runtime, if an output does."""
    if reference.run is None:
        return None
    wanted = reference.run(fed, ())
    checks = tuple(compare(name, meant[name], array) for name, array in wanted.items() if name in meant)
    if not all(check.within(tolerance) for check in checks):
        checks = with_spread(checks, partial(_outputs, reference.run), fed, wanted, reference.again)
    wrong = next((check for check in checks if not check.within(tolerance)), None)
    if wrong is None:
        return None
    produced = [value.name for node in graph.nodes for value in node.outputs]
    known = reference.run(fed, produced)
    return first_difference(graph, fed, known, tolerance, "import") or Fault("import", wrong)


def _read(
    model: Model, options: Options, against: str, say: Say
) -> tuple[Graph, str, Reference, Callable[[Mapping[str, int]], Graph]]:
    """A model as it is imported, its name, what it is compared with, and what imports it with further sizes.

    Raises:
        SternaError: E0203, there is no such reference; E0507, the target cannot be run here.
    """
    if against not in references():
        raise error("E0203", f'there is no reference "{against}"', fix=f"one of {', '.join(references())}")
    reason = None if is_replaced() else why_not_here(options.target)
    if reason is not None and (emulated := why_not_emulated(options.target)):
        fix = Advice("verify with ", Option("target", "host"))
        title = f"the target {options.target.name} cannot be run here: {reason}, and {emulated}"
        raise error("E0507", title, fix=fix)
    source, read_as = Source.of(model), reading(options)
    reference = reference_for(source, against, read_as)

    def again(sizes: Mapping[str, int]) -> Graph:
        return read_model(source, replace(read_as, dims={**read_as.dims, **sizes}))

    say("reading the model")
    name = "model" if source.path is None else model_name(str(source.path))
    return read_model(source, read_as), name, reference, again


def _fed(graph: Graph, inputs: Mapping[str, Array] | None, seed: int) -> dict[str, Array]:
    """The inputs of a run, in the model's order: those given, or random ones."""
    specs = specs_of(graph)
    names = [spec.name for spec in specs]
    given = random_inputs(specs, seed, graph.strings) if inputs is None else only_input(dict(inputs), names)
    return dict(zip(names, match_inputs(specs, given), strict=True))


def trial_sizes(symbols: Sequence[Symbol]) -> list[dict[str, int]]:
    """Sizes to try open dimensions at: the least, the greatest, and some between that are multiples of nothing."""
    trials = []
    for share in (0.0, 1.0, 0.37, 0.61, 0.13):
        trial = {}
        for n, symbol in enumerate(symbols):
            lo, hi = symbol.lo or 1, symbol.hi or 1
            trial[symbol.name] = lo + round((hi - lo) * (share if n % 2 == 0 or share in (0.0, 1.0) else 1.0 - share))
        trials.append(trial)
    return list({tuple(t.items()): t for t in trials}.values())


@dataclass(frozen=True)
class _Check:
    """A model without trades of accuracy beside its reference."""

    graph: Graph
    name: str
    options: Options
    tolerance: float
    reference: Reference
    say: Say

    def at_one_size(self, fed: Inputs) -> Report:
        """One run; where an output differs, the first tensor that does is looked for."""
        (got,) = self.runs([fed])
        self.say(f"running {self.reference.name}")
        run = self.wanted(lambda: self.graph)
        wanted = run(fed)
        checks = self.checks(got, fed, wanted, run)
        report = Report(self.reference.name, self.tolerance, checks, missing=self.reference.missing)
        if report.ok:
            return report
        search = _Search(self.graph, self.name, self.options, fed, wanted, self.tolerance, self.say)
        tensors = None if self.reference.run is None else partial(self.reference.run, fed)
        first = search.first(checks, tensors)
        apart = self.reference.apart(first.sources) if first.stage == "import" else ()
        return replace(report, first=first, apart=apart)

    def at_sizes(self, feeds: Sequence[Inputs], graphs: Sequence[Callable[[], Graph]]) -> Report:
        """The worst of every output over several sizes of the open dimensions; `graphs` at those sizes."""
        self.say("running it at several sizes")
        found = []
        for fed, got, graph in zip(feeds, self.runs(feeds), graphs, strict=True):
            run = self.wanted(graph)
            found.append(self.checks(got, fed, run(fed), run))
        checks = worst(found, self.tolerance)
        report = Report(self.reference.name, self.tolerance, checks, missing=self.reference.missing)
        return report if report.ok else replace(report, apart=self.reference.apart())

    def runs(self, feeds: Sequence[Inputs]) -> list[dict[str, Array]]:
        """The outputs of the compiled model, each time from its first state."""
        with folder_for(self.name) as directory:
            compiled = compile_graph(self.graph, self.name, self.options, None, self.say)
            with _bundle(compiled, directory / "bundle") as bundle:
                self.say("running it")
                results = []
                for fed in feeds:
                    bundle.reset_state()
                    results.append(bundle.run(fed))
                return results

    def wanted(self, graph: Callable[[], Graph]) -> Run:
        """What gives the outputs that are right."""
        return partial(interpret, graph()) if self.reference.run is None else partial(_outputs, self.reference.run)

    def checks(self, got: Mapping[str, Array], fed: Inputs, wanted: Mapping[str, Array], run: Run) -> Checks:
        """Every output beside the reference's, with what rounding explains where that is needed."""
        checks = tuple(compare(output, array, wanted[output]) for output, array in got.items())
        if all(check.within(self.tolerance) for check in checks):
            return checks
        self.say("looking how far rounding leads")
        return with_spread(checks, run, fed, wanted, self.reference.again)


def _outputs(run: frontend.Run, inputs: Inputs) -> dict[str, Array]:
    return run(inputs, ())


def _bundle(compiled: Compiled, directory: Path) -> Bundle:
    return load_for(write_bundle(compiled, directory), compiled.options.target, compiled.options.threads)


class _Found(Exception):  # noqa: N818  it ends a walk, it is no error
    def __init__(self, value: Value, check: TensorCheck):
        super().__init__()
        self.value, self.check = value, check


@dataclass
class _Search:
    """Looks for the first wrong tensor of a model whose outputs are wrong."""

    graph: Graph
    name: str
    options: Options
    inputs: Mapping[str, Array]
    wanted: Mapping[str, Array]
    tolerance: float
    say: Say

    def first(
        self, outputs: Sequence[TensorCheck], tensors: Callable[[list[str]], dict[str, Array]] | None
    ) -> Difference:
        """The first tensor that differs; `tensors` asks the reference for intermediate ones."""
        wrong = next(check for check in outputs if not check.within(self.tolerance))
        self.say("looking for the first tensor that differs")
        kept = replace(self.options, debug=True)
        compiled = compile_graph(self.graph, self.name, kept)
        with (
            folder_for(self.name) as directory,
            _bundle(compiled, directory / "bundle") as bundle,
        ):
            for name, array in self.inputs.items():
                bundle.set_input(name, np.require(array, requirements=["C", "A"]))
            bundle.run()
            got = {spec.name: bundle.get_output(spec.name).copy() for spec in bundle.outputs}
            kernel = self.kernel(compiled, bundle)
        if kernel is not None:
            return kernel
        if all(self.agrees(compare(name, array, self.wanted[name])) for name, array in got.items()):
            return Difference(wrong, "memory")
        if tensors is not None:
            imported = self.imported(tensors)
            if imported is not None:
                return imported
        fault = first_wrong_pass(self.graph, context_of(self.options), self.inputs, self.wanted, self.tolerance)
        return _difference(fault, wrong) if fault is not None else Difference(wrong, "kernels")

    def agrees(self, check: TensorCheck) -> bool:
        return check.error <= self.tolerance

    def kernel(self, compiled: Compiled, bundle: Bundle) -> Difference | None:
        """The first tensor that a kernel computes otherwise than the interpreter does from the same graph."""
        names = _bundle_names(compiled.graph)
        held = {spec.name for spec in bundle.values}

        def observe(value: Value, array: Array) -> None:
            name = names.get(value, value.name)
            if name in held and (there := _held(bundle, name)) is not None:
                check = compare(name, there, array)
                if not self.agrees(check):
                    raise _Found(value, check)

        try:
            interpret(compiled.graph, self.inputs, observe)
        except _Found as found:
            root = compiled.views.storage(found.value).root
            for call, kernel in zip(compiled.calls, compiled.kernel_of, strict=True):
                if found.value in call.outputs or root in call.outputs:
                    function = compiled.kernels[kernel].function.name
                    return Difference(found.check, "kernels", call.name, function, call.sources)
            return Difference(found.check, "kernels")
        return None

    def imported(self, tensors: Callable[[list[str]], dict[str, Array]]) -> Difference | None:
        """The first tensor that the imported graph computes otherwise than the reference."""
        produced = [value.name for node in self.graph.nodes for value in node.outputs]
        fault = first_difference(self.graph, self.inputs, tensors(produced), self.tolerance, "import")
        return None if fault is None else _difference(fault)


def _held(bundle: Bundle, name: str) -> Array | None:
    """A tensor of a run; None where it lies in the memory of a device, of which no one reads it."""
    try:
        return bundle.intermediate(name)
    except SternaError as problem:
        if problem.codes != ("E0510",):
            raise
        return None


def _difference(fault: Fault, wrong: TensorCheck | None = None) -> Difference:
    """A fault of a pass as it is reported; `wrong` where it has no tensor of its own."""
    check = fault.check or wrong
    assert check is not None
    return Difference(check, fault.stage, sources=fault.sources)


def _bundle_names(graph: Graph) -> dict[Value, str]:
    """The names that outputs have in the model, whatever their values are called."""
    return dict(zip(graph.outputs, graph.output_names, strict=True))


__all__ = [
    "TOLERANCE",
    "Bisection",
    "Difference",
    "Fault",
    "Report",
    "TensorCheck",
    "bisect_model",
    "compare",
    "verify_model",
]
