"""Powers of float32 in float32 alone, for processors whose float64 is slow or missing: GPUs and microcontrollers.

log2(x) and y * log2(x) are pairs of numbers, the first of which has so few bits that its products are exact: the
method of fdlibm's e_pow.c (Sun Microsystems, 1993), after W. J. Cody and W. Waite, Software Manual for the Elementary
Functions (1980), chapter 7. Nothing relies on `Fma` being rounded once.
"""

from __future__ import annotations

import math

from sterna.loops.lanewise import bits, comparison, constant, fma, operation, power_of_two, select, unary
from sterna.loops.minimax import EXP2_SHORT, FLOAT32
from sterna.te.expr import Expr

#: 2 / (3 ln 2), the first twelve bits of it, and the rest.
_SCALE = 2 / (3 * math.log(2))
_SCALE_HIGH = 0.961669921875
#: log((1 + s) / (1 - s)) = 2/3 s (3 + s**2 + s**4 * (...)): the terms that are left out are less than 2**-34 of it
#: where |s| <= 0.2.
_SERIES = (3 / 5, 3 / 7, 3 / 9, 3 / 11, 3 / 13)
#: Beyond it, 2**z is 0 or infinite; half of it is the exponent of a number.
_FAR = 250.0


def power(exponent: Expr, mantissa: Expr, size: Expr, y: Expr) -> Expr:
    """size**y, where size = 2**exponent * mantissa, or is 0, infinite or NaN.

    Args:
        exponent, mantissa: as `math` splits a number: the mantissa is from 2/3 to 4/3.
    """
    high, low = _log2(exponent, mantissa)
    within = operation("and", comparison("gt", size, 0.0), comparison("lt", size, math.inf))
    high = select(comparison("lt", size, math.inf), high, size)
    high = select(comparison("eq", size, 0.0), -math.inf, high)
    return _exp2(*_product(y, high, select(within, low, constant(0.0, low))))


def _short(x: Expr) -> Expr:
    """The first twelve bits of a number, so that products of two of them are exact."""
    return bits(operation("and", bits(x, "uint32"), 0xFFFFF000), "float32")


def _log2(exponent: Expr, mantissa: Expr) -> tuple[Expr, Expr]:
    """The logarithm as a short number and the rest, to 2**-33 of it."""
    t, d = operation("sub", mantissa, 1.0), operation("add", mantissa, 1.0)
    s = operation("div", t, d)
    s_high, d_high = _short(s), _short(d)
    d_low = operation("sub", mantissa, operation("sub", d_high, 1.0))
    rest = operation("sub", t, operation("mul", s_high, d_high))
    s_low = operation("div", operation("sub", rest, operation("mul", s_high, d_low)), d)

    # 3 + s**2 + s**4 * (...), in two parts.
    square, exact = operation("mul", s, s), operation("mul", s_high, s_high)
    series: Expr = constant(_SERIES[-1], s)
    for c in reversed(_SERIES[:-1]):
        series = fma(series, square, c)
    rest = operation("mul", operation("mul", square, square), series)
    rest = fma(s_low, operation("add", s_high, s), rest)
    g_high = _short(operation("add", operation("add", exact, 3.0), rest))
    g_low = operation("sub", rest, operation("sub", operation("sub", g_high, 3.0), exact))

    # Times s.
    first = operation("mul", s_high, g_high)
    second = fma(s_low, g_high, operation("mul", g_low, s))
    p_high = _short(operation("add", first, second))
    p_low = operation("sub", second, operation("sub", p_high, first))

    # Times 2 / (3 ln 2), and the exponent.
    high = operation("mul", p_high, _SCALE_HIGH)
    low = fma(p_high, _SCALE - _SCALE_HIGH, operation("mul", p_low, _SCALE))
    total = _short(operation("add", operation("add", high, low), exponent))
    return total, operation("sub", low, operation("sub", operation("sub", total, exponent), high))


def _product(y: Expr, high: Expr, low: Expr) -> tuple[Expr, Expr]:
    """y times a pair, where that is not so large that its low part is of no account."""
    y_high = _short(y)
    first = operation("mul", y_high, high)
    second = fma(operation("sub", y, y_high), high, operation("mul", y, low))
    z = operation("mul", y, high)
    near = comparison("lt", unary("abs", z), _FAR)
    limited = select(comparison("lt", z, -_FAR), -_FAR, z)
    limited = select(comparison("gt", limited, _FAR), _FAR, limited)
    return select(near, first, limited), select(near, second, constant(0.0, z))


def _exp2(high: Expr, low: Expr) -> Expr:
    """2**(high + low), of numbers up to 250; subnormal where that is."""
    magic = FLOAT32.magic
    n = operation("sub", operation("add", operation("add", high, low), magic), magic)
    f = operation("add", operation("sub", high, n), low)
    total: Expr = constant(EXP2_SHORT[-1], f)
    for c in (*reversed(EXP2_SHORT[:-1]), 1.0):
        total = fma(total, f, c)
    # In two steps: a power of two that is a number may be none before the other half of it.
    half = operation("add", operation("mul", n, 0.5), magic + FLOAT32.bias)
    other = operation("sub", n, operation("sub", half, magic + FLOAT32.bias))
    total = operation("mul", total, power_of_two(half))
    return operation("mul", total, power_of_two(operation("add", other, magic + FLOAT32.bias)))
