"""Resampling, spatial operators, transforms and einsum against ONNX's reference, with operands constant and given."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from sterna.debug.interpret import interpret
from sterna.errors import SternaError
from sterna.frontends.onnx import read
from sterna.pipeline import optimize

RANDOM = np.random.default_rng(3)
Arrays = dict[str, np.ndarray]


def f32(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


def i64(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def model_of(
    op: str, inputs: Arrays, constants: Arrays, opset: int, outputs: int, **attributes: Any
) -> onnx.ModelProto:
    """One node; results have the shapes that ONNX's reference gives."""
    node = helper.make_node(op, [*inputs, *constants], [f"y{n}" for n in range(outputs)], **attributes)
    kinds = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in inputs.items()
    ]
    stored = [numpy_helper.from_array(a, n) for n, a in constants.items()]
    opsets = [helper.make_opsetid("", opset)]
    bare = [helper.make_empty_tensor_value_info(f"y{n}") for n in range(outputs)]
    model = helper.make_model(helper.make_graph([node], "one", kinds, bare, stored), opset_imports=opsets)
    ys = ReferenceEvaluator(model).run(None, inputs)
    known = [
        helper.make_tensor_value_info(f"y{n}", helper.np_dtype_to_tensor_dtype(y.dtype), y.shape)
        for n, y in enumerate(ys)
    ]
    return helper.make_model(helper.make_graph([node], "one", kinds, known, stored), opset_imports=opsets)


def check(
    op: str, inputs: Arrays, constants: Arrays | None = None, *, opset: int = 20, outputs: int = 1, **attributes: Any
) -> None:
    model = model_of(op, inputs, constants or {}, opset, outputs, **attributes)
    expected = ReferenceEvaluator(model).run(None, inputs)
    found = interpret(optimize(read(model), check=True), inputs)
    for have, want in zip(found.values(), expected, strict=True):
        assert have.shape == want.shape
        np.testing.assert_allclose(have, want, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize(
    "setting", [{"antialias": 1}, {"exclude_outside": 1}, {"antialias": 1, "exclude_outside": 1}, {}]
)
@pytest.mark.parametrize("given", [True, False])
def test_resize(mode: str, setting: dict[str, int], given: bool) -> None:
    if setting.get("exclude_outside") and mode == "linear":
        pytest.skip("ONNX has it for cubic only")
    x, scales = {"x": f32(1, 1, 7, 6)}, {"scales": np.array([1, 1, 0.6, 1.7], np.float32)}
    region = {"roi": np.zeros(0, np.float32)}
    inputs, constants = ({**x, **region, **scales}, {}) if given else (x, {**region, **scales})
    check("Resize", inputs, constants, opset=19, mode=mode, **setting)


@settings(max_examples=20, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 14), min_size=1, max_size=3), scale=st.sampled_from([0.15, 0.25, 0.4, 0.5, 0.8, 1.7]),
    mode=st.sampled_from(["linear", "cubic"]),
)  # fmt: skip
def test_few_neighbours_weigh(sizes: list[int], scale: float, mode: str) -> None:
    """Of any size, with edges that count for what lies outside, along the last dimension and others."""
    scales = np.array([1] + [max(scale, 1 / size) for size in sizes], np.float32)
    constants = {"roi": np.zeros(0, np.float32), "scales": scales}
    check("Resize", {"x": f32(2, *sizes)}, constants, opset=19, mode=mode, antialias=1)


def test_crop_and_resize() -> None:
    roi = np.array([0.1, 0.4, 0.6, 1.3], np.float32)
    constants = {"roi": roi, "scales": np.zeros(0, np.float32), "sizes": i64(4, 5)}
    for mode in ("linear", "cubic", "nearest"):
        check(
            "Resize", {"x": f32(1, 1, 7, 6)}, constants, opset=19, mode=mode, axes=[2, 3],
            coordinate_transformation_mode="tf_crop_and_resize", extrapolation_value=5.0,
        )  # fmt: skip


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
def test_grid_sample(mode: str, padding: str) -> None:
    grid = RANDOM.uniform(-1.7, 1.7, (2, 3, 4, 2)).astype(np.float32)
    for corners in (0, 1):
        check(
            "GridSample", {"x": f32(2, 2, 5, 6), "grid": grid}, mode=mode, padding_mode=padding, align_corners=corners
        )


@settings(max_examples=30, deadline=None)
@given(
    n=st.integers(1, 3), extents=st.lists(st.integers(2, 6), min_size=2, max_size=3), corners=st.booleans(),
    constant=st.booleans(),
)  # fmt: skip
def test_affine_grid(n: int, extents: list[int], corners: bool, constant: bool) -> None:
    spatial = len(extents)
    theta = {"theta": np.random.default_rng(n).standard_normal((n, spatial, spatial + 1)).astype(np.float32)}
    size = {"size": i64(n, 3, *extents)}
    inputs, constants = (theta, size) if constant else ({**theta, **size}, {})
    check("AffineGrid", inputs, constants, align_corners=int(corners))


def test_affine_grid_of_other_sizes() -> None:
    """A matrix that does not fit the image is refused, and a size that is only known at run time is tested there."""
    theta, size = {"theta": f32(1, 2, 3)}, {"size": i64(1, 3, 4, 5)}
    model = model_of("AffineGrid", theta, size, 20, 1)
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(i64(2, 3, 4, 5), "size"))
    with pytest.raises(SternaError, match="E0108"):
        read(model)
    at_run_time = optimize(read(model_of("AffineGrid", {**theta, **size}, {}, 20, 1)), check=True)
    with pytest.raises(SternaError, match="E0511"):
        interpret(at_run_time, {**theta, "size": i64(1, 3, 4, 6)})


def test_deformable_convolution() -> None:
    x, offset, mask = f32(1, 4, 5, 5), f32(1, 16, 4, 4), f32(1, 8, 4, 4)
    inputs = {"x": x, "w": f32(6, 2, 2, 2), "offset": offset, "b": f32(6), "mask": mask}
    check("DeformConv", inputs, group=2, offset_group=2)


def test_folding_and_sequences() -> None:
    check("Col2Im", {"x": f32(1, 10, 12)}, {"image": i64(6, 5), "block": i64(1, 5)}, strides=[1, 1], pads=[3, 0, 3, 0])
    check("ReverseSequence", {"x": f32(4, 3, 2), "n": i64(1, 4, 2)}, time_axis=0, batch_axis=1)
    check("Det", {"x": f32(2, 3, 4, 4)})
    check("Det", {"x": np.array([[0, 1], [1, 0]], np.float32)})


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,jk->ik", ((2, 3), (3, 4))),
        ("bij,bjk", ((2, 3, 4), (2, 4, 5))),
        ("...ii->...i", ((2, 3, 3),)),
        ("ij->", ((2, 3),)),
        ("b...i,...j->b...ij", ((2, 3, 4), (3, 5))),
        ("i,j,k->kij", ((2,), (3,), (4,))),
    ],
)
def test_einsum(equation: str, shapes: tuple[tuple[int, ...], ...]) -> None:
    check("Einsum", {f"x{n}": f32(*shape) for n, shape in enumerate(shapes)}, equation=equation)


@pytest.mark.parametrize("length", [8, 12, 5])
def test_transforms(length: int) -> None:
    size = {"length": np.array(length, np.int64), "axis": np.array(1, np.int64)}
    for onesided in (0, 1):
        check("DFT", {"x": f32(2, 8, 1)}, size, onesided=onesided)
    check("DFT", {"x": f32(2, 8, 2)}, size, inverse=1)
    check("DFT", {"x": f32(2, 8, 3, 2), "length": np.array(length, np.int64)}, {"axis": np.array(-3, np.int64)})


def test_short_time_transform() -> None:
    window = np.hanning(16).astype(np.float32)
    step = np.array(8, np.int64)
    check("STFT", {"x": f32(1, 64, 1), "step": step, "window": window})
    check("STFT", {"x": f32(1, 64, 1)}, {"step": step, "window": window}, onesided=0)


def test_pooling_positions() -> None:
    x = {"x": f32(2, 3, 8, 7)}
    for order in (0, 1):
        check("MaxPool", x, outputs=2, kernel_shape=[3, 2], strides=[2, 2], storage_order=order, opset=12)


@pytest.mark.parametrize("scale", [1.0, 0.5])
def test_max_roi_pool(scale: float) -> None:
    """Against ONNX Runtime: ONNX's reference does not have it."""
    runtime = pytest.importorskip("onnxruntime")
    x = RANDOM.standard_normal((2, 3, 7, 9)).astype(np.float32)
    corners = np.array([[0, 0, 8, 6], [2, 1, 5, 3], [3, 3, 3, 3], [5, 4, 30, 30], [9, 8, 12, 12]], np.float32) / scale
    # Edges between two pixels belong to the one farther from 0.
    corners = np.concatenate([corners, np.array([[-1.5, -0.5, 2.5, 3.5]], np.float32) / scale])
    rois = np.column_stack([np.array([0, 1, 1, 0, 1, 0], np.float32), corners])
    node = helper.make_node("MaxRoiPool", ["x", "rois"], ["y"], pooled_shape=(3, 2), spatial_scale=scale)
    kind = onnx.TensorProto.FLOAT
    given = [helper.make_tensor_value_info(n, kind, a.shape) for n, a in (("x", x), ("rois", rois))]
    graph = helper.make_graph([node], "one", given, [helper.make_tensor_value_info("y", kind, (6, 3, 3, 2))])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (want,) = session.run(None, {"x": x, "rois": rois})
    np.testing.assert_array_equal(interpret(optimize(read(model), check=True), {"x": x, "rois": rois})["y"], want)
