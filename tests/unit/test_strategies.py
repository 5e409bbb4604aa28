"""Random kernels of every family, compiled as the strategies propose and compared with the interpreter.

Each example is one graph of a single node (or a node and element-wise ones that fuse into it) of random shape and
attributes; several examples share a compilation by being outputs of one graph.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compiling import build, check, input_value
from sterna.debug.interpret import interpret
from sterna.ir.graph import Graph, Value
from sterna.ops import Builder
from sterna.targets.target import Target, host

Draw = Callable[[st.SearchStrategy[Any]], Any]


@dataclass
class Kernels:
    """A graph under construction, and data for its inputs."""

    draw: Draw
    builder: Builder
    inputs: list[Value]
    feeds: dict[str, np.ndarray]
    seed: int = 0

    def data(self, *shape: int) -> np.ndarray:
        self.seed += 1
        return np.random.default_rng(self.seed).standard_normal(shape).astype(np.float32)

    def input(self, *shape: int) -> Value:
        array = self.data(*shape)
        value = input_value(self.builder, array)
        self.inputs.append(value)
        self.feeds[value.name] = array
        return value

    def operand(self, *shape: int) -> Value:
        """An input, or as often a constant, which is packed."""
        return self.builder.constant(self.data(*shape)) if self.draw(st.booleans()) else self.input(*shape)

    def size(self, most: int = 20) -> int:
        """Small sizes, and those around vectors and tiles."""
        near = [n for n in (1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 64, 65, 100, 130) if n <= most]
        return int(self.draw(st.sampled_from(near)))

    def shape(self, least: int, most: int, limit: int = 20000, largest: int = 65) -> tuple[int, ...]:
        sizes: list[int] = []
        for _ in range(self.draw(st.integers(least, most))):
            sizes.append(self.size(max(1, min(largest, limit // int(np.prod(sizes, dtype=int))))))
        return tuple(sizes)

    def flag(self) -> bool:
        return bool(self.draw(st.booleans()))

    def number(self, low: int, high: int) -> int:
        return int(self.draw(st.integers(low, high)))

    def epilogue(self, y: Value, channels: bool = True) -> Value:
        """Element-wise nodes that fuse into the store."""
        add, b = self.builder.add, self.builder
        if channels and self.flag():
            y = add("add", y, b.constant(self.data(y.type.sizes[-1])))
        if self.flag():
            y = add("relu", y)
        if self.flag():
            y = add("add", y, self.input(*y.type.sizes))
        if self.flag():
            y = add("mul", y, add("sigmoid", y))
        return y


def matmul(k: Kernels) -> Value:
    m, n, depth = k.size(65), k.size(130), k.size(130)
    batch = k.shape(0, 2, 12, 3)
    shared = () if k.flag() else batch
    if k.flag():
        x = k.input(*batch, m, depth)
    else:
        x = k.builder.transpose(k.input(*batch, depth, m), (*range(len(batch)), len(batch) + 1, len(batch)))
    return k.epilogue(k.builder.add("matmul", x, k.operand(*shared, depth, n)))


def convolution(k: Kernels) -> Value:
    spatial = k.number(1, 2)
    kernel = [k.number(1, 4) for _ in range(spatial)]
    strides, dilations = ([k.number(1, 2) for _ in range(spatial)] for _ in range(2))
    sizes = [
        d * (f - 1) + s * k.number(0, 11) + k.number(1, 2) for f, s, d in zip(kernel, strides, dilations, strict=True)
    ]
    groups = k.draw(st.sampled_from([1, 1, 1, 2, 4]))
    cin, cout = groups * k.size(17), groups * k.size(33)
    x = k.input(k.number(1, 2), *sizes, cin)
    if k.flag():
        pads = tuple(k.number(0, 2) for _ in range(spatial))
        x = k.builder.add("pad", x, before=(0, *pads, 0), after=(0, *pads, 0), mode="constant", value=0.0)
    w = k.operand(*kernel, cin // groups, cout)
    y = k.builder.add("conv", x, w, strides=tuple(strides), dilations=tuple(dilations), groups=groups)
    return k.epilogue(y)


def depthwise(k: Kernels) -> Value:
    kernel, strides, dilations = (
        [k.number(1, 5) for _ in "hw"],
        [k.number(1, 2) for _ in "hw"],
        [k.number(1, 2) for _ in "hw"],
    )
    sizes = [
        d * (f - 1) + s * k.number(0, 11) + k.number(1, 2) for f, s, d in zip(kernel, strides, dilations, strict=True)
    ]
    channels, multiplier = k.size(65), k.draw(st.sampled_from([1, 1, 1, 2]))
    x = k.input(1, *sizes, channels)
    w = k.operand(*kernel, 1, channels * multiplier)
    y = k.builder.add("conv", x, w, strides=tuple(strides), dilations=tuple(dilations), groups=channels)
    return k.epilogue(y)


def transposed_convolution(k: Kernels) -> Value:
    stride, taps = k.number(1, 3), k.number(1, 3)
    cin, cout = k.size(17), k.size(33)
    padded = [n + 2 * (taps - 1) for n in (k.number(1, 7), k.number(1, 7))]
    weight = k.operand(stride * taps, stride * taps, cin, cout)
    begin = k.number(0, stride - 1)
    sizes = tuple(k.number(1, (n - taps + 1) * stride - begin) for n in padded)
    attributes = {"strides": (stride, stride), "begins": (begin, begin), "sizes": sizes, "groups": 1}
    return k.epilogue(k.builder.add("conv_transpose", k.input(1, *padded, cin), weight, **attributes))


def pool(k: Kernels) -> Value:
    kernel, strides = [k.number(1, 4) for _ in "hw"], [k.number(1, 3) for _ in "hw"]
    sizes = [f + s * k.number(0, 9) + k.number(0, 1) for f, s in zip(kernel, strides, strict=True)]
    op = k.draw(st.sampled_from(["max_pool", "sum_pool"]))
    y = k.builder.add(
        op, k.input(1, *sizes, k.size(65)), kernel=tuple(kernel), strides=tuple(strides), dilations=(1, 1)
    )
    return k.epilogue(y, channels=False)


def softmax(k: Kernels) -> Value:
    shape = k.shape(1, 4)
    return k.builder.add(
        k.draw(st.sampled_from(["softmax", "log_softmax"])), k.input(*shape), axis=k.number(0, len(shape) - 1)
    )


def reduction(k: Kernels) -> Value:
    shape = k.shape(1, 4)
    axes = k.draw(st.lists(st.integers(0, len(shape) - 1), unique=True, min_size=1).map(sorted))
    op = k.draw(st.sampled_from(["reduce_sum", "reduce_mean", "reduce_max", "reduce_min"]))
    x = k.input(*shape)
    if k.flag():
        x = k.builder.add("mul", x, x)
    y = k.builder.add(op, x, axes=tuple(axes), keep_dims=k.flag())
    return k.builder.add("sqrt", k.builder.add("abs", y)) if k.flag() else y


def normalization(k: Kernels) -> Value:
    """Layer normalization as one operator, or spelled out as exporters do."""
    shape = k.shape(2, 3)
    add, b, x = k.builder.add, k.builder, k.input(*shape)
    scale, shift = b.constant(k.data(shape[-1])), b.constant(k.data(shape[-1]))
    if k.flag():
        return add("layer_norm", x, scale, shift, axis=len(shape) - 1, epsilon=1e-5)
    axes = (len(shape) - 1,)
    centred = add("sub", x, add("reduce_mean", x, axes=axes, keep_dims=True))
    variance = add("reduce_mean", add("mul", centred, centred), axes=axes, keep_dims=True)
    deviation = add("sqrt", add("add", variance, b.scalar(1e-5, "float32")))
    return add("add", add("mul", add("div", centred, deviation), scale), shift)


def extreme(k: Kernels) -> Value:
    shape = k.shape(1, 3)
    op = k.draw(st.sampled_from(["arg_max", "arg_min"]))
    return k.builder.add(op, k.input(*shape), axis=k.number(0, len(shape) - 1), keep_dims=k.flag(), last=k.flag())


def cumulative(k: Kernels) -> Value:
    shape = k.shape(1, 3, 4000, 33)
    return k.builder.add(
        "cumulative_sum", k.input(*shape), axis=k.number(0, len(shape) - 1), exclusive=k.flag(), reverse=k.flag()
    )


def elementwise(k: Kernels) -> Value:
    """Two operands that broadcast against each other, and a chain after them."""
    shape = k.shape(1, 4)
    small = tuple(1 if k.flag() else n for n in shape)[k.number(0, len(shape)) :]
    y = k.builder.add(k.draw(st.sampled_from(["add", "sub", "mul", "maximum"])), k.input(*shape), k.operand(*small))
    return k.epilogue(y)


def transpose(k: Kernels) -> Value:
    shape = k.shape(2, 5)
    x = k.builder.add("relu", k.input(*shape)) if k.flag() else k.input(*shape)
    return k.builder.add("transpose", x, order=tuple(k.draw(st.permutations(range(len(shape))))))


def gather(k: Kernels) -> Value:
    shape = k.shape(1, 3, 4000)
    axis = k.number(0, len(shape) - 1)
    index = np.random.default_rng(k.seed).integers(-shape[axis], shape[axis], k.shape(0, 2, 60, 17)).astype(np.int64)
    indices = k.builder.constant(index)
    if k.flag():
        indices = input_value(k.builder, index, "index")
        k.inputs.append(indices)
        k.feeds[indices.name] = index
    return k.builder.add("gather", k.input(*shape), indices, axis=axis)


def movement(k: Kernels) -> Value:
    """Slices, pads, concatenations and reshapes around element-wise nodes."""
    shape = k.shape(2, 4, 4000, 33)
    add, x = k.builder.add, k.input(*shape)
    parts = []
    axis = k.number(0, len(shape) - 1)
    for _ in range(k.number(1, 3)):
        part = add("relu", x) if k.flag() else x
        starts = [k.number(0, n - 1) for n in shape]
        steps = [k.number(1, 2) for _ in shape]
        if k.flag():
            counts = [-(-(n - s) // step) for n, s, step in zip(shape, starts, steps, strict=True)]
            part = add("slice", part, starts=tuple(starts), sizes=tuple(counts), steps=tuple(steps))
        if k.flag():
            before, after = (tuple(k.number(0, 2) for _ in shape) for _ in range(2))
            mode = "constant" if k.flag() else "edge"
            part = add("pad", part, before=before, after=after, mode=mode, value=1.5 if mode == "constant" else 0.0)
        parts.append(add("neg", part) if k.flag() else part)
    if len({tuple(n for d, n in enumerate(p.type.sizes) if d != axis) for p in parts}) == 1 and len(parts) > 1:
        return k.epilogue(add("concat", *parts, axis=axis), channels=False)
    y = parts[-1]
    return k.builder.reshape(y, (int(y.type.elements),)) if k.flag() else k.epilogue(y, channels=False)


FAMILIES = (
    matmul, convolution, depthwise, transposed_convolution, pool, softmax, reduction, normalization,
    extreme, cumulative, elementwise, transpose, gather, movement,
)  # fmt: skip


def graph_of(draw: Draw, family: Callable[[Kernels], Value], count: int) -> tuple[Graph, dict[str, np.ndarray]]:
    k = Kernels(draw, Builder(), [], {}, draw(st.integers(0, 1000)))
    outputs = tuple(family(k) for _ in range(count))
    return Graph("random", tuple(k.inputs), outputs, tuple(k.builder.nodes)), k.feeds


TARGETS: dict[str, tuple[str, Target]] = {
    "c": ("c", host()),
    "llvm": ("llvm", host()),
    "narrow": ("llvm", replace(host(), vector_bits=128, vector_registers=16)),
    "plain": ("c", replace(host(), dialect="plain", vector_bits=0)),
}
EXAMPLES = {"c": 4, "llvm": 16, "narrow": 8, "plain": 3}
#: More examples than the suite has time for, different ones in every run.
MORE = int(os.environ.get("STERNA_EXAMPLES", "1"))


@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.__name__)
@pytest.mark.parametrize(
    "kind",
    [pytest.param(k, marks=pytest.mark.family("host-c" if TARGETS[k][0] == "c" else "host-llvm")) for k in TARGETS],
)
def test_compiled_equals_interpreted(kind: str, family: Callable[[Kernels], Value]) -> None:
    generator, target = TARGETS[kind]

    @settings(
        max_examples=EXAMPLES[kind] * MORE, deadline=None, derandomize=MORE == 1, database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )  # fmt: skip
    @given(st.data())
    def run(data: st.DataObject) -> None:
        graph, feeds = graph_of(data.draw, family, 3)
        expected = interpret(graph, feeds)
        with tempfile.TemporaryDirectory() as folder:
            for threads in (1, 2) if data.draw(st.booleans()) else (1,):
                with build(graph, Path(folder) / f"bundle{threads}", target, generator, threads) as bundle:
                    check(bundle.run(feeds), expected)

    run()
