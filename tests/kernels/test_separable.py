"""Depthwise separable convolutions as one kernel: which are found, and that they compute what they did apart."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sterna.debug.interpret import interpret
from sterna.ir.graph import Graph, Node, Value
from sterna.ops import Builder
from sterna.passes.fuse import fuse
from sterna.passes.partition import Partition
from sterna.passes.separable import find_separable
from sterna.passes.views import plan_views
from sterna.schedule.strategies import separable
from sterna.schedule.strategies.separable import Rows, Sizes
from sterna.targets.description import host, load_target
from sterna.targets.target import Target
from sterna.te.tensor import Kernel
from support.compiling import build, check, compiled, input_value

#: More examples than the suite has time for, different ones in every run.
MORE = int(os.environ.get("STERNA_EXAMPLES", "1"))
SERVER = replace(load_target("x86-64-v4"), l2_bytes=1 << 20)


class Block:
    """A block of a network under construction, its inputs and their data."""

    def __init__(self, seed: int = 0):
        self.builder, self.random = Builder(), np.random.default_rng(seed)
        self.inputs: list[Value] = []
        self.feeds: dict[str, np.ndarray] = {}

    def data(self, *shape: int) -> np.ndarray:
        return self.random.standard_normal(shape).astype(np.float32)

    def input(self, *shape: int) -> Value:
        array = self.data(*shape)
        value = input_value(self.builder, array, f"x{len(self.inputs)}")
        self.inputs.append(value)
        self.feeds[value.name] = array
        return value

    def conv(
        self, x: Value, *kernel: int, stride: int = 1, dilation: int = 1, activation: bool = True, bias: bool = True
    ) -> Value:
        """A convolution with bias maybe, depthwise where the kernel has one input channel; ReLU6 maybe."""
        b = self.builder
        y = b.add(
            "conv",
            x,
            b.constant(self.data(*kernel) / np.float32(np.sqrt(kernel[2]))),
            strides=(stride, stride),
            dilations=(dilation, dilation),
            groups=x.type.sizes[-1] if kernel[2] == 1 else 1,
        )
        y = b.add("add", y, b.constant(self.data(kernel[-1]))) if bias else y
        return b.add("clip", y, min=0.0, max=6.0) if activation else y

    def pad(self, x: Value, before: tuple[int, int], after: tuple[int, int], value: float = 0.0) -> Value:
        ends = {"before": (0, *before, 0), "after": (0, *after, 0)}
        return self.builder.add("pad", x, **ends, mode="constant", value=value)

    def bottleneck(self, x: Value, expanded: int, out: int, stride: int = 1) -> Value:
        """MobileNetV2's, with its residual where shapes allow."""
        channels = x.type.sizes[-1]
        y = self.pad(self.conv(x, 1, 1, channels, expanded), (1, 1), (1, 1))
        y = self.conv(y, 3, 3, 1, expanded, stride=stride)
        y = self.conv(y, 1, 1, expanded, out, activation=False)
        return self.builder.add("add", y, x) if stride == 1 and out == channels else y

    def graph(self, *outputs: Value) -> Graph:
        return Graph("block", tuple(self.inputs), outputs, tuple(self.builder.nodes))


def chains(graph: Graph, target: Target = SERVER) -> tuple[tuple[Node, ...], ...]:
    """The nodes of each kernel that is found."""
    views = plan_views(graph)
    return find_separable(Partition(graph, views, fuse(graph, views)), target)


def joined(graph: Graph, target: Target = SERVER) -> list[list[str]]:
    """The operators of each kernel that is found."""
    return [[node.op for node in nodes] for nodes in chains(graph, target)]


EXPANSION = ["conv", "add", "clip", "pad"]
WINDOW = ["conv", "add", "clip"]


@pytest.fixture
def at_any_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything that can be one kernel is."""
    monkeypatch.setattr(Sizes, "gain", lambda self, target, lanes: float(self.block(target) is not None))


# ---------------------------------------------------------------- what is found
def test_large_blocks_are_one_kernel() -> None:
    b = Block()
    y = b.bottleneck(b.bottleneck(b.input(1, 112, 112, 16), 96, 24, stride=2), 144, 24)
    graph = b.graph(y)
    # Of the second block, with windows of stride 1 and 56 rows, too much would be computed twice.
    assert joined(graph) == [[*EXPANSION, *WINDOW, "conv", "add"], [*WINDOW, "conv", "add", "add"]]


def test_small_tensors_stay_as_they_are() -> None:
    b = Block()
    graph = b.graph(b.bottleneck(b.input(1, 14, 14, 32), 192, 32))
    assert joined(graph) == []
    assert joined(graph, replace(SERVER, l2_bytes=1 << 16)) != []
    assert joined(graph, load_target("cortex-m4")) == []  # no cache that anything could stay in


def test_the_expansion_stays_out_where_computing_it_twice_costs_more() -> None:
    b = Block()
    graph = b.graph(b.bottleneck(b.input(1, 56, 56, 256), 256, 256))
    assert joined(graph) == [[*WINDOW, "conv", "add", "add"]]


def test_a_product_between_two_windows_goes_with_one() -> None:
    b = Block()
    x = b.conv(b.pad(b.input(1, 56, 56, 128), (1, 1), (1, 1)), 3, 3, 1, 128)
    x = b.conv(x, 1, 1, 128, 128)
    x = b.conv(b.pad(x, (1, 1), (1, 1)), 3, 3, 1, 128)
    graph = b.graph(b.conv(x, 1, 1, 128, 128))
    for target in (SERVER, replace(SERVER, l2_bytes=1 << 19)):
        found = chains(graph, target)
        nodes = [node for chain in found for node in chain]
        assert len(found) == 2
        assert len(set(nodes)) == len(nodes)


def test_what_others_read_is_stored() -> None:
    b = Block()
    x = b.input(1, 112, 112, 32)
    window = b.conv(b.pad(x, (1, 1), (1, 1)), 3, 3, 1, 32)
    product = b.conv(window, 1, 1, 32, 16)
    assert joined(b.graph(product)) == [[*WINDOW, *WINDOW]]
    assert joined(b.graph(product, window)) == []
    assert joined(b.graph(product, b.builder.add("relu", window))) == []


def test_an_expansion_that_others_read_stays_out() -> None:
    b = Block()
    wide = b.conv(b.input(1, 112, 112, 16), 1, 1, 16, 96)
    y = b.conv(b.conv(b.pad(wide, (1, 1), (1, 1)), 3, 3, 1, 96, stride=2), 1, 1, 96, 24)
    assert joined(b.graph(y)) == [[*EXPANSION, *WINDOW, *WINDOW]]
    assert joined(b.graph(y, wide)) == [[*WINDOW, *WINDOW]]


def test_blocks_fit_the_cache() -> None:
    sizes = Sizes(56, 2, 3, window_row=21504, wide_row=43776, wide_rows=114, wide_products=19267584)
    rows = sizes.block(SERVER)
    assert rows == 8
    assert sizes.touched(rows) * sizes.wide_row + sizes.window_row <= separable.SHARE_OF_CACHE * SERVER.l2_bytes
    assert sizes.block(replace(SERVER, l2_bytes=1 << 16)) is None
    assert sizes.block(replace(SERVER, l2_bytes=0)) is None


def test_rows_that_end_within_a_tile_count() -> None:
    """Seven positions are a tile of four by three vectors and most of another one, 49 are twelve and one: for AVX2, row
    by row costs more than what stays in the cache saves."""
    narrow = Rows(7, 7, 960, 320)
    avx2 = replace(load_target("x86-64-v3"), l2_bytes=1 << 16)
    assert narrow.cycles_by_row(avx2, 8) > 7 * 7 * 960 * 320 / 16 / 30
    assert Rows(48, 48, 24, 48).cycles_by_row(avx2, 8) == 0
    sizes = Sizes(7, 1, 3, 7 * 960 * 4, 9 * 960 * 4, 9, 0, products=(narrow,))
    assert sizes.gain(avx2, 8) < 0 < replace(sizes, products=()).gain(avx2, 8)


# ---------------------------------------------------------------- what is computed
@pytest.mark.usefixtures("at_any_cost")
def test_a_product_without_anything_behind_it(tmp_path: Path) -> None:
    """The sum itself is the kernel's output."""
    b = Block()
    window = b.conv(b.pad(b.input(1, 24, 24, 16), (1, 1), (1, 1)), 3, 3, 1, 16)
    weights = b.builder.constant(b.data(1, 1, 16, 24))
    graph = b.graph(b.builder.add("conv", window, weights, strides=(1, 1), dilations=(1, 1), groups=1))
    assert joined(graph) == [[*WINDOW, "conv"]]
    with build(graph, tmp_path / "bundle", host()) as bundle:
        check(bundle.run(b.feeds), interpret(graph, b.feeds))


def test_the_arena_shrinks(tmp_path: Path) -> None:
    """The expanded tensor of 112 x 112 is never stored, and what holds its rows is less than what it took."""
    b = Block()
    graph = b.graph(b.bottleneck(b.input(1, 112, 112, 16), 96, 24, stride=2))
    target = replace(host(), l2_bytes=1 << 20)
    whole = compiled(graph, target, "llvm")
    assert len(whole.calls) == 1
    kernel = whole.calls[0].kernel
    assert isinstance(kernel, Kernel)
    assert [t.reduction is not None for t in kernel.stages].count(True) == 3
    apart = compiled(graph, replace(target, l2_bytes=0), "llvm")
    assert len(apart.calls) == 4
    scratch = max(k.function.scratch_bytes for k in whole.kernels)
    assert scratch <= separable.SHARE_OF_CACHE * target.l2_bytes
    assert whole.plan.arena_bytes + 2 * scratch < apart.plan.arena_bytes
    with build(graph, tmp_path / "bundle", target, threads=2) as bundle:
        check(bundle.run(b.feeds), interpret(graph, b.feeds))


@pytest.mark.usefixtures("at_any_cost")
@pytest.mark.parametrize("generator", ["llvm", "c"])
def test_equal_to_what_is_computed_apart(generator: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Over sizes, strides, dilations, padding, windows, channels and batches."""
    numbers = st.integers

    @settings(
        max_examples=(12 if generator == "llvm" else 3) * MORE, deadline=None, derandomize=MORE == 1, database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )  # fmt: skip
    @given(st.data())
    def run(data: st.DataObject) -> None:
        draw = data.draw
        b = Block(draw(numbers(0, 99)))
        taps = (draw(numbers(1, 5)), draw(numbers(2, 5)))
        stride, dilation = draw(numbers(1, 2)), draw(numbers(1, 2))
        narrow, wide, out = (draw(st.sampled_from([2, 3, 8, 16, 17, 40])) for _ in "abc")
        batch, rows, columns = draw(numbers(1, 2)), draw(numbers(12, 30)), draw(numbers(11, 30))
        x = y = b.input(batch, rows, columns, narrow)
        if draw(st.booleans()):
            y = b.conv(y, 1, 1, narrow, wide, activation=draw(st.booleans()), bias=draw(st.booleans()))
        if draw(st.booleans()):
            ends = [(draw(numbers(0, 3)), draw(numbers(0, 3))) for _ in "ab"]
            y = b.pad(y, *ends, value=draw(st.sampled_from([0.0, -1.5])))
        some = {name: draw(st.booleans()) for name in ("activation", "bias")}
        y = b.conv(y, *taps, 1, y.type.sizes[-1], stride=stride, dilation=dilation, **some)
        y = b.conv(y, 1, 1, y.type.sizes[-1], out, activation=draw(st.booleans()), bias=draw(st.booleans()))
        if y.shape == x.shape:
            y = b.builder.add("add", y, x)
        if draw(st.booleans()):
            y = b.builder.add("mul", y, b.builder.add("sigmoid", y))
        graph = b.graph(y)
        cache = draw(st.sampled_from([1 << 14, 1 << 16, 1 << 20]))
        bits = draw(st.sampled_from([0, 128, host().vector_bits])) if generator == "llvm" else host().vector_bits
        target = replace(host(), l2_bytes=cache, vector_bits=bits)
        folder = tmp_path_factory.mktemp("separable")
        with build(graph, folder / "bundle", target, generator, draw(numbers(1, 2))) as bundle:
            found = bundle.run(b.feeds)
        check(found, interpret(graph, b.feeds))
        with build(graph, folder / "apart", replace(target, l2_bytes=0), generator) as bundle:
            check(found, bundle.run(b.feeds))

    run()
