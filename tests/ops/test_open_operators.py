"""Operators on dimensions that stay open, as exporters write them: compiled once, run at several sizes, compared with
onnxruntime."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper

import sterna
from sterna.driver import Options, compile_graph
from sterna.frontends.onnx import read
from sterna.targets.description import load_target
from support.open_networks import OpenGraph

onnxruntime = pytest.importorskip("onnxruntime", reason="needs onnxruntime: the reference")

Builder = Callable[[OpenGraph], None]
IMAGE = ({"h": (8, 40), "w": (8, 50)}, ((8, 8), (40, 50), (9, 33), (31, 12), (16, 16), (25, 47)))
ROWS = ({"b": (1, 4), "s": (1, 40)}, ((1, 1), (4, 40), (2, 7), (3, 16), (1, 33), (4, 25)))
CACHE = ({"s": (1, 16), "p": (1, 40)}, ((1, 1), (16, 40), (1, 39), (5, 2), (7, 12), (16, 1)))
POINTS = ({"n": (1, 300)}, ((1,), (5,), (32,), (33,), (300,)))
CASES: dict[str, tuple[Builder, dict[str, tuple[int, int]], tuple[tuple[int, ...], ...]]] = {}


def _case(at: tuple[dict[str, tuple[int, int]], tuple[tuple[int, ...], ...]]) -> Callable[[Builder], Builder]:
    def add(build: Builder) -> Builder:
        CASES[build.__name__] = (build, *at)
        return build

    return add


def _image(g: OpenGraph, channels: int = 3) -> str:
    return g.input("x", [1, channels, "h", "w"])


def _rows(g: OpenGraph, width: int = 8, name: str = "x") -> str:
    return g.input(name, ["b", "s", width])


def _conv(g: OpenGraph, x: str, shape: tuple[int, ...], stride: int = 1) -> str:
    pads = [shape[2] // 2] * 4
    return g.node("Relu", g.node("Conv", x, g.weight(*shape), strides=[stride, stride], pads=pads))


@_case(IMAGE)
def resize_by_sizes_in_floats(g: OpenGraph) -> None:
    """As DeepLab computes them: (float(h) - 1) / 4 + 1, and rounded up."""
    x = _image(g)
    sides = g.node("Cast", g.node("Slice", g.node("Shape", x), g.integers(2), g.integers(4)), to=TensorProto.FLOAT)
    one, four = (g.constant(np.array([n], np.float32)) for n in (1, 4))
    left = g.node("Add", g.node("Div", g.node("Sub", sides, one), four), one)
    for sizes in (left, g.node("Ceil", g.node("Div", sides, g.constant(np.array([3], np.float32))))):
        whole = g.node("Concat", g.integers(1, 3), g.node("Cast", sizes, to=TensorProto.INT64), axis=0)
        g.output(g.node("Resize", x, "", "", whole, mode="linear"))


@_case(IMAGE)
def resize_by_scales(g: OpenGraph) -> None:
    x = _image(g)
    for factor in (2, 0.5):
        scales = g.constant(np.array([1, 1, factor, factor], np.float32))
        for mode in ("nearest", "linear", "cubic"):
            g.output(g.node("Resize", x, "", scales, mode=mode))


@_case(IMAGE)
def resize_with_aligned_corners(g: OpenGraph) -> None:
    scales = g.constant(np.array([1, 1, 2, 2], np.float32))
    g.output(g.node("Resize", _image(g), "", scales, mode="linear", coordinate_transformation_mode="align_corners"))


@_case(IMAGE)
def pyramid(g: OpenGraph) -> None:
    """Two levels; the coarse one is brought to the size of the fine one."""
    fine = _conv(g, _image(g), (8, 3, 3, 3), 2)
    coarse = _conv(g, fine, (8, 8, 3, 3), 2)
    lead = g.node("Slice", g.node("Shape", coarse), g.integers(0), g.integers(2))
    sizes = g.node("Concat", lead, g.node("Slice", g.node("Shape", fine), g.integers(2), g.integers(4)), axis=0)
    nearest = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    g.output(g.node("Concat", fine, g.node("Resize", coarse, "", "", sizes, **nearest), axis=1))
    g.output(g.node("Add", fine, g.node("Resize", coarse, "", "", sizes, mode="linear")))


@_case(IMAGE)
def pads(g: OpenGraph) -> None:
    x = _image(g)
    for mode in ("constant", "reflect", "edge"):
        g.output(g.node("Pad", x, g.integers(0, 0, 1, 2, 0, 0, 3, 4), mode=mode))


@_case(IMAGE)
def pools(g: OpenGraph) -> None:
    x = _image(g)
    for options in ({"pads": [1, 1, 1, 1]}, {"ceil_mode": 1}, {"pads": [1, 1, 1, 1], "count_include_pad": 1}):
        g.output(g.node("AveragePool", x, kernel_shape=[3, 3], strides=[2, 2], **options))
    g.output(g.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1))


@_case(IMAGE)
def same_padding(g: OpenGraph) -> None:
    """What is padded depends on the size modulo the stride, and so does how much of it lies in front."""
    x = _image(g)
    for mode, extent, stride in (("SAME_UPPER", 3, 2), ("SAME_LOWER", 4, 3), ("SAME_UPPER", 1, 2)):
        y = g.node("Conv", x, g.weight(8, 3, extent, extent), strides=[stride] * 2, auto_pad=mode)
        g.output(g.node("Relu", y))
    window = {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"}
    g.output(g.node("MaxPool", x, **window))
    for include in (0, 1):
        g.output(g.node("AveragePool", x, count_include_pad=include, **window))


@_case(IMAGE)
def transposed_convolutions(g: OpenGraph) -> None:
    x = _image(g)
    g.output(g.node("ConvTranspose", x, g.weight(3, 8, 4, 4), strides=[2, 2], pads=[1, 1, 1, 1]))
    g.output(g.node("ConvTranspose", x, g.weight(3, 4, 3, 3), strides=[2, 2], auto_pad="SAME_UPPER"))
    options = {"strides": [3, 2], "output_padding": [1, 0], "dilations": [2, 1], "group": 3}
    g.output(g.node("ConvTranspose", x, g.weight(3, 2, 2, 3), **options))


@_case(IMAGE)
def normalization_across_channels(g: OpenGraph) -> None:
    x = _image(g, 5)
    g.output(g.node("LRN", x, size=3))
    for axis in (1, 3):
        g.output(g.node("Hardmax", x, axis=axis))


@_case(IMAGE)
def sampled_at_a_grid(g: OpenGraph) -> None:
    x, grid = _image(g), g.input("grid", [1, "h", 9, 2])
    ways = (("bilinear", "zeros"), ("bilinear", "reflection"), ("nearest", "border"), ("bicubic", "zeros"))
    for mode, padding in ways:
        g.output(g.node("GridSample", x, grid, mode=mode, padding_mode=padding))
    g.output(g.node("GridSample", x, grid, padding_mode="reflection", align_corners=1))


@_case(POINTS)
def samples_at_points(g: OpenGraph) -> None:
    """As many as a detector found: the last block of positions is computed for what is left of it."""
    x = g.input("x", [1, 3, 9, 7])
    for shape in ([1, 1, "n", 2], [1, "n", 1, 2]):
        grid = g.input(f"grid{shape.index('n')}", shape)
        for mode, padding in (("bilinear", "zeros"), ("nearest", "border"), ("bicubic", "reflection")):
            g.output(g.node("GridSample", x, grid, mode=mode, padding_mode=padding, align_corners=1))


@_case(IMAGE)
def computed_pads(g: OpenGraph) -> None:
    """To a multiple of 4, as detectors do; and pads that take away."""
    x = _image(g)
    zero, four = g.integers(0), g.integers(4)
    missing = [g.node("Mod", g.node("Sub", four, g.node("Mod", g.size(x, n), four)), four) for n in (2, 3)]
    even = [g.node("Mod", g.size(x, n), g.integers(2)) for n in (2, 3)]
    g.output(g.node("Pad", x, g.node("Concat", zero, zero, zero, zero, zero, zero, *even, axis=0)))
    g.output(g.node("Pad", x, g.node("Concat", zero, zero, *missing, zero, zero, *even, axis=0), mode="reflect"))
    g.output(g.node("Pad", x, g.integers(0, 0, 2, 3, 0, 0, 1, 4), mode="wrap"))
    away = [g.node("Neg", n) for n in even]
    g.output(g.node("Pad", x, g.node("Concat", zero, zero, *away, zero, zero, *missing, axis=0)))
    g.output(g.node("Pad", x, g.integers(0, 0, -1, 2, 0, 0, 3, -2), mode="edge"))
    half = g.node("Div", g.size(x, 2), g.integers(2))
    g.output(g.node("Pad", x, g.node("Concat", zero, zero, g.node("Neg", half), zero, zero, zero, zero, zero, axis=0)))


@_case(IMAGE)
def parts(g: OpenGraph) -> None:
    x = _image(g, 8)
    g.output(g.node("DepthToSpace", x, blocksize=2))
    half = g.node("Div", g.size(x, 3), g.integers(2))
    g.output(g.node("Slice", x, g.integers(0), half, g.integers(3)))
    first, second = g.nodes_of("Split", 2, g.node("Concat", x, x, axis=2), axis=2)
    g.output(g.node("Mul", first, second))
    g.output(g.node("Slice", x, g.integers(-1), g.integers(-(2**31)), g.integers(3), g.integers(-1)))


@_case(ROWS)
def reshapes(g: OpenGraph) -> None:
    x = _rows(g)
    g.output(g.node("Reshape", x, g.integers(0, 0, 2, 4)))
    g.output(g.node("Flatten", x, axis=1))
    g.output(g.node("Flatten", x, axis=2))
    merged = g.node("MatMul", g.node("Reshape", x, g.integers(-1, 8)), g.weight(8, 5))
    g.output(g.node("Reshape", merged, g.node("Concat", g.size(x, 0), g.integers(-1), g.integers(5), axis=0)))
    g.output(g.node("Tile", x, g.integers(1, 2, 3)))
    repeats = g.node("Concat", g.size(x, 0), g.size(x, 1), g.integers(1), axis=0)
    g.output(g.node("Tile", g.weight(1, 1, 4), repeats))


@_case(ROWS)
def masks(g: OpenGraph) -> None:
    x = _rows(g)
    size = g.size(x, 1)
    ones = g.node(
        "ConstantOfShape",
        g.node("Concat", size, size, axis=0),
        value=numpy_helper.from_array(np.array([1], np.float32)),
    )
    for upper in (0, 1):
        g.output(g.node("MatMul", g.node("Trilu", ones, upper=upper), x))
    g.output(g.node("Mul", ones, g.node("EyeLike", ones, k=1)))


@_case(ROWS)
def gathers(g: OpenGraph) -> None:
    x = _rows(g)
    places = g.input("places", ["b", "s", 1], TensorProto.INT64)
    g.output(g.node("GatherND", x, places, batch_dims=1))
    g.output(g.node("GatherElements", x, places, axis=1))
    g.output(g.node("Gather", x, g.node("Sub", g.size(x, 1), g.integers(1)), axis=1))
    g.output(g.node("CumSum", x, g.constant(np.int64(1))))
    g.output(g.node("Einsum", x, x, equation="bsd,btd->bst"))


@_case(ROWS)
def computed_parts(g: OpenGraph) -> None:
    """Sizes of parts, and how many elements are chosen, made of dimensions."""
    x = _rows(g)
    half = g.node("Div", g.size(x, 1), g.integers(2))
    first, second = g.nodes_of("Split", 2, x, g.node("Concat", half, g.node("Sub", g.size(x, 1), half), axis=0), axis=1)
    g.output(first)
    g.output(second)
    few = g.node("Min", g.size(x, 1), g.integers(5))
    values, places = g.nodes_of("TopK", 2, x, few, axis=1)
    g.output(values)
    g.output(places, TensorProto.INT64)
    g.output(g.nodes_of("TopK", 2, x, g.integers(3), axis=2, largest=0)[0])


@_case(ROWS)
def recurrences(g: OpenGraph) -> None:
    x = g.input("x", ["s", "b", 6])
    y, last, _ = g.nodes_of(
        "LSTM", 3, x, g.weight(2, 32, 6), g.weight(2, 32, 8), hidden_size=8, direction="bidirectional"
    )
    g.output(y)
    g.output(last)
    states, _ = g.nodes_of("GRU", 2, x, g.weight(1, 24, 6), g.weight(1, 24, 8), hidden_size=8)
    g.output(states)


@_case(CACHE)
def decoder_step(g: OpenGraph) -> None:
    """Attention over a cache of open length, with the causal mask that Range makes of both lengths."""
    x = g.input("x", [1, "s", 16])
    past = [g.input(name, [1, 2, "p", 8]) for name in ("past_key", "past_value")]

    def heads() -> str:
        split = g.node("Reshape", g.node("MatMul", x, g.weight(16, 16)), g.integers(1, -1, 2, 8))
        return g.node("Transpose", split, perm=[0, 2, 1, 3])

    query = heads()
    key, value = (g.node("Concat", before, heads(), axis=2) for before in past)
    total, start = (g.node("Squeeze", g.size(v, 2)) for v in (key, past[0]))
    zero, one = (g.constant(np.int64(n)) for n in (0, 1))
    columns = g.node("Unsqueeze", g.node("Range", zero, total, one), g.integers(0))
    rows = g.node("Unsqueeze", g.node("Range", start, total, one), g.integers(1))
    scores = g.node("MatMul", query, g.node("Transpose", key, perm=[0, 1, 3, 2]))
    masked = g.node("Where", g.node("LessOrEqual", columns, rows), scores, g.constant(np.float32(-1e9)))
    mixed = g.node("MatMul", g.node("Softmax", masked, axis=-1), value)
    g.output(g.node("Reshape", g.node("Transpose", mixed, perm=[0, 2, 1, 3]), g.integers(1, -1, 16)))
    g.output(key)
    g.output(value)


@_case(({"t": (400, 4000)}, ((400,), (4000,), (1000,), (777,), (401,), (2345,))))
def log_mel(g: OpenGraph) -> None:
    framed = g.node("Unsqueeze", g.input("x", [1, "t"]), g.integers(1))
    wave = g.node("Pad", framed, g.integers(0, 0, 200, 0, 0, 200), mode="reflect")
    real, imaginary = (g.node("Conv", wave, g.weight(20, 1, 400), strides=[160]) for _ in range(2))
    power = g.node("Add", g.node("Mul", real, real), g.node("Mul", imaginary, imaginary))
    bands = g.node("MatMul", g.node("Transpose", power, perm=[0, 2, 1]), g.constant(np.eye(20, 10, dtype=np.float32)))
    logs = g.node("Log", g.node("Clip", bands, g.constant(np.float32(1e-5))))
    floor = g.node("Sub", g.node("ReduceMax", logs, keepdims=1), g.constant(np.float32(8)))
    g.output(g.node("Max", logs, floor))


def _inputs(model: onnx.ModelProto, at: dict[str, int], seed: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    inputs = {}
    for value in model.graph.input:
        tensor = value.type.tensor_type
        shape = [d.dim_value or at[d.dim_param] for d in tensor.shape.dim]
        inputs[value.name] = (
            random.integers(0, at["s"], shape)
            if tensor.elem_type == TensorProto.INT64
            else random.standard_normal(shape).astype(np.float32)
        )
    return inputs


@pytest.mark.parametrize("name", CASES)
def test_compiled_once_right_at_every_size(name: str, tmp_path: Path) -> None:
    build, dims, sizes = CASES[name]
    g = OpenGraph(seed=21)
    build(g)
    model = g.finished(name)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    with sterna.compile(model, dims=dims, generator="llvm", output=tmp_path / name) as bundle:
        for seed, size in enumerate(sizes):
            inputs = _inputs(model, dict(zip(dims, size, strict=True)), seed)
            for got, wanted in zip(bundle.run(inputs).values(), session.run(None, inputs), strict=True):
                assert got.shape == wanted.shape
                assert np.abs(got - wanted).max(initial=0) <= 1e-5 * max(np.abs(wanted).max(initial=0), 1e-3), size


@pytest.mark.parametrize("target", ["x86-64-v2", "x86-64-v3", "x86-64-v4", "arm64"])
def test_pads_are_proved_at_every_width(target: str) -> None:
    """Remainders of what a remainder was taken from, (w - w % 2) % 2: how many tails a row has is the target's."""
    build, dims, _ = CASES["computed_pads"]
    g = OpenGraph(seed=21)
    build(g)
    model = read(g.finished("computed_pads"), dims=dims)
    assert compile_graph(model, "pads", Options(load_target(target), "llvm")).kernels


@pytest.mark.parametrize("most", [3, 9, 19, 40])
@pytest.mark.parametrize("target", ["x86-64-v2", "x86-64-v3", "x86-64-v4"])
def test_softmax_of_few_vectors(target: str, most: int) -> None:
    """Rows of which less than a register's worth of vectors is there: nothing is read behind them (a proof)."""
    text = (
        '<ir_version: 8, opset_import: ["" : 17]> g (float[b, n] x) => (float[b, n] y) { y = Softmax <axis = 1> (x) }'
    )
    graph = read(onnx.parser.parse_model(text), dims={"b": (1, 3), "n": (1, most)})
    assert compile_graph(graph, "softmax", Options(load_target(target), "llvm")).kernels
