"""What commands print: text that reads well at 80 columns and without colour, and JSON."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import click
from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Column, Table

from sterna.bundle.install import write_file
from sterna.bundle.roles import file_role
from sterna.errors import error
from sterna.escape import json_text, terminal_lines
from sterna.escape import rich as escape
from sterna_runtime.cli.reports import Signature, size

_OTHERS = 8  # that are named
_PIPE_COLUMNS = 200  # nothing is cut off where nobody looks


def console(stream: TextIO | None = None) -> Console:
    """A console for standard output, or another stream. Made anew each time: streams may have been replaced."""
    out = stream or sys.stdout
    width = None if out.isatty() or os.environ.get("COLUMNS") else _PIPE_COLUMNS
    return Console(file=out, width=width, highlight=False, emoji=False)


def echo(text: str) -> None:
    """Lines, of which parts may be names of a model."""
    click.echo(terminal_lines(text))


def write(place: Path, data: bytes, option: str | None = None) -> None:
    """Writes a file that a command was asked for, whole or not at all.

    Args:
        option: the flag that names the file; None where it is an argument.

    Raises:
        SternaError: E0007, it cannot be written.
    """
    try:
        write_file(place, data)
    except OSError as problem:
        elsewhere = f"name another file{f' with {option}' if option else ''}"
        fix = elsewhere if place.parent.is_dir() else f"mkdir -p {place.parent}"
        raise error("E0007", f"{place} cannot be written: {problem.strerror or problem}", fix=fix) from None


def make_folder(place: Path, option: str) -> None:
    """Makes a folder that a command was asked for, where it is not there.

    Raises:
        SternaError: E0007, it cannot be made.
    """
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        why = "it is a file" if place.is_file() else problem.strerror or str(problem)
        raise error("E0007", f"{place} cannot be a folder: {why}", fix=f"name another folder with {option}") from None


def print_json(data: Any) -> None:
    click.echo(json_text(data, indent=2))


def table(*columns: str | Column, title: str | None = None) -> Table:
    """A table without lines; a column whose name starts with > is right-aligned."""
    made = [
        Column(c[1:], justify="right", no_wrap=True) if isinstance(c, str) and c.startswith(">") else c for c in columns
    ]
    return Table(
        *(c if isinstance(c, Column) else Column(c, overflow="fold") for c in made),
        title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False,
    )  # fmt: skip


def signature(inputs: Sequence[Signature], outputs: Sequence[Signature], most: int | None = None) -> Table:
    """Inputs and outputs, one per line; at most so many lines for each side."""
    grid = Table.grid(padding=(0, 2))
    for kind, tensors in (("input", inputs), ("output", outputs)):
        shown = tensors if most is None or len(tensors) <= most else tensors[: most - 1]
        for tensor in shown:
            grid.add_row(f"  {kind}", f"[bold]{escape(tensor.name)}[/]", escape(str(tensor)), escape(tensor.note))
        if len(shown) < len(tensors):
            grid.add_row(f"  {kind}s", f"and {len(tensors) - len(shown)} more")
    return grid


def files(sizes: dict[str, int]) -> Table:
    """Size and purpose of every file."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(min_width=14, no_wrap=True)
    grid.add_column(justify="right")
    for name, count in sizes.items():
        whole = name == "model.wasm" and "graph.json" not in sizes
        grid.add_row(f"  {escape(name)}", size(count), f"[dim]{file_role(name, whole)}[/]")
    return grid


def left_alone(others: Sequence[str]) -> str:
    """What else is in a bundle's directory, in a line."""
    more = len(others) - _OTHERS
    return f"left alone there: {', '.join(others[:_OTHERS])}{f' and {more} more' if more > 0 else ''}"


def bar(share: float, width: int) -> str:
    """A bar of a share of the width, to an eighth of a character where the terminal has such."""
    eighths = round(max(0.0, min(1.0, share)) * width * 8)
    if not console().encoding.lower().startswith("utf"):
        return "=" * round(eighths / 8)
    full, rest = divmod(eighths, 8)
    return "\u2588" * full + (chr(0x2590 - rest) if rest else "")  # U+258F is one eighth, U+2589 seven


@contextmanager
def steps(total: int, quiet: bool = False) -> Iterator[Callable[[str], None]]:
    """A progress bar on standard error while a terminal looks; the callback starts the next of `total` steps."""
    if quiet or not sys.stderr.isatty():
        yield lambda words: None
        return
    columns = (BarColumn(24), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console(sys.stderr), transient=True) as progress:
        task = progress.add_task("", total=total)
        count = -1

        def step(words: str) -> None:
            nonlocal count
            count += 1
            progress.update(task, description=words, completed=min(count, total))

        yield step
