"""Operands that decide a shape and are only known at run time: the declared shape decides, and the bundle tests it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

from sterna.debug.interpret import interpret
from sterna.errors import SternaError
from sterna.frontends.onnx import read
from sterna.pipeline import optimize
from support.compiling import build

X = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
Arrays = dict[str, np.ndarray]


def i64(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def model_of(op: str, inputs: Arrays, **attributes: Any) -> onnx.ModelProto:
    """One node, all of whose operands are inputs, with the result's shape as ONNX's reference gives it."""
    node = helper.make_node(op, list(inputs), ["y"], name="node", **attributes)
    kinds = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in inputs.items()
    ]
    bare = helper.make_graph([node], "one", kinds, [helper.make_empty_tensor_value_info("y")])
    opsets = [helper.make_opsetid("", 18)]
    y = ReferenceEvaluator(helper.make_model(bare, opset_imports=opsets)).run(None, inputs)[0]
    result = helper.make_tensor_value_info("y", helper.np_dtype_to_tensor_dtype(y.dtype), y.shape)
    return helper.make_model(helper.make_graph([node], "one", kinds, [result]), opset_imports=opsets)


CASES: dict[str, tuple[str, Arrays, dict[str, Any]]] = {
    "reshape": ("Reshape", {"x": X, "s": i64(5, 12)}, {}),
    "reshape-copies": ("Reshape", {"x": X, "s": i64(0, -1)}, {}),
    "expand": ("Expand", {"x": X[:, :1], "s": i64(2, 1, 6, 1)}, {}),
    "tile": ("Tile", {"x": X, "r": i64(1, 2, 3)}, {}),
    "squeeze": ("Squeeze", {"x": X[:1, :1], "a": i64(-2)}, {}),
    "unsqueeze": ("Unsqueeze", {"x": X, "a": i64(1, -1)}, {}),
    "slice": ("Slice", {"x": X, "s": i64(-2, 4), "e": i64(9, 0), "a": i64(1, 2), "d": i64(1, -2)}, {}),
    "slice-default": ("Slice", {"x": X, "s": i64(1, 0), "e": i64(-1, 2)}, {}),
    "pad": ("Pad", {"x": X, "p": i64(1, 0, 2, 0, 1, 1), "v": np.array(7, np.float32)}, {}),
    "pad-reflect": ("Pad", {"x": X, "p": i64(1, 2, 0, 1, 0, 3)}, {"mode": "reflect"}),
    "pad-edge": ("Pad", {"x": X, "p": i64(1, 2, 0, 1, 0, 3)}, {"mode": "edge"}),
    "sum": ("ReduceSum", {"x": X, "a": i64(2, 0)}, {"keepdims": 0}),
    "max-ambiguous": ("ReduceMax", {"x": X[:, :3], "a": i64(-2)}, {"keepdims": 0}),
    "log-sum-exp": ("ReduceLogSumExp", {"x": X, "a": i64(1)}, {}),
    "cumulative": ("CumSum", {"x": X, "a": np.array(-1, np.int32)}, {"reverse": 1}),
    "range": ("Range", {"a": np.array(7, np.int64), "b": np.array(0, np.int64), "d": np.array(-2, np.int64)}, {}),
    "range-floats": ("Range", {n: np.array(v, np.float32) for n, v in (("a", 0.5), ("b", 2.0), ("d", 0.25))}, {}),
    "constant": ("ConstantOfShape", {"s": i64(2, 3)}, {}),
    "triangle": ("Trilu", {"x": X, "k": np.array(-1, np.int64)}, {"upper": 1}),
    "one-hot": ("OneHot", {"x": i64(1, 3, -1), "d": np.array(5, np.int64), "v": np.array([2, 3], np.float32)}, {}),
    "crop": ("CenterCropPad", {"x": X, "s": i64(2, 7, 5)}, {}),
}


@pytest.mark.parametrize("name", CASES)
def test_result(name: str) -> None:
    op, inputs, attributes = CASES[name]
    model = model_of(op, inputs, **attributes)
    expected = ReferenceEvaluator(model).run(None, inputs)[0]
    graph = read(model)
    for version in (graph, optimize(graph, check=True)):
        np.testing.assert_allclose(interpret(version, inputs)["y"], expected, rtol=1e-5)


WRONG: dict[str, tuple[str, Arrays]] = {
    "reshape": ("s", {"s": i64(12, 5)}),
    "expand": ("s", {"s": i64(2, 1, 5, 1)}),
    "tile": ("r", {"r": i64(1, 2, 2)}),
    "squeeze": ("a", {"a": i64(2)}),
    "slice": ("s", {"s": i64(-1, 4)}),
    "slice-default": ("s", {"s": i64(0, 0)}),
    "pad": ("p", {"p": i64(1, 0, 2, 0, 1, 2)}),
    "sum": ("a", {"a": i64(1, 0)}),
    "range": ("b", {"b": np.array(-2, np.int64)}),
    "one-hot": ("d", {"d": np.array(6, np.int64)}),
    "crop": ("s", {"s": i64(2, 6, 5)}),
}


@pytest.mark.parametrize("generator", ["c", "llvm"])
@pytest.mark.parametrize("name", ["reshape", "slice", "slice-default"])
def test_compiled_bundle_refuses_what_does_not_agree(name: str, generator: str, tmp_path: Path) -> None:
    op, inputs, attributes = CASES[name]
    with build(read(model_of(op, inputs, **attributes)), tmp_path / "b", generator=generator) as bundle:
        bundle.run(inputs)
        with pytest.raises(SternaError) as caught:
            bundle.run({**inputs, **WRONG[name][1]})
        assert caught.value.codes == ("E0511",)
        bundle.run(inputs)


@pytest.mark.parametrize("name", WRONG)
def test_disagreement_is_found(name: str) -> None:
    op, inputs, attributes = CASES[name]
    graph = optimize(read(model_of(op, inputs, **attributes)))
    with pytest.raises(SternaError) as caught:
        interpret(graph, {**inputs, **WRONG[name][1]})
    assert caught.value.codes == ("E0511",)


def test_without_a_declared_shape_the_operand_must_be_constant() -> None:
    model = model_of("Reshape", CASES["reshape"][1])
    del model.graph.output[0].type.tensor_type.shape.dim[:]
    model.graph.output[0].type.tensor_type.ClearField("shape")
    with pytest.raises(SternaError) as caught:
        read(model)
    assert caught.value.codes == ("E0107",)


def test_empty_tensors(tmp_path: Path) -> None:
    x = np.zeros((2, 0, 3), np.float32)
    nodes = [
        helper.make_node("ReduceSum", ["x"], ["a"], keepdims=0),
        helper.make_node("Relu", ["x"], ["b"]),
        helper.make_node("Concat", ["x", "z"], ["c"], axis=1),
    ]
    inputs = [helper.make_tensor_value_info(n, 1, s) for n, s in (("x", x.shape), ("z", (2, 2, 3)))]
    results = [helper.make_empty_tensor_value_info(n) for n in "abc"]
    model = helper.make_model(
        helper.make_graph(nodes, "g", inputs, results), opset_imports=[helper.make_opsetid("", 17)]
    )
    z = np.ones((2, 2, 3), np.float32)
    with build(read(model), tmp_path / "b", generator="llvm") as bundle:
        found = bundle.run({"x": x, "z": z})
    assert found["a"] == 0
    assert found["b"].shape == (2, 0, 3)
    np.testing.assert_array_equal(found["c"], z)
