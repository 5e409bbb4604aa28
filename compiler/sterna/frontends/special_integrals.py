"""Special functions that are integrals, of core operators: Dawson's, Fresnel's, the exponential one, the dilogarithm
and the incomplete beta function. Polynomials were fitted to SciPy's values; all are exact to single precision.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from sterna.frontends.emitter import Emitter
from sterna.ir.graph import Value

_EULER = 0.5772156649015329
#: Ei(x) x exp(-x) of x >= 6, in u = 12 / x - 1; the highest power first.
_EXPINT = (
    -0.0007404603529721498, 0.0018570321844890714, 0.002540307119488716, -0.007716495543718338, -0.003443896071985364,
    0.015020527876913548, 0.0034863764885812998, -0.02060110494494438, -0.011107700876891613, 0.018157990649342537,
    0.045732464641332626, 0.13272425532341003, 1.102974772453308,
)  # fmt: skip
#: f(x) pi x and g(x) pi^2 x^3 of x >= 1.6, in u = 2 (1.6 / x)^4 - 1.
_FRESNEL = (
    (1.907903242681641e-05, -2.930399205069989e-05, 1.1146266842843033e-05, -4.192092819721438e-05,
     0.00015576336591038853, -0.0004769311926793307, 0.002039313083514571, -0.016415836289525032, 0.9808106422424316),
    (0.0002878763189073652, -0.00041015262831933796, 5.617544229608029e-05, -0.00035653027589432895,
     0.0014891851460561156, -0.00381468259729445, 0.01268403884023428, -0.0657540038228035, 0.9151459336280823),
)  # fmt: skip
#: Bernoulli's numbers B2, B4, ... over (2 n + 1)!, for the dilogarithm.
_BERNOULLI = tuple(
    b / math.factorial(2 * n + 1) for n, b in enumerate((1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730), start=1)
)
#: Terms of a continued fraction at most.
_MOST_TERMS = 2000


def _scalar(t: Emitter, value: float, like: Value) -> Value:
    return t.scalar(value, like.dtype)


def _times(t: Emitter, x: Value, factor: float) -> Value:
    return t.op("mul", x, _scalar(t, factor, x))


def _plus(t: Emitter, x: Value, offset: float) -> Value:
    return t.op("add", x, _scalar(t, offset, x))


def _polynomial(t: Emitter, x: Value, powers: Sequence[float]) -> Value:
    """The highest power first."""
    total = _scalar(t, powers[0], x)
    for c in powers[1:]:
        total = _plus(t, t.op("mul", total, x), c)
    return total


def dawson(t: Emitter, x: Value) -> Value:
    """exp(-x^2) times the integral of exp(t^2) from 0: G. Rybicki's sum of bells (Numerical Recipes, 6.10)."""
    step, terms = 0.4, 7
    whole_size, edge = t.op("abs", x), _scalar(t, 10.0, x)
    size = t.op("minimum", whole_size, edge)
    whole = _times(t, t.op("floor", _plus(t, _times(t, size, 0.5 / step), 0.5)), 2.0)
    rest = t.op("sub", size, _times(t, whole, step))
    total: Value | None = None
    for n in range(terms):
        odd = 2 * n + 1
        bell = math.exp(-((odd * step) ** 2))
        away = t.op("exp", _times(t, rest, 2 * step * odd))
        both = t.op(
            "add", t.op("div", away, _plus(t, whole, odd)), t.op("div", t.op("reciprocal", away), _plus(t, whole, -odd))
        )
        both = _times(t, both, bell)
        total = both if total is None else t.op("add", total, both)
    assert total is not None
    far = t.op("mul", _times(t, t.op("exp", t.op("neg", t.op("mul", rest, rest))), 1 / math.sqrt(math.pi)), total)
    square = t.op("mul", size, size)
    near = t.op("mul", size, _polynomial(t, square, (16 / 945, -8 / 105, 4 / 15, -2 / 3, 1.0)))
    value = t.op("where", t.op("less", size, _scalar(t, 0.2, x)), near, far)
    # From 10 on by the powers of 1 / x, where numbers between the bells have no digits to tell them apart.
    inverse = t.op("reciprocal", t.op("maximum", whole_size, edge))
    powers = _polynomial(t, t.op("mul", inverse, inverse), (945 / 64, 105 / 32, 15 / 16, 3 / 8, 1 / 4, 1 / 2))
    value = t.op("where", t.op("greater", whole_size, edge), t.op("mul", inverse, powers), value)
    return t.op("where", t.op("less", x, _scalar(t, 0, x)), t.op("neg", value), value)


def fresnel(t: Emitter, x: Value, sine: bool) -> Value:
    """The integral of sin(pi t^2 / 2), or of the cosine, from 0: a series near 0, else by the auxiliary functions."""
    size = t.op("abs", x)
    far_away = t.op("greater", size, _scalar(t, 1e8, x))
    size = t.op("where", far_away, _scalar(t, 1e8, x), size)
    near = t.op("less", size, _scalar(t, 1.6, x))
    small, large = (
        t.op("where", near, size, _scalar(t, 0, x)),
        t.op("where", near, _scalar(t, 1.6, x), size),
    )
    square = t.op("mul", small, small)
    fourth = t.op("mul", square, square)
    half = math.pi / 2
    powers = []
    for n in range(9, -1, -1):
        k = 2 * n + int(sine)
        powers.append((-1) ** n * half**k / (math.factorial(k) * (2 * k + 1)))
    series = t.op("mul", small, _polynomial(t, fourth, powers))
    series = t.op("mul", series, square) if sine else series
    inverse = t.op("reciprocal", large)
    tiny = t.op("mul", inverse, inverse)
    u = _plus(t, _times(t, t.op("mul", tiny, tiny), 2 * 1.6**4), -1.0)
    f = t.op("mul", _times(t, inverse, 1 / math.pi), _polynomial(t, u, _FRESNEL[0]))
    g = t.op("mul", t.op("mul", inverse, _times(t, tiny, 1 / math.pi**2)), _polynomial(t, u, _FRESNEL[1]))
    # The angle is pi x^2 / 2, of whose turns (x^2 = 4) the rest counts. The square itself has no digits left for it:
    # of x = 2 n + r it is that of 4 n r + r^2, and n r is exact.
    n_pairs = t.op("floor", _plus(t, _times(t, large, 0.5), 0.5))
    rest = t.op("sub", large, _times(t, n_pairs, 2.0))
    turns = t.op("mul", n_pairs, rest)
    turns = _times(t, t.op("sub", turns, t.op("floor", turns)), 4.0)
    angle = _times(t, t.op("add", turns, t.op("mul", rest, rest)), half)
    s, c = t.op("sin", angle), t.op("cos", angle)
    if sine:
        waves = t.op("neg", t.op("add", t.op("mul", f, c), t.op("mul", g, s)))
    else:
        waves = t.op("sub", t.op("mul", f, s), t.op("mul", g, c))
    waves = t.op("where", far_away, _scalar(t, 0, x), waves)
    value = t.op("where", near, series, _plus(t, waves, 0.5))
    return t.op("where", t.op("less", x, _scalar(t, 0, x)), t.op("neg", value), value)


def exponential_integral(t: Emitter, x: Value) -> Value:
    """Ei(x) of x > 0: a series to 6, else a polynomial of 1 / x; minus infinity of 0, no number below."""
    edge = _scalar(t, 6.0, x)
    near = t.op("less", x, edge)
    small = t.op("where", near, t.op("maximum", x, _scalar(t, 1e-38, x)), edge)
    # No type has the value of 1e4; of more 1 / x times infinity would be no number.
    large = t.op("where", near, edge, t.op("minimum", x, _scalar(t, 1e4, x)))
    powers = [1 / (n * math.factorial(n)) for n in range(30, 0, -1)]
    series = t.op("mul", small, _polynomial(t, small, powers))
    series = t.op("add", _plus(t, t.op("log", small), _EULER), series)
    inverse = t.op("reciprocal", large)
    far = _polynomial(t, _plus(t, _times(t, inverse, 12.0), -1.0), _EXPINT)
    # By halves: exp(x) is infinite before Ei(x) is.
    root = t.op("exp", _times(t, large, 0.5))
    far = t.op("mul", t.op("mul", t.op("mul", root, inverse), far), root)
    zero = _scalar(t, 0, x)
    value = t.op("where", t.op("equal", x, zero), _scalar(t, -math.inf, x), t.op("where", near, series, far))
    return t.op("where", t.op("less", x, zero), _scalar(t, math.nan, x), value)


def spence(t: Emitter, x: Value) -> Value:
    """The dilogarithm of 1 - x, of x >= 0: Bernoulli's series between 1/2 and 3/2, to which others are led back."""
    one, zero = _scalar(t, 1, x), _scalar(t, 0, x)
    above = t.op("greater", x, _scalar(t, 1.5, x))
    inner = t.op("where", above, t.op("reciprocal", t.op("maximum", x, _scalar(t, 1.5, x))), x)
    below = t.op("less", inner, _scalar(t, 0.5, x))
    kept = t.op("where", below, t.op("sub", one, inner), inner)
    u = t.op("neg", t.op("log", t.op("maximum", kept, _scalar(t, 0.25, x))))
    square = t.op("mul", u, u)
    total = t.op("mul", u, _plus(t, t.op("mul", square, _polynomial(t, square, _BERNOULLI[::-1])), 1.0))
    total = t.op("sub", total, _times(t, square, 0.25))
    # Li2(1 - y) = pi^2 / 6 - log(y) log(1 - y) - Li2(y).
    log = t.op("log", t.op("where", below, t.op("maximum", inner, _scalar(t, 1e-38, x)), one))
    other = t.op("log", t.op("where", below, t.op("sub", one, inner), one))
    turned = t.op("sub", _plus(t, t.op("neg", t.op("mul", log, other)), math.pi**2 / 6), total)
    value = t.op("where", below, turned, total)
    log = t.op("log", t.op("where", above, x, one))
    upper = t.op("sub", _times(t, t.op("mul", log, log), -0.5), value)
    value = t.op("where", above, upper, value)
    return t.op("where", t.op("less", x, zero), _scalar(t, math.nan, x), value)


# ---------------------------------------------------------------- the incomplete beta function
def _fraction(t: Emitter, a: Value, b: Value, x: Value) -> Value:
    """The continued fraction by Lentz' method (Numerical Recipes, 6.4)."""
    one, tiny = _scalar(t, 1, x), _scalar(t, 1e-30, x)

    def kept(y: Value) -> Value:
        return t.op("where", t.op("less", t.op("abs", y), tiny), tiny, y)

    def turn(term: Value, c: Value, d: Value) -> tuple[Value, Value]:
        d = t.op("reciprocal", kept(_plus(t, t.op("mul", term, d), 1.0)))
        return kept(_plus(t, t.op("div", term, c), 1.0)), d

    both = t.op("add", a, b)

    def step(carried: list[Value]) -> tuple[Value, list[Value]]:
        m, c, d, h = carried
        m = _plus(t, m, 1.0)
        at = t.op("add", a, _times(t, m, 2.0))
        even = t.op("div", t.op("mul", t.op("mul", m, t.op("sub", b, m)), x), t.op("mul", _plus(t, at, -1.0), at))
        c, d = turn(even, c, d)
        h = t.op("mul", h, t.op("mul", d, c))
        odd = t.op("mul", t.op("add", a, m), t.op("add", both, m))
        odd = t.op("neg", t.op("div", t.op("mul", odd, x), t.op("mul", at, _plus(t, at, 1.0))))
        c, d = turn(odd, c, d)
        factor = t.op("mul", d, c)
        moved = t.op("greater", t.op("abs", t.op("sub", factor, one)), _scalar(t, 2.0**-22, x))
        axes = tuple(range(moved.type.rank))
        more = t.op("reduce_any", moved, axes=axes, keep_dims=False) if axes else moved
        return more, [m, c, d, t.op("mul", h, factor)]

    zeros = _times(t, x, 0.0)
    first = kept(t.op("sub", one, t.op("div", t.op("mul", both, x), _plus(t, a, 1.0))))
    first = t.op("reciprocal", first)
    return t.repeat_until(_MOST_TERMS, [zeros, _plus(t, zeros, 1.0), first, first], step)[3]


def incomplete_beta(t: Emitter, a: Value, b: Value, x: Value) -> Value:
    """The regularized one, of positive a and b and x from 0 to 1; operands of one type and shape."""
    zero, one = _scalar(t, 0, x), _scalar(t, 1, x)
    inside = t.op("logical_and", t.op("greater", x, zero), t.op("less", x, one))
    positive = t.op("logical_and", t.op("greater", a, zero), t.op("greater", b, zero))
    plain = t.op("logical_and", inside, positive)
    a0, b0, x0 = (
        t.op("where", plain, v, _scalar(t, c, x)) for v, c in ((a, 1.0), (b, 1.0), (x, 0.5))
    )  # fmt: skip
    # The fraction is short on the side of the peak.
    turned = t.op("greater", x0, t.op("div", _plus(t, a0, 1.0), _plus(t, t.op("add", a0, b0), 2.0)))
    rest = t.op("sub", one, x0)
    p, q = t.op("where", turned, b0, a0), t.op("where", turned, a0, b0)
    y = t.op("where", turned, rest, x0)
    logs = t.op("sub", t.op("lgamma", t.op("add", a0, b0)), t.op("add", t.op("lgamma", a0), t.op("lgamma", b0)))
    powers = t.op("add", t.op("mul", a0, t.op("log", x0)), t.op("mul", b0, t.op("log", rest)))
    value = t.op("div", t.op("mul", t.op("exp", t.op("add", logs, powers)), _fraction(t, p, q, y)), p)
    value = t.op("where", turned, t.op("sub", one, value), value)
    ends = t.op(
        "where", t.op("equal", x, zero), zero, t.op("where", t.op("equal", x, one), one, _scalar(t, math.nan, x))
    )
    value = t.op("where", inside, value, ends)
    return t.op("where", positive, value, _scalar(t, math.nan, x))
