"""Singular values by Jacobi's rotations, and eigenvalues of symmetric matrices by their operator.

G. Golub, C. Van Loan, Matrix Computations, 8.6. In a round, column j is rotated with column n - 1 - j: all
pairs are apart, so that a round is a pass over the matrix. Then all columns but the first move on by one place (the
circle method of tournaments): after n - 1 rounds, a sweep, every two have met, and all are where they were. Positions
are known to the loops. Sweeps end when nothing is left to rotate. An odd number of columns is made even by one of
zeros, which comes first. Dimensions before the last two are batches; sizes are known.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sterna.frontends.emitter import Emitter
from sterna.frontends.linear_algebra import block, rows_of, turned
from sterna.ir.graph import Value
from sterna.ir.integer import as_int


class Rotation(NamedTuple):
    """Of every column (..., 1, n): x'_j = cosine_j x_j + sine_j x_(n-1-j)."""

    cosine: Value
    sine: Value


def _sweeps(n: int) -> int:
    """The most sweeps; convergence is quadratic after the first few."""
    return 6 + math.ceil(math.log2(max(n, 2)))


def _sum(t: Emitter, x: Value, *axes: int) -> Value:
    return t.op("reduce_sum", x, axes=tuple(axis % x.type.rank for axis in axes), keep_dims=True)


def _reversed(t: Emitter, x: Value, axis: int) -> Value:
    """Column or row j at n - 1 - j."""
    place, rank = axis % x.type.rank, x.type.rank
    starts, steps = [0] * rank, [1] * rank
    starts[place], steps[place] = t.extent(x, place) - 1, -1
    return t.op("slice", x, starts=tuple(starts), sizes=x.shape, steps=tuple(steps))


def _moved_on(t: Emitter, x: Value, axis: int) -> Value:
    """The first column or row, then the last one, then the others."""
    place, n = axis % x.type.rank, t.extent(x, axis % x.type.rank)
    parts = [_cut(t, x, place, first, count) for first, count in ((0, 1), (n - 1, 1), (1, n - 2)) if count]
    return t.op("concat", *parts, axis=place)


def _cut(t: Emitter, x: Value, axis: int, first: int, count: int) -> Value:
    starts, sizes = [0] * x.type.rank, list(x.shape)
    place = axis % x.type.rank
    starts[place], sizes[place] = first, as_int(count)
    return t.op("slice", x, starts=tuple(starts), sizes=tuple(sizes), steps=(1,) * x.type.rank)


def _rotation(t: Emitter, own: Value, between: Value) -> Rotation:
    """What makes the elements `between` columns and their partners 0.

    Args:
        own: (..., 1, n), of a column with itself; between: with its partner.
    """
    dtype = own.dtype
    n = t.extent(own, -1)
    zero, one, two = (t.scalar(value, dtype) for value in (0, 1, 2))
    still = t.op("equal", between, zero)
    difference = t.op("sub", _reversed(t, own, -1), own)
    ratio = t.op("div", difference, t.op("mul", t.op("where", still, one, between), two))
    root = t.op("sqrt", t.op("add", t.op("mul", ratio, ratio), one))
    tangent = t.op("div", one, t.op("add", t.op("abs", ratio), root))
    # Where the ratio is 0 the first of two columns turns one way, the other one the other way.
    first = t.constant((np.arange(n) < n // 2).reshape(1, n), "bool")
    even = t.op("logical_and", t.op("equal", ratio, zero), first)
    back = t.op("logical_or", t.op("less", ratio, zero), even)
    tangent = t.op("where", back, tangent, t.op("neg", tangent))
    tangent = t.op("where", still, zero, tangent)
    cosine = t.op("div", one, t.op("sqrt", t.op("add", t.op("mul", tangent, tangent), one)))
    return Rotation(cosine, t.op("mul", tangent, cosine))


def _rotated(t: Emitter, x: Value, rotation: Rotation) -> Value:
    """Columns after a round, in their places of the next one."""
    turned_ = t.op("mul", _reversed(t, x, -1), rotation.sine)
    return _moved_on(t, t.op("add", t.op("mul", x, rotation.cosine), turned_), -1)


def _any(t: Emitter, condition: Value) -> Value:
    """Whether something holds anywhere."""
    number = t.cast(condition, "int32")
    found = t.op("reduce_max", number, axes=tuple(range(number.type.rank)), keep_dims=False)
    return t.op("less", t.scalar(0, "int32"), found)


def _even(t: Emitter, x: Value) -> tuple[Value, int]:
    """Matrices with an even number of columns, and how many there are in front for that."""
    odd = t.extent(x, -1) % 2
    before = (*(0 for _ in x.shape[:-1]), odd)
    return (t.pad(x, before, (0,) * x.type.rank) if odd else x), odd


def _in_order(t: Emitter, values: Value, *matrices: Value) -> tuple[Value, list[Value]]:
    """Values (..., n) from the greatest down, and columns of matrices in their order."""
    axis = values.type.rank - 1
    ordered, places = t.builder.add_all(
        "top_k", values, k=(values.shape[-1],), axis=axis, largest=True, sources=t.sources, name=f"{t.name}/order"
    )
    index = t.reshape(places, (*places.shape[:-1], 1, places.shape[-1]))
    moved = [
        t.op("gather_elements", m, t.op("expand", index, shape=m.shape), axis=m.type.rank - 1) for m in matrices
    ]  # fmt: skip
    return ordered, moved


def symmetric_eigen(t: Emitter, a: Value) -> tuple[Value, Value]:
    """Eigenvalues (..., n) of symmetric matrices from the least up, and their eigenvectors as columns."""
    if not rows_of(t, a):
        return t.reshape(a, a.shape[:-1]), a
    values, vectors = t.builder.add_all("symmetric_eigen", a, sources=t.sources, name=f"{t.name}/eigen")
    return values, vectors


def singular(t: Emitter, a: Value) -> tuple[Value, Value, Value]:
    """(u, s, v) with a = u diag(s) v^T of (..., m, n), s from the greatest down: u (..., m, k), v (..., n, k)."""
    if t.extent(a, -2) < t.extent(a, -1):
        v, s, u = singular(t, turned(t, a))
        return u, s, v
    size, rows = t.extent(a, -1), t.extent(a, -2)
    if not size:
        lead = a.shape[:-2]
        u, s, v = (t.op("expand", t.scalar(0, a.dtype), shape=shape) for shape in (a.shape, (*lead, 0), (*lead, 0, 0)))
        return u, s, v
    start, odd = _even(t, a)
    n = size + odd
    zero, one = t.scalar(0, a.dtype), t.scalar(1, a.dtype)
    bound = t.scalar(4 * math.sqrt(rows) * float(np.finfo(a.dtype).eps), a.dtype)

    def round_(_: Value, carried: list[Value]) -> tuple[list[Value], list[Value]]:
        left, m, *others = carried
        own = _sum(t, t.op("mul", m, m), -2)
        between = _sum(t, t.op("mul", m, _reversed(t, m, -1)), -2)
        size_ = t.op("sqrt", t.op("mul", own, _reversed(t, own, -1)))
        far = t.op("less", t.op("mul", size_, bound), t.op("abs", between))
        left = t.op("logical_or", left, far)
        rotation = _rotation(t, own, between)
        return [left, *(_rotated(t, v, rotation) for v in (m, *others))], []

    def sweep(carried: list[Value]) -> tuple[Value, list[Value]]:
        none = t.op("expand", t.constant(np.zeros((), bool), "bool"), shape=(*a.shape[:-2], 1, n))
        (left, *following), _ = t.repeat(n - 1, [none, *carried], round_)
        return _any(t, left), following

    unit = t.op("expand", t.constant(np.eye(n), a.dtype), shape=(*a.shape[:-2], n, n))
    m, v = t.repeat_until(_sweeps(n), [start, unit], sweep)
    m = block(t, m, (0, rows), (odd, n))
    length = t.op("sqrt", _sum(t, t.op("mul", m, m), -2))
    s = t.reshape(length, (*a.shape[:-2], size))
    u = t.op("div", m, t.op("where", t.op("equal", length, zero), one, length))
    s, (u, v) = _in_order(t, s, u, block(t, v, (odd, n), (odd, n)))
    return u, s, v
