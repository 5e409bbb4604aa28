"""What of the toolchain is installed here, and what each piece gives: the facts of `sterna doctor`."""

from __future__ import annotations

import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import metadata

from sterna.toolchain.compilers import find_program

_PACKAGES = {
    "ziglang": ("compiles and links kernels for every default target", "pip install ziglang"),
    "llvmlite": ("generates code in the process: fast, and without any compiler", "pip install llvmlite"),
}
_PROGRAMS = {
    "clang": ("an alternative compiler: --cc clang", "install clang"),
    "gcc": ("an alternative compiler for this machine: --cc gcc", "install gcc"),
    "arm-none-eabi-gcc": ("an alternative compiler for Cortex-M", "install gcc-arm-none-eabi"),
    "qemu-aarch64": ("runs and tests 64-bit ARM libraries here", "install qemu-user"),
    "qemu-arm": ("runs and tests 32-bit ARM libraries here", "install qemu-user"),
    "qemu-system-arm": ("runs and tests Cortex-M firmware here", "install qemu-system-arm"),
}


@dataclass(frozen=True)
class Tool:
    """A piece of the toolchain. `version` is empty where it is missing or does not say."""

    name: str
    found: bool
    version: str
    gives: str
    fix: str
    path: str = ""


def toolchain_report() -> list[Tool]:
    """Every tool that Sterna can use, installed or not, the needed ones first."""
    with ThreadPoolExecutor() as pool:
        programs = list(pool.map(lambda name: program(name, find_program(name), *_PROGRAMS[name]), _PROGRAMS))
    return [*map(_package, _PACKAGES), *programs]


def _package(name: str) -> Tool:
    gives, fix = _PACKAGES[name]
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return Tool(name, False, "", gives, fix)
    return Tool(name, True, version, gives, fix)


def program(name: str, path: str | None, gives: str, fix: str) -> Tool:
    """A program, where it was found, and what it says of its version."""
    if path is None:
        return Tool(name, False, "", gives, fix)
    try:
        answer = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=20, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        answer = ""
    release = re.search(r"release (\d+\.\d+)", answer) or re.search(r"(\d+\.\d+(?:\.\d+)*)", answer)
    return Tool(name, True, release.group(1) if release else "", gives, fix, path)
