"""`sterna tune`."""

from __future__ import annotations

import difflib
import re
import sys
import time
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.live import Live

from sterna.bundle.graph_json import math_json
from sterna.choices import to_json
from sterna.cli import options
from sterna.cli.asked import takes_options
from sterna.cli.output import console, echo, make_folder, print_json, table, write
from sterna.errors import Diagnostic, SternaError, error, system_error
from sterna.escape import rich as escape
from sterna.options import Options
from sterna_runtime.cli.reports import duration, number_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.table import Table

    from sterna.records import Database, Record
    from sterna.tuning.tuner import Progress, Report, Tuner
    from sterna.tuning.whole import Whole

_UNITS = {"s": 1, "m": 60, "h": 3600}
_ROWS = 24  # of kernels
_NAMES = 3  # of kernels that have the same reason
_WIDE = 66  # columns of a terminal that has room for all of a table
_SQLITE = b"SQLite format 3\0"


def seconds_of(text: str) -> float:
    """`90`, `90s`, `20m` or `2h`."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text, re.ASCII)
    if found is None or not float(found[1]):
        raise error("E0002", f'--time "{text}" is no time', fix="--time 20m, 90s or 2h")
    return float(found[1]) * _UNITS[found[2] or "s"]


class WithModel(click.Group):
    """`sterna tune MODEL` beside `sterna tune log` and others: what is no subcommand is a model."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ("-h", "--help"):
            close = difflib.get_close_matches(args[0], [name for name in self.commands if name != "model"], 1, 0.8)
            if close and not Path(args[0]).exists():
                fix = f"did you mean `sterna tune {close[0]}`?"
                raise error("E0001", f'"{args[0]}" is neither a file nor a command of `sterna tune`', fix=fix)
            args = ["model", *args]
        return super().parse_args(ctx, args)


class OfModel(click.Command):
    """The command that has no name of its own."""

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        above = ctx.command_path if ctx.parent is None else ctx.parent.command_path
        formatter.write_usage(above, " ".join(self.collect_usage_pieces(ctx)))


records_option = click.option(
    "--records", type=click.Path(path_type=Path), metavar="FILE",
    help="File of records. Default: STERNA_TUNING, else one for this user.",
)  # fmt: skip


@click.group("tune", cls=WithModel, invoke_without_command=False)
def command() -> None:
    """Try other schedules of a MODEL's kernels on a device; keep what is faster.

    \b
      sterna tune MODEL --time 20m     compile takes the result by itself
      sterna tune MODEL --help         how a search is limited
      sterna tune log                  what was measured

    Ctrl-C ends the search, and what is best is confirmed; a second one ends
    that, too. Nothing that was measured is lost: the next run goes on.
    """


@command.command("model", cls=OfModel, hidden=True)
@click.argument("model", type=click.Path(path_type=Path))
@options.untuned_model_options
@options.signature_option
@options.weights_file_option
@click.option(
    "--on", metavar="DEVICE", multiple=True,
    help="rpc://HOST, node, chromium, or qemu:TARGET|BOARD, whose instructions count. Default: here, "
    "for cuda, opencl and metal on the device of this machine. With --dask several times, too.",
)  # fmt: skip
@click.option(
    "--dask", metavar="SCHEDULER",
    help="Workers of Dask build and measure: tcp://HOST:PORT, or local.",
)  # fmt: skip
@click.option("--trials", type=click.IntRange(min=0), default=500, show_default=True, help="Trials, at most.")
@click.option("--time", "seconds", type=seconds_of, metavar="TIME", help="End after 20m, 90s or 2h.")
@click.option(
    "--explorer", type=click.Choice(["evolution", "annealing", "genetic", "tpe", "random", "grid"]),
    default="evolution", show_default=True, help="How candidates are chosen.",
)  # fmt: skip
@click.option(
    "--max-error", type=float, metavar="BOUND",
    help="Also choose algorithms, by the time their kernels take on the device. No output may differ by more than "
    "BOUND of its largest magnitude, for example 1e-3. The same as --math fast=BOUND.",
)  # fmt: skip
@click.option(
    "--data", type=click.Path(path_type=Path), metavar="FILE.npz|FOLDER",
    help="Samples to measure errors on. Default: the inputs of golden sets.",
)  # fmt: skip
@options.seed_option("Of what is drawn at random.")
@records_option
@options.json_option
@takes_options
def model_command(
    model: Path,
    make_options: Callable[..., Options],
    on: tuple[str, ...],
    dask: str | None,
    trials: int,
    seconds: float | None,
    explorer: str,
    max_error: float | None,
    data: Path | None,
    seed: int,
    records: Path | None,
    as_json: bool,
) -> None:
    """Try other schedules of a MODEL's kernels on a device; keep what is faster."""
    from sterna.driver import reading  # noqa: PLC0415 (brings the compiler)
    from sterna.frontends.formats import read_model  # noqa: PLC0415
    from sterna.frontends.source import Source  # noqa: PLC0415
    from sterna.records import Database, default_place  # noqa: PLC0415
    from sterna.tuning.algorithms import feeds_of  # noqa: PLC0415
    from sterna.tuning.tune import measurer, within  # noqa: PLC0415
    from sterna.tuning.tuner import Tuner  # noqa: PLC0415

    asked = make_options(tuning=False)  # What was tuned before is looked up kernel by kernel.
    if max_error is not None:
        asked = within(asked, max_error, "E0002")
    if data is not None and not asked.math:
        raise error("E0002", "--data is for measuring errors, and no error is allowed", fix="--max-error 1e-3")
    with measurer(on, dask, asked) as found:
        graph = read_model(Source.of(model), reading(asked))
        feeds = None if data is None else feeds_of(graph, data)
        with Database(records or default_place()) as database, _shown(as_json, trials, seconds) as watch:
            tuner = Tuner(
                graph, asked, database, explorer=explorer, seed=seed, measurer=found, watch=watch, feeds=feeds
            )
            report = tuner.run(trials, float("inf") if seconds is None else seconds)
    if as_json:
        print_json(report_json(report))
    else:
        _print(report)
        if asked.math and report.algorithms is None and report.ended != "interrupted":
            echo("every layer is computed as the model defines it: nothing else within the bound was faster")
    if report.ended == "interrupted":
        raise KeyboardInterrupt


@contextmanager
def _shown(quiet: bool, trials: int, seconds: float | None) -> Iterator[Callable[[Tuner], None]]:
    """Shows how far the tuner is, on standard error while a terminal looks."""
    if quiet or not sys.stderr.isatty():
        yield lambda tuner: None
        return
    with Live(console=console(sys.stderr), transient=True, refresh_per_second=4) as live:
        yield lambda tuner: live.update(_kernels(tuner.kernels, tuner.unit, stage(tuner, trials, seconds)))


def stage(tuner: Tuner, trials: int, seconds: float | None) -> str:
    """What the tuner is at, and about how long the search goes on at most: it may end earlier."""
    if tuner.confirming:
        return "the best are measured once more, in turns with the rules' own; Ctrl-C ends that"
    passed = time.monotonic() - tuner.started
    left = [] if seconds is None else [max(0.0, seconds - passed)]
    left += [passed / tuner.trials * (trials - tuner.trials)] if tuner.trials else []
    words = f", at most {_minutes(min(left))} left" if left else ""
    return f"{tuner.trials} of {trials} trials{words}; Ctrl-C ends the search"


def _minutes(seconds: float) -> str:
    """A time to wait: 40 s, 12 min, 1 h 5 min."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


def _kernels(kernels: list[Progress] | tuple[Progress, ...], unit: str, title: str | None = None) -> Table:
    """The kernels that cost most, with the best of each."""
    wide = console().width >= _WIDE
    heads = ("kernel", ">calls", ">rules", ">best", ">faster", ">trials", ">failed", "")
    rows = table(*(heads if wide else ("kernel", ">rules", ">best", "")), title=title)
    known = sorted((p for p in kernels if not p.why and p.spent), key=lambda p: -p.task.calls * p.before)
    for p in known[:_ROWS]:
        won = "kept" if p.confirmed else ""
        best = p.after if p.confirmed else p.best
        faster = f"{p.before / min(best, p.before):.2f}x"
        name = escape(p.task.name[: 40 if wide else 11])
        calls, spent, failed = (str(n) for n in (p.task.calls, p.spent, p.failed))
        costs = (cost_text(p.before, unit), cost_text(best, unit))
        rows.add_row(*((name, calls, *costs, faster, spent, failed, won) if wide else (name, *costs, won)))
    return rows


def cost_text(cost: float, unit: str) -> str:
    """A time, or a count of instructions."""
    if cost == float("inf"):
        return ""
    return duration(cost) if unit == "s" else f"{cost:,.0f}"


def report_json(report: Report) -> dict[str, Any]:
    """The facts of a run, as JSON has them."""
    return {
        "ended": report.ended,
        "trials": report.trials,
        "seconds": round(report.seconds, 3),
        "unit": report.unit,
        "before": report.before,
        "after": report.after,
        "kernels": [
            {
                "kernel": p.task.kernel, "name": p.task.name, "calls": p.task.calls, "trials": p.spent,
                "failed": p.failed, "confirmed": p.confirmed,
                **({"reason": p.why} if p.why else {"before": p.before, "after": p.after if p.confirmed else p.before}),
            }
            for p in report.kernels
        ],
        "open": list(report.left),
        **({"parts": [
            {"part": p.part, "name": p.name, "choice": to_json(p.choice), "rule": to_json(p.rule),
             "before": min(p.before), "after": min(p.after)} for p in report.parts
        ]} if report.parts else {}),
        **({"math": math_json(report.algorithms.measured)} if report.algorithms is not None else {}),
        **({"model": vars(report.whole)} if report.whole is not None else {}),
    }  # fmt: skip


def _print(report: Report) -> None:
    from sterna.tuning.tuner import WINS  # noqa: PLC0415 (brings the compiler)
    from sterna.tuning.words import difference  # noqa: PLC0415

    out = console()
    if any(p.spent and not p.why for p in report.kernels):
        out.print(_kernels(report.kernels, report.unit))
    for line in _not_tuned(report):
        out.print(f"  not tuned: {escape(line)}", soft_wrap=True)
    if report.left:
        kernels = number_of(len(report.left), "kernel")
        out.print(f"  not tuned: {kernels} over open dimensions; --dim NAME=SIZE fixes one")
    kept = sum(p.confirmed for p in report.kernels)
    words = {"trials": "all trials are made", "time": "the time is over", "still": "nothing gains any more"}
    found = "no kernel was measured"
    if any(not p.why for p in report.kernels):
        found = (
            f"{number_of(kept, 'kernel')} {'is' if kept == 1 else 'are'} faster; {_measured(report)} together "
            f"{cost_text(report.before, report.unit)} -> {cost_text(report.after, report.unit)}, {report.gain:.2f}x"
        )
    how = words.get(report.ended, "interrupted")
    out.print(f"\n{number_of(report.trials, 'trial')} in {duration(report.seconds)} ({how}): {found}", soft_wrap=True)
    is_dropped = report.ended == "interrupted" or (report.whole is not None and report.whole.is_slower)
    if (unsteady := sum(_was_chance(p, WINS) for p in report.kernels)) and not is_dropped:
        was = "was" if unsteady == 1 else "were"
        out.print(f"  {number_of(unsteady, 'kernel')} that looked faster {was} not so in turns with the rules' own")
    if report.algorithms is not None:
        out.print(report.algorithms.measured.text, soft_wrap=True)
    if report.whole is not None:
        out.print(_model(report.whole, report.unit), soft_wrap=True)
    for part in report.parts:
        out.print(f"  {escape(part.name)}: {escape(', '.join(difference(part.rule, part.choice)))}", soft_wrap=True)
    if kept or report.parts:
        echo("`sterna compile` takes them from now on; --no-tuning does not")
    if report.algorithms is not None:
        echo(f"and the algorithms with --math fast={report.algorithms.measured.bound:g}")


def _not_tuned(report: Report) -> list[str]:
    """Kernels and why they are not tuned; those of one reason together."""
    reasons: dict[str, list[str]] = {}
    for p in report.kernels:
        if p.why:
            reasons.setdefault(p.why, []).append(p.task.name)
    named = {why: ", ".join(names[:_NAMES]) for why, names in reasons.items()}
    more = {why: number_of(len(names) - _NAMES, "other") for why, names in reasons.items() if len(names) > _NAMES}
    return [f"{text}{f' and {more[why]}' if why in more else ''}: {why}" for why, text in named.items()]


def _measured(report: Report) -> str:
    """The kernels whose costs are known."""
    unknown = sum(bool(p.why) for p in report.kernels)
    total = len(report.kernels)
    return f"the {total - unknown} measured of {number_of(total, 'kernel')}" if unknown else "all kernels"


def _was_chance(progress: Progress, wins: float) -> bool:
    """Whether the best that the search measured is not kept, though it was clearly faster than the rules' own."""
    return not progress.why and not progress.confirmed and progress.best < wins * progress.before


def _model(whole: Whole, unit: str) -> str:
    """What became of the model as a whole."""
    if whole.why:
        return f"the model as a whole was not measured: {escape(whole.why)}"
    costs = f"{cost_text(whole.before, unit)} -> {cost_text(whole.after, unit)}, {whole.before / whole.after:.2f}x"
    return f"the model as a whole: {costs}{'; what won alone is dropped' if whole.is_slower else ''}"


def _database(place: Path | None, create: bool = False) -> Database:
    from sterna.records import Database, default_place  # noqa: PLC0415 (brings SQLite)

    return Database(place or default_place(), create)


@command.command("log")
@records_option
@options.json_option
def log_command(records: Path | None, as_json: bool) -> None:
    """Show what was measured, and what won."""
    from sterna.tuning.unforeseen import INTERNAL  # noqa: PLC0415
    from sterna.tuning.words import difference  # noqa: PLC0415

    with _database(records) as database:
        trials, confirmed = database.trials(), database.confirmed()
    groups: dict[tuple[str, str, str], list[Record]] = {}
    for record in trials:
        groups.setdefault((record.kernel, record.target, record.device), []).append(record)
    rules = {key: r for key, group in groups.items() for r in group if r.explorer == "rules"}
    kept = {(each.kernel, each.target, each.device): each for each in confirmed}
    bugs: dict[str, list[Record]] = {}
    for record in trials:
        if record.error.startswith(INTERNAL):
            bugs.setdefault(record.error, []).append(record)
    chosen = {key: difference(rules[key].choice if key in rules else {}, each.choice) for key, each in kept.items()}
    if as_json:
        won = [{**vars(each), "choice": to_json(each.choice), "differs": chosen[key]} for key, each in kept.items()]
        failed = sum(bool(r.error) for r in trials)
        found = [{"error": text, "trials": len(own), "kernels": [r.name for r in own]} for text, own in bugs.items()]
        print_json({"trials": len(trials), "failed": failed, "internal": found, "confirmed": won})
        return
    out = console()
    places: dict[tuple[str, str], Table] = {}
    for key, group in groups.items():
        where = (group[0].target_name, group[0].device)
        rows = places.setdefault(where, table("kernel", ">trials", ">failed", ">rules", ">best", "kept"))
        best = cost_text(min(r.cost for r in group), group[0].unit)
        gain = f"{kept[key].before / kept[key].after:.2f}x" if key in kept else ""
        failed, by_rule = sum(bool(r.error) for r in group), rules[key].cost if key in rules else float("inf")
        rows.add_row(
            escape(group[0].name[:40]), str(len(group)), str(failed), cost_text(by_rule, group[0].unit), best, gain,
        )  # fmt: skip
    if not places:
        out.print(f"no trials are in {escape(str(database.path))}", soft_wrap=True)
    for (target, device), rows in places.items():
        out.print(f"[bold]{escape(target)}[/] on {escape(device or 'the machine that tuned')}")
        out.print(rows)
    for key, words in chosen.items():
        name = groups[key][0].name[:40] if key in groups else key[0]
        out.print(f"  {escape(name)}: {escape(', '.join(words)) or 'as the rules say'}", soft_wrap=True)
    for text, own in bugs.items():
        out.print(f"  {escape(text)}: {number_of(len(own), 'trial')}, first of {escape(own[0].name)}", soft_wrap=True)


@command.command("export")
@click.argument("file", type=click.Path(path_type=Path))
@records_option
def export_command(file: Path, records: Path | None) -> None:
    """Write all records into FILE, as lines of JSON."""
    from sterna.records import export_json  # noqa: PLC0415

    with _database(records) as database:
        text = export_json(database)
    write(file, text.encode())
    echo(f"{number_of(text.count(chr(10)) - 1, 'record')} in {file}")


@command.command("import")
@click.argument("file", type=click.Path(path_type=Path))
@records_option
def import_command(file: Path, records: Path | None) -> None:
    """Add the records of FILE, which `sterna tune export` wrote."""
    from sterna.records import read_json  # noqa: PLC0415

    try:
        text = file.read_text(encoding="utf-8")
    except OSError as problem:
        raise system_error(problem, "to read the records") from None
    except UnicodeDecodeError:
        is_database = file.read_bytes().startswith(_SQLITE)
        fix = f"sterna tune merge {file}" if is_database else "sterna tune export FILE"
        raise error("E0007", f"{file} is no export of records: it is no text", fix=fix) from None
    found = read_json(text, str(file))
    with _database(records, create=True) as database:
        trials, won = database.merge(*found)
    echo(_new(trials, won))


@command.command("merge")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@records_option
def merge_command(files: tuple[Path, ...], records: Path | None) -> None:
    """Add the records of other files of records: of all of them, or of none."""
    from sterna.records import read_file  # noqa: PLC0415

    found, problems = [], list[Diagnostic]()
    for file in files:
        try:
            found.append(read_file(file))
        except SternaError as problem:
            problems += problem.diagnostics
    if problems:
        raise SternaError(problems)
    with _database(records, create=True) as database:
        added = [database.merge(*each) for each in found]
    echo(_new(sum(n for n, _ in added), sum(n for _, n in added)))


def _new(trials: int, won: int) -> str:
    """What records had not before."""
    return f"{number_of(trials, 'trial')} and {number_of(won, 'choice')} that won are new"


@command.command("plot")
@click.option("--output", "-o", type=click.Path(path_type=Path), metavar="FOLDER", help="Folder for SVG pictures.")
@records_option
def plot_command(output: Path | None, records: Path | None) -> None:
    """Draw the best of each explorer over its trials, and what the cost model
    predicts beside what was measured.

    With --output both also as SVG.
    """
    from sterna.tuning.curves import best_so_far, predicted, svg, terminal, terminal_predicted  # noqa: PLC0415

    with _database(records) as database:
        trials = database.trials()
    if output is not None:
        make_folder(output, "--output")
    for line in (*terminal(best_so_far(trials)), *terminal_predicted(predicted(trials))):
        echo(line)
    if output is not None:
        for name, picture in zip(("best.svg", "predicted.svg"), svg(trials), strict=True):
            write(output / name, picture, "--output")
            echo(str(output / name))
