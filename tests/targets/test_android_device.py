"""`sterna package --for android -t opencl`: models that run on the GPU of a phone, and on its CPU where that cannot be.

A JVM with a stand-in for Android's assets runs them here, with PoCL as the phone's OpenCL.
"""

from __future__ import annotations

import json
import os
import re
import xml.etree.ElementTree as ET
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from sterna.api import options_of
from sterna.cli import program
from sterna.errors import SternaError
from sterna.package import android, natives
from support import elf
from support.device_bundles import opencl
from support.java import RUNTIME
from support.tools import ROOT, need, run
from support.trained import digits

pytestmark = pytest.mark.family("java")
ABIS = ("arm64-v8a", "armeabi-v7a", "x86_64", "x86")
DRIVER = "sterna-opencl-android"


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The digits for OpenCL as the command packages them, and with a node that stays on the CPU."""
    need("javac", "compiles the classes of packages")
    place = tmp_path_factory.mktemp("android") / "repository"
    given = ["package", str(digits().file), "--for", "android", "-t", "opencl", "-g", "llvm", "--name", "whole"]
    done = CliRunner().invoke(program, [*given, "-o", str(place)])
    assert done.exit_code == 0, done.output
    device = options_of("opencl", generator="llvm", device_for={"softmax": "cpu"})
    android.android_package(digits().file, options_of(generator="llvm"), place, "mixed", device=device)
    return place


def aar(repository: Path, artifact: str) -> zipfile.ZipFile:
    (file,) = repository.glob(f"**/{artifact}-*.aar")
    return zipfile.ZipFile(file)


def test_what_the_libraries_hold(repository: Path) -> None:
    for name, libraries in (("whole", []), ("mixed", [f"jni/{abi}/libmixed.opencl.so" for abi in ABIS])):
        with aar(repository, name) as archive:
            folder = f"assets/sterna/{name}/opencl"
            files = {entry for entry in archive.namelist() if ".opencl." in entry or entry.startswith(folder)}
            wanted = [f"graph-{abi}.json" for abi in ABIS] + ["kernels.cl", android.PARAMS]
            assert files == {*libraries, *(f"{folder}/{file}" for file in wanted)}
            assert archive.getinfo(f"{folder}/{android.PARAMS}").compress_type == zipfile.ZIP_STORED
            for abi in ABIS:
                graph = json.loads(archive.read(f"{folder}/graph-{abi}.json"))
                assert graph["target"]["pointer_bits"] == (64 if "64" in abi else 32)
                assert graph.get("library") == ("libmixed.opencl.so" if libraries else None)
            for library in libraries:
                kernels = elf.read(archive.read(library))
                assert kernels.machine == elf.MACHINES[library.split("/")[1]]
                assert (kernels.needed, kernels.exported) == ([], [f"sterna_{name}_library"])
            assert b"uses-native-library" not in archive.read("AndroidManifest.xml")


@pytest.mark.parametrize("abi", ABIS)
def test_what_drives_the_device_is_a_library_of_its_own(abi: str, repository: Path) -> None:
    with aar(repository, DRIVER) as archive:
        manifest = ET.fromstring(archive.read("AndroidManifest.xml"))
        library = elf.read(archive.read(f"jni/{abi}/libsterna_opencl.so"))
    (asked,) = manifest.iter("uses-native-library")
    assert {key.rpartition("}")[2]: value for key, value in asked.attrib.items()} == {
        "name": "libOpenCL.so",
        "required": "false",
    }
    assert library.machine == elf.MACHINES[abi]
    assert library.page % natives.PAGE == 0
    assert not library.writable_code
    assert not library.hard_float
    assert library.needed == ["libc.so", "libdl.so"]
    assert library.exported == ["sterna_opencl", "sterna_opencl_describe"]


def test_only_models_with_kernels_for_it_need_it(repository: Path, tmp_path: Path) -> None:
    names = {"p": "http://maven.apache.org/POM/4.0.0"}
    place = android.android_package(digits().file, options_of(generator="llvm"), tmp_path / "plain")
    assert not list(place.rglob(f"{DRIVER}*"))
    for root, artifact, wanted in (
        (repository, "whole", [android.RUNTIME, DRIVER]),
        (place, "digits", [android.RUNTIME]),
    ):
        (file,) = root.glob(f"**/{artifact}-*.pom")
        found = ET.parse(file).findall("p:dependencies/p:dependency/p:artifactId", names)
        assert [each.text for each in found] == wanted


_MAIN = """\
import android.content.Context;
import android.content.res.AssetManager;
import dev.sterna.Model;
import dev.sterna.Options;
import dev.sterna.models.Mixed;
import dev.sterna.models.Whole;
import java.io.File;
import java.io.IOException;
import java.nio.FloatBuffer;

class Main {
  public static void main(String[] arguments) throws IOException {
    for (String name : new String[] {"whole", "mixed"})
      for (int at : new int[] {4096 + 64, -1}) {
        AssetManager assets = new AssetManager(new File(arguments[0], name + "/assets"), at);
        Context context = new Context() {
          @Override
          public AssetManager getAssets() {
            return assets;
          }

          @Override
          public File getCacheDir() {
            return new File(arguments[1]);
          }
        };
        Options options = new Options();
        if (arguments.length > 2) options.onlyCpu();
        if (name.equals("whole")) try (Whole it = Whole.load(context, options)) { say(it.model()); }
        else try (Mixed it = Mixed.load(context, options)) { say(it.model()); }
      }
  }

  private static void say(Model model) {
    FloatBuffer image = model.inputs().get(0).floats();
    for (int i = 0; image.hasRemaining(); i++) image.put(i * 7 % 17);
    model.run();
    FloatBuffer scores = model.outputs().get(0).floats();
    System.out.print(model.backend() + "|" + model.profile(2).size() + "|" + model.reason() + "|");
    while (scores.hasRemaining()) System.out.print(scores.get() + " ");
    System.out.println();
  }
}
"""


@pytest.fixture(scope="module")
def jvm(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str | Path], Path]:
    """The command that runs both models, and the folder of the library that drives devices."""
    place = tmp_path_factory.mktemp("jvm")
    for artifact in ("whole", "mixed", android.RUNTIME):
        with aar(repository, artifact) as archive:
            archive.extractall(place / artifact)
    desktop = natives.PLATFORMS["linux-x86_64"]
    library = natives.build(desktop, place / "native")
    driver = natives.build(desktop, place / "driver", "opencl").parent
    jars = [str(place / name / "classes.jar") for name in ("whole", "mixed", android.RUNTIME)]
    path = os.pathsep.join([*jars, str(place / "out")])
    (place / "Main.java").write_text(_MAIN)
    support = ROOT / "tests" / "support" / "android"
    sources = [*(RUNTIME / "stubs" / "android").rglob("*.java"), *support.glob("A*.java")]
    chosen = {source.name: source for source in sources}  # those that work in place of those that are compiled against
    notes = (RUNTIME / "stubs" / "org").rglob("*.java")
    run("javac", "--release", "11", "-cp", path, "-d", place / "out", place / "Main.java", *chosen.values(), *notes)
    folders = [place / name / "jni" / "x86_64" for name in ("whole", "mixed")]
    libraries = f"LD_LIBRARY_PATH={os.pathsep.join(map(str, [*folders, driver]))}"
    return ["env", libraries, "java", f"-Ddev.sterna.library={library}", "-cp", path, "Main", place], driver


def said(command: list[str | Path], *further: str | Path, **environment: str) -> list[tuple[str, str, list[float]]]:
    """Of every model: where it ran, why, and its scores."""
    given = [f"{name}={value}" for name, value in environment.items()]
    lines = run("env", *given, *command, *further).splitlines()
    rows = [line.split("|") for line in lines]
    assert all(int(nodes) > 3 for _, nodes, _, _ in rows)
    return [(backend, reason, [float(x) for x in scores.split()]) for backend, _, reason, scores in rows]


def test_it_runs_on_the_device_and_without_one_on_the_cpu(
    jvm: tuple[list[str | Path], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command, driver = jvm
    (tmp_path / "cache").mkdir()
    with opencl(tmp_path / "pocl"):
        there = said(command, tmp_path / "cache", POCL_CACHE_DIR=str(tmp_path / "pocl"))
        asked = said(command, tmp_path / "cache", "cpu")
    kept = [file.name for file in (tmp_path / "cache").iterdir()]
    assert kept
    assert all(re.fullmatch(r"opencl-[0-9a-f]{16}\.bin", name) for name in kept)
    without = said(command, tmp_path / "cache", OCL_ICD_VENDORS=str(tmp_path))
    (driver / "libsterna_opencl.so").rename(driver / "away")
    bare = said(command, tmp_path / "cache")
    (driver / "away").rename(driver / "libsterna_opencl.so")
    assert [row[:2] for row in there] == [("opencl", "")] * 4
    assert [row[:2] for row in asked] == [("cpu", "Options.onlyCpu")] * 4
    for rows, words in ((without, "E0507: OpenCL: "), (bare, "E0507: libsterna_opencl.so: cannot be loaded: ")):
        assert all(backend == "cpu" and reason.startswith(words) for backend, reason, _ in rows), rows
    for rows in (there, without, bare):
        for row, wanted in zip(rows, asked, strict=True):
            assert max(abs(a - b) for a, b in zip(row[2], wanted[2], strict=True)) < 1e-5 * max(map(abs, wanted[2]))


def test_the_same_model_gives_the_same_bytes(repository: Path, tmp_path: Path) -> None:
    options, device = options_of(generator="llvm"), options_of("opencl", generator="llvm")
    again = android.android_package(digits().file, options, tmp_path / "again", "whole", device=device)
    for file in again.rglob("*.aar"):
        assert file.read_bytes() == (repository / file.relative_to(again)).read_bytes()


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--for", "android", "-t", "arm64"], "E0203", "opencl, opencl-adreno, opencl-mali"),
        (["--for", "android", "-t", "cuda"], "E0507", "--target opencl-adreno"),
        (["--for", "android", "-t", "webgpu"], "E0507", "--target opencl-adreno"),
        (["--for", "android", "--gpu", "bundle"], "E0203", "leave it out"),
    ],
)
def test_what_is_refused(arguments: list[str], code: str, words: str, tmp_path: Path) -> None:
    given = ["package", str(digits().file), *arguments, "-o", str(tmp_path / "out")]
    done = CliRunner().invoke(program, given)
    assert done.exit_code == 1, done.output
    assert code in done.output
    assert words in done.output
    assert not (tmp_path / "out").exists()


def test_a_model_that_stays_on_the_cpu_is_refused(tmp_path: Path) -> None:
    device = options_of("opencl", generator="llvm", device_for={"*": "cpu"})
    with pytest.raises(SternaError, match="nothing of the model runs on a GPU") as caught:
        android.android_package(digits().file, options_of(generator="llvm"), tmp_path / "out", device=device)
    assert caught.value.codes == ("E0507",)
    assert not (tmp_path / "out").exists()
