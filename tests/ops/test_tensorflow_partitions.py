"""TensorFlow's segments, parts, diagonals, decompositions and transforms of several dimensions, against NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sterna.debug.interpret import interpret
from sterna.errors import SternaError
from sterna.frontends.formats import read_model
from sterna.frontends.frontend import ReadOptions
from support.graph_defs import GraphWriter, Kind

RNG = np.random.default_rng(7)
X = RNG.normal(size=(6, 3)).astype(np.float32)
SEGMENTS = np.array([0, 0, 2, 2, 2, 4], np.int32)


def results(folder: Path, op: str, *operands: Any, count: int = 1, **attributes: Any) -> list[np.ndarray]:
    """The results of one node; arrays are placeholders, names of nodes and constants of a graph in the same way."""
    g = GraphWriter()
    names, feeds = [], {}
    for n, operand in enumerate(operands):
        if isinstance(operand, tuple):  # a constant
            names.append(g.constant(*operand))
            continue
        names.append(g.input(f"x{n}", operand.shape, str(operand.dtype)))
        feeds[f"x{n}"] = operand
    g.node(op, names, name="made", **attributes)
    for n in range(count):
        g.node("Identity", [f"made:{n}"], name=f"y{n}")
    found = interpret(read_model(g.write(folder), ReadOptions()), feeds)
    return [found[f"y{n}"] for n in range(count)]


def rows_of(kind: str, count: int, empty: float) -> np.ndarray:
    reduce = {"Sum": np.sum, "Prod": np.prod, "Max": np.max, "Min": np.min, "Mean": np.mean}[kind]
    wanted = np.full((count, 3), empty, np.float32)
    for n in set(SEGMENTS.tolist()):
        wanted[n] = reduce(X[n == SEGMENTS], axis=0)
    return wanted


@pytest.mark.parametrize(("kind", "empty"), [("Sum", 0), ("Prod", 1), ("Max", 0), ("Min", 0), ("Mean", 0)])
def test_segments_in_order(tmp_path: Path, kind: str, empty: float) -> None:
    (found,) = results(tmp_path, f"Segment{kind}", X, (SEGMENTS,))
    np.testing.assert_allclose(found, rows_of(kind, 5, empty), atol=1e-6)


@pytest.mark.parametrize(("kind", "empty"), [("Sum", 0), ("Prod", 1), ("Max", np.finfo(np.float32).min)])
def test_segments_that_are_computed(tmp_path: Path, kind: str, empty: float) -> None:
    (found,) = results(tmp_path, f"Segment{kind}V2", X, SEGMENTS, (np.int32(6),))
    np.testing.assert_allclose(found, rows_of(kind, 6, empty), atol=1e-6)


@pytest.mark.parametrize("kind", ["Sum", "Mean", "SqrtN"])
def test_segments_of_named_rows(tmp_path: Path, kind: str) -> None:
    rows, places = np.array([5, 0, 0, 3], np.int32), np.array([0, 0, 1, 3], np.int32)
    (found,) = results(tmp_path, f"SparseSegment{kind}WithNumSegments", X, rows, places, (np.int32(5),))
    wanted = np.zeros((5, 3), np.float32)
    np.add.at(wanted, places, X[rows])
    sizes = np.maximum(np.bincount(places, minlength=5), 1)[:, None]
    wanted /= {"Sum": 1, "Mean": sizes, "SqrtN": np.sqrt(sizes)}[kind]
    np.testing.assert_allclose(found, wanted, atol=1e-6)


def test_parts_and_what_is_stitched_of_them(tmp_path: Path) -> None:
    """Two tensors of the same parts have parts of the same sizes."""
    parts = np.array([1, 0, 2, 1, 0, 0], np.int32)
    g = GraphWriter()
    g.input("x", X.shape)
    g.input("parts", parts.shape, "int32")
    g.node("DynamicPartition", ["x", "parts"], name="rows", num_partitions=3)
    g.node("DynamicPartition", [g.constant(np.arange(6, dtype=np.int32)), "parts"], name="places", num_partitions=3)
    g.node("Mul", ["rows:2", g.constant(np.float32(3))], name="scaled")
    names = ["places:0", "places:1", "places:2", "rows:0", "rows:1", "scaled"]
    g.node("DynamicStitch", names, name="y")
    (found,) = interpret(read_model(g.write(tmp_path), ReadOptions()), {"x": X, "parts": parts}).values()
    np.testing.assert_allclose(found, np.where(parts[:, None] == 2, 3 * X, X))


def test_different_slices_and_how_often_they_are(tmp_path: Path) -> None:
    x = np.array([[1, 2], [3, 4], [1, 2], [1, 2]], np.float32)
    found = results(tmp_path, "UniqueWithCountsV2", x, (np.array([0], np.int32),), count=3, out_idx=Kind("int32"))
    for each, wanted in zip(found, ([[1, 2], [3, 4]], [0, 1, 0, 0], [3, 1]), strict=True):
        np.testing.assert_array_equal(each, wanted)


def test_what_another_list_lacks(tmp_path: Path) -> None:
    x, y = np.array([5, 1, 2, 5, 9], np.int32), np.array([1, 9], np.int32)
    found = results(tmp_path, "ListDiff", x, y, count=2)
    np.testing.assert_array_equal(found[0], [5, 2, 5])
    np.testing.assert_array_equal(found[1], [0, 2, 3])


@pytest.mark.parametrize(("low", "high"), [(0, 0), (2, 2), (-3, -1), (-1, 2), (1, 4)])
@pytest.mark.parametrize("align", ["RIGHT_LEFT", "LEFT_RIGHT", "LEFT_LEFT", "RIGHT_RIGHT"])
def test_diagonals(tmp_path: Path, low: int, high: int, align: str) -> None:
    """Read, and written back in place of others."""
    x, other = (RNG.normal(size=(2, 4, 5)).astype(np.float32) for _ in range(2))
    numbers = np.array([low, high], np.int32)
    (found,) = results(tmp_path, "MatrixDiagPartV3", x, (numbers,), (np.float32(7),), align=align)
    longest = min(4 + min(high, 0), 5 - max(low, 0))
    wanted = np.full((2, high - low + 1, longest), 7, np.float32)
    for n, number in enumerate(range(high, low - 1, -1)):
        own = np.diagonal(x, number, 1, 2)
        first = longest - own.shape[1] if align.split("_")[number < 0] == "RIGHT" else 0
        wanted[:, n, first : first + own.shape[1]] = own
    wanted = wanted[:, 0] if low == high else wanted
    np.testing.assert_array_equal(found, wanted)
    (back,) = results(tmp_path, "MatrixSetDiagV3", other, wanted, (numbers,), align=align)
    band = np.triu(np.tril(np.ones((4, 5), bool), high), low)
    np.testing.assert_array_equal(back, np.where(band, x, other))


def test_singular_values_and_orthogonal_factors(tmp_path: Path) -> None:
    x = RNG.normal(size=(2, 5, 3)).astype(np.float32)
    s, u, v = results(tmp_path, "Svd", x, count=3)
    np.testing.assert_allclose(u * s[:, None] @ v.transpose(0, 2, 1), x, atol=1e-5)
    np.testing.assert_allclose(s, np.linalg.svd(x, compute_uv=False), rtol=1e-5)
    q, r = results(tmp_path, "Qr", x, count=2)
    np.testing.assert_allclose(q @ r, x, atol=1e-5)
    np.testing.assert_allclose(q.transpose(0, 2, 1) @ q, np.broadcast_to(np.eye(3), (2, 3, 3)), atol=1e-5)


@pytest.mark.parametrize("lengths", [(4, 6), (3, 9), (5, 4)])
def test_transforms_of_two_dimensions(tmp_path: Path, lengths: tuple[int, int]) -> None:
    x = RNG.normal(size=(2, 4, 6)).astype(np.float32)
    g = GraphWriter()
    g.input("x", x.shape)
    size = g.constant(np.array(lengths, np.int32))
    g.node("RFFT2D", ["x", size], name="spectrum")
    g.node("ComplexAbs", ["spectrum"], name="y")
    g.node("IRFFT2D", ["spectrum", size], name="z")
    found = interpret(read_model(g.write(tmp_path), ReadOptions()), {"x": x})
    wanted = np.fft.rfft2(x, lengths)
    np.testing.assert_allclose(found["y"], np.abs(wanted), atol=1e-4)
    np.testing.assert_allclose(found["z"], np.fft.irfft2(wanted, lengths), atol=1e-5)


@pytest.mark.parametrize("op", ["TruncatedNormal", "StatelessRandomNormal", "StatelessRandomUniformInt"])
def test_random_numbers_are_of_their_distribution(tmp_path: Path, op: str) -> None:
    operands: list[Any] = [(np.array([4000], np.int32),)]
    if op.startswith("Stateless"):
        operands.append((np.array([3, 4], np.int32),))
    if op.endswith("Int"):
        operands += [(np.int32(-2),), (np.int32(3),)]
    (y,) = results(tmp_path, op, *operands, dtype=Kind("int32" if op.endswith("Int") else "float32"))
    mean, deviation = {"TruncatedNormal": (0, 0.88), "StatelessRandomNormal": (0, 1)}.get(op, (0, 2**0.5))
    assert abs(y.mean() - mean) < 0.1
    assert abs(y.std() - deviation) < 0.1
    assert op != "TruncatedNormal" or np.abs(y).max() <= 2
    assert not op.endswith("Int") or set(y.tolist()) == {-2, -1, 0, 1, 2}


def test_a_histogram_counts_what_lies_outside_at_its_ends(tmp_path: Path) -> None:
    x = np.array([-9, -1, -0.2, 0.1, 0.9, 1, 30], np.float32)
    (y,) = results(tmp_path, "HistogramFixedWidth", x, (np.array([-1, 1], np.float32),), (np.int32(4),))
    np.testing.assert_array_equal(y, [2, 1, 1, 3])


@pytest.mark.parametrize(
    ("op", "operands", "attributes", "code"),
    [
        ("SegmentSumV2", (X, SEGMENTS, (np.int32(2**31 - 1),)), {}, "E0116"),
        ("SegmentMax", (X, (np.array([2**31 - 1] * 6, np.int32) - 1,)), {}, "E0116"),
        ("SegmentMean", (X, (SEGMENTS[::-1],)), {}, "E0108"),
        ("HistogramFixedWidth", (X, (np.array([0, 1], np.float32),), (np.int32(2**31 - 1),)), {}, "E0116"),
        ("DynamicPartition", (X, SEGMENTS), {"num_partitions": 2**31 - 1}, "E0108"),
        ("DynamicStitch", ((np.array([2**31 - 2], np.int32),), X[:1]), {}, "E0116"),
        ("MatrixDiagV3", (X, (np.int32(2**30),)), {}, "E0116"),
        ("MatrixDiagPartV3", (X, (np.array([3, 4], np.int32),), (np.float32(0),)), {}, "E0109"),
        ("UnravelIndex", (SEGMENTS, (np.array([0], np.int32),)), {}, "E0109"),
    ],
)
def test_counts_that_no_tensor_has_are_refused(
    tmp_path: Path, op: str, operands: tuple[Any, ...], attributes: dict[str, Any], code: str
) -> None:
    with pytest.raises(SternaError, match=code):
        results(tmp_path, op, *operands, **attributes)
