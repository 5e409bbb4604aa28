"""The JavaScript runtime's own tests, on bundles that are compiled for them; its types; its hash."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sterna.api import compile_model, options_of
from sterna.bundle.directory import write_files
from sterna.bundle.writer import bundle_files, write_bundle
from sterna.debug.golden import golden_files, golden_sets
from sterna_runtime.arguments import Dims
from support.data_sized import detector
from support.golden import counter
from support.javascript import RUNTIME, npm_packages
from support.open_networks import encoder, pyramid
from support.string_models import labels
from support.tools import need, run
from support.trained import digits

pytestmark = pytest.mark.family("wasm32")


def _compile(place: Path, model: object, dims: Dims | None = None, **options: object) -> None:
    golden = None if options.get("single_file") else golden_files(*golden_sets(model, options_of(dims=dims), 3))
    compiled = compile_model(model, "browser", None, dims, **options)  # type: ignore[arg-type]
    write_files(bundle_files(compiled, golden), place)


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
    _compile(place / "multiples", pyramid(), {"batch": 1, "height": (8, 32, 4), "width": 8})
    _compile(place / "sizes", detector(30, 3, None))
    write_bundle(compile_model(labels(), "browser"), place / "strings")
    (place / "counter.tflite").write_bytes(counter().content())
    _compile(place / "counter", place / "counter.tflite")
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
