"""Soft suppression of boxes beside TensorFlow's results and beside the queue of its kernel."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import sterna
from sterna.debug.interpret import interpret
from sterna.frontends.formats import read_model
from support.graph_defs import GraphWriter

Array = np.ndarray
Chosen = list[tuple[int, float]]

#: Corners, scores in eighths, most, overlap, least score, sigma, padded; and what TensorFlow 2.21 gives for them:
#: positions, scores, how many. Scores below 0 rise, equal boxes and scores, corners the other way round, none left.
CASES: tuple[tuple[Any, ...], ...] = (
    ([[0, 1, 1, 6], [3, 2, 4, 4], [1, 0, 5, 1], [3, 2, 4, 4], [1, 3, 5, 6]],
     [-6, -4, -4, 2, 4], 4, 0.0, -0.5, 0.5, True,
     [4, 3, 0, 0], [0.5, 0.2485251, 0.0, 0.0], 2),
    ([[2, 4, 3, 5], [2, 0, 6, 1], [2, 3, 7, 8], [0, 2, 4, 4], [1, 3, 3, 6], [2, 4, 3, 5]],
     [-7, 3, -7, -5, -4, -7], 6, 0.5, -np.inf, 0.5, False,
     [1, 4, 3, 0, 2, 5], [0.375, -0.5, -0.6078778, -0.8510289, -0.8600426, -0.3125755], 6),
    ([[4, 0, 8, 5], [8, 6, 4, 2], [2, 1, 5, 6], [1, 1, 6, 4], [3, 3, 7, 5], [1, 4, 6, 7]],
     [1, 2, -4, 7, -2, -2], 8, 0.5, -1.0, 0.1, True,
     [3, 1, 0, 4, 5, 2, 0, 0], [0.875, 0.2240169, 0.02891275, -0.08836752, -0.1965381, -0.0964619, 0.0, 0.0], 6),
    ([[4, 2, 9, 5], [1, 2, 3, 4], [4, 4, 8, 7], [1, 1, 4, 3], [2, 2, 5, 3], [1, 1, 2, 2], [4, 2, 9, 5]],
     [-6, -8, 8, 5, -6, 5, 1], 5, 0.3, 0.2, 0.5, True,
     [2, 3, 5, 0, 0], [1.0, 0.625, 0.6078778, 0.0, 0.0], 3),
    ([[0, 0, 2, 4], [0, 4, 1, 9], [0, 1, 2, 6], [0, 3, 3, 6], [0, 2, 4, 7]],
     [-7, -8, -5, -4, -3], 5, 1.0, -3e38, 1.0, False,
     [4, 3, 2, 0, 1], [-0.375, -0.4518535, -0.5259084, -0.754795, -0.9655854], 5),
    ([[0, 1, 2, 4], [6, 7, 4, 2], [4, 4, 6, 9], [1, 4, 4, 9], [0, 0, 4, 5], [0, 1, 2, 4]],
     [0, 8, 4, -2, 3, -8], 6, 0.1, 0.0, 0.25, False,
     [1, 4, 2], [1.0, 0.375, 0.3462847], 3),
    ([[1, 0, 6, 4], [2, 1, 5, 4], [2, 4, 7, 7], [4, 2, 7, 7]],
     [-5, -4, -7, -6], 3, 0.5, 2.5, 0.5, True,
     [0, 0, 0], [0.0, 0.0, 0.0], 0),
    ([[0, 3, 5, 8], [3, 3, 5, 4], [1, 0, 2, 1], [4, 3, 7, 4], [1, 1, 6, 6], [0, 3, 5, 8]],
     [6, -4, -1, -6, 3, 6], 6, 0.1, -0.25, 0.25, False,
     [0, 4, 5, 2], [0.75, 0.3071942, 0.08314843, -0.125], 4),
)  # fmt: skip


def model(folder: Path, boxes: Array, scores: Array, most: int, limits: list[float], padded: bool) -> Path:
    """NonMaxSuppressionV5; limits: overlap, least score, sigma."""
    g = GraphWriter()
    kind = scores.dtype.type
    given = [g.input("b", boxes.shape, str(boxes.dtype)), g.input("s", scores.shape, str(scores.dtype))]
    constants = [g.constant(np.int32(most)), *(g.constant(kind(x)) for x in limits)]
    g.node("NonMaxSuppressionV5", [*given, *constants], name="y", pad_to_max_output_size=padded)
    for n in range(3):
        g.node("Identity", [f"y:{n}"], name=f"y{n}")
    return g.write(folder)


def suppressed(
    boxes: Array, scores: Array, most: int, limits: list[float], padded: bool, compiled: bool = False
) -> list[Array]:
    """Positions, scores, how many."""
    with tempfile.TemporaryDirectory() as folder:
        file = model(Path(folder), boxes, scores, most, limits, padded)
        if compiled:
            with sterna.compile(file, generator="llvm", tuning=False) as bundle:
                return list(bundle.run({"b": boxes, "s": scores}).values())
        return list(interpret(read_model(file), {"b": boxes, "s": scores}).values())


def queue(boxes: Array, scores: Array, most: int, least: float, sigma: float) -> Chosen:
    """The kernel's queue: a score is scaled only when its candidate is the first, which then waits again."""
    low, high = np.minimum(boxes[:, :2], boxes[:, 2:]), np.maximum(boxes[:, :2], boxes[:, 2:])

    def kept(a: int, b: int) -> np.float32:
        common = np.prod(np.maximum(np.minimum(high[a], high[b]) - np.maximum(low[a], low[b]), 0))
        areas = np.prod(high - low, axis=1)
        share = common / (areas[a] + areas[b] - common) if min(areas[a], areas[b]) > 0 else np.float32(0)
        return np.float32(np.exp(np.float32(-0.5 / sigma) * share * share))

    waiting = {n: (s, 0) for n, s in enumerate(scores) if s > least}  # a score, how many have scaled it
    chosen: Chosen = []
    while waiting and len(chosen) < most:
        first = max(waiting, key=lambda n: (waiting[n][0], -n))
        before, seen = waiting.pop(first)
        score = before
        for other, _ in reversed(chosen[seen:]):
            score = score * kept(first, other)
            if score <= least:
                break
        if score == before:
            chosen.append((first, float(score)))
        elif score > least:
            waiting[first] = (score, len(chosen))
    return chosen


@pytest.mark.parametrize("number", range(len(CASES)))
def test_results_of_tensorflow(number: int) -> None:
    corners, eighths, most, overlap, least, sigma, padded, places, best, count = CASES[number]
    boxes, scores = np.array(corners, np.float32), np.array(eighths, np.float32) / 8
    rows, values, found = suppressed(boxes, scores, most, [overlap, least, sigma], padded, compiled=number in (1, 2))
    assert int(found) == count
    assert rows.tolist() == places
    np.testing.assert_allclose(values, np.array(best, np.float32), rtol=1e-6)
    assert [n for n, _ in queue(boxes, scores, most, least, sigma)] == places[:count]


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    st.integers(1, 12), st.integers(0, 14), st.sampled_from([0.0, 0.2, -0.3, -1.0, -3e38, -np.inf, 9.0]),
    st.sampled_from([0.1, 0.5, 2.0]), st.booleans(), st.integers(0, 99),
)  # fmt: skip
@example(5, 0, -1.0, 0.5, False, 0)
@example(5, 0, -1.0, 0.5, True, 0)
def test_the_queue_of_the_kernel(count: int, most: int, least: float, sigma: float, padded: bool, seed: int) -> None:
    random = np.random.default_rng(seed)
    boxes = random.uniform(size=(count, 4)).astype(np.float32)
    scores = (random.normal(size=count) if seed % 2 else random.integers(-3, 4, count) / 3).astype(np.float32)
    rows, values, found = suppressed(boxes, scores, most, [0.5, least, sigma], padded)
    wanted = queue(boxes, scores, most, least, sigma)
    assert int(found) == len(wanted)
    assert len(rows) == len(values) == (most if padded else len(wanted))
    assert rows[: len(wanted)].tolist() == [n for n, _ in wanted]
    np.testing.assert_allclose(values[: len(wanted)], [s for _, s in wanted], rtol=1e-5)
    assert not rows[len(wanted) :].any()
    assert not values[len(wanted) :].any()


@pytest.mark.parametrize("sigma", [0.0, 0.5])
def test_scores_keep_their_element_type(sigma: float) -> None:
    boxes, scores = np.array([[0, 0, 1, 1], [2, 2, 3, 3]], np.float16), np.array([0.25, 0.75], np.float16)
    rows, values, found = suppressed(boxes, scores, 3, [0.5, 0.0, sigma], True)
    assert (rows.tolist(), int(found)) == ([1, 0, 0], 2)
    assert values.dtype == np.float16
    assert values.tolist() == [0.75, 0.25, 0.0]
