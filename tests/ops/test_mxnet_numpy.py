"""MXNet's NumPy interface, its pictures, contrib and random numbers, against NumPy.

`ci/mxnet-operators` compares with MXNet.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sterna.errors import SternaError
from sterna.frontends.mxnet.operators import REFUSED, translators
from support.mxnet_nodes import results

RNG = np.random.default_rng(8)
X = RNG.normal(size=(3, 4, 5)).astype(np.float32)
A, B = RNG.normal(size=(2, 3, 4)).astype(np.float32)
SQUARE = RNG.normal(size=(2, 4, 4)).astype(np.float32)
WHOLE = RNG.integers(1, 40, (2, 3, 4)).astype(np.int32)
FLAGS = np.array([True, False, True])
STRANGE = np.array([np.nan, np.inf, -np.inf, 1.5], np.float32)


def _put(a: np.ndarray, places: Any, values: np.ndarray) -> np.ndarray:
    y = a.copy()
    y[tuple(places)] = values
    return y


def _diagonal(a: np.ndarray) -> np.ndarray:
    y = a.copy()
    np.fill_diagonal(y, 5)
    return y


#: Operator, operands, settings and what NumPy makes of the operands.
Case = tuple[str, tuple[np.ndarray, ...], dict[str, Any], Callable[..., Any]]
CASES: list[Case] = [
    ("_npi_arctan2", (A, B), {}, np.arctan2),
    ("_npi_rarctan2_scalar", (A,), {"scalar": 1.5}, lambda a: np.arctan2(np.float32(1.5), a)),
    ("_npi_bitwise_left_shift", (*WHOLE % 9,), {}, np.left_shift),
    ("_npi_bitwise_not", (WHOLE[0],), {}, np.invert),
    ("_npi_bitwise_right_shift_scalar", (WHOLE[0],), {"scalar": 2}, lambda a: a >> 2),
    ("_npi_bitwise_xor_scalar", (WHOLE[0],), {"scalar": 5}, lambda a: a ^ 5),
    ("_npi_copysign", (A, B), {}, np.copysign),
    ("_npi_floor_divide", (*WHOLE - 20,), {}, lambda a, b: np.where(b == 0, 0, a // np.where(b == 0, 1, b))),
    ("_npi_floor_divide", (A, B), {}, np.floor_divide),
    ("_npi_fmax", (STRANGE, np.ones(4, np.float32)), {}, np.fmax),
    ("_npi_fmin", (STRANGE, np.ones(4, np.float32)), {}, np.fmin),
    ("_npi_fmod", (A, B), {}, np.fmod),
    ("_npi_rfmod_scalar", (A,), {"scalar": 2}, lambda a: np.fmod(np.float32(2), a)),
    ("_npi_gcd", (*WHOLE,), {}, np.gcd),
    ("_npi_lcm", (*WHOLE,), {}, np.lcm),
    ("_npi_ldexp_scalar", (A,), {"scalar": 3}, lambda a: a * 8),
    ("_npi_logaddexp", (A, B), {}, np.logaddexp),
    ("_npi_isposinf", (STRANGE,), {}, np.isposinf),
    ("_npi_isneginf", (STRANGE,), {}, np.isneginf),
    ("_npi_nan_to_num", (STRANGE,), {"nan": 2.0}, lambda a: np.nan_to_num(a, nan=2.0)),
    ("_npi_around", (A,), {"decimals": 2}, lambda a: np.round(a, 2)),
    ("_sparse_floor", (A,), {}, np.floor),
    ("_npi_any", (WHOLE[0] % 2,), {"axis": 1}, lambda a: a.any(1)),
    ("_np_all", (WHOLE[0] % 2,), {"axis": 0}, lambda a: a.all(0)),
    ("_npi_sum", (X,), {"axis": (0, 2), "initial": 2.0}, lambda a: a.sum((0, 2), initial=2.0)),
    ("_np_amax", (X,), {"axis": 1, "keepdims": True}, lambda a: a.max(1, keepdims=True)),
    ("_npi_std", (X,), {"axis": 1, "ddof": 1}, lambda a: a.std(1, ddof=1)),
    ("_npi_average", (X, np.abs(A[0])), {"axis": 1}, lambda a, w: np.average(a, 1, w)),
    ("_npi_percentile", (X,), {"q_scalar": 40.0, "axis": (0, 2)}, lambda a: np.percentile(a, 40, axis=(0, 2))),
    ("_npi_diff", (X,), {"n": 2, "axis": 1}, lambda a: np.diff(a, 2, 1)),
    ("_npi_ediff1d", (A,), {"to_end_scalar": 3.0}, lambda a: np.ediff1d(a, to_end=np.float32(3))),
    ("_npi_polyval", (A[0], B), {}, np.polyval),
    ("_npi_interp", (np.sort(A[0]), B[0], 2 * X), {"left": -9.0}, lambda p, f, x: np.interp(x, p, f, left=-9.0)),
    ("_npi_norm", (X,), {"flag": -1, "ord": 3, "axis": (1,)}, lambda a: np.linalg.norm(a, 3, 1)),
    ("_npi_norm", (A,), {"flag": 2, "axis": (0, 1)}, lambda a: np.linalg.norm(a, "nuc")),
    ("_npi_moveaxis", (X,), {"source": (0, -1), "destination": (2, 0)}, lambda a: np.moveaxis(a, (0, -1), (2, 0))),
    ("_npi_roll", (X,), {"shift": (2, -1), "axis": (0, 2)}, lambda a: np.roll(a, (2, -1), (0, 2))),
    ("_np_roll", (X,), {"shift": 7}, lambda a: np.roll(a, 7)),
    ("_npi_rollaxis", (X,), {"axis": 0, "start": 3}, lambda a: np.rollaxis(a, 0, 3)),
    *(("_npi_rot90", (X,), {"k": k, "axes": (0, 2)}, lambda a, k=k: np.rot90(a, k, (0, 2))) for k in range(4)),
    ("_npi_atleast_3d", (A,), {"num_args": 1}, np.atleast_3d),
    ("_npi_hstack", (A, B), {"num_args": 2}, lambda *a: np.hstack(a)),
    ("_npi_vstack", (A[0], B[0]), {"num_args": 2}, lambda *a: np.vstack(a)),
    ("_npi_dstack", (A, B), {"num_args": 2}, lambda *a: np.dstack(a)),
    ("_npi_column_stack", (A[0], B.T), {"num_args": 2}, lambda *a: np.column_stack(a)),
    *(
        ("_npi_pad", (X,), {"pad_width": ((1, 2), (0, 3), (2, 0)), "mode": mode},
         lambda a, mode=mode: np.pad(a, ((1, 2), (0, 3), (2, 0)), mode))
        for mode in ("constant", "edge", "reflect", "symmetric", "maximum", "minimum")
    ),
    ("_npi_tril", (X,), {"k": 1}, lambda a: np.tril(a, 1)),
    ("_npi_triu", (A[0],), {"k": -1}, lambda a: np.triu(a, -1)),
    ("_npi_trace", (X,), {"offset": 1, "axis1": 0, "axis2": 2}, lambda a: np.trace(a, 1, 0, 2)),
    ("_npi_diagflat", (A,), {"k": -1}, lambda a: np.diagflat(a, -1)),
    ("_npi_diagonal", (X,), {"offset": -1, "axis1": 2, "axis2": 0}, lambda a: np.diagonal(a, -1, 2, 0)),
    ("_npi_diag_indices_from", (SQUARE[0],), {}, lambda a: np.array(np.diag_indices_from(a))),
    ("_npi_tri", (), {"N": 3, "M": 4, "k": 1}, lambda: np.tri(3, 4, 1)),
    ("_npi_identity", (), {"shape": (3, 3)}, lambda: np.eye(3)),
    ("_npi_indices", (), {"dimensions": (2, 3)}, lambda: np.indices((2, 3))),
    ("_npi_logspace", (), {"start": 0, "stop": 2, "num": 5}, lambda: np.logspace(0, 2, 5)),
    ("_npi_hanning", (), {"M": 7}, lambda: np.hanning(7)),
    ("_npi_repeats", (X,), {"repeats": (1, 0, 2), "axis": 0}, lambda a: np.repeat(a, (1, 0, 2), 0)),
    ("_npi_boolean_mask", (X, FLAGS), {}, lambda a, m: a[m]),
    ("_npi_advanced_indexing", (X, np.array([2, 0, -1])), {}, lambda a, i: a[i]),
    ("_npx_nonzero", (WHOLE[0] % 2,), {}, lambda a: np.stack(np.nonzero(a), 1)),
    ("_npi_boolean_mask_assign_scalar", (X, FLAGS), {"value": 7, "start_axis": 0},
     lambda a, m: np.where(m[:, None, None], np.float32(7), a)),
    ("_slice_assign", (X, A[:2, :2, None]), {"begin": (0, 3), "end": (2, 1), "step": (1, -1)},
     lambda a, v: np.concatenate([np.concatenate([a[:2, :2], np.broadcast_to(v[:, ::-1], (2, 2, 5))], 1), a[2:]])),
    ("_npx_index_update", (X, np.array([[0, 2], [1, 3]]), X[0, :2]), {}, _put),
    ("_npx_index_add", (X, np.array([[0, 2], [1, 3]]), X[0, :1]), {}, lambda a, i, v: _put(a, i, v + a[tuple(i)])),
    ("_contrib_index_copy", (X, np.array([2, 0]), X[:2] * 2), {}, lambda a, i, v: _put(a, (i,), v)),
    ("_npi_delete", (X,), {"int_ind": -1, "axis": 1}, lambda a: np.delete(a, -1, 1)),
    ("_npi_delete", (X,), {"start": 0, "stop": 40, "step": 3}, lambda a: np.delete(a, slice(0, 40, 3))),
    ("_npi_insert_scalar", (X,), {"val": 3, "int_ind": 2, "axis": 1}, lambda a: np.insert(a, 2, 3, 1)),
    ("_npi_insert_slice", (X, X[:2] * 2), {"start": 0, "stop": 2, "axis": 0},
     lambda a, v: np.insert(a, slice(0, 2), v, 0)),
    ("_npi_fill_diagonal", (A.T.copy(),), {"val": (5.0,), "wrap": False}, _diagonal),
    ("_npi_einsum", (SQUARE, SQUARE), {"subscripts": "bij,bkj->bik"}, lambda a, b: a @ b.transpose(0, 2, 1)),
    ("_npi_tensordot", (X, X), {"a_axes_summed": (0, 2), "b_axes_summed": (0, 2)},
     lambda a, b: np.tensordot(a, b, ((0, 2), (0, 2)))),
    ("_npi_tensordot_int_axes", (A, B.T.copy()), {"axes": 1}, lambda a, b: a @ b),
    ("_npi_kron", (A, SQUARE[0]), {}, np.kron),
    ("_npi_cross", (A.T.copy(), B.T.copy()), {}, np.cross),
    ("_npi_dot", (X, np.stack([B.T[:, :2], A.T[:, :2]]).repeat(2, 1)[:, :5]), {}, np.dot),
    ("_npi_solve", (SQUARE, X[:2, :, :3]), {}, np.linalg.solve),
    ("_npi_eigvalsh", (SQUARE[0],), {}, np.linalg.eigvalsh),
    ("_npi_pinv_scalar_rcond", (A[:2],), {"rcond": 1e-6}, np.linalg.pinv),
    ("_npi_matrix_rank_none_tol", (np.repeat(SQUARE[:, :2, :2], 2, 1),), {}, np.linalg.matrix_rank),
    ("_npi_tensorinv", (SQUARE[0].reshape(2, 2, 4),), {"ind": 2}, np.linalg.tensorinv),
    ("_npi_tensorsolve", (SQUARE[0].reshape(2, 2, 4), A[0].reshape(2, 2)), {}, np.linalg.tensorsolve),
    ("khatri_rao", (A, B), {}, lambda a, b: np.stack([np.kron(a[:, n], b[:, n]) for n in range(4)], 1)),
    ("_linalg_extracttrian", (SQUARE,), {"offset": -1}, lambda a: a[(slice(None), *np.tril_indices(4, -1))]),
    ("_image_to_tensor", (WHOLE.astype(np.uint8),), {}, lambda a: a.transpose(2, 0, 1) / np.float32(255)),
    ("_image_flip_left_right", (X,), {}, lambda a: a[:, ::-1]),
    ("_image_crop", (X,), {"x": 1, "y": 0, "width": 2, "height": 3}, lambda a: a[:3, 1:3]),
    ("_image_normalize", (X,), {"mean": (1, 2, 3), "std": (4, 5, 6)},
     lambda a: (a - np.float32([[[1]], [[2]], [[3]]])) / np.float32([[[4]], [[5]], [[6]]])),
    ("_random_pdf_exponential", (np.abs(A), np.abs(B[:, 0])), {}, lambda x, r: r[:, None] * np.exp(-r[:, None] * x)),
    ("_contrib_fft", (A,), {}, lambda a: np.stack([(f := np.fft.fft(a)).real, f.imag], -1).reshape(3, 8)),
    ("_contrib_ifft", (A,), {}, lambda a: np.fft.ifft(a[:, ::2] + 1j * a[:, 1::2]).real * 2),
    ("_contrib_allclose", (A, A), {}, lambda a, b: np.uint8(1)),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0].strip("_"))
def test_against_numpy(tmp_path: Path, case: Case) -> None:
    op, operands, said, reference = case
    (found,) = results(tmp_path, op, *operands, **said)
    wanted = np.asarray(reference(*operands))
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=2e-5)


def test_several_results(tmp_path: Path) -> None:
    found = results(tmp_path, "_npi_unique", WHOLE % 5, count=4, return_index=True, return_inverse=True,
                    return_counts=True)  # fmt: skip
    wanted = np.unique(WHOLE % 5, True, True, True)
    for ours, theirs in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(ours, theirs.reshape(ours.shape))
    counts, edges = results(tmp_path, "_npi_histogram", A, count=2, bin_cnt=5, range=(-1.0, 1.0))
    wanted_counts, wanted_edges = np.histogram(A, 5, (-1.0, 1.0))
    np.testing.assert_array_equal(counts, wanted_counts)
    np.testing.assert_allclose(edges, wanted_edges, atol=1e-6)
    x, rest, rank, s = results(tmp_path, "_npi_lstsq", A[:2].T.copy(), B[:1].T.copy(), count=4, rcond=-1)
    wanted = np.linalg.lstsq(A[:2].T, B[:1].T, rcond=None)
    for ours, theirs in zip((x, rest, rank, s), wanted, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-4)
    q, r = results(tmp_path, "_npi_qr", A.T.copy(), count=2)
    np.testing.assert_allclose(q @ r, A.T, atol=1e-5)
    u, s, v = results(tmp_path, "_npi_svd", A[:2], count=3)
    np.testing.assert_allclose((u * s) @ v, A[:2], atol=1e-5)
    values, vectors = results(tmp_path, "_npi_eigh", SQUARE[:1], count=2, UPLO="L")
    symmetric = np.tril(SQUARE[:1]) + np.tril(SQUARE[:1], -1).transpose(0, 2, 1)
    np.testing.assert_allclose(symmetric @ vectors, vectors * values[:, None], atol=1e-4)


def test_sizes_and_positions_that_are_known(tmp_path: Path) -> None:
    numbers = np.array([1, 0, 3, 3, 6], np.int64)
    (found,) = results(tmp_path, "_npi_bincount", numbers, held=(0,), minlength=9)
    np.testing.assert_array_equal(found, np.bincount(numbers, minlength=9))
    (found,) = results(tmp_path, "_npi_insert_tensor", X, X[:, :2], np.array([3, 1]), held=(2,), axis=1)
    np.testing.assert_array_equal(found, np.insert(X, [3, 1], X[:, :2], 1))
    (found,) = results(tmp_path, "_npi_percentile", X, np.float32([0, 50, 90]), held=(1,), axis=1)
    np.testing.assert_allclose(found, np.percentile(X, [0, 50, 90], 1), rtol=1e-5)
    mask = A > 0
    (found,) = results(tmp_path, "_npi_boolean_mask_assign_tensor", A, mask, B[mask], start_axis=0)
    np.testing.assert_array_equal(found, np.where(mask, B, A))


def test_windows_as_columns_and_back(tmp_path: Path) -> None:
    x = RNG.normal(size=(1, 2, 5, 6)).astype(np.float32)
    (found,) = results(tmp_path, "im2col", x, kernel=(3, 2))
    wanted = np.lib.stride_tricks.sliding_window_view(x, (3, 2), (2, 3)).transpose(0, 1, 4, 5, 2, 3).reshape(1, 12, 15)
    np.testing.assert_array_equal(found, wanted)
    (back,) = results(tmp_path, "col2im", found, kernel=(3, 2), output_size=(5, 6))
    times = np.array([1, 2, 3, 2, 1])[:, None] * np.array([1, 2, 2, 2, 2, 1])
    np.testing.assert_allclose(back, x * times, rtol=1e-5)


@pytest.mark.parametrize(
    ("op", "said", "mean", "deviation"),
    [
        ("_random_normal", {"loc": 2, "scale": 3}, 2, 3),
        ("_npi_uniform", {"low": 1, "high": 4}, 2.5, 3 / 12**0.5),
        ("_random_exponential", {"lam": 2}, 0.5, 0.5),
        ("_npi_exponential", {"scale": 2}, 2, 2),
        ("_npi_gumbel", {"loc": 1, "scale": 2}, 1 + 2 * 0.5772, 2 * np.pi / 6**0.5),
        ("_npi_laplace", {"loc": 1, "scale": 2}, 1, 2 * 2**0.5),
        ("_npi_logistic", {"loc": 1, "scale": 2}, 1, 2 * np.pi / 3**0.5),
        ("_npi_pareto", {"a": 9}, 1 / 8, (9 / (64 * 7)) ** 0.5),
        ("_npi_powerd", {"a": 2}, 2 / 3, 1 / 18**0.5),
        ("_npi_rayleigh", {"scale": 2}, 2 * (np.pi / 2) ** 0.5, 2 * (2 - np.pi / 2) ** 0.5),
        ("_npi_weibull", {"a": 2}, 0.88623, 0.46325),
        ("_npi_bernoulli", {"prob": 0.3}, 0.3, 0.21**0.5),
        ("_npi_random_randint", {"low": -2, "high": 7}, 2, (80 / 12) ** 0.5),
        ("_npi_choice", {"a": 9, "replace": True}, 4, (80 / 12) ** 0.5),
    ],
)
def test_random_numbers_have_their_distribution(
    tmp_path: Path, op: str, said: dict[str, Any], mean: float, deviation: float
) -> None:
    sizes = {"shape" if "random" in op else "size": (100, 200)}
    (found,) = results(tmp_path, op, **said, **sizes)
    assert found.shape == (100, 200)
    assert abs(found.mean() - mean) < 4 * deviation / 20_000**0.5
    assert abs(found.std() - deviation) < 0.06 * deviation


def test_drawn_positions(tmp_path: Path) -> None:
    weights = np.float32([0.1, 0.0, 0.6, 0.3])
    (found,) = results(tmp_path, "_sample_multinomial", weights, shape=(2000,))
    np.testing.assert_allclose(np.bincount(found, minlength=4) / 2000, weights, atol=0.04)
    (found,) = results(tmp_path, "_npi_multinomial", weights, n=50, size=(3,))
    assert found.shape == (3, 4)
    assert (found.sum(1) == 50).all()
    (found,) = results(tmp_path, "_npi_shuffle", np.arange(40, dtype=np.float32))
    np.testing.assert_array_equal(np.sort(found), np.arange(40))
    (found,) = results(tmp_path, "_npi_choice", np.arange(40, dtype=np.float32), size=(30,), replace=False)
    assert len({*found.tolist()}) == 30


def test_bytes_with_a_shift(tmp_path: Path) -> None:
    found, scale, shift = results(tmp_path, "_contrib_quantize_asym", A, count=3, numpy=False)
    wanted_scale = 255 / (A.max() - A.min())
    np.testing.assert_allclose(scale, [wanted_scale], rtol=1e-6)
    np.testing.assert_allclose((found.astype(np.float32) - shift) / scale, A, atol=0.51 / wanted_scale)


def test_an_lstm_of_bytes_is_that_of_their_numbers(tmp_path: Path) -> None:
    time, batch, inputs, hidden = 3, 2, 4, 5
    numbers = RNG.integers(0, 255, (time, batch, inputs)).astype(np.uint8)
    weights = RNG.normal(size=4 * hidden * (inputs + hidden + 2)).astype(np.float32) * 0.3
    state = np.zeros((1, batch, hidden), np.float32)
    said = {"mode": "lstm", "state_size": hidden, "num_layers": 1}
    scale, shift = np.float32([50.0]), np.float32([128.0])
    (found,) = results(
        tmp_path, "_contrib_quantized_rnn", numbers, weights, state, state, scale, shift, held=(1,), **said
    )
    real = (numbers.astype(np.float32) - shift) / scale
    (wanted,) = results(tmp_path, "RNN", real, weights, state, state, held=(1,), **said)
    np.testing.assert_allclose(found, wanted, atol=1e-6)


@pytest.mark.parametrize(
    ("op", "operands", "said", "code"),
    [
        ("_npi_bincount", (WHOLE[0, 0],), {}, "E0107"),
        ("_npi_eig", (SQUARE,), {}, "E0104"),
        ("_npi_pad", (X,), {"pad_width": "((1, 2),)", "mode": "linear"}, "E0109"),
        ("_npi_moveaxis", (X,), {"source": (0, 0), "destination": (1, 2)}, "E0109"),
        ("_npi_delete", (X,), {"int_ind": 9, "axis": 1}, "E0109"),
        ("_npi_percentile", (X,), {"q_scalar": 140.0}, "E0109"),
        ("_npi_tensordot_int_axes", (X, X), {"axes": 2}, "E0108"),
        ("_npi_boolean_mask_assign_scalar", (X, FLAGS), {"value": 1, "start_axis": 2}, "E0108"),
        ("_random_gamma", (), {"alpha": 1, "beta": 2, "shape": (3,)}, "E0104"),
        ("_npi_choice", (), {"size": (3,)}, "E0109"),
    ],
)
def test_refused(tmp_path: Path, op: str, operands: tuple[np.ndarray, ...], said: dict[str, Any], code: str) -> None:
    with pytest.raises(SternaError) as caught:
        results(tmp_path, op, *operands, **said)
    assert set(caught.value.codes) == {code}


def test_no_operator_is_both_translated_and_refused() -> None:
    assert not {*translators()} & {*REFUSED}


def test_slopes_that_were_drawn_are_a_result(tmp_path: Path) -> None:
    said = {"act_type": "rrelu", "lower_bound": 0.1, "upper_bound": 0.3}
    y, slopes = results(tmp_path, "LeakyReLU", A, count=2, numpy=False, **said)
    np.testing.assert_allclose(y, np.where(A < 0, A * np.float32(0.2), A), rtol=1e-6)
    assert not slopes.any()
