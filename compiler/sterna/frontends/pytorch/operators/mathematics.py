"""Functions of mathematics that are made of others."""

from __future__ import annotations

import math

from sterna.errors import error
from sterna.frontends import special
from sterna.frontends.angles import arc_tangent
from sterna.frontends.emitter import MOST_TAPS, Emitter
from sterna.frontends.incomplete_gamma import incomplete_gamma
from sterna.frontends.log_sums import log_sum_of_two
from sterna.frontends.pytorch.operators.comparisons import is_negative
from sterna.frontends.pytorch.translation import Translation, Translator
from sterna.ir import dtypes
from sterna.ir.graph import Value


def _number(t: Translation, value: float, like: Value) -> Value:
    return t.scalar(value, like.dtype)


def _plain(operator: str) -> Translator:
    return lambda t: t.op(operator, t.floating())


def scaled_log(factor: float) -> Translator:
    def translate(t: Translation) -> Value:
        y = t.op("log", t.floating())
        return t.op("mul", y, _number(t, factor, y))

    return translate


def exp2(t: Translation) -> Value:
    x = t.floating()
    return t.op("exp", t.op("mul", x, _number(t, math.log(2), x)))


def erfc(t: Translation) -> Value:
    y = t.op("erf", t.floating())
    return t.op("sub", _number(t, 1, y), y)


def atan2(t: Translation) -> Value:
    """The angle of the point (other, self)."""
    return arc_tangent(t, *t.together(t.operand("self"), t.operand("other"), floats=True))


def hypot(t: Translation) -> Value:
    a, b = t.together(t.operand("self"), t.operand("other"), floats=True)
    return t.op("sqrt", t.op("add", t.op("mul", a, a), t.op("mul", b, b)))


def log_add_exp(t: Translation) -> Value:
    return log_sum_of_two(t, *t.together(t.operand("self"), t.operand("other"), floats=True))


def log_add_exp2(t: Translation) -> Value:
    """log2(2^a + 2^b)."""
    operands = t.together(t.operand("self"), t.operand("other"), floats=True)
    a, b = (t.op("mul", x, _number(t, math.log(2), x)) for x in operands)
    return t.op("mul", log_sum_of_two(t, a, b), _number(t, 1 / math.log(2), a))


def scaled_by_power(t: Translation) -> Value:
    """a 2^b (ldexp)."""
    a, b = t.together(t.operand("self"), t.operand("other"), floats=True)
    return t.op("mul", a, t.op("pow", _number(t, 2, b), b))


def angle(t: Translation) -> Value:
    """Of real numbers: 0, or pi where they are negative."""
    x = t.floating()
    turned = t.op("where", t.op("less", x, _number(t, 0, x)), _number(t, math.pi, x), _number(t, 0, x))
    return t.op("where", t.op("is_nan", x), x, turned)


def xlogy(t: Translation) -> Value:
    a, b = t.together(t.operand("self"), t.operand("other"), floats=True)
    zero = t.op("logical_and", t.op("equal", a, _number(t, 0, a)), t.op("logical_not", t.op("is_nan", b)))
    return t.op("where", zero, _number(t, 0, a), t.op("mul", a, t.op("log", b)))


def logit(t: Translation) -> Value:
    x = t.floating()
    if t.arg("eps") is not None:
        eps = t.number("eps")
        low = _number(t, eps, x)
        x = t.op("where", t.op("less", x, low), low, t.op("minimum", x, _number(t, 1 - eps, x)))
    return t.op("log", t.op("div", x, t.op("sub", _number(t, 1, x), x)))


def sinc(t: Translation) -> Value:
    x = t.floating()
    zero = t.op("equal", x, _number(t, 0, x))
    angle = t.op("mul", t.op("where", zero, _number(t, 1, x), x), _number(t, math.pi, x))
    return t.op("where", zero, _number(t, 1, x), t.op("div", t.op("sin", angle), angle))


def scaled(factor: float) -> Translator:
    def translate(t: Translation) -> Value:
        x = t.floating()
        return t.op("mul", x, _number(t, factor, x))

    return translate


def copysign(t: Translation) -> Value:
    a, b = t.together(t.operand("self"), t.operand("other"), floats=True)
    size = t.op("abs", a)
    return t.op("where", is_negative(t, b), t.op("neg", size), size)


def heaviside(t: Translation) -> Value:
    x, values = t.together(t.tensor("self"), t.tensor("values"))
    if x.dtype == "bool":
        return t.op("logical_or", x, values)
    zero = _number(t, 0, x)
    step = t.cast(t.op("greater", x, zero), x.dtype)
    return t.op("where", t.op("equal", x, zero), values, step)


def _of_floats(function: special.Function) -> Translator:
    """Some of these overloads call their operand `x`."""
    return lambda t: _in_single(t, t.floating("x" if "x" in t.arguments else "self"), function)


def _in_single(t: Emitter, x: Value, function: special.Function) -> Value:
    """In float32 where there are 16 bits: what is between leaves their range."""
    return t.cast(function(t, t.cast(x, "float32")), x.dtype) if x.dtype in dtypes.HALVES else function(t, x)


def polygamma(t: Translation) -> Value:
    n = t.arg("n")

    def of(t: Emitter, x: Value) -> Value:
        if n == 1:
            return special.trigamma(t, x)
        return special.polygamma_of_order(t, int(n), x) if n else t.op("digamma", x)

    return _in_single(t, t.floating(), of)


def multivariate_lgamma(t: Translation) -> Value:
    p = t.integer("p")
    if not 1 <= p <= MOST_TAPS:
        raise error("E0109", f"{t.kind} of the dimension {p}")
    return special.multivariate_lgamma(t, t.floating(), p)


def xlog1py(t: Translation) -> Value:
    """x log(1 + y); 0 where x is 0 and y a number."""
    x, y = t.together(t.operand("self"), t.operand("other"), floats=True)
    zero = _number(t, 0, x)
    none = t.op("logical_and", t.op("equal", x, zero), t.op("logical_not", t.op("is_nan", y)))
    return t.op("where", none, zero, t.op("mul", x, t.op("log1p", y)))


def zeta(t: Translation) -> Value:
    return t.op("zeta", *t.together(t.operand("self"), t.operand("other"), floats=True))


def _incomplete_gamma(upper: bool) -> Translator:
    def translate(t: Translation) -> Value:
        a, x = t.together(t.tensor(), t.tensor("other"), floats=True)
        shape = t.broadcast(a, x)
        return incomplete_gamma(t, t.expand(a, shape), t.expand(x, shape), upper)

    return translate


_SPECIAL: dict[str, special.Function] = {
    **dict.fromkeys(("lgamma", "special_gammaln"), special.core("lgamma")),
    **dict.fromkeys(("digamma", "special_digamma", "special_psi"), special.core("digamma")),
    **dict.fromkeys(("erfinv", "special_erfinv"), special.core("erfinv")),
    **dict.fromkeys(("i0", "special_i0", "special_modified_bessel_i0"), special.grown("bessel_i0e")),
    **dict.fromkeys(("special_i1", "special_modified_bessel_i1"), special.grown("bessel_i1e")),
    "special_i0e": special.core("bessel_i0e"), "special_i1e": special.core("bessel_i1e"),
    **{f"special_bessel_{name}": special.core(f"bessel_{name}") for name in ("j0", "j1", "y0", "y1")},
    **{f"special_modified_bessel_{name}": special.decayed(f"bessel_{name}e") for name in ("k0", "k1")},
    **{f"special_scaled_modified_bessel_{name}": special.core(f"bessel_{name}e") for name in ("k0", "k1")},
    "special_spherical_bessel_j0": special.sine_quotient, "special_entr": special.entropy,
    "special_ndtr": special.normal_distribution, "special_log_ndtr": special.log_normal_distribution,
    "special_ndtri": special.core("ndtri"), "special_erfcx": special.scaled_erfc,
}  # fmt: skip

TRANSLATORS: dict[str, Translator] = {
    **{f"aten.{name}.default": _of_floats(function) for name, function in _SPECIAL.items()},
    **dict.fromkeys(("aten.polygamma.default", "aten.special_polygamma.default"), polygamma),
    **dict.fromkeys(("aten.mvlgamma.default", "aten.special_multigammaln.default"), multivariate_lgamma),
    **{f"aten.special_xlog1py.{overload}": xlog1py for overload in ("default", "other_scalar", "self_scalar")},
    **{f"aten.special_zeta.{overload}": zeta for overload in ("default", "other_scalar", "self_scalar")},
    **{
        f"aten.{name}.default": function
        for name, function in {
            **{f"{prefix}{name}": _plain(name) for name in ("expm1", "log1p") for prefix in ("", "special_")},
            "log2": scaled_log(1 / math.log(2)), "log10": scaled_log(1 / math.log(10)), "exp2": exp2,
            "special_exp2": exp2, "erfc": erfc, "special_erfc": erfc, "atan2": atan2, "arctan2": atan2,
            "hypot": hypot, "logaddexp": log_add_exp, "logaddexp2": log_add_exp2, "angle": angle,
            "logit": logit, "special_logit": logit, "sinc": sinc,
            "special_sinc": sinc, "deg2rad": scaled(math.pi / 180), "rad2deg": scaled(180 / math.pi),
            "heaviside": heaviside,
        }.items()
    },
    **{f"aten.{name}.{overload}": xlogy for name in ("xlogy", "special_xlogy")
       for overload in ("Tensor", "Scalar_Other", "Scalar_Self", "default", "other_scalar", "self_scalar")},
    **dict.fromkeys(("aten.igamma.default", "aten.special_gammainc.default"), _incomplete_gamma(False)),
    **dict.fromkeys(("aten.igammac.default", "aten.special_gammaincc.default"), _incomplete_gamma(True)),
    "aten.ldexp.Tensor": scaled_by_power, "aten.copysign.Tensor": copysign, "aten.copysign.Scalar": copysign,
}  # fmt: skip
