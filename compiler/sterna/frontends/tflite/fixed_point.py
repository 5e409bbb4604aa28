"""The fixed-point numbers of TensorFlow Lite's integer kernels, computed while the model is compiled.

Everything here follows the reference kernels and gemmlowp's `fixedpoint.h` to the bit, on NumPy arrays of int64 that
hold int32 values: multipliers and shifts from real factors, and the tables of functions of 8 bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from sterna.ir import dtypes
from sterna.ir.graph import Array

_MOST, _LEAST = (1 << 31) - 1, -(1 << 31)


def away(x: float) -> int:
    """The nearest integer, halves away from zero (C's round)."""
    return math.floor(abs(x) + 0.5) * (1 if x >= 0 else -1)


def quantize_multiplier(factor: float) -> tuple[int, int]:
    """(multiplier, shift) so that the factor is multiplier / 2^31 * 2^shift, the multiplier of 31 bits."""
    if factor == 0:
        return 0, 0
    mantissa, shift = math.frexp(factor)
    fixed = away(mantissa * (1 << 31))
    if fixed == 1 << 31:
        fixed, shift = fixed // 2, shift + 1
    return (0, 0) if shift < -31 else (fixed, shift)


def multipliers(factors: Sequence[float]) -> tuple[Array, Array]:
    """`quantize_multiplier` of several, as int32."""
    pairs = [quantize_multiplier(factor) for factor in factors]
    return np.array([m for m, _ in pairs], np.int32), np.array([s for _, s in pairs], np.int32)


def high_product(a: Array | int, b: Array | int) -> Array:
    """SaturatingRoundingDoublingHighMul."""
    result = (np.asarray(a, np.int64) * np.asarray(b, np.int64) + (1 << 30)) >> 31
    return np.where((np.asarray(a) == _LEAST) & (np.asarray(b) == _LEAST), _MOST, result)


def rounding_shift(x: Array, count: int) -> Array:
    """RoundingDivideByPOT: halves away from zero."""
    x = np.asarray(x, np.int64)
    if not count:
        return x
    mask = (1 << count) - 1
    return (x >> count) + ((x & mask) > (mask >> 1) + (x < 0))


def _wrapped(x: Array) -> Array:
    wrapped: Array = ((np.asarray(x, np.int64) + (1 << 31)) & 0xFFFFFFFF) - (1 << 31)
    return wrapped


def saturated_shift(x: Array, count: int) -> Array:
    """SaturatingRoundingMultiplyByPOT to the left."""
    return np.asarray(np.clip(np.asarray(x, np.int64) << count, _LEAST, _MOST))


def multiply(x: Array, multiplier: int, shift: int) -> Array:
    """MultiplyByQuantizedMultiplier."""
    left, right = max(shift, 0), max(-shift, 0)
    return rounding_shift(high_product(_wrapped(np.asarray(x, np.int64) << left), multiplier), right)


# ---------------------------------------------------------------- exp
def exp_on_negative_values(raw: Array, integer_bits: int = 5) -> Array:
    """e^x as Q0.31 for x <= 0, given with so many integer bits."""
    fraction_bits = 31 - integer_bits
    raw = np.asarray(raw, np.int64)
    quarter = 1 << (fraction_bits - 2)
    remainder_of_quarter = (raw & (quarter - 1)) - quarter
    result = _exp_near_zero(saturated_shift(remainder_of_quarter, integer_bits))
    rest = remainder_of_quarter - raw
    factors = (1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242)
    for exponent, factor in zip(range(-2, 5), factors, strict=True):
        if integer_bits > exponent:
            result = np.where(rest & (1 << (fraction_bits + exponent)), high_product(result, factor), result)
    return np.where(raw == 0, _MOST, result)


def _exp_near_zero(a: Array) -> Array:
    """e^a for -1/4 <= a < 0, Q0.31: a series around -1/8."""
    x = a + (1 << 28)
    square = high_product(x, x)
    cube, fourth = high_product(square, x), high_product(square, square)
    inner = high_product(rounding_shift(fourth, 2) + cube, 715827883) + square
    return 1895147668 + high_product(1895147668, x + rounding_shift(inner, 1))


# ---------------------------------------------------------------- softmax of 8 bits
def softmax_scaling(beta: float, scale: float, integer_bits: int = 5) -> tuple[int, int, int]:
    """(multiplier, left shift, the least difference that counts) for exponents with so many integer bits."""
    factor = min(beta * scale * (1 << (31 - integer_bits)), (1 << 31) - 1.0)
    multiplier, shift = quantize_multiplier(factor)
    radius = math.floor(((1 << integer_bits) - 1) * 2.0 ** (31 - integer_bits) / 2.0**shift)
    return multiplier, shift, -radius


def softmax_table(beta: float, scale: float) -> Array:
    """e^(beta scale d) as Q0.31 for d = -255 to 0; -1 where a difference is too large to count."""
    multiplier, shift, least = softmax_scaling(beta, scale)
    difference = np.arange(-255, 1)
    powers = exp_on_negative_values(high_product(_wrapped(difference << shift), multiplier))
    return np.where(difference >= least, powers, -1).astype(np.int32)


# ---------------------------------------------------------------- tables
def table(
    dtype: str, x_scale: float, x_zero: int, y_scale: float, y_zero: int, function: Callable[[Array], Array]
) -> Array:
    """The result for every element of 8 bits, least first, by a function of float32 (LUTPopulate)."""
    low, high = dtypes.limits(dtype)
    x = np.float32(x_scale) * (np.arange(low, high + 1) - x_zero).astype(np.float32)
    with np.errstate(all="ignore"):
        y = np.asarray(function(x.astype(np.float32)), np.float32)
    inverse = np.float32(1.0) / np.float32(y_scale)
    rounded = _away_array(y * inverse) + np.float32(y_zero)
    return np.asarray(np.clip(np.nan_to_num(rounded, nan=0.0), low, high), dtype)


def _away_array(x: Array) -> Array:
    """The nearest integers, halves away from zero, in the array's own type."""
    near = np.floor(np.abs(x) + x.dtype.type(0.5))
    # Adding a half may round up what lies just below one.
    near = np.where(near - np.abs(x) > 0.5, near - 1, near)
    return np.asarray(np.copysign(near, x))


def wide_table(
    x_scale: float, x_zero: int, y_scale: float, y_zero: int, function: Callable[[Array], Array], dtype: str = "float64"
) -> Array:
    """513 points of a function of 16 bits, to be interpolated (LUTPopulate of int16)."""
    low, high = dtypes.limits("int16")
    kind = np.dtype(dtype).type
    first, last = kind(x_scale) * kind(low - x_zero), kind(x_scale) * kind(high - x_zero)
    span = kind(y_scale) * kind(high - y_zero) - kind(y_scale) * kind(low - y_zero)
    step = (last - first) / kind(512)
    inverse = kind(high - low + 1) / span
    at = first + np.arange(512).astype(dtype) * step
    here, middle = function(at), function(at + step / kind(2))
    following = function(first + np.arange(1, 513).astype(dtype) * step)
    sample = _away_array(here * inverse)
    between = _away_array((following * inverse + sample) / kind(2))
    bias = _away_array((between - _away_array(middle * inverse)) / kind(2))
    end = _away_array(np.asarray(function(np.asarray([last], dtype))) * inverse)
    return np.asarray(np.clip(np.concatenate([sample - bias, end]), low, high), np.int16)


#: Where the reference's table of the logistic function is one more than the nearest integer; measured from its results.
_TUNED = (
    *(4, 8, 12, 14, 15, 16, 17, 19, 20, 21, 22, 25, 27, 28, 29, 30, 31, 33, 34, 35, 37, 39, 40, 41, 43, 44, 45, 46, 49),
    *(50, 54, 62, 63, 64, 66, 82, 86, 93, 100, 103, 112, 116, 135, 255),
)


def sigmoid_table() -> Array:
    """The logistic function of n / 24 as Q0.16, for n = 0 to 255."""
    table = np.round(65536 / (1 + np.exp(-np.arange(256) / 24)))
    table[list(_TUNED)] += 1
    return np.minimum(table, 65535).astype(np.uint16)


# ---------------------------------------------------------------- division of 8 bits
def _reciprocal(value: int) -> tuple[int, int]:
    """(multiplier, shift) of 1 / value for a positive integer (GetReciprocal)."""
    zeros = 32 - value.bit_length()
    half_denominator = np.int64(((value << zeros) - (1 << 31) + (1 << 31)) >> 1)
    x = high_product(half_denominator, -1010580540) + 1515870810
    for _ in range(3):
        missing = (1 << 29) - high_product(half_denominator, x)
        x = x + saturated_shift(high_product(x, missing), 2)
    return int(saturated_shift(x, 1)), 31 - zeros


def divisor_tables(dtype: str, zero: int) -> tuple[Array, Array]:
    """Of every divisor of 8 bits: the multiplier of its reciprocal and the bits before its point."""
    low, high = dtypes.limits(dtype)
    pairs = [_reciprocal(max(abs(value), 1)) for value in range(low - zero, high - zero + 1)]
    return np.array([m for m, _ in pairs], np.int32), np.array([s for _, s in pairs], np.int32)


def dividend_tables(dtype: str, zero: int, sign: int) -> tuple[Array, Array]:
    """Of every dividend of 8 bits, times the sign: as far to the left as 32 bits allow, and how far that is."""
    low, high = dtypes.limits(dtype)
    values = [sign * value for value in range(low - zero, high - zero + 1)]
    room = [31 - (value if value >= 0 else ~value).bit_length() for value in values]
    shifted = [value << count for value, count in zip(values, room, strict=True)]
    return np.array(shifted, np.int32), np.array(room, np.int32)


# ---------------------------------------------------------------- inverse square roots of 8 bits
_ROOT_BITS = 20


def inverse_root(value: int) -> tuple[int, int]:
    """(multiplier, shift) of 1 / sqrt(value) for a positive integer (GetInvSqrtQuantizedMultiplierExp)."""
    if value <= 1:
        return _MOST, 0
    pairs = (31 - value.bit_length()) // 2 - 1
    x = np.int64(1 << 28)  # numbers with three integer bits; five steps of Newton and Raphson from 1
    operand = (value << (2 * pairs)) >> 1
    half = rounding_shift(np.int64(operand), 1)
    for _ in range(5):
        cube = saturated_shift(high_product(high_product(x, x), x), 6)
        x = saturated_shift(high_product((1 << 28) + (1 << 27), x) - high_product(half, cube), 3)
    shift = 11 - pairs
    root = int(high_product(x, 1518500250))
    return (root << -shift, 0) if shift < 0 else (root, -shift)


def inverse_root_table(dtype: str, x_scale: float, x_zero: int, y_scale: float, y_zero: int) -> Array:
    """1 / sqrt(x) of every element of 8 bits; the greatest one where it is not defined."""
    low, high = dtypes.limits(dtype)
    factor = 1.0 / (float(np.sqrt(np.float32(x_scale))) * y_scale)
    y_multiplier, y_shift = quantize_multiplier(factor)
    entries = []
    for value in range(low - x_zero, high - x_zero + 1):
        result = high
        if value > 0:
            multiplier, shift = inverse_root(value)
            root = multiply(np.int64(1), multiplier, shift + _ROOT_BITS)
            result = int(multiply(root, y_multiplier, y_shift - _ROOT_BITS)) + y_zero
        entries.append(min(max(result, low), high))
    return np.array(entries, dtype)


# ---------------------------------------------------------------- hard swish of 8 bits
def _high_product_16(a: Array, b: int) -> Array:
    return (a * b + (1 << 14)) >> 15


def _short_multiplier(factor: float) -> tuple[int, int]:
    """A multiplier of 15 bits and its shift."""
    multiplier, shift = quantize_multiplier(factor)
    return (0x7FFF if multiplier >= _MOST - (1 << 15) else (multiplier + (1 << 15)) >> 16), shift


def hard_swish_table(dtype: str, x_scale: float, x_zero: int, y_scale: float, y_zero: int) -> Array:
    """x min(max(x + 3, 0), 6) / 6 for every element, in the reference kernel's arithmetic of 16 bits."""
    low, high = dtypes.limits(dtype)
    least, most = dtypes.limits("int16")
    fine = np.float32(1.0 / 128.0) * np.float32(x_scale)
    y_multiplier, y_shift = _short_multiplier(float(fine / np.float32(y_scale)))
    gate_multiplier, gate_shift = _short_multiplier(float(fine / np.float32(3.0 / 32768.0)))
    x = (np.arange(low, high + 1, dtype=np.int64) - x_zero) << 7
    x = ((x + (1 << 15)) & 0xFFFF) - (1 << 15)
    scaled = _high_product_16(x, y_multiplier)
    gate = x
    if gate_shift > 0:
        gate = np.clip(gate << (gate_shift - 1), least, most)
    gate = _high_product_16(gate, gate_multiplier)
    if gate_shift > 0:
        gate = np.clip(gate << 1, least, most)
    if gate_shift < 0:
        gate = rounding_shift(gate, -gate_shift)
    gate = (gate + (1 << 15)) >> 1
    product = gate * scaled
    product = np.where(product < 0, -((-product) >> 15), product >> 15)
    return np.asarray(np.clip(rounding_shift(product, -y_shift) + y_zero, low, high), dtype)
