"""Firmware of one model for one board, measured by `sterna.firmware`; by mnemonic where a plugin of QEMU counts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sterna.api import compile_to
from sterna.firmware.description import read_firmware
from sterna.firmware.machines import machine_for
from sterna.firmware.measure import How, Measured
from sterna.firmware.measure import measure as measured
from support.tools import need, run
from support.trained import Trained

BENCH = Path(__file__).resolve().parent
#: The share of the header's figure that a run takes of the stack at least.
LEAST_STACK = 0.6
#: What bundles are compiled by: sources by arm-none-eabi-gcc, zig's archive of C, LLVM's; and everything by zig.
BUILDS = {
    "gcc": ("c", False, "gcc"),
    "zig": ("c", True, "auto"),
    "llvm": ("llvm", True, "auto"),
    "zig-alone": ("c", True, "zig"),
}


@dataclass(frozen=True)
class Found:
    """A model on a board.

    Args:
        by_mnemonic: instructions, where that is asked for.
        said: bytes of stack that the header says a run takes; None where the code is not the bundle's own, which it
            says them of.
    """

    measured: Measured
    by_mnemonic: Mapping[str, int]
    said: int | None

    @property
    def stack_is_as_said(self) -> bool:
        """What a run takes of the stack is at most what the header says, and LEAST_STACK of it or more."""
        return self.said is None or LEAST_STACK * self.said <= self.measured.stack <= self.said


def measure(
    model: Trained, target: str, build: str, folder: Path, optimize: str = "-O2", by_mnemonic: bool = False
) -> Found:
    """Compiles, builds, runs and measures a model.

    Args:
        build: one of BUILDS; folder: an empty one.

    Raises:
        SternaError: the model does not compile, does not fit the board, or ends with an error there.
    """
    generator, library, compiler = BUILDS[build]
    bundle = compile_to(folder / "bundle", model.file, target, shapes=model.shapes(), generator=generator)
    firmware = read_firmware(bundle)
    counts: list[Path] = []

    def options(image: Path) -> list[str]:
        counts.append(folder / "counts")
        return plugin_options(image, folder)

    how = How(compiler, library, (optimize,))
    inputs = list(model.cases[0].inputs.values())
    found = measured(firmware, machine_for(firmware), folder, inputs, how, options if by_mnemonic else None)
    by_name = read_counts(counts[0].read_text())[1] if counts else {}
    return Found(found, by_name, firmware.stack_bytes if library else None)


def plugin_options(image: Path, folder: Path) -> list[str]:
    """Options for QEMU that count each run of a program by mnemonic, into the file `counts` of a folder."""
    counter = folder / "libcounter.so"
    run("gcc", "-O2", "-shared", "-fPIC", "-o", counter, BENCH / "counter.c", cwd=folder)
    lines = run(need("arm-none-eabi-nm", "reads programs"), image, cwd=folder).splitlines()
    symbols = {words[2]: int(words[0], 16) for line in lines if len(words := line.split()) == 3}
    begin = next(at for name, at in symbols.items() if name.endswith("_run") and not name.startswith("board"))
    marks = f"begin={begin:#x},end={symbols['board_clock']:#x}"
    return ["-plugin", f"file={counter},{marks},out={folder / 'counts'},hist=1"]


def read_counts(text: str) -> tuple[int, Mapping[str, int]]:
    """Instructions of the last run, and by mnemonic, of the file that the plugin wrote."""
    regions = [int(n) for n in re.findall(r"^REGION \d+ insns=(\d+)", text, re.M)]
    last = len(regions) - 1
    return regions[last], {m: int(n) for m, n in re.findall(rf"^HIST {last} (\S+) (\d+)", text, re.M)}
