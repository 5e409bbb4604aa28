"""Eigenvalues and eigenvectors of symmetric matrices; a loop program.

Householder's reflections make the matrix tridiagonal, then the implicit QL method finds its eigenvalues (G. Golub,
C. Van Loan, Matrix Computations, 8.3). Everything that takes n^3 steps runs along rows, whose elements do not depend on
one another: compilers make vectors of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sterna.ir.graph import TensorType
from sterna.ir.integer import Int
from sterna.loops.build import Array, ProgramBuilder, both, equal, number, unequal
from sterna.ops.operator import Operator, Types, case, opaque, unfit
from sterna.ops.sorting import ranked
from sterna.ops.types import check_dtype, present
from sterna.te import expr as E
from sterna.te.expr import Expr

Attributes = Mapping[str, Any]
#: Steps of the QL method for one eigenvalue; two are usual.
MOST_STEPS = 60


def _types(types: Types, _: Attributes) -> tuple[TensorType, ...]:
    (a,) = present(types, 0)
    check_dtype(a.dtype, ("float32", "float64"))
    if a.rank < 2 or a.shape[-1] != a.shape[-2] or not a.shape[-1].is_const:
        raise unfit(f"{a} is no square matrix of a known size")
    return TensorType(a.dtype, a.shape[:-1]), a


def _eigen(p: ProgramBuilder, _: Attributes) -> None:
    given, (values, vectors) = p.input(0), p.outputs
    *batch, n, _n = given.shape
    dtype = given.dtype
    with p.places(batch) as at:
        a, z = (p.array(name, dtype, (n, n)) for name in ("a", "z"))
        d, e = (p.array(name, dtype, (n,)) for name in ("d", "e"))
        factor = _scaled(p, given, at, a)
        _tridiagonal(p, a, d, e, z)
        with p.nest((n, n)) as (i, j):
            a[j, i] = z[i, j]
        _ql(p, d, e, a)
        with p.loop(n, "i") as i:
            own = d[i]
            rank = p.variable("rank", 0, "int32")
            with p.loop(n, "j") as j:
                before = ranked(d[j], own, number(j, "int32"), number(i, "int32"), largest=False)
                rank.add(E.cast(before, "int32"))
            place = p.index(rank, n)
            here = (*at, place)
            values[here] = own / factor
            with p.loop(n, "k") as k:
                there = (*at, k, place)
                vectors[there] = a[i, k]


def _scaled(p: ProgramBuilder, given: Array, at: tuple[Int, ...], a: Array) -> Expr:
    """Copies a matrix, times a factor that keeps squares of its elements within their type; the factor."""
    n, dtype = a.shape[0], a.dtype
    info = np.finfo(dtype)
    greatest = p.variable("greatest", 0.0, dtype)
    with p.nest((n, n)) as (i, j):
        here = (*at, i, j)
        greatest.set(E.maximum(greatest.value, E.unary("abs", given[here])))
    low, high = (E.const(float(limit) ** 0.25, dtype) for limit in (info.tiny, info.max))
    fits = both(greatest.value > low, greatest.value < high)
    none = equal(greatest.value, 0.0)
    one = E.const(1.0, dtype)
    # The quotient of the least numbers would be infinite.
    reached = E.maximum(greatest.value, E.const(float(info.tiny), dtype))
    factor = p.let(E.select(fits, one, E.select(none, one, one / reached)), "factor")
    with p.nest((n, n)) as (i, j):
        here = (*at, i, j)
        a[i, j] = given[here] * factor
    return factor


def _tridiagonal(p: ProgramBuilder, a: Array, d: Array, e: Array, z: Array) -> None:
    """T = Z^T A Z, with d on its diagonal and e beside it; Z is a product of reflections."""
    n = a.shape[0]
    with p.nest((n, n)) as (i, j):
        z[i, j] = E.select(equal(number(i, "int32"), number(j, "int32")), E.const(1.0, a.dtype), 0.0)
    if n.const > 2:  # of less, nothing is beside these
        tau, w = (p.array(name, a.dtype, (n,)) for name in ("tau", "w"))
        _reflect(p, a, d, e, tau, w)
        _multiply(p, a, tau, z, w)
    last = n - 1
    d[last] = a[last, last]
    e[last] = 0.0
    if n.const > 1:
        d[n - 2] = a[n - 2, n - 2]
        e[n - 2] = a[n - 2, last]


def _reflect(p: ProgramBuilder, a: Array, d: Array, e: Array, tau: Array, w: Array) -> None:
    """Makes all but the last two rows of a matrix tridiagonal, by reflections 1 - tau v v^T, of which row k of `a`
    holds the k-th from column k + 1 on."""
    n, dtype = a.shape[0], a.dtype
    with p.loop(n - 2, "k") as k:
        d[k] = a[k, k]
        first = a[k, k + 1]
        rest = p.variable("rest", 0.0, dtype)
        with p.loop(n, "c", start=k + 2) as c:
            x = a[k, c]
            rest.add(x * x)
        tau[k] = 0.0
        e[k] = first
        with p.when(unequal(rest.value, 0.0)):
            norm = E.unary("sqrt", first * first + rest.value)
            beta = p.let(E.select(first > 0.0, E.unary("neg", norm), norm), "beta")
            weight = p.let((beta - first) / beta, "weight")
            share = p.let(E.const(1.0, dtype) / (first - beta), "share")
            tau[k] = weight
            e[k] = beta
            a[k, k + 1] = 1.0
            with p.loop(n, "c", start=k + 2, apart=True) as c:
                a[k, c] = a[k, c] * share
            _rows_times(p, a, k, a, w)
            along = p.variable("along", 0.0, dtype)
            with p.loop(n, "c", start=k + 1) as c:
                along.add(a[k, c] * w[c])
            half = p.let(weight * weight * along.value * 0.5, "half")
            with p.loop(n, "c", start=k + 1, apart=True) as c:
                w[c] = weight * w[c] - half * a[k, c]
            with p.loop(n, "j", start=k + 1) as j:
                v, u = a[k, j], w[j]
                with p.loop(n, "c", start=k + 1, apart=True) as c:
                    a[j, c] = a[j, c] - (v * w[c] + u * a[k, c])


def _rows_times(p: ProgramBuilder, a: Array, k: Int, x: Array, w: Array) -> None:
    """w = v X, of the rows and columns of X from k + 1 on, with v in row k of `a`."""
    n = a.shape[0]
    with p.loop(n, "c", start=k + 1, apart=True) as c:
        w[c] = 0.0
    with p.loop(n, "j", start=k + 1) as j:
        v = a[k, j]
        with p.loop(n, "c", start=k + 1, apart=True) as c:
            w[c] = w[c] + v * x[j, c]


def _multiply(p: ProgramBuilder, a: Array, tau: Array, z: Array, w: Array) -> None:
    """Multiplies the unit matrix by the reflections, from the last one on: what is left of and above its vector stays
    0 and 1."""
    n = a.shape[0]
    with p.loop(n - 2, "step") as step:
        k = n - 3 - step
        weight = tau[k]
        with p.when(unequal(weight, 0.0)):
            _rows_times(p, a, k, z, w)
            with p.loop(n, "j", start=k + 1) as j:
                v = p.let(weight * a[k, j])
                with p.loop(n, "c", start=k + 1, apart=True) as c:
                    z[j, c] = z[j, c] - v * w[c]


def _ql(p: ProgramBuilder, d: Array, e: Array, rows: Array) -> None:
    """Makes d the eigenvalues of the tridiagonal matrix, and rotates rows as its columns are."""
    n, dtype = d.shape[0], d.dtype
    epsilon = float(np.finfo(dtype).eps)
    one = E.const(1.0, dtype)
    with p.loop(n, "first") as first, p.loop(MOST_STEPS, "step"):
        split = p.variable("split", number(n - 1, "int32"))
        with p.loop(n - 1, "c", start=first) as c:
            near = p.let(E.unary("abs", d[c]) + E.unary("abs", d[c + 1]))
            small = p.let(E.unary("abs", e[c]) <= near * epsilon)
            split.set(E.select(small, number(c, "int32"), number(n - 1, "int32")))
            p.leave_if(small)
        m = p.index(split, n)
        p.leave_if(equal(split.value, number(first, "int32")))
        own = d[first]
        ratio = p.let((d[first + 1] - own) / (e[first] * 2.0), "ratio")
        root = p.let(E.unary("sqrt", ratio * ratio + 1.0))
        signed = E.select(ratio < 0.0, E.unary("neg", root), root)
        g = p.variable("g", d[m] - own + e[first] / (ratio + signed))
        s, c_, shift = p.variable("s", one), p.variable("c", one), p.variable("shift", 0.0, dtype)
        whole = p.variable("whole", 1, "int32")
        with p.loop(p.bound(split.value - number(first, "int32"), n), "step") as step:
            i = p.index(split.value - 1 - number(step, "int32"), n - 1)
            f, b = p.let(s.value * e[i], "f"), p.let(c_.value * e[i], "b")
            length = p.let(_length(p, f, g.value), "length")
            e[i + 1] = length
            with p.when(equal(length, 0.0)):
                d[i + 1] = d[i + 1] - shift.value
                whole.set(0)
            p.leave_if(equal(length, 0.0))
            share = p.let(one / length)
            sine, cosine = p.let(f * share, "sine"), p.let(g.value * share, "cosine")
            s.set(sine)
            c_.set(cosine)
            left = p.let(d[i + 1] - shift.value)
            r = p.let((d[i] - left) * sine + cosine * b * 2.0)
            shift.set(sine * r)
            d[i + 1] = left + shift.value
            g.set(cosine * r - b)
            with p.loop(n, "k", apart=True) as k:
                x, y = rows[i, k], rows[i + 1, k]
                rows[i + 1, k] = sine * x + cosine * y
                rows[i, k] = cosine * x - sine * y
        with p.when(unequal(whole.value, 0)):
            d[first] = d[first] - shift.value
            e[first] = g.value
        e[m] = 0.0


def _length(p: ProgramBuilder, a: Expr, b: Expr) -> Expr:
    """The root of a^2 + b^2, also where the squares are too small to be exact."""
    info = np.finfo(a.dtype)
    squares = p.let(a * a + b * b)
    length = p.variable("length", E.unary("sqrt", squares))
    with p.when(squares < float(info.tiny) / float(info.eps) ** 2):
        x, y = E.unary("abs", a), E.unary("abs", b)
        more = p.let(E.maximum(x, y))
        ratio = p.let(E.minimum(x, y) / E.select(equal(more, 0.0), E.const(1.0, a.dtype), more))
        length.set(more * E.unary("sqrt", ratio * ratio + 1.0))
    return length.value


def _symmetric(*shape: int, dtype: str = "float32", seed: int = 0) -> np.ndarray:
    a = np.random.default_rng(seed).standard_normal(shape)
    return np.asarray(a + np.swapaxes(a, -1, -2), dtype)


OPERATORS: tuple[Operator, ...] = (
    opaque(
        "symmetric_eigen",
        "Eigenvalues [..., N] of symmetric matrices [..., N, N] from the least up, and their eigenvectors as columns, "
        "of any sign.",
        _types,
        _eigen,
        cases=(
            case(_symmetric(5, 5)),
            case(_symmetric(2, 3, 3, dtype="float64")),
            case(np.array([[[2.0]]], np.float32)),
            case(np.array([[1.0, 2.0], [2.0, 1.0]], np.float32)),
        ),
    ),
)
