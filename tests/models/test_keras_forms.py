"""A sample of `ci/keras-models`: every form of one model gives one set of numbers, on Keras' smallest backend."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest

os.environ.setdefault("KERAS_BACKEND", "numpy")
pytest.importorskip("keras", reason="keras is not installed")
sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))

import keras

from keras_compare import FORMS, distance, outcome_of
from keras_models import write


@pytest.mark.family("host-llvm")
@pytest.mark.parametrize("name", ["siamese_pictures", "sentiment_lstm", "frames_cnn_lstm"])
def test_every_form_of_a_model(name: str, tmp_path: Path) -> None:
    """Shared and nested layers; Sequential, whose name the weights of TensorFlow.js bear; a model for each step."""
    if keras.backend.backend() == "tensorflow":
        pytest.importorskip("tensorflowjs", reason="the converter of TensorFlow.js is not installed")
    write(name, tmp_path / name)
    agree, text = outcome_of(tmp_path / name)
    assert agree, text
    written = {form for form, file in FORMS.items() if (tmp_path / name / file).exists()}
    assert written >= {".keras", ".h5", "layers", "layers of .h5"}, "the forms that need no TensorFlow"
    assert text.count(",") == len(written) - 1


def test_differences_are_seen() -> None:
    x = np.array([1.0, -2.0], np.float32)
    assert distance([x], [x]) == 0
    assert distance([x], [x + 0.5]) == pytest.approx(1 / 3)
    assert distance([x], [x[:1]]) == distance([x], [x.astype(np.float64)]) == np.inf
    assert distance([x * np.nan], [x]) == np.inf
