"""Whether the scales and zero points that a model stores mean anything.

Looked at are those that are constant, of the operators whose operands they are (ONNX, QuantizeLinear and others; ONNX
Runtime's contrib operators).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import onnx
from onnx import TensorProto, helper

from sterna.errors import Diagnostic, SternaError
from sterna.frontends.onnx.file import to_array, type_name
from sterna.frontends.onnx.structure import node_names
from sterna.ir.graph import Array

#: Positions of a tensor (None: the result), its scale and its zero point.
_Place = tuple[int | None, int, int]
_BINARY: tuple[_Place, ...] = ((0, 1, 2), (3, 4, 5), (None, 6, 7))
_UNARY: tuple[_Place, ...] = ((0, 1, 2), (None, 3, 4))
_PLACES: Mapping[str, tuple[_Place, ...]] = {
    "DequantizeLinear": ((0, 1, 2),),
    "QGemm": ((0, 1, 2), (3, 4, 5), (None, 7, 8)),
    "QLinearAdd": _BINARY,
    "QLinearAveragePool": _UNARY,
    "QLinearConv": _BINARY,
    "QLinearGlobalAveragePool": _UNARY,
    "QLinearLeakyRelu": _UNARY,
    "QLinearMatMul": _BINARY,
    "QLinearMul": _BINARY,
    "QLinearSigmoid": _UNARY,
    "QLinearSoftmax": _UNARY,
    "QuantizeLinear": ((None, 1, 2),),
}
_FIX = "quantize the model again"


def broken(graph: onnx.GraphProto, where: str, outer: Mapping[str, onnx.TensorProto] | None = None) -> list[Diagnostic]:
    """What is wrong with the quantized tensors of a graph and of those within it (E0114), each with its name.

    Args:
        outer: the constants of the surrounding graph.
    """
    stored = {**(outer or {}), **{tensor.name: tensor for tensor in graph.initializer}}
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute and node.attribute[0].HasField("t"):
            stored[node.output[0]] = node.attribute[0].t
    sizes = {value.name: _sizes(value) for value in (*graph.input, *graph.value_info, *graph.output)}
    problems: list[Diagnostic] = []
    names = node_names(graph.node)
    for position, (node, name) in enumerate(zip(graph.node, names, strict=True)):
        for place in _places(node):
            found = _mistakes(node, place, stored, sizes)
            problems += [
                Diagnostic("E0114", title, (f'{where}, node {position}, {node.op_type} "{name}"',), _FIX)
                for title in found
            ]
        for attribute in node.attribute:
            for inner in (*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])):
                problems += broken(inner, where, stored)
    return list(dict.fromkeys(problems))


def _places(node: onnx.NodeProto) -> tuple[_Place, ...]:
    if node.op_type == "QLinearConcat":
        return ((None, 0, 1), *((n, n + 1, n + 2) for n in range(2, len(node.input) - 2, 3)))
    return _PLACES.get(node.op_type, ())


def _mistakes(
    node: onnx.NodeProto,
    place: _Place,
    stored: Mapping[str, onnx.TensorProto],
    sizes: Mapping[str, tuple[int, ...] | None],
) -> Iterator[str]:
    position, *rest = place
    names = [node.input[n] if n < len(node.input) else "" for n in rest]
    name = node.output[0] if position is None else node.input[position] if position < len(node.input) else ""
    tensor = stored.get(name)
    scale, zero = (_array(stored.get(n)) for n in names)
    what = f'the tensor "{name}"'
    if scale is not None:
        numbers = scale.reshape(-1).astype(np.float64)
        wrong = ~np.isfinite(numbers)
        if wrong.any():
            yield f'{what} is quantized with a scale that is not a number: {numbers[wrong][0]} of "{names[0]}"'
        elif (numbers <= 0).any():
            yield f'{what} is quantized with a scale of {numbers[numbers <= 0][0]:g}, of "{names[0]}"'
        if zero is not None and zero.shape != scale.shape and max(zero.size, scale.size) > 1:
            yield f"{what} has {scale.size} scales and {zero.size} zero points"
        yield from _lengths(node, position, what, scale, sizes.get(name) if tensor is None else tuple(tensor.dims))
    if zero is not None:
        given = stored[names[1]].data_type
        wanted = given if tensor is None else tensor.data_type
        if wanted != given:
            kinds = [type_name(kind) for kind in (wanted, given)]
            yield f"{what} is of {kinds[0]} and its zero point is of {kinds[1]}"
        elif given == TensorProto.FLOAT:
            yield f"{what} has a zero point of float"
        elif given == TensorProto.INT32 and zero.any():
            yield f"{what} is of int32 and its zero point is {zero.reshape(-1)[0]}"


def _lengths(
    node: onnx.NodeProto, position: int | None, what: str, scale: Array, sizes: tuple[int, ...] | None
) -> Iterator[str]:
    """Where there is one scale for each element of a dimension, whether there are as many."""
    settings = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    if scale.size == 1 or scale.ndim != 1 or sizes is None or settings.get("block_size"):
        return
    if node.op_type == "QLinearConv":
        axis = 0
    elif node.op_type in ("QuantizeLinear", "DequantizeLinear"):
        axis = int(settings.get("axis", 1))
    else:
        return
    if not -len(sizes) <= axis < len(sizes):
        yield f"{what} is quantized along dimension {axis}, and has {len(sizes)} dimensions"
    elif sizes[axis] not in (-1, scale.size):
        yield f"{what} has {scale.size} scales for {sizes[axis]} elements of dimension {axis}"


def _array(tensor: onnx.TensorProto | None) -> Array | None:
    """A constant that the file holds itself."""
    if tensor is None or tensor.data_location == TensorProto.EXTERNAL:
        return None
    try:
        found = to_array(tensor, None, "a tensor")
    except SternaError:  # what reads it says so
        return None
    return None if found.dtype == object else found


def _sizes(value: onnx.ValueInfoProto) -> tuple[int, ...] | None:
    """Declared sizes, -1 for open ones."""
    if not value.type.HasField("tensor_type") or not value.type.tensor_type.HasField("shape"):
        return None
    dims = value.type.tensor_type.shape.dim
    return tuple(d.dim_value if d.HasField("dim_value") else -1 for d in dims)
