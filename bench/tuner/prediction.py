"""What it takes to rank a candidate: to draw it, to find its features, and to ask the trees."""

from __future__ import annotations

import random
import statistics
import time
from dataclasses import dataclass

from sterna.choices import Choice, Trace, replay
from sterna.errors import SternaError
from sterna.tuning.cost_model import CostModel
from sterna.tuning.features import features_of
from sterna.tuning.kernels import Task
from sterna.tuning.prior import GRADES, Rows, padded

#: Draws for each candidate that is wanted, at most: a space may have fewer.
PATIENCE = 4
#: How often each is timed: the fastest says what it takes where nobody else fills the caches.
TIMES = 3


@dataclass(frozen=True)
class Prediction:
    """CPU time in ms: to draw a schedule and to find its features, of the median candidate; to rank one in a batch."""

    drawing: float
    features: float
    trees: float


def predicted(task: Task, candidates: int) -> Prediction:
    """Of candidates drawn at random; the trees are trained on all of them, with grades drawn at random."""
    rng = random.Random(0)
    task.schedule()  # What is found once for a kernel is no part of a candidate.
    drawing, seeing, rows = list[float](), list[float](), list[tuple[float, ...]]()
    for _ in range(PATIENCE * candidates):
        trace = Trace(lambda knob: rng.choice(knob.values))
        try:
            task.schedule(trace)
        except SternaError:
            continue
        timed = [_timed(task, trace.choice) for _ in range(TIMES)]
        rows.append(timed[0][2])
        drawing.append(min(each[0] for each in timed))
        seeing.append(min(each[1] for each in timed))
        if len(rows) == candidates:
            break
    grades = padded([[float(rng.randrange(GRADES + 1))] for _ in rows], 1)[:, 0]
    model = CostModel(Rows(padded(rows, len(rows[0])), grades, (len(rows),)))
    began = time.process_time()
    model.predict(rows)
    trees = (time.process_time() - began) / len(rows)
    return Prediction(1e3 * statistics.median(drawing), 1e3 * statistics.median(seeing), 1e3 * trees)


def _timed(task: Task, choice: Choice) -> tuple[float, float, tuple[float, ...]]:
    """Seconds of drawing a candidate and of finding its features, and these."""
    began = time.process_time()
    schedule = task.schedule(replay(choice))
    drawn = time.process_time()
    found = features_of(schedule, task.options.target)
    return drawn - began, time.process_time() - drawn, found
