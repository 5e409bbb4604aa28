"""Drops what no output needs."""

from __future__ import annotations

from dataclasses import replace

from sterna.ir.graph import Graph
from sterna.ir.sizes import needed_nodes


def eliminate_dead_code(graph: Graph) -> Graph:
    """The graph without nodes whose results are not read. Inputs stay, because they are the model's signature."""
    nodes = needed_nodes(graph.nodes, graph.outputs)
    return graph if len(nodes) == len(graph.nodes) else replace(graph, nodes=nodes)
