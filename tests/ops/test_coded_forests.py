"""Forests of scikit-learn, XGBoost and LightGBM in tables for flash: what other targets' tables give, bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sterna.debug.interpret import interpret
from sterna.frontends.formats import read_model
from sterna.frontends.frontend import ReadOptions
from sterna.options import Options
from sterna.passes.context import context_of
from sterna.pipeline import optimize
from sterna.targets.description import load_target

ensemble = pytest.importorskip("sklearn.ensemble", reason="needs scikit-learn: grows forests")
xgboost = pytest.importorskip("xgboost", reason="needs xgboost: grows forests")
lightgbm = pytest.importorskip("lightgbm", reason="needs lightgbm: grows forests")
skl2onnx = pytest.importorskip("skl2onnx", reason="needs skl2onnx: converts forests")

ROWS = 20
RANDOM = np.random.default_rng(5)
COUNTS = RANDOM.integers(0, 9, (150, 11)).astype(np.float32)
REALS = RANDOM.normal(size=(150, 4)).astype(np.float32)
FLAGS = (RANDOM.random((150, 160)) < 0.2).astype(np.float32)
HOLES = np.where(RANDOM.random(COUNTS.shape) < 0.2, np.float32(np.nan), COUNTS)
CLASS = (COUNTS[:, 0] + COUNTS[:, 3] > COUNTS[:, 5]).astype(int)
SIZE = COUNTS[:, 1] * 3.5 - COUNTS[:, 2] ** 2


def _onnx(model: Any, x: np.ndarray, y: np.ndarray | None, file: Path) -> Path:
    model.fit(x, y)
    options = {"zipmap": False} if hasattr(model, "classes_") else None
    opsets = {"": 15, "ai.onnx.ml": 3}
    made = skl2onnx.to_onnx(model, x[:1], options=options, target_opset=opsets)
    file = file.with_suffix(".onnx")
    file.write_bytes(made.SerializeToString())
    return file


def _xgboost(model: Any, x: np.ndarray, y: np.ndarray | None, file: Path) -> Path:
    model.fit(x, y).save_model(file.with_suffix(".json"))
    return file.with_suffix(".json")


def _lightgbm(model: Any, x: np.ndarray, y: np.ndarray | None, file: Path) -> Path:
    model.fit(x, y).booster_.save_model(file.with_suffix(".txt"))
    return file.with_suffix(".txt")


Saved = Callable[[Any, np.ndarray, "np.ndarray | None", Path], Path]
GROWN: dict[str, tuple[Saved, Callable[[], Any], np.ndarray, np.ndarray | None]] = {
    "classes": (_onnx, lambda: ensemble.RandomForestClassifier(9, random_state=1), COUNTS, CLASS),
    "probabilities": (_onnx, lambda: ensemble.RandomForestClassifier(9, max_depth=4, random_state=2), COUNTS, CLASS),
    "random-splits": (_onnx, lambda: ensemble.ExtraTreesRegressor(7, random_state=3), REALS, REALS.sum(1)),
    "flags": (_onnx, lambda: ensemble.RandomForestClassifier(9, random_state=4), FLAGS, CLASS),
    "boosted": (_onnx, lambda: ensemble.GradientBoostingRegressor(n_estimators=9, random_state=5), COUNTS, SIZE),
    "two-results": (
        _onnx, lambda: ensemble.RandomForestRegressor(5, random_state=6), COUNTS, np.stack([SIZE, -SIZE], 1)
    ),
    "isolation": (_onnx, lambda: ensemble.IsolationForest(n_estimators=9, random_state=7), REALS, None),
    "xgboost-missing": (_xgboost, lambda: xgboost.XGBClassifier(n_estimators=12, max_depth=5), HOLES, CLASS),
    "xgboost-leafwise": (
        _xgboost, lambda: xgboost.XGBRegressor(n_estimators=9, grow_policy="lossguide", max_leaves=20), COUNTS, SIZE
    ),
    "lightgbm-missing": (_lightgbm, lambda: lightgbm.LGBMClassifier(n_estimators=9, verbose=-1), HOLES, CLASS),
    "lightgbm-sizes": (_lightgbm, lambda: lightgbm.LGBMRegressor(n_estimators=9, verbose=-1), COUNTS, SIZE),
}  # fmt: skip


@pytest.mark.parametrize("kind", GROWN)
def test_grown_forests(kind: str, tmp_path: Path) -> None:
    save, model, x, y = GROWN[kind]
    file = save(model(), x, y, tmp_path / "forest")
    rows = x[:ROWS].copy()
    rows[:4] *= -1
    rows[4:6] = [[np.nan], [np.inf]]
    rows[6, ::2] = -np.nan
    found = []
    for target in ("c99", "cortex-m4"):
        graph = read_model(file, ReadOptions(shapes={"X": (ROWS, x.shape[1])}))
        context = context_of(Options(load_target(target)))
        graph = optimize(graph, context, check=True)
        coded = any(node.op == "coded_tree_ensemble" for node in graph.nodes)
        assert coded == (target == "cortex-m4")
        found.append(interpret(graph, {graph.inputs[0].name: rows}))
    for name, want in found[0].items():
        np.testing.assert_array_equal(found[1][name], want, name)
