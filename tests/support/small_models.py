"""ONNX models of a few nodes, written node by node."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.shape_inference
from onnx import TensorProto, helper, numpy_helper


class SmallModel:
    """A model with one input x, in the making; `random` draws its weights.

    Args:
        shape: of x; names are open dimensions.
    """

    def __init__(self, *shape: int | str, seed: int = 5, opset: int = 17):
        self.random = np.random.default_rng(seed)
        self.shape, self.opset = shape, opset
        self.nodes: list[onnx.NodeProto] = []
        self.stored: list[onnx.TensorProto] = []

    def constant(self, array: object, dtype: type = np.float32) -> str:
        name = f"c{len(self.stored)}"
        self.stored.append(numpy_helper.from_array(np.asarray(array, dtype), name))
        return name

    def weight(self, *shape: int, scale: float = 1.0, low: float | None = None) -> str:
        drawn = self.random.standard_normal(shape) if low is None else self.random.uniform(low, low + 1, shape)
        return self.constant(drawn * scale)

    def __call__(self, op: str, *inputs: str, **attributes: object) -> str:
        result = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [result], name=f"n{len(self.nodes)}", **attributes))
        return result

    def done(self, *results: str, old: bool = False) -> onnx.ModelProto:
        """The model with these results; `old`: constants are listed among the inputs, as files before version 4 do."""
        given = [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)]
        if old:
            given += [helper.make_tensor_value_info(t.name, t.data_type, t.dims) for t in self.stored]
        outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in results]
        graph = helper.make_graph(self.nodes, "small", given, outputs, self.stored)
        opsets = [helper.make_opsetid("", self.opset)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=3 if old else 8)
        return onnx.shape_inference.infer_shapes(model)


def residual_network() -> onnx.ModelProto:
    """Convolutions of every kind with batch normalization, a residual, a concatenation, pools, a dense layer."""
    m = SmallModel(1, 3, 16, 16)

    def normalized(x: str, channels: int) -> str:
        rows = (m.weight(channels, low=0.5), m.weight(channels), m.weight(channels), m.weight(channels, low=0.5))
        return m("BatchNormalization", x, *rows)

    x = normalized(m("Conv", "x", m.weight(16, 3, 3, 3, scale=0.2), pads=[1] * 4, strides=[2, 2]), 16)
    x = m("Clip", x, m.constant(0.0), m.constant(6.0))
    y = normalized(m("Conv", x, m.weight(16, 1, 3, 3, scale=0.4), pads=[1] * 4, group=16), 16)
    y = m("Conv", m("Relu", y), m.weight(16, 16, 1, 1, scale=0.2), m.weight(16))
    z = m("Relu", m("Conv", x, m.weight(8, 16, 1, 1, scale=0.2), m.weight(8)))
    x = m("Concat", m("Add", x, y), z, axis=1)
    x = m("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = m("Relu", m("Conv", x, m.weight(24, 24, 3, 3, scale=0.1), m.weight(24)))
    x = m("Flatten", m("GlobalAveragePool", x))
    return m.done(m("Add", m("MatMul", x, m.weight(24, 10, scale=0.3)), m.weight(10)))
