"""A network in float32 as the same one in float64: how far rounding takes results in float32."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sterna.bundle.writer import write_bundle
from sterna.driver import Options, compile_graph
from sterna.ir.graph import Graph, Node, TensorType, Value
from sterna.ops import operator
from sterna.passes.rewriting import Rewriting
from sterna.targets.description import load_target
from sterna_runtime import load

Arrays = Mapping[str, np.ndarray[Any, Any]]


def in_float64(graph: Graph) -> Graph:
    """The graph with float64 in the place of float32 between its inputs and outputs, which keep their types.

    Raises:
        ValueError: it has control flow or loop programs, which say themselves what they compute in.
    """
    return _Doubling(graph).run()


def run_in_float64(graph: Graph, inputs: Arrays, place: Path) -> dict[str, np.ndarray[Any, Any]]:
    """What the graph computes if nothing but its outputs is rounded to float32."""
    options = Options(load_target("host"))
    with load(write_bundle(compile_graph(in_float64(graph), "exact", options), place)) as bundle:
        return {name: found.copy() for name, found in bundle.run(inputs).items()}


class _Doubling:
    def __init__(self, graph: Graph):
        self.graph = graph
        self.rewriting = Rewriting(graph)
        self.builder = self.rewriting.builder
        self.wide: dict[Value, Value] = {}

    def run(self) -> Graph:
        for node in self.graph.nodes:
            self.double(node)
        return self.rewriting.finish()

    def double(self, node: Node) -> None:
        floats = any(v is not None and v.dtype == "float32" for v in (*node.inputs, *node.outputs))
        if node.regions or (floats and operator(node.op).program is not None):
            raise ValueError(f"{node.op} is computed in float32")
        if not floats:
            self.rewriting.keep(node)
            return
        inputs = [v if v is None or v.dtype != "float32" else self.of(v, node) for v in self.rewriting.operands(node)]
        attributes = {k: "float64" if v == "float32" else v for k, v in node.attributes.items()}
        types = tuple(None if v is None else v.type for v in inputs)
        kinds: tuple[TensorType, ...] = operator(node.op).types(types, attributes)
        results = [
            old if old.type == kind else self.builder.name(f"{old.name}/float64")
            for old, kind in zip(node.outputs, kinds, strict=True)
        ]
        made = self.builder.add_all(
            node.op, *inputs, sources=node.sources, name=node.name, results=results, **attributes
        )
        for old, new in zip(node.outputs, made, strict=True):
            if old is not new:
                # Dead code but for outputs.
                self.builder.add("cast", new, sources=node.sources, name=f"{node.name}/round", result=old, to=old.dtype)
                self.wide[old] = new

    def of(self, value: Value, reader: Node) -> Value:
        if value not in self.wide:
            name = f"{value.name}/float64"
            if value.data is not None:
                self.wide[value] = self.builder.constant(value.data.astype(np.float64), name)
            else:
                self.wide[value] = self.builder.add("cast", value, sources=reader.sources, name=name, to="float64")
        return self.wide[value]
