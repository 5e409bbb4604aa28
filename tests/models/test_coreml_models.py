"""Trained models of Core ML, compiled: within the tolerance of their references."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import sterna
from support.trained import FOLDER as MODELS

if find_spec("coremltools") is None:
    pytest.skip("Core ML is read with coremltools", allow_module_level=True)

FOLDER = MODELS.parent / "models_frontends"
#: Absolute differences that the rounding of the source gives (README of the models).
CASES = [
    ("coreml_basic_pitch", "llvm", 4 * 0.00086),
    ("coreml_digits_cnn_mlprogram", "llvm", 4 * 2.4e-06),
    ("coreml_digits_cnn_mlprogram_fp16", "llvm", 4 * 0.0036),
    ("coreml_digits_cnn_nn", "c", 4 * 2.4e-06),
    ("coreml_digits_cnn_nn", "llvm", 4 * 2.4e-06),
    ("coreml_pose_cpm", "llvm", 0.0),
]


@pytest.mark.parametrize(("name", "generator", "spread"), CASES)
def test_trained_model(name: str, generator: str, spread: float) -> None:
    folder = FOLDER / name
    if not folder.is_dir():
        pytest.skip("the trained models are not here")
    meta = json.loads((folder / "meta.json").read_text())
    file = next(path for path in sorted(Path(folder).iterdir()) if path.suffix in (".mlmodel", ".mlpackage"))
    reference = np.load(folder / "ref.npz")
    dtype = np.float16 if name.endswith("_fp16") else np.float32
    with sterna.compile(file, generator=generator) as bundle:
        for case in range(meta["n_cases"]):
            given = {each["name"]: reference[f"c{case}_in{n}"].astype(dtype) for n, each in enumerate(meta["inputs"])}
            got = bundle.run(given)
            for n, each in enumerate(meta["outputs"]):
                wanted = reference[f"c{case}_out{n}"]
                assert got[each["name"]].shape == wanted.shape
                bound = max(1e-4 * float(np.abs(wanted).max()), spread)
                np.testing.assert_allclose(got[each["name"]].astype(np.float64), wanted, rtol=0, atol=bound)
