"""Elimination with partial pivoting, of square matrices: factors, solutions, inverses and determinants.

G. Golub, C. Van Loan, Matrix Computations, 3.2 to 3.4. Dimensions before the last two are batches; sizes are known.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sterna.frontends.emitter import Emitter
from sterna.frontends.linear_algebra import (
    BLOCK,
    Places,
    block,
    blocks,
    diagonal,
    identity,
    joined,
    less_product,
    rows_of,
    triangular_solved,
)
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


def row_at(t: Emitter, x: Value, place: Value) -> Value:
    """(..., 1, m) of (..., n, m): the row at a place (..., 1, 1) of every matrix."""
    axis = x.type.rank - 2
    if all(size == 1 for size in place.shape):
        return t.op("gather", x, t.reshape(place, (1,)), axis=axis)
    return t.op("gather_elements", x, t.op("expand", place, shape=(*x.shape[:-2], 1, x.shape[-1])), axis=axis)


def in_order(t: Emitter, x: Value, order: Value) -> Value:
    """The rows of matrices (..., n, m) in an order (..., n, 1)."""
    axis = x.type.rank - 2
    if all(size == 1 for size in order.shape[:-2]):
        return t.op("gather", x, t.reshape(order, (order.shape[-2],)), axis=axis)
    return t.op("gather_elements", x, t.op("expand", order, shape=x.shape), axis=axis)


def swapped(t: Emitter, x: Value, number: Value, other: Value) -> Value:
    """Row `number` and row `other`, (..., 1, 1), of a matrix with their places changed."""
    axis = x.type.rank - 2
    rows = t.constant(np.arange(t.extent(x, axis))[:, None], "int64")
    here, there = t.op("equal", rows, number), t.op("equal", rows, other)
    own = t.op("gather", x, t.reshape(number, (1,)), axis=axis)
    return t.op("where", here, row_at(t, x, other), t.op("where", there, own, x))


def _pivot(t: Emitter, at: Places, m: Value) -> Value:
    """The row (..., 1, 1) of the greatest element of a column, from the iteration's own row on."""
    size = t.op("where", at.passed(), t.scalar(-1, m.dtype), t.op("abs", at.column(m)))
    return t.cast(t.op("arg_max", size, axis=m.type.rank - 2, keep_dims=True), "int64")


def _panel(t: Emitter, a: Value) -> Factors:
    """The factors of some columns (..., n, m) of matrices; swaps are (m, ..., 1, 1)."""
    n, wide, batch = t.extent(a, -2), t.extent(a, -1), a.shape[:-2]
    zero, one = t.scalar(0, a.dtype), t.scalar(1, a.dtype)

    def step(number: Value, carried: list[Value]) -> tuple[list[Value], list[Value]]:
        m, order, sign = carried
        at = Places(t, number, n, wide)
        best = _pivot(t, at, m)
        sign = t.op("where", t.op("equal", best, number), sign, t.op("neg", sign))
        own, pivot = at.row(m), row_at(t, m, best)
        # The pivot's row and the iteration's own change places while the rows below are computed.
        there, below = t.op("equal", at.rows, best), t.op("greater", at.rows, number)
        divisor = at.column(pivot)
        divisor = t.op("where", t.op("equal", divisor, zero), one, divisor)
        factor = t.op("div", t.op("where", there, at.column(own), at.column(m)), divisor)
        factor = t.op("where", below, factor, zero)
        m = t.op("where", at.is_row(), pivot, t.op("where", there, own, m))
        after = t.op("greater", at.columns, number)
        rest = t.op("sub", m, t.op("mul", factor, t.op("where", after, pivot, zero)))
        hit = t.op("logical_and", below, at.is_column())
        return [t.op("where", hit, factor, rest), swapped(t, order, number, best), sign], [best]

    order = t.op("expand", t.constant(np.arange(n)[:, None], "int64"), shape=(*batch, n, 1))
    sign = t.op("expand", one, shape=(*batch, 1, 1))
    (both, order, sign), (swaps,) = t.repeat(min(n, wide), [a, order, sign], step)
    return Factors(both, order, swaps, sign)


def eliminated(t: Emitter, a: Value) -> Factors:
    """The factors of square matrices.

    A panel of columns after the other: the rows beside it follow its order, and what is right of it and below has the
    panel's products subtracted.
    """
    n, batch = rows_of(t, a), a.shape[:-2]
    lines: list[Value] = []  # of the result
    orders: list[Value] = []  # of these lines
    swaps: list[Value] = []
    rest, left, order, sign = a, None, None, None
    for first, end in blocks(n):
        size, high = end - first, n - first
        panel = _panel(t, block(t, rest, (0, high), (0, size)))
        swaps.append(t.op("add", panel.swaps, t.scalar(first, "int64")) if first else panel.swaps)
        sign = panel.sign if sign is None else t.op("mul", sign, panel.sign)
        order = panel.order if order is None else in_order(t, order, panel.order)
        orders.append(block(t, order, (0, size), (0, 1)))
        top = block(t, panel.both, (0, size), (0, size))
        line = [top]
        if left is not None:
            left = in_order(t, left, panel.order)
            line.insert(0, block(t, left, (0, size), (0, first)))
        if end < n:
            below, after = (size, high), (0, n - end)
            other = in_order(t, block(t, rest, (0, high), (size, high)), panel.order)
            across = triangular_solved(t, top, block(t, other, (0, size), after), unit=True)
            line.append(across)
            lower = block(t, panel.both, below, (0, size))
            rest = less_product(t, block(t, other, below, after), lower, across)
            left = lower if left is None else joined(t, [block(t, left, below, (0, first)), lower], -1)
            order = block(t, order, below, (0, 1))
        lines.append(joined(t, line, -1))
    assert sign is not None
    turns = swaps[0] if len(swaps) == 1 else t.op("concat", *swaps, axis=0)
    turns = t.transpose(t.reshape(turns, (n, *batch)), (*range(1, len(batch) + 1), 0))
    return Factors(joined(t, lines, -2), joined(t, orders, -2), turns, sign)


def factors_of(t: Emitter, a: Value) -> Factors:
    """The factors of matrices of any shape (..., m, n): there are min(m, n) swaps."""
    rows, columns = t.extent(a, -2), t.extent(a, -1)
    if rows == columns:
        return eliminated(t, a)
    if rows > columns:
        found, last = _panel(t, a), len(a.shape) - 2
        swaps = t.transpose(t.reshape(found.swaps, (columns, *a.shape[:-2])), (*range(1, last + 1), 0))
        return Factors(found.both, found.order, swaps, found.sign)
    square = eliminated(t, block(t, a, (0, rows), (0, rows)))
    right = in_order(t, block(t, a, (0, rows), (rows, columns)), square.order)
    right = triangular_solved(t, square.both, right, unit=True)
    return square._replace(both=joined(t, [square.both, right], -1))


def solved(t: Emitter, a: Value, b: Value) -> Value:
    """The x of a x = b: by the factors of a, and of small matrices by Gauss-Jordan elimination.

    Args:
        a: (..., n, n).
        b: (..., n, m).
    """
    n, rank = rows_of(t, a), a.type.rank
    if n > BLOCK:
        factors = eliminated(t, a)
        y = triangular_solved(t, factors.both, in_order(t, b, factors.order), unit=True)
        return triangular_solved(t, factors.both, y, lower=False)
    wide = n + t.extent(b, rank - 1)

    def step(number: Value, carried: list[Value]) -> tuple[list[Value], list[Value]]:
        (m,) = carried
        at = Places(t, number, n, wide)
        best = _pivot(t, at, m)
        own, pivot = at.row(m), row_at(t, m, best)
        # The pivot's row and the iteration's own change places.
        there = t.op("equal", at.rows, best)
        factor = t.op("where", there, at.column(own), at.column(m))
        pivot = t.op("div", pivot, at.column(pivot))
        rest = t.op("sub", t.op("where", there, own, m), t.op("mul", factor, pivot))
        return [t.op("where", at.is_row(), pivot, rest)], []

    (m,), _ = t.repeat(n, [t.op("concat", a, b, axis=rank - 1)], step)
    return block(t, m, (0, n), (n, wide))


def inverted(t: Emitter, a: Value) -> Value:
    """Inverse matrices."""
    return solved(t, a, identity(t, a))


def determinant(t: Emitter, a: Value) -> Value:
    """(...) of square matrices (..., n, n); 1 of those without elements."""
    if not rows_of(t, a):
        return t.op("expand", t.scalar(1, a.dtype), shape=a.shape[:-2])
    factors = eliminated(t, a)
    pivots = diagonal(t, factors.both)
    product = t.op("reduce_prod", pivots, axes=(pivots.type.rank - 1,), keep_dims=False)
    return t.op("mul", product, t.reshape(factors.sign, product.shape))


def sign_and_log(t: Emitter, a: Value) -> tuple[Value, Value]:
    """The sign of the determinants of square matrices (..., n, n), and the logarithm of their sizes; both (...)."""
    if not rows_of(t, a):
        one, zero = (t.op("expand", t.scalar(n, a.dtype), shape=a.shape[:-2]) for n in (1, 0))
        return one, zero
    factors = eliminated(t, a)
    pivots = diagonal(t, factors.both)
    last = (pivots.type.rank - 1,)
    signs = t.op("reduce_prod", t.op("sign", pivots), axes=last, keep_dims=False)
    size = t.op("reduce_sum", t.op("log", t.op("abs", pivots)), axes=last, keep_dims=False)
    return t.op("mul", signs, t.reshape(factors.sign, signs.shape)), size
