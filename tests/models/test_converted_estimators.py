"""scikit-learn's estimators by way of skl2onnx, and boosted trees by way of onnxmltools, against ONNX Runtime.

Labels are equal, scores and transformed values within 1e-5 of the largest; what cannot be done is refused with a code.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from sklearn import (
    calibration,
    compose,
    decomposition,
    discriminant_analysis,
    ensemble,
    feature_extraction,
    gaussian_process,
    impute,
    linear_model,
    mixture,
    naive_bayes,
    neighbors,
    neural_network,
    pipeline,
    preprocessing,
    svm,
    tree,
)
from sklearn.datasets import load_iris

from sterna.debug.interpret import interpret
from sterna.errors import SternaError
from sterna.frontends.onnx import read
from sterna.pipeline import optimize

skl2onnx = pytest.importorskip("skl2onnx", reason="needs skl2onnx: converts the estimators")
types = skl2onnx.common.data_types
Arrays = Mapping[str, np.ndarray]

OPSETS = {"": 21, "ai.onnx.ml": 3}
X, Y = load_iris(return_X_y=True)
# Flowers that are measured to a tenth are often equally far apart; rounding would say which of them is a neighbour.
X = (X + np.random.default_rng(1).uniform(-0.04, 0.04, X.shape)).astype(np.float32)
R = X @ np.array([1, 2, -1, 0.5], np.float32) + np.sin(X[:, 0])  # for regressors
TWO = (Y > 0).astype(int)
GAPS = np.where(np.random.default_rng(0).random(X.shape) < 0.1, np.float32(np.nan), X)


def check(model: onnx.ModelProto, feeds: Arrays, tolerance: float = 1e-5) -> None:
    session = onnxruntime.InferenceSession(model.SerializeToString())
    names = [output.name for output in session.get_outputs()]
    wanted = dict(zip(names, session.run(None, dict(feeds)), strict=True))
    graph = read(model, shapes={name: array.shape for name, array in feeds.items()})
    found = interpret(optimize(graph), feeds)
    assert list(found) == names
    for name, given in wanted.items():
        # A list has one dictionary per row, of classes and scores.
        rows = [list(row.values()) for row in given] if isinstance(given, list) else None
        want, have = given if rows is None else np.array(rows, np.float32), found[name]
        assert have.shape == want.shape, name
        assert have.dtype == want.dtype, name
        if want.dtype.kind in "iubO":
            np.testing.assert_array_equal(have, want, err_msg=name)
        else:
            np.testing.assert_allclose(have, want, rtol=0, atol=tolerance * float(np.abs(want).max()), err_msg=name)


def fitted(estimator: Any, x: np.ndarray, y: np.ndarray) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of training that ends early
        return estimator.fit(x, y)


def converted(estimator: Any, x: np.ndarray, **options: Any) -> onnx.ModelProto:
    kind = types.DoubleTensorType if x.dtype == np.float64 else types.FloatTensorType
    given = {id(estimator): options} if options else None
    result: onnx.ModelProto = skl2onnx.convert_sklearn(
        estimator, initial_types=[("X", kind([None, x.shape[1]]))], target_opset=OPSETS, options=given
    )
    return result


_PAIR = [("a", linear_model.LogisticRegression(max_iter=500)), ("b", tree.DecisionTreeClassifier(max_depth=3))]
_LINES = [("a", linear_model.LinearRegression()), ("b", tree.DecisionTreeRegressor(max_depth=3))]
_NETWORK = {"hidden_layer_sizes": (8,), "max_iter": 50, "random_state": 0}

CLASSIFIERS: dict[str, Any] = {
    "knn": neighbors.KNeighborsClassifier(5),
    "knn-distance": neighbors.KNeighborsClassifier(3, weights="distance"),
    "knn-manhattan": neighbors.KNeighborsClassifier(3, metric="manhattan"),
    "gaussian-nb": naive_bayes.GaussianNB(),
    "multinomial-nb": naive_bayes.MultinomialNB(),
    "svc": svm.SVC(),
    "linear-svc": svm.LinearSVC(),
    "mlp": neural_network.MLPClassifier(**_NETWORK),
    "voting-hard": ensemble.VotingClassifier(_PAIR, flatten_transform=False),
    "voting-soft": ensemble.VotingClassifier(_PAIR, voting="soft", flatten_transform=False),
    "stacking": ensemble.StackingClassifier(_PAIR),
    "calibrated": calibration.CalibratedClassifierCV(linear_model.LogisticRegression(max_iter=500), cv=2),
    "calibrated-isotonic": calibration.CalibratedClassifierCV(_PAIR[1][1], method="isotonic", cv=2),
    "forest": ensemble.RandomForestClassifier(5, random_state=0),
    "gradient-boosting": ensemble.GradientBoostingClassifier(n_estimators=3),
    "adaboost": ensemble.AdaBoostClassifier(n_estimators=3),
    "lda": discriminant_analysis.LinearDiscriminantAnalysis(),
    "qda": discriminant_analysis.QuadraticDiscriminantAnalysis(),
}
REGRESSORS: dict[str, Any] = {
    "knn": neighbors.KNeighborsRegressor(3),
    "svr": svm.SVR(),
    "mlp": neural_network.MLPRegressor(**_NETWORK),
    "voting": ensemble.VotingRegressor(_LINES),
    "stacking": ensemble.StackingRegressor(_LINES),
    "extra-trees": ensemble.ExtraTreesRegressor(5, random_state=0),
}
#: Those without labels, or whose labels are not classes.
OTHERS: dict[str, Any] = {
    "local-outlier-factor": neighbors.LocalOutlierFactor(10, novelty=True),
    "isolation-forest": ensemble.IsolationForest(n_estimators=5, random_state=0),
    "one-class-svm": svm.OneClassSVM(nu=0.2),
    "kernel-pca": decomposition.KernelPCA(2, kernel="rbf"),
    "pca": decomposition.PCA(2),
    "gaussian-mixture": mixture.GaussianMixture(2, random_state=0),
    "power": preprocessing.PowerTransformer(),
    "quantiles": preprocessing.QuantileTransformer(n_quantiles=20),
    "polynomials": preprocessing.PolynomialFeatures(2),
    "bins": preprocessing.KBinsDiscretizer(3, encode="onehot-dense", quantile_method="linear"),
}


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classifiers(name: str) -> None:
    check(converted(fitted(CLASSIFIERS[name], X, Y), X), {"X": X[::6]})


@pytest.mark.parametrize("name", REGRESSORS)
def test_regressors(name: str) -> None:
    check(converted(fitted(REGRESSORS[name], X, R), X), {"X": X[::6]})


@pytest.mark.parametrize("name", OTHERS)
def test_outliers_and_transformations(name: str) -> None:
    check(converted(fitted(OTHERS[name], X, Y), X), {"X": X[::6]})


def test_gaussian_process() -> None:
    """In float64, as its converter advises: small differences of large numbers."""
    x = X.astype(np.float64)
    process = fitted(gaussian_process.GaussianProcessRegressor(alpha=0.1), x, R.astype(np.float64))
    check(converted(process, x), {"X": x[::6]}, tolerance=1e-9)


@pytest.mark.parametrize("strategy", ["mean", "median", "most_frequent"])
def test_simple_imputer(strategy: str) -> None:
    imputer = pipeline.make_pipeline(impute.SimpleImputer(strategy=strategy), linear_model.LogisticRegression())
    check(converted(fitted(imputer, GAPS, Y), GAPS), {"X": GAPS[::6]})


@pytest.mark.parametrize("task", ["classes", "two", "regression"])
def test_histograms(task: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make = onnx.helper.make_attribute

    def with_numbers(key: str, value: Any, *rest: Any, **more: Any) -> onnx.AttributeProto:
        """skl2onnx 1.20 gives bools where newer releases of protobuf want integers."""
        if isinstance(value, list):
            value = [int(v) if isinstance(v, (bool, np.bool_)) else v for v in value]
        return make(key, value, *rest, **more)

    monkeypatch.setattr(onnx.helper, "make_attribute", with_numbers)
    kind = ensemble.HistGradientBoostingRegressor if task == "regression" else ensemble.HistGradientBoostingClassifier
    estimator = fitted(kind(max_iter=4), GAPS, {"classes": Y, "two": TWO, "regression": R}[task])
    check(converted(estimator, GAPS), {"X": GAPS[::6]})


# ---------------------------------------------------------------- tables of several types
def table() -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """Two numbers, a word and a code in each row: for scikit-learn, the classes, and as inputs."""
    random = np.random.default_rng(0)
    numbers = random.standard_normal((30, 2)).astype(np.float32)
    words = random.choice(["red", "green", "blue"], (30, 1)).astype(object)
    codes = random.choice([1, 2, 5], (30, 1))
    y = (numbers[:, 0] + (words[:, 0] == "red") > 0.3).astype(int)
    inputs = {"numbers": numbers[:9], "words": words[:9], "codes": codes[:9].astype(np.int64)}
    return np.concatenate([numbers.astype(object), words, codes.astype(object)], axis=1), y, inputs


@pytest.mark.parametrize("encoder", [preprocessing.OneHotEncoder, preprocessing.OrdinalEncoder])
def test_columns_of_numbers_words_and_codes(encoder: Callable[[], Any]) -> None:
    x, y, feeds = table()
    columns = compose.ColumnTransformer(
        [("n", preprocessing.StandardScaler(), [0, 1]), ("w", encoder(), [2]), ("c", encoder(), [3])]
    )
    estimator = pipeline.make_pipeline(columns, linear_model.LogisticRegression()).fit(x, y)
    signature = [
        ("numbers", types.FloatTensorType([None, 2])),
        ("words", types.StringTensorType([None, 1])),
        ("codes", types.Int64TensorType([None, 1])),
    ]
    check(skl2onnx.convert_sklearn(estimator, initial_types=signature, target_opset=OPSETS), feeds)


def test_classes_that_are_words() -> None:
    words = np.array(["setosa", "versicolor", "virginica"])[Y]
    check(converted(fitted(linear_model.LogisticRegression(max_iter=300), X, words), X), {"X": X[::6]})


# ---------------------------------------------------------------- refusals
def test_what_works_on_strings_is_refused() -> None:
    texts = np.array(["red dog runs", "blue cat sleeps", "red cat runs far"])
    words = [("X", types.StringTensorType([None, 1]))]
    for estimator, operator in (
        (feature_extraction.text.TfidfVectorizer(), "StringNormalizer"),
        (feature_extraction.text.CountVectorizer(lowercase=False), "Tokenizer"),
        (feature_extraction.FeatureHasher(8, input_type="string"), "MurmurHash3"),
    ):
        fit = [[text] for text in texts] if operator == "MurmurHash3" else texts
        proto = skl2onnx.convert_sklearn(estimator.fit(fit), initial_types=words, target_opset=OPSETS)
        with pytest.raises(SternaError, match=rf"E0104.*{operator}"):
            read(proto, shapes={"X": (3, 1)})


def test_an_imputer_by_neighbours_is_refused() -> None:
    """Its If gives tensors of one size or another."""
    proto = converted(impute.KNNImputer(n_neighbors=3).fit(GAPS), GAPS)
    with pytest.raises(SternaError, match=r"E0107.*If whose branches give"):
        read(proto, shapes={"X": (25, 4)})


# ---------------------------------------------------------------- boosted trees
def boosted(convert: str, estimator: Any, x: np.ndarray) -> onnx.ModelProto:
    onnxmltools = pytest.importorskip("onnxmltools", reason="needs onnxmltools: converts the estimators")
    kinds = pytest.importorskip("onnxmltools.convert.common.data_types")
    model: onnx.ModelProto = getattr(onnxmltools, convert)(
        estimator, initial_types=[("X", kinds.FloatTensorType([None, x.shape[1]]))], target_opset=15
    )
    return model


def categories() -> tuple[np.ndarray, np.ndarray]:
    """Twelve kinds in the last column, a third of which decide."""
    kinds = np.random.default_rng(1).integers(0, 12, len(X))
    return np.column_stack([X[:, :2], kinds]).astype(np.float32), ((kinds % 3 == 0) ^ (X[:, 0] > 6)).astype(int)


LIGHTGBM: dict[str, tuple[str, dict[str, Any], np.ndarray, np.ndarray]] = {
    "classes": ("LGBMClassifier", {}, GAPS, Y),
    "two": ("LGBMClassifier", {}, X, TWO),
    "regression": ("LGBMRegressor", {}, GAPS, R),
    "poisson": ("LGBMRegressor", {"objective": "poisson"}, X, np.abs(R)),
    "forest": ("LGBMRegressor", {"boosting_type": "rf", "bagging_freq": 1, "bagging_fraction": 0.7}, X, R),
    "categories": ("LGBMClassifier", {"min_data_per_group": 1, "cat_smooth": 0, "max_cat_to_onehot": 1}, *categories()),
}
XGBOOST: dict[str, tuple[str, dict[str, Any], np.ndarray, np.ndarray]] = {
    "classes": ("XGBClassifier", {}, GAPS, Y),
    "two": ("XGBClassifier", {"base_score": 0.3}, X, TWO),
    "regression": ("XGBRegressor", {"base_score": 2.5}, GAPS, R),
    "poisson": ("XGBRegressor", {"objective": "count:poisson"}, X, np.abs(R)),
    "forest": ("XGBRFClassifier", {}, X, Y),
}


@pytest.mark.parametrize("name", LIGHTGBM)
def test_lightgbm(name: str) -> None:
    """Missing values, and splits by category, which are comparisons with == in the converted model."""
    lightgbm = pytest.importorskip("lightgbm", reason="needs lightgbm: its models are converted")
    kind, settings, x, y = LIGHTGBM[name]
    estimator = getattr(lightgbm, kind)(n_estimators=5, num_leaves=8, min_child_samples=3, verbose=-1, **settings)
    estimator.fit(x, y, **({"categorical_feature": [2]} if name == "categories" else {}))
    model = boosted("convert_lightgbm", estimator, x)
    if name == "categories":
        modes = next(a.strings for n in model.graph.node for a in n.attribute if a.name == "nodes_modes")
        assert b"BRANCH_EQ" in modes
    check(model, {"X": x[::6]})


@pytest.mark.parametrize("name", XGBOOST)
def test_xgboost(name: str) -> None:
    xgboost = pytest.importorskip("xgboost", reason="needs xgboost: its models are converted")
    kind, settings, x, y = XGBOOST[name]
    estimator = getattr(xgboost, kind)(n_estimators=5, max_depth=3, **settings).fit(x, y)
    check(boosted("convert_xgboost", estimator, x), {"X": x[::6]})
