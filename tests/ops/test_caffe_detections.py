"""SSD's DetectionOutput beside what Caffe's C++ does, box by box; a whole small detector, compiled."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sterna
from sterna.debug.interpret import interpret
from sterna.errors import SternaError
from sterna.frontends.formats import read_model
from support.caffe_networks import drawn, layer, network

Array = np.ndarray
F = np.float32


def overlap(a: Array, b: Array) -> float:
    width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    if width <= 0 or height <= 0:
        return 0.0
    shared = width * height
    sizes = [(box[2] - box[0]) * (box[3] - box[1]) for box in (a, b)]
    return float(shared / (sizes[0] + sizes[1] - shared))


def decoded(offsets: Array, prior: Array, variance: Array, code: str) -> Array:
    scaled = offsets * variance
    size = prior[2:] - prior[:2]
    if code == "CORNER":
        return prior + scaled
    if code == "CORNER_SIZE":
        return prior + scaled * np.concatenate([size, size])
    middle = scaled[:2] * size + (prior[:2] + prior[2:]) * F(0.5)
    half = np.exp(scaled[2:]) * size * F(0.5)
    return np.concatenate([middle - half, middle + half])


def reference(location: Array, scores: Array, priors: Array, given: dict[str, object]) -> Array:
    """DetectionOutputLayer::Forward_cpu."""
    classes, code, shared = given["num_classes"], str(given["code_type"]), given["share_location"]
    count = priors.shape[2] // 4
    corners, variances = priors[0, 0].reshape(-1, 4), priors[0, 1].reshape(-1, 4)
    rows = []
    for image in range(len(location)):
        offsets = location[image].reshape(count, -1, 4)
        points = scores[image].reshape(count, classes)
        found = []
        for c in range(1, classes):
            boxes = [decoded(offsets[n, 0 if shared else c], corners[n], variances[n], code) for n in range(count)]
            best = [n for n in np.argsort(-points[:, c], kind="stable") if points[n, c] > given["least"]]
            kept: list[int] = []
            for n in best[: given["top_k"]]:
                if all(overlap(boxes[n], boxes[m]) <= given["overlap"] for m in kept):
                    kept.append(n)
            found += [(points[n, c], c, boxes[n]) for n in kept]
        if len(found) > given["keep_top_k"]:
            last = sorted((-score for score, _, _ in found))[given["keep_top_k"] - 1]
            found = [each for each in found if -each[0] <= last]
        rows += [[image, c, score, *box] for score, c, box in found]
    if not rows:
        rows = [[image, *[-1.0] * 6] for image in range(len(location))]
    return np.array(rows, F)[None, None]


def settings_of(given: dict[str, object]) -> str:
    return (
        f"detection_output_param {{ num_classes: {given['num_classes']} code_type: {given['code_type']}"
        f" share_location: {str(given['share_location']).lower()} keep_top_k: {given['keep_top_k']}"
        f" confidence_threshold: {given['least']}"
        f" nms_param {{ nms_threshold: {given['overlap']} top_k: {given['top_k']} }} }}"
    )


def detector(folder: Path, count: int, classes: int, text: str, outer: int, batch: int) -> Path:
    """A network of three inputs."""
    sizes = {"x": (batch, count * outer * 4), "scores": (batch, count * classes), "priors": (1, 2, count * 4)}
    inputs = "".join(
        f'layer {{ name: "{name}" type: "Input" top: "{name}" input_param {{ shape {{ '
        + " ".join(f"dim: {size}" for size in shape) + " } } }\n" for name, shape in sizes.items()
    )  # fmt: skip
    path = folder / "net.prototxt"
    path.write_text(inputs + layer("DetectionOutput", text, ("x", "scores", "priors")))
    path.with_suffix(".caffemodel").write_bytes(b"")
    return path


def test_more_classes_than_scores_are_refused(tmp_path: Path) -> None:
    text = "detection_output_param { num_classes: 900000000000 }"
    with pytest.raises(SternaError, match="E0108"):
        read_model(detector(tmp_path, 4, 3, text, 1, 1))


def operands(count: int, classes: int, outer: int, batch: int, seed: int) -> dict[str, Array]:
    random = np.random.default_rng(seed)
    low, size = random.uniform(0, 0.7, (count, 2)), random.uniform(0.1, 0.3, (count, 2))
    priors = np.stack([np.concatenate([low, low + size], 1).reshape(-1), np.full(4 * count, 0.1)])[None]
    scores = random.permutation(batch * count * classes).reshape(batch, -1) / (batch * count * classes)  # no ties
    return {
        "x": random.normal(size=(batch, count * outer * 4)).astype(F), "scores": scores.astype(F),
        "priors": priors.astype(F),
    }  # fmt: skip


@settings(max_examples=12, deadline=None)
@given(
    st.integers(1, 12), st.integers(2, 4), st.integers(1, 2), st.sampled_from(["CORNER", "CENTER_SIZE", "CORNER_SIZE"]),
    st.booleans(), st.integers(1, 12), st.integers(1, 8), st.sampled_from([0.0, 0.5, 0.9, 2.0]), st.integers(0, 99),
)  # fmt: skip
def test_detection_output(
    tmp_path_factory: pytest.TempPathFactory,
    count: int,
    classes: int,
    batch: int,
    code: str,
    shared: bool,
    top_k: int,
    keep: int,
    least: float,
    seed: int,
) -> None:
    given = {
        "num_classes": classes, "code_type": code, "share_location": shared, "keep_top_k": keep, "top_k": top_k,
        "least": least, "overlap": 0.25,
    }  # fmt: skip
    outer = 1 if shared else classes
    path = detector(tmp_path_factory.mktemp("net"), count, classes, settings_of(given), outer, batch)
    given_ = operands(count, classes, outer, batch, seed)
    (found,) = interpret(read_model(path), given_).values()
    wanted = reference(given_["x"], given_["scores"], given_["priors"], given)
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


SSD = (
    layer("Convolution", "convolution_param { num_output: 16 kernel_size: 1 }", ("x",), ("loc",)).replace('"l"', '"a"')
    + layer("Permute", "permute_param { order: 0 order: 2 order: 3 order: 1 }", ("loc",), ("turned",))
    + layer("Flatten", "", ("turned",), ("offsets",))
    + layer("Convolution", "convolution_param { num_output: 12 kernel_size: 1 }", ("x",), ("c",)).replace('"l"', '"b"')
    + layer("Permute", "permute_param { order: 0 order: 2 order: 3 order: 1 }", ("c",), ("c1",))
    + layer("Reshape", "reshape_param { shape { dim: 0 dim: -1 dim: 3 } }", ("c1",), ("c2",))
    + layer("Softmax", "softmax_param { axis: 2 }", ("c2",), ("c3",))
    + layer("Flatten", "", ("c3",), ("scores",))
    + layer("PriorBox", "prior_box_param { min_size: 20 max_size: 40 aspect_ratio: 2 variance: 0.1 }", ("x", "x"),
            ("priors",))
    + layer("DetectionOutput", settings_of({"num_classes": 3, "code_type": "CENTER_SIZE", "share_location": True,
            "keep_top_k": 9, "top_k": 20, "least": 0.3, "overlap": 0.45}), ("offsets", "scores", "priors"), ("found",))
)  # fmt: skip


@pytest.mark.parametrize(
    "generator",
    [pytest.param(g, marks=pytest.mark.family("host-" + g)) for g in ("c", "llvm")],
)
def test_a_detector_is_compiled(generator: str, tmp_path: Path) -> None:
    """A file of 100 x 100 pixels and 4 default boxes for each of 35 places."""
    weights = {"a": [drawn(16, 6, 1, 1), drawn(16)], "b": [drawn(12, 6, 1, 1, seed=3), drawn(12, seed=4)]}
    path = network(tmp_path, SSD.replace('"x", "x"', '"x"'), weights, (1, 6, 5, 7))
    x = drawn(1, 6, 5, 7, seed=9)
    with sterna.compile(path, generator=generator, output=tmp_path / "bundle") as bundle:
        found = bundle.run({"x": x})["found"]
    (wanted,) = interpret(read_model(path), {"x": x}).values()
    assert found.shape == wanted.shape == (1, 1, 9, 7)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("change", "code"),
    [("num_classes: 5", "E0108"), ("code_type: 9", "E0109"), ("nms_param { eta: 0.5 }", "E0113")],
)
def test_what_is_refused(change: str, code: str, tmp_path: Path) -> None:
    text = f"detection_output_param {{ num_classes: 3 keep_top_k: 9 {change} }}"
    with pytest.raises(SternaError) as caught:
        read_model(detector(tmp_path, 4, 3, text, 1, 1))
    assert caught.value.codes == (code,)
