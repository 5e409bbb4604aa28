"""The emulators and engines of this machine: which one runs a target's bundles, and loading bundles into it.

with elsewhere(load_target("raspberrypi4")):
    bundle = load("model")     # a `Bundle` as any other, whose kernels run in qemu-aarch64
"""

from __future__ import annotations

import contextlib
import difflib
import os
import shlex
import shutil
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from sterna.codegen.render import resource
from sterna.emulate.engines import ENGINES
from sterna.errors import error
from sterna.firmware.machines import MACHINES, no_machine, package_of
from sterna.firmware.remote import BoardFunctions
from sterna.runtime import programs
from sterna.runtime.here import why_not_here
from sterna.runtime.remote import Functions
from sterna.targets.description import load_target, target_names
from sterna.targets.target import Target
from sterna_runtime import Bundle, library, load

_TOOL = "sterna_remote"


def why_not_emulated(target: Target) -> str | None:
    """Why no emulator of this machine runs the target's bundles; None where one does."""
    if target.static:
        return _why_no_board(target)
    if (engine := ENGINES.get(target.runs_on)) is not None:
        return engine.why_not()
    words = target.runs_on.split()
    if not words or not words[0].startswith("qemu-"):
        return "nothing here emulates it"
    if _architecture(target) not in programs.MACHINES:
        return f"there is no runtime for {_architecture(target)} in an emulator"
    return None if shutil.which(words[0]) else f"{words[0]} is not installed"


def _why_no_board(target: Target) -> str | None:
    programs_of_boards = [board.program for board in MACHINES.values() if target.llvm_cpu in board.cpus]
    if not programs_of_boards:
        return "nothing here emulates it"
    return None if shutil.which(programs_of_boards[0]) else f"{programs_of_boards[0]} is not installed"


def load_for(directory: str | os.PathLike[str], target: Target, threads: int = 1) -> Bundle:
    """Loads a bundle of a target: where `library.replaced_by` says, else into this process, else into an emulator."""
    if library.is_replaced() or why_not_here(target) is None:
        return load(directory, threads)
    with elsewhere(target):
        return load(directory, threads)


def target_named(name: str) -> Target:
    """The target that a machine's name means where it is no board's.

    Raises:
        SternaError: E0201, there is none; E0507, it is nearly a board's.
    """
    if name not in target_names() and difflib.get_close_matches(name, MACHINES, 1):
        raise no_machine(name)
    return load_target(name)


def named(name: str) -> contextlib.AbstractContextManager[None]:
    """`elsewhere` of a target's name, or that of a board.

    Raises:
        SternaError: as of `load_target` and `elsewhere`.
    """
    if name in MACHINES:
        return library.replaced_by(BoardFunctions(name))
    target = target_named(name)
    if target.runs_on in ENGINES:
        fix = f"run it on {' or '.join(ENGINES)}"
        raise error("E0507", f"no emulator of processors runs bundles for {target.name}", fix=fix)
    return elsewhere(target)


@contextlib.contextmanager
def elsewhere(target: Target) -> Iterator[None]:
    """Within it, bundles are loaded into the emulator of a target; they run there afterwards, too.

    Raises:
        SternaError: E0004 the emulator is not installed; E0507 there is none; E0402, E0403 its program cannot be built.
    """
    with library.replaced_by(_functions(target)):
        yield


def _architecture(target: Target) -> str:
    return target.llvm_triple.split("-")[0]


def _functions(target: Target) -> Functions:
    if (engine := ENGINES.get(target.runs_on)) is not None:
        return engine.functions()
    if (reason := why_not_emulated(target)) is not None:
        if "installed" in reason:
            title = f"{reason}: it runs programs of {target.name} here"
            package = "qemu-user" if not target.static else package_of(reason.split()[0])
            raise error("E0004", title, fix=f"apt-get install {package}")
        raise error("E0507", f"the target {target.name} cannot be run here: {reason}")
    if target.static:
        return BoardFunctions()
    return _started(target.runs_on, str(_program(_architecture(target))))


@lru_cache
def _started(emulator: str, program: str) -> Functions:
    return Functions([*shlex.split(emulator), program])


@lru_cache
def _program(architecture: str) -> Path:
    """The runtime's program for that architecture."""
    root = resource("runtime_c")
    shared = [root / "rpc" / f"{name}.c" for name in ("model", "protocol", "device")]  # what a device answers, too
    return programs.placed(_TOOL, architecture, [root / "tools" / f"{_TOOL}.c", *shared])
