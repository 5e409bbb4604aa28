"""Does a compiled model give what it should, and if not, which tensor is the first that does not?

The whole way is checked first: the bundle against the runtime of the model's format, or the interpreter. Only if an
output differs is the fault looked for, backwards along the way: is it the memory plan (it vanishes when no memory is
reused), a kernel (a tensor differs from what the interpreter computes from the same optimized graph), a pass (the graph
before it was still right) or the import?
"""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import onnx

from sterna.advice import Advice, Option
from sterna.bundle.writer import write_bundle
from sterna.debug.interpret import interpret
from sterna.debug.random_inputs import random_inputs
from sterna.debug.reference import REFERENCES, Reference, reference_for
from sterna.driver import Compiled, Options, compile_graph, model_name, multiplies_unsigned_bytes, open_dimensions
from sterna.errors import error
from sterna.frontends.formats import Model, read_model
from sterna.ir import dtypes
from sterna.ir.graph import Graph, Value
from sterna.ir.integer import Symbol
from sterna.passes.pipeline import optimize
from sterna.runtime import Bundle, load
from sterna.runtime.inputs import Array, TensorSpec, match_inputs
from sterna.targets.target import Target, load_target

TOLERANCE = 1e-4  # relative to the tensor's largest magnitude

Say = Callable[[str], None]


@dataclass(frozen=True)
class TensorCheck:
    """A tensor beside what it should be.

    Args:
        error: largest difference, relative to `largest`; infinite where NaN, infinities or the shape differ.
        largest: the greatest finite magnitude of the reference.
        at: index of the worst element; got, wanted: its values.
        spread: how far the reference is from itself where it rounds otherwise, relative to `largest`; looked for only
            where the error needs an excuse.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    error: float
    largest: float
    at: tuple[int, ...] = ()
    got: float = 0.0
    wanted: float = 0.0
    spread: float = 0.0

    def within(self, tolerance: float) -> bool:
        """Whether the error is at most the tolerance, or four times what the reference differs from itself; a
        tolerance of 0 asks for equal bits."""
        return self.error <= (max(tolerance, 4 * self.spread) if tolerance else 0)


@dataclass(frozen=True)
class Difference:
    """The first tensor that is wrong.

    Args:
        stage: what made it so: "import", a pass, "kernels" or "memory".
        node, kernel: the bundle's node and kernel that compute it, where a kernel is at fault.
        sources: the names of the model's nodes in it.
    """

    check: TensorCheck
    stage: str
    node: str = ""
    kernel: str = ""
    sources: tuple[str, ...] = ()


@dataclass(frozen=True)
class Report:
    """The result of `verify_model`."""

    reference: str
    tolerance: float
    outputs: tuple[TensorCheck, ...]
    first: Difference | None = None

    @property
    def ok(self) -> bool:
        """Whether every output is within the tolerance, or what rounding explains."""
        return all(check.within(self.tolerance) for check in self.outputs)

    @property
    def error(self) -> float:
        """The largest relative error of all outputs."""
        return max((check.error for check in self.outputs), default=0.0)


def verify_model(
    model: Model,
    target: str | Target = "host",
    shapes: Mapping[str, Sequence[int] | None] | None = None,
    dims: Mapping[str, int | tuple[int, int]] | None = None,
    generator: str = "c",
    threads: int = 1,
    *,
    compiler: str = "zig",
    weights: str = "fp32",
    winograd: bool = False,
    inputs: Mapping[str, Array] | None = None,
    seed: int = 0,
    tolerance: float = TOLERANCE,
    against: str = "auto",
    signature: str | None = None,
    progress: Say | None = None,
) -> Report:
    """Compiles a model, runs it here and compares every output.

    Args:
        target: one that this machine can run.
        inputs: arrays by name; without them random ones, made from `seed`. Where dimensions stay open, the model is
            compiled once and tried at several sizes.
        tolerance: of the largest difference, relative to the output's largest magnitude.
        against: the runtime of the model's format ("onnxruntime", "litert", "xgboost" or "lightgbm"), "interpreter",
            or "auto": the former if it is installed.
        signature: which of a TensorFlow Lite model's signatures; None: its first graph.
        progress: called with a few words at the start of every longer step.
        The others are those of `sterna.compile`.

    Raises:
        SternaError: the model cannot be compiled, E06xx an input does not fit, E0004 or E0009 there is no reference.
    """
    if against not in REFERENCES:
        raise error("E0203", f'there is no reference "{against}"', fix=f"one of {', '.join(REFERENCES)}")
    say = progress or (lambda words: None)
    machine = target if isinstance(target, Target) else load_target(target)
    if machine.static or not machine.library:
        fix = Advice("verify with ", Option("target", "host"))
        raise error("E0507", f"the target {machine.name} cannot be run here", fix=fix)
    reference = reference_for(model, against, signature)
    say("reading the model")
    graph = read_model(model, shapes, dims, signature=signature)
    options = Options(machine, generator, compiler, threads, weights=weights, winograd=winograd)
    if (symbols := open_dimensions(graph)) and inputs is None:
        say("running it at several sizes")
        trials = trial_sizes(symbols)
        with tempfile.TemporaryDirectory(prefix="sterna-verify-", ignore_cleanup_errors=True) as directory:
            name = "model" if isinstance(model, onnx.ModelProto) else model_name(os.fspath(model))
            compiled = compile_graph(graph, name, options, None, say)
            with _bundle(compiled, Path(directory) / "bundle") as bundle:
                return _at_sizes(bundle, model, shapes, dims or {}, trials, seed, tolerance, reference)
    specs = [TensorSpec(v.name, dtypes.to_numpy(v.dtype), v.type.sizes) for v in graph.fed]
    given = random_inputs(specs, seed) if inputs is None else inputs
    fed = dict(zip((spec.name for spec in specs), match_inputs(specs, given), strict=True))
    name = "model" if isinstance(model, onnx.ModelProto) else model_name(os.fspath(model))
    with tempfile.TemporaryDirectory(prefix="sterna-verify-", ignore_cleanup_errors=True) as directory:
        bundle = _bundle(compile_graph(graph, name, options, None, say), Path(directory) / "bundle")
        with bundle:
            say("running it")
            got = bundle.run(fed)
    say(f"running {_name(reference)}")
    run = partial(interpret, graph) if reference is None else partial(_reference_run, reference, model)
    wanted = run(fed)
    checks = tuple(compare(output, got[output], wanted[output]) for output in got)
    if not all(check.within(tolerance) for check in checks):
        say("looking how far rounding leads")
        checks = _with_spread(checks, model, reference, run, fed, wanted)
    report = Report(_name(reference), tolerance, checks)
    if report.ok:
        return report
    search = _Search(graph, name, options, fed, wanted, tolerance, say)
    first = search.first(checks, None if reference is None else lambda names: reference.run(model, fed, names))
    return Report(report.reference, tolerance, checks, first)


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


def _at_sizes(
    bundle: Bundle,
    model: Model,
    shapes: Mapping[str, Sequence[int] | None] | None,
    dims: Mapping[str, int | tuple[int, int]],
    trials: Sequence[Mapping[str, int]],
    seed: int,
    tolerance: float,
    reference: Reference | None,
) -> Report:
    """The worst of every output over several sizes of the open dimensions."""
    worst: dict[str, TensorCheck] = {}
    for trial in trials:
        fed = random_inputs([spec.at(trial) for spec in bundle.inputs], seed)
        bundle.reset_state()
        got = bundle.run(fed)
        if reference is not None:
            run = partial(_reference_run, reference, model)
        else:
            run = partial(interpret, read_model(model, shapes, {**dims, **trial}))
        wanted = run(fed)
        checks = tuple(compare(output, array, wanted[output]) for output, array in got.items())
        if not all(check.within(tolerance) for check in checks):
            checks = _with_spread(checks, model, reference, run, fed, wanted)
        for check in checks:
            known = worst.get(check.name)
            if known is None or (known.within(tolerance), -known.error) > (check.within(tolerance), -check.error):
                worst[check.name] = check
    return Report(_name(reference), tolerance, tuple(worst.values()))


def _reference_run(reference: Reference, model: Model, inputs: Mapping[str, Array]) -> dict[str, Array]:
    return reference.run(model, inputs, ())


def _with_spread(
    checks: Sequence[TensorCheck],
    model: Model,
    reference: Reference | None,
    run: Callable[[Mapping[str, Array]], Mapping[str, Array]],
    inputs: Mapping[str, Array],
    wanted: Mapping[str, Array],
) -> tuple[TensorCheck, ...]:
    """The checks with how far the reference is from itself: in another order of operations, and for inputs that are
    one unit in the last place away. What lies between 0 and 1 is taken to be made of terms of that size, and to be
    rounded with them.
    """
    random = np.random.default_rng(0)

    def beside(array: Array) -> Array:
        if array.dtype.kind != "f":
            return array
        away = np.where(random.random(array.shape) < 0.5, -np.inf, np.inf).astype(array.dtype)
        result: Array = np.nextafter(array, away)
        return result

    others = [run({name: beside(array) for name, array in inputs.items()})]
    if reference is not None and reference.again is not None:
        others.append(reference.again(model, inputs, ()))
    result = []
    for check in checks:
        array = wanted[check.name]
        spread = max(
            (compare(check.name, other[check.name], array).error for other in others if check.name in other),
            default=0.0,
        )
        if array.dtype.kind == "f" and array.size and (array >= 0).all() and (array <= 1).all() and check.largest > 0:
            spread = max(spread, float(np.finfo(array.dtype).eps) / 4 / check.largest)
        result.append(replace(check, spread=spread if math.isfinite(spread) else 0.0))
    return tuple(result)


def _name(reference: Reference | None) -> str:
    return "the interpreter" if reference is None else reference.name


def compare(name: str, got: Array, wanted: Array) -> TensorCheck:
    """How far a tensor is from what it should be."""
    if got.shape != wanted.shape or got.size == 0:
        worst = 0.0 if got.shape == wanted.shape else np.inf
        return TensorCheck(name, str(got.dtype), got.shape, worst, 0.0)
    a, b = got.astype(np.float64), wanted.astype(np.float64)
    finite = np.isfinite(b)
    largest = float(np.abs(b[finite]).max()) if finite.any() else 0.0
    with np.errstate(invalid="ignore"):
        difference = np.abs(a - b)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    difference = np.where(same, 0.0, np.where(np.isfinite(difference), difference, np.inf))
    at = tuple(int(i) for i in np.unravel_index(int(difference.argmax()), difference.shape))
    scale = largest if largest > 0 else 1.0
    error_ = float(difference[at]) / scale
    return TensorCheck(name, str(got.dtype), got.shape, error_, largest, at, float(a[at]), float(b[at]))


def _bundle(compiled: Compiled, directory: Path) -> Bundle:
    return load(write_bundle(compiled, directory), compiled.options.threads)


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
            tempfile.TemporaryDirectory(prefix="sterna-verify-", ignore_cleanup_errors=True) as directory,
            _bundle(compiled, Path(directory) / "bundle") as bundle,
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
        return self.changed_by_pass() or Difference(wrong, "kernels")

    def agrees(self, check: TensorCheck) -> bool:
        return check.error <= self.tolerance

    def kernel(self, compiled: Compiled, bundle: Bundle) -> Difference | None:
        """The first tensor that a kernel computes otherwise than the interpreter does from the same graph."""
        names = _bundle_names(compiled.graph)
        held = {spec.name for spec in bundle.values}

        def observe(value: Value, array: Array) -> None:
            name = names.get(value, value.name)
            if name in held:
                check = compare(name, bundle.intermediate(name), array)
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
        known = tensors(produced)
        return self.walk(self.graph, known, "import")

    def changed_by_pass(self) -> Difference | None:
        """The first tensor that differs after the first pass that changes an output."""
        stages: list[tuple[str, Graph]] = []
        optimize(
            self.graph, lambda stage, graph: stages.append((stage, graph)),
            unsigned_bytes=multiplies_unsigned_bytes(self.options.target),
        )  # fmt: skip
        before: dict[str, Array] = {}
        interpret(self.graph, self.inputs, lambda value, array: before.update({value.name: array}))
        for stage, graph in stages:
            after: dict[str, Array] = {}
            results = interpret(graph, self.inputs, lambda value, array: after.update({value.name: array}))  # noqa: B023
            checks = [compare(name, array, self.wanted[name]) for name, array in results.items()]
            wrong = [check for check in checks if not self.agrees(check)]
            if wrong:
                return self.walk(graph, before, stage) or Difference(wrong[0], stage)
            before = after
        return None

    def walk(self, graph: Graph, known: Mapping[str, Array], stage: str) -> Difference | None:
        """The first tensor of the graph that differs from the known one of that name."""
        names = _bundle_names(graph)

        def observe(value: Value, array: Array) -> None:
            name = names.get(value, value.name)
            if name in known and known[name].shape == array.shape:
                check = compare(name, array, known[name])
                if not self.agrees(check):
                    raise _Found(value, check)

        try:
            interpret(graph, self.inputs, observe)
        except _Found as found:
            node = graph.producers()[found.value]
            return Difference(found.check, stage, sources=node.sources)
        return None


def _bundle_names(graph: Graph) -> dict[Value, str]:
    """The names that outputs have in the model, whatever their values are called."""
    return dict(zip(graph.outputs, graph.output_names, strict=True))


__all__ = ["REFERENCES", "TOLERANCE", "Difference", "Report", "TensorCheck", "compare", "verify_model"]
