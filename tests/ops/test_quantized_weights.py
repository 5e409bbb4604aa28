"""Products by weights whose zero point is not 0, of either signedness: the integers of ONNX Runtime, exactly."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import sterna

RANDOM = np.random.default_rng(4)


def compare(node: str, x: np.ndarray, constants: dict[str, np.ndarray], **attributes: object) -> None:
    """Runs one node whose operands after the first are constants, in their order."""
    made = helper.make_node(node, ["x", *constants], ["y"], **attributes)
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    graph = helper.make_graph(
        [made], "weights", [helper.make_tensor_value_info("x", kind, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.INT32, None)],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (expected,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    found = sterna.compile(model, generator="llvm").run({"x": x})["y"]
    np.testing.assert_array_equal(found, expected)


def elements(dtype: str, *shape: int) -> np.ndarray:
    limits = np.iinfo(dtype)
    return RANDOM.integers(limits.min, limits.max, shape, endpoint=True).astype(dtype)


@pytest.mark.family("host-llvm")
@pytest.mark.parametrize("zero", [0, 100, 128, 255])
def test_unsigned_weights(zero: int) -> None:
    given = {"a_zero": np.uint8(17), "w_zero": np.uint8(zero)}
    compare("MatMulInteger", elements("uint8", 2, 7, 33), {"w": elements("uint8", 33, 20), **given})
    compare("ConvInteger", elements("uint8", 1, 5, 7, 7), {"w": elements("uint8", 20, 5, 3, 3), **given}, pads=[1] * 4)
    compare("ConvInteger", elements("uint8", 1, 6, 7, 7), {"w": elements("uint8", 6, 1, 3, 3), **given}, group=6)


@pytest.mark.family("host-llvm")
def test_weights_with_room_take_their_zero_point() -> None:
    small = (elements("uint8", 24, 20) // 4) + 90
    compare("MatMulInteger", elements("uint8", 5, 24), {"w": small, "a_zero": np.uint8(3), "w_zero": np.uint8(101)})


@pytest.mark.family("host-llvm")
def test_a_zero_point_per_column() -> None:
    zeros = elements("uint8", 20)
    compare("MatMulInteger", elements("uint8", 9, 24), {
        "w": elements("uint8", 24, 20), "a_zero": np.uint8(3), "w_zero": zeros})  # fmt: skip
