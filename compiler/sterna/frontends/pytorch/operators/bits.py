"""Floating-point numbers by their bits: fraction and exponent, and the neighbour of a number."""

from __future__ import annotations

import math
from typing import NamedTuple

from sterna.frontends.pytorch.promotion import float_type
from sterna.frontends.pytorch.translation import Translation, Translator
from sterna.ir.graph import Value


class _Format(NamedTuple):
    """Of IEEE 754: the bits of the fraction, the bias of the exponent, the integers that are as wide."""

    fraction: int
    bias: int
    integer: str

    @property
    def exponents(self) -> int:
        """The bits of the exponent, all set."""
        return (2 * self.bias + 1) << self.fraction


_FORMATS = {
    "float32": _Format(23, 127, "int32"), "float64": _Format(52, 1023, "int64"), "float16": _Format(10, 15, "int16"),
    "bfloat16": _Format(7, 127, "int16"),
}  # fmt: skip


def fraction_and_exponent(t: Translation) -> tuple[Value, Value]:
    """m and e of x = m 2^e, with m from a half to 1; 0 has the exponent 0, infinities and NaN stay what they are."""
    given = t.floating()
    x = given if given.dtype == "float64" else t.cast(given, "float32")
    form, zero = _FORMATS[x.dtype], t.scalar(0, x.dtype)
    # Numbers below the normal ones are made larger first.
    up = form.fraction + 1
    small = t.op("less", t.op("abs", x), t.scalar(2.0 ** (1 - form.bias), x.dtype))
    wide = t.op("mul", x, t.op("where", small, t.scalar(2.0**up, x.dtype), t.scalar(1, x.dtype)))
    bits = t.op("bit_cast", wide, to=form.integer)
    of_exponent = t.op("bitwise_and", bits, t.scalar(form.exponents, form.integer))
    exponent = t.op("div", of_exponent, t.scalar(1 << form.fraction, form.integer))
    less = t.op("where", small, t.scalar(form.bias - 1 + up, form.integer), t.scalar(form.bias - 1, form.integer))
    half = t.op("bitwise_xor", t.op("bitwise_xor", bits, of_exponent), t.scalar((form.bias - 1) << form.fraction,
                                                                               form.integer))  # fmt: skip
    plain = t.op("equal", t.op("sub", x, x), zero)  # neither infinite nor NaN
    plain = t.op("logical_and", plain, t.op("logical_not", t.op("equal", x, zero)))
    fraction = t.op("where", plain, t.op("bit_cast", half, to=x.dtype), x)
    places = t.op("where", plain, t.op("sub", exponent, less), t.scalar(0, form.integer))
    return t.cast(fraction, given.dtype), t.cast(places, "int32")


def neighbour(t: Translation) -> Value:
    """The number after `self` on the way to `other` (nextafter)."""
    x, y = t.together(t.tensor(), t.tensor("other"))
    shape = t.broadcast(x, y)
    x, y = t.expand(t.cast(x, float_type(x.dtype)), shape), t.expand(t.cast(y, float_type(y.dtype)), shape)
    form, zero = _FORMATS[x.dtype], t.scalar(0, x.dtype)
    bits, one = t.op("bit_cast", x, to=form.integer), t.scalar(1, form.integer)
    below = t.op("less", x, y)
    # The integer of a number grows with its size.
    outward = t.op("equal", below, t.op("greater", x, zero))
    moved = t.op("where", outward, t.op("add", bits, one), t.op("sub", bits, one))
    least = t.op("bit_cast", one, to=x.dtype)
    start = t.op("where", below, least, t.op("neg", least))
    made = t.op("where", t.op("equal", x, zero), start, t.op("bit_cast", moved, to=x.dtype))
    made = t.op("where", t.op("equal", x, y), y, made)
    missing = t.op("logical_or", t.op("is_nan", x), t.op("is_nan", y))
    return t.op("where", missing, t.scalar(math.nan, x.dtype), made)


TRANSLATORS: dict[str, Translator] = {
    "aten.frexp.Tensor": fraction_and_exponent, "aten.nextafter.default": neighbour,
}  # fmt: skip
