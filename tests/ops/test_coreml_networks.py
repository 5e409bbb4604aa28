"""Layers of Core ML's neural networks, built with coremltools."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sterna.debug.interpret import interpret
from sterna.frontends.formats import read_model

ct = pytest.importorskip("coremltools", reason="Core ML models are built with coremltools")
from coremltools.models import MLModel, datatypes  # noqa: E402
from coremltools.models.neural_network import NeuralNetworkBuilder  # noqa: E402


@pytest.mark.parametrize("way", ["squeeze", "reduce"])
def test_a_number_is_a_vector_of_one_element(way: str, tmp_path: Path) -> None:
    """As tensors of neural networks have dimensions; old converters join such numbers to sizes."""
    inputs = [("x", datatypes.Array(1, 1)), ("y", datatypes.Array(1))]
    b = NeuralNetworkBuilder(inputs, [("z", None)], disable_rank5_shape_mapping=True)
    if way == "squeeze":
        b.add_squeeze("number", "x", "number", squeeze_all=True)
    else:
        b.add_reduce_sum("number", "x", "number", keepdims=False, reduce_all=True)
    b.add_concat_nd("join", ["y", "number"], "z", axis=0)
    MLModel(b.spec).save(str(tmp_path / "net.mlmodel"))
    graph = read_model(tmp_path / "net.mlmodel")
    given = {v.name: np.full([int(n) for n in v.shape], 3 if v.name == "x" else 5, v.dtype) for v in graph.inputs}
    found = interpret(graph, given)
    np.testing.assert_array_equal(found["z"], [5, 3])


def inside(network: Any) -> Any:
    return NeuralNetworkBuilder(nn_spec=network, disable_rank5_shape_mapping=True)


def one_sided(b: Any) -> None:
    """The other network leaves the value as it was."""
    b.add_reduce_sum("sum", "x", "sum", axes=[0], keepdims=True, reduce_all=True)
    b.add_less_than("below", ["sum"], "below", alpha=0.0)
    b.add_copy("first", "x", "y")
    then = inside(b.add_branch("choice", "below").branch.ifBranch)
    then.add_elementwise("negated", ["y"], "temporary", "MULTIPLY", alpha=-1.0)
    then.add_copy("kept", "temporary", "y")


def two_sided(b: Any) -> None:
    b.add_reduce_sum("sum", "x", "sum", axes=[0], keepdims=True, reduce_all=True)
    b.add_greater_than("above", ["sum"], "above", alpha=0.0)
    choice = b.add_branch("choice", "above").branch
    inside(choice.ifBranch).add_elementwise("twice", ["x"], "y", "MULTIPLY", alpha=2.0)
    inside(choice.elseBranch).add_elementwise("more", ["x"], "y", "ADD", alpha=5.0)


def counted(b: Any) -> None:
    """The number of iterations is computed; a choice within sets what is carried."""
    b.add_copy("first", "x", "v")
    b.add_reduce_sum("sum", "x", "sum", axes=[0], keepdims=True, reduce_all=True)
    b.add_elementwise("none", ["sum"], "none", "MULTIPLY", alpha=0.0)
    b.add_elementwise("three", ["none"], "three", "ADD", alpha=3.0)
    body = inside(b.add_loop("loop", input_name="three").loop.bodyNetwork)
    body.add_elementwise("more", ["v"], "t", "ADD", alpha=2.0)
    body.add_reduce_sum("total", "t", "total", axes=[0], keepdims=True)
    body.add_greater_than("large", ["total"], "large", alpha=5.0)
    then = inside(body.add_branch("choice", "large").branch.ifBranch)
    then.add_elementwise("half", ["t"], "t2", "MULTIPLY", alpha=0.5)
    then.add_copy("halved", "t2", "t")
    body.add_copy("kept", "t", "v")
    b.add_activation("out", "LINEAR", "v", "y", params=[1, 0])


def counted_of(x: np.ndarray) -> np.ndarray:
    for _ in range(3):
        x = x + 2
        x = x / 2 if x.sum() > 5 else x
    return x


def conditional(b: Any) -> None:
    """Until the sum of magnitudes is 50."""
    b.add_copy("first", "x", "v")
    loop = b.add_loop("loop", max_iterations=100, condition="going").loop
    test = inside(loop.conditionNetwork)
    test.add_unary("size", "v", "size", mode="abs")
    test.add_reduce_sum("sum", "size", "sum", axes=[0], keepdims=True)
    test.add_less_than("below", ["sum"], "going", alpha=50.0)
    body = inside(loop.bodyNetwork)
    body.add_elementwise("twice", ["v"], "t", "MULTIPLY", alpha=2.0)
    body.add_copy("kept", "t", "v")
    b.add_activation("out", "LINEAR", "v", "y", params=[1, 0])


def conditional_of(x: np.ndarray) -> np.ndarray:
    while np.abs(x).sum() < 50:
        x = x * 2
    return x


FLOWS: dict[str, tuple[Any, Any]] = {
    "one-sided": (one_sided, lambda x: -x if x.sum() < 0 else x),
    "two-sided": (two_sided, lambda x: x * 2 if x.sum() > 0 else x + 5),
    "counted": (counted, counted_of),
    "conditional": (conditional, conditional_of),
}


def network(build: Any, folder: Path, *shapes: tuple[int, ...]) -> Any:
    names = ("x", "z")[: len(shapes)]
    inputs = [(name, datatypes.Array(*shape)) for name, shape in zip(names, shapes, strict=True)]
    b = NeuralNetworkBuilder(inputs, [("y", None)], disable_rank5_shape_mapping=True)
    build(b)
    MLModel(b.spec, skip_model_load=True).save(str(folder / "net.mlmodel"))
    return read_model(folder / "net.mlmodel")


@pytest.mark.parametrize("name", FLOWS)
def test_networks_within_layers_set_values_around_them(name: str, tmp_path: Path) -> None:
    build, expected = FLOWS[name]
    graph = network(build, tmp_path, (3,))
    (x,) = graph.inputs
    for given in ([1.0, 2.0, -0.5], [-1.0, -2.0, 0.5]):
        row = np.array(given, x.dtype)
        np.testing.assert_allclose(interpret(graph, {"x": row})["y"], expected(row), rtol=1e-6)


@pytest.mark.parametrize("kind", ["MAX", "AVERAGE"])
def test_three_spatial_dimensions(kind: str, tmp_path: Path) -> None:
    """A convolution whose kernel has one element, and a pool of the padded result."""
    random = np.random.default_rng(0)
    weight, bias = random.normal(size=(1, 1, 1, 2, 3)).astype(np.float32), np.float32([0.5, -0.5, 0.25])

    def build(b: Any) -> None:
        b.add_convolution3d(
            "c", 2, 3, 1, 1, 1, weight.transpose(4, 3, 0, 1, 2), bias, has_bias=True, input_name="x", output_name="c"
        )
        b.add_pooling3d(
            "p", "c", "p", kind, 2, 2, 2, 2, 2, 2, padding_mode="custom", custom_padding_back=1,
            average_pooling_count_excludes_padding=True,
        )  # fmt: skip
        b.add_global_pooling3d("g", "p", "y", kind)

    x = random.normal(size=(1, 2, 3, 4, 6)).astype(np.float32)
    graph = network(build, tmp_path, x.shape)
    made = np.einsum("ncdhw,co->nodhw", x, weight[0, 0, 0]) + bias[:, None, None, None]
    reduced = np.max if kind == "MAX" else np.mean
    parts = [reduced(made[:, :, d : d + 2].reshape(1, 3, -1, 2, 2, 3, 2), axis=(2, 4, 6)) for d in (0, 2)]
    expected = reduced(np.stack(parts, 2), axis=(2, 3, 4), keepdims=True)
    np.testing.assert_allclose(interpret(graph, {"x": x.astype(graph.inputs[0].dtype)})["y"], expected, atol=1e-5)


def test_a_part_from_a_computed_place(tmp_path: Path) -> None:
    graph = network(lambda b: b.add_slice_by_size("s", ["x", "z"], "y", axis=1, size=3), tmp_path, (2, 6), (1,))
    x = np.arange(12, dtype=graph.inputs[0].dtype).reshape(2, 6)
    found = interpret(graph, {"x": x, "z": np.array([2], graph.inputs[1].dtype)})["y"]
    np.testing.assert_array_equal(found, x[:, 2:5])


def test_boxes_of_images(tmp_path: Path) -> None:
    """Two boxes of both images, each resized to 2 x 2."""
    build = lambda b: b.add_crop_resize("c", ["x", "z"], "y", 2, 2, mode="ALIGN_ENDPOINTS_MODE")  # noqa: E731
    graph = network(build, tmp_path, (1, 2, 1, 4, 4), (2, 1, 4, 1, 1))
    x = np.arange(32, dtype=graph.inputs[0].dtype).reshape(1, 2, 1, 4, 4)
    boxes = np.array([[0, 0, 3, 3], [1, 1, 2, 3]], graph.inputs[1].dtype).reshape(2, 1, 4, 1, 1)
    found = interpret(graph, {"x": x, "z": boxes})["y"]
    first = np.array([[[0, 3], [12, 15]], [[5, 7], [9, 11]]])
    np.testing.assert_allclose(found[:, :, 0], first[:, None] + np.array([0, 16])[None, :, None, None])
