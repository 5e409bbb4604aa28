"""`sterna compile --time-passes`: where the time of a compilation went."""

from __future__ import annotations

import sys
from typing import Any

from sterna.cli.output import console, table
from sterna.escape import rich as escape
from sterna.timing import Timed, Times
from sterna_runtime.cli.reports import duration

_SHOWN = 5  # parts of a stage that are listed, the slowest


def print_times(times: Times) -> None:
    """A row for every stage with its share, and below it its slowest parts; on standard error."""
    rows, total = table("stage", ">time", ">share"), times.seconds or 1.0

    def add(name: str, seconds: float, depth: int) -> None:
        rows.add_row(f"{'  ' * depth}{escape(name)}", duration(seconds), f"{seconds / total:.1%}")

    def add_all(timed: Timed, depth: int) -> None:
        add(timed.name, timed.seconds, depth)
        slowest = sorted(timed.parts, key=lambda part: -part.seconds)
        for part in slowest[:_SHOWN]:
            add_all(part, depth + 1)
        if rest := slowest[_SHOWN:]:
            add(f"{len(rest)} more", sum(part.seconds for part in rest), depth + 1)

    for stage in times.stages:
        add_all(stage, 0)
    rows.add_row("all", duration(times.seconds), "100.0%")
    console(sys.stderr).print(rows)


def times_json(times: Times) -> list[dict[str, Any]]:
    """The same for scripts, with all parts, in the order in which they began."""
    total = times.seconds or 1.0
    return [{**_row(stage), "share": round(stage.seconds / total, 6)} for stage in times.stages]


def _row(timed: Timed) -> dict[str, Any]:
    parts = {"parts": [_row(part) for part in timed.parts]} if timed.parts else {}
    return {"name": timed.name, "seconds": round(timed.seconds, 6), **parts}
