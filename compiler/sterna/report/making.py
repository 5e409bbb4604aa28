"""From what a command is given, a bundle or a model, to a bundle to report on."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from sterna.api import compile_with
from sterna.bundle.writer import write_bundle
from sterna.errors import error
from sterna.frontends.formats import find
from sterna.options import Options
from sterna.report.subject import Subject, subject_of
from sterna.toolchain.scratch import temporary_directory
from sterna_runtime.advice import Compile, Option


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
        place = write_bundle(compiled, Path(folder) / "bundle")
        yield subject_of(place, compiled, path.name, command_of(path, options))


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
    if options.math:
        asked.append(Option("math", f"fast={options.math:g}"))
    return Compile(path.name, path.stem, tuple(asked)).text("cli")
