"""Ensembles of decision trees as every front end hands them over: tables for the operator `tree_ensemble`."""

from __future__ import annotations

import numpy as np

from sterna.errors import error
from sterna.frontends.emitter import Emitter
from sterna.ir.graph import Value
from sterna.ops.forest import LEAF, Forest

__all__ = ["LEAF", "Forest", "tree_scores"]


def tree_scores(t: Emitter, x: Value, forest: Forest, n_targets: int, aggregate: str, dtype: str) -> Value:
    """The aggregated weights of every row.

    Args:
        x: rows of features.
        aggregate: over the trees; see `tree_ensemble`.
        dtype: in which features are compared and weights added up, float32 or float64.

    Returns:
        `(rows, n_targets)`.

    Raises:
        SternaError: E0108 or E0109, the tables contradict each other or the operand.
    """
    if forest.targets.size and (forest.targets.min() < 0 or forest.targets.max() >= n_targets):
        raise error("E0109", f"a weight for target {forest.targets.max()} of {n_targets}")
    inner = forest.modes != LEAF
    features = np.where(inner, forest.features, -1)
    columns = t.extent(x, 1)
    if features.max() >= columns or features[inner].min(initial=0) < 0:
        raise error("E0108", f"a tree asks for feature {features.max()} of {columns}")
    tables = forest.tables(dtype)
    return t.op(
        "tree_ensemble", x, *(None if a is None else t.constant(a) for a in tables.operands()), targets=n_targets,
        aggregate=aggregate, **tables.attributes,
    )  # fmt: skip
