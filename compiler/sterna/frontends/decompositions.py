"""Decompositions of matrices: orthogonal factors, factors with pivots, eigenvalues and singular values.

G. Golub, C. Van Loan, Matrix Computations: Householder's reflections (5.2), elimination with pivots (3.4), Jacobi's
rotations for symmetric matrices and, one-sided, for singular values (8.5, 8.6). Rotations of one step touch disjoint
pairs of rows, so that a step is a product of matrices. Dimensions before the last two are batches; sizes are known.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sterna.frontends.emitter import Emitter
from sterna.frontends.linear_algebra import identity, rows_of, turned
from sterna.frontends.standard import standard
from sterna.ir.graph import Value


class Factors(NamedTuple):
    """Elimination with partial pivoting.

    Attributes:
        both: (..., n, n), the upper factor and below its diagonal the lower one, whose diagonal is 1.
        order: (..., n, 1) int64, which row of the matrix stands where in the product of the factors.
        swaps: (..., n) int64, the row that each step's own changed places with.
        sign: (..., 1, 1), of the order's permutation.
    """

    both: Value
    order: Value
    swaps: Value
    sign: Value


def _product(t: Emitter, a: Value, b: Value) -> Value:
    return standard(t, "MatMul", a, b)


def _sum(t: Emitter, x: Value, axis: int) -> Value:
    return t.op("reduce_sum", x, axes=(axis,), keep_dims=True)


def _numbers(t: Emitter, count: int, along: int) -> Value:
    """0 to count - 1 along the last (-1) or the dimension before it (-2)."""
    return t.constant(np.arange(count).reshape((-1, 1) if along == -2 else (1, -1)), "int64")


def swapped(t: Emitter, x: Value, number: Value, other: Value) -> Value:
    """Row `number` and row `other`, (..., 1, 1), of a matrix with their places changed."""
    axis = x.type.rank - 2
    rows = _numbers(t, t.extent(x, axis), -2)
    here, there = t.op("equal", rows, number), t.op("equal", rows, other)
    zero = t.scalar(0, x.dtype)
    own, its = (_sum(t, t.op("where", hit, x, zero), axis) for hit in (here, there))
    return t.op("where", here, its, t.op("where", there, own, x))


def eliminated(t: Emitter, a: Value) -> Factors:
    """The factors of square matrices."""
    n, rank = rows_of(t, a), a.type.rank
    rows, columns = _numbers(t, n, -2), _numbers(t, n, -1)
    zero, batch = t.scalar(0, a.dtype), a.shape[:-2]

    def step(number: Value, carried: list[Value]) -> tuple[list[Value], list[Value]]:
        m, order, sign = carried
        column = t.op("gather", m, t.reshape(number, (1,)), axis=rank - 1)
        size = t.op("where", t.op("less", rows, number), t.scalar(-1, a.dtype), t.op("abs", column))
        best = t.cast(t.op("arg_max", size, axis=rank - 2, keep_dims=True), "int64")
        m, order = swapped(t, m, number, best), swapped(t, order, number, best)
        sign = t.op("where", t.op("equal", best, number), sign, t.op("neg", sign))
        index = t.reshape(number, (1,))
        column, pivot = (t.op("gather", m, index, axis=axis) for axis in (rank - 1, rank - 2))
        factor = t.op("div", column, t.op("gather", column, index, axis=rank - 2))
        below = t.op("less", number, rows)
        factor = t.op("where", below, factor, zero)
        rest = t.op("sub", m, t.op("mul", factor, t.op("where", t.op("less", number, columns), pivot, zero)))
        here = t.op("logical_and", below, t.op("equal", columns, number))
        return [t.op("where", here, factor, rest), order, sign], [t.reshape(best, batch)]

    order = t.op("expand", rows, shape=(*batch, n, 1))
    sign = t.op("expand", t.scalar(1, a.dtype), shape=(*batch, 1, 1))
    (both, order, sign), (swaps,) = t.repeat(n, [a, order, sign], step)
    return Factors(both, order, t.transpose(swaps, (*range(1, swaps.type.rank), 0)), sign)


def diagonal(t: Emitter, a: Value) -> Value:
    """(..., n) of (..., n, n)."""
    n = rows_of(t, a)
    flat = t.reshape(a, (*a.shape[:-2], n * n))
    zeros = (0,) * (flat.type.rank - 1)
    return t.op(
        "slice", flat, starts=(*zeros, 0), sizes=(*a.shape[:-2], n), steps=(*(1 for _ in zeros), n + 1)
    )  # fmt: skip


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


def _partners(n: int) -> np.ndarray:
    """(rounds, n): with whom each of n is paired in each round, with itself where it has a rest; all pairs meet."""
    count = n + n % 2
    ring, table = list(range(count)), []
    for _ in range(max(count - 1, 1)):
        pairs = dict(zip(ring[: count // 2], reversed(ring[count // 2 :]), strict=True))
        pairs |= {b: a for a, b in pairs.items()}
        table.append([pairs.get(i, i) if pairs.get(i, i) < n else i for i in range(n)])
        ring = [ring[0], ring[-1], *ring[1:-1]]
    return np.array(table, np.int64)


def _sweeps(n: int) -> int:
    """As often as all pairs are rotated; convergence is quadratic after the first few times."""
    return 6 + math.ceil(math.log2(max(n, 2)))


def _rotation(t: Emitter, a: Value, partner: Value) -> Value:
    """The rotations that make the elements at (i, partner(i)) of symmetric matrices 0."""
    n = rows_of(t, a)
    rows, columns = _numbers(t, n, -2), _numbers(t, n, -1)
    zero, one = t.scalar(0, a.dtype), t.scalar(1, a.dtype)
    other = t.reshape(partner, (n, 1))
    own, met = t.op("equal", rows, columns), t.op("equal", other, columns)
    last = a.type.rank - 1
    on = _sum(t, t.op("where", own, a, zero), last)
    between = _sum(t, t.op("where", met, a, zero), last)
    across = _sum(t, t.op("where", met, turned(t, t.op("expand", on, shape=a.shape)), zero), last)
    still = t.op("logical_or", t.op("equal", between, zero), t.op("equal", other, rows))
    ratio = t.op("div", t.op("sub", across, on), t.op("mul", t.op("where", still, one, between), t.scalar(2, a.dtype)))
    size = t.op("abs", ratio)
    root = t.op("sqrt", t.op("add", t.op("mul", ratio, ratio), one))
    tangent = t.op("div", one, t.op("add", size, root))
    # Where the ratio is 0 the lower of two rows turns one way, the other one the other way.
    back = t.op("less", ratio, zero)
    even = t.op("logical_and", t.op("equal", ratio, zero), t.op("less", other, rows))
    tangent = t.op("where", t.op("logical_or", back, even), t.op("neg", tangent), tangent)
    tangent = t.op("where", still, zero, tangent)
    cosine = t.op("div", one, t.op("sqrt", t.op("add", t.op("mul", tangent, tangent), one)))
    sine = t.op("mul", tangent, cosine)
    return t.op("where", own, cosine, t.op("where", met, sine, zero))


def _pairs_of(t: Emitter, table: Value, number: Value, n: int) -> Value:
    return t.reshape(t.op("gather", table, t.reshape(number, (1,)), axis=0), (n,))


def _table(t: Emitter, n: int) -> tuple[Value, int]:
    """Who meets whom in every step, and how many steps there are."""
    rounds = np.tile(_partners(n), (_sweeps(n), 1))
    return t.constant(rounds, "int64"), len(rounds)


def _in_order(t: Emitter, values: Value, *matrices: Value, largest: bool) -> tuple[Value, list[Value]]:
    """Values (..., n) in order, and columns of matrices in theirs."""
    axis = values.type.rank - 1
    ordered, places = t.builder.add_all(
        "top_k", values, k=(values.shape[-1],), axis=axis, largest=largest, sources=t.sources, name=f"{t.name}/order"
    )
    index = t.reshape(places, (*places.shape[:-1], 1, places.shape[-1]))
    moved = [
        t.op("gather_elements", m, t.op("expand", index, shape=m.shape), axis=m.type.rank - 1) for m in matrices
    ]  # fmt: skip
    return ordered, moved


def symmetric_eigen(t: Emitter, a: Value) -> tuple[Value, Value]:
    """Eigenvalues (..., n) of symmetric matrices from the least up, and their eigenvectors as columns."""
    n = rows_of(t, a)
    table, steps = _table(t, n)

    def step(number: Value, carried: list[Value]) -> tuple[list[Value], list[Value]]:
        m, vectors = carried
        rotation = _rotation(t, m, _pairs_of(t, table, number, n))
        m = _product(t, turned(t, rotation), _product(t, m, rotation))
        return [m, _product(t, vectors, rotation)], []

    (m, vectors), _ = t.repeat(steps, [a, identity(t, a)], step)
    values, (vectors,) = _in_order(t, diagonal(t, m), vectors, largest=False)
    return values, vectors


def singular(t: Emitter, a: Value) -> tuple[Value, Value, Value]:
    """(u, s, v) with a = u diag(s) v^T of (..., m, n), s from the greatest down: u (..., m, k), v (..., n, k)."""
    if t.extent(a, -2) < t.extent(a, -1):
        v, s, u = singular(t, turned(t, a))
        return u, s, v
    n = t.extent(a, -1)
    table, steps = _table(t, n)

    def step(number: Value, carried: list[Value]) -> tuple[list[Value], list[Value]]:
        m, vectors = carried
        rotation = _rotation(t, _product(t, turned(t, m), m), _pairs_of(t, table, number, n))
        return [_product(t, m, rotation), _product(t, vectors, rotation)], []

    start = t.op("expand", t.constant(np.eye(n), a.dtype), shape=(*a.shape[:-2], n, n))
    (m, v), _ = t.repeat(steps, [a, start], step)
    zero, one = t.scalar(0, a.dtype), t.scalar(1, a.dtype)
    length = t.op("sqrt", _sum(t, t.op("mul", m, m), m.type.rank - 2))
    none = t.op("equal", length, zero)
    u = t.op("div", m, t.op("where", none, one, length))
    s, (u, v) = _in_order(t, t.reshape(length, (*a.shape[:-2], n)), u, v, largest=True)
    return u, s, v


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
