"""From what a command is given, a bundle or a model, to a bundle to report on."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from sterna.api import compile_with
from sterna.budgets import smaller_arenas
from sterna.bundle.writer import write_bundle
from sterna.driver import reading
from sterna.errors import error
from sterna.frontends.formats import find, read_model
from sterna.frontends.source import Source
from sterna.options import Options
from sterna.report.subject import Subject, subject_of
from sterna.scratch import temporary_directory
from sterna.targets.description import load_target
from sterna.targets.target import Flash, Target
from sterna_runtime.advice import Compile, Option

#: That are made to see what patches of a model's first layers would give.
_MOST_PLANS = 24


def is_bundle(path: Path) -> bool:
    """Whether it is a directory of a bundle, and no model of several files.

    Raises:
        SternaError: E0006, nothing is there.
    """
    if not path.exists():
        raise error("E0006", f"{path} does not exist", fix="give a bundle's directory or a model file")
    return path.is_dir() and find(path) is None


@contextlib.contextmanager
def made(path: Path, options: Options) -> Iterator[Subject]:
    """A bundle, or a model that is compiled into one for as long as the block lasts.

    Raises:
        SternaError: there is neither, or the model cannot be compiled.
    """
    if is_bundle(path):
        yield subject_of(path)
        return
    with temporary_directory("report") as folder:
        compiled = compile_with(path, options)
        subject = subject_of(write_bundle(compiled, Path(folder) / "bundle"))
        choices = tuple(_smaller(path, options)) if options.target.static else ()
        yield replace(subject, compiled=compiled, source=path, command=command_of(path, options), choices=choices)


def _smaller(path: Path, options: Options) -> Iterator[dict[str, Any]]:
    """What firmware would be with its leading layers in patches, which a limit of RAM makes it."""
    graph = read_model(Source.of(path), reading(options))
    for patches, arena, products in smaller_arenas(graph, replace(options, patches=None), _MOST_PLANS):
        grid = " x ".join(str(n) for n in patches.parts if n > 1)
        text = f"the layers up to {patches.result} in {grid} patches, as a limit of RAM would choose"
        yield {"what": "patches", "text": text, "bytes": arena, "multiply_adds": products}


#: Options of a compilation that a command is told of where they are not what they are without being asked for.
_TOLD = (
    "generator", "compiler", "weights", "threads", "signature", "weights_file", "name", "weights_section",
    "weights_array", "weights_address", "max_flash", "max_ram", "max_stack",
)  # fmt: skip


def command_of(path: Path, options: Options) -> str:
    """How to make the same bundle again."""
    target, usual = options.target, Options(options.target)
    asked = [Option("target", target.file or target.name)]
    asked += [Option(key, dict(own)) for key in ("shapes", "dims") if (own := getattr(options, key))]
    asked += [Option(key, own) for key in _TOLD if (own := getattr(options, key)) != getattr(usual, key)]
    asked += _memories(target, load_target(target.file or target.name))
    if options.math:
        asked.append(Option("math", f"fast={options.math:g}"))
    return Compile(path.name, path.stem, tuple(asked)).text("cli")


def _memories(target: Target, usual: Target) -> Iterator[Option]:
    """What a target was told about a board's memories that its description does not say."""
    if target.tensor_memories != usual.tensor_memories:
        fastest = sorted(target.tensor_memories, key=lambda memory: -memory.bytes_per_cycle)
        yield Option("pools", {memory.name: memory.bytes for memory in fastest})
    flash, known = target.flash, usual.flash or Flash(1.0)
    if flash is not None and flash.bytes_per_cycle != known.bytes_per_cycle:
        yield Option("weights_speed", flash.bytes_per_cycle)
    if flash is not None and flash.dma and not known.dma:
        yield Option("weights_dma", True)
