"""Square roots as arithmetic of integers, correctly rounded, where the processor has no instruction for them.

C's `sqrtf` is a function of libm, which a program for a microcontroller may lack. What comes out here is element-wise
and branch-free, and calls none of the functions that compute with floats where there is no FPU.

A number is m 2^(2 k), where m has two bits or one more than the root. A polynomial of degree 4 and one step of Newton's
give 1 / sqrt(m) to 14 bits, in products of 32 bits; times m that is the root to as many. Each further step adds
r / (2 q), where r = m - q^2 is the remainder of the root so far, q. It is small, so that its lower word is enough, and
no product is wider than the number. The last remainder tells whether q, which is wrong by 1 at most, is the root
rounded to the nearest: q - 1/2 < sqrt(m) < q + 1/2 is -q < r <= q. No root lies halfway between two numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from sterna.ir import dtypes
from sterna.loops.lanewise import bits, cast, comparison, constant, operation, select
from sterna.loops.minimax import FORMATS, Format
from sterna.te.expr import Expr, Unary

#: The bits that each step adds to the 16 of the first root, and by how many bits the reciprocal is too long for its
#: product with a remainder to fit a word.
_STEPS: dict[str, Sequence[tuple[int, int]]] = {"float32": ((8, 4),), "float64": ((13, 0), (13, 0), (11, 0))}
#: Of the polynomial for 1 / sqrt(a), 1 <= a < 4: the coefficient of a^4; then, down to a^0, by how many bits what there
#: is so far, times a with 14 bits behind the point, is too long to be subtracted from the next. The result has 15.
_LEADING = 1948
_FURTHER = ((14, 24522), (15, 60040), (15, 73603), (15, 57312))
_FIRST_BITS = 16


def square_root(node: Unary) -> Expr:
    """The value of a `sqrt` of float32 or float64."""
    x = node.a
    form = FORMATS[x.dtype]
    precision = form.mantissa + 1
    word = bits(x, form.bits)
    mantissa, exponent = _normalized(word, form)
    even = comparison("eq", operation("and", exponent, 1), 0)
    m = select(even, operation("shift_left", mantissa, 2), operation("shift_left", mantissa, 1))
    root = _rounded(m, precision, form)
    # The leading bit of the root adds 1 to the exponent.
    halved = operation("add", operation("shift_right", operation("add", exponent, 1), 1), (form.bias - 1) // 2 - 1)
    value = bits(operation("add", operation("shift_left", bits(halved, form.bits), form.mantissa), root), x.dtype)
    sign = dtypes.highest_bit(form.bits)
    infinity = sign - (1 << form.mantissa)
    # Of what is not positive and finite, zeros, infinity and NaN are their own roots.
    ordinary = comparison("lt", operation("sub", word, 1), infinity - 1)
    return select(ordinary, value, select(comparison("gt", word, sign), constant(math.nan, x), x))


def _normalized(word: Expr, form: Format) -> tuple[Expr, Expr]:
    """The mantissa, with its leading bit, and the exponent as the format biases it: subnormal numbers are shifted by an
    even number of bits, to the length of others or one more."""
    field = operation("shift_right", word, form.mantissa)
    fraction = operation("and", word, (1 << form.mantissa) - 1)
    subnormal = comparison("eq", field, 0)
    mantissa = select(subnormal, fraction, operation("add", fraction, 1 << form.mantissa))
    exponent = bits(select(subnormal, 1.0, field), form.signed)
    shift = 1 << (form.mantissa.bit_length() - 1)
    while shift > 1:
        short = comparison("lt", mantissa, 1 << (form.mantissa + 2 - shift))
        mantissa = select(short, operation("shift_left", mantissa, shift), mantissa)
        exponent = select(short, operation("sub", exponent, shift), exponent)
        shift //= 2
    return mantissa, exponent


def _reciprocal(a: Expr) -> Expr:
    """1 / sqrt(a) with 15 bits behind the point, of an uint32 with 14."""
    y: Expr = constant(_LEADING, a)
    for shift, coefficient in _FURTHER:
        y = operation("sub", constant(coefficient, a), operation("shift_right", operation("mul", y, a), shift))
    square = operation("shift_right", operation("mul", y, y), 15)
    # Newton: y (3 - a y^2) / 2
    factor = operation("shift_right", operation("sub", constant(3 << 29, a), operation("mul", square, a)), 15)
    return _shortened(operation("mul", y, factor), 15)


def _shortened(a: Expr, count: int) -> Expr:
    """Without so many of its last bits, rounded."""
    return operation("shift_right", operation("add", a, 1 << (count - 1)), count) if count else a


def _rounded(m: Expr, precision: int, form: Format) -> Expr:
    """The integer next to sqrt(m 2^(precision - 2)), which has that many bits, of an m of one or two more."""
    a = cast(operation("shift_right", m, precision + 2 - _FIRST_BITS), "uint32")
    reciprocal = _reciprocal(a)
    root = cast(_shortened(operation("mul", a, reciprocal), 14), form.bits)
    length = _FIRST_BITS
    for added, excess in _STEPS[form.dtype]:
        factor = cast(_shortened(reciprocal, excess), form.signed)
        remainder = _remainder(m, root, precision - 2 - 2 * (precision - length), form)
        change = _shortened(operation("mul", remainder, factor), 15 + length - added - excess)
        root = operation("add", operation("shift_left", root, added), bits(change, form.bits))
        length += added
    remainder, signed = _remainder(m, root, precision - 2, form), bits(root, form.signed)
    above = select(comparison("gt", remainder, signed), operation("add", root, 1), root)
    low = comparison("le", operation("add", remainder, signed), 0)
    return select(low, operation("sub", root, 1), above)


def _remainder(m: Expr, root: Expr, shift: int, form: Format) -> Expr:
    """m 2^shift less the root's square, which is known to fit a word with a sign."""
    whole = operation("shift_left", m, shift) if shift >= 0 else operation("shift_right", m, -shift)
    return bits(operation("sub", whole, operation("mul", root, root)), form.signed)
