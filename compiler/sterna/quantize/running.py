"""Models that are run on samples: compiled here, once for every shape of the inputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType

import numpy as np
import onnx

from sterna.api import compile as compile_bundle
from sterna.frontends.formats import read_model
from sterna.frontends.frontend import ReadOptions
from sterna.ir.graph import Array
from sterna.quantize.model import with_outputs
from sterna_runtime import Bundle


class Runner:
    """A model that is compiled when it is first run.

    Args:
        tensors: what it gives beside its outputs.
        threads: how many it runs on.
    """

    def __init__(self, model: onnx.ModelProto, tensors: Sequence[str] = (), threads: int = 1):
        self.model = with_outputs(model, tensors)
        self.threads = threads
        self.bundles: dict[tuple[tuple[str, tuple[int, ...]], ...], Bundle] = {}

    def __enter__(self) -> Runner:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        for bundle in self.bundles.values():
            bundle.close()

    def run(self, feed: Mapping[str, Array]) -> dict[str, Array]:
        """All that it gives for one sample."""
        shapes = {name: array.shape for name, array in feed.items()}
        key = tuple(shapes.items())
        if key not in self.bundles:
            self.bundles[key] = compile_bundle(self.model, shapes=shapes, generator="llvm", threads=self.threads)
        return self.bundles[key].run(feed)


def tensor_types(model: onnx.ModelProto, tensors: Sequence[str], feed: Mapping[str, Array]) -> dict[str, str]:
    """The element types of tensors of a model for a sample."""
    shapes = {name: array.shape for name, array in feed.items()}
    graph = read_model(with_outputs(model, tensors), ReadOptions(shapes))
    found = dict(zip(graph.output_names, (value.dtype for value in graph.outputs), strict=True))
    return {**{value.name: value.dtype for value in graph.inputs}, **found}


@dataclass
class Difference:
    """How far tensors are from what they should be, over all samples.

    Args:
        largest: the greatest difference; most: the greatest magnitude that should be.
        noise, signal: sums of the squares of both.
    """

    largest: float = 0.0
    most: float = 0.0
    noise: float = 0.0
    signal: float = 0.0

    def add(self, got: Array, wanted: Array) -> None:
        if wanted.size:
            a, b = got.astype(np.float64), wanted.astype(np.float64)
            self.largest = max(self.largest, float(np.abs(a - b).max()))
            self.most = max(self.most, float(np.abs(b).max()))
            self.noise += float(np.square(a - b).sum())
            self.signal += float(np.square(b).sum())

    @property
    def relative(self) -> float:
        """The greatest difference as a share of the greatest magnitude."""
        return self.largest / self.most if self.most else float(self.largest > 0)

    @property
    def rms(self) -> float:
        """The root mean square of the difference as a share of that of what should be."""
        return float(np.sqrt(self.noise / self.signal)) if self.signal else float(self.noise > 0)

    @property
    def decibels(self) -> float:
        """Signal to noise; infinite where there is none."""
        return float("inf") if self.noise == 0 else float(-20 * np.log10(max(self.rms, 1e-30)))


@dataclass
class Comparison:
    """A model beside the float one, on the same samples.

    Args:
        outputs: every output that is a float one.
        agreement: the share of rows of the first output whose greatest element is the same; None where rows have one.
        accuracy: the share of rows whose greatest element is the label; None without labels.
    """

    outputs: dict[str, Difference] = field(default_factory=dict)
    agreement: float | None = None
    accuracy: float | None = None

    @property
    def error(self) -> float:
        """The greatest relative difference of any output."""
        return max((d.relative for d in self.outputs.values()), default=0.0)

    @property
    def rms(self) -> float:
        """The root mean square of the relative differences of the outputs."""
        return float(np.sqrt(np.mean([d.rms**2 for d in self.outputs.values()]))) if self.outputs else 0.0


def compared(
    got: Iterable[Mapping[str, Array]], wanted: Sequence[Mapping[str, Array]], labels: Array | None = None
) -> Comparison:
    """The outputs of all runs beside those that should be, by the names of these."""
    result = Comparison()
    ours: list[Array] = []
    theirs: list[Array] = []
    for a, b in zip(got, wanted, strict=True):
        for n, (name, array) in enumerate(b.items()):
            if array.dtype.kind == "f":
                result.outputs.setdefault(name, Difference()).add(a[name], array)
            if n == 0 and array.ndim and array.shape[-1] > 1 and array.dtype.kind == "f":
                ours.append(classes(a[name]))
                theirs.append(classes(array))
    if ours:
        result.agreement = float(np.mean(np.concatenate(ours) == np.concatenate(theirs)))
        result.accuracy = None if labels is None else accuracy(ours, labels)
    return result


def classes(scores: Array) -> Array:
    """The place of the greatest element of every row."""
    return np.asarray(scores.reshape(-1, scores.shape[-1]).argmax(axis=-1))


def accuracy(found: Sequence[Array], labels: Array) -> float:
    """The share of rows that have their label."""
    return float(np.mean(np.concatenate(found) == labels))
