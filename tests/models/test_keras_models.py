"""Trained Keras models of every form, compiled: within the spread of the reference."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import sterna
from support.frontend_models import frontend_model, holds_to_its_reference

NAMES = (
    "keras_h5_gender_xception", "keras_h5_mnist_dw", "keras_h5_resnet8_cifar", "keras_v3_digits_cnn",
    "keras_v3_multi_io", "keras_v3_tokens_rnn", "tfjs_digits_cnn", "tfjs_nsfw_mobilenet_v2",
)  # fmt: skip


@pytest.mark.family("host-llvm")
@pytest.mark.parametrize("name", NAMES)
def test_trained_model(name: str) -> None:
    """One bundle takes every batch of the reference."""
    holds_to_its_reference(frontend_model(name), {"batch": (1, 64)}, generator="llvm")


@pytest.mark.family("host-c")
def test_as_c() -> None:
    holds_to_its_reference(frontend_model("keras_v3_multi_io"), {"batch": (1, 64)}, generator="c")


@pytest.mark.family("host-llvm")
def test_names_and_sizes() -> None:
    model = frontend_model("keras_v3_multi_io")
    with sterna.compile(model.file, generator="llvm") as bundle:
        assert [(each.name, list(each.shape)) for each in bundle.inputs] == [("image", [1, 8, 8, 1]), ("stats", [1, 3])]
        assert [each.name for each in bundle.outputs] == ["digit", "is_even"]
        found = bundle.run({"image": np.zeros((1, 8, 8, 1), np.float32), "stats": np.zeros((1, 3), np.float32)})
    assert found["digit"].sum() == pytest.approx(1, abs=1e-5)


def test_a_shard_that_is_missing(tmp_path: Path) -> None:
    model = frontend_model("tfjs_digits_cnn")
    (tmp_path / "model.json").write_bytes(model.file.read_bytes())
    with pytest.raises(sterna.SternaError, match="cannot be read: No such file") as caught:
        sterna.compile(tmp_path / "model.json", generator="llvm")
    assert caught.value.codes == ("E0101",)
