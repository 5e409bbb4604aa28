"""Boosted trees of XGBoost and LightGBM, compiled from the libraries' own files: every row equals their predictions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import sterna
from sterna.cli import program
from sterna.frontends.boosted.reference import run_lightgbm, run_xgboost
from support.trained import trained

lightgbm = pytest.importorskip("lightgbm")
xgboost = pytest.importorskip("xgboost")

FEATURES, ROWS = 6, 200


def check(path: Path, rows: np.ndarray, expected: Mapping[str, np.ndarray], outputs: set[str]) -> None:
    """Compiles for one open and one exact number of rows; all must agree."""
    for sizes in ({"shapes": {"X": rows.shape}}, {"dims": {"batch": (1, 2 * len(rows))}}):
        with sterna.compile(path, generator="llvm", **sizes) as bundle:  # type: ignore[arg-type]
            found = bundle.run({"X": rows})
        assert set(found) == outputs
        for name, got in found.items():
            wanted = expected[name]
            assert got.shape == wanted.shape
            assert got.dtype == wanted.dtype
            scale = max(1.0, float(np.abs(wanted).max()))
            np.testing.assert_allclose(
                got, wanted, rtol=0, atol=2e-6 * scale if got.dtype == np.float32 else 1e-14 * scale
            )


def data(categories: bool = False, zeros: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Rows of features, some missing, the first one of categories or often zero; and a number that depends on them."""
    random = np.random.default_rng(5)
    x = random.normal(size=(ROWS, FEATURES)).astype(np.float32)
    if categories:
        x[:, 0] = random.integers(0, 40, ROWS)
    if zeros:
        x[random.random((ROWS, FEATURES)) < 0.3] = 0
    y = np.sin(x[:, 0] * 3) + x[:, 1] * x[:, 2] + 0.1 * random.normal(size=ROWS)
    x[random.random((ROWS, FEATURES)) < 0.1] = np.nan
    return x, y


def odd_rows(x: np.ndarray) -> np.ndarray:
    """The rows and further ones: of NaN only, of zeros, of thresholds' neighbours, of no category."""
    more = np.zeros((6, FEATURES), np.float32)
    more[0], more[2], more[3], more[4], more[5] = np.nan, -0.5, 1e9, 0.5, 39.5
    return np.concatenate([x, more, np.nextafter(x[:20], np.float32(9))])


@pytest.mark.parametrize("name", ["xgboost_digits", "xgboost_breast_cancer_nan", "lightgbm_wine"])
def test_trained_model(name: str) -> None:
    model = trained(name)
    (case,) = model.cases
    for file in sorted(model.file.parent.glob("model.*")):
        with sterna.compile(file, shapes={"X": case.inputs["X"].shape}) as bundle:
            found = list(bundle.run(case.inputs).values())
        for got, wanted in zip(found, case.outputs, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-5)
            if wanted.ndim == 2:
                np.testing.assert_array_equal(got.argmax(axis=1), wanted.argmax(axis=1))


XGBOOST: dict[str, tuple[dict[str, Any], set[str]]] = {
    "regression": ({"objective": "reg:squarederror"}, {"prediction"}),
    "poisson": ({"objective": "count:poisson"}, {"prediction", "margin"}),
    "two classes": ({"objective": "binary:logistic", "base_score": 0.3}, {"probabilities", "margin"}),
    "hinge": ({"objective": "binary:hinge"}, {"probabilities", "margin"}),
    "classes": ({"objective": "multi:softprob", "num_class": 4}, {"probabilities", "margin"}),
    "one class": ({"objective": "multi:softmax", "num_class": 3}, {"probabilities", "margin"}),
    "ranking": ({"objective": "rank:pairwise"}, {"prediction"}),
    "dropped trees": (
        {"objective": "reg:squarederror", "booster": "dart", "rate_drop": 0.5, "seed": 1}, {"prediction"},
    ),
    "parallel trees": (
        {"objective": "binary:logistic", "num_parallel_tree": 3, "subsample": 0.5}, {"probabilities", "margin"},
    ),
    "linear": ({"objective": "multi:softprob", "num_class": 3, "booster": "gblinear"}, {"probabilities", "margin"}),
    "targets": ({"objective": "reg:squarederror"}, {"prediction"}),
}  # fmt: skip


@pytest.mark.parametrize("suffix", ["json", "ubj"])
@pytest.mark.parametrize("name", XGBOOST)
def test_xgboost(name: str, suffix: str, tmp_path: Path) -> None:
    parameters, outputs = XGBOOST[name]
    x, y = data()
    objective = parameters["objective"]
    if name == "linear":
        x = np.nan_to_num(x)
    if objective.startswith(("multi", "rank")):
        y = np.digitize(y, np.quantile(y, [1 / 3, 2 / 3])).astype(float)
    elif objective.startswith("binary"):
        y = (y > 0).astype(float)
    elif objective.startswith("count"):
        y = np.floor(np.abs(y) * 3)
    elif name == "targets":
        y = np.stack([y, -y, y**2], axis=1)
    rows = xgboost.DMatrix(x, y)
    if objective.startswith("rank"):
        rows.set_group([50] * (ROWS // 50))
    booster = xgboost.train({"max_depth": 4, "nthread": 1, **parameters}, rows, num_boost_round=7)
    path = tmp_path / f"model.{suffix}"
    booster.save_model(path)
    rows = x if name == "linear" else odd_rows(x)
    check(path, rows, run_xgboost(path, {"X": rows}), outputs)


@pytest.mark.parametrize("one_hot", [1, 100])
def test_xgboost_categories(one_hot: int, tmp_path: Path) -> None:
    x, y = data(categories=True)
    types = ["c", *"q" * (FEATURES - 1)]
    rows = xgboost.DMatrix(x, y, feature_types=types, enable_categorical=True)
    booster = xgboost.train({"max_depth": 5, "max_cat_to_onehot": one_hot, "nthread": 1}, rows, num_boost_round=9)
    path = tmp_path / "model.json"
    booster.save_model(path)
    asked = odd_rows(x)
    asked[:, 0] = np.where(np.isnan(asked[:, 0]), np.nan, np.clip(np.floor(asked[:, 0]), 0, 45))
    wanted = booster.predict(xgboost.DMatrix(asked, feature_types=types, enable_categorical=True))
    check(path, asked, {"prediction": wanted}, {"prediction"})


LIGHTGBM: dict[str, tuple[dict[str, Any], set[str]]] = {
    "regression": ({"objective": "regression"}, {"prediction"}),
    "square root": ({"objective": "regression", "reg_sqrt": True}, {"prediction", "margin"}),
    "poisson": ({"objective": "poisson"}, {"prediction", "margin"}),
    "two classes": ({"objective": "binary", "sigmoid": 0.7}, {"probabilities", "margin"}),
    "classes": ({"objective": "multiclass", "num_class": 3}, {"probabilities", "margin"}),
    "one against all": ({"objective": "multiclassova", "num_class": 3}, {"probabilities", "margin"}),
    "cross entropy": ({"objective": "cross_entropy"}, {"prediction", "margin"}),
    "cross entropy with weights": ({"objective": "cross_entropy_lambda"}, {"prediction", "margin"}),
    "random forest": (
        {"objective": "multiclass", "num_class": 3, "boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.6},
        {"probabilities", "margin"},
    ),
    "zero is missing": ({"objective": "regression", "zero_as_missing": True}, {"prediction"}),
    "nothing is missing": ({"objective": "regression", "use_missing": False}, {"prediction"}),
    "categories": ({"objective": "regression", "min_data_per_group": 2}, {"prediction"}),
}


@pytest.mark.parametrize("name", LIGHTGBM)
def test_lightgbm(name: str, tmp_path: Path) -> None:
    parameters, outputs = LIGHTGBM[name]
    x, y = data(categories=name == "categories", zeros="missing" in name)
    objective = parameters["objective"]
    if objective.startswith("multiclass"):
        y = np.digitize(y, np.quantile(y, [1 / 3, 2 / 3])).astype(float)
    elif objective == "binary":
        y = (y > 0).astype(float)
    elif objective == "poisson":
        y = np.floor(np.abs(y) * 3)
    elif objective.startswith("cross"):
        y = 1 / (1 + np.exp(-y))
    settings = {"num_leaves": 9, "min_data_in_leaf": 3, "verbosity": -1, "num_threads": 1, "deterministic": True}
    booster = lightgbm.train(
        {**settings, **parameters},
        lightgbm.Dataset(x, y, categorical_feature=[0] if name == "categories" else []),
        num_boost_round=7,
    )
    path = tmp_path / "model.txt"
    booster.save_model(path)
    rows = odd_rows(x)
    check(path, rows, run_lightgbm(path, {"X": rows}), outputs)


@pytest.mark.parametrize("library", ["lightgbm", "xgboost"])
@pytest.mark.parametrize("classifies", [False, True])
def test_golden_sets(library: str, classifies: bool, tmp_path: Path) -> None:
    """The libraries predict under more names than a model has outputs; golden sets hold the model's."""
    x, y = data()
    y = (y > 0).astype(float) if classifies else y
    path = tmp_path / ("model.txt" if library == "lightgbm" else "model.ubj")
    if library == "lightgbm":
        settings = {"objective": "binary" if classifies else "regression", "verbose": -1, "num_threads": 1}
        lightgbm.train(settings, lightgbm.Dataset(x, y), 3).save_model(path)
    else:
        settings = {"objective": "binary:logistic" if classifies else "reg:squarederror", "nthread": 1}
        xgboost.train(settings, xgboost.DMatrix(x, y), 3).save_model(path)
    place = tmp_path / "bundle"
    made = CliRunner().invoke(program, ["compile", str(path), "-g", "llvm", "-o", str(place), "--golden", "2"])
    assert made.exit_code == 0, made.output
    with sterna.load(place) as bundle:
        replay = bundle.verify_golden()
    assert replay.reference.startswith(library)
    assert replay.ok
    names = {"probabilities", "margin"} if classifies else {"prediction"}
    assert {output.check.name for output in replay.outputs} == names
