"""Models in float32 as the same ones in float16, as converters of other projects make them: every tensor of float32 is
one of float16, but what an operator takes in float32 alone."""

from __future__ import annotations

import numpy as np
from onnx import ModelProto, TensorProto, numpy_helper

#: Inputs that stay float32, by operator.
FLOATS = {"Resize": (1, 2), "Upsample": (1,)}


def in_halves(model: ModelProto) -> ModelProto:
    """A copy of a model without control flow; what is too large becomes infinite."""
    made = ModelProto()
    made.CopyFrom(model)
    graph = made.graph
    kept = {node.input[n] for node in graph.node for n in FLOATS.get(node.op_type, ()) if n < len(node.input)}
    for tensor in graph.initializer:
        if tensor.name not in kept:
            _narrow(tensor)
    for node in graph.node:
        for attribute in node.attribute:
            if (
                node.op_type in ("Constant", "ConstantOfShape")
                and attribute.name == "value"
                and node.output[0] not in kept
            ):
                _narrow(attribute.t)
            if node.op_type == "Cast" and attribute.name == "to" and attribute.i == TensorProto.FLOAT:
                attribute.i = TensorProto.FLOAT16
    for value in (*graph.input, *graph.output, *graph.value_info):
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            value.type.tensor_type.elem_type = TensorProto.FLOAT16
    return made


def _narrow(tensor: TensorProto) -> None:
    if tensor.data_type == TensorProto.FLOAT:
        with np.errstate(over="ignore"):
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float16), tensor.name))
