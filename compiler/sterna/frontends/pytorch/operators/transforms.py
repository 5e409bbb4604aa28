"""Transforms of Fourier, and of the frames of signals."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sterna.errors import error
from sterna.frontends.pytorch.operators.movement import padded
from sterna.frontends.pytorch.operators.pairs import joined
from sterna.frontends.pytorch.promotion import float_type
from sterna.frontends.pytorch.translation import Translation, Translator
from sterna.frontends.standard import standard
from sterna.ir.graph import Value
from sterna.ir.integer import IntLike, as_int


def _factor(norm: Any, inverse: bool, size: Any) -> Any:
    """What a transform is multiplied by, over an inverse's own 1 / n; norm as torch.fft spells it, or its number."""
    forward = {"": 0, "backward": 0, "ortho": 1, "forward": 2, 0: 0, 1: 1, 2: 2}.get(norm, 0)
    if isinstance(norm, int):  # of the core set: what the transform itself is divided by
        power = {0: 0.0, 1: 0.5, 2: 1.0}[forward]
    else:
        power = {0: 1.0 if inverse else 0.0, 1: 0.5, 2: 0.0 if inverse else 1.0}[forward]
    return float(size) ** -power


def transformed(t: Translation, z: Value, axis: int, inverse: bool, norm: Any, is_real: bool = False) -> Value:
    """The transform of a tensor of pairs along a dimension; of a real one, the half that tells all."""
    size = t.extent(z, axis)
    if not size:
        raise error("E0108", f"{t.kind} of an empty tensor")
    y = standard(
        t, "DFT", z, None, t.constant(axis, "int64"), inverse=int(inverse), onesided=int(is_real and not inverse)
    )
    factor = _factor(norm, inverse, size) * (size if inverse else 1)
    return y if factor == 1 else t.op("mul", y, t.scalar(factor, y.dtype))


def _sized(t: Translation, z: Value, axis: int, size: int | None) -> Value:
    """A dimension cut or filled with zeros."""
    if size is None or size == t.extent(z, axis):
        return z
    have = t.extent(z, axis)
    if size < have:
        return t.cut(z, axis, 0, size)
    after: list[IntLike] = [size - have if n == axis else 0 for n in range(z.type.rank)]
    return t.pad(z, (0,) * z.type.rank, after)


def _axes(t: Translation, rank: int, default: Iterable[int]) -> list[int]:
    found = t.arg("dim", list(default))
    return [t.axis(int(n), rank) for n in (found if isinstance(found, (list, tuple)) else [found])]


def _pairs(t: Translation, x: Value) -> tuple[Value, int]:
    """A tensor as pairs, and its rank without them."""
    if x in t.shared.complexes:
        return x, x.type.rank - 1
    x = t.cast(x, float_type(x.dtype))
    return joined(t, x, t.full(x.shape, 0, x.dtype)), x.type.rank


def _lengths(t: Translation, axes: list[int]) -> list[int | None]:
    given = t.arg("s", t.arg("n"))
    found = list(given) if isinstance(given, (list, tuple)) else [given]
    return [*(None if n is None or n == -1 else int(n) for n in found), *[None] * (len(axes) - len(found))][: len(axes)]


def _default(t: Translation, rank: int) -> Iterable[int]:
    name = t.kind.split(".")[1]
    given = t.arg("s")  # of the last dimensions
    first = rank - len(given) if isinstance(given, (list, tuple)) else 0
    return (-2, -1) if name.endswith("2") else range(first, rank) if name.endswith("n") else (-1,)


def _norm(t: Translation) -> Any:
    return t.arg("normalization") if "normalization" in t.arguments else t.arg("norm", "")


def complex_to_complex(inverse: bool | None) -> Translator:
    def translate(t: Translation) -> Value:
        x = t.tensor()
        real = x not in t.shared.complexes
        rank = x.type.rank - (not real)
        back = not t.flag("forward", True) if inverse is None else inverse
        axes = _axes(t, rank, _default(t, rank))
        z = t.unsqueeze(t.floating(), rank) if real else x
        # The last dimension first: what is interleaved in the end lies side by side then.
        for axis, size in reversed(list(zip(axes, _lengths(t, axes), strict=True))):
            z = transformed(t, _sized(t, z, axis, size), axis, back, _norm(t))
        return z if axes or not real else _pairs(t, x)[0]

    return translate


def real_to_complex(t: Translation) -> Value:
    x = t.floating()
    axes = _axes(t, x.type.rank, _default(t, x.type.rank))
    if not t.flag("onesided", True):
        return complex_to_complex(False)(t)  # type: ignore[return-value]
    lengths = _lengths(t, axes)
    x = _sized(t, x, axes[-1], lengths[-1])
    z = transformed(t, t.unsqueeze(x, x.type.rank), axes[-1], False, _norm(t), is_real=True)
    for axis, size in reversed(list(zip(axes[:-1], lengths[:-1], strict=True))):
        z = transformed(t, _sized(t, z, axis, size), axis, False, _norm(t))
    return z


def complex_to_real(t: Translation) -> Value:
    z, rank = _pairs(t, t.tensor())
    axes = _axes(t, rank, _default(t, rank))
    lengths = _lengths(t, axes)
    last = axes[-1]
    for axis, size in zip(axes[:-1], lengths[:-1], strict=True):
        z = transformed(t, _sized(t, z, axis, size), axis, True, _norm(t))
    whole = t.integer("last_dim_size") if "last_dim_size" in t.arguments else lengths[-1]
    whole = 2 * (t.extent(z, last) - 1) if whole is None else whole
    return real_of_half(t, _sized(t, z, last, whole // 2 + 1), last, whole, _norm(t))


def real_of_half(t: Translation, half: Value, last: int, whole: int, norm: Any) -> Value:
    """The real tensor of `whole` elements along a dimension, of the half of its transform that tells all."""
    count = whole - (whole // 2 + 1)
    if count:
        # The other half mirrors this one, conjugated.
        starts = [as_int(count if n == last else 0) for n in range(half.type.rank)]
        sizes = [as_int(count) if n == last else size for n, size in enumerate(half.shape)]
        steps = [-1 if n == last else 1 for n in range(half.type.rank)]
        mirrored = t.op("slice", half, starts=tuple(starts), sizes=tuple(sizes), steps=tuple(steps))
        mirrored = t.op("mul", mirrored, t.constant([1.0, -1.0], half.dtype))
        half = t.op("concat", half, mirrored, axis=last)
    y = transformed(t, half, last, True, norm)
    return t.take(y, y.type.rank - 1, 0)


def _pairs_turned(t: Translation, z: Value) -> Value:
    """Conjugates."""
    return t.op("mul", z, t.constant([1.0, -1.0], z.dtype))


def _other_way(t: Translation) -> Translation:
    """A transform of Hermitian signals is the inverse one of conjugates, with the factors of the other direction."""
    return t.having(norm={"ortho": "ortho", "forward": "backward"}.get(str(t.arg("norm", "")), "forward"))


def hermitian_to_real(t: Translation) -> Value:
    z = _pairs_turned(t, _pairs(t, t.tensor())[0])
    t.shared.complexes.add(z)
    return complex_to_real(_other_way(t).having(self=z))


def real_to_hermitian(t: Translation) -> Value:
    return _pairs_turned(t, real_to_complex(_other_way(t)))


def _window(t: Translation, size: int, dtype: str) -> Value:
    """The window, in the middle of a frame where it is shorter."""
    given = t.maybe("window")
    length = t.integer("win_length", size)
    window = t.full((length,), 1, dtype) if given is None else t.cast(given, dtype)
    left = (size - length) // 2
    return t.pad(window, (left,), (size - length - left,))


def short_time(t: Translation) -> Value:
    """Transforms of windowed frames (stft): (batch, frequencies, frames)."""
    x, size = t.tensor(), t.integer("n_fft")
    step = t.integer("hop_length", size // 4)
    if x in t.shared.complexes or t.arg("align_to_window"):
        raise t.unsupported("of complex numbers, or aligned to the window,")
    if step < 1 or size < 1:
        raise error("E0109", f"frames of {size} elements, {step} apart")
    single = x.type.rank == 1
    x = t.unsqueeze(x, 0) if single else x
    if "center" in t.arguments and t.flag("center", True):
        half = as_int(size // 2)
        x = padded(t, x, (half, half), str(t.arg("pad_mode", "reflect")))
    onesided = t.flag("onesided", True)
    z = standard(
        t, "STFT", t.unsqueeze(x, 2), t.scalar(step, "int64"), _window(t, size, x.dtype), t.scalar(size, "int64"),
        onesided=int(onesided),
    )  # fmt: skip
    if t.flag("normalized"):
        z = t.op("mul", z, t.scalar(size**-0.5, z.dtype))
    z = t.transpose(z, (0, 2, 1, 3))
    return t.take(z, 0, 0) if single else z


def from_short_time(t: Translation) -> Value:
    """A signal from its frames: they are added where they overlap, over the sum of the squares of the windows."""
    z, size = t.tensor(), t.integer("n_fft")
    step = t.integer("hop_length", size // 4)
    if t.flag("return_complex"):
        raise t.unsupported("to complex numbers")
    single = z.type.rank == 3
    z = t.transpose(t.unsqueeze(z, 0) if single else z, (0, 2, 1, 3))
    batch, frames = z.shape[0], t.extent(z, 1)
    if not t.flag("onesided", True):
        z = t.cut(z, 2, 0, size // 2 + 1)
    y = real_of_half(t, z, 2, size, "ortho" if t.flag("normalized") else "backward")
    window = _window(t, size, y.dtype)
    whole = size + step * (frames - 1)

    def overlapped(rows: Value) -> Value:
        """(batch, frames, size) added up: (batch, whole)."""
        sizes = t.constant([1, whole], "int64"), t.constant([1, size], "int64")
        added = standard(t, "Col2Im", t.transpose(rows, (0, 2, 1)), *sizes, strides=(1, step))
        return t.reshape(added, (rows.shape[0], whole))

    signal = overlapped(t.op("mul", y, window))
    weights = overlapped(t.expand(t.op("mul", window, window), (1, frames, size)))
    start = size // 2 if t.flag("center", True) else 0
    count = t.integer("length", whole - 2 * start)
    have = min(count, whole - start)
    signal, weights = (t.cut(v, 1, start, have) for v in (signal, weights))
    signal = t.op("div", signal, weights)
    signal = t.pad(signal, (0, 0), (0, count - have))
    return t.reshape(signal, (count,)) if single else t.reshape(signal, (batch, count))


def _named(function: Translator, *names: str) -> dict[str, Translator]:
    return {f"aten.{name}": function for name in names}


TRANSLATORS: dict[str, Translator] = {
    **_named(complex_to_complex(False), "fft_fft.default", "fft_fft2.default", "fft_fftn.default"),
    **_named(complex_to_complex(True), "fft_ifft.default", "fft_ifft2.default", "fft_ifftn.default"),
    **_named(complex_to_complex(None), "_fft_c2c.default"),
    **_named(real_to_complex, "fft_rfft.default", "fft_rfft2.default", "fft_rfftn.default", "_fft_r2c.default"),
    **_named(complex_to_real, "fft_irfft.default", "fft_irfft2.default", "fft_irfftn.default", "_fft_c2r.default"),
    **_named(short_time, "stft.default", "stft.center"), **_named(from_short_time, "istft.default"),
    **_named(hermitian_to_real, "fft_hfft.default", "fft_hfft2.default", "fft_hfftn.default"),
    **_named(real_to_hermitian, "fft_ihfft.default", "fft_ihfft2.default", "fft_ihfftn.default"),
}  # fmt: skip
