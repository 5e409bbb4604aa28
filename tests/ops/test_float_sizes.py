"""Sizes that exporters compute in floats: followed through casts, arithmetic and rounding, as exactly as floats are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto

from sterna.driver import Options, compile_graph
from sterna.errors import SternaError
from sterna.frontends.onnx import read
from sterna.ir.graph import Value
from sterna.ir.integer import Int, Symbol, of
from sterna.ops.builder import Builder
from sterna.targets.description import load_target
from support.open_networks import OpenGraph

MOST = 300
S = Symbol("s", 1, MOST)
FLOATS = {"float32": np.float32, "float64": np.float64, "float16": np.float16}

shares = st.sampled_from([0.5, 0.25, 1 / 16, 2.0, 3.0, 1 / 3, 1.5])
steps = st.one_of(
    st.tuples(st.sampled_from(["add", "sub"]), st.sampled_from([1.0, 0.5, 2.0, 1 / 3])),
    st.tuples(st.just("mul"), shares),
    st.tuples(st.just("div"), st.sampled_from([2.0, 16.0, 3.0, 7.0, 0.5, -4.0])),
    st.tuples(st.sampled_from(["floor", "ceil", "neg"]), st.just(0.0)),
)


def computed(chain: list[tuple[str, float]], dtype: str) -> Value:
    """The size s, cast to floats, taken through the steps and cast back."""
    b = Builder(fold=1 << 16)
    x = b.add("cast", b.add("dimensions", sizes=(of(S),)), to=dtype)
    for op, number in chain:
        operands = () if op in ("floor", "ceil", "neg") else (b.constant(np.array([number], FLOATS[dtype])),)
        x = b.add(op, x, *operands)
    return b.add("cast", x, to="int64")


def expected(chain: list[tuple[str, float]], dtype: str) -> Any:
    kind = FLOATS[dtype]
    x = np.arange(1, MOST + 1).astype(kind)
    functions = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}
    for op, number in chain:
        alone = {"floor": np.floor, "ceil": np.ceil, "neg": np.negative}.get(op)
        x = functions[op](x, kind(number)) if alone is None else alone(x)
    return np.trunc(x).astype(np.int64)


def at_every_size(value: Int) -> list[int]:
    return [int(value.evaluate({S: n}.__getitem__)) for n in range(1, MOST + 1)]


@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(st.lists(steps, min_size=1, max_size=5), st.sampled_from([*FLOATS]))
def test_what_is_followed_is_what_floats_give(chain: list[tuple[str, float]], dtype: str) -> None:
    found = computed(chain, dtype)
    if found.contents is not None:
        assert at_every_size(found.contents[0]) == expected(chain, dtype).tolist()
    elif found.data is not None:
        assert set(expected(chain, dtype).tolist()) == {int(found.data[0])}


@pytest.mark.parametrize(
    ("chain", "size"),
    [
        ([("sub", 1.0), ("mul", 1 / 16), ("add", 1.0)], (of(S) + 15) // 16),  # DeepLab, of an image
        ([("sub", 1.0), ("div", 16.0), ("add", 1.0)], (of(S) + 15) // 16),
        ([("div", 3.0), ("ceil", 0.0)], (of(S) + 2) // 3),
        ([("mul", 0.5), ("floor", 0.0), ("mul", 3.0)], of(S) // 2 * 3),
        ([("neg", 0.0), ("mul", 0.25)], -(of(S) // 4)),
    ],
)
def test_sizes_of_exporters(chain: list[tuple[str, float]], size: Int) -> None:
    contents = computed(chain, "float32").contents
    assert contents is not None
    assert at_every_size(contents[0]) == at_every_size(size)


@pytest.mark.parametrize(
    "chain",
    [
        [("mul", 1 / 3)],  # 3 times the float nearest a third may be less than 1
        [("div", 3.0), ("add", 1.0)],
        [("sub", 5.0), ("mul", 0.5)],  # rounded toward zero, from either side of it
        [("mul", float(1 << 20))],
    ],
)
def test_what_floats_do_not_hold_is_not_followed(chain: list[tuple[str, float]]) -> None:
    assert computed(chain, "float32").contents is None


def test_integers_below_zero_are_divided_toward_zero() -> None:
    b = Builder(fold=1 << 16)
    n = b.add("dimensions", sizes=(of(S),))
    found = b.add("div", b.add("neg", n), b.constant(np.array([4])))
    assert found.contents is not None
    assert at_every_size(found.contents[0]) == [-(n // 4) for n in range(1, MOST + 1)]


def _resized(scale: float) -> Any:
    """An image at the size of what a stride leaves of it, each side by itself, as TensorFlow's DeepLab has it."""
    g = OpenGraph(seed=2)
    x = g.input("x", [1, 3, "h", "w"])
    sides = g.node("Cast", g.node("Slice", g.node("Shape", x), g.integers(2), g.integers(4)), to=TensorProto.FLOAT)
    one = g.constant(np.array([1], np.float32))
    left = g.node("Mul", g.node("Sub", sides, one), g.constant(np.array([scale], np.float32)))
    sizes = g.node("Cast", g.node("Add", left, one), to=TensorProto.INT64)
    each = [g.node("Slice", sizes, g.integers(n), g.integers(n + 1)) for n in (0, 1)]
    g.output(g.node("Resize", x, "", "", g.node("Concat", g.integers(1, 3), *each, axis=0), mode="linear"))
    return g.finished("resized")


def test_a_resize_by_such_sizes() -> None:
    options = Options(load_target("host"), "llvm")
    sizes: Any = {"h": (8, 40), "w": (8, 50)}
    graph = compile_graph(read(_resized(0.25), dims=sizes), "resized", options).graph
    h, w = graph.arguments[0].shape[2:]
    assert graph.results[0].shape == (1, 3, (h + 3) // 4, (w + 3) // 4)
    with pytest.raises(SternaError, match="needs sizes to be constant"):
        read(_resized(0.3), dims=sizes)
