"""QuantizeLinear and DequantizeLinear written around the layers that compute with integers.

`quantized` is the result. `switchable` is the same arithmetic in floats, where every tensor and every weight is rounded
or not as an input of the model says: compiled once, it tells what any choice of layers does to the outputs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper

from sterna.ir import dtypes
from sterna.ir.graph import Array
from sterna.quantize.correction import mean_shift
from sterna.quantize.model import Editing
from sterna.quantize.numbers import Scale, rounded_bias, rounded_weight, spread, weight_scales
from sterna.quantize.plan import Layer, Plan

SWITCHES = "sterna/switches"


def quantized(
    model: onnx.ModelProto,
    plan: Plan,
    scales: Mapping[str, Scale],
    means: Mapping[str, Array],
    chosen: Collection[str],
) -> onnx.ModelProto:
    """The model with these layers on integers.

    Args:
        scales: of all tensors that the layers round.
        means: of the channels that layers read, by the layers' names.
        chosen: names of layers; layers after them that are not needed stay float.
    """
    return _Rewriter(model, plan, scales, means, chosen).quantized()


def switchable(
    model: onnx.ModelProto, plan: Plan, scales: Mapping[str, Scale], means: Mapping[str, Array]
) -> tuple[onnx.ModelProto, list[str]]:
    """The model that rounds as its input `SWITCHES`, bool[n], says; what each switch is for: a tensor or a layer."""
    names = [layer.name for layer in plan.layers]
    return _Rewriter(model, plan, scales, means, names).switchable()


class _Rewriter:
    def __init__(
        self,
        model: onnx.ModelProto,
        plan: Plan,
        scales: Mapping[str, Scale],
        means: Mapping[str, Array],
        chosen: Collection[str],
    ):
        own = onnx.ModelProto()
        own.CopyFrom(model)
        self.e = Editing(own)
        self.plan, self.scales, self.means = plan, scales, means
        self.active = plan.active(chosen)
        self.rounded = plan.rounded(chosen)
        self.behind: dict[int, list[onnx.NodeProto]] = {}  # nodes by the identity of the one that they stand behind
        self.first: list[onnx.NodeProto] = []
        self.stored: dict[tuple[object, ...], str] = {}
        self.switches: list[str] = []
        self.numbers: dict[str, str] = {}

    # ---------------------------------------------------------------- the two results
    def quantized(self) -> onnx.ModelProto:
        layers = {layer.name: layer for layer in self.active}
        results = {layer.output for layer in self.active}
        for tensor in self.rounded:
            node = self.e.producer.get(tensor)
            if node is not None and (tensor in self.plan.moved or tensor in results):
                self.conversions(tensor, self.renamed(node, tensor), tensor)
                continue
            rounded = self.conversions(tensor, tensor, self.e.names.fresh(f"{tensor}/rounded"))
            for reader in self.e.readers.get(tensor, []):
                moves = any(name in self.rounded and self.plan.moved.get(name) == tensor for name in reader.output)
                if moves or (reader.name in layers and tensor in layers[reader.name].inputs):
                    _replace(reader, tensor, rounded)
        nodes = {node.name: node for node in self.e.nodes}
        for layer in self.active:
            if layer.weight:
                weight, bias = self.weights(layer)
                node = nodes[layer.name]
                _set(node, 1, weight)
                if bias:
                    _set(node, 2, bias)
        return self.finish()

    def switchable(self) -> tuple[onnx.ModelProto, list[str]]:
        for tensor in self.rounded:
            node = self.e.producer.get(tensor)
            if node is not None:
                raw, seen = self.renamed(node, tensor), tensor
            else:
                raw, seen = tensor, self.e.names.fresh(f"{tensor}/seen")
                for reader in self.e.readers.get(tensor, []):
                    _replace(reader, tensor, seen)
            rounded = self.conversions(tensor, raw, self.e.names.fresh(f"{tensor}/rounded"))
            self.place(tensor).append(self.choice(tensor, rounded, raw, seen))
        nodes = {node.name: node for node in self.e.nodes}
        for layer in self.active:
            if layer.weight:
                for position, rounded in enumerate(self.weights(layer), 1):
                    if rounded:
                        node = nodes[layer.name]
                        raw = [*node.input, self.number(f"{layer.name}/none", np.float32(0))][position]
                        seen = self.e.names.fresh(f"{layer.name}/operand")
                        self.first.append(self.choice(layer.name, rounded, raw, seen))
                        _set(node, position, seen)
        result = self.finish()
        value = helper.make_tensor_value_info(SWITCHES, onnx.TensorProto.BOOL, [len(self.switches)])
        result.graph.input.append(value)
        return result, self.switches

    def finish(self) -> onnx.ModelProto:
        nodes = [*self.first]
        for node in self.e.nodes:
            nodes += [node, *self.behind.get(id(node), [])]
        self.e.nodes = nodes
        return self.e.finish()

    # ---------------------------------------------------------------- activations
    def renamed(self, node: onnx.NodeProto, tensor: str) -> str:
        """A new name for what a node gives, so that its readers see what is made of it."""
        raw = self.e.names.fresh(f"{tensor}/float")
        node.output[list(node.output).index(tensor)] = raw
        return raw

    def place(self, tensor: str) -> list[onnx.NodeProto]:
        """The nodes that stand after the one that gives a tensor."""
        node = self.e.producer.get(tensor)
        return self.first if node is None else self.behind.setdefault(id(node), [])

    def conversions(self, tensor: str, source: str, result: str) -> str:
        """Rounds `source` to the scale of a tensor and gives it as float again."""
        scale = self.scales[tensor]
        names = (
            self.number(f"{tensor}/scale", scale.scale),
            self.number(f"{tensor}/zero", np.asarray(scale.zero, dtypes.to_numpy(scale.dtype))),
        )
        integers = self.e.names.fresh(f"{tensor}/quantized")
        self.place(tensor).extend(
            (
                self.e.node("QuantizeLinear", [source, *names], [integers], f"{tensor}/quantize"),
                self.e.node("DequantizeLinear", [integers, *names], [result], f"{tensor}/dequantize"),
            )
        )
        return result

    def number(self, name: str, value: Array | np.float32) -> str:
        """A constant of one number; equal ones are one."""
        array = np.asarray(value)
        key = (array.dtype.str, array.tobytes())
        if key not in self.stored:
            self.stored[key] = self.e.constant(array, name)
        return self.stored[key]

    def choice(self, what: str, rounded: str, raw: str, result: str) -> onnx.NodeProto:
        """The rounded tensor where its switch is on."""
        if what not in self.numbers:
            place = self.e.constant(np.asarray(len(self.switches), np.int64), f"{what}/place")
            self.numbers[what] = self.e.names.fresh(f"{what}/switch")
            self.first.append(self.e.node("Gather", [SWITCHES, place], [self.numbers[what]], f"{what}/switch"))
            self.switches.append(what)
        return self.e.node("Where", [self.numbers[what], rounded, raw], [result], f"{result}/choice")

    # ---------------------------------------------------------------- weights
    def weights(self, layer: Layer) -> tuple[str, str]:
        """The rounded weight and bias of a layer, as floats; the latter "" where there is none."""
        x = self.scales[layer.inputs[0]]
        made = layer_constants(self.e.constants, layer, x, self.means.get(layer.name))
        key = (layer.weight, layer.axis, made.scales.tobytes())
        if key not in self.stored:
            self.stored[key] = self.dequantized(layer.weight, made.weight, made.scales, layer.axis)
        if made.bias is None:
            return self.stored[key], ""
        steps = np.tile(made.scales * x.scale, made.bias.size // made.scales.size)
        return self.stored[key], self.dequantized(layer.bias or f"{layer.name}/bias", made.bias, steps, 0)

    def dequantized(self, name: str, integers: Array, scales: Array, axis: int | None) -> str:
        stored = self.e.constant(integers, f"{name}/quantized")
        row = scales.astype(np.float32)
        scale = self.e.constant(row if axis is not None else row.reshape(()), f"{name}/scale")
        zero = self.e.constant(np.zeros(row.shape if axis is not None else (), integers.dtype), f"{name}/zero")
        result = self.e.names.fresh(f"{name}/rounded")
        more = {} if axis is None else {"axis": axis}
        self.first.append(
            self.e.node("DequantizeLinear", [stored, scale, zero], [result], f"{result}/dequantize", **more)
        )
        return result


@dataclass(frozen=True)
class LayerConstants:
    """A layer's weight as int8, its scales, and its bias as int32, in steps of the product of the scales of the
    activation and the weight; None where there is none."""

    weight: Array
    scales: Array
    bias: Array | None


def layer_constants(
    constants: Mapping[str, Array], layer: Layer, x: Scale, means: Array | None = None
) -> LayerConstants:
    """The constants of a layer of integers.

    Args:
        x: the scale of the activation.
        means: of its channels; the bias takes back what rounding the weights does to them. None: it does not.
    """
    weight = constants[layer.weight]
    bias = constants[layer.bias].reshape(-1).astype(np.float64) if layer.bias else None
    channels = 1 if layer.axis is None else weight.shape[layer.axis]
    # The groups of a ConvTranspose share the scales of a channel: the largest bias decides.
    largest = None if bias is None else np.abs(bias).reshape(-1, channels).max(axis=0)
    scales = weight_scales(weight, layer.axis, largest, x.scale)
    rounded = rounded_weight(weight, scales, layer.axis)
    if means is not None:
        error = rounded * spread(scales, weight.ndim, layer.axis).astype(np.float64) - weight
        bias = (0.0 if bias is None else bias) - mean_shift(layer, error, means)
    if bias is None:
        return LayerConstants(rounded, scales, None)
    steps = np.tile((scales * x.scale).astype(np.float64), bias.size // channels)
    return LayerConstants(rounded, scales, rounded_bias(bias, steps))


def _set(node: onnx.NodeProto, position: int, name: str) -> None:
    """Gives a node an operand, maybe one more than it has."""
    while len(node.input) <= position:
        node.input.append("")
    node.input[position] = name


def _replace(node: onnx.NodeProto, old: str, new: str) -> None:
    for n, name in enumerate(node.input):
        if name == old:
            node.input[n] = new


def switch_positions(switches: Sequence[str], on: Collection[str]) -> Array:
    """The input `SWITCHES` with these tensors and layers on."""
    return np.array([name in on for name in switches], bool)
