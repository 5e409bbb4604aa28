"""The registry of front ends: detection, options that a format lacks, what is not installed, users' own formats and
operators. `toy_frontend` is a format that the package does not know."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner

import sterna
from sterna import SternaError
from sterna.api import options_of
from sterna.cli import program
from sterna.debug.totals import model_facts
from sterna.debug.verify import verify_model
from sterna.frontends import Confidence, Extra, Frontend, ReadOptions, Reference, register
from sterna.frontends import formats as registry
from sterna.frontends.formats import find, format_of, frontends, read_model, reference_for, references
from sterna.frontends.source import Source
from sterna_runtime.error_codes import CODES
from support.tools import ROOT
from support.toy_frontend import DenseFrontend, Network

DIGITS = ROOT / "compiler" / "sterna" / "demo" / "digits.onnx"
PACKAGE = ROOT / "compiler" / "sterna"


@pytest.fixture
def toy() -> Iterator[None]:
    with register(DenseFrontend()):
        yield


@pytest.fixture
def network() -> Network:
    draw = np.random.default_rng(3)
    weights = [draw.normal(size=pair).astype(np.float32) for pair in ((5, 7), (7, 3))]
    return Network(("relu", "tanh"), tuple(weights))


def wanted(network: Network, x: np.ndarray) -> np.ndarray:
    return np.tanh(np.maximum(x @ network.weights[0], 0) @ network.weights[1])


def pair(network: Network, folder: Path) -> Path:
    network.save(folder / "net.dense", folder / "net.npz")
    return folder / "net.dense"


def directory(network: Network, folder: Path) -> Path:
    place = folder / "net"
    place.mkdir()
    network.save(place / "network.json", place / "weights.npz")
    return place


def refusal(function: Any, *arguments: Any, **settings: Any) -> SternaError:
    with pytest.raises(SternaError) as caught:
        function(*arguments, **settings)
    return caught.value


# ---------------------------------------------------------------- a format of one's own
@pytest.mark.parametrize("form", ["pair", "folder", "object"])
def test_a_toy_format_is_compiled(toy: None, network: Network, form: str, tmp_path: Path) -> None:
    model = {"pair": pair, "folder": directory}[form](network, tmp_path) if form != "object" else network
    x = np.random.default_rng(4).normal(size=(2, 5)).astype(np.float32)
    with sterna.compile(model, dims={"batch": (1, 4)}, generator="llvm") as bundle:
        assert np.allclose(bundle.run({"x": x})["y"], wanted(network, x), atol=1e-5)
    with sterna.compile(model, generator="llvm", output=tmp_path / "kept") as bundle:
        made = json.loads((tmp_path / "kept" / "graph.json").read_text())
        assert made.get("origin", {}).get("format", "dense") == "dense"


@pytest.mark.parametrize("form", [pair, directory])
def test_a_toy_format_on_the_command_line(toy: None, network: Network, form: Any, tmp_path: Path) -> None:
    model = form(network, tmp_path)
    run = CliRunner().invoke
    shown = run(program, ["inspect", str(model)])
    assert shown.exit_code == 0, shown.output
    assert "Dense networks" in shown.output
    assert "dense, relu 1" in shown.output
    assert "--dim batch=SIZE" in shown.output
    made = run(program, ["compile", str(model), "-g", "llvm", "-o", str(tmp_path / "bundle")])
    assert made.exit_code == 0, made.output
    checked = run(program, ["verify", str(model), "-g", "llvm", "--against", "numpy-dense"])
    assert checked.exit_code == 0, checked.output
    assert f"agrees with numpy-dense {np.__version__}" in checked.output
    again = run(program, ["inspect", str(tmp_path / "bundle"), "--json"])
    assert json.loads(again.output)["kind"] == "bundle"
    assert "models of Dense networks" in run(program, ["doctor", "--json"]).output


def test_what_a_toy_format_lacks(toy: None, network: Network, tmp_path: Path) -> None:
    strange = Network(("relu", "mystery"), network.weights)
    assert [p.title for p in model_facts(strange).problems] == ["the activation mystery is not supported"]
    assert refusal(read_model, strange).codes == ("E0104",)
    alone = pair(network, tmp_path)
    alone.with_suffix(".npz").unlink()
    assert refusal(read_model, alone).codes == ("E0110",)


class _Wrong(DenseFrontend):
    name = "wrong"

    def reference(self, source: Source, options: ReadOptions) -> Reference:
        right = super().reference(source, options)
        return Reference(lambda inputs, tensors: {"y": right.run(inputs, tensors)["y"] + 1})


def test_what_a_front_end_trips_over_is_an_error_of_the_file(toy: None, network: Network, tmp_path: Path) -> None:
    path = pair(network, tmp_path)
    path.write_text('{"dense network": 1, "layers": [["none"], 3]}')
    for ask in (read_model, model_facts):
        mistake = refusal(ask, path)
        assert mistake.codes == ("E0113",)
        assert path.name in str(mistake)


def test_verify_compares_with_the_reference_of_the_format(network: Network) -> None:
    with register(_Wrong()):
        report = verify_model(network, options_of(generator="llvm"))
    assert not report.ok
    assert report.reference == f"numpy-dense {np.__version__}"
    assert report.first is not None
    assert (report.first.stage, report.first.check.name) == ("import", "y")


def test_a_plugin_on_the_command_line(network: Network, tmp_path: Path) -> None:
    """An installed package with an entry point, in a new process: it is imported for its own models only."""
    package = tmp_path / "site"
    about = package / "toy-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: toy\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[sterna.frontends]\ndense = support.toy_frontend:DenseFrontend\n")
    path = os.pathsep.join(map(str, (ROOT / "compiler", ROOT / "tests", package)))
    program_ = "import sys; from sterna.frontends.formats import format_of\n" + (
        "print(format_of(sys.argv[1]), 'support.toy_frontend' in sys.modules)\n" * 2
    ).replace("argv[1]", "argv[2]", 1)
    command = [sys.executable, "-c", program_, str(pair(network, tmp_path)), str(DIGITS)]
    shown = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=True)
    assert shown.stdout.split() == ["onnx", "False", "dense", "True"]


class _Point:
    """An entry point."""

    value = "there:Thing"

    def __init__(self, name: str, made: object):
        self.name, self.made = name, made

    def load(self) -> object:
        if isinstance(self.made, Exception):
            raise self.made
        return self.made


@pytest.mark.parametrize(
    ("made", "says"),
    [(ImportError("no module there"), "ImportError: no module there"), (42, "is not a front end called thing")],
)
def test_a_plugin_that_is_broken(made: object, says: str, monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.setattr(registry, "entry_points", lambda group: [_Point("thing", made)])
    unknown = tmp_path / "x.bin"
    unknown.write_bytes(b"\xff\xfe")
    problem = refusal(find, unknown)
    assert problem.codes == ("E0004",)
    assert says in str(problem)
    assert format_of(DIGITS) == "onnx", "it is not asked for what others read"


# ---------------------------------------------------------------- detection
MODELS = {
    "onnx": DIGITS.read_bytes(),
    "tflite": b"\x1c\0\0\0TFL3" + bytes(20),
    "xgboost": b'{"learner":{}}',
    "lightgbm": b"tree\nversion=v4\n",
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("file", ["model", "model.bin", "model.onnx", "model.tflite", "model.json"])
def test_content_decides_whatever_the_file_is_called(name: str, file: str, tmp_path: Path) -> None:
    path = tmp_path / file
    path.write_bytes(MODELS[name])
    assert format_of(path) == name


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "it is empty"),
        (b"\x89HDF\r\n", "a Keras or HDF5 file"),
        (b"<!DOCTYPE html>", "a web page"),
        (b"\x80\x04...", "a Python pickle"),
        (b"layers: 3\n", 'begins with "layers: 3"'),
        (b"\xff\xfe\xfd", "begins with the bytes ff fe fd"),
        (b'{"layers": 3}', "a JSON text"),
        (b"\x08\x07\x61", "begins with the bytes 08 07 61"),
    ],
)
def test_what_is_no_model(content: bytes, says: str, tmp_path: Path) -> None:
    path = tmp_path / "net.bin"
    path.write_bytes(content)
    problem = refusal(read_model, path)
    assert problem.codes == ("E0101",)
    assert "net.bin is not a model" in str(problem)
    assert says in str(problem)
    assert "tried as ONNX (.onnx), TensorFlow Lite (.tflite), XGBoost (.json, .ubj), LightGBM (.txt)" in str(problem)


def test_an_archive_says_what_is_in_it(tmp_path: Path) -> None:
    path = tmp_path / "net.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for n in range(6):
            archive.writestr(f"part{n}", b"")
    assert "with part0, part1, part2, part3 and 2 others" in str(refusal(read_model, path))
    path.write_bytes(path.read_bytes()[:50])
    assert "an archive" in str(refusal(read_model, path))


def test_folders_and_missing_files(tmp_path: Path) -> None:
    assert f"{tmp_path} is a folder, not a model file" in str(refusal(read_model, tmp_path))
    assert "it is an empty folder" in str(refusal(read_model, tmp_path))
    (tmp_path / "a.onnx").write_bytes(b"")
    assert "a folder with a.onnx" in str(refusal(read_model, tmp_path))
    assert "cannot be read: No such file" in str(refusal(read_model, tmp_path / "none.onnx"))
    assert "a.onnx is empty" in str(refusal(read_model, tmp_path / "a.onnx")), "its name says which front end to ask"


class _Other(DenseFrontend):
    name, title, suffixes = "other", "Others", (".other",)


def test_what_two_formats_claim(toy: None, network: Network, tmp_path: Path) -> None:
    with register(_Other()):
        path = pair(network, tmp_path)
        assert format_of(path) == "dense", "the ending of its name decides"
        unclear = path.rename(tmp_path / "net.bin")
        problem = refusal(format_of, unclear)
        assert problem.codes == ("E0101",)
        assert "net.bin may be a model of Dense networks or Others" in str(problem)
        assert "usual ending: .dense or .other" in str(problem)
    assert format_of(unclear) == "dense"


# ---------------------------------------------------------------- what a format lacks
def test_a_signature_of_a_format_that_has_none(toy: None, network: Network) -> None:
    for model in (DIGITS, network):
        problem = refusal(read_model, model, ReadOptions(signature="serve"))
        assert problem.codes == ("E0106",)
        assert 'the model has no signature "serve"' in str(problem)
        assert re.search("only .*TensorFlow Lite.* models have signatures", str(problem))


class _Needy(DenseFrontend):
    name = "needy"
    extras = (Extra("a_module_that_is_nowhere", 'pip install "sterna[needy]"'), Extra("numpy", "pip install numpy"))


def test_what_a_format_needs_and_is_not_installed(network: Network) -> None:
    with register(_Needy()):
        problem = refusal(sterna.compile, network)
        assert problem.codes == ("E0004",)
        assert "Dense networks is read with a_module_that_is_nowhere, which is not installed" in str(problem)
        assert 'pip install "sterna[needy]"' in str(problem)
        tools = {
            tool["name"]: tool for tool in json.loads(CliRunner().invoke(program, ["doctor", "--json"]).output)["tools"]
        }
        assert not tools["a_module_that_is_nowhere"]["found"]


def test_references(toy: None, network: Network) -> None:
    found = references()
    assert (found[0], found[-1], len(set(found))) == ("auto", "interpreter", len(found))
    assert set(found) >= {"onnxruntime", "litert", "xgboost", "lightgbm", "torch", "numpy-dense"}
    assert reference_for(network).name == f"numpy-dense {np.__version__}"
    assert reference_for(network, "interpreter").run is None
    problem = refusal(reference_for, network, "litert")
    assert problem.codes == ("E0203",)
    assert "litert cannot run this model" in str(problem)
    with register(_Silent()):
        silent = reference_for(Silence())
    assert (silent.run, silent.missing) == (None, "there is no runtime of Silence")


class Silence:
    pass


class _Silent(DenseFrontend):
    name, title, runtime = "silent", "Silence", None

    def detect(self, source: Source) -> Confidence:
        return Confidence.CERTAIN if isinstance(source.model, Silence) else Confidence.NO


# ---------------------------------------------------------------- registration
def test_registrations_end(network: Network) -> None:
    before = list(frontends())
    made = register(DenseFrontend())
    assert [*before, "dense"] == list(frontends())
    assert "already" in str(refusal(register, DenseFrontend()))
    made.remove()
    made.remove()
    assert before == list(frontends())
    assert re.search("a path.* an onnx.ModelProto.* is needed", str(refusal(sterna.compile, network)))


def test_what_cannot_be_registered() -> None:
    for arguments in (("paddle", "X", len), ("onnx", "", len), ("onnx", "X", None), (3, "X", len)):
        assert refusal(register, *arguments).codes == ("E0203",)


def test_custom_operators_of_onnx() -> None:
    head = '<ir_version: 8, opset_import: ["": 17, "own": 1]>'
    model = onnx.parser.parse_model(head + " g (float[3] x) => (float[3] y, float[3] z) { y, z = own.Two(x) }")
    problem = refusal(read_model, model)
    assert problem.codes == ("E0104",)
    assert 'sterna.frontends.register("onnx", "own::Two", translate)' in str(problem)
    x = np.array([1, -2, 3], np.float32)
    with register("onnx", "own::Two", lambda t: (t.op("neg", t.input(0)), t.op("abs", t.input(0)))):
        with sterna.compile(model, generator="llvm") as bundle:
            got = bundle.run({"x": x})
        assert [use.support for use in model_facts(model).operators] == ["yes"]
    assert np.array_equal(got["y"], -x)
    assert np.array_equal(got["z"], abs(x))
    assert refusal(read_model, model).codes == ("E0104",)


def test_a_translation_of_ones_own_comes_first() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[3] x) => (float[3] y) { y = Relu(x) }'
    )
    with register("onnx", "Relu", lambda t: t.op("neg", t.input(0))):
        assert [node.op for node in read_model(model).nodes] == ["neg"]
        with register("onnx", "ai.onnx::Relu", lambda t: t.op("abs", t.input(0))):
            assert [node.op for node in read_model(model).nodes] == ["abs"]
    assert [node.op for node in read_model(model).nodes] == ["relu"]


def test_custom_operators_of_tensorflow_lite(tmp_path: Path) -> None:
    from flatbuffers import flexbuffers

    tflite_builder = pytest.importorskip("support.tflite_builder", exc_type=ImportError)
    model = tflite_builder.ModelWriter()
    graph = model.main
    x = graph.input(np.array([0.5, -1, 2], np.float32))
    graph.op("ScaledTanh", [x], [graph.output("float32", (3,))], custom=bytes(flexbuffers.Dumps({"scale": 2.0})))
    file = tmp_path / "model.tflite"
    file.write_bytes(model.content())
    assert 'sterna.frontends.register("tflite", "ScaledTanh", translate)' in str(refusal(read_model, file))

    def scaled_tanh(t: Any) -> Any:
        settings = flexbuffers.Loads(t.node.custom)
        return t.op("mul", t.op("tanh", t.input(0)), t.scalar(settings["scale"], "float32"))

    with register("tflite", "ScaledTanh", scaled_tanh), sterna.compile(file, generator="llvm") as bundle:
        (got,) = bundle.run(graph.feeds).values()
    assert np.allclose(got, 2 * np.tanh(graph.feeds["t0"]), atol=1e-6)


# ---------------------------------------------------------------- what is written about them
def test_the_examples_of_the_page_run(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "frontends.md").read_text("utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 4
    code = "\n".join(blocks)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "compiler")}
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, check=True, timeout=300)


def test_the_table_of_the_page() -> None:
    rows = []
    for each in frontends().values():
        files, against = " ".join(f"`{s}`" for s in each.suffixes), each.runtime.name if each.runtime else ""
        rows.append(
            f"| {each.title} | `{each.name}` | {files} |{f' {each.objects}' if each.objects else ''} | {against} |"
        )
    text = (ROOT / "docs" / "frontends.md").read_text("utf-8")
    assert "\n".join(rows) + "\n<!-- end -->" in text
    for each in frontends().values():
        assert each.title in CODES["E0101"].fix
        assert all(suffix in CODES["E0101"].fix for suffix in each.suffixes)


def test_no_format_is_known_outside_of_the_front_ends() -> None:
    """Not by its name, and not by the package of its front end, but for ONNX, which is also written. Whether a library
    of the name is installed is another question."""
    names = "|".join(name for name in frontends() if name != "onnx")
    compared = re.compile(
        rf"""(?<!find_spec\()["'](?:{names})["']|frontends[./](?:{names}|boosted)"""
        r"""|(?:==|!=|\bin) ["']onnx["']|["']ONNX["']"""
    )
    found = {
        str(path.relative_to(PACKAGE)): compared.findall(path.read_text("utf-8"))
        for path in PACKAGE.rglob("*.py")
        if "frontends" not in path.relative_to(PACKAGE).parts
    }
    assert {path: hits for path, hits in found.items() if hits} == {}


def test_nothing_heavy_is_imported_before_it_is_needed() -> None:
    """Neither with the package nor with the registry: a format's own libraries are for reading a model of it."""
    heavy = (
        "torch",
        "onnx",
        "google.protobuf",
        "tflite",
        "flatbuffers",
        "xgboost",
        "lightgbm",
        "ai_edge_litert",
        "onnxruntime",
    )
    code = f"""
import sys
import sterna
first = [m for m in {heavy!r} if m in sys.modules] + [m for m in sys.modules if m.startswith("sterna.frontends")]
from sterna.frontends.formats import find
assert find({str(DIGITS)!r}).name == "onnx"
print(first, [m for m in {heavy!r} if m in sys.modules])
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "compiler")}
    shown = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[] []"


def test_a_front_end_says_all_that_it_must() -> None:
    for each in frontends().values():
        assert isinstance(each, Frontend)
        assert all(suffix.startswith(".") and suffix == suffix.lower() for suffix in each.suffixes)
        assert each.takes <= {field.name for field in ReadOptions.__dataclass_fields__.values()}
