"""The whole space of a kernel, measured: every schedule that its strategies lead to, then the fastest again in turns.

The six kernels have 26 to 5,300 schedules on a device, so that they can be measured before any explorer is replayed. On
a machine that others use, a measurement may come out slow: the rules' own schedule is measured after each batch, a
batch beside which it was slow is measured again, and in the end the fastest take turns. What a schedule costs is the
fastest of all its samples.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sterna.choices import Choice
from sterna.tuning.explorers import Grid, Space
from sterna.tuning.kernels import Task
from sterna.tuning.measure import Measurer
from sterna.tuning.worker import Trial
from tuner.kernels import Device, kernel_of
from tuner.table import Stored, Table, row_of

#: Schedules between two measurements of the rules' own, how much slower that may be than it has been, and how often a
#: batch beside it is measured at most.
BATCH, DRIFT, REPEATS = 16, 1.1, 2
#: What takes turns: in each round all that are within this of the fastest, but so many at most.
ROUNDS, MOST = (1.15, 1.06, 1.03, 1.02), 64


@dataclass(frozen=True)
class Spanned:
    """How a space was measured.

    Args:
        schedules: that it has; measured: that have been measured, those that failed among them.
    """

    schedules: int
    measured: int


def schedules_of(task: Task) -> list[Choice]:
    """A choice for each schedule of a kernel."""
    return [choice for choice in Grid().walk(Space(task.schedule, set())) if choice is not None]


def measure_space(
    table: Table, device: Device, name: str, measurer: Callable[[], Measurer], most: int, until: float
) -> Spanned:
    """Measures schedules that the table lacks, then lets the fastest of all that it has take turns.

    Args:
        most: schedules, drawn at random; until: when to end, by the monotonic clock.
    """
    task = kernel_of(name, device)
    space = schedules_of(task)
    table.span(row_of(device.title, task), len(space))
    random.Random(0).shuffle(space)
    with Stored(table, device.title, measurer) as stored:
        missing = [choice for choice in space[:most] if not stored.has(task, choice)]
        for n in range(0, len(missing), BATCH):
            for _ in range(REPEATS):
                before = _cost(stored.measure(task, {}))
                for choice in missing[n : n + BATCH]:
                    stored.measure_again(task, choice)
                if time.monotonic() > until or _cost(stored.measure_again(task, {})) <= DRIFT * before:
                    break
            if time.monotonic() > until:
                break
        known = [choice for choice in space if stored.has(task, choice)]
        if not device.counts:
            _take_turns(stored, task, known, until)
    return Spanned(len(space), len(known))


def _take_turns(stored: Stored, task: Task, known: Sequence[Choice], until: float) -> None:
    for within in ROUNDS:
        costs = [_cost(stored.measure(task, choice)) for choice in known]
        ranked = sorted(range(len(known)), key=costs.__getitem__)
        for n in [n for n in ranked if costs[n] <= within * costs[ranked[0]]][:MOST]:
            if time.monotonic() > until:
                return
            stored.measure_again(task, known[n])
        stored.measure_again(task, {})


def _cost(trial: Trial) -> float:
    return min(trial.samples, default=math.inf)
