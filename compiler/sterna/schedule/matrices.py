"""A sum of products as a product of matrices, whatever axes it has: implicit GEMM.

Rows of the left matrix are all places of the result but its columns, its columns are what is added up; the matrices are
stages, so that the tiles of them that a task needs are laid out where it has them, from wherever their elements lie.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeGuard

from sterna.ir.extremum import minimum
from sterna.ir.integer import ONE, ZERO, Atom, Int, of
from sterna.te import expr as E
from sterna.te.axis import Axis
from sterna.te.expr import Expr, Reduce
from sterna.te.position import taken_apart
from sterna.te.tensor import Tensor


@dataclass(frozen=True)
class Matrices:
    """A sum of products as one of matrices.

    Args:
        left, right: stages of the factors; sums: the stage of their products; body: what the sum is, of those.
    """

    left: Tensor
    right: Tensor
    sums: Tensor
    body: Expr


def matrices(
    stage: Tensor,
    reduction: Reduce,
    batch: Sequence[Axis],
    folded: Sequence[Axis],
    depth: int,
    turned: tuple[bool, bool],
    run: int = 1,
) -> Matrices:
    """The last axis of a stage are the columns, those of a batch have matrices of their own, all others are rows.

    Args:
        folded: reduced axes that become one, rounded up to a multiple of `depth` by zeros; others stay.
        turned: of either matrix, whether its dimensions lie the other way round: (depth, row), (column, depth).
        run: terms side by side of which all or none are such zeros.
    """
    *lead, last = stage.axes
    rows = [a for a in lead if a not in batch]
    taps = [a for a in reduction.axes if a not in folded]
    terms = prod(int(a.extent) for a in folded)
    steps = -(-terms // depth) * depth
    sides = [("row", prod([a.extent for a in rows], start=ONE), rows), ("column", last.extent, [last])]

    def factor(side: int, value: Expr) -> Tensor:
        name, size, axes = sides[side]
        own = E.axes_of(value)
        kept = {a: Axis(a.name, a.extent) for a in (*batch, *taps) if a in own}
        across, along = Axis(name, size), Axis("depth", steps)
        beside = turned[side] == bool(side)
        each = run if beside else 1
        place = of(along) if steps == terms else minimum(of(along) // each, terms // each - 1) * each + of(along) % each
        values: dict[Atom, Int] = {a: of(b) for a, b in kept.items()}
        values |= {**taken_apart(folded, place), **taken_apart(axes, of(across))}
        element = E.substitute_index(value, values)
        if steps != terms:
            inside = E.compare("lt", E.index_value(of(along) // each), terms // each)
            element = E.select(inside, element, E.const(0, element.dtype))
        pair = (across, along) if beside else (along, across)
        return _stage(f"{stage.name}_{('left', 'right')[side]}", (*kept.values(), *pair), element)

    pair = multiplied(reduction)
    assert pair is not None
    left, right = (factor(side, value) for side, value in enumerate(pair))
    outer = [Axis(a.name, a.extent) for a in batch]
    inner = [Axis(a.name, a.extent, reduction=True) for a in taps] + [Axis("depth", steps, reduction=True)]
    spatial = [*outer, *(Axis(name, size) for name, size, _ in sides)]
    places = {a.name: of(a) for a in (*spatial, *inner)}
    assert isinstance(reduction.a, E.Binary)
    a, b = (
        _as_before(t[tuple(places[axis.name] for axis in t.axes)], before, reduction.dtype)
        for t, before in ((left, reduction.a.a), (right, reduction.a.b))
    )
    product = Reduce(reduction.dtype, combiner="sum", a=E.binary("mul", a, b), axes=tuple(inner))
    sums = _stage(f"{stage.name}_sums", spatial, product)
    row = ZERO
    for axis in rows:
        row = row * axis.extent + of(axis)
    at = (*map(of, batch), row, of(last))
    return Matrices(left, right, sums, sums[at])


def multiplied(reduction: Expr) -> tuple[Expr, Expr] | None:
    """What a sum of products multiplies, as it is before it is widened or rounded; None of another expression."""
    if not isinstance(reduction, Reduce) or reduction.combiner != "sum":
        return None
    if not isinstance(reduction.a, E.Binary) or reduction.a.op != "mul":
        return None
    a, b = (e.a if isinstance(e, E.Cast) or _rounds(e) else e for e in (reduction.a.a, reduction.a.b))
    return a, b


def copied(body: Expr | None) -> Expr | None:
    """What the elements of a stage are where they are not zeros that fill it up."""
    return body.a if isinstance(body, E.Select) and body.b == E.const(0, body.dtype) else body


def rounding_of(reduction: Reduce) -> str:
    """What both factors of a sum of products are rounded to, by the name of the operation; "": they are as they are."""
    assert isinstance(reduction.a, E.Binary)
    a, b = reduction.a.a, reduction.a.b
    return a.op if _rounds(a) and _rounds(b) else ""


def _rounds(e: Expr) -> TypeGuard[E.Unary]:
    return isinstance(e, E.Unary) and e.op == "tf32"


def _as_before(load: Expr, before: Expr, dtype: str) -> Expr:
    """An element of a matrix as it is multiplied: widened or rounded as the factor was that it stands for."""
    return E.unary(before.op, load) if _rounds(before) else E.cast(load, dtype)


def _stage(name: str, axes: Sequence[Axis], body: Expr) -> Tensor:
    return Tensor(name, tuple(a.extent for a in axes), body.dtype, tuple(axes), body)
