"""Fourier transforms, and what is made of their results: complex numbers are pairs of floats."""

from __future__ import annotations

import numpy as np

from sterna.errors import error
from sterna.frontends.fourier import transform
from sterna.frontends.tensorflow.translation import Complex, Translation, Translator
from sterna.ir.graph import Value


def _complex(t: Translation, position: int) -> Value:
    item = t.item(position)
    if not isinstance(item, Complex):
        raise error("E0108", f"{t.kind} takes complex numbers")
    return item.value


def _length(t: Translation, size: int) -> int:
    """How many elements a transform has: all, or those that an operand says."""
    if len(t.items) < 2:
        return size
    (length,) = t.integers(1, "the length of the transform")
    return length


def _forward(t: Translation) -> Complex:
    """RFFT: the frequencies up to the middle, of real numbers in the last dimension."""
    x = t.input(0)
    if x.type.rank < 1 or x.dtype != "float32":
        raise t.unsupported(f"of {x.type}")
    length = _length(t, t.extent(x, -1))
    return Complex(transform(t, t.reshape(x, (*x.shape, 1)), x.type.rank - 1, length, False, True))


def _whole(inverse: bool) -> Translator:
    def translate(t: Translation) -> Complex:
        x = _complex(t, 0)
        axis = x.type.rank - 2
        return Complex(transform(t, x, axis, t.extent(x, axis), inverse, False))

    return translate


def _backward(t: Translation) -> Value:
    """IRFFT: real numbers of the frequencies up to the middle, of which the others are mirror images."""
    x = _complex(t, 0)
    axis = x.type.rank - 2
    length = _length(t, 2 * (t.extent(x, axis) - 1))
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


TRANSLATORS: dict[str, Translator] = {
    "Complex": joined, "ComplexAbs": absolute, "Conj": conjugate, "FFT": _whole(False), "IFFT": _whole(True),
    "Imag": lambda t: _parts(t)[1], "IRFFT": _backward, "Real": lambda t: _parts(t)[0], "RFFT": _forward,
}  # fmt: skip
