"""Loops written out by lane: what their iterations repeat is loaded as vectors, and computes the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sterna.errors import SternaError
from sterna.ir import dtypes
from sterna.ir.integer import as_int
from sterna.ir.memory import INPUT, OUTPUT
from sterna.loops import program as P
from sterna.loops.by_lane import from_lanes
from sterna.loops.finish import finish
from sterna.loops.interpreter import run_function
from sterna.loops.lower import lower
from sterna.loops.printer import print_function
from sterna.schedule.schedule import Schedule
from sterna.schedule.strategies.analysis import Context
from sterna.schedule.strategies.contraction import propose
from sterna.schedule.strategies.recurrence import _tile as recurrent_tile
from sterna.schedule.strategies.register_tile import PAIRED, tile_shape
from sterna.targets.description import load_target
from sterna.te import expr as E
from support.small_kernels import matmul, run


def tile(rows: int, columns: int, depth: int, part: int = 4, lanes: int = 4) -> Schedule:
    """A product in tiles of 2 rows by a vector of 4, `part` steps of it written out by lane."""
    s = Schedule(matmul(rows, columns, depth, constant=True))
    s.tile("out", {"i": 2, "j": 4})
    s.unroll("out", "i.i")
    s.vectorize("out", "j.i")
    s.compute_at("acc", "out", "j.o", "register")
    s.split("acc", "k", part)
    s.reorder("acc", "k.o", "k.i", "i", "j")
    s.by_lane("acc", "k.i", lanes)
    s.unroll("acc", "i")
    s.vectorize("acc", "j")
    return s


def loads_of(function: P.Function, name: str) -> list[E.Load]:
    return [load for load in P.loads(function.body) if load.tensor.name == name]


def test_four_steps_take_their_operands_from_one_vector_of_each_row() -> None:
    s = tile(2, 4, 8)
    assert "(lanes)" in print_function(lower(s))
    done = finish(lower(s))
    assert [(load.lanes, load.active) for load in loads_of(done, "x")] == [(4, None)] * 2
    assert print_function(done).count(".3 x4") == 2
    for generator in ("c", "llvm"):
        run(s, generator)


@pytest.mark.parametrize("depth", [1, 2, 3, 5, 7, 9, 12])
@pytest.mark.parametrize("part", [4, 6, 8])
def test_what_is_left_over_is_taken_from_shorter_vectors(depth: int, part: int) -> None:
    run(tile(3, 7, depth, part))


def test_vectors_may_be_of_any_power_of_two() -> None:
    for lanes in (2, 8):
        s = tile(2, 4, 16, 8, lanes)
        assert {load.lanes for load in loads_of(finish(lower(s)), "x")} == {lanes}
        run(s)
    with pytest.raises(SternaError, match="no vector has 3 elements"):
        tile(2, 4, 8, lanes=3)


def test_a_loop_is_written_out_once() -> None:
    s = Schedule(matmul(2, 4, 8))
    s.by_lane("acc", "k", 4)
    with pytest.raises(SternaError, match="k is lanes already"):
        s.unroll("acc", "k")


def broadcasts(dtype: str, size: int) -> tuple[P.Buffer, P.Buffer]:
    return (
        P.dense_buffer("x", dtype, (as_int(size),), INPUT),
        P.dense_buffer("y", dtype, (as_int(4096),), OUTPUT),
    )


@settings(max_examples=80, deadline=None, derandomize=True, database=None)
@given(
    st.sampled_from(["float32", "int8", "int16"]),
    st.sampled_from([1, 2, 4, 8]),
    st.sampled_from([2, 4, 8, 16]),
    st.data(),
)
def test_any_repeated_elements_come_from_vectors(dtype: str, group: int, width: int, data: st.DataObject) -> None:
    places = data.draw(st.lists(st.integers(0, 60), min_size=1, max_size=24))
    x, y = broadcasts(dtype, max(places) + group)
    lanes = 4 * group
    stores: list[P.Stmt] = []
    for n, place in enumerate(places):
        load = E.Load(dtype, tensor=x, indices=(as_int(place),), lanes=group)
        value: E.Expr = E.unary("neg", load).changed(lanes=group) if data.draw(st.booleans()) else load
        stores.append(P.Store(y, as_int(n * lanes), P.Broadcast(dtype, a=value, lanes=lanes)))
    before = P.seq(*stores)
    after = from_lanes(before, width)
    results = []
    for body in (before, after):
        memory = {b.name: np.arange(b.elements).astype(dtypes.to_numpy(b.dtype)) for b in (x, y)}
        run_function(P.Function("k", (x,), (), (y,), as_int(1), 0, body), memory)
        results.append(memory["y"])
    np.testing.assert_array_equal(*results)
    distinct = {load for s in P.walk(after) for load in P.own_loads(s)}
    assert len(distinct) <= len({(s.value.a, place) for s, place in zip(stores, places, strict=True)})  # type: ignore[attr-defined]
    if set(range(width)) <= set(places) and group == 1:
        assert any(load.lanes == width for load in distinct)


def test_what_the_statements_write_is_read_where_it_stands() -> None:
    _, y = broadcasts("float32", 8)
    loads = [E.Load("float32", tensor=y, indices=(as_int(n),)) for n in range(4)]
    before = P.seq(*(P.Store(y, as_int(n), P.Broadcast("float32", a=load, lanes=4)) for n, load in enumerate(loads)))
    assert print_function(P.Function("k", (), (), (y,), as_int(1), 0, from_lanes(before, 4))) == print_function(
        P.Function("k", (), (), (y,), as_int(1), 0, before)
    )


def test_targets_that_multiply_by_elements_load_vectors_of_the_left_operand() -> None:
    for rows, columns, depth in ((49, 96, 64), (1, 128, 640), (5, 20, 30)):
        kernel = matmul(rows, columns, depth, constant=True)
        scalar = []
        for by_lane in (True, False):
            target = replace(load_target("arm64"), by_lane=by_lane)
            schedule = propose(kernel, Context(target))
            assert schedule is not None
            function = finish(lower(schedule))
            scalar.append(sum(load.lanes == 1 for load in loads_of(function, "x")))
        assert scalar[0] * 8 < scalar[1], (rows, columns, depth)


def test_tiles_by_lane_hold_the_left_operand_in_registers() -> None:
    for rows in range(1, 60):
        for vectors in range(1, 20):
            mr, nv, _ = tile_shape((rows,), vectors, 576, 32, 2.0, 2.0, 4, (64, 16), by_lane=True)
            assert mr * nv + mr + nv <= 32
    assert tile_shape((196,), 128, 512, 32, 2.0, 2.0, 4, (64, 128), by_lane=True)[:2] == (7, 3)


@pytest.mark.parametrize(("depth", "part"), [(64, 4), (128, 8), (16, 8)])
def test_steps_of_rows_that_share_pairs_of_loads_take_one_vector_of_each(depth: int, part: int) -> None:
    """Three rows of 64 lie within the reach of a pair of loads, and seven do not; of 16, all do; of 128, two do."""
    target = load_target("arm64")
    schedule = propose(matmul(49, 96, depth, constant=True), Context(target))
    assert schedule is not None
    split = next(step for step in schedule.steps if step.primitive == "split" and step.arguments[0] == "k")
    assert split.arguments[1] == part


def test_the_state_of_a_recurrence_is_taken_by_lane() -> None:
    """Of 4 gates, 4 vectors each: 64 vectors of weights are one step, as far as pairs of loads reach."""
    assert recurrent_tile(1, 32, 4, 32, 2.0, 2.0, 32, 4) == (1, 4)
    for rows in range(1, 9):
        for gates in (1, 3, 4):
            mr, nv = recurrent_tile(rows, 32, gates, 32, 2.0, 2.0, 32, 4)
            assert mr * nv * gates + mr + 2 <= 32
            assert nv * gates * 4 <= PAIRED
