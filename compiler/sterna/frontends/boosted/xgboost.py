"""Models of XGBoost, as `save_model` writes them: JSON, or the same as UBJSON.

The format: https://xgboost.readthedocs.io/en/stable/tutorials/saving_model.html and doc/model.schema of its sources.
Features are compared in float32, and a tree's leaf is the first node's child if the feature is *less* than the node's
value. Sets of categories name those that go to the second child.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from sterna.errors import SternaError, error
from sterna.frontends.boosted import ubjson
from sterna.frontends.boosted.model import Boosted, ForestBuilder
from sterna.frontends.tripped import TRIPS
from sterna.ir.graph import Array

#: Objective -> (scores of classes, link). Others whose names begin with `rank:` predict their scores.
_OBJECTIVES: dict[str, tuple[bool, str]] = {
    "binary:logistic": (True, "sigmoid"),
    "binary:logitraw": (False, "identity"),
    "binary:hinge": (True, "step"),
    "multi:softprob": (True, "softmax"),
    "multi:softmax": (True, "softmax"),
    "reg:squarederror": (False, "identity"),
    "reg:linear": (False, "identity"),
    "reg:squaredlogerror": (False, "identity"),
    "reg:pseudohubererror": (False, "identity"),
    "reg:absoluteerror": (False, "identity"),
    "reg:quantileerror": (False, "identity"),
    "reg:expectileerror": (False, "identity"),
    "reg:logistic": (False, "sigmoid"),
    "reg:gamma": (False, "exp"),
    "reg:tweedie": (False, "exp"),
    "count:poisson": (False, "exp"),
    "survival:cox": (False, "exp"),
    "survival:aft": (False, "exp"),
}
_CATEGORICAL = 1


def parse(data: bytes) -> Boosted:
    """The model in a file.

    Raises:
        SternaError: E0101 it is damaged, E0103 it contradicts itself, E0104 it is of a kind that is not supported.
    """
    try:
        # Numbers beyond float32 are infinite, as the library reads them.
        with np.errstate(all="ignore"):
            return _model(_document(data)["learner"])
    except SternaError:
        raise
    except (*TRIPS, RecursionError) as problem:
        text = f"{type(problem).__name__}: {problem}"
        raise error("E0101", "the file looks like an XGBoost model, but is damaged", text) from None


def _document(data: bytes) -> Any:
    return json.loads(data) if data[:1] == b"{" and data[1:2] in b'"\n\r\t ' else ubjson.loads(data)


def _model(learner: Mapping[str, Any]) -> Boosted:
    parameters, objective = learner["learner_model_param"], str(learner["objective"]["name"])
    booster = learner["gradient_booster"]
    name = str(booster["name"])
    if objective.startswith("rank:"):
        classifies, link = False, "identity"
    elif objective in _OBJECTIVES:
        classifies, link = _OBJECTIVES[objective]
    else:
        raise error("E0104", f'the objective "{objective}" is not supported', fix="export the model's scores as ONNX")
    features = int(parameters["num_feature"])
    groups = max(int(parameters["num_class"]), int(parameters.get("num_target", 1)), 1)
    base = _base(str(parameters["base_score"]), groups, link)
    if name == "gblinear":
        weights = np.array(booster["model"]["weights"], np.float32)
        if weights.size != (features + 1) * groups:
            raise error("E0103", f"{weights.size} weights of {features} features and {groups} scores")
        weights = weights.reshape(features + 1, groups)
        # All scores of a linear booster start from the first one's base (src/gbm/gblinear.cc, PredictBatchInternal).
        base = base[0] + weights[-1]
        return Boosted("XGBoost", features, groups, classifies, link, 1.0, base, 1, None, weights[:-1])
    if name == "dart":
        drops, booster = [float(w) for w in booster["weight_drop"]], booster["gbtree"]
    elif name == "gbtree":
        drops = []
    else:
        raise error("E0104", f'the booster "{name}" is not supported')
    made = ForestBuilder("float32")
    trees, groups_of = booster["model"]["trees"], booster["model"]["tree_info"]
    if not groups <= len(trees) == len(groups_of) or (drops and len(drops) != len(trees)):
        raise error("E0103", f"{len(trees)} trees for {groups} scores, and what {len(groups_of)} of them add to")
    for n, (tree, group) in enumerate(zip(trees, groups_of, strict=True)):
        if not 0 <= int(group) < groups:
            raise error("E0103", f"tree {n} adds to score {group} of {groups}")
        _tree(made, tree, n, int(group), drops[n] if drops else 1.0)
    return Boosted("XGBoost", features, groups, classifies, link, 1.0, base, 1, made.forest())


def _base(text: str, groups: int, link: str) -> Array:
    """The scores that trees start from; files hold them as predictions."""
    given = [float(part) for part in text.strip("[] ").split(",")]
    if len(given) not in (1, groups):
        raise error("E0103", f"{len(given)} values of base_score for {groups} scores")
    try:
        if link == "sigmoid":
            given = [math.log(p / (1 - p)) for p in given]
        elif link == "exp":
            given = [math.log(p) for p in given]
    except (ValueError, ZeroDivisionError):
        raise error("E0103", f"a base_score of {text} is not a value that the objective can predict") from None
    return np.broadcast_to(np.array(given, np.float32), (groups,))


def _tree(made: ForestBuilder, tree: Mapping[str, Any], number: int, group: int, factor: float) -> None:
    left, right = tree["left_children"], tree["right_children"]
    count = len(left)
    if int(tree["tree_param"].get("size_leaf_vector", 1)) > 1:
        raise error("E0104", "trees with a vector at each leaf are not supported", fix="train with one_output_per_tree")
    leaf = [n == -1 for n in left]
    if not count or any(
        not (ends or (0 <= a < count and 0 <= b < count)) for ends, a, b in zip(leaf, left, right, strict=True)
    ):
        raise error("E0103", f"tree {number} names a node that does not exist")
    categories = _categories(tree)
    first = made.reserve(count)
    made.roots.append(first)
    for n in range(count):
        if leaf[n]:
            made.leaf(first + n, group, float(np.float32(tree["split_conditions"][n]) * np.float32(factor)))
            continue
        yes, no, feature = first + left[n], first + right[n], int(tree["split_indices"][n])
        missing = bool(tree["default_left"][n])
        if tree.get("split_type", ()) and tree["split_type"][n] == _CATEGORICAL:
            # The set leads to the second child; what is negative, to the first. NaN goes where the node says.
            given, in_set = made.reserve(1), made.reserve(1)
            made.node(first + n, feature, "lt", 0.0, yes, given, missing)
            made.node(given, feature, "ge", 0.0, in_set, no)
            made.member(in_set, feature, categories[n], no, yes, 0.0)
        else:
            made.node(first + n, feature, "lt", float(tree["split_conditions"][n]), yes, no, missing)


def _categories(tree: Mapping[str, Any]) -> dict[int, list[int]]:
    """Node -> its set of categories."""
    known = tree.get("categories", ())
    parts = zip(
        tree.get("categories_nodes", ()), tree.get("categories_segments", ()), tree.get("categories_sizes", ()),
        strict=True,
    )  # fmt: skip
    return {int(node): [int(c) for c in known[start : start + size]] for node, start, size in parts}
