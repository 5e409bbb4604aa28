"""Float models, and what ONNX Runtime's quantizer makes of them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

Feeds = dict[str, np.ndarray]
TYPES = {"int8": QuantType.QInt8, "uint8": QuantType.QUInt8}


class Builder:
    """A float model in the making."""

    def __init__(self, *shape: int):
        self.random = np.random.default_rng(11)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.shape = shape

    def weight(self, *shape: int, scale: float = 1.0) -> str:
        name = f"w{len(self.weights)}"
        array = (self.random.standard_normal(shape) * scale).astype(np.float32)
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def __call__(self, op: str, *inputs: str, **attributes: object) -> str:
        result = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [result], name=f"n{len(self.nodes)}", **attributes))
        return result

    def constant(self, value: float) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(value, np.float32), name))
        return name

    def model(self, result: str) -> onnx.ModelProto:
        self.nodes[-1].output[0] = "y"
        assert result.startswith("t")
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)
        y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, "quantized", [x], [y], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def network() -> onnx.ModelProto:
    """Convolutions of every kind, a residual, pooling, a dense layer."""
    b = Builder(1, 3, 18, 18)
    x = b("Conv", "x", b.weight(24, 3, 3, 3, scale=0.3), b.weight(24), pads=[1] * 4, strides=[2, 2])
    x = b("Clip", x, b.constant(0.0), b.constant(6.0))
    y = b("Conv", x, b.weight(24, 1, 3, 3), b.weight(24), pads=[1] * 4, group=24)
    y = b("Relu", y)
    y = b("Conv", y, b.weight(24, 24, 1, 1, scale=0.3), b.weight(24))
    x = b("Add", x, y)
    x = b("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2], pads=[0, 0, 1, 1])
    x = b("Conv", x, b.weight(37, 24, 3, 3, scale=0.1), b.weight(37))
    x = b("Relu", x)
    x = b("GlobalAveragePool", x)
    x = b("Flatten", x)
    return b.model(b("Gemm", x, b.weight(10, 37, scale=0.3), b.weight(10), transB=1))


def elementwise() -> onnx.ModelProto:
    b = Builder(2, 6, 5, 5)
    c = b("Conv", "x", b.weight(6, 6, 1, 1), b.weight(6))
    m = b("Mul", c, b("Sigmoid", c))
    j = b("Concat", m, c, axis=1)
    p = b("AveragePool", j, kernel_shape=[3, 3], strides=[1, 1])
    return b.model(b("LeakyRelu", p, alpha=0.1))


def products() -> onnx.ModelProto:
    """Matrix products by weights and of activations."""
    b = Builder(2, 9, 24)
    q = b("MatMul", "x", b.weight(24, 24, scale=0.3))
    k = b("Transpose", b("MatMul", "x", b.weight(24, 24, scale=0.3)), perm=[0, 2, 1])
    return b.model(b("MatMul", b("MatMul", q, k), q))


def softmax() -> onnx.ModelProto:
    b = Builder(2, 9, 24)
    return b.model(b("Softmax", b("MatMul", "x", b.weight(24, 24, scale=0.3)), axis=-1))


class _Data(CalibrationDataReader):
    def __init__(self, shape: tuple[int, ...]):
        random = np.random.default_rng(0)
        self.rest = iter([{"x": random.standard_normal(shape).astype(np.float32)} for _ in range(4)])

    def get_next(self) -> Feeds | None:
        return next(self.rest, None)


def quantized(
    make: Callable[[], onnx.ModelProto], folder: Path, activations: str, weights: str, channels: bool, **extra: bool
) -> Path:
    """The model as ONNX Runtime's quantizer writes it."""
    model = make()
    onnx.save(model, folder / "float.onnx")
    shape = tuple(d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim)
    logging.disable(logging.WARNING)
    try:
        quantize_static(
            folder / "float.onnx", folder / "quantized.onnx", _Data(shape), quant_format=QuantFormat.QDQ,
            activation_type=TYPES[activations], weight_type=TYPES[weights], per_channel=channels,
            extra_options=extra,
        )  # fmt: skip
    finally:
        logging.disable(logging.NOTSET)
    return folder / "quantized.onnx"
