"""Fourier transforms, and what is made of their results: complex numbers are pairs of floats."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sterna.errors import error
from sterna.frontends.angles import arc_tangent
from sterna.frontends.emitter import axes_of
from sterna.frontends.fourier import transform
from sterna.frontends.tensorflow.translation import Complex, Translation, Translator
from sterna.ir.graph import Value


def _complex(t: Translation, position: int) -> Value:
    item = t.item(position)
    if not isinstance(item, Complex):
        raise error("E0108", f"{t.kind} takes complex numbers")
    return item.value


def _lengths(t: Translation, sizes: Sequence[int]) -> list[int]:
    """How many elements a transform has along each of its dimensions: all, or those that an operand says."""
    if len(t.items) < 2:
        return list(sizes)
    lengths = t.integers(1, "the lengths of the transform")
    if len(lengths) != len(sizes):
        raise error("E0108", f"{len(lengths)} lengths of a transform of {len(sizes)} dimensions")
    return lengths


def _others(t: Translation, x: Value, lengths: Sequence[int], inverse: bool) -> Value:
    """The transform along the dimensions before the last one of complex numbers, the nearest first."""
    for back, length in enumerate(reversed(lengths), start=3):
        x = transform(t, x, x.type.rank - back, length, inverse, False)
    return x


def _forward(dimensions: int) -> Translator:
    """Of real numbers, in the last dimension the frequencies up to the middle."""

    def translate(t: Translation) -> Complex:
        x = t.input(0)
        if x.type.rank < dimensions or x.dtype != "float32":
            raise t.unsupported(f"of {x.type}")
        *rest, last = _lengths(t, [t.extent(x, n) for n in range(-dimensions, 0)])
        x = transform(t, t.reshape(x, (*x.shape, 1)), x.type.rank - 1, last, False, True)
        return Complex(_others(t, x, rest, False))

    return translate


def _whole(dimensions: int, inverse: bool) -> Translator:
    def translate(t: Translation) -> Complex:
        x = _complex(t, 0)
        if x.type.rank <= dimensions:
            raise error("E0108", f"{t.kind} of {x.type.rank - 1} dimensions")
        *rest, last = [t.extent(x, n) for n in range(-1 - dimensions, -1)]
        return Complex(_others(t, transform(t, x, x.type.rank - 2, last, inverse, False), rest, inverse))

    return translate


def _backward(dimensions: int) -> Translator:
    """Real numbers of the frequencies up to the middle, of which the others are mirror images."""

    def translate(t: Translation) -> Value:
        x = _complex(t, 0)
        if x.type.rank <= dimensions:
            raise error("E0108", f"{t.kind} of {x.type.rank - 1} dimensions")
        sizes = [t.extent(x, n) for n in range(-1 - dimensions, -1)]
        *rest, last = _lengths(t, [*sizes[:-1], 2 * (sizes[-1] - 1)])
        return _mirrored(t, _others(t, x, rest, True), last)

    return translate


def _along_axes(inverse: bool, onesided: bool) -> Translator:
    """FFTND and its like: along the dimensions that an operand names, the last of them first."""

    def translate(t: Translation) -> Complex | Value:
        lengths, axes = t.integers(1, "the lengths of the transform"), t.integers(2, "the dimensions")
        if onesided and not inverse:
            given = t.input(0)
            x = t.reshape(given, (*given.shape, 1))
        else:
            x = _complex(t, 0)
        rank = x.type.rank - 1
        places = axes_of(axes, rank)
        if len(places) != len(lengths) or (onesided and inverse and places[-1] != rank - 1):
            raise t.unsupported(f"of {x.type} along {axes}")
        pairs = list(zip(places, lengths, strict=True))
        if onesided and inverse:
            for axis, length in pairs[:-1]:
                x = transform(t, x, axis, length, True, False)
            return _mirrored(t, x, lengths[-1])
        for n, (axis, length) in enumerate(reversed(pairs)):
            x = transform(t, x, axis, length, inverse, onesided and n == 0)
        return Complex(x)

    return translate


def _mirrored(t: Translation, x: Value, length: int) -> Value:
    """IRFFT along the last dimension."""
    axis = x.type.rank - 2
    wanted = length // 2 + 1
    have = t.extent(x, axis)
    if wanted > have:
        after = [0] * x.type.rank
        after[axis] = wanted - have
        x = t.pad(x, (0,) * x.type.rank, after)
    half = _along(t, x, axis, 0, wanted)
    if length > 2:
        mirrored = t.op("gather", x, t.constant(np.arange((length - 1) // 2, 0, -1), "int64"), axis=axis)
        half = t.op("concat", half, t.op("mul", mirrored, t.constant([1.0, -1.0], "float32")), axis=axis)
    return _part(t, transform(t, half, axis, length, True, False), 0)


def _along(t: Translation, x: Value, axis: int, start: int, count: int) -> Value:
    starts, sizes = [0] * x.type.rank, list(x.shape)
    starts[axis], sizes[axis] = start, count  # type: ignore[call-overload]
    return t.op("slice", x, starts=tuple(starts), sizes=tuple(sizes), steps=(1,) * x.type.rank)


def _part(t: Translation, x: Value, part: int) -> Value:
    """The real (0) or the imaginary part (1)."""
    return t.reshape(_along(t, x, x.type.rank - 1, part, 1), x.shape[:-1])


def _parts(t: Translation, position: int = 0) -> tuple[Value, Value]:
    x = _complex(t, position)
    return _part(t, x, 0), _part(t, x, 1)


def absolute(t: Translation) -> Value:
    x = _complex(t, 0)
    total = t.op("reduce_sum", t.op("mul", x, x), axes=(x.type.rank - 1,), keep_dims=False)
    return t.op("sqrt", total)


def joined(t: Translation) -> Complex:
    parts = [t.reshape(t.input(n), (*t.input(n).shape, 1)) for n in (0, 1)]
    return Complex(t.op("concat", *parts, axis=parts[0].type.rank - 1))


def conjugate(t: Translation) -> Complex:
    return Complex(t.op("mul", _complex(t, 0), t.constant([1.0, -1.0], "float32")))


def angle(t: Translation) -> Value:
    real, imaginary = _parts(t)
    return arc_tangent(t, imaginary, real)


def conjugate_transpose(t: Translation) -> Complex | Value:
    """ConjugateTranspose: of complex numbers or of others."""
    order = t.integers(1, "the order of dimensions")
    if not isinstance(t.item(0), Complex):
        return t.transpose(t.input(0), order)
    turned = t.transpose(_complex(t, 0), (*order, len(order)))
    return Complex(t.op("mul", turned, t.constant([1.0, -1.0], "float32")))


TRANSLATORS: dict[str, Translator] = {
    "FFTND": _along_axes(False, False), "IFFTND": _along_axes(True, False), "RFFTND": _along_axes(False, True),
    "IRFFTND": _along_axes(True, True), "Angle": angle, "Complex": joined, "ComplexAbs": absolute, "Conj": conjugate,
    "ConjugateTranspose": conjugate_transpose,
    "Imag": lambda t: _parts(t)[1], "Real": lambda t: _parts(t)[0],
    **{f"{kind}{name}": made(n) for n, name in ((1, ""), (2, "2D"), (3, "3D"))
       for kind, made in (
           ("FFT", lambda n: _whole(n, False)), ("IFFT", lambda n: _whole(n, True)), ("RFFT", _forward),
           ("IRFFT", _backward),
       )},
    "BatchFFT": _whole(1, False), "BatchFFT2D": _whole(2, False), "BatchFFT3D": _whole(3, False),
    "BatchIFFT": _whole(1, True), "BatchIFFT2D": _whole(2, True), "BatchIFFT3D": _whole(3, True),
}  # fmt: skip
