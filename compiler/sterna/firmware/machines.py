"""The boards that QEMU emulates, and which processors' code each runs."""

from __future__ import annotations

import difflib
import shutil
from dataclasses import dataclass

from sterna.errors import SternaError, error
from sterna.firmware.description import Firmware, Processor

#: Bytes of the stack of a program for an emulated board: more than any model's.
STACK = 32 << 10


@dataclass(frozen=True)
class Machine:
    """An emulated board.

    Args:
        name: by QEMU's words; program: that emulates it; options: further ones.
        cpus: LLVM's names of the processors whose code it runs.
        start: the file of templates/firmware with its start and clock.
        vectors, flash, ram: first address and bytes.
        tick: nanoseconds of its clock; shift: log2 of those that an instruction takes where instructions are counted.
        defines: of the C preprocessor.
        uart: where its first serial line lies, as a CMSDK UART; 0: not known here.
    """

    name: str
    program: str
    cpus: tuple[str, ...]
    start: str
    vectors: tuple[int, int]
    flash: tuple[int, int]
    ram: tuple[int, int]
    tick: float
    shift: int = 6
    defines: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    uart: int = 0

    @property
    def memories(self) -> tuple[tuple[str, int, int], ...]:
        """As the linker's script has them: name, address, bytes."""
        return ("VECTORS", *self.vectors), ("FLASH", *self.flash), ("RAM", *self.ram)


def _mps2(name: str, *cpus: str) -> Machine:
    flash, ram = (0x400, (4 << 20) - 0x400), (0x20000000, 4 << 20)
    return Machine(
        name, "qemu-system-arm", cpus, "cortex_m.c", (0, 0x400), flash, ram, 40.0, 6, ("BOARD_TIMER=0x40000000u",),
        uart=0x40004000,
    )  # fmt: skip


def _virt(cpu: str, *options: str) -> Machine:
    flash, ram = (0x80001000, (16 << 20) - 0x1000), (0x81000000, 64 << 20)
    return Machine(
        "riscv32-virt", "qemu-system-riscv32", (cpu,), "riscv32.c", (0x80000000, 0x1000), flash, ram, 1.0, 0, (),
        ("-bios", "none", *options),
    )  # fmt: skip


#: By name. There is no board of a Cortex-M0+ with more than a few kilobytes: a Cortex-M3 that traps unaligned addresses
#: stands in for it, and a Cortex-M55 for a Cortex-M85.
MACHINES = {
    machine.name: machine
    for machine in (
        _mps2("mps2-an385", "cortex-m3", "cortex-m0plus", "cortex-m0"),
        _mps2("mps2-an386", "cortex-m4", "cortex-m3", "cortex-m0plus"),
        _mps2("mps2-an500", "cortex-m7", "cortex-m4", "cortex-m3", "cortex-m0plus"),
        Machine(
            "mps2-an505", "qemu-system-arm", ("cortex-m33",), "cortex_m.c", (0x10000000, 0x400),
            (0x10000400, (4 << 20) - 0x400), (0x38000000, 4 << 20), 50.0, 6, ("BOARD_TIMER=0x50000000u",),
        ),
        Machine(
            "mps3-an547", "qemu-system-arm", ("cortex-m55", "cortex-m85"), "cortex_m.c", (0, 0x400),
            (0x01000000, 2 << 20), (0x20000000, 512 << 10), 31.25, 6, ("BOARD_SSE",),
        ),
        _virt("generic-rv32", "-M", "virt"),
    )
}  # fmt: skip


def machine_for(firmware: Firmware, name: str | None = None) -> Machine:
    """The board that runs a bundle: that of a name, or the first of those that run its processor's code.

    Raises:
        SternaError: E0004 the emulator is not installed; E0507 no board runs it, or not that one.
    """
    if name is not None and name not in MACHINES:
        raise no_machine(name)
    cpu = firmware.processor.llvm_cpu
    able = [machine for machine in MACHINES.values() if cpu in machine.cpus]
    if name is not None and MACHINES[name] not in able:
        known = f"sterna run --on qemu:{able[0].name}" if able else "no board that QEMU emulates does"
        title = f"{name} does not run what was compiled for {firmware.target}"
        raise error("E0507", title, str(firmware.place), fix=known)
    if not able:
        title = f"no board that QEMU emulates runs what was compiled for {firmware.target}"
        raise error("E0507", title, str(firmware.place), fix="compile it for cortex-m4, for a first look")
    machine = MACHINES[name] if name is not None else able[0]
    if shutil.which(machine.program) is None:
        title = f"{machine.program} is not installed: it emulates {machine.name}"
        raise error("E0004", title, fix=f"apt-get install {package_of(machine.program)}")
    return machine


def package_of(program: str) -> str:
    """Debian's package of an emulator of boards."""
    return program if program == "qemu-system-arm" else "qemu-system-misc"


def no_machine(name: str) -> SternaError:
    """E0507, with the name that is closest."""
    close = difflib.get_close_matches(name, MACHINES, 1)
    hint = f"did you mean {close[0]}? " if close else ""
    return error("E0507", f"no board {name} is known here", fix=f"{hint}one of {', '.join(MACHINES)}")


def gcc_words(processor: Processor) -> tuple[str, ...] | None:
    """How arm-none-eabi-gcc is told of a processor; None where it does not compile for it."""
    if not processor.llvm_triple.startswith("thumb"):
        return None
    units = {"vfp4d16sp": "fpv4-sp-d16", "fp-armv8d16sp": "fpv5-sp-d16", "fp-armv8d16": "fpv5-d16"}
    has = {feature[1:] for feature in processor.features if feature[:1] == "+"}
    hard = processor.llvm_triple.endswith("hf")
    unit = next((words for feature, words in units.items() if feature in has), "auto")
    vectors = bool(has & {"mve", "mve.fp"})
    cpu = "cortex-m55" if processor.llvm_cpu == "cortex-m85" else processor.llvm_cpu  # newer than gcc 12
    fpu = (f"-mfpu={unit}",) if hard and not vectors else ()
    return "-mthumb", f"-mcpu={cpu}", f"-mfloat-abi={'hard' if hard else 'soft'}", *fpu
