"""The way of a file of boosted trees into a `Graph`.

The graph has one input, `X`, float32 `(batch, features)`. Its outputs are `probabilities` `(batch, classes)` and
`margin` for a classifier, and `prediction` otherwise, with the `margin` it is computed from where that is not the same.
A margin of one score is `(batch,)`, of several `(batch, scores)`. XGBoost's outputs are float32, LightGBM's float64.
"""

from __future__ import annotations

import os
from pathlib import Path

from sterna.errors import SternaError, error
from sterna.frontends.boosted import lightgbm, xgboost
from sterna.frontends.boosted.model import Boosted
from sterna.frontends.emitter import Emitter
from sterna.frontends.forest import tree_scores
from sterna.frontends.inputs import InputInfo, Shapes, input_types
from sterna.frontends.naming import named_graph
from sterna.ir import dtypes
from sterna.ir.graph import Graph, Value
from sterna.ops import Builder
from sterna_runtime.arguments import Dims

_PARSERS = {"xgboost": xgboost.parse, "lightgbm": lightgbm.parse}


def read(model: str | os.PathLike[str], library: str, shapes: Shapes | None = None, dims: Dims | None = None) -> Graph:
    """A model of XGBoost or LightGBM as a graph of core operators.

    Args:
        library: which of them wrote the file: `xgboost` or `lightgbm`.
        shapes: `{"X": (rows, features)}`.
        dims: `{"batch": rows}`, or the least and the greatest number; without either it is 1.

    Raises:
        SternaError: E0101, E0103, E0104, E0106, E0108, E0109 or E0112.
    """
    boosted = load(model, library)
    try:
        return graph_of(boosted, shapes, dims)
    except SternaError as mistake:
        raise mistake.within(Path(model).name) from None


def load(model: str | os.PathLike[str], library: str) -> Boosted:
    """What a file of a library says.

    Raises:
        SternaError: E0101, E0103 or E0104.
    """
    where = Path(model).name
    try:
        return _PARSERS[library](Path(model).read_bytes())
    except OSError as problem:
        raise error("E0101", f"{where} cannot be read", str(problem)) from None
    except SternaError as mistake:
        raise mistake.within(where) from None


def graph_of(boosted: Boosted, shapes: Shapes | None = None, dims: Dims | None = None) -> Graph:
    """The graph of a model; see `read`."""
    info = InputInfo("X", "float32", ("batch", boosted.features), (1, boosted.features))
    types, problems = input_types([info], shapes or {}, dims or {})
    if problems:
        raise SternaError(problems)
    x = Value("X", types[0])
    builder = Builder()
    t = Emitter(builder, boosted.kind, boosted.kind, [x], lambda _: "is the input")
    outputs = _outputs(t, boosted)
    wanted = {value: name for name, value in outputs.items()}
    return named_graph(boosted.kind, builder.nodes, (x,), tuple(outputs.values()), tuple(outputs), wanted)


def _outputs(t: Emitter, boosted: Boosted) -> dict[str, Value]:
    """The results by name."""
    scores = _scores(t, boosted)
    batch, two = scores.shape[0], boosted.classifies and boosted.groups == 1
    result = _linked(t, boosted, scores)
    if two:
        other = t.op("sub", t.scalar(1.0, result.dtype), result)
        result = t.op("concat", other, result, axis=1)
    margin = t.reshape(scores, (batch,)) if boosted.groups == 1 else scores
    if boosted.classifies:
        return {"probabilities": result, "margin": margin}
    if boosted.link == "identity":
        return {"prediction": margin}
    return {"prediction": t.reshape(result, (batch,)) if boosted.groups == 1 else result, "margin": margin}


def _scores(t: Emitter, boosted: Boosted) -> Value:
    """Scores before they become probabilities or predictions, `(batch, groups)`."""
    x, forest = t.input(0), boosted.forest
    if forest is None:
        scores = t.op("matmul", x, t.constant(boosted.linear))
    else:
        scores = tree_scores(t, x, forest, boosted.groups, "sum", dtypes.from_numpy(forest.weights.dtype))
    return t.op("add", scores, t.constant(boosted.base, scores.dtype)) if boosted.base.any() else scores


def _linked(t: Emitter, boosted: Boosted, scores: Value) -> Value:
    """What scores say, by the model's link function."""
    if boosted.iterations > 1:
        scores = t.op("div", scores, t.scalar(boosted.iterations, scores.dtype))

    def number(value: float) -> Value:
        return t.scalar(value, scores.dtype)

    if boosted.link == "sigmoid":
        return t.op("sigmoid", scores if boosted.slope == 1.0 else t.op("mul", scores, number(boosted.slope)))
    if boosted.link == "softmax":
        return t.op("softmax", scores, axis=1)
    if boosted.link == "exp":
        return t.op("exp", scores)
    if boosted.link == "softplus":
        return t.op("softplus", scores)
    if boosted.link == "square":
        return t.op("mul", scores, t.op("abs", scores))
    if boosted.link == "step":
        return t.cast(t.op("less", number(0.0), scores), scores.dtype)
    return scores
