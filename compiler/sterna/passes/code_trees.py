"""Ensembles of trees get tables of few bytes, where weights lie in flash.

With caches a node is what is compared, in one line with its sibling, and several rows walk at once. In flash every word
of a table counts, and little is gained by where it lies: nodes are packed, equal parts of trees are kept once, and
features become small integers before the first walk.
"""

from __future__ import annotations

from sterna.ir.graph import Graph, Node
from sterna.ops.coded_forest import Coded, coded
from sterna.passes.rewriting import Rewriting, constant_data


def code_trees(graph: Graph) -> Graph:
    """The graph with such tables."""
    found = {node: tables for node in graph.nodes if (tables := _coded(node)) is not None}
    if not found:
        return graph
    rewriting = Rewriting(graph)
    for node in graph.nodes:
        tables = found.get(node)
        if tables is None:
            rewriting.keep(node)
            continue
        assert node.inputs[0] is not None
        constants = (None if a is None else rewriting.builder.constant(a) for a in tables.operands())
        x = rewriting.value(node.inputs[0])
        rewriting.emit(node, "coded_tree_ensemble", x, *constants, **tables.attributes)
    return rewriting.finish()


def _coded(node: Node) -> Coded | None:
    if node.op != "tree_ensemble":
        return None
    x, *tables = node.inputs
    assert x is not None
    features = x.shape[1]
    if not features.is_const or any(table is not None and table.data is None for table in tables):
        return None
    return coded([constant_data(table) for table in tables], node.attributes, x.dtype, int(features))
