"""Truth values that are only moved are bytes; what asks for them keeps them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sterna.debug.interpret import interpret
from sterna.ir.graph import Graph
from sterna.ir.integer import Int
from sterna.ops import Builder
from sterna.te import expr as E
from sterna.te.interpreter import run_kernel
from sterna.te.moves import as_bytes
from sterna.te.position import position
from sterna.te.tensor import Kernel, compute, placeholder
from support.compiling import input_value, run


def moved(shape: tuple[int, ...], seed: int) -> tuple[Graph, np.ndarray]:
    """A truth tensor turned, cut, padded with True, joined with a constant, and turned again."""
    random, b = np.random.default_rng(seed), Builder()
    data = random.random(shape) < 0.5
    x = input_value(b, data)
    order = tuple(random.permutation(len(shape)).tolist())
    y = b.transpose(x, order)
    sizes = tuple(int(random.integers(1, int(n), endpoint=True)) for n in y.shape)
    cut = b.add("slice", y, starts=(0,) * len(sizes), sizes=sizes, steps=(1,) * len(sizes))
    padded = b.add("pad", cut, before=(1,) * len(sizes), after=(2,) * len(sizes), value=True)
    table = b.constant(random.random([int(n) for n in padded.shape]) < 0.5)
    joined = b.add("concat", padded, table, axis=0)
    back = b.transpose(joined, tuple(reversed(range(len(shape)))))
    answered = b.add("logical_not", back)
    return Graph("g", (x,), (back, answered), tuple(b.nodes)), data


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=4), st.integers(0, 1 << 16))
def test_any_moves(shape: list[int], seed: int) -> None:
    """Every stage of compiling gives what the graph's interpreter gives."""
    x = placeholder("x", shape, "bool")
    random = np.random.default_rng(seed)
    data = random.random(shape) < 0.5
    order = random.permutation(len(shape)).tolist()

    def element(*i: object) -> E.Expr:
        return x[tuple(i[order.index(n)] for n in range(len(shape)))]

    kernel = Kernel("k", (x,), (), (compute("y", [shape[n] for n in order], element),))
    made = as_bytes(kernel)
    assert {t.dtype for t in (*made.inputs, *made.outputs)} == {"uint8"}
    found = run_kernel(made, {"x": data.view(np.uint8)})["y"]
    np.testing.assert_array_equal(found.view(np.bool_), data.transpose(order))


@pytest.mark.parametrize("generator", ["c", "llvm"])
@pytest.mark.parametrize("shape", [(37, 65), (1, 8, 13, 13), (3, 2, 5, 4, 3), (70,)])
def test_compiled(shape: tuple[int, ...], generator: str, tmp_path: Path) -> None:
    graph, data = moved(shape, len(shape))
    feeds = {graph.inputs[0].name: data}
    wanted = interpret(graph, feeds)
    for name, found in run(graph, feeds, tmp_path, generator).items():
        assert found.dtype == np.bool_
        np.testing.assert_array_equal(found, wanted[name])


def test_what_asks_keeps_truth_values() -> None:
    x, y = placeholder("x", (8,), "bool"), placeholder("y", (8,), "float32")
    asks = compute("a", (8,), lambda i: E.binary("and", x[i], x[7 - i]))
    compares = compute("b", (8,), lambda i: E.compare("lt", y[i], 0.0))
    chooses = compute("c", (8,), lambda i: E.select(x[i], x[7 - i], E.const(False, "bool")))
    for stage in (asks, compares, chooses):
        kernel = Kernel("k", (y,) if stage is compares else (x,), (), (stage,))
        assert as_bytes(kernel) is kernel


def test_data_decides_nothing_and_what_must_hold_stays() -> None:
    """A position that is data may be that of another moved value; what must hold is read as a truth value."""
    x, k = placeholder("x", (8,), "bool"), placeholder("k", (), "int64")

    def before(i: Int) -> E.Expr:
        return E.select(E.compare("lt", E.index_value(i - position(k[()], 8)), 0), x[i], E.const(False, "bool"))

    for stage, inputs in ((compute("a", (8,), before), (x, k)), (compute("b", (), lambda: x[0], must_hold=True), (x,))):
        kernel = Kernel("k", inputs, (), (stage,))
        assert as_bytes(kernel) is kernel
