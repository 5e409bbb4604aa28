"""Functions of one byte become tables of 256 entries.

Quantized models round an activation to 8 bits, apply a function, and round again: sigmoid, tanh, GELU, x * sigmoid(x)
with both factors rounded. What a byte becomes then depends on that byte alone, and is computed here for all of them, by
the operators themselves. Where the function is only a multiplication and a rounding, vectors are faster than a table;
a target without vectors has a table for all that is computed in floats.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import numpy as np

from sterna.ir import dtypes
from sterna.ir.graph import Array, Graph, Node, TensorType, Value
from sterna.ir.integer import Int
from sterna.ops import operator
from sterna.ops.evaluate import evaluate
from sterna.passes.rewriting import Rewriting
from sterna.te import expr as E
from sterna.te.tensor import Tensor, placeholder

_BYTES = ("int8", "uint8")
#: Operations that take a processor tens of instructions.
_DEAR = frozenset(E.MATH)


def tabulate(graph: Graph, floats_are_dear: bool) -> Graph:
    """The graph with such functions as tables; `floats_are_dear`: whatever is computed in floats is one of them."""
    found = _Functions(graph, floats_are_dear).run()
    if not found:
        return graph
    rewriting = Rewriting(graph)
    for node in graph.nodes:
        if len(node.outputs) == 1 and node.output in found:
            source, table = found[node.output]
            rewriting.emit(node, "lookup", rewriting.value(source), rewriting.builder.constant(table))
        else:
            rewriting.keep(node)
    return rewriting.finish()


class _Functions:
    """What is known of the values of a graph that are functions of one byte each."""

    def __init__(self, graph: Graph, floats_are_dear: bool):
        self.graph, self.floats_are_dear = graph, floats_are_dear
        self.source: dict[Value, Value] = {}
        self.made: dict[Value, Node] = {}
        self.dear: set[Value] = set()
        self.values: dict[Value, Array] = {}

    def run(self) -> dict[Value, tuple[Value, Array]]:
        """By results of 8 bits: the byte that they are functions of, and their table."""
        found = {}
        for node in self.graph.nodes:
            source = self.of(node)
            if source is None:
                continue
            self.source[node.output], self.made[node.output] = source, node
            if any(value in self.dear for value in node.operands) or self.is_dear(node):
                self.dear.add(node.output)
                if node.output.dtype in _BYTES:
                    found[node.output] = source, self.table(node.output)
        return found

    def is_dear(self, node: Node) -> bool:
        floats = self.floats_are_dear and dtypes.is_float(node.output.dtype)
        return floats or _is_dear(node)

    def of(self, node: Node) -> Value | None:
        """The byte that a node's result is a function of, element by element."""
        if node.regions or len(node.outputs) != 1 or "elementwise" not in operator(node.op).tags:
            return None
        sources: set[Value] = set()
        for value in node.operands:
            if value.data is not None:
                if value.data.size != 1:
                    return None
            elif value.shape != node.output.shape:
                return None
            else:
                own = self.source.get(value)
                sources.add(value if own is None else own)
        if len(sources) != 1 or (source := sources.pop()).dtype not in _BYTES:
            return None
        return source

    def table(self, value: Value) -> Array:
        """A value for every byte from the least on."""
        source = self.source.get(value)
        if source is None:
            low, high = dtypes.limits(value.dtype)
            return np.arange(low, high + 1).astype(value.dtype)
        if value not in self.values:
            node = self.made[value]
            operands = [
                None if each is None else each.data.reshape(()) if each.data is not None else self.table(each)
                for each in node.inputs
            ]
            (self.values[value],) = evaluate(node.op, operands, node.attributes)
        return self.values[value]


def _is_dear(node: Node) -> bool:
    kinds = tuple(None if value is None else value.dtype for value in node.inputs)
    return _has_dear(node.op, kinds, node.output.dtype, tuple(sorted(node.attributes.items())))


@cache
def _has_dear(op: str, kinds: tuple[str | None, ...], result: str, attributes: tuple[tuple[str, object], ...]) -> bool:
    """Whether an operator's formula has an operation that takes long."""
    shape = (Int({}, 2),)
    given: Mapping[str, object] = dict(attributes)
    tensors = [
        None if kind is None else placeholder(f"x{n}", shape, dtypes.storage(kind)) for n, kind in enumerate(kinds)
    ]
    stages = list(operator(op).compute(tensors, given, (TensorType(result, shape),), "y"))
    while stages:
        body = stages.pop().body
        if body is None:
            continue
        if any(isinstance(e, (E.Unary, E.Binary)) and e.op in _DEAR for e in E.walk(body)):
            return True
        stages += [load.tensor for load in E.loads(body) if isinstance(load.tensor, Tensor)]
    return False
