"""Bundles for firmware as libraries of the ecosystems of microcontrollers: Arduino, PlatformIO, Zephyr, ESP-IDF,
CMSIS-Pack and plain CMake. Each has the same sources and an example that runs the model on a recorded input.
"""

from __future__ import annotations

import io
import math
import os
import re
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.utils import parseaddr
from pathlib import Path

import numpy as np

from sterna.bundle.install import Files, install
from sterna.codegen.render import render_template, resource
from sterna.errors import error
from sterna.firmware.build import render_script
from sterna.firmware.description import Firmware, Tensor, read_firmware
from sterna.firmware.machines import MACHINES, gcc_words
from sterna.package.npm import license_text
from sterna.package.placing import placing
from sterna_runtime.abi import aligned
from sterna_runtime.advice import Advice, Option
from sterna_runtime.golden import NAMES, GoldenSet, read_golden
from sterna_runtime.inputs import TensorSpec
from sterna_runtime.ownership import without_manifest
from sterna_runtime.random_inputs import random_inputs

_VERSION = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,62}")
#: How CMSIS-Pack calls the processors that LLVM calls so.
_CORES = {
    "cortex-m0plus": "Cortex-M0+", "cortex-m3": "Cortex-M3", "cortex-m4": "Cortex-M4", "cortex-m7": "Cortex-M7",
    "cortex-m33": "Cortex-M33", "cortex-m55": "Cortex-M55", "cortex-m85": "Cortex-M85",
}  # fmt: skip
#: Boards of Zephyr that QEMU emulates, by what LLVM calls their processors.
_ZEPHYR_BOARDS = {
    "cortex-m0plus": "mps2/an385", "cortex-m3": "mps2/an385", "cortex-m4": "mps2/an386", "cortex-m7": "mps2/an500",
    "cortex-m33": "mps2/an521/cpu0", "cortex-m55": "mps3/corstone300/an547", "generic-rv32": "qemu_riscv32",
}  # fmt: skip
#: What a model in a package is not called, as its header and its build's target have its name: headers of C and of
#: Arduino, files of the examples, and targets that builds have.
_TAKEN = frozenset(
    """
    assert complex ctype fenv float inttypes iso646 limits locale math setjmp signal stdalign stdarg stdatomic stdbool
    stddef stdint stdio stdlib stdnoreturn string tgmath threads time uchar wchar wctype
    arduino board main sample
    all app clean gcc help install run test zephyr
    """.split()  # noqa: SIM905 (fifty quoted words are harder to read)
)
#: Bytes of the stack on which an example runs, half of which are for what is not the model's, by the ecosystem; where
#: the model's stack is not known, the double.
_STACKS = {"zephyr": 4096, "esp-idf": 8192}
_BOARD = ("board.h", "common.c")
#: Those whose libraries may bring files for the linker.
_LINKING = frozenset(("cmake", "zephyr", "esp-idf"))
_VENDOR = "Sterna"
_ROW = 100  # characters of numbers in a line of C

Texts = dict[str, bytes]


@dataclass(frozen=True)
class _Package:
    """What all kinds are made of.

    Args:
        sources: the model's files that are compiled, by name; further: weights in a file of their own, and where they
            lie, for the linker.
        values: of the templates.
    """

    firmware: Firmware
    title: str
    header: str
    sources: Texts
    further: Texts
    values: Mapping[str, object]

    def text(self, template: str, **more: object) -> bytes:
        return render_template(f"package/mcu/{template}.j2", **{**self.values, **more}).encode()

    def library(self, sources: str, headers: str) -> Texts:
        """The files of the model below folders of those names."""
        place = self.firmware.place
        header = without_manifest((place / self.firmware.header).read_bytes())
        files = {f"{sources}/{name}": data for name, data in {**self.sources, **self.further}.items()}
        return {**files, f"{headers}/{self.header}": header, "LICENSE": license_text()}

    def named(self, folder: str) -> list[str]:
        return [f"{folder}/{name}" for name in self.sources]

    def stack(self, kind: str) -> int:
        """Bytes of the stack on which the example of a kind runs."""
        usual, taken = _STACKS[kind], self.firmware.stack_bytes
        return aligned(2 * usual if taken is None else max(usual, usual // 2 + taken))

    def readme(self, kind: str, example: str, steps: str) -> Texts:
        return {"README.md": self.text("README.md", kind=kind, example=example, steps=steps)}


def _arduino(package: _Package) -> Texts:
    steps = "Put this folder into the sketchbook's `libraries`, or install it as .zip, and open File > Examples."
    return {
        **package.library("src", "src"),
        **package.readme("an Arduino library", "`examples/Run`", steps),
        "library.properties": package.text("arduino.properties"),
        "keywords.txt": package.text("arduino.keywords"),
        "examples/Run/Run.ino": package.text("arduino.ino"),
        "examples/Run/sample.h": package.text("sample.h"),
    }


def _platformio(package: _Package) -> Texts:
    steps = "In a project's platformio.ini: `lib_deps = symlink://PATH/OF/THIS/FOLDER`, or put it into `lib`."
    return {
        **package.library("src", "include"),
        **package.readme("a PlatformIO library", "`examples/run`", steps),
        "library.json": package.text("platformio.json"),
        "examples/run/main.c": package.text("main.c", kind="platformio"),
        "examples/run/sample.h": package.text("sample.h"),
    }


def _zephyr(package: _Package) -> Texts:
    steps = "In a workspace: `west build -b BOARD samples/run`. Elsewhere ZEPHYR_EXTRA_MODULES names this folder."
    symbol = f"STERNA_{package.firmware.model.upper()}"  # Zephyr has symbols such as SENSOR of its own
    more = {"symbol": symbol, "sources": package.named("src")}
    return {
        **package.library("src", "include"),
        **package.readme("a Zephyr module", "`samples/run`", steps),
        "zephyr/module.yml": package.text("zephyr.module.yml"),
        "CMakeLists.txt": package.text("zephyr.CMakeLists.txt", **more),
        "Kconfig": package.text("zephyr.Kconfig", **more),
        "samples/run/CMakeLists.txt": package.text("zephyr.sample.CMakeLists.txt"),
        "samples/run/prj.conf": package.text(
            "zephyr.prj.conf", **more, stack=package.stack("zephyr"), has_fpu=package.firmware.processor.has_fpu
        ),
        "samples/run/sample.yaml": package.text(
            "zephyr.sample.yaml", board=_ZEPHYR_BOARDS.get(package.firmware.processor.llvm_cpu)
        ),
        "samples/run/src/main.c": package.text("main.c", kind="zephyr"),
        "samples/run/src/sample.h": package.text("sample.h"),
    }


def _esp_idf(package: _Package) -> Texts:
    steps = "In `examples/run`: `idf.py set-target CHIP build flash monitor`. A project takes it from `components`."
    return {
        **package.library("src", "include"),
        **package.readme("a component of ESP-IDF", "`examples/run`", steps),
        "CMakeLists.txt": package.text("esp.CMakeLists.txt", sources=package.named("src")),
        "idf_component.yml": package.text("esp.component.yml"),
        "examples/run/CMakeLists.txt": package.text("esp.example.CMakeLists.txt"),
        "examples/run/sdkconfig.defaults": package.text("esp.sdkconfig", stack=package.stack("esp-idf")),
        "examples/run/main/CMakeLists.txt": package.text("esp.main.CMakeLists.txt"),
        "examples/run/main/idf_component.yml": package.text("esp.main.yml", component=package.title),
        "examples/run/main/main.c": package.text("main.c", kind="esp-idf"),
        "examples/run/main/sample.h": package.text("sample.h"),
    }


def _cmsis_pack(package: _Package) -> Texts:
    core = _CORES.get(package.firmware.processor.llvm_cpu)
    if core is None:
        title = f"CMSIS-Packs are for Cortex-M; the model was compiled for {package.firmware.target}"
        raise error("E0203", title, fix=Advice(Option("target", "cortex-m4")))
    stem = f"{_VENDOR}.{package.title}"
    steps = f"`cpackget add {stem}.{package.values['version']}.pack`, then select the component Machine Learning:Model."
    more = {"vendor": _VENDOR, "date": "1980-01-01", "cores": [core], "sources": package.named("src")}
    files = {
        **package.library("src", "include"),
        **package.readme("a CMSIS-Pack", "`examples/run`", steps),
        f"{stem}.pdsc": package.text("cmsis.pdsc", **more),
        "examples/run/main.c": package.text("main.c", kind="cmsis-pack"),
        "examples/run/sample.h": package.text("sample.h"),
    }
    return {**files, f"{stem}.{package.values['version']}.pack": _zip(files)}


def _cmake(package: _Package) -> Texts:
    model = package.firmware.model
    steps = f"In a project: `add_subdirectory(THIS/FOLDER)` and `target_link_libraries(app {model})`."
    files = {
        **package.library("src", "include"),
        "CMakeLists.txt": package.text("cmake.CMakeLists.txt", sources=package.named("src")),
    }
    words = gcc_words(package.firmware.processor)
    machines = (m for m in MACHINES.values() if package.firmware.processor.llvm_cpu in m.cpus)
    machine = next(machines, None)
    if words is None or machine is None:  # nothing that the example could run on here
        example = {"example/main.c": package.text("main.c", kind="cmake"), "example/sample.h": package.text("sample.h")}
        return {**files, **example, **package.readme("a CMake project", "`example/main.c`", steps)}
    place = resource("templates") / "firmware"
    steps += (
        "\n\nThe example is for a board that QEMU emulates:\n\n"
        "    cmake -B build -DCMAKE_TOOLCHAIN_FILE=toolchain.cmake && cmake --build build\n"
        f"    {machine.program} -M {machine.name} -display none -monitor none -serial none "
        "-semihosting-config enable=on,target=native -kernel build/example/run.elf"
    )
    return {
        **files,
        **package.readme("a CMake project", "`example`", steps),
        "toolchain.cmake": package.text("cmake.toolchain", gcc=words),
        "example/CMakeLists.txt": package.text(
            "cmake.example.CMakeLists.txt", machine=machine.name, start=machine.start, defines=machine.defines
        ),
        "example/main.c": package.text("board_main.c"),
        "example/sample.h": package.text("sample.h"),
        "example/board.ld": render_script(machine).encode(),
        **{f"example/{name}": (place / name).read_bytes() for name in (*_BOARD, machine.start)},
    }


#: What makes the files, by the kind's name.
KINDS: dict[str, Callable[[_Package], Texts]] = {
    "arduino": _arduino,
    "platformio": _platformio,
    "zephyr": _zephyr,
    "esp-idf": _esp_idf,
    "cmsis-pack": _cmsis_pack,
    "cmake": _cmake,
}


def firmware_package(
    kind: str,
    bundle: str | os.PathLike[str],
    output: str | os.PathLike[str],
    name: str | None = None,
    version: str = "1.0.0",
    maintainer: str | None = None,
) -> Path:
    """Writes a package into a new or empty folder.

    Args:
        kind: one of KINDS; bundle: one for firmware, whose first golden set, if it has one, is the recorded input.
        name: of the package; by default the model's. maintainer: "Name <address>".

    Raises:
        SternaError: E0006, E0503 to E0505 of the bundle; E0203 the name, the version or the bundle is not for that
            kind; E0204 the place is taken or cannot be written. Nothing was written then.
    """
    firmware = read_firmware(bundle)
    title = name or firmware.model
    _check(kind, firmware, title, version)
    place = Path(output)
    if place.is_dir() and any(place.iterdir()):
        raise error("E0204", "the output directory is not empty", str(place), fix="name a new directory")
    files = KINDS[kind](_package(firmware, title, version, maintainer or "unknown"))
    with placing(place):
        install(place, Files(files, ("README.md",)))
    return place


def _check(kind: str, firmware: Firmware, title: str, version: str) -> None:
    """Raises E0203, for names and versions that an ecosystem refuses, and models that packages do not take."""
    if firmware.model in _TAKEN:
        what = f'a model called "{firmware.model}" has the header {firmware.model}.h, or a target, of something else'
        fix = Advice("compile it with ", Option("name", f"{firmware.model}_model"))
        raise error("E0203", what, str(firmware.place), fix=fix)
    if not _NAME.fullmatch(title) or (kind == "arduino" and title.lower().startswith("arduino")):
        raise error("E0203", f'"{title}" is no name of a library for {kind}', fix=Advice(Option("name", "my-model")))
    if not _VERSION.fullmatch(version):
        fix = Advice(Option("package-version", "1.0.0"))
        raise error("E0203", f'"{version}" is no version of the form 1.0.0', fix=fix)
    if _link(firmware) and kind not in _LINKING:
        title = f"the weights have an address, which a library of {kind} cannot tell the linker"
        fix = Advice("compile it without ", Option("weights-address"), f", or for {', '.join(sorted(_LINKING))}")
        raise error("E0203", title, str(firmware.place), fix=fix)
    if firmware.pools:
        names = ", ".join(pool.name for pool in firmware.pools)
        title = f"the model takes its memories one by one ({names}), and the examples of packages have one arena"
        raise error("E0203", title, fix=Advice("compile it for a target with one memory, without ", Option("pools")))


def _package(firmware: Firmware, title: str, version: str, maintainer: str) -> _Package:
    header, golden = f"{firmware.model}.h", _recorded(firmware)
    include = f'#include "{firmware.header}"'.encode(), f'#include "{header}"'.encode()
    sources = {
        _file(firmware, source): (firmware.place / source).read_bytes().replace(*include) for source in firmware.sources
    }
    further = _further(firmware)
    data = _file(firmware, firmware.params)
    sources = {
        name: text.replace(f'"{firmware.params}"'.encode(), f'"{data}"'.encode()) if _assembled(name) else text
        for name, text in sources.items()
    }
    expected = zip(firmware.outputs, golden.outputs.values(), strict=False)
    maintainer = " ".join(maintainer.split())
    author, address = parseaddr(maintainer)
    values = {
        "title": title,
        "version": version,
        "maintainer": maintainer,
        "author": author or maintainer,
        "address": address if "@" in address else "",
        "model": firmware.model,
        "target": firmware.target,
        "header": header,
        "inputs": firmware.inputs,
        "outputs": firmware.outputs,
        "resets": firmware.resets,
        "alignment": firmware.alignment,
        "arena_bytes": firmware.arena_bytes,
        "params_bytes": firmware.params_bytes,
        "assembler": next((f"src/{name}" for name in sources if _assembled(name)), ""),
        "data": f"src/{data}",
        "link": _link(firmware),
        "weights_address": firmware.weights_address,
        "input": "a recorded input" if golden.outputs else "a random input",
        "as_recorded": "as recorded" if golden.outputs else "done",
        "otherwise": "not as recorded" if golden.outputs else "failed",
        "samples": [_data(t, a) for t, a in zip(firmware.inputs, golden.inputs.values(), strict=True)],
        "expected": [_data(tensor, array, golden.tolerances) for tensor, array in expected],
    }
    return _Package(firmware, title, header, sources, further, values)


def _further(firmware: Firmware) -> Texts:
    """The file of the weights, where no C file has them, and the linker's."""
    apart = firmware.script or any(map(_assembled, firmware.sources))
    names = [*([firmware.params] if apart else []), *([firmware.script] if firmware.script else [])]
    return {_file(firmware, name): (firmware.place / name).read_bytes() for name in names}


def _link(firmware: Firmware) -> str:
    """What CMake gives the linker, that it knows where the weights lie; empty where it need not."""
    script = f"${{CMAKE_CURRENT_SOURCE_DIR}}/src/{_file(firmware, firmware.script)}" if firmware.script else ""
    return f"-Wl,{firmware.link_option}" if firmware.link_option else script


def _assembled(name: str) -> bool:
    return name.endswith(".S")


def _file(firmware: Firmware, source: str) -> str:
    """The name of a source in a package: two models in one project must not have files of one name."""
    return f"{firmware.model}.c" if Path(source).stem == Path(firmware.header).stem else f"{firmware.model}_{source}"


def _recorded(firmware: Firmware) -> GoldenSet:
    """The bundle's first golden set; without one random inputs, and nothing that is expected."""
    if all((firmware.place / name).is_file() for name in NAMES):
        return read_golden(firmware.place)[2][0]
    specs = [TensorSpec(tensor.name, tensor.numpy, tensor.dims) for tensor in firmware.inputs]
    return GoldenSet(random_inputs(specs), {})


def _data(tensor: Tensor, array: np.ndarray, tolerances: Mapping[str, float] | None = None) -> dict[str, object]:
    """A tensor as the template of samples has it: its numbers in C, in lines."""
    floating = tensor.type in ("float", "double")
    stored = np.ascontiguousarray(array, tensor.numpy).reshape(-1)
    if not floating:
        stored = stored.view({1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}[stored.itemsize])
        if tensor.type.startswith("u"):
            stored = stored.view(f"u{stored.itemsize}")
    words = [_float(value, tensor.type) if floating else f"{value}" for value in stored.tolist()] or ["0"]
    rows = [""]
    for word in words:
        if len(rows[-1]) + len(word) > _ROW:
            rows.append("")
        rows[-1] += f", {word}" if rows[-1] else word
    most = float(np.abs(stored[np.isfinite(stored)]).max(initial=0.0)) if floating else 0.0
    allowed = max(most, 1e-6) * max(1e-4, (tolerances or {}).get(tensor.name, 0.0))
    return {
        "type": tensor.type, "identifier": tensor.identifier, "elements": tensor.elements, "rows": rows,
        "is_float": floating, "tolerance": _float(allowed, tensor.type),
    }  # fmt: skip


def _float(value: float, kind: str) -> str:
    if not math.isfinite(value):
        return "0.0 / 0.0" if math.isnan(value) else f"{'-' if value < 0 else ''}1.0 / 0.0"
    return f"{float(value)!r}f" if kind == "float" else repr(float(value))


def _zip(files: Texts) -> bytes:
    """The same files give the same bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in sorted(files.items()):
            archive.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()
