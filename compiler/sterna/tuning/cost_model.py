"""A cost model: it ranks choices by the features of their loop programs, from everything measured so far.

Gradient-boosted trees of xgboost, trained to rank the choices of one kernel among themselves (`rank:pairwise`), so that
kernels of any size, and targets, may be in one set of data. Without xgboost (`pip install sterna[tune]`) there is none,
and explorers propose by what was measured alone.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from typing import Any

import numpy as np

from sterna.records import Record
from sterna.tuning.prior import Rows, padded, rows_of

#: Trials of which a model is worth making; those of one kernel that it learns from at most.
LEAST, MOST_OF_ONE = 16, 2000
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
    """Learns from records, predicts from features.

    Args:
        prior: what it knows before; records correct it.
    """

    def __init__(self, prior: Rows | None = None) -> None:
        self._trees: Any = None
        self._width = 0
        if prior is not None and prior.groups and is_installed():
            self._width = prior.features.shape[1]
            self._trees = _trained(prior, None)
        self._base = self._trees

    @property
    def is_fit(self) -> bool:
        """Whether there was enough to learn from."""
        return self._trees is not None

    def fit(self, records: Sequence[Record]) -> None:
        """Learns from these, and from the prior. What failed ranks behind everything else of its kernel."""
        rows = rows_of(records, MOST_OF_ONE)
        if not is_installed() or rows is None or len(rows.grades) < LEAST:
            return
        if self._base is None:
            self._width = rows.features.shape[1]
        elif rows.features.shape[1] != self._width:
            rows = Rows(padded(rows.features, self._width), rows.grades, rows.groups)
        self._trees = _trained(rows, self._base)

    def predict(self, features: Sequence[Sequence[float]]) -> list[float]:
        """A score for each, greater where it is faster; of one kernel's choices among themselves."""
        if self._trees is None or not features:
            return [0.0] * len(features)
        return [float(score) for score in self._trees.inplace_predict(padded(features, self._width))]


def _trained(rows: Rows, base: Any) -> Any:
    """Trees, after those of `base`."""
    import xgboost  # noqa: PLC0415 (brings much, and is not always there)

    ids = np.repeat(np.arange(len(rows.groups)), rows.groups)
    return xgboost.train(_SETTINGS, xgboost.DMatrix(rows.features, rows.grades, qid=ids), _TREES, xgb_model=base)
