"""Models of Core ML that look values up: nearest neighbours, maps of categories, suppression of boxes, and refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sterna
from sterna.debug.interpret import interpret
from sterna.frontends.formats import read_model

ct = pytest.importorskip("coremltools", reason="Core ML models are built with coremltools")
from coremltools.models.nearest_neighbors import KNearestNeighborsClassifierBuilder  # noqa: E402
from coremltools.proto import Model_pb2  # noqa: E402

DOUBLES = 65600


def declared(fields: Any, name: str, kind: str, *shape: int) -> None:
    feature = fields.add()
    feature.name = name
    if kind == "array":
        feature.type.multiArrayType.dataType = DOUBLES
        feature.type.multiArrayType.shape.extend(shape)
    else:
        getattr(feature.type, f"{kind}Type").SetInParent()


def stored(model: Any, folder: Path) -> Path:
    model.specificationVersion = max(model.specificationVersion, 4)
    (folder / "model.mlmodel").write_bytes(model.SerializeToString())
    return folder / "model.mlmodel"


def results(model: Any, folder: Path, **given: Any) -> dict[str, np.ndarray]:
    return interpret(read_model(stored(model, folder)), {key: np.asarray(value) for key, value in given.items()})


def test_nearest_neighbours(tmp_path: Path) -> None:
    """Three of five samples are looked at: b, a and b."""
    work = KNearestNeighborsClassifierBuilder("x", "label", 2, "none", number_of_neighbors=3)
    work.add_samples([[0, 0], [1, 0], [0, 1], [5, 5], [9, 9]], ["b", "a", "b", "a", "c"])
    found = results(work.spec, tmp_path, x=np.array([0.6, 0.2], np.float32))
    odds = next(value for name, value in found.items() if name != "label")
    assert found["label"].tolist() == ["b"]
    np.testing.assert_allclose(odds, [2 / 3, 1 / 3, 0], atol=1e-6)


def test_weights_by_distance_are_refused(tmp_path: Path) -> None:
    work = KNearestNeighborsClassifierBuilder("x", "label", 2, "none", weighting_scheme="inverse_distance")
    work.add_samples([[0, 0]], ["b"])
    with pytest.raises(sterna.SternaError, match="E0113") as caught:
        read_model(stored(work.spec, tmp_path))
    assert "uniform" in str(caught.value)


@pytest.mark.parametrize("default", [True, False])
def test_map_of_categories(default: bool, tmp_path: Path) -> None:
    model = Model_pb2.Model()
    declared(model.description.input, "x", "string")
    declared(model.description.output, "y", "int64")
    model.categoricalMapping.stringToInt64Map.map.update({"tern": 7, "gull": 3})
    if default:
        model.categoricalMapping.int64Value = -1
    found = results(model, tmp_path, x=np.array(["tern"], object))
    assert found["y"].tolist() == [7]
    if default:
        assert results(model, tmp_path, x=np.array(["auk"], object))["y"].tolist() == [-1]


def test_map_of_numbers(tmp_path: Path) -> None:
    model = Model_pb2.Model()
    declared(model.description.input, "x", "int64")
    declared(model.description.output, "y", "string")
    model.categoricalMapping.int64ToStringMap.map.update({4: "tern", 2: "gull"})
    model.categoricalMapping.strValue = "other"
    assert results(model, tmp_path, x=np.array([2], np.int64))["y"].tolist() == ["gull"]
    assert results(model, tmp_path, x=np.array([5], np.int64))["y"].tolist() == ["other"]


BOXES = np.array([[1, 1, 2, 2], [1.1, 1, 2, 2], [5, 5, 2, 2], [8, 8, 1, 1]], np.float64)
SCORES = np.array([[0.9, 0.05], [0.1, 0.8], [0.7, 0.2], [0.1, 0.05]], np.float64)


@pytest.mark.parametrize(
    ("rows", "per_class", "kept"), [(0, False, [0, 2]), (0, True, [0, 1, 2]), (3, False, [0, 2, None])]
)
def test_suppression_of_boxes(rows: int, per_class: bool, kept: list[int | None], tmp_path: Path) -> None:
    """Without a declared number of rows there are as many as are left; limits that are optional are settings."""
    model = Model_pb2.Model()
    p = model.nonMaximumSuppression
    for name, shape in (("boxes", (4, 4)), ("scores", (4, 2))):
        declared(model.description.input, name, "array", *shape)
        declared(model.description.output, f"{name}_out", "array", *((rows, shape[1]) if rows else ()))
    declared(model.description.input, "overlap", "double")
    model.description.input[-1].type.isOptional = True
    p.coordinatesInputFeatureName, p.coordinatesOutputFeatureName = "boxes", "boxes_out"
    p.confidenceInputFeatureName, p.confidenceOutputFeatureName = "scores", "scores_out"
    p.iouThresholdInputFeatureName, p.iouThreshold, p.confidenceThreshold = "overlap", 0.5, 0.2
    p.pickTop.perClass = per_class
    found = results(model, tmp_path, boxes=BOXES, scores=SCORES)
    for name, held in (("boxes_out", BOXES), ("scores_out", SCORES)):
        expected = [np.zeros(held.shape[1]) if n is None else held[n] for n in kept]
        np.testing.assert_allclose(found[name], expected, atol=1e-6)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("customModel", "class of the app"),
        ("dictVectorizer", "dictionary"),
        ("linkedModel", "not in the file"),
        ("visionFeaturePrint", "Apple's systems"),
        ("wordTagger", "does not describe"),
    ],
)
def test_refused_models_say_why(kind: str, reason: str, tmp_path: Path) -> None:
    model = Model_pb2.Model()
    declared(model.description.input, "x", "string")
    declared(model.description.output, "y", "string")
    getattr(model, kind).SetInParent()
    with pytest.raises(sterna.SternaError, match="E0104") as caught:
        read_model(stored(model, tmp_path))
    assert reason in str(caught.value)
    assert caught.value.diagnostics[0].fix
