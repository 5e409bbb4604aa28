"""A cost model: it ranks choices by the features of their loop programs, from everything measured so far.

Gradient-boosted trees of xgboost, trained to rank the choices of one kernel among themselves (`rank:pairwise`), so that
kernels of any size, and targets, may be in one set of data. Without xgboost (`pip install sterna[tune]`) there is none,
and explorers propose by what was measured alone.
"""

from __future__ import annotations

import importlib.util
import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from sterna.records import Record

#: Trials of which a model is worth making; those of one kernel that it learns from at most.
LEAST, MOST_OF_ONE = 16, 2000
#: Ranks that a kernel's trials are put into.
GRADES = 31
_TREES = 80
_SETTINGS = {
    "objective": "rank:pairwise",
    "max_depth": 6,
    "eta": 0.2,
    "lambda": 1.0,
    "min_child_weight": 0.5,
    "nthread": 1,
    "verbosity": 0,
    "seed": 0,
    "lambdarank_pair_method": "mean",
    "lambdarank_num_pair_per_sample": 8,
}


def is_installed() -> bool:
    """Whether there can be a model."""
    return importlib.util.find_spec("xgboost") is not None


class CostModel:
    """Learns from records, predicts from features."""

    def __init__(self) -> None:
        self._trees: Any = None

    @property
    def is_fit(self) -> bool:
        """Whether there was enough to learn from."""
        return self._trees is not None

    def fit(self, records: Sequence[Record]) -> None:
        """Learns from these alone. What failed ranks behind everything else of its kernel."""
        groups: dict[tuple[str, str, str], list[Record]] = defaultdict(list)
        for record in records:
            if record.features:
                groups[(record.kernel, record.target, record.device)].append(record)
        kept = [group[-MOST_OF_ONE:] for group in groups.values() if len(group) > 1]
        if not is_installed() or sum(map(len, kept)) < LEAST:
            return
        import xgboost  # noqa: PLC0415 (brings much, and is not always there)

        width = max(len(record.features) for group in kept for record in group)
        rows = np.array([_padded(r.features, width) for group in kept for r in group], np.float32)
        labels = np.concatenate([_grades(group) for group in kept])
        ids = np.repeat(np.arange(len(kept)), [len(group) for group in kept])
        self._width = width
        self._trees = xgboost.train(_SETTINGS, xgboost.DMatrix(rows, labels, qid=ids), _TREES)

    def predict(self, features: Sequence[Sequence[float]]) -> list[float]:
        """A score for each, greater where it is faster; of one kernel's choices among themselves."""
        if self._trees is None:
            return [0.0] * len(features)
        import xgboost  # noqa: PLC0415

        rows = np.array([_padded(each, self._width) for each in features], np.float32)
        return [float(score) for score in self._trees.predict(xgboost.DMatrix(rows))]


def _padded(features: Sequence[float], width: int) -> list[float]:
    """Features of other versions may be fewer, or more."""
    return [*features[:width], *[0.0] * (width - len(features))]


def _grades(group: Sequence[Record]) -> np.ndarray:
    """The fastest has the highest grade, in proportion to speed; failures have none."""
    least = min(record.cost for record in group)
    if not math.isfinite(least):
        return np.zeros(len(group), np.float32)
    return np.array([round(GRADES * least / record.cost) if record.samples else 0 for record in group], np.float32)
