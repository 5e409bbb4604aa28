"""Does a model fit a board, and how long will it take there? Everything but time is measured on an emulated core."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from sterna.api import compile_with
from sterna.bundle.writer import write_bundle
from sterna.errors import SternaError
from sterna.firmware.boards import Board
from sterna.firmware.description import Firmware, read_firmware
from sterna.firmware.machines import MACHINES
from sterna.firmware.measure import Measured, measure
from sterna.options import Options
from sterna.passes.stream_weights import Reads
from sterna.scratch import temporary_directory
from sterna.targets.target import Flash
from sterna_runtime.cli.reports import size


@dataclass(frozen=True)
class Fit:
    """A model on a board.

    Args:
        flash: bytes of code and weights.
        ram: bytes of arena, inputs, outputs, static data and stack.
        stack: None if it is not known, nor then the code: flash and RAM are without them.
        measured: on an emulated core; None where there is no emulator here, or no room on its board either.
        fetched: what kernels fetch of weights in flash outside of the chip; None where they fetch nothing.
    """

    board: Board
    flash: int
    ram: int
    stack: int | None
    measured: Measured | None
    fetched: Reads | None = None

    @property
    def fits(self) -> bool:
        return self.flash <= self.board.flash and self.ram <= self.board.ram

    @property
    def milliseconds(self) -> float | None:
        return None if self.measured is None else self.board.milliseconds(self.measured.instructions)

    @property
    def microjoules(self) -> float | None:
        return None if self.measured is None else self.board.microjoules(self.measured.instructions)


def fit(model: Path, options: Callable[[str], Options], boards: Sequence[Board]) -> list[Fit]:
    """A model on several boards; it is compiled once for each of their targets and kinds of flash.

    Args:
        options: of a compilation for a target of that name.

    Raises:
        SternaError: the model cannot be compiled; E0402, E0403 of the compiler.
    """
    found: dict[tuple[str, Flash | None], tuple[Firmware, Measured | None]] = {}
    for core, flash in dict.fromkeys((_core(board), board.slow_flash) for board in boards):
        asked = options(core)
        if flash is not None:
            asked = replace(asked, target=replace(asked.target, flash=flash))
        with temporary_directory("fit") as folder:
            bundle = write_bundle(compile_with(model, asked), Path(folder) / "bundle")
            found[core, flash] = _measured(read_firmware(bundle), Path(folder))
    return [_fit(board, *found[_core(board), board.slow_flash]) for board in boards]


def _core(board: Board) -> str:
    """The target that is measured in place of a board's."""
    return board.counted_on or board.target


def _measured(firmware: Firmware, folder: Path) -> tuple[Firmware, Measured | None]:
    machines = (each for each in MACHINES.values() if firmware.processor.llvm_cpu in each.cpus)
    machine = next((each for each in machines if shutil.which(each.program)), None)
    try:
        return firmware, None if machine is None else measure(firmware, machine, folder)
    except SternaError as problem:
        if problem.codes != ("E0405",):
            raise
        return firmware, None  # too large even for the emulator's board


def _fit(board: Board, firmware: Firmware, measured: Measured | None) -> Fit:
    own = sum(tensor.bytes for tensor in (*firmware.inputs, *firmware.outputs))
    if measured is not None:
        return Fit(board, measured.flash, measured.memory + own, measured.stack, measured, firmware.fetched)
    flash = firmware.params_bytes + (firmware.code_bytes or 0) + (firmware.tables_bytes or 0)
    ram = firmware.memory_bytes + own + (firmware.stack_bytes or 0)
    return Fit(board, flash, ram, firmware.stack_bytes, None, firmware.fetched)


def reasons(found: Fit, max_ms: float | None = None) -> list[str]:
    """Why a board does not do; empty where it does."""
    found_wanting = []
    for what, takes, has in (("flash", found.flash, found.board.flash), ("RAM", found.ram, found.board.ram)):
        if takes > has:
            found_wanting.append(f"{what}: {size(takes)} of {size(has)}")
    if max_ms is not None and (found.milliseconds is None or found.milliseconds > max_ms):
        known = "not known" if found.milliseconds is None else f"{found.milliseconds:.3g}"
        found_wanting.append(f"time: {known} of {max_ms:g} ms")
    return found_wanting


def fit_json(found: Fit, max_ms: float | None = None) -> dict[str, Any]:
    """A board as JSON has it."""
    measured, board = found.measured, found.board
    row: dict[str, Any] = {
        "board": board.name,
        "target": board.target,
        "fits": not reasons(found, max_ms),
        "flash_bytes": found.flash,
        "flash_of_board": board.flash,
        "ram_bytes": found.ram,
        "ram_of_board": board.ram,
    }
    if found.stack is not None:
        row["stack_bytes"] = found.stack
    if measured is not None:
        row |= {
            "instructions": measured.instructions,
            "counted_on": board.counted_on or board.target,
            "estimated_milliseconds": found.milliseconds,
        }
        if found.microjoules is not None:
            row["estimated_microjoules"] = found.microjoules
    if found.fetched is not None:
        row["fetched"] = asdict(found.fetched)
    return row
