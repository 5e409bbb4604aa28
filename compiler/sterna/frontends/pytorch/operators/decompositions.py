"""Decompositions of matrices, and what is computed of them."""

from __future__ import annotations

import math

import numpy as np

from sterna.frontends import decompositions, elimination, linear_algebra, rotations
from sterna.frontends.pytorch.operators.linear_algebra import of_a_batch
from sterna.frontends.pytorch.operators.matrices import product
from sterna.frontends.pytorch.operators.reductions import norm_of, norm_of_matrices
from sterna.frontends.pytorch.translation import Translation, Translator
from sterna.ir import dtypes
from sterna.ir.graph import Value


def _matrix(t: Translation) -> Value:
    return t.floating(t.given("A", "input", "self"))


def sign_and_log(t: Translation) -> tuple[Value, Value]:
    return elimination.sign_and_log(t, _matrix(t))


def log_of_determinant(t: Translation) -> Value:
    sign, size = sign_and_log(t)
    return t.op("where", t.op("less", sign, t.scalar(0, sign.dtype)), t.scalar(math.nan, sign.dtype), size)


def orthogonal(t: Translation) -> tuple[Value, Value]:
    a, mode = _matrix(t), str(t.arg("mode", "reduced"))
    q, r = decompositions.orthogonal(t, a)
    if mode == "complete":
        return q, r
    k = min(t.extent(a, -2), t.extent(a, -1))
    r = t.cut(r, r.type.rank - 2, 0, k)
    return (t.full((0,), 0, a.dtype) if mode == "r" else t.cut(q, q.type.rank - 1, 0, k)), r


def _symmetric(t: Translation) -> Value:
    """A symmetric matrix of the triangle that is read."""
    a, upper = _matrix(t), str(t.arg("UPLO", "L")).upper() == "U"
    half = decompositions.triangle(t, a, upper)
    rest = decompositions.triangle(t, a, upper, 1 if upper else -1)
    return t.op("add", half, linear_algebra.turned(t, rest))


def eigen(t: Translation) -> tuple[Value, Value]:
    return rotations.symmetric_eigen(t, _symmetric(t))


def singular(t: Translation) -> tuple[Value, Value, Value]:
    u, s, v = rotations.singular(t, _matrix(t))
    if t.flag("full_matrices", True):
        u, v = decompositions.completed(t, u), decompositions.completed(t, v)
    return u, s, linear_algebra.turned(t, v)


def singular_old(t: Translation) -> tuple[Value, Value, Value]:
    """torch.svd, which gives v itself, and the columns of both that are needed unless `some` is false."""
    u, s, v = rotations.singular(t, _matrix(t))
    return (u, s, v) if t.flag("some", True) else (decompositions.completed(t, u), s, decompositions.completed(t, v))


def singular_values(t: Translation) -> Value:
    return rotations.singular(t, _matrix(t))[1]


def _end(t: Translation, s: Value, greatest: bool, keep: bool = False) -> Value:
    return t.op("reduce_max" if greatest else "reduce_min", s, axes=(s.type.rank - 1,), keep_dims=keep)


def _least_counted(t: Translation, a: Value, s: Value) -> Value:
    """What singular values must exceed to count: `atol`, `rtol` or `rcond`, or the rounding errors of the greatest."""
    relative = t.arg("rtol", t.arg("rcond"))
    absolute = t.arg("atol", t.arg("tol"))
    if relative is None:
        size = np.finfo(dtypes.to_numpy(a.dtype)).eps * max(t.extent(a, -2), t.extent(a, -1))
        relative = float(size) if absolute is None else 0.0
    bounds = [t.as_value(number, a.dtype) for number in (relative, 0.0 if absolute is None else absolute)]
    bounds = [t.unsqueeze(b, b.type.rank) if b.type.rank else b for b in bounds]
    return t.op("maximum", t.op("mul", _end(t, s, True, True), bounds[0]), bounds[1])


def _either(t: Translation) -> Value:
    """A matrix; of one that is said to be symmetric only the lower triangle is read."""
    return _symmetric(t) if t.flag("hermitian") else _matrix(t)


def rank(t: Translation) -> Value:
    a = _either(t)
    s = rotations.singular(t, a)[1]
    if s.shape[-1] == 0:
        return t.full(s.shape[:-1], 0, "int64")
    above = t.cast(t.op("greater", s, _least_counted(t, a, s)), "int64")
    return t.op("reduce_sum", above, axes=(s.type.rank - 1,), keep_dims=False)


def pseudo_inverse(t: Translation) -> Value:
    a = _either(t)
    if "pinverse" in t.kind and "rcond" not in t.arguments:
        t = t.having(rcond=1e-15)
    u, s, v = rotations.singular(t, a)
    counts, one = t.op("greater", s, _least_counted(t, a, s)), t.scalar(1, s.dtype)
    factors = t.op("where", counts, t.op("div", one, t.op("where", counts, s, one)), t.scalar(0, s.dtype))
    return product(t, t.op("mul", v, t.unsqueeze(factors, s.type.rank - 1)), linear_algebra.turned(t, u))


def condition(t: Translation) -> Value:
    order = t.arg("p")
    if order not in (None, 2, -2):
        raise t.unsupported(f"of the order {order}")
    s = rotations.singular(t, _matrix(t))[1]
    ends = _end(t, s, True), _end(t, s, False)
    return t.op("div", *(ends[::-1] if order == -2 else ends))


def factors_and_pivots(t: Translation) -> tuple[Value, Value, Value]:
    """Factors in one matrix, the rows that changed places, from 1, and no fault."""
    a = _matrix(t)
    found = elimination.factors_of(t, a)
    pivots = t.op("add", found.swaps, t.scalar(1, "int64"))
    return found.both, t.cast(pivots, "int32"), t.full(a.shape[:-2], 0, "int32")


def factors_apart(t: Translation) -> tuple[Value, Value, Value]:
    """(p, l, u) with a = p l u."""
    a = _matrix(t)
    found = elimination.factors_of(t, a)
    own = t.constant(np.arange(t.extent(a, -2))[:, None], "int64")
    hit = t.op("equal", own, linear_algebra.turned(t, found.order))
    return t.cast(hit, a.dtype), *_triangles(t, found.both)


def _triangles(t: Translation, both: Value) -> tuple[Value, Value]:
    """(l, u) of both in one matrix (..., m, n): (..., m, k) with a diagonal of 1, and (..., k, n)."""
    rows, columns = t.extent(both, -2), t.extent(both, -1)
    k, rank = min(rows, columns), both.type.rank
    lower = decompositions.triangle(t, t.cut(both, rank - 1, 0, k), False, -1)
    upper = decompositions.triangle(t, t.cut(both, rank - 2, 0, k), True)
    return t.op("add", lower, t.constant(np.eye(rows, k), both.dtype)), upper


def factors_unpacked(t: Translation) -> tuple[Value, Value, Value]:
    """(p, l, u) of both factors in one matrix and the rows that changed places (lu_unpack)."""
    both, rows = t.tensor("LU_data"), t.extent(t.tensor("LU_data"), -2)
    unit = t.expand(t.constant(np.eye(rows), both.dtype), (*both.shape[:-2], rows, rows))
    return linear_algebra.turned(t, _exchanged(t, t.tensor("LU_pivots"), unit)), *_triangles(t, both)


def solved_by_factors(t: Translation) -> Value:
    """The x of a x = b, of the factors of a."""
    is_old = "LU_data" in t.arguments
    names = ("LU_data", "LU_pivots", "self") if is_old else ("LU", "pivots", "B")
    both, pivots, b = (t.tensor(name) for name in names)
    # x a = b is a^T x^T = b^T.
    left = t.flag("left", True)
    turned = t.flag("adjoint") == left
    b = b if left else linear_algebra.turned(t, b)
    both, b = of_a_batch(t, both, b)
    if turned:
        other = linear_algebra.turned(t, both)
        y = linear_algebra.triangular_solved(t, other, b)
        x = _exchanged(t, pivots, linear_algebra.triangular_solved(t, other, y, lower=False, unit=True), back=True)
    else:
        y = linear_algebra.triangular_solved(t, both, _exchanged(t, pivots, b), unit=True)
        x = linear_algebra.triangular_solved(t, both, y, lower=False)
    return x if left else linear_algebra.turned(t, x)


def _exchanged(t: Translation, pivots: Value, x: Value, back: bool = False) -> Value:
    """The rows of matrices after the exchanges of an elimination, or before them."""
    swaps = t.op("sub", t.cast(pivots, "int64"), t.scalar(1, "int64"))
    last = swaps.type.rank - 1
    count = t.extent(swaps, last)

    def step(number: Value, carried: list[Value]) -> tuple[list[Value], list[Value]]:
        at = t.op("sub", t.scalar(count - 1, "int64"), number) if back else number
        other = t.op("gather", swaps, t.reshape(at, (1,)), axis=last)
        return [elimination.swapped(t, carried[0], at, t.unsqueeze(other, last))], []

    (y,), _ = t.repeat(count, [x], step)
    return y


def power(t: Translation) -> Value:
    """Products of a matrix with itself, or of its inverse, by squaring."""
    a, n = _matrix(t), t.integer("n")
    if n < 0:
        a, n = elimination.inverted(t, a), -n
    y: Value | None = None
    while n:
        if n % 2:
            y = a if y is None else product(t, y, a)
        n //= 2
        a = product(t, a, a) if n else a
    return linear_algebra.identity(t, a) if y is None else y


def exponential(t: Translation) -> Value:
    return decompositions.exponential(t, _matrix(t))


def matrix_norm(t: Translation) -> Value:
    """Of an order, Frobenius' where none is given."""
    x = t.floating("self" if "self" in t.arguments else "A")
    order = t.arg("ord", t.arg("p", "fro"))
    if "nuclear" in t.kind:
        order = "nuc"
    axes = t.axes("dim", x.type.rank) if t.arg("dim") is not None else (x.type.rank - 2, x.type.rank - 1)
    if order == "fro":
        return norm_of(t, x, 2.0, axes, t.flag("keepdim"))
    return norm_of_matrices(t, x, order, axes, t.flag("keepdim"))


def dot(t: Translation) -> Value:
    a, b = t.together(t.tensor("x"), t.tensor("y"))
    both = t.op("mul", a, b)
    return t.op("reduce_sum", both, axes=(t.axis(t.integer("dim", -1), both.type.rank),), keep_dims=False)


def inverse_of_factor(t: Translation) -> Value:
    """The inverse of l l^T (cholesky_inverse)."""
    factor = t.tensor()
    lower = linear_algebra.turned(t, factor) if t.flag("upper") else factor
    y = linear_algebra.triangular_solved(t, lower, linear_algebra.identity(t, factor))
    return product(t, linear_algebra.turned(t, y), y)


def _named(function: Translator, *names: str) -> dict[str, Translator]:
    return {f"aten.{name}": function for name in names}


def _first(function: Translator, count: int) -> Translator:
    """The first results of a translator."""
    return lambda t: function(t)[:count]  # type: ignore[index]


def _with_nothing(function: Translator) -> Translator:
    """Results of which inference uses the first ones."""
    return lambda t: (*function(t), None, None)  # type: ignore[misc]


TRANSLATORS: dict[str, Translator] = {
    **_named(sign_and_log, "slogdet.default", "linalg_slogdet.default"),
    **_named(_with_nothing(sign_and_log), "_linalg_slogdet.default"), **_named(log_of_determinant, "logdet.default"),
    **_named(orthogonal, "linalg_qr.default"), **_named(eigen, "linalg_eigh.default", "_linalg_eigh.default"),
    **_named(lambda t: eigen(t)[0], "linalg_eigvalsh.default"),
    **_named(singular, "linalg_svd.default", "_linalg_svd.default"), **_named(singular_old, "svd.default"),
    **_named(singular_values, "linalg_svdvals.default"), **_named(condition, "linalg_cond.default"),
    **_named(rank, *(f"linalg_matrix_rank.{form}" for form in (
        "default", "tol_tensor", "atol_rtol_float", "atol_rtol_tensor"))),
    **_named(pseudo_inverse, "pinverse.default", *(f"linalg_pinv.{form}" for form in (
        "default", "rcond_tensor", "atol_rtol_float", "atol_rtol_tensor"))),
    **_named(_first(factors_and_pivots, 2), "linalg_lu_factor.default"),
    **_named(factors_and_pivots, "linalg_lu_factor_ex.default", "_lu_with_info.default"),
    **_named(factors_unpacked, "lu_unpack.default"),
    **_named(factors_apart, "linalg_lu.default"), **_named(solved_by_factors, "linalg_lu_solve.default",
                                                           "lu_solve.default"),
    **_named(power, "linalg_matrix_power.default", "matrix_power.default"),
    **_named(exponential, "linalg_matrix_exp.default", "matrix_exp.default"),
    **_named(matrix_norm, "linalg_matrix_norm.default", "linalg_matrix_norm.str_ord", "frobenius_norm.dim",
             "nuclear_norm.default", "nuclear_norm.dim"),
    **_named(dot, "linalg_vecdot.default"), **_named(inverse_of_factor, "cholesky_inverse.default"),
}  # fmt: skip
