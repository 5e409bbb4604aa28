"""The trained float models, compiled for browsers: in Node they give what the host gives."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import sterna
from sterna.api import compile_to
from sterna.debug.golden import GoldenSet, golden_files
from tools import ROOT, need, run
from trained import FOLDER, Case, Trained, sample

#: Convolutional, dense, attention and recurrent networks in ONNX whose elements are floats.
MODELS = (
    "digits",
    "torch_digits_cnn",
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
    "efficientnet_lite0_f32",
    "g2p_id_bert_f32",
    "magika_f32",
    "silero_vad_16k_f32",
    "dtln_1_f32",
    "sklearn_mlp_digits",
    "whisper80_frontend_f32",
)
#: Of the largest output: the same operations in the same order, but for products that are fused on one side alone.
TOLERANCE = {"browser": 1e-5, "browser-relaxed": 1e-4}
#: What is left are rounding errors of either machine: of basic_pitch, onnxruntime's own settings differ by 9e-4
#: (`spread` in its meta.json).
ILL_CONDITIONED = {"basic_pitch_f32": 2e-3}

pytestmark = pytest.mark.family("wasm32")


def case_of(model: Trained) -> Case:
    return model.cases[0]


def golden_bundle(model: Trained, target: str, place: Path, generator: str = "c") -> Path:
    """The model's bundle, with one golden set: a case of the model and what the host makes of it."""
    case = case_of(model)
    shapes = {name: array.shape for name, array in case.inputs.items()}
    with sterna.compile(model.file, shapes=shapes) as host:
        outputs = {name: np.array(array) for name, array in host.run(case.inputs).items()}
        inputs = {name: case.inputs[name] for name in (spec.name for spec in host.inputs)}
    bundle = compile_to(place, model.file, target, shapes=shapes, generator=generator)
    tolerance = ILL_CONDITIONED.get(model.name, TOLERANCE[target])
    for name, data in golden_files("the host", [GoldenSet(inputs, outputs)], tolerance).items():
        (bundle / name).write_bytes(data)
    return bundle


@pytest.mark.parametrize("target", TOLERANCE)
@pytest.mark.parametrize("name", MODELS)
def test_node_gives_what_the_host_gives(name: str, target: str, tmp_path: Path) -> None:
    node = need("node", "runs WebAssembly")
    bundle = golden_bundle(sample(name), target, tmp_path / "bundle")
    script = ROOT / "runtime_js" / "test" / "replay-main.js"
    said = run(node, "--experimental-wasm-relaxed-simd", script, "1", bundle, cwd=tmp_path)
    (result,) = json.loads(said.splitlines()[-1]).values()
    assert "problem" not in result, result
    assert result["sets"] == 1
    assert result["error"] <= result["tolerance"]


def test_no_float_model_is_left_out() -> None:
    """Every ONNX model of the folder is in the list, or is not a network of floats."""
    if not FOLDER.is_dir():
        pytest.skip("the development models are not here")
    others = {"minilm_l6_v2_int8", "sklearn_logreg_digits", "sklearn_rf_digits", "sklearn_svc_wine"}
    found = {folder.name for folder in FOLDER.iterdir() if (folder / "model.onnx").is_file()}
    assert found - others == set(MODELS) - {"digits"}
