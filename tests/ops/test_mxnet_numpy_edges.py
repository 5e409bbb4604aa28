"""Edges of MXNet's NumPy interface: what MXNet 1.9.1 gave for the same operands, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sterna.errors import SternaError
from support.mxnet_nodes import results

A = np.arange(1, 7, dtype=np.float32).reshape(2, 3)
V = np.arange(-2, 3, dtype=np.float32)
X = np.arange(-7, 17, dtype=np.float32).reshape(2, 3, 4)
YES = np.array([True, True])
NAN = np.nan


@pytest.mark.parametrize(
    ("x", "flag", "order", "axis", "wanted"),
    [
        (A, -1, 0, None, 6.0), (A, -1, 1, None, 9.0), (A, -1, -1, None, 5.0), (A, -1, 2, None, 9.508),
        (A, -1, -2, None, 0.7729), (A, -1, 3, None, 15.0), (A, -1, -3, None, 6.0), (A, -1, 0.5, None, 15.0),
        (A, -1, 0, (1,), [3, 3]), (A, -1, 1, (1,), [6, 15]), (A, -1, 3, (1,), [3.3019, 7.3986]),
        (A, -1, -2, (1,), [0.8571, 2.7705]), (A, -1, 0.5, (1,), [17.1915, 44.6967]),
        (A, -1, np.inf, (1,), [3, 6]), (A, -1, -np.inf, (1,), [1, 4]), (A, -1, np.inf, None, 15.0),
        (A, 0, 2, (0, 1), 9.508), (A, 0, -2, (0, 1), 0.7729), (A, 0, 1, (1, 0), 15.0), (A, 0, 3, (1, 0), 9.0),
        (V, -1, 0, None, 4.0), (V, -1, -1, None, 0.3333), (V, -1, 2, None, 3.1623), (V * 0, -1, -1, None, 0.0),
        (X, -1, 1, None, [11, 36]), (X, -1, 2, None, [12.5633, 38.2713]), (X, -1, 3, (0, 1), [27, 30, 33, 36]),
        (X, 0, -2, (0, 1), [6.9573, 6.4267, 5.9158, 5.4445]), (X, -2, 2, None, 40.4475),
        (X, 1, 2, None, [13.0384, 38.2884]), (X, 1, 2, (2, 0), [17.3205, 21.4476, 29.5973]),
        (X, 2, 2, None, [16.051, 39.4162]), (X, 2, 2, (0, 2), [20.1824, 23.8187, 31.3581]),
        (A, 1, 2, (1,), [3.7417, 8.775]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("keep", [False, True])
def test_norms(
    tmp_path: Path, x: np.ndarray, flag: int, order: float, axis: tuple[int, ...] | None, wanted: Any, keep: bool
) -> None:
    (found,) = results(tmp_path, "_npi_norm", x, flag=flag, ord=order, axis=axis, keepdims=keep)
    named = axis or range(0 if flag == -2 else max(x.ndim - 2, 0), x.ndim)
    sizes = [1 if n in named else x.shape[n] for n in range(x.ndim) if keep or n not in named]
    assert [*found.shape] == sizes
    np.testing.assert_allclose(found, np.reshape(wanted, sizes), rtol=2e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("x", "mask", "values", "start", "wanted"),
    [
        (A, YES, [7, 8, 9], 0, [[7, 8, 9], [7, 8, 9]]),
        (A, YES & [True, False], [[7, 8, 9]], 0, [[7, 8, 9], [4, 5, 6]]),
        (A, YES, [[7, 8, 9]], 0, [[7, 8, 9], [7, 8, 9]]),
        (A, [True, False, True], [[7, 8], [5, 6]], 1, [[7, 2, 8], [5, 5, 6]]),
        (A, [True, False, True], [7, 8], 1, [[7, 2, 7], [8, 5, 8]]),
        (A, [[True, False, True], [False, True, False]], [7, 8, 9], 0, [[7, 2, 8], [4, 9, 6]]),
        (A, [[True, False, True], [False, True, False]], [7], 0, [[7, 2, 7], [4, 7, 6]]),
        (A, YES & False, [[7, 8, 9], [1, 2, 3]], 0, A),
        (A, YES & [True, False], [[7]], 0, [[7, 7, 7], [4, 5, 6]]),
    ],
)
def test_values_under_a_mask(tmp_path: Path, x: np.ndarray, mask: Any, values: Any, start: int, wanted: Any) -> None:
    operands = x, np.array(mask), np.array(values, np.float32)
    (found,) = results(tmp_path, "_npi_boolean_mask_assign_tensor", *operands, start_axis=start)
    np.testing.assert_array_equal(found, wanted)


def test_more_values_than_the_mask_has_places_fail(tmp_path: Path) -> None:
    mask, values = np.array([True, False]), np.ones((2, 3), np.float32)
    with pytest.raises(SternaError):
        results(tmp_path, "_npi_boolean_mask_assign_tensor", A, mask, values, start_axis=0)


def test_the_logarithm_of_a_masked_softmax_does_not_vanish(tmp_path: Path) -> None:
    x, mask = np.float32([[200, 0, -200, 3], [1, 2, 3, 4]]), np.int32([[1, 1, 1, 0], [0, 0, 0, 0]])
    (found,) = results(tmp_path, "masked_log_softmax", x, mask, numpy=False, axis=-1)
    np.testing.assert_allclose(found, [[0, -200, -400, -np.inf], [-np.inf] * 4], rtol=1e-6)


@pytest.mark.parametrize("method", ["linear", "lower", "higher", "midpoint", "nearest"])
def test_a_nan_is_a_share_of_no_numbers(tmp_path: Path, method: str) -> None:
    x = np.float32([[1, NAN, 3], [4, 5, 6]])
    (found,) = results(tmp_path, "_npi_percentile", x, q_scalar=0.0, axis=1, interpolation=method)
    np.testing.assert_array_equal(found, [NAN, 4])
    (found,) = results(tmp_path, "_npi_percentile", x, q_scalar=0.0, interpolation=method, keepdims=True)
    np.testing.assert_array_equal(found, [[NAN]])


def test_numbers_for_others_are_put_in_one_after_the_other(tmp_path: Path) -> None:
    """MXNet looks for infinities in what stands for NaN, too."""
    x = np.float32([NAN, np.inf, -np.inf, 1.5])
    (found,) = results(tmp_path, "_npi_nan_to_num", x, nan=np.inf, posinf=7.0)
    np.testing.assert_array_equal(found, np.float32([7, 7, np.finfo(np.float32).min, 1.5]))


def test_types_of_results(tmp_path: Path) -> None:
    (found,) = results(tmp_path, "_contrib_allclose", A, A, numpy=False)
    assert (found.dtype, found.shape, found[0]) == (np.uint8, (1,), 1)
    (found,) = results(tmp_path, "_npi_random_randint", low=0, high=9, shape=(3,), dtype="int")
    assert found.dtype == np.int64
    (found,) = results(tmp_path, "_image_adjust_lighting", np.ones((2, 2, 3), np.float16), alpha=(1, 2, 3))
    assert found.dtype == np.float16
    np.testing.assert_allclose(found[0, 0], [-22.2, -34.06, -36.6], rtol=1e-3)


@pytest.mark.parametrize(
    ("name", "function"), [("and", np.logical_and), ("or", np.logical_or), ("xor", np.logical_xor)]
)
def test_bits_of_truths(tmp_path: Path, name: str, function: Any) -> None:
    a, b = np.array([True, False, True, False]), np.array([True, True, False, False])
    (found,) = results(tmp_path, f"_npi_bitwise_{name}", a, b)
    assert found.dtype == bool
    np.testing.assert_array_equal(found, function(a, b))
    (found,) = results(tmp_path, f"_npi_bitwise_{name}_scalar", a, scalar=1, is_int=True)
    assert found.dtype == bool
    np.testing.assert_array_equal(found, function(a, True))


@pytest.mark.parametrize("offset", [0, 1, 2, 3, 5, -1, -2, -3])
def test_diagonals_beyond_the_matrix(tmp_path: Path, offset: int) -> None:
    (found,) = results(tmp_path, "_npi_diagonal", A, offset=offset)
    np.testing.assert_array_equal(found, np.diagonal(A, offset))
    (found,) = results(tmp_path, "_npi_trace", A, offset=offset)
    np.testing.assert_array_equal(found, np.trace(A, offset))


def test_integers_of_wide_ranges_have_all_their_bits(tmp_path: Path) -> None:
    for high in (2**31 - 1, 2**40):
        (found,) = results(tmp_path, "_random_randint", low=5, high=high, shape=(4000,), dtype="int64")
        assert found.min() >= 5
        assert found.max() < high
        assert abs((found & 1).mean() - 0.5) < 0.04
        assert abs(found.mean() / high - 0.5) < 0.03
        assert len(np.unique(found)) > 3990


NUMBERS = np.array([1, -2, 3], np.int64)
SCALAR = np.array(3, np.float32)


@pytest.mark.parametrize(
    ("op", "operands", "held", "said", "code"),
    [
        ("_npi_bincount", (NUMBERS,), (0,), {}, "E0109"),
        ("_npi_bincount", (np.abs(NUMBERS), V), (0,), {"has_weights": True}, "E0108"),
        ("_npi_bincount", (V + 2,), (0,), {}, "E0111"),
        ("_npi_trace", (V,), (), {}, "E0108"),
        ("_npi_diagonal", (V,), (), {}, "E0108"),
        ("diag", (A,), (), {"k": -5}, "E0109"),
        ("_npi_diff", (A,), (), {"n": -1}, "E0109"),
        ("_npi_percentile", (A, np.float32([[10, 20]])), (1,), {}, "E0108"),
        ("_npi_boolean_mask", (A, np.array([1, 0, 1], np.int32)), (), {}, "E0108"),
        ("_npi_boolean_mask", (A, np.array([1], np.int32)), (), {}, "E0108"),
        ("_npi_boolean_mask", (A, np.ones((2, 3), np.int32)), (), {}, "E0108"),
        ("_npi_boolean_mask_assign_tensor", (X, np.ones(3, bool), V[:4]), (), {"start_axis": 1}, "E0108"),
        ("_npi_boolean_mask_assign_tensor", (X, np.ones(2, bool), X[:1, :, :1]), (), {"start_axis": 0}, "E0108"),
        ("_npi_choice", (), (), {"a": 0, "size": (2,)}, "E0109"),
        ("_npi_choice", (), (), {"a": -1, "size": (2,)}, "E0109"),
        ("_npi_choice", (), (), {"a": 3, "size": (5,), "replace": False}, "E0109"),
        ("_npi_choice", (V[:3] * 0,), (0,), {"a": 3, "size": (2,), "weighted": True}, "E0109"),
        ("_npi_choice", (V,), (0,), {"a": 5, "size": (2,), "weighted": True}, "E0109"),
        ("_npi_choice", (V,), (), {"a": 3, "size": (2,), "weighted": True}, "E0108"),
        ("_npi_shuffle", (SCALAR,), (), {}, "E0108"),
        ("_slice_assign", (SCALAR, SCALAR), (), {"begin": (), "end": ()}, "E0108"),
        ("_slice_assign_scalar", (SCALAR,), (), {"begin": (), "end": (), "scalar": 2}, "E0108"),
        ("_random_randint", (), (), {"low": 0, "high": 2**62 + 1, "shape": (3,), "dtype": "int64"}, "E0113"),
        ("_npi_norm", (X,), (), {"flag": -2, "axis": (1,)}, "E0109"),
        ("_npi_norm", (X,), (), {"flag": -1, "axis": (0, 1, 2)}, "E0109"),
        ("_npi_norm", (X,), (), {"flag": 1, "axis": (1, 1)}, "E0109"),
        ("_npi_norm", (SCALAR,), (), {"flag": -1}, "E0109"),
        ("_npi_norm", (V,), (), {"flag": 2}, "E0108"),
    ],
)  # fmt: skip
def test_refused(
    tmp_path: Path, op: str, operands: tuple[np.ndarray, ...], held: tuple[int, ...], said: dict[str, Any], code: str
) -> None:
    with pytest.raises(SternaError) as caught:
        results(tmp_path, op, *operands, held=held, **said)
    assert set(caught.value.codes) == {code}


def test_weights_that_are_computed_and_all_0_fail(tmp_path: Path) -> None:
    with pytest.raises(SternaError):
        results(tmp_path, "_npi_choice", V[:3] * 0, a=3, size=(2,), weighted=True)
