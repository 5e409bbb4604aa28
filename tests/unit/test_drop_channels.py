"""Channels of quantized networks that say nothing are dropped, and nothing else changes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from sterna.ir.graph import Graph, Value, tensor_type
from sterna.ops import Builder
from sterna.ops.evaluate import evaluate
from sterna.passes.channel_ranges import ChannelRanges, channels
from sterna.passes.drop_channels import drop_channels
from sterna.pipeline import verify_graph


class Net:
    """A quantized network in the making, with channels that its weights or its clamps silence."""

    def __init__(self, seed: int, dtype: str = "int8"):
        self.rng, self.builder = np.random.default_rng(seed), Builder()
        self.zero = {"int8": -128, "uint8": 0}[dtype]
        self.dtype = dtype

    def constant(self, array: np.ndarray) -> Value:
        return self.builder.constant(array)

    def scaled(self, sums: Value, silent: np.ndarray) -> Value:
        """Bias, scale, zero point and clamp; of silent channels the bias is so small that the clamp holds them."""
        count = channels(sums)
        bias = np.where(silent, -(1 << 22), self.rng.integers(-900, 900, count)).astype(np.int32)
        scale, right = self.rng.integers(1 << 30, (1 << 31) - 1, count), self.rng.integers(5, 8, count)
        x = self.builder.add("add", sums, self.constant(bias))
        x = self.builder.add(
            "fixed_multiply", x, self.constant(scale.astype(np.int32)), self.constant(right.astype(np.int32)),
            range="small_positive",
        )  # fmt: skip
        x = self.builder.add("add", x, self.constant(np.array(self.zero, np.int32)))
        x = self.builder.add("clip", x, min=self.zero, max=self.zero + 255)
        return self.builder.add("cast", x, to=self.dtype)

    def pad(self, x: Value, value: int | None = None) -> Value:
        end = (0, *(1,) * (x.type.rank - 2), 0)
        return self.builder.add(
            "pad", x, before=end, after=end, mode="constant", value=self.zero if value is None else value
        )

    def conv(
        self, x: Value, count: int, taps: int = 1, *, silent: int = 0, unread: int = 0, depthwise: bool = False
    ) -> Value:
        """Of a random `silent` channels of the result, and with zeros for the last `unread` ones of the operand."""
        size = channels(x)
        weights = self.rng.integers(-127, 128, (*(taps,) * (x.type.rank - 2), 1 if depthwise else size, count))
        if unread:
            weights[..., size - unread :, :] = 0
        mask = np.zeros(count, bool)
        mask[self.rng.permutation(count)[:silent]] = True
        steps = (1,) * (x.type.rank - 2)
        sums = self.builder.add(
            "conv_integer", x, self.constant(weights.astype(np.int8)), strides=steps, dilations=steps,
            groups=count if depthwise else 1,
        )  # fmt: skip
        return self.scaled(sums, mask)

    def dense(self, x: Value, count: int) -> Value:
        flat = self.builder.add("reshape", x, shape=(1, channels(x)))
        weights = self.rng.integers(-127, 128, (channels(x), count)).astype(np.int8)
        return self.builder.add("matmul_integer", flat, self.constant(weights))


def graph_of(make: Callable[[Net, Value], Value], seed: int = 0, dtype: str = "int8", rank: int = 4) -> Graph:
    net = Net(seed, dtype)
    x = Value("x", tensor_type(dtype, (1, *(5,) * (rank - 2), 16)))
    y = make(net, x)
    return Graph("g", (x,), (y,), tuple(net.builder.nodes))


def computed(graph: Graph, x: np.ndarray) -> dict[Value, np.ndarray]:
    known = {graph.inputs[0]: x}
    for node in graph.nodes:
        operands = [None if v is None else known.get(v, v.data) for v in node.inputs]
        known.update(zip(node.outputs, evaluate(node.op, operands, node.attributes), strict=True))
    return known


def inputs_of(graph: Graph) -> list[np.ndarray]:
    """Random ones, and those with which sums end: all least and all greatest."""
    x, rng = graph.inputs[0], np.random.default_rng(5)
    info = np.iinfo(x.dtype)
    shape = [int(n) for n in x.shape]
    return [
        rng.integers(info.min, info.max + 1, shape).astype(x.dtype),
        *(np.full(shape, end, x.dtype) for end in (info.min, info.max)),
    ]


def products(graph: Graph) -> list[int]:
    """Channels of each product's result."""
    return [channels(node.output) for node in graph.nodes if node.op in ("conv_integer", "matmul_integer")]


def separable(net: Net, x: Value) -> Value:
    """What is silent before a depthwise convolution is so behind it, and what is so behind it is not needed before."""
    x = net.conv(x, 32, silent=9)
    x = net.conv(net.pad(x), 32, 3, silent=4, depthwise=True)
    return net.conv(x, 12)


def borders(net: Net, x: Value) -> Value:
    """What a border has another number in is needed."""
    x = net.conv(x, 32, silent=20)
    return net.conv(net.pad(x, net.zero + 1), 12, 3)


def same_borders(net: Net, x: Value) -> Value:
    return net.conv(net.pad(net.conv(x, 32, silent=20)), 12, 3)


def unread(net: Net, x: Value) -> Value:
    return net.conv(net.conv(x, 32), 12, 3, unread=11)


def two_readers(net: Net, x: Value) -> Value:
    """Of which one reads what the other has zeros for."""
    x = net.conv(x, 32)
    return net.builder.add("maximum", net.conv(x, 8, unread=16), net.conv(x, 8, unread=9))


def residual(net: Net, x: Value) -> Value:
    """The sum of two tensors has the channels of both."""
    a, b = net.conv(x, 24, silent=4), net.conv(x, 24)
    return net.conv(net.builder.add("maximum", a, b), 12, unread=13)


def of_the_input(net: Net, x: Value) -> Value:
    """A sum with the input, which keeps its channels."""
    y = net.conv(x, 16)
    return net.conv(net.builder.add("maximum", x, y), 12, unread=9)


def result(net: Net, x: Value) -> Value:
    """What the caller gets has all channels."""
    return net.conv(x, 32, silent=30)


def classes(net: Net, x: Value) -> Value:
    """A pool, and a dense layer without a bias."""
    x = net.conv(x, 32, silent=17)
    size = (5,) * (x.type.rank - 2)
    sums = net.builder.add("sum_pool", x, kernel=size, strides=size, dilations=(1,) * len(size), to="int32")
    x = net.builder.add("cast", net.builder.add("clip", sums, min=-128, max=127), to="int8")
    return net.dense(x, 3)


def all_silent(net: Net, x: Value) -> Value:
    return net.conv(net.conv(x, 16, silent=16), 12)


#: What each product's result has left.
CASES = [
    (separable, [24, 24, 12]),
    (borders, [32, 12]),
    (same_borders, [16, 12]),
    (unread, [24, 12]),
    (two_readers, [24, 8, 8]),
    (residual, [16, 16, 12]),
    (of_the_input, [16, 12]),
    (result, [32]),
    (classes, [16, 3]),
    (all_silent, [8, 12]),
]


@pytest.mark.parametrize(("make", "left"), CASES, ids=lambda each: getattr(each, "__name__", ""))
@pytest.mark.parametrize(("dtype", "rank"), [("int8", 4), ("uint8", 4), ("int8", 3)])
def test_what_is_left_computes_the_same(
    make: Callable[[Net, Value], Value], left: list[int], dtype: str, rank: int
) -> None:
    if make is classes and dtype == "uint8":
        pytest.skip("its sums are clamped to int8, whose zero point is another")
    graph = graph_of(make, dtype=dtype, rank=rank)
    dropped = drop_channels(graph)
    verify_graph(dropped, "drop-channels")
    assert products(dropped) == left
    for x in inputs_of(graph):
        before, after = computed(graph, x), computed(dropped, x)
        np.testing.assert_array_equal(after[dropped.outputs[0]], before[graph.outputs[0]])
    if left == products(graph):
        assert dropped is graph


@pytest.mark.parametrize("make", [make for make, _ in CASES], ids=lambda make: make.__name__)
@pytest.mark.parametrize("seed", [1, 2])
def test_ranges_hold(make: Callable[[Net, Value], Value], seed: int) -> None:
    """Nothing lies outside of what is said of its channel, where a result below zero matters."""
    graph = graph_of(make, seed)
    ranges = ChannelRanges(graph)
    for x in inputs_of(graph):
        for value, array in computed(graph, x).items():
            least, most = ranges.of(value)
            assert (array >= least).all()
            assert (array <= most).all()
