"""Building a program around a bundle for an emulated board, by arm-none-eabi-gcc or by zig alone."""

from __future__ import annotations

import re
import shutil
import struct
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from sterna.bundle.weights import ARRAY, ASSEMBLER, assembler_source
from sterna.codegen.render import render_template, resource
from sterna.errors import SternaError, error
from sterna.firmware.description import Firmware, Processor
from sterna.firmware.machines import STACK, Machine, gcc_words
from sterna.toolchain.compilers import run
from sterna.toolchain.zig import zig
from sterna_runtime.cli.reports import size

GCC = "arm-none-eabi-gcc"
#: What is always said: no library but the compiler's, nothing fused that is not meant so, unused functions left out.
FLAGS = (
    "-std=c99", "-g0", "-ffp-contract=off", "-fno-math-errno", "-ffreestanding", "-nostdlib", "-fno-builtin",
    "-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections",
)  # fmt: skip
_OVERFLOWS = (
    re.compile(r"region [`'](\w+)' overflowed by (\d+) bytes"),
    re.compile(r"will not fit in region '(\w+)': overflowed by (\d+) bytes"),
)


def compiler_for(processor: Processor, compiler: str = "auto") -> list[str]:
    """The command that compiles and links for a processor.

    Args:
        compiler: "gcc", "zig", or "auto": gcc where it is installed and knows the processor.

    Raises:
        SternaError: E0402, it is not installed or does not know the processor.
    """
    words = gcc_words(processor)
    if compiler == "auto":
        compiler = "gcc" if words is not None and shutil.which(GCC) is not None else "zig"
    if compiler == "zig":
        cpu = [f"-mcpu={processor.cpu}"] if processor.cpu else []
        return zig("cc", "-target", processor.triple, *cpu, "-fno-sanitize=all", *processor.flags)
    program = shutil.which(GCC)
    if program is None or words is None:
        why = "is not installed" if program is None else f"does not compile for {processor.llvm_triple}"
        raise error("E0402", f"{GCC} {why}", fix="take zig, which comes with Sterna")
    return [program, *words]


def serving_program(firmware: Firmware, nodes: bool = False) -> str:
    """The source of the program that runs a model for another one (templates/firmware/serve.c.j2).

    Args:
        nodes: as of `build`.
    """
    rows = {key: value for key, value in asdict(firmware).items() if key not in ("place", "processor", "nodes")}
    return render_template("firmware/serve.c.j2", nodes=len(firmware.nodes), counts=nodes, **rows)


def render_script(machine: Machine) -> str:
    """The linker's script of a board."""
    return render_template("firmware/sections.ld.j2", memories=machine.memories, stack=STACK)


def build(
    firmware: Firmware,
    machine: Machine,
    folder: Path,
    main: str,
    *,
    model: Sequence[Path] | None = None,
    library: bool = True,
    compiler: str = "auto",
    flags: Sequence[str] = ("-O2",),
    nodes: bool = False,
) -> Path:
    """Builds `folder/firmware.elf`.

    Args:
        folder: an empty one.
        main: the program's own source.
        model: files in place of the bundle's.
        library: whether the model comes from the bundle's library, where it has one, or is compiled.
        flags: of the compiler, after all others.
        nodes: whether the program counts nodes: NAME_counted_run is NAME_run compiled once more, with a call of
            `board_node` before each. NAME_run stays as the bundle has it, and so does the stack that it takes.

    Raises:
        SternaError: E0402, E0403 of the compiler; E0405 the program does not fit the board.
    """
    place = resource("templates") / "firmware"
    (folder / "main.c").write_text(main, "utf-8")
    script = folder / "board.ld"
    script.write_text(render_script(machine), "utf-8")
    command = compiler_for(firmware.processor, compiler)
    files = _linked(firmware, folder, library) if model is None else model
    counting = [_counting(firmware, folder)] if nodes else []
    sources = [folder / "main.c", place / "common.c", place / machine.start, *counting, *files]
    # The compiler's own library. It stands behind FLAGS: zig forgets about it where -nostdlib follows.
    libraries = ["-lgcc"] if Path(command[0]).name == GCC else ["-rtlib=compiler-rt"]
    image = folder / "firmware.elf"
    defines = [f"-D{each}" for each in machine.defines]
    words = [
        *sources,
        *FLAGS,
        *defines,
        *flags,
        f"-I{place}",
        f"-I{firmware.place}",
        f"-Wl,-T,{script}",
        *libraries,
        "-o",
        image,
    ]
    try:
        run([*command, *map(str, words)], folder, f"the program for {machine.name}")
    except SternaError as problem:
        raise _too_large(problem, firmware, machine) or problem from None
    return image


def _counting(firmware: Firmware, folder: Path) -> Path:
    """A source that compiles the function that calls the kernels once more, under another name, to count nodes."""
    source = folder / "counting.c"
    name = firmware.model
    names = "".join(f"#define {name}_{each} {name}_counted_{each}\n" for each in ("run", "reset_state"))
    source.write_text(f'#include "node.h"\n{names}#include "{firmware.sources[0]}"\n', "utf-8")
    return source


def _linked(firmware: Firmware, folder: Path, library: bool) -> list[Path]:
    """The bundle's files, with the weights among the board's other constants, wherever the user's board has them."""
    files = firmware.linked(library)
    if ARRAY in firmware.sources and not firmware.weights_section:
        return files
    weights = folder / ASSEMBLER
    params = firmware.place / firmware.params
    text = assembler_source(firmware.model, params.read_bytes(), firmware.alignment, str(params))
    weights.write_text(text, "utf-8")
    return [weights, *(file for file in files if file.name not in (ARRAY, ASSEMBLER))]


def _too_large(problem: SternaError, firmware: Firmware, machine: Machine) -> SternaError | None:
    """What the linker said of memories that are too small, as an error of its own."""
    said = str(problem)
    found = {name: int(count) for each in _OVERFLOWS for name, count in each.findall(said)}
    if not found:
        return None
    room = {name: count for name, _, count in machine.memories}
    lines = [f"{name} has {size(room[name])}, and lacks {size(count)}" for name, count in found.items()]
    takes = f"arena {size(firmware.memory_bytes)}, weights {size(firmware.params_bytes)}"
    title = f"the program does not fit {machine.name}"
    return error("E0405", title, *lines, f"the model takes: {takes}", fix="a smaller model, or one with 8-bit weights")


def sections(image: Path) -> Mapping[str, int]:
    """Bytes of every section of a 32-bit ELF file that is loaded or reserved, by name."""
    data = image.read_bytes()
    if data[:5] != b"\x7fELF\x01":
        raise ValueError(f"{image} is not an ELF file of 32 bits")
    (at,) = struct.unpack_from("<I", data, 32)
    each, count, names = struct.unpack_from("<HHH", data, 46)
    rows = [struct.unpack_from("<10I", data, at + n * each) for n in range(count)]
    texts = rows[names][4]
    found: dict[str, int] = {}
    for name, _, flags, _, _, length, *_ in rows:
        if flags & 2:  # SHF_ALLOC
            start = texts + name
            text = data[start : data.index(b"\0", start)].decode("ascii", "replace")
            found[text] = found.get(text, 0) + length
    return found
