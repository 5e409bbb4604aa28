"""Operators of TensorFlow that gather, part and stitch rows, and transforms of several dimensions, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sterna.debug.interpret import interpret
from sterna.errors import SternaError
from sterna.frontends.formats import read_model
from sterna.frontends.frontend import ReadOptions
from support.graph_defs import GraphWriter, Kind

SETTINGS = settings(
    max_examples=8, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def results(g: GraphWriter, folder: Path, **feeds: np.ndarray) -> list[np.ndarray]:
    return list(interpret(read_model(g.write(folder), ReadOptions()), feeds).values())


def result(g: GraphWriter, folder: Path, **feeds: np.ndarray) -> np.ndarray:
    (found,) = results(g, folder, **feeds)
    return found


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


REDUCED: dict[str, Callable[[np.ndarray], Any]] = {
    "Sum": lambda x: x.sum(0), "Prod": lambda x: x.prod(0), "Mean": lambda x: x.mean(0) if len(x) else 0,
    "Max": lambda x: x.max(0) if len(x) else 0, "Min": lambda x: x.min(0) if len(x) else 0,
}  # fmt: skip


@pytest.mark.parametrize("kind", REDUCED)
def test_segments_in_order(tmp_path: Path, kind: str) -> None:
    """Segment 2 has no rows: 0, or 1 of a product, as TensorFlow 2.21 has it."""
    x, places = numbers(6, 3), np.array([0, 0, 1, 3, 3, 3], np.int32)
    g = GraphWriter()
    g.input("x", x.shape)
    g.node(f"Segment{kind}", ["x", g.constant(places)], name="y")
    wanted = np.stack([REDUCED[kind](x[places == n]) * np.ones(3) for n in range(4)])
    np.testing.assert_allclose(result(g, tmp_path, x=x), wanted, rtol=1e-6)


@pytest.mark.parametrize("kind", ["Sum", "Mean", "SqrtN"])
@pytest.mark.parametrize("counted", [False, True])
def test_segments_of_rows_by_number(tmp_path: Path, kind: str, counted: bool) -> None:
    """As words of several numbers become one embedding; with a count segments may be computed."""
    table, rows, places = numbers(7, 3), np.array([4, 1, 1, 6, 0], np.int64), np.array([0, 0, 0, 2, 2], np.int32)
    g = GraphWriter()
    g.input("rows", rows.shape, "int64")
    if counted:
        g.input("places", places.shape, "int32")
        operands = [g.constant(table), "rows", "places", g.constant(np.int32(4))]
    else:
        operands = [g.constant(table), "rows", g.constant(places)]
    g.node(f"SparseSegment{kind}{'WithNumSegments' if counted else ''}", operands, name="y")
    feeds = {"rows": rows, **({"places": places} if counted else {})}
    wanted = np.zeros((4 if counted else 3, 3), np.float32)
    np.add.at(wanted, places, table[rows])
    divisor = np.maximum(np.bincount(places, minlength=len(wanted)), 1)[:, None]
    wanted /= {"Sum": 1, "Mean": divisor, "SqrtN": np.sqrt(divisor)}[kind]
    np.testing.assert_allclose(result(g, tmp_path, **feeds), wanted, rtol=1e-6)


@SETTINGS
@given(st.integers(1, 9), st.integers(1, 3), st.integers(0, 99))
def test_parts_are_stitched_together_again(tmp_path: Path, count: int, parts: int, seed: int) -> None:
    """As embeddings in several tables are looked up: numbers are parted, and what each part gives is put back."""
    x, which = numbers(count, 2), np.random.default_rng(seed).integers(0, parts, count).astype(np.int32)
    g = GraphWriter()
    g.input("x", x.shape)
    g.input("which", which.shape, "int32")
    order = g.constant(np.arange(count, dtype=np.int32))
    g.node("DynamicPartition", ["x", "which"], name="rows", num_partitions=parts, T=Kind("float32"))
    g.node("DynamicPartition", [order, "which"], name="places", num_partitions=parts, T=Kind("int32"))
    scaled = [
        g.node("Mul", [f"rows:{n}", g.constant(np.float32(n + 1))], name=f"scaled_{n}", T=Kind("float32"))
        for n in range(parts)
    ]
    g.node("DynamicStitch", [*(f"places:{n}" for n in range(parts)), *scaled], name="y", N=parts, T=Kind("float32"))
    np.testing.assert_array_equal(result(g, tmp_path, x=x, which=which), x * (which[:, None] + 1).astype(np.float32))


def test_the_last_of_several_rows_with_a_number_stays(tmp_path: Path) -> None:
    x, other = numbers(3, 2), numbers(2, 2, seed=1)
    g = GraphWriter()
    g.input("x", x.shape)
    g.input("z", other.shape)
    places = [g.constant(np.array(p, np.int32)) for p in ([0, 4, 1], [4, 2])]
    g.node("DynamicStitch", [*places, "x", "z"], name="y", N=2, T=Kind("float32"))
    found = result(g, tmp_path, x=x, z=other)
    assert found.shape == (5, 2)
    np.testing.assert_array_equal(found[[0, 4, 1, 2]], [x[0], other[0], x[2], other[1]])


def test_numbers_that_leave_something_out_fail(tmp_path: Path) -> None:
    g = GraphWriter()
    g.input("places", (2,), "int32")
    g.input("x", (2,))
    g.node("DynamicStitch", ["places", "x"], name="y", N=1, T=Kind("float32"))
    graph = read_model(g.write(tmp_path), ReadOptions())
    feeds = {"x": np.ones(2, np.float32)}
    interpret(graph, {"places": np.array([1, 0], np.int32), **feeds})
    with pytest.raises(SternaError):
        interpret(graph, {"places": np.array([1, 2], np.int32), **feeds})


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        ("InplaceUpdate", [[0, 0], [2, 2], [1, 1]]),
        ("InplaceAdd", [[0, 0], [3, 3], [2, 2]]),
        ("InplaceSub", [[0, 0], [-1, -1], [0, 0]]),
    ],
)
def test_rows_in_place(tmp_path: Path, kind: str, wanted: list[list[int]]) -> None:
    g = GraphWriter()
    g.input("x", (3, 2))
    rows = np.array([[1, 1], [2, 2]], np.float32)
    g.node(kind, ["x", g.constant(np.array([2, 1], np.int32)), g.constant(rows)], name="y")
    x = np.array([[0, 0], [1, 1], [1, 1]], np.float32)
    np.testing.assert_array_equal(result(g, tmp_path, x=x), wanted)


def test_sparse_matrices_are_multiplied(tmp_path: Path) -> None:
    places, values, b = np.array([[0, 1], [2, 0]], np.int64), np.array([2, 3], np.float32), numbers(4, 2)
    g = GraphWriter()
    g.input("b", b.shape)
    operands = [g.constant(places), g.constant(values), g.constant(np.array([3, 4], np.int64)), "b"]
    g.node("SparseTensorDenseMatMul", operands, name="y")
    a = np.zeros((3, 4), np.float32)
    a[tuple(places.T)] = values
    np.testing.assert_allclose(result(g, tmp_path, b=b), a @ b, rtol=1e-6)


TRANSFORMS = [(name, dimensions) for dimensions in (2, 3) for name in ("FFT", "IFFT", "RFFT", "IRFFT")]


@pytest.mark.parametrize(("kind", "dimensions"), TRANSFORMS)
def test_transforms_of_several_dimensions(tmp_path: Path, kind: str, dimensions: int) -> None:
    """Padded and cut to other lengths where the operator has them."""
    sizes = (2, 4, 5, 6)[-dimensions - 1 :]
    real, imaginary = numbers(*sizes), numbers(*sizes, seed=1)
    axes = tuple(range(-dimensions, 0))
    g = GraphWriter()
    g.input("a", sizes)
    g.input("b", sizes)
    x = "a" if kind == "RFFT" else g.node("Complex", ["a", "b"])
    lengths = [5, 3, 8][-dimensions:]
    operands = [x, g.constant(np.array(lengths, np.int32))] if "R" in kind else [x]
    made = g.node(f"{kind}{dimensions}D", operands, name="t")
    feeds = {"a": real, **({} if kind == "RFFT" else {"b": imaginary})}
    if kind == "IRFFT":
        found = result(g, tmp_path, **feeds)
        cut = (real + 1j * imaginary)[..., : lengths[-1] // 2 + 1]
        np.testing.assert_allclose(found, np.fft.irfftn(cut, lengths, axes), rtol=1e-4, atol=1e-5)
        return
    for part in ("Real", "Imag"):
        g.node(part, [made], name=part.lower())
    found = results(g, tmp_path, **feeds)
    whole = real if kind == "RFFT" else real + 1j * imaginary
    function = {"FFT": np.fft.fftn, "IFFT": np.fft.ifftn, "RFFT": np.fft.rfftn}[kind]
    wanted = function(whole, lengths if "R" in kind else None, axes)
    np.testing.assert_allclose(found[0] + 1j * found[1], wanted, rtol=1e-4, atol=1e-4)


def _one(kind: str, operands: list[np.ndarray | str], wanted: Any, x: np.ndarray, folder: Path, **options: Any) -> None:
    g = GraphWriter()
    g.input("x", x.shape, str(x.dtype))
    g.node(kind, [o if isinstance(o, str) else g.constant(o) for o in operands], name="y", **options)
    found = results(g, folder, x=x)
    for one, want in zip(found, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
        np.testing.assert_allclose(one, want, rtol=1e-5, atol=1e-6)


def test_single_operators(tmp_path: Path) -> None:
    x = numbers(4, 3)
    three = numbers(3, 3)
    _one("Cross", ["x", x[::-1].copy()], np.cross(x, x[::-1]), x, tmp_path)
    _one("Reverse", ["x", np.array([False, True])], x[:, ::-1], x, tmp_path)
    _one("ConjugateTranspose", ["x", np.array([1, 0], np.int32)], x.T, x, tmp_path)
    _one("NthElement", ["x", np.int32(1)], np.sort(x)[:, 1], x, tmp_path)
    _one("NthElement", ["x", np.int32(0)], np.max(x, 1), x, tmp_path, reverse=True)
    four = numbers(2, 3, 2, 3)
    _one("DiagPart", ["x"], np.einsum("ijij->ij", four), four, tmp_path)
    _one("BatchMatrixInverse", ["x"], np.linalg.inv(three), three, tmp_path)
    places = np.array([3, 7, 11], np.int64)
    sizes = np.array([2, 2, 3], np.int64)
    _one("UnravelIndex", ["x", sizes], np.stack(np.unravel_index(places, sizes)), places, tmp_path)
    less = np.stack([x[0], x[1] - x[0], x[2], x[3]])
    _one("TensorScatterSub", ["x", np.array([[1]], np.int32), x[:1]], less, x, tmp_path)


def test_the_sign_and_the_logarithm_of_a_determinant(tmp_path: Path) -> None:
    x = numbers(2, 4, 4)
    g = GraphWriter()
    g.input("x", x.shape)
    made = g.node("LogMatrixDeterminant", ["x"])
    for n in range(2):
        g.node("Identity", [f"{made}:{n}"], name=f"y{n}", T=Kind("float32"))
    np.testing.assert_allclose(results(g, tmp_path, x=x), np.linalg.slogdet(x), rtol=1e-4)


def test_different_numbers_and_how_often_each_occurs(tmp_path: Path) -> None:
    x = np.array([3, 1, 3, 7, 1, 3], np.int32)
    g = GraphWriter()
    g.input("x", x.shape, "int32")
    g.node("UniqueWithCounts", ["x"], name="u", out_idx=Kind("int32"))
    for n in range(3):
        g.node("Identity", [f"u:{n}"], name=f"y{n}", T=Kind("int32"))
    found = results(g, tmp_path, x=x)
    assert [list(part) for part in found] == [[3, 1, 7], [0, 1, 0, 2, 1, 0], [3, 2, 1]]
    g = GraphWriter()
    g.input("x", x.shape, "int32")
    g.node("UniqueV2", ["x", g.constant(np.array([0], np.int32))], name="y", out_idx=Kind("int32"))
    assert list(results(g, tmp_path, x=x)[0]) == [3, 1, 7]


@pytest.mark.parametrize(
    ("kind", "operands", "code"),
    [
        ("NthElement", ["x", np.int32(9)], "E0109"),
        ("DiagPart", ["x"], "E0108"),
        ("SegmentMax", ["x", np.array([1, 0, 0, 0], np.int32)], "E0108"),
        ("UniqueV2", ["x", np.array([2], np.int32)], "E0108"),
        ("FFT2D", ["x"], "E0108"),
    ],
)
def test_what_is_wrong_is_refused(tmp_path: Path, kind: str, operands: list[Any], code: str) -> None:
    g = GraphWriter()
    g.input("x", (4, 3))
    g.node(kind, [o if isinstance(o, str) else g.constant(o) for o in operands], name="y")
    with pytest.raises(SternaError) as refusal:
        read_model(g.write(tmp_path), ReadOptions())
    assert refusal.value.codes == (code,)
