"""Functions of keras.ops on every element, beside those in `operations`."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from sterna.frontends import divisors, special
from sterna.frontends.keras.layers.arguments import option, tensor, two_operands
from sterna.frontends.keras.translation import Translation, Translator
from sterna.frontends.log_sums import log_sum_of_two
from sterna.ir import dtypes
from sterna.ir.graph import Value


def real(t: Translation, x: Value) -> Value:
    """Integers as the floats that Keras makes of them."""
    return x if dtypes.is_float(x.dtype) else t.cast(x, "float32")


def _floats(t: Translation) -> tuple[Value, Value]:
    first, second = two_operands(t)
    return real(t, first), real(t, second)


def _of_float(make: Callable[[Translation, Value], Value]) -> Translator:
    return lambda t: make(t, real(t, t.x))


def _full(t: Translation, value: float) -> Value:
    dtype = option(t, 1, "dtype", None)
    return t.op("expand", t.scalar(value, str(dtype or t.x.dtype)), shape=t.x.shape)


def _full_like(t: Translation) -> Value:
    dtype = str(option(t, 2, "dtype", None) or t.x.dtype)
    return t.op("expand", t.cast(tensor(t, option(t, 1, "fill_value", 0), t.x), dtype), shape=t.x.shape)


def _infinite(t: Translation, sign: int = 0) -> Value:
    x = real(t, t.x)
    if not sign:
        return t.op("is_inf", x)
    return t.op("equal", x, t.scalar(sign * math.inf, x.dtype))


def _finite(t: Translation) -> Value:
    x = real(t, t.x)
    return t.op("logical_not", t.op("logical_or", t.op("is_nan", x), t.op("is_inf", x)))


def _close(t: Translation) -> Value:
    a, b = _floats(t)
    relative, absolute = float(option(t, 2, "rtol", 1e-5)), float(option(t, 3, "atol", 1e-8))
    bound = t.shifted(t.scaled(t.op("abs", b), relative), absolute)
    near = t.op("less_equal", t.op("abs", t.op("sub", a, b)), bound)
    near = t.op("logical_and", near, t.op("logical_not", t.op("is_inf", b)))
    found = t.op("logical_or", near, t.op("equal", a, b))
    if not option(t, 4, "equal_nan", False):
        return found
    return t.op("logical_or", found, t.op("logical_and", t.op("is_nan", a), t.op("is_nan", b)))


def _all_close(t: Translation) -> Value:
    return t.op("reduce_all", found := _close(t), axes=tuple(range(found.type.rank)), keep_dims=False)


def _trunc(t: Translation, x: Value) -> Value:
    return t.op("mul", t.op("sign", x), t.op("floor", t.op("abs", x)))


def _heaviside(t: Translation) -> Value:
    x, at_zero = _floats(t)
    zero = t.scalar(0, x.dtype)
    step = t.op("where", t.op("is_nan", x), x, t.cast(t.op("greater", x, zero), x.dtype))
    return t.op("where", t.op("equal", x, zero), at_zero, step)


def _nan_to_num(t: Translation) -> Value:
    x = t.x
    if not dtypes.is_float(x.dtype):
        return x
    most = float(np.finfo(dtypes.to_numpy(x.dtype)).max) if x.dtype != "bfloat16" else 2.0**127 * (2 - 2.0**-7)
    for what, key, default in (("nan", "nan", 0.0), (math.inf, "posinf", most), (-math.inf, "neginf", -most)):
        position = ("nan", "posinf", "neginf").index(key) + 1
        new = option(t, position, key, None)
        hit = t.op("is_nan", x) if what == "nan" else t.op("equal", x, t.scalar(what, x.dtype))
        x = t.op("where", hit, t.scalar(default if new is None else float(new), x.dtype), x)
    return x


def _divide_no_nan(t: Translation) -> Value:
    a, b = _floats(t)
    zero = t.scalar(0, a.dtype)
    none = t.op("equal", b, zero)
    return t.op("where", none, zero, t.op("div", a, t.op("where", none, t.scalar(1, a.dtype), b)))


def _remainder_of_c(t: Translation) -> Value:
    """With the sign of the dividend."""
    return t.standard("Mod", *two_operands(t), fmod=1)


def _floor_divide(t: Translation) -> Value:
    a, b = two_operands(t)
    if dtypes.is_float(a.dtype):
        return t.op("floor", t.op("div", a, b))
    return t.standard("Div", t.op("sub", a, t.op("mod", a, b)), b)


def _cbrt(t: Translation, x: Value) -> Value:
    root = t.op("pow", t.op("abs", x), t.scalar(1 / 3, x.dtype))
    return t.op("mul", t.op("sign", x), root)


def _hypot(t: Translation) -> Value:
    """Scaled by the larger operand, so that no square overflows."""
    a, b = (t.op("abs", each) for each in _floats(t))
    high, low = t.op("maximum", a, b), t.op("minimum", a, b)
    zero = t.scalar(0, a.dtype)
    share = t.op("div", low, t.op("where", t.op("equal", high, zero), t.scalar(1, a.dtype), high))
    length = t.op("mul", high, t.op("sqrt", t.shifted(t.op("mul", share, share), 1.0)))
    return t.op("where", t.op("equal", high, t.scalar(math.inf, a.dtype)), high, length)


def _log_add(t: Translation, base: float = math.e) -> Value:
    a, b = _floats(t)
    factor = math.log(base)
    if factor == 1.0:
        return log_sum_of_two(t, a, b)
    return t.scaled(log_sum_of_two(t, t.scaled(a, factor), t.scaled(b, factor)), 1 / factor)


def _ldexp(t: Translation) -> Value:
    a, b = _floats(t)
    return t.op("mul", a, t.op("pow", t.scalar(2.0, a.dtype), b))


def _numbers(operator: str) -> Translator:
    """The larger, or the smaller one; a NaN only where both are."""

    def translate(t: Translation) -> Value:
        a, b = two_operands(t)
        if not dtypes.is_float(a.dtype):
            return t.op(operator, a, b)
        found = t.op("where", t.op("is_nan", b), a, t.op(operator, a, b))
        return t.op("where", t.op("is_nan", a), b, found)

    return translate


def _bits(operator: str) -> Translator:
    return lambda t: t.op(operator, *two_operands(t))


def _shift(to_left: bool) -> Translator:
    return lambda t: t.op("bit_shift", *two_operands(t), direction="LEFT" if to_left else "RIGHT")


def _signbit(t: Translation) -> Value:
    """Also of -0."""
    x = t.x
    negative = t.op("less", x, t.scalar(0, x.dtype))
    if not dtypes.is_float(x.dtype):
        return negative
    below = t.op("less", t.op("reciprocal", x), t.scalar(0, x.dtype))
    return t.op("logical_or", negative, t.op("logical_and", t.op("equal", x, t.scalar(0, x.dtype)), below))


def _saturated(t: Translation) -> Value:
    """Numbers outside of the type become its least and greatest."""
    dtype, x = str(option(t, 1, "dtype", "float32")), t.x
    if dtypes.is_float(dtype) or dtype == "bool":
        return t.cast(x, dtype)
    bounds = np.iinfo(dtype)
    if not dtypes.is_float(x.dtype):
        own = np.iinfo(x.dtype) if x.dtype != "bool" else np.iinfo("int8")
        low, high = max(bounds.min, own.min), min(bounds.max, own.max)
        return t.cast(t.op("minimum", t.op("maximum", x, t.scalar(low, x.dtype)), t.scalar(high, x.dtype)), dtype)
    return t.cast(t.op("clip", x, min=float(bounds.min), max=float(bounds.max)), dtype)


def _threshold(t: Translation) -> Value:
    x, limit, default = t.x, float(option(t, 1, "threshold", 0.0)), float(option(t, 2, "default_value", 0.0))
    return t.op("where", t.op("greater", x, t.scalar(limit, x.dtype)), x, t.scalar(default, x.dtype))


def _erfc(t: Translation, x: Value) -> Value:
    return t.op("sub", t.scalar(1.0, x.dtype), t.op("erf", x))


def _bessel(t: Translation, x: Value) -> Value:
    return t.op("mul", t.op("bessel_i0e", x), t.op("exp", t.op("abs", x)))


def _imaginary(t: Translation) -> Value:
    return t.op("expand", t.scalar(0, t.x.dtype), shape=t.x.shape)


OPERATIONS: dict[str, Translator] = {
    "all_close": _all_close,
    "bitwise_and": _bits("bitwise_and"),
    "bitwise_invert": lambda t: t.op("bitwise_not", t.x),
    "bitwise_left_shift": _shift(True),
    "bitwise_not": lambda t: t.op("bitwise_not", t.x),
    "bitwise_or": _bits("bitwise_or"),
    "bitwise_right_shift": _shift(False),
    "bitwise_xor": _bits("bitwise_xor"),
    "cbrt": _of_float(_cbrt),
    "conj": lambda t: t.x,
    "conjugate": lambda t: t.x,
    "copy": lambda t: t.x,
    "deg2rad": _of_float(lambda t, x: t.scaled(x, math.pi / 180)),
    "divide_no_nan": _divide_no_nan,
    "empty_like": lambda t: _full(t, 0),
    "erfc": _of_float(_erfc),
    "erfinv": _of_float(lambda t, x: t.op("erfinv", x)),
    "exp2": _of_float(lambda t, x: t.op("pow", t.scalar(2.0, x.dtype), x)),
    "fabs": _of_float(lambda t, x: t.op("abs", x)),
    "fmax": _numbers("maximum"),
    "floor_divide": _floor_divide,
    "fmin": _numbers("minimum"),
    "fmod": _remainder_of_c,
    "full_like": _full_like,
    "gcd": lambda t: divisors.greatest_divisor(t, *two_operands(t)),
    "heaviside": _heaviside,
    "hypot": _hypot,
    "i0": _of_float(_bessel),
    "imag": _imaginary,
    "isclose": _close,
    "isfinite": _finite,
    "isinf": _infinite,
    "isneginf": lambda t: _infinite(t, -1),
    "isposinf": lambda t: _infinite(t, 1),
    "isreal": lambda t: t.op("expand", t.scalar(True, "bool"), shape=t.x.shape),
    "lcm": lambda t: divisors.least_multiple(t, *two_operands(t)),
    "ldexp": _ldexp,
    "left_shift": _shift(True),
    "logical_not": lambda t: t.op("logical_not", t.cast(t.x, "bool")),
    "logaddexp": _log_add,
    "logaddexp2": lambda t: _log_add(t, 2.0),
    "nan_to_num": _nan_to_num,
    "ones_like": lambda t: _full(t, 1),
    "rad2deg": _of_float(lambda t, x: t.scaled(x, 180 / math.pi)),
    "real": lambda t: t.x,
    "right_shift": _shift(False),
    "saturate_cast": _saturated,
    "signbit": _signbit,
    "sinc": _of_float(lambda t, x: special.sine_quotient(t, t.scaled(x, math.pi))),
    "threshold": _threshold,
    "trunc": _of_float(_trunc),
    "zeros_like": lambda t: _full(t, 0),
}
