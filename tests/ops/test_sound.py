"""Spectrograms and cepstral coefficients of TensorFlow and TensorFlow Lite, against their definition in loops."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flatbuffers import flexbuffers

from sterna.debug.interpret import interpret
from sterna.errors import SternaError
from sterna.frontends.formats import read_model
from sterna.frontends.frontend import ReadOptions
from support.graph_defs import GraphWriter
from support.tflite_builder import ModelWriter

CASES = {
    "spoken commands": {"window_size": 480, "stride": 160, "magnitude_squared": True, "dct_coefficient_count": 40},
    "magnitudes": {"window_size": 256, "stride": 300, "magnitude_squared": False, "upper_frequency_limit": 3000.0,
                   "lower_frequency_limit": 200.0, "filterbank_channel_count": 20},
}  # fmt: skip
#: Settings of the first of the two operators.
OF_SPECTRA = ("window_size", "stride", "magnitude_squared")
RATE = 16000


def spectrum(x: np.ndarray, window_size: int, stride: int, magnitude_squared: bool) -> np.ndarray:
    length = 2 ** math.ceil(math.log2(window_size))
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(window_size) / window_size)
    starts = range(0, len(x) - window_size + 1, stride)
    frames = [[np.fft.rfft(window * x[s : s + window_size, c], length) for s in starts] for c in range(x.shape[1])]
    size = np.abs(np.array(frames))
    return size**2 if magnitude_squared else size


def coefficients(
    spectra: np.ndarray,
    upper_frequency_limit: float = 4000.0,
    lower_frequency_limit: float = 20.0,
    filterbank_channel_count: int = 40,
    dct_coefficient_count: int = 13,
) -> np.ndarray:
    """TensorFlow's `mfcc_mel_filterbank.cc` and `mfcc_dct.cc`, element by element."""

    def mel(hz: float) -> float:
        return 1127.0 * math.log1p(hz / 700.0)

    low, high, filters = mel(lower_frequency_limit), mel(upper_frequency_limit), filterbank_channel_count
    centers = [low + (high - low) / (filters + 1) * (n + 1) for n in range(filters + 1)]
    step = 0.5 * RATE / (spectra.shape[-1] - 1)
    first, last = int(1.5 + lower_frequency_limit / step), int(upper_frequency_limit / step)
    out = np.zeros((*spectra.shape[:-1], dct_coefficient_count))
    for place in np.ndindex(spectra.shape[:-1]):
        bands = np.zeros(filters)
        for n in range(first, last + 1):
            at = sum(center < mel(n * step) for center in centers[:filters]) - 1
            begin = centers[at] if at >= 0 else low
            value = math.sqrt(spectra[(*place, n)])
            part = value * (centers[at + 1] - mel(n * step)) / (centers[at + 1] - begin)
            if at >= 0:
                bands[at] += part
            if at + 1 < filters:
                bands[at + 1] += value - part
        logs = np.log(np.maximum(bands, 1e-12))
        for k in range(dct_coefficient_count):
            turns = np.cos(np.pi / filters * k * (np.arange(filters) + 0.5))
            out[(*place, k)] = math.sqrt(2 / filters) * float(logs @ turns)
    return out


def wanted_of(case: str, x: np.ndarray) -> np.ndarray:
    settings: dict[str, Any] = CASES[case]
    spectra = spectrum(x, *(settings[name] for name in OF_SPECTRA))
    return coefficients(spectra, **{name: value for name, value in settings.items() if name not in OF_SPECTRA})


@pytest.mark.parametrize("case", CASES)
def test_of_tensorflow(tmp_path: Path, case: str) -> None:
    x = np.random.default_rng(1).normal(size=(1500, 2)).astype(np.float32)
    settings = CASES[case]
    g = GraphWriter()
    g.input("x", x.shape)
    made = g.node("AudioSpectrogram", ["x"], **{name: settings[name] for name in OF_SPECTRA})
    rest = {name: value for name, value in settings.items() if name not in OF_SPECTRA}
    g.node("Mfcc", [made, g.constant(np.int32(RATE))], name="y", **rest)
    (found,) = interpret(read_model(g.write(tmp_path), ReadOptions()), {"x": x}).values()
    wanted = wanted_of(case, x)
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, atol=1e-5 * np.abs(wanted).max())


@pytest.mark.parametrize("case", CASES)
def test_of_tensorflow_lite(tmp_path: Path, case: str) -> None:
    x = np.random.default_rng(2).normal(size=(1500, 1)).astype(np.float32)
    wanted = wanted_of(case, x)
    spectra = spectrum(x, *(CASES[case][name] for name in OF_SPECTRA))
    settings = bytes(flexbuffers.Dumps(CASES[case]))
    model = ModelWriter()
    g = model.main
    middle, y = g.tensor("float32", spectra.shape), g.output("float32", wanted.shape)
    g.op("AudioSpectrogram", [g.input(x)], [middle], custom=settings)
    g.op("Mfcc", [middle, g.constant(np.array([RATE], np.int32))], [y], custom=settings)
    file = tmp_path / "model.tflite"
    file.write_bytes(model.content())
    graph = read_model(file, ReadOptions())
    (found,) = interpret(graph, {graph.inputs[0].name: x}).values()
    np.testing.assert_allclose(found, wanted, atol=1e-5 * np.abs(wanted).max())


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("AudioSpectrogram", {"window_size": 1, "stride": 1}),
        ("AudioSpectrogram", {"window_size": 40, "stride": 1}),
        ("AudioSpectrogram", {"window_size": 4, "stride": 0}),
        ("Mfcc", {"filterbank_channel_count": 5, "dct_coefficient_count": 6}),
        ("Mfcc", {"filterbank_channel_count": 1 << 30}),
        ("Mfcc", {"lower_frequency_limit": 5000.0}),
    ],
)
def test_settings_that_are_none_are_refused(tmp_path: Path, kind: str, settings: dict[str, Any]) -> None:
    g = GraphWriter()
    g.input("x", (9, 1) if kind != "Mfcc" else (1, 9, 9))
    g.node(kind, ["x", g.constant(np.int32(RATE))][: 1 + (kind == "Mfcc")], name="y", **settings)
    with pytest.raises(SternaError) as refusal:
        read_model(g.write(tmp_path), ReadOptions())
    assert refusal.value.codes == ("E0109",)
