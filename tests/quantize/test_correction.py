"""The mean that rounding weights adds to a result, and the bias that takes it back."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from sterna.quantize import quantize_model, quantizer
from sterna.quantize.correction import ChannelMeans, mean_shift
from sterna.quantize.plan import Layer
from support.onnx_runtime import exact_session
from support.small_models import SmallModel


def layer(op: str, axis: int = 0) -> Layer:
    return Layer("n0", op, ("x",), "t0", "t0", "w", "", axis)


def samples(*shape: int, mean: float) -> np.ndarray:
    """Of channels with means of their own."""
    random = np.random.default_rng(4)
    channels = mean * random.uniform(0.5, 1.5, (shape[1], *[1] * (len(shape) - 2)))
    return (channels + random.standard_normal(shape)).astype(np.float32)


def run(model: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    (y,) = exact_session(model).run(None, {"x": x})
    return y


@pytest.mark.parametrize("groups", [1, 2, 6])
def test_it_is_the_mean_of_what_the_errors_give(groups: int) -> None:
    m = SmallModel(5, 6, 7, 7)
    error = m.random.standard_normal((12, 6 // groups, 3, 3)).astype(np.float32)
    model = m.done(m("Conv", "x", m.constant(error), group=groups))
    x = np.broadcast_to(m.random.standard_normal((1, 6, 1, 1)), (5, 6, 7, 7)).astype(np.float32)
    means = ChannelMeans(layer("Conv"))
    means.add(x[:2])
    means.add(x[2:])
    np.testing.assert_allclose(means.values, x[0, :, 0, 0], rtol=1e-6)
    found = mean_shift(layer("Conv"), error, means.values)
    np.testing.assert_allclose(found, run(model, x).mean(axis=(0, 2, 3)), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("transposed", [0, 1])
def test_it_is_that_of_a_product_of_matrices(transposed: int) -> None:
    m = SmallModel(50, 8)
    error = m.random.standard_normal((5, 8) if transposed else (8, 5)).astype(np.float32)
    model = m.done(m("Gemm", "x", m.constant(error), transB=transposed))
    x = samples(50, 8, mean=2.0)
    means = ChannelMeans(layer("Gemm"))
    means.add(x)
    found = mean_shift(layer("Gemm", 0 if transposed else 1), error, means.values)
    np.testing.assert_allclose(found, run(model, x).mean(axis=0), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "make",
    [
        lambda m: m("Conv", "x", m.weight(9, 8, 1, 1), m.weight(9)),
        lambda m: m("Conv", "x", m.weight(9, 8, 1, 1)),
        lambda m: m("Conv", "x", m.weight(8, 1, 3, 3), group=8),
        lambda m: m("Gemm", m("Flatten", "x"), m.weight(200, 9, scale=0.1), m.weight(9)),
    ],
    ids=["bias", "none", "depthwise", "gemm"],
)
def test_the_means_of_a_quantized_result_are_right(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where all activations are positive, a small part of the error of the mean is left."""
    m = SmallModel(1, 8, 5, 5)
    model = m.done(make(m))
    x = samples(64, 8, 5, 5, mean=20.0)

    def error(made: onnx.ModelProto) -> float:
        rows = [np.concatenate([run(each, one[None]) for one in x]) for each in (made, model)]
        axes = tuple(n for n in range(rows[0].ndim) if n != 1)
        return float(np.abs(rows[0].mean(axis=axes) - rows[1].mean(axis=axes)).max())

    corrected = error(quantize_model(model, {"x": x}).model)
    monkeypatch.setattr(quantizer, "CORRECTED", frozenset())
    assert corrected < 0.25 * error(quantize_model(model, {"x": x}).model)
