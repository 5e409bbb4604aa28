"""Models of TensorFlow.js, written by its own converter.

The converter's package wants libraries that neither Keras' models nor SavedModels need (decision forests, JAX, Flax)
and fixes their versions. It is installed without them, and empty modules stand where it imports them.
"""

from __future__ import annotations

import shutil
import sys
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any


def _converter(name: str) -> Any:
    for missing in ("tensorflow_decision_forests", "tensorflowjs.converters.jax_conversion"):
        stand_in: Any = sys.modules.setdefault(missing, ModuleType(missing))
        stand_in.convert_jax = None
    return import_module(f"tensorflowjs.converters.{name}")


def write_layers_model(model: Path, folder: Path) -> None:
    """Writes `model.json` and its shards into a folder. The converter calls weights otherwise by the file's kind.

    Args:
        model: the `.keras` or `.h5` file.
    """
    converter = _converter("converter")
    if model.suffix == ".h5":
        converter.dispatch_keras_h5_to_tfjs_layers_model_conversion(str(model), str(folder))
        return
    with TemporaryDirectory() as unpacked:  # it unpacks the archive beside the file
        copy = shutil.copy(model, unpacked)
        converter.dispatch_keras_keras_to_tfjs_layers_model_conversion(str(copy), str(folder))


def write_graph_model(saved: Path, folder: Path) -> None:
    """Writes `model.json` and its shards into a folder.

    Args:
        saved: the folder of the SavedModel.
    """
    # The check refuses operators that the runtime of TensorFlow.js lacks (Erfc), which the format has.
    _converter("tf_saved_model_conversion_v2").convert_tf_saved_model(str(saved), str(folder), skip_op_check=True)
