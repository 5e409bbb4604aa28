"""`sterna report`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from sterna.bundle.install import write_file
from sterna.cli import options
from sterna.cli.asked import takes_options
from sterna.cli.output import print_json
from sterna.errors import error
from sterna.escape import terminal
from sterna.options import Options
from sterna.report.data import describe, document
from sterna.report.making import made
from sterna.report.page import page
from sterna.report.subject import Subject
from sterna.report.timing import time_of
from sterna_runtime.cli.reports import size
from sterna_runtime.cli.trial import Asked

_RUNS = 20


@click.command("report")
@click.argument("subject", metavar="BUNDLE|MODEL", type=click.Path(path_type=Path))
@click.argument("other", metavar="[OTHER]", type=click.Path(path_type=Path), required=False)
@options.model_options
@options.signature_option
@options.weights_file_option
@click.option("--output", "-o", type=click.Path(path_type=Path), metavar="FILE",
              help="The page. Default: report.html.")  # fmt: skip
@click.option("--time", "timed", is_flag=True, help="Run it and time every node.")
@click.option("--repeat", "-n", type=click.IntRange(min=1), default=_RUNS, show_default=True, metavar="N",
              help="Number of runs to time.")  # fmt: skip
@click.option("--input", "-i", "given", multiple=True, metavar="NAME=FILE",
              help="What it is timed on, as `sterna run` takes it. Default: random values.")  # fmt: skip
@options.on_option
@options.json_option
@takes_options
def command(
    make_options: Callable[..., Options],
    subject: Path,
    other: Path | None,
    output: Path | None,
    timed: bool,
    repeat: int,
    given: tuple[str, ...],
    on: str | None,
    as_json: bool,
) -> int:
    """Make a page that shows a BUNDLE, or a MODEL that is compiled for it: its graph, time, memory and errors.

    With OTHER, two of them. The page is one file, and loads nothing from elsewhere; --json prints its data.
    """
    place = Path("report.html") if output is None else output
    if place.suffix.lower() not in (".html", ".htm"):
        raise error("E0007", f"{place} does not end in .html", fix="--output report.html")
    asked = make_options()
    trial = Asked(given, random=True, repeat=repeat, profile=True) if timed or on is not None or given else None
    with contextlib.ExitStack() as stack:
        subjects = [stack.enter_context(made(each, asked)) for each in (subject, other) if each is not None]
        rows = [describe(each, _time(each, trial, asked.threads, on)) for each in subjects]
    data = document(rows)
    if as_json:
        print_json(data)
        return 0
    text = page(data).encode()
    try:
        write_file(place, text)
    except OSError as problem:
        raise error("E0007", f"{place} cannot be written: {problem.strerror}") from None
    click.echo(f"{terminal(str(place))} ({size(len(text))})")
    return 0


def _time(subject: Subject, trial: Asked | None, threads: int, on: str | None) -> dict[str, Any] | None:
    if trial is None:
        return None
    with options.opened(subject.place, threads, on) as model:
        return time_of(model, trial, threads, on)
