"""Weights of few bits with a scale per block: what they give, and that they stay as small as they are.

Expected is what the definition says, in float64 on the widened weights; where the activations may be rounded to 8 bits,
that of the rounded ones.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import sterna
from sterna.debug.interpret import interpret
from sterna.frontends.onnx import read
from sterna.pipeline import optimize


class Weights:
    """Random codes (N, K), scales and zero points (N, blocks), and what they stand for."""

    def __init__(self, n: int, k: int, block: int, bits: int, zeros: bool, seed: int = 0):
        random = np.random.default_rng(seed)
        self.n, self.k, self.block, self.bits = n, k, block, bits
        self.blocks = -(-k // block)
        self.codes = random.integers(0, 1 << bits, (n, self.blocks * block)).astype(np.uint8)
        self.scales = random.uniform(0.005, 0.02, (n, self.blocks)).astype(np.float32)
        middle = np.full((n, self.blocks), 1 << (bits - 1), np.uint8)
        self.zeros = random.integers(0, 1 << bits, middle.shape).astype(np.uint8) if zeros else middle
        self.given = zeros

    @property
    def wide(self) -> np.ndarray:
        """The numbers, (K, N)."""
        zeros, scales = (np.repeat(v, self.block, 1).astype(np.float64) for v in (self.zeros, self.scales))
        return np.asarray(((self.codes - zeros) * scales)[:, : self.k].T)

    def packed(self, codes: np.ndarray) -> np.ndarray:
        parts = 8 // self.bits
        codes = np.pad(codes, ((0, 0), (0, -codes.shape[1] % parts)))
        whole = np.zeros((codes.shape[0], codes.shape[1] // parts), np.uint8)
        for n in range(parts):
            whole |= codes[:, n::parts] << (n * self.bits)
        return whole

    def model(self, rows: int, level: int = 0, dtype: type = np.float32) -> onnx.ModelProto:
        """A model of one MatMulNBits."""
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        constants = {"w": self.packed(self.codes).reshape(self.n, self.blocks, -1), "s": self.scales.astype(dtype)}
        if self.given:
            constants["z"] = self.packed(self.zeros)
        node = helper.make_node(
            "MatMulNBits", ["x", *constants], ["y"], domain="com.microsoft", K=self.k, N=self.n, bits=self.bits,
            block_size=self.block, accuracy_level=level,
        )  # fmt: skip
        return _model([node], rows, self.k, constants, kind)


def _model(
    nodes: list, rows: int, depth: int, constants: dict[str, np.ndarray], kind: int = TensorProto.FLOAT
) -> bytes:
    graph = helper.make_graph(
        nodes, "product", [helper.make_tensor_value_info("x", kind, [rows, depth])],
        [helper.make_tensor_value_info("y", kind, None)],
        [v if hasattr(v, "data_type") else numpy_helper.from_array(v, n) for n, v in constants.items()],
    )  # fmt: skip
    sets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=sets, ir_version=10)


def _activations(rows: int, depth: int) -> np.ndarray:
    return np.random.default_rng(9).standard_normal((rows, depth)).astype(np.float32)


def _apart(found: np.ndarray, expected: np.ndarray) -> float:
    return float(np.abs(found.astype(np.float64) - expected).max() / np.abs(expected).max())


@pytest.mark.family("host-llvm")
@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize(("block", "k"), [(16, 48), (32, 100), (128, 256)])
@pytest.mark.parametrize("zeros", [False, True])
def test_products_are_as_accurate_as_in_float32(bits: int, block: int, k: int, zeros: bool) -> None:
    weights = Weights(40, k, block, bits, zeros)
    for rows in (1, 5):
        x = _activations(rows, k)
        found = sterna.compile(weights.model(rows), generator="llvm").run({"x": x})["y"]
        assert _apart(found, x.astype(np.float64) @ weights.wide) < 1e-6


def _is_near(found: np.ndarray, x: np.ndarray, weights: Weights) -> bool:
    """Beside what is added up, since sums may cancel, and all numbers may be zero; activations are as exact as the
    greatest of their block."""
    wide, block = np.abs(weights.wide), weights.block
    greatest = (np.abs(x[:, k : k + block]).max(1, keepdims=True) for k in range(0, weights.k, block))
    size = sum(most * wide[n * block : (n + 1) * block].sum(0) for n, most in enumerate(greatest))
    return bool((np.abs(found - x.astype(np.float64) @ weights.wide) <= 1e-6 * size).all())


@st.composite
def block_weights(draw: st.DrawFn) -> tuple[Weights, int]:
    """Weights of any size, the last block maybe cut, and a number of rows."""
    block = draw(st.sampled_from([16, 32, 64]))
    n, k, rows = draw(st.integers(1, 50)), draw(st.integers(1, 130)), draw(st.integers(1, 9))
    bits, zeros = draw(st.sampled_from([2, 4, 8])), draw(st.booleans())
    return Weights(n, k, block, bits, zeros, seed=draw(st.integers(0, 99))), rows


@settings(max_examples=30, deadline=None, derandomize=True, database=None)
@given(block_weights())
def test_products_of_any_size(drawn: tuple[Weights, int]) -> None:
    """What the graph computes: the digits of the activations and the sums of blocks."""
    weights, rows = drawn
    x = _activations(rows, weights.k)
    found = interpret(optimize(read(weights.model(rows)), check=True), {"x": x})["y"]
    assert _is_near(found, x, weights)


@pytest.mark.family("host-llvm")
@settings(max_examples=8, deadline=None, derandomize=True, database=None)
@given(block_weights())
def test_compiled_products_of_any_size(drawn: tuple[Weights, int]) -> None:
    weights, rows = drawn
    x = _activations(rows, weights.k)
    found = sterna.compile(weights.model(rows), generator="llvm").run({"x": x})["y"]
    assert _is_near(found, x, weights)


@pytest.mark.family("host-llvm")
@pytest.mark.parametrize("zeros", [False, True])
def test_activations_of_8_bits_are_those_of_onnx_runtime(zeros: bool) -> None:
    weights = Weights(48, 96, 32, 4, zeros)
    x = _activations(3, 96)
    model = weights.model(3, level=4)
    found = sterna.compile(model, generator="llvm").run({"x": x})["y"]
    blocks = x.reshape(3, 3, 32)
    step = np.abs(blocks).max(2, keepdims=True) / 127
    rounded = (np.rint(blocks / step) * step).reshape(3, 96)
    assert _apart(found, rounded @ weights.wide) < 1e-6
    assert _apart(found, x.astype(np.float64) @ weights.wide) > 1e-5, "they are not rounded"


@pytest.mark.family("host-llvm")
def test_a_float16_model_agrees_with_onnx_runtime() -> None:
    weights = Weights(33, 64, 16, 4, zeros=True)
    model, x = weights.model(2, dtype=np.float16), _activations(2, 64).astype(np.float16)
    (expected,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    bundle = sterna.compile(model, generator="llvm")
    assert _apart(bundle.run({"x": x})["y"], expected) < 2e-3


@pytest.mark.parametrize("target", ["c99", "x86-64-v2", "x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize("generator", ["c", "llvm"])
def test_the_weights_stay_as_they_are(tmp_path: Path, target: str, generator: str) -> None:
    """Half a byte each, and what the scale of a block takes in the model."""
    if (target, generator) == ("c99", "llvm"):
        generator = "c"
    weights = Weights(64, 512, 32, 4, zeros=False)
    for dtype, scale in ((np.float32, 4), (np.float16, 2)):
        path = tmp_path / np.dtype(dtype).name
        sterna.compile_to(path, weights.model(1, dtype=dtype), target=target, generator=generator)
        size = (path / "params.bin").stat().st_size
        wanted = 64 * 512 // 2 + 64 * 512 // 32 * scale
        assert wanted <= size <= wanted + 256


@pytest.mark.family("host-llvm")
def test_extreme_activations_neither_overflow_nor_vanish() -> None:
    """The largest of a block, blocks of zeros, numbers near the ends of float32, and what is no number."""
    weights = Weights(16, 64, 32, 4, zeros=True)
    bundle = sterna.compile(weights.model(1), generator="llvm")
    rows = (np.zeros(64), np.eye(64)[3] * 1e30, np.eye(64)[40] * 1e-20, np.full(64, -7.0), np.arange(64) - 31.0)
    for row in rows:
        x = row.astype(np.float32).reshape(1, 64)
        expected = x.astype(np.float64) @ weights.wide
        found = bundle.run({"x": x})["y"]
        assert np.abs(found - expected).max() <= 1e-6 * np.abs(x).max() * np.abs(weights.wide).sum(0).max()
    x = np.zeros((1, 64), np.float32)
    x[0, 5] = np.nan
    assert np.isnan(bundle.run({"x": x})["y"]).all()


def test_rows_may_be_open() -> None:
    weights = Weights(24, 64, 32, 4, zeros=False)
    node = helper.make_node(
        "MatMulNBits", ["x", "w", "s"], ["y"], domain="com.microsoft", K=64, N=24, bits=4, block_size=32
    )
    graph = helper.make_graph(
        [node], "open", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(weights.packed(weights.codes).reshape(24, 2, 16), "w"),
         numpy_helper.from_array(weights.scales, "s")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("com.microsoft", 1)], ir_version=10)
    bundle = sterna.compile(model, dims={"rows": (1, 9)})
    for rows in (1, 4, 9):
        x = _activations(rows, 64)
        assert _apart(bundle.run({"x": x})["y"], x.astype(np.float64) @ weights.wide) < 1e-6


def _narrow(values: np.ndarray, kind: int, name: str) -> TensorProto:
    return helper.make_tensor(name, kind, values.shape, values.reshape(-1).tolist())


@pytest.mark.family("host-llvm")
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("form", ["blocks", "columns", "tensor"])
@pytest.mark.parametrize("way", ["matmul", "transpose", "gemm"])
def test_weights_that_are_widened_first_stay_narrow(signed: bool, form: str, way: str) -> None:
    random = np.random.default_rng(2)
    k, n, block = 48, 20, 16
    kind = TensorProto.INT4 if signed else TensorProto.UINT4
    low, high = (-8, 8) if signed else (0, 16)
    codes = random.integers(low, high, (k, n))
    shape = {"blocks": (k // block, n), "columns": (n,), "tensor": ()}[form]
    scales = random.uniform(0.01, 0.02, shape).astype(np.float32)
    zeros = random.integers(low, high, shape)
    wide = {
        "blocks": lambda v: np.repeat(v, block, 0), "columns": lambda v: v[None], "tensor": lambda v: v
    }[form]  # fmt: skip
    real = (codes - wide(zeros)) * wide(scales).astype(np.float64)
    turned = way != "matmul"
    axis = 0 if form == "blocks" else 1
    given = {"axis": 1 - axis if turned else axis} if form != "tensor" else {}
    if form == "blocks":
        given["block_size"] = block

    def laid(v: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(v.T) if turned and v.ndim == 2 else v

    nodes = [helper.make_node("DequantizeLinear", ["w", "s", "z"], ["f"], **given)]
    if way == "transpose":
        nodes += [
            helper.make_node("Transpose", ["f"], ["t"], perm=[1, 0]),
            helper.make_node("MatMul", ["x", "t"], ["y"]),
        ]
    elif way == "gemm":
        nodes += [helper.make_node("Gemm", ["x", "f", "b"], ["y"], transB=1)]
    else:
        nodes += [helper.make_node("MatMul", ["x", "f"], ["y"])]
    bias = random.standard_normal(n).astype(np.float32)
    constants = {
        "w": _narrow(laid(codes), kind, "w"), "s": laid(scales), "z": _narrow(laid(zeros), kind, "z"),
        **({"b": bias} if way == "gemm" else {}),
    }  # fmt: skip
    model = _model(nodes, 3, k, constants)
    graph = read(model)
    assert [node.op for node in graph.nodes].count("matmul_blocks") == 1
    assert not any(node.op in ("decode", "matmul") for node in graph.nodes)
    x = _activations(3, k)
    expected = x.astype(np.float64) @ real + (bias if way == "gemm" else 0)
    assert _apart(sterna.compile(model, generator="llvm").run({"x": x})["y"], expected) < 1e-6
    assert _apart(interpret(graph, {"x": x})["y"], expected) < 1e-6


@pytest.mark.family("host-llvm")
def test_a_gathered_table_stays_packed(tmp_path: Path) -> None:
    weights = Weights(500, 64, 32, 4, zeros=True)
    constants = {
        "w": weights.packed(weights.codes), "s": weights.scales, "z": weights.packed(weights.zeros)
    }  # fmt: skip
    node = helper.make_node(
        "GatherBlockQuantized", ["w", "i", "s", "z"], ["y"], domain="com.microsoft", block_size=32, bits=4
    )
    graph = helper.make_graph(
        [node], "rows", [helper.make_tensor_value_info("i", TensorProto.INT64, [7])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(v, n) for n, v in constants.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("com.microsoft", 1)], ir_version=10)
    path = tmp_path / "table"
    sterna.compile_to(path, model, target="host", generator="llvm")
    chosen = np.array([0, 3, 499, 7, 7, 20, 31])
    found = sterna.load(path).run({"i": chosen})["y"]
    np.testing.assert_allclose(found, weights.wide.T[chosen], rtol=1e-6)
    assert (path / "params.bin").stat().st_size < 500 * 32 + 500 * 2 * (4 + 1) + 4096
