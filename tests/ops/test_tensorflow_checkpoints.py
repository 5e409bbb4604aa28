"""Checkpoints of TensorFlow 1: a graph with variables, and what they are beside it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import sterna
from sterna.errors import SternaError
from sterna.frontends.formats import describe_model, frontend_of, read_model
from sterna.frontends.frontend import ReadOptions
from sterna.frontends.tensorflow.schema import message
from support.graph_defs import GraphWriter, Kind, Shape
from support.saved_models import checkpoint

WEIGHTS = np.array([[1, 2], [3, 4], [5, 6]], np.float32)


def trained(folder: Path, name: str = "net") -> Path:
    """y = x w, and a step of training, which no one who runs the model wants."""
    g = GraphWriter()
    g.input("x", (2, 3))
    g.node("VariableV2", name="w", dtype=Kind("float32"), shape=Shape((3, 2)), shared_name=b"")
    g.node("Identity", ["w"], name="w/read", T=Kind("float32"))
    g.node("MatMul", ["x", "w/read"], name="y", T=Kind("float32"))
    g.node("ReluGrad", ["y", "y"], name="gradient", T=Kind("float32"))
    meta = message("Meta")
    meta.graph_def.CopyFrom(g.graph)
    meta.meta_info_def.tensorflow_version = "1.12.0"
    (folder / f"{name}.meta").write_bytes(meta.SerializeToString())
    for file, content in checkpoint({"w": WEIGHTS}).items():
        (folder / f"{name}{Path(file).suffix}").write_bytes(content)
    return folder / f"{name}.meta"


@pytest.mark.family("host-llvm")
@pytest.mark.parametrize("name", ["net", ""])
def test_a_checkpoint_beside_its_graph(name: str, tmp_path: Path) -> None:
    file, x = trained(tmp_path, name), np.arange(6, dtype=np.float32).reshape(2, 3)
    assert frontend_of(file).name == "tensorflow"
    described = describe_model(file, ReadOptions(signature="y"))
    assert (described.format, described.producer) == ("TensorFlow checkpoint", "TensorFlow 1.12.0")
    with sterna.compile(file, signature="y", generator="llvm") as bundle:
        np.testing.assert_array_equal(bundle.run({"x": x})["y"], x @ WEIGHTS)


def test_a_step_of_training_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(SternaError) as caught:
        read_model(trained(tmp_path))
    assert caught.value.codes == ("E0104",)
    assert "ReluGrad" in str(caught.value)


def test_a_checkpoint_that_is_not_whole(tmp_path: Path) -> None:
    file = trained(tmp_path)
    (tmp_path / "net.data-00000-of-00001").unlink()
    with pytest.raises(SternaError) as caught:
        read_model(file, ReadOptions(signature="y"))
    assert caught.value.codes == ("E0101",)
    (tmp_path / "net.index").unlink()
    with pytest.raises(SternaError) as caught:
        read_model(file, ReadOptions(signature="y"))
    assert caught.value.codes == ("E0101",)
