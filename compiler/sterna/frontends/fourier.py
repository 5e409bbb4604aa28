"""Fourier transforms: products with the matrix of their sines and cosines where they are short, fast ones else.

For some hundreds of elements a product is as fast as a fast transform, and either reaches the same kernels as
everything else.
"""

from __future__ import annotations

import math

import numpy as np

from sterna.errors import error
from sterna.frontends.emitter import Emitter
from sterna.frontends.fast_fourier import Direction, cost, from_planes, mirrored, planes, transformed
from sterna.ir import dtypes
from sterna.ir.graph import Array, Value
from sterna.ir.integer import Int, as_int
from sterna.ir.limits import check_table

LONGEST = 1 << 20
#: Rows from which on a matrix is read for several at once; below, reading it takes as long as so many multiply-adds.
_FEW, _READ = 8, 4
#: What starting the kernels of a fast transform takes, as multiply-adds.
_KERNELS = 100_000


def _matrix(given: int, length: int, parts: int, inverse: bool, onesided: bool) -> Array:
    """From (element, real or imaginary) to (frequency, real or imaginary), or back.

    Args:
        given: elements that there are; the others of `length` are 0.
        parts: 1 for real operands, 2 for complex ones.
    """
    check_table(length, 2, parts, length)
    rows = np.arange(min(given, length if not (inverse and onesided) else length // 2 + 1))
    if inverse and onesided:
        # All frequencies but the first and the middle one stand for their mirror images too.
        weight = np.where((rows == 0) | (2 * rows == length), 1.0, 2.0) / length
        angle = 2 * np.pi * (np.outer(rows, np.arange(length)) % length) / length
        matrix = np.stack([np.cos(angle) * weight[:, None], -np.sin(angle) * weight[:, None]], axis=1)
        return matrix[:, :parts].reshape(len(rows) * parts, length)
    columns = np.arange(length // 2 + 1 if onesided else length)
    sign = 1.0 if inverse else -1.0
    angle = sign * 2 * np.pi * (np.outer(rows, columns) % length) / length
    real, imaginary = np.cos(angle), np.sin(angle)
    matrix = np.stack([np.stack([real, imaginary], -1), np.stack([-imaginary, real], -1)], axis=1)
    if inverse:
        matrix = matrix / length
    return matrix[:, :parts].reshape(len(rows) * parts, len(columns) * 2)


def transform(t: Emitter, x: Value, axis: int, length: int, inverse: bool, onesided: bool) -> Value:
    """The transform along an axis of a tensor whose last dimension is real and imaginary part.

    Args:
        length: of the transform: elements after it are left out, missing ones are 0.
        inverse: from frequencies to elements.
        onesided: only the frequencies up to the middle, of which the others are mirror images.

    Raises:
        SternaError: E0107, E0108 or E0113.
    """
    sizes = x.shape
    parts = t.extent(x, -1)
    if parts not in (1, 2) or axis == len(sizes) - 1:
        raise error("E0108", f"a Fourier transform of {x.type} along dimension {axis}")
    if not 1 <= length <= LONGEST:
        raise error("E0113", f"{t.kind} of {length} elements is not supported")
    if x.dtype in dtypes.HALVES:
        return t.cast(transform(t, t.cast(x, "float32"), axis, length, inverse, onesided), x.dtype)
    rows = [s for n, s in enumerate(sizes[:-1]) if n != axis]
    if _is_large(math.prod(rows, start=as_int(1)), parts, length, onesided):
        return _fast(t, x, axis, length, inverse, onesided)
    return _product(t, x, axis, length, inverse, onesided)


def _is_large(rows: Int, parts: int, length: int, onesided: bool) -> bool:
    """Whether a fast transform takes less than a product. A matrix that few rows are multiplied by has to be read for
    them alone, and the many small kernels of a fast transform cost some microseconds."""
    products = parts * length * (length if onesided else 2 * length)
    count = int(rows) if rows.is_const else _FEW
    few = count < _FEW
    return count * products * (_READ if few else 1) > count * cost(length) + _KERNELS


def _fast(t: Emitter, x: Value, axis: int, length: int, inverse: bool, onesided: bool) -> Value:
    half = length // 2 + 1
    needed = half if inverse and onesided else length
    y, rows = planes(t, x, axis)
    given = t.extent(x, axis)
    if given > needed:
        sizes = (*y.shape[:2], needed, y.shape[3])
        y = t.op("slice", y, starts=(0, 0, 0, 0), sizes=sizes, steps=(1, 1, 1, 1))
    y = t.pad(y, (0, 0, 0, 0), (0, 0, max(needed - given, 0), 0))
    if needed < length:
        y = mirrored(t, y, length)
    direction = Direction(1, 1 / length) if inverse else Direction(-1)
    wanted, results = (half, 2) if onesided and not inverse else (length, 1 if onesided else 2)
    return from_planes(t, transformed(t, y, length, t.extent(y, 1), direction, wanted, results), rows, axis)


def _product(t: Emitter, x: Value, axis: int, length: int, inverse: bool, onesided: bool) -> Value:
    """One product with the matrix of the whole transform."""
    sizes = x.shape
    parts, extent = t.extent(x, -1), t.extent(x, axis)
    matrix = _matrix(extent, length, parts, inverse, onesided)
    used = len(matrix) // parts
    if used < extent:
        kept = [used if n == axis else s for n, s in enumerate(sizes)]
        x = t.op("slice", x, starts=(0,) * len(sizes), sizes=tuple(kept), steps=(1,) * len(sizes))
    rank = len(sizes)
    order = [n for n in range(rank) if n not in (axis, rank - 1)] + [axis, rank - 1]
    lead = [sizes[n] for n in order[:-2]]
    flat = t.reshape(t.transpose(x, order), (*lead, used * parts))
    if rank == 2:
        flat = t.reshape(flat, (1, used * parts))
    y = t.op("matmul", flat, t.constant(matrix, x.dtype))
    made = 1 if inverse and onesided else 2
    y = t.reshape(y, (*lead, matrix.shape[1] // made, made))
    return t.transpose(y, [order.index(n) for n in range(rank)])
