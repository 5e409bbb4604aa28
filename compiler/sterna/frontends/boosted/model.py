"""What the files of boosted trees say, whichever library wrote them; and how trees are put together node by node."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from sterna.frontends.forest import LEAF, Forest
from sterna.ir.graph import Array
from sterna.ops.forest import MODES


@dataclass(frozen=True)
class Boosted:
    """A boosted model.

    Args:
        kind: what it is called in messages: `XGBoost` or `LightGBM`.
        features: how many features a row has.
        groups: scores of a row: one of a regression or of two classes, else one for each class or target.
        classifies: whether the scores are those of classes.
        link: of scores with probabilities or predictions: see `reader.LINKS`.
        slope: what scores are multiplied by before a sigmoid.
        base: what is added to the scores, `(groups,)`.
        iterations: what scores are divided by before they are linked; 1 where they are no average.
        forest: the trees, whose weights' targets are groups; or None.
        linear: weights of the features, `(features, groups)`; or None.
    """

    kind: str
    features: int
    groups: int
    classifies: bool
    link: str
    slope: float
    base: Array
    iterations: int
    forest: Forest | None
    linear: Array | None = None


@dataclass
class ForestBuilder:
    """Puts a forest together; nodes are numbered over all trees."""

    dtype: str
    features: list[int] = field(default_factory=list)
    modes: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    missing: list[bool] = field(default_factory=list)
    children: list[tuple[int, int]] = field(default_factory=list)
    targets: list[int] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)
    roots: list[int] = field(default_factory=list)

    def reserve(self, count: int) -> int:
        """Places for so many nodes, which `node` and `leaf` fill; the first one's number."""
        first = len(self.modes)
        self.features += [-1] * count
        self.modes += [LEAF] * count
        self.values += [0.0] * count
        self.missing += [False] * count
        self.children += [(0, 0)] * count
        return first

    def node(self, at: int, feature: int, mode: str, value: float, yes: int, no: int, missing: bool = False) -> None:
        """A node that leads to `yes` if the feature compares with the value, or is NaN and `missing` holds."""
        self.features[at], self.modes[at], self.values[at] = feature, MODES.index(mode), value
        self.missing[at], self.children[at] = missing, (yes, no)

    def leaf(self, at: int, target: int, weight: float) -> None:
        self.children[at] = (len(self.weights), 1)
        self.targets.append(target)
        self.weights.append(weight)

    def member(self, at: int, feature: int, categories: Iterable[int], yes: int, no: int, least: float) -> None:
        """A node that leads to `yes` if the feature, without its fraction, is among the categories; NaN to `no`.

        Args:
            least: the least value that still is category 0.
        """
        runs = list(_runs(categories))
        places = [at, *(self.reserve(1) for _ in range(2 * len(runs) - 1))] if runs else [at]
        if not runs:
            self.node(at, feature, "lt", float("-inf"), yes, no)
        for n, (first, last) in enumerate(runs):
            after = places[2 * n + 2] if n + 1 < len(runs) else no
            # Below the first of a run is no category of it nor of a later one; NaN is not above anything.
            mode, edge = ("gt", least) if first == 0 and least < 0 else ("ge", float(first))
            self.node(places[2 * n], feature, mode, edge, places[2 * n + 1], no)
            self.node(places[2 * n + 1], feature, "lt", float(last + 1), yes, after)

    def forest(self) -> Forest:
        kind = np.dtype(self.dtype)
        return Forest(
            np.array(self.roots, np.int64),
            np.array(self.features, np.int64),
            np.array(self.modes, np.uint8),
            np.array(self.values, kind),
            np.array(self.missing, np.bool_),
            np.array(self.children, np.int64).reshape(-1, 2),
            np.array(self.targets, np.int64),
            np.array(self.weights, kind),
        )


def _runs(values: Iterable[int]) -> Iterator[tuple[int, int]]:
    """First and last of every run of consecutive integers."""
    ordered = sorted(set(values))
    start: int | None = None
    for n, value in enumerate(ordered):
        if start is None:
            start = value
        if n + 1 == len(ordered) or ordered[n + 1] != value + 1:
            yield start, value
            start = None
