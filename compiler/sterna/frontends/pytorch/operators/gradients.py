"""Differences of samples: what torch.gradient estimates of a function's derivatives."""

from __future__ import annotations

from typing import Any

from sterna.errors import error
from sterna.frontends.pytorch.translation import Translation, Translator
from sterna.ir.graph import Value


def _estimate(t: Translation, x: Value, axis: int, spacing: Any, order: int) -> Value:
    """Along one dimension; `spacing` is a number, or the places of the samples."""
    size = t.extent(x, axis)
    if size < order + 1:
        raise error("E0108", f"{t.kind} of order {order} along {size} elements")

    def part(first: int, count: int = 1) -> Value:
        return t.cut(x, axis, first, count)

    places = spacing if isinstance(spacing, Value) and spacing.type.rank else None
    unit = None if places is not None else t.as_value(1 if spacing is None else spacing, x.dtype)

    def step(first: int, count: int = 1) -> Value:
        """The distances from samples to the ones after them."""
        if places is None:
            assert unit is not None
            return unit
        after, before = (t.cut(t.cast(places, x.dtype), 0, at, count) for at in (first + 1, first))
        return t.reshape(t.op("sub", after, before), [count if n == axis else 1 for n in range(x.type.rank)])

    def sum_of(*terms: tuple[Value, Value]) -> Value:
        products = [t.op("mul", factor, value) for factor, value in terms]
        total = products[0]
        for other in products[1:]:
            total = t.op("add", total, other)
        return total

    def two_sided(a: Value, b: Value, kind: int) -> list[Value]:
        """The factors of three samples at distances a and b for the slope at one of them: 0, 1 or 2."""
        both = t.op("add", a, b)
        over = [t.op("mul", a, both), t.op("mul", a, b), t.op("mul", b, both)]
        twice_a, twice_b = t.op("add", a, both), t.op("add", b, both)
        tops = {
            0: [t.op("neg", twice_a), both, t.op("neg", a)], 1: [t.op("neg", b), t.op("sub", b, a), a],
            2: [b, t.op("neg", both), twice_b],
        }[kind]  # fmt: skip
        return [t.op("div", top, bottom) for top, bottom in zip(tops, over, strict=True)]

    def slope(at: int, last: int) -> Value:
        """At an end: of the two samples there, or of three."""
        if order == 1:
            return t.op("div", t.op("sub", part(at + 1), part(at)), step(at))
        factors = two_sided(step(at), step(at + 1), last)
        return sum_of(*zip(factors, (part(at), part(at + 1), part(at + 2)), strict=True))

    rows = [slope(0, 0)]
    if size > 2:
        count = size - 2
        factors = two_sided(step(0, count), step(1, count), 1)
        rows.append(sum_of(*zip(factors, (part(0, count), part(1, count), part(2, count)), strict=True)))
    rows.append(slope(size - order - 1, 2))
    return t.op("concat", *rows, axis=axis)


def gradient(t: Translation) -> list[Value]:
    """Second-order differences inside, and at the ends those of `edge_order`."""
    x, order = t.floating(), t.integer("edge_order", 1)
    rank = x.type.rank
    given = t.arg("dim")
    axes = list(range(rank)) if given is None else [t.axis(int(n), rank) for n in (
        given if isinstance(given, (list, tuple)) else [given])]  # fmt: skip
    spacing = t.arg("spacing")
    spacings = list(spacing) if isinstance(spacing, (list, tuple)) else [spacing] * len(axes)
    if order not in (1, 2) or len(spacings) != len(axes):
        raise error("E0109", f"{t.kind} of order {order} with {len(spacings)} spacings for {len(axes)} dimensions")
    return [_estimate(t, x, axis, own, order) for axis, own in zip(axes, spacings, strict=True)]


TRANSLATORS: dict[str, Translator] = {
    f"aten.gradient.{form}": gradient
    for form in ("scalarint", "scalararray", "array", "scalarrayint", "scalarrayarray", "tensorarrayint", "tensorarray")
}
