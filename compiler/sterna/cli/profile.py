"""`sterna profile`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from sterna.cli import options
from sterna.cli.output import console, print_json, table, write
from sterna.emulate.devices import counted_on
from sterna.errors import error
from sterna.escape import rich as escape
from sterna.report.data import describe
from sterna.report.subject import Subject, subject_of
from sterna.report.timing import time_of
from sterna.report.trace import Tracing, events, in_sequence, traced_run
from sterna_runtime import library, load
from sterna_runtime.arguments import DimSize
from sterna_runtime.cli.reports import duration
from sterna_runtime.cli.trial import Asked, refuse_file, tried
from sterna_runtime.cli.values import dim, unique


@click.command("profile")
@click.argument("bundle", type=click.Path(path_type=Path))
@click.option("--input", "-i", "given", multiple=True, metavar="NAME=FILE",
              help="What it runs on, as `sterna run` takes it. Default: random values.")  # fmt: skip
@click.option("--dim", "dims", multiple=True, type=dim, metavar="NAME=SIZE",
              help="Size of an open dimension. Default: the largest.")  # fmt: skip
@click.option("--repeat", "-n", type=click.IntRange(min=1), default=20, show_default=True, metavar="N",
              help="Number of runs to time.")  # fmt: skip
@options.on_option
@options.threads_option("Threads to run on, the calling one included.")
@click.option(
    "--trace", type=click.Path(path_type=Path), metavar="FILE.json",
    help="Write one run for Perfetto and chrome://tracing: nodes, and the tasks of every thread.",
)  # fmt: skip
@options.json_option
def command(
    bundle: Path,
    given: tuple[str, ...],
    dims: tuple[tuple[str, DimSize], ...],
    repeat: int,
    on: str | None,
    threads: int,
    trace: Path | None,
    as_json: bool,
) -> None:
    """Time every node of a BUNDLE: its share, its rates, and how close they come to this machine's limits.

    `sterna report BUNDLE --time` shows this and more on a page.
    """
    refuse_file(bundle)
    if trace is not None and trace.suffix != ".json":
        raise error("E0007", f"{trace} does not end in .json", fix="--trace trace.json")
    asked = Asked(given, random=True, dims=unique(dims, "--dim"), repeat=repeat, profile=True)
    subject = subject_of(bundle)
    with options.opened(bundle, threads, on) as model:
        facts = describe(subject, time_of(model, asked, threads, on))
    if trace is not None:
        write(trace, json.dumps(_trace(subject, facts, asked, threads, on)).encode(), "--trace")
    if as_json:
        print_json(_json(facts))
    else:
        _print(facts)
        if trace is not None:
            click.echo(f"trace in {trace}: open it at https://ui.perfetto.dev or chrome://tracing")


def _trace(subject: Subject, facts: dict[str, Any], asked: Asked, threads: int, on: str | None) -> dict[str, Any]:
    """One run; of a place elsewhere, and of devices, its nodes one after another, by their medians."""
    title = [", ".join(node["sources"]) or node["name"] for node in facts["nodes"]].__getitem__
    if on is not None or (subject.graph or {}).get("devices"):
        return events(facts, in_sequence(facts["time"]["nodes"]), (), title)
    tracing = Tracing()
    with library.replaced_by(tracing), load(subject.place, threads) as model:
        once = Asked(asked.given, random=True, dims=asked.dims)
        tried(model, once)  # sets the inputs, and warms caches up
        return events(facts, *traced_run(model, tracing), title)


def _json(facts: dict[str, Any]) -> dict[str, Any]:
    """For scripts: every node in execution order."""
    time = facts["time"]
    nodes = [
        {
            "index": n,
            "name": node["name"],
            "kernel": facts["kernels"][node["kernel"]]["name"],
            **{key: node[key] for key in ("sources", "multiply_adds", "moved_bytes")},
            "median": time["nodes"][n],
            "fastest": time["nodes_fastest"][n],
            **time["rates"][n],
        }
        for n, node in enumerate(facts["nodes"])
    ]
    return {**{key: value for key, value in time.items() if not key.startswith(("nodes", "rates"))}, "nodes": nodes}


def _print(facts: dict[str, Any]) -> None:
    time = facts["time"]
    clock, total = time["unit"] == "ns", sum(time["nodes"]) or 1
    heads = (">time", ">share", ">GFLOP/s", ">GB/s", ">of roofline") if clock else (">instructions", ">share")
    rows = table(">#", *heads, "nodes of the model", "kernel")
    for n in sorted(range(len(facts["nodes"])), key=lambda n: -time["nodes"][n]):
        node, taken = facts["nodes"][n], time["nodes"][n]
        cells = [str(n), duration(taken * 1e-9) if clock else f"{taken:,}", f"{taken / total:.1%}"]
        if clock:
            rate = time["rates"][n]
            cells += ["" if rate[key] is None else f"{rate[key]:.3g}" for key in ("gflops", "gbytes")]
            cells += ["" if rate["roof"] is None else f"{rate['roof']:.0%} ({rate['bound']})"]
        kernel = facts["kernels"][node["kernel"]]["name"]
        rows.add_row(*cells, escape(", ".join(node["sources"]) or node["name"]), escape(kernel))
    console().print(rows)
    if clock:
        words = f"median {duration(time['median'] * 1e-9)}, fastest {duration(time['fastest'] * 1e-9)}"
        click.echo(f"a run: {words} of {time['runs']}")
        devices = sum(node["device"] not in (None, "cpu") for node in facts["nodes"])
        if (limits := time["limits"]) is not None and devices < len(facts["nodes"]):
            name, memory = "limits of the CPU here" if devices else "limits here", limits["reading"][-1][1]
            click.echo(f"{name}: {limits['gflops']:.3g} GFLOP/s, {memory:.3g} GB/s from memory")
    else:
        click.echo(f"a run: {time['median']:,} instructions on {counted_on(time['board'], time['where'])}")
