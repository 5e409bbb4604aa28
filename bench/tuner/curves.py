"""The curves of all explorers as numbers: when the learned one is where random search ends, what the others find."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tuner.kernels import DEVICES, KERNELS, kernel_of
from tuner.replay import LEARNED, RANDOM, TRIALS, WAYS, WITHIN
from tuner.table import Table, row_of

#: What measuring does not tell apart.
ALIKE = 1.005
#: Trials at which all explorers are compared.
MARKS = (32, 64, WITHIN, TRIALS)
Curves = Sequence[Sequence[float]]


@dataclass(frozen=True)
class Panel:
    """A kernel on a device.

    Args:
        rules: cost by the rules; least: of all that was measured.
        curves: by explorer, one for each seed: the best after each trial, the rules' own first.
        measured: schedules; schedules: that there are, None where nobody has counted them.
    """

    device: str
    kernel: str
    rules: float
    least: float
    curves: dict[str, list[list[float]]]
    measured: int
    schedules: int | None

    @property
    def random_best(self) -> float:
        """Random's best in the end: the mean over seeds."""
        return statistics.fmean(at(curve, TRIALS) for curve in self.curves[RANDOM])

    @property
    def learned_within(self) -> float:
        """The learned explorer's best within the trials that it is given: the mean over seeds."""
        return statistics.fmean(at(curve, WITHIN) for curve in self.curves[LEARNED])

    @property
    def reaches(self) -> bool:
        """Whether the learned explorer is there in time, but for what measuring does not tell apart."""
        return self.learned_within <= self.random_best * ALIKE

    @property
    def trials(self) -> int | None:
        """After how many trials the learned explorer's mean is random's; None where it never is."""
        for n in range(max(map(len, self.curves[LEARNED]))):
            if statistics.fmean(at(curve, n) for curve in self.curves[LEARNED]) <= self.random_best * ALIKE:
                return n
        return None

    def shares(self, title: str, n: int) -> list[float]:
        """Of the best that is known, what an explorer has after n trials, by seed."""
        return [self.least / at(curve, n) for curve in self.curves.get(title, [])]


def at(curve: Sequence[float], n: int) -> float:
    """The best after n trials; a run that found nothing more stays where it ended."""
    return curve[min(n, len(curve) - 1)]


def panels(table: Table, seeds: int) -> Iterator[Panel]:
    """Of all kernels and devices for which both explorers that are compared have been replayed."""
    for name in KERNELS:
        for device in DEVICES:
            curves = {
                way.title: [c for seed in range(seeds) if (c := table.curve(device.title, name, way.title, seed))]
                for way in WAYS
            }
            if curves[LEARNED] and curves[RANDOM]:
                task = kernel_of(name, device)
                row = row_of(device.title, task)
                sizes = len(table.schedules(row)), table.spanned(row)
                yield Panel(device.title, name, curves[RANDOM][0][0], table.least(row), curves, *sizes)


def table_of(found: Sequence[Panel]) -> list[str]:
    """Lines of Markdown: each pair, means of all seeds and their standard deviation."""
    lines = [
        f"| kernel | device | schedules | rules | random, {TRIALS} | learned, {WITHIN} | there after | seeds |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for each in found:
        trials = "never" if each.trials is None else str(each.trials)
        seeds = min(len(each.curves[LEARNED]), len(each.curves[RANDOM]))
        random, learned = each.shares(RANDOM, TRIALS), each.shares(LEARNED, WITHIN)
        whole = "?" if each.schedules is None else f"{each.schedules:,}"
        size = whole if each.measured == each.schedules else f"{each.measured:,} of {whole}"
        texts = [size, f"{each.least / each.rules:.3f}", _spread(random), _spread(learned), trials, str(seeds)]
        lines.append(f"| {each.kernel} | {each.device} | {' | '.join(texts)} |")
    return lines


def compared(found: Sequence[Panel]) -> list[str]:
    """Lines of Markdown: each explorer after so many trials, the geometric mean of all pairs and the least."""
    lines = [
        f"| explorer | {' | '.join(f'{n} trials' for n in MARKS)} | pairs, seeds |",
        "| --- " * (len(MARKS) + 2) + "|",
    ]
    for way in WAYS:
        having = [each for each in found if each.curves[way.title]]
        if not having:
            continue
        texts = []
        for n in MARKS:
            shares = [statistics.fmean(each.shares(way.title, n)) for each in having]
            texts.append(f"{statistics.geometric_mean(shares):.3f} ({min(shares):.3f})" if n <= way.trials else "")
        seeds = min(len(each.curves[way.title]) for each in having)
        lines.append(f"| {way.title} | {' | '.join(texts)} | {len(having)}, {seeds} |")
    return lines


def _spread(shares: Sequence[float]) -> str:
    return f"{statistics.fmean(shares):.3f} ± {statistics.pstdev(shares):.3f}"
