"""Dimensions that are made of others: as exporters write them (`past + 1`), and as users say it (`total=past+1`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto

import sterna
from sterna.frontends.formats import read_model
from sterna.frontends.frontend import ReadOptions
from sterna_runtime.cli.values import dim
from support.open_networks import OpenGraph

onnxruntime = pytest.importorskip("onnxruntime", reason="needs onnxruntime: the reference")


def decode_step(total: str) -> onnx.ModelProto:
    """A word's scores with the keys before it and its own, where a mask lets it see them."""
    g = OpenGraph(seed=1)
    mask = g.input("mask", [1, total], TensorProto.INT64)
    query, past = g.input("query", [1, 1, 8]), g.input("keys", [1, "past", 8])
    keys = g.node("Concat", past, query, axis=1)
    scores = g.node("MatMul", query, g.node("Transpose", keys, perm=[0, 2, 1]))
    hidden = g.node("Mul", g.node("Cast", mask, to=TensorProto.FLOAT), g.constant(np.float32(1e4)))
    g.output(g.node("Softmax", g.node("Add", scores, hidden), axis=-1))
    return g.finished("step")


def halved() -> onnx.ModelProto:
    """An image of an even height, halved, doubled and joined to itself."""
    g = OpenGraph(seed=2)
    x = g.input("x", [1, 2, "2*h", 6])
    half = g.node("MaxPool", x, kernel_shape=[2, 1], strides=[2, 1])
    twice = g.node("Resize", half, "", g.constant(np.array([1, 1, 2, 1], np.float32)), mode="nearest")
    g.output(g.node("Concat", x, twice, axis=1))
    return g.finished("halved")


CASES = [("past + 1", {"past": (1, 20)}), ("total", {"total": "past+1", "past": (1, 20)})]


@pytest.mark.parametrize(("total", "dims"), CASES, ids=["declared", "given"])
def test_a_mask_of_one_more_than_the_cache(total: str, dims: dict[str, Any], tmp_path: Path) -> None:
    model, random = decode_step(total), np.random.default_rng(3)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    with sterna.compile(model, dims=dims, generator="llvm", output=tmp_path / "step") as bundle:
        assert bundle.dims == {"past": (1, 20)}
        for past in (1, 9, 20):
            inputs = {
                "mask": random.integers(0, 2, (1, past + 1)),
                "query": random.standard_normal((1, 1, 8)).astype(np.float32),
                "keys": random.standard_normal((1, past, 8)).astype(np.float32),
            }
            (found,), (wanted,) = bundle.run(inputs).values(), session.run(None, inputs)
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
        with pytest.raises(sterna.SternaError, match=r"is 5; the model expects past \+ 1, here 9"):
            bundle.run({**inputs, "mask": np.ones((1, 5), np.int64), "keys": inputs["keys"][:, :8]})


@pytest.mark.parametrize(
    "given", [{"dims": {"h": (2, 9)}}, {"dims": {"2*h": (4, 18, 2)}}, {"shapes": {"x": (1, 2, 8, 6)}}], ids=str
)
def test_multiples_that_a_model_declares(given: dict[str, Any]) -> None:
    graph = read_model(halved(), ReadOptions(**given))
    assert graph.outputs[0].shape == (1, 4, graph.inputs[0].shape[2], 6)


def test_sizes_that_are_given_say_what_others_are() -> None:
    graph = read_model(decode_step("past + 1"), ReadOptions(shapes={"keys": (1, 4, 8)}))
    assert graph.inputs[0].shape == (1, 5)


def test_names_with_hyphens_are_no_differences() -> None:
    """As of converters that number dimensions."""
    g = OpenGraph(seed=1)
    g.output(g.node("Add", g.input("x", ["dim", "dim-1"]), g.constant(np.float32(1))))
    graph = read_model(g.finished("hyphens"), ReadOptions(dims={"dim": (1, 8), "dim-1": (1, 8)}))
    assert len(set(graph.inputs[0].shape)) == 2
    assert "shapes=" in refused(g.finished("hyphens"), {"dim": 4})


def test_what_is_to_be_said_of_dimensions() -> None:
    step = decode_step("total")
    assert "do not broadcast" in refused(step, {"past": (1, 20), "total": (2, 21)})
    assert 'fix: if they are equal: dims={"total": "past+1"}' in refused(step, {"past": (1, 20), "total": (2, 21)})
    assert 'dims={"past": <size>}' in refused(decode_step("past + 1"), {})
    assert 'dims={"h": <size>}' in refused(halved(), {})


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("past-9", "the dimension total cannot be past-9: -8 to 11"),
        ("passed+1", '(?s)no dimension "passed".*its named dimensions: past, total'),
        (
            "totals+passed",
            '(?s)"totals".*its named dimensions: total, past.*"passed".*its named dimensions: past, total',
        ),
        ("total", "the dimension total is given as total, and total is not given"),
        ("exp(past)", "the dimension total cannot be exp"),
        ("past+", "an expression is needed"),
        ("12", "an expression is needed"),
    ],
)
def test_expressions_that_are_none(text: str, title: str) -> None:
    with pytest.raises(sterna.SternaError, match=title):
        sterna.compile(decode_step("total"), dims={"past": (1, 20), "total": text})


def test_as_words_of_a_command_line() -> None:
    assert dim("total=past + 1") == ("total", "past + 1")
    assert dim("2*h=4..16:2") == ("2*h", (4, 16, 2))
    for text in ("total=past+", "total=8x", "total=1..x", "total="):
        with pytest.raises(sterna.SternaError, match="NAME=EXPRESSION"):
            dim(text)


def refused(model: onnx.ModelProto, dims: dict[str, Any]) -> str:
    with pytest.raises(sterna.SternaError) as caught:
        read_model(model, ReadOptions(dims=dims))
    return str(caught.value)
