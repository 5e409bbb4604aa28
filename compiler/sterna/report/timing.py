"""What every node takes, measured: by the clock, or on an emulated board by counting instructions."""

from __future__ import annotations

import statistics
from dataclasses import asdict
from typing import Any

from sterna.firmware.remote import counted
from sterna.report.limits import describe, known_limits
from sterna_runtime import Bundle
from sterna_runtime.cli.trial import Asked, Trial, tried


def time_of(model: Bundle, asked: Asked, threads: int, on: str | None) -> dict[str, Any]:
    """The member `time` of a report's subject.

    Args:
        model: the bundle, loaded where it is to be measured; on: what that place is called, None for here.
    """
    trial = tried(model, asked)
    counts = counted(model) if on is not None else None
    if counts is not None:
        return {**_row("instructions", trial, threads, on, None), "board": counts.board,
                "median": counts.instructions, "fastest": counts.instructions,
                "stack_bytes": counts.stack}  # fmt: skip
    limits = known_limits(threads) if on is None else None
    machine = describe() if on is None else None
    row = _row("ns", trial, threads, on, machine)
    return {**row, "limits": None if limits is None else {**asdict(limits), "reading": list(map(list, limits.reading))}}


def _row(unit: str, trial: Trial, threads: int, on: str | None, machine: str | None) -> dict[str, Any]:
    return {
        "unit": unit,
        "where": on or "here",
        "machine": machine,
        "threads": threads,
        "runs": len(trial.times),
        "median": round(statistics.median(trial.times) * 1e9),
        "fastest": round(min(trial.times) * 1e9),
        "nodes": [node.nanoseconds for node in trial.nodes],
        "nodes_fastest": [node.fastest for node in trial.nodes],
        "calls": [node.calls for node in trial.nodes],
        "limits": None,
        "board": None,
        "stack_bytes": None,
    }
