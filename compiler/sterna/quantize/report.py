"""What quantization did to a model: sizes, errors layer by layer, what stayed float and why."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class LayerReport:
    """One node.

    Args:
        integer: whether it computes with integers; reason: why not.
        weight_error: root mean square error of the weights, relative to theirs; None without weights.
        decibels: signal to noise of the result in the whole quantized model; None of a float layer.
        error: the greatest difference of the result, relative to its greatest magnitude.
        sensitivity: root mean square error of the outputs where only this layer is rounded; None if not asked.
        bytes_before, bytes_after: of weights and bias, with scales.
        scale, zero, dtype: of the result; None where it goes on as float.
    """

    name: str
    op: str
    integer: bool
    reason: str = ""
    weight_error: float | None = None
    decibels: float | None = None
    error: float | None = None
    sensitivity: float | None = None
    bytes_before: int = 0
    bytes_after: int = 0
    scale: float | None = None
    zero: int | None = None
    dtype: str | None = None


@dataclass(frozen=True)
class OutputReport:
    """An output: the greatest difference relative to its greatest magnitude, and the root mean squares' ratio."""

    name: str
    error: float
    rms: float


@dataclass(frozen=True)
class Report:
    """The whole of it.

    Args:
        agreement: the share of rows of the first output whose greatest element is that of the float model.
        accuracy_before, accuracy_after: by the labels of the samples.
        bytes_before, bytes_after: of the model files, both with folded constants.
        bound: of the error, or of the loss of accuracy where there are labels.
    """

    model: str
    method: str
    percentile: float | None
    activations: str
    samples: int
    bound: float | None
    error: float
    rms: float
    agreement: float | None
    accuracy_before: float | None
    accuracy_after: float | None
    bytes_before: int
    bytes_after: int
    outputs: tuple[OutputReport, ...]
    layers: tuple[LayerReport, ...]

    @property
    def integer_layers(self) -> int:
        return sum(layer.integer for layer in self.layers)

    @property
    def kept(self) -> tuple[LayerReport, ...]:
        """The nodes that could be integer ones and are not."""
        return tuple(layer for layer in self.layers if not layer.integer)

    def json(self) -> dict[str, Any]:
        """Everything, for scripts; infinities are null."""
        facts = asdict(self)
        facts["outputs"] = [_finite(asdict(output)) for output in self.outputs]
        facts["layers"] = [_finite(asdict(layer)) for layer in self.layers]
        return _finite(facts)


def _finite(row: dict[str, Any]) -> dict[str, Any]:
    return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in row.items()}
