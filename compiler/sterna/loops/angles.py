"""Multiples of pi taken off float32 by integers, for processors whose float64 is slow or missing: GPUs.

The method is Payne and Hanek's (Radian Reduction for Trigonometric Functions, 1983): |x| / pi modulo 2 is a fraction
of 64 bits, the product of the 24 bits of x and as many bits of 1 / pi as its exponent leaves. It is exact to 2**-62.
No float32 from 1/2 to 2**31 is nearer to a multiple of pi / 2 than 2**-28.5 times that.
"""

from __future__ import annotations

from sterna.loops.lanewise import bits, cast, comparison, constant, fma, operation, select, unary
from sterna.te.expr import Expr

#: floor(2**94 / pi), its lowest 32 bits first: what a number of less than 2**31 is multiplied by.
_INVERSE = (0x3F84EAFA, 0xC9C882A5, 0x145F306D)
#: pi / 2**64, in two parts.
_PI = (float.fromhex("0x1.921fb60000000p-63"), float.fromhex("-0x1.777a5c0000000p-88"))


def reduced(x: Expr, cosine: bool) -> tuple[Expr, Expr]:
    """r in [-pi / 2, pi / 2], and a number of 32 bits: sin(r) is the sine of |x|, or its cosine, where that is 0, and
    -sin(r) where it is 1.

    Args:
        x: float32, of less than 2**31.
    """
    word = operation("and", bits(x, "uint32"), 0x7FFFFFFF)
    exponent = operation("shift_right", word, 23)
    # 32 bits of the number, which lie up to 31 places below 2**31. What is below 2**-32 is cut off: it counts in sines
    # alone, and those of less than 1/2 are not reduced.
    places = operation("sub", constant(157, exponent), exponent)
    mantissa = operation("shift_left", operation("or", operation("and", word, 0x7FFFFF), 0x800000), 8)
    small = comparison("lt", exponent, 126)
    mantissa = select(small, _shifted(mantissa, operation("sub", constant(126, exponent), exponent)), mantissa)
    places = cast(select(small, constant(31, places), places), "uint64")
    factor = cast(mantissa, "uint64")
    low, middle, high = (operation("mul", factor, _word(n, places)) for n in range(len(_INVERSE)))
    turns = operation("add", operation("shift_right", low, 32), middle)
    turns = operation("add", turns, operation("shift_left", high, 32))
    # The highest bit says whether the multiple of pi is odd, all others what is left; to the nearest, with a half more
    # for the cosine, as cos(x) = sin(x + pi / 2).
    if cosine:
        turns = operation("add", turns, 1 << 62)
    odd = operation("shift_right", operation("add", turns, 1 << 62), 63)
    left = cast(bits(operation("shift_left", turns, 1), "int64"), "float32")
    r = fma(left, _PI[0], operation("mul", left, _PI[1]))
    if not cosine:
        r = select(small, unary("abs", x), r)
    return r, cast(odd, "uint32")


def _shifted(word: Expr, places: Expr) -> Expr:
    """A word shifted to the right, by any number of places."""
    far = comparison("gt", places, 31)
    return select(far, constant(0, word), operation("shift_right", word, select(far, constant(0, places), places)))


def _word(n: int, places: Expr) -> Expr:
    """The n-th 32 bits of 1 / pi, after a shift to the right by up to 31 places."""
    above = _INVERSE[n + 1] if n + 1 < len(_INVERSE) else 0
    shifted = operation("shift_right", constant(above << 32 | _INVERSE[n], places), places)
    return operation("and", shifted, 0xFFFFFFFF)
