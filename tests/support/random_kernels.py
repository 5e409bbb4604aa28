"""Random kernels of every family, and random networks of them, to compare what is compiled with the interpreter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from sterna.ir import dtypes
from sterna.ir.graph import Graph, Value
from sterna.ops import Builder
from sterna.ops.winograd import filter_places
from support.compiling import input_value

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


def row_times_matrix(k: Kernels) -> Value:
    """One row for each matrix of a batch, of rows that registers hold and longer ones."""
    batch, depth = k.shape(0, 2, 12, 4), k.draw(st.sampled_from([1, 2, 7, 12, 32, 61]))
    columns = k.draw(st.sampled_from([5, 37, 64, 130, 300, 523]))
    return k.epilogue(k.builder.add("matmul", k.input(*batch, 1, depth), k.input(*batch, depth, columns)))


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


def convolution_of_planes(k: Kernels) -> Value:
    """Channels before positions, in groups of any size: of one channel too, with several results or one."""
    spatial = k.number(1, 2)
    kernel = [k.number(1, 4) for _ in range(spatial)]
    strides, dilations = ([k.number(1, 2) for _ in range(spatial)] for _ in range(2))
    counts = [k.number(1, 12) for _ in range(spatial - 1)] + [k.size(47)]
    sizes = [d * (f - 1) + 1 + s * (n - 1) for f, s, d, n in zip(kernel, strides, dilations, counts, strict=True)]
    groups = k.draw(st.sampled_from([1, 1, 1, 2, 5]))
    of_group = 1 if k.flag() else k.size(9)
    x = k.input(k.number(1, 2), groups * of_group, *sizes)
    if k.flag():
        pads = tuple(k.number(0, 2) for _ in range(spatial))
        x = k.builder.add("pad", x, before=(0, 0, *pads), after=(0, 0, *pads), mode="constant", value=0.0)
    w = k.operand(of_group, *kernel, groups * (1 if k.flag() else k.size(17)))
    settings = {"strides": tuple(strides), "dilations": tuple(dilations), "groups": groups}
    y = k.builder.add("conv_planes", x, w, **settings)
    if k.flag():
        y = k.builder.add("add", y, k.builder.constant(k.data(y.type.sizes[1], *[1] * spatial)))
    return k.epilogue(y, channels=False)


def dilated_convolution(k: Kernels) -> Value:
    """With rates and padding near the image's size: most taps read padding, some of them nothing else."""
    spatial = k.number(1, 2)
    kernel, sizes = [k.number(1, 4) for _ in range(spatial)], [k.number(1, 9) for _ in range(spatial)]
    rates, strides = [k.number(1, 10) for _ in range(spatial)], [k.number(1, 2) for _ in range(spatial)]
    spans = [(f - 1) * r + 1 for f, r in zip(kernel, rates, strict=True)]
    before = [k.number(0, span + 3) for span in spans]
    after = [max(span - size - b, 0) + k.number(0, 9) for span, size, b in zip(spans, sizes, before, strict=True)]
    x = k.input(k.number(1, 2), *sizes, cin := k.size(17))
    x = k.builder.add("pad", x, before=(0, *before, 0), after=(0, *after, 0), mode="constant", value=0.0)
    w = k.builder.constant(k.data(*kernel, cin, k.size(100)))
    y = k.builder.add("conv", x, w, strides=tuple(strides), dilations=tuple(rates), groups=1)
    return k.epilogue(y)


def overlapping_products(k: Kernels) -> Value:
    """Positions and taps in any order around the result, some of them outside."""
    spatial = k.number(1, 2)
    counts, taps, sizes = ([k.number(1, 6) for _ in range(spatial)] for _ in range(3))
    x = k.input(k.number(1, 2), *counts, *taps, k.size(65))
    rates, begins = tuple(k.number(1, 3) for _ in counts), tuple(k.number(-2, 5) for _ in counts)
    y = k.builder.add("overlap_add", x, dilations=rates, begins=begins, sizes=tuple(n + 3 for n in sizes))
    return k.epilogue(y)


def tiled_convolution(k: Kernels) -> Value:
    """By minimal filtering: the transforms and products of tiles."""
    spatial = k.number(1, 2)
    tiles = [k.draw(st.sampled_from([(2, 3), (4, 3), (6, 3), (2, 5), (4, 5), (1, 1)])) for _ in range(spatial)]
    outputs, taps = zip(*(tiles if any(r > 1 for _, r in tiles) else [(4, 3)] * spatial), strict=True)
    settings = {"outputs": outputs, "taps": taps}
    sizes = [k.number(1, 13) for _ in outputs]
    whole = [-(-n // m) * m + r - 1 for n, m, r in zip(sizes, outputs, taps, strict=True)]
    batch, cin, cout = k.number(1, 2), k.size(33), k.size(65)
    x = k.input(batch, *whole, cin)
    weights = k.data(*taps, cin, cout) / np.float32(np.prod(taps) * cin) ** 0.5
    places = k.builder.constant(filter_places(weights, outputs).astype(np.float32))
    y = k.builder.add("matmul", k.builder.add("winograd_input", x, **settings), places)
    return k.epilogue(k.builder.add("winograd_output", y, sizes=(batch, *sizes), **settings))


def few_bits(k: Kernels, *shape: int, dtype: str, constant: bool = False) -> Value:
    """An input or a constant of bytes."""
    k.seed += 1
    low, high = dtypes.limits(dtype)
    array = np.random.default_rng(k.seed).integers(low, high, shape, endpoint=True).astype(dtype)
    if constant:
        return k.builder.constant(array)
    value = input_value(k.builder, array)
    k.inputs.append(value)
    k.feeds[value.name] = array
    return value


def half(k: Kernels, *shape: int, dtype: str, constant: bool = False) -> Value:
    """An input or a constant of a 16-bit float: small integers, of which float32 has every sum, in whatever order."""
    k.seed += 1
    array = np.random.default_rng(k.seed).integers(-4, 5, shape).astype(dtypes.to_numpy(dtype))
    if constant:
        return k.builder.constant(array)
    value = input_value(k.builder, array)
    k.inputs.append(value)
    k.feeds[value.name] = array
    return value


def half_products(k: Kernels) -> Value:
    """Products of 16-bit floats, one after the other, with what stands between them."""
    dtype = k.draw(st.sampled_from(["float16", "bfloat16"]))
    add = k.builder.add
    if k.flag():
        x = half(k, 1, k.number(2, 9), k.number(2, 9), k.size(33), dtype=dtype)
        if k.flag():
            x = add("pad", x, before=(0, 1, 1, 0), after=(0, 1, 1, 0), mode="constant", value=0.0)
        groups = x.type.sizes[-1] if k.flag() else 1
        w = half(k, 2, 2, x.type.sizes[-1] // groups, groups if groups > 1 else k.size(65), dtype=dtype, constant=True)
        y = add("conv", x, w, strides=(1, 1), dilations=(1, 1), groups=groups)
    else:
        x = half(k, k.size(33), k.size(100), dtype=dtype)
        y = add("matmul", x, half(k, x.type.sizes[-1], k.size(65), dtype=dtype, constant=k.flag()))
    columns = y.type.sizes[-1]
    if k.flag():
        y = add("add", y, half(k, columns, dtype=dtype, constant=True))
    if k.flag():
        y = add("relu", y)
    if k.flag():
        y = add("add", y, half(k, *y.type.sizes, dtype=dtype, constant=k.flag()))
    if k.flag():
        y = add("matmul", y, half(k, columns, k.size(65), dtype=dtype, constant=True))
    return add("cast", y, to="float32") if k.flag() else y


def requantized(k: Kernels, y: Value) -> Value:
    """Sums in int32 as bytes again, with one factor per column or one for all."""
    b, add = k.builder, k.builder.add
    if k.flag():
        y = add("add", y, b.constant(np.arange(y.type.sizes[-1], dtype=np.int32) * 7 - 50))
    size = y.type.sizes[-1] if k.flag() else 1
    factor = b.constant(np.linspace(0.001, 0.004, size, dtype=np.float32))
    y = add("mul", add("cast", y, to="float32"), factor)
    return add("round_to_integer", y, to=k.draw(st.sampled_from(["int8", "uint8"])), zero=k.number(0, 9))


def integer_product(k: Kernels) -> Value:
    m, n, depth = k.size(65), k.size(65), k.size(130)
    x = few_bits(k, m, depth, dtype=k.draw(st.sampled_from(["int8", "uint8"])))
    w = few_bits(k, depth, n, dtype=k.draw(st.sampled_from(["int8", "int8", "uint8"])), constant=k.draw(st.booleans()))
    y = k.builder.add("matmul_integer", x, w)
    return requantized(k, y) if k.flag() else y


def integer_convolution(k: Kernels) -> Value:
    """Of groups too, as many as channels maybe: what has dot products and what has not."""
    kernel, strides = [k.number(1, 3) for _ in "hw"], [k.number(1, 2) for _ in "hw"]
    sizes = [f + s * k.number(0, 9) for f, s in zip(kernel, strides, strict=True)]
    groups = k.draw(st.sampled_from([1, 1, 1, 2, 17]))
    cin, cout = groups * (k.size(17) if groups < 17 else 1), groups * (k.size(33) if groups < 17 else 1)
    x = few_bits(k, 1, *sizes, cin, dtype=k.draw(st.sampled_from(["int8", "uint8"])))
    if k.flag():
        x = k.builder.add("pad", x, before=(0, 1, 1, 0), after=(0, 1, 1, 0), mode="constant", value=3)
    w = few_bits(k, *kernel, cin // groups, cout, dtype="int8", constant=True)
    y = k.builder.add("conv_integer", x, w, strides=tuple(strides), dilations=(1, 1), groups=groups)
    return requantized(k, y) if k.flag() else y


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


def sampled(k: Kernels) -> Value:
    """Images sampled at computed positions, of any number of channels, and the samples of deformable convolutions."""
    rows, columns, channels = k.number(1, 70), k.number(1, 20), k.number(1, 20)
    x = k.input(1, k.number(1, 9), k.number(1, 9), channels)
    if k.flag():
        settings = {"kernel": (k.number(1, 2), 2), "strides": (1, 1), "dilations": (1, 1), "pads": (0, 0)}
        taps = settings["kernel"][0] * 2
        operands = [k.input(1, rows, columns, 2 * taps), *([k.input(1, rows, columns, taps)] if k.flag() else ())]
        return k.builder.add("deform_patches", x, *operands, **settings, offset_groups=1)
    return k.epilogue(k.builder.add(
        "grid_sample", x, k.input(1, rows, columns, 2), mode=k.draw(st.sampled_from(["nearest", "linear"])),
        padding=k.draw(st.sampled_from(["zeros", "border", "reflection"])), align_corners=k.flag(),
    ))  # fmt: skip


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


FAMILIES = (integer_product, integer_convolution, half_products,
    matmul, row_times_matrix, convolution, convolution_of_planes, dilated_convolution, tiled_convolution,
    overlapping_products, depthwise, transposed_convolution, pool, softmax,
    reduction, normalization, extreme, cumulative, elementwise, transpose, gather, sampled, movement,
)  # fmt: skip


def graph_of(draw: Draw, family: Callable[[Kernels], Value], count: int) -> tuple[Graph, dict[str, np.ndarray]]:
    k = Kernels(draw, Builder(), [], {}, draw(st.integers(0, 1000)))
    outputs = tuple(family(k) for _ in range(count))
    return Graph("random", tuple(k.inputs), outputs, tuple(k.builder.nodes)), k.feeds


def network(draw: Draw) -> tuple[Graph, dict[str, np.ndarray]]:
    """A small random network: element-wise nodes, data movement and products, with several outputs."""
    k = Kernels(draw, Builder(), [], {}, draw(st.integers(0, 1000)))
    add = k.builder.add
    shape = draw(st.sampled_from([(1, 4, 5, 8), (1, 6, 6, 3), (2, 3, 4), (1, 7, 2, 16), (5, 6)]))
    values = [k.input(*shape) for _ in range(k.number(1, 2))]
    for _ in range(k.number(3, 12)):
        x = draw(st.sampled_from(values[-4:]))
        values.append(step(k, x, values) or add("relu", x))
    count = k.number(1, min(3, len(values)))
    outputs = [values[-1], *(draw(st.sampled_from(values)) for _ in range(count - 1))]
    names = tuple(f"out{n}" for n in range(len(outputs)))
    return Graph("random", tuple(k.inputs), tuple(outputs), tuple(k.builder.nodes), names), k.feeds


KINDS = (
    "unary", "binary", "bias", "pad", "slice", "concat", "reshape", "transpose", "conv", "mean", "softmax",
)  # fmt: skip


def step(k: Kernels, x: Value, values: list[Value]) -> Value | None:
    """One more node on x."""
    add, sizes = k.builder.add, x.type.sizes
    same = [v for v in values if v.type.sizes == sizes]
    axis = k.number(0, len(sizes) - 1)
    kind = k.draw(st.sampled_from(KINDS))
    if kind == "unary":
        return add(k.draw(st.sampled_from(["relu", "neg", "sigmoid", "abs"])), x)
    if kind == "binary":
        return add(k.draw(st.sampled_from(["add", "sub", "maximum"])), x, k.draw(st.sampled_from(same)))
    if kind == "bias":
        return add("add", x, k.builder.constant(k.data(sizes[-1])))
    if kind == "pad" and int(x.type.elements) < 2000:
        before, after = (tuple(k.number(0, 1) for _ in sizes) for _ in range(2))
        return add("pad", x, before=before, after=after, mode="constant", value=0.5)
    if kind == "slice":
        starts = [k.number(0, (n - 1) // 2) for n in sizes]
        steps = [k.draw(st.sampled_from([1, 1, 2])) for _ in sizes]
        counts = [max(1, -(-(n - s) // t) - k.number(0, 1)) for n, s, t in zip(sizes, starts, steps, strict=True)]
        return add("slice", x, starts=tuple(starts), sizes=tuple(counts), steps=tuple(steps))
    if kind == "concat" and int(x.type.elements) < 2000:
        return add("concat", *(k.draw(st.sampled_from(same)) for _ in range(k.number(1, 2))), x, axis=axis)
    if kind == "reshape":
        merged = (*sizes[:-2], sizes[-2] * sizes[-1]) if len(sizes) > 1 else (1, *sizes)
        return k.builder.reshape(x, merged) if merged != sizes else None
    if kind == "transpose":
        return add("transpose", x, order=tuple(k.draw(st.permutations(range(len(sizes))))))
    if kind == "conv" and len(sizes) == 4:
        w = k.builder.constant(k.data(1, 1, sizes[-1], k.draw(st.sampled_from([3, 8, 16]))))
        return add("conv", x, w, strides=(1, 1), dilations=(1, 1), groups=1)
    if kind == "mean":
        return add("reduce_mean", x, axes=(axis,), keep_dims=True)
    if kind == "softmax":
        return add("softmax", x, axis=axis)
    return None
