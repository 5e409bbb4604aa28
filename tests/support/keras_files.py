"""Keras models written by hand: archives of version 3."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import h5py
import numpy as np


def layer(
    kind: str, name: str, calls: list[Any] | None = None, module: str = "keras.layers", **config: Any
) -> dict[str, Any]:
    nodes = [{"args": [tensor(each) for each in calls], "kwargs": {}}] if calls is not None else []
    return {
        "module": module, "class_name": kind, "config": {"name": name, **config}, "name": name, "inbound_nodes": nodes,
        "registered_name": None if module.startswith("keras") else f"mine>{kind}",
    }  # fmt: skip


def tensor(name: str) -> dict[str, Any]:
    return {
        "class_name": "__keras_tensor__",
        "config": {"shape": [None, 4], "dtype": "float32", "keras_history": [name, 0, 0]},
    }


def functional(*layers: dict[str, Any], output: str = "") -> dict[str, Any]:
    x = {**layer("InputLayer", "x", batch_shape=[None, 4], dtype="float32")}
    last = output or layers[-1]["name"]
    config = {"name": "net", "layers": [x, *layers], "input_layers": [["x", 0, 0]], "output_layers": [[last, 0, 0]]}
    return {"module": "keras", "class_name": "Functional", "config": config}


def weights(**groups: list[np.ndarray]) -> bytes:
    file = io.BytesIO()
    with h5py.File(file, "w") as made:
        for name, arrays in groups.items():
            for n, array in enumerate(arrays):
                made.create_dataset(f"layers/{name}/vars/{n}", data=array)
    return file.getvalue()


def archive(config: Any, content: bytes, folder: Path) -> Path:
    path = folder / "model.keras"
    path.write_bytes(packed(config, content))
    return path


def packed(config: Any, content: bytes) -> bytes:
    """An archive of a configuration, which may be any text, and weights."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        made.writestr("metadata.json", '{"keras_version": "3.9.0"}')
        made.writestr("config.json", config if isinstance(config, str) else json.dumps(config))
        made.writestr("model.weights.h5", content)
    return file.getvalue()


def samples() -> list[bytes]:
    """Small models of many layers."""
    plane = layer("Reshape", "p", ["d"], target_shape=[2, 3, 2])
    conv = layer("Conv2D", "c", ["p"], filters=2, kernel_size=[2, 2], padding="same", activation="relu")
    rest = [
        layer("BatchNormalization", "b", ["c"], axis=-1, epsilon=1e-3),
        layer("MaxPooling2D", "m", ["b"], pool_size=[2, 2], padding="same"),
        layer("Reshape", "s", ["m"], target_shape=[-1, 2]),
        layer("LSTM", "l", ["s"], units=2, return_sequences=True),
        layer("GlobalAveragePooling1D", "g", ["l"]),
    ]
    ones = [np.ones(2, np.float32)] * 4
    held = weights(
        dense=[np.ones((4, 12), np.float32), np.zeros(12, np.float32)],
        conv2d=[np.ones((2, 2, 2, 2), np.float32), ones[0]],
        batch_normalization=ones,
        lstm=[np.ones((2, 8), np.float32), np.ones((2, 8), np.float32), np.zeros(8, np.float32)],
    )
    return [packed(functional(layer("Dense", "d", ["x"], units=12), plane, conv, *rest), held)]


def hdf5_samples() -> list[bytes]:
    """Small models of Keras 2, with their weights."""
    kernel, bias = np.ones((4, 3), np.float32), np.zeros(3, np.float32)
    file = io.BytesIO()
    with h5py.File(file, "w") as made:
        made.attrs["model_config"] = json.dumps(functional(layer("Dense", "d", ["x"], units=3, activation="softmax")))
        made.attrs["keras_version"] = "2.9.0"
        group = made.create_group("model_weights/d")
        group.attrs["weight_names"] = [b"d/kernel:0", b"d/bias:0"]
        group["d/kernel:0"], group["d/bias:0"] = kernel, bias
    return [file.getvalue()]
