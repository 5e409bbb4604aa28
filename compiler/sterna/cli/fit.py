"""`sterna fit`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import click

from sterna.cli import options
from sterna.cli.asked import takes_options
from sterna.cli.output import console, print_json, table
from sterna.codegen.generators import DEFAULT, GENERATORS
from sterna.errors import SternaError, error
from sterna.escape import rich as escape
from sterna.firmware.boards import board_names, load_board
from sterna.firmware.fit import Fit, fit, fit_json, reasons
from sterna.options import Options
from sterna_runtime.cli.reports import duration, size

_WIDE = 1000  # columns: room for any table


@click.command("fit")
@click.argument("model", type=click.Path(path_type=Path))
@click.option(
    "--board", "-b", "names", multiple=True, required=True, metavar="NAME|FILE|all",
    help="A board, such as nrf52840; several times for several, `all` for all of them.",
)  # fmt: skip
@options.shape_option
@options.dim_option
@click.option("--generator", "-g", type=click.Choice(list(GENERATORS)), default=DEFAULT, show_default=True,
              help="How kernels are made.")  # fmt: skip
@click.option("--max-ms", type=options.Number(min=0), metavar="MS", help="Refuse a board that takes longer for a run.")
@options.json_option
@takes_options
def command(
    make_options: Callable[..., Options],
    model: Path,
    names: tuple[str, ...],
    max_ms: float | None,
    as_json: bool,
) -> int:
    """Say whether a MODEL fits a board: flash, RAM, stack, instructions, time and energy of a run.

    Flash, RAM, stack and instructions are measured, on a core of the board's kind that QEMU emulates. Milliseconds and
    microjoules are estimates from the board's data sheet and an assumed number of cycles for each instruction.
    The exit status is 0 if the model fits every board that is named, or with `all` some board.
    """
    every = "all" in names
    boards = [load_board(name) for name in (board_names() if every else dict.fromkeys(names))]
    found = fit(model, partial(_options, make_options), boards)
    wrong = [each for each in found if reasons(each, max_ms)]
    failed = len(wrong) == len(found) if every else bool(wrong)
    mistake = _mistake(wrong, max_ms) if failed else None
    if as_json:
        print_json([fit_json(each, max_ms) for each in found])
    else:
        _print(found, max_ms)
    if mistake is not None:
        raise mistake
    return 0


def _options(make_options: Callable[..., Options], target: str) -> Options:
    return make_options(target=target)


def _mistake(wrong: list[Fit], max_ms: float | None) -> SternaError:
    lines = [f"{each.board.name}: {', '.join(reasons(each, max_ms))}" for each in wrong]
    fix = "a smaller model, or one with 8-bit weights; --board all shows which boards have room"
    boards = wrong[0].board.title if len(wrong) == 1 else f"{len(wrong)} boards"
    return error("E0405", f"the model does not fit {boards}", *lines, fix=fix)


def _print(found: list[Fit], max_ms: float | None) -> None:
    rows = table("board", "core", ">flash", ">of", ">RAM", ">of", ">stack", ">instructions", ">time", ">energy", "")
    lines = []
    for each in found:
        cells = _cells(each, max_ms)
        rows.add_row(*cells)
        lines.append(_in_words(*cells))
    out = console()
    if out.measure(rows, options=out.options.update(width=_WIDE)).maximum <= out.width:
        out.print(rows)
    else:
        out.print(*lines, sep="\n")
    out.print("flash, RAM, stack, instructions: measured; time and energy: estimated from the boards' data sheets")
    if any(each.board.counted_on for each in found):
        out.print("* counted on a 32-bit RISC-V, which stands in: nothing here emulates this core")
    if any(each.measured is None for each in found):
        out.print("without instructions: sizes of the library alone; QEMU is missing, or its board too small")
    if any(each.stack is None for each in found):
        out.print("without stack: weights and arena alone")
    for each in found:
        if each.fetched is not None:
            out.print(f"{escape(each.board.name)}: {escape(each.fetched.text)}")
    if len(found) == 1 and found[0].board.note:
        out.print(f"{escape(found[0].board.title)}: {escape(found[0].board.note)}")


def _cells(found: Fit, max_ms: float | None) -> list[str]:
    """The row of a board in the table; empty where nothing is known."""
    board, measured = found.board, found.measured
    energy = "" if found.microjoules is None else f"{found.microjoules:,.1f} uJ"
    time = "" if found.milliseconds is None else duration(found.milliseconds / 1000)
    stack = "" if found.stack is None else f"{found.stack:,} B"
    instructions = "" if measured is None else f"{measured.instructions:,}"
    mark = "[green]fits[/]" if not reasons(found, max_ms) else "[red]does not fit[/]"
    core = board.target if not board.counted_on else f"{board.target} *"
    return [
        escape(board.name), escape(core), size(found.flash), size(board.flash), size(found.ram), size(board.ram),
        stack, instructions, time, energy, mark,
    ]  # fmt: skip


def _in_words(
    board: str, core: str, flash: str, has_flash: str, ram: str, has_ram: str, stack: str, instructions: str,
    time: str, energy: str, mark: str,
) -> str:  # fmt: skip
    """The same as a sentence, for terminals too narrow for the table, which would cut numbers off."""
    parts = [f"flash {flash} of {has_flash}", f"RAM {ram} of {has_ram}"]
    parts += [f"stack {stack}"] if stack else []
    parts += [f"{instructions} instructions"] if instructions else []
    return f"{board} ({core}) {mark}: {', '.join([*parts, *filter(None, (time, energy))])}"
