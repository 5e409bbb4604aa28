"""Random operators: the distribution that was asked for, the same numbers for the same seed."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from sterna.debug.interpret import interpret
from sterna.frontends.onnx import read

COUNT = 40_000


def numbers(op: str, like: np.ndarray | None = None, name: str = "noise", **attributes: Any) -> np.ndarray:
    inputs = [] if like is None else ["x"]
    node = helper.make_node(op, inputs, ["y"], name=name, **attributes)
    given = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(like.dtype), like.shape)
        for n in inputs
        if like is not None
    ]
    graph = helper.make_graph([node], "one", given, [onnx.ValueInfoProto(name="y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)])
    return interpret(read(model), {} if like is None else {"x": like})["y"]


def test_uniform() -> None:
    y = numbers("RandomUniform", shape=[COUNT], low=-2.0, high=4.0, seed=7.0)
    assert y.dtype == np.float32
    assert -2 <= y.min() < -1.99
    assert 3.99 < y.max() < 4
    shares = np.histogram(y, 20, (-2, 4))[0] / COUNT
    np.testing.assert_allclose(shares, 0.05, atol=0.006)
    assert abs(np.corrcoef(y[1:], y[:-1])[0, 1]) < 0.02


def test_normal() -> None:
    y = numbers("RandomNormalLike", np.zeros((4, COUNT // 4), np.float64), mean=1.5, scale=0.5)
    assert y.dtype == np.float64
    z = (y.reshape(-1) - 1.5) / 0.5
    assert np.isfinite(z).all()
    np.testing.assert_allclose([z.mean(), z.var(), (z**3).mean(), (z**4).mean()], [0, 1, 0, 3], atol=0.1)


def test_seeds_and_names_make_the_numbers() -> None:
    first = numbers("RandomUniform", shape=[64], seed=1.0)
    np.testing.assert_array_equal(first, numbers("RandomUniform", shape=[64], seed=1.0, name="other"))
    assert (first != numbers("RandomUniform", shape=[64], seed=2.0)).mean() > 0.9
    without = numbers("RandomUniform", shape=[64])
    np.testing.assert_array_equal(without, numbers("RandomUniform", shape=[64]))
    assert (without != numbers("RandomUniform", shape=[64], name="other")).mean() > 0.9


@pytest.mark.parametrize("dtype", [TensorProto.INT32, TensorProto.INT64])
def test_multinomial(dtype: int) -> None:
    shares = np.array([[0.1, 0.2, 0.7], [0.5, 0.5, 0]])
    with np.errstate(divide="ignore"):
        logits = np.log(shares).astype(np.float32) + 3
    y = numbers("Multinomial", logits, sample_size=COUNT // 4, dtype=dtype)
    assert y.dtype == helper.tensor_dtype_to_np_dtype(dtype)
    found = [[(row == n).mean() for n in range(3)] for row in y]
    np.testing.assert_allclose(found, shares, atol=0.02)


def test_bernoulli() -> None:
    y = numbers("Bernoulli", np.full(COUNT, 0.3, np.float32))
    assert set(np.unique(y)) == {0, 1}
    assert abs(y.mean() - 0.3) < 0.01
