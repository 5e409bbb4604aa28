"""`sterna explain`."""

from __future__ import annotations

import dataclasses
import difflib
import textwrap

import click

from sterna.cli.options import json_option
from sterna.cli.output import print_json
from sterna.errors import error
from sterna_runtime.error_codes import CODES, GROUPS

_WIDTH = 88


@click.command("explain")
@click.argument("code", required=False)
@json_option
def command(code: str | None, as_json: bool) -> None:
    """Explain an error code, for example E0105: its cause, and what to do about it. Without CODE: list all."""
    if code is not None:
        _one(_known(code), as_json)
    elif as_json:
        print_json({each: dataclasses.asdict(entry) for each, entry in CODES.items()})
    else:
        for group, heading in GROUPS.items():
            click.echo(heading)
            for each, entry in CODES.items():
                if each.startswith(group):
                    click.echo(f"  {each}  {entry.meaning}")


def _known(code: str) -> str:
    """The code as it is written in `CODES`; also of `e105`, `105` and `error[E0105]`."""
    digits = "".join(letter for letter in code if letter in "0123456789")
    name = f"E{digits:0>4}"
    if digits and name in CODES:
        return name
    close = difflib.get_close_matches(name, CODES, 3)
    hint = f"close to it: {', '.join(close)}; " if close else ""
    raise error("E0002", f'there is no error code "{code}"', fix=f"{hint}`sterna explain` lists all codes")


def _one(code: str, as_json: bool) -> None:
    entry = CODES[code]
    if as_json:
        print_json({"code": code, **dataclasses.asdict(entry)})
        return
    click.echo(f"{code}: {entry.meaning}")
    for heading, text in (("Cause", entry.cause), ("Fix", entry.fix)):
        body = textwrap.fill(text, _WIDTH, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)
        click.echo(f"\n{heading}\n{body}")
