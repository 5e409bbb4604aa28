"""Decompositions and solutions of square matrices."""

from __future__ import annotations

import numpy as np

from sterna.errors import error
from sterna.frontends import decompositions, elimination, linear_algebra, rotations
from sterna.frontends.standard import standard
from sterna.frontends.tensorflow.translation import Translation, Translator
from sterna.ir.graph import Value
from sterna.ir.limits import check_table
from sterna.ops.types import broadcast


def _matrix(t: Translation) -> Value:
    """The matrix, transposed where `adjoint` says so."""
    a = t.input(0)
    return linear_algebra.turned(t, a) if t.option("adjoint", False) else a


def _broadcast(t: Translation, a: Value, b: Value) -> tuple[Value, Value]:
    """Matrices and right sides, of the same batches."""
    batch = broadcast((a.shape[:-2], b.shape[:-2]))
    return t.op("expand", a, shape=(*batch, *a.shape[-2:])), t.op("expand", b, shape=(*batch, *b.shape[-2:]))


def solve(t: Translation) -> Value:
    return elimination.solved(t, *_broadcast(t, _matrix(t), t.input(1)))


def triangular_solve(t: Translation) -> Value:
    lower = bool(t.option("lower", True)) != bool(t.option("adjoint", False))
    return linear_algebra.triangular_solved(t, *_broadcast(t, _matrix(t), t.input(1)), lower=lower)


def orthogonal(t: Translation) -> tuple[Value, Value]:
    """Qr: the whole of both factors, or the columns and rows that count."""
    a = t.input(0)
    q, r = decompositions.orthogonal(t, a)
    if t.option("full_matrices", False):
        return q, r
    count = min(t.extent(a, -2), t.extent(a, -1))
    rank = r.type.rank
    r = t.op("slice", r, starts=(0,) * rank, sizes=(*r.shape[:-2], count, r.shape[-1]), steps=(1,) * rank)
    return decompositions.columns_of(t, q, 0, count), r


def singular(t: Translation) -> tuple[Value, ...]:
    """Svd: singular values, and the vectors of both sides as columns."""
    u, s, v = rotations.singular(t, t.input(0))
    if not t.option("compute_uv", True):
        return (s,)
    if t.option("full_matrices", False):
        u, v = decompositions.completed(t, u), decompositions.completed(t, v)
    return s, u, v


def eigen(t: Translation) -> tuple[Value, ...]:
    """SelfAdjointEigV2: eigenvalues from the least up, and their vectors; only the lower triangle is read."""
    a = t.input(0)
    below = decompositions.triangle(t, a, False, -1)
    whole = t.op("add", decompositions.triangle(t, a, False), linear_algebra.turned(t, below))
    values, vectors = rotations.symmetric_eigen(t, whole)
    return (values, vectors) if t.option("compute_v", True) else (values,)


def factors(t: Translation) -> tuple[Value, Value]:
    """Lu: both factors in one matrix, and which row of it stands where."""
    found = elimination.eliminated(t, t.input(0))
    order = t.reshape(found.order, found.order.shape[:-1])
    return found.both, t.cast(order, t.dtype("output_idx_type", "int32"))


def least_squares(t: Translation) -> Value:
    """MatrixSolveLs by normal equations, which `l2_regularizer` is added to; of more columns than rows the least."""
    a, b = _broadcast(t, t.input(0), t.input(1))
    weight = t.cast(t.reshape(t.input(2), ()), a.dtype)
    across = linear_algebra.turned(t, a)
    wide = t.extent(a, -2) < t.extent(a, -1)
    square = t.op("matmul", a, across) if wide else t.op("matmul", across, a)
    square = t.op("add", square, t.op("mul", linear_algebra.identity(t, square), weight))
    if wide:
        return t.op("matmul", across, elimination.solved(t, square, b))
    return elimination.solved(t, square, t.op("matmul", across, b))


def _bands(t: Translation) -> tuple[Value, list[Value], Value]:
    """Diagonals (..., 3, n) above, on and below the main one, or each as an operand (..., 1, n); and right sides."""
    if t.kind == "TridiagonalMatMul":
        return t.input(0), [t.input(n) for n in range(3)], t.input(3)
    x, rows = t.input(0), t.extent(t.input(0), -2)
    if rows != 3:
        raise error("E0108", f"{t.kind} of {x.type}")
    rank = x.type.rank
    bands = [
        t.op("slice", x, starts=(*[0] * (rank - 2), n, 0), sizes=(*x.shape[:-2], 1, x.shape[-1]), steps=(1,) * rank)
        for n in range(3)
    ]
    return x, bands, t.input(1)


def _tridiagonal(t: Translation) -> tuple[Value, Value]:
    """The matrix of three diagonals, and the right side."""
    x, bands, b = _bands(t)
    n = t.extent(x, -1)
    if any(band.shape[-1] != n for band in bands):
        raise error("E0108", f"{t.kind} of {x.type}")
    check_table(n, n)
    whole: Value | None = None
    for offset, band in zip((1, 0, -1), bands, strict=True):
        # The band above the main diagonal lies in its rows; so does the one below.
        on = t.op("where", t.constant(np.eye(n, k=offset, dtype=bool)), linear_algebra.turned(t, band),
                  t.scalar(0, band.dtype))  # fmt: skip
        whole = on if whole is None else t.op("add", whole, on)
    assert whole is not None
    return whole, b


def tridiagonal_product(t: Translation) -> Value:
    return t.op("matmul", *_tridiagonal(t))


def tridiagonal_solve(t: Translation) -> Value:
    """TridiagonalSolve; with `perturb_singular` off, of matrices that have an inverse."""
    if t.option("perturb_singular", False):
        raise t.unsupported("with perturb_singular")
    return elimination.solved(t, *_broadcast(t, *_tridiagonal(t)))


def _norm(t: Translation, a: Value) -> Value:
    """The greatest sum of a row's sizes, (..., 1, 1)."""
    rank = a.type.rank
    rows = t.op("reduce_sum", t.op("abs", a), axes=(rank - 1,), keep_dims=True)
    return t.op("reduce_max", rows, axes=(rank - 2,), keep_dims=True)


def square_root(t: Translation) -> Value:
    """The principal one: Denman and Beavers' iteration, "The matrix sign function", 1976, scaled by norms (N. Higham,
    "Functions of Matrices", 6.5): without that it halves a large eigenvalue in every step."""
    a = t.input(0)
    both = [a, t.op("expand", linear_algebra.identity(t, a), shape=a.shape)]
    half = t.scalar(0.5, a.dtype)

    def step(_: Value, carried: list[Value]) -> tuple[list[Value], list[Value]]:
        y, z = carried
        turned, other = elimination.inverted(t, z), elimination.inverted(t, y)
        pairs = ((other, y), (turned, z))
        share = t.op("sqrt", t.op("mul", *(t.op("sqrt", t.op("div", _norm(t, a), _norm(t, b))) for a, b in pairs)))
        near = (
            t.op("add", t.op("mul", first, share), t.op("div", second, share))
            for first, second in ((y, turned), (z, other))
        )
        return [t.op("mul", each, half) for each in near], []

    (root, _), _ = t.repeat(_MOST_STEPS, both, step)
    return root


def banded_solve(t: Translation) -> Value:
    """BandedTriangularSolve: diagonals in rows, the main one first where the matrix is lower, else last."""
    bands, b = t.input(0), t.input(1)
    count, n = t.extent(bands, -2), t.extent(bands, -1)
    lower, adjoint, rank = bool(t.option("lower", True)), bool(t.option("adjoint", False)), bands.type.rank
    check_table(n, n)
    whole: Value | None = None
    for k in range(count):
        row = k if lower else count - 1 - k
        band = t.op(
            "slice", bands, starts=(*[0] * (rank - 2), row, 0), sizes=(*bands.shape[:-2], 1, n), steps=(1,) * rank
        )
        # Of the diagonal k below, element i stands in row i; of the one above, too.
        on = t.op("where", t.constant(np.eye(n, k=-k if lower else k, dtype=bool)), linear_algebra.turned(t, band),
                  t.scalar(0, band.dtype))  # fmt: skip
        whole = on if whole is None else t.op("add", whole, on)
    assert whole is not None
    whole = linear_algebra.turned(t, whole) if adjoint else whole
    return linear_algebra.triangular_solved(t, *_broadcast(t, whole, b), lower=lower != adjoint)


def eigen_in_one(t: Translation) -> Value:
    """SelfAdjointEig, the old one: eigenvalues in the first row, vectors below."""
    values, vectors = eigen(t.again(compute_v=True))
    return t.op(
        "concat", t.reshape(values, (*values.shape[:-1], 1, values.shape[-1])), vectors, axis=vectors.type.rank - 2
    )


#: Steps of the iteration for a root: 17 halve the farthest of eigenvalues from 1e-10 to 1e10, then the digits double.
_MOST_STEPS = 24
_OF_ONE: dict[str, Translator] = {
    "Cholesky": lambda t: linear_algebra.cholesky(t, t.input(0)),
    "MatrixInverse": lambda t: elimination.inverted(t, _matrix(t)),
    "MatrixSolve": solve, "MatrixTriangularSolve": triangular_solve,
    "MatrixDeterminant": lambda t: standard(t, "Det", t.input(0)),
    "MatrixSolveLs": least_squares, "SelfAdjointEigV2": eigen, "Svd": singular,
}  # fmt: skip
#: The names of before TensorFlow 1.0, when an operator took one matrix or a batch of them.
TRANSLATORS: dict[str, Translator] = {
    **_OF_ONE, **{f"Batch{name}": translate for name, translate in _OF_ONE.items()},
    "BandedTriangularSolve": banded_solve, "MatrixSquareRoot": square_root,
    **dict.fromkeys(("SelfAdjointEig", "BatchSelfAdjointEig"), eigen_in_one),
    "LogMatrixDeterminant": lambda t: elimination.sign_and_log(t, t.input(0)), "Lu": factors,
    "MatrixExponential": lambda t: decompositions.exponential(t, t.input(0)), "Qr": orthogonal,
    "TridiagonalMatMul": tridiagonal_product, "TridiagonalSolve": tridiagonal_solve,
}  # fmt: skip
