"""Fourier transforms and filter banks.

A transform is a product with the matrix of its sines and cosines, which for the lengths that models use (some hundreds)
is as fast as a fast transform and reaches the same kernels as everything else.
"""

from __future__ import annotations

import math

import numpy as np

from sterna.errors import error
from sterna.frontends.onnx.file import element_type
from sterna.frontends.onnx.operators import runtime
from sterna.frontends.onnx.operators.runtime import Numbers
from sterna.frontends.onnx.translation import Translation, Translator, axes_of
from sterna.ir.graph import Array, Value
from sterna.ir.integer import as_int

LONGEST = 4096
WIDE = "float64"


def _matrix(given: int, length: int, parts: int, inverse: bool, onesided: bool) -> Array:
    """From (element, real or imaginary) to (frequency, real or imaginary), or back.

    Args:
        given: elements that there are; the others of `length` are 0.
        parts: 1 for real operands, 2 for complex ones.
    """
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


def transform(t: Translation, x: Value, axis: int, length: int, inverse: bool, onesided: bool) -> Value:
    """The transform along an axis of a tensor whose last dimension is real and imaginary part."""
    sizes = x.shape
    parts, extent = t.extent(x, -1), t.extent(x, axis)
    if parts not in (1, 2) or axis == len(sizes) - 1:
        raise error("E0108", f"a Fourier transform of {x.type} along dimension {axis}")
    if not 1 <= length <= LONGEST:
        raise t.unsupported(f"of {length} elements")
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


def dft(t: Translation) -> Value:
    x = t.input(0)
    inverse, onesided = bool(t.attribute("inverse", 0)), bool(t.attribute("onesided", 0))
    if t.version < 20:
        (axis,) = axes_of((t.attribute("axis", 1),), x.type.rank)
        return _along(t, x, axis, inverse, onesided)
    if t.known(2):
        (axis,) = axes_of((t.integer_of(2, "an axis") if t.has(2) else -2,), x.type.rank)
        return _along(t, x, axis, inverse, onesided)
    return runtime.along(t, 2, x, lambda axis: _along(t, x, axis, inverse, onesided))


def _along(t: Translation, x: Value, axis: int, inverse: bool, onesided: bool) -> Value:
    size = t.extent(x, axis)
    if not t.has(1):
        return transform(t, x, axis, 2 * (size - 1) if inverse and onesided else size, inverse, onesided)
    if t.known(1):
        return transform(t, x, axis, t.integer_of(1, "a length"), inverse, onesided)
    made = t.wanted(1, "a length")[axis]
    n = Numbers(t)
    given = n.scalar(t.input(1))
    lengths = [2 * made - 2, 2 * made - 1] if onesided and not inverse else [made]
    return runtime.choose(
        t, [(n.do("equal", given, k), transform(t, x, axis, k, inverse, onesided)) for k in lengths if k > 0]
    )


def stft(t: Translation) -> Value:
    x, window = t.input(0), t.optional(2)
    if x.type.rank == 2:
        x = t.reshape(x, (*x.shape, 1))
    size = x.shape[1]
    onesided = bool(t.attribute("onesided", 1))
    n = Numbers(t)
    if t.has(3) and t.known(3):
        length = t.integer_of(3, "a frame's length")
    elif window is not None:
        length = t.extent(window, 0)
    elif t.has(3):
        made = t.wanted(3, "a frame's length")[2]
        length = 2 * (made - 1) if onesided else made
    else:
        length = t.extent(x, 1)
    if t.has(3) and not t.known(3):
        x = runtime.equal_to(t, x, 3, length)
    step = n.scalar(t.input(1))
    if t.known(1):
        apart = t.integer_of(1, "a step")
        if apart < 1 or ((size - length).bounds()[0] or 0) < 0:
            raise error("E0108", f"frames of {length} elements, {apart} apart, of {x.type}")
        frames = (size - length) // apart + 1
    else:
        made = t.wanted(1, "a step")[1]
        frames = as_int(made)
        reach = n.do("div", t.extent(x, 1) - length, n.do("maximum", step, 1))
        x = t.agree(x, n.do("equal", reach, made - 1), n.do("less", 0, step))
    numbers = t.op("arange", start=0, step=1, size=(frames,), to="int64")
    starts = n.do("mul", step, t.reshape(numbers, (frames, 1)))
    y = t.op("gather", x, n.do("add", starts, np.arange(length)[None, :]), axis=1)
    if window is not None:
        y = t.op("mul", y, t.reshape(t.cast(window, y.dtype), (length, 1)))
    return transform(t, y, 2, length, False, onesided)


def mel_weight_matrix(t: Translation) -> Value:
    """Triangles over the bins of a spectrogram; in float64, where all operands are known at compile time."""
    n = Numbers(t)
    dtype = element_type(t.attribute("output_datatype", 1))
    if t.known(0, 1):
        mels, bins = t.integer_of(0, "a number of bands"), t.integer_of(1, "a length") // 2 + 1
    else:
        bins, mels = t.wanted(0, "a number of bands")
    length, rate = n.scalar(t.input(1)), n.scalar(t.input(2))
    low, high = (t.cast(t.reshape(t.input(k), ()), WIDE) for k in (3, 4))

    def do(op: str, a: Value | float, b: Value | float) -> Value:
        return t.op(op, *(v if isinstance(v, Value) else t.scalar(v, WIDE) for v in (a, b)))

    def mel(frequency: Value) -> Value:
        return do("mul", t.op("log", do("add", 1.0, do("div", frequency, 700.0))), 2595 / math.log(10))

    begin = mel(low)
    step = do("div", do("sub", mel(high), begin), mels + 2.0)
    places = do("add", do("mul", step, t.constant(np.arange(mels + 2, dtype=np.float64))), begin)
    hertz = do("mul", do("sub", t.op("exp", do("mul", places, math.log(10) / 2595)), 1.0), 700.0)
    at = t.op("floor", do("div", do("mul", hertz, t.cast(n.do("add", length, 1), WIDE)), t.cast(rate, WIDE)))
    left, center, right = (t.op("slice", at, starts=(k,), sizes=(mels,), steps=(1,)) for k in range(3))
    bin_ = t.constant(np.arange(bins, dtype=np.float64)[:, None])
    rise, fall = do("sub", center, left), do("sub", right, center)
    zero, one = t.scalar(0.0, WIDE), t.scalar(1.0, WIDE)

    def share(top: Value, bottom: Value) -> Value:
        return do("div", top, t.op("where", t.op("equal", bottom, zero), one, bottom))

    up = n.both(t.op("less_equal", left, bin_), t.op("less_equal", bin_, center))
    rising = t.op("where", up, share(do("sub", bin_, left), rise), zero)
    point = t.op("where", t.op("equal", bin_, center), one, zero)
    rising = t.op("where", t.op("equal", rise, zero), point, rising)
    down = n.both(t.op("less", zero, fall), t.op("less_equal", center, bin_), t.op("less", bin_, right))
    y = t.cast(t.op("where", down, share(do("sub", right, bin_), fall), rising), dtype)
    if t.known(0, 1):
        return y
    half = n.do("add", n.do("div", length, 2), 1)
    return t.agree(y, n.do("equal", n.scalar(t.input(0)), mels), n.do("equal", half, bins))


TRANSLATORS: dict[str, Translator] = {"DFT": dft, "MelWeightMatrix": mel_weight_matrix, "STFT": stft}
