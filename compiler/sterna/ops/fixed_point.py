"""Fixed-point arithmetic as TensorFlow Lite's integer kernels do it, exact to the bit on every target.

A real factor stands as a multiplier of 31 bits and a power of two: x * factor is
`rounding_shift(high_product(x << left, multiplier), right)`, rounded twice (SaturatingRoundingDoublingHighMul and
RoundingDivideByPOT of gemmlowp).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sterna.ir import dtypes
from sterna.ir.graph import TensorType
from sterna.ir.integer import ZERO, Int
from sterna.ops.formulas import at, broadcast_at
from sterna.ops.operator import Application, Attribute, Case, Fusion, Operator, Types, case, unfit
from sterna.ops.reduction import AXIS, over
from sterna.ops.types import Rule, axis_of, broadcast, check_dtype, present, single
from sterna.te import expr as E
from sterna.te.expr import Expr, ExprLike
from sterna.te.position import position
from sterna.te.tensor import Tensor, compute

EIGHT_BITS = ("int8", "uint8")
#: Integer bits of a sum of exponentials: at most 2^12 of them.
SUM_BITS = 12


# ---------------------------------------------------------------- formulas
def high_product(a: Expr, b: ExprLike) -> Expr:
    """2 a b / 2^32 in int32, halves up; the result is not defined where both are the least number."""
    return E.binary("high_product", a, b)


def rounding_shift(x: Expr, count: ExprLike) -> Expr:
    """x / 2^count, halves away from zero; 0 <= count <= 31."""
    if isinstance(count, int) and count == 0:
        return x
    below = (
        E.const((1 << count) - 1, x.dtype) if isinstance(count, int) else shifted_left(E.const(1, x.dtype), count) - 1
    )
    half = E.binary("shift_right", below, 1) + E.cast(x < 0, x.dtype)
    return E.binary("shift_right", x, count) + E.cast(E.binary("and", x, below) > half, x.dtype)


def shifted_left(x: Expr, count: ExprLike) -> Expr:
    return E.binary("shift_left", x, count)


def saturated_left(x: Expr, count: int) -> Expr:
    """x 2^count, saturated."""
    low, high = dtypes.limits("int32")
    wide = shifted_left(E.cast(x, "int64"), count)
    return E.cast(E.minimum(E.maximum(wide, low), high), "int32")


def leading_zeros(x: Expr) -> Expr:
    """Zeros above the highest bit of a positive int32, as int32."""
    rest = x
    count: Expr = E.const(1, "int32")
    for step in (16, 8, 4, 2, 1):
        small = rest < 1 << (31 - step)
        rest = E.select(small, shifted_left(rest, step), rest)
        count = count + E.select(small, E.const(step, "int32"), 0)
    return count


def reciprocal(x: Expr, zeros: Expr) -> Expr:
    """1 / y as Q0.31, where y in [1, 2) is x, shifted left by its leading zeros: three steps of Newton and Raphson.

    gemmlowp saturates every step. Of all 2^30 denominators none comes near that: products stay below 2^24, and
    estimates are at most 2^30, which only the last doubling brings beyond 32 bits.
    """
    half_denominator = shifted_left(x, E.binary("and", zeros - 1, 31))
    # Numbers with two integer bits: 48/17 - 32/17 d, then x + x (1 - d x).
    estimate = high_product(half_denominator, -1010580540) + 1515870810
    for _ in range(3):
        missing = (1 << 29) - high_product(half_denominator, estimate)
        estimate = estimate + shifted_left(high_product(estimate, missing), 2)
    return estimate + E.minimum(estimate, (1 << 30) - 1)


# ---------------------------------------------------------------- fixed_multiply
def _multiply_type(types: Types, attributes: Mapping[str, Any]) -> TensorType:
    x, multiplier, right = present(types, 0, 1, 2)
    left = types[3] if len(types) > 3 else None
    operands = [x, multiplier, right, *([left] if left is not None else [])]
    for operand in operands:
        check_dtype(operand.dtype, ("int32",))
    return TensorType("int32", broadcast([operand.shape for operand in operands]))


def _multiply(applied: Application) -> Tensor:
    x, multiplier, right = (applied.input(n) for n in range(3))
    left = applied.inputs[3] if len(applied.inputs) > 3 else None

    def body(*index: Int) -> Expr:
        value = (
            broadcast_at(x, index) if left is None else shifted_left(broadcast_at(x, index), broadcast_at(left, index))
        )
        product, count = high_product(value, broadcast_at(multiplier, index)), broadcast_at(right, index)
        if applied["range"] in ("any", "positive"):
            return rounding_shift(product, count)
        # Nothing leaves 32 bits, so that negative numbers may be made one less before the shift.
        if applied["range"] == "small":
            product = product + E.binary("shift_right", product, 31)
        return E.binary("round_shift", product, count)

    return compute(applied.name, applied.output.shape, body)


# ---------------------------------------------------------------- lookup
def _lookup_type(types: Types, attributes: Mapping[str, Any]) -> TensorType:
    x, table = present(types, 0, 1)
    check_dtype(x.dtype, EIGHT_BITS)
    if table.rank != 1 or table.shape[0] != 256:
        raise unfit(f"a table of {table} for elements of 8 bits")
    return TensorType(table.dtype, x.shape)


def _lookup(applied: Application) -> Tensor:
    x, table = applied.input(0), applied.input(1)
    low, _ = dtypes.limits(x.dtype)

    def body(*index: Int) -> Expr:
        return at(table, (position(E.cast(at(x, index), "int32") - low, 256),))

    return compute(applied.name, applied.output.shape, body)


# ---------------------------------------------------------------- softmax_fixed
def _softmax_type(types: Types, attributes: Mapping[str, Any]) -> TensorType:
    x, table = present(types, 0, 1)
    check_dtype(x.dtype, EIGHT_BITS)
    check_dtype(table.dtype, ("int32",))
    axis_of(attributes["axis"], x.rank)
    if table.rank != 1 or table.shape[0] != 256:
        raise unfit(f"a table of {table} for differences of 8 bits")
    return TensorType(attributes["to"], x.shape)


def _softmax(applied: Application) -> Tensor:
    x, table = applied.input(0), applied.input(1)
    axis = axis_of(applied["axis"], len(x.shape))
    low, high = dtypes.limits(applied["to"])
    peak = over(applied.stage("max"), x, (axis,), True, "max")

    def row(index: tuple[Int, ...]) -> tuple[Int, ...]:
        return (*index[:axis], ZERO, *index[axis + 1 :])

    def power(*index: Int) -> Expr:
        difference = E.cast(at(x, index), "int32") - E.cast(at(peak, row(index)), "int32")
        return at(table, (position(difference + 255, 256),))

    powers = compute(applied.stage("exp"), x.shape, power)

    def counted(value: Expr, index: tuple[Int, ...]) -> Expr:
        return E.select(value < 0, 0, rounding_shift(value, SUM_BITS))

    total = over(applied.stage("sum"), powers, (axis,), True, "sum", element=counted)
    zeros = compute(applied.stage("zeros"), total.shape, lambda *i: leading_zeros(at(total, i)))
    scale = compute(applied.stage("scale"), total.shape, lambda *i: reciprocal(at(total, i), at(zeros, i)))

    def final(*index: Int) -> Expr:
        value = at(powers, index)
        shift = SUM_BITS + 31 - dtypes.bits(applied["to"]) - at(zeros, row(index))
        share = rounding_shift(high_product(at(scale, row(index)), value), shift) + low
        return E.cast(E.select(value < 0, low, E.minimum(E.maximum(share, low), high)), applied["to"])

    return compute(applied.name, x.shape, final)


# ---------------------------------------------------------------- curves of 16 bits
def _curve_type(points: int, kind: str) -> Rule:
    def rule(types: Types, attributes: Mapping[str, Any]) -> TensorType:
        x, table = present(types, 0, 1)
        check_dtype(x.dtype, ("int16",))
        check_dtype(table.dtype, (kind,))
        if table.rank != 1 or table.shape[0] != points:
            raise unfit(f"{table} for a curve of {points} points")
        return x

    return rule


def interpolated(x: Expr, table: Tensor) -> Expr:
    """The curve at an int16, given as an int32: 513 points, straight lines between them."""
    place = E.binary("shift_right", x, 7) + 256
    here = E.cast(at(table, (position(place, 513),)), "int32")
    slope = E.cast(at(table, (position(place + 1, 513),)), "int32") - here
    return here + E.binary("shift_right", slope * E.binary("and", x, 0x7F) + 64, 7)


def _interpolate(applied: Application) -> Tensor:
    x, table = applied.input(0), applied.input(1)

    def body(*index: Int) -> Expr:
        return E.cast(interpolated(E.cast(at(x, index), "int32"), table), "int16")

    return compute(applied.name, x.shape, body)


def _sigmoid(applied: Application) -> Tensor:
    """Half of the curve is in the table, in 24ths; tanh(x) is 2 sigmoid(2 x) - 1 and the curves are symmetric."""
    x, table = applied.input(0), applied.input(1)
    is_tanh = applied["function"] == "tanh"
    bits = 8 if is_tanh else 9
    shift = applied["shift"]

    def body(*index: Int) -> Expr:
        scaled = E.cast(at(x, index), "int32") * applied["multiplier"]
        if shift:
            scaled = E.binary("shift_right", scaled + (1 << (shift - 1)), shift)
        size = E.unary("abs", scaled)
        place = E.binary("shift_right", size, bits)
        here = E.cast(at(table, (position(place, 256),)), "int32")
        slope = E.cast(at(table, (position(place + 1, 256),)), "int32") - here
        value = here * (1 << bits) + slope * E.binary("and", size, (1 << bits) - 1)
        far = E.const((0xFFFF << 8) if is_tanh else (0x7FFF << 10), "int32")
        value = E.select(place >= 255, far, value)
        if is_tanh:
            middle, half = 1 << 23, 1 << 7
            value = E.select(scaled >= 0, value - middle + half, middle + half - 1 - value)
            return E.cast(E.binary("shift_right", value, 8), "int16")
        value = E.select(scaled >= 0, value + (1 << 9), (1 << 25) + (1 << 9) - 1 - value)
        return E.cast(E.binary("shift_right", value, 10), "int16")

    return compute(applied.name, x.shape, body)


# ---------------------------------------------------------------- softmax of 16 bits
def _softmax_16_type(types: Types, attributes: Mapping[str, Any]) -> TensorType:
    _curve_type(513, "int16")((types[0], types[2]), attributes)
    axis_of(attributes["axis"], present(types, 0)[0].rank)
    return _curve_type(513, "int16")(types[:2], attributes)


def _softmax_16(applied: Application) -> Tensor:
    x, exponentials, reciprocals = (applied.input(n) for n in range(3))
    axis = axis_of(applied["axis"], len(x.shape))
    peak = over(applied.stage("max"), x, (axis,), True, "max")
    left, right = max(applied["shift"], 0), max(-applied["shift"], 0)

    def row(index: tuple[Int, ...]) -> tuple[Int, ...]:
        return (*index[:axis], ZERO, *index[axis + 1 :])

    def power(*index: Int) -> Expr:
        difference = E.cast(at(x, index), "int32") - E.cast(at(peak, row(index)), "int32")
        scaled = rounding_shift(high_product(shifted_left(difference, left), applied["multiplier"]), right)
        place = E.minimum(E.maximum(scaled + 32767, -32768), 32767)
        return interpolated(place, exponentials)

    powers = compute(applied.stage("exp"), x.shape, power)
    total = over(applied.stage("sum"), powers, (axis,), True, "sum")
    zeros = compute(applied.stage("zeros"), total.shape, lambda *i: leading_zeros(at(total, i)))

    def inverse(*index: Int) -> Expr:
        moved = shifted_left(E.cast(at(total, index), "int64"), E.cast(at(zeros, index) - 1, "int64"))
        fraction = E.cast(E.binary("shift_right", moved + (1 << 13), 14), "int32") - ((1 << 15) + (1 << 16))
        return interpolated(E.minimum(E.maximum(fraction, -32768), 32767), reciprocals)

    scale = compute(applied.stage("scale"), total.shape, inverse)

    def final(*index: Int) -> Expr:
        count = E.cast(31 - at(zeros, row(index)), "int64")
        product = E.cast(at(powers, index), "int64") * E.cast(at(scale, row(index)), "int64")
        rounding = shifted_left(E.const(1, "int64"), count - 1)
        share = E.cast(E.binary("shift_right", product + rounding, count), "int32")
        return E.cast(E.minimum(E.maximum(share, 0), 32767), "int16")

    return compute(applied.name, x.shape, final)


def _accumulators() -> np.ndarray:
    random = np.random.default_rng(0)
    edges = [0, 1, -1, 2, -2, 3, -3, (1 << 30), -(1 << 30), (1 << 31) - 1, 1 - (1 << 31)]
    return np.concatenate(
        [edges, random.integers(-(1 << 31) + 1, 1 << 31, 43), random.integers(-5000, 5000, 54)]
    ).astype(np.int32)


def _small_accumulators() -> np.ndarray:
    """Ties of either sign, and numbers up to 2^30 in size."""
    random = np.random.default_rng(1)
    ties = (np.arange(-40, 40, dtype=np.int64) << 6) * (1 << 31) // 1518500250
    return np.concatenate([ties, ties + 1, random.integers(1 - (1 << 30), 1 << 30, 40)]).astype(np.int32)


_ALL = np.arange(-128, 128).astype(np.int8).reshape(8, 32)
_TABLE = np.round((1 << 31) * np.exp(np.arange(-255, 1) / 17.0) - 1).astype(np.int32)
_TABLE[:80] = -1
_SHORT = np.linspace(-32768, 32767, 300).astype(np.int16).reshape(3, 100)
_EXPONENTIALS = np.round(32767 * np.exp(np.linspace(-10, 0, 513))).astype(np.int16)
_RECIPROCALS = np.round(32767 / (1 + np.linspace(0, 1, 513))).astype(np.int16)
_HALF_SIGMOID = np.minimum(np.round(65536 / (1 + np.exp(-np.arange(256) / 24))), 65535).astype(np.uint16)
OPERATORS: tuple[Operator, ...] = (
    Operator(
        "interpolate",
        "A function of 16 bits: its values at 513 equidistant points, straight lines between them.",
        single(_curve_type(513, "int16")),
        _interpolate,
        Fusion.INJECTIVE,
        cases=(case(_SHORT, _EXPONENTIALS), case(_SHORT, np.arange(-256, 257).astype(np.int16) * 127)),
    ),
    Operator(
        "sigmoid_fixed",
        "The logistic function or tanh of x times multiplier / 2^shift, in units of 1 / 12288, as Q0.15; the second "
        "operand holds the logistic function of 24ths as Q0.16.",
        single(_curve_type(256, "uint16")),
        _sigmoid,
        Fusion.INJECTIVE,
        (
            Attribute("function", "string", "which one", choices=("logistic", "tanh")),
            Attribute("multiplier", "int", "at most 32767"),
            Attribute("shift", "int", "not negative", 0),
        ),
        cases=(
            case(_SHORT, _HALF_SIGMOID, function="logistic", multiplier=3),
            case(_SHORT, _HALF_SIGMOID, function="tanh", multiplier=20000, shift=13),
        ),
    ),
    Operator(
        "softmax_fixed_16",
        "Softmax of 16 bits in integers: differences from the greatest element times multiplier / 2^31 * 2^shift find "
        "their exponential in a curve of exp over [-10, 0], the sum its reciprocal in one of 1 / (1 + x) over [0, 1].",
        single(_softmax_16_type),
        _softmax_16,
        Fusion.REDUCTION,
        (
            AXIS,
            Attribute("multiplier", "int", "of 31 bits"),
            Attribute("shift", "int", "to the left if positive"),
        ),
        cases=(
            case(
                ("int16", (3, 17)),
                _EXPONENTIALS,
                _RECIPROCALS,
                axis=1,
                multiplier=1300000000,
                shift=2,
                low=-9000,
                high=9000,
            ),
        ),
    ),
    Operator(
        "fixed_multiply",
        "An int32 times multiplier / 2^31 * 2^(left - right): the high product rounded half up, then the shift to the "
        "right rounded half away from zero. `right` lies between 0 and 31; `left`, which may be left out, wraps.",
        single(_multiply_type),
        _multiply,
        Fusion.BROADCAST,
        (
            Attribute(
                "range",
                "string",
                "what is known, which saves instructions: that x 2^left is smaller than 2^30 in size and `right` at "
                "least 1 (small); that of negative results only their not being positive matters (positive); or both",
                "any",
                choices=("any", "positive", "small", "small_positive"),
            ),
        ),
        cases=(
            Case((_accumulators(), np.array(1518500250, np.int32), np.array(7, np.int32)), {}),
            Case(
                (
                    _accumulators().reshape(27, 4),
                    np.array([1 << 30, (1 << 31) - 1, 0, 1234567890], np.int32),
                    np.array([0, 1, 31, 12], np.int32),
                ),
                {},
            ),
            Case(
                (
                    np.arange(-50, 50, dtype=np.int32).reshape(50, 2),
                    np.array([1 << 30, 2000000000], np.int32),
                    np.array([0, 3], np.int32),
                    np.array([5, 0], np.int32),
                ),
                {},
            ),
            *(
                Case((_small_accumulators(), np.array(1518500250, np.int32), np.array(7, np.int32)), {"range": known})
                for known in ("positive", "small", "small_positive")
            ),
        ),
        tags=frozenset({"elementwise"}),
    ),
    Operator(
        "lookup",
        "The entry of a table of 256 for every element of 8 bits; the table begins with that of the least.",
        single(_lookup_type),
        _lookup,
        Fusion.INJECTIVE,
        cases=(
            case(("int8", (3, 40)), np.arange(256).astype(np.int8), low=-128, high=128),
            case(("uint8", (17,)), np.arange(256).astype(np.int32) * 77, low=0, high=256),
        ),
    ),
    Operator(
        "softmax_fixed",
        "Softmax of elements of 8 bits in integers: the second operand holds exp of the differences -255 to 0 from the "
        "greatest element as Q0.31, negative where one does not count.",
        single(_softmax_type),
        _softmax,
        Fusion.REDUCTION,
        (AXIS, Attribute("to", "dtype", "the result's type, 0 its least number", choices=("int8", "uint8", "int16"))),
        cases=(
            case(_ALL, _TABLE, axis=1, to="int8"),
            case(("uint8", (5, 3)), _TABLE, axis=1, to="uint8", low=0, high=256),
            case(("int8", (1, 12)), _TABLE, axis=1, to="int8", low=-128, high=128),
            case(("int8", (2, 10)), _TABLE, axis=1, to="int16", low=-128, high=128),
        ),
    ),
)
