"""What passes are made of: a walk over the old graph that builds the new one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from sterna.ir.graph import Array, Graph, Node, Value, captured, replace_values, with_inputs, with_regions
from sterna.ops import Builder


class Rewriting:
    """The new version of a graph in the making.

    Values of the old graph that survive keep their objects; `values` maps those that were replaced.
    """

    def __init__(self, graph: Graph, fold: int = 0):
        self.graph = graph
        self.builder = Builder.like(graph, fold)
        self.values: dict[Value, Value] = {}
        self.producer: dict[Value, Node] = {}
        self._done = 0

    def value(self, old: Value) -> Value:
        """What stands for a value of the old graph."""
        while (new := self.values.get(old)) is not None:
            old = new
        return old

    def operands(self, node: Node) -> tuple[Value | None, ...]:
        """The new operands of an old node."""
        return tuple(None if value is None else self.value(value) for value in node.inputs)

    def keep(self, node: Node) -> Node:
        """Takes the node over, on the new operands; its regions capture the new values."""
        changed = {value: new for value in captured(node) if (new := self.value(value)) is not value}
        regions = tuple(replace_values(region, changed) for region in node.regions)
        return self.builder.keep(with_regions(with_inputs(node, self.operands(node)), regions))

    def substitute(self, old: Value, new: Value) -> None:
        """Lets readers of `old` read `new`."""
        if old is not new:
            self.values[old] = new

    def emit(self, node: Node, op: str, *inputs: Value | None, joined: Node | None = None, **attributes: Any) -> Value:
        """A node in the place of an old one with one result; `joined`: another that it does the work of, too."""
        sources = node.sources if joined is None else tuple(dict.fromkeys(joined.sources + node.sources))
        name = node.name if joined is None else joined.name
        value = self.builder.add(op, *inputs, sources=sources, name=name, result=node.output, **attributes)
        self.substitute(node.output, value)
        return value

    def made_by(self, value: Value, *ops: str) -> Node | None:
        """The new node that gives a value, if it is one of these operators (of any, if none is named)."""
        for node in self.builder.nodes[self._done :]:
            for output in node.outputs:
                self.producer[output] = node
        self._done = len(self.builder.nodes)
        found = self.producer.get(value)
        return found if found is not None and (not ops or found.op in ops) else None

    def finish(self) -> Graph:
        """The new graph."""
        outputs = tuple(map(self.value, self.graph.outputs))
        halves = self.graph.halves.union(self.builder.halves)
        return replace(self.graph, nodes=tuple(self.builder.nodes), outputs=outputs, halves=halves)


def splat(value: Value | None) -> float | None:
    """The number that every element of a constant is; None if there is none."""
    if value is None or value.data is None or value.data.size == 0:
        return None
    data = value.data
    varies = any(stride and size > 1 for stride, size in zip(data.strides, data.shape, strict=True))
    if varies and (data.size > 1 << 16 or not np.all(data == data.flat[0])):
        return None
    return float(data.flat[0])


def constant_data(value: Value | None) -> Array | None:
    return None if value is None else value.data


def moves_nothing(order: tuple[int, ...], value: Value) -> bool:
    """Whether a transpose only moves dimensions of size 1, so that it is a reshape."""
    kept = [n for n in order if value.shape[n] != 1]
    return kept == sorted(kept)
