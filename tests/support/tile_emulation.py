"""AMX's tile instructions on processors without them, in this process: `tile_emulator.c` computes them where they are
invalid. So what runs is the machine code of kernels, of both generators."""

from __future__ import annotations

import ctypes
import platform
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import pytest

from sterna.cache import Cache, cache_directory, key
from sterna.targets.description import host, load_target
from sterna.targets.target import Target
from sterna_runtime import cpu_has
from support.tools import ROOT, ZIG, run

SOURCE = ROOT / "tests" / "support" / "tile_emulator.c"
NATIVE = "x86-64-v4-amx"


def emulated_target() -> Target:
    """This machine with the tiles of one that has them, which its bundles do not say that they need."""
    if platform.machine() != "x86_64" or sys.platform != "linux":
        pytest.skip("the tile instructions are those of x86-64, and the emulator is for Linux")
    tiles, here = load_target(NATIVE), host()
    if cpu_has("amx-int8") == 1:
        return tiles
    return replace(
        here,
        name=f"{here.name}-tiles",
        cpu=f"{here.cpu}+amx_tile+amx_int8",
        llvm_features=(*here.llvm_features, "+amx-tile", "+amx-int8"),
        c_flags=(*here.c_flags, "-mamx-tile", "-mamx-int8"),
        int_tile=tiles.int_tile,
    )


@dataclass(frozen=True)
class Counts:
    """Instructions: configurations, tiles set to zero, loads, stores, products."""

    configured: int
    zeroed: int
    loaded: int
    stored: int
    multiplied: int


class Tiles:
    """The emulator while it is installed."""

    def __init__(self, library: ctypes.CDLL):
        self.counters = (ctypes.c_uint64 * 5).in_dll(library, "tile_counts")
        self.error = ctypes.c_int.in_dll(library, "tile_error")

    def counted(self) -> Counts:
        """What ran since the last time; nothing on a processor that has the instructions."""
        counts = Counts(*self.counters)
        for n in range(5):
            self.counters[n] = 0
        return counts

    @contextmanager
    def wrong(self) -> Iterator[None]:
        """Products are off by one, as of a processor that is broken."""
        self.error.value = 1
        try:
            yield
        finally:
            self.error.value = 0


@contextmanager
def emulated_tiles() -> Iterator[Tiles]:
    library = _library()
    assert library.tile_emulator_install() == 0
    try:
        tiles = Tiles(library)
        tiles.counted()
        yield tiles
    finally:
        library.tile_emulator_remove()


@lru_cache(maxsize=1)
def _library() -> ctypes.CDLL:
    command = (*ZIG, "cc", "-target", "x86_64-linux-gnu.2.17", "-O2", "-shared", "-fPIC", "-fno-sanitize=all")
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "tile_emulator.so"

        def build() -> bytes:
            run(*command, SOURCE, "-o", made)
            return made.read_bytes()

        entry = key("tile emulator", SOURCE.read_text("utf-8"), *command)
        made.write_bytes(Cache("objects", cache_directory()).get_or_make(entry, build))
        return ctypes.CDLL(str(made))
