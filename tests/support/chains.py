"""Networks of small layers, for chains of kernels as one launch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sterna.api import options_of
from sterna.ir.graph import Graph, Value
from sterna.ops import Builder
from sterna.passes.context import PassContext, context_of
from sterna.passes.kernels import Call
from sterna.passes.stages import Sequenced
from sterna.pipeline import walk
from support.compiling import input_value

#: Nanoseconds of a launch that any chain is worth.
DEAR = 1e8


class Layers:
    """A network under construction, with its input's data."""

    def __init__(self, *shape: int, dtype: str = "float32", seed: int = 0):
        self.builder, self.random, self.dtype = Builder(), np.random.default_rng(seed), dtype
        self.feeds = {"x": self.random.standard_normal(shape).astype(dtype)}
        self.x = input_value(self.builder, self.feeds["x"])

    def constant(self, *shape: int, scale: float = 1.0) -> Value:
        return self.builder.constant((self.random.standard_normal(shape) * scale).astype(self.dtype))

    def add(self, op: str, *inputs: Value, **attributes: Any) -> Value:
        return self.builder.add(op, *inputs, **attributes)

    def dense(self, x: Value, columns: int, activation: str = "") -> Value:
        depth = int(x.shape[-1])
        y = self.add("matmul", x, self.constant(depth, columns, scale=depth**-0.5))
        y = self.add("add", y, self.constant(columns))
        return self.add(activation, y) if activation else y

    def softmax(self, x: Value) -> Value:
        return self.add("softmax", x, axis=x.type.rank - 1)

    def pooled(self, x: Value) -> Value:
        """The mean of the pixels of an image, channels last, without its dimensions of one."""
        mean = self.add("reduce_mean", x, axes=[1, 2])
        return self.builder.reshape(mean, [int(x.shape[0]), int(x.shape[-1])])

    def graph(self, *outputs: Value) -> Graph:
        return Graph("layers", (self.x,), outputs, tuple(self.builder.nodes))


def perceptron() -> Graph:
    n = Layers(1, 40)
    return n.graph(n.dense(n.dense(n.dense(n.x, 32, "relu"), 16, "sigmoid"), 5))


def squeeze_and_excite() -> Graph:
    n = Layers(1, 7, 7, 24)
    return n.graph(n.dense(n.dense(n.pooled(n.x), 6, "relu"), 24, "sigmoid"))


def classifier() -> Graph:
    n = Layers(2, 5, 5, 32)
    return n.graph(n.softmax(n.dense(n.pooled(n.x), 10)))


def gated() -> Graph:
    """What a layer makes is read twice, and the input once more."""
    n = Layers(3, 24)
    y = n.dense(n.x, 24)
    return n.graph(n.dense(n.add("add", n.add("mul", y, n.softmax(y)), n.x), 7))


def normalized() -> Graph:
    """A normalization, and a small product of every row."""
    n = Layers(9, 48)
    mean = n.add("reduce_mean", n.x, axes=[1])
    off = n.add("sub", n.x, mean)
    variance = n.add("reduce_mean", n.add("mul", off, off), axes=[1])
    scaled = n.add("div", off, n.add("sqrt", n.add("add", variance, n.builder.constant(np.float32(1e-5)))))
    return n.graph(n.dense(scaled, 12))


def folded() -> Graph:
    """Rows of one layer are columns of another."""
    n = Layers(6, 8)
    return n.graph(n.dense(n.builder.reshape(n.dense(n.x, 10, "tanh"), [4, 15]), 3))


def distances() -> Graph:
    """Of rows from those of a constant, as of an SVM: threads side by side read its rows."""
    n = Layers(9, 13)
    return n.graph(n.dense(n.add("exp", n.add("neg", n.add("squared_distance", n.x, n.constant(60, 13)))), 3))


CHAINS: dict[str, tuple[Callable[[], Graph], int]] = {
    "dense layers of one row": (perceptron, 1),
    "squeeze and excite": (squeeze_and_excite, 1),
    "head of a classifier": (classifier, 2),
    "gates and a residual": (gated, 3),
    "normalization and a small product": (normalized, 9),
    "a reshape between": (folded, 1),
    "distances": (distances, 9),
}


def context(target: str = "opencl", launch_ns: float | None = DEAR, shared: int = 0) -> PassContext:
    """What such a network is compiled for, where launches take so long; None: as the target says."""
    found = context_of(options_of(target))
    machine = found.target
    assert machine.device is not None
    if launch_ns is not None:
        machine = replace(machine, device=replace(machine.device, launch_ns=launch_ns))
    if shared:
        memories = tuple(replace(m, bytes=shared) if m.reach == "block" else m for m in machine.memories)
        machine = replace(machine, memories=memories)
    return replace(found, target=machine, options=replace(found.options, target=machine))


def calls(graph: Graph, where: PassContext) -> Sequence[Call]:
    """The kernels, one launch each."""
    found = walk(graph, where, "linearize")
    assert isinstance(found, Sequenced)
    return found.sequence.calls
