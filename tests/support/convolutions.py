"""A model of three convolutions that tiles make faster."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

CHANNELS = 32


def network(large: float = 1.0) -> onnx.ModelProto:
    """Two outputs, of two convolutions and of three.

    Args:
        large: what half of the second one's inputs are multiplied by before, and its weights divided by: sums of tiles
            lose what the definition keeps.
    """
    random = np.random.default_rng(3)
    weights = {f"w{n}": random.standard_normal((CHANNELS, CHANNELS, 3, 3)) / 17 for n in range(3)}
    scale = np.ones((1, CHANNELS, 1, 1))
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["a"], "first", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"], "bent"),
        helper.make_node("Add", ["b", "large"], ["c"], "far"),
        helper.make_node("Conv", ["c", "w1"], ["y"], "second", pads=[1, 1, 1, 1]),
        helper.make_node("Conv", ["b", "w2"], ["z"], "third", pads=[1, 1, 1, 1]),
    ]
    weights["large"] = scale * (large if large != 1.0 else 0.0)
    shape = [1, CHANNELS, 16, 16]
    graph = helper.make_graph(
        nodes, "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in ("y", "z")],
        [numpy_helper.from_array(w.astype(np.float32), n) for n, w in weights.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
