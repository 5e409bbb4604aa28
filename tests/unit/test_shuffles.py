"""Loads of scattered lanes become loads of vectors and shuffles that give the same lanes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sterna.ir import dtypes
from sterna.ir.integer import Symbol, as_int
from sterna.ir.memory import INPUT, OUTPUT
from sterna.loops import program as P
from sterna.loops.interpreter import run_function
from sterna.loops.shuffles import shuffle_loads
from sterna.te import expr as E


def column(x: P.Buffer, at: int, lanes: int, stride: int, active: int | None = None) -> E.Load:
    return E.Load(x.dtype, tensor=x, indices=(as_int(at),), lanes=lanes, stride=stride, active=active)


def outputs_of(body: P.Stmt, x: P.Buffer, y: P.Buffer) -> np.ndarray:
    """What a program makes of the numbers 0, 1, ... in its input."""
    memory = {b.name: np.arange(b.elements).astype(dtypes.to_numpy(b.dtype)) for b in (x, y)}
    run_function(P.Function("k", (x,), (), (y,), as_int(1), 0, body), memory)
    return memory["y"]


def buffers(dtype: str, elements: int, results: int) -> tuple[P.Buffer, P.Buffer]:
    return (
        P.dense_buffer("x", dtype, (as_int(elements),), INPUT),
        P.dense_buffer("y", dtype, (as_int(results),), OUTPUT),
    )


def scattered(stmt: P.Stmt) -> list[E.Load]:
    values = [v for s in P.walk(stmt) if (v := P.value_of(s)) is not None]
    return [load for v in values for load in E.loads(v) if load.stride > 1]


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(
    st.sampled_from(["float32", "int8", "int16", "float64"]),
    st.sampled_from([2, 4, 8, 16]),
    st.integers(2, 40),
    st.data(),
)
def test_columns_side_by_side_are_transposed(dtype: str, lanes: int, stride: int, data: st.DataObject) -> None:
    count = data.draw(st.integers(1, lanes))
    columns = data.draw(st.integers(2, 2 * lanes + 1))
    active = None if count == lanes else count
    x, y = buffers(dtype, (lanes - 1) * stride + columns + 3, columns * lanes)
    stores = [
        P.Store(y, as_int(n * lanes), column(x, 3 + n, lanes, stride, active), active=active) for n in range(columns)
    ]
    before = P.seq(*stores)
    after = shuffle_loads(before)
    np.testing.assert_array_equal(outputs_of(after, x, y), outputs_of(before, x, y))
    if stride <= 3 or (4 * (columns % lanes or lanes) >= lanes > 1 and columns % lanes != 1):
        assert scattered(after) == []


def test_a_transpose_takes_a_load_for_each_row() -> None:
    x, y = buffers("float32", 16 * 100, 256)
    stores = [P.Store(y, as_int(n * 16), column(x, n, 16, 100)) for n in range(16)]
    after = shuffle_loads(P.seq(*stores))
    lets = [s.value for s in P.members(after) if isinstance(s, P.Let)]
    assert sum(isinstance(v, E.Load) for v in lets) == 16
    assert sum(isinstance(v, P.Shuffle) for v in lets) == 4 * 16


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(
    st.sampled_from(["float32", "int8", "int16"]), st.sampled_from([2, 4, 8]), st.integers(8, 40), st.integers(0, 40),
    st.integers(0, 39),
)  # fmt: skip
def test_columns_of_long_rows_in_any_places(dtype: str, lanes: int, stride: int, columns: int, moved: int) -> None:
    """One store may stand elsewhere, so that only what stands before or after it is woven."""
    x, y = buffers(dtype, (lanes - 1) * stride + columns + 3, (columns + 1) * lanes)
    places = [columns if n == moved else n for n in range(columns)]
    before = P.seq(*(P.Store(y, as_int(at * lanes), column(x, 3 + n, lanes, stride)) for n, at in enumerate(places)))
    after = shuffle_loads(before)
    np.testing.assert_array_equal(outputs_of(after, x, y), outputs_of(before, x, y))


def test_columns_of_long_rows_take_whole_vectors() -> None:
    """Of four rows of 16 bytes: a load of each, four shuffles for each of two halvings, four stores."""
    x, y = buffers("int8", 4 * 100, 64)
    after = shuffle_loads(P.seq(*(P.Store(y, as_int(4 * n), column(x, n, 4, 100)) for n in range(16))))
    lets = [s.value for s in P.members(after) if isinstance(s, P.Let)]
    assert [v.lanes for v in lets if isinstance(v, E.Load)] == [16] * 4
    assert [v.lanes for v in lets if isinstance(v, P.Shuffle)] == [16] * 8
    assert sum(isinstance(s, P.Store) for s in P.members(after)) == 4


@pytest.mark.parametrize("stride", [2, 3, 4])
def test_a_short_stride_is_picked_from_whole_vectors(stride: int) -> None:
    x, y = buffers("float32", 8 * stride, 8)
    before = P.Store(y, as_int(0), column(x, 0, 8, stride))
    after = shuffle_loads(before)
    assert scattered(after) == []
    np.testing.assert_array_equal(outputs_of(after, x, y), np.arange(8) * stride)


def test_what_a_store_may_change_is_read_where_it_stands() -> None:
    x, y = buffers("float32", 64, 64)
    moves = [P.Store(y, as_int(n), column(y, n, 4, 9)) for n in range(4)]
    before = P.seq(*moves)
    np.testing.assert_array_equal(outputs_of(shuffle_loads(before), x, y), outputs_of(before, x, y))
    assert not any(isinstance(s, P.Let) for s in P.walk(shuffle_loads(before)))


def test_names_are_of_one_matrix_each() -> None:
    """Blocks on both sides of a loop, whose definitions are seen together."""
    x, y = buffers("float32", 64, 64)
    block = [P.Store(y, as_int(4 * n), column(x, n, 4, 8)) for n in range(4)]
    loop = P.For(Symbol("i", 0, 1), as_int(2), "serial", P.seq(*block))
    lets = [s for s in P.walk(shuffle_loads(P.seq(*block, loop, *block))) if isinstance(s, P.Let)]
    assert len({s.variable.name for s in lets}) == len(lets) == 3 * (4 + 8)
