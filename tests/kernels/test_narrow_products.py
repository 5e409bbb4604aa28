"""Products of factors of 16 bits: what the pass leaves, and what it computes."""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from sterna.debug.interpret import interpret
from sterna.ir.graph import Graph
from sterna.ops import Builder
from sterna.passes.narrow_products import narrow_choices, narrow_products, part_of
from sterna.pipeline import verify_graph
from sterna.targets.description import load_target
from support.compiling import input_value

TYPES = {"bfloat16": np.dtype(ml_dtypes.bfloat16), "float16": np.dtype(np.float16)}
STEPS = {"strides": (1, 1), "dilations": (1, 1)}


def convolutions() -> tuple[Graph, dict[str, np.ndarray]]:
    """Two convolutions of one padded tensor, and a product of matrices."""
    random = np.random.default_rng(1)
    feeds = {"x": random.standard_normal((1, 6, 6, 16)).astype(np.float32)}
    b = Builder()
    x = input_value(b, feeds["x"])
    padded = b.add("pad", b.add("relu", x), before=(0, 1, 1, 0), after=(0, 1, 1, 0), mode="constant", value=0.0)
    first, second = (b.constant(random.standard_normal((3, 3, 16, 8)).astype(np.float32) / 12) for _ in range(2))
    y = b.add("conv", padded, first, name="y", **STEPS)
    z = b.add("conv", padded, second, name="z", **STEPS)
    w = b.add("matmul", b.add("add", y, z), b.constant(random.standard_normal((8, 5)).astype(np.float32)), name="w")
    return Graph("g", (x,), (w,), tuple(b.nodes), ("w",)), {x.name: feeds["x"]}


@pytest.mark.parametrize("dtype", TYPES)
def test_what_the_pass_leaves(dtype: str) -> None:
    graph, _ = convolutions()
    names = [n.output.name for n in graph.nodes if n.op in ("conv", "matmul")]
    made = narrow_products(graph, dict.fromkeys(names, dtype))
    verify_graph(made, "narrow-products")
    ops = [n.op for n in made.nodes if n.op != "relu"]
    # The tensor is rounded once for both, and before it is padded; what the graph no longer needs is still there.
    assert ops.count("conv_widening") == 2
    assert ops.count("matmul_widening") == 1
    assert (ops.count("cast"), ops.count("pad")) == (2, 2)
    pad = next(n for n in made.nodes if n.op == "pad" and n.output.dtype == dtype)
    assert next(n for n in made.nodes if n.output is pad.operands[0]).op == "cast"


@pytest.mark.parametrize("dtype", TYPES)
def test_what_it_computes(dtype: str) -> None:
    """One convolution of rounded factors is that of the factors rounded before."""
    graph, feeds = convolutions()
    (name,) = [n.output.name for n in graph.nodes if n.op == "conv"][:1]
    made = narrow_products(graph, {name: dtype})

    def rounded(a: np.ndarray) -> np.ndarray:
        return a.astype(TYPES[dtype]).astype(np.float32)

    conv = next(n for n in graph.nodes if n.output.name == name)
    weights = conv.operands[1]
    assert weights.data is not None
    constant = replace(weights, data=rounded(weights.data))
    exact = replace(
        graph, nodes=tuple(replace(n, inputs=(n.inputs[0], constant)) if n is conv else n for n in graph.nodes)
    )
    given = {k: rounded(v) for k, v in feeds.items()}
    want = interpret(replace(exact, outputs=(conv.output,), output_names=(name,)), given)
    output = next(n.output for n in made.nodes if n.op == "conv_widening")
    found = interpret(replace(made, outputs=(output,), output_names=(name,)), feeds)
    # Parts of 16 products are added up in float16.
    tolerance = 1e-6 if dtype == "bfloat16" else 1e-3
    np.testing.assert_allclose(found[name], want[name], rtol=tolerance, atol=tolerance)


def test_tf32() -> None:
    """Factors stay float32, and what is multiplied of them is rounded: not before they are padded, nor are weights."""
    graph, feeds = convolutions()
    names = [n.output.name for n in graph.nodes if n.op in ("conv", "matmul")]
    made = narrow_products(graph, dict.fromkeys(names, "tf32"))
    verify_graph(made, "narrow-products")
    ops = [n.op for n in made.nodes]
    assert (ops.count("conv_widening"), ops.count("matmul_widening"), ops.count("cast"), ops.count("pad")) == (
        2,
        1,
        0,
        1,
    )
    (want,), (found,) = interpret(graph, feeds).values(), interpret(made, feeds).values()
    off = np.abs(found - want).max() / np.abs(want).max()
    assert 1e-5 < off < 2e-3


def test_where_fragments_of_tf32_are_worth_it() -> None:
    ampere = load_target("cuda-sm80")
    (node,) = product(256, 256, 256).nodes
    (choice,) = narrow_choices(node, ampere)
    assert (choice.dtype, choice.group, choice.many) == ("tf32", 1, False)
    assert choice.cycles < choice.exact
    assert not narrow_choices(node, load_target("cuda")), "it has no fragments of tf32"
    assert not narrow_choices(node, load_target("opencl")), "it has no fragments"
    (few,) = product(4, 256, 256).nodes
    assert not narrow_choices(few, ampere), "most of a fragment would be empty"
    (flat,) = product(4096, 8, 4096).nodes
    assert not narrow_choices(flat, ampere), "it waits for memory"


def product(rows: int, depth: int, columns: int) -> Graph:
    random = np.random.default_rng(2)
    b = Builder()
    x = input_value(b, np.zeros((rows, depth), np.float32))
    y = b.add("matmul", x, b.constant(random.standard_normal((depth, columns)).astype(np.float32)))
    return Graph("g", (x,), (y,), tuple(b.nodes), ("y",))


def test_what_is_worth_it() -> None:
    bf16 = load_target("x86-64-v4-bf16")
    (node,) = product(256, 256, 256).nodes
    (choice,) = narrow_choices(node, bf16)
    assert (choice.dtype, choice.group, choice.many) == ("bfloat16", 2, True)
    assert choice.cycles < choice.exact
    assert not narrow_choices(node, load_target("x86-64-v4")), "nothing multiplies pairs there"
    (choice,) = narrow_choices(node, load_target("arm64-fp16"))
    assert (choice.dtype, choice.group, choice.many) == ("float16", 2, False)
    # Rounding a factor takes as long as four columns of multiplications.
    (few,) = product(256, 256, 4).nodes
    assert not narrow_choices(few, bf16)
    # No part of 8 to 32 products divides 74.
    (odd,) = product(256, 2 * 37, 256).nodes
    assert not narrow_choices(odd, load_target("arm64-fp16"))


@pytest.mark.parametrize(
    ("depth", "part"), [(64, 32), (24, 24), (9, 9), (40, 20), (100, 25), (74, 0), (7, 0), (576, 32)]
)
def test_parts_divide_the_depth(depth: int, part: int) -> None:
    """Whole vectors where that makes parts of half the length at least."""
    assert part_of(depth) == part
