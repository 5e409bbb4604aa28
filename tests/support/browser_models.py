"""Trained models for browsers: which, how far they may be from what the host gives, bundles with its golden sets."""

from __future__ import annotations

import os
import platform
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

import sterna
from sterna.api import compile_to
from sterna.debug.golden import GoldenSet, golden_files
from support.trained import Trained, sample

#: Small ones of every kind: convolutions, transformer, recurrent with choices, dense, embedding.
SAMPLE = (
    "digits", "torch_digits_cnn", "mnist_cntk_f32", "mtcnn_pnet_f32", "g2p_id_bert_f32", "silero_vad_16k_f32",
    "dtln_1_f32", "sklearn_mlp_digits", "mlperf_tiny_ad_f32", "movie_review_f32", "tflm_hello_world_f32",
)  # fmt: skip
#: Convolutional, dense, attention and recurrent networks whose elements are floats.
MODELS = (
    *SAMPLE,
    "mtcnn_onet_f32", "mtcnn_rnet_f32", "ppocr_cls_f32", "ppocrv6_tiny_det_f32", "ppocrv6_tiny_rec_f32",
    "speech_embedding_f32", "speech_melspectrogram_f32", "ultraface_rfb320_f32", "basic_pitch_f32",
    "efficientnet_lite0_f32", "magika_f32", "whisper80_frontend_f32", "basic_pitch_tflite_f32",
    "mediapipe_face_short_fp16", "mediapipe_hand_landmark_lite_fp16", "mlperf_tiny_resnet_f32", "mlperf_tiny_vww_f32",
    "mobilenet_v1_025_224_f32", "mediapipe_selfie_segmentation_fp16", "tflm_mnist_lstm_f32",
)  # fmt: skip
ALL = os.environ.get("STERNA_BROWSER_MODELS") == "all"
TRIED = MODELS if ALL else SAMPLE
#: Of the largest output: the same operations in the same order, but for products that are fused on one side alone.
TOLERANCE = {"browser": 1e-5, "browser-relaxed": 1e-4, "browser-baseline": 1e-5}
#: What is always tried.
TARGETS = ("browser", "browser-relaxed")
#: The target whose numbers each target gives.
FAMILY = {
    "browser": "browser",
    "browser-relaxed": "browser-relaxed",
    "browser-baseline": "browser-baseline",
    "browser-threads": "browser",
    "browser-relaxed-threads": "browser-relaxed",
    "webgpu": "browser",
}
#: Networks that magnify rounding errors (of basic_pitch, onnxruntime's own settings differ by 9e-4) are compared to a
#: host that fuses the same products: none, or those of 128-bit vectors. So they are equal to the bit. Without vectors,
#: terms are added up in another order too, which one more shows (3e-5).
ILL_CONDITIONED = {
    "basic_pitch_f32", "basic_pitch_tflite_f32", "mediapipe_selfie_segmentation_fp16", "ppocrv6_tiny_det_f32",
}  # fmt: skip
SENSITIVE_TO_ORDER = {"ppocrv6_tiny_rec_f32"}
ALIKE = {
    "browser": 'extends = "x86-64-v2"\nvector_registers = 13\ntile_registers = 15',
    "browser-baseline": 'extends = "x86-64-v2"\nvector_bits = 0\nvector_registers = 13',
    "browser-relaxed": (
        'extends = "x86-64-v3"\nvector_bits = 128\nfma_bits = 128\nvector_registers = 13\ntile_registers = 15'
    ),
}


def shapes_of(model: Trained) -> dict[str, tuple[int, ...]]:
    return {name: array.shape for name, array in model.cases[0].inputs.items()}


@cache
def on_the_host(name: str, alike: str | None) -> GoldenSet:
    """A case of the model and what the host makes of it, or a target of this description."""
    model = sample(name)
    with TemporaryDirectory() as place:
        reference = "host"
        if alike is not None:
            description = Path(place, "alike.toml")
            description.write_text(alike)
            reference = str(description)
        with sterna.compile(model.file, target=reference, shapes=shapes_of(model)) as host:
            given = model.cases[0].inputs
            outputs = {name: np.array(array) for name, array in host.run(given).items()}
            return GoldenSet({spec.name: given[spec.name] for spec in host.inputs}, outputs)


def golden_bundle(model: Trained, target: str, place: Path, generator: str = "c") -> Path:
    """The model's bundle, with one golden set: a case of the model and what the host makes of it."""
    kind = FAMILY[target]
    ill = model.name in ILL_CONDITIONED or (kind == "browser-baseline" and model.name in SENSITIVE_TO_ORDER)
    if ill and platform.machine() not in ("x86_64", "AMD64"):
        pytest.skip("no target of this host fuses the same products")
    golden = on_the_host(model.name, ALIKE[kind] if ill else None)
    bundle = compile_to(place, model.file, target, shapes=shapes_of(model), generator=generator)
    for name, data in golden_files("the host", [golden], TOLERANCE[kind]).items():
        (bundle / name).write_bytes(data)
    return bundle
