"""Logarithms of sums of exponentials that neither overflow nor vanish."""

from __future__ import annotations

from sterna.frontends.emitter import Emitter
from sterna.ir.graph import Value


def log_sum_of_two(t: Emitter, a: Value, b: Value) -> Value:
    """log(exp(a) + exp(b))."""
    low, high = t.op("minimum", a, b), t.op("maximum", a, b)
    # Two infinities have no difference.
    gap = t.op("where", t.op("equal", low, high), t.scalar(0, a.dtype), t.op("sub", low, high))
    return t.op("add", high, t.op("log", t.op("add", t.op("exp", gap), t.scalar(1, a.dtype))))


def running_log_sums(
    t: Emitter, x: Value, axis: int, lowest: float, *, exclusive: bool = False, reverse: bool = False
) -> Value:
    """log of the sum of exp of every element and those before it, by doubling: after step k, of 2^k elements.

    Args:
        axis: a dimension of known size.
        lowest: what stands before the first element, for the log of 0.
        exclusive: of those before an element only.
        reverse: of those after an element.
    """
    size, rank = t.extent(x, axis), x.type.rank

    def shifted(y: Value, by: int) -> Value:
        before, after, starts = [0] * rank, [0] * rank, [0] * rank
        (after if reverse else before)[axis] = by
        starts[axis] = by if reverse else 0
        sizes = (*x.shape[:axis], size, *x.shape[axis + 1 :])
        wide = t.pad(y, before, after, value=lowest)
        return t.op("slice", wide, starts=tuple(starts), sizes=sizes, steps=(1,) * rank)

    if not size:
        return x
    y, reach = (shifted(x, 1) if exclusive else x), 1
    while reach < size:
        y, reach = log_sum_of_two(t, y, shifted(y, reach)), 2 * reach
    return y
