"""One model on several boards and for several targets, as rows of a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sterna.firmware.boards import load_board
from sterna.firmware.fit import fit, fit_json
from sterna.options import Options
from sterna.report.data import describe
from sterna.report.making import made
from sterna.report.timing import time_of
from sterna.runtime.here import why_not_here
from sterna_runtime import load
from sterna_runtime.cli.trial import Asked

OptionsFor = Callable[[str], Options]


def on_boards(model: Path, names: Sequence[str], options: OptionsFor) -> list[dict[str, Any]]:
    """The member `boards` of a report: what `sterna fit` says of each.

    Raises:
        SternaError: there is no such board, or the model cannot be compiled for it.
    """
    return [fit_json(each) for each in fit(model, options, [load_board(name) for name in dict.fromkeys(names)])]


def for_targets(model: Path, names: Sequence[str], options: OptionsFor, asked: Asked | None) -> list[dict[str, Any]]:
    """The rows of `targets` for further ones.

    Args:
        asked: what those that this machine can run are timed on; None: none is.

    Raises:
        SternaError: there is no such target, or the model cannot be compiled for it.
    """
    rows = []
    for name in dict.fromkeys(names):
        own = options(name)
        with made(model, own) as subject:
            time = None
            if asked is not None and not own.target.static and why_not_here(own.target) is None:
                with load(subject.place, own.threads) as bundle:
                    time = time_of(bundle, asked, own.threads, None)
            rows.append(row_of(describe(subject, time)))
    return rows


def row_of(subject: Mapping[str, Any]) -> dict[str, Any]:
    """A subject of the report in a line."""
    time, totals = subject["time"], subject["totals"]
    clock = time is not None and time["unit"] == "ns"
    return {
        "target": subject["target"]["name"],
        **{key: subject[key] for key in ("bytes", "weights_bytes", "code_bytes")},
        "arena_bytes": None if totals is None else totals["arena_bytes"],
        "nodes": len(subject["nodes"]),
        "nanoseconds": time["median"] if clock else None,
        "instructions": time["median"] if time is not None and not clock else None,
        "where": None if time is None else time["where"],
    }
