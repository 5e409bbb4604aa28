"""The float sentence encoder all-MiniLM-L6-v2, whose batch and length are open.

`STERNA_MINILM` names the file that make_minilm.py beside the int8 development model writes. Without it the int8 model
serves: ONNX Runtime's dynamic quantization of the same export, taken back, so that it is the same graph and its weights
are off by what rounding them to 8 bits makes.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

from support.trained import trained


def float_minilm(folder: Path) -> Path:
    """The file of the float model; written to a folder if need be. Skips where there is no development model."""
    if made := os.environ.get("STERNA_MINILM"):
        return Path(made)
    file = folder / "minilm_f32.onnx"
    onnx.save(dequantized(onnx.load(trained("minilm_l6_v2_int8").file)), file)
    return file


def dequantized(model: onnx.ModelProto) -> onnx.ModelProto:
    """A model as it was before `onnxruntime.quantization.quantize_dynamic`, but for the rounding of the weights.

    Its products were x -> DynamicQuantizeLinear -> MatMulInteger -> Cast -> Mul by both scales, its tables Gather ->
    DequantizeLinear.
    """
    arrays = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    readers = {name: node for node in model.graph.node for name in node.input}
    makers = {name: node for node in model.graph.node for name in node.output}
    nodes: list[onnx.NodeProto] = []
    weights: dict[str, np.ndarray] = {}

    def weight(quantized: str) -> str:
        name = quantized.removesuffix("_quantized")
        zero, scale = (arrays[f"{name}_{part}"] for part in ("zero_point", "scale"))
        weights[name] = (arrays[quantized].astype(np.float32) - zero.astype(np.float32)) * scale
        return name

    for node in model.graph.node:
        if node.op_type == "MatMulInteger":
            cast = readers[node.output[0]]
            (result,) = readers[cast.output[0]].output
            (x,) = makers[node.input[0]].input
            nodes.append(helper.make_node("MatMul", [x, weight(node.input[1])], [result]))
        elif node.op_type == "Gather" and node.input[0].endswith("_quantized"):
            (result,) = readers[node.output[0]].output
            nodes.append(helper.make_node("Gather", [weight(node.input[0]), node.input[1]], [result]))
        else:
            nodes.append(node)
    done = {name for node in nodes if node.op_type in ("MatMul", "Gather") for name in node.output}
    nodes = [node for node in nodes if node.op_type in ("MatMul", "Gather") or not done.intersection(node.output)]
    nodes = _needed(nodes, model)
    read = {name for node in nodes for name in node.input}
    kept = [tensor for tensor in model.graph.initializer if tensor.name in read]
    tensors = [*kept, *(numpy_helper.from_array(array, name) for name, array in weights.items())]
    graph = helper.make_graph(nodes, "minilm", model.graph.input, model.graph.output, tensors)
    return helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)


def _needed(nodes: list[onnx.NodeProto], model: onnx.ModelProto) -> list[onnx.NodeProto]:
    needed = {value.name for value in model.graph.output}
    kept = []
    for node in reversed(nodes):
        if needed.intersection(node.output):
            kept.append(node)
            needed.update(node.input)
    return kept[::-1]
