"""The layers of a network, one after the other.

With the mapping of old specifications an input of C, (B, C), (C, H, W) or (B, C, H, W) is a tensor (Seq, B, C, H, W).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sterna.errors import Diagnostic, SternaError, error, internal_error
from sterna.frontends.coreml.interface import Feature
from sterna.frontends.coreml.layers.flow import inner_networks
from sterna.frontends.coreml.layers.operators import is_supported, translator_of
from sterna.frontends.coreml.layers.translation import Layer
from sterna.frontends.coreml.package import Beside
from sterna.frontends.custom import how_to_register
from sterna.frontends.emitter import Emitter
from sterna.frontends.tripped import TRIPS, tripped
from sterna.ir.graph import Value
from sterna.ops import Builder

_NEW = 4  # the specification from which on layers take tensors of any rank
_SHOWN, _DEEPEST = 4, 32


def kind_of(layer: Any) -> str:
    """The kind of a layer; of a custom one, its class."""
    which = layer.WhichOneof("layer") or "nothing"
    return f"custom:{layer.custom.className}" if which == "custom" else str(which)


def layers_of(network: Any, depth: int = 0) -> list[Any]:
    """All layers, those of networks within layers too."""
    if depth > _DEEPEST:
        raise error("E0103", f"networks lie more than {_DEEPEST} deep in each other")
    found = []
    for layer in network.layers:
        found.append(layer)
        for inner in inner_networks(layer):
            found += layers_of(inner, depth + 1)
    return found


def _read(layer: Any) -> list[str]:
    """Names of what a layer reads."""
    condition = [layer.loop.conditionVar] if layer.WhichOneof("layer") == "loop" else []
    return [*layer.input, *condition]


def problems_of(network: Any, where: str) -> list[Diagnostic]:
    """Layers that are not supported, all of a kind together."""
    found: dict[str, list[str]] = {}
    for layer in layers_of(network):
        if not is_supported(kind_of(layer)):
            found.setdefault(kind_of(layer), []).append(f'"{layer.name}"')
    problems = []
    for kind, places in sorted(found.items(), key=lambda item: (-len(item[1]), item[0])):
        count = f"{len(places)} node" + ("s" if len(places) > 1 else "")
        shown = "; ".join(places[:_SHOWN]) + (f" and {len(places) - _SHOWN} more" if len(places) > _SHOWN else "")
        title, fix = f"the operator {kind} is not supported ({count})", how_to_register("coreml", kind)
        problems.append(Diagnostic("E0104", title, (f"{where}, {shown}",), fix))
    return problems


class Network:
    """Translates a network.

    Args:
        version: of the model's specification.
        outputs: names of its results.

    Attributes:
        problems: what went wrong; wanted: the names of values.
    """

    def __init__(
        self, builder: Builder, network: Any, version: int, where: str, beside: Beside, outputs: Iterable[str]
    ):
        self.builder, self.network, self.where, self.outputs = builder, network, where, set(outputs)
        self.rank5_arrays = version < _NEW or network.arrayInputShapeMapping == 0
        self.rank5_images = version < _NEW or network.imageInputShapeMapping == 0
        self.problems: list[Diagnostic] = []
        self.wanted: dict[Value, str] = {}

    def run(self, values: Mapping[str, Value], features: Sequence[Feature]) -> dict[str, Value]:
        """All values by name, of those of the inputs."""
        self.problems += problems_of(self.network, self.where)
        if self.problems:
            return {}
        inside = {each.name: self._taken(each, values[each.name], features) for each in features}
        return self._layers(self.network, inside)

    def _layers(self, network: Any, given: Mapping[str, Value]) -> dict[str, Value]:
        values, failed = dict(given), set[str]()
        for message in network.layers:
            if failed.intersection(message.input):
                failed.update(message.output)
                continue
            kind = kind_of(message)
            inputs: list[Value] = []
            try:
                for name in message.input:
                    if name not in values:
                        raise error("E0103", f'nothing computes "{name}" before it is read')
                    inputs.append(values[name])
                wanted = self._wanted(message) if inner_networks(message) else ()
                work = Layer(message, message.WhichOneof("layer"), inputs, self.builder, self._layers, values, wanted)
                made = translator_of(kind)(work)
                if isinstance(made, Mapping):
                    values.update(made)
                    continue
                results = made if isinstance(made, (tuple, list)) else (made,)
                if len(results) < len(message.output):
                    raise error("E0103", f"{kind} gives {len(results)} results, not {len(message.output)}")
                for name, value in zip(message.output, map(work.with_dimensions, results), strict=False):
                    values[name] = value
                    self.wanted.setdefault(value, name)
                continue
            except SternaError as mistake:
                found = mistake
            except MemoryError:
                raise
            except TRIPS as problem:
                found = tripped(problem, kind, inputs)
            except Exception as problem:  # ours, and still the other layers are looked at
                found = internal_error(f"{type(problem).__name__}: {problem}")
            place = f'{self.where}, {kind} "{message.name}"'
            self.problems += [replace(each, where=(place, *each.where)) for each in found.diagnostics]
            failed.update(message.output)
        return values

    def _wanted(self, message: Any) -> set[str]:
        """What is read outside of a layer with networks, or is a result."""
        reads: Counter[str] = Counter()
        inside: Counter[str] = Counter()
        for layer in layers_of(self.network):
            reads.update(_read(layer))
        for network in inner_networks(message):
            for layer in layers_of(network):
                inside.update(_read(layer))
        return {name for name, count in reads.items() if count > inside[name]} | self.outputs

    # ---------------------------------------------------------------- inputs and outputs
    def _taken(self, declared: Feature, value: Value, features: Sequence[Feature]) -> Value:
        """An input as layers see it: float32, preprocessed, with all dimensions."""
        t = Emitter(self.builder, "input", declared.name, [value], lambda n: "is an input")
        x = t.cast(value, "float32")
        if declared.kind == "image":
            images = [each.name for each in features if each.kind == "image"]
            for step in self.network.preprocessing:
                if step.featureName == declared.name or (not step.featureName and images[0] == declared.name):
                    x = _preprocessed(t, step, x, declared)
            return t.reshape(x, (1, *x.shape)) if self.rank5_images else x
        if not self.rank5_arrays:
            return x
        sizes = x.shape
        full = {
            0: (1, 1, 1, 1, 1), 1: (1, 1, *sizes, 1, 1), 2: (1, *sizes, 1, 1), 3: (1, 1, *sizes), 4: (1, *sizes),
        }.get(x.type.rank, sizes)  # fmt: skip
        if len(full) != 5:
            raise error("E0108", f'the input "{declared.name}" of {x.type} has too many dimensions')
        return t.reshape(x, full)

    def squeezed(self, value: Value, declared: Feature) -> Value:
        """A result without the dimensions that the description does not have."""
        if not self.rank5_arrays or value.type.rank != 5:
            return value
        t = Emitter(self.builder, "output", declared.name, [value], lambda n: "is computed")
        sequence, batch, *image = value.shape
        short = image[:1] if image[1] == 1 and image[2] == 1 else image
        lead = [size for size in (sequence, batch) if size != 1]
        wanted = len(declared.sizes)
        if not wanted or len(lead) + len(short) == wanted:
            return t.reshape(value, (*lead, *short))
        return t.reshape(value, value.shape[5 - wanted :]) if all(n == 1 for n in value.shape[: 5 - wanted]) else value

    def is_rank5(self, name: str) -> bool:
        """Whether results have the five dimensions of old networks."""
        return bool(name) and self.rank5_arrays


def _preprocessed(t: Emitter, step: Any, x: Value, declared: Feature) -> Value:
    if step.WhichOneof("preprocessor") == "meanImage":
        mean = np.array(step.meanImage.meanImage, np.float32)
        return t.op("sub", x, t.constant(mean.reshape(declared.ready[1:]), "float32"))
    scaler = step.scaler
    colours = [scaler.redBias, scaler.greenBias, scaler.blueBias]
    bias = [scaler.grayBias] if declared.ready[1] == 1 else colours[::-1] if declared.is_bgr else colours
    # A scale of 0 is one that the file leaves out.
    scale = scaler.channelScale or 1.0
    x = x if scale == 1.0 else t.op("mul", x, t.scalar(scale, "float32"))
    return t.op("add", x, t.constant(np.array(bias, np.float32).reshape(-1, 1, 1))) if any(bias) else x
