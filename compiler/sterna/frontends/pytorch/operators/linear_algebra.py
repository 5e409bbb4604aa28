"""Decompositions and solutions of square matrices."""

from __future__ import annotations

import math

import numpy as np

from sterna.frontends import elimination, linear_algebra
from sterna.frontends.pytorch.layouts import are_empty
from sterna.frontends.pytorch.translation import Translation, Translator
from sterna.frontends.standard import standard
from sterna.ir.graph import Value
from sterna.ir.integer import as_int
from sterna.ops.types import broadcast


def _first(t: Translation, *names: str) -> Value:
    return t.tensor(t.given(*names))


def _no_faults(t: Translation, a: Value) -> Value:
    """The `info` of a decomposition that succeeds."""
    return t.full(a.shape[:-2], 0, "int32")


def _none(t: Translation) -> Value | None:
    """The result without elements, where the program says that it has none: there is nothing to solve."""
    said = next(iter(t.results), None)
    return t.constant(np.zeros(said.sizes, said.dtype)) if said is not None and are_empty([said]) else None


def determinant(t: Translation) -> Value:
    return standard(t, "Det", _first(t, "A", "self"))


def _factor(t: Translation, a: Value) -> Value:
    """The Cholesky factor, upper triangular where it is asked for: then the upper triangle is read."""
    if not t.flag("upper"):
        return linear_algebra.cholesky(t, a)
    return linear_algebra.turned(t, linear_algebra.cholesky(t, linear_algebra.turned(t, a)))


def cholesky(t: Translation) -> Value:
    return _factor(t, _first(t, "A", "self"))


def cholesky_with_info(t: Translation) -> tuple[Value, Value]:
    a = t.tensor("self")
    return _none(t) or _factor(t, a), _no_faults(t, a)


def inverse(t: Translation) -> Value:
    return elimination.inverted(t, _first(t, "A", "self"))


def inverse_with_info(t: Translation) -> tuple[Value, Value]:
    a = t.tensor("A")
    return _none(t) or elimination.inverted(t, a), _no_faults(t, a)


def of_a_batch(t: Translation, a: Value, b: Value) -> tuple[Value, Value]:
    """Matrices and right sides of the same batches."""
    batch = broadcast((a.shape[:-2], b.shape[:-2]))
    return t.expand(a, (*batch, *a.shape[-2:])), t.expand(b, (*batch, *b.shape[-2:]))


def _solved(t: Translation, a: Value, b: Value) -> Value:
    """The x of a x = b, or of x a = b without `left`; vectors are columns."""
    if not t.flag("left", True):
        turned = _solved_left(t, linear_algebra.turned(t, a), linear_algebra.turned(t, b))
        return linear_algebra.turned(t, turned)
    return _solved_left(t, a, b)


def _solved_left(t: Translation, a: Value, b: Value) -> Value:
    is_vector = b.type.rank == 1 or (b.type.rank == a.type.rank - 1 and b.shape == a.shape[:-1])
    if is_vector:
        b = t.unsqueeze(b, b.type.rank)
    x = elimination.solved(t, *of_a_batch(t, a, b))
    return t.reshape(x, x.shape[:-1]) if is_vector else x


def solve(t: Translation) -> Value:
    return _solved(t, t.tensor("A"), t.tensor("B"))


def solve_with_info(t: Translation) -> tuple[Value, Value]:
    a = t.tensor("A")
    return _none(t) or _solved(t, a, t.tensor("B")), _no_faults(t, a)


def _solve_with_factors(t: Translation) -> tuple[Value | None, ...]:
    a = t.tensor("A")
    return _none(t) or _solved(t, a, t.tensor("B")), None, None, _no_faults(t, a)


def tensor_inverse(t: Translation) -> Value:
    """Of a tensor as a matrix, whose rows are its first `ind` dimensions."""
    a, count = t.tensor(), t.integer("ind", 2)
    rows, columns = a.shape[:count], a.shape[count:]
    n, m = (math.prod(sizes, start=as_int(1)) for sizes in (rows, columns))
    return t.reshape(elimination.inverted(t, t.reshape(a, (n, m))), (*columns, *rows))


def tensor_solve(t: Translation) -> Value:
    """The x whose product with a tensor, summed over all dimensions of x, is another one."""
    a, b = t.tensor(), t.tensor("other")
    moved = [t.axis(n, a.type.rank) for n in t.ints("dims")] if t.arg("dims") is not None else []
    a = t.transpose(a, (*(n for n in range(a.type.rank) if n not in moved), *moved))
    columns, n = a.shape[b.type.rank :], b.type.elements
    x = _solved(t, t.reshape(a, (n, math.prod(columns, start=as_int(1)))), t.reshape(b, (n,)))
    return t.reshape(x, columns)


def solve_triangular(t: Translation) -> Value:
    a, b = t.tensor("self"), t.tensor("B")
    lower, left = not t.flag("upper"), t.flag("left", True)
    if not left:
        a, b, lower = linear_algebra.turned(t, a), linear_algebra.turned(t, b), not lower
    x = linear_algebra.triangular_solved(t, *of_a_batch(t, a, b), lower=lower, unit=t.flag("unitriangular"))
    return x if left else linear_algebra.turned(t, x)


def cholesky_solve(t: Translation) -> Value:
    """The x of l l^T x = b, of a factor."""
    b, factor = t.tensor("self"), t.tensor("input2")
    lower = linear_algebra.turned(t, factor) if t.flag("upper") else factor
    lower, b = of_a_batch(t, lower, b)
    y = linear_algebra.triangular_solved(t, lower, b)
    return linear_algebra.triangular_solved(t, linear_algebra.turned(t, lower), y, lower=False)


def solve_triangular_old(t: Translation) -> tuple[Value, Value]:
    """torch.triangular_solve, which gives the matrix, too."""
    b, a = t.tensor("self"), t.tensor("A")
    upper, unit = t.flag("upper", True), t.flag("unitriangular")
    matrix = linear_algebra.turned(t, a) if t.flag("transpose") else a
    lower = upper == t.flag("transpose")
    return linear_algebra.triangular_solved(t, *of_a_batch(t, matrix, b), lower=lower, unit=unit), a


TRANSLATORS: dict[str, Translator] = {
    "aten.linalg_det.default": determinant, "aten.det.default": determinant,
    "aten.cholesky.default": cholesky, "aten.linalg_cholesky.default": cholesky,
    "aten.linalg_cholesky_ex.default": cholesky_with_info, "aten.cholesky_solve.default": cholesky_solve,
    "aten.inverse.default": inverse, "aten.linalg_inv.default": inverse,
    "aten.linalg_inv_ex.default": inverse_with_info, "aten.linalg_solve.default": solve,
    "aten.linalg_solve_ex.default": solve_with_info, "aten._linalg_solve_ex.default": _solve_with_factors,
    "aten.linalg_tensorinv.default": tensor_inverse, "aten.linalg_tensorsolve.default": tensor_solve,
    "aten.linalg_solve_triangular.default": solve_triangular, "aten.triangular_solve.default": solve_triangular_old,
}  # fmt: skip
