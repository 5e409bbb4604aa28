"""Steps in time: what recurrent layers are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sterna.frontends.tflite.translation import Translation
from sterna.ir.graph import Value


def in_time(t: Translation, x: Value, time_major: bool) -> Value:
    """(steps, batch, inputs)."""
    t.sizes(x, 3)
    return x if time_major else t.transpose(x, (1, 0, 2))


def at_step(t: Translation, sequence: Value, number: Value) -> Value:
    return t.op("gather", sequence, number, axis=0)


def over_time(
    t: Translation,
    x: Value,
    states: Sequence[Value],
    step: Callable[[Value, list[Value]], tuple[list[Value], Value]],
    backward: bool = False,
) -> tuple[list[Value], Value]:
    """The states in the end and the results of all steps, (steps, batch, units); `step` gets its position in time."""
    count = t.static(x)[0]

    def body(number: Value, carried: list[Value]) -> tuple[list[Value], list[Value]]:
        place = t.op("sub", t.scalar(count - 1, "int64"), number) if backward else number
        following, row = step(place, carried)
        return following, [row]

    last, (rows,) = t.repeat(count, states, body)
    if backward:
        rank = rows.type.rank
        starts = (count - 1, *(0,) * (rank - 1))
        rows = t.op("slice", rows, starts=starts, sizes=rows.shape, steps=(-1, *(1,) * (rank - 1)))
    return last, rows
