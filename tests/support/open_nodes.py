"""One node of every ONNX operator whose first dimension, n, is open: what `tests/ops/test_open_nodes.py` compiles.

An operand is an array, which is a constant, or the text "type:sizes" of an input, such as "f:n,3". Types are f
(float32), p (float32, 0 to 1), g (float32, more than 1), i (int64, 0 or 1), b (bool), u (uint8) and s (int8).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

BOUNDS, SIZES = (2, 9), (5, 9, 2)
_TYPES = {"f": TensorProto.FLOAT, "p": TensorProto.FLOAT, "g": TensorProto.FLOAT, "i": TensorProto.INT64,
          "b": TensorProto.BOOL, "u": TensorProto.UINT8, "s": TensorProto.INT8}  # fmt: skip


@dataclass(frozen=True, eq=False)
class OpenNode:
    """A node, its operands (None: left out) and its attributes."""

    op: str
    operands: tuple[np.ndarray | str | None, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    outputs: int = 1
    opset: int = 21

    def names(self, prefix: str = "") -> list[str]:
        return ["" if operand is None else f"{prefix}x{n}" for n, operand in enumerate(self.operands)]

    def model(self) -> onnx.ModelProto:
        return model_of([self])

    def feeds(self, size: int) -> dict[str, np.ndarray]:
        return feeds_of([self], size)


def model_of(nodes: list[OpenNode]) -> onnx.ModelProto:
    """The nodes side by side; the names of each begin with its operator, if there are several."""
    protos, inputs, weights, outputs = [], [], [], []
    for node in nodes:
        prefix = _prefix(node, nodes)
        names, results = node.names(prefix), [f"{prefix}y{k}" for k in range(node.outputs)]
        protos.append(helper.make_node(node.op, names, results, name=f"{prefix}node", **node.attributes))
        for name, operand in zip(names, node.operands, strict=True):
            if isinstance(operand, str):
                kind, shape = _spec(operand)
                inputs.append(helper.make_tensor_value_info(name, _TYPES[kind], shape))
            elif operand is not None:
                weights.append(numpy_helper.from_array(operand, name))
        outputs += [helper.make_empty_tensor_value_info(name) for name in results]
    graph = helper.make_graph(protos, "open", inputs, outputs, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", nodes[0].opset)], ir_version=10)
    return onnx.shape_inference.infer_shapes(model)


def feeds_of(nodes: list[OpenNode], size: int) -> dict[str, np.ndarray]:
    """Values for the inputs at a size of n: for each node the same, whichever others there are."""
    feeds = {}
    for node in nodes:
        random = np.random.default_rng(size)
        for name, operand in zip(node.names(_prefix(node, nodes)), node.operands, strict=True):
            if isinstance(operand, str):
                kind, sizes = _spec(operand)
                feeds[name] = _values(kind, [size if d == "n" else int(d) for d in sizes], random)
    return feeds


def _prefix(node: OpenNode, nodes: list[OpenNode]) -> str:
    return f"{node.op}_" if len(nodes) > 1 else ""


def _spec(text: str) -> tuple[str, list[int | str]]:
    kind, _, sizes = text.partition(":")
    return kind, [d if d == "n" else int(d) for d in sizes.split(",") if d]


def _values(kind: str, shape: list[int], random: np.random.Generator) -> np.ndarray:
    if kind == "b":
        return random.random(shape) < 0.5
    if kind == "g":
        return random.uniform(1.1, 3, shape).astype(np.float32)
    if kind == "i":
        return random.integers(0, 2, shape)
    if kind in "us":
        return random.integers(0, 100, shape).astype(np.uint8 if kind == "u" else np.int8)
    values = random.uniform(0.2, 0.9, shape) if kind == "p" else random.standard_normal(shape)
    return values.astype(np.float32)


OPEN_NODES: dict[str, OpenNode] = {}


def _node(op: str, *operands: np.ndarray | str | None, outputs: int = 1, opset: int = 21, **attributes: Any) -> None:
    OPEN_NODES[op] = OpenNode(op, operands, attributes, outputs, opset)


def _int64(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def _weight(*shape: int, dtype: str = "float32") -> np.ndarray:
    return (np.random.default_rng(1).standard_normal(shape) * (40 if dtype != "float32" else 1)).astype(dtype)


def _number(value: float, dtype: str = "float32") -> np.ndarray:
    return np.array(value, dtype)


_FLOATS = """
    Abs Acos Asin Asinh Atan Atanh Ceil Celu Cos Cosh Elu Erf Exp Floor Gelu HardSigmoid HardSwish Identity
    IsInf IsNaN LeakyRelu Log Mish Neg Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh Softplus Softsign
    Sqrt Tan Tanh ThresholdedRelu Clip Dropout Hardmax Softmax LogSoftmax LpNormalization
"""
for _op in _FLOATS.split():
    _node(_op, "p:n,3")
_node("Acosh", "g:n,3")
_BINARY = """
    Add Sub Mul Div Pow Max Min Mean Sum Mod PRelu Greater GreaterOrEqual Less LessOrEqual Equal
"""
for _op in _BINARY.split():
    _node(_op, "p:n,3", "p:n,3", **({"fmod": 1} if _op == "Mod" else {}))
for _op in ("And", "Or", "Xor"):
    _node(_op, "b:n,3", "b:n,3")
_node("Not", "b:n,3")
for _op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
    _node(_op, "i:n,3", "i:n,3")
_node("BitwiseNot", "i:n,3")
_node("BitShift", "u:n,3", np.array([1, 2, 3], np.uint8), direction="RIGHT")
for _op in ["Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "LogSum", "LogSumExp", "SumSquare"]:
    _node(f"Reduce{_op}", "p:n,3", _int64(0))
for _op in ("ArgMax", "ArgMin"):
    _node(_op, "f:n,3", axis=0)
_node("AffineGrid", "f:2,2,3", _int64(2, 1, 4, 5))
_node("Attention", "f:n,2,5,4", "f:n,2,6,4", "f:n,2,6,4", opset=23)
_node("AveragePool", "f:n,2,6", kernel_shape=[3], pads=[1, 1])
_node("BatchNormalization", "f:n,2,3", *[np.array([0.5, 1.5], np.float32)] * 4)
_node("Bernoulli", "p:n,3", seed=1.0)
_node("BitCast", "f:n,3", to=TensorProto.INT32, opset=26)
_node("BlackmanWindow", _number(7, "int64"), opset=21)
_node("Cast", "f:n,3", to=TensorProto.INT32)
_node("CastLike", "f:n,3", _int64(1))
_node("CenterCropPad", "f:n,3", _int64(4, 5), opset=18)
_node("Col2Im", "f:n,4,9", _int64(4, 4), _int64(2, 2))
_node("Compress", "f:n,3", "b:n", axis=0)
_node("Concat", "f:n,3", "f:2,3", axis=0)
_node("Constant", value=numpy_helper.from_array(_int64(1, 2)))
_node("ConstantOfShape", _int64(2, 3))
_node("Conv", "f:n,2,6", _weight(3, 2, 3), pads=[1, 1])
_node("ConvInteger", "u:n,2,6", _weight(3, 2, 3, dtype="uint8"))
_node("ConvTranspose", "f:n,2,6", _weight(2, 3, 3), strides=[2])
_node("CumSum", "f:n,3", _number(0, "int64"))
_node("CumProd", "f:n,3", _number(0, "int64"), opset=26)
_node("DFT", "f:n,8,1", None, _number(1, "int64"))
_node("DeformConv", "f:n,2,5,5", _weight(3, 2, 2, 2), "f:n,8,4,4", opset=22)
_node("DepthToSpace", "f:n,8,2,3", blocksize=2)
_node("DequantizeLinear", "u:n,3", _number(0.5), _number(7, "uint8"))
_node("Det", "f:n,3,3")
_node("DynamicQuantizeLinear", "f:n,3", outputs=3)
_node("Einsum", "f:n,3", "f:n,4", equation="ij,ik->jk")
_node("Expand", "f:n,1", _int64(1, 4))
_node("EyeLike", "f:n,4", k=1)
_node("Flatten", "f:n,3,2", axis=2)
_node("GRU", "f:n,2,3", _weight(1, 12, 3), _weight(1, 12, 4), hidden_size=4, outputs=2)
_node("Gather", "f:n,3", _int64(1, 0, -1))
_node("GatherElements", "f:n,3", "i:n,3")
_node("GatherND", "f:n,3", np.array([[0], [1]], np.int64))
_node("Gemm", "f:n,3", _weight(3, 4), _weight(4))
_node("GlobalAveragePool", "f:n,2,5")
_node("GlobalLpPool", "f:n,2,5")
_node("GlobalMaxPool", "f:n,2,5")
_node("GridSample", "f:n,1,4,5", "f:n,3,3,2")
_node("GroupNormalization", "f:n,4,3", _weight(4), _weight(4), num_groups=2)
_node("HammingWindow", _number(7, "int64"))
_node("HannWindow", _number(7, "int64"))
_node("InstanceNormalization", "f:n,2,5", _weight(2), _weight(2))
_node("LRN", "f:n,4,3,2", size=3)
_node("LSTM", "f:n,2,3", _weight(1, 16, 3), _weight(1, 16, 4), hidden_size=4, outputs=3)
_node("LayerNormalization", "f:n,3", _weight(3), _weight(3))
_node("LpPool", "f:n,2,6", kernel_shape=[2])
_node("MatMul", "f:n,3", _weight(3, 4))
_node("MatMulInteger", "u:n,3", _weight(3, 4, dtype="int8"))
_node("MaxPool", "f:n,2,6", kernel_shape=[2], strides=[2], outputs=2)
_node("MaxRoiPool", "f:n,1,5,5", np.array([[0, 1, 1, 3, 4], [1, 0, 0, 4, 2]], np.float32), pooled_shape=[2, 2])
_node("MaxUnpool", "p:n,1,3", "i:n,1,3", kernel_shape=[2], strides=[2])
_node("MeanVarianceNormalization", "f:n,2,2,3")
_node("MelWeightMatrix", *(_number(v, "int64") for v in (6, 16, 8000)), _number(0), _number(4000))
_node("Multinomial", "p:n,3", sample_size=4, seed=1.0)
_node("NegativeLogLikelihoodLoss", "f:n,3", "i:n")
_node("NonMaxSuppression", "f:n,4,4", "p:n,2,4", _int64(2))
_node("NonZero", "i:n,3")
_node("OneHot", "i:n,2", _int64(3), np.array([0, 1], np.float32))
_node("Pad", "f:n,3", _int64(1, 0, 1, 2), mode="reflect")
_node("QLinearConv", "u:n,2,6", _number(0.5), _number(3, "uint8"), _weight(3, 2, 3, dtype="int8"), _number(0.1),
      _number(0, "int8"), _number(5), _number(4, "uint8"))  # fmt: skip
_node("QLinearMatMul", "u:n,3", _number(0.5), _number(3, "uint8"), _weight(3, 4, dtype="int8"), _number(0.1),
      _number(0, "int8"), _number(5), _number(4, "uint8"))  # fmt: skip
_node("QuantizeLinear", "f:n,3", _number(0.1), _number(7, "uint8"))
_node("RNN", "f:n,2,3", _weight(1, 4, 3), _weight(1, 4, 4), hidden_size=4, outputs=2)
_node("RMSNormalization", "f:n,3", _weight(3), opset=23)
_node("RandomNormal", shape=[2, 3], seed=1.0)
_node("RandomNormalLike", "f:n,3", seed=1.0)
_node("RandomUniform", shape=[2, 3], seed=1.0)
_node("RandomUniformLike", "f:n,3", seed=1.0)
_node("Range", *(_number(v, "int64") for v in (1, 9, 3)))
_node("Reshape", "f:n,6", _int64(-1, 2, 3))
_node("Resize", "f:n,1,4,5", None, np.array([1, 1, 2, 1.5], np.float32), mode="linear")
_node("ReverseSequence", "f:n,2,3", _int64(1, 2))
_node("RoiAlign", "f:n,1,5,5", np.array([[0, 1, 3, 4], [1, 0, 4, 2]], np.float32), _int64(0, 1), output_height=2,
      output_width=2, opset=22)  # fmt: skip
_node("RotaryEmbedding", "f:n,2,3,4", _weight(5, 2), _weight(5, 2), "i:n,3", opset=23)
_node("STFT", "f:n,16,1", _number(4, "int64"), None, _number(8, "int64"))
_node("Scatter", "f:n,3", "i:n,3", "f:n,3", opset=10)
_node("ScatterElements", "f:n,3", "i:n,3", "f:n,3", reduction="add")
_node("ScatterND", "f:n,3", np.array([[1], [0]], np.int64), "f:2,3")
_node("Shape", "f:n,3")
_node("Size", "f:n,3")
_node("Slice", "f:n,3", _int64(1), _int64(-1), _int64(0))
_node("SoftmaxCrossEntropyLoss", "f:n,3", "i:n")
_node("SpaceToDepth", "f:n,2,4,2", blocksize=2)
_node("Split", "f:n,4", axis=0, num_outputs=2, outputs=2)
_node("Squeeze", "f:n,1,3", _int64(1))
_node("Swish", "f:n,3", opset=24)
_node("TensorScatter", "f:n,4,3", "f:n,2,3", opset=24)
_node("TfIdfVectorizer", "i:n,5", max_gram_length=1, max_skip_count=0, min_gram_length=1, mode="TF", ngram_counts=[0],
      ngram_indexes=[0, 1], pool_int64s=[0, 1])  # fmt: skip
_node("Tile", "f:n,3", _int64(2, 2))
_node("TopK", "f:n,3", _int64(2), axis=0, outputs=2)
_node("Transpose", "f:n,3,2", perm=[2, 0, 1])
_node("Trilu", "f:n,4", upper=0)
_node("Unique", "i:n,3", axis=0, outputs=4)
_node("Unsqueeze", "f:n,3", _int64(0))
_node("Upsample", "f:n,1,2,3", np.array([1, 1, 2, 2], np.float32), opset=9)
_node("Where", "b:n,3", "f:n,3", "f:1,3")
