"""A format that Sterna does not know: networks of dense layers in JSON, with their weights in an .npz file beside it.

A model is the JSON file of such a pair, a folder that holds `network.json` and `weights.npz`, or a `Network` in Python.
Nothing in the package is edited for it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sterna.errors import Diagnostic, SternaError, error
from sterna.frontends import (
    Confidence,
    Description,
    Frontend,
    ModelTensor,
    OperatorUse,
    ReadOptions,
    Reference,
    Runtime,
    Source,
)
from sterna.frontends.emitter import Emitter
from sterna.frontends.inputs import InputInfo, input_types
from sterna.frontends.naming import named_graph
from sterna.ir.graph import Array, Graph, Value
from sterna.ops import Builder

ACTIVATIONS = ("relu", "tanh", "none")


@dataclass(frozen=True, eq=False)
class Network:
    """A model: the activation of each layer, and its weights `(inputs, outputs)`."""

    activations: tuple[str, ...]
    weights: tuple[Array, ...]

    def save(self, file: Path, weights: Path) -> None:
        file.write_text(json.dumps({"dense network": 1, "layers": list(self.activations)}))
        np.savez(weights, *self.weights)


class DenseFrontend(Frontend):
    name = "dense"
    title = "Dense networks"
    suffixes = (".dense",)
    runtime = Runtime("numpy-dense", ("numpy",))
    objects = "a support.toy_frontend.Network"

    def detect(self, source: Source) -> Confidence:
        if isinstance(source.model, Network):
            return Confidence.CERTAIN
        if source.is_folder:
            return Confidence.LIKELY if {"network.json", "weights.npz"} <= set(source.names) else Confidence.NO
        return Confidence.LIKELY if source.start.startswith(b'{"dense network"') else Confidence.NO

    def read(self, source: Source, options: ReadOptions) -> Graph:
        network = load(source)
        if problems := missing(network, source):
            raise SternaError(problems)
        width = network.weights[0].shape[0]
        types, problems = input_types(
            [InputInfo("x", "float32", ("batch", width), (1, width))], options.sizes, options.dims
        )
        if problems:
            raise SternaError(problems)
        x = value = Value("x", types[0])
        builder = Builder()
        for n, (activation, weights) in enumerate(zip(network.activations, network.weights, strict=True)):
            t = Emitter(builder, "dense", f"layer{n}", [value], lambda _: "is the layer before")
            value = t.op("matmul", value, t.constant(weights))
            value = value if activation == "none" else t.op(activation, value)
        return named_graph("dense", builder.nodes, (x,), (value,), ("y",), {value: "y"})

    def describe(self, source: Source, options: ReadOptions) -> Description:
        network = load(source)
        inputs, outputs = network.weights[0].shape[0], network.weights[-1].shape[1]
        uses = Counter(network.activations)
        return Description(
            source.name,
            "",
            {},
            (ModelTensor("x", "float32", ("batch", inputs)),),
            (ModelTensor("y", "float32", ("batch", outputs)),),
            tuple(OperatorUse(f"dense, {a}", count, "yes" if a in ACTIVATIONS else "no") for a, count in uses.items()),
            len(network.weights),
            sum(w.size for w in network.weights),
            sum(w.nbytes for w in network.weights),
            tuple(missing(network, source)),
            self.title,
            sizes_ready=True,
        )

    def reference(self, source: Source, options: ReadOptions) -> Reference:
        def run(inputs: Mapping[str, Array], tensors: Iterable[str] = ()) -> dict[str, Array]:
            y = inputs["x"]
            network = load(source)
            for activation, weights in zip(network.activations, network.weights, strict=True):
                y = y @ weights
                y = {"relu": lambda v: np.maximum(v, 0), "tanh": np.tanh, "none": lambda v: v}[activation](y)
            return {"y": y}

        return Reference(run)


def load(source: Source) -> Network:
    """The network of a source, in all of its forms."""
    if isinstance(source.model, Network):
        return source.model
    path = source.file()
    file, weights = (path / "network.json", path / "weights.npz") if source.is_folder else (path, source.beside(".npz"))
    if weights is None:
        raise error("E0110", f"{source.name} has its weights in {path.stem}.npz beside it, which is not there")
    with np.load(weights) as archive:
        arrays = tuple(archive[key] for key in archive.files)
    return Network(tuple(json.loads(file.read_text())["layers"]), arrays)


def missing(network: Network, source: Source) -> list[Diagnostic]:
    """The activations that there are no core operators for."""
    names = [a for a in dict.fromkeys(network.activations) if a not in ACTIVATIONS]
    return [Diagnostic("E0104", f"the activation {name} is not supported", (source.name,)) for name in names]
