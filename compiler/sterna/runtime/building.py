"""Building the C runtime from its sources: in a source checkout only, as a wheel brings the library along.

A module of its own, so that a program that runs a bundle does not load what only a build needs. Most often there is
nothing to build here either: what only the compiler's run needs is imported there, and no module that loads OpenSSL is
used to tell whether the sources have changed.
"""

from __future__ import annotations

import os
import platform
from importlib.util import source_hash
from pathlib import Path

from sterna.errors import error
from sterna.runtime.recipe import FLAGS, SOURCES, compile_command, library_name, zig_target

_PACKAGE = Path(__file__).resolve().parent.parent


def cache_directory() -> Path:
    """Where what Sterna may build again is kept: $STERNA_CACHE_DIR, else the user's cache directory."""
    given = os.environ.get("STERNA_CACHE_DIR")
    if given:
        return Path(given)
    if platform.system() == "Windows" and os.environ.get("LOCALAPPDATA"):
        return Path(os.environ["LOCALAPPDATA"]) / "sterna" / "cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sterna"


def runtime_sources() -> Path | None:
    """The folder runtime_c: in an installed package beside the modules, in a checkout beside compiler/."""
    for folder in (_PACKAGE / "runtime_c", _PACKAGE.parent.parent / "runtime_c"):
        if (folder / "include" / "sterna.h").is_file():
            return folder
    return None


def _content_key(sources: Path, target: str) -> str:
    parts = [repr((FLAGS, SOURCES, target)).encode()]
    for path in sorted([*sources.glob("*/*.c"), *sources.glob("*/*.h")]):
        parts += (path.name.encode(), path.read_bytes())
    return source_hash(b"\0".join(parts)).hex()


def build(sources: Path, target: str | None = None) -> Path:
    """Builds the runtime into the cache directory unless it is there already; returns the library's path.

    Two processes may build at the same time: each writes its own file, and the renaming is atomic.
    """
    target = target or zig_target(platform.system(), platform.machine())
    kept = cache_directory() / "runtime" / _content_key(sources, target) / library_name()
    if kept.is_file():
        return kept
    import shutil  # noqa: PLC0415 (as above: most often there is nothing to build)
    import subprocess  # noqa: PLC0415
    import tempfile  # noqa: PLC0415

    kept.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(dir=kept.parent))
    try:
        fresh = scratch / kept.name
        result = subprocess.run(
            compile_command(sources, fresh, target), capture_output=True, text=True, check=False, cwd=scratch
        )
        if result.returncode != 0 or not fresh.is_file():
            missing = "No module named" in result.stderr
            raise error(
                "E0401",
                "the C runtime could not be compiled",
                *result.stderr.strip().splitlines()[-5:],
                fix="pip install ziglang" if missing else None,
            )
        fresh.replace(kept)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return kept
