"""Angles, distances and quotients of points of a plane, which complex numbers are, too."""

from __future__ import annotations

import math

from sterna.frontends.emitter import Emitter
from sterna.ir.graph import Value


def scaled(t: Emitter, x: Value, y: Value) -> tuple[Value, Value, Value]:
    """The point (x, y) divided by its greater part, and that part, so that no square overflows; of (0, 0) 1."""
    most = t.op("maximum", t.op("abs", x), t.op("abs", y))
    most = t.op("where", t.op("equal", most, t.scalar(0, x.dtype)), t.scalar(1, x.dtype), most)
    return t.op("div", x, most), t.op("div", y, most), most


def distance(t: Emitter, x: Value, y: Value) -> Value:
    """sqrt(x x + y y) of parts of any size."""
    u, v, most = scaled(t, x, y)
    found = t.op("mul", most, t.op("sqrt", t.op("add", t.op("mul", u, u), t.op("mul", v, v))))
    # Of infinite parts the quotients are NaN.
    return t.op("where", t.op("equal", most, t.scalar(math.inf, x.dtype)), most, found)


def quotient(t: Emitter, z: tuple[Value, Value], w: tuple[Value, Value]) -> tuple[Value, Value]:
    """The complex number z divided by w of any size."""
    (a, b), (c, d, most) = z, scaled(t, *w)
    square = t.op("add", t.op("mul", c, c), t.op("mul", d, d))
    real = t.op("add", t.op("mul", a, c), t.op("mul", b, d))
    imaginary = t.op("sub", t.op("mul", b, c), t.op("mul", a, d))
    return t.op("div", t.op("div", real, square), most), t.op("div", t.op("div", imaginary, square), most)


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
