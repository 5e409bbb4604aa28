"""Layers of Caffe beside NumPy, written from what Caffe's own C++ does; older descriptions; damaged files."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sterna
from sterna.debug.interpret import interpret
from sterna.errors import SternaError
from sterna.frontends.formats import read_model
from support.caffe_networks import drawn, layer, network

Array = np.ndarray
X = np.random.default_rng(1).normal(size=(2, 6, 5, 7)).astype(np.float32)


def results(folder: Path, text: str, *blobs: Array, x: Array = X) -> dict[str, Array]:
    graph = read_model(network(folder, text, {"l": list(blobs)} if blobs else {}, x.shape))
    return interpret(graph, {"x": x})


def close(ours: Array, theirs: Array) -> None:
    assert ours.shape == theirs.shape
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=3e-5)


W, V = drawn(6, seed=5), drawn(6, seed=6)
LAYERS: dict[str, tuple[str, list[Array], Any]] = {
    "relu": (layer("ReLU"), [], np.maximum(X, 0)),
    "leaky": (layer("ReLU", "relu_param { negative_slope: 0.2 }"), [], np.where(X > 0, X, 0.2 * X)),
    "relu6": (layer("ReLU6"), [], np.clip(X, 0, 6)),
    "clip": (layer("Clip", "clip_param { min: -0.5 max: 0.7 }"), [], np.clip(X, -0.5, 0.7)),
    "swish": (layer("Swish", "swish_param { beta: 1.7 }"), [], X / (1 + np.exp(-1.7 * X))),
    "bn": (
        layer("BN", "bn_param { eps: 0.001 }"), [W, V, W + 1, np.abs(V) + 1],
        (X - (W + 1)[:, None, None]) / np.sqrt(np.abs(V) + 1.001)[:, None, None] * W[:, None, None]
        + V[:, None, None],
    ),
    "segnet": (layer("BN", "bn_param { bn_mode: INFERENCE }"), [W, V], X * W[:, None, None] + V[:, None, None]),
    "depthwise": (
        layer("ConvolutionDepthwise", "convolution_param { num_output: 6 kernel_size: 1 }"), [W, V],
        X * W[:, None, None] + V[:, None, None],
    ),
    "elu": (layer("ELU", "elu_param { alpha: 0.5 }"), [], np.where(X > 0, X, 0.5 * (np.exp(X) - 1))),
    "sigmoid": (layer("Sigmoid"), [], 1 / (1 + np.exp(-X))),
    "tanh": (layer("TanH"), [], np.tanh(X)),
    "abs": (layer("AbsVal"), [], np.abs(X)),
    "bnll": (layer("BNLL"), [], np.log1p(np.exp(X))),
    "power": (layer("Power", "power_param { power: 2 scale: 0.5 shift: 1 }"), [], (0.5 * X + 1) ** 2),
    "exp": (layer("Exp", "exp_param { base: 2 scale: 0.5 shift: 1 }"), [], 2 ** (1 + 0.5 * X)),
    "log": (layer("Log", "log_param { base: 10 scale: 0.1 shift: 3 }"), [], np.log10(0.1 * X + 3)),
    "threshold": (layer("Threshold", "threshold_param { threshold: 0.3 }"), [], (X > 0.3).astype(np.float32)),
    "prelu": (layer("PReLU"), [W], np.where(X > 0, X, X * W[:, None, None])),
    "prelu-shared": (layer("PReLU", "prelu_param { channel_shared: true }"), [W[:1]], np.where(X > 0, X, X * W[0])),
    "scale": (
        layer("Scale", "scale_param { bias_term: true }"), [W, W + 1], X * W[:, None, None] + (W + 1)[:, None, None],
    ),
    "scale-rows": (layer("Scale", "scale_param { axis: 2 }"), [W[:5]], X * W[:5, None]),
    "bias": (layer("Bias"), [W], X + W[:, None, None]),
    "batch-norm": (
        layer("BatchNorm", "batch_norm_param { eps: 0.01 }"), [W * 4, np.abs(W) * 4 + 1, np.array([4.0], np.float32)],
        (X - W[:, None, None]) / np.sqrt(np.abs(W)[:, None, None] + 0.25 + 0.01),
    ),
    "inner": (
        layer("InnerProduct", "inner_product_param { num_output: 3 }"), [drawn(3, 210), drawn(3)],
        X.reshape(2, -1) @ drawn(3, 210).T + drawn(3),
    ),
    "inner-turned": (
        layer("InnerProduct", "inner_product_param { num_output: 3 axis: 3 transpose: true bias_term: false }"),
        [drawn(7, 3)], X @ drawn(7, 3),
    ),
    "reshape": (layer("Reshape", "reshape_param { shape { dim: 0 dim: -1 dim: 7 } }"), [], X.reshape(2, 30, 7)),
    "reshape-part": (
        layer("Reshape", "reshape_param { shape { dim: 3 dim: -1 } axis: 1 num_axes: 1 }"), [],
        X.reshape(2, 3, 2, 5, 7),
    ),
    "flatten": (layer("Flatten", "flatten_param { axis: 1 end_axis: 2 }"), [], X.reshape(2, 30, 7)),
    "permute": (layer("Permute", "permute_param { order: 0 order: 2 order: 3 order: 1 }"), [], X.transpose(0, 2, 3, 1)),
    "tile": (layer("Tile", "tile_param { axis: 1 tiles: 2 }"), [], np.tile(X, (1, 2, 1, 1))),
    "shuffle": (
        layer("ShuffleChannel", "shuffle_channel_param { group: 3 }"), [],
        X.reshape(2, 3, 2, 5, 7).swapaxes(1, 2).reshape(X.shape),
    ),
    "upsample": (layer("Upsample", "upsample_param { scale: 2 }"), [], X.repeat(2, 2).repeat(2, 3)),
    "sum": (layer("Reduction", "reduction_param { operation: SUM axis: 1 coeff: 2 }"), [], 2 * X.sum((1, 2, 3))),
    "squares": (layer("Reduction", "reduction_param { operation: SUMSQ axis: 2 }"), [], (X**2).sum((2, 3))),
    "mean": (layer("Reduction", "reduction_param { operation: MEAN axis: -1 }"), [], X.mean(3)),
    "arg-max": (layer("ArgMax", "argmax_param { axis: 1 }"), [], X.argmax(1)[:, None].astype(np.float32)),
    "arg-max-both": (
        layer("ArgMax", "argmax_param { out_max_val: true }"), [],
        np.stack([X.reshape(2, -1).argmax(1).astype(np.float32), X.reshape(2, -1).max(1)], 1)[:, :, None],
    ),
    "mvn": (
        layer("MVN"), [],
        (X - X.mean((2, 3), keepdims=True)) / (X.std((2, 3), keepdims=True) + 1e-9),
    ),
    "lrn-within": (
        layer("LRN", "lrn_param { local_size: 3 alpha: 0.3 norm_region: WITHIN_CHANNEL }"), [],
        X / (1 + 0.3 / 9 * sum(
            np.pad(X**2, ((0, 0), (0, 0), (1, 1), (1, 1)))[:, :, i : i + 5, j : j + 7]
            for i in range(3) for j in range(3)
        )) ** 0.75,
    ),
    "global": (layer("Pooling", "pooling_param { pool: AVE global_pooling: true }"), [], X.mean((2, 3), keepdims=True)),
    "normalize": (
        layer("Normalize", "norm_param { across_spatial: false channel_shared: false }"), [W],
        X / np.sqrt((X**2).sum(1, keepdims=True) + 1e-10) * W[:, None, None],
    ),
    "two": (layer("Eltwise", "eltwise_param { coeff: 1 coeff: -0.5 }", ("x", "x")), [], 0.5 * X),
    "most": (
        layer("ReLU", tops=("r",))
        + layer("Eltwise", "eltwise_param { operation: MAX }", ("x", "r")).replace('"l"', '"m"'),
        [], np.maximum(X, 0),
    ),
    "in-place": (layer("ReLU", tops=("x",)) + layer("AbsVal").replace('"l"', '"m"'), [], np.maximum(X, 0)),
    "loss": (layer("SoftmaxWithLoss", bottoms=("x", "x")), [], np.exp(X) / np.exp(X).sum(1, keepdims=True)),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYERS)
def test_layers(name: str, tmp_path: Path) -> None:
    text, blobs, expected = LAYERS[name]
    (found,) = results(tmp_path, text, *blobs).values()
    close(found, np.asarray(expected, np.float32))


@pytest.mark.parametrize(("size", "stride", "pad"), [(2, 2, 0), (3, 2, 0), (3, 2, 1), (2, 3, 1), (3, 1, 1), (2, 2, 1)])
@pytest.mark.parametrize("kind", ["MAX", "AVE"])
def test_pooling(kind: str, size: int, stride: int, pad: int, tmp_path: Path) -> None:
    """Counted up, the last window begins within the picture; averages divide by what lies within the padding."""
    text = f"pooling_param {{ pool: {kind} kernel_size: {size} stride: {stride} pad: {pad} }}"
    (found,) = results(tmp_path, layer("Pooling", text)).values()
    counts = []
    for n in (5, 7):
        count = -(-(n + 2 * pad - size) // stride) + 1
        counts.append(count - 1 if pad and (count - 1) * stride >= n + pad else count)
    y = np.zeros((2, 6, *counts), np.float32)
    for i in range(counts[0]):
        for j in range(counts[1]):
            starts = i * stride - pad, j * stride - pad
            ends = [min(s + size, n + pad) for s, n in zip(starts, (5, 7), strict=True)]
            area = (ends[0] - starts[0]) * (ends[1] - starts[1])
            part = X[:, :, max(starts[0], 0) : min(ends[0], 5), max(starts[1], 0) : min(ends[1], 7)]
            y[:, :, i, j] = part.max((2, 3)) if kind == "MAX" else part.sum((2, 3)) / area
    close(found, y)


@pytest.mark.parametrize(("stride", "pad", "dilation", "groups"), [(1, 0, 1, 1), (2, 1, 1, 3), (1, 2, 2, 2)])
def test_convolutions(stride: int, pad: int, dilation: int, groups: int, tmp_path: Path) -> None:
    weight, bias = drawn(6, 6 // groups, 3, 3, seed=3), drawn(6, seed=4)
    common = f"num_output: 6 kernel_size: 3 stride: {stride} dilation: {dilation} group: {groups}"
    text = f"convolution_param {{ {common} pad: {pad} }}"
    (found,) = results(tmp_path, layer("Convolution", text), weight, bias).values()
    wide = np.pad(X, ((0, 0), (0, 0), (pad, pad), (pad, pad))).astype(np.float64)
    reach, inner = 2 * dilation + 1, 6 // groups
    high, across = ((n + 2 * pad - reach) // stride + 1 for n in (5, 7))
    y = np.zeros((2, 6, high, across))
    for f in range(6):
        g = f // inner
        for i in range(high):
            for j in range(across):
                part = wide[:, g * inner : (g + 1) * inner, i * stride :, j * stride :][
                    :, :, :reach:dilation, :reach:dilation
                ]
                y[:, f, i, j] = (part * weight[f]).sum((1, 2, 3)) + bias[f]
    close(found, y)
    # The transposed one spreads every element over its window.
    text = f"convolution_param {{ {common} bias_term: false }}"
    (found,) = results(tmp_path, layer("Deconvolution", text), weight).values()
    y = np.zeros((2, 6, 4 * stride + reach, 6 * stride + reach))
    for c in range(6):
        g = c // inner
        for i in range(5):
            for j in range(7):
                spread = X[:, c, i, j][:, None, None, None] * weight[c]
                y[
                    :,
                    g * inner : (g + 1) * inner,
                    i * stride : i * stride + reach : dilation,
                    j * stride : j * stride + reach : dilation,
                ] += spread
    close(found, y)


def test_several_results(tmp_path: Path) -> None:
    text = layer("Slice", "slice_param { axis: 1 slice_point: 1 slice_point: 4 }", tops=("a", "b", "c"))
    found = results(tmp_path, text)
    for name, part in {"a": X[:, :1], "b": X[:, 1:4], "c": X[:, 4:]}.items():
        close(found[name], part)
    crop = layer("Slice", "slice_param { slice_dim: 2 slice_point: 3 }", tops=("a", "b"))
    crop += (
        'layer { name: "c" type: "Crop" bottom: "x" bottom: "b" top: "y" crop_param { axis: 2 offset: 1 offset: 0 } }'
    )
    close(results(tmp_path, crop)["y"], X[:, :, 1:3])


def test_prior_boxes(tmp_path: Path) -> None:
    """A place of one box of each kind, worked out by hand: 10 x 10 in a picture of 5 x 7 places of 8 elements."""
    data = 'layer { name: "i" type: "Input" top: "img" input_param { shape { dim: 1 dim: 3 dim: 40 dim: 56 } } }'
    text = "prior_box_param { min_size: 10 max_size: 40 aspect_ratio: 4 variance: [0.1, 0.1, 0.2, 0.2] }"
    graph = read_model(network(tmp_path, data + layer("PriorBox", text, ("x", "img")), {}, X.shape))
    (found,) = interpret(graph, {"x": X, "img": np.zeros((1, 3, 40, 56), np.float32)}).values()
    assert found.shape == (1, 2, 5 * 7 * 4 * 4)
    boxes = found[0, 0].reshape(5, 7, 4, 4)
    center = np.array([20 / 56, 12 / 40] * 2)
    for n, (wide, high) in enumerate([(10, 10), (20, 20), (20, 5), (5, 20)]):
        half = np.array([-wide / 112, -high / 80, wide / 112, high / 80])
        np.testing.assert_allclose(boxes[1, 2, n], center + half, atol=1e-6)
    np.testing.assert_allclose(found[0, 1, :4], [0.1, 0.1, 0.2, 0.2])


OLD = {
    1: 'layers { name: "l" type: INNER_PRODUCT bottom: "x" top: "y" inner_product_param { num_output: 3 } }',
    0: 'layers { layer { name: "l" type: "innerproduct" num_output: 3 biasterm: true } bottom: "x" top: "y" }',
}


@pytest.mark.parametrize("version", OLD)
def test_older_descriptions(version: int, tmp_path: Path) -> None:
    weight, bias = drawn(3, 210), drawn(3)
    (found,) = results(tmp_path, OLD[version], weight, bias).values()
    close(found, X.reshape(2, -1) @ weight.T + bias)


def test_layers_of_training_are_left_out(tmp_path: Path) -> None:
    text = layer("ReLU", "include { phase: TRAIN }", tops=("t",)) + layer("Accuracy", bottoms=("x", "x"), tops=("a",))
    assert list(results(tmp_path, text + layer("AbsVal"))) == ["y"]


REFUSED = {
    "unknown": (layer("Sparkle"), "E0104", "the layer Sparkle"),
    "no weights": (layer("PReLU"), "E0103", "no slope"),
    "kernel": (layer("Convolution", "convolution_param { num_output: 2 }"), "E0109", "kernel (0, 0)"),
    "number": (layer("Tile", "tile_param { tiles: many }"), "E0109", "not a number"),
    "order": (layer("Permute", "permute_param { order: 9 }"), "E0109", "the order"),
    "dangling": (layer("ReLU", bottoms=("z",)), "E0103", 'nothing makes "z"'),
    "brace": ("layer {", "E0103", "is not as a prototxt"),
    "data": (layer("Data", bottoms=()), "E0105", "deploy.prototxt"),
    "code": (layer("Python"), "E0104", "the layer Python"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str, tmp_path: Path) -> None:
    text, code, says = REFUSED[name]
    with pytest.raises(SternaError) as caught:
        read_model(network(tmp_path, text, {}, X.shape))
    assert set(caught.value.codes) == {code}
    assert says in str(caught.value)
    assert "net.prototxt" in str(caught.value)


def test_a_translation_of_ones_own(tmp_path: Path) -> None:
    def sparkle(t: Any) -> Any:
        return t.op("mul", t.x, t.number(t.settings("sparkle_param").number("factor")))

    with sterna.frontends.register("caffe", "Sparkle", sparkle):
        close(results(tmp_path, layer("Sparkle", "sparkle_param { factor: 3 }"))["y"], X * 3)


def test_damaged_files_are_refused_or_read(tmp_path: Path) -> None:
    chance, codes = random.Random(7), set()
    text = layer("Convolution", "convolution_param { num_output: 2 kernel_size: 3 pad: 1 }", tops=("c",))
    text += 'layer { name: "p" type: "Pooling" bottom: "c" top: "p" pooling_param { kernel_size: 2 stride: 2 } }'
    text += 'layer { name: "r" type: "Reshape" bottom: "p" top: "y" reshape_param { shape { dim: 0 dim: -1 } } }'
    path = network(tmp_path, text, {"l": [drawn(2, 6, 3, 3), drawn(2)]}, X.shape)
    files = {each: each.read_bytes() for each in (path, path.with_suffix(".caffemodel"))}
    for _ in range(300):
        for each, content in files.items():
            changed = bytearray(content)
            for _ in range(chance.choice((1, 2, 6))):
                at = chance.randrange(len(changed))
                if chance.random() < 0.3:
                    del changed[at : at + chance.randrange(1, 30)]
                elif chance.random() < 0.5:
                    changed[at] = chance.randrange(256)
                else:
                    changed[at:at] = str(chance.choice((0, -1, 7, 99, 10**6, 10**12))).encode()
            each.write_bytes(bytes(changed))
        try:
            read_model(path)
        except SternaError as mistake:
            codes |= set(mistake.codes)
    assert codes
    assert not {code for code in codes if code.startswith("E09")}
