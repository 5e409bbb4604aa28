"""Special functions of frameworks that are made of core ones (`ops/special.py`)."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from sterna.frontends.emitter import Emitter
from sterna.ir import dtypes
from sterna.ir.graph import Value
from sterna.ops.types import broadcast

Function = Callable[[Emitter, Value], Value]
#: erfcx(z) = s exp(...), with s = 1 / (1 + z / 2), for z >= 0 (Numerical Recipes, erfcc); the highest power first.
_ERFC = (
    0.17087277, -0.82215223, 1.48851587, -1.13520398, 0.27886807, -0.18628806, 0.09678418, 0.37409196, 1.00002368,
    -1.26551223,
)  # fmt: skip


def _scalar(t: Emitter, value: float, like: Value) -> Value:
    return t.scalar(value, like.dtype)


def _times(t: Emitter, x: Value, factor: float) -> Value:
    return t.op("mul", x, _scalar(t, factor, x))


def core(name: str) -> Function:
    """The core operator of that name."""
    return lambda t, x: t.op(name, x)


def _odd(t: Emitter, x: Value) -> Value:
    """Whether a whole number is odd."""
    half = _times(t, x, 0.5)
    return t.op("logical_not", t.op("equal", t.op("floor", half), half))


def gamma(t: Emitter, x: Value) -> Value:
    """Its sign is that of the interval between two poles; there is none at a pole."""
    size = t.op("exp", t.op("lgamma", x))
    zero, floor = _scalar(t, 0, x), t.op("floor", x)
    negative = t.op("logical_and", t.op("less", x, zero), _odd(t, floor))
    signed = t.op("where", negative, t.op("neg", size), size)
    pole = t.op("logical_and", t.op("less_equal", x, zero), t.op("equal", floor, x))
    return t.op("where", pole, _scalar(t, math.nan, x), signed)


def polygamma(t: Emitter, n: Value, x: Value) -> Value:
    """The n-th derivative of digamma, of positive x: (-1)^(n + 1) n! zeta(n + 1, x)."""
    one = _scalar(t, 1, n)
    after = t.op("add", n, one)
    size = t.op("mul", t.op("exp", t.op("lgamma", after)), t.op("zeta", after, x))
    signed = t.op("where", _odd(t, n), size, t.op("neg", size))
    return t.op("where", t.op("equal", n, _scalar(t, 0, n)), t.op("digamma", x), signed)


def polygamma_of_order(t: Emitter, n: int, x: Value) -> Value:
    """The n-th derivative of digamma, n > 0; below 0 by reflection: (-1)^n polygamma(n, 1 - x) less pi times the n-th
    derivative of cot(pi x) (DLMF 5.15.6), which is a polynomial of it. At a pole it is infinite."""
    zero, one = _scalar(t, 0, x), _scalar(t, 1, x)
    below = t.op("less", x, zero)
    order = t.op("expand", _scalar(t, n, x), shape=x.shape) if x.type.rank else _scalar(t, n, x)
    above = polygamma(t, order, t.op("where", below, t.op("sub", one, x), x))
    slope = [0.0, 1.0]  # powers of the cotangent, the lowest first
    for _ in range(n):
        grown = [k * c for k, c in enumerate(slope)][1:]
        slope = [-a - b for a, b in zip([*grown, 0.0, 0.0], [0.0, 0.0, *grown], strict=True)]
    away = _times(t, t.op("sub", x, t.op("round", x)), math.pi)
    cotangent = t.op("div", t.op("cos", away), t.op("sin", away))
    total = _scalar(t, slope[-1], x)
    for c in slope[-2::-1]:
        total = t.op("add", t.op("mul", total, cotangent), _scalar(t, c, x))
    mirrored = t.op("sub", _times(t, above, (-1.0) ** n), _times(t, total, math.pi ** (n + 1)))
    pole = t.op("logical_and", t.op("less_equal", x, zero), t.op("equal", t.op("floor", x), x))
    infinite = _scalar(t, math.inf if n % 2 else -math.inf, x)
    return t.op("where", pole, infinite, t.op("where", below, mirrored, above))


def trigamma(t: Emitter, x: Value) -> Value:
    """The derivative of digamma; below a half by reflection: (pi / sin(pi x))^2 - trigamma(1 - x)."""
    below = t.op("less", x, _scalar(t, 0.5, x))
    kept = t.op("where", below, t.op("sub", _scalar(t, 1, x), x), x)
    value = t.op("zeta", t.op("expand", _scalar(t, 2, x), shape=x.shape) if x.type.rank else _scalar(t, 2, x), kept)
    away = t.op("sub", x, t.op("round", x))
    ratio = t.op("div", _scalar(t, math.pi, x), t.op("sin", _times(t, away, math.pi)))
    return t.op("where", below, t.op("sub", t.op("mul", ratio, ratio), value), value)


def grown(name: str) -> Function:
    """exp(|x|) times a scaled Bessel function."""
    return lambda t, x: t.op("mul", t.op("exp", t.op("abs", x)), t.op(name, x))


def decayed(name: str) -> Function:
    """exp(-x) times a scaled Bessel function."""
    return lambda t, x: t.op("mul", t.op("exp", t.op("neg", x)), t.op(name, x))


def multivariate_lgamma(t: Emitter, x: Value, p: int) -> Value:
    """log of the multivariate gamma function of dimension p."""
    total = _scalar(t, p * (p - 1) / 4 * math.log(math.pi), x)
    for j in range(p):
        total = t.op("add", total, t.op("lgamma", t.op("sub", x, _scalar(t, j / 2, x))))
    return total


def entropy(t: Emitter, x: Value) -> Value:
    """-x log(x); 0 of 0; minus infinity of negative numbers."""
    zero = _scalar(t, 0, x)
    value = t.op("neg", t.op("mul", x, t.op("log", x)))
    below = t.op("where", t.op("less", x, zero), _scalar(t, -math.inf, x), value)
    return t.op("where", t.op("equal", x, zero), zero, below)


def normal_distribution(t: Emitter, x: Value) -> Value:
    """The distribution function of the normal distribution."""
    one = _scalar(t, 1, x)
    return _times(t, t.op("add", one, t.op("erf", _times(t, x, math.sqrt(0.5)))), 0.5)


def _scaled_erfc(t: Emitter, z: Value) -> Value:
    """exp(z^2) erfc(z) of z >= 0."""
    one = _scalar(t, 1, z)
    s = t.op("div", one, t.op("add", one, _times(t, z, 0.5)))
    total = _scalar(t, _ERFC[0], z)
    for c in _ERFC[1:]:
        total = t.op("add", t.op("mul", total, s), _scalar(t, c, z))
    return t.op("mul", s, t.op("exp", total))


def scaled_erfc(t: Emitter, x: Value) -> Value:
    """exp(x^2) erfc(x)."""
    value = _scaled_erfc(t, t.op("abs", x))
    mirrored = t.op("sub", _times(t, t.op("exp", t.op("mul", x, x)), 2), value)
    return t.op("where", t.op("less", x, _scalar(t, 0, x)), mirrored, value)


def log_normal_distribution(t: Emitter, x: Value) -> Value:
    """log of the distribution function: far below by erfcx, where the function itself vanishes."""
    low = t.op("less", x, _scalar(t, -1, x))
    z = t.op("where", low, _times(t, x, -math.sqrt(0.5)), _scalar(t, 0, x))
    below = t.op("sub", t.op("log", _times(t, _scaled_erfc(t, z), 0.5)), t.op("mul", z, z))
    return t.op("where", low, below, t.op("log", normal_distribution(t, x)))


def sine_quotient(t: Emitter, x: Value) -> Value:
    """sin(x) / x; 1 of 0."""
    zero, one = _scalar(t, 0, x), _scalar(t, 1, x)
    at_zero = t.op("equal", x, zero)
    return t.op("where", at_zero, one, t.op("div", t.op("sin", x), t.op("where", at_zero, one, x)))


def next_after(t: Emitter, a: Value, b: Value) -> Value:
    """The next float from one number towards another, by the integer of its bits."""
    shape = broadcast((a.shape, b.shape))
    a, b = (v if v.shape == shape else t.op("expand", v, shape=shape) for v in (a, b))
    width = f"int{dtypes.bits(a.dtype)}"
    zero, one = _scalar(t, 0, a), t.scalar(1, width)
    up = t.op("greater", b, a)
    bits = t.op("bit_cast", a, to=width)
    grows = t.op("equal", up, t.op("greater", a, zero))
    moved = t.op("bit_cast", t.op("where", grows, t.op("add", bits, one), t.op("sub", bits, one)), to=a.dtype)
    least = _scalar(t, float(np.finfo(dtypes.to_numpy(a.dtype)).smallest_subnormal), a)
    moved = t.op("where", t.op("equal", a, zero), t.op("where", up, least, t.op("neg", least)), moved)
    wrong = t.op("logical_or", t.op("is_nan", a), t.op("is_nan", b))
    moved = t.op("where", wrong, _scalar(t, math.nan, a), moved)
    return t.op("where", t.op("equal", a, b), b, moved)
