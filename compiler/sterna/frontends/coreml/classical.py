"""Models that are no networks: trees, linear models, scalers and what stands before them in pipelines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sterna.errors import error
from sterna.frontends.coreml import neighbours
from sterna.frontends.coreml.labels import labels_of
from sterna.frontends.coreml.vector_machines import odds_of, regressed
from sterna.frontends.emitter import Emitter
from sterna.frontends.forest import LEAF, Forest, tree_scores
from sterna.frontends.standard import standard
from sterna.ir.graph import Value

#: How nodes compare, by their behaviour: positions in the modes of `tree_ensemble`.
_MODES, _LEAF = (0, 1, 2, 3, 4, 5), 6


def _row(reader: Any, model: Any, values: dict[str, Value], dtype: str = "float32") -> tuple[Emitter, Value]:
    """The features, one after the other, as one row."""
    t = reader.emitter(model.WhichOneof("Type"))
    parts = []
    for each in model.description.input:
        value = t.cast(values[each.name], dtype)
        parts.append(t.reshape(value, (1, value.type.elements)))
    if not parts:
        raise error("E0103", "a model without inputs")
    return t, parts[0] if len(parts) == 1 else t.op("concat", *parts, axis=1)


def _one(model: Any) -> str:
    """The name of its only output, or of the feature that it predicts."""
    return str(model.description.predictedFeatureName or model.description.output[0].name)


def _elementwise(make: Callable[[Emitter, Any, Value], Value]) -> Callable[..., None]:
    def translate(reader: Any, model: Any, params: Any, values: dict[str, Value]) -> None:
        x = values[model.description.input[0].name]
        t = reader.emitter(model.WhichOneof("Type"), x)
        values[_one(model)] = make(t, params, x)

    return translate


def _numbers(t: Emitter, given: Any, x: Value) -> Value:
    return t.constant(np.array(given, np.float64), x.dtype)


def _scaler(t: Emitter, p: Any, x: Value) -> Value:
    """(x + shift) * scale."""
    made = t.op("add", x, _numbers(t, p.shiftValue, x)) if p.shiftValue else x
    return t.op("mul", made, _numbers(t, p.scaleValue, x)) if p.scaleValue else made


def _imputer(t: Emitter, p: Any, x: Value) -> Value:
    which, replaced = p.WhichOneof("ImputedValue"), p.WhichOneof("ReplaceValue")
    held = getattr(p, which) if which else 0.0
    if which in ("imputedStringValue", "imputedStringDictionary", "imputedInt64Dictionary"):
        raise error("E0111", f"an imputer with {which} is not supported")
    new = t.constant(np.array(held.vector if hasattr(held, "vector") else held), x.dtype)
    wanted = getattr(p, replaced) if replaced else np.nan
    if isinstance(wanted, float) and np.isnan(wanted):
        return t.op("where", t.op("is_nan", x), new, x)
    return t.op("where", t.op("equal", x, t.scalar(wanted, x.dtype)), new, x)


def _normalizer(t: Emitter, p: Any, x: Value) -> Value:
    """By the greatest magnitude, the sum of magnitudes, or the length."""
    axes = t.constant(np.array([x.type.rank - 1]), "int64")
    if p.normType == 0:
        size = standard(t, "ReduceMax", standard(t, "Abs", x), axes)
    else:
        size = standard(t, "ReduceL1" if p.normType == 1 else "ReduceL2", x, axes)
    return t.op("div", x, t.op("where", t.op("equal", size, t.scalar(0, x.dtype)), t.scalar(1, x.dtype), size))


def _extractor(t: Emitter, p: Any, x: Value) -> Value:
    flat = t.reshape(x, (x.type.elements,))
    return t.op("gather", flat, t.constant(np.array(p.extractIndex, np.int64)), axis=0)


def _one_hot(t: Emitter, p: Any, x: Value) -> Value:
    which = p.WhichOneof("CategoryType")
    if which is None:
        raise error("E0103", "a one-hot encoder without categories")
    kind = "string" if which == "stringCategories" else "int64"
    known = t.constant(list(getattr(p, which).vector), kind)
    x = t.reshape(x if kind == "string" else t.cast(x, "int64"), (x.type.elements, 1))
    hits = standard(t, "Equal", x, known)
    if p.handleUnknown == 0:
        found = standard(t, "ReduceMax", t.cast(hits, "int32"), t.constant(np.array([1]), "int64"))
        hits = t.agree(hits, t.cast(found, "bool"))
    made = t.cast(hits, "float64")
    return t.reshape(made, (made.type.elements,)) if x.type.elements == 1 else made


def _vectorizer(reader: Any, model: Any, params: Any, values: dict[str, Value]) -> None:
    t = reader.emitter("featureVectorizer")
    parts = []
    for each in params.inputList:
        value = t.cast(values[each.inputColumn], "float64")
        parts.append(t.reshape(value, (value.type.elements,)))
    values[_one(model)] = parts[0] if len(parts) == 1 else t.op("concat", *parts, axis=0)


def _linked(t: Emitter, scores: Value, link: int) -> Value:
    """GLM's transforms: none, logit, probit."""
    if link == 1:
        return standard(t, "Sigmoid", scores)
    if link == 2:
        scaled = t.op("mul", scores, t.scalar(1 / np.sqrt(2), scores.dtype))
        one = t.op("add", standard(t, "Erf", scaled), t.scalar(1, scores.dtype))
        return t.op("mul", one, t.scalar(0.5, scores.dtype))
    return scores


def _scores(t: Emitter, x: Value, p: Any) -> Value:
    weights = np.array([list(row.value) for row in p.weights], np.float64)
    offset = np.array(p.offset, np.float64)
    made = standard(t, "MatMul", x, t.constant(weights.T.copy(), x.dtype))
    return t.op("add", made, t.constant(offset, x.dtype)) if offset.size else made


def _glm_regressor(reader: Any, model: Any, p: Any, values: dict[str, Value]) -> None:
    t, x = _row(reader, model, values, "float64")
    made = _linked(t, _scores(t, x, p), p.postEvaluationTransform)
    values[_one(model)] = t.reshape(made, (made.type.elements,))


def _glm_classifier(reader: Any, model: Any, p: Any, values: dict[str, Value]) -> None:
    t, x = _row(reader, model, values, "float64")
    labels = labels_of(p)
    scores = _scores(t, x, p)
    # Probabilities of the classes: of one score those of the second class.
    link = {0: 1, 1: 2}[p.postEvaluationTransform]
    odds = _linked(t, scores, link)
    if p.classEncoding == 0 and len(labels) > 2:
        one = t.scalar(1, odds.dtype)
        rest = t.op("sub", one, standard(t, "ReduceSum", odds, t.constant(np.array([1]), "int64")))
        odds = t.op("concat", rest, odds, axis=1)
    elif len(labels) == 2 and t.extent(odds, 1) == 1:
        odds = t.op("concat", t.op("sub", t.scalar(1, odds.dtype), odds), odds, axis=1)
    else:
        total = standard(t, "ReduceSum", odds, t.constant(np.array([1]), "int64"))
        odds = t.op("div", odds, total)
    reader.classified(t, model.description, t.reshape(odds, (len(labels),)), labels, values)


def _forest(p: Any) -> Forest:
    """The tables of an ensemble; the root of a tree is its node that is no other's child."""
    nodes = list(p.nodes)
    place = {(n.treeId, n.nodeId): k for k, n in enumerate(nodes)}
    if not nodes or len(place) != len(nodes):
        raise error("E0109", "the trees have no nodes, or two of one number")
    modes = np.array([LEAF if n.nodeBehavior == _LEAF else _MODES[n.nodeBehavior] for n in nodes], np.uint8)
    children = np.zeros((len(nodes), 2), np.int64)
    targets: list[int] = []
    weights: list[float] = []
    inner = set()
    for k, n in enumerate(nodes):
        if n.nodeBehavior == _LEAF:
            children[k] = len(weights), len(n.evaluationInfo)
            targets += [int(each.evaluationIndex) for each in n.evaluationInfo]
            weights += [float(each.evaluationValue) for each in n.evaluationInfo]
            continue
        for side, number in enumerate((n.trueChildNodeId, n.falseChildNodeId)):
            if (n.treeId, number) not in place:
                raise error("E0109", f"the tree {n.treeId} has no node {number}")
            children[k, side] = place[n.treeId, number]
            inner.add(int(children[k, side]))
    roots = np.array([k for k in range(len(nodes)) if k not in inner], np.int64)
    if len(roots) != len({n.treeId for n in nodes}):
        raise error("E0109", "a tree has no root, or several")
    return Forest(
        roots, np.array([int(n.branchFeatureIndex) if n.nodeBehavior != _LEAF else -1 for n in nodes]), modes,
        np.array([n.branchFeatureValue for n in nodes]), np.array([bool(n.missingValueTracksTrueChild) for n in nodes]),
        children, np.array(targets, np.int64), np.array(weights),
    )  # fmt: skip


def _tree_scores(reader: Any, model: Any, p: Any, values: dict[str, Value]) -> tuple[Emitter, Value]:
    """Scores of an ensemble, `(1, targets)` in float64, as the file holds its numbers."""
    t, x = _row(reader, model, values, "float64")
    count = int(p.numPredictionDimensions) or 1
    scores = tree_scores(t, x, _forest(p), count, "sum", "float64")
    base = np.array(p.basePredictionValue, np.float64)
    return t, t.op("add", scores, t.constant(base, scores.dtype)) if base.any() else scores


def _transformed(t: Emitter, scores: Value, transform: int) -> Value:
    """None, softmax, logistic, softmax with a class of score 0 before the others."""
    if transform == 3:
        scores = t.pad(scores, (0, 1), (0, 0))
    if transform in (1, 3):
        return standard(t, "Softmax", scores, axis=1)
    return standard(t, "Sigmoid", scores) if transform == 2 else scores


def _tree_regressor(reader: Any, model: Any, p: Any, values: dict[str, Value]) -> None:
    t, scores = _tree_scores(reader, model, p.treeEnsemble, values)
    made = _transformed(t, scores, p.postEvaluationTransform)
    values[_one(model)] = t.reshape(made, (made.type.elements,))


def _tree_classifier(reader: Any, model: Any, p: Any, values: dict[str, Value]) -> None:
    t, scores = _tree_scores(reader, model, p.treeEnsemble, values)
    labels = labels_of(p)
    odds = _transformed(t, scores, p.postEvaluationTransform)
    if t.extent(odds, 1) == 1 and len(labels) == 2:  # the one score is that of the second class
        odds = t.op("concat", t.op("sub", t.scalar(1, odds.dtype), odds), odds, axis=1)
    if t.extent(odds, 1) != len(labels):
        raise error("E0109", f"{len(labels)} labels for {t.extent(odds, 1)} classes")
    reader.classified(t, model.description, t.reshape(odds, (len(labels),)), labels, values)


def _svm_regressor(reader: Any, model: Any, p: Any, values: dict[str, Value]) -> None:
    t, x = _row(reader, model, values)
    values[_one(model)] = t.reshape(t.cast(regressed(t, x, p), "float64"), (1,))


def _svm_classifier(reader: Any, model: Any, p: Any, values: dict[str, Value]) -> None:
    t, x = _row(reader, model, values)
    labels = labels_of(p)
    reader.classified(t, model.description, t.reshape(odds_of(t, x, p, len(labels)), (len(labels),)), labels, values)


TRANSLATORS: dict[str, Callable[..., None]] = {
    "arrayFeatureExtractor": _elementwise(_extractor),
    "categoricalMapping": neighbours.mapped,
    "featureVectorizer": _vectorizer,
    "glmClassifier": _glm_classifier,
    "glmRegressor": _glm_regressor,
    "identity": _elementwise(lambda t, p, x: x),
    "imputer": _elementwise(_imputer),
    "kNearestNeighborsClassifier": neighbours.nearest,
    "nonMaximumSuppression": neighbours.boxes,
    "normalizer": _elementwise(_normalizer),
    "oneHotEncoder": _elementwise(_one_hot),
    "scaler": _elementwise(_scaler),
    "supportVectorClassifier": _svm_classifier,
    "supportVectorRegressor": _svm_regressor,
    "treeEnsembleClassifier": _tree_classifier,
    "treeEnsembleRegressor": _tree_regressor,
}
