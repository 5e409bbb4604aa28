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

import numpy as np
import pytest
from onnx import TensorProto, helper, parser

import sterna
from sterna.api import compile_model, compile_to
from sterna.debug.interpret import interpret
from sterna.driver import Options, compile_graph
from sterna.errors import SternaError
from sterna.frontends.onnx import read
from sterna.toolchain.zig import zig
from sterna_runtime import load
from sterna_runtime.recipe import DEVICES, SHARED_WITH_DEVICES, Platform, compile_command
from support.compiling import check
from support.control_flow import model
from support.cuda_host import HERE, METAL, run_model
from support.every_operator import agree, every_operator, without_float64
from support.half_networks import CONVERSIONS, every_number, half_convolutions, wrong_numbers
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
    trained = sample(name)
    compiled = compile_model(trained.file, METAL.target, shapes=trained.shapes())
    for seed, case in enumerate(trained.cases[:2]):
        found = run_model(compiled, case.inputs, tmp_path, seed, METAL)
        check(found, dict(zip(found, case.outputs, strict=True)), 1e-4)
    # Pointers keep to their address spaces, which are types of their own then.
    file = tmp_path / "checked.metal"
    file.write_text(compiled.source)
    quiet = [f"-Wno-{what}" for what in (*METAL.ignored, "unused-function", "unused-variable")]
    checked = [*METAL.compiler, "-std=c++14", "-fsyntax-only", "-DMETAL_CHECK", "-Wall", "-Werror", *quiet]
    run(need(checked[0], "checks Metal text"), *checked[1:], "-include", HERE / "metal_on_cpu.h", file)


def test_every_number_of_16_bits(tmp_path: Path) -> None:
    """It is widened and rounded by way of the language's `half`."""
    compiled = compile_model(parser.parse_model(model(CONVERSIONS)), METAL.target)
    assert compiled.source.count("half") == 2
    assert wrong_numbers(run_model(compiled, every_number(), tmp_path, 0, METAL)) == []


def test_tensors_stay_in_16_bits(tmp_path: Path) -> None:
    """No tensor between kernels is of float32, and results are what the model's own roundings give."""
    network = half_convolutions()
    compiled = compile_model(network, METAL.target)
    assert {value.dtype for call in compiled.calls for value in call.outputs} == {"float16"}
    given = {"x": np.random.default_rng(1).standard_normal((1, 3, 24, 24)).astype(np.float16)}
    (wanted,) = interpret(read(network), given).values()
    (found,) = run_model(compiled, given, tmp_path, 1, METAL).values()
    assert found.dtype == np.float16
    np.testing.assert_allclose(found.astype(np.float32), wanted.astype(np.float32), 0, 4e-3 * np.abs(wanted).max())


def test_what_has_float64_is_refused() -> None:
    graph, _, _ = every_operator(lambda operator, case: not without_float64(operator, case))
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


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="messages are sent as on x86-64")
def test_against_a_stand_in(tmp_path: Path) -> None:
    """What drives Metal, run: objects are let go of as often as they were had, autoreleased ones in pools; buffers,
    encoders and groups keep to Metal's rules; what a device refuses is said."""
    root = ROOT / "runtime_c"
    gcc, cxx = need("gcc", "builds what drives Metal"), need("g++", "builds the stand-in of Metal")
    sources = [*(f"devices/{name}.c" for name in DEVICES["metal"]), *(f"src/{name}.c" for name in SHARED_WITH_DEVICES)]
    objects = []
    for source in (*sources, "port/posix.c"):
        objects.append(tmp_path / f"{source.replace('/', '_')}.o")
        other = ["-Dsystem_open=fake_open", "-Dsystem_symbol=fake_symbol"] if source.endswith("metal.c") else []
        checked = ["-g", "-fsanitize=address,undefined"]
        run(gcc, "-std=c99", "-O1", *checked, *other, "-Iinclude", "-c", source, "-o", objects[-1], cwd=root)
    made = tmp_path / "metal"
    include = f"-I{root / 'include'}"
    run(
        cxx,
        "-std=c++17",
        "-fsanitize=address,undefined",
        include,
        HERE / "metal_driver.cpp",
        *objects,
        "-o",
        made,
        "-lpthread",
        "-ldl",
    )
    said = dict(line.partition(": ")[::2] for line in run(made).splitlines())
    assert "Test GPU (Metal)" in said
    for name, words in (
        (
            "buffers",
            "kernel increment has 27 inputs and outputs, and functions take 26: compile again with --target metal",
        ),
        ("memory", "kernel twice needs 40000 bytes of threadgroup memory; Test GPU has 32768"),
        ("threads", "kernel twice needs more threads of a group than 32"),
        ("name", "kernel thrice: no reason given"),
        ("text", "kernels.metal cannot be compiled: program_source:1:1: error: expected a kernel"),
        ("room", "there is no room for a buffer of 1099511627776 bytes"),
        ("lost", "Caused GPU Hang Error: if the device was lost, load the model again"),
        ("left", "0 objects, 0 pools"),
    ):
        assert words in said[name]


def test_kernels_end_before_they_have_too_many_buffers(tmp_path: Path) -> None:
    """Functions of Metal have 31 places for buffers, with those that every launch has; other languages have more."""
    names = [(f"c{n}", f"x{n}", f"t{n}") for n in range(14)]
    fed = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])]
    nodes, last = [], "x"
    for condition, other, made in names:
        fed.append(helper.make_tensor_value_info(condition, TensorProto.BOOL, [4]))
        fed.append(helper.make_tensor_value_info(other, TensorProto.FLOAT, [4]))
        nodes.append(helper.make_node("Where", [condition, other, last], [made]))
        last = made
    graph = helper.make_graph(nodes, "net", fed, [helper.make_tensor_value_info(last, TensorProto.FLOAT, [4])])
    source = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    for target, many in (("metal", 2), ("opencl", 1)):
        kernels = json.loads((compile_to(tmp_path / target, source, target) / "graph.json").read_text())["kernels"]
        assert ["device" in kernel for kernel in kernels] == [True] * many


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
