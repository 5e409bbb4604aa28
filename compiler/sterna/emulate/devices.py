"""What devices are called: where a bundle runs instead of in this process (`--on`)."""

from __future__ import annotations

import contextlib
import difflib
import sys
from collections.abc import Iterator
from pathlib import Path

from sterna.emulate.engines import ENGINES
from sterna.emulate.machines import named, why_not_emulated
from sterna.errors import error
from sterna.rpc.device import connect
from sterna.rpc.functions import SERVER
from sterna.rpc.serial import Board, opened, read_board
from sterna.runtime.remote import EMULATOR
from sterna.targets.target import Target
from sterna_runtime import library
from sterna_runtime.refusals import Place, not_driven

#: How addresses of machines begin (`sterna rpc serve`).
_ADDRESS = "rpc:"
#: How a board's description is named (`rpc.serial`).
_LINE = "serial:"
_FIX = (
    f"rpc://pi:9190, {', '.join(ENGINES)}, qemu:raspberrypi4 or another target, qemu:mps2-an386 or another board for "
    "firmware, serial:BOARD.toml"
)


def machine_of(text: str) -> str:
    """The target or board of `qemu:NAME`.

    Raises:
        SternaError: E0002, it is not of that form.
    """
    kind, colon, name = text.partition(":")
    if kind != "qemu" or not colon or not name:
        close = difflib.get_close_matches(text, ENGINES, 1)
        hint = f"did you mean {close[0]}? " if close else ""
        raise error("E0002", f'"{text}" names no device to run on', fix=f"{hint}{_FIX}")
    return name


def device(text: str) -> contextlib.AbstractContextManager[None]:
    """Within it, bundles are loaded on a device: of an address, an engine's name, or an emulator by `qemu:NAME`.

    Raises:
        SternaError: E0002, it names nothing; E0004, what it needs is not installed; as of `emulate.machines.named` and
            `rpc.connect`.
    """
    if text.startswith(_ADDRESS):
        return _remote(text)
    if text.startswith(_LINE):
        return _on_a_line(board_of(text))
    if text in ENGINES:
        return library.replaced_by(ENGINES[text].functions())
    return named(machine_of(text))


def known(text: str) -> None:
    """Whether it names a device at all, wherever that is.

    Raises:
        SternaError: E0002, it names nothing.
    """
    if text.startswith(_LINE):
        board_of(text)
    elif not text.startswith(_ADDRESS) and text not in ENGINES:
        machine_of(text)


def place_named(text: str) -> Place:
    """What there is where bundles are loaded, of a name as `device` takes it."""
    if text in ENGINES:
        return ENGINES[text].place
    return SERVER if text.startswith(_ADDRESS) else EMULATOR


def check_devices(text: str, kinds: tuple[str, ...]) -> None:
    """Refuses what is to run on devices of these kinds where none is driven, before anything is built or started.

    Args:
        text: as of `device`.

    Raises:
        SternaError: E0507, no device of these kinds is driven there.
    """
    place = place_named(text)
    if place.drives is not None and not set(kinds) <= set(place.drives):
        title, fix = not_driven(kinds, place)
        raise error("E0507", title or f"kernels for devices of {', '.join(kinds)} do not run on {text}", fix=fix)


def board_of(text: str) -> Board:
    """The board of `serial:FILE`.

    Raises:
        SternaError: as of `rpc.serial.read_board`.
    """
    return read_board(Path(text.removeprefix(_LINE)))


def counts(text: str) -> bool:
    """Whether a device counts instructions in place of time."""
    return board_of(text).counts if text.startswith(_LINE) else text.startswith("qemu:")


@contextlib.contextmanager
def _on_a_line(board: Board) -> Iterator[None]:
    with opened(board) as functions, library.replaced_by(functions):
        yield


@contextlib.contextmanager
def _remote(address: str) -> Iterator[None]:
    def told(position: int) -> None:
        sys.stderr.write(f"others use the device; number {position} in its queue\n")

    with connect(address, told=told) as found, found.loading():
        yield


def device_of(target: Target) -> tuple[str, str] | None:
    """What runs a target's bundles here: in words, and as `--on` has it; None where nothing does."""
    if why_not_emulated(target) is not None:
        return None
    engine = ENGINES.get(target.runs_on)
    return ("an emulator", f"qemu:{target.name}") if engine is None else (engine.title, target.runs_on)


def counted_on(board: str, on: str) -> str:
    """Where instructions were counted."""
    return board if on.startswith(_LINE) else f"{board}, emulated"


def place_of(on: str) -> str:
    """Where times of `--on` come from, to follow "1 thread"."""
    if on.startswith((_ADDRESS, _LINE)):
        return "of the device"
    return f"in {ENGINES[on].title}" if on in ENGINES else "of an emulator, which says nothing about the machine"
