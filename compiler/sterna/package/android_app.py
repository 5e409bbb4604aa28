"""A model as an app for Android: a Gradle project that Android Studio opens, with the model's libraries inside.

It is one screen of Kotlin without further dependencies. An input that takes pictures has a button that picks one, one
of few numbers has sliders, one of strings a field; any other begins with a recording and takes one from a file.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from sterna.bundle.install import Files, install
from sterna.codegen.render import render_template
from sterna.compiled import Compiled
from sterna.errors import error
from sterna.options import Options
from sterna.package.android import MODELS, Tensor, class_name, packaged, tensors_of
from sterna.package.placing import placing
from sterna.runtime.signature import specs_of
from sterna_runtime.random_inputs import random_inputs

#: Of the app's classes; its templates say so too.
PACKAGE = "dev.sterna.app"
SOURCES = f"app/src/main/kotlin/{PACKAGE.replace('.', '/')}"
_FILES = {
    "settings.gradle.kts": "settings.gradle.kts",
    "build.gradle.kts": "build.gradle.kts",
    "gradle/wrapper/gradle-wrapper.properties": "gradle-wrapper.properties",
    "app/build.gradle.kts": "app.build.gradle.kts",
    "app/src/main/AndroidManifest.xml": "AndroidManifest.xml",
    f"{SOURCES}/MainActivity.kt": "MainActivity.kt",
    f"{SOURCES}/Inputs.kt": "Inputs.kt",
    f"{SOURCES}/Values.kt": "Values.kt",
    "README.md": "README.md",
}


def android_app(
    model: str | os.PathLike[str],
    options: Options,
    output: str | os.PathLike[str],
    name: str | None = None,
    version: str = "1.0.0",
    all_variants: bool = False,
    device: Options | None = None,
) -> Path:
    """Compiles a model for Android, and writes the project of an app into a new or empty directory.

    Raises:
        SternaError: as `android_package`.
    """
    place = Path(output)
    with placing(place):
        taken = place.is_dir() and any(place.iterdir())
    if taken:
        raise error("E0204", "the output directory is not empty", str(place), fix="name a new directory")
    made = packaged(model, options, name, version, all_variants, device)
    inputs = [t for t in tensors_of(made.compiled) if t.side == "input"]
    recordings = _recordings(made.compiled, inputs)
    values = {
        "model": made.compiled.model,
        "type": class_name(made.compiled.model),
        "group": MODELS,
        "artifact": made.artifact,
        "version": version,
        "pictures": [_picture(t) for t in inputs if t.image],
        "recorded": sorted(recordings),
        "takes": "a picture" if any(t.image for t in inputs) else "what the screen lets you choose",
    }
    files = {path: _text(template, **values) for path, template in _FILES.items()}
    files |= {f"app/src/main/assets/recordings/{number}.bin": data for number, data in recordings.items()}
    for folder, contents in made.folders.items():
        files |= {f"repository/{folder}/{file}": data for file, data in contents.items()}
    with placing(place):
        install(place, Files(files, ("settings.gradle.kts",)))
    return place


def _text(template: str, **values: object) -> bytes:
    return render_template(f"package/android/app/{template}.j2", **values).encode()


def _picture(tensor: Tensor) -> dict[str, object]:
    """An input of pictures as the template knows it; `unknown`: the model does not say what its bytes become."""
    assert tensor.image is not None
    return {
        "number": tensor.number,
        "method": tensor.method,
        "unknown": not tensor.image.bytes and not tensor.image.mean,
    }


def _recordings(compiled: Compiled, inputs: list[Tensor]) -> dict[int, bytes]:
    """What inputs hold that take neither pictures nor strings, by number: random values at the greatest sizes."""
    symbols = {s for value in compiled.graph.arguments for n in value.shape for s in n.symbols()}
    specs = specs_of(compiled.graph, {symbol.name: symbol.hi for symbol in symbols if symbol.hi is not None})
    arrays = random_inputs([spec for spec in specs if spec.dtype.kind != "O"])
    kept = [tensor for tensor in inputs if tensor.image is None and tensor.name in arrays]
    return {tensor.number: _little(arrays[tensor.name]) for tensor in kept}


def _little(array: np.ndarray[Any, Any]) -> bytes:
    """The elements row by row, lowest byte first."""
    return array.astype(array.dtype.newbyteorder("<")).tobytes()
