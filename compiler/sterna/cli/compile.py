"""`sterna compile`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import click

from sterna.api import compile_with
from sterna.bundle.c_files import fetched_of
from sterna.bundle.devices_json import stay_row
from sterna.bundle.directory import Written, write_files
from sterna.bundle.graph_json import math_json, tuning_json
from sterna.bundle.writer import bundle_files
from sterna.cli import options
from sterna.cli.asked import takes_options
from sterna.cli.output import console, echo, left_alone, print_json, steps
from sterna.cli.output import files as files_text
from sterna.cli.output import signature as signature_text
from sterna.cli.times import print_times, times_json
from sterna.debug.golden import golden_files, golden_sets
from sterna.debug.rounding import rounding_errors
from sterna.driver import STAGES, Compiled
from sterna.errors import SternaError
from sterna.escape import rich as escape
from sterna.frontends.formats import titles
from sterna.ir.graph import Value
from sterna.options import Options
from sterna.timing import recording, timed
from sterna_runtime.cli import stay
from sterna_runtime.cli.reports import Signature, calls_text, duration, number_of, size
from sterna_runtime.names import model_name

_STEPS = 8  # those of api.compile_model, and the last one here


@click.command("compile", help=f"Compile a MODEL ({titles()}) into a bundle: kernels, weights and the graph.")
@click.argument("model", type=click.Path(path_type=Path))
@options.model_options
@click.option(
    "--output", "-o", type=click.Path(path_type=Path), metavar="DIRECTORY",
    help="Folder for the bundle. Default: the model's name, followed by the target unless that is `host`.",
)  # fmt: skip
@click.option(
    "--name", metavar="NAME",
    help="What the model's symbols and C names begin with. Default: the file's name.",
)  # fmt: skip
@click.option(
    "--pool", "pools", multiple=True, type=options.pool, metavar="NAME=BYTES",
    help="Firmware: a memory for tensors, the fastest first: --pool dtcm=64K --pool sram=256K.",
)  # fmt: skip
@click.option("--weights-section", metavar="SECTION", help="Firmware: where the weights are put: .xip.")
@click.option(
    "--weights-array", type=options.bytes_or_none, metavar="BYTES",
    help="Firmware: weights up to this are an array of C, larger ones params.bin in an assembler's file. Default: 1M.",
)  # fmt: skip
@click.option(
    "--weights-address", type=options.address, metavar="ADDRESS",
    help="Firmware: where the weights lie, in flash of their own: 0x90000000.",
)  # fmt: skip
@click.option(
    "--weights-speed", type=options.Number(min=0, min_open=True), metavar="BYTES",
    help="Firmware: of weights that loads get in a cycle, where that is slow: 0.25. Kernels fetch panels of them then.",
)  # fmt: skip
@click.option(
    "--weights-dma/--no-weights-dma", default=False,
    help="Firmware: such fetches go on while the core computes; the program's own sterna_fetch_start does them.",
)  # fmt: skip
@options.size_option("--max-flash", "Firmware: the most that code and weights may take, as 256K.")
@options.size_option("--max-ram", "Firmware: the most that arena and stack may take, as 64K.")
@options.size_option("--max-stack", "Firmware: the most stack.")
@click.option("--single-file", is_flag=True, help="WebAssembly: one file with kernels, graph and weights.")
@click.option(
    "--all-variants", is_flag=True,
    help="WebAssembly: also kernels for browsers without SIMD, with relaxed SIMD and with threads; one is picked.",
)  # fmt: skip
@click.option(
    "--golden", type=click.IntRange(min=1), metavar="N",
    help="Add N sets of random inputs with the outputs of a reference, for the runtimes to replay.",
)  # fmt: skip
@options.signature_option
@options.weights_file_option
@click.option("--debug", is_flag=True, help="Keep every tensor between kernels readable; needs more memory.")
@click.option(
    "--dump-after", "dumps", multiple=True, metavar="STAGE", type=click.Choice([*STAGES, "all"]),
    help=f"Print the result of a stage of the compiler: {', '.join(STAGES)} or all.",
)  # fmt: skip
@click.option("--time-passes", is_flag=True, help="Show what every stage of the compiler took, and its slowest parts.")
@options.json_option
@click.pass_context
@takes_options
def command(
    context: click.Context,
    model: Path,
    make_options: Callable[[], Options],
    output: Path | None,
    golden: int | None,
    dumps: tuple[str, ...],
    time_passes: bool,
    as_json: bool,
) -> None:
    seen: dict[str, str] = {}

    def observe(stage: str, text: str) -> None:
        if stage in dumps or "all" in dumps:
            seen[stage] = text
            if not as_json:
                echo(f"// after {stage}\n{text.rstrip()}\n")

    asked, start = make_options(), time.perf_counter()
    timing = recording() if time_passes else nullcontext()
    with steps(_STEPS, quiet=as_json or bool(dumps)) as progress, timing as times:
        compiled = compile_with(model, asked, observe if dumps else None, progress)
        sets = golden_files(*golden_sets(model, asked, golden)) if golden else None
        with timed("write"):
            files = bundle_files(compiled, sets)
            progress("writing the bundle")
            written = write_files(files, output or _default_place(model, context.params["target"]))
    seconds = time.perf_counter() - start
    summary = describe(compiled, written, seconds)
    if asked.weights != "fp32":
        summary["rounding_error"] = _rounding(compiled, compile_with(model, _alone(asked.exact)))
    if as_json:
        times_of = {} if times is None else {"times": times_json(times)}
        print_json({**summary, **({"dumps": seen} if dumps else {}), **times_of})
        return
    _print(compiled, summary, written, to_stderr=bool(dumps))
    if times is not None:
        print_times(times)


def _alone(options: Options) -> Options:
    """The options of a bundle that is only run here."""
    return replace(options.alone, debug=False)


def _rounding(narrow: Compiled, wide: Compiled) -> float | None:
    """The largest error of any output, relative to its largest magnitude; None where the model does not run here."""
    target = narrow.options.target
    if target.static or not target.library:
        return None
    try:
        return max((check.error for check in rounding_errors(narrow, wide)), default=0.0)
    except SternaError as problem:
        if problem.codes != ("E0507",):
            raise
        return None


def _default_place(model: Path, target: str) -> Path:
    """A directory here, whatever the file is called: `..onnx` has the stem `.`, and `...onnx` the one above."""
    suffix = "" if target == "host" else f"-{Path(target).stem}"
    return Path(f"{model.stem.strip('.') or model_name(model.name)}{suffix}")


def describe(compiled: Compiled, written: Written, seconds: float) -> dict[str, Any]:
    """The facts of a compilation, as JSON has them."""
    inputs, outputs = _signature(compiled)
    memories = {pool.name: pool.bytes for pool in compiled.plan.pools if pool.memory is not None}
    return {
        "directory": str(written.directory),
        "model": compiled.model,
        "target": compiled.options.target.name,
        "generator": compiled.options.generator,
        "weights": compiled.options.weights,
        **({"math": math_json(compiled.math)} if compiled.math is not None else {}),
        **({"tuning": tuning} if (tuning := _tuning(compiled)) else {}),
        **({"fitted": compiled.fitted.json()} if compiled.fitted is not None else {}),
        **({"fetched": asdict(fetched)} if (fetched := fetched_of(compiled)) is not None else {}),
        "threads": compiled.options.threads,
        "debug": compiled.options.debug,
        "seconds": round(seconds, 4),
        "inputs": [tensor.json() for tensor in inputs],
        "outputs": [tensor.json() for tensor in outputs],
        "nodes": len(compiled.calls),
        "kernels": len(compiled.kernels),
        **({"on_cpu": on_cpu} if (on_cpu := stay.stays(_nodes(compiled))) else {}),
        "arena_bytes": compiled.plan.arena_bytes,
        **({"memories": memories} if memories else {}),
        "live_bytes": compiled.plan.live_bytes,
        "files": written.sizes,
        "others": list(written.others),
    }


def _nodes(compiled: Compiled) -> list[dict[str, Any]]:
    """Its nodes without copies, and why those on the CPU are there."""
    return [{"name": call.name, "sources": list(call.sources), **stay_row(call)} for call in compiled.calls]


def _tuning(compiled: Compiled) -> dict[str, Any]:
    """What was tuned, and where that was measured."""
    found = tuning_json(compiled)
    machines = compiled.options.tuning.machines if found and compiled.options.tuning is not None else ()
    return {**found, "machines": [*machines]} if found else {}


def _signature(compiled: Compiled) -> tuple[list[Signature], list[Signature]]:
    graph = compiled.graph
    outputs = zip(graph.results, graph.result_names, strict=True)
    return [_tensor(v, v.name) for v in graph.arguments], [_tensor(v, name) for v, name in outputs]


def _tensor(value: Value, name: str) -> Signature:
    return Signature(name, value.dtype, tuple(int(n) if n.is_const else str(n) for n in value.shape))


def _print(compiled: Compiled, summary: dict[str, Any], written: Written, to_stderr: bool) -> None:
    out = console(sys.stderr if to_stderr else None)
    out.print(f"[bold]{escape(compiled.model)}[/] for {escape(compiled.options.target.description)}\n")
    out.print(signature_text(*_signature(compiled)))
    arena, live = summary["arena_bytes"], summary["live_bytes"]
    over = f"{arena / live - 1:.1%} above the" if arena > live else "equal to the"
    why = " (nothing is reused: --debug)" if compiled.options.debug else ""
    out.print(f"\n  {calls_text(summary['nodes'], summary['kernels'])}")
    pools = ", ".join(f"{name} {size(count)}" for name, count in summary.get("memories", {"arena": arena}).items())
    out.print(f"  {pools}, {over} live-set lower bound{why}\n")
    device = compiled.options.target.device
    if device is not None and all(call.place != device.kind for call in compiled.calls):
        out.print(f"  no node is on {device.kind}: all run on the CPU\n", soft_wrap=True)
    for line in stay.lines(_nodes(compiled), None if device is None else device.kind):
        out.print(f"  {escape(line)}\n", soft_wrap=True)
    if "rounding_error" in summary:
        found = summary["rounding_error"]
        cost = "`sterna verify` shows what that costs, where the model can run"
        if found is not None:
            cost = f"on random inputs the outputs differ from the default's by {found:.1e} of the largest"
        out.print(f"  weights in {summary['weights']}: {cost}\n", soft_wrap=True)
    if compiled.math is not None:
        out.print(f"  {compiled.math.text}\n", soft_wrap=True)
    if "tuning" in summary:
        tuned = summary["tuning"]
        own = [number_of(n, kind) for kind in ("kernel", "part") if (n := tuned.get(f"{kind}s", 0))]
        parts = " of the graph (what is one kernel, how tensors lie)" if "parts" in tuned else ""
        on = f" on {', '.join(tuned['machines'])}" if tuned["machines"] else ""
        words = f"as tuned{on}: {' and '.join(own)}{parts} (snapshot {tuned['snapshot']})"
        out.print(f"  {escape(words)}; --no-tuning: as the rules say\n", soft_wrap=True)
    if compiled.fitted is not None:
        out.print(f"  {escape(compiled.fitted.text)}\n", soft_wrap=True)
    if (fetched := fetched_of(compiled)) is not None:
        out.print(f"  {escape(fetched.text)}\n", soft_wrap=True)
    out.print(files_text(summary["files"]))
    out.print(f"\ncompiled in {duration(summary['seconds'])} to {escape(str(written.directory))}", soft_wrap=True)
    if written.others:
        out.print(escape(left_alone(written.others)), soft_wrap=True)
