"""Layers models of TensorFlow.js, written as its converter writes them."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import h5py
import numpy as np

#: What the converter leaves out of the configuration of a `.keras` file.
_LEFT_OUT = ("module", "registered_name", "date_saved")


def write_layers_model(model: Any, file: Path) -> None:
    """Writes `model.json` and one shard beside it, as of an `.h5` file: the weights by the names of variables.

    Args:
        model: a keras.Model.
        file: the JSON file.
    """
    weights = {v.path: np.asarray(v) for v in model.variables if "seed" not in v.name}
    _write(json.loads(model.to_json()), weights, file)


def write_numbered_layers_model(archive: Path, file: Path) -> None:
    """Writes `model.json` and one shard beside it, as of a `.keras` file: the weights by their places in it.

    Args:
        archive: the `.keras` file.
        file: the JSON file.
    """
    weights: dict[str, np.ndarray] = {}

    def visit(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset):
            weights[name] = np.asarray(item)

    with zipfile.ZipFile(archive) as opened:
        config = _without(json.loads(opened.read("config.json")))
        with h5py.File(BytesIO(opened.read("model.weights.h5"))) as held:
            held.visititems(visit)
    _write(config, weights, file)


def _without(config: Any) -> Any:
    if isinstance(config, dict):
        return {key: _without(value) for key, value in config.items() if key not in _LEFT_OUT}
    return [_without(value) for value in config] if isinstance(config, list) else config


def _write(config: dict[str, Any], weights: Mapping[str, np.ndarray], file: Path) -> None:
    file.parent.mkdir(exist_ok=True)
    entries, shard = [], b""
    for name, value in weights.items():
        entries.append({"name": name, "shape": list(value.shape), "dtype": value.dtype.name})
        shard += np.ascontiguousarray(value).tobytes()
    (file.parent / "group1-shard1of1.bin").write_bytes(shard)
    content = {
        "format": "layers-model",
        "generatedBy": "keras v3.0.0",
        "convertedBy": "TensorFlow.js Converter v4.22.0",
        "modelTopology": {"keras_version": "3.0.0", "backend": "tensorflow", "model_config": config},
        "weightsManifest": [{"paths": ["group1-shard1of1.bin"], "weights": entries}],
    }
    file.write_text(json.dumps(content))
