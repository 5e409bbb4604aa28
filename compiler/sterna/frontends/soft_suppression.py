"""Soft suppression of boxes: N. Bodla and others, Soft-NMS, 2017, in the order in which TensorFlow's kernel chooses."""

from __future__ import annotations

import math

from sterna.frontends.emitter import Emitter
from sterna.ir.graph import Value


def soft_suppressed(
    t: Emitter, boxes: Value, scores: Value, most: int, least: float, sigma: float
) -> tuple[Value, Value, Value]:
    """The boxes of the highest scores, one after the other; every one scales the scores of those that it overlaps.

    TensorFlow's kernel keeps candidates in a queue and scales a score only when its candidate comes to the front. A
    positive score falls, so that the queue's order is that of the scaled scores. A negative score rises: its place in
    the order is that of the score it began with.

    Args:
        boxes: (boxes, 4), two opposite corners each.
        scores: (boxes).
        most: how many are chosen at the most, 1 or more; there are at least as many.
        least: scores of chosen boxes are larger; may be below 0.
        sigma: a score is multiplied by exp(-iou^2 / (2 sigma)).

    Returns:
        Positions in int64 and scores at the time of choice, (most) each and 0 after the chosen ones, and how many
        were chosen, an int64.
    """
    count = t.extent(boxes, 0)
    zero, out = t.scalar(0.0, scores.dtype), t.scalar(-math.inf, scores.dtype)

    def column(x: Value, n: int) -> Value:
        return t.reshape(t.op("slice", x, starts=(0, n), sizes=(x.shape[0], 1), steps=(1, 1)), (x.shape[0],))

    corners = [column(boxes, n) for n in range(4)]
    low = [t.op("minimum", corners[n], corners[n + 2]) for n in range(2)]
    high = [t.op("maximum", corners[n], corners[n + 2]) for n in range(2)]
    areas = t.op("mul", *(t.op("sub", b, a) for a, b in zip(low, high, strict=True)))
    places, negative = t.counting(count), t.op("less", scores, zero)

    def step(_: Value, carried: list[Value]) -> tuple[list[Value], list[Value]]:
        (left,) = carried
        rank = t.op("where", t.op("logical_and", t.op("greater", left, out), negative), scores, left)
        best = t.cast(t.op("arg_max", rank, axis=0, keep_dims=True), "int64")

        def own(x: Value) -> Value:
            return t.op("gather", x, best, axis=0)

        sides = [
            t.op("maximum", t.op("sub", t.op("minimum", b, own(b)), t.op("maximum", a, own(a))), zero)
            for a, b in zip(low, high, strict=True)
        ]
        common = t.op("mul", *sides)
        union = t.op("sub", t.op("add", areas, own(areas)), common)
        has_area = t.op("logical_and", *(t.op("greater", x, zero) for x in (areas, own(areas))))
        share = t.op("where", has_area, t.op("div", common, union), zero)
        kept = t.op("exp", t.op("mul", t.op("mul", share, t.scalar(-0.5 / sigma, scores.dtype)), share))
        scaled = t.op("mul", left, kept)
        # What is chosen or has fallen to the limit is never looked at again.
        over = t.op("greater", scaled, t.scalar(least, scores.dtype))
        stays = t.op("logical_and", over, t.op("logical_not", t.op("equal", places, best)))
        scaled = t.op("where", t.op("logical_and", stays, t.op("greater", left, out)), scaled, out)
        return [scaled], [best, own(left)]

    first = t.op("where", t.op("greater", scores, t.scalar(least, scores.dtype)), scores, out)
    _, (rows, values) = t.repeat(most, [first], step)
    rows, values = t.reshape(rows, (most,)), t.reshape(values, (most,))
    chosen = t.op("greater", values, out)
    found = t.op("reduce_sum", t.cast(chosen, "int64"), axes=(0,), keep_dims=False)
    return (
        t.op("where", chosen, rows, t.scalar(0, "int64")),
        t.op("where", chosen, values, zero),
        found,
    )
