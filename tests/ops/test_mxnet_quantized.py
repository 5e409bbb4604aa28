"""Quantized symbols of MXNet against NumPy: what src/operator/quantization defines, and the numbers it stands for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sterna.debug.interpret import interpret
from sterna.errors import SternaError
from sterna.frontends.formats import read_model
from sterna.frontends.frontend import ReadOptions
from support.mxnet_symbols import parameters

Array = np.ndarray
SYMMETRIC = {"int8": 127, "int32": 2**31 - 1}


class Symbol:
    """A symbol that grows operator by operator."""

    def __init__(self) -> None:
        self.nodes: list[dict[str, Any]] = []
        self.feeds: dict[str, Array] = {}
        self.weights: dict[str, Array] = {}

    def input(self, x: Array, weight: bool = False) -> list[int]:
        name = f"v{len(self.nodes)}"
        (self.weights if weight else self.feeds)[name] = x
        code = str({"int8": 5, "uint8": 3}.get(x.dtype.name, 0))
        self.nodes.append({"op": "null", "name": name, "attrs": {"__dtype__": code}, "inputs": []})
        return [len(self.nodes) - 1, 0, 0]

    def add(self, op: str, *inputs: list[int], **said: Any) -> list[list[int]]:
        attrs = {name: str(value) for name, value in said.items()}
        self.nodes.append({"op": op, "name": f"n{len(self.nodes)}", "attrs": attrs, "inputs": list(inputs)})
        return [[len(self.nodes) - 1, n, 0] for n in range(3)]

    def run(self, folder: Path, *heads: list[int]) -> list[Array]:
        variables = [n for n, node in enumerate(self.nodes) if node["op"] == "null"]
        symbol = {"nodes": self.nodes, "arg_nodes": variables, "heads": list(heads)}
        (folder / "model-symbol.json").write_text(json.dumps(symbol))
        held = {f"arg:{name}": x for name, x in self.weights.items()} or {"arg:unused": np.zeros(1, np.float32)}
        (folder / "model-0000.params").write_bytes(parameters(held))
        options = ReadOptions(shapes={name: x.shape for name, x in self.feeds.items()})
        return list(interpret(read_model(folder / "model-symbol.json", options), self.feeds).values())


def one(value: float) -> Array:
    return np.array([value], np.float32)


def quantized(x: Array, low: float, high: float, dtype: str = "int8") -> Array:
    if dtype == "uint8":
        return np.clip(np.floor((x - low) * 255 / (high - low) + 0.5), 0, 255).astype(np.uint8)
    size = max(abs(low), abs(high))
    return (np.sign(x) * np.floor(np.minimum(np.abs(x) * 127 / size + 0.5, 127))).astype(np.int8)


def drawn(*shape: int) -> Array:
    return np.random.default_rng(17).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("calibrated", [True, False])
def test_there_and_back(tmp_path: Path, dtype: str, calibrated: bool) -> None:
    x = np.abs(drawn(3, 5)) if dtype == "uint8" else drawn(3, 5)
    said = {"min_calib_range": 0.0 if dtype == "uint8" else -1.5, "max_calib_range": 1.0} if calibrated else {}
    low, high = (said["min_calib_range"], 1.0) if calibrated else (float(x.min()), float(x.max()))
    s = Symbol()
    made = s.add("_contrib_quantize_v2", s.input(x), out_type=dtype, **said)
    (back, *_) = s.add("_contrib_dequantize", *made, out_type="float32")
    y, *_, real = s.run(tmp_path, *made, back)
    wanted = quantized(x, low, high, dtype)
    np.testing.assert_array_equal(y, wanted)
    step = (high - low) / 255 if dtype == "uint8" else max(abs(low), abs(high)) / 127
    np.testing.assert_allclose(real, wanted * step + (low if dtype == "uint8" else 0), rtol=1e-4, atol=1e-6)


def test_signs_follow_the_calibration(tmp_path: Path) -> None:
    s = Symbol()
    x = s.input(np.abs(drawn(4)))
    heads = [
        s.add("_contrib_quantize_v2", x, out_type="auto", min_calib_range=low, max_calib_range=2)[0] for low in (0, -1)
    ]
    assert [y.dtype for y in s.run(tmp_path, *heads)] == [np.uint8, np.int8]


@pytest.mark.parametrize("kind", ["conv", "fully_connected"])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_products_of_integers(tmp_path: Path, kind: str, dtype: str) -> None:
    """With a bias of its own range, and back to 8 bits by a calibration."""
    rng = np.random.default_rng(17)
    x = rng.integers(0 if dtype == "uint8" else -127, 127, (2, 3, 5, 6) if kind == "conv" else (4, 6)).astype(dtype)
    w = rng.integers(-127, 128, (4, 3, 3, 3) if kind == "conv" else (5, 6)).astype(np.int8)
    b = rng.integers(-127, 128, w.shape[0]).astype(np.int8)
    s = Symbol()
    ranges = [s.input(one(value), weight=True) for value in (0.0, 2.0, -0.5, 0.4, -3.0, 2.0)]
    said = {"kernel": (3, 3), "num_filter": 4, "pad": (1, 1)} if kind == "conv" else {"num_hidden": 5}
    operands = [s.input(x), s.input(w, weight=True), s.input(b, weight=True)]
    made = s.add(f"_contrib_quantized_{kind}", *operands, *ranges, **said)
    narrow = s.add("_contrib_requantize", *made, min_calib_range=-9.0, max_calib_range=8.0)
    y, _, high, z, *_ = s.run(tmp_path, *made, *narrow)
    level = 2.0 / (255 if dtype == "uint8" else 127) * 0.5 / 127
    bias = np.round(b * (3.0 / 127) / level).astype(np.int64)
    if kind == "conv":
        padded = np.pad(x.astype(np.int64), ((0, 0), (0, 0), (1, 1), (1, 1)))
        seen = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
        wanted = np.einsum("nchwij,ocij->nohw", seen, w.astype(np.int64)) + bias[:, None, None]
    else:
        wanted = x.astype(np.int64) @ w.T.astype(np.int64) + bias
    assert y.dtype == np.int32
    assert np.abs(y - wanted).max() <= 1  # a bias between two levels
    np.testing.assert_allclose(high, level * (2.0**31 - 1), rtol=1e-6)
    assert np.abs(z.astype(int) - quantized(y * np.float32(level), -9, 9)).max() <= 1


def test_sums_products_and_joined_tensors(tmp_path: Path) -> None:
    rng = np.random.default_rng(17)
    a, b = (rng.integers(-127, 128, (3, 4)).astype(np.int8) for _ in range(2))
    s = Symbol()
    ends = [s.input(one(value)) for value in (-1.0, 1.0, -3.0, 2.0)]
    x, y = s.input(a), s.input(b)
    real = a / 127.0, b * (3 / 127.0)
    heads = []
    for name, wanted in (("add", real[0] + real[1]), ("mul", real[0] * real[1])):
        made = s.add(f"_contrib_quantized_elemwise_{name}", x, y, *ends)
        heads.append((s.add("_contrib_dequantize", *made)[0], wanted, 1e-6))
        made = s.add(f"_contrib_quantized_elemwise_{name}", x, y, *ends, min_calib_range=-4, max_calib_range=4)
        heads.append((s.add("_contrib_dequantize", *made)[0], wanted, 0.51 * 4 / 127))
    made = s.add("_contrib_quantized_concat", x, y, *ends, num_args=2, dim=1)
    heads.append((s.add("_contrib_dequantize", *made)[0], np.concatenate(real, 1), 0.51 * 3 / 127))
    for found, (_, wanted, tolerance) in zip(s.run(tmp_path, *(head[0] for head in heads)), heads, strict=True):
        np.testing.assert_allclose(found, wanted, atol=tolerance)


def test_layers_of_integers_alone(tmp_path: Path) -> None:
    rng = np.random.default_rng(17)
    x = rng.integers(-127, 128, (2, 3, 4, 4)).astype(np.int8)
    s = Symbol()
    operands = [s.input(x), s.input(one(-1)), s.input(one(1))]
    window = {"kernel": (2, 2), "stride": (2, 2)}
    tables = [s.input(np.array([2.0, 0.0], np.float32)), s.input(x[0, 0], weight=True)]
    heads = [
        s.add("_contrib_quantized_act", *operands, act_type="relu")[0],
        s.add("_contrib_quantized_flatten", *operands)[0],
        s.add("_contrib_quantized_pooling", *operands, pool_type="max", **window)[0],
        s.add("_contrib_quantized_pooling", *operands, pool_type="avg", **window)[0],
        s.add("_contrib_quantized_embedding", *tables, *operands[1:], input_dim=4, output_dim=4)[0],
    ]  # fmt: skip
    parts = x.reshape(2, 3, 2, 2, 2, 2).astype(np.float32)
    wanted = [
        np.maximum(x, 0), x.reshape(2, -1), parts.max((3, 5)), np.round(parts.mean((3, 5))), x[0, 0][[2, 0]],
    ]  # fmt: skip
    for found, each in zip(s.run(tmp_path, *heads), wanted, strict=True):
        assert found.dtype == np.int8
        np.testing.assert_array_equal(found, each)


def test_normalized_integers(tmp_path: Path) -> None:
    rng = np.random.default_rng(17)
    x = rng.integers(-127, 128, (2, 3, 4)).astype(np.int8)
    gamma, beta, mean = drawn(3), drawn(3), drawn(3)
    variance = np.abs(drawn(3)) + np.float32(0.5)
    s = Symbol()
    operands = [
        s.input(x),
        *(s.input(v, weight=True) for v in (gamma, beta, mean, variance)),
        s.input(one(-2)),
        s.input(one(2)),
    ]
    said = {"eps": 1e-3, "fix_gamma": False, "min_calib_range": -6, "max_calib_range": 6}
    (found,) = s.run(tmp_path, s.add("_contrib_quantized_batch_norm", *operands, **said)[0])
    g, b, m, v = (each[:, None] for each in (gamma, beta, mean, variance))
    wanted = quantized((x * np.float32(2 / 127) - m) / np.sqrt(v + 1e-3) * g + b, -6, 6)
    assert np.abs(found.astype(int) - wanted).max() <= 1


def test_what_is_not_quantized_is_refused(tmp_path: Path) -> None:
    s = Symbol()
    head = s.add("_contrib_dequantize", s.input(drawn(3)), s.input(one(0)), s.input(one(1)))[0]
    with pytest.raises(SternaError, match="E0108"):
        s.run(tmp_path, head)
    s = Symbol()
    operands = [s.input(np.zeros(3, np.int8)), s.input(drawn(3)), s.input(drawn(3))]
    with pytest.raises(SternaError, match="E0113"):
        s.run(tmp_path, s.add("_contrib_dequantize", *operands)[0])
