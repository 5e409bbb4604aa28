"""Trained TensorFlow and TensorFlow.js models, compiled: within the spread of the reference."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest

import sterna
from sterna.frontends.formats import describe_model, read_model

ROOT = Path(__file__).parents[3] / "shared" / "models_frontends"
NAMES = (
    "tf_pb_digits_cnn", "tf_pb_pose_cpm", "tf_sm_basic_pitch", "tf_sm_digits_module", "tf_sm_kws_dscnn",
    "tfjs_facemesh", "tfjs_liveness",
)  # fmt: skip


def model(name: str) -> Path:
    folder = ROOT / name
    if not folder.is_dir():
        pytest.skip(f"the model {name} is not here")
    return folder / "saved_model" if (folder / "saved_model").is_dir() else folder / _meta(name)["file"]


def _meta(name: str) -> dict:  # type: ignore[type-arg]
    return json.loads((ROOT / name / "meta.json").read_text())  # type: ignore[no-any-return]


def check(name: str, generator: str, folder: Path) -> None:
    file, meta = model(name), _meta(name)
    cases = np.load(ROOT / name / "ref.npz")
    spread = max(meta["spread"].values(), default=0.0)
    for number in range(meta["n_cases"]):
        inputs = {each["name"].removesuffix(":0"): cases[f"c{number}_in{n}"] for n, each in enumerate(meta["inputs"])}
        shapes = {key: value.shape for key, value in inputs.items()}
        with sterna.compile(file, shapes=shapes, generator=generator, output=folder / f"{number}") as bundle:
            found = bundle.run(inputs)
        for n, each in enumerate(meta["outputs"]):
            wanted = cases[f"c{number}_out{n}"]
            got = found[each["name"].removesuffix(":0")]
            assert got.shape == wanted.shape
            if wanted.dtype.kind in "iu":
                assert np.array_equal(got, wanted)
            else:
                assert np.abs(got - wanted).max() <= max(1e-4 * np.abs(wanted).max(), 4 * spread)


@pytest.mark.family("host-llvm")
@pytest.mark.parametrize("name", NAMES)
def test_trained_model(name: str, tmp_path: Path) -> None:
    check(name, "llvm", tmp_path)


@pytest.mark.family("host-c")
def test_trained_model_through_c(tmp_path: Path) -> None:
    check("tf_sm_digits_module", "c", tmp_path)


def test_a_zip_of_a_folder_is_the_same_model(tmp_path: Path) -> None:
    folder = model("tf_sm_digits_module")
    with zipfile.ZipFile(tmp_path / "model.zip", "w") as archive:
        for file in folder.rglob("*"):
            if file.is_file():
                archive.write(file, f"saved/{file.relative_to(folder)}")
    one, two = read_model(folder), read_model(tmp_path / "model.zip")
    assert str(one.nodes) == str(two.nodes)
    facts = describe_model(tmp_path / "model.zip")
    assert "serving_default" in facts.signatures
    assert not facts.problems
