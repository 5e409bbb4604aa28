"""Layers that join several tensors into one."""

from __future__ import annotations

from collections.abc import Sequence

from sterna.errors import error
from sterna.frontends.keras.translation import Translation, Translator
from sterna.ir.graph import Value


def _ranks(t: Translation) -> list[Value]:
    """The operands with as many dimensions as the one that has most: further ones stand behind the batch."""
    values = t.several
    if not values:
        raise error("E0103", f"{t.kind} joins nothing")
    most = max(v.type.rank for v in values)
    return [t.reshape(v, (v.shape[0], *(1,) * (most - v.type.rank), *v.shape[1:])) for v in values]


def _folded(operator: str) -> Translator:
    def translate(t: Translation) -> Value:
        first, *rest = _ranks(t)
        for value in rest:
            first = t.op(operator, first, value)
        return first

    return translate


def _average(t: Translation) -> Value:
    return t.scaled(_folded("add")(t), 1.0 / len(t.several))  # type: ignore[arg-type]


def _subtract(t: Translation) -> Value:
    values = t.several
    if len(values) != 2:
        raise error("E0108", f"Subtract takes two tensors, not {len(values)}")
    return t.op("sub", *_ranks(t))


def _concatenate(t: Translation) -> Value:
    values = t.several
    y = t.op("concat", *values, axis=int(t.setting("axis", -1)) % values[0].type.rank) if len(values) > 1 else values[0]
    masks = [t.context.masks[v] for v in values if v in t.context.masks]
    if masks and int(t.setting("axis", -1)) % y.type.rank == y.type.rank - 1 and len(masks) == len(values):
        joined = masks[0]
        for mask in masks[1:]:
            joined = t.op("logical_and", joined, mask)
        t.context.masks[y] = joined
    return y


def _dot(t: Translation) -> Value:
    """Sums of products along one dimension of either, for each of the batch."""
    first, second = t.several
    axes = t.setting("axes", -1)
    one, other = (axes, axes) if isinstance(axes, int) else axes
    one, other = one % first.type.rank, other % second.type.rank
    if t.setting("normalize", False):
        first, second = (_unit(t, v, axis) for v, axis in ((first, one), (second, other)))
    if 0 in (one, other):
        raise t.unsupported("along the batch")
    # (N, rows..., k) and (N, k, columns...)
    rows = [n for n in range(1, first.type.rank) if n != one]
    columns = [n for n in range(1, second.type.rank) if n != other]
    left = t.transpose(first, (0, *rows, one))
    right = t.transpose(second, (0, other, *columns))
    left_sizes, right_sizes = [first.shape[n] for n in rows], [second.shape[n] for n in columns]
    flat_left = t.reshape(left, (first.shape[0], _product(left_sizes), first.shape[one]))
    flat_right = t.reshape(right, (second.shape[0], second.shape[other], _product(right_sizes)))
    y = t.op("matmul", flat_left, flat_right)
    return t.reshape(y, (first.shape[0], *left_sizes, *right_sizes) if rows or columns else (first.shape[0], 1))


def _product(sizes: Sequence[object]) -> object:
    result: object = 1
    for size in sizes:
        result = size if result == 1 else result * size  # type: ignore[operator]
    return result


def _unit(t: Translation, x: Value, axis: int) -> Value:
    square = t.reduced("reduce_sum", t.op("mul", x, x), (axis,), keep=True)
    return t.op("div", x, t.op("sqrt", t.op("maximum", square, t.scalar(1e-12, x.dtype))))


LAYERS: dict[str, Translator] = {
    "Add": _folded("add"),
    "Multiply": _folded("mul"),
    "Maximum": _folded("maximum"),
    "Minimum": _folded("minimum"),
    "Average": _average,
    "Subtract": _subtract,
    "Concatenate": _concatenate,
    "Dot": _dot,
}
