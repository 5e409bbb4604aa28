"""`sterna package --for android`: what the libraries hold, and that every ABI's kernels compute right."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
import xml.etree.ElementTree as ET
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner

import sterna
from sterna.api import compile_model, options_of
from sterna.cli import program
from sterna.errors import SternaError
from sterna.package import android, java, natives, wrappers
from sterna.package.natives import PAGE
from sterna_runtime.random_inputs import random_inputs
from support import elf, machines
from support.counted_kernels import KERNELS
from support.golden import quantized
from support.handmade_bundle import graph_text
from support.java import RUNTIME
from support.matrix import in_order
from support.tools import ROOT, need, run
from support.trained import Trained, agree, digits, trained

pytestmark = pytest.mark.family("java")

ABIS = ("arm64-v8a", "armeabi-v7a", "x86_64", "x86")
MACHINES = {
    "arm64-v8a": ("aarch64", "qemu-aarch64 -cpu cortex-a53"),
    "armeabi-v7a": ("armv7", "qemu-arm -cpu cortex-a7"),
    "x86": ("i686", "qemu-i386"),
}


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models in one repository."""
    need("javac", "compiles the classes of packages")
    place = tmp_path_factory.mktemp("android")
    (place / "gulls.tflite").write_bytes(quantized())
    shutil.copy(digits().file, place / "digits.onnx")
    for model in ("digits.onnx", "gulls.tflite"):
        done = CliRunner().invoke(
            program,
            [
                "package",
                str(place / model),
                "--for",
                "android",
                "-g",
                "llvm",
                "-o",
                str(place / "repository"),
                "--json",
            ],
        )
        assert done.exit_code == 0, done.output
        assert json.loads(done.stdout)["for"] == "android"
    return place / "repository"


def aar(repository: Path, artifact: str) -> zipfile.ZipFile:
    group = "dev/sterna" if artifact.startswith("sterna-runtime") else "dev/sterna/models"
    (folder,) = (repository / group / artifact).iterdir()
    return zipfile.ZipFile(folder / f"{artifact}-{folder.name}.aar")


def test_the_repository_is_maven_s(repository: Path) -> None:
    files = [path for path in repository.rglob("*") if path.is_file()]
    sums = [path for path in files if path.suffix in (".md5", ".sha1", ".sha256")]
    assert len(sums) == 3 * (len(files) - len(sums)) == 27
    for path in sums:
        assert path.read_text() == hashlib.new(path.suffix[1:], path.with_suffix("").read_bytes()).hexdigest()
    names = {"p": "http://maven.apache.org/POM/4.0.0"}
    for artifact in ("digits", "gulls"):
        pom = ET.parse(repository / f"dev/sterna/models/{artifact}/1.0.0/{artifact}-1.0.0.pom")
        wanted = pom.find("p:dependencies/p:dependency/p:artifactId", names)
        assert wanted is not None
        assert wanted.text == android.RUNTIME


def test_what_a_model_s_library_holds(repository: Path) -> None:
    with aar(repository, "digits") as archive:
        folder = "assets/sterna/digits"
        assert sorted(archive.namelist()) == sorted(
            ["AndroidManifest.xml", "R.txt", "classes.jar", f"{folder}/{android.PARAMS}"]
            + [f"{folder}/graph-{abi}.json" for abi in ABIS]
            + [f"jni/{abi}/libdigits.so" for abi in ABIS]
        ), "no runtime, one set of weights"
        assert archive.getinfo(f"{folder}/{android.PARAMS}").compress_type == zipfile.ZIP_STORED
        assert {entry.date_time for entry in archive.infolist()} == {(2024, 1, 1, 0, 0, 0)}
        assert b'minSdkVersion="23"' in archive.read("AndroidManifest.xml")


def test_two_models_have_one_runtime(repository: Path) -> None:
    holders = []
    for file in repository.rglob("*.aar"):
        with zipfile.ZipFile(file) as archive:
            holders += [file.name for name in archive.namelist() if name.endswith("arm64-v8a/libsterna_jni.so")]
    assert len(list(repository.rglob("*.aar"))) == 3
    assert [name.startswith(android.RUNTIME) for name in holders] == [True]


@pytest.mark.parametrize("abi", ABIS)
def test_libraries_are_what_android_loads(abi: str, repository: Path) -> None:
    with aar(repository, "digits") as model, aar(repository, android.RUNTIME) as runtime:
        kernels = elf.read(model.read(f"jni/{abi}/libdigits.so"))
        native = elf.read(runtime.read(f"jni/{abi}/libsterna_jni.so"))
    assert (kernels.soname, kernels.exported) == ("libdigits.so", ["sterna_digits_library"])
    assert (kernels.needed, kernels.imported) == ([], [])
    for library in (kernels, native):
        assert library.machine == elf.MACHINES[abi]
        assert library.page % PAGE == 0
        assert not library.writable_code
        assert not library.hard_float
    assert native.needed == ["libc.so", "libdl.so"]


@pytest.mark.parametrize("model", ["digits", "gulls"])
@pytest.mark.parametrize("abi", ABIS)
def test_kernels_compute_what_they_do_here(abi: str, model: str, repository: Path, tmp_path: Path) -> None:
    bundle = unpacked(repository, model, abi, tmp_path / "bundle")
    source = repository.parent / {"digits": "digits.onnx", "gulls": "gulls.tflite"}[model]
    with sterna.compile(source, generator="llvm") as here:
        given = random_inputs(here.inputs, seed=3)
        wanted = list(here.run(given).values())
    if abi == "x86_64":  # this machine's own
        with sterna.load(bundle) as loaded:
            got = list(loaded.run(given).values())
    else:
        processor, command = MACHINES[abi]
        host = machines.arm_host(processor, tmp_path)
        got = machines.run_emulated(host, bundle, [*given.values()], wanted, tmp_path, command)
    for mine, theirs in zip(got, wanted, strict=True):
        if mine.dtype == np.float32:
            assert np.abs(mine - theirs).max() <= 1e-5 * np.abs(theirs).max()
        else:
            np.testing.assert_array_equal(mine, theirs)


def unpacked(repository: Path, model: str, abi: str, place: Path) -> Path:
    """The bundle that a phone of an ABI sees."""
    place.mkdir()
    with aar(repository, model) as archive:
        unpack(archive, model, abi, place)
    return place


def unpack(archive: zipfile.ZipFile, model: str, abi: str, place: Path) -> None:
    folder = f"assets/sterna/{model}"
    files = {f"{folder}/graph-{abi}.json": "graph.json", f"{folder}/{android.PARAMS}": "params.bin"}
    for name in archive.namelist():
        if name in files or name.startswith((f"jni/{abi}/", f"{folder}/graph.")):
            (place / files.get(name, name.rpartition("/")[2])).write_bytes(archive.read(name))


@pytest.mark.parametrize(("processor", "wanted"), [("cortex-a53", ""), ("neoverse-n1", ".android-arm64-dotprod")])
def test_a_phone_runs_the_best_variant_that_it_can(
    processor: str, wanted: str, variants: tuple[Trained, Path], tmp_path: Path
) -> None:
    """Which one it is shows in that the libraries of the others are away; the other ABIs know of none."""
    model, package = variants
    library = f"lib{STEM}{wanted}.so"
    bundle = tmp_path / "bundle"
    bundle.mkdir()
    with zipfile.ZipFile(package) as archive:
        unpack(archive, STEM, "arm64-v8a", bundle)
        assert elf.read(archive.read(f"jni/arm64-v8a/{library}")).soname == library
        for abi in ABIS[1:]:
            assert "variants" not in json.loads(archive.read(f"assets/sterna/{STEM}/graph-{abi}.json"))
            assert [name for name in archive.namelist() if f"/{abi}/" in name] == [f"jni/{abi}/lib{STEM}.so"]
    for file in bundle.glob("*.so"):
        if file.name != library:
            file.unlink()
    host, case = machines.arm_host("aarch64", tmp_path), model.cases[0]
    command = f"qemu-aarch64 -cpu {processor}"
    agree(model, 0, machines.run_emulated(host, bundle, in_order(bundle, model), case.outputs, tmp_path, command))


@pytest.mark.parametrize("abi", ABIS[1:])
def test_what_rounds_on_arm64_is_computed_elsewhere(abi: str, variants: tuple[Trained, Path], tmp_path: Path) -> None:
    """The other ABIs run the loops of arm64, and have no instructions that shift and round vectors."""
    model, package = variants
    bundle = tmp_path / "bundle"
    bundle.mkdir()
    with zipfile.ZipFile(package) as archive:
        unpack(archive, STEM, abi, bundle)
    case = model.cases[0]
    if abi == "x86_64":
        with sterna.load(bundle) as loaded:
            agree(model, 0, list(loaded.run(case.inputs).values()))
        return
    processor, command = MACHINES[abi]
    host = machines.arm_host(processor, tmp_path)
    agree(model, 0, machines.run_emulated(host, bundle, in_order(bundle, model), case.outputs, tmp_path, command))


@pytest.mark.parametrize("kernel", ["conv_1x1", "conv_3x3"])
def test_abis_with_fewer_registers_have_tiles_of_their_own(kernel: str, tmp_path: Path) -> None:
    """Of the weights as arm64 reads them: a tile that fills its 32 registers is twice to three times as much code where
    there are 16, most of it moves sums to memory and back."""
    onnx.save(KERNELS[kernel](), tmp_path / "net.onnx")
    compiled, _ = android.compile_abis(tmp_path / "net.onnx", options_of(generator="llvm"))
    alone = compile_model(tmp_path / "net.onnx", "arm64", generator="llvm")
    assert compiled.params == alone.params
    code = [elf.read(library.data).code for library in compiled.libraries]
    assert all(each <= 1.5 * code[0] for each in code), code


STEM = "keywords"


@pytest.fixture(scope="module")
def variants(tmp_path_factory: pytest.TempPathFactory) -> tuple[Trained, Path]:
    """The .aar of a model of bytes, with kernels for the better processors of arm64."""
    need("javac", "compiles the classes of packages")
    model, place = trained("tflm_micro_speech_int8"), tmp_path_factory.mktemp("variants")
    shutil.copy(model.file, place / f"{STEM}.tflite")
    options = options_of(generator="llvm", shapes=model.shapes())
    compiled, graphs = android.compile_abis(place / f"{STEM}.tflite", options, all_variants=True)
    (place / "model.aar").write_bytes(android.model_aar(compiled, graphs))
    return model, place / "model.aar"


def test_the_same_model_gives_the_same_bytes(repository: Path, tmp_path: Path) -> None:
    compiled, graphs = android.compile_abis(repository.parent / "digits.onnx", options_of(generator="llvm"))
    again = android.model_aar(compiled, graphs)
    assert again == (repository / "dev/sterna/models/digits/1.0.0/digits-1.0.0.aar").read_bytes()


def test_the_runtime_keeps_what_its_library_calls(repository: Path) -> None:
    """R8 removes and renames what no rule names."""
    native = (RUNTIME / "jni" / "sterna_jni.c").read_text()
    with aar(repository, android.RUNTIME) as archive:
        rules = archive.read("proguard.txt").decode()
        with zipfile.ZipFile(io.BytesIO(archive.read("classes.jar"))) as classes:
            # An app that makes no device of itself drops the classes of docs/rpc.md when it is shrunk.
            entries = [entry for entry in classes.infolist() if "/Rpc" not in entry.filename]
            size = sum(entry.compress_size for entry in entries)
    found = {name.replace("/", ".") for name in re.findall(r'"(dev/sterna/\w+)"', native)}
    assert found == set(re.findall(r"-keep class ([\w.]+)", rules))
    for method in re.findall(r'GetMethodID\(env, \w+, "(\w+|<init>)"', native):
        assert method in rules
    assert size < 27_000


def test_the_class_of_a_model_runs_on_assets(repository: Path, tmp_path: Path) -> None:
    """On this machine, with the kernels for Android's x86_64 and a stand-in for its assets: on a border of 64 bytes,
    elsewhere, compressed."""
    names = ("digits", "gulls", android.RUNTIME)
    for artifact in names:
        with aar(repository, artifact) as archive:
            archive.extractall(tmp_path / artifact)
    library = natives.build(natives.PLATFORMS["linux-x86_64"], tmp_path / "native")
    jars = [str(tmp_path / name / "classes.jar") for name in names]
    path = os.pathsep.join([*jars, str(tmp_path / "out")])
    (tmp_path / "Main.java").write_text(_MAIN)
    sources = [
        *(RUNTIME / "stubs" / "android").rglob("*.java"),
        *(ROOT / "tests" / "support" / "android").glob("*.java"),
    ]
    chosen = {source.name: source for source in sources}  # those that work in place of those that are compiled against
    notes = (RUNTIME / "stubs" / "org").rglob("*.java")
    run(
        "javac",
        "--release",
        "11",
        "-cp",
        path,
        "-d",
        tmp_path / "out",
        tmp_path / "Main.java",
        *chosen.values(),
        *notes,
    )
    folder = tmp_path / "digits"
    java_command = ["env", f"LD_LIBRARY_PATH={folder / 'jni' / 'x86_64'}", "java", f"-Ddev.sterna.library={library}"]
    program_line = [*java_command, "-cp", path, "Main", folder / "assets"]
    said = run(*program_line)
    assert re.fullmatch(r"(best of 10: \d)\n\1\n\1\n", said)
    with_a_better_variant(folder)
    assert run(*program_line) == said


def with_a_better_variant(folder: Path) -> None:
    """Of the files of a model's library, those of x86_64: a variant that every machine can run is all that is left."""
    graphs = folder / "assets" / "sterna" / "digits"
    graph = json.loads((graphs / "graph-x86_64.json").read_text())
    members = {key: value for key, value in graph.items() if key not in ("sterna", "hash")}
    files = {**graph["files"], "libbetter.so": graph["files"]["libdigits.so"]}
    better = {**members, "library": "libbetter.so", "files": files}
    (graphs / "graph.better.json").write_bytes(graph_text(better, graph["sterna"]))
    members["variants"] = [
        {"graph": "missing.json", "target": "best", "cpu_features": ["sse2", "not-of-this-machine"]},
        {"graph": "graph.better.json", "target": "better", "cpu_features": ["sse2"]},
    ]
    (graphs / "graph-x86_64.json").write_bytes(graph_text(members, graph["sterna"]))
    libraries = folder / "jni" / "x86_64"
    (libraries / "libdigits.so").rename(libraries / "libbetter.so")


_MAIN = """\
import android.content.Context;
import android.content.res.AssetManager;
import dev.sterna.models.Digits;
import dev.sterna.models.Gulls;
import java.io.File;
import java.io.IOException;
import java.nio.FloatBuffer;

class Main {
  static void unused(Gulls gulls) {
    gulls.inputT0().put((byte) 1);
    gulls.outputT1Tensor().labels().get(gulls.outputT1Best());
  }

  public static void main(String[] arguments) throws IOException {
    for (int at : new int[] {4096 + 64, 4, -1}) run(new AssetManager(new File(arguments[0]), at));
  }

  private static void run(AssetManager assets) throws IOException {
    Context context = new Context() {
      @Override
      public AssetManager getAssets() {
        return assets;
      }

      @Override
      public File getCacheDir() {
        return null;
      }
    };
    try (Digits digits = Digits.load(context)) {
      FloatBuffer image = digits.inputImage();
      while (image.hasRemaining()) image.put(0.5f);
      digits.run();
      System.out.println("best of " + digits.outputScores().remaining() + ": " + digits.outputScoresBest());
    }
  }
}
"""


def test_names_of_any_kind_become_java() -> None:
    used: set[str] = set()
    names = ["x", "x", "x:0", "x/Tensor", "", "***", "class", "Ünïcode", 'a"b\\u002a/']
    for name in names:
        used.add(wrappers.method_name("input", name, used, android._METHODS))
    assert len(used) == len(names)
    assert all(re.fullmatch(r"input[A-Za-z0-9]+", name) for name in used)
    assert android.class_name("mobilenet_v2") == "MobilenetV2"
    assert android.class_name("_1") == "Model1"
    assert android.class_name("tensor") == "ModelTensor"
    output = wrappers.method_name("output", "scores", used, android._METHODS)
    assert output == "outputScores"
    for end in ("best", "tensor", "best_best"):
        name = wrappers.method_name("output", f"scores_{end}", used | {output}, android._METHODS)
        assert not {name, f"{name}Best", f"{name}Tensor"} & {output, f"{output}Best", f"{output}Tensor"}


_NAMES = """
context object string override bitmap float_buffer byte_buffer auto_closeable not_null options float math io byte
illegal_argument_exception system integer
"""


@pytest.mark.parametrize("name", _NAMES.split())
def test_a_class_takes_no_name_that_it_uses(name: str, tmp_path: Path) -> None:
    """Its own outputs' methods are apart too."""
    need("javac", "compiles the classes of packages")
    text = (
        '<ir_version: 8, opset_import: ["" : 17]> g (uint8[1,3,2,2] x, float[4] y) '
        "=> (float[4] scores, float[4] scores_best, float[4] scores_tensor, uint8[1,3,2,2] z) "
        "{ scores = Relu(y) scores_best = Neg(y) scores_tensor = Abs(y) z = Identity(x) }"
    )
    onnx.save(onnx.parser.parse_model(text), tmp_path / f"{name}.onnx")
    compiled = compile_model(tmp_path / f"{name}.onnx", generator="llvm")
    assert java.classes({android.source_path(compiled): android.source(compiled)}, "a class")


def test_hostile_names_and_pictures_compile(tmp_path: Path) -> None:
    need("javac", "compiles the classes of packages")
    name = '*/ \\u002a/ " & <b> {@link}\n'
    values: list[Any] = [
        onnx.helper.make_tensor_value_info(n, onnx.TensorProto.UINT8, [1, 3, 4, 5]) for n in (name, name + "2")
    ]
    nodes = [onnx.helper.make_node("Identity", [name], [name + "2"])]
    model = onnx.helper.make_model(
        onnx.helper.make_graph(nodes, "g", values[:1], values[1:]),
        opset_imports=[onnx.helper.make_opsetid("", 17)],
        ir_version=8,
    )
    onnx.save(model, tmp_path / "net.onnx")
    compiled, _ = android.compile_abis(tmp_path / "net.onnx", options_of(generator="llvm"))
    text = android.source(compiled)
    assert b"(@NotNull Bitmap picture)" in text
    assert b"c * pixels.length + i" in text
    assert java.classes({android.source_path(compiled): text}, "a class")


def test_what_is_refused(tmp_path: Path) -> None:
    """All at once, and before the model is read."""
    (tmp_path / "log.onnx").write_text("no model")
    with pytest.raises(SternaError, match=r"liblog\.so") as caught:
        android.android_package(tmp_path / "log.onnx", options_of(name="log"), tmp_path / "out", "a b", "one")
    assert caught.value.codes == ("E0203",) * 3
    assert not (tmp_path / "out").exists()
    done = CliRunner().invoke(program, ["package", str(tmp_path), "--for", "npm", "--dim", "batch=1"])
    assert done.exit_code != 0
    assert "--dim" in done.output


def test_a_development_kit_is_needed_before_anything_is_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "net.onnx").write_text("no model")
    with pytest.raises(SternaError, match="Java development kit") as caught:
        android.android_package(tmp_path / "net.onnx", options_of(), tmp_path / "out")
    assert caught.value.codes == ("E0402",)


def test_another_model_of_the_same_name_clashes(repository: Path, tmp_path: Path) -> None:
    """Maven's versions do not change; the message says what to do."""
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[4] x) => (float[4] y) { y = Relu(x) }'
    onnx.save(onnx.parser.parse_model(text), tmp_path / "digits.onnx")
    before = {path: path.read_bytes() for path in repository.rglob("*") if path.is_file()}
    with pytest.raises(SternaError, match=r'version="1\.0\.1"') as caught:
        android.android_package(tmp_path / "digits.onnx", options_of(generator="llvm"), repository)
    assert caught.value.codes == ("E0204",)
    assert {path: path.read_bytes() for path in repository.rglob("*") if path.is_file()} == before


def test_another_name_is_another_class(repository: Path, tmp_path: Path) -> None:
    """Two models whose classes have one name are refused; `--name` names the class, the library and the assets too."""
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[4] x) => (float[4] y) { y = Relu(x) }'
    shutil.copytree(repository, place := tmp_path / "place")
    before = sorted(place.rglob("*"))
    file = tmp_path / "di_gits.onnx"  # the same to file systems that know no upper and lower case
    onnx.save(onnx.parser.parse_model(text), file)
    for options, name in ((options_of(generator="llvm"), None), (options_of(name="digits"), "another")):
        with pytest.raises(SternaError, match="the class of digits, which is there, is called Digits too") as caught:
            android.android_package(file, options, place, name)
        assert caught.value.codes == ("E0204",)
        assert 'fix: name="another-model"' in str(caught.value)
    assert sorted(place.rglob("*")) == before
    android.android_package(file, options_of(generator="llvm"), place, "other-model")
    with aar(place, "other-model") as archive, zipfile.ZipFile(io.BytesIO(archive.read("classes.jar"))) as classes:
        assert "dev/sterna/models/OtherModel.class" in classes.namelist()
        assert {"jni/x86/libother_model.so", f"assets/sterna/other_model/{android.PARAMS}"} <= set(archive.namelist())
