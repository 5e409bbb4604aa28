"""`sterna-runtime run`."""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path

import numpy as np

from sterna_runtime.bundle import Bundle
from sterna_runtime.cli.plain import echo, print_json, table
from sterna_runtime.cli.reports import duration, type_text
from sterna_runtime.cli.trial import (
    Asked,
    Trial,
    check_output,
    encoded,
    refuse_file,
    shown_detections,
    top_rows,
    trial_json,
    tried,
)  # fmt: skip
from sterna_runtime.cli.values import unique
from sterna_runtime.errors import error
from sterna_runtime.strings import load


def command(options: argparse.Namespace) -> int:
    """Runs a bundle on inputs from files, or on random ones; returns the exit status."""
    asked = Asked(
        options.given, options.mean, options.scale, options.layout, options.random, options.seed,
        unique(options.dims, "--dim"), options.repeat, options.profile,
    )  # fmt: skip
    refuse_file(options.bundle)
    with load(options.bundle, options.threads) as model:
        check_output(options.output, model.outputs)
        trial = tried(model, asked)
        if options.output is not None:
            _write(options.output, encoded(options.output, trial.results))
        if options.as_json:
            print_json(trial_json(model, trial, options.threads, options.top))
        else:
            _print(model, trial, options.threads, options.top)
    return 0


def _write(path: Path, data: bytes) -> None:
    try:
        path.write_bytes(data)
    except OSError as problem:
        raise error("E0007", f"{path} cannot be written: {problem.strerror}") from None


def _print(model: Bundle, trial: Trial, threads: int, top: int | None) -> None:
    hidden, found = shown_detections(model, trial, top)
    if found:
        echo(table([[f"  {what}", *numbers] for what, *numbers in found], right=(1, 2, 3, 4, 5)))
    for spec in (spec for spec in model.outputs if spec.name not in hidden):
        array = trial.results[spec.name]
        echo(f"{spec.name}  {type_text(spec)}")
        if top is not None and array.size:
            rows = top_rows(model, spec.name, array, top)
            echo(table([[f"  {r['index']}", f"{r['value']:.5g}" if isinstance(r["value"], float) else str(r["value"]),
                         r.get("label", "")] for r in rows], right=(0, 1)))  # fmt: skip
        elif array.size:
            text = np.array2string(
                array, precision=5, threshold=20, edgeitems=3, max_line_width=76, suppress_small=True
            )
            echo("\n".join(f"  {line}" for line in text.splitlines()[:12]))
    workers = "1 thread" if threads == 1 else f"{threads} threads"
    median = duration(statistics.median(trial.times))
    if len(trial.times) == 1:
        echo(f"\n{median} in the first run on {workers}; --repeat 100 measures")
    else:
        echo(f"\n{median} median, {duration(min(trial.times))} fastest of {len(trial.times)} runs on {workers}")
    if trial.nodes:
        total = sum(node.nanoseconds for node in trial.nodes) or 1
        echo("\n" + table([
            ["#", "time", "share", "nodes of the model", "kernel"],
            *([str(node.index), duration(node.nanoseconds * 1e-9), f"{node.nanoseconds / total:.1%}",
               ", ".join(node.sources) or node.name, node.kernel] for node in trial.nodes),
        ], right=(0, 1, 2)))  # fmt: skip
        echo(f"sum of the nodes: {duration(total * 1e-9)}")
