"""The kernel interpreter against plain NumPy."""

from __future__ import annotations

import time
import warnings
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from sterna.errors import SternaError
from sterna.ir.extremum import maximum, minimum
from sterna.ir.integer import of, symbol
from sterna.te import expr, interpreter
from sterna.te.interpreter import run_kernel
from sterna.te.position import position, rewrite_index
from sterna.te.tensor import Kernel, Tensor, compute, placeholder, reduce, reduce_axis, total

RNG = np.random.default_rng(7)


@pytest.fixture(autouse=True)
def no_warnings() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def normal(*shape: int, dtype: str = "float32") -> np.ndarray:
    return RNG.standard_normal(shape).astype(dtype)


def run(output: Tensor, *inputs: Tensor, **arrays: np.ndarray) -> np.ndarray:
    return run_kernel(Kernel("k", inputs, (), (output,)), arrays)[output.name]


def elementwise(function: Any, *arrays: np.ndarray) -> np.ndarray:
    """One expression of the elements of arrays of one shape."""
    names = [f"x{n}" for n in range(len(arrays))]
    tensors = [placeholder(n, a.shape, str(a.dtype)) for n, a in zip(names, arrays, strict=True)]
    y = compute("y", arrays[0].shape, lambda *i: function(*(t[i] for t in tensors)))
    return run(y, *tensors, **dict(zip(names, arrays, strict=True)))


# ---------------------------------------------------------------- contractions
def test_matmul_with_epilogue() -> None:
    x, w, bias = placeholder("x", (33, 20)), placeholder("w", (20, 17)), placeholder("bias", (17,))
    k = reduce_axis("k", 20)
    y = compute("y", (33, 17), lambda i, j: total(x[i, k] * w[k, j], k))
    z = compute("z", (33, 17), lambda i, j: expr.maximum(y[i, j] + bias[j], 0))
    a, b, c = normal(33, 20), normal(20, 17), normal(17)
    np.testing.assert_allclose(run(z, x, w, bias, x=a, w=b, bias=c), np.maximum(a @ b + c, 0), atol=1e-5)


def test_batched_matmul_with_transposed_operand() -> None:
    q, k = placeholder("q", (2, 3, 5, 8)), placeholder("k", (2, 3, 7, 8))
    d = reduce_axis("d", 8)
    y = compute("y", (2, 3, 5, 7), lambda b, h, i, j: total(q[b, h, i, d] * k[b, h, j, d], d))
    a, c = normal(2, 3, 5, 8), normal(2, 3, 7, 8)
    np.testing.assert_allclose(run(y, q, k, q=a, k=c), a @ c.swapaxes(-1, -2), atol=1e-5)


def conv(size: int, cin: int, cout: int, kernel: int, stride: int, *, n: int = 1) -> tuple[Tensor, Tensor, Tensor]:
    out = (size - kernel) // stride + 1
    x, w = placeholder("x", (n, size, size, cin)), placeholder("w", (kernel, kernel, cin, cout))
    r, s, c = reduce_axis("r", kernel), reduce_axis("s", kernel), reduce_axis("c", cin)
    y = compute(
        "y",
        (n, out, out, cout),
        lambda b, i, j, f: total(x[b, i * stride + of(r), j * stride + of(s), c] * w[r, s, c, f], r, s, c),
    )
    return x, w, y


def direct_conv(x: np.ndarray, w: np.ndarray, stride: int) -> np.ndarray:
    kernel = w.shape[0]
    out = (x.shape[1] - kernel) // stride + 1
    y = np.zeros((x.shape[0], out, out, w.shape[3]), np.float64)
    for r in range(kernel):
        for s in range(kernel):
            patch = x[:, r : r + out * stride : stride, s : s + out * stride : stride, :][:, :out, :out]
            y += patch.astype(np.float64) @ w[r, s].astype(np.float64)
    return y


@pytest.mark.parametrize(("kernel", "stride"), [(1, 1), (3, 1), (3, 2), (5, 3)])
def test_convolution(kernel: int, stride: int) -> None:
    x, w, y = conv(13, 4, 6, kernel, stride, n=2)
    a, b = normal(2, 13, 13, 4), normal(kernel, kernel, 4, 6)
    np.testing.assert_allclose(run(y, x, w, x=a, w=b), direct_conv(a, b, stride), atol=2e-5)


def test_convolution_is_fast() -> None:
    x, w, y = conv(58, 64, 64, 3, 1)
    a, b = normal(1, 58, 58, 64), normal(3, 3, 64, 64)
    begin = time.process_time()
    run(y, x, w, x=a, w=b)
    assert time.process_time() - begin < 3


def test_padded_convolution_through_select() -> None:
    x, w = placeholder("x", (9, 5)), placeholder("w", (3, 5, 4))
    r, c = reduce_axis("r", 3), reduce_axis("c", 5)

    def padded(i: Any) -> expr.Expr:
        condition = expr.in_range(i, 9)
        assert condition is not None
        return expr.select(condition, x[minimum(maximum(i, 0), 8), c], 0.0)

    y = compute("y", (9, 4), lambda i, f: total(padded(i + of(r) - 1) * w[r, c, f], r, c))
    a, b = normal(9, 5), normal(3, 5, 4)
    wide = np.pad(a, ((1, 1), (0, 0)))
    np.testing.assert_allclose(run(y, x, w, x=a, w=b), sum(wide[r : r + 9] @ b[r] for r in range(3)), atol=1e-5)


def test_depthwise_convolution() -> None:
    x, w = placeholder("x", (1, 10, 10, 6)), placeholder("w", (3, 3, 6))
    r, s = reduce_axis("r", 3), reduce_axis("s", 3)
    y = compute("y", (1, 4, 4, 6), lambda n, i, j, c: total(x[n, i * 2 + of(r), j * 2 + of(s), c] * w[r, s, c], r, s))
    a, b = normal(1, 10, 10, 6), normal(3, 3, 6)
    wanted = sum(a[:, r : r + 8 : 2, s : s + 8 : 2] * b[r, s] for r in range(3) for s in range(3))
    np.testing.assert_allclose(run(y, x, w, x=a, w=b), wanted, atol=1e-5)


def test_sum_of_three_factors_and_of_an_axis_no_factor_has() -> None:
    x, y, z = placeholder("x", (4, 6)), placeholder("y", (6, 5)), placeholder("z", (6,))
    k, unused = reduce_axis("k", 6), reduce_axis("u", 3)
    t = compute("t", (4, 5), lambda i, j: total(x[i, k] * y[k, j] * z[k], k, unused))
    a, b, c = normal(4, 6), normal(6, 5), normal(6)
    np.testing.assert_allclose(run(t, x, y, z, x=a, y=b, z=c), 3 * (a * c) @ b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("scale", [1, 2**12])
def test_integer_contraction_wraps(scale: int) -> None:
    x, w = placeholder("x", (5, 300), "int32"), placeholder("w", (300, 4), "int32")
    k = reduce_axis("k", 300)
    y = compute("y", (5, 4), lambda i, j: total(x[i, k] * w[k, j], k))
    a, b = (RNG.integers(-(2**19), 2**19, s).astype(np.int32) * scale for s in ((5, 300), (300, 4)))
    np.testing.assert_array_equal(run(y, x, w, x=a, w=b), (a.astype(np.int64) @ b.astype(np.int64)).astype(np.int32))


def test_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpreter, "MAX_GRID", 500)
    x, w, y = conv(12, 4, 6, 3, 1)
    z = compute("z", (10, 10, 6), lambda i, j, f: expr.unary("exp", y[0, i, j, f]))
    a, b = normal(1, 12, 12, 4), normal(3, 3, 4, 6)
    np.testing.assert_allclose(run(z, x, w, x=a, w=b), np.exp(direct_conv(a, b, 1))[0], rtol=1e-4)


# ---------------------------------------------------------------- other reductions
def test_softmax() -> None:
    x = placeholder("x", (6, 11))
    k1, k2 = reduce_axis("k", 11), reduce_axis("k", 11)
    m = compute("m", (6,), lambda i: reduce("max", x[i, k1], k1))
    e = compute("e", (6, 11), lambda i, j: expr.unary("exp", x[i, j] - m[i]))
    s = compute("s", (6,), lambda i: total(e[i, k2], k2))
    y = compute("y", (6, 11), lambda i, j: e[i, j] / s[i])
    a = normal(6, 11) * 10
    shifted = np.exp(a - a.max(axis=1, keepdims=True))
    np.testing.assert_allclose(run(y, x, x=a), shifted / shifted.sum(axis=1, keepdims=True), rtol=1e-6)


@pytest.mark.parametrize("combiner", ["argmax", "argmin"])
def test_argmax_over_two_axes_takes_the_first(combiner: str) -> None:
    x = placeholder("x", (4, 3, 5))
    a, b = reduce_axis("a", 3), reduce_axis("b", 5)
    y = compute("y", (4,), lambda i: reduce(combiner, x[i, a, b], a, b, index=expr.index_value(of(a) * 5 + of(b))))
    values = RNG.integers(0, 3, (4, 3, 5)).astype(np.float32)
    wanted = getattr(np, combiner)(values.reshape(4, -1), axis=1)
    result = run(y, x, x=values)
    assert result.dtype == np.int64
    np.testing.assert_array_equal(result, wanted)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8", "uint8"])
@pytest.mark.parametrize("combiner", ["sum", "prod", "min", "max"])
def test_reductions(combiner: str, dtype: str) -> None:
    a = RNG.integers(0, 5, (3, 4, 7)).astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    x, k, m = placeholder("x", a.shape, dtype), reduce_axis("k", 4), reduce_axis("m", 7)
    y = compute("y", (3,), lambda i: reduce(combiner, x[i, k, m], k, m))
    wide = np.float32 if "float" in dtype else np.int64
    wanted = getattr(np, combiner)(a.astype(wide), axis=(1, 2)).astype(a.dtype)
    np.testing.assert_array_equal(run(y, x, x=a), wanted)


def test_all_any_and_empty() -> None:
    a = RNG.random((20, 3)) < 0.5
    x, k, none = placeholder("x", a.shape, "bool"), reduce_axis("k", 3), reduce_axis("n", 0)
    for combiner in ("all", "any"):
        y = compute("y", (20,), lambda i, c=combiner: reduce(c, x[i, k], k), axes=["i"])
        np.testing.assert_array_equal(run(y, x, x=a), getattr(np, combiner)(a, axis=1))
    empty = compute("y", (20,), lambda i: reduce("all", x[i, of(none)], none))
    assert run(empty, x, x=a).all()


# ---------------------------------------------------------------- elements
def test_minimum_and_maximum_propagate_nan() -> None:
    a = np.array([np.nan, 1, 2, -np.inf], np.float32)
    b = np.array([1, np.nan, 3, 0], np.float32)
    np.testing.assert_array_equal(elementwise(expr.minimum, a, b), np.minimum(a, b))
    np.testing.assert_array_equal(elementwise(expr.maximum, a, b), np.maximum(a, b))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32", "int64", "uint64"])
def test_cast_saturates(dtype: str) -> None:
    limits = np.iinfo(dtype)
    a = np.array([np.nan, np.inf, -np.inf, -0.9, 2.9, -2.9, 1e30, -1e30, 2.0**63, 2.0**31, 127.5], np.float32)
    wanted = [0 if np.isnan(v) else int(min(max(float(v), limits.min), limits.max)) for v in a]
    result = elementwise(lambda x: expr.cast(x, dtype), a)
    np.testing.assert_array_equal(result, np.array([min(w, limits.max) for w in wanted], dtype))


def test_cast_wraps_between_integers() -> None:
    a = np.array([300, -1, 127, -129], np.int32)
    np.testing.assert_array_equal(elementwise(lambda x: expr.cast(x, "int8"), a), a.astype(np.int8))
    np.testing.assert_array_equal(elementwise(lambda x: expr.cast(x, "bool"), a), a != 0)


def test_integers() -> None:
    a = np.array([7, -7, 7, -7, -128, 127], np.int8)
    b = np.array([2, 2, -2, -2, -1, 127], np.int8)
    check = {
        "add": a + b,
        "mul": a * b,
        "floor_div": [3, -4, -4, 3, -128, 1],
        "mod": [1, 1, -1, -1, 0, 0],
        "div": [3, -3, -3, 3, -128, 1],
        "xor": a ^ b,
    }
    for op, wanted in check.items():
        np.testing.assert_array_equal(elementwise(lambda x, y, op=op: expr.binary(op, x, y), a, b), wanted, err_msg=op)
    powers = elementwise(
        lambda x, y: expr.binary("pow", x, y),
        np.array([2, -3, -1, 0, 5], np.int32),
        np.array([5, 3, -3, -1, -1], np.int32),
    )
    np.testing.assert_array_equal(powers, [32, -27, -1, 0, 0])


def test_bits_rounding_and_fma() -> None:
    a = np.array([0.5, 1.5, 2.5, -0.5, np.nan], np.float32)
    np.testing.assert_array_equal(elementwise(lambda x: expr.unary("rint", x), a), [0, 2, 2, -0.0, np.nan])
    np.testing.assert_array_equal(elementwise(lambda x: expr.bitcast(x, "int32"), a), a.view(np.int32))
    x = np.array([1 + 2**-12], np.float32)
    result = elementwise(lambda x: expr.fma(x, x, expr.const(-1.0, "float32")), x)
    assert result[0] == np.float32(2**-11 + 2**-24)


@pytest.mark.parametrize("op", ["exp", "log", "sin", "cos", "tanh", "erf", "sigmoid"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_math_runs_in_every_type(op: str, dtype: str) -> None:
    a = np.abs(normal(9)).astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    result = elementwise(lambda x: expr.unary(op, x), a)
    assert result.dtype == a.dtype
    assert np.isfinite(result.astype(np.float64)).all()


def test_index_value() -> None:
    y = compute("y", (3, 4), lambda i, j: expr.cast(expr.index_value(i * 4 + j), "float32"))
    np.testing.assert_array_equal(run(y), np.arange(12, dtype=np.float32).reshape(3, 4))


# ---------------------------------------------------------------- indices
def test_flip_shift_and_division_of_axes() -> None:
    x = placeholder("x", (6, 4))
    a = normal(6, 4)
    flipped = compute("y", (6, 4), lambda i, j: x[5 - i, (j + 1) % 4])
    np.testing.assert_array_equal(run(flipped, x, x=a), np.roll(a[::-1], -1, axis=1))
    repeated = compute("y", (12, 4), lambda i, j: x[i // 2, j])
    np.testing.assert_array_equal(run(repeated, x, x=a), np.repeat(a, 2, axis=0))
    diagonal = compute("y", (4,), lambda i: x[i + 2, i])
    np.testing.assert_array_equal(run(diagonal, x, x=a), np.diagonal(a[2:]))
    scalar = compute("y", (), lambda: x[3, 2])
    assert run(scalar, x, x=a) == a[3, 2]


def test_out_of_bounds_names_the_tensor() -> None:
    x = placeholder("x", (6,))
    for body in (lambda i: x[i + 1], lambda i: x[i - 1], lambda i: x[(i * i)]):
        y = compute("y", (6,), body, axes=["i"])
        with pytest.raises(SternaError, match=r"reads x out of bounds"):
            run(y, x, x=normal(6))


def test_wrong_arrays_are_refused() -> None:
    x = placeholder("x", (6,))
    y = compute("y", (6,), lambda i: x[i])
    for arrays in ({}, {"x": normal(5)}, {"x": normal(6, dtype="float64")}):
        with pytest.raises(SternaError, match=r"kernel k was given"):
            run(y, x, **arrays)


def test_empty_stage() -> None:
    x = placeholder("x", (0, 3))
    y = compute("y", (0, 3), lambda i, j: x[i, j])
    assert run(y, x, x=normal(0, 3)).shape == (0, 3)


# ---------------------------------------------------------------- computed positions
@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8"])
def test_gather(dtype: str) -> None:
    x, idx = placeholder("x", (10, 4)), placeholder("idx", (3, 5), dtype)
    a = normal(10, 4)
    at = RNG.integers(0, 10, (3, 5)).astype(dtype)
    y = compute("y", (3, 5, 4), lambda i, j, k: x[position(idx[i, j], 10), k])
    np.testing.assert_array_equal(run(y, x, idx, x=a, idx=at), a[at])


def test_gather_clamps_and_counts_from_the_end() -> None:
    x, idx = placeholder("x", (10,)), placeholder("idx", (6,), "int64")
    a, at = normal(10), np.array([-1, -10, 9, 0, 10, -(2**60)])
    clamped = compute("y", (6,), lambda i: x[position(idx[i], 10)])
    np.testing.assert_array_equal(run(clamped, x, idx, x=a, idx=at), a[[0, 0, 9, 0, 9, 0]])
    signed = compute("y", (6,), lambda i: x[position(idx[i], 10, from_end=True)])
    np.testing.assert_array_equal(run(signed, x, idx, x=a, idx=at), a[[9, 0, 9, 0, 9, 0]])


def test_gather_by_a_computed_stage_in_arithmetic_and_nested() -> None:
    x, idx = placeholder("x", (12,)), placeholder("idx", (4,), "int32")
    a, at = normal(12), np.array([3, 1, 0, 2], np.int32)
    twice = compute("twice", (4,), lambda i: idx[i] * 2)
    y = compute("y", (4,), lambda i: x[position(twice[i], 6) + i])
    np.testing.assert_array_equal(run(y, x, idx, x=a, idx=at), a[(2 * at).clip(0, 5) + np.arange(4)])
    nested = compute("y", (4,), lambda i: x[position(idx[position(idx[i], 4)], 12) * 2 % 5])
    np.testing.assert_array_equal(run(nested, x, idx, x=a, idx=at), a[at[at] * 2 % 5])
    assert {load.tensor.name for load in nested.reads()} == {"x", "idx"}
    assert len(nested.reads()) == 3


def test_computed_positions_are_canonical_and_substitutable() -> None:
    idx = placeholder("idx", (8,), "int32")
    i, j = symbol("i", 0, 3), symbol("j", 0, 7)
    (axis,) = i.symbols()
    at = position(idx[i], 8)
    assert at == position(idx[i], 8)
    assert at.bounds() == (0, 7)
    assert at // 8 == 0
    assert at.symbols() == {axis}
    assert (at * 2 + 1).substitute({axis: j}) == position(idx[j], 8) * 2 + 1
    other = placeholder("other", (8,), "int32")

    def to_other(value: expr.Expr) -> expr.Expr:
        return expr.rewrite(value, lambda n: other[n.indices] if isinstance(n, expr.Load) else None)

    assert rewrite_index(at // 2 + 1, to_other) == position(other[i], 8) // 2 + 1
    assert position(expr.const(-2, "int64"), 8) == 0
    assert position(expr.const(-2, "int64"), 8, from_end=True) == 6
    assert position(expr.index_value(j), 8) == j
