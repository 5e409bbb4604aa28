"""Spectra of sound and their cepstral coefficients, as TensorFlow's and TensorFlow Lite's operators compute them: what
models of spoken commands begin with.

Mel-frequency cepstral coefficients: Davis and Mermelstein, "Comparison of Parametric Representations for Monosyllabic
Word Recognition" (1980). Which bins a filter takes follows TensorFlow's `mfcc_mel_filterbank.cc`.
"""

from __future__ import annotations

import math

import numpy as np

from sterna.errors import error
from sterna.frontends.emitter import Emitter
from sterna.frontends.fourier import LONGEST, transform
from sterna.ir.graph import Array, Value
from sterna.ir.limits import check_table

#: Energies below count as this.
_LEAST = 1e-12


def spectrogram(t: Emitter, x: Value, window: int, stride: int, squared: bool) -> Value:
    """(channels, frames, frequencies) of samples (samples, channels): how large each frequency is in every window.

    Args:
        window, stride: of samples; squared: the energy in place of the magnitude.
    """
    samples, channels = (t.extent(x, n) for n in range(2))
    if not 2 <= window <= LONGEST or stride < 1 or samples < window:
        raise error("E0109", f"{t.kind} of {samples} samples in windows of {window}, {stride} apart")
    frames, length = 1 + (samples - window) // stride, 1 << (window - 1).bit_length()
    check_table(frames, window)
    places = np.arange(frames)[:, None] * stride + np.arange(window)
    parts = t.op("gather", t.transpose(x, (1, 0)), t.constant(places, "int64"), axis=1)
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(window) / window)
    parts = t.op("mul", parts, t.constant(hann, "float32"))
    found = transform(t, t.reshape(parts, (channels, frames, window, 1)), 2, length, False, True)
    energy = t.op("reduce_sum", t.op("mul", found, found), axes=(3,), keep_dims=False)
    return energy if squared else t.op("sqrt", energy)


def cepstrum(t: Emitter, x: Value, rate: float, low: float, high: float, filters: int, count: int) -> Value:
    """(channels, frames, count) of energies (channels, frames, frequencies).

    Args:
        rate: samples in a second; low, high: frequencies between which the filters lie, in Hz.
        filters: of the mel scale; count: coefficients that are kept, the first ones.
    """
    bins = t.extent(x, -1)
    if bins < 2 or rate <= 0 or not 0 <= low < high or not 1 <= count <= filters <= 1 << 16:
        raise error("E0109", f"{t.kind} of {bins} frequencies, {filters} filters from {low} to {high} Hz, {count} kept")
    check_table(bins, filters)
    weights = t.constant(_filters(bins, rate, low, high, filters), "float32")
    bands = t.op("maximum", t.op("matmul", t.op("sqrt", x), weights), t.scalar(_LEAST, "float32"))
    angle = np.pi / filters * np.outer(np.arange(filters) + 0.5, np.arange(count))
    return t.op("matmul", t.op("log", bands), t.constant(math.sqrt(2 / filters) * np.cos(angle), "float32"))


def _filters(bins: int, rate: float, low: float, high: float, filters: int) -> Array:
    """(bins, filters): triangles, of which each bin is in two that lie side by side on the mel scale."""

    def mel(frequency: Array) -> Array:
        return np.asarray(1127.0 * np.log1p(np.asarray(frequency) / 700.0))

    least, most = float(mel(np.float64(low))), float(mel(np.float64(high)))
    centers = least + (most - least) / (filters + 1) * np.arange(1, filters + 2)
    step = 0.5 * rate / (bins - 1)
    numbers = np.arange(int(1.5 + low / step), min(int(high / step), bins - 1) + 1)
    heights = mel(numbers * step)
    # The last center below a bin; -1 before all of them.
    below = np.minimum(np.searchsorted(centers[:filters], heights, "left"), filters) - 1
    after = centers[below + 1]
    before = np.where(below >= 0, centers[below], least)
    share = (after - heights) / (after - before)
    weights = np.zeros((bins, filters))
    own, other = below >= 0, below + 1 < filters
    weights[numbers[own], below[own]] += share[own]
    weights[numbers[other], below[other] + 1] += 1 - share[other]
    return weights
