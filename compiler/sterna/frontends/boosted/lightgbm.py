"""Models of LightGBM, as `Booster.save_model` writes them.

The format has no specification but its reader, src/io/tree.cpp of LightGBM. Features are compared in float64, and the
first child follows if the feature is *at most* the threshold. A node's `decision_type` has bits: 1 its threshold stands
for a set of categories, 2 what is missing goes to the first child, 12 what counts as missing: nothing, zero or NaN.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import numpy as np

from sterna.errors import SternaError, error
from sterna.frontends.boosted.model import Boosted, ForestBuilder
from sterna.frontends.tripped import TRIPS

#: Objective -> (scores of classes, link).
_OBJECTIVES: dict[str, tuple[bool, str]] = {
    "binary": (True, "sigmoid"),
    "multiclass": (True, "softmax"),
    "multiclassova": (True, "sigmoid"),
    "cross_entropy": (False, "sigmoid"),
    "cross_entropy_lambda": (False, "softplus"),
    "poisson": (False, "exp"),
    "gamma": (False, "exp"),
    "tweedie": (False, "exp"),
    **dict.fromkeys(
        ("regression", "regression_l1", "huber", "fair", "quantile", "mape", "lambdarank", "rank_xendcg", "custom", ""),
        (False, "identity"),
    ),
}
_CATEGORICAL, _DEFAULT_LEFT = 1, 2
_NOTHING, _ZERO = 0, 1
#: Smaller magnitudes count as zero.
_SMALLEST = float(np.float32(1e-35))


def parse(data: bytes) -> Boosted:
    """The model in a file.

    Raises:
        SternaError: E0101 it is damaged, E0103 it contradicts itself, E0104 it is of a kind that is not supported.
    """
    try:
        sections = data.decode("utf-8").split("\nend of trees")[0].split("\nTree=")
        with np.errstate(all="ignore"):
            return _model(_members(sections[0]), [_members(section) for section in sections[1:]])
    except SternaError:
        raise
    except TRIPS as problem:
        text = f"{type(problem).__name__}: {problem}"
        raise error("E0101", "the file looks like a LightGBM model, but is damaged", text) from None


def _members(section: str) -> dict[str, str]:
    """The lines `name=value`; a line without a value says that something holds."""
    lines = (line.partition("=") for line in section.splitlines())
    return {name: value.strip() for name, _, value in lines}


def _model(header: Mapping[str, str], trees: list[dict[str, str]]) -> Boosted:
    words = header.get("objective", "").split()
    options = dict(word.partition(":")[::2] for word in words[1:])
    name = words[0] if words else ""
    if name not in _OBJECTIVES:
        raise error("E0104", f'the objective "{name}" is not supported', fix="export the model's scores as ONNX")
    classifies, link = _OBJECTIVES[name]
    if name == "regression" and "sqrt" in options:
        link = "square"
    features, groups = int(header["max_feature_idx"]) + 1, int(header.get("num_tree_per_iteration", "1"))
    if groups < 1 or features < 1 or not trees or len(trees) % groups:
        raise error("E0103", f"{len(trees)} trees for {groups} scores of {features} features")
    made = ForestBuilder("float64")
    for n, tree in enumerate(trees):
        _tree(made, tree, n, n % groups)
    slope = float(options.get("sigmoid", 1.0))
    iterations = len(trees) // groups if "average_output" in header else 1
    return Boosted("LightGBM", features, groups, classifies, link, slope, np.zeros(groups), iterations, made.forest())


def _numbers(tree: Mapping[str, str], name: str, kind: type, count: int) -> list[float]:
    values = [kind(word) for word in tree[name].split()]
    if len(values) != count:
        raise error("E0103", f"{name} has {len(values)} entries, not {count}")
    return values


def _tree(made: ForestBuilder, tree: Mapping[str, str], number: int, group: int) -> None:
    leaves = int(tree["num_leaves"])
    if tree.get("is_linear", "0") == "1":
        raise error(
            "E0104", "trees with a linear model at each leaf are not supported", fix="train with linear_tree=false"
        )
    if leaves < 1:
        raise error("E0103", f"tree {number} has no leaves")
    inner = leaves - 1
    weights = _numbers(tree, "leaf_value", float, leaves)
    first = made.reserve(inner + leaves)
    made.roots.append(first)
    for n, weight in enumerate(weights):
        made.leaf(first + inner + n, group, weight)
    if not inner:
        return
    sides = [[int(n) for n in _numbers(tree, f"{side}_child", int, inner)] for side in ("left", "right")]
    if any(not -leaves <= n < inner for side in sides for n in side):
        raise error("E0103", f"tree {number} names a node that does not exist")
    # Leaves are numbered -1, -2, ...
    places = [[n if n >= 0 else inner + ~n for n in side] for side in sides]
    features = _numbers(tree, "split_feature", int, inner)
    thresholds = _numbers(tree, "threshold", float, inner)
    kinds = _numbers(tree, "decision_type", int, inner)
    sets = _sets(tree)
    for n in range(inner):
        yes, no = first + places[0][n], first + places[1][n]
        feature, kind = int(features[n]), int(kinds[n])
        if kind & _CATEGORICAL:
            made.member(first + n, feature, sets[int(thresholds[n])], yes, no, -1.0)
        else:
            _numeric(made, first + n, feature, thresholds[n], yes, no, bool(kind & _DEFAULT_LEFT), kind >> 2 & 3)


def _numeric(
    made: ForestBuilder, at: int, feature: int, threshold: float, yes: int, no: int, left: bool, missing: int
) -> None:
    """A node that compares with a threshold.

    Args:
        left: what is missing goes to the first child.
        missing: what counts as missing.
    """
    if missing == _NOTHING:
        made.node(at, feature, "le", threshold, yes, no, threshold >= 0.0)  # NaN counts as 0
    elif missing != _ZERO:
        made.node(at, feature, "le", threshold, yes, no, left)
    else:
        above, compared = made.reserve(1), made.reserve(1)
        made.node(at, feature, "lt", -_SMALLEST, compared, above)
        made.node(above, feature, "gt", _SMALLEST, compared, yes if left else no)
        made.node(compared, feature, "le", threshold, yes, no)


def _sets(tree: Mapping[str, str]) -> list[list[int]]:
    """The sets of categories, which files hold as bits of 32-bit words."""
    if int(tree.get("num_cat", "0")) == 0:
        return []
    ends = [int(word) for word in tree["cat_boundaries"].split()]
    words = np.array(tree["cat_threshold"].split(), np.uint32)
    bits = (words[:, None] >> np.arange(32, dtype=np.uint32) & 1).reshape(-1)
    return [np.flatnonzero(bits[32 * a : 32 * b]).tolist() for a, b in pairwise(ends)]
