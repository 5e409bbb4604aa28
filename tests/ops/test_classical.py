"""Linear models, support vector machines and encoders with random attributes, against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from sterna.debug.interpret import interpret
from sterna.errors import SternaError
from sterna.frontends.onnx import read

TRANSFORMS = ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT")


def model_of(op: str, inputs: dict[str, np.ndarray], outputs: int, **attributes: Any) -> onnx.ModelProto:
    names = [f"y{n}" for n in range(outputs)]
    node = helper.make_node(op, list(inputs), names, domain="ai.onnx.ml", **attributes)
    graph = helper.make_graph(
        [node], "one",
        [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for n, a in inputs.items()
        ],
        [helper.make_empty_tensor_value_info(name) for name in names],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 4 if op == "LabelEncoder" else 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def check(op: str, inputs: dict[str, np.ndarray], outputs: int = 1, tolerance: float = 2e-6, **attributes: Any) -> None:
    model = model_of(op, inputs, outputs, **attributes)
    expected = onnxruntime.InferenceSession(model.SerializeToString()).run(None, inputs)
    found = interpret(read(model), inputs)
    for have, want in zip(found.values(), expected, strict=True):
        assert have.shape == want.shape
        assert have.dtype == want.dtype
        np.testing.assert_allclose(have, want, rtol=2e-5, atol=tolerance)


def numbers(random: np.random.Generator, *shape: int) -> np.ndarray:
    return random.uniform(-1, 1, shape).astype(np.float32)


def flat(array: np.ndarray) -> list[float]:
    return [float(v) for v in array.reshape(-1)]


# ---------------------------------------------------------------- linear models
@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_linear_classifier(transform: str, classes: int, dtype: str) -> None:
    random = np.random.default_rng(classes)
    x = (numbers(random, 9, 4) * 3).astype(dtype)
    scale = 1.0 if transform != "PROBIT" else 0.02
    attributes = {
        "coefficients": flat(numbers(random, classes, 4) * scale),
        "intercepts": flat(numbers(random, classes) * scale + (0.5 if transform == "PROBIT" else 0)),
        "classlabels_ints": [7, 3, 5][:classes],
        "post_transform": transform,
    }
    # The approximation of the inverse error function loses digits around 1/2.
    check("LinearClassifier", {"x": x}, 2, 1e-4 if transform == "PROBIT" else 2e-6, **attributes)


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX"])
def test_linear_classifier_of_one_row(transform: str) -> None:
    random = np.random.default_rng(1)
    attributes = {"coefficients": flat(numbers(random, 4)), "intercepts": [0.1], "classlabels_ints": [4, 9]}
    check("LinearClassifier", {"x": numbers(random, 9, 4)}, 2, post_transform=transform, **attributes)


@pytest.mark.parametrize("targets", [1, 3])
def test_linear_regressor(targets: int) -> None:
    random = np.random.default_rng(2)
    attributes = {"coefficients": flat(numbers(random, targets, 5)), "intercepts": flat(numbers(random, targets))}
    check("LinearRegressor", {"x": numbers(random, 6, 5)}, targets=targets, **attributes)


# ---------------------------------------------------------------- support vector machines
@pytest.mark.parametrize("kernel", ["LINEAR", "POLY", "RBF", "SIGMOID"])
@pytest.mark.parametrize("probabilities", [False, True])
@pytest.mark.parametrize("sizes", [[3, 4], [2, 3, 4], [1, 2, 3, 2]])
def test_svm_classifier(kernel: str, probabilities: bool, sizes: list[int]) -> None:
    random = np.random.default_rng(len(sizes))
    n, count = len(sizes), sum(sizes)
    pairs = n * (n - 1) // 2
    attributes = {
        "kernel_type": kernel,
        "kernel_params": [0.3, 0.2, 3.0],
        "vectors_per_class": sizes,
        "support_vectors": flat(numbers(random, count, 5)),
        "coefficients": flat(numbers(random, n - 1, count)),
        "rho": flat(numbers(random, pairs) * 0.2),
        "classlabels_ints": [5, 2, 8, 9][:n],
    }
    if probabilities:
        attributes |= {"prob_a": flat(numbers(random, pairs) - 2), "prob_b": flat(numbers(random, pairs))}
    check("SVMClassifier", {"x": numbers(random, 12, 5) * 2}, 2, **attributes)


@pytest.mark.parametrize("transform", ["LOGISTIC", "SOFTMAX"])
@pytest.mark.parametrize("n", [2, 3])
def test_linear_svm_classifier(transform: str, n: int) -> None:
    random = np.random.default_rng(4)
    attributes = {"coefficients": flat(numbers(random, n, 5)), "rho": [0.1], "classlabels_ints": [5, 2, 8][:n]}
    check(
        "SVMClassifier",
        {"x": numbers(random, 9, 5)},
        2,
        kernel_params=[0.0, 0.0, 3.0],
        post_transform=transform,
        **attributes,
    )


@pytest.mark.parametrize("kernel", ["LINEAR", "POLY", "RBF", "SIGMOID"])
@pytest.mark.parametrize("one_class", [0, 1])
def test_svm_regressor(kernel: str, one_class: int) -> None:
    random = np.random.default_rng(5)
    attributes = {
        "kernel_type": kernel,
        "kernel_params": [0.4, 0.1, 2.0],
        "n_supports": 6,
        "support_vectors": flat(numbers(random, 6, 4)),
        "coefficients": flat(numbers(random, 6)),
        "rho": [0.05],
        "one_class": one_class,
    }
    check("SVMRegressor", {"x": numbers(random, 8, 4)}, **attributes)


# ---------------------------------------------------------------- encoders
def test_binarizer_and_imputer() -> None:
    x = np.array([[1, np.nan, 0.5], [-1, 2, np.nan]], np.float32)
    check("Binarizer", {"x": np.nan_to_num(x)}, threshold=0.5)
    check("Imputer", {"x": x}, imputed_value_floats=[9.0, 8.0, 7.0], replaced_value_float=float("nan"))
    check("Imputer", {"x": x}, imputed_value_floats=[9.0], replaced_value_float=2.0)
    integers = np.array([[1, -7], [3, -7]], np.int64)
    check("Imputer", {"x": integers}, imputed_value_int64s=[5, 6], replaced_value_int64=-7)


@pytest.mark.parametrize("norm", ["MAX", "L1", "L2"])
def test_normalizer(norm: str) -> None:
    random = np.random.default_rng(6)
    x = np.concatenate([numbers(random, 5, 4), np.zeros((1, 4), np.float32), -np.ones((1, 4), np.float32)])
    check("Normalizer", {"x": x}, norm=norm)


def test_one_hot_encoder() -> None:
    check("OneHotEncoder", {"x": np.array([[3, 5], [4, 3]], np.int64)}, cats_int64s=[3, 4, 5], zeros=1)
    check("OneHotEncoder", {"x": np.array([3, 7, 5], np.int64)}, cats_int64s=[3, 4, 5], zeros=1)
    check("OneHotEncoder", {"x": np.array([3, 5], np.int64)}, cats_int64s=[3, 4, 5], zeros=0)
    unknown = model_of("OneHotEncoder", {"x": np.array([3, 7], np.int64)}, 1, cats_int64s=[3, 4, 5], zeros=0)
    with pytest.raises(SternaError):
        interpret(read(unknown), {"x": np.array([3, 7], np.int64)})


def test_label_encoder() -> None:
    integers = np.array([[1, 5], [9, -3]], np.int64)
    check("LabelEncoder", {"x": integers}, keys_int64s=[9, 1, 5], values_floats=[0.5, 1.5, 2.5], default_float=-1.0)
    check("LabelEncoder", {"x": integers}, keys_int64s=[9, 1, 5], values_int64s=[3, 2, 1])
    floats = np.array([0.5, np.nan, 7, -1], np.float32)
    check("LabelEncoder", {"x": floats}, keys_floats=[7.0, float("nan"), 0.5], values_int64s=[1, 2, 3], default_int64=8)
    check("LabelEncoder", {"x": floats}, keys_floats=[7.0, 0.5], values_floats=[1.0, 2.0])
    table = helper.make_tensor("k", TensorProto.DOUBLE, (2,), [0.5, 1.5])
    values = helper.make_tensor("v", TensorProto.DOUBLE, (2,), [3.5, 4.5])
    default = helper.make_tensor("d", TensorProto.DOUBLE, (1,), [-2.0])
    x = np.array([1.5, 3], np.float64)
    check("LabelEncoder", {"x": x}, keys_tensor=table, values_tensor=values, default_tensor=default)


def test_feature_vectorizer() -> None:
    random = np.random.default_rng(7)
    inputs = {"a": numbers(random, 3, 2), "b": numbers(random, 3, 4)}
    check("FeatureVectorizer", inputs, inputdimensions=[2, 4])


# ---------------------------------------------------------------- refusals
def test_what_does_not_fit_is_refused() -> None:
    x = np.zeros((2, 3), np.float32)
    for code, op, attributes in (
        ("E0109", "LinearRegressor", {"coefficients": [1.0, 2.0]}),
        ("E0109", "LinearClassifier", {"coefficients": [1.0] * 6, "intercepts": [0.0] * 2, "classlabels_ints": [1]}),
        (
            "E0109",
            "SVMRegressor",
            {"n_supports": 2, "coefficients": [1.0, 2.0], "support_vectors": [1.0], "rho": [0.0]},
        ),
        ("E0109", "SVMClassifier", {"coefficients": [1.0], "rho": [0.0], "classlabels_ints": [1]}),
        ("E0108", "OneHotEncoder", {"cats_strings": ["a"]}),
        ("E0109", "Imputer", {"imputed_value_floats": [1.0, 2.0]}),
        ("E0109", "LabelEncoder", {"keys_floats": [1.0], "values_floats": [1.0, 2.0]}),
        ("E0109", "LabelEncoder", {"keys_floats": [1.0]}),
        ("E0108", "LabelEncoder", {"keys_strings": ["a"], "values_floats": [1.0]}),
    ):
        outputs = 2 if op.endswith("Classifier") else 1
        with pytest.raises(SternaError, match=code):
            read(model_of(op, {"x": x}, outputs, **attributes))


def test_zip_map_gives_the_scores() -> None:
    x = np.array([[0.25, 0.75], [0.5, 0.125]], np.float32)
    model = model_of("ZipMap", {"x": x}, 1, classlabels_int64s=[7, 3])
    maps = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})[0]
    np.testing.assert_array_equal(interpret(read(model), {"x": x})["y0"], [[row[7], row[3]] for row in maps])
    with pytest.raises(SternaError, match="E0109"):
        read(model_of("ZipMap", {"x": x}, 1, classlabels_int64s=[7, 3, 1]))
