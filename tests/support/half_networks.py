"""Networks in float16 whose products are of every kind: convolutions of few and of many channels, strided, of planes,
batches of matrices in both orders; ones without products of two computed operands; conversions of every number."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

HALF = TensorProto.FLOAT16


def half_network(seed: int = 0) -> ModelProto:
    """Two convolutions with a residual, products of positions with one another and with weights: [1, 3, 22, 22] to
    [1, 121, 40]."""
    random = np.random.default_rng(seed)

    def weights(name: str, *shape: int) -> TensorProto:
        scale = np.sqrt(np.prod(shape[1:]) if len(shape) > 1 else 1)
        return numpy_helper.from_array((random.standard_normal(shape) / scale).astype(np.float16), name)

    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["a"], pads=[3, 3, 3, 3], strides=[2, 2], kernel_shape=[7, 7]),
        helper.make_node("Relu", ["a"], ["r"]),
        helper.make_node("Conv", ["r", "w2", "b2"], ["c"], pads=[1, 1, 1, 1], kernel_shape=[3, 3]),
        helper.make_node("Add", ["c", "r"], ["d"]),
        helper.make_node("Relu", ["d"], ["e"]),
        helper.make_node("Reshape", ["e", "flat"], ["f"]),
        helper.make_node("Transpose", ["f"], ["ft"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["ft", "f"], ["g"]),
        helper.make_node("Mul", ["g", "scale"], ["scaled"]),
        helper.make_node("Softmax", ["scaled"], ["p"], axis=-1),
        helper.make_node("Mul", ["ft", "ft"], ["v"]),
        helper.make_node("MatMul", ["p", "v"], ["q"]),
        helper.make_node("MatMul", ["q", "w3"], ["y"]),
    ]
    given = [weights("w1", 32, 3, 7, 7), weights("b1", 32), weights("w2", 32, 32, 3, 3), weights("b2", 32)]
    given += [weights("w3", 32, 40), numpy_helper.from_array(np.array(0.05, np.float16), "scale")]
    given += [numpy_helper.from_array(np.array([1, 32, 121]), "flat")]
    graph = helper.make_graph(
        nodes,
        "half",
        [helper.make_tensor_value_info("x", HALF, [1, 3, 22, 22])],
        [helper.make_tensor_value_info("y", HALF, [1, 121, 40])],
        given,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def half_convolutions(seed: int = 0) -> ModelProto:
    """Convolutions of few and many channels, a depthwise one, a residual, a pool and a classifier's layer."""
    random = np.random.default_rng(seed)

    def weights(name: str, *shape: int) -> TensorProto:
        scale = np.sqrt(np.prod(shape[1:]))
        return numpy_helper.from_array((random.standard_normal(shape) / scale).astype(np.float16), name)

    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"], pads=[1] * 4, strides=[2, 2]),
        helper.make_node("Relu", ["a"], ["r"]),
        helper.make_node("Conv", ["r", "w2"], ["d"], pads=[1] * 4, group=24),
        helper.make_node("Conv", ["d", "w3"], ["p"]),
        helper.make_node("Add", ["p", "r"], ["s"]),
        helper.make_node("Sigmoid", ["s"], ["g"]),
        helper.make_node("MaxPool", ["g"], ["m"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Flatten", ["m"], ["f"]),
        helper.make_node("MatMul", ["f", "w4"], ["y"]),
    ]
    given = [weights("w1", 24, 3, 3, 3), weights("w2", 24, 1, 3, 3), weights("w3", 24, 24, 1, 1)]
    given.append(numpy_helper.from_array((random.standard_normal((24 * 36, 10)) / 30).astype(np.float16), "w4"))
    ends = [helper.make_tensor_value_info("x", HALF, [1, 3, 24, 24]), helper.make_tensor_value_info("y", HALF, [1, 10])]
    graph = helper.make_graph(nodes, "convolutions", ends[:1], ends[1:], given)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


#: Every number of 16 bits to float32, and numbers of float32 to 16 bits, of which there are so many.
BETWEEN = 4 * 63487 + 8
CONVERSIONS = f"""net (float16[65536] a, float[{BETWEEN}] b) => (float[65536] wide, float16[{BETWEEN}] narrow)
{{ wide = Cast <to = 1> (a)  narrow = Cast <to = 10> (b) }}"""


def every_number() -> dict[str, np.ndarray]:
    """Inputs of `CONVERSIONS`: all numbers of 16 bits; those that are finite, what lies halfway between neighbours and
    beside that, and what is too large or small."""
    halves = np.arange(65536, dtype=np.uint16).view(np.float16)
    exact = np.unique(halves[np.isfinite(halves)].astype(np.float64))
    middle = ((exact[1:] + exact[:-1]) / 2).astype(np.float32)
    beside = [np.nextafter(middle, np.float32(way)) for way in (-np.inf, np.inf)]
    ends = [np.inf, -np.inf, np.nan, 65519.996, 65520, -65520, 1e30, 2.0**-25, 2.0**-26, -0.0, 1e-45]
    between = np.concatenate([exact.astype(np.float32), middle, *beside, np.array(ends, np.float32)])
    return {"a": halves, "b": between}


def wrong_numbers(found: Mapping[str, np.ndarray]) -> list[tuple[float, float]]:
    """Pairs of what `CONVERSIONS` gave for these and what it should have, where they are not the same."""
    given = every_number()
    with np.errstate(over="ignore"):
        wanted = {"wide": given["a"].astype(np.float32), "narrow": given["b"].astype(np.float16)}
    wrong = list[tuple[float, float]]()
    for name, want in wanted.items():
        bits = np.uint32 if name == "wide" else np.uint16
        ours = found[name].view(want.dtype)
        off = (ours.view(bits) != want.view(bits)) & ~(np.isnan(ours) & np.isnan(want))
        wrong += zip(ours[off].tolist(), want[off].tolist(), strict=True)
    return wrong
