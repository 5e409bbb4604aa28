"""Integer quotients and remainders of vectors, which no machine divides, by float division that is exact.

The correctly rounded quotient of two whole numbers a and b that a float type holds is never on the other side of a
whole number than a / b, as long as |a| + |b| is below the inverse of the type's rounding error: a / b, where it is not
whole, is at least 1 / |b| away from the next one. So float32 serves for 8 and 16 bits, float64 for 32. (Products with
reciprocals in float32, corrected, take as long for 32 bits.) For 64 bits a first quotient by a reciprocal is wrong by a
few thousands at most, a second one, of what the first leaves, by one.

A whole number becomes an integer of any width by adding 1.5 * 2**m, where m is the number of the mantissa's bits: the
number then stands in the lowest bits. That wraps, as integers do, and needs no conversion that clamps.
"""

from __future__ import annotations

from sterna.ir import dtypes
from sterna.loops.lanewise import bits, cast, comparison, constant, fma, operation, select, unary
from sterna.loops.minimax import FLOAT32, FLOAT64, Format
from sterna.te import expr as E
from sterna.te.expr import Expr

_FORMS = {8: FLOAT32, 16: FLOAT32, 32: FLOAT64}


def divide_by_floats(node: E.Binary) -> Expr:
    """The quotient (`div`: toward zero; `floor_div`), or the remainder of `floor_div`; by zero each is 0, as everywhere
    in Sterna, and what overflows wraps."""
    size = dtypes.bits(node.dtype)
    divided = _of_long(node.op, node.a, node.b) if size == 64 else _at_once(node.op, node.a, node.b, _FORMS[size])
    return select(comparison("eq", node.b, 0), 0, divided)


def _at_once(op: str, a: Expr, b: Expr, form: Format) -> Expr:
    x, y = cast(a, form.dtype), cast(b, form.dtype)
    whole = unary("trunc" if op == "div" else "floor", operation("div", x, y))
    # A remainder is computed where it takes the narrower vectors.
    by_floats = op == "mod" and form is FLOAT32
    value = fma(unary("neg", whole), y, x) if by_floats else whole
    result = cast(bits(operation("add", value, form.magic), form.bits), a.dtype)
    return operation("sub", a, operation("mul", result, b)) if op == "mod" and not by_floats else result


def _of_long(op: str, a: Expr, b: Expr) -> Expr:
    """Of the magnitudes, without signs; what is negative there is below zero in the signed type."""
    form, signed = FLOAT64, dtypes.is_signed(a.dtype)
    x, y = (cast(unary("abs", v) if signed else v, form.bits) for v in (a, b))
    # Of a signed type, floats are made as its machines make them; the magnitude of the least number is right, too.
    p, q = (unary("abs", cast(v, form.dtype)) if signed else cast(v, form.dtype) for v in (a, b))
    inverse = operation("div", constant(1.0, q), q)
    quotient = cast(cast(unary("rint", operation("mul", p, inverse)), a.dtype), form.bits)
    rest = operation("sub", x, operation("mul", quotient, y))
    # A few thousands of the divisor at most, to the nearest.
    magic = constant(form.magic, q)
    shifted = fma(cast(cast(rest, form.signed), form.dtype), inverse, magic)
    more = operation("sub", bits(shifted, form.bits), bits(magic, form.bits))
    quotient = operation("add", quotient, more)
    rest = operation("sub", rest, operation("mul", more, y))
    below = comparison("lt", cast(rest, form.signed), 0)
    quotient = select(below, operation("sub", quotient, 1), quotient)
    rest = select(below, operation("add", rest, y), rest)
    if not signed:
        # Half of such a divisor does not fit where rests have a sign.
        huge, once = comparison("lt", cast(y, form.signed), 0), comparison("ge", x, y)
        quotient = select(huge, select(once, 1, constant(0, x)), quotient)
        rest = select(huge, select(once, operation("sub", x, y), x), rest)
        return rest if op == "mod" else quotient
    unlike = comparison("lt", operation("xor", a, b), 0)
    uneven = operation("and", unlike, comparison("ne", rest, 0))
    if op == "mod":
        rest = cast(select(uneven, operation("sub", y, rest), rest), a.dtype)
        return select(comparison("lt", b, 0), unary("neg", rest), rest)
    if op == "floor_div":
        quotient = select(uneven, operation("add", quotient, 1), quotient)
    return cast(select(unlike, operation("sub", constant(0, quotient), quotient), quotient), a.dtype)
