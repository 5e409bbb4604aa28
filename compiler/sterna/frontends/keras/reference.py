"""What Keras itself makes of a model, for `sterna verify`."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Mapping
from contextlib import closing
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from sterna.errors import error
from sterna.frontends.keras.config import layer_of, network_of
from sterna.frontends.keras.files import load, weights_of
from sterna.frontends.keras.reader import inputs_of
from sterna.frontends.runtimes import cannot_run
from sterna.frontends.source import Source
from sterna.ir.graph import Array
from sterna.scratch import temporary_directory

_BACKENDS = ("tensorflow", "jax", "torch")


def _keras() -> Any:
    """Keras on a backend that is installed; it takes TensorFlow's unless it is told otherwise."""
    if "keras" not in sys.modules and "KERAS_BACKEND" not in os.environ:
        found = next((name for name in _BACKENDS if find_spec(name) is not None), None)
        if found is not None:
            os.environ["KERAS_BACKEND"] = found
    return import_module("keras")


def _loaded(keras: Any, source: Source) -> Any:
    """A model of a file, or of a JSON text and its weights."""
    if source.start.lstrip()[:1] != b"{":
        return keras.models.load_model(source.file(), compile=False)
    model = keras.models.model_from_json(source.file().read_text("utf-8"))
    with temporary_directory("weights") as folder:
        # Keras tells formats of weights by the name.
        named = Path(folder) / "model.weights.h5"
        shutil.copyfile(weights_of(source), named)
        model.load_weights(named)
    return model


def _of_keras_2(source: Source, refused: Exception) -> Any:
    """A model of an older Keras, loaded by tf-keras.

    Args:
        refused: what Keras 3 says of it.

    Raises:
        SternaError: E0009, tf-keras is not installed, or does not load it either.
    """
    if find_spec("tf_keras") is None:
        title = "Keras 3 does not load this model of Keras 2: install tf-keras, which does"
        raise error("E0009", title, *str(refused).strip()[:200].splitlines()[:1], fix="pip install tf-keras")
    try:
        return _loaded(import_module("tf_keras"), source)
    except Exception as problem:  # its errors have no common type
        raise cannot_run("tf-keras", problem) from None


def runner(source: Source) -> Callable[[Mapping[str, Array]], dict[str, Array]] | None:
    """From inputs to outputs by name; never None.

    Raises:
        SternaError: E0009, neither the installed Keras nor, for models of version 2, tf-keras can load it.
    """
    with closing(load(source)) as file:
        top, major = layer_of(file.config, "the model"), file.major
    try:
        model: Any = source.model if source.path is None else _loaded(_keras(), source)
    except Exception as problem:  # its errors have no common type
        if major > 2:
            raise cannot_run("keras", problem) from None
        model = _of_keras_2(source, problem)
    names = [each.name for each in inputs_of(top)]
    network = network_of(top)
    ends = [name or ref.layer for name, ref in network.outputs] or [network.layers[-1].name]

    def run(inputs: Mapping[str, Array]) -> dict[str, Array]:
        given = [np.asarray(inputs[name]) for name in names]
        results = model(given[0] if len(given) == 1 else given, training=False)
        flat = list(results.values()) if isinstance(results, dict) else results
        listed = list(flat) if isinstance(flat, (list, tuple)) else [flat]
        return dict(zip(ends, (np.asarray(each) for each in listed), strict=True))

    return run
