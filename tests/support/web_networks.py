"""The networks that WebAssembly runtimes are measured with: shapes of known ones, random weights."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from support.networks import OPSET, Network, mobilenet_v2


def _finish(net: Network, x: str, shape: tuple[int, ...], out: tuple[int, ...]) -> onnx.ModelProto:
    graph = helper.make_graph(
        net.nodes,
        net.name,
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(x, TensorProto.FLOAT, out)],
        net.weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)


def _convolution(net: Network, x: str, scope: str, cin: int, cout: int, kernel: int, stride: int, pad: int) -> str:
    """A convolution with bias and ReLU."""
    scale = np.sqrt(2 / (cin * kernel * kernel))
    w = net.weight(f"{scope}.w", net.random.standard_normal((cout, cin, kernel, kernel)) * scale)
    b = net.weight(f"{scope}.b", net.random.standard_normal(cout) * 0.1)
    y = net.node("Conv", [x, w, b], scope, kernel_shape=[kernel] * 2, pads=[pad] * 4, strides=[stride] * 2)
    return net.relu(y, scope)


def squeezenet() -> onnx.ModelProto:
    """SqueezeNet 1.1 (Iandola et al. 2016)."""
    net = Network("squeezenet", 2016, True)

    def pool(x: str, n: int) -> str:
        return net.node("MaxPool", [x], f"pool{n}", kernel_shape=[3, 3], strides=[2, 2])

    x = pool(_convolution(net, "x", "conv1", 3, 64, 3, 2, 0), 1)
    channels = 64
    for n, (squeeze, expand) in enumerate(
        ((16, 64), (16, 64), (32, 128), (32, 128), (48, 192), (48, 192), (64, 256), (64, 256))
    ):
        scope = f"fire{n + 2}"
        y = _convolution(net, x, f"{scope}.squeeze", channels, squeeze, 1, 1, 0)
        one = _convolution(net, y, f"{scope}.one", squeeze, expand, 1, 1, 0)
        three = _convolution(net, y, f"{scope}.three", squeeze, expand, 3, 1, 1)
        x = net.node("Concat", [one, three], scope, axis=1)
        channels = 2 * expand
        if n in (1, 3):
            x = pool(x, n + 1)
    x = _convolution(net, x, "conv10", channels, 1000, 1, 1, 0)
    x = net.node("Flatten", [net.node("GlobalAveragePool", [x], "pool10")], "flatten", axis=1)
    return _finish(net, x, (1, 3, 224, 224), (1, 1000))


def key_words() -> onnx.ModelProto:
    """The DS-CNN of MLPerf Tiny: 49 frames of 10 features, 12 words."""
    net = Network("kws", 49, True)
    pads = numpy_helper.from_array(np.array([0, 0, 4, 1, 0, 0, 5, 1], np.int64), "pads")
    net.weights.append(pads)
    x = net.node("Pad", ["x", "pads"], "pad")
    w = net.weight("conv.w", net.random.standard_normal((64, 1, 10, 4)) * 0.2)
    b = net.weight("conv.b", net.random.standard_normal(64) * 0.1)
    x = net.relu(net.node("Conv", [x, w, b], "conv", kernel_shape=[10, 4], strides=[2, 2]), "conv")
    for n in range(4):
        x = net.relu(net.conv(x, f"block{n}.depthwise", 64, 64, kernel=3, groups=64), f"block{n}.depthwise")
        x = net.relu(net.conv(x, f"block{n}.pointwise", 64, 64, kernel=1), f"block{n}.pointwise")
    x = net.node("Flatten", [net.node("GlobalAveragePool", [x], "pool")], "flatten", axis=1)
    w = net.weight("fc.w", net.random.standard_normal((12, 64)) * 0.2)
    b = net.weight("fc.b", net.random.standard_normal(12) * 0.1)
    x = net.node("Softmax", [net.node("Gemm", [x, w, b], "fc", transB=1)], "softmax", axis=-1)
    return _finish(net, x, (1, 1, 49, 10), (1, 12))


def perceptron() -> onnx.ModelProto:
    """256-512-512-10."""
    net, x = Network("mlp", 256, True), "x"
    sizes = (256, 512, 512, 10)
    for n, (cin, cout) in enumerate(itertools.pairwise(sizes)):
        w = net.weight(f"fc{n}.w", net.random.standard_normal((cout, cin)) * np.sqrt(2 / cin))
        b = net.weight(f"fc{n}.b", net.random.standard_normal(cout) * 0.1)
        x = net.node("Gemm", [x, w, b], f"fc{n}", transB=1)
        if cout != sizes[-1]:
            x = net.relu(x, f"fc{n}")
    return _finish(net, x, (1, 256), (1, 10))


def encoder(
    layers: int = 6, width: int = 384, heads: int = 12, hidden: int = 1536, length: int = 128
) -> onnx.ModelProto:
    """Transformer encoder layers over embeddings, as exporters write them; the mean of all positions."""
    net, x = Network("encoder", 6384, True), "x"
    head = width // heads

    def constant(name: str, data: np.ndarray) -> str:
        if not any(w.name == name for w in net.weights):
            net.weights.append(numpy_helper.from_array(data, name))
        return name

    def linear(x: str, scope: str, cin: int, cout: int) -> str:
        w = net.weight(f"{scope}.w", net.random.standard_normal((cin, cout)) / np.sqrt(cin))
        b = net.weight(f"{scope}.b", net.random.standard_normal(cout) * 0.1)
        return net.add(net.node("MatMul", [x, w], scope), b, scope)

    def normalized(x: str, scope: str) -> str:
        gamma = net.weight(f"{scope}.gamma", net.random.uniform(0.8, 1.2, width))
        beta = net.weight(f"{scope}.beta", net.random.standard_normal(width) * 0.1)
        return net.node("LayerNormalization", [x, gamma, beta], scope, axis=-1, epsilon=1e-5)

    split = constant("split", np.array([1, length, heads, head], np.int64))
    join = constant("join", np.array([1, length, width], np.int64))
    scale = constant("scale", np.array(head**-0.5, np.float32))
    for n in range(layers):
        s = f"layer{n}"
        q, k, v = (
            net.node("Transpose", [net.node("Reshape", [linear(x, f"{s}.{p}", width, width), split], s)], s, perm=perm)
            for p, perm in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3]))
        )
        scores = net.node("Softmax", [net.node("Mul", [net.node("MatMul", [q, k], s), scale], s)], s, axis=-1)
        mixed = net.node("Transpose", [net.node("MatMul", [scores, v], s)], s, perm=[0, 2, 1, 3])
        x = normalized(net.add(x, linear(net.node("Reshape", [mixed, join], s), f"{s}.o", width, width), s), f"{s}.n1")
        y = linear(x, f"{s}.a", width, hidden)
        erf = net.node("Erf", [net.node("Div", [y, constant("root", np.array(2**0.5, np.float32))], s)], s)
        plus = net.add(erf, constant("one", np.array(1, np.float32)), s)
        y = net.node("Mul", [net.node("Mul", [y, plus], s), constant("half", np.array(0.5, np.float32))], s)
        x = normalized(net.add(x, linear(y, f"{s}.b", hidden, width), s), f"{s}.n2")
    x = net.node("ReduceMean", [x], "mean", axes=[1], keepdims=0)
    return _finish(net, x, (1, length, width), (1, width))


#: By the names of the harness; every one has one input.
WEB_NETWORKS: dict[str, Callable[[], onnx.ModelProto]] = {
    "mobilenetv2": mobilenet_v2,
    "squeezenet": squeezenet,
    "encoder": encoder,
    "kws": key_words,
    "mlp": perceptron,
}
