"""`sterna package --for ios -t metal`: models with kernels for Metal beside those for processors.

No Apple system is here. The objects and libraries are run as in test_ios.py: by what drives Metal, which finds none and
leaves the model to the CPU, and by a device that has memory and computes nothing.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import sterna
from sterna.api import options_of
from sterna.cli import program
from sterna.errors import SternaError
from sterna.package import ios
from sterna.package.slices import members, slices
from sterna.toolchain.check import undefined_symbols
from sterna.toolchain.mach_o import read_mach_o
from sterna_runtime.random_inputs import random_inputs
from support import mach_o_objects
from support.frameworks import FEATURES, PARTS, objects
from support.swift import compile_packages, need_swift
from support.tools import need, run
from support.trained import digits

pytestmark = pytest.mark.family("apple")
#: Both processors, and all systems.
TRIED = ("ios-arm64, arm64", "ios-arm64_x86_64-simulator, x86_64", "macos-arm64_x86_64, arm64")


def packaged(place: Path, *options: str) -> Path:
    shutil.copy(digits().file, place / "digits.onnx")
    given = ["package", str(place / "digits.onnx"), "--for", "ios", "-t", "metal", "-g", "llvm", *options]
    done = CliRunner().invoke(program, [*given, "-o", str(place / "made")])
    assert done.exit_code == 0, done.output
    return place / "made"


@pytest.fixture(scope="module")
def static(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return packaged(tmp_path_factory.mktemp("static"))


@pytest.fixture(scope="module")
def dynamic(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return packaged(tmp_path_factory.mktemp("dynamic"), "--dynamic")


@pytest.mark.parametrize("key", PARTS)
def test_kernels_are_linked_in(key: str, static: Path, dynamic: Path) -> None:
    for place in (static, dynamic):
        data = objects(place, "digits", "DigitsKernels", key)
        assert not undefined_symbols([read_mach_o(each) for each in data])
        assert sum(each.count(b"#include <metal_stdlib>") for each in data) == 1
        assert b"kernels.metal" in b"".join(data)


@pytest.mark.parametrize("kind", ["static", "dynamic"])
@pytest.mark.parametrize("key", TRIED)
def test_it_runs_on_the_device_and_without_one_on_the_cpu(
    key: str, kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    place: Path = request.getfixturevalue(kind)
    _, part = PARTS[key]
    linked = [*objects(place, "digits", "DigitsKernels", key), *objects(place, "sterna-runtime", "SternaC", key)]
    _runs(linked, part.processor, tmp_path)


@pytest.mark.parametrize("key", TRIED[:2])
def test_with_a_node_on_the_cpu(key: str, static: Path, tmp_path: Path) -> None:
    """Whose kernels have symbols of their own, beside those of the model for the CPU."""
    _, part = PARTS[key]
    compiled = ios.compile_part(digits().file, options_of(generator="llvm", name="digits"), part)
    options = options_of("metal", generator="llvm", device_for={"softmax": "cpu"})
    device = ios.compile_device(digits().file, options, "digits", part)
    own = members(part.archive(ios.linked_objects(compiled, part, device)))
    names = {symbol.name for each in own for symbol in read_mach_o(each).symbols if symbol.defined}
    assert {"sterna_digits_library", "sterna_digits_metal_library"} <= names
    _runs([*own, *objects(static, "sterna-runtime", "SternaC", key)], part.processor, tmp_path)


def _runs(linked: list[bytes], processor: str, place: Path) -> None:
    made = mach_o_objects.build(linked, processor, "digits", place)
    with sterna.compile(digits().file, generator="llvm") as here:
        given = random_inputs(here.inputs, seed=3)
        (wanted,) = here.run(given).values()
    next(iter(given.values())).tofile(place / "in0.bin")
    emulator = [need("qemu-aarch64", "runs programs for ARM"), "-cpu", "max"] if processor == "arm64" else []
    command = [f"FEATURES={FEATURES}", *emulator, made, "out", "in0.bin"]
    first, *rest = run("env", "DEVICE=metal", *command, cwd=place).splitlines()
    assert first.startswith("graph.json: cannot be opened")
    assert rest == [
        "Metal is not here: it is a part of macOS and iOS: compile with --target opencl or host",
        "0 launches",
    ]
    got = np.fromfile(place / "out0.bin", wanted.dtype).reshape(wanted.shape)
    assert np.abs(got - wanted).max() <= 1e-5 * np.abs(wanted).max()
    _, where, launches = run("env", "DEVICE=fake", *command, cwd=place).splitlines()
    assert where == "on the device"
    assert int(launches.split()[0]) > 2


def test_the_class_asks_for_the_gpu(static: Path) -> None:
    text = (static / "digits/Sources/DigitsModel/Digits.swift").read_text()
    assert "public init(threads: Int = 1, onlyCPU: Bool = false) throws" in text
    assert "device: device)" in text
    headers = {path.name for path in static.glob("sterna-runtime/*/ios-arm64/*/Headers/*.h")}
    assert {"sterna_device.h", "sterna_metal.h"} <= headers
    (modules,) = static.glob("sterna-runtime/*/ios-arm64/*/Modules/module.modulemap")
    assert set(re.findall(r'header "([\w.]+)"', modules.read_text())) == headers


def test_swift_compiles(static: Path, tmp_path: Path) -> None:
    need_swift()
    shutil.copytree(static, tmp_path / "packages")
    for version in (5, 6):
        assert compile_packages(tmp_path, tmp_path / "packages", version) == ["Sterna", "DigitsModel"]


def test_what_is_refused(tmp_path: Path) -> None:
    given = ["package", str(digits().file), "--for", "ios", "-o", str(tmp_path / "out")]
    for target, code, words in (("opencl", "E0507", "--target metal"), ("arm64", "E0203", "-t metal")):
        done = CliRunner().invoke(program, [*given, "-t", target])
        assert done.exit_code == 1, done.output
        assert code in done.output
        assert words in done.output
    (part, *_) = slices()[0].parts
    options = options_of("metal", generator="llvm", device_for={"*": "cpu"})
    with pytest.raises(SternaError, match="nothing of the model runs on a GPU") as caught:
        ios.compile_device(digits().file, options, "digits", part)
    assert caught.value.codes == ("E0507",)
    assert not (tmp_path / "out").exists()
