"""Leading layers in patches: the same numbers, bit for bit, of less memory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sterna.bundle.writer import write_bundle
from sterna.debug.interpret import interpret
from sterna.driver import compile_graph
from sterna.errors import SternaError
from sterna.ir.graph import Graph, Value
from sterna.ops import Builder
from sterna.options import Options, Patches
from sterna.passes.context import context_of
from sterna.passes.patches import cut, leading
from sterna.pipeline import outline_of, verify_graph, walk
from sterna.targets.description import host, load_target
from sterna.targets.target import Target
from sterna_runtime import load
from support.compiling import check, input_value

Draw = Any


class Chain:
    """A random image model under construction: convolutions, pools and activations, some of them beside one another."""

    def __init__(self, draw: Draw, dtype: str):
        self.draw, self.dtype, self.builder = draw, dtype, Builder()
        self.random = np.random.default_rng(draw(st.integers(0, 1 << 30)))
        self.size = draw(st.integers(7, 15)), draw(st.integers(7, 15))
        self.x = self.numbers(1, *self.size, draw(st.integers(1, 4)))
        self.input = self.last = input_value(self.builder, self.x)

    def numbers(self, *shape: int) -> np.ndarray:
        if self.dtype == "float32":
            return self.random.standard_normal(shape).astype(np.float32)
        return self.random.integers(-128, 128, shape).astype(np.int8)

    def padded(self, x: Value, most: int) -> Value:
        ends = [tuple(self.draw(st.integers(0, most)) for _ in range(2)) for _ in range(2)]
        before, after = ((0, *each, 0) for each in ends)
        value = float(self.draw(st.sampled_from((0, -5))))
        return self.builder.add("pad", x, before=before, after=after, value=value)

    def small(self, x: Value) -> bool:
        return min(x.type.sizes[1:3]) < 5

    def step(self) -> None:
        if self.small(self.last):
            return
        kind = self.draw(st.sampled_from(("conv", "depthwise", "pool", "activation", "residual")))
        x = self.last
        if kind == "residual":
            branch = self.conv(self.builder.add("pad", x, before=(0, 1, 1, 0), after=(0, 1, 1, 0)), 3, 1, x.shape[-1])
            self.last = self.bytes_of(self.builder.add("add", self.wide(branch), self.wide(x)))
        elif kind == "activation":
            self.last = self.builder.add("maximum", x, self.builder.constant(np.zeros((), self.x.dtype)))
        elif kind == "pool":
            op = self.draw(st.sampled_from(("max_pool", "sum_pool")))
            stride = self.draw(st.integers(1, 2))
            more = {"to": "int32"} if op == "sum_pool" and self.dtype == "int8" else {}
            pooled = self.builder.add(
                op, self.padded(x, 1), kernel=(2, 3), strides=(stride, stride), dilations=(1, 1), **more
            )
            self.last = self.bytes_of(pooled) if more else pooled
        else:
            taps, stride = self.draw(st.integers(1, 3)), self.draw(st.integers(1, 2))
            self.last = self.conv(self.padded(x, 2), taps, stride, None if kind == "depthwise" else 5)

    def conv(self, x: Value, taps: int, stride: int, outputs: Any) -> Value:
        channels = int(x.shape[-1])
        groups = channels if outputs is None else 1
        weights = self.builder.constant(self.numbers(taps, taps, channels // groups, int(outputs or channels)))
        rate = 2 if taps == 2 and self.draw(st.booleans()) else 1
        op = "conv" if self.dtype == "float32" else "conv_integer"
        set_ = {"strides": (stride, stride), "dilations": (rate, rate), "groups": groups}
        return self.bytes_of(self.builder.add(op, x, weights, **set_))

    def wide(self, x: Value) -> Value:
        return x if self.dtype == "float32" else self.builder.add("cast", x, to="int32")

    def bytes_of(self, x: Value) -> Value:
        """What a layer hands on."""
        if self.dtype == "float32":
            return self.builder.add("relu", x)
        clipped = self.builder.add(
            "clip", self.builder.add("bitwise_and", x, self.builder.constant(255, dtype="int32")), min=-128, max=127
        )
        return self.builder.add("cast", clipped, to="int8")

    def graph(self) -> Graph:
        return Graph("chain", (self.input,), (self.builder.add("identity", self.last),), tuple(self.builder.nodes))


def chain(draw: Draw, dtype: str, steps: int) -> tuple[Graph, dict[str, np.ndarray]]:
    made = Chain(draw, dtype)
    for _ in range(steps):
        made.step()
    return made.graph(), {made.input.name: made.x}


def some_patches(draw: Draw, graph: Graph, options: Options) -> Patches | None:
    """Patches up to a random layer, none of which is nothing but padding."""
    optimized = walk(graph, context_of(options), "eliminate-dead-code")
    stretches = [leading(optimized, node.output) for node in optimized.nodes if len(node.outputs) == 1]
    found = [stretch for stretch in stretches if stretch is not None and stretch.spatial]
    if not found:
        return None
    stretch = found[draw(st.integers(0, len(found) - 1))]
    value = stretch.result
    counts = {d: draw(st.integers(1, min(4, value.type.sizes[d]))) for d in stretch.spatial}
    parts = tuple(counts.get(d, 1) for d in range(value.type.rank))
    cut_up = [stretch.regions(region) for region in cut(value.type.sizes, parts)]
    return None if None in cut_up else Patches(value.name, parts)


@pytest.mark.parametrize("dtype", ["int8", "float32"])
@pytest.mark.parametrize("target", ["cortex-m4", "cortex-m0plus", "cortex-m55"])
def test_graphs_in_patches_compute_the_same(dtype: str, target: str) -> None:
    """Random layers, whatever the grid: overlapping, dilated, of odd sizes, with padding on one side, and residuals."""
    options = Options(load_target(target))
    seen = 0

    @settings(max_examples=20, deadline=None, database=None, derandomize=True)
    @given(st.data())
    def same(data: st.DataObject) -> None:
        nonlocal seen
        graph, feeds = chain(data.draw, dtype, data.draw(st.integers(1, 5)))
        patches = some_patches(data.draw, graph, options)
        if patches is None:
            return
        seen += patches.count > 1
        wanted = replace(options, patches=patches)
        changed = walk(graph, context_of(wanted), "patches")
        verify_graph(changed, "patches")
        base = walk(graph, context_of(options), "eliminate-dead-code")
        check(interpret(changed, feeds), interpret(base, feeds), tolerance=1e-6)

    same()
    assert seen > 5


MACHINES: dict[str, tuple[str, Target]] = {
    "c": ("c", replace(host(), dialect="plain", vector_bits=0)),
    "llvm": ("llvm", host()),
    "narrow": ("llvm", replace(host(), vector_bits=128, vector_registers=16)),
}


@pytest.mark.parametrize(("kind", "dtype"), [("c", "int8"), ("llvm", "float32"), ("narrow", "int8")])
def test_compiled_patches_compute_the_same(kind: str, dtype: str, tmp_path: Path) -> None:
    """Bit for bit, integers and floats: every sum adds the same products in the same order."""
    generator, machine = MACHINES[kind]
    options = Options(machine, generator)
    count = 0

    @settings(max_examples=2, deadline=None, database=None, derandomize=True)
    @given(st.data())
    def same(data: st.DataObject) -> None:
        nonlocal count
        graph, feeds = chain(data.draw, dtype, 3)
        patches = some_patches(data.draw, graph, options)
        if patches is None:
            return
        found = []
        for number, each in enumerate((None, patches)):
            compiled = compile_graph(graph, "m", replace(options, patches=each))
            with load(write_bundle(compiled, tmp_path / f"{count}-{number}")) as bundle:
                found.append(bundle.run(feeds))
        count += 1
        for name, array in found[0].items():
            np.testing.assert_array_equal(found[1][name], array)

    same()
    assert count


def two_layers() -> Graph:
    """The example of `passes.patches`: two padded convolutions of 3 x 3 on 12 rows."""
    b = Builder()
    x = y = input_value(b, np.zeros((1, 12, 8, 4), np.float32))
    for name in ("first", "second"):
        y = b.add("pad", y, before=(0, 1, 1, 0), after=(0, 1, 1, 0))
        w = b.constant(np.ones((3, 3, 4, 4), np.float32))
        y = b.add("conv", y, w, strides=(1, 1), dilations=(1, 1), groups=1, result=b.name(name))
    return Graph("two", (x,), (b.add("exp", y),), tuple(b.nodes))


def test_the_rows_that_patches_read() -> None:
    graph = two_layers()
    values = {value.name: value for value in graph.values()}
    stretch = leading(graph, values["second"])
    assert stretch is not None
    assert stretch.spatial == (1, 2)
    rows = []
    for region in cut(values["second"].type.sizes, (1, 3, 1, 1)):
        needed = stretch.regions(region)
        assert needed is not None
        rows.append([needed[values[name]][1] for name in ("second", "first", "x")])
    assert rows == [[(0, 4), (0, 5), (0, 6)], [(4, 8), (3, 9), (2, 10)], [(8, 12), (7, 12), (6, 12)]]


def test_patches_are_written_into_their_places() -> None:
    """Nothing is copied to be put together, and no layer but the last is there as a whole."""
    options = Options(load_target("cortex-m4"))
    whole = outline_of(two_layers(), options)
    cut_up = outline_of(two_layers(), replace(options, patches=Patches("second", (1, 3, 1, 1))))
    assert not [call.kernel.name for call in cut_up.sequence.calls if "concat" in call.kernel.name]
    assert cut_up.plan.arena_bytes < whole.plan.arena_bytes
    rows = 5 + 6 + 5  # of the first convolution, instead of 12
    assert int(cut_up.multiply_adds) == int(whole.multiply_adds) * (rows + 12) // (12 + 12)


def test_what_is_read_elsewhere_is_not_cut() -> None:
    """A tensor that others need as a whole, or that is no image, ends no stretch."""
    b = Builder()
    x = input_value(b, np.zeros((1, 8, 8, 2), np.float32))
    a = b.add("relu", x)
    pooled = b.add("max_pool", a, kernel=(2, 2), strides=(2, 2), dilations=(1, 1))
    total = b.add("reduce_sum", a, axes=(1, 2), keep_dims=True)
    graph = Graph("read", (x,), (b.add("add", pooled, total),), tuple(b.nodes))
    assert leading(graph, pooled) is None
    assert leading(graph, total) is None


def test_a_name_that_nothing_has() -> None:
    with pytest.raises(SternaError, match="E0901"):
        outline_of(two_layers(), Options(load_target("cortex-m4"), patches=Patches("third", (1, 2, 1, 1))))
