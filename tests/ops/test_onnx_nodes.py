"""Random attributes and shapes of ONNX operators that the front end decomposes, against ONNX Runtime."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import onnx
import onnx.reference
import onnxruntime
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import helper

from sterna.debug.interpret import interpret
from sterna.errors import SternaError
from sterna.frontends.onnx import read
from sterna.pipeline import optimize

QUICK = settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


def model_of(
    op: str,
    inputs: dict[str, np.ndarray],
    constants: dict[str, np.ndarray],
    opset: int,
    outputs: int,
    **attributes: Any,
) -> onnx.ModelProto:
    """One node; `constants` are initializers."""
    names = [f"y{n}" for n in range(outputs)]
    node = helper.make_node(op, [*inputs, *constants], names, name="node", **attributes)
    graph = helper.make_graph(
        [node],
        "one",
        [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for n, a in inputs.items()
        ],
        [helper.make_empty_tensor_value_info(name) for name in names],
        [onnx.numpy_helper.from_array(a, n) for n, a in constants.items() if n],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    return onnx.shape_inference.infer_shapes(model)


def check(
    op: str,
    inputs: dict[str, np.ndarray],
    constants: dict[str, np.ndarray] | None = None,
    *,
    opset: int = 17,
    outputs: int = 1,
    tolerance: float = 1e-5,
    **attributes: Any,
) -> None:
    """ONNX Runtime, the graph as read and the optimized graph agree; what ONNX Runtime refuses may be refused."""
    model = model_of(op, inputs, constants or {}, opset, outputs, **attributes)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        expected = onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, inputs)
    except Exception:
        with contextlib.suppress(SternaError):
            read(model)
        return
    graph = read(model)
    for version in (graph, optimize(graph, check=True)):
        found = interpret(version, inputs)
        for name, wanted in zip(found, expected, strict=True):
            assert found[name].shape == wanted.shape
            assert found[name].dtype == wanted.dtype
            np.testing.assert_allclose(found[name], wanted, rtol=tolerance, atol=tolerance)


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


small = st.integers(1, 3)


@st.composite
def windows(draw: Any, padded: bool = True) -> dict[str, Any]:
    """Kernel, strides, dilations and padding of 1 to 3 spatial dimensions."""
    rank = draw(st.integers(1, 3))
    kernel = draw(st.lists(small, min_size=rank, max_size=rank))
    result: dict[str, Any] = {"kernel_shape": kernel, "strides": draw(st.lists(small, min_size=rank, max_size=rank))}
    if draw(st.booleans()):
        result["auto_pad"] = draw(st.sampled_from(["SAME_UPPER", "SAME_LOWER", "VALID"]))
    elif padded:
        result["pads"] = [draw(st.integers(0, k - 1)) for k in kernel * 2]
    return result


@QUICK
@given(windows(), st.data())
def test_conv(attributes: dict[str, Any], data: Any) -> None:
    rank = len(attributes["kernel_shape"])
    groups, cin, cout = data.draw(small), data.draw(small), data.draw(small)
    if "auto_pad" not in attributes:
        attributes["dilations"] = data.draw(st.lists(small, min_size=rank, max_size=rank))
    sizes = data.draw(st.lists(st.integers(5, 9), min_size=rank, max_size=rank))
    constants = {"w": numbers(groups * cout, cin, *attributes["kernel_shape"], seed=1)}
    if data.draw(st.booleans()):
        constants["b"] = numbers(groups * cout, seed=2)
    check("Conv", {"x": numbers(data.draw(small), groups * cin, *sizes)}, constants, group=groups, **attributes)


@QUICK
@given(windows(), st.data())
def test_conv_transpose(attributes: dict[str, Any], data: Any) -> None:
    rank = min(len(attributes["kernel_shape"]), 2)
    attributes = {
        k: v if isinstance(v, str) else v[:rank] for k, v in attributes.items() if k not in ("pads", "auto_pad")
    }
    kernel, strides = attributes["kernel_shape"], attributes["strides"]
    attributes["pads"] = [data.draw(st.integers(0, k - 1)) for k in kernel * 2]
    attributes["dilations"] = data.draw(st.lists(st.integers(1, 2), min_size=rank, max_size=rank))
    attributes["output_padding"] = [data.draw(st.integers(0, s - 1)) for s in strides]
    groups, cin, cout = data.draw(small), data.draw(small), data.draw(small)
    sizes = data.draw(st.lists(st.integers(4, 6), min_size=rank, max_size=rank))
    constants = {"w": numbers(groups * cin, cout, *kernel, seed=1), "b": numbers(groups * cout, seed=2)}
    check("ConvTranspose", {"x": numbers(1, groups * cin, *sizes)}, constants, group=groups, **attributes)


@QUICK
@given(windows(), st.booleans(), st.data())
def test_pooling(attributes: dict[str, Any], ceil: bool, data: Any) -> None:
    rank = len(attributes["kernel_shape"])
    x = numbers(1, 2, *data.draw(st.lists(st.integers(4, 9), min_size=rank, max_size=rank)))
    check("MaxPool", {"x": x}, ceil_mode=int(ceil), **attributes)
    include = data.draw(st.integers(0, 1))
    check("AveragePool", {"x": x}, ceil_mode=int(ceil), count_include_pad=include, opset=19, **attributes)


@QUICK
@given(
    st.sampled_from(["nearest", "linear", "cubic"]),
    st.sampled_from(["half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"]),
    st.sampled_from(["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]),
    st.integers(1, 12),
    st.integers(1, 12),
)
def test_resize_to_sizes(mode: str, transform: str, rounding: str, height: int, width: int) -> None:
    constants = {
        "roi": np.zeros(0, np.float32),
        "scales": np.zeros(0, np.float32),
        "sizes": np.array([1, 2, height, width]),
    }
    check(
        "Resize", {"x": numbers(1, 2, 5, 4)}, constants, mode=mode, coordinate_transformation_mode=transform,
        nearest_mode=rounding, tolerance=1e-4,
    )  # fmt: skip


@QUICK
@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.data())
def test_reductions(shape: list[int], data: Any) -> None:
    axes = data.draw(st.lists(st.integers(-len(shape), len(shape) - 1), unique_by=lambda a: a % len(shape), min_size=1))
    keep = data.draw(st.integers(0, 1))
    for op in ("ReduceMean", "ReduceMax", "ReduceL1", "ReduceL2", "ReduceLogSumExp", "ReduceSumSquare", "ReduceProd"):
        check(op, {"x": numbers(*shape)}, axes=axes, keepdims=keep)
    check("ReduceSum", {"x": numbers(*shape)}, {"axes": np.array(axes)}, keepdims=keep)
    check("Softmax", {"x": numbers(*shape)}, axis=axes[0])
    check("Softmax", {"x": numbers(*shape)}, axis=axes[0] % len(shape), opset=11)
    check("LogSoftmax", {"x": numbers(*shape)}, axis=axes[0])
    check("ArgMax", {"x": numbers(*shape)}, axis=axes[0], keepdims=keep)
    check("CumSum", {"x": numbers(*shape)}, {"axis": np.array(axes[0])}, exclusive=keep)


@QUICK
@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.data())
def test_movement(shape: list[int], data: Any) -> None:
    rank = len(shape)
    bounds = st.lists(st.integers(-7, 7), min_size=rank, max_size=rank)
    steps = data.draw(st.lists(st.sampled_from([1, 2, -1, -2]), min_size=rank, max_size=rank))
    x = numbers(*shape)
    slices = [np.array(v) for v in (data.draw(bounds), data.draw(bounds), list(range(rank)), steps)]
    check("Slice", {"x": x}, dict(zip(("starts", "ends", "axes", "steps"), slices, strict=True)))
    pads = np.array([data.draw(st.integers(0, max(s - 1, 0))) for s in shape * 2])
    for mode in ("constant", "reflect", "edge"):
        check("Pad", {"x": x}, {"pads": pads}, mode=mode)
    check("Transpose", {"x": x}, perm=data.draw(st.permutations(range(rank))))
    check("Tile", {"x": x}, {"repeats": np.array(data.draw(st.lists(small, min_size=rank, max_size=rank)))})
    check("Flatten", {"x": x}, axis=data.draw(st.integers(0, rank)))
    check("Reshape", {"x": x}, {"shape": np.array([0] * (rank - 1) + [-1])})
    check("Expand", {"x": x}, {"shape": np.array([2, *[1] * rank])})
    axis = data.draw(st.integers(0, rank - 1))
    check("Split", {"x": x}, {"parts": np.array([1, shape[axis] - 1])}, axis=axis, outputs=2)
    index = np.array(data.draw(st.lists(st.integers(-shape[axis], shape[axis] - 1), min_size=1, max_size=3)))
    check("Gather", {"x": x}, {"index": index}, axis=axis)
    check("Concat", {"x": x, "x2": x * 2}, axis=axis)


@QUICK
@given(st.integers(1, 5), st.integers(1, 5), st.integers(1, 5), st.data())
def test_products(m: int, k: int, n: int, data: Any) -> None:
    batch = data.draw(st.sampled_from([((), ()), ((2,), (2,)), ((3, 1), (2,)), ((2,), ())]))
    check("MatMul", {"a": numbers(*batch[0], m, k), "b": numbers(*batch[1], k, n, seed=1)})
    check("MatMul", {"a": numbers(k), "b": numbers(*batch[1], k, n, seed=1)})
    check("MatMul", {"a": numbers(*batch[0], m, k), "b": numbers(k, seed=1)})
    ta, tb = data.draw(st.booleans()), data.draw(st.booleans())
    a, b = numbers(*(k, m) if ta else (m, k)), numbers(*(n, k) if tb else (k, n), seed=1)
    c = data.draw(st.sampled_from([(n,), (m, n), (1,), (m, 1)]))
    check("Gemm", {"a": a}, {"b": b, "c": numbers(*c, seed=2)}, transA=int(ta), transB=int(tb), alpha=0.5, beta=2.0)


@pytest.mark.parametrize("rank", [3, 4, 5])
def test_normalization(rank: int) -> None:
    x = numbers(2, 4, *[3] * (rank - 2))
    vectors = {name: numbers(4, seed=n) for n, name in enumerate(("scale", "bias", "mean"))}
    check("BatchNormalization", {"x": x}, {**vectors, "variance": np.abs(numbers(4, seed=9))}, epsilon=1e-3)
    check("InstanceNormalization", {"x": x}, {"scale": vectors["scale"], "bias": vectors["bias"]})
    check("LayerNormalization", {"x": x}, {"scale": numbers(3), "bias": numbers(3, seed=1)}, axis=-1)
    check("LRN", {"x": x}, size=3)
    check("GlobalAveragePool", {"x": x})
    check("GlobalMaxPool", {"x": x})


def test_rearrangement() -> None:
    for mode in ("DCR", "CRD"):
        check("DepthToSpace", {"x": numbers(1, 8, 2, 3)}, blocksize=2, mode=mode)
    check("SpaceToDepth", {"x": numbers(1, 2, 4, 6)}, blocksize=2)
    for upper in (0, 1):
        check("Trilu", {"x": numbers(2, 4, 5)}, {"k": np.array(1)}, upper=upper)
    check("OneHot", {"x": np.array([0, 2, -1])}, {"depth": np.array(4), "values": np.array([0.0, 1.0], np.float32)})
    for op in ("Max", "Min", "Sum", "Mean"):
        check(op, {"a": numbers(2, 3), "b": numbers(3, seed=1), "c": numbers(1, seed=2)})
    check("Clip", {"x": numbers(9)}, {"low": np.array(-0.5, np.float32)})
    check(
        "Upsample", {"x": numbers(1, 2, 3, 3)}, {"scales": np.array([1, 1, 2, 2], np.float32)}, opset=9, mode="nearest"
    )


@pytest.mark.parametrize("op", ["HardSwish", "Gelu", "Mish", "MeanVarianceNormalization", "Swish", "RMSNormalization"])
def test_operators_that_are_functions_of_others(op: str) -> None:
    newest = onnx.defs.onnx_opset_version()
    try:
        since = onnx.defs.get_schema(op, newest).since_version
    except onnx.defs.SchemaError:
        pytest.skip(f"onnx {onnx.__version__} has no {op}")
    x = {"x": numbers(2, 3, 4, 4)}
    constants = {"scale": numbers(4)} if op == "RMSNormalization" else {}
    model = model_of(op, x, constants, max(since, 18), 1)
    expected = onnx.reference.ReferenceEvaluator(model).run(None, x)[0]
    np.testing.assert_allclose(interpret(optimize(read(model)), x)["y0"], expected, rtol=1e-4, atol=1e-5)


def test_operator_sets_before_7() -> None:
    """Broadcasting had to be asked for, shapes and targets of casts were attributes."""
    x, b = numbers(2, 3, 4), numbers(3, seed=1)
    graph = helper.make_graph(
        [
            helper.make_node("Add", ["x", "b"], ["sum"], broadcast=1, axis=1),
            helper.make_node("PRelu", ["sum", "b"], ["bent"]),
            helper.make_node("Reshape", ["bent"], ["flat"], shape=[6, -1], consumed_inputs=[0]),
            helper.make_node("Cast", ["flat"], ["y"], to="INT32"),
        ],
        "old",
        [helper.make_tensor_value_info("x", 1, x.shape)],
        [helper.make_tensor_value_info("y", 6, (6, 4))],
        [onnx.numpy_helper.from_array(b, "b")],
    )
    found = interpret(read(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 1)])), {"x": x})["y"]
    total = x + b[:, None]
    np.testing.assert_array_equal(found, np.where(total < 0, total * b[:, None], total).reshape(6, 4).astype(np.int32))


def test_sequences_are_resolved() -> None:
    """Sequences, an optional, and an `If` whose condition is an input."""
    inner = [
        helper.make_graph(
            [helper.make_node(op, ["b"], [f"{op}_y"])], op, [], [helper.make_tensor_value_info(f"{op}_y", 1, None)]
        )
        for op in ("Neg", "Abs")
    ]
    nodes = [
        helper.make_node("SplitToSequence", ["x"], ["parts"], axis=1, keepdims=0),
        helper.make_node("SequenceErase", ["parts", "one"], ["rest"]),
        helper.make_node("SequenceInsert", ["rest", "a", "last"], ["more"]),
        helper.make_node("ConcatFromSequence", ["more"], ["b"], axis=0, new_axis=1),
        helper.make_node("SequenceLength", ["more"], ["length"]),
        helper.make_node("If", ["flag"], ["y"], then_branch=inner[0], else_branch=inner[1]),
    ]
    graph = helper.make_graph(
        nodes,
        "lists",
        [helper.make_tensor_value_info(n, k, s) for n, k, s in (("x", 1, (2, 3)), ("a", 1, (2,)), ("flag", 9, ()))],
        [helper.make_tensor_value_info("y", 1, (3, 2)), helper.make_tensor_value_info("length", 7, ())],
        [onnx.numpy_helper.from_array(np.array(v), n) for n, v in (("one", 1), ("last", -1))],
    )
    x, a = numbers(2, 3), numbers(2, seed=1)
    read_graph = read(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]))
    stacked = np.stack([x[:, 0], a, x[:, 2]])
    for flag, expected in ((True, -stacked), (False, np.abs(stacked))):
        found = interpret(optimize(read_graph), {"x": x, "a": a, "flag": np.array(flag)})
        np.testing.assert_array_equal(found["y"], expected)
        assert found["length"] == 3
