"""Recurrent layers of Caffe, its pyramids, SegNet's pools and Faster R-CNN's regions, beside NumPy."""

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


def given_too(name: str, *sizes: int) -> str:
    dims = " ".join(f"dim: {size}" for size in sizes)
    return f'layer {{ name: "{name}" type: "Input" top: "{name}" input_param {{ shape {{ {dims} }} }} }}\n'


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


# ---------------------------------------------------------------- recurrent layers
class Recurrence:
    """Weights of a layer and what its unrolled network computes of them."""

    def __init__(self, kind: str, inputs: int, units: int, static: int):
        self.kind, self.units, self.static = kind, units, static
        wide = units * (4 if kind == "LSTM" else 1)
        shapes: list[tuple[int, ...]] = [(wide, inputs), (wide,)]
        shapes += [(wide, static)] if static else []
        shapes += [(wide, units)] if kind == "LSTM" else [(wide, units), (units, units), (units,)]
        self.blobs = [drawn(*shape, seed=n) * np.float32(0.5) for n, shape in enumerate(shapes)]

    def run(self, x: Array, cont: Array, still: Array | None, kept: list[Array]) -> tuple[Array, list[Array]]:
        w, b, *rest = self.blobs
        extra = still @ rest.pop(0).T if still is not None else 0.0
        rows = []
        for step, goes_on in zip(x.reshape(*x.shape[:2], -1), cont[..., None], strict=True):
            h, *c = (value * goes_on for value in kept)
            total = step @ w.T + b + extra + h @ rest[0].T
            if self.kind == "LSTM":
                i, f, o, g = np.split(total, 4, axis=1)
                cell = sigmoid(f) * c[0] + sigmoid(i) * np.tanh(g)
                kept = [sigmoid(o) * np.tanh(cell), cell]
                rows.append(kept[0])
            else:
                kept = [np.tanh(total)]
                rows.append(np.tanh(kept[0] @ rest[1].T + rest[2]))
        return np.stack(rows), kept


@pytest.mark.family("host-llvm")
@settings(max_examples=8, deadline=None)
@given(st.sampled_from(["LSTM", "RNN"]), st.integers(1, 4), st.integers(1, 3), st.booleans(), st.integers(0, 99))
def test_recurrent_layers_go_on_where_the_run_before_ended(
    tmp_path_factory: pytest.TempPathFactory, kind: str, steps: int, streams: int, static: bool, seed: int
) -> None:
    reference = Recurrence(kind, 6, 5, 3 if static else 0)
    bottoms = ("x", "cont", "still") if static else ("x", "cont")
    text = given_too("cont", steps, streams) + (given_too("still", streams, 3) if static else "")
    text += layer(kind, "recurrent_param { num_output: 5 }", bottoms)
    path = network(tmp_path_factory.mktemp("net"), text, {"l": reference.blobs}, (steps, streams, 2, 3))
    random = np.random.default_rng(seed)
    still = drawn(streams, 3, seed=77) if static else None
    kept = [np.zeros((streams, 5))] * (2 if kind == "LSTM" else 1)
    with sterna.compile(path, generator="llvm") as bundle:
        for run in range(3):
            x = drawn(steps, streams, 2, 3, seed=seed + run)
            cont = random.integers(0, 2, (steps, streams)).astype(np.float32)
            given_ = {"x": x, "cont": cont} | ({"still": still} if still is not None else {})
            expected, kept = reference.run(x, cont, still, kept)
            np.testing.assert_allclose(bundle.run(given_)["y"], expected, rtol=1e-4, atol=1e-5)


def test_what_is_remembered_may_be_an_operand_and_a_result(tmp_path: Path) -> None:
    reference = Recurrence("LSTM", 6, 5, 0)
    text = given_too("cont", 3, 2) + given_too("h", 1, 2, 5) + given_too("c", 1, 2, 5)
    setting = "recurrent_param { num_output: 5 expose_hidden: true }"
    text += layer("LSTM", setting, ("x", "cont", "h", "c"), ("y", "u", "v"))
    graph = read_model(network(tmp_path, text, {"l": reference.blobs}, (3, 2, 6)))
    assert not graph.states
    x, h, c = drawn(3, 2, 6), drawn(1, 2, 5, seed=8), drawn(1, 2, 5, seed=9)
    cont = np.array([[1, 0], [1, 1], [1, 1]], np.float32)
    found = interpret(graph, {"x": x, "cont": cont, "h": h, "c": c})
    expected, kept = reference.run(x, cont, None, [h[0], c[0]])
    for name, value in zip("yuv", (expected, kept[0][None], kept[1][None]), strict=True):
        np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-5)


# ---------------------------------------------------------------- windows
def pooled(x: Array, kernel: tuple[int, int], pads: tuple[int, int], kind: str) -> Array:
    """PoolingLayer::Forward_cpu, with strides as large as the windows."""
    counts = []
    for size, k, pad in zip(x.shape[2:], kernel, pads, strict=True):
        count = -(-(size + 2 * pad - k) // k) + 1
        counts.append(count - 1 if pad and (count - 1) * k >= size + pad else count)
    y = np.zeros((*x.shape[:2], *counts), np.float32)
    for row in range(counts[0]):
        for column in range(counts[1]):
            starts = [n * k - pad for n, k, pad in zip((row, column), kernel, pads, strict=True)]
            ends = [min(s + k, size + pad) for s, k, size, pad in zip(starts, kernel, x.shape[2:], pads, strict=True)]
            (top, left), (bottom, right) = starts, ends
            part = x[:, :, max(top, 0) : bottom, max(left, 0) : right]
            total = (bottom - top) * (right - left)
            y[:, :, row, column] = part.max((2, 3)) if kind == "MAX" else part.sum((2, 3)) / total
    return y


@pytest.mark.parametrize("kind", ["MAX", "AVE"])
@pytest.mark.parametrize("sizes", [(9, 11), (8, 8), (13, 10)])
def test_pyramids(kind: str, sizes: tuple[int, int], tmp_path: Path) -> None:
    x, parts = drawn(2, 3, *sizes), []
    for level in range(3):
        bins = 2**level
        kernel = -(-sizes[0] // bins), -(-sizes[1] // bins)
        pads = tuple((k * bins - size + 1) // 2 for k, size in zip(kernel, sizes, strict=True))
        parts.append(pooled(x, kernel, pads, kind).reshape(2, -1))
    text = layer("SPP", f"spp_param {{ pyramid_height: 3 pool: {kind} }}")
    found = interpret(read_model(network(tmp_path, text, {}, x.shape)), {"x": x})["y"]
    np.testing.assert_allclose(found, np.concatenate(parts, 1), rtol=1e-5, atol=1e-6)


def test_one_level_of_a_pyramid_keeps_its_dimensions(tmp_path: Path) -> None:
    x = drawn(2, 3, 4, 5)
    text = layer("SPP", "spp_param { pyramid_height: 1 }")
    found = interpret(read_model(network(tmp_path, text, {}, x.shape)), {"x": x})["y"]
    np.testing.assert_array_equal(found, x.max((2, 3), keepdims=True))


def test_places_of_a_pool_undo_it(tmp_path: Path) -> None:
    x = drawn(2, 3, 5, 6)
    text = layer("Pooling", "pooling_param { kernel_size: 2 stride: 2 }", tops=("small", "places"))
    text += layer("Upsample", "upsample_param { scale: 2 pad_out_h: true }", ("small", "places"), ("big",))
    text += layer("Split", "", ("places",), ("y",))
    found = interpret(read_model(network(tmp_path, text, {}, x.shape)), {"x": x})
    expected = np.zeros_like(x)
    for n, c, row, column in np.ndindex(2, 3, 3, 3):
        window = x[n, c, 2 * row : 2 * row + 2, 2 * column : 2 * column + 2]
        at = np.unravel_index(window.argmax(), window.shape)
        place = 2 * row + at[0], 2 * column + at[1]
        expected[n, c, place[0], place[1]] = window.max()
        assert found["y"][n, c, row, column] == place[0] * 6 + place[1]
    np.testing.assert_array_equal(found["big"], expected)


@pytest.mark.family("host-llvm")
def test_pools_of_any_batch(tmp_path: Path) -> None:
    text = layer("Pooling", "pooling_param { kernel_size: 2 stride: 2 }", tops=("small",))
    text += layer("Pooling", "pooling_param { pool: AVE global_pooling: true }", ("small",))
    path = network(tmp_path, text, {}, (1, 3, 4, 4))
    x = drawn(3, 3, 4, 4)
    expected = x.reshape(3, 3, 2, 2, 2, 2).max((3, 5)).mean((2, 3), keepdims=True)
    with sterna.compile(path, dims={"batch": (1, 8)}, generator="llvm") as bundle:
        np.testing.assert_allclose(bundle.run({"x": x})["y"], expected, rtol=1e-6)


def test_stochastic_pools_weigh_elements_by_themselves(tmp_path: Path) -> None:
    x = np.abs(drawn(1, 2, 4, 4))
    x[:, 1, :2, :2] = 0
    text = layer("Pooling", "pooling_param { pool: STOCHASTIC kernel_size: 2 stride: 2 }")
    found = interpret(read_model(network(tmp_path, text, {}, x.shape)), {"x": x})["y"]
    blocks = x.reshape(1, 2, 2, 2, 2, 2)
    squares, sums = (blocks**2).sum((3, 5)), blocks.sum((3, 5))
    np.testing.assert_allclose(found, squares / np.maximum(sums, 1e-30), rtol=1e-5)


def test_columns_rows_and_weights(tmp_path: Path) -> None:
    x, places = drawn(2, 3, 5, 6), np.array([1, 1, 0], np.float32)
    text = layer("Im2col", "convolution_param { kernel_h: 2 kernel_w: 3 stride: 2 pad: 1 }", tops=("columns",))
    text += given_too("places", 3) + layer("BatchReindex", "", ("x", "places"), ("rows",))
    text += layer("Parameter", "parameter_param { shape { dim: 2 dim: 3 } }", (), ("held",))
    held = drawn(6)
    found = interpret(read_model(network(tmp_path, text, {"l": [held]}, x.shape)), {"x": x, "places": places})
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    expected = [padded[:, c, i : i + 5 : 2, j : j + 6 : 2] for c in range(3) for i in range(2) for j in range(3)]
    np.testing.assert_array_equal(found["columns"], np.stack([e[:, :3, :3] for e in expected], 1))
    np.testing.assert_array_equal(found["rows"], x[[1, 1, 0]])
    np.testing.assert_array_equal(found["held"], held.reshape(2, 3))


# ---------------------------------------------------------------- regions
def regions(scores: Array, offsets: Array, info: Array, anchors: Array, stride: int) -> tuple[Array, Array]:
    """`rpn.proposal_layer` with its settings of testing."""
    count, (high, wide) = len(anchors), scores.shape[2:]
    found = []
    for y in range(high):
        for x in range(wide):
            for a in range(count):
                box = anchors[a] + np.array([x, y, x, y]) * stride
                d = offsets[0, 4 * a : 4 * a + 4, y, x]
                size = box[2:] - box[:2] + 1
                centre = d[:2] * size + box[:2] + 0.5 * size
                reach = 0.5 * np.exp(d[2:]) * size
                box = np.concatenate([centre - reach, centre + reach])
                box = np.clip(box, 0, [info[1] - 1, info[0] - 1] * 2)
                if min(box[2:] - box[:2] + 1) >= 16 * info[2]:
                    found.append((scores[0, count + a, y, x], box))
    kept: list[tuple[float, Array]] = []
    for score, box in sorted(found, key=lambda pair: -pair[0]):
        if len(kept) < 300 and all(shared(box, other) <= 0.7 for _, other in kept):
            kept.append((score, box))
    return np.array([[0, *box] for _, box in kept]), np.array([[score] for score, _ in kept])


def shared(a: Array, b: Array) -> float:
    sides = np.maximum(np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2]) + 1, 0)
    areas = [np.prod(box[2:] - box[:2] + 1) for box in (a, b)]
    return float(np.prod(sides) / (sum(areas) - np.prod(sides)))


#: The nine boxes that py-faster-rcnn's `generate_anchors.py` prints in its head, from 1 as MATLAB counts.
ANCHORS = np.array([
    [-83, -39, 100, 56], [-175, -87, 192, 104], [-359, -183, 376, 200], [-55, -55, 72, 72], [-119, -119, 136, 136],
    [-247, -247, 264, 264], [-35, -79, 52, 96], [-79, -167, 96, 184], [-167, -343, 184, 360],
]) - 1.0  # fmt: skip
PYTHON = "python_param { module: 'rpn.proposal_layer' layer: 'ProposalLayer' param_str: \"'feat_stride': 16\" }"


@pytest.mark.family("host-llvm")
@pytest.mark.parametrize(("kind", "setting"), [("Python", PYTHON), ("Proposal", "proposal_param { feat_stride: 16 }")])
def test_regions_of_faster_r_cnn(kind: str, setting: str, tmp_path: Path) -> None:
    scores, offsets = np.abs(drawn(1, 18, 4, 5)), drawn(1, 36, 4, 5, seed=3) * np.float32(0.3)
    info = np.array([[64, 80, 1.5]], np.float32)
    text = given_too("offsets", *offsets.shape) + given_too("info", 1, 3)
    text += layer(kind, setting, ("x", "offsets", "info"), ("rois", "scores"))
    path = network(tmp_path, text, {}, scores.shape)
    boxes, best = regions(scores, offsets, info[0], ANCHORS, 16)
    assert 5 < len(boxes) < 170
    with sterna.compile(path, generator="llvm") as bundle:
        found = bundle.run({"x": scores, "offsets": offsets, "info": info})
        np.testing.assert_allclose(found["rois"], boxes, rtol=1e-4, atol=1e-3)
        np.testing.assert_allclose(found["scores"], best, rtol=1e-6)
        nothing = bundle.run({"x": scores, "offsets": offsets, "info": info * np.float32([1, 1, 99])})
        assert nothing["rois"].shape == (0, 5)


@pytest.mark.parametrize(
    ("text", "code", "says"),
    [
        (PYTHON.replace("'feat_stride': 16", "'mode': 3"), "E0109", "mode of param_str"),
        (PYTHON.replace("'feat_stride': 16", "'feat_stride': a"), "E0109", "param_str is"),
        (PYTHON.replace("ProposalLayer", "OtherLayer"), "E0104", "the layer OtherLayer"),
        (PYTHON, "E0108", "no probabilities of 9 boxes"),
    ],
)
def test_layers_of_python_are_their_classes(text: str, code: str, says: str, tmp_path: Path) -> None:
    path = network(tmp_path, layer("Python", text), {}, (1, 6, 4, 5))
    with pytest.raises(SternaError) as caught:
        read_model(path)
    assert caught.value.codes == (code,)
    assert says in str(caught.value)
