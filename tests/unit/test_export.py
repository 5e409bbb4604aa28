"""Graphs as ONNX models: TensorFlow Lite models compute there what they compute here."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest

from sterna.debug.interpret import interpret
from sterna.errors import SternaError
from sterna.export.onnx import to_onnx
from sterna.frontends.formats import read_model
from sterna.frontends.frontend import ReadOptions
from sterna.ir.graph import Graph, State, Value, tensor_type
from sterna.ops import Builder, operators
from sterna.ops.operator import Case
from support.trained import trained

F = "float32"


def by_onnxruntime(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, feeds))


def graph_of(op: str, case: Case) -> tuple[Graph, dict[str, np.ndarray]]:
    """A graph of one operator on inputs, behind and before others that change nothing."""
    builder = Builder()
    feeds = {f"x{n}": array for n, array in enumerate(case.arrays()) if array is not None}
    inputs = [
        None if a is None else Value(f"x{n}", tensor_type(str(a.dtype), a.shape)) for n, a in enumerate(case.arrays())
    ]
    result = builder.add(op, *inputs, name="node", **case.attributes)
    return Graph("one", tuple(v for v in inputs if v is not None), (result,), tuple(builder.nodes), ("y",)), feeds


EXPORTED = (
    "add", "cast", "clip", "concat", "conv", "expand", "leaky_relu", "log_softmax", "matmul", "max_pool", "maximum",
    "minimum", "pad", "pow", "reduce_max", "reduce_mean", "reduce_min", "reduce_sum", "relu", "reshape", "resize",
    "sigmoid", "slice", "softmax", "sum_pool", "tile", "transpose",
)  # fmt: skip


@pytest.mark.parametrize("op", EXPORTED)
def test_operators_compute_the_same(op: str) -> None:
    done = 0
    for case in operators()[op].cases:
        arrays = [a for a in case.arrays() if a is not None]
        if any(a.dtype.name not in ("float32", "int64", "int32", "bool") for a in arrays):
            continue
        if any(a.dtype != np.float32 for a in arrays) and op in ("conv", "matmul", "max_pool", "sum_pool", "softmax"):
            continue  # what ONNX Runtime has only for floats
        dilated = op == "sum_pool" and max(case.attributes["dilations"]) > 1
        if dilated or case.attributes.get("mode") == "cubic":
            continue  # ONNX Runtime has cubic ones only with channels in front; ONNX no dilated average at this version
        graph, feeds = graph_of(op, case)
        try:
            found = by_onnxruntime(to_onnx(graph), feeds)
        except onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented:
            continue  # it lacks this element type
        for have, want in zip(found, interpret(graph, feeds).values(), strict=True):
            assert have.dtype == want.dtype
            np.testing.assert_allclose(have, want, rtol=2e-5, atol=2e-5)
        done += 1
    assert done


def channels_last_network() -> tuple[Graph, np.ndarray]:
    """Convolutions around element-wise arithmetic, padding, pools and a concatenation."""
    random = np.random.default_rng(0)
    builder = Builder()

    def constant(*shape: int) -> Value:
        return builder.constant(random.standard_normal(shape).astype(np.float32) * 0.4, "w")

    def conv(x: Value, w: Value, groups: int = 1) -> Value:
        return builder.add("conv", x, w, strides=(1, 1), dilations=(1, 1), groups=groups, name="conv")

    x = Value("x", tensor_type(F, (1, 9, 9, 3)))
    y = builder.add("add", conv(x, constant(3, 3, 3, 8)), constant(8), name="add")
    y = builder.add("clip", y, min=0.0, max=6.0, name="clip")
    z = builder.add("pad", y, before=(0, 1, 1, 0), after=(0, 1, 1, 0), mode="constant", value=0.0, name="pad")
    z = conv(z, constant(3, 3, 1, 8), groups=8)
    y = builder.add("concat", builder.add("mul", y, z, name="mul"), y, axis=3, name="concat")
    window = {"kernel": (2, 2), "strides": (2, 2), "dilations": (1, 1)}
    y = builder.add("max_pool", y, name="max", **window)
    y = conv(y, constant(1, 1, 16, 5))
    total = builder.add("sum_pool", y, kernel=(3, 3), strides=(1, 1), dilations=(1, 1), name="sum")
    mean = builder.add("div", total, builder.constant(np.float32(9), "count"), name="div")
    result = builder.add("reshape", mean, shape=(1, 5), name="flat")
    return Graph("net", (x,), (result,), tuple(builder.nodes), ("y",)), random.standard_normal((1, 9, 9, 3), np.float32)


def test_between_convolutions_no_transpose_is_left() -> None:
    graph, x = channels_last_network()
    model = to_onnx(graph)
    onnx.checker.check_model(model, full_check=True)
    ops = [node.op_type for node in model.graph.node]
    assert ops.count("Transpose") == 2  # of the input, and before the reshape
    assert "GlobalAveragePool" in ops
    assert "Div" not in ops
    (found,) = by_onnxruntime(model, {"x": x})
    np.testing.assert_allclose(found, interpret(graph, {"x": x})["y"], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "name",
    ["mlperf_tiny_resnet_f32", "mlperf_tiny_ad_f32", "movie_review_f32", "tflm_hello_world_f32",
     "mediapipe_face_short_fp16"],
)  # fmt: skip
def test_tensorflow_lite_models_compute_the_same(name: str) -> None:
    model = trained(name)
    case = model.cases[0]
    exported = to_onnx(read_model(model.file, ReadOptions(model.shapes())))
    onnx.checker.check_model(exported, full_check=True)
    for found, want in zip(by_onnxruntime(exported, case.inputs), case.outputs, strict=True):
        assert np.abs(found - want).max() <= model.tolerance(want)


def test_control_flow_has_no_form() -> None:
    with pytest.raises(SternaError) as caught:
        to_onnx(read_model(trained("tflm_mnist_lstm_int8").file))
    assert set(caught.value.codes) == {"E0707"}


def test_what_has_no_form_is_said_at_once() -> None:
    builder = Builder()
    x = Value("x", tensor_type("int32", (4,)))
    found = builder.add("squared_distance", *(Value(n, tensor_type(F, (3, 4))) for n in "ab"), name="distance")
    state = Value("state", tensor_type(F, (2,)))
    graph = Graph("g", (x, state), (found, state), tuple(builder.nodes), states=(State("state"),))
    with pytest.raises(SternaError) as caught:
        to_onnx(graph)
    assert caught.value.codes == ("E0707", "E0707")
