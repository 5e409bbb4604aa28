"""Building the C runtime from its sources: in a source checkout only, as a wheel brings the library along.

A module of its own, so that a program that runs a bundle does not load what only a build needs. Most often there is
nothing to build here either: what only the compiler's run needs is imported there, and no module that loads OpenSSL is
used to tell whether the sources have changed.
"""

from __future__ import annotations

import contextlib
import os
from importlib.util import source_hash
from pathlib import Path

from sterna_runtime.errors import error
from sterna_runtime.private import (
    MODE,
    cache_directory,
    close,
    is_private,
    make_private,
    read_private,
    scratch_directory,
)
from sterna_runtime.recipe import DEVICES, FLAGS, SOURCES, Platform, compile_command, library_name, this_platform

_PACKAGE = Path(__file__).resolve().parent


def runtime_sources() -> Path | None:
    """The folder runtime_c: where the compiler is installed among its files, in a checkout beside compiler/."""
    for folder in (_PACKAGE.parent / "sterna" / "runtime_c", _PACKAGE.parent.parent / "runtime_c"):
        if (folder / "include" / "sterna.h").is_file():
            return folder
    return None


def _content_key(sources: Path, built_for: Platform, kind: str) -> str:
    parts = [repr((FLAGS, DEVICES[kind] if kind else SOURCES, built_for.target, built_for.processor)).encode()]
    for path in sorted([*sources.glob("*/*.c"), *sources.glob("*/*.h")]):
        parts += (path.name.encode(), path.read_bytes())
    return source_hash(b"\0".join(parts)).hex()


def _kept(folder: Path, key: str, name: str) -> Path | None:
    """A library that was built from these sources before, if it is complete and no other user can have written it.

    It lies in a folder named by its sources and by its own bytes.
    """
    for place in sorted(folder.glob(f"{key}-*")):
        data = read_private(place / name)
        if data is not None and is_private(place.stat()) and place.name == f"{key}-{source_hash(data).hex()}":
            return place / name
    return None


def build(sources: Path, kind: str = "") -> Path:
    """Builds the runtime into the cache directory unless it is there already; returns the library's path. With a
    `kind`, the same of the library that drives such devices.

    Two processes may build at the same time: each writes its own folder, and the renaming is atomic. Without a cache,
    it is built for this process alone.

    Raises:
        SternaError: E0401, it does not compile, or there is no room for it.
    """
    try:
        return _build(sources, kind)
    except OSError as problem:
        where = (str(problem.filename),) if problem.filename else ()
        raise error("E0401", f"the C runtime cannot be built: {problem.strerror or problem}", *where) from None


def _build(sources: Path, kind: str) -> Path:
    here, name = this_platform(), library_name(kind=kind)
    folder, key = (cache_directory() or scratch_directory()) / "runtime", _content_key(sources, here, kind)
    try:
        make_private(folder)
    except OSError:
        folder = scratch_directory()
    if (kept := _kept(folder, key, name)) is not None:
        return kept
    import shutil  # noqa: PLC0415 (as above: most often there is nothing to build)
    import subprocess  # noqa: PLC0415
    import tempfile  # noqa: PLC0415

    scratch = Path(tempfile.mkdtemp(prefix=".new-", dir=folder))
    try:
        fresh = scratch / "done" / name
        fresh.parent.mkdir(mode=MODE)
        command = compile_command(sources, fresh, here.target, here.processor, kind)
        variables = zig_environment(scratch)
        result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=scratch, env=variables)
        if result.returncode != 0 or not fresh.is_file():
            missing = "No module named" in result.stderr
            raise error(
                "E0401",
                "the C runtime could not be compiled",
                *result.stderr.strip().splitlines()[-5:],
                fix="pip install ziglang" if missing else None,
            )
        close(fresh)
        place = folder / f"{key}-{source_hash(fresh.read_bytes()).hex()}"
        for _ in range(2):
            with contextlib.suppress(OSError):  # something is there: what another process has built meanwhile
                fresh.parent.rename(place)
            if _kept(folder, key, name) is not None:
                break
            shutil.rmtree(place, ignore_errors=True)  # or it is damaged
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    if (kept := _kept(folder, key, name)) is None:
        raise error("E0401", "the C runtime was compiled, and is gone again", str(folder))
    return kept


def _shared() -> Path:
    """Where zig keeps the parts of C libraries that it builds: code, so no other user may write there."""
    shared = (cache_directory() or scratch_directory()) / "zig"
    with contextlib.suppress(OSError):  # what zig cannot write to, it says itself
        make_private(shared)
    return shared


def zig_environment(temporary: Path) -> dict[str, str]:
    """The process environment of a compiler or linker of zig's that may write its temporary files to that directory."""
    return {
        **os.environ,
        "ZIG_GLOBAL_CACHE_DIR": os.environ.get("ZIG_GLOBAL_CACHE_DIR") or str(_shared()),
        "ZIG_LOCAL_CACHE_DIR": str(temporary / "zig"),
        # Messages are parsed and shown: they are wanted in English and without colours.
        "LC_ALL": "C",
        "NO_COLOR": "1",
        "SOURCE_DATE_EPOCH": "0",
    }
