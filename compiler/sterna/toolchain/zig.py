"""The ziglang package: clang, lld and ar for every target, on any host.

Zig keeps what it builds of the C libraries in a global cache, which is ours to place unless ZIG_GLOBAL_CACHE_DIR names
one; its local cache, one object per call, is put among the temporary files of the call and goes with them.
"""

from __future__ import annotations

import importlib.util
from functools import lru_cache
from pathlib import Path

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
