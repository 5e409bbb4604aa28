"""TensorFlow.js graph models as converters of all ages wrote them."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sterna.debug.interpret import interpret
from sterna.errors import SternaError
from sterna.frontends.formats import describe_model, read_model
from support.graph_defs import GraphWriter, Kind

WEIGHTS = np.array([1, 2], np.float32)
MANIFEST = [{"paths": ["shard.bin"], "weights": [{"name": "w", "shape": [2], "dtype": "float32"}]}]


def page(folder: Path, kind: str = "DT_FLOAT", **parts: Any) -> Path:
    """y = x + w."""
    dims = {"shape": {"dim": [{"size": "2"}]}}
    nodes = [
        {"name": "x", "op": "Placeholder", "attr": {"dtype": {"type": "DT_FLOAT"}, "shape": dims}},
        {"name": "w", "op": "Const", "attr": {"dtype": {"type": kind}}},
        {"name": "wide", "op": "Cast", "input": ["x"], "attr": {"SrcT": {"type": "DT_FLOAT"}, "DstT": {"type": kind}}},
        {"name": "y", "op": "AddV2", "input": ["wide", "w"], "attr": {"T": {"type": kind}}},
    ]
    text = {"format": "graph-model", "modelTopology": {"node": nodes}, "weightsManifest": MANIFEST, **parts}
    (folder / "shard.bin").write_bytes(WEIGHTS.tobytes())
    (folder / "model.json").write_text(json.dumps(text))
    return folder / "model.json"


def check(file: Path) -> None:
    graph, x = read_model(file), np.array([3, 4], np.float32)
    assert [value.name for value in graph.inputs] == ["x"]
    assert graph.outputs[0].dtype == "float32"
    np.testing.assert_array_equal(interpret(graph, {"x": x})["y"], x + WEIGHTS)


@pytest.mark.parametrize("place", ["signature", "userDefinedMetadata"])
def test_a_signature_that_names_no_inputs(place: str, tmp_path: Path) -> None:
    signature = {"outputs": {"y": {"name": "y:0"}}}
    file = page(tmp_path, **{place: signature if place == "signature" else {"signature": signature}})
    check(file)
    assert [tensor.name for tensor in describe_model(file).inputs] == ["x"]


def test_a_page_has_no_doubles(tmp_path: Path) -> None:
    """TensorFlow.js computes in single precision what the graph says to be double; its weights are single."""
    check(page(tmp_path, "DT_DOUBLE"))


def test_a_page_has_no_wide_integers(tmp_path: Path) -> None:
    """Its weights are of 32 bits where the graph says 64, and so are the places that `Where` finds."""
    long = {"type": "DT_INT64"}
    nodes = [
        {"name": "x", "op": "Placeholder", "attr": {"dtype": long, "shape": {"shape": {"dim": [{"size": "3"}]}}}},
        {"name": "w", "op": "Const", "attr": {"dtype": long}},
        {"name": "least", "op": "Minimum", "input": ["x", "w"], "attr": {"T": long}},
        {"name": "where", "op": "Where", "input": ["x"], "attr": {"T": long}},
        {"name": "y", "op": "AddV2", "input": ["where", "w"], "attr": {"T": long}},
    ]
    weights = np.array([5], np.int32)
    manifest = [{"paths": ["shard.bin"], "weights": [{"name": "w", "shape": [1], "dtype": "int32"}]}]
    text = {
        "format": "graph-model", "modelTopology": {"node": nodes}, "weightsManifest": manifest,
        "signature": {
            "inputs": {"x": {"name": "x:0", "dtype": "DT_INT64", "tensorShape": {"dim": [{"size": "3"}]}}},
            "outputs": {"y": {"name": "y:0"}, "least": {"name": "least:0"}},
        },
    }  # fmt: skip
    (tmp_path / "shard.bin").write_bytes(weights.tobytes())
    (tmp_path / "model.json").write_text(json.dumps(text))
    graph = read_model(tmp_path / "model.json")
    found = interpret(graph, {"x": np.array([7, 0, 2], np.int32)})
    assert found["least"].tolist() == [5, 0, 2]
    assert found["y"].tolist() == [[5], [7]]


def first_page(folder: Path) -> Path:
    """y = x + w, as the converters 0.x wrote it: a GraphDef whose constants are empty, and a manifest beside it."""
    g = GraphWriter()
    g.input("x", (2,))
    g.node("Const", name="w", dtype=Kind("float32"))
    g.node("Add", ["x", "w"], name="y")
    (folder / "tensorflowjs_model.pb").write_bytes(g.content())
    (folder / "weights_manifest.json").write_text(json.dumps(MANIFEST))
    (folder / "shard.bin").write_bytes(WEIGHTS.tobytes())
    return folder / "tensorflowjs_model.pb"


def test_a_model_of_the_first_converters(tmp_path: Path) -> None:
    file = first_page(tmp_path)
    check(file)
    check(tmp_path)
    assert describe_model(file).format == "TensorFlow.js graph model"
    with zipfile.ZipFile(tmp_path.parent / f"{tmp_path.name}.zip", "w") as archive:
        for each in tmp_path.iterdir():
            archive.write(each, f"page/{each.name}")
    check(tmp_path.parent / f"{tmp_path.name}.zip")


@pytest.mark.parametrize("manifest", ["[", '{"paths": 1}', '[{"paths": ["lost.bin"], "weights": []}]'])
def test_a_manifest_that_does_not_fit(manifest: str, tmp_path: Path) -> None:
    file = first_page(tmp_path)
    (tmp_path / "weights_manifest.json").write_text(manifest)
    with pytest.raises(SternaError) as caught:
        read_model(file)
    assert caught.value.codes[0] in ("E0101", "E0103")
