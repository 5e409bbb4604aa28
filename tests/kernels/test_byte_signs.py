"""Activations of bytes get the sign that the target multiplies: that of the weights, where it has fragments of matrices
of bytes, or the one that its dot products take. What a network computes stays what it is, to the bit."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from onnx import parser

from sterna.debug.interpret import interpret
from sterna.frontends.onnx import read
from sterna.ir.graph import Graph, Value, tensor_type
from sterna.ops import Builder
from sterna.options import Options
from sterna.passes import byte_signs
from sterna.passes.context import context_of
from sterna.targets.description import load_target

RANDOM = np.random.default_rng(8)


def network(activations: str, weights: Mapping[str, str]) -> Graph:
    """A matrix of floats that is rounded to bytes, multiplied by each of some weights (by name their types), and read
    by arithmetic, too."""
    b, made = Builder(), list[Value]()
    x = Value(b.name("x"), tensor_type("float32", (9, 24)))
    q = b.add("round_to_integer", x, to=activations, zero=3, halves="even")
    for dtype in weights.values():
        limits = np.iinfo(dtype)
        values = RANDOM.integers(limits.min, limits.max, (24, 10), endpoint=True).astype(dtype)
        made.append(b.add("matmul_integer", q, b.constant(values)))
    made.append(b.add("cast", q, to="float32"))
    return Graph("net", (x,), tuple(made), tuple(b.nodes))


def dynamic() -> Graph:
    """Bytes whose zero point is computed, multiplied by signed weights, by ONNX's operators."""
    return read(
        parser.parse_model(
            """<ir_version: 8, opset_import: ["" : 17]>
            net (float[9,24] x) => (int32[9,10] y) <int8[24,10] w = {"""
            + ", ".join(map(str, RANDOM.integers(-128, 127, 240, endpoint=True)))
            + "}> { q, s, zero = DynamicQuantizeLinear(x) y = MatMulInteger(q, w, zero) }"
        )
    )


def signs(graph: Graph) -> dict[str, tuple[str, str]]:
    """The types of both factors of each product, by the type of its weights."""
    found = {}
    for node in graph.nodes:
        if node.op == "matmul_integer":
            left, right = node.inputs[:2]
            assert left is not None
            assert right is not None
            found[right.dtype] = left.dtype, right.dtype
    return found


def passed(before: Graph, target: str) -> tuple[Graph, Graph]:
    """The graph before and after the pass, which both compute the same."""
    context = context_of(Options(load_target(target)))
    after = byte_signs.byte_signs(before, context) if byte_signs.applies(context) else before
    given = {"x": (RANDOM.standard_normal((9, 24)) * 2).astype(np.float32)}
    for name, want in interpret(before, given).items():
        np.testing.assert_array_equal(interpret(after, given)[name], want)
    return before, after


@pytest.mark.parametrize("target", ["cuda", "cuda-sm80"])
@pytest.mark.parametrize("activations", ["uint8", "int8"])
@pytest.mark.parametrize("weights", ["uint8", "int8"])
def test_fragments_have_one_sign_on_both_sides(target: str, activations: str, weights: str) -> None:
    before, after = passed(network(activations, {"w": weights}), target)
    assert signs(before) == {weights: (activations, weights)}
    assert signs(after) == {weights: (weights, weights)}
    assert (before is after) == (activations == weights)


def test_zero_points_that_are_computed() -> None:
    _, after = passed(dynamic(), "cuda")
    assert signs(after) == {"int8": ("int8", "int8")}


def test_weights_of_both_signs() -> None:
    """Bytes cannot be of both: they stay."""
    before, after = passed(network("uint8", {"v": "int8", "w": "uint8"}), "cuda")
    assert before is after


@pytest.mark.parametrize(
    ("target", "activations", "wanted"),
    [
        ("x86-64-v4-vnni", "int8", "uint8"),
        ("arm64-dotprod", "uint8", "int8"),
        ("arm64-i8mm", "uint8", "uint8"),
        ("opencl", "uint8", "uint8"),
        ("metal", "int8", "int8"),
    ],
)
def test_dot_products(target: str, activations: str, wanted: str) -> None:
    """Those of one sign by signed weights; those of any leave bytes as they are."""
    _, after = passed(network(activations, {"w": "int8"}), target)
    assert signs(after) == {"int8": (wanted, "int8")}
