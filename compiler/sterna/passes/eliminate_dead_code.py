"""Drops what no output needs."""

from __future__ import annotations

from dataclasses import replace

from sterna.ir.graph import Graph, Value, captured


def eliminate_dead_code(graph: Graph) -> Graph:
    """The graph without nodes whose results nobody reads. Inputs stay, they are the model's signature."""
    needed: set[Value] = set(graph.outputs)
    nodes = []
    for node in reversed(graph.nodes):
        if any(value in needed for value in node.outputs):
            nodes.append(node)
            needed.update(node.operands)
            needed.update(captured(node))
    if len(nodes) == len(graph.nodes):
        return graph
    return replace(graph, nodes=tuple(reversed(nodes)))
