"""Quantized models: what they are made of, how far they are from the float ones, and what is said of both."""

from __future__ import annotations

import json
import logging
from collections import Counter
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, QuantFormat, QuantType, quantize_static
from sklearn.datasets import load_digits

import sterna
from sterna.errors import SternaError
from sterna.frontends.onnx import qdq
from sterna.quantize import Quantized, Settings, quantize_model
from sterna.quantize.prepare import prepared
from sterna.quantize.running import Difference
from support.onnx_runtime import exact_session
from support.small_models import SmallModel, residual_network
from support.tools import ROOT
from support.trained import trained

DIGITS = ROOT / "compiler" / "sterna" / "demo" / "digits.onnx"
CALIBRATED = 64
METHODS = {
    "minmax": CalibrationMethod.MinMax,
    "percentile": CalibrationMethod.Percentile,
    "entropy": CalibrationMethod.Entropy,
}


@lru_cache
def digits() -> tuple[np.ndarray, np.ndarray]:
    """Images, and what they show."""
    data = load_digits()
    order = np.random.default_rng(3).permutation(len(data.images))[:300]
    return (data.images[order] / 16).astype(np.float32)[:, None], data.target[order]


def noise(*shape: int, count: int = 8, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((count, *shape)).astype(np.float32)


def by_onnxruntime(model: onnx.ModelProto | Path, name: str, samples: np.ndarray) -> np.ndarray:
    session = exact_session(model)
    return np.concatenate([session.run(None, {name: x[None]})[0] for x in samples])


def by_sterna(model: onnx.ModelProto, name: str, samples: np.ndarray) -> np.ndarray:
    with sterna.compile(model, shapes={name: (1, *samples.shape[1:])}, generator="llvm") as bundle:
        return np.concatenate([next(iter(bundle.run({name: x[None]}).values())) for x in samples])


@lru_cache
def residual(activations: str = "uint8", method: str = "minmax") -> Quantized:
    settings = Settings(activations=activations, method=method)
    return quantize_model(residual_network(), {"x": noise(1, 3, 16, 16)}, settings)


def left(model: onnx.ModelProto) -> Counter[str]:
    """The operators that the compiler sees."""
    return Counter(node.op_type for node in qdq.fused(model.graph).node)


# ---------------------------------------------------------------- what it is made of
@pytest.mark.family("host-llvm")
@pytest.mark.parametrize("activations", ["uint8", "int8"])
def test_a_network_becomes_one_of_integers(activations: str) -> None:
    made = residual(activations)
    onnx.checker.check_model(made.model, full_check=True)
    found = left(made.model)
    floats = ("Conv", "Add", "Concat", "MaxPool", "Relu", "Clip", "GlobalAveragePool", "Gemm", "BatchNormalization")
    assert [op for op in floats if found[op]] == ["MaxPool"]  # of bytes
    assert (found["QLinearConv"], found["QLinearAdd"], found["QLinearConcat"], found["QGemm"]) == (5, 1, 1, 1)
    assert found["QuantizeLinear"] == 1  # of the input
    assert [layer.dtype for layer in made.report.layers] == [activations] * 8 + [None]  # the last one gives floats
    assert made.report.integer_layers == len(made.report.layers) == 9


@pytest.mark.family("host-llvm")
@pytest.mark.parametrize("activations", ["uint8", "int8"])
def test_it_gives_the_integers_that_onnxruntime_gives(activations: str) -> None:
    """Everybody computes the same from the file: all but the last layer's floats are integers."""
    made = residual(activations)
    samples = noise(3, 16, 16, seed=9)
    ours, theirs = by_sterna(made.model, "x", samples), by_onnxruntime(made.model, "x", samples)
    apart = np.abs(ours - theirs) / np.abs(theirs).max()
    assert apart.max() < 0.01  # a value that lies half way between two integers may become either
    assert np.mean(apart > 1e-6) < 0.2


@pytest.mark.parametrize("method", list(METHODS))
def test_it_is_near_the_float_model(method: str) -> None:
    made = residual(method=method)
    samples = noise(3, 16, 16)
    wanted, got = by_onnxruntime(residual_network(), "x", samples), by_onnxruntime(made.model, "x", samples)
    error = np.abs(got - wanted).max() / np.abs(wanted).max()
    assert error == pytest.approx(made.report.error, abs=0.01)
    assert error < 0.04
    assert made.report.agreement is not None


def test_names_and_open_dimensions_stay() -> None:
    m = SmallModel("batch", 4, 6, 6)
    x = m("Relu", m("Conv", "x", m.weight(5, 4, 3, 3), m.weight(5)))
    made = quantize_model(m.done(m("Conv", x, m.weight(3, 5, 1, 1))), {"x": noise(4, 6, 6)}).model
    shape = made.graph.input[0].type.tensor_type.shape.dim
    assert (shape[0].dim_param, shape[1].dim_value) == ("batch", 4)
    assert [value.name for value in made.graph.output] == ["t2"]
    assert [node.name for node in made.graph.node if node.op_type == "Conv"] == ["n0", "n2"]
    many = noise(4, 6, 6, seed=1)
    (y,) = exact_session(made).run(None, {"x": many})
    np.testing.assert_allclose(y, by_onnxruntime(made, "x", many), rtol=1e-6)


def test_what_only_moves_keeps_its_scale_and_a_concatenation_shares_one() -> None:
    made = residual()
    stored = {t.name: onnx.numpy_helper.to_array(t) for t in made.model.graph.initializer}
    scale = {n.input[0]: stored[n.input[1]].item() for n in made.model.graph.node if n.op_type == "QuantizeLinear"}
    by_op = {node.op_type: node for node in made.model.graph.node}
    producer = {name: node for node in made.model.graph.node for name in node.output}
    pool = by_op["MaxPool"]
    before = producer[pool.input[0]]
    assert stored[before.input[1]] == scale[pool.output[0]]


def concatenation(factor: float) -> tuple[Quantized, list[float]]:
    """Two convolutions side by side, the results of the second larger by a factor; the scales of both and the whole."""
    m = SmallModel(1, 4, 8, 8)
    a = m("Conv", "x", m.weight(6, 4, 1, 1))
    b = m("Conv", "x", m.weight(6, 4, 1, 1, scale=factor))
    y = m("Conv", m("Concat", a, b, axis=1), m.weight(3, 12, 1, 1))
    made = quantize_model(m.done(y), {"x": noise(4, 8, 8)})
    return made, [layer.scale or 0.0 for layer in made.report.layers[:3]]


def test_a_concatenation_shares_a_scale_where_that_costs_little() -> None:
    _, (a, b, whole) = concatenation(1.0)
    assert a == b == whole
    _, (a, b, whole) = concatenation(20.0)
    assert a < 0.2 * whole
    assert b <= whole


def test_an_element_wise_layer_is_one_only_where_integers_are_read() -> None:
    """The sum goes into a softmax, which takes floats: rounding it would gain nothing."""
    m = SmallModel(1, 4, 6, 6)
    a, b = (m("Conv", "x", m.weight(4, 4, 1, 1)) for _ in range(2))
    made = quantize_model(m.done(m("Softmax", m("Add", a, b), axis=1)), {"x": noise(4, 6, 6)})
    assert [layer.integer for layer in made.report.layers] == [True, True, False]
    assert made.report.layers[2].reason == "no integer layer reads its result"
    assert left(made.model)["QLinearAdd"] == 0


@pytest.mark.parametrize(
    ("make", "op"),
    [
        (lambda m: m("ConvTranspose", "x", m.weight(4, 5, 3, 3), m.weight(5), strides=[2, 2]), "ConvTranspose"),
        (lambda m: m("ConvTranspose", "x", m.weight(4, 3, 2, 2), m.weight(6), group=2), "ConvTranspose"),
        (lambda m: m("Conv", "x", m.weight(8, 1, 3, 3), m.weight(8), group=4), "Conv"),
        (lambda m: m("MatMul", "x", m.weight(6, 9)), "MatMul"),
        (lambda m: m("MatMul", "x", m.weight(1, 4, 6, 9)), "MatMul"),
        (lambda m: m("MatMul", "x", m("Transpose", "x", perm=[0, 1, 3, 2])), "MatMul"),
        (lambda m: m("Gemm", m("Flatten", "x"), m.weight(7, 144, scale=0.1), m.weight(7), transB=1), "Gemm"),
        (lambda m: m("Gemm", m("Flatten", "x"), m.weight(144, 7, scale=0.1), m.weight(1, 7)), "Gemm"),
    ],
)  # fmt: skip
@pytest.mark.family("host-llvm")
def test_products_of_every_kind(make: Any, op: str) -> None:
    m = SmallModel(1, 4, 6, 6)
    model = m.done(make(m))
    made = quantize_model(model, {"x": noise(1, 4, 6, 6)})
    (layer,) = made.report.layers
    assert (layer.op, layer.integer) == (op, True)
    samples = noise(4, 6, 6, count=3)
    wanted = by_onnxruntime(model, "x", samples)
    for got in (by_sterna(made.model, "x", samples), by_onnxruntime(made.model, "x", samples)):
        assert np.abs(got - wanted).max() / np.abs(wanted).max() < 0.02


def winding_network() -> onnx.ModelProto:
    """Gates, leaky rectifiers, averages, padding, resizing and splitting between convolutions."""
    m = SmallModel(1, 4, 10, 10, opset=18)
    x = m("Conv", "x", m.weight(8, 4, 3, 3, scale=0.3), m.weight(8), pads=[1] * 4)
    x = m("LeakyRelu", m("Mul", x, m("Sigmoid", x)), alpha=0.2)
    x = m(
        "Conv",
        m("Pad", x, m.constant([0, 0, 1, 1, 0, 0, 1, 1], np.int64), mode="edge"),
        m.weight(8, 8, 3, 3, scale=0.2),
    )
    x = m("AveragePool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    x = m("Resize", x, "", m.constant([1, 1, 2, 2]), mode="nearest")
    m.nodes.append(onnx.helper.make_node("Split", [x], ["left", "right"], name="split", axis=1, num_outputs=2))
    a = m("Conv", "left", m.weight(6, 4, 1, 1), m.weight(6))
    b = m("Conv", m("Transpose", "right", perm=[0, 1, 3, 2]), m.weight(6, 4, 1, 1))
    return m.done(m("Conv", m("Add", a, b), m.weight(3, 6, 1, 1)))


@pytest.mark.family("host-llvm")
@pytest.mark.parametrize("activations", ["uint8", "int8"])
def test_what_stands_between_products_is_of_integers_too(activations: str) -> None:
    model, data = winding_network(), noise(4, 10, 10)
    made = quantize_model(model, {"x": data}, Settings(activations=activations))
    found = left(made.model)
    assert found["QuantizeLinear"] == 1
    assert [op for op in ("Conv", "Mul", "Sigmoid", "LeakyRelu", "AveragePool") if found[op]] == ["Mul"]
    assert found["Mul"] == 1  # the factor of the last sums
    wanted = by_onnxruntime(model, "x", data)
    for got in (by_sterna(made.model, "x", data), by_onnxruntime(made.model, "x", data)):
        assert rms(got, wanted) < 0.03


def test_channels_have_their_own_scales() -> None:
    """One channel a thousand times as large as the others costs these nothing."""
    m = SmallModel(1, 4, 6, 6)
    weight = m.random.standard_normal((5, 4, 3, 3)).astype(np.float32)
    weight[2] *= 1000
    made = quantize_model(m.done(m("Conv", "x", m.constant(weight))), {"x": noise(4, 6, 6)})
    stored = {t.name: onnx.numpy_helper.to_array(t) for t in made.model.graph.initializer}
    (q,) = (a for a in stored.values() if a.dtype == np.int8 and a.ndim == 4)
    assert (np.abs(q).reshape(5, -1).max(axis=1) == 127).all()


# ---------------------------------------------------------------- beside another quantizer
class _Reader(CalibrationDataReader):
    def __init__(self, name: str, samples: np.ndarray):
        self.rest = iter([{name: x[None]} for x in samples])

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self.rest, None)


def rms(got: np.ndarray, wanted: np.ndarray) -> float:
    difference = Difference()
    difference.add(got, wanted)
    return difference.rms


@pytest.mark.parametrize(
    ("network", "method"),
    # Entropy on real images only: of noise through random weights, what is rare is as important as the rest.
    [*(("digits", method) for method in METHODS), ("residual", "minmax"), ("residual", "percentile")],
)
def test_the_error_is_no_larger_than_that_of_onnxruntimes_quantizer(tmp_path: Path, network: str, method: str) -> None:
    """The same method, samples, types of activations and weights; the errors are those of many inputs."""
    if network == "digits":
        model, name, samples = onnx.load(DIGITS), "image", digits()[0]
    else:
        model, name, samples = residual_network(), "x", noise(3, 16, 16, count=CALIBRATED + 64)
    seen, fresh = samples[:CALIBRATED], samples[CALIBRATED:]
    onnx.save(prepared(model), tmp_path / "float.onnx")
    more = {"CalibPercentile": 99.99} if method == "percentile" else {}
    logging.disable(logging.WARNING)
    try:
        quantize_static(
            tmp_path / "float.onnx", tmp_path / "theirs.onnx", _Reader(name, seen), quant_format=QuantFormat.QDQ,
            activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8, per_channel=True,
            calibrate_method=METHODS[method], extra_options=more,
        )  # fmt: skip
    finally:
        logging.disable(logging.NOTSET)
    ours = quantize_model(model, {name: seen}, Settings(method, 99.99)).model
    wanted = by_onnxruntime(model, name, fresh)
    errors = [rms(by_onnxruntime(m, name, fresh), wanted) for m in (ours, tmp_path / "theirs.onnx")]
    assert errors[0] <= 1.02 * errors[1]


# ---------------------------------------------------------------- mixed precision
def test_layers_stay_float_until_the_error_is_within_its_bound() -> None:
    data = {"image": digits()[0][:32]}
    free = quantize_model(DIGITS, data).report
    bound = 0.7 * free.error
    made = quantize_model(DIGITS, data, Settings(bound=bound))
    assert free.integer_layers == 3
    assert made.report.error <= bound < free.error
    assert 0 < made.report.integer_layers < 3
    kept = [layer for layer in made.report.layers if not layer.integer]
    assert {layer.reason for layer in kept} == {"for the bound"}
    alone = {layer.name: layer.sensitivity or 0.0 for layer in made.report.layers}
    assert max(alone.values()) > 0
    floats = {node.name for node in qdq.fused(made.model.graph).node if node.op_type in ("Conv", "Gemm")}
    assert floats == {layer.name for layer in kept}
    # The report is what the model does.
    samples = digits()[0][:32]
    wanted, got = by_onnxruntime(DIGITS, "image", samples), by_onnxruntime(made.model, "image", samples)
    assert np.abs(got - wanted).max() / np.abs(wanted).max() == pytest.approx(made.report.error, rel=0.05)


def test_the_most_sensitive_layer_is_found() -> None:
    """The second of three convolutions has one channel, read with a weight of almost nothing, that spoils its scale."""
    m = SmallModel(1, 4, 8, 8)
    weight = m.random.standard_normal((4, 4, 1, 1)).astype(np.float32)
    weight[3] *= 3000
    x = m("Relu", m("Conv", "x", m.weight(4, 4, 1, 1)))
    x = m("Conv", x, m.constant(weight))
    last = m.random.standard_normal((4, 4, 1, 1)).astype(np.float32)
    last[:, 3] /= 30000
    model = m.done(m("Conv", x, m.constant(last)))
    data = {"x": noise(4, 8, 8)}
    assert quantize_model(model, data).report.error > 0.3
    made = quantize_model(model, data, Settings(bound=0.05))
    assert [layer.integer for layer in made.report.layers] == [True, True, False]  # then nobody rounds the second's
    assert made.report.error <= 0.05


def test_a_bound_of_accuracy_by_labels() -> None:
    images, labels = digits()
    data = {"image": images, "labels": labels}
    report = quantize_model(DIGITS, data, Settings(bound=0.005)).report
    assert report.accuracy_before == pytest.approx(np.mean(by_onnxruntime(DIGITS, "image", images).argmax(1) == labels))
    assert report.accuracy_after is not None
    assert report.accuracy_before is not None
    assert report.accuracy_before - report.accuracy_after <= 0.005
    assert report.accuracy_before > 0.97


def test_a_bound_that_cannot_be_kept_is_said() -> None:
    with pytest.raises(SternaError, match="does not stay within") as caught:
        quantize_model(DIGITS, {"image": digits()[0][:8]}, Settings(bound=1e-7))
    assert caught.value.codes == ("E0704",)


def test_nodes_and_operators_are_kept_float() -> None:
    data = {"image": digits()[0][:8]}
    report = quantize_model(DIGITS, data, Settings(keep_float=("conv2",))).report
    assert [(layer.name, layer.reason) for layer in report.kept] == [("conv2", "asked for")]
    report = quantize_model(DIGITS, data, Settings(keep_float=("Conv",))).report
    assert [layer.name for layer in report.kept] == ["conv1", "conv2"]


# ---------------------------------------------------------------- mistakes
def codes(model: onnx.ModelProto | Path, data: Any, settings: Settings | None = None) -> tuple[str, ...]:
    with pytest.raises(SternaError) as caught:
        quantize_model(model, data, settings)
    return caught.value.codes


def test_mistakes_are_coded() -> None:
    images = digits()[0][:4]
    assert codes(DIGITS, {}) == ("E0601",)
    assert codes(DIGITS, {"image": images[:0]}) == ("E0702",)
    assert codes(DIGITS, {"image": images * np.nan}) == ("E0703",)
    assert codes(DIGITS, {"image": images}, Settings(keep_float=("nowhere",))) == ("E0706",)
    assert codes(DIGITS, {"image": images, "labels": np.arange(3)}) == ("E0604",)
    m = SmallModel(1, 4)
    assert codes(m.done(m("Sin", "x")), {"x": noise(4)}) == ("E0705",)
    m = SmallModel(1, 4)
    overflowing = m.done(m("MatMul", m("Exp", "x"), m.weight(4, 4)))
    assert codes(overflowing, {"x": np.full((1, 4), 200, np.float32)}) == ("E0703",)
    assert codes(residual().model, {"x": noise(3, 16, 16)}) == ("E0701",)


@pytest.mark.parametrize(
    "settings",
    [
        Settings(method="guess"), Settings(activations="int4"), Settings(percentile=0.0), Settings(bound=-1.0),
        Settings(bound=float("nan")),
    ],
)  # fmt: skip
def test_impossible_settings_are_coded(settings: Settings) -> None:
    assert codes(DIGITS, {"image": digits()[0][:2]}, settings) == ("E0203",)


# ---------------------------------------------------------------- the report
def test_the_report_says_what_was_done() -> None:
    made = residual()
    report = made.report
    facts = json.loads(json.dumps(report.json()))
    assert facts["bytes_before"] == prepared(residual_network()).ByteSize()
    assert facts["bytes_after"] == made.model.ByteSize()
    assert facts["samples"] == 8
    assert facts["outputs"][0]["error"] == report.error
    weighted = [layer for layer in report.layers if layer.bytes_before]
    assert len(weighted) == 6
    for layer in weighted:
        assert layer.weight_error is not None
        assert 0 < layer.weight_error < 0.01
        assert layer.bytes_after < layer.bytes_before
    for layer in report.layers:
        assert layer.decibels is not None
        assert 15 < layer.decibels < 80
        assert layer.error is not None
        assert 0 < layer.error < 0.2


def test_the_same_gives_the_same() -> None:
    again = quantize_model(residual_network(), {"x": noise(1, 3, 16, 16)})
    assert again.model.SerializeToString() == residual().model.SerializeToString()


# ---------------------------------------------------------------- trained models
@pytest.mark.parametrize(
    ("name", "integers", "error"),
    [("mnist_cntk_f32", 3, 0.02), ("mlperf_tiny_resnet_f32", 14, 0.02), ("torch_digits_cnn", 3, 0.05)],
)
@pytest.mark.family("host-llvm")
def test_trained_models_keep_their_answers(name: str, integers: int, error: float) -> None:
    model = trained(name)
    data = {f"{key}.{n}": array for n, case in enumerate(model.cases) for key, array in case.inputs.items()}
    made = quantize_model(model.file, data)
    assert made.report.agreement == 1.0
    assert made.report.integer_layers == integers
    assert made.report.error <= error
    assert made.report.bytes_after < 0.6 * made.report.bytes_before
