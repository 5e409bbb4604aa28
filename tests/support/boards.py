"""Emulated boards of microcontrollers: static bundles are built into programs and run on them (`sterna.firmware`)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sterna.firmware.build import compiler_for
from sterna.firmware.description import read_firmware
from sterna.firmware.machines import MACHINES, machine_for
from sterna.firmware.remote import BoardFunctions, counted
from sterna_runtime import library, load
from support.machines import STRICT
from support.tools import need, run

Arrays = Sequence[np.ndarray]
#: What the emulated boards run, by targets' names.
TARGETS = (
    "cortex-m0plus", "cortex-m3", "cortex-m4", "cortex-m4-nofpu", "cortex-m7", "cortex-m33", "cortex-m55", "cortex-m85",
    "riscv32imc", "riscv32imafc",
)  # fmt: skip
STRICTLY = ("-O2", *STRICT)


def run_on_board(
    bundle: Path,
    inputs: Arrays,
    outputs: Arrays,
    *,
    compiler: str = "gcc",
    library_of_kernels: bool = True,
    stack: int = 2048,
    least: float = 0.0,
    board: str | None = None,
) -> list[np.ndarray]:
    """The outputs of a static bundle on the emulated board of its processor; twice, as nothing may stay of a run.
    Where its own library runs, it takes no more of the stack than its header says.

    Args:
        compiler: of the program, "gcc" or "zig"; library_of_kernels: whether kernels are compiled by it, too.
        stack: bytes that a run may take of it; least: of what the header says, the share that it takes at least.
        board: by QEMU's name.
    """
    if compiler == "gcc":
        need("arm-none-eabi-gcc", "compiles for Cortex-M")
    need(machine_program(bundle, board), "emulates boards of microcontrollers")
    how = BoardFunctions(board, compiler=compiler, library=library_of_kernels, flags=STRICTLY)
    with library.replaced_by(how), load(bundle) as model:
        names = [spec.name for spec in model.inputs]
        given = {
            name: np.ascontiguousarray(array, spec.dtype).reshape(spec.shape)
            for name, array, spec in zip(names, inputs, model.inputs, strict=True)
        }
        first = model.run(given)
        counts = counted(model)
        assert counts is not None
        assert counts.stack <= stack
        said = read_firmware(bundle).stack_bytes
        if library_of_kernels and said is not None:
            assert least * said <= counts.stack <= said
        model.reset_state()
        again = model.run(given)
        for name, array in first.items():
            np.testing.assert_array_equal(again[name], array)
        return [array.reshape(like.shape) for array, like in zip(first.values(), outputs, strict=True)]


def machine_program(bundle: Path, board: str | None = None) -> str:
    """The emulator of a bundle's board."""
    firmware = read_firmware(bundle)
    able = (m for m in MACHINES.values() if m.name == board or firmware.processor.llvm_cpu in m.cpus)
    return next(able).program


def too_large_for_the_board(bundle: Path) -> str:
    """Why a static bundle cannot run on its emulated board; empty if it can."""
    firmware = read_firmware(bundle)
    machine = machine_for(firmware)
    rooms = (
        ("params_bytes", firmware.params_bytes, machine.flash[1] - (256 << 10)),
        ("arena_bytes", firmware.memory_bytes, machine.ram[1] - (64 << 10)),
    )
    return next((f"{what} {n:,} do not fit the board's {room:,}" for what, n, room in rooms if n > room), "")


def objects_of_gcc(bundle: Path, directory: Path, level: str = "-O2") -> list[Path]:
    """The bundle's sources compiled by gcc, without what is known of a program's libraries."""
    need("arm-none-eabi-gcc", "compiles for Cortex-M")
    firmware = read_firmware(bundle)
    flags = ["-std=c99", level, "-ffp-contract=off", "-fno-math-errno", "-c", f"-I{bundle}"]
    objects = []
    for source in firmware.linked(library=False):
        objects.append(directory / f"{source.stem}.o")
        run(*compiler_for(firmware.processor, "gcc"), source, *flags, "-o", objects[-1], cwd=directory)
    return objects


def unresolved(files: Sequence[Path], directory: Path) -> set[str]:
    """Symbols that none of the files defines."""
    lines = run(need("arm-none-eabi-nm", "reads objects for Cortex-M"), "-A", *files, cwd=directory).splitlines()
    words = [line.rsplit(maxsplit=2) for line in lines]
    wanted = {symbol for *_, kind, symbol in words if kind == "U"}
    return wanted - {symbol for *_, kind, symbol in words if kind != "U"}
