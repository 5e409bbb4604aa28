"""Operators of TensorFlow that count, against NumPy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sterna.debug.interpret import interpret
from sterna.errors import SternaError
from sterna.frontends.formats import read_model
from sterna.frontends.frontend import ReadOptions
from support.graph_defs import GraphWriter, Kind

SETTINGS = settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def result(writer: GraphWriter, folder: Path, **feeds: np.ndarray) -> np.ndarray:
    (found,) = interpret(read_model(writer.write(folder), ReadOptions()), feeds).values()
    return found


@SETTINGS
@given(st.lists(st.sampled_from([-1.5, 0.0, 0.25, 2.0]), min_size=1, max_size=9), st.integers(1, 4))
def test_buckets(tmp_path: Path, numbers: list[float], count: int) -> None:
    """A number that is a boundary belongs to the bucket above it."""
    x, bounds = np.array(numbers, np.float32), [-1.5, 0.25, 1.0, 2.0][:count]
    g = GraphWriter()
    g.input("x", x.shape)
    g.node("Bucketize", ["x"], name="y", boundaries=bounds)
    found = result(g, tmp_path, x=x)
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, np.digitize(x, bounds))


@SETTINGS
@given(st.integers(1, 3), st.integers(1, 6), st.integers(1, 5), st.booleans(), st.integers(0, 9))
def test_places_in_sorted_rows(tmp_path: Path, rows: int, length: int, count: int, upper: bool, seed: int) -> None:
    random = np.random.default_rng(seed)
    sorted_rows = np.sort(random.integers(0, 5, (rows, length))).astype(np.float32)
    x = random.integers(-1, 6, (rows, count)).astype(np.float32)
    g = GraphWriter()
    g.input("x", x.shape)
    op = "UpperBound" if upper else "LowerBound"
    g.node(op, [g.constant(sorted_rows), "x"], name="y", out_type=Kind("int64"))
    side = "right" if upper else "left"
    wanted = [np.searchsorted(row, values, side) for row, values in zip(sorted_rows, x, strict=True)]
    found = result(g, tmp_path, x=x)
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(("size", "code"), [(2**31 - 1, "E0116"), (-1, "E0109")])
def test_sizes_that_no_count_has_are_refused(tmp_path: Path, size: int, code: str) -> None:
    g = GraphWriter()
    g.input("x", (7,), "int32")
    g.node("DenseBincount", ["x", g.constant(np.int32(size)), g.constant(np.zeros(0, np.float32))], name="y")
    with pytest.raises(SternaError, match=code):
        read_model(g.write(tmp_path), ReadOptions())


@SETTINGS
@given(st.sampled_from([(7,), (2, 5)]), st.booleans(), st.booleans(), st.integers(1, 6), st.integers(0, 9))
def test_how_often(tmp_path: Path, shape: tuple[int, ...], weighted: bool, binary: bool, size: int, seed: int) -> None:
    """Numbers that are not below the size are passed over."""
    random = np.random.default_rng(seed)
    x = random.integers(0, 8, shape).astype(np.int32)
    weights = random.normal(size=shape if weighted and not binary else (0,)).astype(np.float32)
    g = GraphWriter()
    g.input("x", x.shape, "int32")
    g.node("DenseBincount", ["x", g.constant(np.int32(size)), g.constant(weights)], name="y", binary_output=binary)
    rows, factors = x.reshape(-1, shape[-1]), weights.reshape(-1, shape[-1]) if weights.size else [None] * 9
    counts = [np.bincount(row, factor, 9)[:size] for row, factor in zip(rows, factors, strict=False)]
    wanted = np.reshape(counts, (*shape[:-1], size))
    np.testing.assert_allclose(result(g, tmp_path, x=x), wanted > 0 if binary else wanted, atol=1e-6)


def test_a_size_that_is_held_to_one_number(tmp_path: Path) -> None:
    """As tf.math.bincount writes it where `minlength` and `maxlength` are the same."""
    x = np.array([0, 3, 3, 7], np.int32)
    g = GraphWriter()
    g.input("x", x.shape, "int32")
    g.node("Max", ["x", g.constant(np.array([0], np.int32))], name="largest")
    g.node("Maximum", [g.constant(np.int32(5)), "largest"], name="longer")
    g.node("Minimum", [g.constant(np.int32(5)), "longer"], name="size")
    g.node("DenseBincount", ["x", "size", g.constant(np.zeros(0, np.float32))], name="y")
    np.testing.assert_array_equal(result(g, tmp_path, x=x), [1, 0, 0, 2, 0])


def test_a_size_that_is_not_known(tmp_path: Path) -> None:
    g = GraphWriter()
    g.input("x", (3,), "int32")
    g.node("Max", ["x", g.constant(np.array([0], np.int32))], name="largest")
    g.node("Maximum", [g.constant(np.int32(4)), "largest"], name="longer")
    g.node("Minimum", [g.constant(np.int32(5)), "longer"], name="size")
    g.node("DenseBincount", ["x", "size", g.constant(np.zeros(0, np.float32))], name="y")
    with pytest.raises(SternaError, match="needs the size to be constant"):
        result(g, tmp_path, x=np.zeros(3, np.int32))


@pytest.mark.parametrize("shape", [(), (6,), (2, 3)])
def test_how_often_in_all(shape: tuple[int, ...], tmp_path: Path) -> None:
    """Bincount of version 1 takes any shape as one row."""
    x = np.random.default_rng(1).integers(0, 4, shape).astype(np.int32)
    g = GraphWriter()
    g.input("x", x.shape, "int32")
    g.node("Bincount", ["x", g.constant(np.int32(4)), g.constant(np.zeros(0, np.int32))], name="y")
    np.testing.assert_array_equal(result(g, tmp_path, x=x), np.bincount(x.ravel(), minlength=4))
