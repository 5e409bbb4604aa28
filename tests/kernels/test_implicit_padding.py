"""Groups of threads read padding without a padded tensor: every kind of window, on PoCL against the interpreter."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sterna.api import options_of
from sterna.bundle.writer import write_bundle
from sterna.compiled import Compiled
from sterna.debug.interpret import interpret
from sterna.driver import compile_graph
from sterna.ir.extremum import maximum, minimum
from sterna.ir.graph import Graph, Value, tensor_type
from sterna.ir.integer import Int, Symbol, of
from sterna.loops.accesses import accesses
from sterna.loops.finish import finish
from sterna.loops.lower import lower
from sterna.ops import Builder
from sterna.schedule.strategies import Context
from sterna.schedule.strategies.groups import propose
from sterna.targets.description import load_target
from sterna.te.expr import Expr, both, cast, const, in_range, select
from sterna.te.tensor import Kernel, compute, placeholder, reduce_axis, total
from sterna_runtime import load
from support.compiling import check, input_value
from support.device_bundles import opencl

Given = tuple[Graph, dict[str, np.ndarray]]


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> Iterator[pytest.MonkeyPatch]:
    with opencl(tmp_path_factory.mktemp("pocl")) as patch:
        yield patch


def around(
    b: Builder, x: Value, ends: tuple[int, ...], value: float = 0.0, after: tuple[int, ...] | None = None
) -> Value:
    """A tensor with so much padding before and after each dimension between the batch and the channels."""
    before, behind = (0, *ends, 0), (0, *(ends if after is None else after), 0)
    return b.add("pad", x, before=before, after=behind, mode="constant", value=value)


def image(b: Builder, shape: tuple[int, ...], dtype: str = "float32") -> tuple[Value, np.ndarray]:
    rng = np.random.default_rng(len(shape))
    data = rng.standard_normal(shape) if dtype == "float32" else rng.integers(-100, 100, shape)
    return input_value(b, data.astype(dtype)), data.astype(dtype)


def convolution(
    shape: tuple[int, ...],
    taps: tuple[int, ...],
    channels: int,
    ends: tuple[int, ...],
    after: tuple[int, ...] | None = None,
    strides: tuple[int, ...] | None = None,
    dilations: tuple[int, ...] | None = None,
    groups: int = 1,
) -> Given:
    """One of a tensor that an element-wise kernel makes, with an activation."""
    b, ones = Builder(), (1,) * len(taps)
    given, data = image(b, shape)
    x = b.add("relu", given)
    w = np.random.default_rng(1).standard_normal((*taps, shape[-1] // groups, channels)).astype(np.float32)
    y = b.add(
        "conv", around(b, x, ends, after=after), b.constant(w), strides=strides or ones, dilations=dilations or ones,
        groups=groups,
    )  # fmt: skip
    return Graph("convolution", (given,), (b.add("relu", y),), tuple(b.nodes)), {given.name: data}


def pool(op: str, value: float) -> Given:
    b = Builder()
    given, data = image(b, (2, 9, 11, 12))
    padded = around(b, b.add("neg", given), (1, 2), value)
    y = b.add(op, padded, kernel=(3, 3), strides=(2, 2), dilations=(1, 1))
    return Graph(op, (given,), (y,), tuple(b.nodes)), {given.name: data}


def of_bytes() -> Given:
    """With a zero point, which is what lies around the image."""
    b = Builder()
    given, data = image(b, (1, 10, 9, 16), "int8")
    w = np.random.default_rng(2).integers(-100, 100, (3, 3, 16, 20)).astype(np.int8)
    padded = around(b, given, (1, 1), -7.0)
    y = b.add("conv_integer", padded, b.constant(w), strides=(1, 1), dilations=(1, 1), groups=1)
    return Graph("bytes", (given,), (y,), tuple(b.nodes)), {given.name: data}


def shared() -> Given:
    """Two convolutions of one padded tensor, which another kernel reads as it is."""
    b = Builder()
    given, data = image(b, (1, 7, 8, 12))
    x = b.add("relu", given)
    padded, rng = around(b, x, (1, 1)), np.random.default_rng(3)
    found = []
    for channels in (12, 5):
        w = b.constant(rng.standard_normal((3, 3, 12, channels)).astype(np.float32))
        found.append(b.add("conv", padded, w, strides=(1, 1), dilations=(1, 1), groups=1))
    y = b.add("add", found[0], x)
    return Graph("shared", (given,), (y, found[1]), tuple(b.nodes)), {given.name: data}


def transposed(channels: int) -> Given:
    """A transposed convolution with a step of 2: of enough products it is a convolution for each phase."""
    b = Builder()
    given, data = image(b, (1, 7, 7, channels))
    w = b.constant(np.random.default_rng(4).standard_normal((4, 4, channels, channels)).astype(np.float32))
    padded = around(b, b.add("relu", given), (1, 1))
    y = b.add("conv_transpose", padded, w, strides=(2, 2), begins=(1, 1), sizes=(14, 14), groups=1)
    return Graph("transposed", (given,), (b.add("relu", y),), tuple(b.nodes)), {given.name: data}


CASES: dict[str, Any] = {
    "tiles": lambda: convolution((1, 14, 13, 16), (3, 3), 24, (1, 1)),
    "first layer": lambda: convolution((1, 21, 19, 3), (7, 7), 16, (3, 3), strides=(2, 2)),
    "as TensorFlow pads": lambda: convolution((2, 12, 10, 8), (3, 3), 8, (0, 0), after=(1, 1), strides=(2, 2)),
    "dilated": lambda: convolution((1, 12, 12, 8), (3, 3), 8, (2, 2), dilations=(2, 2)),
    "depthwise": lambda: convolution((1, 11, 12, 16), (5, 5), 16, (2, 2), groups=16),
    "groups": lambda: convolution((1, 8, 8, 24), (3, 3), 24, (1, 1), groups=6),
    "sound": lambda: convolution((2, 50, 8), (9,), 12, (4,)),
    "sound of one channel": lambda: convolution((1, 90, 1), (10,), 16, (5,), strides=(5,)),
    "volume": lambda: convolution((1, 5, 6, 7, 4), (3, 3, 3), 8, (1, 1, 1)),
    "more padding than image": lambda: convolution((1, 3, 3, 8), (3, 3), 8, (4, 4), dilations=(4, 4)),
    "long sum": lambda: convolution((1, 5, 5, 256), (3, 3), 16, (1, 1)),
    "max pool": lambda: pool("max_pool", float("-inf")),
    "sum pool": lambda: pool("sum_pool", 0.0),
    "bytes": of_bytes,
    "transposed": lambda: transposed(3),
    "transposed, by phases": lambda: transposed(32),
    "shared": shared,
}


def compiled(graph: Graph) -> Compiled:
    """For OpenCL, with every node there: the estimate would leave kernels this small to the CPU."""
    return compile_graph(graph, "padded", options_of("opencl", device_for={"*": "opencl"}))


def padding(made: Compiled) -> list[str]:
    """The calls that only pad."""
    return [call.name for call in made.calls if "fill_border" in call.kernel.name or "copy" in call.kernel.name]


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("case", CASES)
def test_windows_pad_for_themselves(case: str, tmp_path: Path) -> None:
    graph, given = CASES[case]()
    made = compiled(graph)
    assert not padding(made)
    with load(write_bundle(made, tmp_path / "bundle")) as loaded:
        found = {name: array.copy() for name, array in loaded.run(given).items()}
    check(found, interpret(graph, given))


def channels() -> Graph:
    """Padding of channels, whose neighbours are one access."""
    b = Builder()
    given, _ = image(b, (1, 8, 8, 12))
    padded = b.add("pad", b.add("relu", given), before=(0, 1, 1, 0), after=(0, 1, 1, 4), mode="constant", value=0.0)
    w = b.constant(np.ones((3, 3, 16, 8), np.float32))
    y = b.add("conv", padded, w, strides=(1, 1), dilations=(1, 1), groups=1)
    return Graph("channels", (given,), (y,), tuple(b.nodes))


def left() -> Graph:
    """A padded tensor that leaves the graph."""
    graph, _ = shared()
    (pad,) = (node for node in graph.nodes if node.op == "pad")
    return Graph("left", graph.inputs, (*graph.outputs, pad.output), graph.nodes)


@pytest.mark.parametrize("graph", [channels, left])
def test_what_stays_stored(graph: Callable[[], Graph]) -> None:
    assert padding(compiled(graph()))


@pytest.mark.parametrize(("target", "dtype"), [("webgpu", "float32"), ("cuda-sm80", "float16"), ("opencl", "float32")])
def test_many_channels(target: str, dtype: str) -> None:
    """Loops of so many iterations are not looked at one by one."""
    x, w = placeholder("x", (7, 7, 2048), dtype), placeholder("w", (3, 3, 2048, 64), dtype)
    kh, kw, k = (reduce_axis(name, size) for name, size in (("kh", 3), ("kw", 3), ("ci", 2048)))

    def inside(i: Int, j: Int, c: Int) -> Expr:
        condition = both(in_range(i - 1, 7), in_range(j - 1, 7))
        assert condition is not None
        places = (maximum(minimum(n - 1, 6), 0) for n in (i, j))
        return select(condition, x[(*places, c)], const(0.0, dtype))

    padded = compute("padded", (9, 9, 2048), inside)

    def element(i: Int, j: Int, c: Int) -> Expr:
        read = padded[i + kh.var, j + kw.var, k.var], w[kh.var, kw.var, k.var, c]
        return total(cast(read[0], "float32") * cast(read[1], "float32"), kh, kw, k)

    acc = compute("acc", (7, 7, 64), element)
    out = compute("out", (7, 7, 64), lambda *i: cast(acc[i], dtype))
    schedule = propose(Kernel("conv", (x,), (w,), (out,)), Context(load_target(target)))
    assert schedule is not None
    program = finish(lower(schedule))
    counted = accesses(program)
    assert counted.coalesced == counted.accesses


def test_open_batches_that_stay_on_the_cpu(tmp_path: Path) -> None:
    b, batch = Builder(), of(Symbol("n", 1, 40))
    x = Value("x", tensor_type("float32", (batch, 9, 11, 16)))
    padded = around(b, b.add("relu", x), (1, 1), -1.0)
    y = b.add("max_pool", padded, kernel=(3, 3), strides=(2, 2), dilations=(1, 1), planes=False)
    compiled = compile_graph(Graph("g", (x,), (y,), tuple(b.nodes)), "g", options_of("opencl", device_for={"*": "cpu"}))
    with load(write_bundle(compiled, tmp_path / "bundle")) as bundle:
        for n in (1, 3):
            given = np.random.default_rng(n).standard_normal((n, 9, 11, 16)).astype(np.float32)
            wide = np.pad(np.maximum(given, 0), ((0, 0), (1, 1), (1, 1), (0, 0)), constant_values=-1)
            windows = [wide[:, i : i + 9 : 2, j : j + 11 : 2] for i in range(3) for j in range(3)]
            (found,) = bundle.run({"x": given}).values()
            np.testing.assert_array_equal(found, np.max([w[:, :5, :6] for w in windows], axis=0))
