"""Networks in float16 whose products are of every kind: convolutions of few and of many channels, strided, of planes,
batches of matrices in both orders."""

from __future__ import annotations

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

HALF = TensorProto.FLOAT16


def half_network(seed: int = 0) -> ModelProto:
    """Two convolutions with a residual, products of positions with one another and with weights: [1, 3, 22, 22] to
    [1, 121, 40]."""
    random = np.random.default_rng(seed)

    def weights(name: str, *shape: int) -> TensorProto:
        scale = np.sqrt(np.prod(shape[1:]) if len(shape) > 1 else 1)
        return numpy_helper.from_array((random.standard_normal(shape) / scale).astype(np.float16), name)

    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["a"], pads=[3, 3, 3, 3], strides=[2, 2], kernel_shape=[7, 7]),
        helper.make_node("Relu", ["a"], ["r"]),
        helper.make_node("Conv", ["r", "w2", "b2"], ["c"], pads=[1, 1, 1, 1], kernel_shape=[3, 3]),
        helper.make_node("Add", ["c", "r"], ["d"]),
        helper.make_node("Relu", ["d"], ["e"]),
        helper.make_node("Reshape", ["e", "flat"], ["f"]),
        helper.make_node("Transpose", ["f"], ["ft"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["ft", "f"], ["g"]),
        helper.make_node("Mul", ["g", "scale"], ["scaled"]),
        helper.make_node("Softmax", ["scaled"], ["p"], axis=-1),
        helper.make_node("Mul", ["ft", "ft"], ["v"]),
        helper.make_node("MatMul", ["p", "v"], ["q"]),
        helper.make_node("MatMul", ["q", "w3"], ["y"]),
    ]
    given = [weights("w1", 32, 3, 7, 7), weights("b1", 32), weights("w2", 32, 32, 3, 3), weights("b2", 32)]
    given += [weights("w3", 32, 40), numpy_helper.from_array(np.array(0.05, np.float16), "scale")]
    given += [numpy_helper.from_array(np.array([1, 32, 121]), "flat")]
    graph = helper.make_graph(
        nodes,
        "half",
        [helper.make_tensor_value_info("x", HALF, [1, 3, 22, 22])],
        [helper.make_tensor_value_info("y", HALF, [1, 121, 40])],
        given,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
