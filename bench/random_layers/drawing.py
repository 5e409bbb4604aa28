"""What the writers of random networks share: draws that a seed and a number repeat, and the folders of cases.

A case is a folder with a model and `case.npz`: the inputs `in_NAME` and the outputs `out0`, `out1`... in the model's
order. A writer runs in the environment of its framework; only NumPy is needed here.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

#: How often a case or a layer is drawn anew where the framework itself refuses the draw.
ATTEMPTS = 40
#: Frameworks that crash, hang or keep memory are run in processes of so many cases, which may take so long.
CASES_OF_A_PROCESS, SECONDS_OF_A_PROCESS = 25, 300


class Draw:
    """Random choices of one case, the same ones for one seed and one number on every machine."""

    def __init__(self, *seed: int):
        self.random = np.random.default_rng(seed)

    def of(self, *choices: Any) -> Any:
        return choices[int(self.random.integers(len(choices)))]

    def whole(self, low: int, high: int) -> int:
        """An integer from `low` to `high`, both included."""
        return int(self.random.integers(low, high + 1))

    def flag(self, chance: float = 0.5) -> bool:
        return bool(self.random.random() < chance)

    def real(self, low: float, high: float) -> float:
        """A number of few digits, so that it is the same in float32 and in text."""
        return round(float(self.random.uniform(low, high)), 3)

    def axis(self, rank: int) -> int:
        return self.whole(-rank, rank - 1)

    def axes(self, rank: int) -> list[int]:
        """One or more dimensions, some counted from the end."""
        chosen = self.random.permutation(rank)[: self.whole(1, rank)]
        return [int(n) - rank if self.flag(0.3) else int(n) for n in chosen]

    def order(self, rank: int) -> list[int]:
        return [int(n) for n in self.random.permutation(rank)]

    def part(self, values: Sequence[Any], most: int) -> list[Any]:
        return [values[int(n)] for n in self.random.permutation(len(values))[: self.whole(1, most)]]

    def divisor(self, number: int) -> int:
        return self.of(*(n for n in range(1, number + 1) if number % n == 0))

    def floats(self, *shape: int, dtype: str = "float32") -> np.ndarray:
        return np.asarray(self.random.normal(size=shape)).astype(dtype)

    def positive(self, *shape: int) -> np.ndarray:
        return np.asarray(self.random.uniform(0.3, 1.7, size=shape)).astype(np.float32)

    def integers(self, low: int, high: int, *shape: int, dtype: str = "int32") -> np.ndarray:
        return np.asarray(self.random.integers(low, high + 1, size=shape)).astype(dtype)


def write_cases(write: Callable[[Draw, Path, int], str | None], isolated: str = "") -> None:
    """The program of a writer.

    Args:
        write: makes a case in a folder that it is given, and returns a line that says what is in it; None where
            the framework refuses what was drawn.
        isolated: the module of the writer, if the framework may crash: processes of their own write the cases.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--cases", type=int, default=500)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--attempt", type=int, default=-1, help="in a process of its own, from this draw on")
    options = parser.parse_args()
    numbers = range(options.first, options.first + options.cases)
    if isolated and options.attempt < 0:
        _in_processes(isolated, options, numbers)
        return
    first_attempt = max(0, options.attempt)
    for number in numbers:
        for attempt in range(first_attempt, ATTEMPTS):
            folder = options.folder / f"{number:05}"
            folder.mkdir(parents=True, exist_ok=True)
            for old in folder.iterdir():
                if old.is_file():
                    old.unlink()
            try:
                said = write(Draw(options.seed, number, attempt), folder, number)
            except Exception:  # a framework ends in many ways where it does not take what was drawn
                traceback.print_exc(limit=1, file=sys.stderr)
                continue
            if said is not None:
                (folder / "layers.txt").write_text(said + "\n")
                break
        else:
            raise SystemExit(f"case {number}: the framework took no draw of {ATTEMPTS}")
        first_attempt = 0


def _in_processes(module: str, options: argparse.Namespace, numbers: range) -> None:
    """Writes cases in processes; where one crashes or hangs, the next one draws anew the case that it was at."""
    at, attempt = numbers.start, 0
    while at < numbers.stop:
        count = min(CASES_OF_A_PROCESS, numbers.stop - at)
        command = [sys.executable, "-m", module, str(options.folder), "--first", str(at), "--seed", str(options.seed)]
        command += ["--cases", str(count), "--attempt", str(attempt)]
        try:
            ended = subprocess.run(command, check=False, timeout=SECONDS_OF_A_PROCESS).returncode == 0
        except subprocess.TimeoutExpired:
            ended = False
        if ended:
            at, attempt = at + count, 0
            continue
        reached = next(n for n in range(at, at + count) if not (options.folder / f"{n:05}" / "layers.txt").exists())
        at, attempt = reached, attempt + 1 if reached == at else 1
        if attempt >= ATTEMPTS:
            raise SystemExit(f"case {at}: the framework crashes")


def save_arrays(folder: Path, inputs: dict[str, np.ndarray], outputs: Sequence[np.ndarray]) -> None:
    np.savez(
        folder / "case.npz",
        **{f"in_{name}": value for name, value in inputs.items()},
        **{f"out{n}": value for n, value in enumerate(outputs)},
    )
