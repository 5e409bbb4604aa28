"""Checks that a graph is well formed. What it finds is a bug of ours, never of the user's."""

from __future__ import annotations

from collections.abc import Callable

from sterna.errors import internal_error
from sterna.ir.dtypes import from_numpy
from sterna.ir.graph import Graph, Node, TensorType, Value, tensor_type

Infer = Callable[[Node], tuple[TensorType, ...]]


def verify(graph: Graph, infer: Infer, stage: str = "") -> Graph:
    """Checks single assignment, order, names and types; gives the graph back.

    Args:
        infer: the types of a node's results from those of its operands (`sterna.ops.infer`).
        stage: what made the graph, for the message.

    Raises:
        SternaError: E0901, with everything that is wrong.
    """
    problems: list[str] = []
    _check(graph, infer, set(), {}, problems)
    # Of results only: what a run leaves in the states may be a result too, and a region's results have no names.
    if len(graph.output_names) != len(graph.outputs) or len(set(graph.result_names)) != len(graph.result_names):
        problems.append(f"output names {graph.output_names} do not fit the outputs")
    if problems:
        raise internal_error(f"the graph {graph.name} is malformed{f' after {stage}' if stage else ''}", *problems)
    return graph


def _check(graph: Graph, infer: Infer, outer: set[Value], names: dict[str, Value], problems: list[str]) -> None:
    defined = set(outer)

    def define(value: Value, where: str) -> None:
        if value in defined:
            problems.append(f"{where}: {value.name} is defined twice")
        defined.add(value)
        claim(value)

    def claim(value: Value) -> None:
        if names.setdefault(value.name, value) is not value:
            problems.append(f"two values are named {value.name}")

    def read(value: Value, where: str) -> None:
        if value.data is not None:
            claim(value)
            if tensor_type(from_numpy(value.data.dtype), value.data.shape) != value.type:
                problems.append(
                    f"{where}: the constant {value.name} holds {value.data.dtype}{value.data.shape}, not {value.type}"
                )
        elif value not in defined:
            problems.append(f"{where}: {value.name} is read before it is defined")

    for value in graph.inputs:
        define(value, "inputs")
    node_names: set[str] = set()
    for node in graph.nodes:
        where = f"{node.op} {node.name}"
        if node.name in node_names:
            problems.append(f"two nodes are named {node.name}")
        node_names.add(node.name)
        for value in node.operands:
            read(value, where)
        try:
            expected = infer(node)
        except Exception as mistake:  # whatever a type rule trips over is worth a line of the report
            problems.append(f"{where}: {mistake}")
        else:
            if expected != tuple(value.type for value in node.outputs):
                found = ", ".join(str(value.type) for value in node.outputs)
                problems.append(f"{where}: gives {', '.join(map(str, expected))} but is typed {found}")
        for region in node.regions:
            _check(region, infer, defined, names, problems)
        for value in node.outputs:
            define(value, where)
    for value in graph.outputs:
        read(value, "outputs")
