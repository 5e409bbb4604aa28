"""`sterna run`."""

from __future__ import annotations

import io
import statistics
import time
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.table import Table

from sterna.bundle.install import write_file
from sterna.cli import options
from sterna.cli.inputs import LAYOUTS, ImageOptions, Normalization, read_inputs
from sterna.cli.output import bar, console, duration, echo, print_json, spec_json, table, type_text
from sterna.errors import Diagnostic, SternaError, error
from sterna.escape import rich as escape
from sterna_runtime import Bundle, NodeTime
from sterna_runtime.inputs import Array, TensorSpec, match_inputs
from sterna_runtime.random_inputs import random_inputs

_SLOWEST = 15  # nodes in the table by time; the other table has all


@click.command("run")
@click.argument("bundle", type=click.Path(path_type=Path))
@click.option(
    "--input", "-i", "given", multiple=True, metavar="NAME=FILE",
    help="A .npy, .npz, raw .bin or image file. Without NAME=: an .npz of all inputs, or the only input.",
)  # fmt: skip
@click.option("--random", "random", is_flag=True, help="Use random values for inputs that are not given.")
@click.option(
    "--dim", "dims", multiple=True, type=options.dim, metavar="NAME=SIZE",
    help="Size of an open dimension for --random. Default: the largest.",
)  # fmt: skip
@options.seed_option("Seed of the random values.")
@click.option(
    "--mean",
    type=options.numbers("--mean"),
    metavar="NUMBERS",
    help="Images become (pixel - mean) * scale. Default: what the model says, otherwise 0, or 128 for int8 inputs.",
)
@click.option(
    "--scale",
    type=options.numbers("--scale"),
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
    dims: tuple[tuple[str, int | tuple[int, int]], ...],
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
    if bundle.is_file():
        fix = f"sterna compile {bundle}, then sterna run {bundle.stem}"
        raise error("E0006", f"{bundle} is a file, not a bundle", fix=fix)
    with options.opened(bundle, threads, on) as model:
        _check_output(output, model.outputs)
        sizes = _open_sizes(model, options.unique(dims, "--dim"))
        if sizes:
            model.set_dims(**sizes)
        specs = [spec.at(model.dim_sizes) for spec in model.inputs]
        arrays = read_inputs(specs, given, ImageOptions(mean, scale, layout, _normalizations(model)))
        if random:
            arrays = {**random_inputs(specs, seed), **arrays}
        _check_all_given(specs, arrays)
        for spec, array in zip(specs, match_inputs(specs, arrays), strict=True):
            model.set_input(spec.name, np.require(array, requirements=["C", "A"]))
        times = _time(model, repeat)
        results = {spec.name: model.get_output(spec.name).copy() for spec in model.outputs}
        nodes = model.profile(repeat) if profile else []
        if output is not None:
            _write(output, results)
        if as_json:
            print_json(_json(model, results, times, nodes, threads, top))
        else:
            _print(model, results, times, nodes, _workers(threads, on), top)
            if output is not None:
                click.echo(f"outputs in {output}")


def _normalizations(model: Bundle) -> dict[str, Normalization]:
    """What the model says of images, by input."""
    found = {}
    for name, row in model.metadata.get("normalization", {}).items():
        known = model.quantization(name)
        step, zero = (1.0, 0) if known is None or known.axis is not None else (known.scales[0], known.zero_points[0])
        found[name] = Normalization(tuple(row["mean"]), tuple(row["std"]), step, zero)
    return found


def _open_sizes(model: Bundle, given: dict[str, int | tuple[int, int]]) -> dict[str, int]:
    """A size for every open dimension: the one given, else the greatest."""
    if given and not model.dims:
        raise error("E0002", "--dim is of no use: all sizes of this bundle are fixed", fix="leave it out")
    sizes = {name: hi for name, (_, hi) in model.dims.items()}
    for name, size in given.items():
        if name not in sizes or isinstance(size, tuple):
            known = ", ".join(f"{n} ({lo} to {hi})" for n, (lo, hi) in model.dims.items())
            raise error("E0002", f"--dim {name} is not one size of an open dimension", fix=f"open: {known}")
        sizes[name] = size
    return sizes


def _time(model: Bundle, repeat: int) -> list[float]:
    """Seconds of each run; an unmeasured one comes first, where there are several."""
    times = []
    if repeat > 1:
        model.run()
    for _ in range(repeat):
        start = time.perf_counter()
        model.run()
        times.append(time.perf_counter() - start)
    return times


def _check_output(path: Path | None, specs: Sequence[TensorSpec]) -> None:
    """Before anything runs: whether the outputs can be written there at all."""
    if path is None:
        return
    if path.suffix not in (".npz", ".npy"):
        raise error("E0007", f"{path} ends in neither .npz nor .npy", fix="--output out.npz")
    if path.suffix == ".npy" and len(specs) != 1:
        raise error(
            "E0007", f"an .npy file holds one array; the model has {len(specs)} outputs", fix="--output out.npz"
        )


def _check_all_given(specs: Sequence[TensorSpec], arrays: dict[str, Array]) -> None:
    """Raises E0601 and E0602: inputs without a file, and arrays of an archive that are none of the inputs."""
    names = ", ".join(map(str, specs))
    known = {spec.name for spec in specs}
    missing = [spec for spec in specs if spec.name not in arrays]
    problems = [
        Diagnostic("E0602", f'the model has no input "{name}"', (f"its inputs: {names}",))
        for name in arrays
        if name not in known
    ]
    if missing:
        fix = f"--input {missing[0].name}=FILE, or --random"
        problems += [Diagnostic("E0601", f"no file is given for the input {spec}", (), fix) for spec in missing]
    if problems:
        raise SternaError(problems)


def _write(path: Path, results: dict[str, Array]) -> None:
    try:
        write_file(path, _npy(next(iter(results.values()))) if path.suffix == ".npy" else _npz(results))
    except OSError as problem:
        raise error("E0007", f"{path} cannot be written: {problem.strerror}") from None


def _npz(results: dict[str, Array]) -> bytes:
    """As numpy's savez, which takes an output of the name `file` for its own argument."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, array in results.items():
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), _npy(array))
    return buffer.getvalue()


def _npy(array: Array) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array.astype(str) if array.dtype == object else array, allow_pickle=False)
    return buffer.getvalue()


def largest(array: Array, count: int) -> list[tuple[int, Any]]:
    """(index, value) of the largest elements of a flattened array, the greatest first."""
    flat = array.reshape(-1)
    order = np.argsort(-flat.astype(np.float64), kind="stable")[:count]
    return [(int(i), flat[i].item()) for i in order]


def _workers(threads: int, on: str | None) -> str:
    """Where the times come from."""
    workers = "1 thread" if threads == 1 else f"{threads} threads"
    return workers if on is None else f"{workers} of an emulator, which says nothing about the machine"


def _print(
    model: Bundle, results: dict[str, Array], times: list[float], nodes: list[NodeTime], workers: str, top: int | None
) -> None:
    out = console()
    for spec in model.outputs:
        array = results[spec.name]
        out.print(f"[bold]{escape(spec.name)}[/]  {escape(type_text(spec))}")
        if top is not None and array.size:
            out.print(_top(model, spec.name, array, top))
        elif array.size:
            text = np.array2string(
                array, precision=5, threshold=20, edgeitems=3, max_line_width=76, suppress_small=True
            )
            echo("\n".join(f"  {line}" for line in text.splitlines()[:12]))
    median = duration(statistics.median(times))
    if len(times) == 1:
        click.echo(f"\n{median} in the first run on {workers}; --repeat 100 measures")
    else:
        click.echo(f"\n{median} median, {duration(min(times))} fastest of {len(times)} runs on {workers}")
    if nodes:
        total = sum(node.nanoseconds for node in nodes) or 1
        by_time = sorted(nodes, key=lambda node: -node.nanoseconds)
        click.echo()
        out.print(_profile(by_time[:_SLOWEST], total, "Nodes by time"))
        others = sum(node.nanoseconds for node in by_time[_SLOWEST:])
        if others:
            click.echo(f"and {len(nodes) - _SLOWEST} others, {others / total:.1%}\n")
        out.print(_profile(nodes, total, "Nodes in execution order"))
        click.echo(f"sum of the nodes: {duration(total * 1e-9)}")


def _top(model: Bundle, name: str, array: Array, count: int) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(justify="right")
    rows = _top_rows(model, name, array, count)
    full = max((abs(float(row["value"])) for row in rows), default=0.0)
    for row in rows:
        value = row["value"]
        share = max(0.0, float(value)) / full if full else 0.0
        number = f"{value:.5g}" if isinstance(value, float) else str(value)
        raw = [f"({row['raw']})"] if "raw" in row else []
        label = [escape(row["label"])] if "label" in row else []
        grid.add_row(f"  {row['index']}", number, *raw, bar(share, 24), *label)
    return grid


def _top_rows(model: Bundle, name: str, array: Array, count: int) -> list[dict[str, Any]]:
    """The largest elements of an output, as JSON has them: of integers that stand for real numbers these, and `raw` the
    integers."""
    known = model.quantization(name)
    labels = model.labels(name)
    real = array if known is None else known.real(array)
    flat = array.reshape(-1)
    return [
        {
            "index": index,
            "value": value,
            **({} if known is None else {"raw": flat[index].item()}),
            **({"label": labels[index]} if index < len(labels) else {}),
        }
        for index, value in largest(real, count)
    ]


def _profile(nodes: Sequence[NodeTime], total: int, title: str) -> Table:
    rows = table(">#", ">time", ">share", "nodes of the model", "kernel", title=title)
    for node in nodes:
        sources = ", ".join(node.sources) or node.name
        share = node.nanoseconds / total
        rows.add_row(
            str(node.index), duration(node.nanoseconds * 1e-9), f"{share:.1%}", escape(sources), escape(node.kernel)
        )
    return rows


def _json(
    model: Bundle, results: dict[str, Array], times: list[float], nodes: list[NodeTime], threads: int, top: int | None
) -> dict[str, Any]:
    outputs = []
    for spec in model.outputs:
        row = spec_json(spec)
        if top is not None:
            row["top"] = _top_rows(model, spec.name, results[spec.name], top)
        outputs.append(row)
    data: dict[str, Any] = {
        "bundle": str(model.directory),
        "threads": threads,
        "runs": len(times),
        "median_seconds": statistics.median(times),
        "fastest_seconds": min(times),
        "outputs": outputs,
    }
    if nodes:
        data["nodes"] = [
            {
                "index": node.index,
                "name": node.name,
                "kernel": node.kernel,
                "sources": list(node.sources),
                "tasks": node.tasks,
                "median_nanoseconds": node.nanoseconds,
                "fastest_nanoseconds": node.fastest,
            }
            for node in nodes
        ]
    return data
