"""A folder of C: the runtime's sources, a bundle, and a program that runs it, for any toolchain."""

from __future__ import annotations

import os
import re
from pathlib import Path

from sterna.bundle.install import Files, install
from sterna.codegen.render import render_template, resource
from sterna.package.native import Native, driver_files, read_native, runtime_sources
from sterna.package.npm import license_text
from sterna.package.placing import placing
from sterna_runtime.advice import Advice, Option
from sterna_runtime.errors import error
from sterna_runtime.recipe import SOURCES

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}")
#: Names of other things in the folder, and of targets that CMake has in every project.
_TAKEN = frozenset(("model", "runtime", "license", "all", "clean", "depend", "edit_cache", "help", "install", "package",
                    "package_source", "preinstall", "rebuild_cache", "test"))  # fmt: skip
_TEMPLATES = ("main.c", "CMakeLists.txt", "README.md")
_STATIC = "runtime/tools/static_dlopen.c"  # opens kernels in the static programs that zig builds with musl


def c_package(bundle: str | os.PathLike[str], output: str | os.PathLike[str], name: str | None = None) -> Path:
    """Writes the folder, a new or empty one.

    Args:
        name: of the program; by default the model's.

    Raises:
        SternaError: E0006 or E0503 to E0507, it is no whole bundle, or is for browsers; E0203 no program is called so;
            E0204 the place is taken or cannot be written. Nothing was written then.
    """
    native = read_native(bundle)
    program = name or native.model.replace("_", "-").lower()
    if not _NAME.fullmatch(program) or program in _TAKEN:
        fix = Advice(Option("name", "my-model"))
        raise error("E0203", f'"{program}" is no name for a program of this folder', fix=fix)
    place = Path(output)
    if place.is_dir() and any(place.iterdir()):
        raise error("E0204", "the output directory is not empty", str(place), fix="name a new directory")
    files = {**native.files_of_bundle, **runtime_sources(native.devices), "LICENSE": license_text()}
    if "musl" in native.triple:
        files[_STATIC] = (resource("runtime_c") / "tools" / "static_dlopen.c").read_bytes()
    files |= {file: _render(file, native, program) for file in _TEMPLATES}
    with placing(place):
        install(place, Files(files, ("CMakeLists.txt",)))
    return place


def commands(native: Native, program: str) -> tuple[str, str]:
    """How the program is built in its folder: by the machine's compiler, and by zig from another machine."""
    windows = "windows" in native.triple
    files = f"main.c runtime/src/*.c runtime/port/{'windows' if windows else 'posix'}.c"
    files += "".join(f" runtime/devices/{name}.c" for name in driver_files(native.devices))
    if native.linked:
        files += " model/kernels.c -ffp-contract=off"
    optimized = "-Os -g0" if windows else "-O2"  # on Windows kernels are never linked in, and they take the time
    rest = f"-std=c99 {optimized} -Iruntime/include -Iruntime/src -Iruntime/port {files}"
    libraries = "" if windows else "-lpthread -lm "
    output = f"{program}.exe" if windows else program
    static = f"{_STATIC} -static " if "musl" in native.triple and not native.linked else ""
    machine = "".join(f"{word} " for word in native.machine)
    here = f"cc {rest} {libraries}{'' if windows else '-ldl '}-o {output}"
    return here, f"python -m ziglang cc {machine}{rest} {static}{libraries}-o {output}"


def _render(template: str, native: Native, program: str) -> bytes:
    here, there = commands(native, program)
    return render_template(
        f"package/c/{template}.j2",
        program=program,
        model=native.model,
        linked=native.linked,
        sources=SOURCES,
        devices=native.devices,
        drivers=driver_files(native.devices),
        machine=native.triple or "any machine",
        here=here,
        there=there,
        inputs=native.signature("inputs"),
        outputs=native.signature("outputs"),
    ).encode()
