"""Greatest common divisors and least common multiples of integers."""

from __future__ import annotations

from sterna.frontends.emitter import Emitter
from sterna.frontends.standard import standard
from sterna.ir.graph import Value


def greatest_divisor(t: Emitter, a: Value, b: Value) -> Value:
    """Euclid's algorithm, as long as any rest is not 0; of numbers of 64 bits it takes 92 steps at the most."""
    a, b = (t.op("add", each, t.op("sub", a, a) if n else t.op("sub", b, b)) for n, each in enumerate((a, b)))
    zero, one = t.scalar(0, a.dtype), t.scalar(1, a.dtype)

    def step(carried: list[Value]) -> tuple[Value, list[Value]]:
        high, low = carried
        none = t.op("equal", low, zero)
        rest = t.op("where", none, zero, t.op("mod", high, t.op("where", none, one, low)))
        high = t.op("where", none, high, low)
        more = t.op("logical_not", t.op("equal", rest, zero))
        return t.op("reduce_any", more, axes=tuple(range(more.type.rank)), keep_dims=False), [high, rest]

    found, _ = t.repeat_until(92, [t.op("abs", a), t.op("abs", b)], step)
    return found


def least_multiple(t: Emitter, a: Value, b: Value) -> Value:
    """0 where an operand is 0."""
    found = greatest_divisor(t, a, b)
    none = t.op("equal", found, t.scalar(0, a.dtype))
    share = standard(t, "Div", a, t.op("where", none, t.scalar(1, a.dtype), found))
    return t.op("abs", t.op("mul", share, b))
