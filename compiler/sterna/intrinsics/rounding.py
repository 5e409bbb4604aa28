"""What instructions on floats compute to the last bit: their roundings, the order of their sums, what becomes of
numbers that are too small for normal ones.

Every sum of two float32 numbers, or of one and a product of bfloat16 ones, is computed here in float64 and rounded to
odd there, so that rounding it once more gives what one rounding of the exact sum would (S. Boldo and G. Melquiond,
Emulation of FMA and Correctly Rounded Sums: Proved Algorithms Using Rounding to Odd, 2008).
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

_LEAST = float(np.finfo(np.float32).smallest_normal)


def two_fused(total: Array, a: Array, b: Array) -> Array:
    """x86's vdpbf16ps: two fused multiply-adds, that of the upper halves of the pairs first, rounded to nearest, ties
    to even; what is smaller than normal numbers is zero, in operands and in results (the SDM, and measured on Zen 4).

    Args:
        total: float32, (lanes,).
        a, b: bfloat16, (lanes, 2).
    """
    with np.errstate(all="ignore"):
        for n in (1, 0):
            product = _wide(a[..., n]) * _wide(b[..., n])  # exact: 8 digits by 8
            total = _flushed(_odd_sum(_wide(total), product).astype(np.float32))
    return total


def odd_pairs(total: Array, a: Array, b: Array) -> Array:
    """ARM's bfdot (FPCR.EBF = 0): the two products are added, then the sum to the accumulator; every sum is rounded to
    odd, and what is smaller than normal numbers is zero, in operands, products and results.

    Args: as of `two_fused`.
    """
    with np.errstate(all="ignore"):
        low, high = (_odd(_wide(a[..., n]) * _wide(b[..., n])) for n in (0, 1))
        pair = _odd(_odd_sum(_wide(low), _wide(high)))
        return _odd(_odd_sum(_wide(total), _wide(pair)))


def half_fused(total: Array, a: Array, b: Array) -> Array:
    """A fused multiply-add of float16: round to nearest, ties to even. Numbers smaller than normal ones are numbers.

    Args:
        total: float16, (lanes,).
        a, b: float16, (lanes, 1).
    """
    with np.errstate(all="ignore"):
        product = a[..., 0].astype(np.float64) * b[..., 0].astype(np.float64)  # exact: 11 digits by 11
        return _odd_sum(total.astype(np.float64), product).astype(np.float16)


def _wide(x: Array) -> Array:
    """In float64; zero in place of what is smaller than normal numbers."""
    return _flushed(x.astype(np.float32)).astype(np.float64)


def _flushed(x: Array) -> Array:
    return np.where(np.abs(x) < np.float32(_LEAST), np.copysign(np.float32(0), x), x)


def _odd_sum(a: Array, b: Array) -> Array:
    """The sum of float64 numbers rounded to odd: cut off, and its last digit 1 if it is not exact."""
    total = np.asarray(a + b)
    part = total - a
    error = (a - (total - part)) + (b - part)
    even = (total.view(np.int64) & 1) == 0
    inexact = np.isfinite(total) & np.isfinite(error) & (error != 0) & even
    return np.where(inexact, np.nextafter(total, np.copysign(np.inf, error)), total)


def _odd(x: Array) -> Array:
    """float64 to float32, rounded to odd; beyond the largest number infinity, zero in place of what is too small."""
    near = np.asarray(x.astype(np.float32))
    toward_zero = np.where(np.abs(near.astype(np.float64)) > np.abs(x), np.nextafter(near, np.float32(0)), near)
    inexact = np.isfinite(x) & (toward_zero.astype(np.float64) != x)
    bits = np.asarray(toward_zero, np.float32).view(np.int32)
    odd = np.where(inexact, bits | 1, bits).view(np.float32)
    beyond = np.isfinite(x) & (np.abs(x) >= 2.0**128)
    return _flushed(np.where(beyond, np.copysign(np.float32(np.inf), odd), odd))
