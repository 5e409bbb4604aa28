"""The JavaScript runtime's own tests, on bundles that are compiled for them; its types; its hash."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from models.test_data_sizes import detector
from sterna.api import compile_model
from sterna.bundle.directory import write_files
from sterna.bundle.writer import bundle_files, write_bundle
from sterna.debug.golden import golden_files, golden_sets
from support.open_networks import encoder
from support.tools import ROOT, need, run
from support.trained import digits

RUNTIME = ROOT / "runtime_js"
pytestmark = pytest.mark.family("wasm32")


def npm_packages() -> Path:
    """The runtime's development packages, or a skip."""
    if not (RUNTIME / "node_modules").is_dir():
        pytest.skip("needs npm: `npm ci` in runtime_js installs what this test runs")
    return RUNTIME / "node_modules"


def _compile(place: Path, model: object, dims: dict[str, tuple[int, int]] | None = None, **options: object) -> None:
    golden = None if options.get("single_file") else golden_files(*golden_sets(model, None, dims, 3))  # type: ignore[arg-type]
    compiled = compile_model(model, "browser", None, dims, **options)  # type: ignore[arg-type]
    write_files(bundle_files(compiled, golden), place)


def labels() -> onnx.ModelProto:
    """Strings to strings and to numbers."""
    nodes = [
        helper.make_node("LabelEncoder", ["x"], ["group"], domain="ai.onnx.ml", keys_strings=["tern", "gull", "auk"],
                         values_strings=["Sternidae", "Laridae", "Alcidae"], default_string="?"),
        helper.make_node("LabelEncoder", ["x"], ["number"], domain="ai.onnx.ml", keys_strings=["tern", "gull"],
                         values_int64s=[7, 9], default_int64=-1),
        helper.make_node("Identity", ["x"], ["same"]),
    ]  # fmt: skip
    text, number = TensorProto.STRING, TensorProto.INT64
    outputs = [
        helper.make_tensor_value_info(n, kind, [4]) for n, kind in (("group", text), ("number", number), ("same", text))
    ]
    graph = helper.make_graph(nodes, "labels", [helper.make_tensor_value_info("x", text, [4])], outputs)
    opsets = [helper.make_opsetid("", 19), helper.make_opsetid("ai.onnx.ml", 4)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("bundles")
    file = digits().file
    _compile(place / "digits", file)
    _compile(place / "llvm", file, generator="llvm")
    _compile(place / "all", file, all_variants=True)
    _compile(place / "single", file, single_file=True)
    _compile(place / "debug", file, debug=True)
    _compile(place / "open", encoder(), {"batch": (1, 8), "seq": (1, 48)})
    _compile(place / "sizes", detector(30, 3, None))
    write_bundle(compile_model(labels(), "browser"), place / "strings")
    return place


@pytest.mark.parametrize("flags", [(), ("--experimental-wasm-relaxed-simd",)], ids=["simd", "relaxed"])
def test_its_own_tests(flags: tuple[str, ...], bundles: Path) -> None:
    node = need("node", "runs the JavaScript runtime")
    done = subprocess.run(
        [node, *flags, "--test", "--test-reporter=tap", *map(str, sorted((RUNTIME / "test").glob("*.test.js")))],
        env={**os.environ, "STERNA_BUNDLES": str(bundles)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    assert "# fail 0" in done.stdout


def test_types() -> None:
    modules = npm_packages()
    run(need("node", "runs the type checker"), modules / "typescript" / "bin" / "tsc", "--noEmit", cwd=RUNTIME)


def test_the_hash_is_what_its_source_makes() -> None:
    run(sys.executable, RUNTIME / "hash" / "build.py", "--check")


def test_the_lock_file_names_no_registry() -> None:
    assert '"resolved"' not in (RUNTIME / "package-lock.json").read_text()
