"""The angle of a point, of which front ends have the operator atan2 or arctan2."""

from __future__ import annotations

import math

from sterna.frontends.emitter import Emitter
from sterna.ir.graph import Value


def arc_tangent(t: Emitter, y: Value, x: Value) -> Value:
    """The angle of the point (x, y) beside the axis of x, in radians from -pi to pi; 0 of the point (0, 0).

    Args:
        x, y: of one type of floats.
    """

    def number(value: float) -> Value:
        return t.scalar(value, x.dtype)

    on_axis, below = t.op("equal", x, number(0)), t.op("less", y, number(0))
    angle = t.op("atan", t.op("div", y, t.op("where", on_axis, number(1), x)))
    turn = t.op("where", below, number(-math.pi), number(math.pi))
    angle = t.op("where", t.op("less", x, number(0)), t.op("add", angle, turn), angle)
    upright = t.op("where", below, number(-math.pi / 2), number(math.pi / 2))
    upright = t.op("where", t.op("equal", y, number(0)), number(0), upright)
    return t.op("where", on_axis, upright, angle)
