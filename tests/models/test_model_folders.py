"""SavedModels and Core ML packages that the fuzzer begins with are models: they are read, and compute what they say."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from sterna.debug.interpret import interpret
from sterna.frontends.formats import read_model

sys.path.insert(0, str(Path(__file__).parents[2] / "fuzz"))

import folder_seeds


def computed(files: folder_seeds.Files, folder: Path, x: np.ndarray) -> np.ndarray:
    for name, content in files.items():
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
    graph = read_model(folder)
    (result,) = interpret(graph, {graph.inputs[0].name: x}).values()
    return result


def test_a_variable_that_the_graph_restores(tmp_path: Path) -> None:
    _, files = folder_seeds.saved_models()
    x = np.arange(8, dtype=np.float32).reshape(2, 4) / 8
    weights = np.frombuffer(files["variables/variables.data-00000-of-00001"], np.float32).reshape(4, 3)
    raised = np.exp(x @ weights)
    found = computed(files, tmp_path, x)
    np.testing.assert_allclose(found, raised / raised.sum(1, keepdims=True), rtol=1e-5)


def test_variables_by_name(tmp_path: Path) -> None:
    """The convolution's centre on a picture of one pixel that is not 0."""
    files, _ = folder_seeds.saved_models()
    stored = np.frombuffer(files["variables/variables.data-00000-of-00001"], np.float32)
    bias, kernel = stored[:4], stored[4:].reshape(3, 3, 2, 4)  # in the order of their names
    x = np.zeros((1, 5, 5, 2), np.float32)
    x[0, 2, 2] = (1, 2)
    found = computed(files, tmp_path, x)
    np.testing.assert_allclose(found[0, 2, 2], np.maximum(np.array([1, 2]) @ kernel[1, 1] + bias, 0), rtol=1e-5)


def test_a_package_with_a_condition(tmp_path: Path) -> None:
    pytest.importorskip("coremltools", reason="Core ML is read with coremltools")
    _, files = folder_seeds.packages()
    weights = (np.arange(-24, 24).reshape(12, 4) - 1) * np.float32(0.1)
    for number, x in enumerate((np.ones((2, 4), np.float32), np.zeros((2, 4), np.float32))):
        product = x @ weights.T
        found = computed(files, tmp_path / str(number), x)
        np.testing.assert_allclose(found, np.tanh(product) if product.max() > 1 else product**2, rtol=1e-5)


def test_a_package_with_a_picture(tmp_path: Path) -> None:
    pytest.importorskip("coremltools", reason="Core ML is read with coremltools")
    files, _ = folder_seeds.packages()
    found = computed(files, tmp_path, np.ones((1, 2, 4, 4), np.float32))
    assert found.shape == (1, 4)
    assert found.sum() == pytest.approx(1)
