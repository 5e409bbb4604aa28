"""Programs for Windows, run by Wine in a folder for its settings that all tests of a process share."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import tempfile
from functools import lru_cache
from pathlib import Path

import pytest

from sterna_runtime import recipe
from support.tools import ROOT, ZIG
from support.tools import run as run_here

RUNTIME = ROOT / "runtime_c"
TRIPLE = "x86_64-windows-gnu"
#: Debian's package wine64 has it where no path leads.
PLACES = ("wine64", "wine", "/usr/lib/wine/wine64")


def find() -> str | None:
    """The program, or None."""
    return next((found for name in PLACES if (found := shutil.which(name)) is not None), None)


def need() -> str:
    """The program, or a skip."""
    found = find()
    if found is None:
        pytest.skip("needs wine64: runs programs for Windows")
    return found


def _server() -> str:
    return shutil.which("wineserver") or "/usr/lib/wine/wineserver"


@lru_cache(maxsize=1)
def _environment() -> dict[str, str]:
    """Settings are made once per process, which takes some seconds. No dialogs, no menus, nothing of this user's."""
    folder = tempfile.mkdtemp(prefix="sterna-wine-")
    quiet = {"WINEDEBUG": "-all", "WINEDLLOVERRIDES": "mscoree,mshtml,winemenubuilder.exe="}
    environment = {**os.environ, "WINEPREFIX": folder, "DISPLAY": "", **quiet}

    def remove() -> None:
        subprocess.run([_server(), "-k"], env=environment, capture_output=True, check=False, timeout=30)
        shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    # The server stays between programs, as it takes seconds to start, and ends by itself if this process is killed. It
    # and the services that it starts outlive the commands, and would hold a pipe open.
    for command in ([_server(), "-p60"], [need(), "wineboot", "--init"]):
        subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            check=False, timeout=120,
        )  # fmt: skip
    return environment


def call(*command: str | Path, cwd: Path | None = None, timeout: int = 120) -> subprocess.CompletedProcess[str]:
    """Runs a program for Windows, or Wine's own `cmd`."""
    return subprocess.run(
        [need(), *map(str, command)], cwd=cwd, env=_environment(), capture_output=True, encoding="utf-8",
        errors="replace", check=False, timeout=timeout,
    )  # fmt: skip


def run(*command: str | Path, cwd: Path | None = None, timeout: int = 120) -> str:
    """What a program prints; it must succeed."""
    done = call(*command, cwd=cwd, timeout=timeout)
    assert done.returncode == 0, f"{command}: status {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout.replace("\r\n", "\n")


def build_runtime(folder: Path) -> Path:
    """`sterna.dll`, its import library, and `sterna_run.exe` beside them; the program."""
    run_here(*recipe.compile_command(RUNTIME, folder / "sterna.dll", TRIPLE), timeout=600)
    # With the same flags as the library: zig builds Windows's C library once for each way to optimize.
    size = recipe.FLAGS[recipe.FLAGS.index("-Os") : recipe.FLAGS.index("-fvisibility=hidden")]
    flags = ("-target", TRIPLE, "-std=c99", *size, "-fno-sanitize=all", "-DSTERNA_SHARED", f"-I{RUNTIME / 'include'}")
    sources = [RUNTIME / "tools" / "sterna_run.c", RUNTIME / "src" / "json.c"]
    program = folder / "sterna_run.exe"
    run_here(*ZIG, "cc", *flags, *sources, folder / "sterna.lib", "-s", "-o", program, cwd=folder, timeout=600)
    return program


@lru_cache(maxsize=1)
def shared_runtime(folder: Path) -> Path:
    """The program of `build_runtime`, once per process."""
    (folder / "windows").mkdir(exist_ok=True)
    return build_runtime(folder / "windows")
