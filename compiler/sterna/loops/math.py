"""Elementary functions as arithmetic: the nodes of `expr.MATH` become additions, multiplications and bit tricks.

What comes out is element-wise and branch-free, so it vectorizes, and it is the same in every code generator and in the
interpreter: a result does not depend on the libm of the machine. Nothing relies on `Fma` being rounded once.

The methods are those of J.-M. Muller, "Elementary Functions" and "Handbook of Floating-Point Arithmetic": reduction of
the argument by a multiple of ln 2 or pi that is subtracted in parts short enough for exact products (Cody and Waite),
then a minimax polynomial (`loops.minimax`). Rounding to the nearest integer is adding and subtracting 1.5 * 2**23: in
between, that integer stands in the low bits, so a power of two is built without a conversion.

Clamping is written as `select(x < limit, limit, x)`, which lets a NaN pass and is one instruction on most machines.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sterna.ir import dtypes
from sterna.loops import pairs
from sterna.loops.angles import reduced
from sterna.loops.lanewise import bits as _bits
from sterna.loops.lanewise import cast as _cast
from sterna.loops.lanewise import comparison as _test
from sterna.loops.lanewise import constant as _const
from sterna.loops.lanewise import fma as _fma
from sterna.loops.lanewise import operation as _op
from sterna.loops.lanewise import power_of_two as _power_of_two
from sterna.loops.lanewise import select as _select
from sterna.loops.lanewise import unary as _unary
from sterna.loops.minimax import EXP2_LONG, EXP2_SHORT, FLOAT64, FORMATS, LOG2_LONG, LOG2_SHORT, Format
from sterna.te import expr as E
from sterna.te.expr import Expr
from sterna.te.operations import rounded_to_tf32

#: Greatest error of each function on float32, in units in the last place of the result, over the whole range, whether
#: `Fma` is rounded once or twice. (Once: exp 0.9, log 0.95, tanh 2.6, erf 1.85, sigmoid 2.5, sin and cos 1.75, by
#: integers 2.2, pow by pairs 0.9.)
#:
#: exp flushes results below sqrt(2) * 2**-126 to zero, sigmoid those below 2**-128. sin and cos take finite arguments
#: beyond 2**31 for zero. pow follows IEEE 754's rules for zeros, infinities and signs.
MATH_ERROR_ULP: dict[str, float] = {
    "exp": 1.2,
    "expm1": 1.6,
    "log": 1.0,
    "log1p": 1.5,
    "tanh": 2.7,
    "erf": 2.1,
    "sigmoid": 2.5,
    "sin": 2.1,
    "cos": 2.1,
    "sin, by integers": 2.7,
    "cos, by integers": 2.7,
    "pow": 0.51,
    "pow, by pairs": 1.2,
}
#: The same for float64, where sin and cos take arguments beyond 2**20 for zero and exp, sigmoid and pow flush subnormal
#: results. The error of pow grows with the magnitude of the result's logarithm to that of 2**1024.
MATH_ERROR_ULP_FLOAT64: dict[str, float] = {
    "exp": 1.5,
    "expm1": 2.0,
    "log": 1.5,
    "log1p": 1.7,
    "tanh": 3.0,
    "erf": 3.0,
    "sigmoid": 3.0,
    "sin": 2.5,
    "cos": 2.5,
    "pow": 1024.0,
}


def expand_math(expr: Expr, doubles: bool = True) -> Expr:
    """The expression with every `expr.MATH` node expanded; float16 and bfloat16 are computed in float32.

    Args:
        expr: of any number of lanes; constants that come in have as many as the operand they meet.
        doubles: whether float64 helps with float32: multiples of pi are taken off in it, else by integers, and
            logarithms of powers are in it, else pairs of numbers.
    """

    def rule(node: Expr) -> Expr | None:
        if isinstance(node, E.Unary) and node.op in _UNARY:
            if isinstance(node.a, E.Const):
                return _folded(node, node.a.value)
            function = _UNARY[node.op] if doubles else _BY_INTEGERS.get(node.op, _UNARY[node.op])
            return _in_wide(node.a, node.dtype, function)
        if isinstance(node, E.Binary) and node.op == "pow":
            if isinstance(node.a, E.Const) and isinstance(node.b, E.Const) and dtypes.is_float(node.dtype):
                return _folded(node, node.a.value, node.b.value)
            if isinstance(node.b, E.Const) and (power := _small_power(node.a, node.b.value)) is not None:
                return power
            if dtypes.is_integer(node.dtype):
                return _integer_power(node.a, node.b)
            y = node.b
            return _in_wide(node.a, node.dtype, lambda x: _power(x, _cast(y, x.dtype), doubles))
        return None

    return E.rewrite(E.rewrite(expr, _one_and_tanh), rule)


def _one_and_tanh(node: Expr) -> Expr | None:
    """1 + tanh(x), as in GELU, by way of 2 / (1 + exp(-2 x)): in fewer steps, and with all digits where tanh is
    near -1."""
    if not (isinstance(node, E.Binary) and node.op == "add" and node.dtype in FORMATS):
        return None
    for one, other in ((node.a, node.b), (node.b, node.a)):
        if isinstance(one, E.Const) and one.value == 1 and isinstance(other, E.Unary) and other.op == "tanh":
            e = _unary("exp", _twice_negated(other.a))
            return _op("div", _const(2.0, e), _op("add", e, 1.0))
    return None


def _twice_negated(x: Expr) -> Expr:
    """-2 x, exactly, by way of x's own constant factor if it has one."""
    if isinstance(x, E.Binary) and x.op == "mul":
        for a, b in ((x.a, x.b), (x.b, x.a)):
            if isinstance(a, E.Const) and abs(a.value) < 2.0**100:
                return _op("mul", b, -2 * a.value)
    return _op("mul", x, -2.0)


def _in_wide(a: Expr, dtype: str, function: Callable[[Expr], Expr]) -> Expr:
    wide = dtype if dtype in ("float32", "float64") else "float32"
    return _cast(function(_cast(a, wide)), dtype)


def _folded(node: E.Unary | E.Binary, *operands: float) -> Expr:
    """The value for constant operands, by NumPy in float64, rounded once."""
    functions: dict[str, Callable[..., Any]] = {
        "sigmoid": lambda x: np.exp(-np.logaddexp(0.0, -x)),
        "erf": math.erf,
        "pow": np.power,
        "tf32": rounded_to_tf32,
    }
    function = functions.get(node.op) or getattr(np, node.op)
    with np.errstate(all="ignore"):
        return E.const(function(*map(np.float64, operands)), node.dtype).changed(lanes=node.lanes)


def _clamp(x: Expr, lo: float | None, hi: float | None) -> Expr:
    if lo is not None:
        x = _select(_test("lt", x, lo), lo, x)
    if hi is not None:
        x = _select(_test("gt", x, hi), hi, x)
    return x


def _horner(x: Expr, coefficients: Sequence[float]) -> Expr:
    """The polynomial with these coefficients, lowest power first."""
    total: Expr = _const(coefficients[-1], x)
    for c in reversed(coefficients[:-1]):
        total = _fma(total, x, c)
    return total


def _estrin(x: Expr, coefficients: Sequence[float], square: Expr | None = None) -> Expr:
    """The same in pairs (Estrin's scheme): some multiplications more, in chains half as long and less.

    Processors cannot keep enough elements in flight to hide a long chain, above all those that execute in order.
    `square` is that of x, if it is there already.
    """
    terms: list[Expr] = [_const(c, x) for c in coefficients]
    while len(terms) > 1:
        if len(terms) % 2:
            last = terms.pop()
            terms[-1] = _fma(last, x, terms[-1])
        terms = [_fma(odd, x, even) for even, odd in zip(terms[::2], terms[1::2], strict=True)]
        x, square = _op("mul", x, x) if square is None else square, None
    return terms[0]


def _tangent(r: Expr, coefficients: Sequence[float]) -> Expr:
    """r + r**2 * (a polynomial)."""
    square = _op("mul", r, r)
    return _fma(square, _estrin(r, coefficients, square), r)


def _format(x: Expr) -> Format:
    return FORMATS[x.dtype]


def _signed(size: Expr, x: Expr) -> Expr:
    """A value that is not negative, with the sign of x."""
    form = _format(x)
    sign = _op("and", _bits(x, form.bits), 1 << (dtypes.bits(form.dtype) - 1))
    return _bits(_op("or", _bits(size, form.bits), sign), form.dtype)


# ---------------------------------------------------------------- exponentials
_LOG2_E = 1.4426950408889634


def _reduce(x: Expr, sign: int, bias: int) -> tuple[Expr, Expr]:
    """Splits sign * x = n * ln 2 + sign * r.

    Returns:
        r, and 2**(n + bias - b), where b is the bias of the type; n + bias = 0 gives 0, 2 b + 1 infinity.
    """
    form = _format(x)
    magic = form.magic + bias
    t = _fma(x, sign * _LOG2_E, magic)
    n = _op("sub", t, magic)
    r = _fma(n, -sign * form.ln2[1], _fma(n, -sign * form.ln2[0], x))
    return r, _power_of_two(t)


def _exp(x: Expr, sign: int = 1) -> Expr:
    """exp(sign * x). The polynomial is that of 2 exp(r), so that the power of two stays finite where the result is."""
    form = _format(x)
    lo, hi = form.exp_range
    x = _clamp(x, *((lo, hi) if sign > 0 else (-hi, -lo)))
    r, power = _reduce(x, sign, form.bias - 1)
    return _op("mul", _horner(r, [2 * c * sign**k for k, c in enumerate((1.0, 1.0, *form.exp))]), power)


def _exp_minus_one(x: Expr) -> Expr:
    """exp(x) - 1 of any x. Half of it is computed, so that the power of two stays finite where the result is."""
    form = _format(x)
    lowest = -math.log(2) * (form.mantissa + 3)  # the result is -1 below
    r, power = _reduce(_clamp(x, lowest, form.exp_range[1]), 1, form.bias - 1)
    w = _fma(_op("mul", r, r), _horner(r, form.expm1), r)
    half = _fma(power, w, _op("sub", power, 0.5))
    # Zeros keep their sign, and subnormal numbers their digits.
    return _select(_test("lt", _unary("abs", x), 2.0 ** (1 - form.bias)), x, _op("add", half, half))


def _sigmoid(x: Expr) -> Expr:
    return _op("div", _const(1.0, x), _op("add", _exp(x, -1), 1.0))


def _tanh(x: Expr) -> Expr:
    """e / (e + 1) with e = (exp(2|x|) - 1) / 2 and the sign of x.

    ln 2 is taken off |x| in one part: what it lacks counts where the exponential is large, and the result is near 1.
    """
    form = _format(x)
    t = _clamp(_unary("abs", x), None, form.tanh_limit)
    magic = form.magic + form.bias
    rounded = _fma(t, 2 * _LOG2_E, magic)
    r = _fma(_op("sub", rounded, magic), -math.log(2) / 2, t)
    power = _power_of_two(rounded)
    w = _tangent(r, [c * 2.0 ** (k + 1) for k, c in enumerate(form.expm1)])
    e = _fma(power, w, _fma(power, 0.5, -0.5))
    return _signed(_op("div", e, _op("add", e, 1.0)), x)


def _erf(x: Expr) -> Expr:
    """1 - exp(-g(|x|)) with the sign of x. ln 2 is taken off in one part: where that lacks much, exp is small."""
    form = _format(x)
    t = _clamp(_unary("abs", x), None, form.erf_limit)
    g = _fma(_estrin(t, form.erf), t, t)
    magic = form.magic + form.bias
    rounded = _fma(g, -_LOG2_E, magic)
    r = _fma(_op("sub", rounded, magic), math.log(2), g)
    power = _power_of_two(rounded)
    w = _tangent(r, [-c * (-1.0) ** k for k, c in enumerate(form.expm1)])
    return _signed(_fma(power, w, _op("sub", _const(1.0, x), power)), x)


# ---------------------------------------------------------------- logarithm
def _exponent(x: Expr) -> tuple[Expr, Expr]:
    """The bits of x less those of 2/3, whose exponent is e of x = 2**e * m, m in [2/3, 4/3), and e as a float."""
    form = _format(x)
    bits = _op("sub", _bits(x, form.bits), form.two_thirds)
    # By way of int32, from which every machine can convert.
    exponent = _cast(_cast(_op("shift_right", _bits(bits, form.signed), form.mantissa), "int32"), form.dtype)
    return bits, exponent


def _split(x: Expr) -> tuple[Expr, Expr]:
    """x = 2**e * m with m in [2/3, 4/3), for normal numbers above zero; both as floats."""
    form = _format(x)
    bits, exponent = _exponent(x)
    mantissa = _op("add", _op("and", bits, (1 << form.mantissa) - 1), form.two_thirds)
    return exponent, _bits(mantissa, form.dtype)


def _normal(x: Expr) -> tuple[Expr, Expr]:
    """x scaled out of the subnormal range where need be, and what that adds to its exponent."""
    form = _format(x)
    tiny = _test("lt", x, 2.0 ** (1 - form.bias))
    scaled = _select(tiny, _op("mul", x, 2.0**form.mantissa), x)
    return scaled, _select(tiny, -float(form.mantissa), _const(0.0, x))


def _log(x: Expr) -> Expr:
    form = _format(x)
    scaled, more = _normal(x)
    exponent, mantissa = _split(scaled)
    exponent = _op("add", exponent, more)
    r = _op("sub", mantissa, 1.0)
    y = _op("mul", _op("mul", r, r), _horner(r, form.log))
    y = _op("add", r, _fma(exponent, form.ln2[1], y))
    y = _fma(exponent, form.ln2[0], y)
    # Of what is not a positive finite number, infinity and NaN are their own logarithms.
    y = _select(_test("lt", x, math.inf), y, x)
    y = _select(_test("lt", x, 0.0), math.nan, y)
    return _select(_test("eq", x, 0.0), -math.inf, y)


def _log_one_plus(x: Expr) -> Expr:
    """log(1 + x): the exponent e is that of the rounded 1 + x, r that of the exact one, x / 2**e + (1 / 2**e - 1)."""
    form = _format(x)
    bits, exponent = _exponent(_op("add", x, 1.0))
    # 4 / 2**e: the fourth of it is subnormal where x is greatest.
    field = _op("and", bits, ((1 << dtypes.bits(form.dtype)) - 1) ^ ((1 << form.mantissa) - 1))
    four = _bits(_op("sub", _const((form.bias + 2) << form.mantissa, field), field), form.dtype)
    r = _fma(_op("mul", x, 0.25), four, _fma(four, 0.25, -1.0))
    y = _op("mul", _op("mul", r, r), _horner(r, form.log))
    y = _fma(exponent, form.ln2[0], _op("add", r, _fma(exponent, form.ln2[1], y)))
    y = _select(_test("lt", _unary("abs", x), 2.0 ** (4 - form.bias)), x, y)
    y = _select(_test("lt", x, math.inf), y, x)
    y = _select(_test("lt", x, -1.0), math.nan, y)
    return _select(_test("eq", x, -1.0), -math.inf, y)


# ---------------------------------------------------------------- sine and cosine
def _sine(x: Expr, cosine: bool) -> Expr:
    """x less a multiple of pi (of pi / 2, an odd one, for the cosine) in float64, then a polynomial in the type."""
    form = _format(x)
    # x - x is 0 for numbers too large to reduce, NaN for infinity and NaN.
    inside = _test("le", _unary("abs", x), form.pi_limit)
    wide = _cast(_select(inside, x, _op("sub", x, x)), "float64")
    # The lowest bit of t says whether the multiple is odd, which turns the sign; 1 more for the cosine, as
    # cos((n + 1/2) pi + r) = -sin(r) for even n.
    magic = FLOAT64.magic + cosine
    if cosine:
        t = _op("add", _fma(wide, 1 / math.pi, -0.5), magic)
        n = _op("add", _op("sub", t, magic), 0.5)
    else:
        t = _fma(wide, 1 / math.pi, magic)
        n = _op("sub", t, magic)
    for part in form.pi:
        wide = _fma(n, -part, wide)
    return _with_sign(_sine_of_rest(_cast(wide, form.dtype)), _cast(_bits(t, "uint64"), form.bits))


def _sine_by_integers(x: Expr, cosine: bool) -> Expr:
    """The same of float32 without float64."""
    if x.dtype == "float64":
        return _sine(x, cosine)
    r, odd = reduced(x, cosine)
    odd = odd if cosine else _op("xor", odd, _op("shift_right", _bits(x, "uint32"), 31))
    y = _with_sign(_sine_of_rest(r), odd)
    # As of 0 for numbers too large to reduce, NaN for infinity and NaN; told apart by their bits, since languages of
    # GPUs may take every float for a number.
    size = _op("and", _bits(x, "uint32"), 0x7FFFFFFF)
    beyond = _select(_test("lt", size, 0x7F800000), float(cosine), _const(math.nan, x))
    return _select(_test("le", size, int(np.float32(_format(x).pi_limit).view(np.uint32))), y, beyond)


def _sine_of_rest(r: Expr) -> Expr:
    """sin(r) for |r| <= pi / 2."""
    square = _op("mul", r, r)
    return _fma(_op("mul", square, r), _horner(square, _format(r).sin), r)


def _with_sign(y: Expr, odd: Expr) -> Expr:
    """y, or -y where the lowest bit of an integer of its size is set."""
    form = _format(y)
    sign = _op("shift_left", odd, dtypes.bits(form.dtype) - 1)
    return _bits(_op("xor", _bits(y, form.bits), sign), form.dtype)


# ---------------------------------------------------------------- powers
def _power(x: Expr, y: Expr, doubles: bool) -> Expr:
    """2**(y * log2|x|), with the cases of IEEE 754, section 9.2.1."""
    if doubles or x.dtype == "float64":
        result = _power_in_float64(x, y)
    else:
        size = _unary("abs", x)
        scaled, more = _normal(size)
        exponent, mantissa = _split(scaled)
        result = pairs.power(_op("add", exponent, more), mantissa, size, y)

    half = _op("mul", y, 0.5)
    whole = _test("eq", _unary("trunc", y), y)
    odd = _op("and", whole, _test("ne", _unary("trunc", half), half))
    # The sign of x, of its zero too, stays where the exponent is odd.
    result = _select(odd, _signed(result, x), result)
    negative = _op("and", _test("lt", x, 0.0), _test("gt", x, -math.inf))
    result = _select(_op("and", negative, _test("ne", _unary("trunc", y), y)), math.nan, result)
    # 1 to any power, and any number to the power 0; -1 to an infinite one.
    one = _op("or", _test("eq", x, 1.0), _test("eq", y, 0.0))
    far = _op("and", _test("eq", x, -1.0), _test("eq", _unary("abs", y), math.inf))
    return _select(_op("or", one, far), 1.0, result)


def _power_in_float64(x: Expr, y: Expr) -> Expr:
    """|x|**y, rounded once."""
    short = x.dtype == "float32"
    size = _cast(_unary("abs", x), "float64")
    # What is subnormal in float32 is not in float64.
    scaled, more = (size, None) if short else _normal(size)
    exponent, mantissa = _split(scaled)
    if more is not None:
        exponent = _op("add", exponent, more)
    s = _op("div", _op("sub", mantissa, 1.0), _op("add", mantissa, 1.0))
    log2 = _fma(_horner(_op("mul", s, s), LOG2_SHORT if short else LOG2_LONG), s, exponent)
    log2 = _select(_test("lt", size, math.inf), log2, size)
    log2 = _select(_test("eq", size, 0.0), -math.inf, log2)

    # As in `_exp`, the polynomial is doubled and the power of two halved.
    z = _clamp(_op("mul", _cast(y, "float64"), log2), -1022.0, 1025.0)
    magic = FLOAT64.magic + (FLOAT64.bias - 1)
    t = _op("add", z, magic)
    f = _op("sub", z, _op("sub", t, magic))
    power = _power_of_two(t)
    polynomial = [2 * c for c in (1.0, *(EXP2_SHORT if short else EXP2_LONG))]
    return _cast(_op("mul", _horner(f, polynomial), power), x.dtype)


def _small_power(x: Expr, exponent: float) -> Expr | None:
    """Powers that are cheap: they cost one rounding for each multiplication."""
    if exponent == 0:
        return _const(1, x)
    if exponent == 1:
        return x
    if exponent == 2:
        return _op("mul", x, x)
    if exponent == 3:
        return _op("mul", _op("mul", x, x), x)
    if exponent in (-0.75, -0.5, -0.25, 0.25, 0.5, 0.75, 1.5):
        return _root_power(x, exponent)
    if exponent == -1 and dtypes.is_float(x.dtype):
        return _op("div", _const(1.0, x), x)
    return None


def _root_power(x: Expr, exponent: float) -> Expr:
    """Of square roots: a few roundings, and a quarter of the time of a logarithm."""
    # Not the roots of x itself: that of -0 is -0, and that of -inf is NaN.
    root = _unary("sqrt", _op("add", x, 0.0))
    size = abs(exponent)
    if size == 1.5:
        power = _op("mul", x, root)
    elif size == 0.5:
        power = root
    else:
        fourth = _unary("sqrt", root)
        power = fourth if size == 0.25 else _op("mul", root, fourth)
    if exponent < 0:
        return _select(_test("eq", x, -math.inf), 0.0, _op("div", _const(1.0, x), power))
    return _select(_test("eq", x, -math.inf), math.inf, power)


def _integer_power(x: Expr, y: Expr) -> Expr:
    """Square and multiply, wrapping, for exponents below 64; a negative exponent gives the truncated reciprocal.

    Larger exponents, which overflow unless x is 0, 1 or -1, count as 62 or 63, whichever has their parity.
    """
    odd = _op("and", y, 1)
    large = _test("gt", y, 63)
    exponent = _select(large, _op("add", odd, 62), y)
    result, base = _const(1, x), x
    for bit in range(6):
        used = _test("ne", _op("and", exponent, 1 << bit), 0)
        result = _select(used, _op("mul", result, base), result)
        base = _op("mul", base, base)
    if not dtypes.is_signed(x.dtype):
        return result
    unit = _op("or", _test("eq", x, 1), _test("eq", x, -1))
    signed = _select(_test("eq", odd, 1), x, _op("mul", x, x))
    reciprocal = _select(unit, signed, _const(0, x))
    return _select(_test("lt", y, 0), reciprocal, result)


def _tf32(x: Expr) -> Expr:
    """Half of the last place that is kept is added, and what lies below it cut off: overflow gives infinity."""
    half = _op("add", _bits(x, "uint32"), 0x1000)
    return _select(_test("ne", x, x), x, _bits(_op("and", half, 0xFFFFE000), "float32"))


_UNARY: dict[str, Callable[[Expr], Expr]] = {
    "exp": _exp,
    "expm1": _exp_minus_one,
    "log": _log,
    "log1p": _log_one_plus,
    "sin": lambda x: _sine(x, False),
    "cos": lambda x: _sine(x, True),
    "tanh": _tanh,
    "erf": _erf,
    "sigmoid": _sigmoid,
    "tf32": _tf32,
}
_BY_INTEGERS: dict[str, Callable[[Expr], Expr]] = {
    "sin": lambda x: _sine_by_integers(x, False),
    "cos": lambda x: _sine_by_integers(x, True),
}
