"""Trained TensorFlow Lite models on foreign machines: integers are those of the reference kernels there too."""

from __future__ import annotations

from pathlib import Path

import pytest

from sterna.api import compile_to
from support.machines import run_arm64, run_wasm
from support.trained import agree, trained

#: The four of MLPerf Tiny, one with softmax tables, one with a loop and a cell of 16 bits.
INTEGERS = (
    "mlperf_tiny_ad_int8", "mlperf_tiny_kws_int8", "mlperf_tiny_resnet_int8", "mlperf_tiny_vww_int8",
    "tflm_micro_speech_int8", "tflm_mnist_lstm_int8",
)  # fmt: skip
FLOATS = ("mlperf_tiny_kws_hybrid", "tflm_mnist_lstm_f32", "mediapipe_face_short_fp16")
TARGETS = [
    pytest.param("arm64", marks=pytest.mark.family("arm64")),
    pytest.param("browser", marks=pytest.mark.family("wasm32")),
]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", [*INTEGERS, *FLOATS])
def test_a_model_gives_what_the_reference_kernels_give(
    name: str, target: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    model = trained(name)
    generator = "llvm" if name == "tflm_mnist_lstm_int8" else "c"
    bundle = compile_to(tmp_path / "bundle", model.file, target, shapes=model.shapes(), generator=generator)
    for number, case in enumerate(model.cases):
        if model.shapes(number) != model.shapes():
            continue
        directory = tmp_path / f"case{number}"
        directory.mkdir()
        inputs = list(case.inputs.values())
        if target == "arm64":
            found = run_arm64(request.getfixturevalue("arm64_host"), bundle, inputs, case.outputs, directory)
        else:
            found = run_wasm(bundle, inputs, case.outputs, directory)
        agree(model, number, found)
