"""Records as pictures: the best of each explorer over its trials, and what the cost model makes of them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from sterna.errors import error
from sterna.records import Record
from sterna.tuning.cost_model import CostModel

#: Characters of a curve in the terminal, from slow to fast.
_BARS = "\u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588"
Curves = Mapping[str, Sequence[float]]


def best_so_far(records: Sequence[Record]) -> dict[str, list[float]]:
    """By explorer, how much of the best speed of all was reached after each of its trials, as a mean over kernels in
    which the slower count as much as the faster."""
    kernels: dict[tuple[str, str, str], list[Record]] = defaultdict(list)
    for record in records:
        kernels[(record.kernel, record.target, record.device)].append(record)
    of_explorer: dict[str, list[list[float]]] = defaultdict(list)
    for group in kernels.values():
        least = min(record.cost for record in group)
        if not math.isfinite(least):
            continue
        rules = [r for r in group if r.explorer == "rules"]
        for name in dict.fromkeys(r.explorer for r in group if r.explorer != "rules"):
            of_explorer[name].append(_curve([*rules, *(r for r in group if r.explorer == name)], least))
    return {name: _mean(curves) for name, curves in of_explorer.items()}


def _curve(records: Sequence[Record], least: float) -> list[float]:
    best, curve = math.inf, list[float]()
    for record in records:
        best = min(best, record.cost)
        curve.append(least / best if math.isfinite(best) else 0.0)
    return curve


def _mean(curves: Sequence[Sequence[float]]) -> list[float]:
    """Shorter curves stay where they ended."""
    longest = max(map(len, curves))
    return [sum(c[min(n, len(c) - 1)] for c in curves) / len(curves) for n in range(longest)]


def predicted(records: Sequence[Record]) -> list[tuple[float, float]]:
    """(predicted score, speed in parts of the kernel's best) of every second trial, by a model of the others."""
    model = CostModel()
    model.fit(records[::2])
    if not model.is_fit:
        return []
    least: dict[str, float] = {}
    for record in records:
        least[record.kernel] = min(record.cost, least.get(record.kernel, math.inf))
    seen = [r for r in records[1::2] if r.features and r.samples]
    scores = model.predict([r.features for r in seen])
    return [(score, least[r.kernel] / r.cost) for score, r in zip(scores, seen, strict=True)]


def terminal(curves: Curves, width: int = 60) -> list[str]:
    """A line of bars for each curve."""
    lines = []
    for name, curve in sorted(curves.items()):
        step = max(1.0, len(curve) / width)
        shown = [curve[min(len(curve) - 1, int(n * step))] for n in range(min(width, len(curve)))]
        bars = "".join(_BARS[min(len(_BARS) - 1, int(value * (len(_BARS) - 1) + 0.5))] for value in shown)
        lines.append(f"{name:10} {bars} {curve[-1]:.3f} after {len(curve)}")
    return lines


def terminal_predicted(points: Sequence[tuple[float, float]], width: int = 60) -> list[str]:
    """Measured speeds as a line of bars, of the trials from those that were predicted to be slow to the fast ones: it
    rises where the cost model is right. With it, how well the orders agree (Spearman's rank correlation)."""
    if len(points) < 2:
        return []
    speeds = [speed for _, speed in sorted(points)]
    count = min(width, len(speeds))
    ends = [len(speeds) * n // count for n in range(count + 1)]
    means = [sum(speeds[a:b]) / (b - a) for a, b in pairwise(ends)]
    bars = "".join(_BARS[min(len(_BARS) - 1, int(value * (len(_BARS) - 1) + 0.5))] for value in means)
    return [f"{'predicted':10} {bars} rank correlation {_correlation(points):.2f} over {len(points)} trials"]


def _correlation(points: Sequence[tuple[float, float]]) -> float:
    ranks = np.array([_ranks([point[side] for point in points]) for side in (0, 1)])
    return float(np.corrcoef(ranks)[0, 1]) if (ranks.std(axis=1) > 0).all() else 0.0


def _ranks(values: Sequence[float]) -> npt.NDArray[np.float64]:
    """The places of values in order; equal ones share the mean of theirs."""
    _, inverse, counts = np.unique(np.array(values), return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2)[inverse], np.float64)


def svg(records: Sequence[Record]) -> tuple[bytes, bytes]:
    """Two pictures: best so far, and predicted against measured.

    Raises:
        SternaError: E0004, pygal is not installed.
    """
    try:
        import pygal  # noqa: PLC0415 (an extra)
        from pygal.style import CleanStyle  # noqa: PLC0415
    except ImportError:
        title = "pygal, which draws the pictures, is not installed"
        raise error("E0004", title, fix="pip install sterna[tune]") from None
    style = {"style": CleanStyle, "js": (), "include_x_axis": False, "no_prefix": True, "dots_size": 1.5}
    curves = pygal.XY(title="Best speed so far", x_title="trials of a kernel", stroke=True, **{**style, "dots_size": 0})
    for name, curve in sorted(best_so_far(records).items()):
        curves.add(name, [*enumerate(curve)])
    model = pygal.XY(title="Predicted and measured", x_title="score", y_title="speed", stroke=False, **style)
    model.add("trials", [(round(score, 4), round(speed, 4)) for score, speed in predicted(records)])
    return curves.render(), model.render()
