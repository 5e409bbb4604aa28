"""Trained Caffe networks, compiled: within the spread of the reference."""

from __future__ import annotations

from pathlib import Path

import pytest

import sterna
from support.frontend_models import frontend_model, holds_to_its_reference

NAMES = ("caffe_landmark106", "caffe_mtcnn_onet", "caffe_rfb320", "caffe_wechat_sr")
GENERATORS = [
    *(pytest.param(name, "llvm", marks=pytest.mark.family("host-llvm")) for name in NAMES),
    pytest.param("caffe_mtcnn_onet", "c", marks=pytest.mark.family("host-c")),
]


@pytest.mark.parametrize(("name", "generator"), GENERATORS)
def test_trained_model(name: str, generator: str) -> None:
    holds_to_its_reference(frontend_model(name), generator=generator)


@pytest.mark.family("host-llvm")
def test_either_file_names_the_other(tmp_path: Path) -> None:
    model = frontend_model("caffe_mtcnn_onet")
    with sterna.compile(model.file.with_suffix(".caffemodel"), dims={"batch": 2}, generator="llvm") as bundle:
        assert {each.name: list(each.shape) for each in bundle.outputs} == {
            "prob1": [2, 2], "conv6-2": [2, 4], "conv6-3": [2, 10],
        }  # fmt: skip
    for name in ("model.prototxt", "model.caffemodel"):
        alone = tmp_path / name
        alone.write_bytes(model.file.with_name(name).read_bytes())
        with pytest.raises(sterna.SternaError) as caught:
            sterna.compile(alone, generator="llvm")
        assert caught.value.codes == ("E0101",)
        alone.unlink()
