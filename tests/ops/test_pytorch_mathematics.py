"""PyTorch's linear algebra, statistics, losses, grouped products and transforms against NumPy."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sterna.debug.interpret import interpret
from sterna.errors import SternaError
from sterna.frontends.formats import read_model
from support.exported_programs import Program
from support.pytorch_calls import called, close

FEW = settings(max_examples=8, deadline=None, derandomize=True)
RNG = np.random.default_rng(23)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def symmetric(n: int) -> np.ndarray:
    a = floats(2, n, n)
    return a + a.swapaxes(-1, -2)


# ---------------------------------------------------------------- linear algebra
@pytest.mark.parametrize("n", [1, 2, 5])
def test_eigenvalues_of_symmetric_matrices(n: int) -> None:
    """Eigenvectors have either sign: what they make of the values is the matrix."""
    a = symmetric(n)
    values, vectors = called("aten.linalg_eigh.default", "values", "vectors", self=a)
    close(values, np.linalg.eigvalsh(a), 1e-4)
    close(vectors * values[:, None] @ vectors.swapaxes(-1, -2), a, 1e-4)
    close(vectors.swapaxes(-1, -2) @ vectors, np.broadcast_to(np.eye(n), a.shape), 1e-4)


@pytest.mark.parametrize(("rows", "columns"), [(4, 4), (5, 3), (3, 5)])
@pytest.mark.parametrize("full", [False, True])
def test_singular_values(rows: int, columns: int, full: bool) -> None:
    a = floats(2, rows, columns)
    u, s, v = called("aten.linalg_svd.default", "u", "s", "v", A=a, full_matrices=full)
    k = min(rows, columns)
    close(s, np.linalg.svd(a, compute_uv=False), 1e-4)
    close(u[..., :k] * s[:, None] @ v[:, :k], a, 1e-4)
    close(u.swapaxes(-1, -2) @ u, np.broadcast_to(np.eye(u.shape[-1]), (2, u.shape[-1], u.shape[-1])), 1e-4)
    close(v @ v.swapaxes(-1, -2), np.broadcast_to(np.eye(v.shape[-2]), (2, v.shape[-2], v.shape[-2])), 1e-4)
    close(called("aten.linalg_pinv.default", self=a)[0], np.linalg.pinv(a), 1e-3)


@pytest.mark.parametrize(("rows", "columns"), [(4, 4), (5, 3), (3, 5)])
@pytest.mark.parametrize("mode", ["reduced", "complete"])
def test_orthogonal_factors_have_the_signs_of_lapack(rows: int, columns: int, mode: Any) -> None:
    a = floats(rows, columns)
    found = called("aten.linalg_qr.default", "q", "r", A=a, mode=mode)
    for part, wanted in zip(found, np.linalg.qr(a, mode), strict=True):
        close(part, wanted, 1e-4)


def test_matrices_of_deficient_rank() -> None:
    a = floats(5, 2) @ floats(2, 4)
    assert called("aten.linalg_matrix_rank.default", self=a)[0] == 2
    close(called("aten.linalg_pinv.default", self=a)[0], np.linalg.pinv(a, rcond=1e-5), 1e-3)


def test_determinants_powers_and_exponentials() -> None:
    a = symmetric(4)
    sign, size = called("aten.linalg_slogdet.default", "sign", "size", A=a)
    close(sign, np.linalg.slogdet(a)[0])
    close(size, np.linalg.slogdet(a)[1], 1e-4)
    close(called("aten.matrix_power.default", self=a, n=3)[0], np.linalg.matrix_power(a, 3), 1e-4)
    values, vectors = np.linalg.eigh(a)
    wanted = vectors * np.exp(values)[:, None] @ vectors.swapaxes(-1, -2)
    close(called("aten.linalg_matrix_exp.default", self=a)[0] / wanted.max(), wanted / wanted.max(), 1e-5)


def test_factors_with_pivots() -> None:
    a, b = floats(2, 4, 4), floats(2, 4, 3)
    p, lower, upper = called("aten.linalg_lu.default", "p", "l", "u", A=a)
    close(p @ lower @ upper, a, 1e-5)
    both, pivots = called("aten.linalg_lu_factor.default", "lu", "pivots", A=a)
    close(called("aten.linalg_lu_solve.default", LU=both, pivots=pivots, B=b)[0], np.linalg.solve(a, b), 1e-3)


@pytest.mark.parametrize("order", [1, -1, 2, -2, math.inf, -math.inf])
def test_norms_of_matrices(order: float) -> None:
    a = floats(2, 4, 3)
    found = called("aten.linalg_matrix_norm.default", self=a, ord=float(order), dim=[-2, -1], keepdim=False)[0]
    close(found, np.linalg.norm(a, order, (-2, -1)), 1e-4)


# ---------------------------------------------------------------- statistics
@FEW
@given(st.sampled_from(["linear", "lower", "higher", "midpoint", "nearest"]), st.integers(0, 1), st.booleans())
def test_quantiles(kind: Any, axis: int, keep: bool) -> None:
    x, q = floats(5, 7), np.array([0.1, 0.5, 0.85], np.float32)
    found = called("aten.quantile.default", self=x, q=q, dim=axis, keepdim=keep, interpolation=kind)[0]
    close(found, np.quantile(x, q, axis, method=kind, keepdims=keep), 1e-4)


def test_what_is_no_number_does_not_count() -> None:
    x = floats(4, 5)
    x[0, 1] = x[2, :4] = np.nan
    close(called("aten.nanmean.default", self=x, dim=[1])[0], np.nanmean(x, 1))
    close(called("aten.nanquantile.default", self=x, q=np.float32([0.3]), dim=1)[0], np.nanquantile(x, [0.3], 1), 1e-4)
    assert np.isnan(called("aten.quantile.default", self=x, q=np.float32([0.3]), dim=1)[0][0]).tolist() == [
        True, False, True, False]  # fmt: skip


def test_histograms() -> None:
    x = RNG.uniform(-2, 2, 50).astype(np.float32)
    close(called("aten.histc.default", self=x, bins=7, min=-1.0, max=1.5)[0], np.histogram(x, 7, (-1, 1.5))[0])
    close(called("aten.histc.default", self=x, bins=4)[0], np.histogram(x, 4)[0])


def test_sizes_that_the_data_decide_need_a_bound() -> None:
    """The program says the bound of the symbol that stands for the size."""
    for target, name in (("aten.bincount.default", "self"), ("aten.repeat_interleave.Tensor", "repeats")):
        program = Program()
        x = program.input("x", (4,), "int64")
        y = program.call(target, "y", **{name: x})
        program.output(program.call("aten.abs.default", self=y))
        program.ranges["u0"] = {"min_val": 0, "max_val": 12}
        program.tensor("y", "int64", ("u0",))
        with tempfile.TemporaryDirectory() as folder:
            found = interpret(read_model(program.write(Path(folder) / "m.pt2")), {"x": np.array([1, 3, 0, 3])})
            wanted = [1, 1, 0, 2] if "bincount" in target else [0, 1, 1, 1, 3, 3, 3]
            assert next(iter(found.values())).tolist() == wanted
            program.ranges["u0"] = {"min_val": 0, "max_val": None}
            with pytest.raises(SternaError) as caught:
                read_model(program.write(Path(folder) / "m.pt2"))
        assert "E0107" in caught.value.codes
        assert "torch._check" in str(caught.value)


# ---------------------------------------------------------------- groups of rows
@pytest.mark.parametrize("rows", [2, 9])  # fewer than there are groups, and more
@pytest.mark.parametrize("target", ["aten._grouped_mm.default", "transformers.grouped_mm_fallback.default"])
def test_products_of_groups(rows: int, target: str) -> None:
    names = ("input", "weight") if "transformers" in target else ("self", "mat2")
    x, w, ends = floats(rows, 3), floats(4, 3, 5), np.array([1, 1, rows - 1, rows - 1], np.int32)
    wanted = np.zeros((rows, 5), np.float32)
    for n, (start, end) in enumerate(zip((0, *ends[:-1]), ends, strict=True)):
        wanted[start:end] = x[start:end] @ w[n]
    close(called(target, **{names[0]: x, names[1]: w}, offs=ends)[0], wanted, 1e-4)


@pytest.mark.parametrize("mode", [0, 1, 2])
def test_bags_of_embeddings(mode: int) -> None:
    weight, index, offsets = floats(6, 3), np.array([1, 2, 5, 5, 0]), np.array([0, 3, 3])
    found = called(
        "aten.embedding_bag.padding_idx", "y", "_own", "_sizes", "_greatest", weight=weight, indices=index,
        offsets=offsets, scale_grad_by_freq=False, mode=mode, sparse=False, per_sample_weights=None,
        include_last_offset=False, padding_idx=2,
    )[0]  # fmt: skip
    reduce = (np.sum, np.mean, np.max)[mode]
    close(found, np.stack([reduce(weight[[1, 5]], 0), np.zeros(3), reduce(weight[[5, 0]], 0)]))


@pytest.mark.parametrize("reduce", ["prod", "mean", "amax", "amin"])
def test_slices_reduced_by_index(reduce: Any) -> None:
    x, source, index = floats(4, 3), floats(3, 3), np.array([0, 2, 2])
    found = called("aten.index_reduce.default", self=x, dim=0, index=index, source=source, reduce=reduce)[0]
    wanted = x.copy()
    for n in (0, 2):
        rows = np.concatenate([x[n : n + 1], source[index == n]])
        wanted[n] = {"prod": np.prod, "mean": np.mean, "amax": np.max, "amin": np.min}[reduce](rows, 0)
    close(found, wanted)


# ---------------------------------------------------------------- losses
def test_cross_entropy_of_classes() -> None:
    x, target = floats(4, 5), np.array([0, -100, 3, 4])
    log = x - np.log(np.exp(x).sum(-1, keepdims=True))
    kept = target >= 0
    wanted = -log[kept, target[kept]].mean()
    close(called("aten.cross_entropy_loss.default", self=x, target=target)[0], wanted)
    smooth = 0.9 * wanted - 0.1 * log[kept].mean()
    close(called("aten.cross_entropy_loss.default", self=x, target=target, label_smoothing=0.1)[0], smooth)


@pytest.mark.parametrize(("reduction", "reduce"), [(0, np.asarray), (1, np.mean), (2, np.sum)])
def test_losses_of_two_tensors(reduction: int, reduce: Any) -> None:
    x, y = floats(4, 5), floats(4, 5)
    gap = np.abs(x - y)
    for name, wanted in (
        ("l1_loss", gap), ("mse_loss", gap**2), ("huber_loss", np.where(gap < 1, gap**2 / 2, gap - 0.5)),
        ("smooth_l1_loss", np.where(gap < 1, gap**2 / 2, gap - 0.5)), ("soft_margin_loss", np.log1p(np.exp(-x * y))),
        ("binary_cross_entropy_with_logits", np.log1p(np.exp(x)) - x * y),
    ):  # fmt: skip
        close(called(f"aten.{name}.default", self=x, target=y, reduction=reduction)[0], reduce(wanted), 1e-4)


# ---------------------------------------------------------------- functions
@pytest.mark.parametrize("degree", [0, 1, 2, 5])
def test_polynomials(degree: int) -> None:
    x = RNG.uniform(-1, 1, 6).astype(np.float32)
    one = np.eye(degree + 1)[degree]
    for name, wanted in (
        ("chebyshev_polynomial_t", np.polynomial.chebyshev.chebval(x, one)),
        ("hermite_polynomial_h", np.polynomial.hermite.hermval(x, one)),
        ("hermite_polynomial_he", np.polynomial.hermite_e.hermeval(x, one)),
        ("laguerre_polynomial_l", np.polynomial.laguerre.lagval(x, one)),
        ("legendre_polynomial_p", np.polynomial.legendre.legval(x, one)),
        ("shifted_chebyshev_polynomial_t", np.polynomial.chebyshev.chebval(2 * x - 1, one)),
    ):
        close(called(f"aten.special_{name}.n_scalar", x=x, n=degree)[0], wanted, 1e-4)


def test_common_divisors_and_multiples() -> None:
    a, b = RNG.integers(-60, 60, 40), RNG.integers(-60, 60, 40)
    np.testing.assert_array_equal(called("aten.gcd.default", self=a, other=b)[0], np.gcd(a, b))
    np.testing.assert_array_equal(np.abs(called("aten.lcm.default", self=a, other=b)[0]), np.lcm(a, b))


# ---------------------------------------------------------------- signals
@pytest.mark.parametrize("center", [False, True])
def test_a_signal_comes_back_from_its_frames(center: bool) -> None:
    x, window = floats(2, 64), np.hanning(17)[:16].astype(np.float32) + np.float32(0.1)
    program = Program()
    signal, shape = program.input("x", x.shape), program.weight("window", window)
    common: dict[str, Any] = {"n_fft": 16, "hop_length": 4, "win_length": 16, "window": shape, "center": center}
    z = program.call("aten.stft.center", self=signal, return_complex=True, **common)
    program.tensor(z, "complex64", ("a",) * 3)
    program.output(program.call("aten.abs.default", self=z))
    program.output(program.call("aten.istft.default", self=z, length=64, **common))
    with tempfile.TemporaryDirectory() as folder:
        graph = read_model(program.write(Path(folder) / "m.pt2"))
        size, again = interpret(graph, {"x": x}).values()
    wide = np.pad(x, ((0, 0), (8, 8)), mode="reflect") if center else x
    frames = np.lib.stride_tricks.sliding_window_view(wide, 16, 1)[:, ::4] * window
    close(size, np.abs(np.fft.rfft(frames)).swapaxes(1, 2), 1e-4)
    close(again, x, 1e-4)


# ---------------------------------------------------------------- random numbers
def test_random_numbers_have_their_distribution() -> None:
    """They are the same at every run, and others for every node."""
    program = Program()
    shape = [4000]
    names = [
        program.call("aten.rand.default", "u", size=shape), program.call("aten.randn.default", "n", size=shape),
        program.call("aten.randn.default", "m", size=shape),
        program.call("aten.randint.low", "i", low=-2, high=5, size=shape),
        program.call("aten.randperm.default", "p", n=50),
    ]  # fmt: skip
    x = program.input("x", (1,))
    for name in names:
        program.output(name)
    program.output(x)
    with tempfile.TemporaryDirectory() as folder:
        graph = read_model(program.write(Path(folder) / "m.pt2"))
    u, n, m, i, p, _ = interpret(graph, {"x": np.zeros(1, np.float32)}).values()
    assert u.min() >= 0
    assert u.max() < 1
    assert abs(u.mean() - 0.5) < 0.03
    assert abs(n.mean()) < 0.1
    assert abs(n.std() - 1) < 0.1
    assert abs(np.corrcoef(n, m)[0, 1]) < 0.1
    assert sorted(set(i.tolist())) == list(range(-2, 5))
    assert sorted(p.tolist()) == list(range(50))
    assert p.tolist() != list(range(50))
