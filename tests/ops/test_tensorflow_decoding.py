"""TensorFlow's greedy decoder of CTC, beside NumPy's view of its kernel."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import sterna
from sterna.debug.interpret import interpret
from sterna.errors import SternaError
from sterna.frontends.formats import read_model
from sterna.frontends.frontend import ReadOptions
from support.graph_defs import GraphWriter

Array = np.ndarray
RESULTS = ("indices", "values", "shape", "sums")


def decoder(folder: Path, shape: tuple[int, int, int], merged: bool, blank: int) -> Path:
    g = GraphWriter()
    g.input("x", shape)
    g.input("lengths", (shape[1],), "int32")
    g.node("CTCGreedyDecoder", ["x", "lengths"], name="d", merge_repeated=merged, blank_index=blank)
    for n, name in enumerate(RESULTS):
        g.node("Identity", [f"d:{n}"], name=name)
    return g.write(folder)


def reference(x: Array, lengths: Array, merged: bool, blank: int) -> tuple[Array, ...]:
    """CTCGreedyDecoderOp::Compute."""
    indices, values, longest = list[tuple[int, int]](), list[int](), 0
    sums = np.zeros((x.shape[1], 1), np.float32)
    for image, length in enumerate(lengths):
        last, text = -1, list[int]()
        for scores in x[:length, image]:
            best = int(scores.argmax())
            sums[image] -= scores[best]
            if best != blank % x.shape[2] and not (merged and best == last):
                text.append(best)
            last = best
        indices += [(image, place) for place in range(len(text))]
        values += text
        longest = max(longest, len(text))
    return np.array(indices).reshape(-1, 2), np.array(values), np.array([x.shape[1], longest]), sums


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(1, 9), st.integers(1, 3), st.integers(1, 4), st.booleans(), st.booleans(), st.integers(0, 99))
def test_greedy(tmp_path: Path, steps: int, batch: int, symbols: int, merged: bool, first: bool, seed: int) -> None:
    random = np.random.default_rng(seed)
    x = random.normal(size=(steps, batch, symbols)).astype(np.float32)
    lengths = random.integers(0, steps + 1, batch).astype(np.int32)
    blank = 0 if first else -1
    graph = read_model(decoder(tmp_path, x.shape, merged, blank), ReadOptions())
    found = interpret(graph, {"x": x, "lengths": lengths})
    for name, expected in zip(RESULTS, reference(x, lengths, merged, blank), strict=True):
        np.testing.assert_allclose(found[name], expected, rtol=1e-5, atol=1e-6)
        assert found[name].shape == expected.shape


@pytest.mark.family("host-llvm")
def test_greedy_compiled(tmp_path: Path) -> None:
    x = np.random.default_rng(3).normal(size=(7, 2, 3)).astype(np.float32)
    lengths = np.array([7, 4], np.int32)
    with sterna.compile(decoder(tmp_path, x.shape, True, -1), generator="llvm") as bundle:
        found = bundle.run({"x": x, "lengths": lengths})
        for name, expected in zip(RESULTS, reference(x, lengths, True, -1), strict=True):
            np.testing.assert_allclose(found[name], expected, rtol=1e-5, atol=1e-6)


def test_a_blank_that_is_no_symbol_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SternaError) as caught:
        read_model(decoder(tmp_path, (3, 2, 4), True, 9), ReadOptions())
    assert caught.value.codes == ("E0109",)


def test_numbers_that_are_nearly_equal(tmp_path: Path) -> None:
    g = GraphWriter()
    g.input("x", (3,))
    g.node("ApproximateEqual", ["x", g.constant(np.float32([1, 1, 1]))], name="y", tolerance=0.1)
    found = interpret(read_model(g.write(tmp_path), ReadOptions()), {"x": np.float32([1.05, 0.95, 1.2])})
    assert found["y"].tolist() == [True, True, False]
