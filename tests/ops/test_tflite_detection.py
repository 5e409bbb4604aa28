"""TFLite_Detection_PostProcess against the reference kernel: both ways to suppress boxes, floats and bytes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flatbuffers import flexbuffers

from sterna.bundle.writer import write_bundle
from sterna.debug.interpret import interpret
from sterna.driver import Options, compile_graph
from sterna.errors import SternaError
from sterna.frontends import tflite
from sterna.targets.description import load_target
from sterna_runtime import load
from support.tflite_builder import ModelWriter, Scale, reference

SETTINGS = {
    "max_detections": 6, "max_classes_per_detection": 1, "num_classes": 3, "y_scale": 10.0, "x_scale": 10.0,
    "h_scale": 5.0, "w_scale": 5.0, "nms_iou_threshold": 0.5, "nms_score_threshold": 0.3,
}  # fmt: skip


def detector(anchors: int, settings: dict[str, Any], *, background: bool, dtype: str, seed: int = 0) -> ModelWriter:
    """A model of the one operator; no two scores of floats are equal."""
    random, model = np.random.default_rng(seed), ModelWriter()
    g, columns = model.main, int(settings["num_classes"]) + background
    places = random.uniform(0.2, 0.8, (anchors, 4)).astype(np.float32)
    scores = random.permutation(np.linspace(0.01, 0.99, anchors * columns)).reshape(1, anchors, columns)
    if dtype == "uint8":
        codes = g.input(random.integers(0, 256, (1, anchors, 4)).astype(np.uint8), Scale(0.05, 128))
        given = g.input(np.round(scores * 255).astype(np.uint8), Scale(1 / 256, 0))
        base = g.constant(np.round(places * 200).astype(np.uint8), Scale(1 / 200, 0))
    else:
        codes = g.input(random.normal(0, 3, (1, anchors, 4)).astype(np.float32))
        given, base = g.input(scores.astype(np.float32)), g.constant(places)
    most = int(settings["max_detections"]) * int(settings["max_classes_per_detection"])
    results = [g.output("float32", shape) for shape in ((1, most, 4), (1, most), (1, most), (1,))]
    g.op("TFLite_Detection_PostProcess", [codes, given, base], results, custom=bytes(flexbuffers.Dumps(settings)))
    return model


def agree(found: Sequence[np.ndarray], expected: Sequence[np.ndarray], each: int = 1, classes: int = 3) -> None:
    """Of what the fast way leaves unwritten nothing is said: rows behind the detections, classes that there are not."""
    count = int(expected[3][0])
    np.testing.assert_array_equal(found[3], expected[3])
    for have, want in zip(found[:3], expected[:3], strict=True):
        assert have.shape == want.shape
        written = [x.reshape(-1, each, *x.shape[2:])[:count, :classes] for x in (have, want)]
        np.testing.assert_allclose(*written, rtol=1e-5, atol=1e-6)


CASES = [
    pytest.param({}, id="fast"),
    pytest.param({"max_classes_per_detection": 2}, id="two classes of a box"),
    pytest.param({"max_classes_per_detection": 5}, id="more classes of a box than there are"),
    pytest.param({"max_detections": 60}, id="more detections than anchors"),
    pytest.param({"nms_score_threshold": 2.0}, id="nothing found"),
    pytest.param({"use_regular_nms": True}, id="regular"),
    pytest.param({"use_regular_nms": True, "detections_per_class": 2}, id="regular, two of a class"),
    pytest.param({"use_regular_nms": True, "max_detections": 200}, id="regular, more than there are"),
    pytest.param({"use_regular_nms": True, "nms_score_threshold": 2.0}, id="regular, nothing found"),
    pytest.param({"use_regular_nms": True, "num_classes": 1}, id="regular, one class"),
]


@pytest.mark.parametrize("background", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "uint8"])
@pytest.mark.parametrize("changes", CASES)
def test_detections(changes: dict[str, Any], dtype: str, background: bool, tmp_path: Path) -> None:
    settings = {**SETTINGS, **changes}
    model = detector(20, settings, background=background, dtype=dtype)
    content = model.content()
    (expected,) = reference(content, [model.feeds])
    file = tmp_path / "model.tflite"
    file.write_bytes(content)
    found = list(interpret(tflite.read(file), model.feeds).values())
    agree(found, expected, int(settings["max_classes_per_detection"]))


@pytest.mark.parametrize("generator", ["c", "llvm"])
@pytest.mark.parametrize("regular", [True, False])
def test_compiled(generator: str, regular: bool, tmp_path: Path) -> None:
    model = detector(64, {**SETTINGS, "use_regular_nms": regular}, background=True, dtype="float32", seed=3)
    (expected,) = reference(model.content(), [model.feeds])
    file = tmp_path / "model.tflite"
    file.write_bytes(model.content())
    compiled = compile_graph(tflite.read(file), "model", Options(load_target("host"), generator))
    with load(write_bundle(compiled, tmp_path / "bundle")) as bundle:
        agree(list(bundle.run(model.feeds).values()), expected)


@pytest.mark.parametrize(
    ("changes", "said"), [({"max_detections": 0}, "invalid setting"), ({"num_classes": 7}, "classes")]
)
def test_settings_that_do_not_fit_are_refused(changes: dict[str, Any], said: str, tmp_path: Path) -> None:
    model = detector(20, SETTINGS, background=True, dtype="float32")
    settings = {**SETTINGS, **changes}
    model.main.operators[0].customOptions = list(bytes(flexbuffers.Dumps(settings)))
    file = tmp_path / "model.tflite"
    file.write_bytes(model.content())
    with pytest.raises(SternaError, match=said):
        tflite.read(file)
