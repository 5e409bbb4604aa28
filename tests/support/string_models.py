"""Models of strings."""

from __future__ import annotations

import onnx
from onnx import TensorProto, helper


def labels() -> onnx.ModelProto:
    """Strings to strings and to numbers."""
    nodes = [
        helper.make_node("LabelEncoder", ["x"], ["group"], domain="ai.onnx.ml", keys_strings=["tern", "gull", "auk"],
                         values_strings=["Sternidae", "Laridae", "Alcidae"], default_string="?"),
        helper.make_node("LabelEncoder", ["x"], ["number"], domain="ai.onnx.ml", keys_strings=["tern", "gull"],
                         values_int64s=[7, 9], default_int64=-1),
        helper.make_node("Identity", ["x"], ["same"]),
    ]  # fmt: skip
    text, number = TensorProto.STRING, TensorProto.INT64
    outputs = [
        helper.make_tensor_value_info(n, kind, [4]) for n, kind in (("group", text), ("number", number), ("same", text))
    ]
    graph = helper.make_graph(nodes, "labels", [helper.make_tensor_value_info("x", text, [4])], outputs)
    opsets = [helper.make_opsetid("", 19), helper.make_opsetid("ai.onnx.ml", 4)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)
