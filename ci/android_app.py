"""Writes the app of a model, compiles it, puts it together as an .apk, and runs its screen on Android 15's framework.

    ci/android-app                          a model that takes a picture, and one that does not
    ci/android-app MODEL [--dim NAME=SIZE]  another one

The framework is Robolectric's, on this machine's JVM, with kernels for Android's x86_64. Maven fetches 300 MB the first
time. Needs a JDK of 17 or later, Maven, and Debian's aapt, zipalign, apksigner and android-framework-res.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from sterna.api import options_of
from sterna.package.android_app import SOURCES, android_app
from sterna.package.natives import PLATFORMS, build
from support import android_app as apps
from support.tools import ROOT

SHARED = Path(os.environ.get("STERNA_MODELS", ROOT.parent / "shared" / "models"))
MODELS = (SHARED / "mobilenet_v1_025_224_f32" / "model.tflite", SHARED / "mlperf_tiny_kws_int8" / "model.tflite")
TEST = ROOT / "tests" / "support" / "android" / "AppTest.java"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="ci/android-app", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", nargs="?", type=Path)
    parser.add_argument("--dim", action="append", default=[], metavar="NAME=SIZE")
    given = parser.parse_args()
    dims = {name: int(size) for name, _, size in (each.partition("=") for each in given.dim)}
    with tempfile.TemporaryDirectory(prefix="sterna-app-") as made:
        place = Path(made)
        files = _with_classes(apps.tools(place, "framework"), place)
        native = build(PLATFORMS["linux-x86_64"], place / "native")
        results = [
            tried(model, dims, files, native, place / str(n))
            for n, model in enumerate([given.model] if given.model else MODELS)
        ]
    print(f"{results.count(True)} passed, {results.count(False)} failed")
    return int(False in results)


def _with_classes(files: list[Path], place: Path) -> list[Path]:
    """The files, with those of classes in place of the libraries for Android that hold them."""
    found = []
    for file in files:
        if file.suffix == ".aar":
            with zipfile.ZipFile(file) as archive:
                jar = place / file.parents[1].name / "1" / f"{file.stem}.jar"
                jar.parent.mkdir(parents=True)
                jar.write_bytes(archive.read("classes.jar"))
                file = jar  # noqa: PLW2901 (in its place)
        found.append(file)
    return found


def tried(model: Path, dims: dict[str, int], files: list[Path], native: Path, place: Path) -> bool:
    """Whether the app of a model is put together and answers."""
    place.mkdir()
    project = android_app(model, options_of(generator="llvm", dims=dims or None), place / "project")
    app = apps.unpacked(project, place)
    classes = apps.kotlin(files, app.sources, [*app.classes, apps.one(files, "android-all")], place / "classes")
    code = [classes, *app.classes, apps.one(files, "kotlin-stdlib")]
    apk = apps.apk(app, apps.dex(files, code, place / "classes.dex", apps.LEAST), place)
    print(f"{model.parent.name}: {apk.stat().st_size:,} bytes of app", flush=True)
    framework = apps.one(files, "android-all-instrumented")
    left_out = ("android-all", "kotlin-compiler", "dalvik-dx")
    path = [classes, *app.classes, *(file for file in files if file.parents[1].name not in left_out)]
    (classes / "com" / "android" / "tools").mkdir(parents=True)
    facts = {
        "android_merged_manifest": place / "AndroidManifest.xml",
        "android_merged_assets": place / "assets",
        "android_resource_apk": place / "bare.apk",
    }
    text = "".join(f"{name}={value}\n" for name, value in facts.items())
    (classes / "com" / "android" / "tools" / "test_config.properties").write_text(text)
    subprocess.run(["javac", "-nowarn", "-cp", apps.paths(*path), "-d", str(classes), str(TEST)], check=True)
    inputs = (project / SOURCES / "Inputs.kt").read_text()
    pictures = "val pictures = setOf<Int>()" not in inputs
    model_library = next(library for library in app.libraries if (library / "assets").is_dir())
    (place / "jars").mkdir()
    (place / "jars" / framework.name).symlink_to(framework)
    command = ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", f"-Ddev.sterna.library={native}"]
    command += ["-Drobolectric.offline=true", f"-Drobolectric.dependency.dir={place / 'jars'}"]
    command += [f"-Dapp.picture={str(pictures).lower()}", "-cp", apps.paths(*path), "org.junit.runner.JUnitCore"]
    environment = {**os.environ, "LD_LIBRARY_PATH": str(model_library / "jni" / "x86_64")}
    done = subprocess.run([*command, "dev.sterna.app.AppTest"], env=environment, check=False, timeout=500)
    return done.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
