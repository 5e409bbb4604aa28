"""Element-wise operators of two operands and of many, comparisons, logic and choice."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sterna.errors import error
from sterna.frontends.tflite import fixed_point
from sterna.frontends.tflite.translation import QUANTIZED, Translation, Translator
from sterna.ir import dtypes
from sterna.ir.graph import Value


# ---------------------------------------------------------------- add, sub
def _operand(t: Translation, position: int, factor: float, left: int) -> Value:
    """An operand about 0, `left` bits up, in units that both operands share."""
    x = t.centered(t.input(position), t.zero(position))
    if factor == 0.5:
        # What fixed point gives, as nothing is rounded.
        return t.op("mul", x, t.scalar(1 << (left - 1), "int32"))
    return t.scaled(t.op("mul", x, t.scalar(1 << left, "int32")), factor, _reach(t, position) << left)


def _reach(t: Translation, position: int) -> int:
    """The size of the largest number about 0 that an operand can hold."""
    low, high = dtypes.limits(t.input(position).dtype)
    return max(t.zero(position) - low, high - t.zero(position))


def _sum(operator: str) -> Translator:
    def translate(t: Translation) -> Value:
        a, b = t.input(0), t.input(1)
        if not (a.dtype in QUANTIZED and t.is_quantized()):
            return t.activated(t.op(operator, a, b))
        scales = t.scale(0), t.scale(1)
        y_scale = t.per_tensor(t.result())[0]
        if a.dtype == "int16" and (t.zero(0) or t.zero(1) or t.per_tensor(t.result())[1]):
            raise t.unsupported("with zero points other than 0 on 16 bits")
        if a.dtype == "int16" and t.option("pot_scale_int16", True) and all(
            np.log2(scale) % 1 == 0 for scale in (*scales, y_scale)
        ):  # fmt: skip
            return _powers_of_two(t, operator, scales, y_scale)
        left = 15 if a.dtype == "int16" else 20
        unit = 2 * max(scales)
        first, second = (_operand(t, n, scales[n] / unit, left) for n in range(2))
        # Either is at most half of what it was scaled from.
        most = max(_reach(t, n) for n in range(2)) << left
        total = t.op(operator, first, second)
        return t.stored(t.scaled(total, unit / ((1 << left) * y_scale), most, t.clamps_negative()))

    return translate


def _powers_of_two(t: Translation, operator: str, scales: tuple[float, float], y_scale: float) -> Value:
    """Operands of 16 bits whose scales are powers of two: one is shifted to the result's, the sum saturates."""
    shifts = [round(np.log2(scale / y_scale)) for scale in scales]
    if max(shifts) > 0 or min(shifts) < -31 or 0 not in shifts:
        raise t.unsupported(f"with operands of scales {scales[0]:g} and {scales[1]:g} for one of {y_scale:g}")
    values = []
    for n, shift in enumerate(shifts):
        x = t.cast(t.input(n), "int32")
        # A multiplier of 2^30 and one bit to the left keep the number as it is; the shift that follows rounds.
        values.append(t.fixed(x, np.int32(1 << 30), np.int32(1 + shift)) if shift else x)
    low, high = dtypes.limits("int16")
    total = t.op("clip", t.op(operator, *values), min=low, max=high)
    least, most = t.bounds()
    return t.cast(t.op("clip", total, min=least, max=most), "int16")


# ---------------------------------------------------------------- mul, div and others
def mul(t: Translation) -> Value:
    a, b = t.input(0), t.input(1)
    if not (a.dtype in QUANTIZED and t.is_quantized()):
        return t.activated(t.op("mul", a, b))
    # The reference multiplies and divides these scales in float32.
    scale = np.float32(t.scale(0)) * np.float32(t.scale(1)) / np.float32(t.per_tensor(t.result())[0])
    product = t.op("mul", t.centered(a, t.zero(0)), t.centered(b, t.zero(1)))
    return t.stored(t.scaled(product, float(scale), _reach(t, 0) * _reach(t, 1), t.clamps_negative()))


def div(t: Translation) -> Value:
    a, b = t.input(0), t.input(1)
    if not (a.dtype in QUANTIZED and t.is_quantized()):
        return t.activated(t.op("div", a, b))
    if a.dtype not in ("int8", "uint8") or a.dtype != b.dtype:
        raise t.unsupported(f"on quantized {a.dtype} and {b.dtype}")
    multiplier, shift = fixed_point.quantize_multiplier(t.scale(0) / (t.scale(1) * t.per_tensor(t.result())[0]))
    inverse, bits = (t.op("lookup", b, t.constant(table)) for table in fixed_point.divisor_tables(b.dtype, t.zero(1)))
    upright, upside = (
        [t.op("lookup", a, t.constant(table)) for table in fixed_point.dividend_tables(a.dtype, t.zero(0), sign)]
        for sign in (1, -1)
    )
    is_negative = t.op("less", t.centered(b, t.zero(1)), t.scalar(0, "int32"))
    dividend, room = (t.op("where", is_negative, x, y) for x, y in zip(upside, upright, strict=True))
    nothing = t.scalar(0, "int32")
    quotient = t.op("fixed_multiply", dividend, inverse, nothing)
    right = t.op("clip", t.moved(t.op("add", bits, room), -shift), min=0, max=31)
    return t.stored(t.op("fixed_multiply", quotient, t.constant(multiplier, "int32"), right))


def _extreme(operator: str) -> Translator:
    """Both operands and the result have one scale, so the integers themselves are compared."""
    return lambda t: t.op(operator, t.input(0), t.input(1))


def squared_difference(t: Translation) -> Value:
    a, b = t.input(0), t.input(1)
    if not (a.dtype in QUANTIZED and t.is_quantized()):
        difference = t.op("sub", a, b)
        return t.op("mul", difference, difference)
    scales = t.scale(0), t.scale(1)
    unit = 2 * max(scales)
    left = 7
    first, second = (_operand(t, n, scales[n] / unit, left) for n in range(2))
    difference = t.op("sub", first, second)
    y_scale = t.per_tensor(t.result())[0]
    factor = unit * unit / ((1 << (2 * left)) * y_scale)
    return t.stored(t.scaled(t.op("mul", difference, difference), factor))


def floor_div(t: Translation) -> Value:
    a, b = t.input(0), t.input(1)
    if dtypes.is_float(a.dtype):
        return t.op("floor", t.op("div", a, b))
    quotient = t.op("div", a, b)
    zero = t.scalar(0, a.dtype)
    remainder = t.op("sub", a, t.op("mul", quotient, b))
    is_below = t.op("logical_xor", t.op("less", remainder, zero), t.op("less", b, zero))
    is_inexact = t.op("logical_not", t.op("equal", remainder, zero))
    return t.op("sub", quotient, t.cast(t.op("logical_and", is_below, is_inexact), a.dtype))


def floor_mod(t: Translation) -> Value:
    a, b = t.input(0), t.input(1)
    return t.op("fmod" if dtypes.is_float(a.dtype) else "mod", a, b)


def add_n(t: Translation) -> Value:
    total = t.input(0)
    for n in range(1, len(t.inputs)):
        total = t.op("add", total, t.input(n))
    return total


def _compared(operator: str) -> Translator:
    def translate(t: Translation) -> Value:
        a, b = t.input(0), t.input(1)
        if a.dtype in ("int8", "uint8") and t.is_quantized():
            # Each operand is brought to a scale of its own times 2^8, as the reference does.
            factors = t.scale(0), t.scale(1)
            a, b = (
                t.scaled(t.op("mul", t.centered(t.input(n), t.zero(n)), t.scalar(1 << 8, "int32")), factors[n])
                for n in range(2)
            )
        if operator == "not_equal":
            return t.op("logical_not", t.op("equal", a, b))
        return t.op(operator, a, b)

    return translate


def _direct(operator: str, operands: int = 1) -> Translator:
    return lambda t: t.op(operator, *(t.input(n) for n in range(operands)))


def select(t: Translation) -> Value:
    condition, a, b = t.input(0), t.input(1), t.input(2)
    if t.kind == "SELECT" and condition.type.rank == 1 and a.type.rank > 1:
        condition = t.reshape(condition, (*condition.shape, *(1,) * (a.type.rank - 1)))
    return t.op("where", condition, a, b)


def pow_(t: Translation) -> Value:
    a, b = t.input(0), t.input(1)
    if dtypes.is_float(a.dtype):
        return t.op("pow", a, b)
    return t.cast(t.op("round", t.op("pow", t.cast(a, "float64"), t.cast(b, "float64"))), a.dtype)


def atan2(t: Translation) -> Value:
    """The angle of (x, y) from that of y / x or x / y, whichever is smaller."""
    y, x = t.input(0), t.input(1)

    def real(value: float) -> Value:
        return t.scalar(value, y.dtype)

    tall = t.op("greater", t.op("abs", y), t.op("abs", x))
    over, under = t.op("where", tall, x, y), t.op("where", tall, y, x)
    nothing = t.op("equal", under, real(0.0))
    ratio = t.op("where", nothing, real(0.0), t.op("div", over, t.op("where", nothing, real(1.0), under)))
    angle = t.op("atan", ratio)
    half = t.op("where", t.op("less", y, real(0.0)), real(-np.pi / 2), real(np.pi / 2))
    turn = t.op("where", t.op("less", y, real(0.0)), real(-np.pi), real(np.pi))
    behind = t.op("less", x, real(0.0))
    flat = t.op("where", behind, t.op("add", angle, turn), angle)
    return t.op("where", tall, t.op("sub", half, angle), flat)


def right_shift(t: Translation) -> Value:
    return t.op("bit_shift", t.input(0), t.input(1), direction="RIGHT")


def _logic(operator: str) -> Callable[[Translation], Value]:
    def translate(t: Translation) -> Value:
        if t.input(0).dtype != "bool":
            raise error("E0108", f"{t.kind} takes bools, not {t.input(0).type}")
        return t.op(operator, t.input(0), t.input(1))

    return translate


TRANSLATORS: dict[str, Translator] = {
    "ADD": _sum("add"),
    "ADD_N": add_n,
    "ATAN2": atan2,
    "BITWISE_XOR": _direct("bitwise_xor", 2),
    "DIV": div,
    "EQUAL": _compared("equal"),
    "FLOOR_DIV": floor_div,
    "FLOOR_MOD": floor_mod,
    "GREATER": _compared("greater"),
    "GREATER_EQUAL": _compared("greater_equal"),
    "LESS": _compared("less"),
    "LESS_EQUAL": _compared("less_equal"),
    "LOGICAL_AND": _logic("logical_and"),
    "LOGICAL_OR": _logic("logical_or"),
    "MAXIMUM": _extreme("maximum"),
    "MINIMUM": _extreme("minimum"),
    "MUL": mul,
    "NOT_EQUAL": _compared("not_equal"),
    "POW": pow_,
    "RIGHT_SHIFT": right_shift,
    "SELECT": select,
    "SELECT_V2": select,
    "SQUARED_DIFFERENCE": squared_difference,
    "SUB": _sum("sub"),
}
