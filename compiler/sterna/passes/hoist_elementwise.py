"""Moves element-wise operators of one operand before the reshapes that they follow.

There they join the kernel that computes the elements; after a reshape they would be a kernel of their own. (They do
not move before a transpose: an activation takes longer in the store of a product, which fills the registers, than in
the transpose.)
"""

from __future__ import annotations

from collections.abc import Callable

from sterna.ir.graph import Graph, Node, Value
from sterna.ops import operator
from sterna.ops.operator import Fusion
from sterna.passes.rewriting import Rewriting


def hoist_elementwise(graph: Graph) -> Graph:
    """The graph with element-wise operators directly after the operator that computes what they read."""
    users, outputs = graph.users(), set(graph.outputs)
    rewriting = Rewriting(graph)

    def alone(value: Value) -> bool:
        return value not in outputs and len(users.get(value, "?")) == 1

    for node in graph.nodes:
        chain = _reshapes_before(rewriting, node, alone)
        if not chain:
            rewriting.keep(node)
            continue
        (x,) = chain[0].operands
        value = rewriting.builder.add(node.op, x, sources=node.sources, **node.attributes)
        # One reshape in place of all of them, so that later operators have only one to pass.
        last = chain[-1]
        value = rewriting.builder.add(last.op, value, sources=node.sources, result=node.output, **last.attributes)
        rewriting.substitute(node.output, value)
    return rewriting.finish()


def _reshapes_before(rewriting: Rewriting, node: Node, alone: Callable[[Value], bool]) -> list[Node]:
    """The reshapes, first to last, between an element-wise node and a kernel that it could join; none where there is no
    such kernel, or where others read what is between."""
    if node.regions or len(node.inputs) != 1 or len(node.outputs) != 1:
        return []
    if operator(node.op).fusion is not Fusion.BROADCAST or node.output.type != node.operands[0].type:
        return []
    chain: list[Node] = []
    value = rewriting.value(node.operands[0])
    while alone(value) and (before := rewriting.made_by(value)) is not None:
        if before.op != "reshape":
            return chain if not before.regions and operator(before.op).fusion is not Fusion.OPAQUE else []
        chain.insert(0, before)
        value = before.operands[0]
    return []
