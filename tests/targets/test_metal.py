"""The Metal dialect: what loop programs compute in Metal's language, its text compiled by clang with a header in the
place of Metal's own, and run over fibers of the CPU with threads in random orders. No Metal compiler is here: that one
takes the text is not shown. What drives Metal's devices is compiled for macOS, and not run.

STERNA_METAL=all runs every part of the operators.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import subprocess
from pathlib import Path

import pytest

import sterna
from sterna.api import compile_model, compile_to
from sterna.driver import Options, compile_graph
from sterna.errors import SternaError
from sterna.toolchain.zig import zig
from sterna_runtime import load
from sterna_runtime.recipe import DEVICES, SHARED_WITH_DEVICES, Platform, compile_command
from support.compiling import check
from support.cuda_host import HERE, METAL, run_model
from support.every_operator import agree, every_operator, without_float64
from support.tools import ROOT, need, run
from support.trained import digits, sample

PARTS = 16
SAMPLED = range(PARTS) if os.environ.get("STERNA_METAL") == "all" else (5,)


@pytest.mark.parametrize("part", SAMPLED)
def test_every_operator(part: int, tmp_path: Path) -> None:
    graph, inputs, expected = every_operator(without_float64, part, PARTS)
    compiled = compile_graph(graph, "small", Options(METAL.target))
    agree(run_model(compiled, inputs, tmp_path, part + 1, METAL), expected)


@pytest.mark.parametrize("name", ["digits"])
def test_a_network(name: str, tmp_path: Path) -> None:
    model = sample(name)
    compiled = compile_model(model.file, METAL.target, shapes=model.shapes())
    for seed, case in enumerate(model.cases[:2]):
        found = run_model(compiled, case.inputs, tmp_path, seed, METAL)
        check(found, dict(zip(found, case.outputs, strict=True)), 1e-4)
    # Pointers keep to their address spaces, which are types of their own then.
    file = tmp_path / "checked.metal"
    file.write_text(compiled.source)
    quiet = [f"-Wno-{what}" for what in (*METAL.ignored, "unused-function", "unused-variable")]
    checked = [*METAL.compiler, "-std=c++14", "-fsyntax-only", "-DMETAL_CHECK", "-Wall", "-Werror", *quiet]
    run(need(checked[0], "checks Metal text"), *checked[1:], "-include", HERE / "metal_on_cpu.h", file)


def test_what_has_float64_is_refused() -> None:
    graph, _, _ = every_operator(lambda operator, case: operator.name == "pow")
    with pytest.raises(SternaError, match=r"E0205.*the dialect metal has no float64"):
        compile_graph(graph, "small", Options(METAL.target))


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_to(tmp_path_factory.mktemp("metal") / "digits", digits().file, "metal")


def test_a_bundle(bundle: Path, tmp_path: Path) -> None:
    """Its kernels are all the device's, and their text is what the tests above run."""
    graph = json.loads((bundle / "graph.json").read_text())
    (device,) = graph["devices"]
    assert (device["kind"], device["module"], device["needs"]) == ("metal", "kernels.metal", [])
    assert all(kernel["device"] == 1 for kernel in graph["kernels"])
    quiet = [f"-Wno-{what}" for what in (*METAL.ignored, "unused-function", "unused-variable")]
    checked = [*METAL.compiler, "-std=c++14", "-fsyntax-only", "-DMETAL_CHECK", "-Wall", "-Werror", *quiet]
    text = tmp_path / "kernels.metal"
    text.write_bytes((bundle / "kernels.metal").read_bytes())
    run(need(checked[0], "checks Metal text"), *checked[1:], "-include", HERE / "metal_on_cpu.h", text)
    with pytest.raises(SternaError, match="no device"):
        compile_model(digits().file, "metal", device_for={"softmax": "gpu"})


@pytest.mark.skipif(platform.system() == "Darwin", reason="elsewhere kernels on the CPU are for another machine")
def test_kernels_on_the_cpu_are_for_a_mac(bundle: Path, tmp_path: Path) -> None:
    """Without --host; what no Mac loads is refused, and so is to run such a model here."""
    mixed = compile_to(tmp_path / "mixed", digits().file, "metal", device_for={"softmax*": "cpu"})
    graph = json.loads((mixed / "graph.json").read_text())
    assert (graph["library"], graph["target"]["triple"].split("-")[0]) == ("model.dylib", "aarch64")
    with pytest.raises(SternaError, match=r'E0203.*arm64 gives no library .*metal(.|\n)*host="macos-arm64"'):
        compile_to(tmp_path / "linux", digits().file, "metal", host="arm64")
    with pytest.raises(SternaError, match=r"E0507.*cannot be loaded here: (it is for|its library is model.dylib)"):
        sterna.compile(digits().file, "metal")


@pytest.mark.skipif(platform.system() == "Darwin", reason="needs a system without Metal")
def test_other_systems_refuse_it(bundle: Path, tmp_path: Path) -> None:
    with pytest.raises(SternaError) as caught:
        load(bundle)
    assert caught.value.codes == ("E0507",)
    assert 'needs the device "metal", which is not here' in str(caught.value)
    # What drives it is built here as well, and says why it cannot.
    root = ROOT / "runtime_c"
    sources = [*(f"devices/{name}.c" for name in DEVICES["metal"]), *(f"src/{name}.c" for name in SHARED_WITH_DEVICES)]
    flags = ("-std=c99", "-Wall", "-Wextra", "-Wconversion", "-Wpedantic", "-Werror", "-fPIC", "-shared", "-Iinclude")
    made = tmp_path / "libsterna_metal.so"
    gcc = need("gcc", "builds what drives Metal")
    run(gcc, *flags, *sources, "port/posix.c", "-o", made, "-lpthread", "-ldl", cwd=root)

    class Error(ctypes.Structure):
        _fields_ = (("status", ctypes.c_int32), ("message", ctypes.c_char * 256))

    text, problem = ctypes.create_string_buffer(256), Error()
    assert ctypes.CDLL(str(made)).sterna_metal_describe(text, ctypes.c_size_t(256), ctypes.byref(problem)) != 0
    assert problem.message.decode().startswith("Metal is not here: it is a part of macOS and iOS")


@pytest.mark.parametrize("machine", ["arm64", "x86_64"])
def test_what_drives_it_is_built_for_macos(machine: str, tmp_path: Path) -> None:
    """As the wheel has it: a library that needs the system's own and exports its two functions."""
    made = tmp_path / "libsterna_metal.dylib"
    command = compile_command(ROOT / "runtime_c", made, Platform("Darwin", machine).target, kind="metal")
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    data = made.read_bytes()
    assert data[:4] == b"\xcf\xfa\xed\xfe"
    assert b"_sterna_metal_describe\0" in data
    strict = zig(
        "cc", "-target", Platform("Darwin", machine).target, "-std=c99", "-Wall", "-Wextra", "-Wconversion", "-Werror"
    )
    source = ROOT / "runtime_c" / "devices" / "metal.c"
    run(*strict, f"-I{ROOT / 'runtime_c' / 'include'}", "-c", source, "-o", tmp_path / "metal.o")
