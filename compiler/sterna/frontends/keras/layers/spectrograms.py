"""Spectrograms of signals."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sterna.errors import error
from sterna.frontends.angles import arc_tangent
from sterna.frontends.fourier import transform
from sterna.frontends.keras.translation import Translation, Translator
from sterna.ir.graph import Array, Value
from sterna.ir.limits import check_table

#: Keras' epsilon, which no file says.
_LEAST = 1e-7


def _stft_spectrogram(t: Translation) -> Value:
    """Frames of each channel times the layer's tables of cosines and sines, which hold its window: a convolution."""
    x, mode = t.x, str(t.setting("mode", "log"))
    if x.type.rank != 3:
        raise error("E0108", f"{t.kind} takes (batch, steps, channels) or (batch, channels, steps), not {x.type}")
    length = int(t.setting("frame_length", 256))
    names = [name for name, other in (("real_kernel", "imag"), ("imag_kernel", "real")) if mode != other]
    kernel = np.concatenate(t.variables(*names), axis=-1).transpose(2, 1, 0)
    padding = {"valid": "VALID", "same": "SAME_UPPER"}.get(str(t.setting("padding", "valid")))
    if padding is None:
        raise t.unsupported(f"with the padding {t.setting('padding')}")
    x = x if t.channels_first else t.to_first(x)
    batch, channels, steps = x.shape
    y = t.standard(
        "Conv", t.reshape(x, (batch * channels, 1, steps)), t.weight(kernel, x),
        strides=(int(t.setting("frame_step", length // 2)),), auto_pad=padding,
    )  # fmt: skip
    y = t.reshape(y, (batch, channels, *y.shape[1:]))
    return _laid_out(t, y if len(names) == 1 else _of_mode(t, y, mode))


def _of_mode(t: Translation, y: Value, mode: str) -> Value:
    """What the layer gives of (batch, channels, frequencies of real and of imaginary parts, frames)."""
    if mode == "stft":
        return y
    half = t.extent(y, 2) // 2
    real, imaginary = t.part(y, 2, 0, half), t.part(y, 2, half, half)
    if mode == "angle":
        return arc_tangent(t, imaginary, real)
    power = t.op("add", t.op("mul", real, real), t.op("mul", imaginary, imaginary))
    if mode == "psd":  # all frequencies but the first and the last stand for their mirror images too
        shares = np.full((half, 1), 2.0)
        shares[[0, -1]] = 1.0
        return t.op("mul", power, t.weight(shares, power))
    if mode not in ("magnitude", "log"):
        raise t.unsupported(f"with the mode {mode}")
    magnitude = t.op("sqrt", t.op("maximum", power, t.scalar(_LEAST, power.dtype)))
    if mode == "magnitude":
        return magnitude
    return t.op("log", t.op("maximum", magnitude, t.scalar(_LEAST, power.dtype)))


def _laid_out(t: Translation, y: Value) -> Value:
    """(batch, channels, frequencies, frames) as the layer's settings say."""
    batch, channels, frequencies, frames = y.shape
    if t.setting("expand_dims", False):
        return t.transpose(y, (0, 1, 3, 2) if t.channels_first else (0, 3, 2, 1))
    y = t.reshape(y, (batch, channels * frequencies, frames))
    return y if t.channels_first else t.transpose(y, (0, 2, 1))


def _mel_spectrogram(t: Translation) -> Value:
    x = t.x if t.x.dtype.startswith("float") else t.cast(t.x, "float32")
    y = _powers(t, x, float(t.setting("mag_exp", 2.0)))
    y = t.op("matmul", y, t.weight(_bands(t, t.extent(y, -1)), y))
    if t.setting("power_to_db", True):
        y = _decibels(t, y)
    rank = y.type.rank
    return t.transpose(y, (*range(rank - 2), rank - 1, rank - 2))


def _powers(t: Translation, x: Value, exponent: float) -> Value:
    """(..., steps) -> (..., frames, frequencies): magnitudes to a power. The signal is mirrored at both ends."""
    length = int(t.setting("fft_length", 2048))
    size, step = int(t.setting("sequence_length", length)), int(t.setting("sequence_stride", 512))
    y = frequencies(t, x, length, size, step, t.layer.config.get("window", "hann"), True)
    power = t.reduced("reduce_sum", t.op("mul", y, y), (-1,))
    if exponent == 2:
        return power
    magnitude = t.op("sqrt", power)
    return magnitude if exponent == 1 else t.op("pow", magnitude, t.scalar(exponent, magnitude.dtype))


def frequencies(t: Translation, x: Value, length: int, size: int, step: int, window: Any, centred: bool) -> Value:
    """(..., steps) -> (..., frames, frequencies, real and imaginary part).

    Args:
        length: of the transform; size: of the frames; step: from frame to frame.
        window: a name, weights, or None; centred: the signal is mirrored at both ends, half a transform each.
    """
    size = length if window is None else size  # Keras takes frames of the transform's length where there is no window
    last, side = x.type.rank - 1, length // 2 if centred else 0
    steps = t.extent(x, last)
    if not (0 < size <= length and step > 0 and side < steps and length <= steps + 2 * side):
        raise error("E0108", f"frames of {size} elements, {step} apart, for a transform of {length}, of {x.type}")
    if side:
        x = t.standard("Pad", x, t.constant([*(0,) * last, side] * 2, "int64"), mode="reflect")
    count = (steps + 2 * side - length) // step + 1
    before = (length - size) // 2
    check_table(count, size)
    places = before + step * np.arange(count)[:, None] + np.arange(size)
    frames = t.op("gather", x, t.constant(places, "int64"), axis=last)
    if window is not None:
        frames = t.op("mul", frames, t.weight(weights_of(t, window, size), frames))
    frames = t.pad(frames, (*(0,) * last, 0, before), (*(0,) * last, 0, length - size - before))
    return transform(t, t.reshape(frames, (*frames.shape, 1)), last + 1, length, False, True)


def weights_of(t: Translation, window: Any, size: int) -> Array:
    """The weights of a frame's elements: of the cosine windows' periodic form, or as the file lists them."""
    if isinstance(window, (list, tuple, np.ndarray)) and len(window) == size:
        return np.asarray(window, np.float64)
    if not isinstance(window, str) or window not in ("hann", "hamming"):
        raise t.unsupported(f"with the window {window}")
    middle = 0.5 if window == "hann" else 0.54
    if size == 1:
        return np.ones(1)
    weights: Array = middle - (1 - middle) * np.cos(2 * np.pi * np.arange(size) / size)
    return weights


def _bands(t: Translation, frequencies: int) -> Array:
    """(frequencies, bands): triangles over the mel scale, as Keras computes them, in float32; no band has the first
    frequency."""
    rate, bands = float(t.setting("sampling_rate", 16000)), int(t.setting("num_mel_bins", 128))
    low, high = float(t.setting("min_freq", 20.0)), float(t.setting("max_freq", int(rate / 2)))

    def mel(hertz: Array | float) -> Array:
        return np.asarray(1127 * np.log1p(np.asarray(hertz, np.float64) / 700))

    if bands < 1:
        raise error("E0109", f"num_mel_bins is {bands}")
    check_table(frequencies, bands + 2)
    edges = np.linspace(mel(low), mel(high), bands + 2)
    at = mel(np.linspace(0, rate / 2, frequencies)[1:])[:, None]
    left, middle, right = edges[:-2], edges[1:-1], edges[2:]
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = np.maximum(0.0, np.minimum((at - left) / (middle - left), (right - at) / (right - middle)))
    result: Array = np.pad(shares, ((1, 0), (0, 0)))
    return result


def _decibels(t: Translation, y: Value) -> Value:
    """Ten times the logarithm beside a reference; nothing is further below the loudest of the whole batch than
    `top_db`."""
    least = float(t.setting("min_power", 1e-10))
    reference = max(abs(float(t.setting("ref_power", 1.0))), least)
    y = t.scaled(t.op("log", t.op("maximum", y, t.scalar(least, y.dtype))), 10 / math.log(10))
    y = t.shifted(y, -10 * math.log10(reference))
    loudest = t.reduced("reduce_max", y, tuple(range(y.type.rank)))
    return t.op("maximum", y, t.shifted(loudest, -float(t.setting("top_db", 80.0))))


LAYERS: dict[str, Translator] = {
    "STFTSpectrogram": _stft_spectrogram,
    "MelSpectrogram": _mel_spectrogram,
}
