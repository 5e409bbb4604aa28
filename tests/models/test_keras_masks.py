"""What layers of Keras make of masks, element types and shared layers: whole models, compared with Keras."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

os.environ.setdefault("KERAS_BACKEND", "numpy")
from sterna.debug.interpret import interpret
from sterna.frontends.formats import read_model
from sterna.frontends.frontend import ReadOptions
from sterna.frontends.keras.config import Call as Applied
from sterna.frontends.keras.config import Layer, Network, Ref
from sterna.frontends.keras.order import calls_in_order

keras: Any = pytest.importorskip("keras", reason="keras is not installed")
L = keras.layers


def agrees(
    model: Any, given: list[np.ndarray], folder: Path, tolerance: float = 1e-5, file: str = "model.keras"
) -> None:
    random = np.random.default_rng(0)
    for variable in model.variables:
        value = np.asarray(variable).astype(np.float32)
        if value.size > 1 and np.ptp(value) == 0:
            variable.assign(value + random.uniform(0.1, 0.3, value.shape))
    model.save(folder / file)
    fed = {tensor.name: x for tensor, x in zip(model.inputs, given, strict=True)}
    graph = read_model(folder / file, ReadOptions(shapes={name: x.shape for name, x in fed.items()}))
    with np.errstate(all="ignore"):
        found = interpret(graph, fed)
        wanted = keras.tree.flatten(model(given if len(given) > 1 else given[0]))
    for name, each in zip(graph.result_names, wanted, strict=True):
        expected = np.asarray(each)
        assert found[name].dtype == expected.dtype, name
        one, other = found[name].astype(np.float64), expected.astype(np.float64)
        least = 1.0 if expected.dtype == np.uint8 else tolerance
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=least, err_msg=name)


TOKENS = np.random.default_rng(1).integers(0, 4, (2, 7)).astype(np.int32)
OTHERS = np.random.default_rng(2).integers(0, 4, (2, 7)).astype(np.int32)


BACKWARD = L.GRU(3, return_sequences=True, go_backwards=True)


def _merged(kind: str) -> Callable[[Any, Any], list[Any]]:
    def make(a: Any, b: Any) -> list[Any]:
        layer = getattr(L, kind)
        y = layer()([a, b])
        half = layer()([a, L.Dense(6)(L.Flatten()(b)[:, None, :6] + b)])
        return [y, L.LSTM(3)(y), L.GRU(3)(half)]

    return make


MASKED: dict[str, Callable[[Any, Any], list[Any]]] = {
    **{kind: _merged(kind) for kind in ("Add", "Multiply", "Maximum", "Minimum", "Average", "Subtract", "Concatenate")},
    "one after the other": lambda a, b: [L.LSTM(3)(L.Concatenate(axis=1)([a, L.Dense(6)(b), b * 1.0]))],
    "functions end it": lambda a, b: [L.LSTM(3)(keras.ops.tanh(a)), L.LSTM(3)(a * 2.0), L.LSTM(3)(a[:, :, :3])],
    "layers end it": lambda a, b: [L.LSTM(3)(layer(a)) for layer in (
        L.Conv1D(6, 3, padding="same"), L.EinsumDense("abc,cd->abd", (None, 4)), L.UpSampling1D(2),
    )],
    "layers keep it": lambda a, b: [L.LSTM(3)(layer(a)) for layer in (
        L.Dense(5), L.LayerNormalization(), L.PReLU(), L.Rescaling(2.0), L.BatchNormalization(),
    )],
    "attention takes it": lambda a, b: [
        L.GRU(3)(a), L.GRU(3)(L.Add()([a, L.MultiHeadAttention(2, 3)(a, a)])), L.GRU(3)(L.Dense(6)(L.Dropout(0.5)(a))),
        L.GRU(2)(L.MultiHeadAttention(2, 3)(b, a)),
    ],
    "both directions": lambda a, b: [
        *L.Bidirectional(L.GRU(3, return_sequences=True), merge_mode=None)(a), L.GRU(2)(
            L.Bidirectional(L.LSTM(3, return_sequences=True), backward_layer=BACKWARD)(b)
        ),
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", MASKED)
def test_masks(name: str, tmp_path: Path) -> None:
    inputs = [keras.Input((7,), dtype="int32", name=name) for name in "tu"]
    embedded = [L.Embedding(4, 6, mask_zero=True)(each) for each in inputs]
    agrees(keras.Model(inputs, MASKED[name](*embedded)), [TOKENS, OTHERS], tmp_path)


def test_steps_within_steps(tmp_path: Path) -> None:
    words = keras.Input((5, 6), dtype="int32", name="words")
    x = L.TimeDistributed(L.LSTM(3))(L.Embedding(4, 4, mask_zero=True)(words))
    tokens = np.random.default_rng(0).integers(0, 4, (2, 5, 6)).astype(np.int32)
    agrees(keras.Model(words, x), [tokens], tmp_path)


def test_states_of_both_directions(tmp_path: Path) -> None:
    one, other = keras.Input((8, 4), name="one"), keras.Input((6, 4), name="other")
    _, *states = L.Bidirectional(L.LSTM(5, return_state=True))(one)
    model = keras.Model([one, other], L.Bidirectional(L.LSTM(5))(other, initial_state=states))
    random = np.random.default_rng(0)
    agrees(model, [random.normal(size=(2, n, 4)).astype(np.float32) for n in (8, 6)], tmp_path)


@pytest.mark.parametrize("kind", ["MultiHeadAttention", "GroupQueryAttention"])
def test_gates_and_windows_of_attention(kind: str, tmp_path: Path) -> None:
    x = keras.Input((7, 12), name="x")
    heads = (2, 4) if kind == "MultiHeadAttention" else (4, 4, 2)
    layers = [getattr(L, kind)(*heads, **settings) for settings in ({"use_gate": True}, {"sliding_window": 3})]
    model = keras.Model(x, [layers[0](x, x), layers[1](x, x, use_causal_mask=True)])
    agrees(model, [np.random.default_rng(0).normal(size=(2, 7, 12)).astype(np.float32)], tmp_path)


def test_axes_of_attention(tmp_path: Path) -> None:
    x = keras.Input((3, 5, 8), name="x")
    model = keras.Model(x, [L.MultiHeadAttention(2, 4, attention_axes=axes)(x, x) for axes in ((2,), (1, 2), None)])
    agrees(model, [np.random.default_rng(0).normal(size=(2, 3, 5, 8)).astype(np.float32)], tmp_path)


@pytest.mark.parametrize(("policy", "tolerance"), [("mixed_float16", 5e-3), ("mixed_bfloat16", 5e-2)])
def test_mixed_precision(policy: str, tolerance: float, tmp_path: Path) -> None:
    x = keras.Input((6,), name="x")
    y = L.LayerNormalization(dtype=policy)(L.Dense(8, "gelu", dtype=policy)(x))
    y = L.BatchNormalization(dtype=policy)(y)
    model = keras.Model(x, [y, L.Dense(4, dtype="float32")(y), keras.ops.tanh(y), L.Concatenate(dtype=policy)([y, x])])
    agrees(model, [np.random.default_rng(0).normal(size=(3, 6)).astype(np.float32)], tmp_path, tolerance)


def test_integers_that_are_multiplied(tmp_path: Path) -> None:
    """The weights are no integers, whatever the operand is."""
    inputs = [keras.Input((4,), dtype=dtype, name=name) for name, dtype in (("a", "int32"), ("b", "uint8"))]
    a, b = inputs
    model = keras.Model(inputs, [L.Dense(3)(a), L.Dense(3)(b), L.Concatenate()([a, b]), L.Add()([a, L.Dense(4)(b)])])
    random = np.random.default_rng(0)
    agrees(model, [random.integers(0, 9, (2, 4)).astype(x.dtype) for x in inputs], tmp_path)


@pytest.mark.parametrize("file", ["model.keras", "model.h5"])
def test_layers_of_several_models(file: str, tmp_path: Path) -> None:
    """A layer that nested models share is stored once, where the first of them is."""
    dense, norm = L.Dense(6, "tanh"), L.BatchNormalization()
    row = keras.Sequential([keras.Input((6,)), dense, norm, L.Dense(5)], name="row")
    a = keras.Input((6,))
    other = keras.Model(a, norm(dense(L.Dense(6)(a))), name="other")
    x = keras.Input((6,), name="x")
    model = keras.Model(x, L.Concatenate()([row(x), other(x), dense(x), row(other(x))]))
    agrees(model, [np.random.default_rng(0).normal(size=(3, 6)).astype(np.float32)], tmp_path, 1e-5, file)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic", "lanczos3", "lanczos5", "nearest"])
def test_resized_pictures(mode: str, tmp_path: Path) -> None:
    """Smaller in one dimension and larger in the other, with and without a filter; of integers, too."""
    x, y = keras.Input((11, 13, 3), name="x"), keras.Input((11, 13, 3), dtype="uint8", name="y")
    made = [
        L.Resizing(6, 20, interpolation=mode, antialias=antialias)(each)
        for antialias in (False, True)
        for each in (x, y)
    ]
    random = np.random.default_rng(0)
    given = [
        random.uniform(0, 255, (2, 11, 13, 3)).astype(np.float32),
        random.integers(0, 256, (2, 11, 13, 3)).astype(np.uint8),
    ]
    agrees(keras.Model([x, y], [*made, L.CenterCrop(9, 20)(x)]), given, tmp_path, 1e-4)


def test_the_order_of_calls() -> None:
    """The furthest from the outputs first; calls of one layer count as its furthest."""

    def layer(name: str, *calls: str) -> Layer:
        made = tuple(Applied((Ref(each, 0, 0),), {}) for each in calls)
        return Layer("Dense", "", name, {}, made)

    layers = (layer("x"), layer("near", "x"), layer("far", "x"), layer("next", "far"))
    outputs = (("", Ref("near", 0, 0)), ("", Ref("next", 0, 0)))
    network = Network("n", layers, (Ref("x", 0, 0),), outputs, False, {each.name: each for each in layers})
    assert calls_in_order(network) == [("far", 0), ("next", 0), ("near", 0)]
    circle = (layer("x"), layer("a", "b"), layer("b", "a"))
    calls_in_order(
        Network("n", circle, (Ref("x", 0, 0),), (("", Ref("a", 0, 0)),), False, {each.name: each for each in circle})
    )
