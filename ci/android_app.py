"""Runs a model's app, and its library, on Android 15's own framework.

    ci/android-app                          two small models: pictures of bytes, floats and integers that stand for
                                            real numbers; sliders, strings, recordings
    ci/android-app MODEL [--dim NAME=SIZE]  another one

The framework is Robolectric's, on this machine's JVM, with the kernels for Android's x86_64: the app's screen is
opened and used, assets are read from .apk files where they lie, pictures are the framework's. Maven fetches 400 MB the
first time. Needs a JDK from 17 on, Maven, and Debian's aapt, zipalign, apksigner and android-framework-res.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest

import sterna
from sterna.api import options_of
from sterna.package.android import MODELS, PARAMS, class_name
from sterna.package.android_app import SOURCES, android_app
from sterna.package.natives import PLATFORMS, build
from sterna_runtime.names import model_name
from sterna_runtime.random_inputs import random_inputs
from support import android_app as apps
from support.golden import quantized
from support.tools import ROOT

TESTS = [ROOT / "tests" / "support" / "android" / "framework" / f"{name}.java" for name in ("AppTest", "LibraryTest")]
#: What a screen can have, but for pictures of integers that stand for real numbers.
BIRDS = """\
<ir_version: 9, opset_import: ["" : 19, "ai.onnx.ml" : 4]>
birds (uint8[1,3,16,24] bytes, float[1,20,12,3] floats, float[4] few, string[2] words, float[5,7] many)
=> (uint8[1,3,16,24] same, float[1,20,12,3] mapped, float[4] sines, string[2] families, float[5] sums)
{
    same = Identity(bytes)
    mapped = Tanh(floats)
    sines = Sin(few)
    families = ai.onnx.ml.LabelEncoder <keys_strings = ["tern", "gull"], values_strings = ["Sternidae", "Laridae"],
                                        default_string = "no bird">(words)
    weights = Constant <value = float[7] {1, 2, 3, 4, 5, 6, 7}> ()
    sums = MatMul(many, weights)
}
"""


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="ci/android-app", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", nargs="?", type=Path)
    parser.add_argument("--dim", action="append", default=[], metavar="NAME=SIZE")
    given = parser.parse_args()
    dims = {name: int(size) for name, _, size in (each.partition("=") for each in given.dim)}
    try:
        results = _results(given.model, dims)
    except pytest.skip.Exception as lacking:
        print(f"{lacking}\n0 passed, 0 failed, 1 skipped")
        return 0
    print(f"{results.count(True)} passed, {results.count(False)} failed")
    return int(False in results)


def _results(model: Path | None, dims: dict[str, int]) -> list[bool]:
    """Whether the app of a model, or the apps of the two, passed.

    Raises:
        pytest.skip.Exception: a program is missing.
    """
    results = []
    with tempfile.TemporaryDirectory(prefix="sterna-app-") as made:
        place = Path(made)
        files = _with_classes(apps.tools(place, "framework"), place)
        native = build(PLATFORMS["linux-x86_64"], place / "native")
        for each in [model] if model else _own(place):
            started = time.monotonic()
            results.append(tried(each, dims, files, native, place / str(len(results))))
            print(f"{model_name(each)}: {time.monotonic() - started:.0f} s", flush=True)
    return results


def _own(place: Path) -> list[Path]:
    """The two models that are tried where none is named."""
    onnx.save(onnx.parser.parse_model(BIRDS), place / "birds.onnx")
    (place / "gulls.tflite").write_bytes(quantized(9, 14))
    return [place / "birds.onnx", place / "gulls.tflite"]


def _with_classes(files: list[Path], place: Path) -> list[Path]:
    """The files, with those of classes in place of the libraries for Android that hold them."""
    found = []
    for file in files:
        if file.suffix == ".aar":
            with zipfile.ZipFile(file) as archive:
                jar = place / file.parents[1].name / "1" / f"{file.stem}.jar"
                jar.parent.mkdir(parents=True)
                jar.write_bytes(archive.read("classes.jar"))
            found.append(jar)
        else:
            found.append(file)
    return found


def tried(model: Path, dims: dict[str, int], files: list[Path], native: Path, place: Path) -> bool:
    """Whether the app of a model is put together and answers."""
    place.mkdir()
    project = android_app(model, options_of(generator="llvm", dims=dims or None), place / "project")
    app = apps.unpacked(project, place)
    android = apps.one(files, "android-all")
    classes = apps.kotlin(files, app.sources, [*app.classes, android], place / "classes")
    code = [classes, *app.classes, apps.one(files, "kotlin-stdlib")]
    apk = apps.apk(app, apps.dex(files, code, place / "classes.dex", apps.LEAST), place)
    _with_other_assets(apk, f"assets/sterna/{model_name(model)}/{PARAMS}")
    library = next(each for each in app.libraries if (each / "assets").is_dir())
    _record(model, dims, place / "recorded")
    _record_normalization(library / "assets" / "sterna" / model_name(model), place / "recorded")
    left_out = ("android-all", "kotlin-compiler", "dalvik-dx")
    path = [classes, *app.classes, *(file for file in files if file.parents[1].name not in left_out)]
    _configure(classes, {"android_merged_manifest": place / "AndroidManifest.xml", "android_resource_apk": apk})
    command = ["javac", "-nowarn", "-proc:none", "-cp", apps.paths(android, *path), "-d", str(classes)]
    subprocess.run([*command, *map(str, TESTS)], check=True)
    framework = apps.one(files, "android-all-instrumented")
    (place / "jars").mkdir()
    (place / "jars" / framework.name).symlink_to(framework)
    facts = {
        "app.picture": str("val pictures = setOf<Int>()" not in (project / SOURCES / "Inputs.kt").read_text()).lower(),
        "app.model": model_name(model),
        "app.type": f"{MODELS}.{class_name(model_name(model))}",
        "app.folder": place,
        "app.recorded": place / "recorded",
        "dev.sterna.library": native,
        "robolectric.offline": "true",
        "robolectric.dependency.dir": place / "jars",
    }
    java = ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "--add-opens=java.base/java.io=ALL-UNNAMED"]
    java += [f"-D{name}={value}" for name, value in facts.items()]
    java += ["-cp", apps.paths(*path), "org.junit.runner.JUnitCore", *(f"dev.sterna.app.{test.stem}" for test in TESTS)]
    environment = {**os.environ, "LD_LIBRARY_PATH": str(library / "jni" / "x86_64")}
    return subprocess.run(java, env=environment, check=False, timeout=500).returncode == 0


def _with_other_assets(apk: Path, weights: str) -> None:
    """Beside an app the same assets with the weights elsewhere, compressed, missing, and of another model."""
    with zipfile.ZipFile(apk) as archive:
        assets = {name: archive.read(name) for name in archive.namelist() if name.startswith("assets/")}
        manifest = archive.read("AndroidManifest.xml")
    data = assets.pop(weights)
    other = bytes([data[0] ^ 1]) + data[1:] if data else b"other"
    kinds = {
        "elsewhere": (data, zipfile.ZIP_STORED), "compressed": (data, zipfile.ZIP_DEFLATED),
        "without": (None, zipfile.ZIP_STORED), "other": (other, zipfile.ZIP_STORED),
    }  # fmt: skip
    for name, (content, compression) in kinds.items():
        with zipfile.ZipFile(apk.with_name(f"{name}.apk"), "w") as archive:
            archive.writestr("AndroidManifest.xml", manifest)
            if content is not None:
                while (archive.fp.tell() + 30 + len(weights)) % 64 == 0:  # type: ignore[union-attr]
                    archive.writestr("assets/filled", b"1234")
                archive.writestr(weights, content, compression)
            for asset, other_data in assets.items():
                archive.writestr(asset, other_data)


def _record(model: Path, dims: dict[str, int], place: Path) -> None:
    """What the model computes here from random inputs: a file for every tensor that is not of strings."""
    place.mkdir()
    with sterna.compile(model, generator="llvm", dims=dims or None) as here:
        inputs = random_inputs(here.inputs)
        given = {s.name: inputs.get(s.name, np.full(s.shape, "", object)) for s in here.inputs}
        _write(place, "input", given)
        _write(place, "output", here.run(given))


def _record_normalization(assets: Path, place: Path) -> None:
    """Of inputs that take pictures: the mean and the deviation of three colours, where the model says them."""
    said = json.loads((assets / "graph-x86_64.json").read_text()).get("metadata", {}).get("normalization", {})
    for name, numbers in said.items():
        for side in ("mean", "std"):
            _write(place, side, {name: np.resize(np.array(numbers[side], np.float32), 3)})


def _write(place: Path, side: str, tensors: Mapping[str, np.ndarray]) -> None:
    for name, array in tensors.items():
        if array.dtype.kind != "O":
            (place / f"{side}-{name.replace('/', '_')}").write_bytes(array.tobytes())


def _configure(classes: Path, facts: Mapping[str, Path]) -> None:
    """Tells Robolectric where the app is."""
    file = classes / "com" / "android" / "tools" / "test_config.properties"
    file.parent.mkdir(parents=True)
    file.write_text("".join(f"{name}={value}\n" for name, value in facts.items()))


if __name__ == "__main__":
    sys.exit(main())
