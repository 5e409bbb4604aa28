"""Nodes of devices in the C runtime, on a device that fails at every call in turn, under sanitizers."""

from __future__ import annotations

import platform
import shutil
from pathlib import Path

import pytest

from sterna.api import compile_to
from sterna_runtime import recipe
from support.tools import ROOT, run
from support.trained import digits

RUNTIME = ROOT / "runtime_c"


@pytest.mark.skipif(platform.system() == "Windows", reason="needs POSIX: builds port/posix.c")
def test_every_call_of_a_device_may_fail(tmp_path: Path) -> None:
    if shutil.which("gcc") is None:
        pytest.skip("needs gcc: compiles the C tests with sanitizers")
    bundle = compile_to(tmp_path / "bundle", digits().file, "opencl", device_for={"softmax": "cpu"})
    whole = compile_to(tmp_path / "whole", digits().file, "opencl")
    sources = [RUNTIME / "src" / f"{name}.c" for name in recipe.SOURCES]
    sources += [RUNTIME / "port" / "posix.c", RUNTIME / "devices" / "nodes.c", RUNTIME / "test" / "test_devices.c"]
    flags = ["-std=c99", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-g", "-O1"]
    flags += ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-DSTERNA_CHUNK_BYTES=32"]
    binary = tmp_path / "test_devices"
    run("gcc", *flags, f"-I{RUNTIME / 'include'}", *sources, "-o", binary, "-lpthread", "-ldl")
    assert run(binary, bundle, whole).endswith("0 failures\n")
