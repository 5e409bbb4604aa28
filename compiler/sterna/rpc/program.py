"""The server as a program: the C runtime and runtime_c/rpc/, built by zig for any machine with Linux."""

from __future__ import annotations

from pathlib import Path

from sterna.codegen.render import resource
from sterna.errors import error
from sterna.runtime import programs
from sterna.targets.target import Target
from sterna_runtime.recipe import this_machine

NAME = "sterna_rpc"
_ARCHITECTURES = {"amd64": "x86_64", "arm64": "aarch64", "armv7l": "armv7", "armv6l": "armv6"}


def architecture_here() -> str:
    """Of this machine, as LLVM's triples name it."""
    machine = this_machine().lower()
    return _ARCHITECTURES.get(machine, machine)


def architecture_of(target: Target) -> str:
    """Of a target.

    Raises:
        SternaError: E0507, its machines have no Linux that could run a server.
    """
    architecture, _, system = target.llvm_triple.partition("-")
    architecture = _ARCHITECTURES.get(architecture, architecture)
    if target.static or target.is_wasm or "linux" not in system or architecture not in programs.MACHINES:
        title = f"there is no server for {target.name}: it is built for Linux on {', '.join(programs.MACHINES)}"
        fix = "elsewhere CMake builds sterna_rpc from runtime_c with the system's compiler"
        raise error("E0507", title, fix=fix)
    return architecture


def server(architecture: str) -> bytes:
    """The program, static: it runs wherever it is copied to. From the cache, if it was built before.

    Raises:
        SternaError: E0402, E0403, it cannot be built; E0507 for an unknown architecture.
    """
    return programs.built(NAME, architecture, _sources(), programs.SMALL)


def server_here() -> Path:
    """The program for this machine, to be started."""
    return programs.placed(NAME, architecture_here(), _sources(), programs.SMALL)


def _sources() -> list[Path]:
    return sorted((resource("runtime_c") / "rpc").glob("*.c"))
