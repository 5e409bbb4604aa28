"""An ONNX graph that is being rewritten, with what is asked of it: who makes or reads a tensor, what is constant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from sterna.frontends.onnx.structure import subgraph_reads
from sterna.ir.graph import Array, Names

STANDARD = ("", "ai.onnx")


class Editing:
    """The nodes and constants of a graph, and indices of both. `finish` writes them back.

    Args:
        model: is not changed.
    """

    def __init__(self, model: onnx.ModelProto):
        self.model = model
        graph = model.graph
        self.nodes: list[onnx.NodeProto] = list(graph.node)
        self.constants: dict[str, Array] = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
        self.inputs = [value.name for value in graph.input if value.name not in self.constants]
        self.outputs = [value.name for value in graph.output]
        self.names = Names({*self.constants, *self.inputs, *(name for node in graph.node for name in node.output)})
        self.index()

    def index(self) -> None:
        """Brings the tables up to date after nodes have changed."""
        self.producer = {name: node for node in self.nodes for name in node.output if name}
        self.readers: dict[str, list[onnx.NodeProto]] = {}
        self.captured: set[str] = set()
        for node in self.nodes:
            for name in dict.fromkeys(node.input):
                self.readers.setdefault(name, []).append(node)
            self.captured |= subgraph_reads(node)

    def only_reader(self, name: str) -> onnx.NodeProto | None:
        """The node that alone reads a tensor; None if there are several, or the tensor is seen from outside."""
        readers = self.readers.get(name, [])
        return readers[0] if len(readers) == 1 and name not in self.outputs and name not in self.captured else None

    def constant(self, data: Array, name: str) -> str:
        """A new constant; its name begins with `name`."""
        name = self.names.fresh(name)
        self.constants[name] = data
        return name

    def node(
        self, op: str, inputs: Sequence[str], outputs: Sequence[str], name: str, **attributes: Any
    ) -> onnx.NodeProto:
        return helper.make_node(op, list(inputs), list(outputs), name=name, **attributes)

    def finish(self) -> onnx.ModelProto:
        """A new model of the same signature, with the constants that are read."""
        read = {name for node in self.nodes for name in (*node.input, *subgraph_reads(node))} | set(self.outputs)
        result = onnx.ModelProto()
        result.CopyFrom(self.model)
        graph = result.graph
        del graph.node[:], graph.initializer[:], graph.value_info[:]
        given = [value for value in graph.input if value.name in self.inputs]
        del graph.input[:]
        graph.input.extend(given)
        graph.node.extend(self.nodes)
        graph.initializer.extend(
            numpy_helper.from_array(np.asarray(data, order="C"), name)
            for name, data in self.constants.items()
            if name in read
        )
        return result


def settings(node: onnx.NodeProto) -> dict[str, Any]:
    """The attributes of a node."""
    return {a.name: helper.get_attribute_value(a) for a in node.attribute}


def with_outputs(model: onnx.ModelProto, names: Sequence[str]) -> onnx.ModelProto:
    """The model with further tensors as outputs."""
    result = onnx.ModelProto()
    result.CopyFrom(model)
    given = {value.name for value in result.graph.output}
    given |= {value.name for value in result.graph.input}
    result.graph.output.extend(onnx.ValueInfoProto(name=name) for name in dict.fromkeys(names) if name not in given)
    return result
