"""Flashes an emulated board, as a board's `flash` does: builds a program around a bundle and starts it in QEMU, its
serial line at a port. The emulator of before ends.

    python flash_emulated.py BUNDLE SERVER FOLDER PORT [BOARD]
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from sterna.firmware.build import build
from sterna.firmware.description import read_firmware
from sterna.firmware.machines import MACHINES
from sterna.firmware.remote import command_of
from sterna.rpc.serial import program_files


def main(bundle: str, server: str, folder: str, port: str, board: str = "mps2-an386") -> None:
    place, machine, firmware = Path(folder), MACHINES[board], read_firmware(bundle)
    end(place)
    files, flags = program_files(firmware, Path(server), machine)
    image = build(firmware, machine, place, "", model=files, flags=("-O2", *flags))
    command = command_of(machine, image)
    command[command.index("-serial") + 1] = f"tcp:127.0.0.1:{port},server=on,wait=off"
    with (place / "said").open("w") as said:
        emulator = subprocess.Popen(
            [*command, "-icount", f"shift={machine.shift}"], stdin=subprocess.DEVNULL, stdout=said, stderr=said,
            start_new_session=True,
        )  # fmt: skip
    (place / "pid").write_text(str(emulator.pid))
    with (place / "times").open("a") as times:
        times.write("flashed\n")


def end(folder: Path) -> None:
    """Ends the emulator that was started from a folder."""
    file = folder / "pid"
    if file.is_file():
        with suppress(ProcessLookupError):
            os.kill(int(file.read_text()), signal.SIGKILL)
        file.unlink()


if __name__ == "__main__":
    main(*sys.argv[1:])
