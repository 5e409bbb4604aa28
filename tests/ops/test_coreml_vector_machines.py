"""Support vector machines of Core ML beside what libsvm's `svm_predict_values` computes of the same numbers."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sterna.debug.interpret import interpret
from sterna.errors import SternaError
from sterna.frontends.formats import read_model

pytest.importorskip("coremltools")
from coremltools.proto import Model_pb2

Array = np.ndarray
KERNELS = ("linearKernel", "rbfKernel", "polyKernel", "sigmoidKernel")
SIZES = (3, 2, 4)
RANDOM = np.random.default_rng(5)
VECTORS, X = RANDOM.normal(size=(9, 4)), RANDOM.normal(size=(6, 4)).astype(np.float32)
WEIGHTS, RHO = RANDOM.normal(size=(2, 9)), RANDOM.normal(size=3)


def machine(kind: str, classifier: bool, kernel: str, sparse: bool = False, count: int = 9) -> Any:
    model = Model_pb2.Model(specificationVersion=1)
    given = model.description.input.add(name="x").type.multiArrayType
    given.shape.append(4)
    given.dataType = 65568  # float32
    model.description.predictedFeatureName = "y"
    model.description.output.add(name="y").type.doubleType.SetInParent()
    p = getattr(model, kind)
    own = getattr(p.kernel, kernel)
    own.SetInParent()
    if kernel != "linearKernel":
        own.gamma = 0.3
    if kernel in ("polyKernel", "sigmoidKernel"):
        own.c = 0.7
    if kernel == "polyKernel":
        own.degree = 3
    for row in VECTORS[:count]:
        if sparse:
            made = p.sparseSupportVectors.vectors.add()
            for n, value in enumerate(row, 1):
                made.nodes.add(index=n, value=value)
        else:
            p.denseSupportVectors.vectors.add(values=row)
    if classifier:
        model.description.output[0].type.int64Type.SetInParent()
    return model


def products(kernel: str, x: Array, count: int = 9) -> Array:
    inner = VECTORS[:count] @ x
    if kernel == "rbfKernel":
        return np.exp(-0.3 * ((VECTORS[:count] - x) ** 2).sum(1))
    if kernel == "polyKernel":
        return (0.3 * inner + 0.7) ** 3
    return np.tanh(0.3 * inner + 0.7) if kernel == "sigmoidKernel" else inner


def found(folder: Path, model: Any, x: Array) -> dict[str, Array]:
    path = folder / "machine.mlmodel"
    path.write_bytes(model.SerializeToString())
    return interpret(read_model(path), {"x": x})


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("kernel", KERNELS)
def test_regressors(kernel: str, sparse: bool, tmp_path: Path) -> None:
    model = machine("supportVectorRegressor", False, kernel, sparse)
    model.supportVectorRegressor.coefficients.alpha.extend(WEIGHTS[0])
    model.supportVectorRegressor.rho = RHO[0]
    for x in X:
        expected = WEIGHTS[0] @ products(kernel, x) - RHO[0]
        np.testing.assert_allclose(found(tmp_path, model, x)["y"], [expected], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kernel", KERNELS)
def test_pairs_of_classes_vote(kernel: str, tmp_path: Path) -> None:
    model = machine("supportVectorClassifier", True, kernel)
    p = model.supportVectorClassifier
    p.numberOfSupportVectorsPerClass.extend(SIZES)
    p.int64ClassLabels.vector.extend([7, 3, 5])
    for row in WEIGHTS:
        p.coefficients.add(alpha=row)
    p.rho.extend(RHO)
    ends = np.cumsum(SIZES)
    for x in X:
        values, votes = products(kernel, x), np.zeros(3)
        for rho, (i, j) in zip(RHO, combinations(range(3), 2), strict=True):
            first, second = slice(ends[i] - SIZES[i], ends[i]), slice(ends[j] - SIZES[j], ends[j])
            decision = WEIGHTS[j - 1, first] @ values[first] + WEIGHTS[i, second] @ values[second] - rho
            votes[i if decision > 0 else j] += 1
        assert found(tmp_path, model, x)["y"] == [7, 3, 5][int(votes.argmax())]


def test_probabilities_of_two_classes(tmp_path: Path) -> None:
    model = machine("supportVectorClassifier", True, "rbfKernel", count=5)
    p = model.supportVectorClassifier
    p.numberOfSupportVectorsPerClass.extend(SIZES[:2])
    p.stringClassLabels.vector.extend(["tern", "gull"])
    p.coefficients.add(alpha=WEIGHTS[0, :5])
    p.rho.append(RHO[0])
    p.probA.append(-1.3)
    p.probB.append(0.2)
    model.description.output[0].type.stringType.SetInParent()
    model.description.predictedProbabilitiesName = "odds"
    model.description.output.add(name="odds").type.dictionaryType.stringKeyType.SetInParent()
    for x in X:
        decision = WEIGHTS[0, :5] @ products("rbfKernel", x, 5) - RHO[0]
        first = 1 / (1 + np.exp(-1.3 * decision + 0.2))
        results = found(tmp_path, model, x)
        np.testing.assert_allclose(results["odds"].reshape(-1), [first, 1 - first], rtol=1e-4)
        assert results["y"].item() == ("tern" if first > 0.5 else "gull")


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda p: p.kernel.Clear(), "E0103"),
        (lambda p: p.denseSupportVectors.vectors[2].values.append(1.0), "E0109"),
        (lambda p: p.sparseSupportVectors.vectors.add().nodes.add(index=9), "E0109"),
        (lambda p: p.ClearField("denseSupportVectors"), "E0109"),
        (lambda p: p.coefficients.alpha.pop(), "E0109"),
    ],
)
def test_damaged_machines_are_refused(change: Any, code: str, tmp_path: Path) -> None:
    model = machine("supportVectorRegressor", False, "rbfKernel")
    model.supportVectorRegressor.coefficients.alpha.extend(WEIGHTS[0])
    change(model.supportVectorRegressor)
    with pytest.raises(SternaError) as caught:
        found(tmp_path, model, X[0])
    assert caught.value.codes == (code,)


def test_no_machine_without_classes(tmp_path: Path) -> None:
    model = machine("supportVectorClassifier", True, "rbfKernel")
    with pytest.raises(SternaError):
        found(tmp_path, model, X[0])
