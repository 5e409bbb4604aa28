"""Models brought into the form that quantization expects: they compute what they did before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from sterna.debug.interpret import interpret
from sterna.errors import SternaError
from sterna.frontends.formats import read_model
from sterna.quantize.prepare import OPSET, prepared
from support.quantized_networks import network, quantized
from support.small_models import SmallModel, residual_network
from support.trained import trained


def outputs(model: onnx.ModelProto) -> list[np.ndarray]:
    graph = read_model(model)
    (given,) = graph.inputs
    feed = {given.name: np.random.default_rng(2).standard_normal(given.type.sizes).astype(np.float32)}
    return list(interpret(graph, feed).values())


def operators(model: onnx.ModelProto) -> Counter[str]:
    return Counter(node.op_type for node in model.graph.node)


def check(model: onnx.ModelProto) -> onnx.ModelProto:
    """The prepared model, valid and right."""
    made = prepared(model)
    onnx.checker.check_model(made)
    assert [v.name for v in made.graph.output] == [v.name for v in model.graph.output]
    for found, expected in zip(outputs(made), outputs(model), strict=True):
        largest = np.abs(expected[np.isfinite(expected)]).max()
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5 * largest)
    return made


def normalized(op: str, **more: object) -> onnx.ModelProto:
    m = SmallModel(2, 6, 7, 7)
    group = more.get("group", 1)
    shape = (8, 6 // group, 3, 3) if op == "Conv" else (6, 8 // group, 3, 3)
    rows = [m.weight(8, low=0.5), m.weight(8), m.weight(8), m.weight(8, low=0.5)]
    x = m(op, "x", m.weight(*shape), **more)
    return m.done(m("Relu", m("BatchNormalization", x, *rows)))


@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("op", ["Conv", "ConvTranspose"])
def test_batch_normalization_becomes_weights(op: str, group: int) -> None:
    assert operators(check(normalized(op, group=group))) == {op: 1, "Relu": 1}


def scaled(arithmetic: str, shape: tuple[int, ...]) -> onnx.ModelProto:
    m = SmallModel(2, 6, 7, 7)
    x = m("Conv", "x", m.weight(7, 6, 1, 1), m.weight(7))
    return m.done(m(arithmetic, x, m.weight(*shape, low=0.5)))


@pytest.mark.parametrize("shape", [(), (1,), (7, 1, 1), (1, 7, 1, 1), (1, 1, 1, 1)])
@pytest.mark.parametrize("arithmetic", ["Add", "Sub", "Mul", "Div"])
def test_arithmetic_with_a_constant_per_channel_becomes_weights(arithmetic: str, shape: tuple[int, ...]) -> None:
    assert operators(check(scaled(arithmetic, shape))) == {"Conv": 1}


@pytest.mark.parametrize("shape", [(7,), (7, 1), (7, 7), (7, 7, 7), (1, 1, 1, 1, 1), (2, 1, 1, 1)])
def test_other_arithmetic_stays(shape: tuple[int, ...]) -> None:
    assert operators(check(scaled("Mul", shape))) == {"Conv": 1, "Mul": 1}


def test_a_scale_that_somebody_else_reads_around_stays() -> None:
    m = SmallModel(1, 4, 5, 5)
    x = m("Conv", "x", m.weight(4, 4, 1, 1))
    y = m("Mul", x, m.weight(4, 1, 1))
    assert operators(check(m.done(y, x))) == {"Conv": 1, "Mul": 1}


def padded(window: str, value: float, before: list[int], **more: object) -> onnx.ModelProto:
    m = SmallModel(1, 4, 9, 9)
    x = m("Pad", "x", m.constant(before, np.int64), m.constant(value))
    if window == "Conv":
        return m.done(m("Conv", x, m.weight(5, 4, 3, 3), **more))
    return m.done(m("MaxPool", x, kernel_shape=[3, 3], **more))


@pytest.mark.parametrize(
    ("model", "joined"),
    [
        (padded("Conv", 0, [0, 0, 1, 2, 0, 0, 0, 1]), True),
        (padded("Conv", 0, [0, 0, 1, 2, 0, 0, 0, 1], pads=[1, 0, 1, 0]), True),
        (padded("Conv", 0, [0, 0, 1, 2, 0, 0, 0, 1], auto_pad="VALID"), True),
        (padded("Conv", 0, [0, 0, 1, 1, 0, 0, 1, 1], auto_pad="SAME_UPPER"), False),
        (padded("Conv", 1, [0, 0, 1, 1, 0, 0, 1, 1]), False),
        (padded("Conv", 0, [0, 0, -1, 1, 0, 0, 1, 1]), False),
        (padded("MaxPool", -np.inf, [0, 0, 1, 1, 0, 0, 1, 1]), True),
        (padded("MaxPool", 0, [0, 0, 1, 1, 0, 0, 1, 1]), False),
        (padded("MaxPool", -np.inf, [0, 0, 2, 1, 0, 0, 1, 1], pads=[1, 1, 1, 1]), False),
    ],
)
def test_padding_becomes_the_windows(model: onnx.ModelProto, joined: bool) -> None:
    assert operators(check(model))["Pad"] == (0 if joined else 1)


def test_padding_of_channels_stays() -> None:
    m = SmallModel(1, 3, 9, 9)
    x = m("Pad", "x", m.constant([0, 0, 0, 0, 0, 1, 0, 0], np.int64))
    assert operators(check(m.done(m("Conv", x, m.weight(5, 4, 3, 3)))))["Pad"] == 1


def test_a_product_and_its_bias_become_one() -> None:
    m = SmallModel(3, 12)
    x = m("Add", m.weight(7), m("MatMul", "x", m.weight(12, 7)))
    assert operators(check(m.done(m("Relu", x)))) == {"Gemm": 1, "Relu": 1}
    wide = SmallModel(2, 3, 12)
    x = wide("Add", wide("MatMul", "x", wide.weight(12, 7)), wide.weight(7))
    assert operators(check(wide.done(x))) == {"MatMul": 1, "Add": 1}


def test_what_is_constant_is_computed_and_what_is_idle_left_out() -> None:
    m = SmallModel(1, 4, 5, 5)
    w = m("Mul", m("Reshape", m.weight(24), m.constant([6, 4, 1, 1], np.int64)), m.constant(0.5))
    x = m("Identity", m("Conv", m("Dropout", "x"), w))
    made = check(m.done(m("Relu", x)))
    assert operators(made) == {"Conv": 1, "Relu": 1}
    assert [node.name for node in made.graph.node] == ["n3", "n5"]


def test_an_old_model_becomes_a_modern_one() -> None:
    m = SmallModel(1, 2, 6, 6, opset=8)
    x = m("Conv", "x", m.weight(3, 2, 3, 3), kernel_shape=[3, 3])
    model = m.done(m("Relu", m("Add", x, m.weight(3, 1, 1))), old=True)
    made = check(model)
    assert made.opset_import[0].version == OPSET
    assert [value.name for value in made.graph.input] == ["x"]
    assert operators(made) == {"Conv": 1, "Relu": 1}


def test_external_weights_are_taken_in(tmp_path: Path) -> None:
    onnx.save(residual_network(), tmp_path / "m.onnx", save_as_external_data=True, size_threshold=0)
    from_file = prepared(tmp_path / "m.onnx")
    assert from_file.SerializeToString() == prepared(residual_network()).SerializeToString()


def test_the_given_model_is_not_changed() -> None:
    model = residual_network()
    before = model.SerializeToString()
    prepared(model)
    assert model.SerializeToString() == before


def dynamic() -> onnx.ModelProto:
    m = SmallModel(2, 4)
    m.nodes.append(helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"], name="dynamic"))
    return m.done(m("DequantizeLinear", "q", "s", "z"))


@pytest.mark.parametrize("make", [dynamic, None], ids=["dynamic", "qdq"])
def test_a_quantized_model_is_refused(tmp_path: Path, make: Callable[[], onnx.ModelProto] | None) -> None:
    model = make() if make else onnx.load(quantized(network, tmp_path, "uint8", "int8", True))
    with pytest.raises(SternaError) as caught:
        prepared(model)
    assert caught.value.codes == ("E0701",)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("mlperf_tiny_kws_int8", "E0701"),
        ("mlperf_tiny_kws_hybrid", "E0701"),
        ("minilm_l6_v2_int8", "E0701"),
        ("lightgbm_wine", "E0705"),
    ],
)
def test_trained_models_that_are_not_of_floats_are_refused(name: str, code: str) -> None:
    with pytest.raises(SternaError) as caught:
        prepared(trained(name).file)
    assert caught.value.codes == (code,)


def test_an_operator_set_without_a_way_up_is_refused() -> None:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 2])
    node = helper.make_node("Scale", ["x"], ["y"], scale=2.0)  # was experimental, and is no more
    graph = helper.make_graph([node], "old", [x], [y], [numpy_helper.from_array(np.zeros(1, np.float32), "z")])
    with pytest.raises(SternaError) as caught:
        prepared(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 7)], ir_version=3))
    assert caught.value.codes == ("E0102",)
