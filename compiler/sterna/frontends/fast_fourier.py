"""Fast Fourier transforms out of small ones: products with small matrices, turned in between.

A transform of n = r m elements is m transforms of r elements, r m factors, and r transforms of m elements (Cooley and
Tukey, 1965). Elements stand as (batch, real or imaginary, left, done), where `left` is the length still to be
transformed and `done` the frequencies that there are already: each step multiplies by a matrix from the left, with
vectors along all that lies behind the r, and moves the new frequencies before the others (Stockham), so that they end
up in order. A length with a large prime factor becomes a convolution of a length that is a power of two (Bluestein,
1970).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from sterna.frontends.emitter import Emitter
from sterna.ir.graph import Array, Value
from sterna.ir.integer import Int, IntLike, as_int
from sterna.ir.limits import check_table

#: The largest transform that is one matrix.
_WIDEST = 64
#: What passes over the elements between two products cost, as multiply-adds of each.
_PASS = 24


@dataclass(frozen=True)
class Direction:
    """Of a transform: `sign` of the exponent, -1 from elements to frequencies, and a factor of all results."""

    sign: int
    scale: float = 1.0


@cache
def factors_of(length: int) -> tuple[int, ...] | None:
    """The factors, the largest first, of which products take the least; None where one would be a large prime."""
    if length <= _WIDEST:
        return (length,)
    found: tuple[int, ...] | None = None
    for factor in range(_WIDEST, 1, -1):
        if length % factor == 0 and (rest := factors_of(length // factor)) is not None:
            tried = tuple(sorted((factor, *rest), reverse=True))
            if found is None or _cost(tried) < _cost(found):
                found = tried
    return found


def _cost(factors: Sequence[int]) -> int:
    """Multiply-adds for each element."""
    return 4 * sum(factors) + 2 * _PASS * len(factors)


def cost(length: int) -> int:
    """Multiply-adds of a transform of complex elements."""
    factors = factors_of(length)
    return length * _cost(factors) if factors is not None else 2 * cost(_padded(length)) + 6 * _PASS * length


def _padded(length: int) -> int:
    """The length of the convolution that a transform becomes."""
    return 1 << (2 * length - 2).bit_length()


def transformed(
    t: Emitter, x: Value, length: int, parts: int, direction: Direction, wanted: int, results: int
) -> Value:
    """The transform of (batch, parts, length), the result's first elements: (batch, results, wanted).

    Args:
        parts: 1 where all elements are real, else 2: real parts, then imaginary ones.
        wanted: how many frequencies, from the first on, are used; results: 1 for real parts only.
    """
    factors = factors_of(length)
    if factors is None:
        return _by_convolution(t, x, length, parts, direction, wanted, results)
    batch = x.shape[0]
    left, done = length, 1
    for number, factor in enumerate(factors):
        last = number == len(factors) - 1
        given, made = parts if number == 0 else 2, results if last else 2
        left //= factor
        # Of the last factor, each row is a run of `done` frequencies.
        rows = -(-wanted // done) if last else factor
        matrix = _matrix(factor, rows, given, made, Direction(direction.sign, direction.scale if last else 1.0))
        x = t.reshape(x, (batch, given * factor, left * done))
        x = t.op("matmul", t.constant(matrix, x.dtype), x)
        if not last:
            x = _turned(t, t.reshape(x, (batch, 2, factor, left, done)), direction.sign)
        done *= rows
    x = t.reshape(x, (batch, results, done))
    return x if done == wanted else _cut(t, x, (batch, results, wanted))


def _cut(t: Emitter, x: Value, sizes: Sequence[IntLike]) -> Value:
    """The first elements along every dimension."""
    return t.op("slice", x, starts=(0,) * len(sizes), sizes=tuple(sizes), steps=(1,) * len(sizes))


def _matrix(length: int, rows: int, parts: int, results: int, direction: Direction) -> Array:
    """From (real or imaginary, element) to (real or imaginary, frequency)."""
    angle = direction.sign * 2 * np.pi * (np.outer(np.arange(rows), np.arange(length)) % length) / length
    real, imaginary = np.cos(angle) * direction.scale, np.sin(angle) * direction.scale
    matrix = np.stack([np.stack([real, -imaginary], 1), np.stack([imaginary, real], 1)])
    return matrix[:results, :, :parts].reshape(results * rows, parts * length)


def _turned(t: Emitter, x: Value, sign: int) -> Value:
    """(batch, 2, factor, left, done) times the factors between two steps, as (batch, 2, left, factor, done)."""
    _, _, factor, left, _ = (int(n) if n.is_const else 0 for n in x.shape)
    check_table(factor, left, 3)
    angle = sign * 2 * np.pi * (np.outer(np.arange(factor), np.arange(left)) % (factor * left)) / (factor * left)
    return t.transpose(_multiplied(t, x, np.exp(1j * angle)[..., None]), (0, 1, 3, 2, 4))


def _multiplied(t: Emitter, x: Value, by: Array, parts: int = 2) -> Value:
    """The product of (batch, parts, ...) by a complex constant of the other dimensions, with both parts."""
    real, imaginary = t.constant(by.real[None, None], x.dtype), np.stack([-by.imag, by.imag])[None]
    if parts == 1:
        return t.op("mul", x, t.constant(np.stack([by.real, by.imag])[None], x.dtype))
    steps = (1, -1, *[1] * (x.type.rank - 2))
    swapped = t.op("slice", x, starts=(0, 1, *[0] * (x.type.rank - 2)), sizes=x.shape, steps=steps)
    return t.op("add", t.op("mul", x, real), t.op("mul", swapped, t.constant(imaginary, x.dtype)))


def _by_convolution(
    t: Emitter, x: Value, length: int, parts: int, direction: Direction, wanted: int, results: int
) -> Value:
    """x_k w^(k^2 / 2), convolved with w^(-k^2 / 2), times w^(k^2 / 2): as 2 j k = j^2 + k^2 - (k - j)^2."""
    size, batch = _padded(length), x.shape[0]
    check_table(size, 4)
    squares = np.arange(length, dtype=np.int64) ** 2 % (2 * length)
    chirp = np.exp(direction.sign * 1j * np.pi * squares / length)
    kernel = np.zeros(size, np.complex128)
    kernel[:length] = chirp.conj()
    kernel[size - length + 1 :] = chirp.conj()[:0:-1]
    x = _multiplied(t, x, chirp, parts)
    x = t.pad(x, (0, 0, 0), (0, 0, size - length))
    x = transformed(t, x, size, 2, Direction(-1), size, 2)
    x = _multiplied(t, x, np.fft.fft(kernel))
    x = transformed(t, x, size, 2, Direction(1, 1 / size), wanted, 2)
    x = _multiplied(t, x, chirp[:wanted] * direction.scale)
    return x if results == 2 else _cut(t, x, (batch, 1, wanted))


def mirrored(t: Emitter, x: Value, length: int) -> Value:
    """All frequencies of real elements, along the last dimension, from those up to the middle."""
    batch, parts = x.shape[0], t.extent(x, 1)
    count = (length - 1) // 2
    starts, sizes, steps = (0, 0, count), (batch, as_int(parts), as_int(count)), (1, 1, -1)
    signs = t.constant(np.array([1.0, -1.0])[None, :parts, None], x.dtype)
    other = t.op("mul", t.op("slice", x, starts=starts, sizes=sizes, steps=steps), signs)
    return t.op("concat", x, other, axis=2) if count else x


def planes(t: Emitter, x: Value, axis: int) -> tuple[Value, list[Int]]:
    """(..., real or imaginary) with the elements along an axis as (batch, real or imaginary, elements), and the sizes
    of the batch."""
    rank = x.type.rank
    order = [n for n in range(rank) if n not in (axis, rank - 1)]
    sizes = [x.shape[n] for n in order]
    turned = t.transpose(x, [*order, rank - 1, axis])
    return t.reshape(turned, (math.prod(sizes, start=as_int(1)), x.shape[-1], x.shape[axis])), sizes


def from_planes(t: Emitter, y: Value, sizes: Sequence[Int], axis: int) -> Value:
    """Back, with the axis at its place."""
    rank = len(sizes) + 2
    order = [n for n in range(rank) if n not in (axis, rank - 1)] + [rank - 1, axis]
    turned = t.reshape(y, (*sizes, y.shape[1], y.shape[2]))
    return t.transpose(turned, [order.index(n) for n in range(rank)])
