"""Einsums of two operands become matrix products where they are such, and compute the same."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sterna.debug.interpret import interpret
from sterna.ir.graph import Graph, Value, tensor_type
from sterna.ops import Builder
from sterna.passes.einsum_products import einsum_products


def graph_of(equation: str, sizes: dict[str, int], dtype: str = "float32") -> Graph:
    left, result = equation.split("->")
    b = Builder()
    terms = left.split(",")
    letters = sorted(set(left) - {","})
    inputs = tuple(Value(b.name("x"), tensor_type(dtype, tuple(sizes[c] for c in term))) for term in terms)
    labels = tuple(tuple(letters.index(c) for c in term) for term in terms)
    y = b.add("einsum", *inputs, labels=labels, to=tuple(letters.index(c) for c in result))
    return Graph("test", inputs, (y,), tuple(b.nodes))


def check(graph: Graph) -> Graph:
    random = np.random.default_rng(4)
    feeds = {v.name: random.integers(-4, 5, [int(n) for n in v.shape]).astype(v.dtype) for v in graph.inputs}
    after = einsum_products(graph)
    (before,), (now,) = interpret(graph, feeds).values(), interpret(after, feeds).values()
    np.testing.assert_array_equal(now, before)
    return after


@settings(max_examples=80, deadline=None, derandomize=True, database=None)
@given(st.data())
def test_any_product_of_two(data: st.DataObject) -> None:
    kinds = {c: data.draw(st.sampled_from(["batch", "left", "right", "inner"])) for c in "abcdef"}
    kinds["a"] = "inner"
    terms = [
        "".join(data.draw(st.permutations([c for c, kind in kinds.items() if kind in (own, "batch", "inner")])))
        for own in ("left", "right")
    ]
    result = "".join(data.draw(st.permutations([c for c, kind in kinds.items() if kind != "inner"])))
    sizes = {c: data.draw(st.integers(1, 3)) for c in kinds}
    after = check(graph_of(f"{terms[0]},{terms[1]}->{result}", sizes))
    assert [node.op for node in after.nodes if node.op in ("einsum", "matmul")] == ["matmul"]


@pytest.mark.parametrize("equation", ["i,j->ij", "iij,jk->ik", "ii->i", "i,i,i->i"])
def test_others_stay(equation: str) -> None:
    after = check(graph_of(equation, {"i": 2, "j": 3, "k": 4}))
    assert [node.op for node in after.nodes] == ["einsum"]


@pytest.mark.parametrize(
    ("equation", "ops"),
    [
        ("ij->ji", "transpose"),
        ("ijkl->lk", "reduce_sum transpose"),
        ("ij->", "reduce_sum transpose"),
        ("ij,jk->k", "reduce_sum matmul transpose"),
        ("ij,jk->", "reduce_sum reduce_sum matmul transpose"),
        ("ij,kl->jl", "reduce_sum reduce_sum einsum"),
    ],
)
def test_what_one_operand_has_alone_is_summed_there(equation: str, ops: str) -> None:
    after = check(graph_of(equation, {"i": 2, "j": 3, "k": 4, "l": 5}))
    assert [node.op for node in after.nodes if node.op != "reshape"] == ops.split()


@pytest.mark.parametrize(
    ("equation", "products"),
    [("abc,cd,de->abe", 2), ("ab,ac,ad->bcd", 1), ("ai,bi,ci,di->abcd", 1), ("i,j,k->ijk", 0), ("ab,bc,cd,da->", 3)],
)
def test_several_operands_are_multiplied_two_at_a_time(equation: str, products: int) -> None:
    after = check(graph_of(equation, dict.fromkeys("abcdeijk", 6)))
    assert [node.op for node in after.nodes].count("matmul") == products
    assert all(len(node.inputs) <= 2 for node in after.nodes)


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(st.data())
def test_any_sum(data: st.DataObject) -> None:
    row = st.lists(st.sampled_from("abcde"), unique=True, max_size=4).map("".join)
    terms = data.draw(st.lists(row, min_size=1, max_size=4))
    result = "".join(
        data.draw(st.permutations(sorted({c for term in terms for c in term if data.draw(st.booleans())})))
    )
    check(graph_of(f"{','.join(terms)}->{result}", {c: data.draw(st.integers(1, 3)) for c in "abcde"}))


def test_integers_stay() -> None:
    after = check(graph_of("ij,jk->ik", {"i": 2, "j": 3, "k": 4}, "int32"))
    assert [node.op for node in after.nodes] == ["einsum"]
