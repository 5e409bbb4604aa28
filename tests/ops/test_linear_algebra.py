"""Decompositions, solutions and colours of TensorFlow and PyTorch beside NumPy."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sterna
from sterna.debug.interpret import interpret
from sterna.errors import SternaError
from sterna.frontends.formats import read_model
from support.graph_defs import GraphWriter
from support.pytorch_calls import called

RNG = np.random.default_rng(8)
FEW = settings(max_examples=8, deadline=None, derandomize=True)
Array = np.ndarray


def tensorflow(op: str, *operands: Array, **attributes: Any) -> Array:
    g = GraphWriter()
    names = [g.input(f"x{n}", x.shape, str(x.dtype)) for n, x in enumerate(operands)]
    g.node(op, names, name="y", **attributes)
    with tempfile.TemporaryDirectory() as folder:
        graph = read_model(g.write(Path(folder)))
    return next(iter(interpret(graph, {f"x{n}": x for n, x in enumerate(operands)}).values()))


def matrices(batch: int, rows: int) -> Array:
    """Symmetric ones whose eigenvalues are positive."""
    x = RNG.normal(size=(batch, rows, rows))
    return (x @ x.swapaxes(1, 2) / rows + np.eye(rows)).astype(np.float32)


def near(found: Array, wanted: Array) -> None:
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


@FEW
@given(st.integers(1, 3), st.integers(1, 9), st.integers(1, 4), st.booleans())
def test_solutions(batch: int, rows: int, columns: int, adjoint: bool) -> None:
    a = matrices(batch, rows) + np.triu(np.full((rows, rows), 0.3, np.float32), 1)
    b = RNG.normal(size=(batch, rows, columns)).astype(np.float32)
    turned = a.swapaxes(1, 2) if adjoint else a
    near(tensorflow("MatrixSolve", a, b, adjoint=adjoint), np.linalg.solve(turned, b))
    near(tensorflow("MatrixInverse", a, adjoint=adjoint), np.linalg.inv(turned))
    near(called("aten.linalg_solve.default", A=a, B=b)[0], np.linalg.solve(a, b))
    results = "result", "_lu", "_pivots", "info"
    near(called("aten._linalg_solve_ex.default", *results, A=a, B=b)[0], np.linalg.solve(a, b))


@FEW
@given(st.integers(1, 3), st.integers(1, 9), st.booleans())
def test_cholesky_factors_read_one_triangle(batch: int, rows: int, upper: bool) -> None:
    a = matrices(batch, rows)
    wanted = np.linalg.cholesky(a)
    other = np.triu(np.full((rows, rows), 7.0, np.float32), 1)
    near(tensorflow("Cholesky", a + other), wanted)
    given_ = a + other.T if upper else a + other
    (factor,) = called("aten.linalg_cholesky.default", self=given_, upper=upper)
    near(factor, wanted.swapaxes(1, 2) if upper else wanted)


@FEW
@given(st.integers(1, 8), st.booleans(), st.booleans())
def test_triangular_solutions(rows: int, lower: bool, unit: bool) -> None:
    full = matrices(1, rows)[0]
    b = RNG.normal(size=(rows, 3)).astype(np.float32)
    part = np.tril(full) if lower else np.triu(full)
    near(tensorflow("MatrixTriangularSolve", full, b, lower=lower), np.linalg.solve(part, b))
    if unit:
        part = part - np.diag(np.diag(part)) + np.eye(rows, dtype=np.float32)
    (x,) = called("aten.linalg_solve_triangular.default", self=full, B=b, upper=not lower, unitriangular=unit)
    near(x, np.linalg.solve(part, b))


def test_matrices_that_are_not_square_are_refused() -> None:
    with pytest.raises(SternaError) as caught:
        tensorflow("Cholesky", np.zeros((2, 3), np.float32))
    assert caught.value.codes == ("E0108",)


def test_a_compiled_solution(tmp_path: Path) -> None:
    """The loop over columns, through a generator."""
    a, b = matrices(2, 12), RNG.normal(size=(2, 12, 2)).astype(np.float32)
    g = GraphWriter()
    g.node("MatrixSolve", [g.input("a", a.shape), g.input("b", b.shape)], name="y")
    with sterna.compile(g.write(tmp_path), generator="llvm") as bundle:
        near(bundle.run({"a": a, "b": b})["y"], np.linalg.solve(a, b))


def test_colours_there_and_back() -> None:
    x = RNG.uniform(size=(2, 4, 5, 3)).astype(np.float32)
    hsv = tensorflow("RGBToHSV", x)
    most, least = x.max(-1), x.min(-1)
    near(hsv[..., 2], most)
    near(hsv[..., 1], (most - least) / most)
    near(tensorflow("HSVToRGB", hsv), x)
    near(tensorflow("AdjustHue", x, np.float32(1.0)), x)
    gray = tensorflow("AdjustSaturation", x, np.float32(0.0))
    near(gray, np.repeat(most[..., None], 3, -1))


@FEW
@given(st.integers(4, 8), st.integers(1, 3), st.integers(1, 2), st.integers(1, 2), st.sampled_from(["SAME", "VALID"]))
def test_dilation(size: int, kernel: int, stride: int, rate: int, padding: str) -> None:
    reach = (kernel - 1) * rate + 1
    if reach > size:
        return
    x, w = RNG.normal(size=(1, size, size, 2)).astype(np.float32), RNG.normal(size=(kernel, 1, 2)).astype(np.float32)
    found = tensorflow("Dilation2D", x, w, strides=[1, stride, 1, 1], rates=[1, rate, 1, 1], padding=padding)
    count = -(-size // stride) if padding == "SAME" else (size - reach) // stride + 1
    before = max((count - 1) * stride + reach - size, 0) // 2 if padding == "SAME" else 0
    wanted = np.full((1, count, size, 2), -np.inf)
    for i in range(count):
        for k in range(kernel):
            row = i * stride - before + k * rate
            if 0 <= row < size:
                wanted[:, i] = np.maximum(wanted[:, i], x[:, row] + w[k, 0])
    near(found, wanted)


@FEW
@given(st.integers(1, 9), st.booleans(), st.booleans())
def test_running_log_sums(size: int, exclusive: bool, reverse: bool) -> None:
    x = (RNG.normal(size=(2, size)) * 100).astype(np.float32)
    (found,) = called("aten.logcumsumexp.default", self=x, dim=1)
    np.testing.assert_allclose(found, np.logaddexp.accumulate(x.astype(np.float64), 1), rtol=1e-5, atol=1e-4)
    g = GraphWriter()
    g.node(
        "CumulativeLogsumexp",
        [g.input("x", x.shape), g.constant(np.int32(1))],
        name="y",
        exclusive=exclusive,
        reverse=reverse,
    )
    with tempfile.TemporaryDirectory() as folder:
        graph = read_model(g.write(Path(folder)))
    (ours,) = interpret(graph, {"x": x}).values()
    wide = x[:, ::-1] if reverse else x
    least = np.full((2, 1), np.finfo(np.float32).min)
    if exclusive:
        wide = np.concatenate([least, wide[:, :-1]], 1)
    wanted = np.logaddexp.accumulate(wide.astype(np.float64), 1)
    np.testing.assert_allclose(ours, wanted[:, ::-1] if reverse else wanted, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize("reduce", ["mean", "amax", "amin", "prod", "sum"])
def test_scatter_reduce(reduce: str, dtype: str, own: bool) -> None:
    x, source = (RNG.integers(-4, 5, (3, 4)).astype(dtype) for _ in range(2))
    index = RNG.integers(0, 3, (3, 4))
    (found,) = called(
        "aten.scatter_reduce.two", self=x, dim=0, index=index, src=source, reduce=reduce, include_self=own
    )
    wanted = x.copy()
    for i in range(3):
        for j in range(4):
            values = [*([x[i, j]] if own else []), *source[index[:, j] == i, j]]
            if values and (index[:, j] == i).any():
                function = {"mean": np.mean, "amax": np.max, "amin": np.min, "prod": np.prod, "sum": np.sum}[reduce]
                wanted[i, j] = np.floor(function(values)) if dtype == "int32" else function(values)
    near(found, wanted)


@pytest.mark.parametrize(("rows", "batch", "lower"), [(33, 2, True), (70, 1, False)])
def test_matrices_of_several_blocks(rows: int, batch: int, lower: bool) -> None:
    """Rows change places across blocks: nothing of these matrices is near their diagonal."""
    a = RNG.normal(size=(batch, rows, rows)).astype(np.float32)
    b = RNG.normal(size=(batch, rows, 3)).astype(np.float32)
    exact = a.astype(np.float64)
    reach = np.linalg.cond(exact).max() * 1e-6
    for found, wanted in (
        (called("aten.linalg_solve.default", A=a, B=b)[0], np.linalg.solve(exact, b)),
        (called("aten.linalg_inv.default", A=a)[0], np.linalg.inv(exact)),
        (called("aten.linalg_det.default", A=a / rows**0.5)[0], np.linalg.det(exact / rows**0.5)),
    ):
        assert found.shape == wanted.shape
        assert np.abs(found - wanted).max() <= reach * max(np.abs(wanted).max(), 1.0)
    p, low, up = called("aten.linalg_lu.default", "P", "L", "U", A=a)
    np.testing.assert_allclose(p @ low @ up, a, atol=1e-4)
    np.testing.assert_array_equal(np.tril(low), low)
    assert np.abs(low).max() <= 1
    np.testing.assert_array_equal(p.sum(-1), 1)
    both, pivots, _ = called("aten.linalg_lu_factor_ex.default", "LU", "pivots", "info", A=a)
    order = np.tile(np.arange(rows), (batch, 1))
    for n, row in enumerate(order):
        for at, other in enumerate(pivots[n] - 1):
            row[[at, other]] = row[[other, at]]
    np.testing.assert_allclose(np.take_along_axis(a, order[..., None], 1), p.swapaxes(1, 2) @ a, atol=0)
    np.testing.assert_allclose(np.triu(both), up, atol=1e-5)
    sign, size = called("aten.linalg_slogdet.default", "sign", "logabsdet", A=a)
    np.testing.assert_allclose(sign, np.linalg.slogdet(exact)[0])
    np.testing.assert_allclose(size, np.linalg.slogdet(exact)[1], rtol=1e-4, atol=1e-3)
    positive = matrices(batch, rows)
    near(called("aten.linalg_cholesky.default", self=positive)[0], np.linalg.cholesky(positive))
    part = np.tril(positive) if lower else np.triu(positive)
    (x,) = called("aten.linalg_solve_triangular.default", self=positive, B=b, upper=not lower)
    near(x, np.linalg.solve(part, b))


def test_determinants_of_matrices_without_an_inverse() -> None:
    for rows in (3, 9, 40):
        a = RNG.integers(-3, 4, (2, rows, rows)).astype(np.float32)
        a[:, :, 1] = 0
        (found,) = called("aten.linalg_det.default", A=a)
        np.testing.assert_array_equal(found, np.zeros(2, np.float32))


def test_a_compiled_solution_of_several_blocks(tmp_path: Path) -> None:
    a, b = RNG.normal(size=(50, 50)).astype(np.float32), RNG.normal(size=(50, 2)).astype(np.float32)
    g = GraphWriter()
    g.node("MatrixSolve", [g.input("a", a.shape), g.input("b", b.shape)], name="y")
    with sterna.compile(g.write(tmp_path), generator="llvm") as bundle:
        np.testing.assert_allclose(bundle.run({"a": a, "b": b})["y"], np.linalg.solve(a, b), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("rows", [2, 7, 20])
def test_eigenvalues_of_one_size_and_of_none(rows: int) -> None:
    """Equal ones, those of a matrix of zeros, and of a matrix of fewer columns than rows."""
    for a in (np.eye(rows), np.zeros((rows, rows)), np.ones((rows, rows)), np.diag(np.arange(rows) % 3.0)):
        values, vectors = called("aten.linalg_eigh.default", "values", "vectors", self=a.astype(np.float32))
        np.testing.assert_allclose(values, np.linalg.eigvalsh(a), atol=1e-5)
        np.testing.assert_allclose(vectors @ np.diag(values) @ vectors.T, a, atol=1e-5)
        np.testing.assert_allclose(vectors.T @ vectors, np.eye(rows), atol=1e-5)
    a = RNG.normal(size=(rows, 2)) @ RNG.normal(size=(2, rows))
    (s,) = called("aten.linalg_svdvals.default", A=a.astype(np.float32))
    np.testing.assert_allclose(s, np.linalg.svd(a)[1], atol=1e-5 * rows)
