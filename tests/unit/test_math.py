"""Elementary functions: their error over the whole range of the type, whether Fma is rounded once or twice."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from sterna.loops.math import MATH_ERROR_ULP, MATH_ERROR_ULP_FLOAT64, expand_math
from sterna.te import expr
from sterna.te.expr import Expr
from sterna.te.interpreter import run_kernel
from sterna.te.tensor import Kernel, compute, placeholder

RNG = np.random.default_rng(11)
Array = np.ndarray[Any, Any]
INF, NAN = np.inf, np.nan

REFERENCE: dict[str, Callable[..., Array]] = {
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
    "erf": lambda x: np.frompyfunc(math.erf, 1, 1)(x).astype(x.dtype),
    "sigmoid": lambda x: np.where(x < 0, np.exp(np.minimum(x, 0)), 1) / (1 + np.exp(-np.abs(x))),
    "pow": np.power,
}
#: Results below are subnormal, or flushed to zero with them.
FLUSHED = {"exp": 1.42 * 2.0**-126, "sigmoid": 2.0**-126}


def round_twice(value: Expr) -> Expr:
    def rule(node: Expr) -> Expr | None:
        if isinstance(node, expr.Fma):
            return expr.binary("add", expr.binary("mul", node.a, node.b), node.c)
        return None

    return expr.rewrite(value, rule)


def evaluate(op: str, *operands: Array, fused: bool = True, doubles: bool = True) -> Array:
    names = ("x", "y")[: len(operands)]
    tensors = [placeholder(n, a.shape, str(a.dtype)) for n, a in zip(names, operands, strict=True)]

    def body(i: Any) -> Expr:
        values = [t[i] for t in tensors]
        value = expand_math(expr.binary(op, *values) if op == "pow" else expr.unary(op, *values), doubles)
        assert doubles or not any(n.dtype == "float64" for n in nodes(value))
        assert not any(n.op in expr.MATH for n in nodes(value) if isinstance(n, (expr.Unary, expr.Binary)))
        return value if fused else round_twice(value)

    z = compute("z", operands[0].shape, body)
    return run_kernel(Kernel("k", tuple(tensors), (), (z,)), dict(zip(names, operands, strict=True)))["z"]


def nodes(value: Expr) -> list[Expr]:
    found: dict[int, Expr] = {}
    pending = [value]
    while pending:
        node = pending.pop()
        if id(node) not in found:
            found[id(node)] = node
            pending.extend(node.children())
    return list(found.values())


def operations(value: Expr) -> int:
    """What the expression costs: bits read as another type are free."""
    return sum(not isinstance(n, (expr.Const, expr.Load, expr.Bitcast)) for n in nodes(value))


def errors(result: Array, exact: Array, flushed: float = 0.0) -> Array:
    """Differences in units in the last place of the exact value; infinite where only one is NaN or infinite."""
    dtype = result.dtype
    with np.errstate(all="ignore"):
        wanted = exact.astype(dtype)
        spacing = np.spacing(np.maximum(np.abs(wanted), np.finfo(dtype).tiny)).astype(exact.dtype)
        difference = np.abs(result.astype(exact.dtype) - exact) / spacing
        finite = np.abs(np.where(np.isinf(result), exact, result.astype(exact.dtype)))
    special = ~np.isfinite(result) | ~np.isfinite(wanted)
    same = (result == wanted) | (np.isnan(result) & np.isnan(wanted))
    # Whether a value is the greatest finite one or infinite is a matter of half a unit.
    edge = np.isinf(result) != np.isinf(wanted)
    largest = finite >= np.finfo(dtype).max * (1 - 1e-6)
    difference = np.where(special, np.where(same | (edge & largest & ~np.isnan(wanted)), 0, INF), difference)
    return np.where((np.abs(exact) < flushed) & (np.abs(result) <= flushed), 0, difference)


def all_magnitudes() -> Array:
    """A float32 in 4099, through every exponent and both signs, and more where the functions change."""
    patterns = np.arange(0, 2**32, 4099, dtype=np.uint64).astype(np.uint32).view(np.float32)
    edges = np.array([0, -0.0, 1, -1, INF, -INF, NAN, 2**-126, 2**-149, -(2**-149), 88.72284, 88.7229, -87.33655, -104])
    dense = [np.linspace(-110, 110, 200_001), np.linspace(0.5, 2, 100_001), np.linspace(-5, 5, 200_001), edges]
    with np.errstate(invalid="ignore"):  # signalling NaNs among the patterns
        return np.concatenate([patterns, *dense]).astype(np.float32)


@pytest.mark.parametrize("fused", [True, False], ids=["fma", "mul_add"])
@pytest.mark.parametrize("op", ["exp", "expm1", "log", "log1p", "tanh", "erf", "sigmoid", "sin", "cos"])
def test_float32(op: str, fused: bool) -> None:
    x = all_magnitudes()
    if op in ("sin", "cos"):
        x = np.concatenate([x[~(np.abs(x) > 2.0**31)], RNG.uniform(-1e5, 1e5, 300_000).astype(np.float32)])
        x = np.concatenate([x, (np.arange(1, 60_000) * (np.pi / 2)).astype(np.float32)])
    with np.errstate(all="ignore"):
        exact = REFERENCE[op](x.astype(np.float64))
    error = errors(evaluate(op, x, fused=fused), exact, FLUSHED.get(op, 0.0))
    worst = int(np.argmax(error))
    assert error[worst] <= MATH_ERROR_ULP[op], f"{op}({x[worst]!r}) is {error[worst]} ulp off"


@pytest.mark.parametrize("fused", [True, False], ids=["fma", "mul_add"])
@pytest.mark.parametrize("op", ["sin", "cos"])
def test_angles_by_integers(op: str, fused: bool) -> None:
    """Without float64, also next to large multiples of pi / 2, and of subnormal numbers."""
    x = all_magnitudes()
    multiples = RNG.integers(1, 2**30, 200_000) * (np.pi / 2)
    x = np.concatenate([x[~(np.abs(x) > 2.0**31)], (np.arange(1, 60_000) * (np.pi / 2)), multiples]).astype(np.float32)
    with np.errstate(all="ignore"):
        exact = REFERENCE[op](x.astype(np.float64))
    result = evaluate(op, x, fused=fused, doubles=False)
    error = errors(result, exact)
    worst = int(np.argmax(error))
    assert error[worst] <= MATH_ERROR_ULP[f"{op}, by integers"], f"{op}({x[worst]!r}) is {error[worst]} ulp off"
    known = ~np.isnan(exact)
    np.testing.assert_array_equal(np.signbit(result[known]), np.signbit(exact[known]))


def powers() -> tuple[Array, Array]:
    edges = [0, -0.0, 1, -1, 2, -2, 0.5, -0.5, 3, -3, INF, -INF, NAN, 1e-40, -1e-40, 1e38, -1e38, 2**24, -(2**24) - 2]
    edges += [1.5, -1.5, 2.5, 1 + 2**-23, 1 - 2**-24, 33, -33, 1e9]
    grid = np.meshgrid(edges, edges)
    bits = [RNG.integers(0, 2**32, 200_000, dtype=np.uint64).astype(np.uint32).view(np.float32) for _ in range(2)]
    x = [grid[0].ravel(), bits[0], np.exp(RNG.normal(0, 3, 200_000)), RNG.normal(1, 1e-3, 200_000)]
    y = [grid[1].ravel(), bits[1], RNG.normal(0, 5, 200_000), RNG.normal(0, 1e4, 200_000)]
    x.append(RNG.uniform(-50, 50, 200_000))
    y.append(RNG.integers(-30, 30, 200_000))
    with np.errstate(invalid="ignore"):  # signalling NaNs among the patterns
        return np.concatenate(x).astype(np.float32), np.concatenate(y).astype(np.float32)


@pytest.mark.parametrize("doubles", [True, False], ids=["in float64", "by pairs"])
@pytest.mark.parametrize("fused", [True, False], ids=["fma", "mul_add"])
def test_pow_float32(fused: bool, doubles: bool) -> None:
    x, y = powers()
    with np.errstate(all="ignore"):
        exact = np.power(x.astype(np.float64), y.astype(np.float64))
    result = evaluate("pow", x, y, fused=fused, doubles=doubles)
    error = errors(result, exact)
    worst = int(np.argmax(error))
    most = MATH_ERROR_ULP["pow" if doubles else "pow, by pairs"]
    assert error[worst] <= most, f"{x[worst]!r} ** {y[worst]!r} is {error[worst]} ulp off"
    known = ~np.isnan(exact)
    np.testing.assert_array_equal(np.signbit(result[known]), np.signbit(exact[known]))


@pytest.mark.parametrize("fused", [True, False], ids=["fma", "mul_add"])
@pytest.mark.parametrize("op", list(MATH_ERROR_ULP_FLOAT64))
def test_float64(op: str, fused: bool) -> None:
    patterns = (RNG.integers(0, 2**64, 100_000, dtype=np.uint64)).view(np.float64)
    edges = np.array([0, -0.0, 1, -1, INF, -INF, NAN, 5e-324, 2.0**-1022, 709.78, 709.79, -708.3, -746])
    x = np.concatenate([patterns, edges, RNG.uniform(-800, 800, 50_000), RNG.normal(0, 2, 100_000)])
    x = np.concatenate([x, 10.0 ** RNG.uniform(-5, 5, 50_000)])
    operands = (
        [x, RNG.normal(0, 3, len(x))] if op == "pow" else [x[~(np.abs(x) > 2.0**20)] if op in ("sin", "cos") else x]
    )
    with np.errstate(all="ignore"):
        # The C library's erf is only given in float64, with an error of its own.
        kind = np.float64 if op == "erf" else np.longdouble
        exact = REFERENCE[op](*(a.astype(kind) for a in operands))
    error = errors(evaluate(op, *operands, fused=fused), exact, 1.42 * 2.0**-1022)
    worst = int(np.argmax(error))
    assert error[worst] <= MATH_ERROR_ULP_FLOAT64[op], f"{op} of {[a[worst] for a in operands]}: {error[worst]} ulp"


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("op", ["exp", "expm1", "log", "log1p", "tanh", "erf", "sigmoid", "sin", "cos"])
def test_narrow_types_are_computed_in_float32(op: str, dtype: Any) -> None:
    x = np.arange(2**16, dtype=np.uint16).view(dtype)
    x = x[np.abs(x.astype(np.float32)) < 2.0**31]
    with np.errstate(all="ignore"):
        exact = REFERENCE[op](x.astype(np.float64)).astype(np.float32).astype(dtype)
    result = evaluate(op, x)
    unequal = (result != exact) & ~(np.isnan(result.astype(np.float32)) & np.isnan(exact.astype(np.float32)))
    # A value next to the middle between two neighbours may fall to either side.
    assert unequal.mean() < 1e-3
    close = np.abs(result.view(np.int16).astype(int) - exact.view(np.int16)) <= 1
    flushed = np.abs(exact.astype(np.float32)) < 1.42 * 2.0**-126
    assert (close | flushed)[unequal].all()


@pytest.mark.parametrize("doubles", [True, False])
@pytest.mark.parametrize("op", ["sin", "cos"])
def test_large_arguments_stay_in_range(op: str, doubles: bool) -> None:
    result = evaluate(op, np.array([3e9, -1e38, 3.4e38, INF, -INF, NAN], np.float32), doubles=doubles)
    np.testing.assert_array_equal(result[:3], np.full(3, REFERENCE[op](np.float32(0))))
    assert np.isnan(result[3:]).all()


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8"])
def test_integer_powers(dtype: str) -> None:
    base, exponent = np.meshgrid(np.arange(-9, 10), np.arange(-3, 40))
    if dtype == "uint8":
        base, exponent = np.abs(base), np.abs(exponent)
    x, y = base.ravel().astype(dtype), exponent.ravel().astype(dtype)

    def power(b: int, e: int) -> int:
        if e < 0:
            return {1: 1, -1: -1 if e % 2 else 1}.get(b, 0)
        return int(b**e)

    wanted = np.array([power(int(b), int(e)) % 2**64 for b, e in zip(x, y, strict=True)], np.uint64).astype(dtype)
    np.testing.assert_array_equal(evaluate("pow", x, y), wanted)


@pytest.mark.parametrize("exponent", [-1.0, 0.0, 0.5, 1.0, 2.0, 3.0, 2.5])
def test_constant_powers(exponent: float) -> None:
    x = np.array([0, -0.0, 1, -1, 3, 1e20, 1e-20, 0.3, INF, NAN, -INF], np.float32)
    t = placeholder("x", x.shape)
    z = compute("z", x.shape, lambda i: expand_math(expr.binary("pow", t[i], expr.const(exponent, "float32"))))
    result = run_kernel(Kernel("k", (t,), (), (z,)), {"x": x})["z"]
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(result, np.power(x, np.full(x.shape, exponent)).astype(np.float32), rtol=2e-7)
    if exponent != 2.5:
        assert operations(z.body) <= 4  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("op", "limit"), [("exp", 16), ("sigmoid", 18), ("tanh", 19), ("erf", 28), ("log", 30), ("sin", 20), ("cos", 22)]
)
def test_cost(op: str, limit: int) -> None:
    assert operations(expand_math(expr.unary(op, placeholder("x", (1,))[0]))) <= limit


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("factor", [1.0, 0.7978845608028654, 2.0**120])
def test_one_and_tanh(dtype: str, factor: float) -> None:
    """As GELU has it: every digit is right where the sum cancels, too, in fewer steps than a tanh takes."""
    x = np.concatenate([all_magnitudes(), np.linspace(-44, 20, 100_001)]).astype(dtype)
    t = placeholder("x", x.shape, dtype)

    def rule(i: expr.Expr) -> expr.Expr:
        product = t[i] if factor == 1.0 else factor * t[i]  # type: ignore[index]
        return 1.0 + expr.unary("tanh", product)

    z = compute("z", x.shape, lambda i: expand_math(rule(i)))
    result = run_kernel(Kernel("k", (t,), (), (z,)), {"x": x})["z"]
    with np.errstate(all="ignore"):
        exact = 2 / (1 + np.exp(-2 * (np.array(factor, dtype).astype(np.longdouble) * x.astype(np.longdouble))))
    # The product is rounded as it is without the rule: only powers of two leave the error to the function.
    near = np.ones(x.shape, bool) if factor in (1.0, 2.0**120) else np.abs(x) < 0.1
    least = 2.0**-126 if dtype == "float32" else 2.0**-1022
    assert float(np.max(errors(result[near], exact[near], 2 * least))) <= 3.5
    np.testing.assert_array_equal(np.isnan(result), np.isnan(x))
    if factor != 2.0**120:
        assert operations(z.body) <= (19 if dtype == "float32" else 25)  # type: ignore[arg-type]


def test_tf32() -> None:
    """By hand: halves go away from zero, in numbers below the normal ones, too; what is too large becomes infinite."""
    step = 2.0**-10
    cases = (
        *(
            (1 + step / 2, 1 + step),
            (1 + 0.499 * step, 1.0),
            (-1 - step / 2, -1 - step),
            (1 + 1.5 * step, 1 + 2 * step),
        ),
        *((2049.0, 2050.0), (2047.5, 2048.0), (0.0, 0.0), (-0.0, -0.0), (math.inf, math.inf), (-math.inf, -math.inf)),
        *((3.4028235e38, math.inf), (2.0**-136, 2.0**-136), (2.0**-137, 2.0**-136), (2.0**-138, 0.0)),
        (math.nan, math.nan),
    )
    x = np.array([*(a for a, _ in cases), *np.random.default_rng(0).standard_normal(1000)], np.float32)
    t = placeholder("x", (x.size,))
    plain = compute("z", x.shape, lambda i: expr.unary("tf32", t[i]))
    known, wanted = len(cases), np.array([b for _, b in cases], np.float32)
    for stage in (plain, compute("z", x.shape, lambda i: expand_math(expr.unary("tf32", t[i])))):
        found = run_kernel(Kernel("k", (t,), (), (stage,)), {"x": x})["z"]
        np.testing.assert_array_equal(found[:known], wanted)
        np.testing.assert_array_equal(np.signbit(found[: known - 1]), np.signbit(wanted[: known - 1]))
        assert (np.abs(found - x)[known:] <= 2.0**-11 * np.abs(x[known:])).all()
        assert not (found.view(np.uint32)[known:] & 0x1FFF).any()
    assert expand_math(expr.unary("tf32", expr.const(2049.0, "float32"))) == expr.const(2050.0, "float32")


@pytest.mark.parametrize("op", expr.MATH)
def test_lanes_agree(op: str) -> None:
    x = replace(placeholder("x", (8,))[0], lanes=8)
    y = replace(placeholder("y", (8,))[0], lanes=8)
    value = expand_math(expr.binary("pow", x, y) if op == "pow" else expr.unary(op, x))
    for node in nodes(value):
        assert node.lanes == 8
        assert all(child.lanes == 8 for child in node.children())


def test_constants_fold_and_other_nodes_stay() -> None:
    assert expand_math(expr.unary("exp", expr.const(1.0, "float32"))) == expr.const(math.e, "float32")
    assert expand_math(expr.unary("erf", expr.const(0.5, "float32"))) == expr.const(math.erf(0.5), "float32")
    x = placeholder("x", (1,))[0]
    assert expand_math(x * 2.0) == x * 2.0
