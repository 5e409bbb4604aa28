"""Fourier transforms; complex numbers are pairs in a last dimension of their own, and never leave the graph."""

from __future__ import annotations

from sterna.errors import error
from sterna.frontends.fourier import transform
from sterna.frontends.tflite.translation import Translation, Translator
from sterna.ir.graph import Value

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


def shaped(t: Translation) -> Value:
    """Complex numbers in other dimensions, which the file knows."""
    return t.reshape(_complex(t), (*t.result().shape, 2))


#: What takes or gives complex numbers.
COMPLEX_TRANSLATORS: dict[str, Translator] = {
    "COMPLEX_ABS": magnitude,
    "EXPAND_DIMS": shaped,
    "IMAG": lambda t: _part(t, 1),
    "REAL": lambda t: _part(t, 0),
    "RESHAPE": shaped,
    "RFFT2D": rfft2d,
    "SQUEEZE": shaped,
}
_ONLY_COMPLEX = ("COMPLEX_ABS", "IMAG", "REAL", "RFFT2D")
TRANSLATORS: dict[str, Translator] = {name: COMPLEX_TRANSLATORS[name] for name in _ONLY_COMPLEX}
