"""A graph run with the reference interpreter, node by node: what everything compiled is compared with."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from sterna.errors import Diagnostic, SternaError, error
from sterna.ir import dtypes
from sterna.ir.graph import Array, Graph, Value
from sterna.ops.evaluate import evaluate


def interpret(
    graph: Graph, inputs: Mapping[str, Array], observe: Callable[[Value, Array], None] | None = None
) -> dict[str, Array]:
    """The outputs for some inputs.

    Args:
        inputs: one array per graph input, by name, of its static shape and element type.
        observe: called with every intermediate value as it is computed.

    Returns:
        The outputs by their names in the model, in its order.

    Raises:
        SternaError: E0601, E0603 or E0604, an input is missing or does not fit.
    """
    values: dict[Value, Array] = {}
    problems: list[Diagnostic] = []
    for value in graph.inputs:
        if value.name not in inputs:
            problems.append(Diagnostic("E0601", f'the input "{value.name}" is missing'))
            continue
        array = np.asarray(inputs[value.name])
        if array.dtype != dtypes.to_numpy(value.dtype):
            problems.append(Diagnostic("E0603", f'the input "{value.name}" is {array.dtype}, not {value.dtype}'))
        elif array.shape != value.type.sizes:
            problems.append(
                Diagnostic("E0604", f'the input "{value.name}" is {list(array.shape)}, not {list(value.type.sizes)}')
            )
        else:
            values[value] = array
    if problems:
        raise SternaError(problems)
    last_use = {value: node for node in graph.nodes for value in node.operands}
    kept = set(graph.outputs)

    def array_of(value: Value) -> Array:
        return value.data if value.data is not None else values[value]

    for node in graph.nodes:
        operands = [None if v is None else array_of(v) for v in node.inputs]
        results = evaluate(node.op, operands, node.attributes, [v.type for v in node.outputs])
        if node.op == "require" and not results[0]:
            raise error("E0511", f"an input is not what the model was compiled for ({', '.join(node.sources)})")
        for value, array in zip(node.outputs, results, strict=True):
            values[value] = array
            if observe is not None:
                observe(value, array)
        for value in node.operands:
            if last_use[value] is node and value not in kept and value in values:
                del values[value]
    return {name: np.array(array_of(v)) for name, v in zip(graph.output_names, graph.outputs, strict=True)}
