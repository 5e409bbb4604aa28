"""Graphs of TensorFlow, written by tests: nodes with attributes, as the bytes of a GraphDef."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from sterna.frontends.tensorflow.schema import message

KINDS = {
    "float32": 1, "float64": 2, "int32": 3, "uint8": 4, "int64": 9, "bool": 10, "int8": 6, "float16": 19,
    "complex64": 8, "bfloat16": 14,
}  # fmt: skip


class GraphWriter:
    """A graph of nodes; `name` with a function's name adds to its body."""

    def __init__(self) -> None:
        self.graph = message("Graph")

    def node(self, op: str, inputs: tuple[str, ...] | list[str] = (), name: str = "", **attributes: Any) -> str:
        """A node; its name is returned. Attributes: dtypes by name, shapes as `Shape`, other values as they are."""
        return _node(self.graph.node, op, inputs, name, attributes)

    def constant(self, value: Any, dtype: str = "", name: str = "") -> str:
        return self.node("Const", name=name, value=np.asarray(value, dtype or None))

    def input(self, name: str, shape: tuple[int, ...], dtype: str = "float32") -> str:
        return self.node("Placeholder", name=name, dtype=Kind(dtype), shape=Shape(shape))

    def function(
        self, name: str, arguments: dict[str, str], nodes: list[tuple[Any, ...]], results: dict[str, tuple[str, str]]
    ) -> None:
        """A function: nodes are (op, inputs, name, attributes); results are name -> (tensor, dtype)."""
        made = self.graph.library.function.add()
        made.signature.name = name
        for argument, kind in arguments.items():
            made.signature.input_arg.add(name=argument, type=KINDS[kind])
        for op, inputs, own, attributes in nodes:
            _node(made.node_def, op, inputs, own, attributes)
        for result, (tensor, kind) in results.items():
            made.signature.output_arg.add(name=result, type=KINDS[kind])
            made.ret.add(key=result, value=tensor)

    def content(self) -> bytes:
        return bytes(self.graph.SerializeToString())

    def write(self, folder: Path) -> Path:
        file = folder / "model.pb"
        file.write_bytes(self.content())
        return file


class Kind(str):
    """An attribute that is an element type."""


class Shape(tuple[int, ...]):
    """An attribute that is a shape."""


class Function(str):
    """An attribute that is a function."""


def _node(nodes: Any, op: str, inputs: Any, name: str, attributes: dict[str, Any]) -> str:
    name = name or f"{op}_{len(nodes)}"
    node = nodes.add(name=name, op=op)
    node.input.extend(inputs)
    for key, value in attributes.items():
        entry = node.attr.add(key=key)
        _attribute(entry.value, value)
    return name


def _attribute(made: Any, value: Any) -> None:
    if isinstance(value, np.ndarray):
        made.tensor.dtype = KINDS[str(value.dtype)]
        made.tensor.tensor_shape.SetInParent()
        for size in value.shape:
            made.tensor.tensor_shape.dim.add(size=size)
        made.tensor.tensor_content = value.tobytes()
    elif isinstance(value, Kind):
        made.type = KINDS[value]
    elif isinstance(value, Shape):
        made.shape.SetInParent()
        for size in value:
            made.shape.dim.add(size=size)
    elif isinstance(value, Function):
        made.func.name = value
    elif isinstance(value, bool):
        made.b = value
    elif isinstance(value, int):
        made.i = value
    elif isinstance(value, float):
        made.f = value
    elif isinstance(value, (str, bytes)):
        made.s = value.encode() if isinstance(value, str) else value
    else:
        made.list.SetInParent()
        for item in value:
            if isinstance(item, Kind):
                made.list.type.append(KINDS[item])
            elif isinstance(item, Function):
                made.list.func.add(name=item)
            elif isinstance(item, str):
                made.list.s.append(item.encode())
            elif isinstance(item, float):
                made.list.f.append(item)
            else:
                made.list.i.append(item)
