"""Weights stored in 16 bits: the same results, bit for bit, as with weights that were rounded before."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import sterna
from sterna.api import compile_model, compile_to
from sterna.debug.rounding import rounding_errors
from sterna.errors import SternaError
from sterna.ir.dtypes import to_numpy

NARROWED = ("kernel", "dense", "recurrence.w", "recurrence.r")
DTYPES = {"fp16": "float16", "bf16": "bfloat16"}


def model(dtype: str = "", factor: float = 1.0) -> onnx.ModelProto:
    """A convolution, a depthwise one, a dense layer and an LSTM, each an output of its own."""
    random = np.random.default_rng(16)
    weights = {
        "kernel": random.standard_normal((20, 8, 3, 3)) * factor,
        "bias": random.standard_normal(20),
        "window": random.standard_normal((8, 1, 3, 3)),
        "dense": random.standard_normal((64, 37)) * factor,
        "recurrence.w": random.standard_normal((1, 4 * 40, 40)) / 4,
        "recurrence.r": random.standard_normal((1, 4 * 40, 40)) / 4,
    }
    if dtype:
        for name in NARROWED:
            weights[name] = weights[name].astype(np.float32).astype(to_numpy(dtype))
    nodes = [
        helper.make_node("Conv", ["image", "kernel", "bias"], ["convolved"], pads=[1, 1, 1, 1]),
        helper.make_node("Conv", ["image", "window"], ["windowed"], group=8),
        helper.make_node("MatMul", ["rows", "dense"], ["product"]),
        helper.make_node("LSTM", ["steps", "recurrence.w", "recurrence.r"], ["", "last"], hidden_size=40),
    ]
    shapes = {"image": [1, 8, 9, 9], "rows": [3, 64], "steps": [5, 1, 40]}
    results = {"convolved": [1, 20, 9, 9], "windowed": [1, 8, 7, 7], "product": [3, 37], "last": [1, 1, 40]}
    graph = helper.make_graph(
        nodes,
        "stored",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items()],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in results.items()],
        [numpy_helper.from_array(w.astype(np.float32), n) for n, w in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def feeds() -> dict[str, np.ndarray]:
    random = np.random.default_rng(17)
    shapes = {"image": (1, 8, 9, 9), "rows": (3, 64), "steps": (5, 1, 40)}
    return {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


@pytest.mark.parametrize("generator", ["c", "llvm"])
@pytest.mark.parametrize("weights", DTYPES)
def test_only_the_weights_are_rounded(weights: str, generator: str, tmp_path: Path) -> None:
    narrow = compile_to(tmp_path / "narrow", model(), generator=generator, weights=weights)
    wide = compile_to(tmp_path / "wide", model(DTYPES[weights]), generator=generator)
    with sterna.load(narrow) as a, sterna.load(wide) as b:
        found, expected = a.run(feeds()), b.run(feeds())
        size, whole = a.memory()["params"], b.memory()["params"]
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)
    assert size < 0.6 * whole


@pytest.mark.parametrize("generator", ["c", "llvm"])
@pytest.mark.parametrize("target", ["x86-64-v2", "host"])
def test_every_finite_half_is_widened_exactly(target: str, generator: str, tmp_path: Path) -> None:
    """Also where no instruction converts; with one row and with many, so that panels are widened first."""
    numbers = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    weights = numbers[np.isfinite(numbers)].reshape(62, 1024)
    nodes = [
        helper.make_node("Cast", ["stored"], ["weights"], to=TensorProto.FLOAT),
        helper.make_node("MatMul", ["rows", "weights"], ["product"]),
        helper.make_node("MatMul", ["row", "weights"], ["first"]),
    ]
    graph = helper.make_graph(
        nodes, "halves",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, [m, 62]) for n, m in (("rows", 62), ("row", 1))],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, [m, 1024]) for n, m in (("product", 62), ("first", 1))],
        [numpy_helper.from_array(weights, "stored")],
    )  # fmt: skip
    mixed = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    identity = np.eye(62, dtype=np.float32)
    with sterna.load(compile_to(tmp_path / "bundle", mixed, target, generator=generator)) as bundle:
        found = bundle.run({"rows": identity, "row": identity[-1:]})
        assert bundle.memory()["params"] < 2.1 * weights.nbytes  # the product of one row packs them otherwise
    np.testing.assert_array_equal(found["product"], weights.astype(np.float32))
    np.testing.assert_array_equal(found["first"], weights[-1:].astype(np.float32))


def test_the_error_is_measured() -> None:
    checks = {c.name: c.error for c in rounding_errors(compile_model(model(), weights="bf16"), compile_model(model()))}
    assert checks.pop("windowed") == 0.0
    assert all(1e-5 < error < 2e-2 for error in checks.values())


def test_weights_that_do_not_fit() -> None:
    with pytest.raises(SternaError) as problem:
        compile_model(model(factor=1e5), weights="fp16")
    assert problem.value.codes == ("E0115",)
    (diagnostic,) = problem.value.diagnostics
    assert len(diagnostic.where) == 2
    compile_model(model(factor=1e5), weights="bf16", generator="llvm")


def test_there_is_no_such_form() -> None:
    with pytest.raises(SternaError) as problem:
        compile_model(model(), weights="int7")
    assert problem.value.codes == ("E0203",)
