"""Operator sets 1 to 6: nodes in the form that operator set 7 gave them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from onnx import TensorProto

from sterna.errors import error
from sterna.frontends.onnx.translation import Translation
from sterna.ir.graph import Value

MODERN = 7
#: Attributes that say nothing to a compiler for inference.
_SILENT = ("consumed_inputs", "is_test")
_BINARY = frozenset(("Add", "And", "Div", "Equal", "Greater", "Less", "Mul", "Or", "Pow", "Sub", "Xor"))


def modern(t: Translation) -> Translation:
    """The same node as operator set 7 would have it.

    Raises:
        SternaError: E0108 or E0109, it cannot be.
    """
    attributes = {key: value for key, value in t.node.attributes.items() if key not in _SILENT}
    inputs = list(t.inputs)
    if t.node.op in _BINARY:
        _broadcast(t, inputs, attributes)
    elif t.node.op == "Gemm":
        attributes.pop("broadcast", None)
    elif (change := _CHANGES.get(t.node.op)) is not None:
        change(t, inputs, attributes)
    node = replace(t.node, attributes=attributes, given=t.node.given & attributes.keys())
    return Translation(
        node, inputs, t.builder, origin=t.origin, used=t.used, sources=t.sources, declared=t.declared,
        sizes=t.data_sizes,
    )  # fmt: skip


def _broadcast(t: Translation, inputs: list[Value | None], attributes: dict[str, Any]) -> None:
    """The second operand's dimensions begin at `axis` of the first's, or end with them."""
    broadcast, axis = attributes.pop("broadcast", 0), attributes.pop("axis", None)
    a, b = t.input(0), t.input(1)
    if broadcast and axis is not None and b.type.rank:
        begin = axis + a.type.rank if axis < 0 else axis
        missing = a.type.rank - begin - b.type.rank
        if begin < 0 or missing < 0:
            raise error("E0108", f"{b.type} does not lie at dimension {axis} of {a.type}")
        inputs[1] = t.reshape(b, (*b.shape, *[1] * missing))


def _prelu(t: Translation, inputs: list[Value | None], attributes: dict[str, Any]) -> None:
    slope = t.input(1)
    if slope.type.rank == 1 and slope.type.elements != 1:
        inputs[1] = t.reshape(slope, (*slope.shape, *[1] * (t.input(0).type.rank - 2)))


def _reshape(t: Translation, inputs: list[Value | None], attributes: dict[str, Any]) -> None:
    if "shape" in attributes:
        inputs[1:] = [t.constant(attributes.pop("shape"), "int64")]


def _concat(t: Translation, inputs: list[Value | None], attributes: dict[str, Any]) -> None:
    attributes.setdefault("axis", 1)


def _pad(t: Translation, inputs: list[Value | None], attributes: dict[str, Any]) -> None:
    if "paddings" in attributes:
        attributes["pads"] = attributes.pop("paddings")


def _cast(t: Translation, inputs: list[Value | None], attributes: dict[str, Any]) -> None:
    to = attributes.get("to")
    if isinstance(to, str):
        if to not in TensorProto.DataType.keys():  # noqa: SIM118  an enumeration of protobuf is no mapping
            raise error("E0109", f"Cast to {to!r}")
        attributes["to"] = TensorProto.DataType.Value(to)


def _upsample(t: Translation, inputs: list[Value | None], attributes: dict[str, Any]) -> None:
    if "height_scale" in attributes:
        attributes["scales"] = (1.0, 1.0, attributes.pop("height_scale"), attributes.pop("width_scale"))


def _tile(t: Translation, inputs: list[Value | None], attributes: dict[str, Any]) -> None:
    if t.version < 6:
        repeats = np.ones(t.input(0).type.rank, np.int64)
        repeats[t.integer_of(2, "an axis")] = t.integer_of(1, "tiles")
        inputs[1:] = [t.constant(repeats)]


_CHANGES: dict[str, Callable[[Translation, list[Value | None], dict[str, Any]], None]] = {
    "Cast": _cast,
    "Concat": _concat,
    "PRelu": _prelu,
    "Pad": _pad,
    "Reshape": _reshape,
    "Tile": _tile,
    "Upsample": _upsample,
}
