"""PyTorch's less common operators and overloads against NumPy and SciPy, over element types and drawn shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sterna.errors import SternaError
from support.exported_programs import Type
from support.pytorch_calls import called, close

scipy = pytest.importorskip("scipy.special")
FEW = settings(max_examples=5, deadline=None, derandomize=True)
RNG = np.random.default_rng(29)


def floats(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return RNG.standard_normal(shape).astype(dtype)


# ---------------------------------------------------------------- functions
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 2e-5), ("float64", 1e-12), ("float16", 2e-3)])
def test_incomplete_gamma_functions(dtype: str, tolerance: float) -> None:
    """From small to large a, on both sides of x = a, and where either is 0, infinite or negative."""
    a = np.array([1e-3, 0.5, 1, 3, 8, 20, 150], dtype)[:, None]
    x = np.array([0, 1e-3, 0.3, 1, 2.5, 7.9, 30, 160], dtype)
    ends = np.array([[0, 0], [0, 2], [2, 0], [np.inf, 2], [2, np.inf], [-1, 2], [2, -1], [np.nan, 1]], dtype)
    for target, wanted in (
        ("aten.igamma.default", scipy.gammainc),
        ("aten.special_gammaincc.default", scipy.gammaincc),
    ):
        for first, second in ((a, x), (ends[:, 0], ends[:, 1])):
            found = called(target, self=np.array(first), other=np.array(second))[0]
            assert found.dtype == dtype
            close(found, wanted(first.astype(np.float64), second.astype(np.float64)), tolerance)


@pytest.mark.parametrize("shape", [(), (0, 2), (3, 4)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_fractions_and_exponents(shape: tuple[int, ...], dtype: str) -> None:
    x = np.asarray(floats(*shape) * 10.0 ** RNG.integers(-30, 30, shape), dtype)
    found = called("aten.frexp.Tensor", "m", "e", self=x)
    for part, wanted in zip(found, np.frexp(x), strict=True):
        assert part.dtype == wanted.dtype
        np.testing.assert_array_equal(part, wanted)


def test_fractions_of_the_smallest_numbers() -> None:
    x = np.array([0, -0.0, 1e-45, -3e-42, np.inf, -np.inf], np.float32)
    for part, wanted in zip(called("aten.frexp.Tensor", "m", "e", self=x), np.frexp(x), strict=True):
        np.testing.assert_array_equal(part, np.where(np.isinf(x) & (wanted != x), 0, wanted))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_neighbours(dtype: str) -> None:
    x = np.array([0, 0, 0, 1, 1, -1, -1, 3e38, 1e-45, np.inf, np.nan, 2], dtype)
    y = np.array([1, -1, 0, 2, 0, 0, -2, np.inf, 0, 0, 1, np.nan], dtype)
    np.testing.assert_array_equal(called("aten.nextafter.default", self=x, other=y)[0], np.nextafter(x, y))


@FEW
@given(st.integers(1, 2), st.integers(0, 1), st.booleans())
def test_gradients(order: int, axis: int, places: bool) -> None:
    x = floats(4, 6)
    at = np.cumsum(RNG.uniform(0.5, 2, x.shape[axis])).astype(np.float32)
    given_ = {"spacing": [at], "dim": [axis]} if places else {"spacing": 0.5, "dim": [axis]}
    target = "aten.gradient.tensorarray" if places else "aten.gradient.scalararray"
    found = called(target, self=x, edge_order=order, **given_)[0]
    close(found, np.gradient(x, at if places else 0.5, axis=axis, edge_order=order), 1e-4)


@pytest.mark.parametrize("density", [False, True])
def test_histograms_of_weights(density: bool) -> None:
    x, w = RNG.uniform(-2, 2, 60).astype(np.float32), RNG.uniform(0, 1, 60).astype(np.float32)
    edges = np.array([-1, -0.5, 0.25, 1.5], np.float32)
    found = called("aten.histogram.bins_tensor", "h", "e", self=x, bins=edges, weight=w, density=density)[0]
    close(found, np.histogram(x, edges, weights=w, density=density)[0], 1e-4)
    found, places = called("aten.histogram.bin_ct", "h", "e", self=x, bins=5, density=density)
    wanted = np.histogram(x, 5, density=density)
    close(found, wanted[0], 1e-4)
    close(places, wanted[1])


# ---------------------------------------------------------------- matrices
@pytest.mark.parametrize(("rows", "columns"), [(5, 3), (3, 5), (4, 4)])
def test_reflections(rows: int, columns: int) -> None:
    a = floats(2, rows, columns)
    both, tau = called("aten.geqrf.default", "a", "tau", self=a)
    q, r = np.linalg.qr(a)
    k = min(rows, columns)
    close(np.triu(both)[:, :k], r, 1e-4)
    if rows >= columns:
        close(called("aten.linalg_householder_product.default", input=both, tau=tau)[0], q, 1e-4)
    whole = np.linalg.qr(a, "complete")[0]
    c = floats(2, rows, 2)
    for transpose in (False, True):
        side = whole.swapaxes(-1, -2) if transpose else whole
        given_ = {"self": both[:, :, :k], "input2": tau, "transpose": transpose}
        close(called("aten.ormqr.default", input3=c, left=True, **given_)[0], side @ c, 1e-4)
        right = np.ascontiguousarray(c.swapaxes(-1, -2))
        close(called("aten.ormqr.default", input3=right, left=False, **given_)[0], right @ side, 1e-4)


@pytest.mark.parametrize(("rows", "columns"), [(5, 3), (3, 5), (33, 35)])
def test_factors_of_matrices_that_are_not_square(rows: int, columns: int) -> None:
    a = floats(1 if rows > 9 else 2, rows, columns)
    p, lower, upper = called("aten.linalg_lu.default", "p", "l", "u", A=a)
    close(p @ lower @ upper, a, 1e-4)
    both, pivots = called("aten.linalg_lu_factor.default", "lu", "pivots", A=a)
    for part, wanted in zip(
        called("aten.lu_unpack.default", "p", "l", "u", LU_data=both, LU_pivots=pivots), (p, lower, upper), strict=True
    ):
        close(part, wanted)


def test_inner_products_and_those_of_three_tensors() -> None:
    a, b = floats(2, 3, 4), floats(5, 4)
    close(called("aten.inner.default", self=a, other=b)[0], np.inner(a, b))
    close(called("aten.inner.default", self=np.array(2, np.float32), other=b)[0], 2 * b)
    x, y, z = floats(3, 4), floats(5, 4, 6), floats(3, 6)
    found = called("aten._trilinear.default", i1=x, i2=y, i3=z, expand1=[1, 3], expand2=[0], expand3=[1, 2],
                   sumdim=[2, 3])[0]  # fmt: skip
    close(found, np.einsum("bi,oij,bj->bo", x, y, z), 1e-4)
    close(called("aten.einsum.default", equation="...ik, ...j -> ij", tensors=[floats(0, 2, 3), floats(4)])[0],
          np.zeros((2, 4)))  # fmt: skip


def test_scaled_products_of_few_bits() -> None:
    x, w = floats(3, 4), RNG.integers(-9, 9, (5, 4)).astype(np.int8)
    scales = RNG.uniform(0.1, 1, 5).astype(np.float32)
    found = called("aten._weight_int8pack_mm.default", self=x, mat2=w, scales=scales)[0]
    close(found, x @ (w * scales[:, None]).T, 1e-4)


# ---------------------------------------------------------------- movement
@FEW
@given(st.integers(-2, 2), st.permutations([0, 1, 2]))
def test_diagonals_in_other_dimensions(offset: int, order: list[int]) -> None:
    x, (a, b, _) = floats(3, 4), order
    found = called("aten.diag_embed.default", self=x, offset=offset, dim1=a, dim2=b)[0]
    close(np.diagonal(found, offset, a, b), x)
    assert np.count_nonzero(found) == x.size


def test_empty_lists_of_dimensions_name_none() -> None:
    x = floats(1, 3, 1)
    close(called("aten.flip.default", self=x, dims=[])[0], x)
    assert called("aten.squeeze.dims", self=x, dim=[])[0].shape == x.shape
    assert called("aten.squeeze.default", self=x)[0].shape == (3,)
    close(called("aten.diff.default", self=x, n=0, dim=1, prepend=x, append=x)[0], x)


@pytest.mark.parametrize(("mode", "name"), [("constant", "constant"), ("replicate", "edge"), ("circular", "wrap")])
def test_padding_at_one_end_and_cropping_at_the_other(mode: Any, name: Any) -> None:
    x = floats(1, 2, 5)
    wanted = np.pad(x[..., 2:], ((0, 0), (0, 0), (0, 3)), name)
    close(called("aten.pad.default", self=x, pad=[-2, 3], mode=mode)[0], wanted)
    if mode == "replicate":  # what is cropped whole still stands at the other end
        wanted = np.pad(x, ((0, 0), (0, 0), (0, 6)), name)[..., 5:]
        close(called("aten.pad.default", self=x, pad=[-5, 6], mode=mode)[0], wanted)


def test_lists_of_tensors() -> None:
    a, b = [floats(2), floats(3, 1)], [floats(2), floats(3, 1)]
    for found, x, y in zip(called("aten._foreach_add.List", "p", "q", self=a, other=b, alpha=2), a, b, strict=True):
        close(found, x + 2 * y)
    for found, x in zip(called("aten._foreach_mul.ScalarList", "p", "q", self=a, scalars=[2.0, 3.0]), a, strict=True):
        close(found, x * (2 if x is a[0] else 3))
    for found, x in zip(called("aten._foreach_exp.default", "p", "q", self=a), a, strict=True):
        close(found, np.exp(x))
    with pytest.raises(SternaError, match="E0104"):  # gives nothing back, and its lists are not followed
        called("aten._foreach_exp_.default", "p", "q", self=a)


def test_numbers_between_computed_ends() -> None:
    a, b = np.array(-2, np.float32), np.array(3, np.float32)
    start, end = (np.array(n, np.float32) for n in (-2.5, 3.5))  # whole, where integers are wanted
    whole = called("aten.linspace.Tensor_Tensor", start=start, end=end, steps=6, dtype=Type("int64"))[0]
    assert whole.tolist() == [-2, -1, 0, 1, 2, 3]
    close(called("aten.linspace.Tensor_Tensor", start=a, end=b, steps=6)[0], np.linspace(-2, 3, 6))
    close(called("aten.logspace.Tensor_Scalar", start=a, end=1.0, steps=4, base=2.0)[0], np.logspace(-2, 1, 4, base=2))


def test_means_of_integers_are_cut_off() -> None:
    x = np.array([[[[3, 4], [-5, -3]]]], np.int64)
    found = called("aten.avg_pool2d.default", self=x, kernel_size=[1, 2])[0]
    assert found.dtype == np.int64
    assert found.tolist() == [[[[3], [-4]]]]


def test_attention_with_dropout_is_refused() -> None:
    """It is random in PyTorch, in training or not."""
    x = floats(1, 2, 3, 4)
    with pytest.raises(SternaError, match="dropout") as caught:
        called("aten.scaled_dot_product_attention.default", query=x, key=x, value=x, dropout_p=0.5)
    assert caught.value.codes == ("E0113",)


def test_truth_values_are_ordered_added_and_multiplied() -> None:
    """As numbers are: true is larger than false, a sum is true where one is, a product where both are."""
    a, b = np.array([[True, False], [True, False]]), np.array([[True, True], [False, False]])
    for target, names, wanted in (
        ("clamp_min.Tensor", ("self", "min"), a | b), ("clamp_max.Tensor", ("self", "max"), a & b),
        ("fmax.default", ("self", "other"), a | b), ("fmin.default", ("self", "other"), a & b),
        ("heaviside.default", ("self", "values"), a | b),
    ):  # fmt: skip
        found = called(f"aten.{target}", **dict(zip(names, (a, b), strict=True)))[0]
        assert found.dtype == bool
        assert found.tolist() == wanted.tolist()
    row = np.array([True, False])
    assert called("aten.addr.default", self=a, vec1=row, vec2=~row)[0].tolist() == (a | np.outer(row, ~row)).tolist()
    assert [x.tolist() for x in called("aten.aminmax.default", "low", "high", self=a, dim=1)] == [
        [False] * 2,
        [True] * 2,
    ]
    summed = called("aten.sum_to_size.default", self=np.array([True, True, True]), size=[1])[0]
    assert (summed.dtype, summed.tolist()) == (np.int64, [3])


def test_rectified_unsigned_integers_are_themselves() -> None:
    x = np.array([0, 3, 255], np.uint8)
    assert called("aten.relu.default", self=x)[0].tolist() == x.tolist()
    less = called("aten.add.Tensor", self=x, other=np.array([1, 2, 3], np.uint8), alpha=-1)[0]
    assert less.tolist() == [255, 1, 252]
    squares = called("aten.square.default", self=np.array([True, False]))[0]
    assert (squares.dtype, squares.tolist()) == (np.int64, [1, 0])


def test_regions_of_whole_pixels() -> None:
    """By hand: the second region's edges lie between two pixels and outside of the picture."""
    x = np.arange(2 * 6 * 8, dtype=np.float32).reshape(1, 2, 6, 8)
    rois = np.array([[0, 2, 2, 10, 9], [0, -3, 1, 5, 5]], np.float32)
    (found,) = called(
        "torchvision.roi_pool.default", input=x, rois=rois, spatial_scale=0.5, pooled_height=2, pooled_width=2
    )
    first = [[x[0, 0, 3, 3], x[0, 0, 3, 5]], [x[0, 0, 5, 3], x[0, 0, 5, 5]]]
    # From -2 to 3 in x and 1 to 3 in y, both included: bins of 3 by 1.5 pixels, which share a row.
    second = [[x[0, 0, 2, 0], x[0, 0, 2, 3]], [x[0, 0, 3, 0], x[0, 0, 3, 3]]]
    np.testing.assert_array_equal(found[:, 0], [first, second])
    np.testing.assert_array_equal(found[:, 1], np.array([first, second]) + 48)


# ---------------------------------------------------------------- types that few expect
def test_products_and_sums_of_truth_values() -> None:
    a, b = np.array([True, False, True]), np.array([True, True, False])
    for target in ("outer", "kron"):
        (found,) = called(f"aten.{target}.default", self=a, **{"vec2" if target == "outer" else "other": b})
        np.testing.assert_array_equal(found, np.outer(a, b) if target == "outer" else np.kron(a, b))
    places = np.array([0, 0, 2])
    rows = np.array([[True, False], [False, False], [False, True]])
    (found,) = called("aten.index_add.default", self=np.zeros((3, 2), bool), dim=0, index=places, source=rows)
    np.testing.assert_array_equal(found, [[True, False], [False, False], [False, True]])


def test_signs() -> None:
    x = np.array([-0.0, 0.0, -1.0, 2.0, np.inf, -np.inf, -1e-45], np.float32)
    np.testing.assert_array_equal(called("aten.signbit.default", self=x)[0], np.signbit(x))
    np.testing.assert_array_equal(
        np.signbit(called("aten.copysign.Tensor", self=np.ones_like(x), other=x)[0]), np.signbit(x)
    )
    for dtype in ("bool", "uint8", "int8"):
        given_ = np.array([0, 1, 255]).astype(dtype)
        np.testing.assert_array_equal(called("aten.signbit.default", self=given_)[0], np.array(given_ < 0))


def test_distances_of_bytes_wrap() -> None:
    a, b = np.array([[3, 200, 7]], np.uint8), np.array([[5, 10, 9]], np.uint8)
    (found,) = called("aten.pairwise_distance.default", x1=a, x2=b)
    close(found, np.linalg.norm((a - b).astype(np.float32) + 1e-6, axis=1))


@pytest.mark.parametrize("target", ["upsample_bilinear2d", "upsample_bicubic2d", "_upsample_bilinear2d_aa"])
def test_pictures_of_bytes_are_rounded_to_the_nearest(target: str) -> None:
    x = np.random.default_rng(3).integers(0, 256, (1, 2, 6, 5)).astype(np.uint8)
    sizes = {"output_size": [9, 4], "align_corners": False, "scales_h": None, "scales_w": None}
    (found,) = called(f"aten.{target}.default", **{"input" if "_aa" in target else "self": x}, **sizes)
    (exact,) = called(
        f"aten.{target}.default", **{"input" if "_aa" in target else "self": x.astype(np.float32)}, **sizes
    )
    assert found.dtype == np.uint8
    np.testing.assert_array_equal(found, np.clip(np.floor(exact + 0.5), 0, 255))


@pytest.mark.parametrize("order", [2.0, 3.0, 4.0])
def test_norms_of_halves_do_not_overflow(order: float) -> None:
    x = np.linspace(-600, 500, 40).astype(np.float16)
    (found,) = called("aten.linalg_vector_norm.default", self=x, ord=order, dim=[0], keepdim=False, dtype=None)
    assert found.dtype == np.float16
    close(found, np.linalg.norm(x.astype(np.float64), order), 2e-3)


def test_special_functions_of_halves() -> None:
    x = np.array([0.25, 1.5, 2.5, 12.0], np.float16)
    (found,) = called("aten.polygamma.default", n=2, self=x)
    assert found.dtype == np.float16
    close(found, [-129.43, -0.8287966, -0.23620405, -0.00755065], 2e-3)
