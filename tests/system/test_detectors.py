"""Names of a detector's classes reach its bundle, and `sterna run --top` shows what it found by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import sterna
from sterna.cli import program
from sterna.frontends.class_names import names_of
from sterna.frontends.formats import read_model
from sterna_runtime.cli import main as plain
from sterna_runtime.detections import detections
from support.caffe_networks import layer
from support.graph_defs import GraphWriter

LABEL_MAP = """
item { id: 1 name: '/m/1' display_name: 'cat' }
item {
  id: 3
  name: "dog"
}
"""


def tensorflow(folder: Path) -> Path:
    """Boxes, classes and scores as TensorFlow's detectors call them; the input is (rows, 6)."""
    graph = GraphWriter()
    graph.input("x", (1, 4, 6))
    for name, first, size in (("detection_boxes", 0, 4), ("classes_of", 4, 1), ("scores_of", 5, 1)):
        begin, sizes = (graph.constant(np.array(v, np.int32)) for v in ([0, 0, first], [-1, -1, size]))
        graph.node("Slice", ["x", begin, sizes], name)
    for name, read in (("detection_classes", "classes_of"), ("detection_scores", "scores_of"), ("copy", "scores_of")):
        graph.node("Reshape", [read, graph.constant(np.array([1, 4], np.int32))], name)
    graph.node("Sum", ["copy", graph.constant(np.array([1], np.int32))], "num_detections")
    return graph.write(folder)


#: (top, left, bottom, right, class, score); the scores add up to more than three, which are therefore all.
ROWS = np.array([[[1, 2, 3, 4, 3, 0.9], [5, 6, 7, 8, 1, 1], [0, 0, 1, 1, 1, 0.8], [0, 0, 9, 9, 2, 0.4]]], np.float32)


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    path = tensorflow(tmp_path)
    (tmp_path / "pets_label_map.pbtxt").write_text(LABEL_MAP)
    np.save(tmp_path / "x.npy", ROWS)
    sterna.compile(path, generator="llvm", output=tmp_path / "bundle", tuning=False).close()
    return tmp_path / "bundle"


def run(bundle: Path, *more: str) -> str:
    given = ["run", str(bundle), "--input", f"x={bundle.parent / 'x.npy'}", "--top", "3", *more]
    result = CliRunner().invoke(program, given)
    assert result.exit_code == 0, result.output
    return result.output


def test_named_boxes(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(run(bundle, "--json"))["detections"]
    assert [(row.get("label"), row["class"], row["box"]) for row in found] == [
        ("cat", 1, [6, 5, 8, 7]), ("dog", 3, [2, 1, 4, 3]), ("cat", 1, [0, 0, 1, 1]),
    ]  # fmt: skip
    text = run(bundle)
    assert text.index("cat") < text.index("dog")
    assert "detection_boxes" not in text
    assert plain(["run", str(bundle), "--input", f"x={bundle.parent / 'x.npy'}", "--top", "1"]) == 0
    shown = capsys.readouterr().out
    assert "cat" in shown
    assert "dog" not in shown


def caffe(folder: Path) -> Path:
    """SSD's last layer: two boxes, three classes, the first of which is the background."""
    sizes = {"x": (1, 8), "scores": (1, 6), "priors": (1, 2, 8)}
    inputs = "".join(
        f'layer {{ name: "{name}" type: "Input" top: "{name}" input_param {{ shape {{ '
        + " ".join(f"dim: {size}" for size in shape) + " } } }\n" for name, shape in sizes.items()
    )  # fmt: skip
    settings = (
        "detection_output_param { num_classes: 3 keep_top_k: 2 code_type: CORNER nms_param { nms_threshold: 0.5 } }"
    )
    path = folder / "net.prototxt"
    path.write_text(inputs + layer("DetectionOutput", settings, ("x", "scores", "priors")))
    path.with_suffix(".caffemodel").write_bytes(b"")
    return path


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("voc.names", "bird\nboat\n"),
        ("labelmap_voc.prototxt", "".join(
            f'item {{\n name: "{name}"\n label: {n}\n display_name: "{name}" }}\n'
            for n, name in enumerate(["background", "bird", "boat"]))),
    ],
)  # fmt: skip
def test_tables_of_detections(name: str, content: str, tmp_path: Path) -> None:
    path = caffe(tmp_path)
    assert "detections" not in read_model(path).metadata
    (tmp_path / name).write_text(content)
    feeds = {
        "x": np.zeros((1, 8), np.float32),
        "scores": np.array([[0.1, 0.2, 0.7, 0.2, 0.6, 0.3]], np.float32),
        "priors": np.array([[[0, 0, 0.5, 0.5, 0.5, 0.5, 1, 1], [0.1] * 8]], np.float32),
    }
    with sterna.compile(path, generator="llvm", tuning=False) as bundle:
        found = detections(bundle.metadata, bundle.run(feeds), 2)
    assert found is not None
    assert [row["label"] for row in found] == ["boat", "bird"]
    np.testing.assert_allclose([row["box"] for row in found], [[0, 0, 0.5, 0.5], [0.5, 0.5, 1, 1]])


def test_what_is_no_detector(tmp_path: Path) -> None:
    """Boxes without scores, and a classifier beside which a list of its length lies."""
    graph = GraphWriter()
    graph.input("x", (1, 4, 4))
    graph.node("Neg", ["x"], "boxes")
    (tmp_path / "labels.txt").write_text("a\nb\nc\n")
    assert not read_model(graph.write(tmp_path)).metadata


def test_label_maps() -> None:
    assert names_of(LABEL_MAP.encode()) == ("", "cat", "", "dog")


SEPARATE = {
    "boxes": "b", "classes": "c", "scores": "s", "labels": [],
    "columns": {"left": 0, "top": 1, "right": 2, "bottom": 3},
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({}, 2), ({"count": "one"}, 1), ({"count": "nan"}, 0), ({"boxes": "missing"}, None), ({"scores": "one"}, None),
        ({"boxes": "one"}, None), ({"columns": {"left": 0, "top": 1, "right": 2, "bottom": 4}}, None),
        ({"classes": "text"}, None), ({"classes": "endless"}, 0),
    ],
)  # fmt: skip
def test_outputs_that_are_not_what_a_bundle_says(change: dict[str, Any], found: int | None) -> None:
    """They are no detections, and no error."""
    outputs = {
        "b": np.zeros((1, 2, 4), np.float32), "c": np.zeros((1, 2), np.float32), "s": np.ones((1, 2), np.float32),
        "one": np.ones(1, np.float32), "nan": np.full(1, np.nan, np.float32), "text": np.array([["a", "b"]], object),
        "endless": np.full((1, 2), np.inf, np.float32),
    }  # fmt: skip
    rows = detections({"detections": {**SEPARATE, **change}}, outputs, 5)
    assert (None if rows is None else len(rows)) == found


@pytest.mark.parametrize(
    "said", [{}, {"table": "a", "columns": {}, "labels": []}, {"boxes": "b", "columns": {}, "labels": []}, [], 1]
)
def test_damaged_metadata_is_no_bundle(said: Any) -> None:
    from sterna_runtime.validation import _is_metadata

    assert not _is_metadata({"detections": said})
