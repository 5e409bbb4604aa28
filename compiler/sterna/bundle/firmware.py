"""The archive of a firmware bundle, and what the model takes: flash by section, stack over the call graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sterna.bundle.c_files import arena_bytes, model_header, static_model
from sterna.compiled import Compiled
from sterna.errors import Diagnostic, SternaError
from sterna.options import Options
from sterna.toolchain.compilers import compile_c
from sterna.toolchain.frames import RISCV, THUMB_1, THUMB_2, Contents, Frame, contents, deepest, members
from sterna.toolchain.link import link_library
from sterna_runtime.advice import Advice, Fix, Option

#: Option -> what it bounds.
_BUDGETS = {
    "max_flash": ("flash: code, tables and weights", "narrower weights, or a smaller model"),
    "max_ram": ("memory: arena and stack", "smaller inputs, or a smaller model"),
    "max_stack": ("stack", "a larger stack, or another generator"),
}


@dataclass(frozen=True)
class Footprint:
    """What a model takes, in bytes; None where it is not known.

    Args:
        code, tables: of the archive, instructions and constants; weights: what lies in the same flash.
        arena: and all pools, with scratch; stack: the deepest of NAME_run and what it calls, without interrupts.
    """

    code: int | None
    tables: int | None
    weights: int
    arena: int
    stack: int | None

    @property
    def flash(self) -> int | None:
        return None if self.code is None or self.tables is None else self.code + self.tables + self.weights

    @property
    def taken(self) -> dict[str, int | None]:
        """What is budgeted, by the option."""
        return {"max_flash": self.flash, "max_ram": self.ram, "max_stack": self.stack}

    @property
    def ram(self) -> int | None:
        return None if self.stack is None else self.arena + self.stack


def firmware_archive(compiled: Compiled) -> tuple[bytes, Footprint]:
    """The kernels' archive with NAME_run in it, and what all takes. A target without a library has no archive, and
    neither sizes of code nor a stack that are known.

    Raises:
        SternaError: E04xx the toolchain failed.
    """
    options, target = compiled.options, compiled.options.target
    arena = arena_bytes(compiled)
    # At an address of their own they take nothing of the flash that the code is in.
    weights = len(compiled.params) if options.weights_address is None else 0
    if not compiled.library:
        return b"", Footprint(None, None, weights, arena, None)
    # A program may compile model.c as well: what stands in the archive gives way to that.
    names = ("run", *(["reset_state"] if compiled.graph.live_in else []))
    weak = "".join(f"#pragma weak {compiled.model}_{name}\n" for name in names)
    text = static_model(compiled).replace('#include "model.h"\n', model_header(compiled) + weak, 1)
    objects = [*members(compiled.library), compile_c(text, target, options.compiler)]
    archive = link_library(objects, target, compiled.model)
    try:
        parts = [contents(each) for each in objects]
    except ValueError:
        found = Footprint(None, None, weights, arena, None)  # of another processor
    else:
        found = _footprint(parts, weights, arena, f"{compiled.model}_run")
    return archive, found


def _footprint(parts: list[Contents], weights: int, arena: int, start: str) -> Footprint:
    frames: dict[str, Frame] = {}
    for name, frame in (row for part in parts for row in part.frames.items()):
        # Objects may have local functions of one name: whichever is called, the bound of both holds.
        frames[name] = frame if name not in frames else frames[name].joined(frame)
    of = {part.instructions for part in parts}
    stack = deepest(frames, start, next((each for each in (THUMB_2, THUMB_1, RISCV) if each in of), ""))
    return Footprint(sum(part.code for part in parts), sum(part.tables for part in parts), weights, arena, stack)


def excess(options: Options, found: Footprint) -> dict[str, int]:
    """By how many bytes each budget is exceeded, by its option; those that are met, and what is not known, are left
    out."""
    over = {}
    for name in _BUDGETS:
        most, needed = getattr(options, name), found.taken[name]
        if most is not None and needed is not None and needed > most:
            over[name] = needed - most
    return over


def hold(options: Options, found: Footprint, others: Sequence[str] = ()) -> None:
    """Refuses what exceeds a budget.

    Args:
        others: what else was tried, and what that takes.

    Raises:
        SternaError: E0207, all that do and what it would take.
    """
    problems = []
    for name, (what, how) in _BUDGETS.items():
        most, needed = getattr(options, name), found.taken[name]
        if most is None:
            continue
        if needed is None:
            title = f"what the model takes of {what} is not known for the target {options.target.name}"
            problems.append(Diagnostic("E0207", title, (), Advice("leave out ", Option(name))))
        elif needed > most:
            title = f"the model takes {needed} bytes of {what}; {most} are allowed, {needed - most} too few"
            fix: Fix = Advice(Option(name, needed), f", {how}")
            problems.append(Diagnostic("E0207", title, (*_where(name, found), *others), fix))
    if problems:
        raise SternaError(problems)


def _where(name: str, found: Footprint) -> tuple[str, ...]:
    """What the sum is made of."""
    if name == "max_flash":
        return (f"code {found.code}, tables {found.tables}, weights {found.weights}",)
    return (f"arena {found.arena}, stack {found.stack}",) if name == "max_ram" else ()
