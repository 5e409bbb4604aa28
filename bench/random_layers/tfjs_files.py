"""Layers models of TensorFlow.js, written as its converter writes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np


def write_layers_model(model: Any, file: Path) -> None:
    """Writes `model.json` and one shard beside it.

    Args:
        model: a keras.Model.
        file: the JSON file.
    """
    entries, shard = [], b""
    for variable in model.variables:
        if "seed" in variable.name:
            continue
        value = np.asarray(variable)
        entries.append({"name": variable.path, "shape": list(value.shape), "dtype": value.dtype.name})
        shard += np.ascontiguousarray(value).tobytes()
    (file.parent / "group1-shard1of1.bin").write_bytes(shard)
    topology = {"keras_version": "3.0.0", "backend": "tensorflow", "model_config": json.loads(model.to_json())}
    content = {
        "format": "layers-model",
        "generatedBy": "keras v3.0.0",
        "convertedBy": "TensorFlow.js Converter v4.22.0",
        "modelTopology": topology,
        "weightsManifest": [{"paths": ["group1-shard1of1.bin"], "weights": entries}],
    }
    file.write_text(json.dumps(content))
