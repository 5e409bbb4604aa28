"""What a model takes of a board: bytes of flash, memory and stack, and instructions of a run, each measured."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sterna.firmware.build import build, sections, serving_program
from sterna.firmware.description import Firmware
from sterna.firmware.machines import Machine
from sterna.firmware.remote import BoardFunctions, counted
from sterna_runtime import library, load
from sterna_runtime.random_inputs import random_inputs

#: A model that does nothing: what is left of a program is not the model's.
_EMPTY = """#include "{header}"
int32_t {model}_run(const {model}_inputs *a, const {model}_outputs *b, {memory}, const uint8_t *d) {{
  return (void)a, (void)b, (void)c, (void)d, 0;
}}
void {model}_reset_state({memory}, const uint8_t *b);
void {model}_reset_state({memory}, const uint8_t *b) {{ (void)c; (void)b; }}
const uint8_t {model}_params[{MODEL}_PARAMS_BYTES] = {{1}};
"""
_FLASH, _STATIC = (".text", ".rodata", ".ARM.exidx", ".data"), (".data", ".bss")


@dataclass(frozen=True)
class How:
    """How a program is built (`firmware.build.build`)."""

    compiler: str = "auto"
    library: bool = True
    flags: tuple[str, ...] = ("-O2",)


@dataclass(frozen=True)
class Measured:
    """What a model takes on a board.

    Args:
        code, weights: bytes of instructions and tables, and of parameters; `flash` is both.
        arena, static, stack: bytes of working memory, without inputs and outputs; `memory` is their sum.
        instructions: of one inference, the second after reset.
        outputs: of the first inference.
    """

    code: int
    weights: int
    arena: int
    static: int
    stack: int
    instructions: int
    outputs: tuple[np.ndarray, ...]

    @property
    def flash(self) -> int:
        return self.code + self.weights

    @property
    def memory(self) -> int:
        return self.arena + self.static + self.stack


def measure(
    firmware: Firmware,
    machine: Machine,
    folder: Path,
    inputs: Sequence[np.ndarray] | None = None,
    how: How | None = None,
    options: Callable[[Path], list[str]] | None = None,
) -> Measured:
    """Builds a bundle into programs, runs one and measures.

    Args:
        folder: an empty one.
        inputs: of the run, in the model's order; None: random ones.
        options: further ones for QEMU, of the program.

    Raises:
        SternaError: E0405 it does not fit the board; E0402, E0403 of the compiler; E0508 it ends with an error.
    """
    how = how or How()
    given = {"compiler": how.compiler, "library": how.library, "flags": how.flags}
    with contextlib.ExitStack() as stack:
        stack.enter_context(library.replaced_by(BoardFunctions(machine.name, options, nodes=False, **given)))
        loaded = stack.enter_context(load(firmware.place))
        specs = loaded.inputs
        arrays = list(random_inputs(specs).values()) if inputs is None else list(inputs)
        arrays = [np.asarray(a, s.dtype).reshape(s.sizes) for s, a in zip(specs, arrays, strict=True)]
        outputs = loaded.run(arrays)
        loaded.reset_state()
        loaded.run(arrays)
        counts = counted(loaded)
        assert counts is not None
        assert counts.stack is not None
    sizes, without = (_sizes(firmware, machine, folder / name, how) for name in ("whole", "empty"))
    return Measured(
        sum(sizes.get(name, 0) - without.get(name, 0) for name in _FLASH),
        firmware.params_bytes,
        firmware.memory_bytes,
        sum(sizes.get(name, 0) - without.get(name, 0) for name in _STATIC),
        counts.stack,
        counts.instructions,
        tuple(outputs.values()),
    )


def _sizes(firmware: Firmware, machine: Machine, folder: Path, how: How) -> Mapping[str, int]:
    """Sections of the program, with the model or in the folder "empty" with one that does nothing."""
    folder.mkdir()
    model = [_empty_model(firmware, folder)] if folder.name == "empty" else None
    image = build(
        firmware, machine, folder, serving_program(firmware), model=model,
        compiler=how.compiler, library=how.library, flags=how.flags,
    )  # fmt: skip
    return sections(image)


def _empty_model(firmware: Firmware, folder: Path) -> Path:
    name, source = firmware.model, folder / "empty.c"
    memory = f"const {name}_memory *c" if firmware.pools else "uint8_t *c"
    source.write_text(_EMPTY.format(model=name, MODEL=name.upper(), header=firmware.header, memory=memory), "utf-8")
    return source
