"""`sterna targets`."""

from __future__ import annotations

import dataclasses
from typing import Any

import click

from sterna.cli.options import json_option
from sterna.cli.output import console, print_json, table
from sterna.escape import rich as escape
from sterna.targets.description import MUSL, load_target, target_names
from sterna.targets.target import Target


@click.command("targets")
@click.argument("name", required=False)
@json_option
def command(name: str | None, as_json: bool) -> None:
    """List the targets, or describe the one called NAME (or in the .toml file NAME).

    A target is a small TOML file; `extends` starts from another. Give --target a path to use your own, or put its
    folder into STERNA_TARGETS.
    """
    if name is not None:
        target = load_target(name)
        if as_json:
            print_json(_json(target))
        else:
            _describe(target)
        return
    targets = [load_target(each) for each in target_names()]
    if as_json:
        print_json([_json(target) for target in targets])
        return
    rows = table("name", "machine", ">vectors", "library")
    for target in targets:
        vectors = f"{target.vector_bits} bit" if target.vector_bits else "none"
        rows.add_row(target.name, escape(target.description), vectors, target.library or "source only")
    console().print(rows)
    click.echo("`sterna targets NAME` shows all of one; a path to a .toml file of your own works wherever a name does")
    click.echo(f"NAME{MUSL} is NAME for Linux with musl (Alpine, OpenWrt): raspberrypi4{MUSL}")


def _json(target: Target) -> dict[str, Any]:
    return {key: list(v) if isinstance(v, tuple) else v for key, v in dataclasses.asdict(target).items()}


def _describe(target: Target) -> None:
    rows = table("key", "value")
    rows.show_header = False
    for key, value in _json(target).items():
        text = "; ".join(map(_text, value)) if key == "memories" else _text(value)
        rows.add_row(key, escape(text) if text else "[dim]-[/]")
    console().print(rows)


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if isinstance(value, dict):
        return ", ".join(f"{key} {_text(v)}" for key, v in value.items())
    return str(value).lower() if isinstance(value, bool) else str(value)
