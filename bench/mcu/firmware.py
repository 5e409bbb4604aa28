"""Firmware of one model for one board, built and run by `sterna.firmware`: what it takes of memory and instructions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sterna.api import compile_to
from sterna.firmware.build import build, sections, serving_program
from sterna.firmware.description import Firmware, read_firmware
from sterna.firmware.machines import Machine, machine_for
from sterna.firmware.remote import BoardFunctions, counted
from sterna_runtime import library, load
from support.tools import need, run
from support.trained import Trained

BENCH = Path(__file__).resolve().parent
#: What bundles are compiled by: sources by arm-none-eabi-gcc, zig's archive of C, LLVM's; and everything by zig.
BUILDS = {"gcc": ("c", False, "gcc"), "zig": ("c", True, "auto"), "llvm": ("llvm", True, "auto"),
          "zig-alone": ("c", True, "zig")}  # fmt: skip
#: A model that does nothing: what is left of a program is not the model's.
_EMPTY = """#include "{header}"
int32_t {model}_run(const {model}_inputs *a, const {model}_outputs *b, {memory}, const uint8_t *d) {{
  return (void)a, (void)b, (void)c, (void)d, 0;
}}
void {model}_reset_state({memory}, const uint8_t *b);
void {model}_reset_state({memory}, const uint8_t *b) {{ (void)c; (void)b; }}
const uint8_t {model}_params[{MODEL}_PARAMS_BYTES] = {{1}};
"""


@dataclass(frozen=True)
class Measured:
    """What a model takes on a board.

    Args:
        code, weights: bytes of instructions and tables, and of parameters; `flash` is both.
        arena, static, stack: bytes of working memory, without inputs and outputs; `memory` is their sum.
        instructions: of one inference, the second after reset.
        outputs: of the first inference, for a comparison with the reference.
        histogram: instructions by mnemonic, where that was asked for.
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


def measure(
    model: Trained, target: str, how: str, folder: Path, optimize: str = "-O2", by_mnemonic: bool = False
) -> Measured:
    """Compiles, builds, runs and measures.

    Args:
        how: one of BUILDS; folder: an empty one.

    Raises:
        SternaError: the model does not compile, does not fit the board, or ends with an error there.
    """
    generator, archive, compiler = BUILDS[how]
    bundle = compile_to(folder / "bundle", model.file, target, shapes=model.shapes(), generator=generator)
    firmware = read_firmware(bundle)
    machine = machine_for(firmware)
    given = {"compiler": compiler, "library": archive, "flags": (optimize,)}
    plugin: list[Path] = []

    def options(image: Path) -> list[str]:
        plugin.append(image.parent / "counts")
        return plugin_options(image) if by_mnemonic else []

    by_name: Mapping[str, int] = {}
    board = BoardFunctions(machine.name, options=options, **given)
    with library.replaced_by(board), load(bundle) as loaded:
        case = model.cases[0]
        pairs = zip(loaded.inputs, case.inputs.values(), strict=True)
        arrays = [np.asarray(array, spec.dtype).reshape(spec.shape) for spec, array in pairs]
        outputs = loaded.run(arrays)
        loaded.reset_state()
        loaded.run(arrays)
        counts = counted(loaded)
        assert counts is not None
        if by_mnemonic:
            _, by_name = read_counts(plugin[0].read_text())
    with_model, without = (_sizes(firmware, machine, folder / name, given) for name in ("whole", "empty"))
    text, data = (".text", ".rodata", ".ARM.exidx", ".data"), (".data", ".bss")
    return Measured(
        sum(with_model.get(k, 0) - without.get(k, 0) for k in text),
        firmware.params_bytes,
        firmware.memory_bytes,
        sum(with_model.get(k, 0) - without.get(k, 0) for k in data),
        counts.stack,
        counts.instructions,
        tuple(a.reshape(like.shape) for a, like in zip(outputs.values(), case.outputs, strict=True)),
        by_name,
    )


def _sizes(firmware: Firmware, machine: Machine, folder: Path, given: Mapping[str, object]) -> Mapping[str, int]:
    """Sections of the program, with the model or in the folder "empty" with one that does nothing."""
    folder.mkdir()
    model = [empty_model(firmware, folder)] if folder.name == "empty" else None
    return sections(build(firmware, machine, folder, serving_program(firmware), model=model, **given))


def empty_model(firmware: Firmware, folder: Path) -> Path:
    """The source of a model that does nothing."""
    name, source = firmware.model, folder / "empty.c"
    memory = f"const {name}_memory *c" if firmware.pools else "uint8_t *c"
    source.write_text(_EMPTY.format(model=name, MODEL=name.upper(), header=firmware.header, memory=memory))
    return source


def plugin_options(image: Path) -> list[str]:
    """Options for QEMU that count the last run of a program by mnemonic, into `counts` beside the image."""
    counter = image.parent / "libcounter.so"
    run("gcc", "-O2", "-shared", "-fPIC", "-o", counter, BENCH / "counter.c", cwd=image.parent)
    lines = run(need("arm-none-eabi-nm", "reads programs"), image, cwd=image.parent).splitlines()
    symbols = {words[2]: int(words[0], 16) for line in lines if len(words := line.split()) == 3}
    begin = next(at for name, at in symbols.items() if name.endswith("_run") and not name.startswith("board"))
    marks = f"begin={begin:#x},end={symbols['board_clock']:#x}"
    return ["-plugin", f"file={counter},{marks},out={image.parent / 'counts'},hist=1"]


def read_counts(text: str) -> tuple[int, Mapping[str, int]]:
    """Instructions of the last run, and by mnemonic, of the file that the plugin wrote."""
    regions = [int(n) for n in re.findall(r"^REGION \d+ insns=(\d+)", text, re.M)]
    last = len(regions) - 1
    return regions[last], {m: int(n) for m, n in re.findall(rf"^HIST {last} (\S+) (\d+)", text, re.M)}
