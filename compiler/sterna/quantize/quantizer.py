"""The way from a float model and samples to a quantized one and its report."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

import numpy as np
import onnx

from sterna.errors import error
from sterna.frontends.formats import Model
from sterna.frontends.onnx.qdq import MOVING
from sterna.frontends.source import Source
from sterna.ir.graph import Array
from sterna.quantize.calibration import METHODS, Extremes, Histogram, Range, entropy, percentile
from sterna.quantize.correction import CORRECTED, ChannelMeans
from sterna.quantize.model import Editing
from sterna.quantize.numbers import ACTIVATIONS, spread
from sterna.quantize.plan import FOLLOWING, WEIGHTED, Layer, Plan, make_plan, rectifier_limits
from sterna.quantize.prepare import prepared
from sterna.quantize.ranges import roots, scales
from sterna.quantize.report import LayerReport, OutputReport, Report
from sterna.quantize.rewrite import layer_constants, quantized
from sterna.quantize.running import Comparison, Difference, Runner, accuracy, classes, compared, tensor_types
from sterna.quantize.samples import Data, model_inputs, read_samples
from sterna.quantize.sensitivity import Search, Trial, search
from sterna_runtime.advice import Advice, Option

Say = Callable[[str], None]
STEPS = 6  # that `progress` hears of, at most


@dataclass(frozen=True)
class Settings:
    """How a model is quantized.

    Args:
        method: how ranges of activations are chosen: "minmax", "percentile" or "entropy".
        percentile: for the method of that name: how many percent of the elements are within a range.
        activations: their type: "uint8" or "int8".
        bound: the largest error that is allowed, relative to an output's largest magnitude; if the samples have labels,
            the loss of accuracy (0.01 is one percentage point). As many layers stay float as this needs. None: all
            layers become integer layers.
        keep_float: names of nodes, or of operators, that stay float.
        threads: number of threads that the model runs on while ranges are measured.
    """

    method: str = "minmax"
    percentile: float = 99.99
    activations: str = "uint8"
    bound: float | None = None
    keep_float: tuple[str, ...] = ()
    threads: int = 1

    def check(self) -> None:
        """Raises: SternaError: E0203, a value is impossible."""
        if self.method not in METHODS:
            raise error("E0203", f'there is no calibration method "{self.method}"', fix=f"one of {', '.join(METHODS)}")
        if self.activations not in ACTIVATIONS:
            fix = f"one of {', '.join(ACTIVATIONS)}"
            raise error("E0203", f"activations cannot be {self.activations}", fix=fix)
        if not 50 < self.percentile <= 100:
            raise error("E0203", f"{self.percentile} is not a percentile of a range", fix="above 50, at most 100")
        if self.bound is not None and not self.bound >= 0:
            raise error("E0203", f"the bound {self.bound} is not a number of at least 0")


@dataclass(frozen=True)
class Quantized:
    """A quantized model in ONNX's QDQ form, the report, and the shapes of a sample's inputs."""

    model: onnx.ModelProto
    report: Report
    shapes: dict[str, tuple[int, ...]]


def quantize_model(
    model: Model, data: Data, settings: Settings | None = None, progress: Say | None = None
) -> Quantized:
    """Quantizes a float model.

    Args:
        model: path of a model file, or a loaded ONNX model.
        data: an .npz file, a folder of them, or arrays by name; `samples.read_samples` describes their form.
        progress: called with a few words at the start of every longer step.

    Raises:
        SternaError: E0003, E0601 to E0604, E0702, E0703 the samples; E0701, E0705 the model; E0704 the bound; E0706 a
            name to keep float; and all errors of compiling the float model.
    """
    settings = settings or Settings()
    settings.check()
    with ExitStack() as stack:
        return _Quantizer(settings, progress or (lambda words: None), stack).run(model, data)


class _Quantizer:
    def __init__(self, settings: Settings, say: Say, stack: ExitStack):
        self.settings, self.say, self.stack = settings, say, stack

    def run(self, given: Model, data: Data) -> Quantized:
        self.say("reading the model")
        source = Source.of(given)
        self.model = prepared(source)
        self.name = source.name if source.path is not None else self.model.graph.name or "model"
        self.samples = read_samples(data, model_inputs(self.model))
        self.e = Editing(self.model)
        self.plan = self.planned()
        every = [layer.name for layer in self.plan.layers]
        rounded = self.plan.rounded(every)
        wanted = roots(self.plan, rounded)
        self.say("watching the float model")
        ends = [name for layer in self.plan.layers for name in (*layer.inputs, layer.output)]
        watched = Runner(self.model, [*wanted, *ends], self.settings.threads)
        self.float = self.stack.enter_context(watched)
        ranges = self.limited(self.calibrated(wanted))
        self.scales = scales(self.plan, ranges, rounded, self.settings.activations)
        self.check_labels()
        made, comparison, layers, found = self.chosen(every)
        shapes = {name: array.shape for name, array in self.samples.feeds[0].items()}
        return Quantized(made, self.report(made, comparison, layers, found), shapes)

    def planned(self) -> Plan:
        nodes = {node.name: node for node in self.e.nodes}
        ops = {node.op_type for node in self.e.nodes}
        missing = [name for name in self.settings.keep_float if name not in nodes and name not in ops]
        if missing:
            known = ", ".join(f'"{name}"' for name in list(nodes)[:8]) + (" ..." if len(nodes) > 8 else "")
            title = f"no node or operator is called {', '.join(missing)}"
            raise error("E0706", title, f"nodes: {known}", "nodes that were folded into weights are not among them")
        ends = [
            name
            for node in self.e.nodes
            if node.op_type in WEIGHTED | FOLLOWING | MOVING
            for name in (*node.input, *node.output)
            if name and name not in self.e.constants
        ]
        kinds = tensor_types(self.model, list(dict.fromkeys(ends)), self.samples.feeds[0])
        plan = make_plan(self.model, kinds, self.settings.keep_float)
        if not plan.rounded([layer.name for layer in plan.layers]):
            reasons = [f'"{name}": {reason}' for name, reason in list(plan.reasons.items())[:4]]
            title = "no part of the model can be quantized: it has no convolution or product of float32"
            raise error("E0705", title, *reasons)
        return plan

    # ---------------------------------------------------------------- ranges
    def calibrated(self, tensors: Sequence[str]) -> dict[str, Range]:
        """The range of each tensor over all samples, by the chosen method."""
        extremes = {name: Extremes() for name in tensors}
        means = {layer: ChannelMeans(layer) for layer in self.plan.layers if layer.op in CORRECTED}
        self.outputs: list[dict[str, Array]] = []
        for feed in self.samples.feeds:
            found = {**feed, **self.float.run(feed)}
            for name, one in extremes.items():
                one.add(found[name])
            for layer, mean in means.items():
                mean.add(found[layer.inputs[0]])
            self.outputs.append({name: found[name] for name in self.e.outputs})
        self.means = {layer.name: mean.values for layer, mean in means.items()}
        ranges = {name: one.range for name, one in extremes.items()}
        broken = [name for name, range in ranges.items() if not np.isfinite([range.low, range.high]).all()]
        if broken:
            title = f'the float model gives infinities or NaNs for the samples: "{broken[0]}"'
            raise error("E0703", title, f"{len(broken)} tensors have such values")
        if self.settings.method == "minmax":
            return ranges
        histograms = {name: Histogram(range) for name, range in ranges.items()}
        for feed in self.samples.feeds:
            found = {**feed, **self.float.run(feed)}
            for name, histogram in histograms.items():
                histogram.add(found[name])
        if self.settings.method == "percentile":
            return {name: percentile(h, self.settings.percentile) for name, h in histograms.items()}
        return {name: entropy(h) for name, h in histograms.items()}

    def limited(self, ranges: Mapping[str, Range]) -> dict[str, Range]:
        """The ranges, those after rectifiers within what these give."""
        result = dict(ranges)
        for layer in self.plan.layers:
            if layer.rectified and layer.output in result:
                limits = Range(*rectifier_limits(self.e, self.e.producer[layer.output]))
                result[layer.output] = result[layer.output].within(limits)
        return result

    # ---------------------------------------------------------------- layers
    def holds(self, comparison: Comparison) -> bool:
        """Whether the bound is kept."""
        bound = self.settings.bound
        if bound is None:
            return True
        if self.samples.labels is not None and comparison.accuracy is not None:
            return self.accuracy_before - comparison.accuracy <= bound + 1e-12
        return comparison.error <= bound

    def check_labels(self) -> None:
        labels = self.samples.labels
        self.accuracy_before = 0.0
        if labels is None:
            return
        first = [next(iter(outputs.values())) for outputs in self.outputs]
        if not first[0].ndim or first[0].shape[-1] < 2 or first[0].dtype.kind != "f":
            title = f'the samples have labels, but the first output, "{self.e.outputs[0]}", is no scores of classes'
            raise error("E0604", title, fix="leave the labels out")
        found = [classes(scores) for scores in first]
        rows = sum(map(len, found))
        if rows != len(labels):
            raise error("E0604", f'there are {len(labels)} labels for {rows} rows of "{self.e.outputs[0]}"')
        self.accuracy_before = accuracy(found, labels)

    def chosen(self, every: Sequence[str]) -> tuple[onnx.ModelProto, Comparison, dict[str, Difference], Search | None]:
        """The model with as many integer layers as the bound allows."""
        self.say("running the quantized model")
        made, comparison, layers = self.tried(every)
        if self.holds(comparison):
            return made, comparison, layers, None
        best = f"with all layers on integers the error is {comparison.error:.3g}"
        self.say("measuring every layer")
        trial = Trial(self.model, self.plan, self.scales, self.means, self.samples, self.outputs, self.settings.threads)
        self.stack.enter_context(trial.runner)
        found = search(self.plan, trial, self.holds)
        kept = list(found.kept) if found is not None else []
        ranked = sorted(found.error_of, key=lambda name: -found.error_of[name]) if found is not None else []
        while found is not None:
            self.say("running the quantized model")
            made, comparison, layers = self.tried([name for name in every if name not in kept])
            if self.holds(comparison):
                return made, comparison, layers, Search(found.error_of, tuple(kept))
            # The integer kernels round a little otherwise than the trial: the next layer decides.
            rest = [name for name in ranked if name not in kept]
            if len(rest) < 2:
                break
            kept.append(rest[0])
        what = "loss of accuracy" if self.samples.labels is not None else "error"
        title = f"the {what} does not stay within {self.settings.bound:g} unless all layers stay float"
        fix = Advice("a larger ", Option("bound"), ", another ", Option("method"), ", or more samples")
        raise error("E0704", title, best, fix=fix)

    def tried(self, names: Collection[str]) -> tuple[onnx.ModelProto, Comparison, dict[str, Difference]]:
        """The model with these layers on integers, run: its outputs, and the results of its layers."""
        made = quantized(self.model, self.plan, self.scales, self.means, names)
        watched = [layer.output for layer in self.plan.active(names)]
        differences = {name: Difference() for name in watched}
        got = []
        with Runner(made, watched, self.settings.threads) as runner:
            for feed in self.samples.feeds:
                found, real = runner.run(feed), self.float.run(feed)
                for name, difference in differences.items():
                    difference.add(found[name], real[name])
                got.append({name: found[name] for name in self.e.outputs})
        return made, compared(got, self.outputs, self.samples.labels), differences

    # ---------------------------------------------------------------- report
    def report(
        self, made: onnx.ModelProto, comparison: Comparison, layers: Mapping[str, Difference], found: Search | None
    ) -> Report:
        active = {layer.name: layer for layer in self.plan.layers if layer.output in layers}
        kept = set(found.kept) if found is not None else set()
        by_name = {layer.name: layer for layer in self.plan.layers}
        rows = []
        for node in self.e.nodes:
            if node.name in active:
                rows.append(self.layer_report(active[node.name], layers[active[node.name].output], found))
            elif node.name in by_name or node.name in self.plan.reasons:
                why = "for the bound" if node.name in kept else "no integer layer reads its result"
                sensitivity = found.error_of.get(node.name) if found is not None else None
                reason = self.plan.reasons.get(node.name, why)
                size = self.float_bytes(by_name[node.name]) if node.name in by_name else 0
                rows.append(
                    LayerReport(node.name, node.op_type, False, reason, sensitivity=sensitivity,
                                bytes_before=size, bytes_after=size)
                )  # fmt: skip
        labels = self.samples.labels is not None
        s = self.settings
        return Report(
            self.name, s.method, s.percentile if s.method == "percentile" else None, s.activations, len(self.samples),
            s.bound, comparison.error, comparison.rms, comparison.agreement,
            self.accuracy_before if labels else None, comparison.accuracy if labels else None,
            self.model.ByteSize(), made.ByteSize(),
            tuple(OutputReport(name, d.relative, d.rms) for name, d in comparison.outputs.items()), tuple(rows),
        )  # fmt: skip

    def layer_report(self, layer: Layer, difference: Difference, found: Search | None) -> LayerReport:
        weight_error, size = None, 0
        if layer.weight:
            real = self.e.constants[layer.weight]
            stored = layer_constants(self.e.constants, layer, self.scales[layer.inputs[0]], self.means.get(layer.name))
            wrong = Difference()
            wrong.add(stored.weight * spread(stored.scales, real.ndim, layer.axis), real)
            weight_error = wrong.rms
            size = stored.weight.nbytes + stored.scales.nbytes + stored.scales.size
            size += 0 if stored.bias is None else 2 * stored.bias.nbytes
        made = LayerReport(
            layer.name, layer.op, True, "", weight_error, difference.decibels, difference.relative,
            found.error_of.get(layer.name) if found is not None else None, self.float_bytes(layer), size,
        )  # fmt: skip
        scale = self.scales.get(layer.output)
        return made if scale is None else replace(made, scale=float(scale.scale), zero=scale.zero, dtype=scale.dtype)

    def float_bytes(self, layer: Layer) -> int:
        return sum(self.e.constants[name].nbytes for name in (layer.weight, layer.bias) if name)
