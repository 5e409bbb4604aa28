"""Emulated boards of microcontrollers: firmware around a static bundle is built, run and its outputs are read back."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sterna.targets.description import load_target
from support.machines import HERE, STRICT, read_outputs, write_inputs
from support.tools import ZIG, need, run

Arrays = Sequence[np.ndarray]


@dataclass(frozen=True)
class Board:
    """A board that QEMU emulates.

    Args:
        machine: by QEMU's name.
        gcc: how arm-none-eabi-gcc is told of the core.
        flash, ram: first address and bytes of both memories.
        vectors: where the table of vectors lies.
    """

    machine: str
    gcc: tuple[str, ...]
    flash: tuple[int, int] = (0x400, (4 << 20) - 0x400)
    ram: tuple[int, int] = (0x20000000, 4 << 20)
    vectors: int = 0

    @property
    def room(self) -> dict[str, int]:
        """Bytes for weights and for the arena, less what the program around the model takes."""
        return {"params_bytes": self.flash[1] - (256 << 10), "arena_bytes": self.ram[1] - (64 << 10)}

    def memory(self) -> str:
        """The linker script's memories."""
        regions = (("VECTORS (rx)", (self.vectors, 0x400)), ("FLASH (rx)", self.flash), ("RAM (rw)", self.ram))
        lines = (f"  {name} : ORIGIN = {at:#x}, LENGTH = {size:#x}" for name, (at, size) in regions)
        return "MEMORY {\n" + "\n".join(lines) + "\n}\n"


_M55 = {"flash": (0x01000000, 2 << 20), "ram": (0x20000000, 512 << 10)}
_SOFT, _HARD = "-mfloat-abi=soft", "-mfloat-abi=hard"
#: By the names of targets. There is no board of a Cortex-M0+ whose memory holds more than a few kilobytes: a Cortex-M3
#: runs its instructions, too, and a Cortex-M55 those of a Cortex-M85.
BOARDS = {
    "cortex-m0plus": Board("mps2-an385", ("-mcpu=cortex-m0plus", _SOFT)),
    "cortex-m3": Board("mps2-an385", ("-mcpu=cortex-m3", _SOFT)),
    "cortex-m4": Board("mps2-an386", ("-mcpu=cortex-m4", _HARD, "-mfpu=fpv4-sp-d16")),
    "cortex-m4-nofpu": Board("mps2-an386", ("-mcpu=cortex-m4", _SOFT)),
    "cortex-m7": Board("mps2-an500", ("-mcpu=cortex-m7", _HARD, "-mfpu=fpv5-d16")),
    "cortex-m33": Board(
        "mps2-an505", ("-mcpu=cortex-m33", _HARD, "-mfpu=fpv5-sp-d16"),
        (0x10000400, (4 << 20) - 0x400), (0x38000000, 4 << 20), 0x10000000,
    ),
    "cortex-m55": Board("mps3-an547", ("-mcpu=cortex-m55", _HARD), **_M55),
    "cortex-m85": Board("mps3-an547", ("-mcpu=cortex-m55", _HARD), **_M55),
}  # fmt: skip

MAIN = """#include "board.h"
#include "model.h"

static _Alignas({MODEL}_ALIGNMENT) uint8_t arena[{MODEL}_ARENA_BYTES + 1];
{buffers}
int main(void) {{
  const {model}_inputs inputs = {{{inputs}}};
  const {model}_outputs outputs = {{{outputs}}};
  if ({read}) return 2;
  for (unsigned i = 0; i + 1 < sizeof arena; i++) arena[i] = 0xA5;
{reset}  board_paint_stack();
  const int status = {model}_run(&inputs, &outputs, arena, {model}_params);
  if (status != 0) return 3;
  if (board_stack_used() > {stack}) return 4;
  if ({model}_run(&inputs, &outputs, arena + 1, {model}_params) != -1) return 6;
  /* Once more in the used arena: nothing may be left from the run before, once states are forgotten. */
{reset}  if ({model}_run(&inputs, &outputs, arena, {model}_params) != 0) return 3;
  return {write} ? 5 : 0;
}}
"""


def firmware_main(bundle: Path, stack: int) -> str:
    """The program around a static bundle, from the names in its header."""
    header = (bundle / "model.h").read_text()
    model = re.findall(r"typedef struct (\w+)_inputs", header)[0]
    given = re.findall(r"^  const (\w+) \*(\w+);", header, re.M)
    made = re.findall(r"^  (\w+) \*(\w+); /\*", header, re.M)
    size = {name: f"{model.upper()}_{name.upper()}_ELEMENTS" for _, name in (*given, *made)}
    files = [(f"in{n}.bin", name) for n, (_, name) in enumerate(given)]
    results = [(f"out{n}.bin", name) for n, (_, name) in enumerate(made)]
    return MAIN.format(
        model=model,
        MODEL=model.upper(),
        buffers="".join(f"static {kind} {name}_buffer[{size[name]}];\n" for kind, name in (*given, *made)),
        inputs=", ".join(f"{name}_buffer" for _, name in given),
        outputs=", ".join(f"{name}_buffer" for _, name in made),
        read=" || ".join(f'!board_read("{f}", {len(f)}, {n}_buffer, sizeof {n}_buffer)' for f, n in files),
        write=" || ".join(f'!board_write("{f}", {len(f)}, {n}_buffer, sizeof {n}_buffer)' for f, n in results),
        stack=stack,
        reset=f"  {model}_reset_state(arena, {model}_params);\n" if f" {model}_reset_state(" in header else "",
    )


FREESTANDING = ["-std=c99", "-O2", "-g0", "-ffp-contract=off", "-fno-math-errno", "-ffreestanding", "-nostdlib"]


def compiler_for(name: str, compiler: str) -> list[str]:
    """The command that compiles C for a target, by "zig" or "gcc"."""
    target = load_target(name)
    if compiler == "zig":
        library = ["-rtlib=compiler-rt"] if target.run_time_functions else []
        return [*ZIG, "cc", "-target", target.triple, f"-mcpu={target.cpu}", "-fno-sanitize=all", *library]
    return [need("arm-none-eabi-gcc", "compiles for Cortex-M"), "-mthumb", *BOARDS[name].gcc]


def build_firmware(
    compiler: str, bundle: Path, directory: Path, library: bool, stack: int = 2048, name: str = "cortex-m4"
) -> Path:
    """A program for the board of a target: the sources of the bundle, or its model.a in place of kernels.c."""
    board = HERE / "cortex_m"
    (directory / "main.c").write_text(firmware_main(bundle, stack))
    script = directory / "board.ld"
    script.write_text(BOARDS[name].memory() + (board / "sections.ld").read_text())
    kernels = bundle / ("model.a" if library else "kernels.c")
    sources = [directory / "main.c", board / "startup.c", bundle / "model.c", bundle / "params.c", kernels]
    image = directory / "firmware.elf"
    flags = [*FREESTANDING, *STRICT, "-fno-builtin", f"-I{board}", f"-I{bundle}"]
    link = [f"-Wl,-T,{script}", *(["-lgcc"] if compiler == "gcc" else []), "-o", image]
    run(*compiler_for(name, compiler), *sources, *flags, *link, cwd=directory)
    return image


def run_firmware(
    image: Path, inputs: Arrays, outputs: Arrays, directory: Path, name: str = "cortex-m4"
) -> list[np.ndarray]:
    """Runs firmware on the emulated board of a target."""
    qemu = need("qemu-system-arm", "emulates Cortex-M boards")
    write_inputs(directory, inputs)
    quiet = ["-nographic", "-monitor", "none", "-serial", "none"]
    semihosting = ["-semihosting-config", "enable=on,target=native"]
    run(qemu, "-M", BOARDS[name].machine, *quiet, *semihosting, "-kernel", image, cwd=directory)
    return read_outputs(directory, outputs)


def too_large_for_the_board(bundle: Path, name: str = "cortex-m4") -> str:
    """Why a static bundle cannot run on the emulated board; empty if it can."""
    header = (bundle / "model.h").read_text()
    sizes = {n.lower(): int(v) for n, v in re.findall(r"#define \w+?_(ARENA_BYTES|PARAMS_BYTES) (\d+)", header)}
    for what, limit in BOARDS[name].room.items():
        if sizes[what] > limit:
            return f"{what} {sizes[what]:,} do not fit the board's {limit:,}"
    return ""


def objects_of_gcc(name: str, bundle: Path, directory: Path, level: str = "-O2") -> list[Path]:
    """The bundle's sources compiled by gcc, without what is known of a program's libraries."""
    flags = ["-std=c99", level, "-ffp-contract=off", "-fno-math-errno", "-c", f"-I{bundle}"]
    objects = []
    for source in ("kernels", "model", "params"):
        objects.append(directory / f"{source}.o")
        run(*compiler_for(name, "gcc"), bundle / f"{source}.c", *flags, "-o", objects[-1], cwd=directory)
    return objects


def unresolved(files: Sequence[Path], directory: Path) -> set[str]:
    """Symbols that none of the files defines."""
    lines = run(need("arm-none-eabi-nm", "reads objects for Cortex-M"), "-A", *files, cwd=directory).splitlines()
    words = [line.rsplit(maxsplit=2) for line in lines]
    wanted = {symbol for *_, kind, symbol in words if kind == "U"}
    return wanted - {symbol for *_, kind, symbol in words if kind != "U"}
