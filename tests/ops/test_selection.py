"""Operators that choose by value or write to computed places, with random operands, against ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import helper

from sterna.debug.interpret import interpret
from sterna.errors import SternaError
from sterna.frontends.onnx import read
from sterna.ir.graph import Graph
from sterna.ops import Builder
from support.compiling import build, input_value

QUICK = settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
shapes = st.lists(st.integers(1, 4), min_size=1, max_size=3)
seeds = st.integers(0, 10**6)


def model_of(
    op: str, inputs: dict[str, np.ndarray], outputs: list[tuple[int, ...] | None], **attributes: Any
) -> onnx.ModelProto:
    """One node whose results have declared shapes."""
    names = [f"y{n}" for n in range(len(outputs))]
    node = helper.make_node(op, list(inputs), names, name="node", **attributes)

    def info(name: str, array: np.ndarray) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)

    graph = helper.make_graph(
        [node], "one", [info(n, a) for n, a in inputs.items() if n],
        [helper.make_empty_tensor_value_info(name) for name in names],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    model = onnx.shape_inference.infer_shapes(model)
    for value, shape in zip(model.graph.output, outputs, strict=True):
        if shape is not None:
            kind = value.type.tensor_type.elem_type
            value.CopyFrom(helper.make_tensor_value_info(value.name, kind, shape))
    return model


def check(op: str, inputs: dict[str, np.ndarray], outputs: int = 1, tolerance: float = 0.0, **attributes: Any) -> None:
    """ONNX Runtime and we agree; its results' shapes are declared."""
    open_model = model_of(op, inputs, [None] * outputs, **attributes)
    expected = onnxruntime.InferenceSession(open_model.SerializeToString()).run(None, inputs)
    if any(0 in array.shape for array in expected):
        return
    graph = read(model_of(op, inputs, [array.shape for array in expected], **attributes))
    for have, want in zip(interpret(graph, inputs).values(), expected, strict=True):
        assert have.dtype == want.dtype
        np.testing.assert_allclose(have, want, rtol=1e-6, atol=tolerance)


def numbers(random: np.random.Generator, shape: list[int], dtype: str) -> np.ndarray:
    """With many equal ones among them."""
    return random.integers(-2, 3, shape).astype(dtype)


@QUICK
@given(shapes, seeds, st.sampled_from(["float32", "int32", "int64", "float64"]), st.booleans(), st.data())
def test_top_k(shape: list[int], seed: int, dtype: str, largest: bool, data: Any) -> None:
    random = np.random.default_rng(seed)
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    k = data.draw(st.integers(1, shape[axis]))
    inputs = {"x": numbers(random, shape, dtype), "k": np.array([k])}
    check("TopK", inputs, 2, axis=axis, largest=int(largest))


def test_top_k_of_many() -> None:
    x = np.random.default_rng(0).standard_normal((2, 300)).astype(np.float32)
    for k in (1, 7, 299, 300):
        check("TopK", {"x": x, "k": np.array([k])}, 2)


@QUICK
@given(shapes, seeds, st.sampled_from(["float32", "int64", "bool", "uint8"]))
def test_non_zero(shape: list[int], seed: int, dtype: str) -> None:
    check("NonZero", {"x": np.abs(numbers(np.random.default_rng(seed), shape, "int32")).astype(dtype)})


@QUICK
@given(shapes, seeds, st.data())
def test_compress(shape: list[int], seed: int, data: Any) -> None:
    random = np.random.default_rng(seed)
    axis = data.draw(st.none() | st.integers(-len(shape), len(shape) - 1))
    extent = int(np.prod(shape)) if axis is None else shape[axis]
    condition = random.random(data.draw(st.integers(1, extent))) < 0.6
    attributes = {} if axis is None else {"axis": axis}
    check("Compress", {"x": numbers(random, shape, "float32"), "c": condition}, **attributes)


@QUICK
@given(shapes, seeds, st.booleans(), st.sampled_from(["float32", "int64"]), st.data())
def test_unique(shape: list[int], seed: int, in_order: bool, dtype: str, data: Any) -> None:
    axis = data.draw(st.none() | st.integers(-len(shape), len(shape) - 1))
    attributes = {} if axis is None else {"axis": axis}
    x = numbers(np.random.default_rng(seed), shape, dtype)
    check("Unique", {"x": x}, 4, sorted=int(in_order), **attributes)


@QUICK
@given(st.integers(1, 2), st.integers(1, 2), st.integers(1, 12), seeds, st.integers(0, 3), st.booleans())
def test_non_max_suppression(batch: int, classes: int, boxes: int, seed: int, given: int, centered: bool) -> None:
    random = np.random.default_rng(seed)
    inputs = {
        "boxes": random.random((batch, boxes, 4)).astype(np.float32),
        "scores": (random.integers(0, 8, (batch, classes, boxes)) / 8).astype(np.float32),
    }
    rest = {"most": np.array([3]), "overlap": np.array([0.3], np.float32), "least": np.array([0.2], np.float32)}
    inputs |= dict(list(rest.items())[:given])
    check("NonMaxSuppression", inputs, center_point_box=int(centered))


def test_suppression_of_as_many_boxes_as_there_are() -> None:
    """PyTorch writes the greatest integer for how many boxes are chosen at most."""
    random = np.random.default_rng(0)
    corners = np.arange(7, dtype=np.float32)[None, :, None]
    inputs = {
        "boxes": np.concatenate([corners, corners, corners + 0.5, corners + 0.5], axis=2),
        "scores": random.random((1, 1, 7), np.float32),
    }
    most = np.array([np.iinfo(np.int64).max])
    model = model_of("NonMaxSuppression", inputs | {"most": most}, [None])
    model.graph.initializer.append(onnx.numpy_helper.from_array(most, "most"))
    del model.graph.input[2]
    expected = onnxruntime.InferenceSession(model.SerializeToString()).run(None, inputs)[0]
    assert len(expected) == 7
    np.testing.assert_array_equal(interpret(read(model), inputs)["y0"], expected)


@QUICK
@given(
    shapes,
    seeds,
    st.sampled_from(["none", "add", "mul", "max", "min"]),
    st.sampled_from(["float32", "int64"]),
    st.data(),
)
def test_scatter_elements(shape: list[int], seed: int, reduction: str, dtype: str, data: Any) -> None:
    random = np.random.default_rng(seed)
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    part = [data.draw(st.integers(1, size)) for size in shape]
    indices = random.integers(-shape[axis], shape[axis], part)
    x, updates = numbers(random, shape, dtype), numbers(random, part, dtype)
    check("ScatterElements", {"x": x, "i": indices, "u": updates}, axis=axis, reduction=reduction)


@QUICK
@given(shapes, seeds, st.sampled_from(["none", "add", "mul", "max", "min"]), st.data())
def test_scatter_nd(shape: list[int], seed: int, reduction: str, data: Any) -> None:
    random = np.random.default_rng(seed)
    depth = data.draw(st.integers(1, len(shape)))
    lead = data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=2))
    indices = np.stack([random.integers(-size, size, lead) for size in shape[:depth]], axis=-1)
    updates = numbers(random, [*lead, *shape[depth:]], "float32")
    check("ScatterND", {"x": numbers(random, shape, "float32"), "i": indices, "u": updates}, reduction=reduction)


@QUICK
@given(seeds, st.integers(1, 3), st.integers(1, 3), st.integers(0, 3), st.booleans(), st.booleans())
def test_roi_align(seed: int, height: int, width: int, ratio: int, greatest: bool, half: bool) -> None:
    random = np.random.default_rng(seed)
    corners = random.uniform(-2, 8, (3, 2))
    inputs = {
        "x": random.standard_normal((2, 2, 5, 7)).astype(np.float32),
        "rois": np.concatenate([corners, corners + random.uniform(0.1, 6, (3, 2))], axis=1).astype(np.float32),
        "images": random.integers(0, 2, 3),
    }
    attributes = {"coordinate_transformation_mode": "half_pixel" if half else "output_half_pixel"}
    check(
        "RoiAlign", inputs, output_height=height, output_width=width, sampling_ratio=ratio, spatial_scale=0.75,
        mode="max" if greatest else "avg", tolerance=1e-5, **attributes,
    )  # fmt: skip


@QUICK
@given(seeds, st.integers(1, 3), st.integers(1, 2), st.booleans())
def test_max_unpool(seed: int, kernel: int, stride: int, explicit: bool) -> None:
    x = np.random.default_rng(seed).permutation(98).reshape(1, 2, 7, 7).astype(np.float32)
    windows = {"kernel_shape": [kernel, kernel], "strides": [stride, stride]}
    pool = model_of("MaxPool", {"x": x}, [None, None], **windows)
    pooled, indices = onnxruntime.InferenceSession(pool.SerializeToString()).run(None, {"x": x})
    rest = {"shape": np.array([1, 2, 7, 7])} if explicit and (7 - kernel) % stride == 0 else {}
    if (7 - kernel) % stride == 0:  # else the indices are those of a larger tensor
        check("MaxUnpool", {"x": pooled, "i": indices, **rest}, **windows)


def test_more_or_less_than_declared_is_an_error_at_run_time() -> None:
    """Where sizes must be known; tests/models/test_data_sizes.py has those that the bundle computes."""
    graph = read(model_of("NonZero", {"x": np.ones(4, np.float32)}, [(1, 2)]), static=True)
    np.testing.assert_array_equal(interpret(graph, {"x": np.array([0, 1, 0, 1], np.float32)})["y0"], [[1, 3]])
    for x in ([1, 1, 1, 0], [0, 0, 0, 1]):
        with pytest.raises(SternaError):
            interpret(graph, {"x": np.array(x, np.float32)})


@pytest.mark.parametrize("generator", ["c", "llvm"])
@pytest.mark.parametrize("dtype", ["float32", "int64", "bool", "float16"])
def test_what_is_one_number_everywhere_is_stored_once(dtype: str, generator: str, tmp_path: Path) -> None:
    """Elements written to a tensor of zeros, and slices to one of ones: neither is in the bundle."""
    random, b = np.random.default_rng(4), Builder()
    updates = input_value(b, random.integers(0, 2, (40, 7)).astype(dtype))
    rows = b.constant(random.integers(0, 100, (40, 7)))
    places = b.constant(random.permutation(100)[:40, None])
    zeros = b.constant(np.broadcast_to(np.zeros((), dtype), (100, 7)))
    ones = b.constant(np.broadcast_to(np.ones((), dtype), (100, 7)))
    scattered = b.add("scatter_elements", zeros, rows, updates, axis=0)
    placed = b.add("scatter_nd", ones, places, updates)
    graph = Graph("g", (updates,), (scattered, placed), tuple(b.nodes))
    feeds = {updates.name: random.integers(0, 2, (40, 7)).astype(dtype)}
    wanted = interpret(graph, feeds)
    indices = sum(np.asarray(v.data).nbytes for v in (rows, places))
    with build(graph, tmp_path, generator=generator) as bundle:
        for name, found in bundle.run(feeds).items():
            np.testing.assert_array_equal(found, wanted[name])
    assert (tmp_path / "params.bin").stat().st_size < indices + 100 * 7 * np.dtype(dtype).itemsize
