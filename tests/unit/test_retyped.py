"""What tests and sweeps measure roundings by: the same network in float64, and in float16."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import numpy_helper, parser

from sterna.debug.interpret import interpret
from sterna.frontends.formats import read_model
from support.control_flow import CHOICE, TRIPS, model, numbers
from support.retyped import HALF, LARGEST, WIDE, as_types, in_float64, in_halves, run_in_float64


def test_nothing_is_rounded(tmp_path: Path) -> None:
    """(x + big) - big is x in float64, and zero in float32."""
    text = """agraph (float[4] x) => (float[4] y) <float[1] big = {1e8}> { a = Add(x, big)  y = Sub(a, big) }"""
    x = np.array([0.5, 1.25, -3.0, 1e-3], np.float32)
    (found,) = run_in_float64(read_model(parser.parse_model(model(text))), [{"x": x}], tmp_path / "bundle")
    np.testing.assert_allclose(found["y"], x, atol=2e-8)
    assert found["y"].dtype == np.float64


def test_halves_are_widened(tmp_path: Path) -> None:
    """A network in float16 is computed in float64 too: 2048 + 1 is none in float16."""
    text = "agraph (float16[4] x, float16[1] big) => (float16[4] y) { a = Add(x, big)  y = Sub(a, big) }"
    given = {"x": np.array([1, 3, 0.5, -1], np.float16), "big": np.array([2048], np.float16)}
    (found,) = run_in_float64(read_model(parser.parse_model(model(text))), [given], tmp_path / "bundle")
    np.testing.assert_array_equal(found["y"], given["x"].astype(np.float64))


@pytest.mark.parametrize("text", [CHOICE, TRIPS])
def test_control_flow(text: str) -> None:
    graph = read_model(parser.parse_model(model(text)))
    given = {"hot": np.array(True), "x": numbers(3, 4), "y": numbers(4, 4)}
    if text == TRIPS:
        given = {"trips": np.array(3), "first": numbers(4, 4), "x": numbers(4, 4)}
    wanted = interpret(graph, given)
    for made, types, near in ((in_float64(graph), WIDE, 1e-5), (in_halves(graph), HALF, 2e-2)):
        assert not made.kept
        found = interpret(made.graph, as_types(given, types))
        for name, array in wanted.items():
            assert found[name].dtype == (np.float64 if types is WIDE else np.float16)
            np.testing.assert_allclose(found[name].astype(np.float64), array, near, near * np.abs(array).max())


def test_what_does_not_fit_is_named() -> None:
    graph = parser.parse_model(
        model("agraph (float[3] x) => (float[3] y) <float[3] mask = {0, 0, 0}> { y = Add(x, mask) }")
    )
    mask = np.array([-1e9, -np.inf, LARGEST], np.float32)
    graph.graph.initializer[0].CopyFrom(numpy_helper.from_array(mask, "mask"))
    made = in_halves(read_model(graph))
    assert made.beyond == ("mask",)
    found = interpret(made.graph, {"x": np.zeros(3, np.float16)})["y"]
    np.testing.assert_array_equal(found, np.array([-LARGEST, -np.inf, LARGEST], np.float16))


def test_what_takes_float32_alone_stays_so() -> None:
    """LSTM is of float32 in Sterna: it is computed so, between casts."""
    text = """
    agraph (float[5, 1, 3] x) => (float[5, 1, 1, 4] y) { y = LSTM <hidden_size = 4> (x, w, r) }"""
    source = parser.parse_model(model(text))
    source.graph.initializer.append(numpy_helper.from_array(numbers(1, 16, 3), "w"))
    source.graph.initializer.append(numpy_helper.from_array(numbers(1, 16, 4), "r"))
    graph = read_model(source)
    made, x = in_halves(graph), numbers(5, 1, 3)
    assert made.kept == ("lstm",)
    (found,), (wanted,) = (
        tuple(interpret(made.graph, {"x": x.astype(np.float16)}).values()),
        tuple(interpret(graph, {"x": x.astype(np.float16).astype(np.float32)}).values()),
    )
    assert found.dtype == np.float16
    np.testing.assert_allclose(found.astype(np.float32), wanted, 1e-3, 1e-3)
