"""A graph, or a region, in groups, and what recognizers of larger kernels ask about it."""

from __future__ import annotations

from collections.abc import Iterable

from sterna.ir.graph import Graph, Node, Value
from sterna.passes.fuse import Group
from sterna.passes.views import Views


class Partition:
    """The groups of one graph, without those of its regions."""

    def __init__(self, graph: Graph, views: Views, groups: tuple[Group, ...]):
        self.graph, self.views, self.groups = graph, views, groups
        self.users, self.producers = graph.users(), graph.producers()
        self.outputs = set(graph.outputs)
        self.position = {node: n for n, node in enumerate(graph.nodes)}
        self.made = {group.outputs[0]: group for group in groups if len(group.outputs) == 1}

    def alone(self, value: Value | None, reader: Node) -> Group | None:
        """The group that makes a value which only one node reads, and which lies nowhere else."""
        if value is None or value in self.outputs or value in self.views.parents or self.users.get(value) != [reader]:
            return None
        return self.made.get(value)

    def in_order(self, nodes: Iterable[Node]) -> tuple[Node, ...]:
        """The nodes as they stand in the graph."""
        return tuple(sorted(nodes, key=self.position.__getitem__))

    def joined(self, chains: Iterable[tuple[Node, ...]], on_device: bool = False) -> tuple[Group, ...]:
        """The groups, with each chain (whole groups, of which the last one's result leaves) as one; `on_device`: which
        the CPU cannot compute."""
        chain_of = {node: chain for chain in chains for node in chain}
        found: dict[tuple[Node, ...] | Group, Group] = {}
        for group in self.groups:
            chain = chain_of.get(group.nodes[0])
            if chain is None:
                found[group] = group
            else:
                found[chain] = Group(chain, group.outputs, True, on_device)
        return tuple(sorted(found.values(), key=lambda group: self.position[group.nodes[-1]]))
