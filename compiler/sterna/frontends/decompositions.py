"""Decompositions of matrices: orthogonal factors, and the exponential.

G. Golub, C. Van Loan, Matrix Computations: Householder's reflections (5.2). Dimensions before the last two are batches;
sizes are known.
"""

from __future__ import annotations

import math

import numpy as np

from sterna.frontends.emitter import Emitter
from sterna.frontends.linear_algebra import identity, turned
from sterna.frontends.standard import standard
from sterna.ir.graph import Value


def _product(t: Emitter, a: Value, b: Value) -> Value:
    return standard(t, "MatMul", a, b)


def _sum(t: Emitter, x: Value, axis: int) -> Value:
    return t.op("reduce_sum", x, axes=(axis,), keep_dims=True)


def _numbers(t: Emitter, count: int, along: int) -> Value:
    """0 to count - 1 along the last (-1) or the dimension before it (-2)."""
    return t.constant(np.arange(count).reshape((-1, 1) if along == -2 else (1, -1)), "int64")


def triangle(t: Emitter, a: Value, upper: bool, offset: int = 0) -> Value:
    """What stands on and above, or on and below, a diagonal of matrices of any shape; the rest is 0."""
    rows, columns = t.extent(a, -2), t.extent(a, -1)
    mask = np.triu(np.ones((rows, columns), bool), offset) if upper else np.tril(np.ones((rows, columns), bool), offset)
    return t.op("where", t.constant(mask, "bool"), a, t.scalar(0, a.dtype))


def orthogonal(t: Emitter, a: Value) -> tuple[Value, Value]:
    """(q, r) with a = q r of (..., m, n): q is (..., m, m), r upper triangular of a's shape, with LAPACK's signs."""
    rank, rows, columns = a.type.rank, t.extent(a, -2), t.extent(a, -1)
    places = _numbers(t, rows, -2)
    zero, one = t.scalar(0, a.dtype), t.scalar(1, a.dtype)

    def step(number: Value, carried: list[Value]) -> tuple[list[Value], list[Value]]:
        r, q = carried
        column = t.op("gather", r, t.reshape(number, (1,)), axis=rank - 1)
        below, here = t.op("less", number, places), t.op("equal", number, places)
        tail = t.op("where", below, column, zero)
        head = _sum(t, t.op("where", here, column, zero), rank - 2)
        rest = _sum(t, t.op("mul", tail, tail), rank - 2)
        length = t.op("sqrt", t.op("add", rest, t.op("mul", head, head)))
        ahead = t.op("where", t.op("less", head, zero), t.op("sub", head, length), t.op("add", head, length))
        v = t.op("where", here, ahead, tail)
        size = _sum(t, t.op("mul", v, v), rank - 2)
        nothing = t.op("equal", rest, zero)
        factor = t.op("div", t.scalar(2, a.dtype), t.op("where", nothing, one, size))
        factor = t.op("where", nothing, zero, factor)
        mirror = t.op("mul", v, factor)
        r = t.op("sub", r, t.op("mul", mirror, _sum(t, t.op("mul", v, r), rank - 2)))
        along = _sum(t, t.op("mul", q, turned(t, v)), rank - 1)
        return [r, t.op("sub", q, t.op("mul", along, turned(t, mirror)))], []

    start = t.op("expand", t.constant(np.eye(rows), a.dtype), shape=(*a.shape[:-1], rows))
    (r, q), _ = t.repeat(min(rows, columns), [a, start], step)
    return q, triangle(t, r, upper=True)


def columns_of(t: Emitter, a: Value, first: int, count: int) -> Value:
    """Some columns of matrices."""
    rank = a.type.rank
    return t.op(
        "slice", a, starts=(*[0] * (rank - 1), first), sizes=(*a.shape[:-1], count), steps=(1,) * rank
    )  # fmt: skip


def completed(t: Emitter, u: Value) -> Value:
    """Orthonormal columns with those that are missing to a square matrix."""
    rows, columns = t.extent(u, -2), t.extent(u, -1)
    if rows == columns:
        return u
    q, _ = orthogonal(t, u)
    return t.op("concat", u, columns_of(t, q, columns, rows - columns), axis=u.type.rank - 1)


def exponential(t: Emitter, a: Value) -> Value:
    """exp of square matrices: its series, of a matrix halved until its norm is a half, and squared as often."""
    rank, one, half = a.type.rank, t.scalar(1, a.dtype), t.scalar(0.5, a.dtype)
    size = t.op("reduce_max", _sum(t, t.op("abs", a), rank - 2), axes=(rank - 1,), keep_dims=True)
    halvings = t.op("ceil", t.op("mul", t.op("log", t.op("maximum", size, half)), t.scalar(1 / math.log(2), a.dtype)))
    halvings = t.op("add", halvings, one)
    small = t.op("mul", a, t.op("pow", half, halvings))
    y = unit = identity(t, a)
    for n in range(10, 0, -1):
        y = t.op("add", unit, t.op("mul", _product(t, small, y), t.scalar(1 / n, a.dtype)))

    def step(number: Value, carried: list[Value]) -> tuple[list[Value], list[Value]]:
        (m,) = carried
        more = t.op("less", t.cast(number, a.dtype), halvings)
        return [t.op("where", more, _product(t, m, m), m)], []

    # Norms above 2^15 have an exponential that no float32 holds, unless all eigenvalues are negative.
    (y,), _ = t.repeat(16, [y], step)
    return y
