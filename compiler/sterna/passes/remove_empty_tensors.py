"""Takes tensors without elements out of a graph: nothing computes or reads them, they only stay in its signature."""

from __future__ import annotations

import numpy as np

from sterna.ir import dtypes
from sterna.ir.graph import Array, Graph, Node, Value, constant
from sterna.ir.sizes import symbols_in
from sterna.ops.evaluate import evaluate
from sterna.passes.rewriting import Rewriting


def remove_empty_tensors(graph: Graph) -> Graph:
    """The graph with every empty result a constant, and with constants for what depends on empty tensors only."""
    if not any(is_empty(value) for node in graph.nodes for value in (*node.operands, *node.outputs)):
        return graph
    rewriting = Rewriting(graph)
    for node in graph.nodes:
        if node.regions:
            rewriting.keep(node)
            continue
        operands = rewriting.operands(node)
        present = [value for value in operands if value is not None]
        if all(map(is_empty, node.outputs)):
            for value in node.outputs:
                rewriting.substitute(value, constant(value.name, _nothing(value)))
        elif (
            _is_known(node)
            and present
            and all(is_empty(v) or v.is_constant for v in present)
            and any(map(is_empty, present))
        ):
            arrays = [None if v is None else v.data if v.data is not None else _nothing(v) for v in operands]
            results = evaluate(node.op, arrays, node.attributes, [value.type for value in node.outputs])
            for value, array in zip(node.outputs, results, strict=True):
                rewriting.substitute(value, constant(value.name, array))
        elif node.op == "concat" and any(map(is_empty, present)):
            rewriting.emit(node, "concat", *(v for v in present if not is_empty(v)), **node.attributes)
        else:
            rewriting.keep(node)
    return rewriting.finish()


def _is_known(node: Node) -> bool:
    """Whether the sizes of all results are known."""
    return all(value.type.is_static for value in node.outputs) and not symbols_in(node.attributes)


def is_empty(value: Value) -> bool:
    """Whether a tensor is known to have no elements."""
    return value.type.is_static and value.type.elements == 0


def _nothing(value: Value) -> Array:
    return np.empty(value.type.sizes, dtypes.to_numpy(value.dtype))
