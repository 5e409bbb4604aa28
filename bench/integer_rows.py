"""Integer operators of bench/operators.py: between conversions (QDQ), of dynamic quantization, by weights of 4 bits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper, shape_inference

from one_operator import FLOAT, OPERATOR_SET, Row, weights

BYTES = TensorProto.UINT8
MICROSOFT = "com.microsoft"


class Quantized:
    """A model of operators on numbers of 8 bits: activations of uint8 with one scale, weights of int8."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.given: list[onnx.ValueInfoProto] = []
        self.stored: list[onnx.TensorProto] = []

    def constant(self, value: Any) -> str:
        name = f"c{len(self.stored)}"
        self.stored.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def add(self, op: str, *inputs: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(op, inputs, [f"t{len(self.nodes)}"], **attributes))
        return str(self.nodes[-1].output[0])

    def input(self, *shape: int, kind: int = BYTES) -> str:
        """An input; of bytes, the floats that they stand for."""
        name = f"x{len(self.given)}"
        self.given.append(helper.make_tensor_value_info(name, kind, shape))
        return self.real(name, 0.02, 120) if kind == BYTES else name

    def real(self, x: str, scale: float, zero: int) -> str:
        return self.add("DequantizeLinear", x, self.constant(np.float32(scale)), self.constant(np.uint8(zero)))

    def rounded(self, x: str, scale: float = 0.04, zero: int = 110) -> str:
        return self.add("QuantizeLinear", x, self.constant(np.float32(scale)), self.constant(np.uint8(zero)))

    def weights(self, *shape: int, axis: int = 0) -> str:
        """Weights with a scale for every position of an axis."""
        values = weights(*shape)
        scales = np.full(shape[axis], np.abs(values).max() / 127, np.float32)
        whole = np.rint(values / scales[0]).astype(np.int8)
        zeros = self.constant(np.zeros(shape[axis], np.int8))
        return self.add("DequantizeLinear", self.constant(whole), self.constant(scales), zeros, axis=axis)

    def model(self, result: str, kind: int = BYTES) -> onnx.ModelProto:
        outputs = [helper.make_empty_tensor_value_info(result)]
        graph = helper.make_graph(self.nodes, "one", self.given, outputs, self.stored)
        imports = [helper.make_opsetid("", OPERATOR_SET), helper.make_opsetid(MICROSOFT, 1)]
        made = helper.make_model(graph, opset_imports=imports, ir_version=10)
        made = shape_inference.infer_shapes(made)
        made.graph.output[0].type.tensor_type.elem_type = kind
        return made


def convolution(
    cin: int, cout: int, size: int, kernel: int, stride: int = 1, groups: int = 1, rate: int = 1, rank: int = 2,
    op: str = "Conv",
) -> onnx.ModelProto:  # fmt: skip
    q = Quantized()
    x = q.input(1, cin, *[size] * rank)
    shape = (cin, cout // groups) if op == "ConvTranspose" else (cout, cin // groups)
    w = q.weights(*shape, *[kernel] * rank, axis=1 if op == "ConvTranspose" else 0)
    y = q.add(
        op, x, w, kernel_shape=[kernel] * rank, strides=[stride] * rank, dilations=[rate] * rank, group=groups,
        pads=[(kernel - 1) // 2 * rate] * 2 * rank,
    )  # fmt: skip
    return q.model(q.rounded(y))


def product(m: int, k: int, n: int) -> onnx.ModelProto:
    q = Quantized()
    return q.model(q.rounded(q.add("MatMul", q.input(m, k), q.weights(k, n, axis=1))))


def binary(op: str, first: Sequence[int], second: Sequence[int], **attributes: Any) -> onnx.ModelProto:
    q = Quantized()
    return q.model(q.rounded(q.add(op, q.input(*first), q.input(*second), **attributes)))


def unary(op: str, shape: Sequence[int], *sizes: Any, **attributes: Any) -> onnx.ModelProto:
    q = Quantized()
    x = q.input(*shape)
    return q.model(q.rounded(q.add(op, x, *(q.constant(v) if v is not None else "" for v in sizes), **attributes)))


def swish(*shape: int) -> onnx.ModelProto:
    q = Quantized()
    x = q.input(*shape)
    return q.model(q.rounded(q.add("Mul", x, q.real(q.rounded(q.add("Sigmoid", x), 1 / 256, 0), 1 / 256, 0))))


def normalized(*shape: int) -> onnx.ModelProto:
    q = Quantized()
    scale, bias = q.constant(weights(shape[-1])), q.constant(weights(shape[-1], seed=1))
    return q.model(q.rounded(q.add("LayerNormalization", q.input(*shape), scale, bias)))


def dynamic(m: int, k: int, n: int) -> onnx.ModelProto:
    """What ONNX Runtime's `quantize_dynamic` makes of a product."""
    q = Quantized()
    x = q.input(m, k, kind=FLOAT)
    q.nodes.append(helper.make_node("DynamicQuantizeLinear", [x], ["q", "s", "z"]))
    w = q.constant(np.random.default_rng(0).integers(-127, 128, (k, n)).astype(np.int8))
    sums = q.add("Cast", q.add("MatMulInteger", "q", w, "z"), to=FLOAT)
    return q.model(q.add("Mul", sums, q.add("Mul", "s", q.constant(np.float32([0.01])))), FLOAT)


def blocks(m: int, k: int, n: int, level: int, block: int = 32, zeros: bool = False) -> onnx.ModelProto:
    """MatMulNBits of 4 bits."""
    q, random = Quantized(), np.random.default_rng(0)
    packed = random.integers(0, 256, (n, k // block, block // 2)).astype(np.uint8)
    scales = random.uniform(0.005, 0.01, (n, k // block)).astype(np.float32)
    more = [q.constant(random.integers(0, 256, (n, k // block // 2)).astype(np.uint8))] if zeros else []
    y = q.add(
        "MatMulNBits", q.input(m, k, kind=FLOAT), q.constant(packed), q.constant(scales), *more, domain=MICROSOFT,
        K=k, N=n, bits=4, block_size=block, accuracy_level=level,
    )  # fmt: skip
    made = q.model(y, FLOAT)
    made.graph.output[0].CopyFrom(helper.make_tensor_value_info(y, FLOAT, (m, n)))
    return made


def integers() -> list[Row]:
    rows: dict[str, Callable[[], onnx.ModelProto]] = {}
    for cin, cout, size, kernel, stride in (
        (64, 64, 56, 3, 1), (256, 256, 14, 3, 1), (64, 128, 56, 3, 2), (256, 256, 28, 1, 1), (24, 144, 56, 1, 1),
        (960, 320, 7, 1, 1), (3, 64, 224, 7, 2), (3, 32, 224, 3, 2), (3, 192, 224, 16, 16),
    ):  # fmt: skip
        made = partial(convolution, cin, cout, size, kernel, stride)
        rows[f"conv-{kernel}x{kernel}-{cin}-{cout}-{size}-s{stride}"] = made
    for cin, cout, size, kernel, stride, groups, rate in (
        (144, 144, 56, 3, 1, 144, 1), (144, 144, 56, 3, 2, 144, 1), (240, 240, 28, 5, 1, 240, 1),
        (96, 96, 56, 7, 1, 96, 1), (32, 64, 56, 3, 1, 32, 1), (128, 128, 28, 3, 1, 4, 1), (128, 128, 56, 3, 1, 32, 1),
        (240, 240, 28, 1, 1, 3, 1), (128, 128, 28, 3, 1, 1, 2), (256, 64, 24, 3, 1, 1, 12),
    ):  # fmt: skip
        made = partial(convolution, cin, cout, size, kernel, stride, groups, rate)
        rows[f"conv-{kernel}x{kernel}-{cin}-{cout}-{size}-s{stride}-g{groups}-r{rate}"] = made
    rows["conv1d-1-64-8000"] = partial(convolution, 1, 64, 8000, 10, 5, rank=1)
    rows["conv1d-64-64-400"] = partial(convolution, 64, 64, 400, 3, rank=1)
    for kernel in (2, 3):
        made = partial(convolution, 64, 32, 28, kernel, 2, op="ConvTranspose")
        rows[f"transposed-{kernel}x{kernel}-64-32-28-s2"] = made
    for m, k, n in ((1, 1024, 1000), (128, 384, 384), (128, 384, 1536), (197, 192, 576)):
        rows[f"matmul-{m}-{k}-{n}"] = partial(product, m, k, n)
        rows[f"dynamic-{m}-{k}-{n}"] = partial(dynamic, m, k, n)
    for a, b in (((12, 128, 32), (12, 32, 128)), ((12, 128, 128), (12, 128, 32)), ((3, 197, 64), (3, 64, 197))):
        rows[f"attention-{'-'.join(map(str, (*a, b[-1])))}"] = partial(binary, "MatMul", a, b)
    image = (1, 64, 56, 56)
    for op in ("Add", "Mul", "Sub"):
        rows[f"{op}-64x56x56"] = partial(binary, op, image, image)
    rows["gate-64x56x56"] = partial(binary, "Mul", image, (1, 64, 1, 1))
    rows["Concat-64x56x56"] = partial(binary, "Concat", image, image, axis=1)
    for op in ("Relu", "LeakyRelu", "Sigmoid", "Tanh", "HardSwish", "HardSigmoid", "Gelu", "Exp", "Elu"):
        rows[f"{op}-64x56x56"] = partial(unary, op, image)
    rows["swish-64x56x56"] = partial(swish, *image)
    rows["Softmax-12x128x128"] = partial(unary, "Softmax", (12, 128, 128), axis=-1)
    rows["norm-layer-128x384"] = partial(normalized, 128, 384)
    rows["GlobalAveragePool-512x7x7"] = partial(unary, "GlobalAveragePool", (1, 512, 7, 7))
    pool = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4}
    for op in ("MaxPool", "AveragePool"):
        rows[f"{op}-3x3-64x112x112-s2"] = partial(unary, op, (1, 64, 112, 112), **pool)
    twice = np.array([1, 1, 2, 2], np.float32)
    for mode in ("linear", "nearest"):
        rows[f"Resize-{mode}-64x28x28"] = partial(unary, "Resize", (1, 64, 28, 28), None, twice, mode=mode)
    for m in (1, 4, 128):
        for level in (0, 4):
            rows[f"blocks-{m}-2048-2048-level{level}"] = partial(blocks, m, 2048, 2048, level)
    rows["blocks-1-2048-2048-level4-zeros-128"] = partial(blocks, 1, 2048, 2048, 4, block=128, zeros=True)
    rows["blocks-1-4096-11008-level4"] = partial(blocks, 1, 4096, 11008, 4)
    return [Row(f"integer-{name}", make) for name, make in rows.items()]
