"""Logarithms of sums of exponentials that neither overflow nor vanish."""

from __future__ import annotations

from sterna.frontends.emitter import Emitter
from sterna.ir.graph import Value


def log_sum_of_two(t: Emitter, a: Value, b: Value) -> Value:
    """log(exp(a) + exp(b))."""
    low, high = t.op("minimum", a, b), t.op("maximum", a, b)
    # Two infinities have no difference.
    gap = t.op("where", t.op("equal", low, high), t.scalar(0, a.dtype), t.op("sub", low, high))
    return t.op("add", high, t.op("log1p", t.op("exp", gap)))


def running_log_sums(
    t: Emitter, x: Value, axis: int, lowest: float, *, exclusive: bool = False, reverse: bool = False
) -> Value:
    """log of the sum of exp of every element and those before it.

    Args:
        lowest: the log of 0.
        exclusive: of those before an element only.
        reverse: of those after an element.
    """
    rank = x.type.rank
    if axis == rank - 1 and rank > 1:
        # Rows side by side are vectors.
        order = (axis, *range(rank - 1))
        found = running_log_sums(t, t.transpose(x, order), 0, lowest, exclusive=exclusive, reverse=reverse)
        return t.transpose(found, (*range(1, rank), 0))
    y = t.op("cumulative_log_sum", x, axis=axis, exclusive=exclusive, reverse=reverse)
    return y if lowest == float("-inf") else t.op("maximum", y, t.scalar(lowest, x.dtype))
