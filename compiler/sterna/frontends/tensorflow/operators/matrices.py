"""Decompositions and solutions of square matrices."""

from __future__ import annotations

from sterna.frontends import linear_algebra
from sterna.frontends.standard import standard
from sterna.frontends.tensorflow.translation import Translation, Translator
from sterna.ir.graph import Value
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
    return linear_algebra.solved(t, *_broadcast(t, _matrix(t), t.input(1)))


def triangular_solve(t: Translation) -> Value:
    lower = bool(t.option("lower", True)) != bool(t.option("adjoint", False))
    return linear_algebra.triangular_solved(t, *_broadcast(t, _matrix(t), t.input(1)), lower=lower)


TRANSLATORS: dict[str, Translator] = {
    "Cholesky": lambda t: linear_algebra.cholesky(t, t.input(0)),
    "MatrixInverse": lambda t: linear_algebra.inverted(t, _matrix(t)),
    "MatrixSolve": solve, "MatrixTriangularSolve": triangular_solve,
    "MatrixDeterminant": lambda t: standard(t, "Det", t.input(0)),
}  # fmt: skip
