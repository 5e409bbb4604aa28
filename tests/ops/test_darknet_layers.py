"""Layers of DarkNet beside NumPy, written from what DarkNet's own C does; damaged files."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sterna
from sterna.debug.interpret import interpret
from sterna.errors import SternaError
from sterna.frontends.formats import read_model
from support.darknet_networks import convolved, drawn, network, sigmoid

Array = np.ndarray


def result(folder: Path, sections: str, weights: list[Array], x: Array) -> Array:
    """What the last layer gives."""
    graph = read_model(network(folder, sections, weights, x.shape[1:]))
    return list(interpret(graph, {"data": x}).values())[-1]


def close(ours: Array, theirs: Array) -> None:
    assert ours.shape == theirs.shape
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=2e-5)


X = drawn(1, 4, 6, 8)


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from([1, 2, 3, 5]), st.sampled_from([1, 2]), st.sampled_from([1, 2]), st.booleans(),
    st.sampled_from([1, 2, 4]), st.booleans(),
)  # fmt: skip
def test_convolutions(
    tmp_path_factory: pytest.TempPathFactory,
    size: int,
    stride: int,
    dilation: int,
    pad: bool,
    groups: int,
    normalized: bool,
) -> None:
    reach = (size - 1) * dilation + 1
    if not pad and reach > 6:
        return
    bias, scale, mean = (drawn(8, seed=n) for n in (2, 3, 4))
    variance, kernel = drawn(8, seed=5, positive=True), drawn(8, 4 // groups, size, size, seed=6)
    text = f"[convolutional]\nfilters=8\nsize={size}\nstride={stride}\nstride_x=1\ndilation={dilation}\n"
    text += f"pad={int(pad)}\ngroups={groups}\n"
    text += f"activation=leaky\nbatch_normalize={int(normalized)}\n"
    weights = [bias, *([scale, mean, variance] if normalized else []), kernel]
    found = result(tmp_path_factory.mktemp("net"), text, weights, X)
    one = dilation if size > 1 else 1
    y = convolved(X, kernel, (stride, 1), size // 2 * one if pad else 0, one, groups)
    if normalized:
        y = (y - mean[:, None, None]) / np.sqrt(variance[:, None, None] + 1e-5) * scale[:, None, None]
    y = y + bias[:, None, None]
    close(found, np.where(y > 0, y, 0.1 * y))


ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "linear": lambda x: x, "logistic": sigmoid, "loggy": lambda x: 2 * sigmoid(x) - 1,
    "relu": lambda x: np.maximum(x, 0),
    "relu6": lambda x: np.clip(x, 0, 6), "elu": lambda x: np.where(x >= 0, x, np.exp(x) - 1),
    "relie": lambda x: np.where(x > 0, x, 0.01 * x), "ramp": lambda x: x * (x > 0) + 0.1 * x,
    "leaky": lambda x: np.where(x > 0, x, 0.1 * x), "tanh": np.tanh,
    "plse": lambda x: np.where(x < -4, 0.01 * (x + 4), np.where(x > 4, 0.01 * (x - 4) + 1, 0.125 * x + 0.5)),
    "stair": lambda x: np.where(np.floor(x) % 2 == 0, np.floor(x / 2), x - np.floor(x) + np.floor(x / 2)),
    "hardtan": lambda x: np.clip(x, -1, 1),
    "lhtan": lambda x: np.where(x < 0, 0.001 * x, np.where(x > 1, 0.001 * (x - 1) + 1, x)),
    "swish": lambda x: x * sigmoid(x), "mish": lambda x: x * np.tanh(np.log1p(np.exp(x))),
    "hard_mish": lambda x: np.where(x > 0, x, np.where(x > -2, x * x / 2 + x, 0)),
    "gelu": lambda x: 0.5 * x * (1 + np.tanh(0.797885 * x + 0.035677 * x**3)),
    "selu": lambda x: np.where(x >= 0, 1.0507 * x, 1.0507 * 1.6732 * (np.exp(x) - 1)),
    "normalize_channels": lambda x: np.maximum(x, 0) / (np.maximum(x, 0).sum(1, keepdims=True) + 1e-4),
    "normalize_channels_softmax_maxval": lambda x: (
        np.exp(x - x.max(1, keepdims=True)) / (np.exp(x - x.max(1, keepdims=True)).sum(1, keepdims=True) + 1e-4)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations(name: str, tmp_path: Path) -> None:
    x = X * 4
    found = result(tmp_path, f"[activation]\nactivation={name}\n", [], x)
    np.testing.assert_allclose(found, ACTIVATIONS[name](x.astype(np.float64)), rtol=2e-4, atol=2e-4)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 5), st.integers(1, 3), st.integers(0, 4))
def test_max_pools(tmp_path_factory: pytest.TempPathFactory, size: int, stride: int, padding: int) -> None:
    if padding // 2 >= size or size > 6 + padding:
        return
    found = result(
        tmp_path_factory.mktemp("net"), f"[maxpool]\nsize={size}\nstride={stride}\npadding={padding}\n", [], X
    )
    counts = [(n + padding - size) // stride + 1 for n in (6, 8)]
    wide = np.pad(X, ((0, 0), (0, 0), (9, 9), (9, 9)), constant_values=-np.inf)
    y = np.zeros((1, 4, *counts), np.float32)
    for i in range(counts[0]):
        for j in range(counts[1]):
            row, column = (9 + n * stride - padding // 2 for n in (i, j))
            y[:, :, i, j] = wide[:, :, row : row + size, column : column + size].max((2, 3))
    close(found, y)


def test_the_usual_max_pool_and_that_over_channels(tmp_path: Path) -> None:
    close(result(tmp_path, "[maxpool]\nsize=2\nstride=2\n", [], X), X.reshape(1, 4, 3, 2, 4, 2).max((3, 5)))
    close(result(tmp_path, "[maxpool]\nmaxpool_depth=1\nout_channels=2\n", [], X), X.reshape(1, 2, 2, 6, 8).max(1))
    close(result(tmp_path, "[avgpool]\n", [], X), X.mean((2, 3), keepdims=True))


def test_connected(tmp_path: Path) -> None:
    bias, matrix, scale, mean = drawn(5, seed=2), drawn(5, 192, seed=3), drawn(5, seed=4), drawn(5, seed=6)
    variance = drawn(5, seed=7, positive=True)
    rows = X.reshape(1, -1)
    close(result(tmp_path, "[connected]\noutput=5\nactivation=linear\n", [bias, matrix], X), rows @ matrix.T + bias)
    text = "[connected]\noutput=5\nbatch_normalize=1\nactivation=relu\n"
    found = result(tmp_path, text, [bias, matrix, scale, mean, variance], X)
    close(found, np.maximum((rows @ matrix.T - mean) / np.sqrt(variance + 1e-5) * scale + bias, 0))


def test_local(tmp_path: Path) -> None:
    """A kernel for every place."""
    places, bias = 4 * 6, drawn(3, 24, seed=2)
    kernels = drawn(places, 3, 4, 3, 3, seed=3)
    found = result(tmp_path, "[local]\nfilters=3\nsize=3\nactivation=linear\n", [bias, kernels], X)
    y = np.zeros((1, 3, 4, 6))
    for i in range(4):
        for j in range(6):
            y[0, :, i, j] = (kernels[i * 6 + j] * X[0, None, :, i : i + 3, j : j + 3]).sum((1, 2, 3)) + bias[
                :, i * 6 + j
            ]
    close(found, y)


@pytest.mark.parametrize("pad", [0, 1, -1])
def test_local_windows_of_too_many_elements_are_refused(tmp_path: Path, pad: int) -> None:
    """Each becomes a slice."""
    with pytest.raises(SternaError, match="E0109"):
        read_model(network(tmp_path, f"[local]\nfilters=2\nsize=65536\npad={pad}\n", [drawn(8)]))


def test_deconvolutional(tmp_path: Path) -> None:
    bias, kernel = drawn(3), drawn(X.shape[1], 3, 3, 3)
    text = "[deconvolutional]\nfilters=3\nsize=3\nstride=2\npad=1\nactivation=linear\n"
    (batch, _, high, wide), big = X.shape, np.zeros((X.shape[0], 3, 2 * X.shape[2] + 1, 2 * X.shape[3] + 1))
    for row in range(high):
        for column in range(wide):
            part = np.einsum("bc,cnij->bnij", X[:, :, row, column], kernel)
            big[:, :, 2 * row : 2 * row + 3, 2 * column : 2 * column + 3] += part
    expected = big[:, :, 1:-1, 1:-1] + bias[:, None, None]
    assert expected.shape == (batch, 3, 2 * high - 1, 2 * wide - 1)
    close(result(tmp_path, text, [bias, kernel], X), expected)


def test_batch_norm(tmp_path: Path) -> None:
    bias, scale, mean, variance = drawn(4, seed=2), drawn(4, seed=3), drawn(4, seed=4), drawn(4, seed=5, positive=True)
    each = (value[:, None, None] for value in (bias, scale, mean, variance))
    b, s, m, v = each
    close(result(tmp_path, "[batchnorm]\n", [bias, scale, mean, variance], X), (X - m) / np.sqrt(v + 1e-5) * s + b)


RELU = "[activation]\nactivation=relu\n"


def test_layers_that_read_others(tmp_path: Path) -> None:
    low = np.maximum(X, 0)
    text = RELU + "[activation]\nactivation=logistic\n"
    upper = sigmoid(low)
    close(result(tmp_path, text + "[route]\nlayers=-1,0\n", [], X), np.concatenate([upper, low], 1))
    close(
        result(tmp_path, text + "[route]\nlayers=-1,0\ngroups=2\ngroup_id=1\n", [], X),
        np.concatenate([upper[:, 2:], low[:, 2:]], 1),
    )
    close(result(tmp_path, text + "[shortcut]\nfrom=-2\nactivation=leaky\n", [], X), upper + low)
    close(result(tmp_path, text + "[sam]\nfrom=0\n", [], X), upper * low)
    scaled = result(tmp_path, text + "[avgpool]\n[scale_channels]\nfrom=0\n", [], X)
    close(scaled, low * upper.mean((2, 3), keepdims=True))
    narrow = result(tmp_path, text + "[route]\nlayers=0\ngroups=2\n[shortcut]\nfrom=1\n", [], X)
    close(narrow, low[:, :2] + upper[:, :2])
    wider = result(tmp_path, text + "[route]\nlayers=0,1\n[shortcut]\nfrom=1\n", [], X)
    close(wider, np.concatenate([low + upper, upper], 1))


@pytest.mark.parametrize("kind", ["per_feature", "per_channel"])
@pytest.mark.parametrize("normalization", ["none", "relu", "softmax"])
def test_weighted_shortcuts(kind: str, normalization: str, tmp_path: Path) -> None:
    low, count = np.maximum(X, 0), 4 if kind == "per_channel" else 1
    upper, weights = sigmoid(low), drawn(2, count, seed=9)
    text = f"{RELU}[activation]\nactivation=logistic\n[shortcut]\nfrom=0\nweights_type={kind}\n"
    text += f"weights_normalization={normalization}\n"
    w = weights.astype(np.float64)
    if normalization == "relu":
        w = np.maximum(w, 0) / (np.maximum(w, 0).sum(0) + 1e-4)
    elif normalization == "softmax":
        w = np.exp(w - w.max(0)) / (np.exp(w - w.max(0)).sum(0) + 1e-4)
    w = np.broadcast_to(w, (2, 4))[:, :, None, None]
    close(result(tmp_path, text, [weights], X), upper * w[0] + low * w[1])


def reorganized(x: Array, out_w: int, out_h: int, out_c: int, stride: int) -> Array:
    """DarkNet's reorg_cpu, index by index, with forward=0."""
    flat, found = x.reshape(-1), np.zeros(x.size, np.float32)
    in_c = out_c // (stride * stride)
    for k in range(out_c):
        for j in range(out_h):
            for i in range(out_w):
                c2, offset = k % in_c, k // in_c
                w2, h2 = i * stride + offset % stride, j * stride + offset // stride
                found[i + out_w * (j + out_h * k)] = flat[w2 + out_w * stride * (h2 + out_h * stride * c2)]
    return found.reshape(1, x.shape[1] * stride * stride, x.shape[2] // stride, x.shape[3] // stride)


def test_reorganizations(tmp_path: Path) -> None:
    close(result(tmp_path, "[reorg]\nstride=2\n", [], X), reorganized(X, 8, 6, 4, 2))
    close(result(tmp_path, "[reorg3d]\nstride=2\n", [], X), reorganized(X, 4, 3, 16, 2))


def test_sizes(tmp_path: Path) -> None:
    close(result(tmp_path, "[upsample]\nstride=2\nscale=0.5\n", [], X), X.repeat(2, 2).repeat(2, 3) * 0.5)
    close(result(tmp_path, "[upsample]\nstride=-2\n", [], X), X.reshape(1, 4, 3, 2, 4, 2).sum((3, 5)))
    close(result(tmp_path, "[crop]\ncrop_height=4\ncrop_width=6\n", [], X), X[:, :, 1:5, 1:7] * 2 - 1)
    close(result(tmp_path, "[crop]\ncrop_height=4\ncrop_width=6\nnoadjust=1\n", [], X), X[:, :, 1:5, 1:7])


def softened(x: Array, axis: int) -> Array:
    power = np.exp(x - x.max(axis, keepdims=True))
    return power / power.sum(axis, keepdims=True)


def test_softmax(tmp_path: Path) -> None:
    found = result(tmp_path, "[softmax]\ngroups=4\ntemperature=2\n", [], X)
    close(found, softened(X.reshape(1, 4, 48) / 2, 2).reshape(X.shape))
    mean = (X**2).copy()
    sums = np.stack([mean[:, max(c - 1, 0) : c + 2].sum(1) for c in range(4)], 1)
    close(result(tmp_path, "[normalization]\nsize=3\nalpha=0.2\n", [], X), X / (1 + 0.2 * sums) ** 0.75)


@pytest.mark.parametrize(
    ("settings_", "scale"), [("", 1.0), ("scale_x_y=1.2\n", 1.2), ("new_coords=1\nscale_x_y=2\n", 2.0)]
)
def test_yolo(settings_: str, scale: float, tmp_path: Path) -> None:
    x = drawn(1, 2 * 8, 3, 5)
    path = network(
        tmp_path, f"[activation]\nactivation=linear\n[yolo]\nclasses=3\nmask=0,1\n{settings_}", [], x.shape[1:]
    )
    graph = read_model(path)
    assert graph.output_names == ("layer0_activation", "layer1_yolo")
    y = x.reshape(1, 2, 8, 3, 5).astype(np.float64)
    if "new_coords" not in settings_:
        y = np.concatenate([sigmoid(y[:, :, :2]), y[:, :, 2:4], sigmoid(y[:, :, 4:])], 2)
    y[:, :, :2] = y[:, :, :2] * scale - 0.5 * (scale - 1)
    close(list(interpret(graph, {"data": x}).values())[1], y.reshape(x.shape))


def test_older_and_other_detectors(tmp_path: Path) -> None:
    x = drawn(1, 2 * 8, 3, 5)
    y = x.reshape(1, 2, 8, 3, 5)
    y = np.concatenate([y[:, :, :4], sigmoid(y[:, :, 4:5]), softened(y[:, :, 5:], 2)], 2)
    close(result(tmp_path, "[region]\nclasses=3\nsoftmax=1\n", [], x), y.transpose(0, 3, 4, 1, 2).reshape(1, 3, 5, 16))
    x = drawn(1, 11, 3, 5)
    y = sigmoid(x)
    y[:, [4, 6]] = x[:, [4, 6]]
    close(result(tmp_path, "[Gaussian_yolo]\nclasses=2\n", [], x), y)
    x = drawn(1, 2 * 2 * 3 + 8)
    y = np.concatenate([softened(x[:, :12].reshape(1, 4, 3), 2).reshape(1, 12), x[:, 12:]], 1)
    close(result(tmp_path, "[detection]\nside=2\nclasses=3\nsoftmax=1\n", [], x), y)


# ---------------------------------------------------------------- what is refused
CONV = "[convolutional]\nfilters=2\nsize=1\nactivation=linear\n"
REFUSED = {
    "unknown": ("[sparkle]\n[iseg]\noutput=3\n", "E0104", "[sparkle] is not supported"),
    "few": (CONV, "E0103", "numbers left where the layer needs"),
    "binary": ("[convolutional]\nbinary=1\n", "E0113", "binary=1"),
    "activation": ("[activation]\nactivation=sparkle\n", "E0113", "the activation sparkle"),
    "number": ("[maxpool]\nsize=large\n", "E0109", '"large", not a number'),
    "reads later": ("[route]\nlayers=3\n", "E0103", "no layer 3"),
    "groups": ("[route]\nlayers=0\n", "E0103", "no layer 0"),
    "window": ("[maxpool]\nsize=40\npadding=0\n", "E0108", "does not fit"),
    "line": ("[maxpool]\nsize 3\n", "E0103", "no setting"),
    "boxes": ("[yolo]\nclasses=9\n", "E0108", "no boxes of 14"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str, tmp_path: Path) -> None:
    text, code, says = REFUSED[name]
    with pytest.raises(SternaError) as caught:
        read_model(network(tmp_path, text, []))
    assert set(caught.value.codes) == {code}
    assert says in str(caught.value)
    assert "model.cfg" in str(caught.value)


def test_all_that_is_not_supported_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(SternaError) as caught:
        read_model(network(tmp_path, REFUSED["unknown"][0], []))
    assert len(caught.value.diagnostics) == 2
    assert 'register("darknet", "sparkle", translate)' in str(caught.value)


def test_a_translation_of_ones_own(tmp_path: Path) -> None:
    def sparkle(t: Any) -> Any:
        return t.op("mul", t.x, t.number(t.section.number_of("factor")))

    with sterna.frontends.register("darknet", "sparkle", sparkle):
        close(result(tmp_path, "[sparkle]\nfactor=3\n", [], X), X * 3)


def test_damaged_files_are_refused_or_read(tmp_path: Path) -> None:
    chance = random.Random(5)
    weights = [drawn(4), drawn(4, 4, 1, 1), drawn(2), drawn(2, 4, 3, 3)]
    text = "[conv]\nfilters=4\nsize=1\n[maxpool]\nsize=2\nstride=2\n[conv]\nfilters=2\nsize=3\npad=1\n"
    text += "[route]\nlayers=-1,-2\n"
    path = network(tmp_path, text, weights)
    files = {each: each.read_bytes() for each in (path, path.with_suffix(".weights"))}
    codes = set()
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


def test_lengths_of_places(tmp_path: Path) -> None:
    close(result(tmp_path, "[l2norm]\n", [], X), X / np.sqrt((X**2).sum(1, keepdims=True)))


def test_learned_tensors(tmp_path: Path) -> None:
    """They scale channels, or stand beside them, as YOLOR's do."""
    learned = drawn(4, 1, 1, seed=9)
    text = "[activation]\nactivation=linear\n[implicit]\nfilters=4\n[scale_channels]\nfrom=-2\nscale_wh=0\n"
    (folder := tmp_path / "net").mkdir()
    graph = read_model(network(folder, "[silence]\n[implicit]\nfilters=4\natoms=2\n", [drawn(4, 2, 1)], X.shape[1:]))
    (found,) = interpret(graph, {"data": X}).values()
    np.testing.assert_array_equal(found, drawn(4, 2, 1)[None])
    close(result(tmp_path, text, [learned], X), X * learned)
