"""From what a command is given, a bundle or a model, to a bundle to report on."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator
from pathlib import Path

from sterna.api import compile_with
from sterna.bundle.writer import write_bundle
from sterna.errors import error
from sterna.frontends.formats import find
from sterna.options import Options
from sterna.report.subject import Subject, subject_of
from sterna.toolchain.scratch import temporary_directory


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


def command_of(path: Path, options: Options) -> str:
    """How to make the same bundle again, as far as options say."""
    target = options.target
    words = ["sterna", "compile", path.name, "--target", target.file or target.name]
    for name, sizes in options.shapes:
        words += ["--shape", f"{name}={'none' if sizes is None else ','.join(map(str, sizes))}"]
    for name, size in options.dims:
        words += ["--dim", f"{name}={size}" if isinstance(size, int) else f"{name}={size[0]}..{size[1]}"]
    if options.generator != "c":
        words += ["--generator", options.generator]
    if options.weights != "fp32":
        words += ["--weights", options.weights]
    if options.math:
        words += ["--math", f"fast={options.math:g}"]
    if options.threads != 1:
        words += ["--threads", str(options.threads)]
    for flag, value in (
        ("--max-flash", options.max_flash),
        ("--max-ram", options.max_ram),
        ("--max-stack", options.max_stack),
    ):
        if value is not None:
            words += [flag, str(value)]
    return " ".join(shlex.quote(word) for word in words)
