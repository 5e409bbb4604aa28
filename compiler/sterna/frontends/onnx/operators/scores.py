"""What the classifiers of ai.onnx.ml have in common: scores to probabilities and labels, as ONNX Runtime does it."""

from __future__ import annotations

from sterna.frontends.onnx.translation import Translation
from sterna.ir import dtypes
from sterna.ir.graph import Value

Labels = tuple[int | str, ...]


def rows(t: Translation, x: Value) -> Value:
    """The operand as rows of features; a vector is one row."""
    if x.type.rank == 1:
        return t.reshape(x, (1, *x.shape))
    if x.type.rank != 2:
        t.sizes(x, 2)  # raises
    return x


def labels(t: Translation, *names: str) -> Labels:
    """The labels of the classes."""
    return next((tuple(t.attribute(name)) for name in names if t.attribute(name)), ())


def label_type(classes: Labels) -> str:
    """The element type of labels."""
    return dtypes.STRING if classes and isinstance(classes[0], str) else "int64"


def pick(t: Translation, classes: Labels, winner: Value) -> Value:
    """The labels of class numbers."""
    if classes == tuple(range(len(classes))):
        return winner
    return t.op("gather", t.constant(list(classes), label_type(classes)), winner, axis=0)


def best(t: Translation, scores: Value) -> Value:
    """The number of the class of the greatest score, the first of equal ones."""
    return t.op("arg_max", scores, axis=1, keep_dims=False)


def column(t: Translation, scores: Value, n: int) -> Value:
    """One column, as a matrix."""
    size = t.static(scores)
    return t.op("slice", scores, starts=(0, n), sizes=(size[0], 1), steps=(1, 1))


def either_label(t: Translation, positive: Value, classes: Labels) -> Value:
    """Labels of two classes, from a column that says where the second one wins."""
    flat = t.reshape(positive, (positive.shape[0],))
    second, first = (t.scalar(classes[n], label_type(classes)) for n in (1, 0))
    return t.op("where", flat, second, first)


def transform(t: Translation, scores: Value, kind: str) -> Value:
    """The post_transform of scores of several classes or targets."""
    if kind == "LOGISTIC":
        return t.op("sigmoid", scores)
    if kind == "SOFTMAX":
        return t.op("softmax", scores, axis=1)
    if kind == "SOFTMAX_ZERO":
        return _softmax_zero(t, scores)
    return probit(t, scores) if kind == "PROBIT" else scores


def _softmax_zero(t: Translation, scores: Value) -> Value:
    """Softmax that leaves zeros alone."""
    peak = t.op("reduce_max", scores, axes=(1,), keep_dims=True)
    zero = t.op("less_equal", t.op("abs", scores), t.scalar(1e-7, scores.dtype))
    powers = t.op("exp", t.op("sub", scores, peak))
    total = t.op("where", zero, t.scalar(0, scores.dtype), powers)
    total = t.op("reduce_sum", total, axes=(1,), keep_dims=True)
    small = t.op("mul", scores, t.op("exp", t.op("neg", peak)))
    return t.op("div", t.op("where", zero, small, powers), total)


def probit(t: Translation, scores: Value) -> Value:
    """The inverse of the normal distribution, by S. Winitzki's approximation of the inverse error function."""

    def number(value: float) -> Value:
        return t.scalar(value, scores.dtype)

    a = 0.147
    x = t.op("sub", t.op("mul", scores, number(2)), number(1))
    logarithm = t.op("log", t.op("mul", t.op("sub", number(1), x), t.op("add", number(1), x)))
    half = t.op("add", t.op("mul", logarithm, number(0.5)), number(2 / (3.14159 * a)))
    inner = t.op("sub", t.op("mul", half, half), t.op("mul", logarithm, number(1 / a)))
    size = t.op("sqrt", t.op("sub", t.op("sqrt", inner), half))
    signed = t.op("where", t.op("less", x, number(0)), t.op("neg", size), size)
    return t.op("mul", signed, number(1.41421356))


def pair(t: Translation, first: Value, second: Value) -> Value:
    """Two columns."""
    return t.op("concat", first, second, axis=1)
