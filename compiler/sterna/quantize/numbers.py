"""Scales, zero points, and tensors in few bits: q stands for scale * (q - zero)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sterna.ir import dtypes
from sterna.ir.graph import Array
from sterna.quantize.calibration import Range

ACTIVATIONS = ("uint8", "int8")
_LARGEST_BIAS = float(1 << 30)  # in steps of its scale: half of int32 is left to the products
_LEAST_SCALE = float(np.finfo(np.float32).tiny)


@dataclass(frozen=True)
class Scale:
    """How the integers of an activation stand for numbers."""

    scale: np.float32
    zero: int
    dtype: str

    @property
    def range(self) -> Range:
        """What they can stand for."""
        low, high = dtypes.limits(self.dtype)
        return Range(*(float(np.float32(n - self.zero) * self.scale) for n in (low, high)))


def activation_scale(range: Range, dtype: str) -> Scale:
    """The scale that spreads a range over a type; zero is exact. Of an empty range: one.

    A range that begins or ends with zero is not exceeded, not even by rounding: a rectifier whose output has this scale
    then has nothing left to do.
    """
    low, high = dtypes.limits(dtype)
    step = range.width / (high - low)
    if not np.float32(step) >= _LEAST_SCALE:
        return Scale(
            np.float32(1.0), low if range.low >= 0 else high if range.high <= 0 else (low + high + 1) // 2, dtype
        )
    zero = int(np.clip(np.round(low - range.low / step), low, high))
    scale = np.float32(step)
    made = Scale(scale, zero, dtype)
    if (range.low == 0 and made.range.high > range.high) or (range.high == 0 and made.range.low < range.low):
        made = Scale(np.nextafter(scale, np.float32(0)), zero, dtype)
    return made


def weight_scales(weight: Array, axis: int | None, bias: Array | None, x_scale: np.float32) -> Array:
    """Scales of symmetric int8 weights, float32: one per element of `axis`, or one.

    So large that the bias, which counts in steps of `x_scale` times these, fits into int32 with room for the products.

    Args:
        bias: one number per element of `axis`, or None.
    """
    if axis is None:
        largest = np.abs(weight).max(initial=0.0, keepdims=True).reshape(1)
    else:
        largest = np.abs(weight).max(axis=tuple(n for n in range(weight.ndim) if n != axis), initial=0.0)
    scales = largest.astype(np.float64) / 127
    scales = np.where(scales < _LEAST_SCALE, 1.0 / 127, scales)  # a channel of zeros
    if bias is not None:
        needed = np.abs(bias.astype(np.float64)) / (float(x_scale) * _LARGEST_BIAS)
        scales = np.maximum(scales, needed if scales.size == needed.size else needed.max(initial=0.0))
    single: Array = scales.astype(np.float32)
    return single


def rounded_weight(weight: Array, scales: Array, axis: int | None) -> Array:
    """The weights as int8 of -127 to 127."""
    rounded: Array = np.clip(np.round(weight / spread(scales, weight.ndim, axis)), -127, 127).astype(np.int8)
    return rounded


def spread(scales: Array, rank: int, axis: int | None) -> Array:
    """Scales in a shape that broadcasts against their tensor."""
    shape = [-1 if n == axis else 1 for n in range(rank)] if axis is not None else [1] * rank
    return scales.reshape(shape)


def rounded_bias(bias: Array, scales: Array) -> Array:
    """The bias as int32."""
    limit = np.iinfo(np.int32).max
    return np.clip(np.round(bias.astype(np.float64) / scales), -limit, limit).astype(np.int32)
