"""Ranges of activations: what is watched while samples run, and how a range is chosen from it.

`minmax` keeps every value. `percentile` cuts off the rarest at both ends. `entropy` takes the range in which the
rounded distribution says most about the real one: the least Kullback-Leibler divergence (Migacz, "8-bit inference with
TensorRT", GTC 2017).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sterna.ir.graph import Array

METHODS = ("minmax", "percentile", "entropy")
BINS = 2048
LEVELS = 256
_FEWEST = 8 * BINS  # elements beside zero that a distribution must be known by before anything of it is cut off
_STEP = 16  # bins between the ranges that entropy tries
_MISSING = 1e-4  # what a rounded distribution has where the real one has something and it has not


@dataclass(frozen=True)
class Range:
    """Least and greatest value; zero is always between them, for padding and rectifiers need it exactly."""

    low: float
    high: float

    @staticmethod
    def of(low: float, high: float) -> Range:
        """The range, with zero in it."""
        return Range(min(0.0, low), max(0.0, high))

    @property
    def width(self) -> float:
        return self.high - self.low

    def joined(self, other: Range) -> Range:
        """The least range with both in it."""
        return Range(min(self.low, other.low), max(self.high, other.high))

    def within(self, other: Range) -> Range:
        """What of the range is in another."""
        return Range.of(max(self.low, other.low), min(self.high, other.high))


class Extremes:
    """The least and greatest element of a tensor over all samples."""

    def __init__(self) -> None:
        self.low, self.high = np.inf, -np.inf

    def add(self, array: Array) -> None:
        if array.size:
            self.low = min(self.low, float(array.min()))
            self.high = max(self.high, float(array.max()))

    @property
    def range(self) -> Range:
        """Zero alone, if there was no element."""
        return Range.of(self.low, self.high) if self.low <= self.high else Range(0.0, 0.0)


class Histogram:
    """How often elements of a tensor lie where within a range that holds them all."""

    def __init__(self, range: Range):
        self.range = range
        self.counts = np.zeros(BINS, np.int64)

    def add(self, array: Array) -> None:
        if self.range.width > 0:
            scale = BINS / self.range.width
            places = ((array.reshape(-1).astype(np.float64) - self.range.low) * scale).astype(np.int64)
            self.counts += np.bincount(np.clip(places, 0, BINS - 1), minlength=BINS)

    def edge(self, bin: int) -> float:
        """Where a bin begins."""
        if bin == BINS:
            return self.range.high
        return self.range.low + self.range.width * bin / BINS

    def between(self, first: int, end: int) -> Range:
        """The range of some bins."""
        return Range.of(self.edge(first), self.edge(end))


def percentile(histogram: Histogram, percent: float) -> Range:
    """The range that holds `percent` of all elements, with equally many beyond either end, to a bin's width."""
    total = histogram.counts.sum()
    if not total:
        return histogram.range
    beyond = total * (100.0 - percent) / 200.0
    below = np.cumsum(histogram.counts)
    first = int(np.searchsorted(below, beyond, side="right"))
    end = BINS - int(np.searchsorted(np.cumsum(histogram.counts[::-1]), beyond, side="right"))
    return histogram.between(min(first, BINS - 1), max(end, first + 1))


def entropy(histogram: Histogram) -> Range:
    """The range of least divergence among those that cut off everything beyond some magnitude.
    The bin of zero counts as much as its neighbour: zero is exact in every range, and rectifiers give little else. Of
    few elements (the scores of classes) the largest are not the rare ones but the ones that matter: all are kept.
    """
    range = histogram.range
    if range.width <= 0:
        return range
    zero = min(int(-range.low * BINS / range.width), BINS - 1)
    if histogram.counts.sum() - histogram.counts[zero] < _FEWEST:
        return range
    counts = histogram.counts.astype(np.float64)
    counts[zero] = counts[zero + 1] if zero + 1 < BINS else counts[zero - 1]
    farthest = max(zero + 1, BINS - zero)
    best = (np.inf, 0, BINS)
    for reach in (*np.arange(LEVELS // 2, farthest, _STEP), farthest):
        first, end = max(0, zero + 1 - int(reach)), min(BINS, zero + int(reach))
        if end - first >= LEVELS:
            # Of equally good ranges the widest: nothing is lost for nothing.
            best = min(best, (_divergence(counts, first, end), -(end - first), first))
    _, width, first = best
    return histogram.between(first, first + abs(width))


def _divergence(counts: Array, first: int, end: int) -> float:
    """The divergence of some bins, rounded to the levels, from all of them clamped to these.

    Less what it is on average where the real distribution is even within every level and only few are counted (half a
    count for each bin above the levels; Miller, "Note on the bias of information estimates", 1955): else fewer bins
    always seemed better.
    """
    inside = counts[first:end]
    real = inside.copy()
    real[0] += counts[:first].sum()
    real[-1] += counts[end:].sum()
    if not inside.any():
        return np.inf
    level = np.arange(inside.size) * LEVELS // inside.size
    filled = inside > 0
    share = np.bincount(level, inside, LEVELS) / np.maximum(np.bincount(level, filled, LEVELS), 1)
    rounded = np.where(filled, share[level], 0.0)
    rounded = np.where((rounded == 0) & (real > 0), _MISSING, rounded)
    p, q = real / real.sum(), rounded / rounded.sum()
    some = p > 0
    by_chance = (filled.sum() - np.unique(level[filled]).size) / (2 * real.sum())
    return float(np.sum(p[some] * np.log(p[some] / q[some])) - by_chance)
