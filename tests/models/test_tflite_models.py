"""Trained TensorFlow Lite models, compiled: integers equal the reference kernels, floats are within its spread."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import sterna
from sterna.api import compile_to
from support.trained import agree, trained

NAMES = (
    "basic_pitch_tflite_f32", "mediapipe_face_short_fp16", "mediapipe_hand_landmark_lite_fp16",
    "mediapipe_selfie_segmentation_fp16", "micro_wakeword_okay_nabu_int8", "mlperf_tiny_ad_f32", "mlperf_tiny_ad_int8",
    "mlperf_tiny_kws_hybrid", "mlperf_tiny_kws_int8", "mlperf_tiny_resnet_f32", "mlperf_tiny_resnet_int8",
    "mlperf_tiny_vww_f32", "mlperf_tiny_vww_int8", "mobilenet_v1_025_224_f32", "mobilenet_v2_100_224_u8",
    "movie_review_f32", "ssd_mobilenet_v1_coco_u8", "tflm_hello_world_f32", "tflm_hello_world_int8",
    "tflm_micro_speech_int8", "tflm_mnist_lstm_f32", "tflm_mnist_lstm_int8", "tflm_person_detect_int8",
)  # fmt: skip
GENERATORS = [
    pytest.param("c", marks=pytest.mark.family("host-c")),
    pytest.param("llvm", marks=pytest.mark.family("host-llvm")),
]


@pytest.mark.parametrize("generator", GENERATORS)
@pytest.mark.parametrize("name", NAMES)
def test_trained_model(name: str, generator: str, tmp_path: Path) -> None:
    model = trained(name)
    bundles: dict[tuple[tuple[int, ...], ...], Path] = {}
    for number in range(len(model.cases)):
        shapes = model.shapes(number)
        if (key := tuple(shapes.values())) not in bundles:
            place = tmp_path / f"bundle{number}"
            bundles[key] = compile_to(place, model.file, shapes=shapes, generator=generator)
    for threads in (1, 2):
        for key, place in bundles.items():
            with sterna.load(place, threads) as bundle:
                if name.endswith("_fp16"):  # It widens its weights itself: they are stored as they were.
                    assert bundle.memory()["params"] < 1.05 * model.file.stat().st_size
                for number, case in enumerate(model.cases):
                    if tuple(model.shapes(number).values()) == key:
                        if not model.is_sequence:
                            bundle.reset_state()
                        agree(model, number, list(bundle.run(case.inputs).values()))


def test_state_is_forgotten_when_asked(tmp_path: Path) -> None:
    """The wake-word model remembers its last frames: a second pass gives the same only from the start."""
    model = trained("micro_wakeword_okay_nabu_int8")
    with sterna.compile(model.file, output=tmp_path / "bundle") as bundle:
        rows = json.loads((tmp_path / "bundle" / "graph.json").read_bytes())["values"]
        states = [row["name"] for row in rows if row["storage"]["class"] == "state"]
        assert len(states) == 6
        start = [bundle.intermediate(name) for name in states]
        for _ in range(2):
            for number, case in enumerate(model.cases):
                agree(model, number, list(bundle.run(case.inputs).values()))
            assert not any(np.array_equal(bundle.intermediate(n), a) for n, a in zip(states, start, strict=True))
            bundle.reset_state()
            for name, array in zip(states, start, strict=True):
                np.testing.assert_array_equal(bundle.intermediate(name), array)
