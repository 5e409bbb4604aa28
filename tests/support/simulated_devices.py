"""Devices for `tuning.farm` that take a fixed time and say what a choice costs by its hash; some fail on the way.

Workers open them by `opened`. Names tell what they do: "hangs-5" gives no answer any more after five kernels,
"drifts-5" takes twice as long from then on, "slow-0.5" needs half a second for each.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Sequence
from pathlib import Path

from sterna.choices import Choice
from sterna.records import choice_text
from sterna.tuning.kernels import Task
from sterna.tuning.worker import Built, Trial

#: What devices of this process have measured, and the seconds that most take.
measured: list[tuple[str, str]] = []
SECONDS = 0.01
#: After which what hangs is ended.
WATCHDOG = 0.1
RULES = 1.0


def cost(choice: Choice) -> float:
    """Of a choice: 0.5 to 1.5 s; 1 for {}, the rules' own."""
    return 0.5 + zlib.crc32(choice_text(choice).encode()) / 2**32 if choice else RULES


class Simulated:
    def __init__(self, name: str, seconds: float):
        self.name, self._runs = name, 0
        self._kind, number, *_ = (*name.split("-"), "")
        self._number = float(number or 0)

    def time(self, kernel: str, rules: Built, built: Built) -> Trial:
        self._runs += 1
        failing = self._runs > self._number
        if self._kind == "hangs" and failing:
            time.sleep(WATCHDOG)
            return built.trial(error=f"no answer in {WATCHDOG:g} s", unanswered=True)
        time.sleep(self._number if self._kind == "slow" else SECONDS)
        measured.append((self.name, choice_text(built.choice)))
        return built.trial((cost(built.choice) * (2 if self._kind == "drifts" and failing else 1),))

    def turns(self, bundles: Sequence[Path], part: bool = False) -> list[list[float]]:
        assert all((each / "graph.json").is_file() for each in bundles)
        return [[2.0], [1.0]]

    def close(self) -> None:
        pass


def opened(name: str, seconds: float) -> Simulated:
    return Simulated(name, seconds)


def built(task: Task, choice: Choice) -> Built:
    """What a builder would make, without a compiler."""
    return Built(choice, "[]", (), {"kernel": b""})
