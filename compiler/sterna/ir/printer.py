"""The graph as text, one line per node:

graph digits(%x: float32[1, 1, 8, 8]) {
  %1 = conv(%x, @w) {strides = [1, 1]} : float32[1, 8, 8, 16]    # from "conv1"
  return logits = %1
}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sterna.escape import terminal
from sterna.ir.graph import Graph, Node, Value
from sterna.ir.integer import Int

_INLINE = 4  # constants of up to so many elements are written out


def print_graph(graph: Graph, indent: str = "") -> str:
    """The whole graph. `%` marks values, `@` constants; short constants are written out."""
    inputs = ", ".join(f"%{value.name}: {value.type}" for value in graph.inputs)
    lines = [terminal(f"{indent}graph {graph.name}({inputs}) {{")]
    lines += [print_node(node, indent + "  ") for node in graph.nodes]
    results = zip(graph.output_names, graph.outputs, strict=True)
    lines.append(terminal(f"{indent}  return {', '.join(f'{name} = {_operand(value)}' for name, value in results)}"))
    return "\n".join([*lines, indent + "}"])


def print_node(node: Node, indent: str = "") -> str:
    """One node and its regions."""
    results = ", ".join(f"%{value.name}" for value in node.outputs)
    operands = ", ".join("none" if value is None else _operand(value) for value in node.inputs)
    types = ", ".join(str(value.type) for value in node.outputs)
    attributes = f" {_attributes(node.attributes)}" if node.attributes else ""
    sources = "    # from " + ", ".join(f'"{source}"' for source in node.sources) if node.sources else ""
    line = terminal(f"{indent}{results} = {node.op}({operands}){attributes} : {types}{sources}")
    return "\n".join([line, *(print_graph(region, indent + "  ") for region in node.regions)])


def _operand(value: Value) -> str:
    if value.data is None:
        return f"%{value.name}"
    if value.data.size <= _INLINE:
        return f"{value.type} {value.data.tolist()}"
    return f"@{value.name}: {value.type}"


def _attributes(attributes: Mapping[str, Any]) -> str:
    return "{" + ", ".join(f"{key} = {_attribute(value)}" for key, value in attributes.items()) + "}"


def _attribute(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        return "[" + ", ".join(map(_attribute, value)) + "]"
    if isinstance(value, Int):
        return str(value)
    return repr(value)
