"""The ziglang package: clang, lld and ar for every target, on any host.

Zig keeps what it builds of the C libraries in a global cache, which is ours to place; its local cache, one object per
call, is put among the temporary files of the call and goes with them.
"""

from __future__ import annotations

import importlib.util
import os
import tempfile
from functools import lru_cache
from pathlib import Path

from sterna.cache import cache_directory
from sterna.errors import error


@lru_cache(maxsize=1)
def find_zig() -> Path | None:
    """The zig program of the ziglang package, if it is installed."""
    spec = importlib.util.find_spec("ziglang")
    for directory in (spec.submodule_search_locations or []) if spec is not None else []:
        for name in ("zig", "zig.exe"):
            program = Path(directory) / name
            if program.is_file():
                return program
    return None


def zig(*arguments: str) -> list[str]:
    """A command line of zig's.

    Raises:
        SternaError: E0402, ziglang is not installed.
    """
    program = find_zig()
    if program is None:
        raise error(
            "E0402",
            "the Python package ziglang is not installed",
            fix="pip install ziglang, or choose an installed compiler",
        )
    return [str(program), *arguments]


def environment(temporary: Path) -> dict[str, str]:
    """The process environment of a compiler or linker that may write its temporary files to that directory."""
    directory = cache_directory()
    shared = directory / "zig" if directory is not None else Path(tempfile.gettempdir()) / "sterna-zig"
    return {
        **os.environ,
        "ZIG_GLOBAL_CACHE_DIR": str(shared),
        "ZIG_LOCAL_CACHE_DIR": str(temporary / "zig"),
        # Messages are parsed and shown: they are wanted in English and without colours.
        "LC_ALL": "C",
        "NO_COLOR": "1",
        "SOURCE_DATE_EPOCH": "0",
    }
