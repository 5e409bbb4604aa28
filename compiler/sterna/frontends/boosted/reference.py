"""Boosted trees run by the libraries that made them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

import numpy as np

from sterna.frontends.runtimes import cannot_run, not_installed
from sterna.ir.graph import Array


def run_xgboost(
    model: str | os.PathLike[str], inputs: Mapping[str, Array], tensors: Iterable[str] = ()
) -> dict[str, Array]:
    """What XGBoost predicts, under every name that an output may have.

    Raises:
        SternaError: E0004 xgboost is not installed, E0009 it cannot run the model.
    """
    try:
        import xgboost  # noqa: PLC0415 (optional)
    except ImportError:
        raise not_installed("xgboost") from None
    try:
        booster = xgboost.Booster(model_file=os.fspath(model))
        booster.set_param({"nthread": 1})
        rows = xgboost.DMatrix(inputs["X"])
        margin, given = booster.predict(rows, output_margin=True), booster.predict(rows)
    except Exception as problem:  # its errors have no common type
        raise cannot_run("xgboost", problem) from None
    if margin.ndim > given.ndim:  # multi:softmax, which predicts a class
        odds = np.exp(margin - margin.max(axis=1, keepdims=True))
        given = odds / odds.sum(axis=1, keepdims=True)
    return _predicted(given, margin)


def run_lightgbm(
    model: str | os.PathLike[str], inputs: Mapping[str, Array], tensors: Iterable[str] = ()
) -> dict[str, Array]:
    """What LightGBM predicts, under every name that an output may have.

    Raises:
        SternaError: E0004 lightgbm is not installed, E0009 it cannot run the model.
    """
    try:
        import lightgbm  # noqa: PLC0415 (optional)
    except ImportError:
        raise not_installed("lightgbm") from None
    try:
        booster = lightgbm.Booster(model_file=os.fspath(model))
        given = booster.predict(inputs["X"], num_threads=1)
        margin = booster.predict(inputs["X"], raw_score=True, num_threads=1)
    except Exception as problem:  # its errors have no common type
        raise cannot_run("lightgbm", problem) from None
    return _predicted(given, margin)


def _predicted(given: Array, margin: Array) -> dict[str, Array]:
    two = np.stack([1 - given, given], axis=1) if given.ndim == 1 else given
    return {"probabilities": two, "prediction": given, "margin": margin}
