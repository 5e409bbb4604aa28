"""TreeEnsembleClassifier, TreeEnsembleRegressor and TreeEnsemble: their attributes as tables for `tree_ensemble`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from sterna.errors import error
from sterna.frontends.forest import LEAF, Forest, tree_scores
from sterna.frontends.onnx.operators import scores as S
from sterna.frontends.onnx.translation import Translation, Translator
from sterna.ir import dtypes
from sterna.ir.graph import Array, Value

_MODES = {"BRANCH_LEQ": 0, "BRANCH_LT": 1, "BRANCH_GTE": 2, "BRANCH_GT": 3, "BRANCH_EQ": 4, "BRANCH_NEQ": 5}
_EQUAL, _MEMBER = 4, 6
_AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")


def _integers(t: Translation, name: str, size: int | None = None) -> Array:
    values = np.asarray(t.attribute(name, ()), np.int64)
    if size is not None and values.size != size:
        raise error("E0109", f"{name} has {values.size} entries, not {size}")
    return values


def _numbers(t: Translation, name: str) -> Array:
    """Floats from an attribute or from the tensor that takes its place."""
    tensor = t.attribute(f"{name}_as_tensor")
    return np.asarray(t.attribute(name, ()), np.float32) if tensor is None else np.asarray(tensor).reshape(-1)


def _positions(known: Array, wanted: Array, what: str) -> Array:
    """Where each wanted (tree, node) stands among the known ones."""
    keys, first, counts = np.unique(known, axis=0, return_index=True, return_counts=True)
    if counts.size and counts.max() > 1:
        raise error("E0109", "a node of a tree is defined twice")
    both, inverse = np.unique(np.concatenate([keys, wanted]), axis=0, return_inverse=True)
    if len(both) > len(keys):
        raise error("E0109", f"{what} of a tree names a node that does not exist")
    return np.asarray(first[np.asarray(inverse).reshape(-1)[len(keys) :]], np.int64)


def _by_node(t: Translation, prefix: str) -> Forest:
    """The tables of operator sets 1 and 3: every entry names its tree and node."""
    ids = np.stack([_integers(t, "nodes_treeids"), _integers(t, "nodes_nodeids")], axis=1)
    count = len(ids)
    if not count:
        raise error("E0109", "an ensemble without trees")
    names = t.attribute("nodes_modes", ())
    if any(name not in _MODES and name != "LEAF" for name in names) or len(names) != count:
        raise error("E0109", f"nodes_modes are {', '.join(sorted(set(names)))}")
    modes = np.array([_MODES.get(name, LEAF) for name in names], np.uint8)
    leaf = modes == LEAF
    features = np.where(leaf, -1, _integers(t, "nodes_featureids", count))
    values = _numbers(t, "nodes_values")
    if values.size != count:
        raise error("E0109", f"nodes_values has {values.size} entries, not {count}")
    tracks = _integers(t, "nodes_missing_value_tracks_true")
    missing = (tracks != 0) if tracks.size == count else np.zeros(count, np.bool_)
    children = np.zeros((count, 2), np.int64)
    for side, name in enumerate(("nodes_truenodeids", "nodes_falsenodeids")):
        wanted = np.stack([ids[:, 0], _integers(t, name, count)], axis=1)[~leaf]
        children[~leaf, side] = _positions(ids, wanted, name)
    of = np.stack([_integers(t, f"{prefix}_treeids"), _integers(t, f"{prefix}_nodeids")], axis=1)
    owner = _positions(ids, of, f"{prefix}_nodeids") if len(of) else np.zeros(0, np.int64)
    order = np.argsort(owner, kind="stable")
    sizes = np.bincount(owner, minlength=count)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    children[leaf] = np.stack([starts, sizes], axis=1)[leaf]
    roots = np.flatnonzero(np.concatenate([[True], ids[1:, 0] != ids[:-1, 0]]))
    weights = _numbers(t, f"{prefix}_weights")
    if weights.size != len(of):
        raise error("E0109", f"{prefix}_weights has {weights.size} entries, not {len(of)}")
    targets = _integers(t, f"{prefix}_ids", len(of))
    return Forest(roots, features, modes, values, missing, children, targets[order], weights[order])


def _by_index(t: Translation) -> Forest:
    """The tables of operator set 5: nodes and leaves are numbered."""
    features = _integers(t, "nodes_featureids")
    count = len(features)
    modes = np.asarray(t.attribute("nodes_modes")).reshape(-1).astype(np.uint8)
    values = np.asarray(t.attribute("nodes_splits")).reshape(-1)
    weights = np.asarray(t.attribute("leaf_weights")).reshape(-1)
    targets = _integers(t, "leaf_targetids", weights.size)
    if modes.size != count or values.size != count or not count:
        raise error("E0109", "the nodes' attributes have different lengths")
    if modes.max() > _MEMBER:
        raise error("E0109", f"a node of mode {modes.max()}")
    tracks = _integers(t, "nodes_missing_value_tracks_true")
    missing = (tracks != 0) if tracks.size == count else np.zeros(count, np.bool_)
    children = np.zeros((count, 2), np.int64)
    for side, (name, flag) in enumerate(
        (("nodes_truenodeids", "nodes_trueleafs"), ("nodes_falsenodeids", "nodes_falseleafs"))
    ):
        index, leaf = _integers(t, name, count), _integers(t, flag, count) != 0
        if index.min() < 0 or (index >= np.where(leaf, weights.size, count)).any():
            raise error("E0109", f"{name} of a tree names a node that does not exist")
        children[:, side] = np.where(leaf, count + index, index)
    roots = _integers(t, "tree_roots")
    if not roots.size or roots.min() < 0 or roots.max() >= count:
        raise error("E0109", "tree_roots names a node that does not exist")
    leaves = weights.size
    forest = Forest(
        roots,
        np.concatenate([features, np.full(leaves, -1)]),
        np.concatenate([modes, np.full(leaves, LEAF, np.uint8)]),
        np.concatenate([values, np.zeros(leaves, values.dtype)]),
        np.concatenate([missing, np.zeros(leaves, np.bool_)]),
        np.concatenate([children, np.stack([np.arange(leaves), np.ones(leaves, np.int64)], axis=1)]),
        targets,
        weights,
    )
    return _without_members(t, forest)


def _without_members(t: Translation, forest: Forest) -> Forest:
    """Nodes that ask for one of a set of values become chains of nodes that ask for one value each."""
    members = np.flatnonzero(forest.modes == _MEMBER)
    if not members.size:
        return forest
    given = t.attribute("membership_values")
    flat = np.zeros(0) if given is None else np.asarray(given).reshape(-1)
    sets = [part[~np.isnan(part)] for part in np.split(flat, np.flatnonzero(np.isnan(flat)))][: members.size]
    if len(sets) != members.size or any(not part.size for part in sets):
        raise error("E0109", "membership_values does not give a set for every node that asks for one")
    modes, values = forest.modes.copy(), forest.values.copy()
    children = forest.children.copy()
    extra_children: list[tuple[int, int]] = []
    extra: list[tuple[int, float, bool]] = []
    for node, wanted in zip(members, sets, strict=True):
        yes, no = (int(v) for v in children[node])
        modes[node], values[node] = _EQUAL, wanted[0]
        at = int(node)
        for value in wanted[1:]:
            following = len(modes) + len(extra)
            if at < len(modes):
                children[at, 1] = following
            else:
                extra_children[at - len(modes)] = (yes, following)
            extra.append((int(forest.features[node]), float(value), bool(forest.missing[node])))
            extra_children.append((yes, no))
            at = following
    if not extra:
        return replace(forest, modes=modes, values=values)
    features, more, missing = zip(*extra, strict=True)
    return replace(
        forest,
        features=np.concatenate([forest.features, features]),
        modes=np.concatenate([modes, np.full(len(extra), _EQUAL, np.uint8)]),
        values=np.concatenate([values, np.array(more, values.dtype)]),
        missing=np.concatenate([forest.missing, missing]),
        children=np.concatenate([children, extra_children]),
    )


def _scores(t: Translation, forest: Forest, n_targets: int, aggregate: str, dtype: str) -> Value:
    """The aggregated weights of all rows."""
    return tree_scores(t, S.rows(t, t.input(0)), forest, n_targets, aggregate.lower(), dtype)


def _base(t: Translation, scores: Value, base: Array) -> Value:
    return t.op("add", scores, t.constant(base.astype(dtypes.to_numpy(scores.dtype)))) if base.size else scores


def _dtype(t: Translation, forest: Forest) -> str:
    """The type in which features are compared and weights added up."""
    wide = t.input(0).dtype == "float64" or np.float64 in (forest.values.dtype, forest.weights.dtype)
    return "float64" if wide else "float32"


def regressor(t: Translation) -> Value:
    forest = _by_node(t, "target")
    n_targets = t.attribute("n_targets") or int(forest.targets.max(initial=0)) + 1
    scores = _scores(t, forest, n_targets, t.attribute("aggregate_function", "SUM"), _dtype(t, forest))
    base = _numbers(t, "base_values")
    if base.size not in (0, 1, n_targets):
        raise error("E0109", f"{base.size} base_values for {n_targets} targets")
    scores = t.cast(_base(t, scores, base), "float32")
    kind = t.attribute("post_transform", "NONE")
    return scores if n_targets == 1 and kind != "PROBIT" else S.transform(t, scores, kind)


def ensemble(t: Translation) -> Value:
    forest = _by_index(t)
    n_targets = t.attribute("n_targets") or int(forest.targets.max(initial=0)) + 1
    aggregate = _AGGREGATES[t.attribute("aggregate_function", 1)]
    x = t.input(0)
    dtype = "float64" if x.dtype == "float64" else "float32"
    scores = _scores(t, forest, n_targets, aggregate, dtype)
    kind = _TRANSFORMS[t.attribute("post_transform", 0)]
    if n_targets > 1 or kind == "PROBIT":
        scores = S.transform(t, scores, kind)
    return t.cast(scores, x.dtype) if x.dtype == "float16" else scores


def classifier(t: Translation) -> tuple[Value, Value]:
    forest = _by_node(t, "class")
    classes = S.labels(t, "classlabels_int64s", "classlabels_strings")
    kind = t.attribute("post_transform", "NONE")
    base = _numbers(t, "base_values")
    dtype = _dtype(t, forest)
    if len(classes) == 2 and np.unique(forest.targets).size == 1:
        return _two_classes(t, forest, classes, base, kind, dtype)
    scores = _scores(t, forest, len(classes), "SUM", dtype)
    if base.size not in (0, len(classes)):
        raise error("E0109", f"{base.size} base_values for {len(classes)} classes")
    scores = _base(t, scores, base)
    winner = S.best(t, scores)
    return S.pick(t, classes, winner), S.transform(t, t.cast(scores, "float32"), kind)


def _two_classes(
    t: Translation, forest: Forest, classes: S.Labels, base: Array, kind: str, dtype: str
) -> tuple[Value, Value]:
    """Two classes of which the weights tell only one."""
    told = int(forest.targets[0])
    if base.size > 1 or (base.size and told):
        raise t.unsupported(f"with {base.size} base_values and weights of class {told} only")
    positive = bool((forest.weights >= 0).all())
    alone: Any = replace(forest, targets=np.zeros_like(forest.targets))
    score = _scores(t, alone, 1, "SUM", dtype)
    score = _base(t, score, base[-1:])
    wins = t.op("less", t.scalar(0.5 if positive else 0.0, score.dtype), score)
    label = S.either_label(t, wins, (classes[0], classes[1]))
    score = t.cast(score, "float32")
    if told:
        # The other class then has the score 0, which is transformed like any other.
        zero = t.op("expand", t.scalar(0, "float32"), shape=score.shape)
        return label, S.transform(t, S.pair(t, zero, score), kind)
    if kind == "PROBIT":
        raise t.unsupported("with PROBIT and weights of one class")
    if kind == "LOGISTIC":
        return label, t.op("sigmoid", S.pair(t, t.op("neg", score), score))
    other = t.op("sub", t.scalar(1.0, "float32"), score) if positive else t.op("neg", score)
    return label, S.pair(t, other, score)


ML_TRANSLATORS: dict[str, Translator] = {
    "TreeEnsemble": ensemble,
    "TreeEnsembleClassifier": classifier,
    "TreeEnsembleRegressor": regressor,
}
