"""Trained DarkNet detectors, compiled: within the spread of the reference."""

from __future__ import annotations

from pathlib import Path

import pytest

import sterna
from support.frontend_models import frontend_model, holds_to_its_reference

GENERATORS = [
    pytest.param("darknet_mbv2_yolo_fastest_voc", "llvm", marks=pytest.mark.family("host-llvm")),
    pytest.param("darknet_yolo_fastest_1_1_coco", "llvm", marks=pytest.mark.family("host-llvm")),
    pytest.param("darknet_yoloface_50k", "llvm", marks=pytest.mark.family("host-llvm")),
    pytest.param("darknet_yoloface_50k", "c", marks=pytest.mark.family("host-c")),
]


@pytest.mark.parametrize(("name", "generator"), GENERATORS)
def test_trained_model(name: str, generator: str) -> None:
    holds_to_its_reference(frontend_model(name), generator=generator)


@pytest.mark.family("host-llvm")
def test_either_file_names_the_other_and_pictures_may_have_another_size(tmp_path: Path) -> None:
    model = frontend_model("darknet_yoloface_50k")
    weights = model.file.with_suffix(".weights")
    with sterna.compile(weights, shapes={"data": (1, 3, 112, 64)}, generator="llvm") as bundle:
        assert [(each.name, list(each.shape)) for each in bundle.outputs] == [
            ("layer32_conv", [1, 18, 14, 8]), ("layer33_yolo", [1, 18, 14, 8]),
        ]  # fmt: skip
    for name in ("model.cfg", "model.weights"):
        alone = tmp_path / name
        alone.write_bytes(model.file.with_name(name).read_bytes())
        with pytest.raises(sterna.SternaError) as caught:
            sterna.compile(alone, generator="llvm")
        assert caught.value.codes == ("E0101",)
        alone.unlink()
