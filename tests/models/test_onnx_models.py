"""Trained models and PyTorch-style networks, read, optimized and interpreted, against their reference outputs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from sterna.debug.interpret import interpret
from sterna.frontends.onnx import read
from sterna.pipeline import optimize
from support.networks import NETWORKS

MODELS = Path(__file__).resolve().parents[3] / "shared" / "models"
NAMES = (
    "torch_digits_cnn",
    "efficientnet_lite0_f32",
    "mnist_cntk_f32",
    "mtcnn_onet_f32",
    "mtcnn_pnet_f32",
    "mtcnn_rnet_f32",
    "ppocr_cls_f32",
    "ppocrv6_tiny_det_f32",
    "ppocrv6_tiny_rec_f32",
    "speech_embedding_f32",
    "speech_melspectrogram_f32",
    "ultraface_rfb320_f32",
    "basic_pitch_f32",
    "magika_f32",
    "sklearn_mlp_digits",
    "g2p_id_bert_f32",
)
#: Outputs that hang on the order of a sum: magika's layer normalization takes E[x^2] - E[x]^2 of a nearly constant row
#: in float32, and NumPy adds in another order than the reference. What is compiled agrees to 3e-6.
ILL_CONDITIONED = {"magika_f32": 1e-3}


@pytest.mark.parametrize("name", NAMES)
def test_reference_outputs(name: str) -> None:
    folder = MODELS / name
    if not folder.is_dir():
        pytest.skip(f"../shared/models/{name} is not here")
    meta = json.loads((folder / "meta.json").read_text())
    cases = np.load(folder / "ref.npz")
    spread = max(meta.get("spread", {}).values(), default=0.0)
    for case in range(meta["n_cases"]):
        feeds = {key: cases[f"c{case}_in{n}"] for n, key in enumerate(meta["runtime_input_order"])}
        graph = optimize(
            read(folder / "model.onnx", shapes={key: array.shape for key, array in feeds.items()}), check=True
        )
        found = interpret(graph, feeds)
        for n, key in enumerate(meta["runtime_output_order"]):
            expected = cases[f"c{case}_out{n}"]
            assert found[key].dtype == expected.dtype
            tolerance = max(1e-4 * float(np.abs(expected).max()), 4 * spread, ILL_CONDITIONED.get(name, 0.0))
            np.testing.assert_allclose(found[key], expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize("folded", [True, False], ids=["folded", "batch-norm"])
@pytest.mark.parametrize("name", NETWORKS)
def test_networks(name: str, folded: bool) -> None:
    model = NETWORKS[name](size=64, folded=folded)
    x = np.random.default_rng(0).standard_normal((1, 3, 64, 64)).astype(np.float32)
    (expected,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"image": x})
    found = interpret(optimize(read(model)), {"image": x})["logits"]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4 * float(np.abs(expected).max()))
