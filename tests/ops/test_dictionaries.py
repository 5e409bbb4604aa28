"""Dictionaries with keys of every kind and distance, against Python's."""

from __future__ import annotations

from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper

from sterna.debug.interpret import interpret
from sterna.frontends.onnx import read
from sterna.frontends.onnx.operators import dictionaries
from sterna.pipeline import optimize
from support.compiling import run

Array = np.ndarray[Any, Any]
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)


def encoder(x: Array, keys: Array, values: Array, otherwise: Array) -> onnx.ModelProto:
    tensors = (("keys", keys), ("values", values), ("default", otherwise))
    attributes = {f"{name}_tensor": numpy_helper.from_array(array) for name, array in tensors}
    node = helper.make_node("LabelEncoder", ["x"], ["y"], domain="ai.onnx.ml", **attributes)
    kinds = [helper.np_dtype_to_tensor_dtype(a.dtype) for a in (x, values)]
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info("x", kinds[0], x.shape)],
        [helper.make_tensor_value_info("y", kinds[1], x.shape)],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", 4)])


def expected(x: Array, keys: Array, values: Array, otherwise: Array) -> Array:
    """The value of the first key that is equal; NaN equals itself."""

    def name(key: Any) -> Any:
        return "nan" if np.isnan(key) else key

    table: dict[Any, Any] = {}
    for key, value in zip(keys.tolist(), values, strict=True):
        table.setdefault(name(key), value)
    return np.array([table.get(name(v), otherwise[0]) for v in x.tolist()], values.dtype)


@st.composite
def dictionaries_of_integers(draw: st.DrawFn) -> tuple[Array, Array]:
    """What is looked up, and keys: near one another, or anywhere."""
    numbers = draw(
        st.sampled_from([INT64, st.integers(-20, 20), st.integers(0, 1 << 20), st.integers(1 << 62, (1 << 62) + 9)])
    )
    keys = draw(st.lists(numbers, min_size=1, max_size=60))
    asked = draw(st.lists(st.one_of(st.sampled_from(keys), numbers, INT64), min_size=1, max_size=40))
    return np.array(asked, np.int64), np.array(keys, np.int64)


@settings(deadline=None)
@given(dictionaries_of_integers())
def test_integers(drawn: tuple[Array, Array]) -> None:
    x, keys = drawn
    values, otherwise = np.arange(1, len(keys) + 1, dtype=np.float32), np.array([-1], np.float32)
    (found,) = interpret(optimize(read(encoder(x, keys, values, otherwise)), check=True), {"x": x}).values()
    np.testing.assert_array_equal(found, expected(x, keys, values, otherwise))


@settings(deadline=None)
@given(st.data(), st.sampled_from([np.float32, np.float64]))
def test_floats(data: st.DataObject, dtype: type) -> None:
    width = np.dtype(dtype).itemsize * 8
    numbers = st.one_of(st.floats(width=width), st.sampled_from([0.0, -0.0, 1.0, float("inf"), float("nan")]))
    keys = np.array(data.draw(st.lists(numbers, min_size=1, max_size=30)), dtype)
    x = np.array(
        data.draw(st.lists(st.one_of(st.sampled_from(keys.tolist()), numbers), min_size=1, max_size=30)), dtype
    )
    values, otherwise = np.arange(len(keys)), np.array([-1])
    (found,) = interpret(optimize(read(encoder(x, keys, values, otherwise)), check=True), {"x": x}).values()
    np.testing.assert_array_equal(found, expected(x, keys, values, otherwise))


@pytest.mark.parametrize("generator", ["c", "llvm"])
@pytest.mark.parametrize("way", ["table", "hash", "search"])
def test_every_way_compiled(way: str, generator: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand keys; where no hash is found, the keys are searched by halves."""
    if way == "search":
        monkeypatch.setattr(dictionaries, "_TRIES", 0)
    random = np.random.default_rng(1)
    keys = random.permutation(1000) * (1 if way == "table" else 0x123456789AB)
    x = np.concatenate([random.choice(keys, 500), random.integers(-(1 << 63), 1 << 63, 500), keys[:9] + 1])
    values, otherwise = random.standard_normal(1000), np.array([0.5])
    graph = read(encoder(x, keys, values, otherwise))
    names = {node.op for node in graph.nodes}
    assert ("look_up" in names, "bitwise_xor" in names) == (way == "search", way == "hash")
    (found,) = run(graph, {"x": x}, tmp_path / "bundle", generator).values()
    np.testing.assert_array_equal(found, expected(x, keys, values, otherwise))


@pytest.mark.parametrize("count", [1, 2, 3, 1000, 100_000])
def test_hashes_are_found(count: int) -> None:
    """Of any number of keys, in a time and room that grow with it."""
    keys = np.unique(np.random.default_rng(count).integers(-(1 << 63), 1 << 63, count))
    before = process_time()
    found = dictionaries._displaced(keys)
    # 0.3 s for the most; twenty times that where every bucket looks at every place.
    assert process_time() - before < 3
    assert found is not None
    assert len(found.places) <= max(8, 5 * count)
    assert sorted(found.places[found.places >= 0]) == list(range(len(keys)))
