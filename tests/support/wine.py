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


@lru_cache(maxsize=1)
def _environment() -> dict[str, str]:
    """Settings are made once per process, which takes some seconds. No dialogs, no menus, nothing of this user's."""
    folder = tempfile.mkdtemp(prefix="sterna-wine-")
    quiet = {"WINEDEBUG": "-all", "WINEDLLOVERRIDES": "mscoree,mshtml,winemenubuilder.exe="}
    environment = {**os.environ, "WINEPREFIX": folder, "DISPLAY": "", **quiet}

    def remove() -> None:
        server = shutil.which("wineserver") or "/usr/lib/wine/wineserver"
        subprocess.run([server, "-k"], env=environment, capture_output=True, check=False, timeout=30)
        shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    subprocess.run([need(), "wineboot", "--init"], env=environment, capture_output=True, check=False, timeout=120)
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
