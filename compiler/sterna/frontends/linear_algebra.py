"""Triangular factors and solutions: loops over columns whose bodies are a few kernels, for matrices of any known size.

G. Golub, C. Van Loan, Matrix Computations, chapters 3 and 4. Dimensions before the last two are batches.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sterna.errors import error
from sterna.frontends.emitter import Emitter
from sterna.ir.graph import Value

#: Rows and columns that one loop computes: what it reads and writes in an iteration stays in L1. Larger matrices are
#: computed block by block, and what joins the blocks are products.
BLOCK, MOST_BLOCKS = 32, 16


def rows_of(t: Emitter, a: Value) -> int:
    """The rows of square matrices.

    Raises:
        SternaError: E0108, they are not square; E0107, their size is open.
    """
    if a.type.rank < 2 or a.shape[-1] != a.shape[-2]:
        raise error("E0108", f"{t.kind} of {a.type}, which is no square matrix")
    return t.extent(a, a.type.rank - 1)


class Places:
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


def identity(t: Emitter, a: Value) -> Value:
    """Identity matrices of the shape of some matrices."""
    return t.op("expand", t.constant(np.eye(rows_of(t, a)), a.dtype), shape=a.shape)


def turned(t: Emitter, a: Value) -> Value:
    """Transposed matrices."""
    rank = a.type.rank
    return t.transpose(a, (*range(rank - 2), rank - 1, rank - 2))


def diagonal(t: Emitter, a: Value) -> Value:
    """(..., n) of (..., n, n)."""
    n = rows_of(t, a)
    flat = t.reshape(a, (*a.shape[:-2], n * n))
    zeros = (0,) * (flat.type.rank - 1)
    return t.op(
        "slice", flat, starts=(*zeros, 0), sizes=(*a.shape[:-2], n), steps=(*(1 for _ in zeros), n + 1)
    )  # fmt: skip


def block(t: Emitter, a: Value, rows: tuple[int, int], columns: tuple[int, int]) -> Value:
    """Rows and columns of matrices, from the first of a pair to before the second."""
    lead = a.type.rank - 2
    ranges = (rows, columns)
    starts = (*(0 for _ in range(lead)), *(first for first, _ in ranges))
    sizes = (*a.shape[:-2], *(end - first for first, end in ranges))
    return a if sizes == a.shape else t.op("slice", a, starts=starts, sizes=sizes, steps=(1,) * a.type.rank)


def blocks(n: int) -> list[tuple[int, int]]:
    """The parts that n rows or columns are computed in: not more than so many, as each is a part of the graph."""
    size = max(BLOCK, -(-n // MOST_BLOCKS))
    return [(first, min(first + size, n)) for first in range(0, n, size)]


def joined(t: Emitter, parts: Sequence[Value], axis: int) -> Value:
    """Matrices beside (-1) or below (-2) one another."""
    return parts[0] if len(parts) == 1 else t.op("concat", *parts, axis=parts[0].type.rank + axis)


def zeros(t: Emitter, a: Value, rows: int, columns: int) -> Value:
    """Of the batches and the type of some matrices."""
    return t.op("expand", t.scalar(0, a.dtype), shape=(*a.shape[:-2], rows, columns))


def less_product(t: Emitter, a: Value, b: Value, c: Value) -> Value:
    """a - b c."""
    return t.op("sub", a, t.op("matmul", b, c))


def cholesky(t: Emitter, a: Value) -> Value:
    """The lower triangular l of l l^T = a, of which only the lower triangle is read.

    A block of columns after the other: what is right of it and below then has the block's products subtracted.
    """
    n = rows_of(t, a)
    found: list[Value] = []
    rest = a
    for first, end in blocks(n):
        size, left = end - first, n - end
        corner = _cholesky_block(t, block(t, rest, (0, size), (0, size)))
        columns = [corner]
        if left:
            below = turned(t, block(t, rest, (size, size + left), (0, size)))
            across = triangular_solved(t, corner, below)
            below = turned(t, across)
            rest = less_product(t, block(t, rest, (size, size + left), (size, size + left)), below, across)
            columns.append(below)
        if first:
            columns.insert(0, zeros(t, a, first, size))
        found.append(joined(t, columns, -2))
    return joined(t, found, -1)


def _cholesky_block(t: Emitter, a: Value) -> Value:
    n = rows_of(t, a)
    zero = t.scalar(0, a.dtype)

    def step(number: Value, carried: list[Value]) -> tuple[list[Value], list[Value]]:
        m, lower = carried
        at = Places(t, number, n, n)
        column = at.column(m)
        column = t.op("where", at.passed(), zero, t.op("div", column, t.op("sqrt", at.row(column))))
        lower = t.op("where", at.is_column(), column, lower)
        return [t.op("sub", m, t.op("mul", column, turned(t, column))), lower], []

    (_, lower), _ = t.repeat(n, [a, zeros(t, a, n, n)], step)
    return lower


def triangular_solved(t: Emitter, a: Value, b: Value, *, lower: bool = True, unit: bool = False) -> Value:
    """The x of a x = b by substitution, of triangular matrices: the other triangle is not read.

    Args:
        a: (..., n, n).
        b: (..., n, m).
        lower: the lower triangle is read, else the upper one.
        unit: the diagonal is taken as 1 and not read.
    """
    n, wide = rows_of(t, a), t.extent(b, b.type.rank - 1)
    found: list[Value] = []
    for first, end in blocks(n) if lower else reversed(blocks(n)):
        own = block(t, b, (first, end), (0, wide))
        if found:
            known = (0, first) if lower else (end, n)
            own = less_product(t, own, block(t, a, (first, end), known), joined(t, found, -2))
        x = _triangular_block(t, block(t, a, (first, end), (first, end)), own, lower, unit)
        found = [*found, x] if lower else [x, *found]
    return joined(t, found, -2)


def _triangular_block(t: Emitter, a: Value, b: Value, lower: bool, unit: bool) -> Value:
    n = rows_of(t, a)
    zero = t.scalar(0, a.dtype)

    def step(number: Value, carried: list[Value]) -> tuple[list[Value], list[Value]]:
        (x,) = carried
        if not lower:
            number = t.op("sub", t.scalar(n - 1, "int64"), number)
        at = Places(t, number, n, n)
        own, column = at.row(x), at.column(a)
        if not unit:
            own = t.op("div", own, at.row(column))
        later = t.op("greater" if lower else "less", at.rows, number)
        rest = t.op("sub", x, t.op("mul", t.op("where", later, column, zero), own))
        return [t.op("where", at.is_row(), own, rest)], []

    (x,), _ = t.repeat(n, [b], step)
    return x
