"""Activations of bytes that get the other sign: the same results, whatever reads them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sterna.debug.interpret import interpret
from sterna.ir import dtypes
from sterna.ir.graph import Graph, Value
from sterna.ops import Builder
from sterna.options import Options
from sterna.passes.context import context_of
from sterna.pipeline import optimize
from sterna.targets.description import load_target
from support.compiling import input_value

RANDOM = np.random.default_rng(4)
X = RANDOM.integers(-128, 128, (1, 6, 6, 8)).astype(np.int8)
WINDOW: dict[str, Any] = {"strides": (1, 1), "dilations": (1, 1), "groups": 1}


def bytes_of(b: Builder, total: Value, zero: int = -128, dtype: str = "int8") -> Value:
    """A layer's sums as bytes."""
    small = b.add("bit_shift", total, b.constant(np.array(6, np.int32)), direction="RIGHT")
    moved = b.add("add", small, b.constant(np.array(zero, np.int32))) if zero else small
    low, high = dtypes.limits(dtype)
    return b.add("cast", b.add("clip", moved, min=low, max=high), to=dtype)


def layer(b: Builder, x: Value, channels: int = 8, bias: bool = True, **changes: Any) -> Value:
    depth = int(x.shape[-1]) // changes.get("groups", 1)
    weights = b.constant(RANDOM.integers(-127, 128, (3, 3, depth, channels)).astype(np.int8))
    total = b.add("conv_integer", x, weights, **{**WINDOW, **changes})
    if not bias:
        return total
    return b.add("add", total, b.constant(RANDOM.integers(-900, 900, channels).astype(np.int32)))


def padded(b: Builder, x: Value) -> Value:
    return b.add("pad", x, before=(0, 1, 1, 0), after=(0, 1, 1, 0), mode="constant", value=dtypes.limits(x.dtype)[0])


def residual(b: Builder, x: Value) -> Value:
    zero = np.array(dtypes.limits(x.dtype)[0], np.int32)
    centered = b.add("sub", b.add("cast", x, to="int32"), b.constant(zero))
    return b.add("add", layer(b, padded(b, x)), centered)


def symmetric(b: Builder, x: Value) -> Value:
    """No zero point that the difference could go to, and two readers."""
    wide = b.add("cast", x, to="int32")
    return b.add("add", b.add("mul", wide, wide), layer(b, padded(b, x), bias=False))


def floats(b: Builder, x: Value) -> Value:
    real = b.add("sub", b.add("cast", x, to="float32"), b.constant(np.array(3.0, np.float32)))
    half = b.add("add", b.add("cast", x, to="float32"), b.constant(np.array(0.3, np.float32)))
    total = b.add("cast", layer(b, padded(b, x)), to="float32")
    return b.add("add", b.add("mul", real, half), total)


def table(b: Builder, x: Value) -> Value:
    found = b.add("lookup", x, b.constant(RANDOM.integers(-128, 128, 256).astype(np.int8)))
    return b.add("add", b.add("cast", found, to="int32"), layer(b, padded(b, x)))


def moved(b: Builder, x: Value) -> Value:
    pooled = b.add("max_pool", x, kernel=(2, 2), strides=(1, 1), dilations=(1, 1))
    turned = b.add("transpose", pooled, order=(0, 3, 1, 2))
    part = b.add("slice", turned, starts=(0, 0, 1, 0), sizes=(1, 8, 4, 5), steps=(1, 1, 1, 1))
    return layer(b, b.add("transpose", part, order=(0, 2, 3, 1)))


def dense(b: Builder, x: Value) -> Value:
    flat = b.add("reshape", x, shape=(1, 288))
    weights = b.constant(RANDOM.integers(-127, 128, (288, 5)).astype(np.int8))
    return b.add("matmul_integer", flat, weights)


def rounded(b: Builder, x: Value) -> Value:
    """From floats, and read by a convolution of single channels too."""
    real = b.add("mul", b.add("cast", x, to="float32"), b.constant(np.array(0.7, np.float32)))
    q = b.add("round_to_integer", real, to=x.dtype, zero=5, halves="even")
    return b.add("add", layer(b, padded(b, q)), layer(b, padded(b, q), groups=8))


#: The targets whose dot products read one sign, by the type of activations before.
READERS = {"int8": "x86-64-v4-vnni", "uint8": "arm64-dotprod"}


def both(
    tail: Callable[[Builder, Value], Value], zero: int = -128, is_output: bool = False, dtype: str = "int8"
) -> tuple[Graph, Graph]:
    b = Builder()
    x = input_value(b, X)
    first = bytes_of(b, layer(b, padded(b, x)), zero + (128 if dtype == "uint8" else 0), dtype)
    results = (tail(b, first), *([first] if is_output else []))
    graph = Graph("g", (x,), results, tuple(b.nodes), tuple(f"y{n}" for n in range(len(results))))
    dots = context_of(Options(load_target(READERS[dtype])))
    return optimize(graph), optimize(graph, dots, check=True)


def made(graph: Graph, dtype: str) -> int:
    """How many values of a type are made."""
    return sum(value.dtype == dtype for node in graph.nodes for value in node.outputs)


@pytest.mark.parametrize("dtype", READERS)
@pytest.mark.parametrize("zero", [-128, 0, 7])
@pytest.mark.parametrize("tail", [residual, symmetric, floats, table, moved, dense, rounded])
def test_results_are_the_same(tail: Callable[[Builder, Value], Value], zero: int, dtype: str) -> None:
    plain, changed = both(tail, zero, dtype=dtype)
    assert made(changed, "uint8" if dtype == "int8" else "int8") > 0
    assert made(changed, dtype) < made(plain, dtype)
    want, found = (interpret(graph, {"x": X}) for graph in (plain, changed))
    for name, array in want.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)


@pytest.mark.parametrize("dtype", READERS)
@pytest.mark.parametrize("zero", [0, 100, -100])
def test_sums_at_the_ends_of_their_type_stay_clamped(zero: int, dtype: str) -> None:
    """Those of int32 that were saturated before: 128 more or less of them would wrap."""
    ends = np.array([-(2**31), 2**31 - 1, -(2**31) + 120, 2**31 - 120], np.int32)
    sums = np.resize(ends, (1, 6, 6, 8))
    sums = np.where((sums < 0) == (zero < 0), sums - zero, sums).astype(np.int32)
    b = Builder()
    x = input_value(b, sums)
    low, high = dtypes.limits(dtype)
    moved = b.add("add", x, b.constant(np.array(zero, np.int32))) if zero else x
    result = layer(b, b.add("cast", b.add("clip", moved, min=low, max=high), to=dtype))
    graph = Graph("g", (x,), (result,), tuple(b.nodes), ("y",))
    changed = optimize(graph, context_of(Options(load_target(READERS[dtype]))), check=True)
    assert made(changed, "uint8" if dtype == "int8" else "int8") > 0
    np.testing.assert_array_equal(interpret(changed, {"x": sums})["y"], interpret(graph, {"x": sums})["y"])


def test_the_difference_goes_into_constants_that_are_there() -> None:
    plain, unsigned = both(residual)
    # Adding -128 + 128 and taking off -128 + 128 are gone.
    assert len(unsigned.nodes) == len(plain.nodes) - 2


def test_what_leaves_the_graph_stays_as_it_is() -> None:
    _, unsigned = both(residual, is_output=True)
    assert made(unsigned, "uint8") == 0


def test_what_no_dot_product_reads_stays_as_it_is() -> None:
    _, unsigned = both(lambda b, x: layer(b, padded(b, x), groups=8))
    assert made(unsigned, "uint8") == 0
