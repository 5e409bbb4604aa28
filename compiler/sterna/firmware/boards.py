"""Boards that firmware is planned for: TOML files in the folder `boards`, or at a path given in place of a name.

A file has what the maker's data sheet says (`source`): flash and RAM in bytes that a program may use, the clock, and
where it says so the current while the core runs. `cycles_per_instruction` is an assumption about the core,
not a measurement.
"""

from __future__ import annotations

import difflib
import math
import sys
from dataclasses import MISSING, dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any

from sterna.errors import error
from sterna.targets.description import load_target, target_names
from sterna.targets.target import Flash

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # the same module under its older name

_FOLDER = Path(__file__).resolve().parent / "boards"


@dataclass(frozen=True)
class Board:
    """A board as its data sheet has it.

    Args:
        target: that models are compiled for; counted_on: another one, whose core can be emulated.
        flash, ram: bytes.
        microamperes_per_mhz, volts: while the core runs; 0 where that is not known.
        weights_bytes_per_cycle: that loads get of flash outside of the chip, at that clock; 0: flash is inside.
        weights_fetched_per_cycle: that copies of many neighbouring bytes get; 0: as loads.
        weights_cache: bytes of the cache before it; weights_dma: whether DMA reads it while the core computes.
    """

    name: str
    title: str
    target: str
    mhz: float
    flash: int
    ram: int
    cycles_per_instruction: float
    source: str
    note: str = ""
    counted_on: str = ""
    microamperes_per_mhz: float = 0
    volts: float = 0
    weights_bytes_per_cycle: float = 0
    weights_fetched_per_cycle: float = 0
    weights_cache: int = 0
    weights_dma: bool = False

    @property
    def slow_flash(self) -> Flash | None:
        """What weights are read from, where it is slower than memory."""
        if not self.weights_bytes_per_cycle:
            return None
        return Flash(
            self.weights_bytes_per_cycle,
            self.weights_fetched_per_cycle,
            cache_bytes=self.weights_cache,
            dma=self.weights_dma,
        )

    def milliseconds(self, instructions: int) -> float:
        """An estimate."""
        return instructions * self.cycles_per_instruction / (self.mhz * 1000)

    def microjoules(self, instructions: int) -> float | None:
        """An estimate, of the core alone; None where the board's data has no current."""
        picojoules = self.microamperes_per_mhz * self.volts  # of a cycle: uA/MHz are pC
        return instructions * self.cycles_per_instruction * picojoules * 1e-6 if picojoules else None


def board_names() -> list[str]:
    return sorted(path.stem for path in _FOLDER.glob("*.toml"))


@lru_cache
def load_board(name: str) -> Board:
    """The board of that name, or described by that file.

    Raises:
        SternaError: E0209 there is no such board; E0202 a malformed description.
    """
    path = Path(name) if name.endswith(".toml") else _FOLDER / f"{name}.toml"
    if name not in board_names() and not (name.endswith(".toml") and path.is_file()):
        known = board_names()
        close = difflib.get_close_matches(name.lower(), known, 1)
        hint = f"did you mean {close[0]}? " if close else ""
        fix = hint + "sterna fit --board all compares them; a path to a .toml file adds one"
        raise error("E0209", f'no board "{name}"', f"known boards: {', '.join(known)}", fix=fix)
    try:
        return _board(path)
    except (OSError, ValueError, TypeError) as problem:
        raise error("E0202", f"the board description {path} is malformed: {problem}", fix=_KEYS) from None


def _board(path: Path) -> Board:
    rows: dict[str, Any] = tomllib.loads(path.read_text("utf-8"))
    kinds = {field.name: str(field.type) for field in fields(Board) if field.name != "name"}
    unknown = rows.keys() - kinds.keys()
    if unknown:
        raise ValueError(f"no key {', '.join(sorted(unknown))}")
    for key, value in rows.items():
        if not _is(value, kinds[key]):
            raise ValueError(f"{key} is {value!r}")
    needed = [field.name for field in fields(Board) if field.default is MISSING and field.name != "name"]
    if missing := [name for name in needed if name not in rows]:
        raise ValueError(f"it lacks {', '.join(missing)}")
    board = Board(path.stem, **rows)
    for target in filter(None, (board.target, board.counted_on)):
        if target not in target_names():
            raise ValueError(f'no target "{target}"')
        if not load_target(target).static:
            raise ValueError(f"{target} is no target for firmware")
    return board


def _is(value: Any, kind: str) -> bool:
    if kind == "str":
        return isinstance(value, str)
    if kind == "bool":
        return isinstance(value, bool)
    number = isinstance(value, int if kind == "int" else (int, float)) and not isinstance(value, bool)
    return number and math.isfinite(value) and value > 0


_KEYS = f"keys: {', '.join(field.name for field in fields(Board) if field.name != 'name')}"
