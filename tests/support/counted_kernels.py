"""The kernels whose instructions are counted and held to what they were."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

#: A count that is further from the known one fails.
SHARE = 0.05


def network(operator: str, x: list[int], *weights: list[int], **attributes: object) -> onnx.ModelProto:
    """One operator with a run-time input and weights of these shapes; an activation behind it if it has a store to fuse
    it into."""
    random = np.random.default_rng(0)
    names = [f"w{n}" for n in range(len(weights))]
    arrays = [(random.standard_normal(shape) * 0.1).astype(np.float32) for shape in weights]
    after = "Relu" if operator in ("Conv", "MatMul") else "Identity"
    nodes = [
        helper.make_node(operator, ["x", *names], ["y"], name="op", **attributes),
        helper.make_node(after, ["y"], ["z"], name="after"),
    ]
    graph = helper.make_graph(
        nodes,
        "counted",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, x)],
        [helper.make_tensor_value_info("z", onnx.TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in zip(names, arrays, strict=True)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


KERNELS: dict[str, Callable[[], onnx.ModelProto]] = {
    "matmul": lambda: network("MatMul", [64, 256], [256, 96]),
    "matrix_vector": lambda: network("MatMul", [1, 512], [512, 256]),
    "conv_3x3": lambda: network("Conv", [1, 32, 28, 28], [32, 32, 3, 3], pads=[1, 1, 1, 1]),
    "conv_1x1": lambda: network("Conv", [1, 96, 14, 14], [64, 96, 1, 1]),
    "conv_first": lambda: network("Conv", [1, 3, 64, 64], [32, 3, 3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
    "depthwise": lambda: network("Conv", [1, 64, 28, 28], [64, 1, 3, 3], pads=[1, 1, 1, 1], group=64),
    "max_pool": lambda: network("MaxPool", [1, 64, 28, 28], kernel_shape=[2, 2], strides=[2, 2]),
    "softmax": lambda: network("Softmax", [64, 128], axis=1),
    "layer_norm": lambda: network("LayerNormalization", [64, 256], [256], [256], axis=-1),
    "lstm": lambda: network("LSTM", [16, 1, 64], [1, 256, 64], [1, 256, 64], hidden_size=64),
}


def integers(operator: str, x: list[int], weights: list[int], **attributes: object) -> onnx.ModelProto:
    """A product of bytes with a run-time input: uint8 activations, int8 weights."""
    w = np.random.default_rng(0).integers(-127, 128, weights).astype(np.int8)
    graph = helper.make_graph(
        [helper.make_node(operator, ["x", "w"], ["y"], name="op", **attributes)],
        "counted",
        [helper.make_tensor_value_info("x", onnx.TensorProto.UINT8, x)],
        [helper.make_tensor_value_info("y", onnx.TensorProto.INT32, None)],
        [numpy_helper.from_array(w, "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


INTEGERS: dict[str, Callable[[], onnx.ModelProto]] = {
    "matmul_bytes": lambda: integers("MatMulInteger", [64, 256], [256, 96]),
    "conv_3x3_bytes": lambda: integers("ConvInteger", [1, 32, 28, 28], [32, 32, 3, 3], pads=[1, 1, 1, 1]),
}


def random_input(model: onnx.ModelProto) -> np.ndarray:
    """What the model is run on."""
    given = model.graph.input[0].type.tensor_type
    shape = [dim.dim_value for dim in given.shape.dim]
    random = np.random.default_rng(1)
    if given.elem_type == onnx.TensorProto.UINT8:
        return random.integers(0, 256, shape).astype(np.uint8)
    return random.standard_normal(shape).astype(np.float32)


def hold(file: Path, name: str, count: int) -> None:
    """Compares a count with the file's; under STERNA_UPDATE_COUNTS=1 it is written there instead.

    Raises:
        AssertionError: it is off by more than SHARE, either way.
    """
    if os.environ.get("STERNA_UPDATE_COUNTS") == "1":
        known = json.loads(file.read_text()) if file.exists() else {}
        file.write_text(json.dumps({**known, name: count}, indent=2, sort_keys=True) + "\n")
        return
    wanted = json.loads(file.read_text())[name]
    assert abs(count - wanted) <= SHARE * wanted, f"{name}: {count} instructions, {count / wanted - 1:+.1%} of {wanted}"
