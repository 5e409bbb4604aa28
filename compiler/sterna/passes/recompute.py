"""Chains of element-wise nodes that several kernels read: each may compute them for itself, so that they are stored
nowhere.

By the rule they are stored (`passes.decisions`). Readers are chains of element-wise nodes of the same shape, maybe with
a reduction at their end, as a group may begin with (`passes.fuse`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sterna.ir.graph import Node, Value
from sterna.ops import operator
from sterna.ops.operator import Fusion
from sterna.passes.context import PassContext
from sterna.passes.decisions import Decide
from sterna.passes.fuse import LIMIT, Group
from sterna.passes.partition import Partition
from sterna.passes.stages import Grouped

#: Kernels up to which one more computes the same.
MOST_READERS = 4


def recompute(grouped: Grouped, context: PassContext) -> Grouped:
    """The groups, some of which compute for themselves what others did."""
    decide = context.decide
    groups = {
        graph: _recomputed(Partition(graph, grouped.views, apart), decide) for graph, apart in grouped.groups.items()
    }
    return Grouped(grouped.graph, grouped.views, groups)


def _recomputed(partition: Partition, decide: Decide) -> tuple[Group, ...]:
    groups = [*partition.groups]
    for group in partition.groups:
        readers = _readers(partition, group, groups)
        if not readers:
            continue
        part = [*group.nodes, *(node for each in readers for node in each.nodes)]
        if not decide("again", part, (True, False), False):
            continue
        groups.remove(group)
        for each in readers:
            groups[groups.index(each)] = replace(each, nodes=partition.in_order((*group.nodes, *each.nodes)))
    return tuple(groups)


def _readers(partition: Partition, group: Group, groups: Sequence[Group]) -> tuple[Group, ...]:
    """The groups that can compute a group's value for themselves: all that read it; none where one cannot."""
    if group not in groups or len(group.outputs) != 1 or not all(map(_light, group.nodes)):
        return ()
    (value,) = group.outputs
    users, written = partition.users.get(value, []), partition.views.written
    if value in partition.outputs or value in partition.views.parents or not written.keys().isdisjoint(group.nodes):
        return ()
    readers = tuple(each for each in groups if any(value in node.operands for node in each.nodes))
    if not 2 <= len(readers) <= MOST_READERS:
        return ()
    inside = {node for each in readers for node in each.nodes}
    together = inside.issuperset(users) and all(_takes(each, value, len(group.nodes)) for each in readers)
    return readers if together else ()


def _takes(reader: Group, value: Value, nodes: int) -> bool:
    """Whether a group can begin with what makes a value: element by element, up to a reduction at its end."""
    *chain, last = reader.nodes
    if len(reader.nodes) + nodes > LIMIT or not all(map(_light, chain)):
        return False
    if not _light(last) and (last.regions or "reduction" not in operator(last.op).tags):
        return False
    return all(node.output.shape == value.shape for node in chain) and (
        not _light(last) or last.output.shape == value.shape
    )


def _light(node: Node) -> bool:
    """Whether a node is computed element by element."""
    return not node.regions and len(node.outputs) == 1 and operator(node.op).fusion is Fusion.BROADCAST


__all__ = ["recompute"]
