"""Models within models, several times called, as Keras 2 and Keras 3 count their calls."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

os.environ.setdefault("KERAS_BACKEND", "numpy")

from sterna.debug.interpret import interpret
from sterna.frontends.formats import read_model
from sterna.frontends.frontend import ReadOptions

X, Y = np.random.default_rng(0).normal(size=(2, 2, 3)).astype(np.float32)


def test_outputs_of_functional_models_of_keras_3(tmp_path: Path) -> None:
    """Where a model lists its outputs, the calls of Functional models within it count from 1."""
    keras: Any = pytest.importorskip("keras", reason="keras is not installed")
    a = keras.Input((3,))
    inner = keras.Model(a, keras.layers.Dense(3, "tanh")(a), name="inner")
    row = keras.Sequential([keras.Input((3,)), keras.layers.Dense(3, "relu")], name="row")
    x, y = keras.Input((3,), name="x"), keras.Input((3,), name="y")
    first, second, third = inner(x), inner(y), row(x)
    model = keras.Model([x, y], [first, second, third, row(second), inner(row(first))])
    for file in ("model.keras", "model.h5"):
        model.save(tmp_path / file)
        found = interpret(read_model(tmp_path / file, ReadOptions(dims={"batch": 2})), {"x": X, "y": Y})
        for each, wanted in zip(found.values(), model([X, Y]), strict=True):
            np.testing.assert_allclose(each, np.asarray(wanted), rtol=1e-5, atol=1e-6)


def _layer(kind: str, name: str, nodes: list[Any], **config: Any) -> dict[str, Any]:
    return {"class_name": kind, "config": {"name": name, **config}, "name": name, "inbound_nodes": nodes}


@pytest.mark.parametrize("kind", ["Functional", "Sequential"])
def test_calls_of_keras_2_count_from_1(kind: str, tmp_path: Path) -> None:
    """first = f(x), second = f(y): outputs first - second, second."""
    entry = _layer("InputLayer", "a", [], batch_input_shape=[None, 3], dtype="float32")
    dense = _layer("Dense", "d", [] if kind == "Sequential" else [[["a", 0, 0, {}]]], units=3, use_bias=False)
    config: dict[str, Any] = {"name": "f", "layers": [entry, dense]}
    if kind == "Functional":
        config |= {"input_layers": [["a", 0, 0]], "output_layers": [["d", 0, 0]]}
    calls = [[["x", 0, 0, {}]], [["y", 0, 0, {}]]]
    inner = {"class_name": kind, "config": config, "name": "f", "inbound_nodes": calls}
    inputs = [_layer("InputLayer", name, [], batch_input_shape=[None, 3], dtype="float32") for name in "xy"]
    apart = _layer("Subtract", "s", [[["f", 1, 0, {}], ["f", 2, 0, {}]]])
    top = {
        "name": "net", "layers": [*inputs, inner, apart], "input_layers": [["x", 0, 0], ["y", 0, 0]],
        "output_layers": [["s", 0, 0], ["f", 2, 0]],
    }  # fmt: skip
    kernel = np.arange(9, dtype=np.float32).reshape(3, 3)
    with h5py.File(tmp_path / "model.h5", "w") as file:
        file.attrs["model_config"] = json.dumps({"class_name": "Functional", "config": top})
        file.attrs["keras_version"] = "2.9.0"
        group = file.create_group("model_weights/f")
        group.attrs["weight_names"] = [b"d/kernel:0"]
        group["d/kernel:0"] = kernel
    found = interpret(read_model(tmp_path / "model.h5", ReadOptions(dims={"batch": 2})), {"x": X, "y": Y})
    difference, second = found.values()
    np.testing.assert_allclose(second, Y @ kernel, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(difference, (X - Y) @ kernel, rtol=1e-5, atol=1e-5)


def test_a_first_layer_that_reshapes(tmp_path: Path) -> None:
    """A Sequential model of Keras 2 says its input at its first layer, whatever that is, or where it was built."""
    for given in ({"batch_input_shape": [None, 6]}, {}):
        layers = [
            {"class_name": "Reshape", "config": {"name": "r", "target_shape": [2, 3], **given}},
            {"class_name": "Permute", "config": {"name": "p", "dims": [2, 1]}},
        ]
        config: dict[str, Any] = {"name": "s", "layers": layers} | ({} if given else {"build_input_shape": [None, 6]})
        with h5py.File(tmp_path / "model.h5", "w") as file:
            file.attrs["model_config"] = json.dumps({"class_name": "Sequential", "config": config})
            file.create_group("model_weights")
        graph = read_model(tmp_path / "model.h5", ReadOptions(dims={"batch": 2}))
        x = np.arange(12, dtype=np.float32).reshape(2, 6)
        (found,) = interpret(graph, {graph.inputs[0].name: x}).values()
        np.testing.assert_array_equal(found, x.reshape(2, 2, 3).transpose(0, 2, 1))
