"""Reductions over short rows and around them become two, and compute the same."""

from __future__ import annotations

import numpy as np
import pytest

from sterna.debug.interpret import interpret
from sterna.ir.graph import Graph, Value, tensor_type
from sterna.ops import Builder
from sterna.passes.separate_reductions import separate_reductions


def graph_of(op: str, shape: tuple[int, ...], axes: tuple[int, ...], dtype: str, keep: bool = False) -> Graph:
    b = Builder()
    x = Value(b.name("x"), tensor_type(dtype, shape))
    y = b.add(op, x, axes=axes, keep_dims=keep)
    return Graph("g", (x,), (y,), tuple(b.nodes), ("y",))


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("op", ["sum", "mean", "max", "min", "prod"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
@pytest.mark.parametrize(("shape", "axes"), [((2, 9, 4, 5), (1, 3)), ((6, 1, 3, 2, 2), (0, 3, 4)), ((8, 3, 2), (0, 2))])
def test_two_steps(shape: tuple[int, ...], axes: tuple[int, ...], dtype: str, op: str, keep: bool) -> None:
    before = graph_of(f"reduce_{op}", shape, axes, dtype, keep)
    after = separate_reductions(before)
    if (op, dtype) == ("mean", "int32"):  # it would be rounded twice
        assert after is before
        return
    reductions = [node.attributes["axes"] for node in after.nodes if node.op.startswith("reduce_")]
    assert len(reductions) == 2
    assert sorted(reductions[0] + reductions[1]) == list(axes)
    x = np.random.default_rng(0).integers(-3, 4, shape).astype(dtype)
    want, found = (interpret(graph, {"x": x})["y"] for graph in (before, after))
    np.testing.assert_allclose(found, want, rtol=1e-6 if dtype != "float16" else 1e-3, atol=1e-7)
    assert found.shape == want.shape


def test_half_floats_are_rounded_once() -> None:
    x = np.random.default_rng(1).uniform(0.5, 1, (64, 5, 7)).astype(np.float16)
    before = graph_of("reduce_sum", x.shape, (0, 2), "float16")
    found = interpret(separate_reductions(before), {"x": x})["y"]
    np.testing.assert_array_equal(found, x.astype(np.float64).sum((0, 2)).astype(np.float16))


@pytest.mark.parametrize(
    ("op", "shape", "axes", "dtype"),
    [
        ("reduce_sum", (4, 9, 7), (1, 2), "float32"),
        ("reduce_sum", (4, 9, 7), (2,), "float32"),
        ("reduce_sum", (9, 4, 7), (0,), "float32"),
        ("reduce_sum", (9, 4, 64), (0, 2), "float32"),
        ("reduce_sum", (2, 4, 7), (0, 2), "float32"),
        ("reduce_sum", (9, 1, 7), (0, 2), "float32"),
        ("reduce_mean", (9, 4, 7), (0, 2), "int32"),
    ],
)
def test_those_that_stay(op: str, shape: tuple[int, ...], axes: tuple[int, ...], dtype: str) -> None:
    """One run of dimensions, long rows, few around them, and means of integers."""
    before = graph_of(op, shape, axes, dtype)
    assert separate_reductions(before) is before
