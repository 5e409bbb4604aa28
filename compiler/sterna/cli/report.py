"""`sterna report`."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from sterna.cli import options
from sterna.cli.asked import takes_options
from sterna.cli.output import print_json, write
from sterna.errors import error
from sterna.escape import terminal
from sterna.options import Options
from sterna.report.compare import Bounds, comparable, compare
from sterna.report.data import describe, document
from sterna.report.differences import differences
from sterna.report.making import is_bundle, made
from sterna.report.numbers import imported, numbers_of
from sterna.report.page import page
from sterna.report.several import for_targets, on_boards, row_of
from sterna.report.subject import Subject
from sterna.report.timing import time_of
from sterna_runtime.cli.reports import size
from sterna_runtime.cli.trial import Asked

_RUNS = 20
#: How often two bundles are timed, in turns, so that a change of the machine's load meets both.
_TURNS = 3


def share(text: str) -> float:
    """`5%` or `5`, as a share."""
    if not re.fullmatch(r"\d{1,6}(\.\d{1,6})?%?", text, re.ASCII):
        raise error("E0002", f'"{text}" is not a percentage', fix="5%")
    return float(text.rstrip("%")) / 100


@click.command("report")
@click.argument("subject", metavar="BUNDLE|MODEL", type=click.Path(path_type=Path))
@click.argument("other", metavar="[OTHER]", type=click.Path(path_type=Path), required=False)
@options.model_options
@options.signature_option
@options.weights_file_option
@options.size_option("--max-flash", "Firmware: the most that code and weights may take, as 256K.")
@options.size_option("--max-ram", "Firmware: the most that arena and stack may take, as 64K.")
@click.option("--output", "-o", type=click.Path(path_type=Path), metavar="FILE",
              help="The page. Default: report.html.")  # fmt: skip
@click.option("--time", "timed", is_flag=True, help="Run it and time every node.")
@click.option("--repeat", "-n", type=click.IntRange(min=1), default=_RUNS, show_default=True, metavar="N",
              help="Number of runs to time.")  # fmt: skip
@click.option("--input", "-i", "given", multiple=True, metavar="NAME=FILE",
              help="What it is timed on, as `sterna run` takes it. Default: random values.")  # fmt: skip
@options.on_option
@click.option("--data", "-d", type=click.Path(path_type=Path), metavar="FILE.npz|FOLDER",
              help="Samples: compare every layer of a MODEL with the reference, or the two given.")  # fmt: skip
@click.option("--board", "-b", "boards", multiple=True, metavar="NAME|FILE",
              help="Also what `sterna fit` says of a MODEL on this board.")  # fmt: skip
@click.option("--also", multiple=True, metavar="TARGET", help="Also the size and time of a MODEL for this target.")
@click.option("--fail-if-slower", type=share, metavar="PERCENT",
              help="Fail (E0011) if OTHER takes longer by more than this.")  # fmt: skip
@click.option("--fail-if-larger", type=share, metavar="PERCENT",
              help="Fail (E0011) if OTHER takes more bytes by more than this.")  # fmt: skip
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
    data: Path | None,
    boards: tuple[str, ...],
    also: tuple[str, ...],
    fail_if_slower: float | None,
    fail_if_larger: float | None,
    as_json: bool,
) -> int:
    """Make a page that shows a BUNDLE, or a MODEL that is compiled for it: its graph, time, memory and errors.

    With OTHER, two of them side by side, and what changed. The page is one file, and loads nothing from elsewhere;
    --json prints its data.
    """
    place = Path("report.html") if output is None else output
    if place.suffix.lower() not in (".html", ".htm"):
        raise error("E0007", f"{place} does not end in .html", fix="--output report.html")
    bounds = Bounds(fail_if_slower, fail_if_larger)
    _check(subject, other, data, (*boards, *also), bounds)
    asked = make_options()
    timed = timed or on is not None or bool(given) or fail_if_slower is not None
    trial = Asked(given, random=True, repeat=repeat, profile=True) if timed else None
    with contextlib.ExitStack() as stack:
        subjects = [stack.enter_context(made(each, asked)) for each in (subject, other) if each is not None]
        times = _times(subjects, trial, asked.threads, on)
        rows = [_described(each, asked, time, data) for each, time in zip(subjects, times, strict=True)]
        comparison = None
        _tell_apart(rows, [each for each in (subject, other) if each is not None])
        if other is not None:
            found = [] if data is None else differences(subjects[0], subjects[1], asked, data)
            comparison = compare(rows[0], rows[1], bounds, found)
            if fail_if_slower is not None and not comparable(rows[0], rows[1]):
                raise error("E0002", "one is timed in nanoseconds, the other in instructions: nothing to compare")
        option_for = partial(_for_target, make_options)
        targets = [row_of(rows[0]), *for_targets(subject, also, option_for, trial)] if also else []
        fits = on_boards(subject, boards, option_for) if boards else []
    whole = document(rows, comparison, fits, targets)
    _write(whole, None if as_json else place)
    if comparison is not None and not comparison["ok"]:
        raise error("E0011", "the second exceeds a limit", *comparison["verdict"])
    return 0


def _check(subject: Path, other: Path | None, data: Path | None, models_only: Sequence[str], bounds: Bounds) -> None:
    """Refuses options that what was named has nothing for."""
    bundle = is_bundle(subject)
    if models_only and bundle:
        title = f"{subject} is a bundle, which is compiled for one target"
        raise error("E0002", title, fix="use --board and --also with the model")
    if data is not None and bundle and other is None:
        title = f"{subject} is a bundle: there is no reference to compare it with"
        raise error("E0002", title, fix="use --data with the model, or with two bundles")
    if other is None and bounds != Bounds():
        raise error("E0002", "there is nothing to compare with", fix="name a second bundle or model")


def _for_target(make_options: Callable[..., Options], target: str) -> Options:
    return make_options(target=target)


def _times(
    subjects: Sequence[Subject], trial: Asked | None, threads: int, on: str | None
) -> list[dict[str, Any] | None]:
    """Of every subject the measurement with the fastest run, of several in turns where there are two."""
    if trial is None:
        return [None] * len(subjects)
    best: list[dict[str, Any] | None] = [None] * len(subjects)
    for _ in range(_TURNS if len(subjects) > 1 else 1):
        for n, each in enumerate(subjects):
            with options.opened(each.place, threads, on) as model:
                time = time_of(model, trial, threads, on)
            known = best[n]
            if known is None or time["fastest"] < known["fastest"]:
                best[n] = time
    return best


def _described(subject: Subject, asked: Options, time: dict[str, Any] | None, data: Path | None) -> dict[str, Any]:
    if data is None or subject.source is None:
        return describe(subject, time)
    nodes = describe(subject)["nodes"]
    return describe(subject, time, numbers_of(imported(subject.source, asked), data, nodes))


def _tell_apart(rows: Sequence[dict[str, Any]], places: Sequence[Path]) -> None:
    """Two of one name are called by their folders, too."""
    key = "directory" if all(row["directory"] for row in rows) else "model"
    if len(rows) > 1 and rows[0][key] == rows[1][key]:
        for row, place in zip(rows, places, strict=True):
            row[key] = "/".join(place.resolve().parts[-2:])


def _write(whole: dict[str, Any], place: Path | None) -> None:
    """Prints the document, or writes the page."""
    if place is None:
        print_json(whole)
        return
    text = page(whole).encode()
    write(place, text, "--output")
    click.echo(f"{terminal(str(place))} ({size(len(text))})")
