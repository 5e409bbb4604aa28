"""Layers that join several tensors into one."""

from __future__ import annotations

from collections.abc import Sequence

from sterna.errors import error
from sterna.frontends.keras import masks
from sterna.frontends.keras.layers.arguments import promoted
from sterna.frontends.keras.translation import Translation, Translator
from sterna.ir.graph import Value


def _ranks(t: Translation) -> list[Value]:
    """The operands with as many dimensions as the one that has most: further ones stand behind the batch."""
    values = promoted(t, t.several)
    if not values:
        raise error("E0103", f"{t.kind} joins nothing")
    most = max(v.type.rank for v in values)
    return [t.reshape(v, (v.shape[0], *(1,) * (most - v.type.rank), *v.shape[1:])) for v in values]


def _folded(operator: str) -> Translator:
    def translate(t: Translation) -> Value:
        first, *rest = _ranks(t)
        for value in rest:
            first = t.op(operator, first, value)
        return _masked(t, first, masks.merged(t, t.several))

    return translate


def _masked(t: Translation, y: Value, mask: Value | None) -> Value:
    if mask is not None and y not in t.several:
        t.context.masks[y] = mask
    return y


def _product_of_counting(t: Translation) -> Value:
    """A product of what counts: an operand's step that does not is 1, and where none counts, the product is 0."""
    factors, wide = [], [_condition(t, x) for x in t.several]
    if t.context.version < masks.ANY or not any(wide):
        return _folded("mul")(t)  # type: ignore[return-value]
    for x, condition in zip(_ranks(t), wide, strict=True):
        factors.append(x if condition is None else t.op("where", condition, x, t.scalar(1, x.dtype)))
    y = factors[0]
    for factor in factors[1:]:
        y = t.op("mul", y, factor)
    mask = masks.merged(t, t.several)
    return y if mask is None else _masked(t, t.op("where", _wide(t, mask), y, t.scalar(0, y.dtype)), mask)


def _extreme_of_counting(operator: str) -> Translator:
    """The largest or smallest of the elements whose steps count; where only one's do, that one."""

    def translate(t: Translation) -> Value:
        wide = [_condition(t, x) for x in t.several]
        if t.context.version < masks.ANY or not any(wide):
            return _folded(operator)(t)  # type: ignore[return-value]
        (y, *rest), (counting, *conditions) = _ranks(t), wide
        for x, condition in zip(rest, conditions, strict=True):
            other = x if condition is None else t.op("where", condition, x, y)
            y = y if counting is None else t.op("where", counting, y, other)
            y = t.op(operator, y, other)
            both = condition is not None and counting is not None
            counting = t.op("logical_or", counting, condition) if both else None
        return _masked(t, y, masks.merged(t, t.several))

    return translate


def _condition(t: Translation, x: Value) -> Value | None:
    """Which elements of an operand count; None: all."""
    mask = t.context.masks.get(x)
    return None if mask is None else _wide(t, mask)


def _wide(t: Translation, mask: Value) -> Value:
    return t.reshape(mask, (*mask.shape, 1))


def _average(t: Translation) -> Value:
    total: Value = _folded("add")(t)  # type: ignore[assignment]
    return _masked(t, t.scaled(total, 1.0 / len(t.several)), masks.merged(t, t.several))


def _subtract(t: Translation) -> Value:
    values = t.several
    if len(values) != 2:
        raise error("E0108", f"Subtract takes two tensors, not {len(values)}")
    return _masked(t, t.op("sub", *_ranks(t)), masks.merged(t, values))


def _concatenate(t: Translation) -> Value:
    values = t.several
    axis = int(t.setting("axis", -1)) % values[0].type.rank
    y = t.op("concat", *promoted(t, values), axis=axis) if len(values) > 1 else values[0]
    return _masked(t, y, masks.concatenated(t, values, axis))


def _scaled_residual(t: Translation) -> Value:
    """The sum of a tensor and another one times a factor: a layer of Inception-ResNet V2 in keras.applications."""
    if len(t.several) != 2:
        raise error("E0108", f"{t.kind} takes two tensors, not {len(t.several)}")
    first, second = promoted(t, t.several)
    return t.op("add", first, t.scaled(second, float(t.setting("scale", 1.0))))


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
    "Multiply": _product_of_counting,
    "Maximum": _extreme_of_counting("maximum"),
    "Minimum": _extreme_of_counting("minimum"),
    "Average": _average,
    "Subtract": _subtract,
    "Concatenate": _concatenate,
    "CustomScaleLayer": _scaled_residual,
    "Dot": _dot,
}
