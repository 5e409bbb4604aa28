"""Which nodes can compute with integers, and which tensors that rounds.

A *layer* is a node that becomes one operator on integers (`frontends.onnx.qdq`): its operands are rounded before it.
Its result is rounded too where an integer layer reads it, and a rectifier that alone reads the result is taken along;
what goes on as float, such as the scores of classes, stays as exact as the sums are. Products are integer ones on their
own account; sums, pools and the like only where an integer layer reads what they give, for rounding gains nothing else
there. Nodes that only move elements hand the rounding on to what they read, with the same scale.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
import onnx

from sterna.frontends.onnx.qdq import MOVING, only_moves
from sterna.quantize.model import STANDARD, Editing, settings
from sterna.quantize.prepare import output_channels

#: Products with constant weights.
WEIGHTED = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})
#: What follows: integer operators of one or more activations.
FOLLOWING = frozenset({"Add", "AveragePool", "Concat", "GlobalAveragePool", "LeakyRelu", "Mul", "Sigmoid"})
RECTIFIERS = frozenset({"Relu", "Clip"})


@dataclass(frozen=True)
class Layer:
    """A node that can compute with integers.

    Args:
        inputs: the activations that it reads.
        result: what the node gives; output: the same after a rectifier that comes with it.
        weight, bias: constants; axis: of the weight's scales, one for each channel of the result.
    """

    name: str
    op: str
    inputs: tuple[str, ...]
    result: str
    output: str
    weight: str = ""
    bias: str = ""
    axis: int | None = None

    @property
    def rectified(self) -> bool:
        return self.result != self.output


@dataclass(frozen=True)
class Plan:
    """All layers in order, and how rounding spreads.

    Args:
        moved: what a moving node reads, by what it gives: both have one scale.
        concatenated: what a Concat reads, by what it gives.
        reasons: why nodes that could be layers are none.
    """

    layers: tuple[Layer, ...]
    moved: Mapping[str, str]
    concatenated: Mapping[str, tuple[str, ...]]
    reasons: Mapping[str, str]

    def rounded(self, chosen: Collection[str]) -> dict[str, None]:
        """The tensors that are rounded where these layers compute with integers; of the following ones only those do
        that `active` says."""
        names = set(chosen)
        by_output = {layer.output: layer for layer in self.layers if layer.name in names}
        waiting = [tensor for layer in by_output.values() if layer.op in WEIGHTED for tensor in layer.inputs]
        found: dict[str, None] = {}
        while waiting:
            tensor = waiting.pop()
            if tensor in found:
                continue
            found[tensor] = None
            if tensor in self.moved:
                waiting.append(self.moved[tensor])
            if tensor in by_output:
                waiting += by_output[tensor].inputs
        return found

    def active(self, chosen: Collection[str]) -> tuple[Layer, ...]:
        """The layers that compute with integers where these may."""
        rounded = self.rounded(chosen)
        return tuple(
            layer for layer in self.layers if layer.name in chosen and (layer.op in WEIGHTED or layer.output in rounded)
        )


def make_plan(model: onnx.ModelProto, kinds: Mapping[str, str], keep_float: Collection[str] = ()) -> Plan:
    """What can be done with a prepared model.

    Args:
        kinds: the element type of every tensor that is known; only float32 is rounded.
        keep_float: names of nodes, or of operators, that stay as they are.
    """
    return _Planner(Editing(model), kinds, set(keep_float)).plan()


class _Planner:
    def __init__(self, e: Editing, kinds: Mapping[str, str], keep_float: set[str]):
        self.e, self.kinds, self.keep_float = e, kinds, keep_float
        self.reasons: dict[str, str] = {}

    def plan(self) -> Plan:
        layers = []
        moved: dict[str, str] = {}
        for node in self.e.nodes:
            if node.domain not in STANDARD:
                continue
            if node.op_type in MOVING:
                if self.activation(node.input[0]) and all(node.output) and only_moves(node, self.e.constants.get):
                    moved.update(dict.fromkeys(node.output, node.input[0]))
            elif node.op_type in WEIGHTED | FOLLOWING:
                layer = self.layer(node)
                if layer is not None:
                    layers.append(layer)
        joined = {layer.output: layer.inputs for layer in layers if layer.op == "Concat"}
        return Plan(tuple(layers), moved, joined, self.reasons)

    def activation(self, name: str) -> bool:
        return bool(name) and name not in self.e.constants and self.kinds.get(name) == "float32"

    def layer(self, node: onnx.NodeProto) -> Layer | None:
        if node.name in self.keep_float or node.op_type in self.keep_float:
            self.reasons[node.name] = "asked for"
            return None
        found = self.weighted(node) if node.op_type in WEIGHTED else self.following(node)
        if isinstance(found, str):
            self.reasons[node.name] = found
            return None
        return found

    def following(self, node: onnx.NodeProto) -> Layer | str:
        if not all(map(self.activation, node.input)):
            return "an operand is constant, or not float32"
        if len(node.input) != len(set(node.input)) and node.op_type == "Concat":
            return "it reads a tensor twice"
        if node.op_type == "AveragePool" and settings(node).get("ceil_mode", 0):
            return "its last windows reach beyond the operand"
        return Layer(node.name, node.op_type, tuple(dict.fromkeys(node.input)), node.output[0], self.behind(node))

    def weighted(self, node: onnx.NodeProto) -> Layer | str:
        weight = self.e.constants.get(node.input[1])
        if node.op_type == "MatMul" and weight is None:
            if not all(map(self.activation, node.input)):
                return "an operand is not float32"
            return Layer(node.name, "MatMul", tuple(dict.fromkeys(node.input)), node.output[0], self.behind(node))
        if weight is None:
            return "its weights are computed when it runs"
        bias = node.input[2] if len(node.input) > 2 else ""
        if bias and bias not in self.e.constants:
            return "its bias is computed when it runs"
        if not self.activation(node.input[0]) or weight.dtype != np.float32:
            return "its operands are not float32"
        if weight.ndim < 2 or not np.isfinite(weight).all() or (bias and not np.isfinite(self.e.constants[bias]).all()):
            return "its weights are not all finite numbers"
        axis, channels = output_channels(node, weight)
        given = settings(node)
        if node.op_type == "Gemm" and (given.get("alpha", 1.0) != 1.0 or given.get("beta", 1.0) != 1.0):
            return "alpha or beta are not 1"
        if node.op_type == "Gemm" and given.get("transA", 0):
            return "its activations are transposed"
        if bias and self.e.constants[bias].reshape(-1).size != channels:
            return "its bias varies over more than the channels"
        whole = node.op_type == "MatMul" and weight.ndim > 2
        return Layer(
            node.name, node.op_type, (node.input[0],), node.output[0], self.behind(node),
            node.input[1], bias, None if whole else axis,
        )  # fmt: skip

    def behind(self, node: onnx.NodeProto) -> str:
        """The result, or that of the rectifier which alone reads it."""
        result: str = node.output[0]
        reader = self.e.only_reader(result)
        if reader is None or reader.op_type not in RECTIFIERS or reader.domain not in STANDARD:
            return result
        if reader.input[0] != result or self.limits(reader) is None:
            return result
        rectified: str = reader.output[0]
        return rectified

    def limits(self, reader: onnx.NodeProto) -> tuple[float, float] | None:
        """The bounds of a rectifier whose range has zero in it; None for others."""
        low, high = rectifier_limits(self.e, reader)
        return (low, high) if low <= 0 <= high and low < high else None


def rectifier_limits(e: Editing, node: onnx.NodeProto) -> tuple[float, float]:
    """The least and greatest number that a Relu or Clip gives; NaNs if that is not constant."""
    if node.op_type == "Relu":
        return 0.0, np.inf
    bounds = [-np.inf, np.inf]
    for n, name in enumerate(node.input[1:3]):
        if name:
            value = e.constants.get(name)
            bounds[n] = np.nan if value is None or value.size != 1 else float(value.reshape(-1)[0])
    return bounds[0], bounds[1]
