"""Firmware of one model for one board: built, run in QEMU with a plugin that counts, and measured."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sterna.api import compile_to
from support import boards
from support.machines import HERE, STRICT, read_outputs, write_inputs
from support.tools import need, run
from support.trained import Trained

BENCH = Path(__file__).resolve().parent
#: What bundles are compiled by: sources by arm-none-eabi-gcc, the archive that zig made of C, that of LLVM.
BUILDS = {"gcc": ("c", False), "zig": ("c", True), "llvm": ("llvm", True)}
_COUNTED = """#include "board.h"
#include "model.h"

__attribute__((noinline)) void bench_begin(void) { __asm__ volatile("nop" ::: "memory"); }
__attribute__((noinline)) void bench_end(void) { __asm__ volatile("nop\\nnop" ::: "memory"); }
"""
#: A model that does nothing: what is left of a program is not the model's.
_EMPTY = """#include "model.h"
int32_t {model}_run(const {model}_inputs *a, const {model}_outputs *b, uint8_t *c, const uint8_t *d) {{
  return (void)a, (void)b, (void)c, (void)d, 0;
}}
void {model}_reset_state(uint8_t *a, const uint8_t *b);
void {model}_reset_state(uint8_t *a, const uint8_t *b) {{ (void)a; (void)b; }}
const uint8_t {model}_params[{MODEL}_PARAMS_BYTES] = {{1}};
"""


@dataclass(frozen=True)
class Measured:
    """What a model takes on a board.

    Args:
        code, weights: bytes of instructions and tables, and of parameters; `flash` is both.
        arena, static, stack: bytes of working memory, without inputs and outputs; `memory` is their sum.
        instructions: of one inference, the second after reset.
        histogram: instructions by mnemonic, if that was asked for.
        outputs: of the second inference, for a comparison with the reference.
    """

    code: int
    weights: int
    arena: int
    static: int
    stack: int
    instructions: int
    outputs: tuple[np.ndarray, ...]
    histogram: Mapping[str, int]

    @property
    def flash(self) -> int:
        return self.code + self.weights

    @property
    def memory(self) -> int:
        return self.arena + self.static + self.stack


def measure(model: Trained, target: str, build: str, folder: Path, optimize: str = "-O2") -> Measured:
    """Compiles, builds, runs and measures.

    Args:
        build: one of BUILDS; folder: an empty one.

    Raises:
        SternaError: the model does not compile. RuntimeError: the board has no room for it, or what it ran failed.
    """
    generator, library = BUILDS[build]
    bundle = folder / "bundle"
    compile_to(bundle, model.file, target, shapes=model.shapes(), generator=generator)
    if too_large := boards.too_large_for_the_board(bundle, target):
        raise RuntimeError(too_large)
    header = (bundle / "model.h").read_text()
    (arena,) = map(int, re.findall(r"_ARENA_BYTES (\d+)", header))
    (weights,) = map(int, re.findall(r"_PARAMS_BYTES (\d+)", header))
    main = boards.firmware_main(bundle, 1 << 30)
    name = re.findall(r"typedef struct (\w+)_inputs", header)[0]
    call = f"{name}_run(&inputs, &outputs, arena, {name}_params)"
    main = main.replace(f"const int status = {call};", f"bench_begin(); const int status = {call}; bench_end();", 1)
    main = main.replace("board_stack_used() > 1073741824", "report_stack()")
    main = main.replace(f"if ({call} != 0) return 3;", f"bench_begin(); if ({call} != 0) return 3; bench_end();")
    report = (
        'static int report_stack(void) { unsigned n = board_stack_used(); return !board_write("stack", 5, &n, 4); }\n'
    )
    (folder / "main.c").write_text(_COUNTED + report + main)
    (folder / "empty.c").write_text(_EMPTY.format(model=name, MODEL=name.upper()))
    image, before = (_link(target, bundle, folder, library, optimize, is_empty) for is_empty in (False, True))
    sizes, others = _sections(image), _sections(before)
    case = model.cases[0]
    write_inputs(folder, list(case.inputs.values()))
    counts, histogram = _run(target, image, folder)
    text, data = (".text", ".rodata", ".ARM.exidx", ".data"), (".data", ".bss")
    stack = int(np.fromfile(folder / "stack", np.uint32)[0])
    return Measured(
        sum(sizes.get(k, 0) - others.get(k, 0) for k in text),
        weights,
        arena,
        sum(sizes.get(k, 0) - others.get(k, 0) for k in data),
        stack,
        counts[-1],
        tuple(read_outputs(folder, case.outputs)),
        histogram,
    )


def _link(target: str, bundle: Path, folder: Path, library: bool, optimize: str, empty: bool) -> Path:
    """The program with the model, or with one that does nothing."""
    board = HERE / "cortex_m"
    script = folder / "board.ld"
    script.write_text(boards.BOARDS[target].memory() + (board / "sections.ld").read_text())
    own = [bundle / "model.c", bundle / "params.c", bundle / ("model.a" if library else "kernels.c")]
    model = [folder / "empty.c"] if empty else own
    image = folder / ("empty.elf" if empty else "firmware.elf")
    flags = [f for f in (*boards.FREESTANDING, *STRICT) if f not in ("-O2", "-Wextra", "-Wconversion")]
    sections = ["-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections", "-fno-builtin"]
    link = [f"-Wl,-T,{script}", "-lgcc", "-o", image]
    run(
        *boards.compiler_for(target, "gcc"), folder / "main.c", board / "startup.c", *model, *flags, optimize,
        *sections, f"-I{board}", f"-I{bundle}", *link, cwd=folder,
    )  # fmt: skip
    return image


def _sections(image: Path) -> dict[str, int]:
    lines = run("arm-none-eabi-size", "-A", image, cwd=image.parent).splitlines()
    found = (line.split() for line in lines)
    return {words[0]: int(words[1]) for words in found if len(words) == 3 and words[1].isdigit()}


def plugin(folder: Path) -> Path:
    """The plugin that counts, built if it is not there."""
    library = folder / "libcounter.so"
    if not library.exists():
        run("gcc", "-O2", "-shared", "-fPIC", "-o", library, BENCH / "counter.c", cwd=folder)
    return library


def _run(target: str, image: Path, folder: Path) -> tuple[Sequence[int], Mapping[str, int]]:
    """Instructions of each inference, and by mnemonic of the last one."""
    symbols = {
        w[2]: int(w[0], 16)
        for line in run("arm-none-eabi-nm", image, cwd=folder).splitlines()
        if len(w := line.split()) == 3
    }
    counts = folder / "counts"
    options = (
        f"file={plugin(folder)},begin={symbols['bench_begin']:#x},end={symbols['bench_end']:#x},out={counts},hist=1"
    )
    quiet = ["-nographic", "-monitor", "none", "-serial", "none", "-semihosting-config", "enable=on,target=native"]
    qemu = need("qemu-system-arm", "emulates Cortex-M boards")
    run(qemu, "-M", boards.BOARDS[target].machine, *quiet, "-kernel", image, "-plugin", options, cwd=folder)
    text = counts.read_text()
    regions = [int(n) for n in re.findall(r"^REGION \d+ insns=(\d+)", text, re.M)]
    last = len(regions) - 1
    return regions, {m: int(n) for m, n in re.findall(rf"^HIST {last} (\S+) (\d+)", text, re.M)}
