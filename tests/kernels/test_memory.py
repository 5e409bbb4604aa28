"""Views, fusion and the memory plan: what shares memory, what is one kernel; nothing is read after it is gone."""

from __future__ import annotations

import itertools
import os
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sterna.debug.interpret import interpret
from sterna.driver import Compiled
from sterna.frontends.onnx import read
from sterna.ir import dtypes
from sterna.ir.graph import Graph, Value
from sterna.ops import Builder
from sterna.passes.kernels import Call
from sterna.passes.memory_plan import MemoryPlan, plan_memory
from sterna.passes.views import Storage, Views, plan_views
from sterna.pipeline import optimize
from support.compiling import build, check, compiled, input_value
from support.networks import NETWORKS
from support.partition import build_calls
from support.random_kernels import network

MORE = int(os.environ.get("STERNA_EXAMPLES", "1"))
many = settings(
    max_examples=30 * MORE, deadline=None, derandomize=MORE == 1, database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)  # fmt: skip


# ---------------------------------------------------------------- a memory that knows whose bytes it holds
class Shadow:
    """Runs the calls of a plan on memory that holds, per byte, the value that was written there last."""

    def __init__(self, graph: Graph, calls: tuple[Call, ...], views: Views, plan: MemoryPlan):
        self.views, self.plan = views, plan
        self.arena = np.full(plan.arena_bytes, -1)
        self.names: dict[Value, int] = {}
        self.own: dict[Value, np.ndarray] = {}
        for value in (*graph.inputs, *graph.outputs):
            self.own[value] = np.full(max(1, int(value.type.elements)) * dtypes.size(value.dtype), -1)
        for value in graph.inputs:
            self.own[value][:] = self.name(value)
        for call in calls:
            self.run(call)

    def name(self, value: Value) -> int:
        return self.names.setdefault(value, len(self.names))

    def bytes(self, place: Storage, shape: tuple[int, ...], dtype: str) -> tuple[np.ndarray, np.ndarray]:
        """(memory, positions of every byte) of a tensor that lies so."""
        size = dtypes.size(dtype)
        positions = np.full(shape, int(place.origin))
        for d, stride in enumerate(place.strides):
            positions = positions + np.arange(shape[d]).reshape([-1] + [1] * (len(shape) - d - 1)) * int(stride)
        flat = (positions.reshape(-1, 1) * size + np.arange(size)).reshape(-1)
        if place.root in self.own:
            return self.own[place.root], flat
        return self.arena, flat + self.plan.offsets[place.root]

    def run(self, call: Call) -> None:
        for tensor, value in zip(call.kernel.inputs, call.inputs, strict=True):
            place = self.views.storage(value)
            memory, at = self.bytes(place, value.type.sizes, value.dtype)
            holds = set(memory[at].tolist())
            assert holds <= {self.name(place.root)}, f"{call.name} reads {tensor.name} = {value.name}, which is gone"
        for tensor, value in zip(call.kernel.outputs, call.outputs, strict=True):
            root = self.views.storage(value).root
            layout = call.layouts.get(tensor.name)
            shape = tuple(int(n) for n in tensor.shape)
            if layout is None:
                place = self.views.storage(value)
                memory, at = self.bytes(place, value.type.sizes, value.dtype)
            else:
                memory, at = self.bytes(Storage(root, layout.origin, layout.strides), shape, value.dtype)
            memory[at] = self.name(root)


def planned(graph: Graph, keep_all: bool = False) -> tuple[tuple[Call, ...], Views, MemoryPlan]:
    views = plan_views(graph)
    calls = build_calls(graph, views)
    return calls, views, plan_memory(graph, calls, views, keep_all)


@many
@given(st.data())
def test_nothing_is_read_after_it_is_gone(data: st.DataObject) -> None:
    graph, _ = network(data.draw)
    graph = optimize(graph)
    for keep_all in (False, True):
        calls, views, plan = planned(graph, keep_all)
        shadow = Shadow(graph, calls, views, plan)
        for value in graph.outputs:
            if value in graph.inputs or value.is_constant:
                continue
            memory, at = shadow.bytes(views.storage(value), value.type.sizes, value.dtype)
            assert set(memory[at].tolist()) <= {shadow.name(views.storage(value).root)}
        assert plan.arena_bytes >= plan.live_bytes
        spans = sorted((plan.offsets[v], plan.offsets[v] + max(1, int(v.type.bytes))) for v in plan.offsets)
        assert all(end <= plan.arena_bytes for _, end in spans)
        if keep_all:
            assert all(a[1] <= b[0] for a, b in itertools.pairwise(spans))
            assert not plan.fleeting


@many
@given(st.data())
def test_random_networks_compute_what_they_say(data: st.DataObject) -> None:
    graph, feeds = network(data.draw)
    expected = interpret(graph, feeds)
    with tempfile.TemporaryDirectory() as folder:
        generator = data.draw(st.sampled_from(["llvm", "llvm", "llvm", "c"]))
        with build(graph, Path(folder) / "bundle", generator=generator, debug=data.draw(st.booleans())) as bundle:
            for _ in range(2):
                check(bundle.run(feeds), expected)


@pytest.mark.parametrize("name", NETWORKS)
def test_arena_of_real_networks(name: str) -> None:
    graph = optimize(read(NETWORKS[name]()))
    calls, views, plan = planned(graph)
    Shadow(graph, calls, views, plan)
    assert plan.live_bytes <= plan.arena_bytes <= 1.05 * plan.live_bytes
    _, _, kept = planned(graph, keep_all=True)
    assert kept.arena_bytes > 2 * plan.arena_bytes


# ---------------------------------------------------------------- what becomes a kernel
def image(builder: Builder, *shape: int) -> tuple[Value, dict[str, np.ndarray]]:
    array = np.random.default_rng(5).standard_normal(shape).astype(np.float32)
    value = input_value(builder, array)
    return value, {value.name: array}


def kernels(graph: Graph, feeds: dict[str, np.ndarray], tmp_path: Path) -> list[str]:
    """Names of the kernels, after making sure that they compute the right thing."""
    result: Compiled = compiled(graph, generator="llvm")
    with build(graph, tmp_path / "bundle", generator="llvm") as bundle:
        check(bundle.run(feeds), interpret(graph, feeds))
    return [call.kernel.name for call in result.calls]


def weight(b: Builder, *shape: int) -> Value:
    return b.constant(np.random.default_rng(1).standard_normal(shape).astype(np.float32))


def conv(b: Builder, x: Value, cout: int, kernel: int = 1) -> Value:
    w = weight(b, kernel, kernel, x.type.sizes[-1], cout)
    return b.add("conv", x, w, strides=(1, 1), dilations=(1, 1), groups=1)


def test_bias_activation_and_residual_fuse_into_a_convolution(tmp_path: Path) -> None:
    b = Builder()
    x, feeds = image(b, 1, 6, 6, 8)
    y = b.add("relu", b.add("add", b.add("add", conv(b, x, 8), weight(b, 8)), x))
    graph = Graph("g", (x,), (y,), tuple(b.nodes))
    assert kernels(graph, feeds, tmp_path) == ["conv_add_relu"]


def test_a_diamond_is_one_kernel(tmp_path: Path) -> None:
    b = Builder()
    x, feeds = image(b, 1, 6, 6, 8)
    y = conv(b, x, 8)
    y = b.add("mul", y, b.add("sigmoid", y))
    assert kernels(Graph("g", (x,), (y,), tuple(b.nodes)), feeds, tmp_path) == ["conv_sigmoid_mul"]


def test_what_another_needs_is_kept(tmp_path: Path) -> None:
    b = Builder()
    x, feeds = image(b, 1, 6, 6, 8)
    y = conv(b, x, 8)
    z = b.add("relu", y)
    graph = Graph("g", (x,), (y, z), tuple(b.nodes))
    assert kernels(graph, feeds, tmp_path) == ["conv", "relu"]


def test_at_most_one_contraction_per_kernel(tmp_path: Path) -> None:
    b = Builder()
    x, feeds = image(b, 1, 6, 6, 8)
    y = b.add("add", conv(b, x, 8), conv(b, b.add("relu", x), 8))
    names = kernels(Graph("g", (x,), (y,), tuple(b.nodes)), feeds, tmp_path)
    assert sorted(names) == ["conv", "conv_add", "relu"]


def test_padding_is_written_around(tmp_path: Path) -> None:
    """The producer writes into the padded buffer: no copy, only the border."""
    b = Builder()
    x, feeds = image(b, 1, 6, 6, 8)
    y = b.add("relu", conv(b, x, 4))
    y = b.add("pad", y, before=(0, 1, 1, 0), after=(0, 1, 1, 0), mode="constant", value=-1.0)
    graph = Graph("g", (x,), (conv(b, y, 5, 3),), tuple(b.nodes))
    assert sorted(kernels(graph, feeds, tmp_path)) == ["conv", "conv_relu", "fill_border"]


def test_concatenation_is_written_in_place(tmp_path: Path) -> None:
    b = Builder()
    x, feeds = image(b, 1, 6, 6, 8)
    parts = [conv(b, x, 4), b.add("relu", conv(b, x, 8)), x]
    graph = Graph("g", (x,), (b.add("concat", *parts, axis=3),), tuple(b.nodes))
    assert sorted(kernels(graph, feeds, tmp_path)) == ["conv", "conv_relu", "copy"], "only an input is copied"


def test_what_is_reshaped_is_written_in_place_too(tmp_path: Path) -> None:
    b = Builder()
    x, feeds = image(b, 1, 6, 6, 8)
    whole = b.reshape(b.add("relu", conv(b, x, 4)), (1, 36, 4))
    across = b.reshape(b.add("neg", conv(b, x, 12)), (1, 108, 4))
    parts = [whole, across, b.reshape(x, (1, 72, 4))]
    graph = Graph("g", (x,), (b.add("concat", *parts, axis=1),), tuple(b.nodes))
    assert sorted(kernels(graph, feeds, tmp_path)) == ["conv_neg", "conv_relu", "copy"], "only an input is copied"
    # Along the columns the rows of a part do not follow one another, so no reshape of them is a view.
    parts = [b.reshape(b.add("relu", conv(b, x, 4)), (1, 36, 4)), b.reshape(b.add("relu", conv(b, x, 2)), (1, 36, 2))]
    graph = Graph("g", (x,), (b.add("concat", b.reshape(parts[0], (36, 4)), b.reshape(parts[1], (36, 2)), axis=1),),
                  tuple(b.nodes))  # fmt: skip
    kernels(graph, feeds, tmp_path)


def test_the_same_part_twice(tmp_path: Path) -> None:
    b = Builder()
    x, feeds = image(b, 4, 6)
    y = b.add("relu", x)
    graph = Graph("g", (x,), (b.add("concat", y, y, axis=1),), tuple(b.nodes))
    assert sorted(kernels(graph, feeds, tmp_path)) == ["copy", "relu"]


def test_slices_and_reshapes_cost_nothing(tmp_path: Path) -> None:
    b = Builder()
    x, feeds = image(b, 4, 6, 8)
    y = b.add("relu", x)
    part = b.add("slice", y, starts=(0, 2, 0), sizes=(4, 3, 4), steps=(1, 1, 2))
    rows = b.reshape(y, (24, 8))
    outputs = (b.add("neg", part), b.add("softmax", rows, axis=1))
    names = kernels(Graph("g", (x,), outputs, tuple(b.nodes)), feeds, tmp_path)
    assert sorted(names) == ["neg", "relu", "softmax"]


def test_an_output_that_is_a_view_of_an_input_is_copied(tmp_path: Path) -> None:
    b = Builder()
    x, feeds = image(b, 4, 6)
    graph = Graph("g", (x,), (b.reshape(x, (24,)), x), tuple(b.nodes), ("flat", "same"))
    assert len(kernels(graph, feeds, tmp_path)) == 2


def test_a_reshape_of_an_output_moves_its_operand(tmp_path: Path) -> None:
    b = Builder()
    x, feeds = image(b, 4, 6)
    graph = Graph("g", (x,), (b.reshape(b.add("relu", x), (2, 12)),), tuple(b.nodes))
    assert kernels(graph, feeds, tmp_path) == ["relu"]


def test_in_place_where_an_operand_dies() -> None:
    """A long chain that cannot fuse (each link is also an output's operand) needs little memory."""
    b = Builder()
    x, _ = image(b, 64, 64)
    y = x
    for _ in range(6):
        y = b.add("softmax", b.add("neg", y), axis=1)
    graph = Graph("g", (x,), (b.add("reduce_mean", y, axes=(0, 1), keep_dims=False),), tuple(b.nodes))
    _, _, plan = planned(optimize(graph))
    assert plan.arena_bytes <= 2 * 64 * 64 * 4


def test_all_ranks_of_views() -> None:
    """A view that strides cannot say stays a kernel: rows of a slice are not contiguous."""
    b = Builder()
    x, _ = image(b, 4, 6)
    y = b.add("slice", b.add("relu", x), starts=(0, 0), sizes=(4, 3), steps=(1, 1))
    flat = b.reshape(y, (12,))
    graph = Graph("g", (x,), (b.add("neg", flat),), tuple(b.nodes))
    views = plan_views(graph)
    assert y in views.parents
    assert flat not in views.parents
