"""`sterna package --for android --app`: its Kotlin compiles, says what the model does, and becomes a signed app."""

from __future__ import annotations

import json
import os
import re
import subprocess
import xml.etree.ElementTree as ET
import zipfile
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner

import sterna
from sterna.api import compile_model, options_of
from sterna.cli import program
from sterna.errors import SternaError
from sterna.package import android, android_app, java, natives
from support import android_app as apps
from support import class_files, elf
from support.golden import quantized
from support.tools import ROOT, need, run
from support.trained import digits

pytestmark = pytest.mark.family("java")

_LOGIC = """\
import dev.sterna.Model;
import dev.sterna.Tensor;
import dev.sterna.app.ValuesKt;
import java.nio.file.Files;
import java.nio.file.Path;

class Logic {
  public static void main(String[] arguments) throws Exception {
    try (Model model = Model.load(Path.of(arguments[0]))) {
      Tensor input = model.inputs().get(0);
      ValuesKt.put(input, Files.readAllBytes(Path.of(arguments[1])));
      model.run();
      for (Tensor output : model.outputs()) for (String line : ValuesKt.describe(output)) System.out.println(line);
      System.out.println(ValuesKt.range(input) + " " + ValuesKt.put(input, 1, 0.3) + " " + ValuesKt.numbers(input)[1]);
      try {
        ValuesKt.put(input, new byte[3]);
      } catch (IllegalArgumentException wrong) {
        System.out.println(wrong.getMessage());
      }
    }
  }
}
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("app")


@pytest.fixture(scope="module")
def project(place: Path) -> Path:
    need("javac", "compiles the classes of packages")
    done = CliRunner().invoke(
        program,
        ["package", str(digits().file), "--for", "android", "--app", "-g", "llvm", "-o", str(place / "digits-app")],
    )
    assert done.exit_code == 0, done.output
    return place / "digits-app"


@pytest.fixture(scope="module")
def files(place: Path) -> list[Path]:
    return apps.tools(place)


@pytest.fixture(scope="module")
def app(project: Path, place: Path) -> apps.App:
    return apps.unpacked(project, place / "libraries")


@pytest.fixture(scope="module")
def classes(app: apps.App, files: list[Path], place: Path) -> Path:
    return apps.kotlin(files, app.sources, [*app.classes, apps.one(files, "android-all")], place / "classes")


def test_the_project_is_whole(project: Path) -> None:
    """What Gradle is told to find is there, and the app brings what it begins with."""
    settings = (project / "settings.gradle.kts").read_text()
    (repository,) = re.findall(r'uri\("(\w+)"\)', settings)
    (module,) = re.findall(r'include\(":(\w+)"\)', settings)
    build = (project / module / "build.gradle.kts").read_text()
    group, artifact, version = re.findall(r'implementation\("([^@]+)@aar"\)', build)[0].split(":")
    folder = project / repository / group.replace(".", "/") / artifact / version
    assert (folder / f"{artifact}-{version}.aar").is_file()
    assert (project / repository / "dev" / "sterna" / android.RUNTIME).is_dir()
    assert f"minSdk = {23}" in build
    manifest = ET.parse(project / module / "src" / "main" / "AndroidManifest.xml").getroot()
    name = "{http://schemas.android.com/apk/res/android}name"
    activity = manifest.find("application/activity")
    assert activity is not None
    assert (project / module / "src" / "main" / "kotlin" / f"{activity.attrib[name].replace('.', '/')}.kt").is_file()
    for path in re.findall(r"`([\w/]+\.\w+|repository)`", (project / "README.md").read_text()):
        assert list(project.rglob(path)), path
    assert len((project / module / "src" / "main" / "assets" / "recordings" / "0.bin").read_bytes()) == 4 * 64


def test_the_kotlin_says_what_the_model_does(
    project: Path, app: apps.App, classes: Path, files: list[Path], tmp_path: Path
) -> None:
    """The best of a row with labels and scales, a slider's steps, files of numbers: on this machine's JVM."""
    library = natives.build(natives.PLATFORMS["linux-x86_64"], tmp_path / "native")
    (tmp_path / "gulls.tflite").write_bytes(quantized())
    (tmp_path / "Logic.java").write_text(_LOGIC)
    path = apps.paths(classes, *app.classes, apps.one(files, "kotlin-stdlib"), tmp_path)
    run("javac", "-proc:none", "-cp", path, "-d", tmp_path, tmp_path / "Logic.java")
    recording = project / "app" / "src" / "main" / "assets" / "recordings" / "0.bin"
    for model, data in ((digits().file, np.fromfile(recording, "<f4")), (tmp_path / "gulls.tflite", None)):
        bundle = sterna.compile_to(tmp_path / "bundles" / Path(model).stem, model, generator="llvm")
        with sterna.load(bundle) as here:
            (given,), (named,) = here.inputs, here.outputs
            x = np.arange(np.prod(given.shape), dtype=np.uint8).view(np.int8) if data is None else data
            x = x.reshape(given.shape).astype(given.dtype)
            scores = here.run({given.name: x})[named.name].reshape(-1)
        np.save(tmp_path / "x.npy", x)
        said = run("java", f"-Ddev.sterna.library={library}", "-cp", path, "Logic", bundle, tmp_path / "x.npy")
        *best, slider, refused = said.splitlines()
        order = np.argsort(-scores.astype(float), kind="stable")[:5]
        graph = json.loads((bundle / "graph.json").read_text())
        labels = graph.get("metadata", {}).get("labels", {}).get(named.name)
        labels = labels or [f"{named.name} {n}" for n in range(len(scores))]
        assert [line.rpartition(": ")[0] for line in best] == [labels[n] for n in order]
        if data is None:
            row = graph["values"][graph["outputs"][0]]["quantization"]
            real = [(int(scores[n]) - row["zero_point"][0]) * row["scale"][0] for n in order]
            assert slider == "-65.5..62.0 0.5 0.5"
        else:
            real = [float(scores[n]) for n in order]
            assert re.fullmatch(r"-1\.0\.\.1\.0 0\.3 0\.30000001\d*", slider)
        np.testing.assert_allclose([float(line.rpartition(": ")[2]) for line in best], real, rtol=1e-3)
        assert refused.endswith(f"has {x.nbytes} bytes; the file has 3")


def test_the_app_is_put_together(app: apps.App, classes: Path, files: list[Path], place: Path) -> None:
    """Kernels are stored on pages of 16 KB and weights on a border of 64 bytes; it is signed and names its parts."""
    code = apps.dex(files, [classes, *app.classes, apps.one(files, "kotlin-stdlib")], place / "classes.dex", apps.LEAST)
    apk = apps.apk(app, code, place)
    run("zipalign", "-c", "-p", "4", apk)
    signed = run("apksigner", "verify", "--verbose", "--min-sdk-version", str(apps.LEAST), apk)
    assert "Verified using v2 scheme (APK Signature Scheme v2): true" in signed
    badging = run("aapt", "dump", "badging", apk)
    assert "launchable-activity: name='dev.sterna.app.MainActivity'" in badging
    assert "native-code: 'arm64-v8a' 'armeabi-v7a' 'x86' 'x86_64'" in badging
    with zipfile.ZipFile(apk) as archive:
        entries = {info.filename: info for info in archive.infolist()}
        kernels = {f"lib/{abi}/{name}.so" for abi in apps.ABIS for name in ("libdigits", "libsterna_jni")}
        assert kernels == {name for name in entries if name.endswith(".so")}
        for name in kernels:
            assert entries[name].compress_type == zipfile.ZIP_STORED
            assert apps.offset(archive, entries[name]) % natives.PAGE == 0
            assert elf.read(archive.read(name)).page == natives.PAGE
        weights = entries[f"assets/sterna/digits/{android.PARAMS}"]
        assert weights.compress_type == zipfile.ZIP_STORED
        assert apps.offset(archive, weights) % 64 == 0
        names = archive.read("classes.dex")
    for part in (b"Ldev/sterna/app/MainActivity;", b"Ldev/sterna/models/Digits;", b"Ldev/sterna/Model;"):
        assert part in names


def test_libraries_become_code_for_android_6(app: apps.App, files: list[Path], tmp_path: Path) -> None:
    """The runtime's and the models' classes use what that has, and nothing that has to be rewritten for it."""
    apps.dex(files, app.classes, tmp_path / "classes.dex", 23)
    ours = {name: each for library in app.classes for name, each in class_files.archive(library).items()}
    assert {each.major for each in ours.values()} == {52}
    platform = class_files.archive(apps.one(files, "android-all"))
    absent = [use for use in class_files.missing(ours, platform) if not use.startswith(_ELSEWHERE)]
    assert absent == []


#: What the archive lacks of what Android 6 has, the next test's business; and paths, which only desktops reach.
_ELSEWHERE = ("java/lang/", "java/io/IOException.", "java/nio/file/")


def test_the_runtime_is_written_in_the_java_of_android_6(tmp_path: Path) -> None:
    """Its `java.lang` is Java 7's."""
    need("javac", "compiles the Java runtime")
    root = ROOT / "runtime_android"
    sources = sorted((root / "src" / "main" / "java").rglob("*.java"))
    command = ["javac", "--release", "7", "-Xlint:-options", "-proc:none", "-d", tmp_path]
    done = subprocess.run(
        [*map(str, command), "-sourcepath", os.pathsep.join((str(root / "stubs"), str(root / "src" / "main" / "java")))]
        + [str(source) for source in sources if source.name != "package-info.java"],
        capture_output=True,
        text=True,
        check=False,
    )
    if "release version 7 not supported" in done.stderr:
        pytest.skip("needs a JDK before 20, which still knows Java 7")
    assert done.returncode == 0, done.stderr


def test_pictures_are_given_as_the_model_wants_them(tmp_path: Path) -> None:
    """Floats that no model says more about take a mean and a deviation; three columns are no picture."""
    text = (
        '<ir_version: 8, opset_import: ["" : 17]> g (float[1,3,16,24] photo, float[1,3,2,2] triple) '
        "=> (float[1,3,16,24] y, float[1,3,2,2] z) { y = Relu(photo) z = Relu(triple) }"
    )
    onnx.save(onnx.parser.parse_model(text), tmp_path / "net.onnx")
    place = android_app.android_app(tmp_path / "net.onnx", options_of(generator="llvm"), tmp_path / "app")
    inputs = (place / android_app.SOURCES / "Inputs.kt").read_text()
    assert "val pictures = setOf<Int>(0)" in inputs
    assert "val recorded = setOf<Int>(1)" in inputs
    assert "0 -> model.inputPhoto(picture, mean, deviation)" in inputs
    compiled = compile_model(tmp_path / "net.onnx", generator="llvm")
    assert java.classes({android.source_path(compiled): android.source(compiled)}, "a class")


@pytest.mark.parametrize("template", ["MainActivity", "Inputs"])
def test_no_model_has_a_name_that_the_app_uses(template: str) -> None:
    """Its class is imported, which goes before Kotlin's own names and the app's, and clashes with other imports."""
    text = (ROOT / "templates" / "package" / "android" / "app" / f"{template}.kt.j2").read_text()
    strings, markup, comments = r'"[^"\n]*"', r"\{%.*?%\}|\{\{.*?\}\}", r"/\*.*?\*/|//[^\n]*"
    for left_out in (strings, markup, comments, r"(?m)^package [^\n]*"):
        text = re.sub(left_out, "", text, flags=re.DOTALL)
    imported = set(re.findall(r"(?m)^import [\w.]+\.(\w+)$", text))
    used = set(re.findall(r"(?<![\w.])[A-Z]\w*[a-z]\w*", text)) | imported
    assert {"Button", "Intent"} <= used or template == "Inputs"
    assert {name for name in used if android.class_name(name) == name} == set()


def test_what_is_refused(tmp_path: Path) -> None:
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "mine.txt").touch()
    with pytest.raises(SternaError, match="not empty") as caught:
        android_app.android_app(tmp_path / "none.onnx", options_of(), tmp_path / "app")
    assert caught.value.codes == ("E0204",)
    with pytest.raises(SternaError, match="cannot be written") as caught:
        android_app.android_app(tmp_path / "none.onnx", options_of(), tmp_path / ("x" * 300))
    assert caught.value.codes == ("E0204",)
    assert "the package cannot be written: File name too long" in str(caught.value)
    (tmp_path / "bundle").mkdir()
    (tmp_path / "bundle" / "graph.json").touch()
    for further in (("android", "--app"), ("ios",)):
        done = CliRunner().invoke(program, ["package", str(tmp_path / "bundle"), "--for", *further])
        assert "error[E0203]" in done.output
        assert "name the model that it was compiled from" in done.output
    done = CliRunner().invoke(program, ["package", str(tmp_path), "--for", "npm", "--app"])
    assert done.exit_code != 0
    assert "--for android --app" in done.output
