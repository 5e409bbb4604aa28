"""The regularized incomplete gamma functions P(a, x) and Q(a, x) = 1 - P(a, x).

W. Press and others, Numerical Recipes, 6.2: P by its series where x is less than a + 1, else Q by its continued
fraction (Lentz' method); both stand under x^a exp(-x) / Gamma(a), of large a by Stirling's series (DLMF, 5.11).
"""

from __future__ import annotations

import math

from sterna.frontends.emitter import Emitter
from sterna.ir import dtypes
from sterna.ir.graph import Value

#: Terms at most: as many as a = 10^6 needs near x = a.
_MOST_TERMS = 8000
#: From here on Stirling's series has the digits of a float64 with the terms below.
_LARGE = 16.0
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188)


def _scalar(t: Emitter, value: float, like: Value) -> Value:
    return t.scalar(value, like.dtype)


def _log_ratio(t: Emitter, m: Value) -> Value:
    """log(1 + m) - m."""
    one = _scalar(t, 1, m)
    small = t.op("less", t.op("abs", m), _scalar(t, 0.3, m))
    near = t.op("where", small, m, _scalar(t, 0, m))
    # log(1 + m) = 2 atanh(s), s = m / (2 + m); what m cancels is taken out by hand: 2 s - m = -s m.
    s = t.op("div", near, t.op("add", near, _scalar(t, 2, m)))
    square = t.op("mul", s, s)
    total = _scalar(t, 2 / 25, m)
    for n in range(23, 1, -2):
        total = t.op("add", t.op("mul", total, square), _scalar(t, 2 / n, m))
    series = t.op("mul", s, t.op("sub", t.op("mul", total, square), near))
    wide = t.op("sub", t.op("log", t.op("where", small, one, t.op("add", one, m))), m)
    return t.op("where", small, series, wide)


def _factor(t: Emitter, a: Value, x: Value) -> Value:
    """x^a exp(-x) / Gamma(a) of positive a and x."""
    direct = t.op("exp", t.op("sub", t.op("sub", t.op("mul", a, t.op("log", x)), x), t.op("lgamma", a)))
    large = t.op("greater", a, _scalar(t, _LARGE, a))
    b = t.op("where", large, a, _scalar(t, _LARGE, a))
    m = t.op("div", t.op("sub", x, b), b)
    inverse = t.op("reciprocal", b)
    square, total = t.op("mul", inverse, inverse), _scalar(t, _STIRLING[-1], a)
    for c in _STIRLING[-2::-1]:
        total = t.op("add", t.op("mul", total, square), _scalar(t, c, a))
    exponent = t.op("sub", t.op("mul", b, _log_ratio(t, m)), t.op("mul", total, inverse))
    root = t.op("sqrt", t.op("mul", b, _scalar(t, 0.5 / math.pi, a)))
    return t.op("where", large, t.op("mul", root, t.op("exp", exponent)), direct)


def _any(t: Emitter, test: Value) -> Value:
    return t.op("reduce_any", test, axes=tuple(range(test.type.rank)), keep_dims=False) if test.type.rank else test


def _series(t: Emitter, a: Value, x: Value, least: float) -> Value:
    """1 / a + x / (a (a + 1)) + x^2 / (a (a + 1) (a + 2)) + ..."""

    def step(carried: list[Value]) -> tuple[Value, list[Value]]:
        below, term, total = carried
        below = t.op("add", below, _scalar(t, 1, a))
        term = t.op("mul", term, t.op("div", x, below))
        total = t.op("add", total, term)
        return _any(t, t.op("greater", term, t.op("mul", total, _scalar(t, least, a)))), [below, term, total]

    first = t.op("reciprocal", a)
    return t.repeat_until(_MOST_TERMS, [a, first, first], step)[2]


def _fraction(t: Emitter, a: Value, x: Value, least: float) -> Value:
    """1 / (x + 1 - a - 1 (1 - a) / (x + 3 - a - 2 (2 - a) / (x + 5 - a - ...)))."""
    one, tiny = _scalar(t, 1, a), _scalar(t, 1e-30, a)

    def kept(y: Value) -> Value:
        return t.op("where", t.op("less", t.op("abs", y), tiny), tiny, y)

    def step(carried: list[Value]) -> tuple[Value, list[Value]]:
        number, b, c, d, h = carried
        number = t.op("add", number, one)
        numerator = t.op("mul", number, t.op("sub", a, number))
        b = t.op("add", b, _scalar(t, 2, a))
        d = t.op("reciprocal", kept(t.op("add", t.op("mul", numerator, d), b)))
        c = kept(t.op("add", b, t.op("div", numerator, c)))
        factor = t.op("mul", d, c)
        moved = t.op("greater", t.op("abs", t.op("sub", factor, one)), _scalar(t, least, a))
        return _any(t, moved), [number, b, c, d, t.op("mul", h, factor)]

    b = t.op("add", t.op("sub", x, a), one)
    first = t.op("reciprocal", kept(b))
    number, huge = (t.op("add", t.op("mul", a, _scalar(t, 0, a)), _scalar(t, value, a)) for value in (0, 1e30))
    return t.repeat_until(_MOST_TERMS, [number, b, huge, first, first], step)[4]


def incomplete_gamma(t: Emitter, a: Value, x: Value, upper: bool) -> Value:
    """P(a, x), or Q(a, x) with `upper`: of numbers that are not negative, no number of others.

    Args:
        a, x: floats of one type and shape. Those of 16 bits are computed in float32.
    """
    if dtypes.bits(a.dtype) < 32:
        found = incomplete_gamma(t, t.cast(a, "float32"), t.cast(x, "float32"), upper)
        return t.cast(found, a.dtype)
    zero, one = _scalar(t, 0, a), _scalar(t, 1, a)
    least = 2.0**-24 if a.dtype == "float32" else 2.0**-53
    infinite = [t.op("is_inf", v) for v in (a, x)]
    plain = t.op("logical_and", t.op("greater", a, zero), t.op("greater", x, zero))
    for test in infinite:
        plain = t.op("logical_and", plain, t.op("logical_not", test))
    low = t.op("less", x, t.op("add", a, one))
    by_series = t.op("logical_and", plain, low)
    by_fraction = t.op("logical_and", plain, t.op("logical_not", low))
    # Elements that go the other way are given numbers of which the sum is known at once.
    inner = t.op("where", by_series, a, one), t.op("where", by_series, x, zero)
    outer = t.op("where", by_fraction, a, one), t.op("where", by_fraction, x, _scalar(t, 2, a))
    factor = _factor(t, t.op("where", plain, a, one), t.op("where", plain, x, one))
    p = t.op("mul", factor, _series(t, *inner, least))
    q = t.op("mul", factor, _fraction(t, *outer, least))
    y = t.op("where", low, t.op("sub", one, p), q) if upper else t.op("where", low, p, t.op("sub", one, q))
    nothing, everything = (one, zero) if upper else (zero, one)
    # P is 0 at x = 0 and of infinite a, 1 at a = 0 and of infinite x, and nothing where both are so.
    ends = (
        t.op("logical_or", t.op("equal", x, zero), infinite[0]),
        t.op("logical_or", t.op("equal", a, zero), infinite[1]),
    )
    nan = _scalar(t, math.nan, a)
    y = t.op("where", ends[0], nothing, t.op("where", ends[1], everything, y))
    wrong = t.op("logical_or", t.op("less", a, zero), t.op("less", x, zero))
    wrong = t.op("logical_or", wrong, t.op("logical_or", t.op("is_nan", a), t.op("is_nan", x)))
    return t.op("where", t.op("logical_or", wrong, t.op("logical_and", *ends)), nan, y)
