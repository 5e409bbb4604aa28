"""`sterna run`."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np
from rich.table import Table

from sterna.cli import options
from sterna.cli.output import bar, console, echo, print_json, table, write
from sterna.escape import rich as escape
from sterna_runtime import Bundle, NodeTime
from sterna_runtime.arguments import DimSize
from sterna_runtime.cli.files import LAYOUTS
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
from sterna_runtime.cli.values import dim, numbers, unique
from sterna_runtime.inputs import Array

if TYPE_CHECKING:
    from sterna.firmware.remote import Counted

_SLOWEST = 15  # nodes in the table by time; the other table has all


@click.command("run")
@click.argument("bundle", type=click.Path(path_type=Path))
@click.option(
    "--input", "-i", "given", multiple=True, metavar="NAME=FILE",
    help="A .npy, .npz, raw .bin or image file. Without NAME=: an .npz of all inputs, or the only input.",
)  # fmt: skip
@click.option("--random", "random", is_flag=True, help="Use random values for inputs that are not given.")
@click.option(
    "--dim", "dims", multiple=True, type=dim, metavar="NAME=SIZE",
    help="Size of an open dimension for --random. Default: the largest.",
)  # fmt: skip
@options.seed_option("Seed of the random values.")
@click.option(
    "--mean",
    type=numbers("--mean"),
    metavar="NUMBERS",
    help="Images become (pixel - mean) * scale. Default: what the model says, otherwise 0, or 128 for int8 inputs.",
)
@click.option(
    "--scale",
    type=numbers("--scale"),
    metavar="NUMBERS",
    help="Default: 1/255 for float inputs, 1 for integers.",
)
@click.option(
    "--layout", type=click.Choice(LAYOUTS), default="auto", show_default=True, help="Order of an image's axes."
)
@click.option(
    "--repeat",
    "-n",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    metavar="N",
    help="Number of runs to time.",
)
@options.on_option
@options.threads_option("Threads to run on, the calling one included.")
@click.option("--profile", is_flag=True, help="Time every node.")
@click.option("--top", type=click.IntRange(min=1), metavar="K", help="Show the K largest elements of every output.")
@click.option(
    "--output", "-o", type=click.Path(path_type=Path), metavar="FILE", help="Write the outputs: .npz, or .npy for one."
)
@options.json_option
def command(
    bundle: Path,
    given: tuple[str, ...],
    random: bool,
    dims: tuple[tuple[str, DimSize], ...],
    seed: int,
    mean: tuple[float, ...] | None,
    scale: tuple[float, ...] | None,
    layout: str,
    repeat: int,
    on: str | None,
    threads: int,
    profile: bool,
    top: int | None,
    output: Path | None,
    as_json: bool,
) -> None:
    """Run a BUNDLE on inputs from files, or on random ones."""
    asked = Asked(given, mean, scale, layout, random, seed, unique(dims, "--dim"), repeat, profile)
    refuse_file(bundle)
    with options.opened(bundle, threads, on) as model:
        check_output(output, model.outputs)
        trial = tried(model, asked)
        counts = _counted(model) if on is not None else None
        if output is not None:
            write(output, encoded(output, trial.results), "--output")
        if as_json:
            print_json(trial_json(model, trial, threads, top) if counts is None else _json(model, trial, top, counts))
        else:
            _print(model, trial, _workers(threads, on), top, counts, on or "")
            if output is not None:
                click.echo(f"outputs in {output}")


def _workers(threads: int, on: str | None) -> str:
    """Where the times come from."""
    workers = "1 thread" if threads == 1 else f"{threads} threads"
    if on is None:
        return workers
    from sterna.emulate.devices import place_of  # noqa: PLC0415 (brings the compiler)

    return f"{workers} {place_of(on)}"


def _counted(model: Bundle) -> Counted | None:
    """What an emulated board has counted."""
    from sterna.firmware.remote import counted  # noqa: PLC0415 (brings the compiler)

    return counted(model)


def _json(model: Bundle, trial: Trial, top: int | None, counts: Counted) -> dict[str, Any]:
    """As `trial_json`, with instructions in place of times."""
    data = trial_json(model, trial, 1, top)
    for row in data.get("nodes", ()):
        row["instructions"] = row.pop("median_nanoseconds")
        del row["fastest_nanoseconds"]
    return {**data, "board": counts.board, "instructions": counts.instructions, "stack_bytes": counts.stack}


def _print(model: Bundle, trial: Trial, workers: str, top: int | None, counts: Counted | None, on: str) -> None:
    out, times, nodes = console(), trial.times, trial.nodes
    hidden, found = shown_detections(model, trial, top)
    if found:
        head, *rows = found
        shown = table(head[0], *(f">{word}" for word in head[1:]))
        for row in rows:
            shown.add_row(*map(escape, row))
        out.print(shown)
    for spec in (spec for spec in model.outputs if spec.name not in hidden):
        array = trial.results[spec.name]
        out.print(f"[bold]{escape(spec.name)}[/]  {escape(type_text(spec))}")
        if top is not None and array.size:
            out.print(_top(model, spec.name, array, top))
        elif array.size:
            text = np.array2string(
                array, precision=5, threshold=20, edgeitems=3, max_line_width=76, suppress_small=True
            )
            echo("\n".join(f"  {line}" for line in text.splitlines()[:12]))
    median = duration(statistics.median(times))
    if counts is not None:
        from sterna.emulate.devices import counted_on  # noqa: PLC0415 (brings the compiler)

        stack = "" if counts.stack is None else f" and a stack of {counts.stack:,} bytes"
        click.echo(f"\n{counts.instructions:,} instructions{stack} in a run on {counted_on(counts.board, on)}")
    elif len(times) == 1:
        click.echo(f"\n{median} in the first run on {workers}; --repeat 100 measures")
    else:
        click.echo(f"\n{median} median, {duration(min(times))} fastest of {len(times)} runs on {workers}")
    if nodes:
        total = sum(node.nanoseconds for node in nodes) or 1
        unit = _instructions if counts is not None else _time
        by_time = sorted(nodes, key=lambda node: -node.nanoseconds)
        click.echo()
        kind = "time" if counts is None else "instructions"
        out.print(_profile(by_time[:_SLOWEST], total, f"Nodes by {kind}", unit, kind))
        others = sum(node.nanoseconds for node in by_time[_SLOWEST:])
        if others:
            click.echo(f"and {len(nodes) - _SLOWEST} others, {others / total:.1%}\n")
        out.print(_profile(nodes, total, "Nodes in execution order", unit, kind))
        click.echo(f"sum of the nodes: {unit(total)}")


def _time(nanoseconds: int) -> str:
    return duration(nanoseconds * 1e-9)


def _instructions(count: int) -> str:
    return f"{count:,}"


def _top(model: Bundle, name: str, array: Array, count: int) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(justify="right")
    rows = top_rows(model, name, array, count)
    full = max((abs(float(row["value"])) for row in rows), default=0.0)
    for row in rows:
        value = row["value"]
        share = max(0.0, float(value)) / full if full else 0.0
        number = f"{value:.5g}" if isinstance(value, float) else str(value)
        raw = [f"({row['raw']})"] if "raw" in row else []
        label = [escape(row["label"])] if "label" in row else []
        grid.add_row(f"  {row['index']}", number, *raw, bar(share, 24), *label)
    return grid


def _profile(nodes: Sequence[NodeTime], total: int, title: str, unit: Callable[[int], str], kind: str) -> Table:
    rows = table(">#", f">{kind}", ">share", "nodes of the model", "kernel", title=title)
    for node in nodes:
        sources = ", ".join(node.sources) or node.name
        share = node.nanoseconds / total
        rows.add_row(str(node.index), unit(node.nanoseconds), f"{share:.1%}", escape(sources), escape(node.kernel))
    return rows
