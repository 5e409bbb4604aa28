"""How the C runtime is compiled with ziglang.

hatch_build.py loads this file by its path, in an environment that has neither this package nor its dependencies, so it
imports nothing but the standard library.
"""

from __future__ import annotations

import platform
import sys
from pathlib import Path

SOURCES = (
    *("bundle", "control", "cpu", "dims", "graph", "hash", "heap", "json", "library", "manifest", "model", "pool"),
    *("run", "status", "values"),
)
"""The files of runtime_c/src, without the extension."""

FLAGS = (
    "-std=c99",
    "-Os",
    *("-Xclang", "-Oz"),  # zig makes -Os of a plain -Oz
    "-g0",
    "-fvisibility=hidden",
    "-fno-sanitize=all",
    "-fno-stack-protector",
    "-ffunction-sections",
    "-fdata-sections",
    "-DSTERNA_SHARED",
    "-DSTERNA_BUILDING",
)
"""For size: the time goes into the kernels, which are not compiled here."""


def library_name(system: str | None = None) -> str:
    """File name of the shared library on a system as `platform.system()` names it (here: this one)."""
    names = {"Windows": "sterna.dll", "Darwin": "libsterna.dylib"}
    return names.get(system or platform.system(), "libsterna.so")


def zig_target(system: str, machine: str) -> str:
    """The zig triple for a wheel of this system and machine, with the oldest system version that is supported."""
    cpu = {"amd64": "x86_64", "arm64": "aarch64", "armv7l": "arm"}.get(machine.lower(), machine.lower())
    if system == "Darwin":
        return f"{cpu}-macos.11.0"
    if system == "Windows":
        return f"{cpu}-windows-gnu"
    if system == "Linux":
        libc = "gnueabihf" if cpu == "arm" else "gnu"
        # manylinux2014 is glibc 2.17; RISC-V came with 2.27.
        return f"{cpu}-linux-{libc}.{'2.27' if cpu.startswith('riscv') else '2.17'}"
    return "native"


def compile_command(sources: Path, output: Path, target: str) -> list[str]:
    """The command line that builds the runtime from the folder `sources` (runtime_c) with ziglang."""
    windows = "windows" in target
    command = [sys.executable, "-m", "ziglang", "cc", *FLAGS, "-target", target, f"-I{sources / 'include'}", "-shared"]
    if not windows:
        # On Windows zig would give the last two to its own C library too, which does not compile with them.
        command += ["-fPIC", "-fno-unwind-tables", "-fno-asynchronous-unwind-tables"]
    if "linux" in target and not target.startswith("arm-"):  # at link time zig forgets the thumb mode
        command.append("-flto")
    if "linux" in target and target.startswith("x86_64"):
        command.append("-fno-plt")
        command.append("-fomit-frame-pointer")  # zig keeps it unless told
    if target.startswith("arm-"):
        command += ["-Xclang", "-target-feature", "-Xclang", "+thumb-mode"]  # shorter; zig takes no -mthumb
    command += [str(sources / "src" / f"{name}.c") for name in SOURCES]
    command.append(str(sources / "port" / ("windows.c" if windows else "posix.c")))
    if "linux" in target:
        command += ["-Wl,--gc-sections", "-Wl,-Bsymbolic", "-Wl,--hash-style=gnu", "-Wl,-soname,libsterna.so"]
        command += ["-lpthread", "-ldl"]
    elif "macos" in target:
        command.append(f"-Wl,-install_name,@rpath/{output.name}")
    elif windows:
        # What programs are linked with; zig writes one in any case, and would name it after the first source.
        command.append(f"-Wl,--out-implib,{output.with_suffix('.lib')}")
    return [*command, "-s", "-o", str(output)]
