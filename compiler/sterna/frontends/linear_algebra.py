"""Linear algebra of square matrices: loops over columns whose bodies are a few kernels, for matrices of any known size.

G. Golub, C. Van Loan, Matrix Computations, chapters 3 and 4. Dimensions before the last two are batches.
"""

from __future__ import annotations

import numpy as np

from sterna.errors import error
from sterna.frontends.emitter import Emitter
from sterna.ir.graph import Value


def rows_of(t: Emitter, a: Value) -> int:
    """The rows of square matrices.

    Raises:
        SternaError: E0108, they are not square; E0107, their size is open.
    """
    if a.type.rank < 2 or a.shape[-1] != a.shape[-2]:
        raise error("E0108", f"{t.kind} of {a.type}, which is no square matrix")
    return t.extent(a, a.type.rank - 1)


class _Places:
    """Which row, and which column, an iteration is at."""

    def __init__(self, t: Emitter, number: Value, rows: int, columns: int):
        self.t, self.number = t, number
        self.rows = t.constant(np.arange(rows)[:, None], "int64")
        self.columns = t.constant(np.arange(columns)[None, :], "int64")
        self.index = t.reshape(number, (1,))

    def row(self, x: Value) -> Value:
        return self.t.op("gather", x, self.index, axis=x.type.rank - 2)

    def column(self, x: Value) -> Value:
        return self.t.op("gather", x, self.index, axis=x.type.rank - 1)

    def is_row(self) -> Value:
        return self.t.op("equal", self.rows, self.number)

    def is_column(self) -> Value:
        return self.t.op("equal", self.columns, self.number)

    def passed(self) -> Value:
        """Rows before the iteration's own."""
        return self.t.op("less", self.rows, self.number)


def solved(t: Emitter, a: Value, b: Value) -> Value:
    """The x of a x = b: Gauss-Jordan elimination with partial pivoting.

    Args:
        a: (..., n, n).
        b: (..., n, m).
    """
    n, rank = rows_of(t, a), a.type.rank
    wide = n + t.extent(b, rank - 1)
    zero, none = t.scalar(0, a.dtype), t.scalar(-1, a.dtype)

    def step(number: Value, carried: list[Value]) -> tuple[list[Value], list[Value]]:
        (m,) = carried
        at = _Places(t, number, n, wide)
        size = t.op("where", at.passed(), none, t.op("abs", at.column(m)))
        best = t.cast(t.op("arg_max", size, axis=rank - 2, keep_dims=True), "int64")
        chosen, here = t.op("equal", at.rows, best), at.is_row()
        pivot = t.op("reduce_sum", t.op("where", chosen, m, zero), axes=(rank - 2,), keep_dims=True)
        # The pivot's row and the iteration's own change places.
        m = t.op("where", here, pivot, t.op("where", chosen, at.row(m), m))
        pivot = t.op("div", pivot, at.column(pivot))
        rest = t.op("sub", m, t.op("mul", at.column(m), pivot))
        return [t.op("where", here, pivot, rest)], []

    (m,), _ = t.repeat(n, [t.op("concat", a, b, axis=rank - 1)], step)
    return t.op("slice", m, starts=(*[0] * (rank - 1), n), sizes=b.shape, steps=(1,) * rank)


def identity(t: Emitter, a: Value) -> Value:
    """Identity matrices of the shape of some matrices."""
    return t.op("expand", t.constant(np.eye(rows_of(t, a)), a.dtype), shape=a.shape)


def inverted(t: Emitter, a: Value) -> Value:
    """Inverse matrices."""
    return solved(t, a, identity(t, a))


def turned(t: Emitter, a: Value) -> Value:
    """Transposed matrices."""
    rank = a.type.rank
    return t.transpose(a, (*range(rank - 2), rank - 1, rank - 2))


def cholesky(t: Emitter, a: Value) -> Value:
    """The lower triangular l of l l^T = a, of which only the lower triangle is read."""
    n = rows_of(t, a)
    zero = t.scalar(0, a.dtype)

    def step(number: Value, carried: list[Value]) -> tuple[list[Value], list[Value]]:
        m, lower = carried
        at = _Places(t, number, n, n)
        column = at.column(m)
        column = t.op("where", at.passed(), zero, t.op("div", column, t.op("sqrt", at.row(column))))
        lower = t.op("where", at.is_column(), column, lower)
        return [t.op("sub", m, t.op("mul", column, turned(t, column))), lower], []

    empty = t.op("expand", zero, shape=a.shape)
    (_, lower), _ = t.repeat(n, [a, empty], step)
    return lower


def triangular_solved(t: Emitter, a: Value, b: Value, *, lower: bool = True, unit: bool = False) -> Value:
    """The x of a x = b by substitution, of triangular matrices: the other triangle is not read.

    Args:
        a: (..., n, n).
        b: (..., n, m).
        lower: the lower triangle is read, else the upper one.
        unit: the diagonal is taken as 1 and not read.
    """
    n = rows_of(t, a)
    zero = t.scalar(0, a.dtype)

    def step(number: Value, carried: list[Value]) -> tuple[list[Value], list[Value]]:
        (x,) = carried
        if not lower:
            number = t.op("sub", t.scalar(n - 1, "int64"), number)
        at = _Places(t, number, n, n)
        own, column = at.row(x), at.column(a)
        if not unit:
            own = t.op("div", own, at.row(column))
        later = t.op("greater" if lower else "less", at.rows, number)
        rest = t.op("sub", x, t.op("mul", t.op("where", later, column, zero), own))
        return [t.op("where", at.is_row(), own, rest)], []

    (x,), _ = t.repeat(n, [b], step)
    return x
