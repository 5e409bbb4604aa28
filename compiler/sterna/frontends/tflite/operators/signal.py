"""Fourier transforms; complex numbers are pairs in a last dimension of their own, and never leave the graph."""

from __future__ import annotations

import math

from sterna.errors import error
from sterna.frontends import sound
from sterna.frontends.emitter import axes_of
from sterna.frontends.fourier import transform
from sterna.frontends.tflite.operators.detection import custom_options
from sterna.frontends.tflite.translation import Translation, Translator
from sterna.ir.graph import Value
from sterna.ir.integer import as_int

COMPLEX = "complex64"


def rfft2d(t: Translation) -> Value:
    """Of real images (..., rows, columns), padded or cut to the sizes given."""
    x, sizes = t.input(0), t.integers(1, "sizes")
    if x.type.rank < 2 or len(sizes) != 2 or x.dtype != "float32":
        raise error("E0108", f"{t.kind} of {x.type} with sizes {sizes}")
    rank = x.type.rank
    rows = transform(t, t.reshape(x, (*x.shape, 1)), rank - 1, sizes[1], inverse=False, onesided=True)
    if sizes[0] == 1 and t.extent(x, rank - 2) == 1:
        return rows
    return transform(t, rows, rank - 2, sizes[0], inverse=False, onesided=False)


def _part(t: Translation, n: int) -> Value:
    """The real parts (0) or the imaginary ones (1)."""
    x = _complex(t)
    rank = x.type.rank
    part = t.op("slice", x, starts=(*(0,) * (rank - 1), n), sizes=(*x.shape[:-1], 1), steps=(1,) * rank)
    return t.reshape(part, x.shape[:-1])


def _complex(t: Translation) -> Value:
    if t.info(0).kind != COMPLEX:
        raise error("E0108", f"{t.kind} takes {COMPLEX}, not {t.info(0).kind}")
    return t.input(0)


def magnitude(t: Translation) -> Value:
    x = _complex(t)
    total = t.op("reduce_sum", t.op("mul", x, x), axes=(x.type.rank - 1,), keep_dims=False)
    return t.op("sqrt", total)


def squeeze(t: Translation) -> Value:
    """Without dimensions of size 1. A file's own sizes are those before it was given sizes: they do not count."""
    x = _complex(t)
    rank = x.type.rank - 1
    axes = axes_of(t.option("squeeze_dims", ()), rank) or [n for n in range(rank) if x.shape[n] == 1]
    if any(x.shape[n] != 1 for n in axes):
        raise error("E0108", f"dimensions {list(axes)} of {x.type} are not all of size 1")
    return t.reshape(x, [size for n, size in enumerate(x.shape) if n not in axes])


def expand_dims(t: Translation) -> Value:
    x = _complex(t)
    (axis,) = axes_of((t.integer_of(1, "the axis"),), x.type.rank)
    return t.reshape(x, (*x.shape[:axis], 1, *x.shape[axis:]))


def reshape(t: Translation) -> Value:
    """Complex numbers in other dimensions: those of the operand, or else of the file."""
    x = _complex(t)
    sizes = t.dims(1, "a shape") if t.has(1) else [as_int(n) for n in t.result().shape]
    if all(n.is_const for n in (*sizes, *x.shape)) and [int(n) for n in sizes].count(-1) == 1:
        rest = math.prod(int(n) for n in sizes if n != -1)
        sizes = [as_int(math.prod(map(int, x.shape[:-1])) // max(rest, 1)) if n == -1 else n for n in sizes]
    return t.reshape(x, (*sizes, 2))


def cast(t: Translation) -> Value:
    """The real parts, where a type that is not complex is wanted."""
    return _complex(t) if t.result().kind == COMPLEX else t.cast(_part(t, 0), t.result().kind)


#: What takes or gives complex numbers.
COMPLEX_TRANSLATORS: dict[str, Translator] = {
    "CAST": cast,
    "COMPLEX_ABS": magnitude,
    "EXPAND_DIMS": expand_dims,
    "IMAG": lambda t: _part(t, 1),
    "REAL": lambda t: _part(t, 0),
    "RESHAPE": reshape,
    "RFFT2D": rfft2d,
    "SQUEEZE": squeeze,
}
_ONLY_COMPLEX = ("COMPLEX_ABS", "IMAG", "REAL", "RFFT2D")
TRANSLATORS: dict[str, Translator] = {name: COMPLEX_TRANSLATORS[name] for name in _ONLY_COMPLEX}


def spectrogram(t: Translation) -> Value:
    settings = custom_options(t)
    window, stride = (int(settings.get(name, 0)) for name in ("window_size", "stride"))
    return sound.spectrogram(t, t.input(0), window, stride, bool(settings.get("magnitude_squared", False)))


def cepstrum(t: Translation) -> Value:
    settings = custom_options(t)
    low, high = (float(settings.get(f"{end}_frequency_limit", hz)) for end, hz in (("lower", 20.0), ("upper", 4000.0)))
    filters, count = (
        int(settings.get(name, n)) for name, n in (("filterbank_channel_count", 40), ("dct_coefficient_count", 13))
    )
    return sound.cepstrum(t, t.input(0), float(t.scalar_of(1, "the rate of samples")), low, high, filters, count)


CUSTOM_TRANSLATORS: dict[str, Translator] = {"AudioSpectrogram": spectrogram, "Mfcc": cepstrum}
