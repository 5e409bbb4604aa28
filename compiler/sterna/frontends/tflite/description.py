"""Facts about a TensorFlow Lite model, without compiling it."""

from __future__ import annotations

import math
import os
from collections import Counter
from pathlib import Path

from sterna.frontends.description import Description, ModelTensor, OperatorUse
from sterna.frontends.tflite.inputs import declared_dims
from sterna.frontends.tflite.reader import is_supported, named_tensors, problems_of, signature_of
from sterna.frontends.tflite.schema import ModelInfo, TensorInfo, load


def describe(path: str | os.PathLike[str], signature: str | None = None) -> Description:
    """The facts of a TensorFlow Lite file, all of its graphs counted.

    Args:
        signature: whose inputs and outputs are wanted; those of the first graph without it.

    Raises:
        SternaError: E0101 or E0103, it is not a model; E0106, it has no such signature.
    """
    info = load(path)
    where = Path(path).name
    problems = [problem for graph in info.subgraphs for problem in problems_of(graph, where)]
    operators = [operator for graph in info.subgraphs for operator in graph.operators]
    supported = {operator.op: is_supported(operator) for operator in operators}
    counts = Counter(operator.op for operator in operators)
    chosen = None if signature is None else signature_of(info, signature)
    shown = info.subgraphs[0 if chosen is None else chosen.subgraph]
    inputs = named_tensors(shown, shown.inputs, () if chosen is None else chosen.inputs)
    outputs = named_tensors(shown, shown.outputs, () if chosen is None else chosen.outputs)
    weights = [_weights(tensor) for graph in info.subgraphs for tensor in graph.tensors if tensor.content is not None]
    return Description(
        where,
        info.description,
        {},
        tuple(map(_tensor, inputs)),
        tuple(map(_tensor, outputs)),
        tuple(OperatorUse(op, count, "yes" if supported[op] else "no") for op, count in counts.most_common()),
        len(operators),
        sum(count for count, _ in weights),
        sum(size for _, size in weights),
        tuple(problems),
        format="TensorFlow Lite",
        signatures=_signatures(info),
        sizes_ready=True,
    )


def _signatures(info: ModelInfo) -> tuple[str, ...]:
    return tuple(signature.key for signature in info.signatures)


def _tensor(tensor: TensorInfo) -> ModelTensor:
    return ModelTensor(tensor.name, tensor.kind, declared_dims(tensor))


def _weights(tensor: TensorInfo) -> tuple[int, int]:
    """(elements, bytes in the file) of a constant."""
    assert tensor.content is not None
    return math.prod(tensor.shape), int(tensor.content.size)
