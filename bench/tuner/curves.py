"""The curves of all explorers as numbers: how soon the learned one is where random search ends."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tuner.kernels import DEVICES, KERNELS
from tuner.replay import LEARNED, RANDOM, TRIALS, WAYS, WITHIN
from tuner.table import Table


@dataclass(frozen=True)
class Panel:
    """A kernel on a device.

    Args:
        rules: cost by the rules; least: of all that was measured.
        curves: by explorer, one for each seed: the best after each trial, the rules' own first.
    """

    device: str
    kernel: str
    rules: float
    least: float
    curves: dict[str, list[list[float]]]

    @property
    def random_best(self) -> float:
        """Random's best in the end: the mean over seeds."""
        return statistics.fmean(curve[min(TRIALS, len(curve) - 1)] for curve in self.curves[RANDOM])

    @property
    def learned_within(self) -> float:
        """The learned explorer's best within the trials that it is given: the mean over seeds."""
        return statistics.fmean(curve[min(WITHIN, len(curve) - 1)] for curve in self.curves[LEARNED])

    @property
    def reaches(self) -> bool:
        """Whether the learned explorer is there in time, but for half a percent, which measuring does not tell
        apart."""
        return self.learned_within <= self.random_best * 1.005

    @property
    def trials(self) -> int | None:
        """After how many trials the learned explorer's mean is random's; None where it never is."""
        longest = max(map(len, self.curves[LEARNED]))
        for n in range(longest):
            if statistics.fmean(at(curve, n) for curve in self.curves[LEARNED]) <= self.random_best * 1.005:
                return n
        return None


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
                rules = curves[RANDOM][0][0]
                yield Panel(device.title, name, rules, table.least(device.title, name), curves)


def table_of(found: Sequence[Panel]) -> list[str]:
    """Lines of Markdown."""
    lines = [
        f"| kernel | device | rules | random, {TRIALS} | learned, {WITHIN} | learned is there after | seeds |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for each in found:
        shares = [each.least / cost for cost in (each.rules, each.random_best, each.learned_within)]
        trials = "never" if each.trials is None else str(each.trials)
        seeds = min(len(each.curves[LEARNED]), len(each.curves[RANDOM]))
        texts = [f"{share:.3f}" for share in shares]
        lines.append(f"| {each.kernel} | {each.device} | {' | '.join(texts)} | {trials} | {seeds} |")
    return lines
