"""Networks whose sizes stay open, as exporters write them: shapes are computed by Shape, Gather and Concat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class OpenGraph:
    """Collects nodes, weights, inputs and outputs."""

    def __init__(self, seed: int):
        self.random = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []

    def constant(self, array: Any, name: str = "") -> str:
        name = name or f"c{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def weight(self, *shape: int) -> str:
        return self.constant((self.random.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32))

    def node(self, op: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        output = output or f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [output], **attributes))
        return output

    def nodes_of(self, op: str, count: int, *inputs: str, **attributes: Any) -> list[str]:
        """The results of a node that has several."""
        outputs = [f"v{len(self.nodes)}_{n}" for n in range(count)]
        self.nodes.append(helper.make_node(op, list(inputs), outputs, **attributes))
        return outputs

    def integers(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64))

    def input(self, name: str, shape: list[int | str], element: int = TensorProto.FLOAT) -> str:
        self.inputs.append(helper.make_tensor_value_info(name, element, shape))
        return name

    def output(self, x: str, element: int = TensorProto.FLOAT) -> None:
        name = self.node("Identity", x, output=f"output{len(self.outputs)}")
        self.outputs.append(helper.make_tensor_value_info(name, element, None))

    def finished(self, name: str) -> onnx.ModelProto:
        """The model with the inputs and outputs that were declared."""
        return self.model(name, self.inputs, self.outputs)

    def size(self, x: str, axis: int) -> str:
        """One dimension of a tensor, as a vector."""
        picked = self.node("Gather", self.node("Shape", x), self.constant(np.int64(axis)), axis=0)
        return self.node("Unsqueeze", picked, self.constant(np.array([0], np.int64)))

    def model(self, name: str, inputs: list[Any], outputs: list[Any]) -> onnx.ModelProto:
        graph = helper.make_graph(self.nodes, name, inputs, outputs, self.weights)
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
        made.ir_version = 8
        return made


def images() -> onnx.ModelProto:
    """Convolutions over an open batch of images: transposes, pads, tiles of channels, pooling, shuffled halves."""
    g = OpenGraph(seed=3)
    x = g.input("x", ["batch", 3, 22, 22])

    def conv(x: str, into: int, each: int, side: int, **attributes: Any) -> str:
        w = g.constant((g.random.standard_normal((into, each, side, side)) / (side * each**0.5)).astype(np.float32))
        return g.node("Relu", g.node("Conv", x, w, pads=[side // 2] * 4, **attributes))

    x = g.node("MaxPool", conv(x, 24, 3, 3), kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    left = conv(conv(x, 24, 1, 3, group=24), 58, 24, 1)
    x = g.node("Concat", left, conv(x, 58, 24, 1), axis=1)
    x = g.node("Reshape", x, g.integers(0, 2, 58, 11, 11))
    x = g.node("Reshape", g.node("Transpose", x, perm=[0, 2, 1, 3, 4]), g.integers(0, 116, 11, 11))
    x = conv(conv(x, 116, 1, 3, group=116, strides=[2, 2]), 128, 116, 1)
    g.output(conv(conv(x, 128, 1, 3, group=128, strides=[2, 2]), 232, 128, 1))
    return g.finished("images")


def decoder(layers: int = 2, width: int = 16, heads: int = 2, words: int = 40) -> onnx.ModelProto:
    """A GPT with its key-value cache as inputs and outputs: `past` positions are known, `step` words are new."""
    g = OpenGraph(seed=9)
    size = width // heads
    ids = g.input("ids", [1, "step"], TensorProto.INT64)
    start = g.input("past_key_0", [1, heads, "past", size])
    zero, one = (g.constant(np.int64(n)) for n in (0, 1))
    before, new = (g.node("Squeeze", g.size(*at)) for at in ((start, 2), (ids, 1)))
    total = g.node("Add", before, new)
    places = g.node("Range", before, total, one)
    causal = g.node(
        "LessOrEqual",
        g.node("Unsqueeze", g.node("Range", zero, total, one), g.integers(0)),
        g.node("Unsqueeze", places, g.integers(1)),
    )
    x = g.node("Add", g.node("Gather", g.weight(words, width), ids), g.node("Gather", g.weight(64, width), places))
    for layer in range(layers):
        cache = [
            start if (layer, kind) == (0, "key") else g.input(f"past_{kind}_{layer}", [1, heads, "past", size])
            for kind in ("key", "value")
        ]

        def split(x: str) -> str:
            rows = g.node("Reshape", g.node("MatMul", x, g.weight(width, width)), g.integers(1, -1, heads, size))
            return g.node("Transpose", rows, perm=[0, 2, 1, 3])

        normal = g.node("LayerNormalization", x, g.constant(np.ones(width, np.float32)))
        query = split(normal)
        key, value = (g.node("Concat", past, split(normal), axis=2) for past in cache)
        scores = g.node("MatMul", query, g.node("Transpose", key, perm=[0, 1, 3, 2]))
        masked = g.node("Where", causal, scores, g.constant(np.float32(-1e9)))
        mixed = g.node("MatMul", g.node("Softmax", masked, axis=-1), value)
        rows = g.node("Reshape", g.node("Transpose", mixed, perm=[0, 2, 1, 3]), g.integers(1, -1, width))
        x = g.node("Add", x, g.node("MatMul", rows, g.weight(width, width)))
        g.output(key)
        g.output(value)
    g.output(g.node("MatMul", x, g.weight(width, words)))
    return g.finished("decoder")


def encoder(width: int = 32, heads: int = 4, positions: int = 64, layers: int = 2, seed: int = 7) -> onnx.ModelProto:
    """A transformer encoder on token ids and an attention mask, both (batch, seq)."""
    g = OpenGraph(seed)
    depth = width // heads
    batch, seq = g.size("ids", 0), g.size("ids", 1)
    table = g.constant(g.random.standard_normal((positions, width)).astype(np.float32))
    place = g.node("Slice", table, g.constant(np.array([0])), seq, g.constant(np.array([0])))
    embedding = g.constant(g.random.standard_normal((50, width)).astype(np.float32))
    x = g.node("Add", g.node("Gather", embedding, "ids"), place)
    mask = g.node("Cast", "mask", to=TensorProto.FLOAT)
    axes = g.constant(np.array([1, 2], np.int64))
    blocked = g.node("Sub", g.constant(np.float32(1)), g.node("Unsqueeze", mask, axes))
    bias = g.node("Mul", blocked, g.constant(np.float32(-1e4)))
    split = g.node(
        "Concat", batch, seq, g.constant(np.array([heads])), g.constant(np.array([depth])), axis=0, output="split"
    )
    joined = g.node("Concat", batch, seq, g.constant(np.array([width])), axis=0, output="joined")
    for _ in range(layers):
        parts = []
        for order in ((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3)):
            projected = g.node("MatMul", x, g.weight(width, width))
            parts.append(g.node("Transpose", g.node("Reshape", projected, split), perm=order))
        q, k, v = parts
        scores = g.node("Mul", g.node("MatMul", q, k), g.constant(np.float32(1 / np.sqrt(depth))))
        attention = g.node("Softmax", g.node("Add", scores, bias), axis=-1)
        mixed = g.node("Reshape", g.node("Transpose", g.node("MatMul", attention, v), perm=(0, 2, 1, 3)), joined)
        x = _normalized(g, g.node("Add", x, g.node("MatMul", mixed, g.weight(width, width))), width)
        hidden = g.node("MatMul", x, g.weight(width, 2 * width))
        root = g.node("Div", hidden, g.constant(np.float32(np.sqrt(2))))
        gate = g.node("Add", g.node("Erf", root), g.constant(np.float32(1)))
        active = g.node("Mul", g.node("Mul", hidden, gate), g.constant(np.float32(0.5)))
        x = _normalized(g, g.node("Add", x, g.node("MatMul", active, g.weight(2 * width, width))), width)
    g.node("Identity", x, output="hidden")
    ids, mask_info = (helper.make_tensor_value_info(n, TensorProto.INT64, ["batch", "seq"]) for n in ("ids", "mask"))
    hidden_info = helper.make_tensor_value_info("hidden", TensorProto.FLOAT, ["batch", "seq", width])
    return g.model("encoder", [ids, mask_info], [hidden_info])


def _normalized(g: OpenGraph, x: str, width: int) -> str:
    scale, shift = (g.constant(g.random.uniform(0.5, 1.5, width).astype(np.float32)) for _ in range(2))
    return g.node("LayerNormalization", x, scale, shift, axis=-1)


def detector(seed: int = 11) -> onnx.ModelProto:
    """A fully convolutional network with strides, pooling, depthwise layers and a residual, for images of any size."""
    g = OpenGraph(seed)

    def conv(x: str, shape: tuple[int, ...], **attributes: Any) -> str:
        fan = np.sqrt(np.prod(shape[1:]))
        w = g.constant((g.random.standard_normal(shape) / fan).astype(np.float32))
        b = g.constant(g.random.standard_normal(shape[0]).astype(np.float32))
        return g.node("Relu", g.node("Conv", x, w, b, **attributes))

    x = conv("image", (8, 3, 3, 3), pads=[1, 1, 1, 1], strides=[2, 2])
    y = conv(x, (8, 1, 3, 3), pads=[1, 1, 1, 1], group=8)
    x = g.node("Add", x, conv(y, (8, 8, 1, 1)))
    x = g.node("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    g.node("Sigmoid", conv(x, (5, 8, 3, 3), pads=[1, 1, 1, 1]), output="scores")
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, "height", "width"])
    scores = helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, 5, None, None])
    return g.model("detector", [image], [scores])


def pyramid(channels: Sequence[int] = (8, 16), classes: int = 5) -> onnx.ModelProto:
    """A network that halves an image and doubles it again beside what it was, as U-Net and detectors do, with pools of
    five that keep their size: sizes are multiples of 2 to the number of its levels."""
    g = OpenGraph(seed=23)

    def conv(x: str, each: int, into: int, side: int = 3) -> str:
        w = g.constant((g.random.standard_normal((into, each, side, side)) / (side * each**0.5)).astype(np.float32))
        return g.node("Relu", g.node("Conv", x, w, pads=[side // 2] * 4))

    x, has, kept = g.input("image", ["batch", 3, "height", "width"]), 3, list[tuple[str, int]]()
    for into in channels:
        x = conv(x, has, into)
        kept.append((x, into))
        x, has = g.node("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2]), into
    x = g.node("Concat", x, g.node("MaxPool", x, kernel_shape=[5, 5], pads=[2, 2, 2, 2]), axis=1)
    has *= 2
    twice = g.constant(np.array([1, 1, 2, 2], np.float32))
    for beside, each in reversed(kept):
        how = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        x = g.node("Concat", g.node("Resize", x, "", twice, **how), beside, axis=1)
        x, has = conv(x, has + each, each), each
    g.output(conv(x, has, classes, 1))
    return g.finished("pyramid")


def mobile(blocks: Sequence[tuple[int, int, int, int, bool]], first: int = 16, seed: int = 17) -> onnx.ModelProto:
    """Inverted bottlenecks as MobileNetV3 has them, for one image of any size.

    Args:
        blocks: side of the window, channels within, channels after, step, and whether means of channels weigh them.
    """
    g = OpenGraph(seed)

    def conv(x: str, into: int, each: int, side: int = 1, **attributes: Any) -> str:
        w = g.constant((g.random.standard_normal((into, each, side, side)) / (side * each**0.5)).astype(np.float32))
        return g.node("Conv", x, w, g.weight(into), pads=[side // 2] * 4, **attributes)

    x, channels = (
        g.node("HardSwish", conv(g.input("image", [1, 3, "height", "width"]), first, 3, 3, strides=[2, 2])),
        first,
    )
    for side, within, after, step, weighed in blocks:
        y = g.node("HardSwish", conv(x, within, channels))
        y = g.node("HardSwish", conv(y, within, 1, side, strides=[step, step], group=within))
        if weighed:
            few = g.node("Relu", conv(g.node("GlobalAveragePool", y), within // 4, within))
            y = g.node("Mul", y, g.node("HardSigmoid", conv(few, within, within // 4), alpha=1 / 6))
        y = conv(y, after, within)
        x, channels = g.node("Add", x, y) if step == 1 and after == channels else y, after
    g.output(g.node("Flatten", g.node("GlobalAveragePool", x)))
    return g.finished("mobile")


def rows(seed: int = 13) -> onnx.ModelProto:
    """What is done along an open axis: normalization, softmax, extremes, and a product of every row with every row."""
    g = OpenGraph(seed)
    centred = g.node("Sub", "x", g.node("ReduceMean", "x", axes=[-1], keepdims=1))
    square = g.node("ReduceMean", g.node("Mul", centred, centred), axes=[-1], keepdims=1)
    root = g.node("Sqrt", g.node("Add", square, g.constant(np.float32(1e-3))))
    normalized = g.node("Div", centred, root, output="normalized")
    attention = g.node("Softmax", normalized, axis=-1, output="attention")
    g.node("MatMul", attention, g.node("Transpose", "x", perm=[1, 0]), output="product")
    g.node("MatMul", g.node("Transpose", "x", perm=[1, 0]), attention, output="gram")
    g.node("ReduceMax", g.node("Tanh", "x"), axes=[0], keepdims=0, output="most")
    x, *outputs = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (
            ("x", ["batch", "length"]),
            ("normalized", ["batch", "length"]),
            ("product", ["batch", "batch"]),
            ("gram", ["length", "length"]),
            ("most", ["length"]),
        )
    )
    return g.model("rows", [x], outputs)
