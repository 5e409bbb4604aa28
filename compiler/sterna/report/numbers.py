"""What a model computes beside what it should, layer by layer, on samples of what it will see.

Layers are tensors between kernels, of the model compiled so that all can be read, beside those of the interpreter on
the same model with nothing traded for speed or size. Outputs are beside the runtime of the model's own format, where
that is installed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from sterna.bundle.writer import write_bundle
from sterna.compiled import Compiled
from sterna.debug.interpret import interpret
from sterna.driver import compile_graph, reading
from sterna.emulate.machines import load_for
from sterna.errors import SternaError
from sterna.fast import decide
from sterna.frontends.formats import AUTO, read_model, reference_for
from sterna.frontends.frontend import Reference
from sterna.frontends.source import Source
from sterna.ir.graph import Graph, Value
from sterna.options import Options
from sterna.passes.context import context_of
from sterna.pipeline import walk
from sterna.quantize.samples import Data, Input, read_samples
from sterna.scratch import temporary_directory
from sterna_runtime import Bundle
from sterna_runtime.inputs import Array, TensorSpec
from sterna_runtime.names import model_name

#: Bars of a histogram, and types whose ranges are shown.
_BARS, _NARROW = 32, ("int8", "uint8")
Arrays = Mapping[str, Array]


@dataclass
class Difference:
    """How far arrays are from what they should be, over all samples."""

    worst: float = 0.0
    largest: float = 0.0
    total: float = 0.0
    count: int = 0
    products: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0])

    def add(self, got: Array, wanted: Array) -> None:
        """One sample of it; where the shapes differ, nothing agrees."""
        if got.shape != wanted.shape:
            self.worst = math.inf
            return
        if got.size == 0 or "O" in (got.dtype.kind, wanted.dtype.kind):
            self.worst = max(self.worst, math.inf if got.size and bool((got != wanted).any()) else 0.0)
            return
        a, b = got.astype(np.float64), wanted.astype(np.float64)
        finite = np.isfinite(b)
        with np.errstate(invalid="ignore"):
            apart = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
        apart = np.where(np.isfinite(apart), apart, np.inf)
        self.worst = max(self.worst, float(apart.max()))
        self.largest = max(self.largest, float(np.abs(b[finite]).max()) if finite.any() else 0.0)
        self.total += float(apart[np.isfinite(apart)].sum())
        self.count += apart.size
        both = finite & np.isfinite(a)
        a, b = a[both], b[both]
        self.products = [p + float(q) for p, q in zip(self.products, (a @ b, a @ a, b @ b), strict=True)]

    def row(self, name: str) -> dict[str, Any]:
        """Errors relative to the largest magnitude; null where no number says it."""
        scale = self.largest or 1.0
        dot, mine, other = self.products
        cosine = dot / math.sqrt(mine * other) if mine and other else 1.0 if mine == other else 0.0
        return {
            "name": name,
            "error": self.worst / scale if math.isfinite(self.worst) else None,
            "mean": self.total / self.count / scale if self.count else 0.0,
            "cosine": cosine if self.count else None,
            "largest": self.largest,
        }


class Differences:
    """Of several tensors, by name."""

    def __init__(self) -> None:
        self.of: dict[str, Difference] = {}

    def add(self, got: Arrays, wanted: Arrays) -> None:
        """One sample of all that both have."""
        for name, array in got.items():
            if name in wanted:
                self.of.setdefault(name, Difference()).add(array, wanted[name])

    def rows(self) -> list[dict[str, Any]]:
        return [difference.row(name) for name, difference in self.of.items()]


@dataclass(frozen=True)
class _Histogram:
    """How often each part of a narrow type's range was met."""

    least: int
    greatest: int
    counts: Array

    @classmethod
    def of(cls, array: Array) -> _Histogram:
        info = np.iinfo(array.dtype)
        counts = np.bincount((array.astype(np.int64) - info.min).reshape(-1), minlength=256)
        return cls(int(info.min), int(info.max), counts)

    def __add__(self, other: _Histogram) -> _Histogram:
        return replace(self, counts=self.counts + other.counts)

    def row(self, name: str, dtype: str, scale: float | None) -> dict[str, Any]:
        total = int(self.counts.sum()) or 1
        return {
            "name": name,
            "dtype": dtype,
            "scale": scale,
            "least": self.least,
            "greatest": self.greatest,
            "counts": [int(n) for n in self.counts.reshape(_BARS, -1).sum(axis=1)],
            "clipped": int(self.counts[0] + self.counts[-1]) / total,
        }


@dataclass(frozen=True)
class Subject:
    """A model as it is imported, to be run with all tensors kept.

    Args:
        again: imports it with the sizes that were left open.
    """

    graph: Graph
    name: str
    options: Options
    reference: Reference
    again: Callable[[Mapping[str, int]], Graph]


def imported(model: Path, options: Options) -> Subject:
    """Reads a model.

    Raises:
        SternaError: it cannot be read.
    """
    source, read_as = Source.of(model), reading(options)
    reference = reference_for(source, AUTO, read_as)

    def again(sizes: Mapping[str, int]) -> Graph:
        return read_model(source, replace(read_as, dims={**read_as.dims, **sizes}))

    graph, name = read_model(source, read_as), model_name(str(model))
    made = decide(graph, name, options, None).options if options.math else options
    return Subject(graph, name, made, reference, again)


def samples_of(data: Data, specs: Sequence[TensorSpec]) -> tuple[dict[str, Array], ...]:
    """The runs that a file of samples is for.

    Raises:
        SternaError: E0003, E0601 to E0604, E0702, E0703 of `quantize.samples.read_samples`.
    """
    inputs = tuple(
        Input(spec.name, str(spec.dtype), tuple(n if isinstance(n, int) else None for n in spec.shape))
        for spec in specs
    )
    return read_samples(data, inputs).feeds


@contextmanager
def with_all_tensors(subject: Subject) -> Iterator[tuple[Compiled, Bundle]]:
    """The model, compiled and loaded so that every tensor between kernels can be read."""
    with temporary_directory("report") as folder:
        compiled = compile_graph(subject.graph, subject.name, replace(subject.options.alone, debug=True))
        place = write_bundle(compiled, Path(folder) / "bundle")
        with load_for(place, compiled.options.target, compiled.options.threads) as bundle:
            yield compiled, bundle


def tensors(bundle: Bundle) -> dict[str, Array]:
    """What a bundle holds between kernels after a run, as far as it was not overwritten."""
    found, own = {}, {spec.name for spec in (*bundle.inputs, *bundle.outputs)}
    for spec in bundle.values:
        if spec.name in own:
            continue
        try:
            found[spec.name] = bundle.intermediate(spec.name)
        except SternaError as problem:
            if problem.codes != ("E0510",):
                raise
    return found


def numbers_of(subject: Subject, data: Data, nodes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The member `numbers` of a report's subject.

    Args:
        nodes: of the bundle that is reported on, to find the node of a layer by its sources.

    Raises:
        SternaError: the samples do not fit, or the target runs neither here nor in an emulator.
    """
    layers, outputs = Differences(), Differences()
    histograms: dict[str, _Histogram] = {}
    types: dict[str, str] = {}
    optimized: dict[tuple[int, ...], Graph] = {}
    with with_all_tensors(subject) as (compiled, bundle):
        feeds = samples_of(data, bundle.inputs)
        for fed in feeds:
            bundle.reset_state()
            got = bundle.run(fed)
            sizes = bundle.dim_sizes
            between = tensors(bundle)
            key = tuple(sizes.values())
            if key not in optimized:
                optimized[key] = _exact(subject.again(sizes) if sizes else subject.graph, subject.options)
            wanted: dict[str, Array] = {}
            results = interpret(optimized[key], fed, partial(_keep, wanted, between))
            layers.add(between, wanted)
            run = subject.reference.run
            outputs.add(got, results if run is None else run(fed, ()))
            for name, array in {**fed, **between, **got}.items():
                if str(array.dtype) in _NARROW and array.size:
                    own = _Histogram.of(array)
                    histograms[name] = histograms[name] + own if name in histograms else own
                    types[name] = str(array.dtype)
        places = _places(compiled, nodes)
    interpreter = "the interpreter"
    known = subject.graph.quantization
    scales = {name: float(q.scales[0]) for name, q in known.items() if len(q.scales) == 1}
    return {
        "samples": len(feeds),
        "reference": f"{interpreter}, nothing traded",
        "trade": _trade(subject.options),
        "outputs": [{**row, "reference": subject.reference.name} for row in outputs.rows()],
        "layers": sorted(
            ({**row, **places.get(row["name"], {"node": None, "sources": []})} for row in layers.rows()),
            key=lambda row: -math.inf if row["error"] is None else -row["error"],
        ),
        "ranges": [h.row(name, types[name], scales.get(name)) for name, h in histograms.items()],
    }


def _keep(into: dict[str, Array], names: Mapping[str, Any], value: Value, array: Array) -> None:
    if value.name in names:
        into[value.name] = array


def _exact(graph: Graph, options: Options) -> Graph:
    """The graph as passes leave it where nothing is traded: its tensors have the names of the bundle's."""
    plain = replace(options.alone.exact, debug=True)
    made = walk(graph, context_of(plain), "materialize-outputs")
    assert isinstance(made, Graph)
    return made


def _trade(options: Options) -> str | None:
    """What was traded, in words."""
    words = [f"fast arithmetic within {options.math:g}"] if options.math else []
    words += [f"weights in {options.weights}"] if options.weights != "fp32" else []
    return ", ".join(words) or None


def _places(compiled: Compiled, nodes: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Where tensors are made: by the bundle's nodes of the same sources, which a bundle with all tensors kept may have
    cut otherwise."""
    by_name = {node["name"]: n for n, node in enumerate(nodes)}
    by_sources = {tuple(node["sources"]): n for n, node in enumerate(nodes)}
    found = {}
    for call in compiled.calls:
        sources = tuple(call.sources)
        node = by_name.get(call.name, by_sources.get(sources))
        for value in call.outputs:
            found[value.name] = {"node": node, "sources": list(sources)}
    return found
