"""Operators of sound."""

from __future__ import annotations

from sterna.frontends import sound
from sterna.frontends.tensorflow.translation import Translation, Translator
from sterna.ir.graph import Value


def spectrogram(t: Translation) -> Value:
    squared = bool(t.option("magnitude_squared", False))
    return sound.spectrogram(t, t.input(0), int(t.option("window_size")), int(t.option("stride")), squared)


def cepstrum(t: Translation) -> Value:
    low, high = (float(t.option(f"{end}_frequency_limit", hz)) for end, hz in (("lower", 20.0), ("upper", 4000.0)))
    filters, count = int(t.option("filterbank_channel_count", 40)), int(t.option("dct_coefficient_count", 13))
    return sound.cepstrum(t, t.input(0), float(t.scalar_of(1, "the rate of samples")), low, high, filters, count)


TRANSLATORS: dict[str, Translator] = {"AudioSpectrogram": spectrogram, "Mfcc": cepstrum}
