"""Types that are only stored, against ml_dtypes, and quantized operators against ONNX's reference and ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from sterna.debug.interpret import interpret
from sterna.frontends.onnx import read
from sterna.ir import dtypes
from sterna.ops.evaluate import evaluate
from sterna.ops.narrow import FORMATS
from sterna.pipeline import optimize
from support.compiling import build

RANDOM = np.random.default_rng(0)


def floats() -> np.ndarray:
    """Numbers of every size, halves between neighbours of every format among them."""
    bits = RANDOM.integers(0, 1 << 32, 20000, dtype=np.uint64).astype(np.uint32)
    halves = (RANDOM.integers(0, 1 << 12, 4000) << 20).astype(np.uint32)
    return np.concatenate([bits, halves, halves | (1 << 31)]).astype(np.uint32).view(np.float32)


@pytest.mark.parametrize("kind", dtypes.NARROW)
def test_every_byte_is_decoded(kind: str) -> None:
    count = 1 << int(kind[-1]) if kind in dtypes.NARROW_INTEGERS else 16 if kind.startswith("float4") else 256
    stored = np.arange(count, dtype=np.uint8).view(dtypes.to_numpy(kind))
    (found,) = evaluate("decode", [stored], {"kind": kind})
    np.testing.assert_array_equal(found, stored.astype(found.dtype))


@pytest.mark.parametrize("kind", FORMATS)
def test_floats_are_rounded_as_by_ml_dtypes(kind: str) -> None:
    x = floats()
    (found,) = evaluate("encode", [x], {"to": kind, "saturate": False, "rounding": "up"})
    with np.errstate(invalid="ignore"):
        expected = x.astype(dtypes.to_numpy(kind)).astype(np.float32)
    np.testing.assert_array_equal(found.astype(np.float32), expected)


@pytest.mark.parametrize("kind", [k for k in FORMATS if k.startswith("float8")])
def test_saturation(kind: str) -> None:
    x = floats()
    (found,) = evaluate("encode", [x], {"to": kind, "saturate": True, "rounding": "up"})
    expected = numpy_helper.saturate_cast(x, dtypes.to_numpy(kind)).astype(np.float32)
    np.testing.assert_array_equal(found.astype(np.float32), expected)


@pytest.mark.parametrize("generator", ["c", "llvm"])
def test_weights_and_signature_of_narrow_types(generator: str, tmp_path: Path) -> None:
    """Packed weights of four bits, blocks of scales, an input and an output of eight."""
    w = RANDOM.integers(-8, 8, (6, 8)).astype(dtypes.to_numpy("int4"))
    scale = RANDOM.uniform(0.1, 1.0, (6, 2)).astype(np.float32)
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "scale"], ["wide"], axis=1, block_size=4),
        helper.make_node("Cast", ["x"], ["x32"], to=TensorProto.FLOAT),
        helper.make_node("MatMul", ["x32", "wide"], ["product"]),
        helper.make_node("Cast", ["product"], ["y"], to=TensorProto.FLOAT8E5M2),
    ]
    graph = helper.make_graph(
        nodes,
        "narrow",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT8E4M3FN, (3, 6))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT8E5M2, (3, 8))],
        [numpy_helper.from_array(w, "w"), numpy_helper.from_array(scale, "scale")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    x = RANDOM.uniform(-2, 2, (3, 6)).astype(dtypes.to_numpy("float8_e4m3fn"))
    wide = w.astype(np.float32) * np.repeat(scale, 4, 1)
    expected = (x.astype(np.float32) @ wide).astype(dtypes.to_numpy("float8_e5m2"))
    with build(read(model), tmp_path / "b", generator=generator) as bundle:
        found = bundle.run({"x": x})["y"]
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found.astype(np.float32), expected.astype(np.float32), rtol=0.26)


def quantized_model(
    op: str, inputs: dict[str, np.ndarray], domain: str, outputs: int, **attributes: Any
) -> onnx.ModelProto:
    """One node whose first operand is an input and whose others are constants."""
    names = list(inputs)
    node = helper.make_node(op, names, [f"y{n}" for n in range(outputs)], domain=domain, **attributes)
    first = inputs[names[0]]
    graph = helper.make_graph(
        [node],
        "one",
        [helper.make_tensor_value_info(names[0], helper.np_dtype_to_tensor_dtype(first.dtype), first.shape)],
        [helper.make_empty_tensor_value_info(f"y{n}") for n in range(outputs)],
        [numpy_helper.from_array(a, n) for n, a in inputs.items() if n != names[0]],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def check(
    op: str, inputs: dict[str, np.ndarray], domain: str = "", outputs: int = 1, step: float = 0, **attributes: Any
) -> None:
    """ONNX Runtime and the interpreter agree; `step`: by how much elements may differ."""
    model = quantized_model(op, inputs, domain, outputs, **attributes)
    feeds = dict([next(iter(inputs.items()))])
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    expected = onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, feeds)
    found = interpret(optimize(read(model), check=True), feeds)
    for have, want in zip(found.values(), expected, strict=True):
        assert have.dtype == want.dtype
        assert have.shape == want.shape
        np.testing.assert_allclose(have.astype(np.float64), want.astype(np.float64), rtol=1e-5, atol=max(step, 1e-5))


def u8(*shape: int) -> np.ndarray:
    return RANDOM.integers(0, 256, shape).astype(np.uint8)


def i8(*shape: int) -> np.ndarray:
    return RANDOM.integers(-128, 128, shape).astype(np.int8)


def i7(*shape: int) -> np.ndarray:
    """Where ONNX Runtime is not exact with 8 bits on every processor (`support.onnx_runtime`)."""
    return RANDOM.integers(-64, 64, shape).astype(np.int8)


def scalar(value: float, dtype: str = "float32") -> np.ndarray:
    return np.array(value, dtype)


def test_integer_products() -> None:
    check("MatMulInteger", {"a": u8(3, 5), "b": i8(5, 4), "za": scalar(7, "uint8")})
    check("MatMulInteger", {"a": u8(3, 5), "b": u8(5, 4), "za": scalar(7, "uint8"), "zb": scalar(9, "uint8")})
    check("ConvInteger", {"x": u8(1, 3, 6, 5), "w": u8(4, 3, 3, 2), "z": scalar(11, "uint8")}, pads=[1, 0, 1, 1])


@pytest.mark.parametrize("axis", [0, 2])
def test_quantize_per_axis(axis: int) -> None:
    x = RANDOM.standard_normal((3, 4, 5)).astype(np.float32)
    scale = RANDOM.uniform(0.01, 0.05, x.shape[axis]).astype(np.float32)
    check("QuantizeLinear", {"x": x, "s": scale, "z": i8(x.shape[axis])}, axis=axis, step=0)
    check("DequantizeLinear", {"x": i8(3, 4, 5), "s": scale, "z": i8(x.shape[axis])}, axis=axis)


def test_dynamic_quantization() -> None:
    check("DynamicQuantizeLinear", {"x": RANDOM.standard_normal((7, 9)).astype(np.float32)}, outputs=3)


def test_quantized_convolution_and_product() -> None:
    quantities = {"ys": scalar(0.7), "yz": scalar(120, "uint8")}
    x = {"x": u8(1, 4, 7, 6), "xs": scalar(0.02), "xz": scalar(131, "uint8")}
    w = {"w": i7(6, 4, 3, 3), "ws": RANDOM.uniform(0.01, 0.03, 6).astype(np.float32), "wz": np.zeros(6, np.int8)}
    bias = {"b": RANDOM.integers(-500, 500, 6).astype(np.int32)}
    check("QLinearConv", {**x, **w, **quantities, **bias}, pads=[1, 1, 1, 1], step=1)
    a = {"a": u8(3, 5), "as": scalar(0.02), "az": scalar(131, "uint8")}
    b = {"b": i7(5, 4), "bs": scalar(0.03), "bz": scalar(0, "int8")}
    check("QLinearMatMul", {**a, **b, **quantities}, step=1)


def f32(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


MICROSOFT: dict[str, tuple[dict[str, np.ndarray], dict[str, Any], float]] = {
    "Gelu": ({"x": f32(3, 5)}, {}, 0),
    "BiasGelu": ({"x": f32(3, 5), "b": f32(5)}, {}, 0),
    "FastGelu": ({"x": f32(3, 5), "b": f32(5)}, {}, 0),
    "QuickGelu": ({"x": f32(3, 5)}, {"alpha": 1.5}, 0),
    "FusedGemm": (
        {"a": f32(3, 4), "b": f32(4, 5), "c": f32(5)},
        {"activation": "LeakyRelu", "activation_alpha": 0.1},
        0,
    ),
    "FusedConv": ({"x": f32(1, 2, 5, 5), "w": f32(3, 2, 3, 3), "b": f32(3)}, {"activation": "Relu"}, 0),
    "FusedMatMul": ({"a": f32(2, 4, 3), "b": f32(2, 4, 5)}, {"transA": 1, "alpha": 0.5}, 0),
    "SkipLayerNormalization": ({"x": f32(2, 3, 8), "s": f32(2, 3, 8), "g": f32(8), "b": f32(8)}, {"epsilon": 1e-5}, 0),
    "Attention": ({"x": f32(2, 4, 8), "w": f32(8, 24), "b": f32(24)}, {"num_heads": 2}, 0),
    "MultiHeadAttention": ({"q": f32(2, 4, 8), "k": f32(2, 5, 8), "v": f32(2, 5, 8)}, {"num_heads": 2}, 0),
    "MatMulNBits": (
        {"x": f32(3, 40), "w": u8(6, 2, 16), "s": np.abs(f32(12)) * 0.1, "z": u8(6)},
        {"N": 6, "K": 40, "bits": 4, "block_size": 32},
        0,
    ),
    "DynamicQuantizeMatMul": (
        {"x": f32(3, 5), "w": i7(5, 4), "s": scalar(0.02), "z": scalar(0, "int8"), "b": f32(4)},
        {},
        0,
    ),
    "MatMulIntegerToFloat": (
        {
            "a": u8(3, 5),
            "b": i7(5, 4),
            "as": scalar(0.02),
            "bs": np.abs(f32(4)),
            "az": scalar(9, "uint8"),
            "bz": i8(4) * 0,
        },
        {},
        0,
    ),
}
_Q = {"s": scalar(0.05), "z": scalar(120, "uint8")}
_R = {"ys": scalar(0.08), "yz": scalar(128, "uint8")}
MICROSOFT |= {
    "QLinearAdd": ({"a": u8(3, 5), **_Q, "b": u8(3, 5), "bs": scalar(0.03), "bz": scalar(99, "uint8"), **_R}, {}, 1),
    "QLinearMul": ({"a": u8(3, 5), **_Q, "b": u8(5), "bs": scalar(0.03), "bz": scalar(99, "uint8"), **_R}, {}, 1),
    "QLinearSigmoid": ({"x": u8(3, 5), **_Q, "ys": scalar(1 / 256), "yz": scalar(0, "uint8")}, {}, 1),
    "QLinearLeakyRelu": ({"x": u8(3, 5), **_Q, **_R}, {"alpha": 0.2}, 1),
    "QLinearGlobalAveragePool": ({"x": u8(1, 2, 4, 4), **_Q, **_R}, {"channels_last": 0}, 1),
    "QLinearAveragePool": ({"x": u8(1, 2, 4, 4), **_Q, **_R}, {"kernel_shape": [2, 2], "strides": [2, 2]}, 1),
}


@pytest.mark.parametrize("op", MICROSOFT)
def test_operators_of_onnx_runtime(op: str) -> None:
    inputs, attributes, step = MICROSOFT[op]
    check(op, inputs, "com.microsoft", step=step or 2e-4, **attributes)
