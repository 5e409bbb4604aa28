"""Linear models, support vector machines and encoders of ai.onnx.ml."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from sterna.errors import error
from sterna.frontends.onnx.operators import scores as S
from sterna.frontends.onnx.operators.dictionaries import look_up
from sterna.frontends.onnx.translation import Translation, Translator
from sterna.ir import dtypes
from sterna.ir.graph import Array, Value
from sterna.ir.limits import check_table


def _floats(t: Translation, name: str) -> Array:
    return np.asarray(t.attribute(name) or (), np.float32)


def _rows(t: Translation) -> Value:
    """The features as float32 rows."""
    return t.cast(S.rows(t, t.input(0)), "float32")


def _flat(t: Translation, x: Value) -> Value:
    return t.reshape(x, (x.type.elements,))


# ---------------------------------------------------------------- linear models
def _linear(t: Translation, x: Value, coefficients: Array, intercepts: Array, count: int) -> Value:
    """Scores of `count` classes or targets; coefficients by target, then feature."""
    features = t.extent(x, 1)
    if coefficients.size != count * features:
        raise error("E0109", f"{coefficients.size} coefficients for {count} times {features} features")
    y = t.op("matmul", x, t.constant(np.ascontiguousarray(coefficients.reshape(count, features).T)))
    return t.op("add", y, t.constant(intercepts)) if intercepts.size else y


def linear_regressor(t: Translation) -> Value:
    targets = t.attribute("targets", 1)
    intercepts = _floats(t, "intercepts")
    if intercepts.size not in (0, targets):
        raise error("E0109", f"{intercepts.size} intercepts for {targets} targets")
    scores = _linear(t, _rows(t), _floats(t, "coefficients"), intercepts, targets)
    kind = t.attribute("post_transform", "NONE")
    return S.transform(t, scores, kind) if targets > 1 or kind == "PROBIT" else scores


def linear_classifier(t: Translation) -> tuple[Value, Value]:
    classes = S.labels(t, "classlabels_ints", "classlabels_strings")
    x, coefficients, intercepts = _rows(t), _floats(t, "coefficients"), _floats(t, "intercepts")
    count = intercepts.size or coefficients.size // max(t.extent(x, 1), 1)
    scores = _linear(t, x, coefficients, intercepts, count)
    kind = t.attribute("post_transform", "NONE")
    if count == 1:
        names: S.Labels = classes if len(classes) == 2 else (0, 1)
        label = S.either_label(t, t.op("less", t.scalar(0, "float32"), scores), names)
        if len(classes) != 2:
            return label, S.probit(t, scores) if kind == "PROBIT" else scores
        if kind == "PROBIT":
            raise t.unsupported("with PROBIT and one row of coefficients")
        if kind == "LOGISTIC":
            scores = t.op("sigmoid", scores)
        return label, S.pair(t, t.op("sub", t.scalar(1, "float32"), scores), scores)
    if len(classes) != count:
        raise error("E0109", f"{len(classes)} labels for {count} classes")
    return S.pick(t, classes, S.best(t, scores)), S.transform(t, scores, kind)


# ---------------------------------------------------------------- support vector machines
def _kernel(t: Translation, x: Value, vectors: Array) -> Value:
    """The kernel function of every row with every support vector."""
    kind = t.attribute("kernel_type", "LINEAR")
    gamma, shift, degree = (*(t.attribute("kernel_params") or ()), 0.0, 0.0, 0.0)[:3]

    def number(value: float) -> Value:
        return t.scalar(value, "float32")

    if kind == "RBF":
        distance = t.op("squared_distance", x, t.constant(vectors))
        return t.op("exp", t.op("mul", distance, number(-gamma)))
    product = t.op("matmul", x, t.constant(np.ascontiguousarray(vectors.T)))
    if kind == "LINEAR":
        return product
    if kind not in ("POLY", "SIGMOID"):
        raise error("E0109", f"kernel_type is {kind}")
    inner = t.op("add", t.op("mul", product, number(gamma)), number(shift))
    return t.op("tanh", inner) if kind == "SIGMOID" else t.op("pow", inner, number(degree))


def _vectors(t: Translation, x: Value, count: int) -> Array:
    features = t.extent(x, 1)
    vectors = _floats(t, "support_vectors")
    if vectors.size != count * features:
        raise error("E0109", f"{vectors.size} numbers are not {count} support vectors of {features} features")
    return vectors.reshape(count, features)


def svm_regressor(t: Translation) -> Value:
    x, count = _rows(t), t.attribute("n_supports", 0)
    coefficients, rho = _floats(t, "coefficients"), _floats(t, "rho")[:1]
    if count:
        if coefficients.size != count:
            raise error("E0109", f"{coefficients.size} coefficients for {count} support vectors")
        y = t.op("matmul", _kernel(t, x, _vectors(t, x, count)), t.constant(coefficients.reshape(-1, 1)))
    else:
        y = _linear(t, x, coefficients, np.zeros(0, np.float32), 1)
    y = t.op("add", y, t.constant(rho)) if rho.size else y
    if t.attribute("one_class", 0):
        inside = t.op("less", t.scalar(0, "float32"), y)
        y = t.op("where", inside, t.scalar(1, "float32"), t.scalar(-1, "float32"))
    return y


def svm_classifier(t: Translation) -> tuple[Value, Value]:
    classes = S.labels(t, "classlabels_ints", "classlabels_strings")
    x, n = _rows(t), len(classes)
    kind = t.attribute("post_transform", "NONE")
    sizes = t.attribute("vectors_per_class") or ()
    if n < 2:
        raise error("E0109", f"{n} classes")
    if not sizes:
        rho = _floats(t, "rho")[:1]
        scores = _linear(t, x, _floats(t, "coefficients"), np.repeat(rho, n), n)
        return _best_label(t, classes, scores), S.transform(t, scores, kind)
    check_table(n, n, n)
    pairs = list(combinations(range(n), 2))
    rho, prob_a, prob_b = (_floats(t, name)[: len(pairs)] for name in ("rho", "prob_a", "prob_b"))
    count, coefficients = sum(sizes), _floats(t, "coefficients")
    if len(sizes) != n or rho.size != len(pairs) or coefficients.size != (n - 1) * count or prob_a.size != prob_b.size:
        raise error("E0109", f"vectors, coefficients or rho do not fit {n} classes")
    # One column for each pair of classes: what the vectors of either class weigh in it.
    check_table(count, len(pairs))
    weights = np.zeros((count, len(pairs)), np.float32)
    rows, ends = coefficients.reshape(n - 1, count), np.cumsum(sizes)
    for column, (i, j) in enumerate(pairs):
        first, second = slice(ends[i] - sizes[i], ends[i]), slice(ends[j] - sizes[j], ends[j])
        weights[first, column] = rows[j - 1, first]
        weights[second, column] = rows[i, second]
    decisions = t.op("matmul", _kernel(t, x, _vectors(t, x, count)), t.constant(weights))
    decisions = t.op("add", decisions, t.constant(rho))
    # Each pair gives a vote to its first class if the decision is positive, else to its second.
    gain = np.zeros((len(pairs), n), np.float32)
    base = np.zeros(n, np.float32)
    for row, (i, j) in enumerate(pairs):
        gain[row, i], gain[row, j] = 1, -1
        base[j] += 1
    positive = t.cast(t.op("less", t.scalar(0, "float32"), decisions), "float32")
    votes = t.op("add", t.op("matmul", positive, t.constant(gain)), t.constant(base))
    label = S.pick(t, classes, S.best(t, votes))
    if prob_a.size:
        return label, S.transform(t, _probabilities(t, decisions, prob_a, prob_b, n), kind)
    if n > 2:
        return label, S.transform(t, decisions, kind)
    if kind == "PROBIT":
        raise t.unsupported("with PROBIT and two classes")
    if kind == "NONE":
        return label, S.pair(t, t.op("neg", decisions), decisions)
    if kind == "LOGISTIC":
        return label, t.op("sigmoid", S.pair(t, t.op("neg", decisions), decisions))
    return label, S.pair(t, t.op("sub", t.scalar(1, "float32"), decisions), decisions)


def _best_label(t: Translation, classes: S.Labels, scores: Value) -> Value:
    """Of a linear machine; with two classes a positive score is one of the second."""
    winner = S.pick(t, classes, S.best(t, scores))
    if len(classes) != 2:
        return winner
    least = 0.5 if (_floats(t, "coefficients") >= 0).all() else np.nextafter(np.float32(0), np.float32(1))
    peak = t.op("reduce_max", scores, axes=(1,), keep_dims=False)
    second = t.op("less_equal", t.scalar(least, "float32"), peak)
    return t.op("where", second, t.scalar(classes[1], S.label_type(classes)), winner)


def _probabilities(t: Translation, decisions: Value, prob_a: Array, prob_b: Array, n: int) -> Value:
    """Platt's probabilities of the pairs, coupled to those of the classes."""
    slope = t.op("add", t.op("mul", decisions, t.constant(-prob_a)), t.constant(-prob_b))
    wins = t.op("clip", t.op("sigmoid", slope), min=1e-7, max=float(np.float32(1) - np.float32(1e-7)))
    return t.op("pairwise_probabilities", wins, classes=n)


# ---------------------------------------------------------------- encoders
def binarizer(t: Translation) -> Value:
    x = t.input(0)
    return t.cast(t.op("less", t.scalar(t.attribute("threshold", 0.0), x.dtype), x), x.dtype)


def imputer(t: Translation) -> Value:
    x = t.input(0)
    floats = dtypes.is_float(x.dtype)
    values = list(t.attribute("imputed_value_floats" if floats else "imputed_value_int64s") or ())
    columns = t.extent(x, -1)
    if len(values) not in (1, columns):
        raise error("E0109", f"{len(values)} values for {columns} columns")
    gone: float = t.attribute("replaced_value_float" if floats else "replaced_value_int64", 0)
    missing = t.op("is_nan", x) if floats and np.isnan(gone) else t.op("equal", x, t.scalar(gone, x.dtype))
    return t.op("where", missing, t.constant(values if len(values) > 1 else values[0], x.dtype), x)


def one_hot_encoder(t: Translation) -> Value:
    x = t.input(0)
    categories = t.attribute("cats_int64s")
    if (x.dtype == dtypes.STRING) == bool(categories):
        raise error("E0108", f"categories of another type than {x.type}")
    categories = categories or _numbers(t, np.array(t.attribute("cats_strings") or (), object))
    if x.dtype == dtypes.STRING:
        x = t.op("bit_cast", x, to="int64")
    known = t.constant(dtypes.stored(np.asarray(categories)), "int64")
    hits = t.op("equal", t.reshape(t.cast(x, "int64"), (*x.shape, 1)), known)
    y = t.cast(hits, "float32")
    if not t.attribute("zeros", 1):
        y = t.agree(y, t.op("reduce_any", hits, axes=(x.type.rank,), keep_dims=False))
    return y


def label_encoder(t: Translation) -> Value:
    x = t.input(0)
    keys = _table(t, "keys")
    values = _table(t, "values")
    if len(keys) != len(values) or not len(keys):
        raise error("E0109", f"{len(keys)} keys and {len(values)} values")
    otherwise = t.attribute("default_tensor")
    if otherwise is None:
        name, default = {"f": ("default_float", -0.0), "O": ("default_string", "_Unused")}.get(
            values.dtype.kind, ("default_int64", -1)
        )
        otherwise = np.array(t.attribute(name, default), values.dtype)
    return _looked_up(t, x, keys, values, otherwise)


def category_mapper(t: Translation) -> Value:
    """Words by their codes, or codes by their words."""
    x = t.input(0)
    words, codes = np.array(t.attribute("cats_strings", ()), object), np.array(t.attribute("cats_int64s", ()), np.int64)
    if len(words) != len(codes) or not len(codes):
        raise error("E0109", f"{len(words)} words and {len(codes)} codes")
    if x.dtype == dtypes.STRING:
        return _looked_up(t, x, words, codes, np.array(t.attribute("default_int64", -1), np.int64))
    return _looked_up(t, x, codes, words, np.array(t.attribute("default_string", "_Unused"), object))


def _looked_up(t: Translation, x: Value, keys: Array, values: Array, otherwise: Array) -> Value:
    """For each element the value of the first key that it equals, or the value for all others."""
    text = values.dtype == object
    if (x.dtype == dtypes.STRING) != (keys.dtype == object):
        raise error("E0108", f"keys of another type than {x.type}")
    # Strings are looked up by their numbers.
    keys, values, otherwise = (dtypes.stored(_numbers(t, np.asarray(a))) for a in (keys, values, otherwise))
    _, first = np.unique(keys, return_index=True)  # NumPy sorts NaN last, and counts all of them once
    if x.dtype == dtypes.STRING:
        x = t.op("bit_cast", x, to="int64")
    y = look_up(t, x, keys[first], values[first], otherwise.reshape(-1)[0].astype(values.dtype))
    return t.op("bit_cast", y, to=dtypes.STRING) if text else y


def _numbers(t: Translation, array: Array) -> Array:
    """The array, one of strings as their numbers."""
    return t.builder.numbered(array) if array.dtype == object else array


def _table(t: Translation, name: str) -> Array:
    """The keys or values of a table; strings are objects."""
    tensor = t.attribute(f"{name}_tensor")
    if tensor is not None:
        return np.asarray(tensor).reshape(-1)
    for suffix, dtype in (("int64s", np.int64), ("floats", np.float32), ("strings", object)):
        given = t.attribute(f"{name}_{suffix}")
        if given:
            return np.asarray(given, dtype)
    raise error("E0109", f"LabelEncoder has no {name}")


def feature_vectorizer(t: Translation) -> Value:
    widths = t.attribute("inputdimensions") or ()
    parts = []
    for n, x in enumerate(t.inputs):
        assert x is not None
        part = t.cast(S.rows(t, x), "float32")
        columns = t.extent(part, 1)
        wanted = widths[n] if n < len(widths) else columns
        if wanted < columns:
            part = t.op("slice", part, starts=(0, 0), sizes=(t.extent(part, 0), wanted), steps=(1, 1))
        parts.append(t.pad(part, (0, 0), (0, max(wanted - columns, 0))))
    return parts[0] if len(parts) == 1 else t.op("concat", *parts, axis=1)


def zip_map(t: Translation) -> Value:
    """The scores themselves, a column per class in the order of the labels: maps from labels to scores hold no more."""
    count = len(t.attribute("classlabels_int64s") or t.attribute("classlabels_strings") or ())
    if t.input(0).type.rank not in (1, 2) or t.input(0).shape[-1] != count:
        raise error("E0109", f"{count} labels for scores of {t.input(0).type}")
    return t.input(0)


ML_TRANSLATORS: dict[str, Translator] = {
    "Binarizer": binarizer,
    "FeatureVectorizer": feature_vectorizer,
    "Imputer": imputer,
    "LabelEncoder": label_encoder,
    "CategoryMapper": category_mapper,
    "LinearClassifier": linear_classifier,
    "LinearRegressor": linear_regressor,
    "OneHotEncoder": one_hot_encoder,
    "SVMClassifier": svm_classifier,
    "SVMRegressor": svm_regressor,
    "ZipMap": zip_map,
}
