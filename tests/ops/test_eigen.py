"""Eigenvalues and eigenvectors of symmetric matrices: against NumPy, for any size, scale and number of equal ones."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sterna.ir.graph import Graph
from sterna.ops import Builder
from support.compiling import input_value, run

SOME = settings(max_examples=10, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


def eigen(a: np.ndarray, generator: str) -> tuple[np.ndarray, np.ndarray]:
    b = Builder()
    v = input_value(b, a)
    results = b.add_all("symmetric_eigen", v)
    graph = Graph("g", (v,), tuple(results), tuple(b.nodes), ("values", "vectors"))
    with tempfile.TemporaryDirectory() as folder:
        found = run(graph, {v.name: a}, Path(folder), generator)
    return found["values"], found["vectors"]


def holds(a: np.ndarray, values: np.ndarray, vectors: np.ndarray) -> None:
    """A V = V diag(values), V^T V = 1, and the values are NumPy's: within what rounding errors of n rows allow."""
    n, exact = a.shape[-1], a.astype(np.float64)
    size = max(float(np.abs(exact).max(initial=0)), np.finfo(a.dtype).tiny) * n
    allowed = 8 * float(np.finfo(a.dtype).eps) * n**0.5
    np.testing.assert_allclose(values / size, np.linalg.eigvalsh(exact) / size, rtol=0, atol=allowed)
    turned = vectors.astype(np.float64)
    np.testing.assert_allclose(exact / size @ turned, turned * (values / size)[..., None, :], rtol=0, atol=allowed)
    unit = np.swapaxes(turned, -1, -2) @ turned
    np.testing.assert_allclose(unit, np.broadcast_to(np.eye(n), unit.shape), rtol=0, atol=4 * allowed)


@pytest.mark.family("host-c")
@pytest.mark.family("host-llvm")
@SOME
@given(
    st.integers(1, 40), st.sampled_from([(), (3,), (2, 2)]), st.sampled_from(["float32", "float64"]),
    st.integers(0, 40), st.sampled_from([1e-33, 1.0, 1e30]), st.sampled_from(["c", "llvm"]), st.integers(0, 99),
)  # fmt: skip
def test_any_matrix(
    n: int, batch: tuple[int, ...], dtype: str, rank: int, scale: float, generator: str, seed: int
) -> None:
    """Those of few dimensions have many eigenvalues of 0."""
    x = np.random.default_rng(seed).standard_normal((*batch, n, min(rank, n)))
    signs = np.where(np.arange(min(rank, n)) % 2, 1.0, -1.0)
    a = ((x * signs) @ np.swapaxes(x, -1, -2) * scale).astype(dtype)
    holds(a, *eigen((a + np.swapaxes(a, -1, -2)) / 2, generator))


@pytest.mark.parametrize("generator", ["c", "llvm"])
def test_known_ones(generator: str) -> None:
    """A diagonal, equal values, Wilkinson's pairs that are nearly equal, and values of very different sizes."""
    ones = np.ones(20)
    pairs = np.diag(np.abs(np.arange(21) - 10.0)) + np.diag(ones, 1) + np.diag(ones, -1)
    graded = np.zeros((21, 21))
    graded[:12, :12] = np.diag(10.0 ** -np.arange(12)) + 1e-6
    given = np.stack([np.diag(np.arange(21.0)[::-1]), np.eye(21), np.ones((21, 21)), pairs, graded])
    a = given.astype(np.float32)
    holds(a, *eigen(a, generator))


def test_what_is_no_number_ends() -> None:
    values, _ = eigen(np.full((6, 6), np.nan, np.float32), "c")
    assert np.isnan(values).all()
