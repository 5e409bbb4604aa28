"""Operators on pictures beside resizing by one of the three conventions: patches, scaling by kernels, contrast,
positions of maxima."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from sterna.errors import error
from sterna.frontends.standard import standard, standard_results
from sterna.frontends.tensorflow.operators.convolution import padding_of
from sterna.frontends.tensorflow.translation import Translation, Translator
from sterna.ir.graph import Array, Value

_MOST_TAPS = 1 << 24  # elements of a matrix that scales, or of the kernel that takes patches


def _lanczos(radius: float) -> Callable[[float], float]:
    def kernel(x: float) -> float:
        if x > radius:
            return 0.0
        if x <= 1e-3:
            return 1.0
        return radius * math.sin(math.pi * x) * math.sin(math.pi * x / radius) / (math.pi * math.pi * x * x)

    return kernel


def _keys(x: float) -> float:
    if x >= 2:
        return 0.0
    return ((-0.5 * x + 2.5) * x - 4.0) * x + 2.0 if x >= 1 else ((1.5 * x - 2.5) * x) * x + 1.0


def _mitchell(x: float) -> float:
    if x >= 2:
        return 0.0
    if x >= 1:
        return (((-7.0 / 18.0) * x + 2.0) * x - 10.0 / 3.0) * x + 16.0 / 9.0
    return (((7.0 / 6.0) * x - 2.0) * x) * x + 8.0 / 9.0


#: Name -> how far a kernel reaches, and its value at a distance.
_KERNELS: dict[str, tuple[float, Callable[[float], float]]] = {
    "lanczos1": (1.0, _lanczos(1.0)), "lanczos3": (3.0, _lanczos(3.0)), "lanczos5": (5.0, _lanczos(5.0)),
    "gaussian": (1.5, lambda x: 0.0 if x >= 1.5 else math.exp(-x * x / (2 * 0.5 * 0.5))),
    "box": (0.5, lambda x: 1.0 if x < 0.5 else 0.5 if x == 0.5 else 0.0),
    "triangle": (1.0, lambda x: max(1.0 - x, 0.0)), "keyscubic": (2.0, _keys), "mitchellcubic": (2.0, _mitchell),
}  # fmt: skip


def _weights(size: int, wanted: int, scale: float, shift: float, kind: str, smooth: bool) -> Array:
    """How much of every element goes into every result, (wanted, size): as ScaleAndTranslate computes its spans."""
    radius, kernel = _KERNELS[kind]
    step = 1.0 / scale
    wide = max(step, 1.0) if smooth else 1.0
    made = np.zeros((wanted, size))
    for n in range(wanted):
        at = (n + 0.5) * step - step * shift
        if not 0 <= at <= size:
            continue
        first = max(math.ceil(at - radius * wide - 0.5), 0)
        last = min(math.floor(at + radius * wide - 0.5), size - 1)
        row = [kernel(abs(k + 0.5 - at) / wide) for k in range(first, last + 1)]
        total = sum(row)
        if row and total != 0:
            made[n, first : last + 1] = np.array(row) / total
    return made.astype(np.float32)


def scale_and_translate(t: Translation) -> Value:
    x = t.cast(t.input(0), "float32")
    sizes, scales, shifts = t.integers(1, "sizes"), t.array(2, "factors"), t.array(3, "shifts")
    kind = str(t.option("kernel_type", "lanczos3"))
    if x.type.rank != 4 or len(sizes) != 2 or scales.size != 2 or shifts.size != 2 or kind not in _KERNELS:
        raise error("E0109", f"{t.kind} of {x.type} to {sizes} by {kind}")
    if min(sizes) < 1 or (np.asarray(scales) <= 0).any():
        raise error("E0109", f"{t.kind} to {sizes} by {np.asarray(scales).tolist()}")
    batch, height, width, channels = x.shape
    high, wide = t.extent(x, 1), t.extent(x, 2)
    if max(high * sizes[0], wide * sizes[1]) > _MOST_TAPS:
        raise error("E0112", f"{t.kind} of {x.type} to {sizes} is too large")
    smooth = bool(t.option("antialias", True))
    down, across = (
        t.constant(_weights(n, wanted, float(scale), float(shift), kind, smooth))
        for n, wanted, scale, shift in zip((high, wide), sizes, scales.reshape(-1), shifts.reshape(-1), strict=True)
    )
    y = t.op("matmul", down, t.reshape(x, (batch, height, width * channels)))
    return t.op("matmul", across, t.reshape(y, (batch, sizes[0], width, channels)))


def patches(t: Translation) -> Value:
    """ExtractImagePatches: of every window its pixels, one after the other, as channels."""
    x = t.input(0)
    sizes, strides, rates = (t.integers_of(name, (1, 1, 1, 1)) for name in ("ksizes", "strides", "rates"))
    if x.type.rank != 4 or any(len(v) != 4 or v[0] != 1 or v[3] != 1 for v in (sizes, strides, rates)):
        raise error("E0109", f"{t.kind} of {x.type} with windows {list(sizes)}")
    (_, high, wide, _), channels = sizes, t.extent(x, 3)
    count = high * wide * channels
    if min(high, wide) < 1 or count * count > _MOST_TAPS:
        raise error("E0112", f"{t.kind} of {x.type} with windows {list(sizes)} is too large")
    kernel = np.eye(count, dtype=np.float32).reshape(count, high, wide, channels).transpose(0, 3, 1, 2)
    y = standard(
        t, "Conv", t.channels_first(x), t.constant(np.ascontiguousarray(kernel)), strides=strides[1:3],
        dilations=rates[1:3], **padding_of(t),
    )  # fmt: skip
    return t.back(y)


def contrast(t: Translation) -> Value:
    """AdjustContrastv2: distances from the mean of a channel, times a factor."""
    x, factor = t.input(0), t.input(1)
    mean = t.op("reduce_mean", x, axes=(x.type.rank - 3, x.type.rank - 2), keep_dims=True)
    return t.op("add", t.op("mul", t.op("sub", x, mean), t.cast(factor, x.dtype)), mean)


def max_pool_with_argmax(t: Translation) -> tuple[Value, ...]:
    """Maxima, and where they are: as numbers of the pixels and channels of their picture, or of all pictures."""
    x = t.input(0)
    sizes, strides = t.integers_of("ksize"), t.integers_of("strides")
    if x.type.rank != 4 or any(len(v) != 4 or v[0] != 1 or v[3] != 1 for v in (sizes, strides)):
        raise error("E0109", f"{t.kind} of {x.type} with windows {list(sizes)}")
    batch, high, wide, channels = (t.extent(x, n) for n in range(4))
    y, places = standard_results(
        t, "MaxPool", t.channels_first(x), results=2, kernel_shape=sizes[1:3], strides=strides[1:3], **padding_of(t)
    )
    # ONNX counts in (N, C, H, W), TensorFlow in (N, H, W, C).
    pixel = t.op("mod", places, t.scalar(high * wide, "int64"))
    found = t.op("mul", pixel, t.scalar(channels, "int64"))
    found = t.op("add", found, t.reshape(t.counting(channels), (1, channels, 1, 1)))
    if t.option("include_batch_in_index", False):
        first = t.op("mul", t.counting(batch), t.scalar(high * wide * channels, "int64"))
        found = t.op("add", found, t.reshape(first, (batch, 1, 1, 1)))
    return t.back(y), t.cast(t.back(found), t.dtype("Targmax", "int64"))


TRANSLATORS: dict[str, Translator] = {
    "AdjustContrastv2": contrast, "ExtractImagePatches": patches, "MaxPoolWithArgmax": max_pool_with_argmax,
    "ScaleAndTranslate": scale_and_translate,
}  # fmt: skip
