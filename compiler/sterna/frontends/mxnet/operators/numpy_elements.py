"""Functions of NumPy's interface on every element, beside those that the older operators have too."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from sterna.frontends import divisors
from sterna.frontends.angles import arc_tangent
from sterna.frontends.log_sums import log_sum_of_two
from sterna.frontends.mxnet.operators.arithmetic import on_scalar, on_two
from sterna.frontends.mxnet.translation import Translation, Translator
from sterna.ir import dtypes
from sterna.ir.graph import Value

Binary = Callable[[Translation, Value, Value], Value]


def _of_floats(function: Binary) -> Binary:
    return lambda t, a, b: function(t, t.floats(a), t.floats(b))


def _with_sign(t: Translation, a: Value, b: Value) -> Value:
    """The sign of -0 is that of 0, as in MXNet."""
    size = t.op("abs", a)
    return t.op("where", t.op("less", b, t.number(0, b)), t.op("neg", size), size)


def _scaled(t: Translation, a: Value, b: Value) -> Value:
    """ldexp: a 2^b."""
    return t.op("mul", a, t.op("pow", t.number(2, a), b))


def _either(operator: str) -> Binary:
    """The larger, or the smaller one; a NaN only where both are."""

    def binary(t: Translation, a: Value, b: Value) -> Value:
        found = t.op(operator, a, b)
        if not dtypes.is_float(a.dtype):
            return found
        return t.op("where", t.op("is_nan", a), b, t.op("where", t.op("is_nan", b), a, found))

    return binary


def _remainder(t: Translation, a: Value, b: Value) -> Value:
    """With the sign of the dividend; 0 by 0."""
    if not dtypes.is_float(a.dtype):
        return t.op("mod", a, b, truncated=True)
    zero = t.number(0, b)
    none = t.op("equal", b, zero)
    return t.op("where", none, zero, t.op("fmod", a, t.op("where", none, t.number(1, b), b), truncated=True))


def _floor_quotient(t: Translation, a: Value, b: Value) -> Value:
    """Rounded down; of integers 0 by 0."""
    if dtypes.is_float(a.dtype):
        return t.op("floor", t.op("div", a, b))
    zero = t.number(0, b)
    none = t.op("equal", b, zero)
    b = t.op("where", none, t.number(1, b), b)
    return t.op("where", none, zero, t.op("div", t.op("sub", a, t.op("mod", a, b)), b))


def _shifted(direction: str) -> Binary:
    return lambda t, a, b: t.op("bit_shift", a, b, direction=direction)


def _of_bits(name: str) -> Binary:
    """Of truths, or of the bits of integers."""
    return lambda t, a, b: t.op(f"{'logical' if a.dtype == 'bool' else 'bitwise'}_{name}", a, b)


def _with_bits(binary: Binary) -> Translator:
    """With the bits of a number, which is a truth beside truths."""
    plain = on_scalar(binary)

    def translate(t: Translation) -> Value | tuple[Value | None, ...]:
        x = t.input(0)
        return binary(t, x, t.scalar(t.said.number("scalar", 0.0) != 0, "bool")) if x.dtype == "bool" else plain(t)

    return translate


#: Name -> what it does, and whether the number of a scalar form may come first, too.
_BINARIES: dict[str, tuple[Binary, bool]] = {
    "arctan2": (_of_floats(arc_tangent), True),
    "bitwise_and": (_of_bits("and"), False),
    "bitwise_left_shift": (_shifted("LEFT"), True),
    "bitwise_or": (_of_bits("or"), False),
    "bitwise_right_shift": (_shifted("RIGHT"), True),
    "bitwise_xor": (_of_bits("xor"), False),
    "copysign": (_of_floats(_with_sign), True),
    "floor_divide": (_floor_quotient, True),
    "fmax": (_either("maximum"), False),
    "fmin": (_either("minimum"), False),
    "fmod": (_remainder, True),
    "gcd": (divisors.greatest_divisor, False),
    "lcm": (divisors.least_multiple, False),
    "ldexp": (_of_floats(_scaled), True),
    "logaddexp": (_of_floats(log_sum_of_two), False),
}


def _infinite(*, positive: bool) -> Translator:
    """Whether elements are one of the infinities."""

    def translate(t: Translation) -> Value:
        x = t.floats(t.input(0))
        return t.op("equal", x, t.number(math.inf if positive else -math.inf, x))

    return translate


def numbers_for_others(t: Translation) -> Value:
    """nan_to_num: other numbers for NaN and the infinities, by default the type's greatest; one after the other, as
    MXNet does, so that an infinite one given for NaN is replaced, too."""
    x = t.input(0)
    if not dtypes.is_float(x.dtype):
        return t.op("identity", x)
    most = float(np.finfo(dtypes.to_numpy(x.dtype)).max)
    y = t.op("where", t.op("is_nan", x), t.number(t.said.number("nan", 0.0), x), x)
    for what, name, default in ((math.inf, "posinf", most), (-math.inf, "neginf", -most)):
        y = t.op("where", t.op("equal", y, t.number(what, x)), t.number(t.said.number(name, default), x), y)
    return y


def close(t: Translation) -> Value:
    """allclose: whether all elements differ by at most atol + rtol |b|."""
    a, b = t.floats(t.input(0)), t.floats(t.input(1))
    bound = t.op("mul", t.op("abs", b), t.number(t.said.finite("rtol", 1e-5), b))
    bound = t.op("add", bound, t.number(t.said.finite("atol", 1e-8), b))
    near = t.op("less_equal", t.op("abs", t.op("sub", a, b)), bound)
    found = t.op("logical_or", t.op("logical_and", near, t.op("logical_not", t.op("is_inf", b))), t.op("equal", a, b))
    if t.said.flag("equal_nan", default=True):
        found = t.op("logical_or", found, t.op("logical_and", t.op("is_nan", a), t.op("is_nan", b)))
    y = t.op("reduce_all", found, axes=tuple(range(found.type.rank)), keep_dims=False)
    return t.cast(y if t.is_numpy else t.reshape(y, [1]), "uint8")


def _named() -> dict[str, Translator]:
    table: dict[str, Translator] = {}
    for name, (binary, turns) in _BINARIES.items():
        scalar = _with_bits(binary) if name in ("bitwise_and", "bitwise_or", "bitwise_xor") else on_scalar(binary)
        table |= {f"_npi_{name}": on_two(binary), f"_npi_{name}_scalar": scalar}
        if turns:
            table[f"_npi_r{name}_scalar"] = on_scalar(binary, turned=True)
    return table


TRANSLATORS: dict[str, Translator] = {
    **_named(),
    "_contrib_allclose": close,
    "_contrib_round_ste": lambda t: t.op("round_away", t.input(0)),
    "_contrib_sign_ste": lambda t: t.op("sign", t.input(0)),
    "_npi_bitwise_not": lambda t: t.op(
        "logical_not" if t.input(0).dtype == "bool" else "bitwise_not", t.input(0)
    ),
    "_npi_isneginf": _infinite(positive=False),
    "_npi_isposinf": _infinite(positive=True),
    "_npi_nan_to_num": numbers_for_others,
}  # fmt: skip
