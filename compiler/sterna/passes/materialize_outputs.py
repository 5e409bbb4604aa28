"""Gives every output of the graph storage of its own."""

from __future__ import annotations

from dataclasses import replace

from sterna.ir.graph import Graph, Value
from sterna.passes.rewriting import Rewriting


def materialize_outputs(graph: Graph) -> Graph:
    """Copies outputs that are inputs, constants or another output, so that each is the result of a node of its own."""
    rewriting = Rewriting(graph)
    for node in graph.nodes:
        rewriting.keep(node)
    seen: set[Value] = set(graph.inputs)
    outputs = []
    for name, value in zip(graph.output_names, graph.outputs, strict=True):
        result = value
        if value.is_constant or value in seen:
            result = rewriting.builder.add("identity", value, name=f"{name}/copy")
        seen.add(result)
        outputs.append(result)
    return replace(graph, nodes=tuple(rewriting.builder.nodes), outputs=tuple(outputs))
