"""Fast Fourier transforms out of small ones: products with small matrices, turned in between.

A transform of n = r m elements is m transforms of r elements, r m factors, and r transforms of m elements (Cooley and
Tukey, 1965). Elements stand as (outer, real or imaginary, left, done, inner), where `left` is the length still to be
transformed and `done` the frequencies that there are already: each step multiplies by a matrix from the left, with
vectors along all that lies behind the r, and moves the new frequencies before the others (Stockham), so that they end
up in order. Transforms side by side are `inner` where there are enough of them for vectors, however short they are. Of
real elements, only the first half of the frequencies of the first step is transformed further: what would become of the
others is the mirror image of that. A length with a large prime factor becomes a convolution of a length that is a power
of two (Bluestein, 1970).
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
#: So many transforms are computed side by side, with vectors across them.
SIDE_BY_SIDE = 8


@dataclass(frozen=True)
class Direction:
    """Of a transform: `sign` of the exponent, -1 from elements to frequencies, and a factor of all results."""

    sign: int
    scale: float = 1.0


@cache
def factors_of(length: int) -> tuple[int, ...] | None:
    """The factors, the largest first, of which products take the least; None where one would be a large prime."""
    found: tuple[int, ...] | None = (length,) if length <= _WIDEST else None
    for factor in range(min(_WIDEST, length - 1), 1, -1):
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
    """The transform of (outer, parts, length, inner), the result's first elements: (outer, results, wanted, inner).

    Args:
        parts: 1 where all elements are real, else 2: real parts, then imaginary ones.
        wanted: how many frequencies, from the first on, are used; results: 1 for real parts only.
    """
    factors = factors_of(length)
    if factors is None:
        return _by_convolution(t, x, length, parts, direction, wanted, results)
    outer, inner = x.shape[0], x.shape[-1]
    left, done = length, 1
    halved = parts == 1 and len(factors) > 1
    for number, factor in enumerate(factors):
        last = number == len(factors) - 1
        given, made = parts if number == 0 else 2, results if last else 2
        left //= factor
        rows = factor
        if halved and number == 0:
            rows = factor // 2 + 1
        elif last and not halved:
            # Of the last factor, each row is a run of `done` frequencies.
            rows = -(-wanted // done)
        matrix = _matrix(factor, rows, given, made, Direction(direction.sign, direction.scale if last else 1.0))
        x = t.reshape(x, (outer, given * factor, left * done * inner))
        x = t.op("matmul", t.constant(matrix, x.dtype), x)
        if not last:
            x = _turned(t, t.reshape(x, (outer, 2, rows, left, done * inner)), direction.sign, factor)
        done *= rows
    if halved:
        return _with_mirrored(
            t, t.reshape(x, (outer, results, length // factors[0], factors[0] // 2 + 1, inner)), factors[0], wanted
        )
    x = t.reshape(x, (outer, results, done, inner))
    return x if done == wanted else _cut(t, x, (outer, results, wanted, inner))


def _with_mirrored(t: Emitter, x: Value, factor: int, wanted: int) -> Value:
    """The first frequencies of real elements, of (outer, parts, runs, the first half of the frequencies of the first
    factor, inner): frequency f is the conjugate of what is as far from the end."""
    outer, parts, runs, half, inner = x.shape
    count = as_int(-(-wanted // factor))
    own = _cut(t, x, (outer, parts, count, half, inner))
    sizes, steps = (outer, parts, count, factor - half, inner), (1, 1, -1, -1, 1)
    if factor > 2:
        other = t.op("slice", x, starts=(0, 0, int(runs) - 1, (factor - 1) // 2, 0), sizes=sizes, steps=steps)
        signs = t.constant(np.array([1.0, -1.0])[: int(parts)].reshape(1, -1, 1, 1, 1), x.dtype)
        own = t.op("concat", own, t.op("mul", other, signs), axis=3)
    done = int(count) * factor
    own = t.reshape(own, (outer, parts, done, inner))
    return own if done == wanted else _cut(t, own, (outer, parts, wanted, inner))


def _cut(t: Emitter, x: Value, sizes: Sequence[IntLike]) -> Value:
    """The first elements along every dimension."""
    return t.op("slice", x, starts=(0,) * len(sizes), sizes=tuple(sizes), steps=(1,) * len(sizes))


def _matrix(length: int, rows: int, parts: int, results: int, direction: Direction) -> Array:
    """From (real or imaginary, element) to (real or imaginary, frequency)."""
    angle = direction.sign * 2 * np.pi * (np.outer(np.arange(rows), np.arange(length)) % length) / length
    real, imaginary = np.cos(angle) * direction.scale, np.sin(angle) * direction.scale
    matrix = np.stack([np.stack([real, -imaginary], 1), np.stack([imaginary, real], 1)])
    return matrix[:results, :, :parts].reshape(results * rows, parts * length)


def _turned(t: Emitter, x: Value, sign: int, factor: int) -> Value:
    """(outer, 2, rows, left, done) times the factors between two steps, as (outer, 2, left, rows, done), of the first
    rows of a factor's."""
    _, _, rows, left, _ = (int(n) if n.is_const else 0 for n in x.shape)
    check_table(factor, left, 3)
    angle = sign * 2 * np.pi * (np.outer(np.arange(rows), np.arange(left)) % (factor * left)) / (factor * left)
    return t.transpose(_multiplied(t, x, np.exp(1j * angle)[..., None]), (0, 1, 3, 2, 4))


def _multiplied(t: Emitter, x: Value, by: Array, parts: int = 2) -> Value:
    """The product of (outer, parts, ...) by a complex constant of the other dimensions, with both parts."""
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
    size, (outer, *_, inner) = _padded(length), x.shape
    check_table(size, 4)
    squares = np.arange(length, dtype=np.int64) ** 2 % (2 * length)
    chirp = np.exp(direction.sign * 1j * np.pi * squares / length)[:, None]
    kernel = np.zeros(size, np.complex128)
    kernel[:length] = chirp[:, 0].conj()
    kernel[size - length + 1 :] = chirp[:0:-1, 0].conj()
    x = _multiplied(t, x, chirp, parts)
    x = t.pad(x, (0, 0, 0, 0), (0, 0, size - length, 0))
    x = transformed(t, x, size, 2, Direction(-1), size, 2)
    x = _multiplied(t, x, np.fft.fft(kernel)[:, None])
    x = transformed(t, x, size, 2, Direction(1, 1 / size), wanted, 2)
    x = _multiplied(t, x, chirp[:wanted] * direction.scale)
    return x if results == 2 else _cut(t, x, (outer, 1, wanted, inner))


def mirrored(t: Emitter, x: Value, length: int) -> Value:
    """All frequencies of real elements, of those up to the middle."""
    outer, _, _, inner = x.shape
    parts, count = t.extent(x, 1), (length - 1) // 2
    starts, sizes, steps = (0, 0, count, 0), (outer, as_int(parts), as_int(count), inner), (1, 1, -1, 1)
    signs = t.constant(np.array([1.0, -1.0])[None, :parts, None, None], x.dtype)
    other = t.op("mul", t.op("slice", x, starts=starts, sizes=sizes, steps=steps), signs)
    return t.op("concat", x, other, axis=2) if count else x


def _places(rank: int, axis: int, sizes: Sequence[IntLike]) -> tuple[list[int], bool]:
    """The order of the dimensions as (outer, real or imaginary, elements, inner), and whether batches are inner."""
    order = [n for n in range(rank) if n not in (axis, rank - 1)]
    count = math.prod(map(as_int, sizes), start=as_int(1))
    inner = count.is_const and int(count) >= SIDE_BY_SIDE
    return ([rank - 1, axis, *order] if inner else [*order, rank - 1, axis]), inner


def planes(t: Emitter, x: Value, axis: int) -> tuple[Value, list[Int]]:
    """(..., real or imaginary) with the elements along an axis as (outer, real or imaginary, elements, inner), and the
    sizes of the batch."""
    rank = x.type.rank
    sizes = [x.shape[n] for n in range(rank) if n not in (axis, rank - 1)]
    order, inner = _places(rank, axis, sizes)
    count = math.prod(sizes, start=as_int(1))
    around = (as_int(1), count) if inner else (count, as_int(1))
    return t.reshape(t.transpose(x, order), (around[0], x.shape[-1], x.shape[axis], around[1])), sizes


def from_planes(t: Emitter, y: Value, sizes: Sequence[Int], axis: int) -> Value:
    """Back, with the axis at its place."""
    rank = len(sizes) + 2
    order, inner = _places(rank, axis, sizes)
    lead, after = ((), sizes) if inner else (sizes, ())
    turned = t.reshape(y, (*lead, y.shape[1], y.shape[2], *after))
    return t.transpose(turned, [order.index(n) for n in range(rank)])
