"""Models that ONNX Runtime's quantizer wrote, with DequantizeLinear and QuantizeLinear around every operator.

Each becomes operators on integers, as ONNX Runtime makes them, and gives the same integers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime import GraphOptimizationLevel, SessionOptions

import sterna
from sterna.errors import SternaError
from sterna.frontends.onnx import qdq
from support.onnx_runtime import exact_session
from support.quantized_networks import Builder, elementwise, network, products, quantized, softmax


def both(path: Path, floats: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """What is computed here and by ONNX Runtime; `floats`: it computes what the integers stand for, one by one."""
    given = onnx.load(path).graph.input[0]
    shape = tuple(d.dim_value for d in given.type.tensor_type.shape.dim)
    feeds = {"x": np.random.default_rng(3).standard_normal(shape).astype(np.float32)}
    options = SessionOptions()
    if floats:
        options.graph_optimization_level = GraphOptimizationLevel.ORT_DISABLE_ALL
    session = exact_session(path, options)
    return sterna.compile(path, generator="llvm").run(feeds)["y"], session.run(["y"], feeds)[0]


def steps(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Differences, in steps of the result's scale."""
    levels = np.unique(b)
    return np.abs(a - b) / np.diff(levels).min()


@pytest.mark.family("host-llvm")
@pytest.mark.parametrize(
    ("activations", "weights", "channels"),
    [("uint8", "int8", True), ("int8", "int8", True), ("uint8", "int8", False), ("uint8", "uint8", False)],
)
def test_a_network_gives_the_same_integers(tmp_path: Path, activations: str, weights: str, channels: bool) -> None:
    path = quantized(network, tmp_path, activations, weights, channels)
    left = Counter(node.op_type for node in qdq.fused(onnx.load(path).graph).node)
    assert left["Conv"] == left["Gemm"] == left["Add"] == left["Clip"] == left["Relu"] == 0
    assert left["QLinearConv"] == 4
    assert left["QuantizeLinear"] == 1
    found, expected = both(path)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.family("host-llvm")
def test_pairs_of_conversions_for_every_reader_are_one(tmp_path: Path) -> None:
    """What a residual reads twice is converted twice in such models."""
    path = quantized(network, tmp_path, "uint8", "int8", channels=False, DedicatedQDQPair=True)
    graph = onnx.load(path).graph
    rounded = [node.input[0] for node in graph.node if node.op_type == "QuantizeLinear"]
    assert len(rounded) > len(set(rounded))
    left = Counter(node.op_type for node in qdq.fused(graph).node)
    assert (left["QLinearConv"], left["QLinearAdd"], left["QuantizeLinear"], left["Add"]) == (4, 1, 1, 0)
    found, expected = both(path)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.family("host-llvm")
@pytest.mark.parametrize("activations", ["uint8", "int8"])
def test_products_give_the_same_integers(tmp_path: Path, activations: str) -> None:
    path = quantized(products, tmp_path, activations, "int8", False)
    left = Counter(node.op_type for node in qdq.fused(onnx.load(path).graph).node)
    assert (left["MatMul"], left["QLinearMatMul"], left["QuantizeLinear"]) == (0, 4, 1)
    # Products of int8 and int8 saturate in ONNX Runtime on some processors.
    found, expected = both(path, floats=activations == "int8")
    np.testing.assert_array_equal(found, expected)


@pytest.mark.family("host-llvm")
@pytest.mark.parametrize("make", [elementwise, softmax], ids=["elementwise", "softmax"])
@pytest.mark.parametrize("activations", ["uint8", "int8"])
def test_other_operators_differ_by_one_step_at_most(
    tmp_path: Path, make: Callable[[], onnx.ModelProto], activations: str
) -> None:
    """Functions are computed in other ways than ONNX Runtime's tables and vectors: where a value lies half way between
    two integers, another one may be taken."""
    path = quantized(make, tmp_path, activations, "int8", False)
    left = Counter(node.op_type for node in qdq.fused(onnx.load(path).graph).node)
    assert left["QuantizeLinear"] == 1
    found, expected = both(path)
    apart = steps(found, expected)
    assert apart.max() < 1.01
    assert (apart > 0.01).mean() <= 0.05


FLOATS = {
    "Conv": (lambda b: b("Conv", "x", b.weight(9, 2, 3, 3), b.weight(9), pads=[1] * 4, group=3), "ConvInteger"),
    "Gemm": (lambda b: b("Gemm", b("Flatten", "x"), b.weight(10, 150, scale=0.1), b.weight(10), transB=1), "QGemm"),
    "MatMul": (lambda b: b("MatMul", "x", b.weight(5, 9)), "MatMulIntegerToFloat"),
}


@pytest.mark.family("host-llvm")
@pytest.mark.parametrize("activations", ["uint8", "int8"])
@pytest.mark.parametrize("op", sorted(FLOATS))
def test_a_product_that_nobody_rounds_is_one_of_integers(tmp_path: Path, op: str, activations: str) -> None:
    """The sums are exact; ONNX Runtime adds up the same numbers as floats."""

    def make() -> onnx.ModelProto:
        b = Builder(1, 6, 5, 5)
        return b.model(FLOATS[op][0](b))

    model = onnx.load(quantized(make, tmp_path, activations, "int8", True))
    # Without the conversions that the quantizer puts behind it.
    kept = [node for node in model.graph.node if "y" not in node.output and "y_QuantizeLinear_Input" not in node.input]
    next(node for node in kept if "y_QuantizeLinear_Input" in node.output).output[0] = "y"
    del model.graph.node[:]
    model.graph.node.extend(kept)
    onnx.save(model, tmp_path / "open.onnx")
    left = Counter(node.op_type for node in qdq.fused(model.graph).node)
    assert (left[op], left[FLOATS[op][1]]) == (0, 1)
    found, expected = both(tmp_path / "open.onnx")
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-6 * np.abs(expected).max())


def small(*nodes: onnx.NodeProto, scale: float = 0.5, zero: int = 0) -> onnx.GraphProto:
    """x in uint8, dequantized to "f"; nodes from there to "g"; quantized again to y."""
    stored = [numpy_helper.from_array(np.asarray(v), n) for n, v in (
        ("s", np.float32(0.5)), ("z", np.uint8(0)), ("s2", np.float32(scale)), ("z2", np.uint8(zero)))]  # fmt: skip
    around = (
        helper.make_node("DequantizeLinear", ["x", "s", "z"], ["f"]),
        *nodes,
        helper.make_node("QuantizeLinear", ["g", "s2", "z2"], ["y"]),
    )
    ends = [helper.make_tensor_value_info(n, TensorProto.UINT8, (1, 2, 4, 4)) for n in "xy"]
    return helper.make_graph(list(around), "small", ends[:1], ends[1:], stored)


def operators_of(graph: onnx.GraphProto) -> list[str]:
    return [node.op_type for node in qdq.fused(graph).node if node.output[0] != "f"]


def test_moved_elements_stay_integers_where_they_stand_for_the_same() -> None:
    move = helper.make_node("Transpose", ["f"], ["g"], perm=[0, 1, 3, 2])
    assert operators_of(small(move)) == ["Transpose"]
    assert operators_of(small(move, scale=0.25)) == ["Transpose", "QuantizeLinear"]
    assert operators_of(small(move, zero=3)) == ["Transpose", "QuantizeLinear"]


@pytest.mark.parametrize(
    ("node", "moves"),
    [
        (helper.make_node("Resize", ["f", "", "up"], ["g"], mode="nearest"), True),
        (helper.make_node("Resize", ["f", "", "up"], ["g"], mode="linear"), False),
        (helper.make_node("Pad", ["f", "pads"], ["g"]), True),
        (helper.make_node("Pad", ["f", "pads", "nothing"], ["g"]), True),
        (helper.make_node("Pad", ["f", "pads", "one"], ["g"]), False),
        (helper.make_node("Pad", ["f", "pads"], ["g"], mode="edge"), True),
    ],
)
@pytest.mark.family("host-llvm")
def test_elements_that_are_repeated_or_padded_by_zeros_stay_integers(node: onnx.NodeProto, moves: bool) -> None:
    """Zero is the zero point."""
    graph = small(node, zero=7)
    graph.initializer[1].CopyFrom(numpy_helper.from_array(np.uint8(7), "z"))
    for name, array in (("up", [1, 1, 2, 2]), ("nothing", 0), ("one", 1)):
        graph.initializer.append(numpy_helper.from_array(np.array(array, np.float32), name))
    graph.initializer.append(numpy_helper.from_array(np.array([0, 1, 0, 1, 0, 0, 0, 2]), "pads"))
    del graph.output[0].type.tensor_type.shape.dim[:]
    graph.output[0].type.tensor_type.ClearField("shape")
    assert operators_of(graph) == [node.op_type] + ["QuantizeLinear"] * (not moves)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    feeds = {"x": np.random.default_rng(1).integers(0, 256, (1, 2, 4, 4)).astype(np.uint8)}
    (expected,) = exact_session(model).run(None, feeds)
    np.testing.assert_array_equal(sterna.compile(model, generator="llvm").run(feeds)["y"], expected)


def test_an_activation_goes_only_where_the_range_does_its_work() -> None:
    pool = helper.make_node("AveragePool", ["f"], ["p"], kernel_shape=[1, 1])
    relu = helper.make_node("Relu", ["p"], ["g"])
    assert operators_of(small(pool, relu)) == ["QLinearAveragePool"]
    assert operators_of(small(pool, relu, zero=1)) == ["AveragePool", "Relu", "QuantizeLinear"]


def test_a_float_that_others_read_is_kept() -> None:
    pool = helper.make_node("AveragePool", ["f"], ["g"], kernel_shape=[1, 1])
    graph = small(pool)
    graph.output.append(helper.make_tensor_value_info("g", TensorProto.FLOAT, (1, 2, 4, 4)))
    assert operators_of(graph) == ["AveragePool", "QuantizeLinear"]
    assert qdq.fused(graph) is graph


def test_mistakes_in_groups_are_coded() -> None:
    """The group's operator says what does not fit, under the name of the node that it stands for."""
    graph = small(helper.make_node("Conv", ["f", "w"], ["g"], name="first"))
    weight = numpy_helper.from_array(np.zeros((2, 3, 1, 1), np.int8), "wq")
    graph.initializer.extend([weight, numpy_helper.from_array(np.int8(0), "wz")])
    graph.node.append(helper.make_node("DequantizeLinear", ["wq", "s", "wz"], ["w"]))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with pytest.raises(SternaError, match=r'E0108(.|\n)*"first"'):
        sterna.compile(model)
