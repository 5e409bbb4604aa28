"""Rows and transposes of bytes and 16-bit numbers fill vector registers, and compute what they should."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from sterna.ir.graph import Graph, Value
from sterna.loops import program as P
from sterna.ops import Builder
from sterna.te import expr as E
from support.compiling import build, compiled, input_value

Built = tuple[Graph, dict[str, np.ndarray], np.ndarray]
Case = Callable[[Builder, Value, np.ndarray], tuple[Value, np.ndarray]]


def _numbers(dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    random = np.random.default_rng(11)
    return random.random(shape) < 0.5 if dtype == "bool" else random.integers(0, 120, shape).astype(dtype)


def _flipped(b: Builder, x: Value, a: np.ndarray) -> tuple[Value, np.ndarray]:
    return b.add("logical_not", x), ~a


def _same(b: Builder, x: Value, a: np.ndarray) -> tuple[Value, np.ndarray]:
    return b.add("maximum", x, b.constant(a.dtype.type(60))), np.maximum(a, a.dtype.type(60))


def _padded(b: Builder, x: Value, a: np.ndarray) -> tuple[Value, np.ndarray]:
    y = b.add("pad", x, before=(1, 2), after=(0, 3), mode="constant", value=7)
    return y, np.pad(a, ((1, 0), (2, 3)), constant_values=7)


def _reversed(b: Builder, x: Value, a: np.ndarray) -> tuple[Value, np.ndarray]:
    shape = a.shape
    return b.add("slice", x, starts=(0, shape[1] - 1), steps=(1, -1), sizes=shape), a[:, ::-1]


def _every_second(b: Builder, x: Value, a: np.ndarray) -> tuple[Value, np.ndarray]:
    sizes = (a.shape[0], -(-a.shape[1] // 2))
    return b.add("slice", x, starts=(0, 0), steps=(1, 2), sizes=sizes), a[:, ::2]


def _transposed(b: Builder, x: Value, a: np.ndarray) -> tuple[Value, np.ndarray]:
    return b.transpose(x, (1, 0)), a.T


def _greatest(b: Builder, x: Value, a: np.ndarray) -> tuple[Value, np.ndarray]:
    return b.add("reduce_max", x, axes=(1,), keep_dims=False), a.max(1)


def _greatest_of_columns(b: Builder, x: Value, a: np.ndarray) -> tuple[Value, np.ndarray]:
    return b.add("reduce_max", x, axes=(0,), keep_dims=False), a.max(0)


def _pooled(b: Builder, x: Value, a: np.ndarray) -> tuple[Value, np.ndarray]:
    """Windows of three rows, padded, that lie one row apart; the columns are channels."""
    least = int(np.iinfo(a.dtype).min)
    y = b.add("reshape", x, shape=(1, *a.shape[:1], 1, *a.shape[1:]))
    y = b.add("pad", y, before=(0, 1, 1, 0), after=(0, 1, 1, 0), mode="constant", value=least)
    y = b.add("max_pool", y, kernel=(3, 3), strides=(1, 1), dilations=(1, 1))
    rows = np.pad(a, ((1, 1), (0, 0)), constant_values=least)
    return b.add("reshape", y, shape=a.shape), np.maximum(np.maximum(rows[:-2], rows[1:-1]), rows[2:])


def _graph(case: Case, dtype: str, shape: tuple[int, ...]) -> Built:
    b = Builder()
    a = _numbers(dtype, shape)
    x = input_value(b, a)
    y, expected = case(b, x, a)
    return Graph("rows", (x,), (y,), tuple(b.nodes)), {x.name: a}, expected


def _widest(graph: Graph, target: str) -> int:
    """The most lanes of what the graph's kernels load."""
    functions = [kernel.function for kernel in compiled(graph, target).kernels]
    loads = (e for f in functions for s in P.walk(f.body) for e in P.own_loads(s))
    return max((e.lanes for e in loads if isinstance(e, E.Load)), default=1)


@pytest.mark.parametrize(
    ("target", "byte", "short"),
    [("x86-64-v2", 16, 8), ("x86-64-v3", 32, 16), ("x86-64-v4", 64, 32), ("arm64", 16, 8), ("browser", 16, 8),
     ("cortex-m55", 16, 8), ("cortex-m4", 1, 1)],
)  # fmt: skip
def test_rows_fill_registers(target: str, byte: int, short: int) -> None:
    assert _widest(_graph(_same, "uint8", (4, 640))[0], target) == byte
    assert _widest(_graph(_flipped, "bool", (4, 640))[0], target) == byte
    assert _widest(_graph(_same, "int16", (4, 640))[0], target) == short
    assert _widest(_graph(_padded, "int8", (9, 200))[0], target) == byte
    assert _widest(_graph(_greatest, "int8", (9, 200))[0], target) == byte
    assert _widest(_graph(_pooled, "uint8", (9, 200))[0], target) == byte


@pytest.mark.parametrize(
    ("target", "byte", "short"),
    [("x86-64-v2", 16, 8), ("x86-64-v3", 16, 16), ("x86-64-v4", 16, 16), ("browser", 16, 8), ("cortex-m55", 4, 4)],
)
def test_squares_of_narrow_elements(target: str, byte: int, short: int) -> None:
    """As many rows as lanes, which registers hold; those of 32 bits where no instruction interleaves vectors."""
    assert _widest(_graph(_transposed, "uint8", (96, 96))[0], target) == byte
    assert _widest(_graph(_transposed, "int16", (96, 96))[0], target) == short


def _found(b: Builder, x: Value, a: np.ndarray) -> tuple[Value, np.ndarray]:
    return b.add("arg_max", x, axis=0, keep_dims=False, last=False), a.argmax(0)


@pytest.mark.parametrize(("target", "lanes"), [("x86-64-v2", 4), ("x86-64-v4", 16), ("browser", 4)])
def test_positions_are_found_in_vectors_of_32_bits(target: str, lanes: int) -> None:
    """They are stored in 64, and were computed in as few lanes as those have."""
    assert _widest(_graph(_found, "float32", (40, 640))[0], target) == lanes
    assert _widest(_graph(_found, "uint8", (40, 640))[0], target) == lanes


def _narrowed(b: Builder, x: Value, a: np.ndarray) -> tuple[Value, np.ndarray]:
    return b.add("cast", x, to="uint8"), a.astype(np.uint8)


def _rounded(b: Builder, x: Value, a: np.ndarray) -> tuple[Value, np.ndarray]:
    y = b.add("round_to_integer", b.add("cast", x, to="float32"), to="uint8", zero=3)
    return y, np.clip(a.astype(np.int32) + 3, 0, 255).astype(np.uint8)


@pytest.mark.parametrize(
    ("target", "moved", "rounded"),
    [("x86-64-v2", 16, 8), ("x86-64-v3", 16, 16), ("x86-64-v4", 16, 16), ("arm64", 16, 8), ("browser", 16, 4),
     ("cortex-m55", 4, 1)],
)  # fmt: skip
def test_what_is_narrowed_is_stored_in_whole_registers(target: str, moved: int, rounded: int) -> None:
    """Integers that are moved into fewer bits; floats that instructions round to bytes two vectors at a time."""
    assert _widest(_graph(_narrowed, "int32", (4, 640))[0], target) == moved
    assert _widest(_graph(_rounded, "float32", (4, 640))[0], target) == rounded


CASES: list[Any] = [
    _narrowed, _rounded, _same, _padded, _reversed, _every_second, _transposed, _greatest, _greatest_of_columns,
    _pooled, _found
]  # fmt: skip


@settings(max_examples=20, deadline=None)
@given(
    case=st.sampled_from(CASES),
    dtype=st.sampled_from(["uint8", "int8", "int16"]),
    shape=st.tuples(st.integers(1, 40), st.integers(1, 150)),
    target=st.sampled_from(["x86-64-v2", "x86-64-v3"]),
    generator=st.sampled_from(["c", "llvm"]),
)
def test_rows_of_any_length(
    case: Case,
    dtype: str,
    shape: tuple[int, int],
    target: str,
    generator: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    graph, inputs, expected = _graph(case, dtype, shape)
    directory = tmp_path_factory.mktemp("rows")
    with build(graph, directory / "rows", target, generator) as bundle:
        (found,) = bundle.run(inputs).values()
    np.testing.assert_array_equal(found, expected)
