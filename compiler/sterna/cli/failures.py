"""From whatever goes wrong to a coded message and an exit status: 2 for mistakes in the command line, else 1."""

from __future__ import annotations

import difflib
import os
import re
import sys
import traceback
import warnings
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any

import click

from sterna.errors import Diagnostic, SternaError, system_error
from sterna.escape import json_text, terminal_lines
from sterna.version import __version__
from sterna_runtime.cli.reports import errors_json

#: Mistakes in the command line itself.
USAGE = ("E0001", "E0002")
_FRAMES = 3


def guarded(invoke: Callable[[], Any], commands: Collection[str], as_json: bool) -> int:
    """Runs a command; returns the exit status."""
    try:
        result = invoke()
        return result if isinstance(result, int) else 0
    except click.exceptions.NoArgsIsHelpError as asked:
        click.echo(asked.format_message(), err=True)
        return 2
    except click.UsageError as mistake:
        return _report(SternaError(_usage(mistake, commands)), as_json)
    except click.ClickException as mistake:
        return _report(SternaError(Diagnostic("E0001", mistake.format_message())), as_json)
    except SternaError as mistake:
        return _report(mistake, as_json)
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return 130
    except MemoryError:
        return _report(SternaError(Diagnostic("E0502", "there is not enough memory for this")), as_json)
    except OSError as problem:
        _debug()
        return _report(system_error(problem), as_json)
    except Exception as problem:
        _debug()
        return _report(SternaError(_internal(problem)), as_json)


@contextmanager
def told_warnings() -> Iterator[None]:
    """Within it, warnings for users are lines on standard error, without the place in our code that Python names."""

    def show(message: Warning | str, category: type[Warning], *place: Any, **rest: Any) -> None:
        if category is UserWarning:
            click.echo(f"warning: {terminal_lines(str(message))}", err=True)
        else:
            before(message, category, *place, **rest)

    before, warnings.showwarning = warnings.showwarning, show
    try:
        yield
    finally:
        warnings.showwarning = before


def _usage(mistake: click.UsageError, commands: Collection[str]) -> Diagnostic:
    path = _path(mistake.ctx)
    title = mistake.format_message().rstrip(".")
    title = title[:1].lower() + title[1:]
    words = title.split("'")
    if isinstance(mistake, click.exceptions.NoSuchOption):
        close = difflib.get_close_matches(mistake.option_name, mistake.possibilities or (), 1)
    else:
        close = difflib.get_close_matches(words[1], commands, 1) if title.startswith("no such command") else []
    title = re.split(r"[.,;]?\s+\(?(?:possible options|did you mean)", title, flags=re.IGNORECASE)[0]
    hint = f"did you mean {' or '.join(close)}? " if close else ""
    return Diagnostic("E0001", title, (), f"{hint}`{path} --help` lists what there is")


def _path(context: click.Context | None) -> str:
    """The command as people write it: one that stands for "what is no other command" by its first argument."""
    words: list[str] = []
    while context is not None:
        arguments = [each for each in context.command.params if isinstance(each, click.Argument)]
        by_argument = context.command.hidden and arguments
        words[:0] = [arguments[0].make_metavar(context) if by_argument else context.info_name or ""]
        context = context.parent
    return " ".join(words) or "sterna"


def _internal(problem: Exception) -> Diagnostic:
    """Where it went wrong, in our own code, innermost last."""
    frames = [f for f in traceback.extract_tb(problem.__traceback__) if f"{os.sep}sterna{os.sep}" in f.filename]
    shown = [f.filename.split(f"{os.sep}sterna{os.sep}")[-1] for f in frames[-_FRAMES:]]
    places = tuple(f"in {name}, line {f.lineno}, {f.name}" for name, f in zip(shown, frames[-_FRAMES:], strict=True))
    return Diagnostic(
        "E0901",
        f"internal error: {type(problem).__name__}: {problem}",
        (*places, f"sterna {__version__}; STERNA_DEBUG=1 shows the whole traceback"),
        "this is a bug in Sterna, not in your model; please report it with the model and this message",
    )


def _debug() -> None:
    if os.environ.get("STERNA_DEBUG", "") not in ("", "0"):
        traceback.print_exc()


def _report(mistake: SternaError, as_json: bool) -> int:
    print_errors(mistake)
    if as_json:
        click.echo(json_text({"errors": errors_json(mistake)}, indent=2))
    return 2 if all(code in USAGE for code in mistake.codes) else 1


def print_errors(mistake: SternaError) -> None:
    """The diagnostics, on standard error."""
    colour = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
    for number, diagnostic in enumerate(mistake.diagnostics):
        first, *rest = diagnostic.text("cli").splitlines()
        head, _, title = first.partition(": ")
        if colour:
            first = f"{click.style(head, fg='red', bold=True)}: {click.style(title, bold=True)}"
        click.echo("\n".join([*([""] if number else []), first, *rest]), err=True)
