"""The graph, its printer and its verifier."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sterna.errors import SternaError
from sterna.ir.graph import Graph, Names, Node, Value, in_order, replace_values, tensor_type
from sterna.ir.printer import print_graph
from sterna.ir.verifier import verify
from sterna.ops import Builder, infer


def small() -> Graph:
    """relu(x) + 1, and the sum of it."""
    builder = Builder()
    x = Value(builder.name("x"), tensor_type("float32", (2, 3)))
    y = builder.add("relu", x, result="y", sources=("layer",))
    z = builder.add("add", y, builder.scalar(1.0, "float32"), result="z")
    total = builder.add("reduce_sum", z, axes=(1,), keep_dims=False, result="total")
    return Graph("small", (x,), (z, total), tuple(builder.nodes))


def test_text() -> None:
    assert print_graph(small()).splitlines() == [
        "graph small(%x: float32[2, 3]) {",
        '  %y = relu(%x) : float32[2, 3]    # from "layer"',
        "  %z = add(%y, float32[] 1.0) : float32[2, 3]",
        "  %total = reduce_sum(%z) {axes = [1], keep_dims = False} : float32[2]",
        "  return z = %z, total = %total",
        "}",
    ]


def test_users_producers_and_order() -> None:
    graph = small()
    relu, add, total = graph.nodes
    assert graph.producers()[relu.output] is relu
    assert graph.users()[add.output] == [total]
    assert in_order([total, add, relu]) == (relu, add, total)
    assert [v.name for v in graph.values()] == ["x", "y", "1.0", "z", "total"]


def test_a_cycle_has_no_order() -> None:
    kind = tensor_type("float32", (1,))
    a, b = Value("a", kind), Value("b", kind)
    assert in_order([Node("relu", (b,), (a,)), Node("relu", (a,), (b,))]) is None


def test_replacement_follows_chains_and_reaches_outputs() -> None:
    graph = small()
    relu, add, _ = graph.nodes
    changed = replace_values(graph, {add.output: relu.output, relu.output: graph.inputs[0]})
    assert changed.outputs[0] is graph.inputs[0]
    assert changed.output_names == ("z", "total")
    assert changed.nodes[2].inputs == (graph.inputs[0],)


def test_names_are_fresh() -> None:
    names = Names(["a", "a.1"])
    assert [names.fresh("a"), names.fresh("a"), names.fresh("b")] == ["a.2", "a.3", "b"]


def test_the_verifier_accepts_and_gives_back() -> None:
    graph = small()
    assert verify(graph, infer) is graph


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (lambda g: replace(g, nodes=g.nodes[::-1]), "read before it is defined"),
        (lambda g: replace(g, nodes=(*g.nodes, replace(g.nodes[0], name="again"))), "y is defined twice"),
        (lambda g: replace(g, nodes=(g.nodes[0], *g.nodes)), "two nodes are named"),
        (lambda g: replace(g, output_names=("one",)), "output names"),
        (
            lambda g: replace(g, nodes=(replace(g.nodes[0], outputs=(Value("y", tensor_type("float32", (9,))),)),)),
            "typed",
        ),
        (lambda g: replace(g, nodes=(replace(g.nodes[0], op="frobnicate"),)), "no core operator frobnicate"),
        (
            lambda g: replace(g, outputs=(Value("x", g.inputs[0].type, np.ones(1, np.float32)),) * 2),
            "holds float32(1,)",
        ),
    ],
)
def test_the_verifier_refuses(broken: object, said: str) -> None:
    assert callable(broken)
    with pytest.raises(SternaError, match="E0901") as caught:
        verify(broken(small()), infer, "a test")
    assert said in str(caught.value)
