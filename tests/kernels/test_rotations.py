"""Rotary embeddings in the forms that models have: one kernel of a device, and the same numbers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from sterna.debug.interpret import interpret
from sterna.driver import compile_graph
from sterna.ir.graph import Graph, Value, tensor_type
from sterna.ops import Builder
from sterna.options import Options
from sterna.passes.rotations import rotations
from sterna.targets.description import load_target
from support.opencl_host import opencl_target

HALF = 8
SHAPE = (2, 5, 3, 2 * HALF)
Turn = Callable[[Builder, Value], Value]


def cut(b: Builder, x: Value, start: int, size: int, step: int = 1, axis: int = -1) -> Value:
    rank = x.type.rank
    starts, sizes, steps = [0] * rank, list(x.shape), [1] * rank
    starts[axis], sizes[axis], steps[axis] = start, size, step
    return b.add("slice", x, starts=tuple(starts), sizes=tuple(sizes), steps=tuple(steps))


def halves(b: Builder, x: Value) -> Value:
    """[-x2, x1] of rows [x1, x2]."""
    return b.add("concat", b.add("neg", cut(b, x, HALF, HALF)), cut(b, x, 0, HALF), axis=x.type.rank - 1)


def two_rows(b: Builder, x: Value) -> Value:
    """The same of rows that are two of half the size, with a product in the place of a change of sign."""
    rows = b.add("reshape", x, shape=(*x.shape[:-1], 2, HALF))
    first, second = (b.add("reshape", cut(b, rows, n, 1, axis=-2), shape=(*x.shape[:-1], HALF)) for n in range(2))
    return b.add("concat", b.add("mul", b.scalar(-1.0, "float32"), second), first, axis=x.type.rank - 1)


def pairs(b: Builder, x: Value) -> Value:
    """[-x1, x0, -x3, x2 ...]"""
    odd, even = cut(b, x, 1, HALF, 2), cut(b, x, 0, HALF, 2)
    parts = [b.add("reshape", part, shape=(*x.shape[:-1], HALF, 1)) for part in (b.add("neg", odd), even)]
    return b.add("reshape", b.add("concat", *parts, axis=x.type.rank), shape=x.shape)


def pairs_of_rows(b: Builder, x: Value) -> Value:
    """The same of rows of pairs."""
    rows = b.add("reshape", x, shape=(*x.shape[:-1], HALF, 2))
    parts = b.add("neg", cut(b, rows, 1, 1)), cut(b, rows, 0, 1)
    return b.add("reshape", b.add("concat", *parts, axis=x.type.rank), shape=x.shape)


def with_ones(b: Builder, x: Value) -> Value:
    """Halves, with axes of one element that come and go."""
    lead = x.shape[:-1]
    second = b.add("reshape", b.add("neg", cut(b, x, HALF, HALF)), shape=(lead[0], 1, *lead[1:], HALF))
    first = b.add("reshape", cut(b, x, 0, HALF), shape=second.shape)
    return b.add("reshape", b.add("concat", second, first, axis=x.type.rank), shape=x.shape)


def embedded(turn: Turn) -> Graph:
    """x * cos + turned x * sin, with one of each for every position."""
    b, random = Builder(), np.random.default_rng(0)
    x = Value(b.name("x"), tensor_type("float32", SHAPE))
    cos, sin = (b.constant(random.standard_normal((5, 1, 2 * HALF)).astype(np.float32)) for _ in range(2))
    y = b.add("add", b.add("mul", x, cos), b.add("mul", turn(b, x), sin))
    return Graph("rotary", (x,), (b.add("mul", y, b.scalar(0.25, "float32")),), tuple(b.nodes))


def feeds() -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(1).standard_normal(SHAPE).astype(np.float32)}


@pytest.mark.parametrize("turn", [halves, two_rows, pairs, pairs_of_rows, with_ones])
def test_a_rotary_embedding_is_one_kernel(turn: Turn) -> None:
    graph = embedded(turn)
    turned = rotations(graph)
    assert [node.op for node in turned.nodes].count("strided") == 1
    assert not any(node.op in ("concat", "slice", "neg") for node in turned.nodes)
    (found,), (wanted,) = interpret(turned, feeds()).values(), interpret(graph, feeds()).values()
    np.testing.assert_array_equal(found, wanted)
    assert [len(compile_graph(graph, "rotary", Options(t)).kernels) for t in (opencl_target(groups=True),)] == [1]


@pytest.mark.parametrize("turn", [halves, pairs])
def test_factors_that_are_repeated_alike(turn: Turn) -> None:
    """Half as many factors as elements, of a table: what repeats them is such a reading too, of fewer axes."""
    b = Builder()
    x, table = (Value(b.name(name), tensor_type("float32", s)) for name, s in (("x", SHAPE), ("a", (5, 1, 2 * HALF))))
    factors = cut(b, table, 0, HALF)
    if turn is halves:
        every = b.add("concat", factors, factors, axis=2)
    else:
        one = b.add("reshape", factors, shape=(5, 1, HALF, 1))
        every = b.add("reshape", b.add("concat", one, one, axis=3), shape=(5, 1, 2 * HALF))
    y = b.add("add", b.add("mul", x, every), b.add("mul", turn(b, x), b.add("sin", every)))
    graph = Graph("rotary", (x, table), (y,), tuple(b.nodes))
    given = {**feeds(), "a": np.random.default_rng(2).standard_normal((5, 1, 2 * HALF)).astype(np.float32)}
    (found,), (wanted,) = interpret(rotations(graph), given).values(), interpret(graph, given).values()
    np.testing.assert_array_equal(found, wanted)


def test_cpus_have_the_graph_as_it_is() -> None:
    target = load_target("x86-64-v3")
    assert len(compile_graph(embedded(halves), "rotary", Options(target)).kernels) > 1


def test_what_others_read_is_whole() -> None:
    """The result is read in its own shape, by what is not element by element, too."""
    b, (x, *_) = Builder(), embedded(halves).inputs
    turned = halves(b, x)
    graph = Graph("read", (x,), (b.add("softmax", turned, axis=-1), b.add("relu", turned)), tuple(b.nodes))
    changed = rotations(graph)
    assert [node.op for node in changed.nodes] == ["reshape", "strided", "mul", "reshape", "softmax", "relu"]
    for found, wanted in zip(interpret(changed, feeds()).values(), interpret(graph, feeds()).values(), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_what_is_no_rotation_stays() -> None:
    """Parts of other tensors, of other sizes, or of other axes, and other functions of them."""

    def graph(*parts: Callable[[Builder, Value], Value], axis: int = 3) -> Graph:
        b = Builder()
        x = Value(b.name("x"), tensor_type("float32", SHAPE))
        return Graph("other", (x,), (b.add("concat", *(part(b, x) for part in parts), axis=axis),), tuple(b.nodes))

    lower, upper = (lambda b, x: cut(b, x, 0, HALF)), (lambda b, x: cut(b, x, HALF, HALF))
    for other in (
        graph(upper, lambda b, x: cut(b, x, 0, 4)),
        graph(upper, lambda b, x: b.add("relu", lower(b, x))),
        graph(upper, lambda b, x: lower(b, b.add("neg", x))),
        graph(upper, lower, axis=2),
        graph(upper, lower, lower),
    ):
        assert rotations(other) is other


def test_parts_that_are_made_of_nothing_stay() -> None:
    """Numbers in a row, as of an open length, which masks of attention are made of."""
    b = Builder()
    rows = [b.add("arange", start=start, step=1, size=(2,), to="int64") for start in (2, 0)]
    graph = Graph("numbers", (), (b.add("concat", *rows, axis=0),), tuple(b.nodes))
    assert rotations(graph) is graph
