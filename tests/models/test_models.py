"""Trained models and PyTorch-style networks, compiled: reference outputs, both generators, one thread and two."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import sterna
from sterna.api import compile_to
from support.networks import NETWORKS
from support.trained import agree, sample

#: Float CNNs and MLPs, and what else imports by now.
NAMES = (
    "digits", "torch_digits_cnn", "mnist_cntk_f32", "mtcnn_onet_f32", "mtcnn_pnet_f32", "mtcnn_rnet_f32",
    "ultraface_rfb320_f32", "ppocr_cls_f32", "ppocrv6_tiny_det_f32", "ppocrv6_tiny_rec_f32", "efficientnet_lite0_f32",
    "speech_embedding_f32", "speech_melspectrogram_f32", "basic_pitch_f32", "sklearn_mlp_digits", "magika_f32",
    "g2p_id_bert_f32",
    "dtln_1_f32", "silero_vad_16k_f32", "sklearn_logreg_digits", "sklearn_rf_digits",
    "sklearn_svc_wine", "whisper80_frontend_f32", "minilm_l6_v2_int8",
)  # fmt: skip
GENERATORS = [
    pytest.param("c", marks=pytest.mark.family("host-c")),
    pytest.param("llvm", marks=pytest.mark.family("host-llvm")),
]


#: Models that take seconds each: one generator of the two. `ci/all-models` runs every pair.
SLOW = (
    "ppocr_cls_f32", "ppocrv6_tiny_det_f32", "ppocrv6_tiny_rec_f32", "ultraface_rfb320_f32", "minilm_l6_v2_int8",
    "efficientnet_lite0_f32", "g2p_id_bert_f32", "silero_vad_16k_f32", "basic_pitch_f32", "whisper80_frontend_f32",
)  # fmt: skip


def pairs() -> list[Any]:
    """Models and generators."""
    chosen = ((name, GENERATORS if name not in SLOW else [GENERATORS[SLOW.index(name) % 2]]) for name in NAMES)
    return [pytest.param(name, *g.values, marks=g.marks) for name, generators in chosen for g in generators]


@pytest.mark.parametrize(("name", "generator"), pairs())
def test_trained_model(name: str, generator: str, tmp_path: Path) -> None:
    model = sample(name)
    bundles: dict[tuple[tuple[int, ...], ...], Path] = {}
    for number, case in enumerate(model.cases):
        shapes = model.shapes(number)
        place = bundles.get(tuple(shapes.values()))
        if place is None:
            place = compile_to(tmp_path / f"bundle{number}", model.file, shapes=shapes, generator=generator)
            bundles[tuple(shapes.values())] = place
        for threads in (1, 2):
            with sterna.load(place, threads) as bundle:
                outputs = list(bundle.run(case.inputs).values())
            agree(model, number, outputs)


@lru_cache(maxsize=1)
def network(name: str) -> tuple[onnx.ModelProto, np.ndarray, np.ndarray]:
    """(model, an input, ONNX Runtime's output)."""
    model = NETWORKS[name]()
    x = np.random.default_rng(1).standard_normal((1, 3, 224, 224)).astype(np.float32)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    (expected,) = onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, {"image": x})
    return model, x, expected


@pytest.mark.parametrize("generator", GENERATORS)
@pytest.mark.parametrize("name", NETWORKS)
def test_network(name: str, generator: str, tmp_path: Path) -> None:
    model, x, expected = network(name)
    place = compile_to(tmp_path / "bundle", model, generator=generator)
    results = []
    for threads in (1, 2):
        with sterna.load(place, threads) as bundle:
            results.append(bundle.run({"image": x})["logits"])
            assert np.abs(results[-1] - expected).max() <= 1e-4 * np.abs(expected).max()
    assert np.array_equal(*results), "results do not depend on the number of threads"
