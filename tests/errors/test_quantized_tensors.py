"""ONNX models whose scales or zero points mean nothing are refused with the tensor's name."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from sterna.errors import SternaError
from sterna.frontends.formats import read_model

GOOD: dict[str, np.ndarray] = {
    "s": np.array(0.1, np.float32), "z": np.array(3, np.uint8), "w": np.ones((6, 4, 3, 3), np.int8),
    "ws": np.full(6, 0.1, np.float32), "wz": np.zeros(6, np.int8),
}  # fmt: skip
#: What is wrong, and what is said of which tensor.
BROKEN = [
    pytest.param({"s": np.float32(0)}, ("{x}", "a scale of 0"), id="scale 0"),
    pytest.param({"s": np.float32(-1)}, ("{x}", "a scale of -1"), id="negative scale"),
    pytest.param({"s": np.float32("nan")}, ("{x}", "not a number", '"s"'), id="NaN"),
    pytest.param({"s": np.float32("inf")}, ("{x}", "not a number"), id="infinity"),
    pytest.param({"ws": np.array([0.1] * 5 + [0], np.float32)}, ('"w"', "a scale of 0", '"ws"'), id="one scale of 0"),
    pytest.param({"ws": np.full(5, 0.1, np.float32), "wz": np.zeros(5, np.int8)},
                 ('"w"', "5 scales for 6 elements of dimension 0"), id="too few scales"),
    pytest.param({"wz": np.zeros(4, np.int8)}, ('"w"', "6 scales and 4 zero points"), id="too few zero points"),
    pytest.param({"wz": np.zeros(6, np.uint8)}, ('"w"', "of int8", "zero point is of uint8"), id="type of zero points"),
    pytest.param({"z": np.float32(3)}, ("{x}", "a zero point of float"), id="a float for a zero point"),
]  # fmt: skip


def model(nodes: list[onnx.NodeProto], changes: dict[str, Any], dtype: int) -> onnx.ModelProto:
    stored = [numpy_helper.from_array(np.asarray(v), name) for name, v in {**GOOD, **changes}.items()]
    x = helper.make_tensor_value_info("x", dtype, [1, 4, 5, 5])
    y = helper.make_tensor_value_info("y", dtype, None)
    graph = helper.make_graph(nodes, "g", [x], [y], stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def pairs(changes: dict[str, Any], axis: int = 0) -> onnx.ModelProto:
    """A convolution between conversions."""
    rows = (
        ("QuantizeLinear", ["x", "s", "z"], "xq", {}), ("DequantizeLinear", ["xq", "s", "z"], "xd", {}),
        ("DequantizeLinear", ["w", "ws", "wz"], "wd", {"axis": axis}), ("Conv", ["xd", "wd"], "c", {}),
        ("QuantizeLinear", ["c", "s", "z"], "cq", {}), ("DequantizeLinear", ["cq", "s", "z"], "y", {}),
    )  # fmt: skip
    return model([helper.make_node(op, i, [o], **more) for op, i, o, more in rows], changes, TensorProto.FLOAT)


def operator(changes: dict[str, Any]) -> onnx.ModelProto:
    """A convolution of integers."""
    node = helper.make_node("QLinearConv", ["x", "s", "z", "w", "ws", "wz", "s", "z"], ["y"], name="first")
    return model([node], changes, TensorProto.UINT8)


@pytest.mark.parametrize("make", [pairs, operator])
@pytest.mark.parametrize(("changes", "said"), BROKEN)
def test_broken_quantization_is_refused(make: Any, changes: dict[str, Any], said: tuple[str, ...]) -> None:
    with pytest.raises(SternaError) as caught:
        read_model(make(changes))
    assert "E0114" in caught.value.codes
    for words in said:
        assert words.format(x='"xq"' if make is pairs else '"x"') in str(caught.value)


@pytest.mark.parametrize("make", [pairs, operator])
def test_a_good_one_is_not(make: Any) -> None:
    read_model(make({}))


def test_everything_is_said_at_once() -> None:
    changes = {"s": np.float32(0), "wz": np.zeros(4, np.int8)}
    with pytest.raises(SternaError) as caught:
        read_model(pairs(changes))
    text = str(caught.value)
    assert all(f'"{name}"' in text for name in ("xq", "cq", "w"))


def test_a_dimension_that_is_not_there() -> None:
    with pytest.raises(SternaError, match=r'"w" is quantized along dimension 7, and has 4') as caught:
        read_model(pairs({}, axis=7))
    assert caught.value.codes == ("E0114",)


def test_constants_of_a_branch_are_looked_at() -> None:
    inner = helper.make_graph(
        [helper.make_node("DequantizeLinear", ["w", "nothing", "wz"], ["r"])], "then", [],
        [helper.make_tensor_value_info("r", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.zeros(6, np.float32), "nothing")],
    )  # fmt: skip
    made = model(
        [helper.make_node("If", ["which"], ["y"], then_branch=inner, else_branch=inner)],
        {"which": np.array(True)}, TensorProto.FLOAT,
    )  # fmt: skip
    with pytest.raises(SternaError, match='"w" is quantized with a scale of 0'):
        read_model(made)
