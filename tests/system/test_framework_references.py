"""What `verify` compares with: TensorFlow, OpenCV and Keras where they are installed, and why not where they refuse."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import numpy as np
import pytest

os.environ.setdefault("KERAS_BACKEND", "numpy")

from sterna.debug.interpret import interpret
from sterna.errors import SternaError
from sterna.frontends.formats import read_model, reference_for
from support import keras_files
from support.caffe_networks import drawn, layer, network
from support.graph_defs import GraphWriter, Kind


def test_opencv_runs_networks_of_caffe(tmp_path: Path) -> None:
    pytest.importorskip("cv2", reason="the reference by OpenCV is tried where OpenCV is")
    text = layer("Convolution", "convolution_param { num_output: 3 kernel_size: 2 }")
    path = network(tmp_path, text, {"l": [drawn(3, 4, 2, 2), drawn(3)]}, (1, 4, 5, 6))
    x = drawn(1, 4, 5, 6, seed=3)
    reference = reference_for(path)
    assert reference.run is not None
    np.testing.assert_allclose(reference.run({"x": x}, ())["y"], interpret(read_model(path), {"x": x})["y"], atol=1e-5)


def test_what_opencv_does_not_read_is_said(tmp_path: Path) -> None:
    pytest.importorskip("cv2", reason="the reference by OpenCV is tried where OpenCV is")
    reference = reference_for(network(tmp_path, layer("Threshold"), {}, (1, 4, 5, 6)))
    assert reference.run is not None
    with pytest.raises(SternaError) as caught:
        reference.run({"x": drawn(1, 4, 5, 6)}, ())
    assert caught.value.codes == ("E0009",)
    assert "opencv cannot run the model" in str(caught.value)


def test_tensorflow_runs_frozen_graphs(tmp_path: Path) -> None:
    pytest.importorskip("tensorflow", reason="the reference by TensorFlow is tried where TensorFlow is")
    g = GraphWriter()
    g.node("Tanh", [g.input("x", (2, 3))], name="y", T=Kind("float32"))
    x = drawn(2, 3)
    reference = reference_for(g.write(tmp_path))
    assert reference.run is not None
    np.testing.assert_allclose(reference.run({"x": x}, ())["y"], np.tanh(x), atol=1e-6)


def test_what_keras_does_not_load_is_said(tmp_path: Path) -> None:
    """A layer of the user's own, which is in no installed package."""
    pytest.importorskip("keras", reason="keras is not installed")
    thing = keras_files.layer("Thing", "t", ["x"], module="mine")
    path = keras_files.archive(keras_files.functional(thing), keras_files.weights(), tmp_path)
    reference = reference_for(path)
    assert reference.run is None
    assert "keras cannot run the model: " in reference.missing
    with pytest.raises(SternaError) as caught:
        reference_for(path, "keras")
    assert caught.value.codes == ("E0009",)


def test_what_litert_lacks_is_said(tmp_path: Path) -> None:
    """An operator of the user's own."""
    builder = pytest.importorskip("support.tflite_builder", reason="ai-edge-litert is not installed")
    model = builder.ModelWriter()
    model.main.op("Sparkle", [model.main.input(drawn(1, 4))], [model.main.output("float32", (1, 4))], custom=b"x")
    path = tmp_path / "model.tflite"
    path.write_bytes(model.content())
    reference = reference_for(path)
    assert reference.run is None
    assert "litert cannot run the model: " in reference.missing
    with pytest.raises(SternaError) as caught:
        reference_for(path, "litert")
    assert caught.value.codes == ("E0009",)


def test_operators_of_mediapipe(tmp_path: Path) -> None:
    """LiteRT computes them by its default delegate, not by its kernels."""
    builder = pytest.importorskip("support.tflite_builder", reason="ai-edge-litert is not installed")
    model = builder.ModelWriter()
    x = model.main.input(drawn(1, 4, 4, 2))
    weights, bias = model.main.constant(drawn(3, 2, 2, 2)), model.main.constant(drawn(3))
    settings = struct.pack("<3i", 1, 2, 2)  # padding SAME, strides
    y = model.main.output("float32", (1, 8, 8, 3))
    model.main.op("Convolution2DTransposeBias", [x, weights, bias], [y], custom=settings)
    path = tmp_path / "model.tflite"
    path.write_bytes(model.content())
    reference = reference_for(path)
    assert reference.run is not None
    found, wanted = interpret(read_model(path), model.feeds), reference.run(model.feeds, ())
    np.testing.assert_allclose(found[f"t{y}"], wanted[f"t{y}"], atol=1e-5)
