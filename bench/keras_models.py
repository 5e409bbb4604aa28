"""Models of keras.applications and of layers as people put them together, in every form that Keras models are kept in.

Runs where Keras and TensorFlow are installed: `ci/keras-models` makes such an environment. Each model becomes a folder
with `model.keras`, `model.h5`, `saved` (a SavedModel), of TensorFlow.js the layers models `layers` and `layers_h5` and
the graph model `graph`, and `case.npz`: inputs `in_NAME`, outputs `out0` ... in the model's order. Where Keras has
another backend than TensorFlow, the layers models are written without the converter, and `saved` and `graph` are left
out.

    python bench/keras_models.py FOLDER [NAME ...]
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
import keras
import numpy as np

import keras_zoo
import keras_zoo_layers
import tensorflow_js
from random_layers import tfjs_files
from random_layers.drawing import save_arrays

#: Name -> the builder of keras.applications, the side of the picture, and settings. The sides are small ones that the
#: network takes: what is computed does not change with them.
APPLICATIONS: dict[str, tuple[str, int, dict[str, Any]]] = {
    "convnext_tiny": ("ConvNeXtTiny", 64, {}),
    "densenet121": ("DenseNet121", 64, {}),
    "densenet169_pooled": ("DenseNet169", 48, {"include_top": False, "pooling": "avg"}),
    "efficientnet_b0": ("EfficientNetB0", 64, {}),
    "efficientnet_b1_pooled": ("EfficientNetB1", 48, {"include_top": False, "pooling": "max"}),
    "efficientnet_v2_b0": ("EfficientNetV2B0", 64, {}),
    "efficientnet_v2_b1_raw": ("EfficientNetV2B1", 64, {"include_preprocessing": False}),
    "efficientnet_v2_s": ("EfficientNetV2S", 128, {}),
    "inception_resnet_v2": ("InceptionResNetV2", 75, {}),
    "inception_v3": ("InceptionV3", 75, {}),
    "mobilenet": ("MobileNet", 96, {"alpha": 0.5}),
    "mobilenet_v2": ("MobileNetV2", 96, {}),
    "mobilenet_v2_features": ("MobileNetV2", 64, {"include_top": False, "alpha": 0.35}),
    "mobilenet_v3_large": ("MobileNetV3Large", 96, {}),
    "mobilenet_v3_minimal": ("MobileNetV3Large", 64, {"minimalistic": True, "alpha": 0.75}),
    "mobilenet_v3_small": ("MobileNetV3Small", 96, {}),
    "nasnet_mobile": ("NASNetMobile", 64, {}),
    "resnet50": ("ResNet50", 64, {}),
    "resnet50_v2": ("ResNet50V2", 64, {}),
    "vgg16": ("VGG16", 32, {}),
    "xception": ("Xception", 71, {}),
}
ZOO = keras_zoo.ZOO | keras_zoo_layers.ZOO
NAMES = (*APPLICATIONS, *ZOO)


def application(name: str) -> Any:
    """A network of keras.applications, which gives logits: a softmax of random scores hides differences."""
    builder, side, settings = APPLICATIONS[name]
    heads = {} if settings.get("include_top") is False else {"classes": 100, "classifier_activation": None}
    build: Callable[..., Any] = getattr(keras.applications, builder)
    return build(weights=None, input_shape=(side, side, 3), **heads, **settings)


def model_of(name: str) -> Any:
    """A model with weights of a seed that its name gives."""
    keras.utils.clear_session()
    keras.utils.set_random_seed(seed_of(name))
    return application(name) if name in APPLICATIONS else ZOO[name]()


def seed_of(name: str) -> int:
    return sum(name.encode())


def draw(model: Any, random: np.random.Generator) -> None:
    """Gives what begins at one value others, as if the model were trained: biases, scales, statistics. Those of batch
    normalization are taken from random inputs: drawn ones would leave nothing of the input in the deeper layers."""
    for variable in model.variables:
        value = np.asarray(variable)
        if value.dtype.kind != "f" or value.size < 2 or np.ptp(value) > 0:
            continue
        if "variance" in variable.path:
            variable.assign(random.uniform(0.5, 1.5, value.shape).astype(value.dtype))
        else:
            variable.assign(value + random.normal(0, 0.1, value.shape).astype(value.dtype))
    layers = list(model._flatten_layers())
    for layer in layers:
        if isinstance(layer, keras.layers.Normalization):
            layer.finalize_state()
    normalizations = [layer for layer in layers if isinstance(layer, keras.layers.BatchNormalization)]
    momenta = [layer.momentum for layer in normalizations]
    for layer in normalizations:
        layer.momentum = 0.0
    if normalizations:
        applied(model, inputs_of(model, random, 8), training=True)
    for layer, momentum in zip(normalizations, momenta, strict=True):
        layer.momentum = momentum


def applied(model: Any, given: dict[str, np.ndarray], training: bool = False) -> Any:
    return model([*given.values()] if len(given) > 1 else next(iter(given.values())), training=training)


def inputs_of(model: Any, random: np.random.Generator, examples: int = 2) -> dict[str, np.ndarray]:
    """Random inputs by name: pixels for pictures, tokens for integers."""
    given = {}
    for tensor in model.inputs:
        shape = (examples, *tensor.shape[1:])
        if "int" in tensor.dtype:
            value = random.integers(0, 20, shape)
        elif len(shape) == 4 and shape[-1] == 3:
            value = random.uniform(0, 255, shape)
        else:
            value = random.normal(size=shape)
        given[tensor.name.split(":")[0]] = value.astype(tensor.dtype)
    return given


def write(name: str, folder: Path) -> None:
    """Makes a model, runs it and stores it in all forms."""
    random = np.random.default_rng(seed_of(name))
    model = model_of(name)
    draw(model, random)
    given = inputs_of(model, random)
    leaves = keras.tree.flatten(applied(model, given))
    folder.mkdir(parents=True)
    model.save(folder / "model.keras")
    model.save(folder / "model.h5")
    if keras.backend.backend() == "tensorflow":
        model.export(folder / "saved", verbose=False)
        tensorflow_js.write_layers_model(folder / "model.keras", folder / "layers")
        tensorflow_js.write_layers_model(folder / "model.h5", folder / "layers_h5")
        tensorflow_js.write_graph_model(folder / "saved", folder / "graph")
    else:
        tfjs_files.write_numbered_layers_model(folder / "model.keras", folder / "layers" / "model.json")
        tfjs_files.write_layers_model(model, folder / "layers_h5" / "model.json")
    save_arrays(folder, given, [np.asarray(leaf) for leaf in leaves])


def main() -> int:
    warnings.filterwarnings("ignore")
    folder, chosen = Path(sys.argv[1]), sys.argv[2:] or NAMES
    for name in chosen:
        if not (folder / name / "case.npz").exists():
            write(name, folder / name)
            print("wrote", name, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
