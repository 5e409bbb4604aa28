"""Ensembles of decision trees as every front end hands them over: tables for the operator `tree_ensemble`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sterna.errors import error
from sterna.frontends.emitter import Emitter
from sterna.ir import dtypes
from sterna.ir.graph import Array, Value
from sterna.ops.trees import MODES

#: In the table of modes: a leaf.
LEAF = 255


@dataclass(frozen=True)
class Forest:
    """Nodes and leaves of all trees; a child is an index among them.

    Args:
        roots: the first node of every tree.
        features: the feature that a node compares.
        modes: how it compares, a position in `MODES`; `LEAF` for a leaf.
        values: what it compares with; float32 or float64, the type in which features are compared.
        missing: whether NaN leads to the first child too.
        children: (if the comparison holds, if not) of a node; (first weight, number of weights) of a leaf.
        targets: the score that a weight of a leaf is added to.
        weights: of all leaves.
    """

    roots: Array
    features: Array
    modes: Array
    values: Array
    missing: Array
    children: Array
    targets: Array
    weights: Array

    @property
    def depth(self) -> int:
        """Nodes of the longest path, without its leaf.

        Raises:
            SternaError: E0109, a path does not end.
        """
        front, depth = np.unique(self.roots), 0
        while True:
            front = front[self.modes[front] != LEAF]
            if not front.size:
                return depth
            depth += 1
            if depth > len(self.features):
                raise error("E0109", "a tree leads back to one of its own nodes")
            front = np.unique(self.children[front].reshape(-1))


def _narrow(values: Array) -> Array:
    """In the smallest type that holds them."""
    low, high = (int(values.min()), int(values.max())) if values.size else (0, 0)
    kinds = ("int8", "int16", "int32", "int64")
    return values.astype(next(k for k in kinds if dtypes.limits(k)[0] <= low and high <= dtypes.limits(k)[1]))


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
    kind = dtypes.to_numpy(dtype)
    modes = np.unique(forest.modes[inner])
    tables: list[Array | None] = [
        _narrow(forest.roots),
        _narrow(features),
        forest.values.astype(kind),
        None if modes.size <= 1 else np.where(inner, forest.modes, 0).astype(np.uint8),
        forest.missing if forest.missing[inner].any() else None,
        _narrow(forest.children),
        _narrow(forest.targets) if forest.targets.size else np.zeros(1, np.int8),
        forest.weights.astype(kind) if forest.weights.size else np.zeros(1, kind),
    ]
    return t.op(
        "tree_ensemble", x, *(None if a is None else t.constant(a) for a in tables), targets=n_targets,
        depth=forest.depth, leaf_weights=int(forest.children[~inner, 1].max(initial=0)),
        mode=MODES[int(modes[0])] if modes.size == 1 else "le", aggregate=aggregate,
    )  # fmt: skip
