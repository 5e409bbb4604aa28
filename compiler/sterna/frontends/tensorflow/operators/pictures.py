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

_MOST_WINDOW = 1 << 8  # elements of a window of Dilation2D: every one is a slice
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
    """How much of every element goes into every result, (wanted, size): as ScaleAndTranslate computes its spans.

    In float32, as TensorFlow does: the gaussian kernel jumps where it ends, and rounding decides what lies within.
    """
    radius, kernel = _KERNELS[kind]
    one, half = np.float32(1.0), np.float32(0.5)
    step = one / np.float32(scale)
    wide = max(step, one) if smooth else one
    made = np.zeros((wanted, size))
    for n in range(wanted):
        at = (np.float32(n) + half) * step - step * np.float32(shift)
        if not 0 <= at <= size:
            continue
        reach = np.float32(radius) * wide
        first = max(math.ceil(at - reach - half), 0)
        last = min(math.floor(at + reach - half), size - 1)
        row = [kernel(float(abs((np.float32(k) + half - at) * (one / wide)))) for k in range(first, last + 1)]
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


def contrast_within(t: Translation) -> Value:
    """AdjustContrast, the old one, whose results lie within two bounds."""
    y = contrast(t.again(t.cast(t.input(0), "float32"), t.item(1)))
    return t.op("minimum", t.op("maximum", y, t.input(2)), t.input(3))


def volume_patches(t: Translation) -> Value:
    """ExtractVolumePatches: of every window its elements, one after the other, as channels."""
    x = t.input(0)
    sizes, strides = (t.integers_of(name, (1,) * 5) for name in ("ksizes", "strides"))
    if x.type.rank != 5 or any(len(v) != 5 or v[0] != 1 or v[4] != 1 for v in (sizes, strides)):
        raise error("E0109", f"{t.kind} of {x.type} with windows {list(sizes)}")
    window, channels = sizes[1:4], t.extent(x, 4)
    count = math.prod(window) * channels
    if min(window) < 1 or count * count > _MOST_TAPS:
        raise error("E0112", f"{t.kind} of {x.type} with windows {list(sizes)} is too large")
    kernel = np.eye(count, dtype=np.float32).reshape(count, *window, channels).transpose(0, 4, 1, 2, 3)
    y = standard(
        t, "Conv", t.channels_first(x), t.constant(np.ascontiguousarray(kernel), x.dtype), strides=strides[1:4],
        **padding_of(t),
    )  # fmt: skip
    return t.back(y)


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


def dilation(t: Translation) -> Value:
    """Dilation2D: of every window the largest sum of a pixel and a weight; what lies outside counts for nothing."""
    x, kernel = t.input(0), t.input(1)
    strides, rates = t.integers_of("strides", (1, 1, 1, 1)), t.integers_of("rates", (1, 1, 1, 1))
    batch, *extents, channels = t.sizes(x, 4)
    *sizes, _ = t.sizes(kernel, 3)
    if len(strides) != 4 or len(rates) != 4 or min(*strides, *rates) < 1 or math.prod(sizes) > _MOST_WINDOW:
        raise t.unsupported(f"of {x.type} with a kernel of {list(sizes)}")
    before, counts = [], []
    for n, size in enumerate(extents):
        reach, step = (sizes[n] - 1) * rates[n + 1] + 1, strides[n + 1]
        same = t.option("padding") == "SAME"
        count = -(-size // step) if same else (size - reach) // step + 1
        counts.append(count)
        before.append(max((count - 1) * step + reach - size, 0) // 2 if same else 0)
    if min(counts) < 1:
        raise error("E0108", f"{t.kind} of {x.type} with a kernel of {list(sizes)} has no result")
    after = [
        max((counts[n] - 1) * strides[n + 1] + (sizes[n] - 1) * rates[n + 1] + 1 - size - before[n], 0)
        for n, size in enumerate(extents)
    ]
    wide = t.pad(x, (0, *before, 0), (0, *after, 0), value=-math.inf)
    y: Value | None = None
    for i in range(sizes[0]):
        for j in range(sizes[1]):
            part = t.op(
                "slice", wide, starts=(0, i * rates[1], j * rates[2], 0), sizes=(batch, *counts, channels),
                steps=(1, *strides[1:3], 1),
            )  # fmt: skip
            weight = t.op("slice", kernel, starts=(i, j, 0), sizes=(1, 1, channels), steps=(1, 1, 1))
            part = t.op("add", part, t.reshape(weight, (1, 1, 1, channels)))
            y = part if y is None else t.op("maximum", y, part)
    assert y is not None
    return y


def _channels_of(t: Translation, x: Value) -> list[Value]:
    """The three channels of a picture."""
    rank = x.type.rank
    if rank < 1 or t.extent(x, rank - 1) != 3:
        raise error("E0108", f"{t.kind} of {x.type}, which has no three channels")
    return [
        t.op("slice", x, starts=(*[0] * (rank - 1), n), sizes=(*x.shape[:-1], 1), steps=(1,) * rank) for n in range(3)
    ]


def _hsv(t: Translation, x: Value) -> list[Value]:
    """Hue, saturation and value of red, green and blue."""
    red, green, blue = _channels_of(t, x)

    def number(value: float) -> Value:
        return t.scalar(value, x.dtype)

    most = t.op("maximum", red, t.op("maximum", green, blue))
    width = t.op("sub", most, t.op("minimum", red, t.op("minimum", green, blue)))
    is_gray = t.op("equal", width, number(0))
    saturation = t.op("where", t.op("greater", most, number(0)), t.op("div", width, most), number(0))
    unit = t.op("div", number(1 / 6), t.op("where", is_gray, number(1), width))

    def sixth(a: Value, b: Value, start: float) -> Value:
        return t.op("add", t.op("mul", unit, t.op("sub", a, b)), number(start))

    hue = t.op("where", t.op("equal", green, most), sixth(blue, red, 2 / 6), sixth(red, green, 4 / 6))
    hue = t.op("where", t.op("equal", red, most), sixth(green, blue, 0.0), hue)
    hue = t.op("where", is_gray, number(0), hue)
    hue = t.op("where", t.op("less", hue, number(0)), t.op("add", hue, number(1)), hue)
    return [hue, saturation, most]


def _rgb(t: Translation, hue: Value, saturation: Value, value: Value) -> Value:
    def number(each: float) -> Value:
        return t.scalar(each, hue.dtype)

    place = t.op("mul", hue, number(6))
    shares = []
    for middle, sign, start in ((3, 1, -1), (2, -1, 2), (4, -1, 2)):
        distance = t.op("mul", t.op("abs", t.op("sub", place, number(middle))), number(sign))
        shares.append(t.op("clip", t.op("add", distance, number(start)), min=0.0, max=1.0))
    gray = t.op("sub", number(1), saturation)
    channels = [t.op("mul", t.op("add", gray, t.op("mul", saturation, share)), value) for share in shares]
    return t.op("concat", *channels, axis=hue.type.rank - 1)


def rgb_to_hsv(t: Translation) -> Value:
    """Hue, saturation and value, all from 0 to 1."""
    return t.op("concat", *_hsv(t, t.input(0)), axis=t.input(0).type.rank - 1)


def hsv_to_rgb(t: Translation) -> Value:
    return _rgb(t, *_channels_of(t, t.input(0)))


def saturated(t: Translation) -> Value:
    """AdjustSaturation: saturations times a factor, at the most 1."""
    hue, saturation, value = _hsv(t, t.input(0))
    factor = t.cast(t.reshape(t.input(1), ()), saturation.dtype)
    return _rgb(t, hue, t.op("clip", t.op("mul", saturation, factor), min=0.0, max=1.0), value)


def hue_turned(t: Translation) -> Value:
    """AdjustHue: hues and a number, on a circle of length 1."""
    hue, saturation, value = _hsv(t, t.input(0))
    hue = t.op("add", hue, t.cast(t.reshape(t.input(1), ()), hue.dtype))
    return _rgb(t, t.op("sub", hue, t.op("floor", hue)), saturation, value)


TRANSLATORS: dict[str, Translator] = {
    "AdjustHue": hue_turned, "AdjustSaturation": saturated, "Dilation2D": dilation,
    "HSVToRGB": hsv_to_rgb, "RGBToHSV": rgb_to_hsv,
    "AdjustContrast": contrast_within, "AdjustContrastv2": contrast,
    "ExtractVolumePatches": volume_patches, "ExtractImagePatches": patches, "MaxPoolWithArgmax": max_pool_with_argmax,
    "ScaleAndTranslate": scale_and_translate,
}  # fmt: skip
