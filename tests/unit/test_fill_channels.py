"""Channels are filled up to whole runs and sectors, and what a network computes stays the same."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from sterna.ir.graph import Graph, Value, tensor_type
from sterna.ir.integer import Symbol, of
from sterna.ops import Builder
from sterna.ops.evaluate import evaluate
from sterna.passes.channel_ranges import channels
from sterna.passes.fill_channels import fill_channels
from sterna.pipeline import verify_graph


class Net:
    def __init__(self, seed: int, dtype: str):
        self.rng, self.builder, self.dtype = np.random.default_rng(seed), Builder(), dtype

    def constant(self, *shape: int) -> Value:
        return self.builder.constant(self.rng.standard_normal(shape).astype(self.dtype))

    def conv(self, x: Value, count: int, taps: int = 1, groups: int = 1) -> Value:
        weights = self.constant(taps, taps, channels(x) // groups, count)
        sums = self.builder.add("conv", x, weights, strides=(1, 1), dilations=(1, 1), groups=groups)
        return self.builder.add("relu", self.builder.add("add", sums, self.constant(count)))

    def part(self, x: Value, first: int, many: int) -> Value:
        *places, _ = x.type.sizes
        starts, sizes = (0, 0, 0, first), (*places, many)
        return self.builder.add("slice", x, starts=starts, sizes=sizes, steps=(1, 1, 1, 1))


def excite(net: Net, x: Value) -> Value:
    """Squeeze and excite, whose tensors of one position have channels, too."""
    add, count = net.builder.add, channels(x)
    scale = net.conv(net.conv(add("reduce_mean", x, axes=(1, 2), keep_dims=True), 13), count)
    return add("div", add("mul", x, add("sigmoid", scale)), net.builder.constant(np.full(count, 3, net.dtype)))


def branches(net: Net, x: Value) -> Value:
    """Of 18 channels the first 10, which would be 16, stay as they are."""
    joined = net.builder.add("concat", net.conv(x, 18), net.conv(x, 30), axis=3)
    return net.conv(net.conv(net.part(joined, 10, 38), 38, 3, groups=38), 36)


def groups(net: Net, x: Value) -> Value:
    return net.conv(net.conv(x, 4 * 12), 4 * 7, 3, groups=4)


def more_groups(net: Net, x: Value) -> Value:
    """Three groups of 8 channels are a sector and a half."""
    return net.conv(net.conv(net.conv(x, 3 * 8), 3 * 8, 3, groups=3), 5 * 40, groups=1)


CASES: dict[str, tuple[Callable[[Net, Value], Value], list[int]]] = {
    "layers": (lambda net, x: net.conv(net.conv(x, 58), 51, 3), [64, 56]),
    "long rows": (lambda net, x: net.conv(x, 136), [144]),
    "few": (lambda net, x: net.conv(x, 3), [3]),
    "whole": (lambda net, x: net.conv(x, 40), [40]),
    "excited": (lambda net, x: excite(net, net.conv(x, 22)), [24, 16, 24]),
    "branches": (branches, [18, 32, 40, 40]),
    "groups": (groups, [64, 32]),
    "one group more": (more_groups, [32, 32, 208]),
}


def computed(graph: Graph, x: np.ndarray) -> np.ndarray:
    known = {graph.inputs[0]: x}
    for node in graph.nodes:
        operands = [None if v is None else known[v] if v.data is None else v.data for v in node.inputs]
        known |= dict(zip(node.outputs, evaluate(node.op, operands, node.attributes), strict=True))
    return known[graph.outputs[0]]


@pytest.mark.parametrize("name", CASES)
def test_filled(name: str) -> None:
    make, wanted = CASES[name]
    net = Net(0, "float16")
    x = Value("x", tensor_type("float16", (1, 5, 6, 8)))
    y = net.conv(make(net, x), 10)
    graph = Graph("g", (x,), (y,), tuple(net.builder.nodes))
    filled = fill_channels(graph)
    verify_graph(filled, "fill-channels")
    assert [channels(node.output) for node in filled.nodes if node.op == "conv"] == [*wanted, 10]
    assert filled.outputs[0].name == y.name
    given = net.rng.standard_normal(x.type.sizes).astype(np.float16)
    expected = computed(graph, given)
    np.testing.assert_allclose(computed(filled, given), expected, atol=2e-3 * float(np.abs(expected).max()))


@pytest.mark.parametrize("op", ["softmax", "log"])
def test_what_others_read_stays(op: str) -> None:
    """Softmax over channels would count those that are added, and logarithms of zeros are infinite."""
    net = Net(0, "float32")
    x = Value("x", tensor_type("float32", (1, 5, 6, 8)))
    made = net.conv(x, 13)
    y = net.conv(net.builder.add(op, made, axis=3) if op == "softmax" else net.builder.add(op, made), 10)
    graph = Graph("g", (x,), (y,), tuple(net.builder.nodes))
    assert fill_channels(graph) is graph


def test_constants_and_open_sizes() -> None:
    """Parts of constants, as of positions, have channels of nothing; open positions are as good as known ones."""
    net = Net(0, "float16")
    many = of(Symbol("n", 1, 64))
    x = Value("x", tensor_type("float16", (1, many, 6, 8)))
    starts, sizes, steps = (0, 0, 0, 1), (1, 1, 6, 13), (1, 1, 1, 1)
    part = net.builder.add("slice", net.constant(1, 1, 6, 15), starts=starts, sizes=sizes, steps=steps)
    y = net.conv(net.builder.add("add", net.conv(net.conv(x, 22), 13), part), 10)
    filled = fill_channels(Graph("g", (x,), (y,), tuple(net.builder.nodes)))
    verify_graph(filled, "fill-channels")
    assert [channels(node.output) for node in filled.nodes if node.op == "conv"] == [24, 13, 10]
