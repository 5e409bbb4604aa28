"""Special functions: gamma, the inverse of the error function, Bessel.

Errors in float32, of the result or of 1, whichever is larger, are 4e-6 where the argument itself is exact; float64
follows the same formulas to 1e-9 at least, `ndtri` to 1e-6. The gamma function is Lanczos' sum, as XLA has it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.polynomial import chebyshev

from sterna.ops import bessel_series as series
from sterna.ops.elementwise import FLOATS, absolute, binary, unary
from sterna.ops.formulas import polynomial
from sterna.ops.operator import Operator, case
from sterna.te import expr as E
from sterna.te.expr import Expr

_LANCZOS = 7.0
_BASE = 0.99999999999980993
_TERMS = (
    676.5203681218851, -1259.1392167224028, 771.3234287776531, -176.6150291621406, 12.507343278686905,
    -0.13857109526572012, 9.984369578019572e-6, 1.5056327351493116e-7,
)  # fmt: skip
#: Giles, "Approximating the erfinv function": of w - 2.5 where w < 5, of sqrt(w) - 3 up to 16, which is
#: as far as x in float32 goes; highest power first.
_NEAR = (
    2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503, -0.00417768164,
    0.246640727, 1.50140941,
)  # fmt: skip
_FAR = (
    -0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613, 0.00943887047,
    1.00167406, 2.83297682,
)  # fmt: skip
#: erfinv(x) / (x sqrt(w)) of 1 / sqrt(w) for w from 16 to 27^2: a Chebyshev series by SciPy's `ndtri_exp`.
_FARTHEST = (
    0.9800641186133168, -0.019310473097990086, -0.0011378413341530812, 0.0003660715496641171, -4.127858783571961e-05,
    6.4953378760535275e-06, -1.4312870978761284e-06, 3.6228539849748313e-07, -9.701480171504369e-08,
    2.916835646297853e-08, -8.51620744493296e-09, 2.900238712748634e-09, -8.975179286317901e-10, 3.1742851655407494e-10,
)  # fmt: skip
_LEAST_SHARE, _MOST_SHARE = 1 / 27, 1 / 4
#: Terms of the sum before the remainder in Hurwitz' zeta function, and B(2 k) / (2 k)! of the remainder.
_SUMMED = 10
_BERNOULLI = tuple(
    b / math.factorial(2 * k)
    for k, b in enumerate((1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510), 1)
)


def _log(x: Expr) -> Expr:
    return E.unary("log", x)


@cache
def _powers(coefficients: tuple[float, ...], dtype: str) -> tuple[float, ...]:
    """A Chebyshev series as powers, the highest first; of float32 as many terms as it can tell."""
    most = max(map(abs, coefficients))
    least = 0.0 if dtype == "float64" else 1e-9 * most
    kept = [c for n, c in enumerate(coefficients) if any(abs(d) > least for d in coefficients[n:])]
    return tuple(float(c) for c in chebyshev.cheb2poly(kept)[::-1])


def _series(x: Expr, end: float, coefficients: tuple[float, ...]) -> Expr:
    """A Chebyshev series of x from 0 to `end`; what is further counts as the end."""
    within = E.minimum(x, E.const(end, x.dtype))
    return polynomial(within * (2.0 / end) - 1.0, _powers(coefficients, x.dtype))


# ---------------------------------------------------------------- gamma
def _reflected(x: Expr) -> tuple[Expr, Expr]:
    """Whether x is below a half, and z, for which gamma(z + 1) is computed: x - 1, or -x of the reflected one."""
    below = x < 0.5
    return below, E.select(below, -x, x - 1.0)


def _lanczos(z: Expr) -> Expr:
    total: Expr = E.const(_BASE, z.dtype)
    for n, c in enumerate(_TERMS):
        total = total + c / (z + float(n + 1))
    return total


def _lgamma(x: Expr) -> Expr:
    below, z = _reflected(x)
    z = E.minimum(z, E.const(1e30, x.dtype))  # infinity has no sum
    t = z + (_LANCZOS + 0.5)
    log_t = math.log(_LANCZOS + 0.5) + E.unary("log1p", z / (_LANCZOS + 0.5))
    value = 0.5 * math.log(2 * math.pi) + (z + 0.5 - t / log_t) * log_t + _log(_lanczos(z))
    fraction = absolute(x) - E.unary("floor", absolute(x))
    sine = E.unary("sin", math.pi * E.select(fraction > 0.5, 1.0 - fraction, fraction))
    mirrored = math.log(math.pi) - _log(sine) - value
    infinite = E.const(math.inf, x.dtype)
    pole = E.binary("and", E.compare("le", x, 0.0), E.compare("eq", fraction, 0.0))
    value = E.select(E.binary("or", pole, absolute(x) > 1e30), infinite, E.select(below, mirrored, value))
    return E.select(E.unary("isnan", x), x, value)


def _digamma(x: Expr) -> Expr:
    below, z = _reflected(x)
    t = z + (_LANCZOS + 0.5)
    above: Expr = E.const(0.0, x.dtype)
    for n, c in enumerate(_TERMS):
        step = z + float(n + 1)
        above = above - c / (step * step)
    log_t = math.log(_LANCZOS + 0.5) + E.unary("log1p", z / (_LANCZOS + 0.5))
    value = log_t + above / _lanczos(z) - _LANCZOS / t
    # cot(pi x) by the distance from the nearest integer, which is exact.
    away = x - E.unary("rint", x)
    mirrored = value - math.pi * E.unary("cos", math.pi * away) / E.unary("sin", math.pi * away)
    whole = E.binary("and", E.compare("le", x, 0.0), E.compare("eq", away, 0.0))
    pole = E.select(E.compare("eq", x, 0.0), -1.0 / x, E.const(math.nan, x.dtype))
    value = E.select(whole, pole, E.select(below, mirrored, value))
    return E.select(E.compare("eq", x, math.inf), x, value)


def _zeta(s: Expr, q: Expr) -> Expr:
    """The sum of (q + n)^-s by Euler and Maclaurin, for q > 0 and s > 1."""
    total: Expr = E.binary("pow", q, -s)
    for n in range(1, _SUMMED):
        total = total + E.binary("pow", q + float(n), -s)
    end = q + float(_SUMMED)
    power = E.binary("pow", end, -s)
    total = total + power * end / (s - 1.0) + 0.5 * power
    factor, power = s, power / end
    for k, b in enumerate(_BERNOULLI):
        total = total + b * factor * power
        factor = factor * (s + float(2 * k + 1)) * (s + float(2 * k + 2))
        power = power / (end * end)
    nan, infinite = (E.const(v, s.dtype) for v in (math.nan, math.inf))
    total = E.select(E.compare("le", q, 0.0), E.select(E.compare("eq", q, E.unary("floor", q)), infinite, nan), total)
    return E.select(s < 1.0, nan, E.select(E.compare("eq", s, 1.0), infinite, total))


# ---------------------------------------------------------------- the error function
def _quantile(w: Expr, greatest: float) -> Expr:
    """erfinv(x) / x for w = -log(1 - x^2), which is at most so great."""
    near = polynomial(w - 2.5, _NEAR)
    root = E.unary("sqrt", E.maximum(w, E.const(5.0, w.dtype)))
    far = polynomial(root - 3.0, _FAR)
    if greatest <= 16.0:
        return E.select(w < 5.0, near, far)
    farthest = _series(1.0 / root - _LEAST_SHARE, _MOST_SHARE - _LEAST_SHARE, _FARTHEST) * root
    return E.select(w < 5.0, near, E.select(w < 16.0, far, farthest))


def _erfinv(x: Expr) -> Expr:
    size = absolute(x)
    value = _quantile(-_log((1.0 - size) * (1.0 + size)), math.inf if x.dtype == "float64" else 16.0) * x
    if x.dtype == "float64":
        for _ in range(2):  # Newton: the polynomials are those of float32
            slope = 2 / math.sqrt(math.pi) * E.unary("exp", -value * value)
            value = value - (E.unary("erf", value) - x) / slope
    edge = x * E.const(math.inf, x.dtype)
    return E.select(E.compare("eq", size, 1.0), edge, E.select(size > 1.0, E.const(math.nan, x.dtype), value))


def _ndtri(p: Expr) -> Expr:
    """sqrt(2) erfinv(2 p - 1), with 1 - x^2 = 4 p (1 - p), which keeps its digits near 0 and 1."""
    value = math.sqrt(2.0) * _quantile(-_log(4.0 * p * (1.0 - p)), math.inf) * (2.0 * p - 1.0)
    nan, infinite = (E.const(v, p.dtype) for v in (math.nan, math.inf))
    value = E.select(E.compare("eq", p, 0.0), -infinite, E.select(E.compare("eq", p, 1.0), infinite, value))
    return E.select(E.binary("or", p < 0.0, p > 1.0), nan, value)


# ---------------------------------------------------------------- Bessel
_BESSEL = 8.0  # where the series in x end, and those in 1 / x begin


def _scaled_i(near: tuple[float, ...], far: tuple[float, ...], odd: bool) -> Callable[[Expr], Expr]:
    """exp(-|x|) I(x)."""

    def function(x: Expr) -> Expr:
        size = absolute(x)
        small = _series(size, _BESSEL, near) * (x if odd else 1.0)
        distant = E.maximum(size, E.const(_BESSEL, x.dtype))
        large = _series(_BESSEL / distant, 1.0, far) / E.unary("sqrt", distant)
        return E.select(size < _BESSEL, small, E.select(x < 0.0, -large, large) if odd else large)

    return function


def _wave(x: Expr, order: int, second: bool) -> Expr:
    """J or Y of x from 8 on."""
    distant = E.maximum(x, E.const(_BESSEL, x.dtype))
    share = _BESSEL / distant
    p = _series(share * share, 1.0, (series.P0, series.P1)[order])
    q = _series(share * share, 1.0, (series.Q0, series.Q1)[order]) * share
    # sqrt(2) cos and sin of x - pi / 4 and x - 3 pi / 4, without the rounding of the difference.
    sine, cosine = E.unary("sin", distant), E.unary("cos", distant)
    cos_t, sin_t = ((cosine + sine, sine - cosine), (sine - cosine, -(sine + cosine)))[order]
    wave = p * sin_t + q * cos_t if second else p * cos_t - q * sin_t
    return wave / E.unary("sqrt", math.pi * distant)


def _j(order: int) -> Callable[[Expr], Expr]:
    def function(x: Expr) -> Expr:
        size = absolute(x)
        small = _near_j(size, order)
        value = E.select(size < _BESSEL, small, _wave(size, order, second=False))
        return E.select(x < 0.0, -value, value) if order else value

    return function


def _near_j(x: Expr, order: int) -> Expr:
    value = _series(x * x, _BESSEL**2, (series.J0_NEAR, series.J1_NEAR)[order])
    return value * x if order else value


def _y(order: int) -> Callable[[Expr], Expr]:
    def function(x: Expr) -> Expr:
        log = _log(x)
        smooth = _series(x * x, _BESSEL**2, (series.Y0_NEAR, series.Y1_NEAR)[order])
        small = smooth * x + 2 / math.pi * (log * _near_j(x, 1) - 1.0 / x) if order else (
            smooth + 2 / math.pi * log * _near_j(x, 0))  # fmt: skip
        value = E.select(x < _BESSEL, small, _wave(x, order, second=True))
        nan, infinite = (E.const(v, x.dtype) for v in (math.nan, math.inf))
        return E.select(x < 0.0, nan, E.select(E.compare("eq", x, 0.0), -infinite, value))

    return function


def _scaled_k(order: int) -> Callable[[Expr], Expr]:
    """exp(x) K(x)."""
    near, far = ((series.K0_NEAR, series.K0E_FAR), (series.K1_NEAR, series.K1E_FAR))[order]

    def function(x: Expr) -> Expr:
        within = E.minimum(x, E.const(2.0, x.dtype))
        log, square = _log(within * 0.5), within * within
        first = (series.I0E_NEAR, series.I1E_NEAR)[order]
        i = _series(within, _BESSEL, first) * E.unary("exp", within) * (within if order else 1.0)
        smooth = _series(square, 4.0, near)
        small = (smooth / within + log * i if order else smooth - log * i) * E.unary("exp", within)
        distant = E.maximum(x, E.const(2.0, x.dtype))
        large = _series(2.0 / distant, 1.0, far) / E.unary("sqrt", distant)
        nan, infinite = (E.const(v, x.dtype) for v in (math.nan, math.inf))
        value = E.select(x < 2.0, small, large)
        return E.select(x < 0.0, nan, E.select(E.compare("eq", x, 0.0), infinite, value))

    return function


_AROUND = np.array([-3.5, -1.5, -0.25, 0.25, 0.5, 1.0, 1.5, 2.0, 7.5, 30.0], np.float32)
_POSITIVE = np.array([0.125, 0.5, 1.0, 1.75, 2.5, 7.5, 8.5, 20.0], np.float32)

OPERATORS: tuple[Operator, ...] = (
    unary("lgamma", "the logarithm of the absolute value of the gamma function", _lgamma, low=0.1, high=9.0,
          cases=(case(_AROUND),)),
    unary("digamma", "the derivative of the logarithm of the gamma function", _digamma, low=0.1, high=9.0,
          cases=(case(_AROUND),)),
    binary("zeta", "Hurwitz' zeta function of a > 1 and b > 0", _zeta, FLOATS, low=1.5, high=6.0),
    unary("erfinv", "the inverse of the error function", _erfinv, low=-0.99, high=0.99),
    unary("ndtri", "the quantile of the normal distribution", _ndtri, low=0.01, high=0.99),
    unary("bessel_i0e", "exp(-|x|) I0(x)", _scaled_i(series.I0E_NEAR, series.I0E_FAR, odd=False),
          cases=(case(_AROUND),)),
    unary("bessel_i1e", "exp(-|x|) I1(x)", _scaled_i(series.I1E_NEAR, series.I1E_FAR, odd=True),
          cases=(case(_AROUND),)),
    unary("bessel_j0", "J0(x)", _j(0), cases=(case(_AROUND),)),
    unary("bessel_j1", "J1(x)", _j(1), cases=(case(_AROUND),)),
    unary("bessel_y0", "Y0(x)", _y(0), low=0.1, high=9.0, cases=(case(_POSITIVE),)),
    unary("bessel_y1", "Y1(x)", _y(1), low=0.1, high=9.0, cases=(case(_POSITIVE),)),
    unary("bessel_k0e", "exp(x) K0(x)", _scaled_k(0), low=0.1, high=9.0, cases=(case(_POSITIVE),)),
    unary("bessel_k1e", "exp(x) K1(x)", _scaled_k(1), low=0.1, high=9.0, cases=(case(_POSITIVE),)),
)  # fmt: skip
