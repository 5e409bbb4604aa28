"""`sterna demo`."""

from __future__ import annotations

import shlex
import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
import onnx
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sterna.api import compile_model
from sterna.bundle.directory import Written, write_files
from sterna.bundle.writer import bundle_files
from sterna.cli.options import json_option
from sterna.cli.output import bar, console, files, left_alone, print_json, steps
from sterna.codegen.generators import DEFAULT, GENERATORS
from sterna.escape import rich as escape
from sterna_runtime import Bundle, load
from sterna_runtime.cli.reports import duration
from sterna_runtime.inputs import Array

DATA = Path(__file__).resolve().parents[1] / "demo"
_SHOWN = 6  # pictures, three beside each other in 80 columns
_RUNS = 1000
_GREYS = 24  # of the 256-colour palette, from 232 on


@dataclass(frozen=True)
class Answer:
    """What the model says to one picture: probability of every digit."""

    label: int
    image: Array
    scores: Array

    @property
    def digit(self) -> int:
        return int(self.scores.argmax())

    @property
    def certainty(self) -> float:
        return float(self.scores.max())


@click.command("demo")
@click.option(
    "--output", "-o", type=click.Path(path_type=Path), default=Path("sterna-demo"), show_default=True,
    metavar="DIRECTORY", help="Folder for the bundle.",
)  # fmt: skip
@click.option("--generator", "-g", type=click.Choice(list(GENERATORS)), default=DEFAULT, show_default=True)
@json_option
def command(output: Path, generator: str, as_json: bool) -> None:
    """Compile a small trained network for this machine and run it on handwritten digits."""
    model = DATA / "digits.onnx"
    start = time.perf_counter()
    with steps(8, quiet=as_json) as progress:
        compiled = compile_model(model, generator=generator, progress=progress)
        progress("writing the bundle")
        written = write_files(bundle_files(compiled), output)
    place = written.directory
    seconds = time.perf_counter() - start
    with load(place) as bundle:
        answers = [_answer(bundle, path) for path in sorted((DATA / "images").glob("*.npy"))]
        times = _times(bundle, answers[0].image)
    if as_json:
        print_json(_json(written, seconds, answers, times))
        return
    out = console()
    what = onnx.load(model, load_external_data=False).doc_string
    out.print(f"[bold]digits.onnx[/]: {escape(what)}")
    out.print(f"compiled for {escape(compiled.options.target.description)}, in {duration(seconds)}\n")
    hardest = sorted(answers, key=lambda answer: answer.certainty)[:_SHOWN]
    for first in range(0, len(hardest), 3):
        out.print(_row(hardest[first : first + 3], out))
    right = sum(answer.digit == answer.label for answer in answers)
    out.print(f"{right} of {len(answers)} pictures right; above, the {len(hardest)} it is least sure of.")
    out.print(
        f"One picture takes [bold]{duration(statistics.median(times))}[/] (median of {len(times)} runs, one thread).\n"
    )
    out.print("The bundle:")
    out.print(files(written.sizes))
    out.print(f"in {escape(str(place.resolve()))}", soft_wrap=True)
    if written.others:
        out.print(escape(left_alone(written.others)), soft_wrap=True)
    out.print()
    out.print(
        "Next:",
        f"  sterna inspect {shlex.quote(str(place))}",
        f"  sterna run {shlex.quote(str(place))} --random --repeat 100 --profile",
        sep="\n",
        soft_wrap=True,
    )


def _answer(bundle: Bundle, path: Path) -> Answer:
    image = np.load(path)
    return Answer(int(path.stem), image, bundle.run({"image": image})["scores"][0])


def _times(bundle: Bundle, image: Array) -> list[float]:
    """Seconds of single runs."""
    bundle.set_input("image", image)
    times = []
    for _ in range(_RUNS):
        start = time.perf_counter()
        bundle.run()
        times.append(time.perf_counter() - start)
    return times


def _row(answers: list[Answer], out: Console) -> Table:
    grid = Table.grid(padding=(0, 1))
    for _ in answers:
        grid.add_column(width=16)
        grid.add_column(width=8)
    grid.add_row(*(cell for answer in answers for cell in (draw(answer.image[0, 0], out), _beside(answer))))
    grid.add_row("")
    return grid


def _beside(answer: Answer) -> Text:
    """The answer and its probability, then the three likeliest digits with bars."""
    good = answer.digit == answer.label
    text = Text("\n")
    text.append(f"{answer.digit}", style="bold green" if good else "bold red")
    share = f"{answer.certainty:.1%}".replace("100.0%", "100%")
    text.append(f"  {share}\n", style="bold")
    text.append("right\n\n" if good else f"no, a {answer.label}\n\n", style="dim")
    for digit in np.argsort(-answer.scores)[:3]:
        text.append(f"{digit} {bar(float(answer.scores[digit]), 6)}\n")
    return text


def draw(image: Array, out: Console) -> Text:
    """A picture in half-block characters, every pixel as two by two: in greys, or in black and white without colour."""
    fine = enlarge(image)
    blocks = {(0, 0): " ", (1, 0): "\u2580", (0, 1): "\u2584", (1, 1): "\u2588"}
    if not out.encoding.lower().startswith("utf"):
        blocks = {(0, 0): " ", (1, 0): "'", (0, 1): ".", (1, 1): "#"}
    coloured = out.color_system in ("256", "truecolor") and not out.no_color
    text = Text()
    for upper, lower in zip(fine[0::2], fine[1::2], strict=True):
        for a, b in zip(upper, lower, strict=True):
            if coloured:
                text.append("\u2580", style=f"{_grey(a)} on {_grey(b)}")
            else:
                text.append(blocks[int(a > 0.45), int(b > 0.45)])
        text.append("\n")
    text.right_crop(1)
    return text


def _grey(value: float) -> str:
    return f"color({232 + round(float(np.clip(value, 0, 1)) * (_GREYS - 1))})"


def enlarge(image: Array) -> Array:
    """Twice the size in both directions, interpolated between the centres of the pixels."""
    count = image.shape[0]
    position = np.clip((np.arange(2 * count) + 0.5) / 2 - 0.5, 0, count - 1)
    low = np.floor(position).astype(int)
    high, part = np.minimum(low + 1, count - 1), position - low
    rows = image[low] * (1 - part)[:, None] + image[high] * part[:, None]
    result: Array = rows[:, low] * (1 - part) + rows[:, high] * part
    return result


def _json(written: Written, seconds: float, answers: list[Answer], times: list[float]) -> dict[str, Any]:
    return {
        "directory": str(written.directory.resolve()),
        "compile_seconds": round(seconds, 4),
        "right": sum(answer.digit == answer.label for answer in answers),
        "answers": [{"label": a.label, "digit": a.digit, "certainty": a.certainty} for a in answers],
        "median_seconds": statistics.median(times),
        "files": written.sizes,
        "others": list(written.others),
    }
