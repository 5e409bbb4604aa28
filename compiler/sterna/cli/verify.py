"""`sterna verify`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from sterna.cli import options
from sterna.cli.asked import takes_options
from sterna.cli.bisection import BY_DESIGN, print_bisection
from sterna.cli.failures import print_errors
from sterna.cli.output import console, print_json, steps, table
from sterna.debug.comparison import Difference, TensorCheck
from sterna.debug.trades import Trade
from sterna.debug.verify import TOLERANCE, Bisection, Report, bisect_model, verify_model
from sterna.errors import Diagnostic, SternaError, error
from sterna.escape import rich as escape
from sterna.frontends.formats import AUTO, find, references
from sterna.options import Options
from sterna_runtime.cli.reports import (
    check_json,
    errors_json,
    finite,
    golden_json,
    golden_mistake,
    golden_sentence,
    number,
)
from sterna_runtime.inputs import read_archive

_STEPS = 9
_STAGES = {
    "memory": "the memory plan: the fault is gone when no memory is reused",
    "kernels": "this kernel: its schedule, its loops or the code generator",
    "import": "the import of the model",
}


class _Reference(click.Choice[str]):
    """A runtime of a format that is known when the command runs, registered ones too."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        self.choices = references()
        return super().convert(value, param, ctx)


@click.command("verify")
@click.argument("model", type=click.Path(path_type=Path))
@options.model_options
@click.option("--inputs", type=click.Path(path_type=Path), metavar="FILE.npz", help="Inputs by name. Default: random.")
@options.seed_option("Seed of the random inputs.")
@click.option(
    "--tolerance", type=options.Number(min=0), default=TOLERANCE, show_default=True,
    help="Largest difference allowed, relative to the output's largest magnitude.",
)  # fmt: skip
@click.option(
    "--against", type=_Reference(references()), metavar="NAME", default=AUTO, show_default=True,
    help=f"The reference: {', '.join(references())}; {AUTO} is the runtime of the model's format, if it is installed.",
)  # fmt: skip
@options.signature_option
@options.weights_file_option
@click.option(
    "--bisect", is_flag=True, help="Look for the first pass, kernel or code generator that makes an output wrong."
)
@click.option("--golden", is_flag=True, help="Replay the golden sets of a bundle, which stands in place of MODEL.")
@options.on_option
@options.json_option
@click.pass_context
@takes_options
def command(
    context: click.Context,
    model: Path,
    make_options: Callable[[], Options],
    inputs: Path | None,
    seed: int,
    tolerance: float,
    against: str,
    bisect: bool,
    golden: bool,
    on: str | None,
    as_json: bool,
) -> int:
    """Compile a MODEL, run it here and compare every output with a reference: the runtime of its own format.

    What is compiled for another processor runs in qemu-user, and for browsers in Node.js, where that is installed;
    --on says otherwise.
    If an output differs, the message names the first tensor that does, and the exit status is 1.
    """
    if golden:
        return _replayed(model, _golden_options(context, tolerance), context.params["threads"], on, as_json)
    if on is not None and context.get_parameter_source("target") is not ParameterSource.COMMANDLINE:
        fix = f"--target raspberrypi4 --on {on}, or what it is; or leave --on out: the model then runs here"
        raise error("E0002", "--on says where the model runs; --target has to say what that is", fix=fix)
    if model.is_dir() and find(model) is None:
        fix = f"sterna verify {model} --golden, for a bundle compiled with --golden N; or give the model's file"
        raise error("E0006", f"{model} is a directory, not a model", fix=fix)
    arrays = read_archive(inputs) if inputs is not None else None
    with steps(_STEPS, quiet=as_json) as progress:
        asked = partial(
            bisect_model if bisect else verify_model,
            inputs=arrays, seed=seed, tolerance=tolerance, against=against, progress=progress,
        )  # fmt: skip
        settings = make_options()
        kinds = () if settings.target.device is None else (settings.target.device.kind,)
        with contextlib.nullcontext() if on is None else options.on_device(on, kinds):
            report = asked(model, settings)
    if isinstance(report, Bisection):
        return print_bisection(report, model, as_json)
    mistake = None if report.ok else SternaError(_disagreements(report))
    if as_json:
        print_json({**_json(report), **({"errors": errors_json(mistake)} if mistake else {})})
    else:
        _print(report, model)
    if mistake is not None:
        print_errors(mistake)
    return 0 if report.ok else 1


def _golden_options(context: click.Context, tolerance: float) -> float | None:
    """The tolerance, if it was given.

    Raises:
        SternaError: E0002, an option is given that says how to compile a model.
    """
    taken = {"model", "golden", "tolerance", "threads", "on", "as_json"}
    given = context.get_parameter_source
    names = {parameter.name: parameter.opts[0] for parameter in context.command.params if parameter.name is not None}
    others = [flag for name, flag in names.items() if name not in taken and given(name) is ParameterSource.COMMANDLINE]
    if others:
        title = f"{', '.join(others)} is of no use with --golden: the bundle is compiled, and its inputs are in it"
        raise error("E0002", title, fix="leave it out")
    return tolerance if given("tolerance") is ParameterSource.COMMANDLINE else None


def _replayed(place: Path, tolerance: float | None, threads: int, on: str | None, as_json: bool) -> int:
    """Replays a bundle's golden sets; returns the exit status."""
    if place.is_file():
        raise error("E0006", f"{place} is a file; --golden replays a bundle", fix=f"sterna verify {place}")
    with options.opened(place, threads, on) as bundle:
        result = bundle.verify_golden(tolerance)
    mistake = golden_mistake(result)
    if as_json:
        print_json(golden_json(result, mistake))
    else:
        verdict = "agrees with" if result.ok else "[bold red]does not agree with[/]"
        shown = replace(result, reference=escape(result.reference))
        console().print(golden_sentence(escape(place.name), shown, verdict), soft_wrap=True)
    if mistake is not None:
        print_errors(mistake)
    return 0 if result.ok else 1


def _print(report: Report, model: Path) -> None:
    out = console()
    rows = table("output", "type", ">error", ">largest", "")
    for check in report.outputs:
        mark = "[green]ok[/]" if check.within(report.tolerance) else "[red]differs[/]"
        if check.within(report.tolerance) and not check.error <= report.tolerance:
            mark += f", rounding alone makes {4 * check.spread:.1e}"
        kind = f"{check.dtype}[{', '.join(map(str, check.shape))}]"
        rows.add_row(escape(check.name), escape(kind), f"{check.error:.1e}", f"{check.largest:.4g}", mark)
    out.print(rows)
    agrees = all(check.within(report.tolerance) for check in report.outputs)
    verdict = "agrees with" if agrees else "[bold red]does not agree with[/]"
    out.print(
        f"{escape(model.name)} {verdict} {report.reference} "
        f"(error {report.error:.1e} of the largest output, tolerance {report.tolerance:g})",
        soft_wrap=True,
    )
    if report.missing:
        out.print(f"  {escape(report.missing)}", soft_wrap=True)
    for trade in report.trades:
        verdict = "agree with" if trade.ok else "[bold red]do not agree with[/]"
        out.print(
            f"{escape(trade.option)} {verdict} {escape(trade.compared_with)} (error {trade.error:.1e}, bound "
            f"{trade.bound:g}); they move the outputs by {trade.cost:.1e} of the largest",
            soft_wrap=True,
        )


def _disagreements(report: Report) -> list[Diagnostic]:
    found = [(report.outputs, report.tolerance, "", report.reference, report.first, report.apart)]
    found += [(t.outputs, t.bound, f"with {t.option}, ", t.compared_with, t.first, ()) for t in report.trades]
    return [_disagreement(*each) for each in found if not all(check.within(each[1]) for check in each[0])]


def _disagreement(
    checks: Sequence[TensorCheck],
    tolerance: float,
    option: str,
    reference: str,
    first: Difference | None,
    apart: Sequence[str],
) -> Diagnostic:
    wrong = [check.name for check in checks if not check.within(tolerance)]
    fix = (
        "this is a bug in Sterna, unless the model computes with such large numbers that no order of operations is "
        "right; please report it with the model and this message"
    )
    title = f"{option}{len(wrong)} of {len(checks)} outputs differ from {reference}: {', '.join(wrong)}"
    if apart:
        found_out = "; with sizes by --dim, verify finds out whether that is all"
        fix = BY_DESIGN if first is not None else BY_DESIGN + found_out
    where = _where(first) if first is not None else []
    if first is not None and not apart:
        where.append(f"what is wrong is {_STAGES.get(first.stage, f'the pass {first.stage}')}")
    return Diagnostic("E0008", title, (*where, *apart), fix=fix)


def _where(first: Difference) -> list[str]:
    check = first.check
    lines = [
        f'the first tensor that differs is "{check.name}", by {check.error:.1e} of its largest element',
        f"at {list(check.at)} it is {number(check.got)} and should be {number(check.wanted)}",
    ]
    if first.sources:
        lines.append(f"it comes from the model's {', '.join(first.sources)}")
    if first.kernel:
        lines.append(f'computed by kernel {first.kernel} of node "{first.node}"')
    return lines


def _json(report: Report) -> dict[str, Any]:
    return {
        "ok": report.ok,
        "reference": report.reference,
        "missing": report.missing or None,
        "apart": list(report.apart),
        "tolerance": report.tolerance,
        "error": finite(report.error),
        "outputs": [check_json(check) for check in report.outputs],
        "first_difference": None if report.first is None else _difference_json(report.first),
        "trades": [_trade_json(trade) for trade in report.trades],
    }


def _trade_json(trade: Trade) -> dict[str, Any]:
    return {
        "option": trade.option,
        "compared_with": trade.compared_with,
        "ok": trade.ok,
        "bound": trade.bound,
        "error": finite(trade.error),
        "cost": finite(trade.cost),
        "outputs": [check_json(check) for check in trade.outputs],
        "first_difference": None if trade.first is None else _difference_json(trade.first),
    }


def _difference_json(first: Difference) -> dict[str, Any]:
    row = {"stage": first.stage, "node": first.node, "kernel": first.kernel, "sources": list(first.sources)}
    return {"tensor": check_json(first.check), **row}
