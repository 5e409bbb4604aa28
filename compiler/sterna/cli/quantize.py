"""`sterna quantize`."""

from __future__ import annotations

import io
import json
import time
from math import isinf
from pathlib import Path

import click
from rich.console import Console

from sterna.api import compile_to
from sterna.cli import options
from sterna.cli.output import console, print_json, steps, table, write
from sterna.escape import rich as escape
from sterna.quantize import METHODS, Settings, quantize_model
from sterna.quantize.numbers import ACTIVATIONS
from sterna.quantize.quantizer import STEPS
from sterna.quantize.report import LayerReport, Report
from sterna_runtime.cli.reports import duration, number_of, size

_WIDTH = 120  # of a report in a file


@click.command("quantize")
@click.argument("model", type=click.Path(path_type=Path))
@click.option(
    "--data", "-d", required=True, type=click.Path(path_type=Path), metavar="FILE.npz|FOLDER",
    help="Samples of the model's inputs, by name.",
)  # fmt: skip
@click.option(
    "--output", "-o", type=click.Path(path_type=Path), metavar="FILE.onnx",
    help="File for the quantized model. Default: the model's name with -int8.onnx.",
)  # fmt: skip
@click.option(
    "--method", type=click.Choice(METHODS), default=Settings.method, show_default=True,
    help="How the range of an activation is chosen from the samples.",
)  # fmt: skip
@click.option(
    "--percentile", type=options.Number(), default=Settings.percentile, show_default=True, metavar="PERCENT",
    help="For --method percentile: the share of elements within a range.",
)  # fmt: skip
@click.option(
    "--activations", type=click.Choice(ACTIVATIONS), default=Settings.activations, show_default=True,
    help="Type of activations. Weights are int8.",
)  # fmt: skip
@click.option(
    "--bound", type=options.Number(), metavar="ERROR",
    help="Keep layers in float until the outputs' relative error (with labels: the loss of accuracy) is at most this.",
)  # fmt: skip
@click.option(
    "--keep-float", "--exclude", "keep_float", multiple=True, metavar="NODE|OPERATOR",
    help="Keep a node, or all nodes of an operator, in float.",
)  # fmt: skip
@click.option(
    "--report", "report_file", type=click.Path(path_type=Path), metavar="FILE",
    help="File for the report: JSON if its name ends with .json, otherwise a table.",
)  # fmt: skip
@click.option(
    "--bundle", type=click.Path(path_type=Path), metavar="DIRECTORY", help="Also compile the result into a bundle."
)
@click.option(
    "--target", "-t", default="host", metavar="NAME|FILE", show_default=True, help="Machine that --bundle compiles for."
)
@options.threads_option("Threads that the model runs on while ranges are measured.")
@options.json_option
def command(
    model: Path,
    data: Path,
    output: Path | None,
    method: str,
    percentile: float,
    activations: str,
    bound: float | None,
    keep_float: tuple[str, ...],
    report_file: Path | None,
    bundle: Path | None,
    target: str,
    threads: int,
    as_json: bool,
) -> None:
    """Quantize a float ONNX or TensorFlow Lite MODEL to 8 bits, with samples of its inputs.

    The result is an ONNX model in QDQ form, which `sterna compile` compiles to integer kernels.
    """
    start = time.perf_counter()
    place = output or Path(f"{model.stem}-int8.onnx")
    settings = Settings(method, percentile, activations, bound, keep_float, threads)
    with steps(STEPS + (bundle is not None), quiet=as_json) as progress:
        result = quantize_model(model, data, settings, progress)
        write(place, result.model.SerializeToString(), "--output")
        if bundle is not None:
            progress("compiling the bundle")
            compile_to(bundle, result.model, target, shapes=result.shapes)
    report = result.report
    if report_file is not None:
        as_text = report_file.suffix.lower() != ".json"
        text = _text(report) if as_text else json.dumps(report.json(), indent=2, ensure_ascii=False) + "\n"
        write(report_file, text.encode(), "--report")
    seconds = time.perf_counter() - start
    if as_json:
        places = {"output": str(place), "bundle": None if bundle is None else str(bundle)}
        print_json({**places, "seconds": round(seconds, 4), **report.json()})
        return
    out = console()
    _print(out, report)
    made = f"{escape(str(place))}" + (f" and {escape(str(bundle))}" if bundle is not None else "")
    out.print(f"quantized in {duration(seconds)} to {made}", soft_wrap=True)


def _text(report: Report) -> str:
    buffer = io.StringIO()
    _print(Console(file=buffer, width=_WIDTH, highlight=False), report)
    return buffer.getvalue()


def _print(out: Console, report: Report) -> None:
    how = f"{report.method} {report.percentile:g}" if report.percentile is not None else report.method
    samples = number_of(report.samples, "sample")
    out.print(f"[bold]{escape(report.model)}[/], {samples}, {how}, {report.activations} activations\n")
    sensitive, some_float = any(x.sensitivity is not None for x in report.layers), bool(report.kept)
    columns = ["layer", "", ">weights", ">signal/noise", ">error", *([">alone"] if sensitive else [])]
    rows = table(*columns, ">before", ">after", *(["float because"] if some_float else []))
    for layer in report.layers:
        rows.add_row(*_row(layer, sensitive), *([escape(layer.reason)] if some_float else []))
    out.print(rows)
    for line in _summary(report):
        out.print(f"  {escape(line)}", soft_wrap=True)
    out.print()


def _row(layer: LayerReport, sensitive: bool) -> list[str]:
    noise = "" if layer.decibels is None else "exact" if isinf(layer.decibels) else f"{layer.decibels:.1f} dB"
    alone = [_share(layer.sensitivity)] if sensitive else []
    sizes = [f"{n:,}" if n else "" for n in (layer.bytes_before, layer.bytes_after)]
    return [escape(layer.name), layer.op, _share(layer.weight_error), noise, _share(layer.error), *alone, *sizes]


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.2%}"


def _summary(report: Report) -> list[str]:
    before, after = report.bytes_before, report.bytes_after
    lines = [
        f"{report.integer_layers} of {number_of(len(report.layers), 'layer')} on integers",
        f"size {size(before)} -> {size(after)}, {before / after:.2f} times smaller",
    ]
    for output in report.outputs:
        lines.append(f"{output.name}: largest error {output.error:.2%} of the largest value, rms {output.rms:.2%}")
    if report.agreement is not None:
        lines.append(f"the same class as the float model in {report.agreement:.1%}")
    if report.accuracy_before is not None and report.accuracy_after is not None:
        lines.append(f"accuracy {report.accuracy_before:.2%} -> {report.accuracy_after:.2%}")
    if report.bound is not None:
        lines.append(f"within the bound of {report.bound:g}")
    return lines
