"""Transformers as exporters write them: separate products, reshapes and transposes, activations in single operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

WIDTH, HEADS, LENGTH, WORDS, BATCH = 32, 4, 12, 50, 2


class _Writer:
    """Nodes and weights of a model that is being written."""

    def __init__(self) -> None:
        self.random = np.random.default_rng(0)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def weight(self, array: Any) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def number(self, value: float) -> str:
        return self.weight(np.float32(value))

    def matrix(self, *shape: int, scale: float = 1.0, offset: float = 0.0) -> str:
        return self.weight((self.random.standard_normal(shape) * scale + offset).astype(np.float32))

    def __call__(self, op: str, *inputs: str, **attributes: Any) -> str:
        name = f"{op}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], name=name, **attributes))
        return name

    def dense(self, x: str, inputs: int, outputs: int) -> str:
        product = self("MatMul", x, self.matrix(inputs, outputs, scale=inputs**-0.5))
        return self("Add", product, self.matrix(outputs, scale=0.1))

    def norm(self, x: str) -> str:
        scale, bias = self.matrix(WIDTH, scale=0.1, offset=1.0), self.matrix(WIDTH, scale=0.1)
        return self("LayerNormalization", x, scale, bias, axis=-1, epsilon=1e-5)

    def gelu(self, x: str) -> str:
        tail = self("Add", self("Erf", self("Div", x, self.number(2**0.5))), self.number(1))
        return self("Mul", self("Mul", x, tail), self.number(0.5))

    def fast_gelu(self, x: str) -> str:
        cube = self("Mul", self.number(0.044715), self("Pow", x, self.number(3)))
        bent = self("Tanh", self("Mul", self.number((2 / np.pi) ** 0.5), self("Add", x, cube)))
        return self("Mul", self("Mul", self.number(0.5), x), self("Add", self.number(1), bent))

    def attention(self, x: str, mask: str) -> str:
        size = WIDTH // HEADS

        def heads(order: list[int]) -> str:
            y = self("Reshape", self.dense(x, WIDTH, WIDTH), self.weight(np.array([0, 0, HEADS, size])))
            return self("Transpose", y, perm=order)

        q, k, v = heads([0, 2, 1, 3]), heads([0, 2, 3, 1]), heads([0, 2, 1, 3])
        scores = self("Add", self("Div", self("MatMul", q, k), self.number(size**0.5)), mask)
        y = self("Transpose", self("MatMul", self("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3])
        return self.dense(self("Reshape", y, self.weight(np.array([0, 0, WIDTH]))), WIDTH, WIDTH)

    def model(self, inputs: list[str], output: str, width: int) -> onnx.ModelProto:
        graph = helper.make_graph(
            self.nodes, "transformer",
            [helper.make_tensor_value_info(name, onnx.TensorProto.INT64, [BATCH, LENGTH]) for name in inputs],
            [helper.make_tensor_value_info(output, onnx.TensorProto.FLOAT, [BATCH, LENGTH, width])],
            self.weights,
        )  # fmt: skip
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def encoder(layers: int = 2) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """A BERT with a padding mask, and its inputs."""
    w = _Writer()
    words = w("Gather", w.matrix(WORDS, WIDTH), "input_ids")
    kinds = w("Gather", w.matrix(2, WIDTH), "token_type_ids")
    places = w("Gather", w.matrix(LENGTH, WIDTH), w.weight(np.arange(LENGTH)[None]))
    x = w.norm(w("Add", w("Add", words, kinds), places))
    mask = w("Unsqueeze", w("Unsqueeze", "attention_mask", w.weight(np.array([1]))), w.weight(np.array([2])))
    mask = w("Mul", w("Sub", w.number(1), w("Cast", mask, to=1)), w.number(-10000))
    for _ in range(layers):
        x = w.norm(w("Add", w.attention(x, mask), x))
        x = w.norm(w("Add", w.dense(w.gelu(w.dense(x, WIDTH, 4 * WIDTH)), 4 * WIDTH, WIDTH), x))
    seen = np.ones((BATCH, LENGTH), np.int64)
    seen[0, 9:] = 0
    feeds = {
        "input_ids": w.random.integers(0, WORDS, (BATCH, LENGTH)),
        "token_type_ids": w.random.integers(0, 2, (BATCH, LENGTH)),
        "attention_mask": seen,
    }
    return w.model(list(feeds), x, WIDTH), feeds


def decoder(layers: int = 2) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """A GPT, and its input."""
    w = _Writer()
    x = w("Add", w("Gather", w.matrix(WORDS, WIDTH), "input_ids"), w.matrix(LENGTH, WIDTH))
    mask = w.weight(np.where(np.tri(LENGTH, dtype=bool), 0, -10000).astype(np.float32)[None, None])
    for _ in range(layers):
        x = w("Add", x, w.attention(w.norm(x), mask))
        x = w("Add", x, w.dense(w.fast_gelu(w.dense(w.norm(x), WIDTH, 4 * WIDTH)), 4 * WIDTH, WIDTH))
    feeds = {"input_ids": w.random.integers(0, WORDS, (BATCH, LENGTH))}
    return w.model(list(feeds), w.dense(w.norm(x), WIDTH, WORDS), WORDS), feeds


TRANSFORMERS: dict[str, Callable[..., tuple[onnx.ModelProto, dict[str, np.ndarray]]]] = {
    "encoder": encoder, "decoder": decoder,
}  # fmt: skip
