"""Facts about a model of Core ML, without compiling it."""

from __future__ import annotations

from collections import Counter
from typing import Any

from sterna.errors import Diagnostic
from sterna.frontends.coreml.classical import TRANSLATORS
from sterna.frontends.coreml.interface import feature
from sterna.frontends.coreml.layers import network
from sterna.frontends.coreml.layers.operators import is_supported as is_layer
from sterna.frontends.coreml.mil import program
from sterna.frontends.coreml.mil.operators import is_supported as is_operation
from sterna.frontends.coreml.package import load
from sterna.frontends.coreml.pipelines import parts_of, refusal
from sterna.frontends.coreml.reader import function_of
from sterna.frontends.description import Description, ModelTensor, OperatorUse
from sterna.frontends.source import Source


def describe(source: Source, function: str | None = None) -> Description:
    """The facts of a model.

    Raises:
        SternaError: E0101 or E0103, it is not a model; E0106, it has no such function.
    """
    model, _ = load(source)
    uses: Counter[str] = Counter()
    supported: dict[str, bool] = {}
    problems: list[Diagnostic] = []
    for part in parts_of(model):
        kind = part.WhichOneof("Type")
        if kind == "mlProgram":
            for code in part.mlProgram.functions.values():
                block = program.block_of(code)
                found = program.counts(block)
                uses.update(found)
                supported |= {name: is_operation(name) for name in found}
                problems += program.problems_of(block, source.name)
        elif kind.startswith("neuralNetwork"):
            layers = [network.kind_of(layer) for layer in network.layers_of(getattr(part, kind))]
            uses.update(layers)
            supported |= {name: is_layer(name) for name in layers}
            problems += network.problems_of(getattr(part, kind), source.name)
        else:
            uses[kind] += 1
            supported[kind] = kind in TRANSLATORS
            if not supported[kind]:
                problems.append(refusal(kind, part, source.name))
    described, signatures = model.description, ()
    if model.WhichOneof("Type") == "mlProgram":
        _, described = function_of(model, function)
        signatures = tuple(sorted(model.mlProgram.functions))
    users = dict(model.description.metadata.userDefined)
    producer = users.get("com.github.apple.coremltools.version", "")
    return Description(
        source.name,
        f"coremltools {producer}" if producer else "",
        {},
        tuple(map(_tensor, described.input)),
        tuple(map(_tensor, described.output)),
        tuple(OperatorUse(name, count, "yes" if supported[name] else "no") for name, count in uses.most_common()),
        sum(uses.values()),
        0,
        sum(path.stat().st_size for path in source.files),
        tuple(problems),
        format=f"Core ML, specification {model.specificationVersion}",
        signatures=signatures,
        sizes_ready=True,
    )


def _tensor(described: Any) -> ModelTensor:
    found = feature(described)
    return ModelTensor(found.name, found.dtype or found.kind, found.sizes)
