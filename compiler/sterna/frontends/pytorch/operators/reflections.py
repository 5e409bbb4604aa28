"""Orthogonal factors as LAPACK stores them: Householder's reflections 1 - tau v v^T, with v below the diagonal.

E. Anderson and others, LAPACK Users' Guide: geqrf, orgqr, ormqr. Dimensions before the last two are batches.
"""

from __future__ import annotations

import numpy as np

from sterna.frontends.linear_algebra import turned
from sterna.frontends.pytorch.translation import Translation, Translator
from sterna.ir.graph import Value


def _sum(t: Translation, x: Value) -> Value:
    return t.op("reduce_sum", x, axes=(x.type.rank - 2,), keep_dims=True)


def factors(t: Translation) -> tuple[Value, Value]:
    """The upper factor with the reflections below its diagonal, and their tau."""
    a = t.floating()
    rank, rows, columns = a.type.rank, t.extent(a, -2), t.extent(a, -1)
    places = t.constant(np.arange(rows)[:, None], "int64"), t.constant(np.arange(columns)[None, :], "int64")
    zero, one = t.scalar(0, a.dtype), t.scalar(1, a.dtype)

    def step(number: Value, carried: list[Value]) -> tuple[list[Value], list[Value]]:
        (m,) = carried
        column = t.op("gather", m, t.reshape(number, (1,)), axis=rank - 1)
        here, below = t.op("equal", places[0], number), t.op("greater", places[0], number)
        head = _sum(t, t.op("where", here, column, zero))
        tail = t.op("where", below, column, zero)
        rest = _sum(t, t.op("mul", tail, tail))
        length = t.op("sqrt", t.op("add", t.op("mul", head, head), rest))
        beta = t.op("where", t.op("less", head, zero), length, t.op("neg", length))
        nothing = t.op("equal", rest, zero)
        divisor = t.op("where", nothing, one, beta)
        tau = t.op("where", nothing, zero, t.op("div", t.op("sub", beta, head), divisor))
        gap = t.op("where", nothing, one, t.op("sub", head, beta))
        v = t.op("where", here, one, t.op("div", tail, gap))
        along = t.op("mul", tau, _sum(t, t.op("mul", v, m)))
        after = t.op("greater_equal", places[1], number)
        changed = t.op("where", after, t.op("sub", m, t.op("mul", v, along)), m)
        hit = t.op("logical_and", below, t.op("equal", places[1], number))
        return [t.op("where", hit, v, changed)], [t.reshape(tau, a.shape[:-2])]

    count = min(rows, columns)
    (both,), (taus,) = t.repeat(count, [a], step)
    return both, t.transpose(taus, (*range(1, taus.type.rank), 0))


def _reflected(t: Translation, both: Value, tau: Value, x: Value, backwards: bool) -> Value:
    """H1 H2 ... Hk x, or Hk ... H1 x where the last one is not the first to be applied."""
    rank, count = both.type.rank, t.extent(tau, -1)
    places = t.constant(np.arange(t.extent(both, -2))[:, None], "int64")
    zero, one = t.scalar(0, x.dtype), t.scalar(1, x.dtype)

    def step(number: Value, carried: list[Value]) -> tuple[list[Value], list[Value]]:
        (y,) = carried
        at = t.op("sub", t.scalar(count - 1, "int64"), number) if backwards else number
        index = t.reshape(at, (1,))
        column = t.op("gather", both, index, axis=rank - 1)
        v = t.op("where", t.op("greater", places, at), column, zero)
        v = t.op("where", t.op("equal", places, at), one, v)
        factor = t.unsqueeze(t.op("gather", tau, index, axis=tau.type.rank - 1), tau.type.rank)
        along = t.op("mul", factor, _sum(t, t.op("mul", v, y)))
        return [t.op("sub", y, t.op("mul", v, along))], []

    (y,), _ = t.repeat(count, [x], step)
    return y


def orthogonal(t: Translation) -> Value:
    """The first columns of the product of the reflections, as many as there are in the matrix."""
    is_old = "self" in t.arguments
    both, tau = t.tensor("self" if is_old else "input"), t.tensor("input2" if is_old else "tau")
    unit = t.constant(np.eye(t.extent(both, -2), t.extent(both, -1)), both.dtype)
    return _reflected(t, both, tau, t.expand(unit, both.shape), backwards=True)


def applied(t: Translation) -> Value:
    """The product of the reflections, or its transposed one, times a matrix, from the left or the right (ormqr)."""
    both, tau, c = t.tensor(), t.tensor("input2"), t.tensor("input3")
    if not t.flag("left", True):  # C Q = (Q^T C^T)^T
        return turned(t, _reflected(t, both, tau, turned(t, c), backwards=t.flag("transpose")))
    return _reflected(t, both, tau, c, backwards=not t.flag("transpose"))


TRANSLATORS: dict[str, Translator] = {
    "aten.geqrf.default": factors, "aten.linalg_householder_product.default": orthogonal,
    "aten.orgqr.default": orthogonal, "aten.ormqr.default": applied,
}  # fmt: skip
