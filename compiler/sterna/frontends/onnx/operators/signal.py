"""Fourier transforms and filter banks."""

from __future__ import annotations

import math

from sterna.errors import error
from sterna.frontends.fourier import transform
from sterna.frontends.onnx.file import element_type
from sterna.frontends.onnx.operators import runtime
from sterna.frontends.onnx.operators.runtime import Numbers
from sterna.frontends.onnx.translation import Translation, Translator, axes_of
from sterna.ir.graph import Value
from sterna.ir.integer import as_int

WIDE = "float64"


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
    if t.known(1):
        apart = t.integer_of(1, "a step")
        if apart < 1 or ((size - length).bounds()[0] or 0) < 0:
            raise error("E0108", f"frames of {length} elements, {apart} apart, of {x.type}")
        y = t.op("strided", x, axis=1, start=0, sizes=((size - length) // apart + 1, length), steps=(apart, 1))
    else:
        made, step = t.wanted(1, "a step")[1], n.scalar(t.input(1))
        frames = as_int(made)
        reach = n.do("div", t.extent(x, 1) - length, n.do("maximum", step, 1))
        x = t.agree(x, n.do("equal", reach, made - 1), n.do("less", 0, step))
        numbers = t.op("arange", start=0, step=1, size=(frames,), to="int64")
        starts = n.do("mul", step, t.reshape(numbers, (frames, 1)))
        y = t.op("gather", x, n.do("add", starts, t.counting(length)), axis=1)
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
    places = do("add", do("mul", step, t.counting(mels + 2, WIDE)), begin)
    hertz = do("mul", do("sub", t.op("exp", do("mul", places, math.log(10) / 2595)), 1.0), 700.0)
    at = t.op("floor", do("div", do("mul", hertz, t.cast(n.do("add", length, 1), WIDE)), t.cast(rate, WIDE)))
    left, center, right = (t.op("slice", at, starts=(k,), sizes=(mels,), steps=(1,)) for k in range(3))
    bin_ = t.reshape(t.counting(bins, WIDE), (bins, 1))
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
