"""Programs whose tasks have threads: what is accepted gives one result in any order, what may go wrong is refused."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from sterna.errors import SternaError
from sterna.ir.integer import ZERO, Int, Symbol, as_int, of
from sterna.ir.memory import INPUT, OUTPUT
from sterna.loops import program as P
from sterna.loops.interpreter import run_function
from sterna.loops.printer import print_function
from sterna.loops.races import verify_threads
from sterna.loops.threads import run_threads
from sterna.loops.verify import verify
from sterna.te import expr as E
from sterna.te.position import position
from support import thread_programs
from support.thread_programs import SHARED, function, load, memory, over_threads, shared

N = 8
MORE = int(os.environ.get("STERNA_EXAMPLES", "1"))


def results(program: P.Function, orders: int = 6) -> list[list[int]]:
    """The outputs with the threads one after another, then in random orders."""
    found = []
    for seed in range(-1, orders):
        arrays = memory(program)
        run_threads(program, arrays, order=None if seed < 0 else np.random.default_rng(seed))
        found.append(arrays["y"].tolist())
    return found


def refused(program: P.Function) -> str:
    with pytest.raises(SternaError) as caught:
        verify_threads(verify(program))
    assert set(caught.value.codes) == {"E0306"}
    return str(caught.value)


def accepted(program: P.Function) -> bool:
    try:
        verify_threads(program)
    except SternaError:
        return False
    return True


@settings(
    max_examples=500 * MORE, deadline=None, derandomize=MORE == 1, database=None,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
@given(st.data())
def test_what_is_accepted_gives_one_result(data: Any) -> None:
    program = verify(thread_programs.drawn(data.draw))
    if not accepted(program):
        event("refused")
        return
    event("accepted")
    first, *others = results(program)
    assert all(other == first for other in others), print_function(program)


def reversal(*between: P.Stmt) -> P.Function:
    """y is x backwards within each task, by way of shared memory."""
    buffer = shared("s", N)

    def body(x: P.Buffer, y: P.Buffer, first: Int) -> P.Stmt:
        fill = over_threads(N, lambda t: P.Store(buffer, t, load(x, first + t)), "f")
        use = over_threads(N, lambda t: P.Store(y, first + t, load(buffer, N - 1 - t)), "u")
        return P.seq(P.Alloc(buffer), fill, *between, use)

    return function(N, body)


Place = Callable[[Int], Int]


def trips(count: int, place: Place, *between: P.Stmt, read: Place | None = None) -> P.Function:
    """Every trip fills shared memory from x and adds up its other end, a thread for each element, from a place on
    that is the trip's; `read`: another one, that it reads."""
    buffer = shared("s", 2 * N)

    def body(x: P.Buffer, y: P.Buffer, first: Int) -> P.Stmt:
        trip = Symbol("trip", 0, count - 1)
        at, there = place(of(trip)), (read or place)(of(trip))

        def use(t: Int) -> P.Stmt:
            return P.Store(y, first + t, E.binary("add", load(y, first + t), load(buffer, there + N - 1 - t)))

        fill = over_threads(N, lambda t: P.Store(buffer, at + t, load(x, first + (t + of(trip)) % N)), "f")
        rounds = P.For(
            trip, as_int(count), "serial", P.seq(fill, P.Barrier("block"), over_threads(N, use, "u"), *between)
        )
        return P.seq(
            P.Alloc(buffer), over_threads(N, lambda t: P.Store(y, first + t, E.const(0, "int32")), "z"), rounds
        )

    return function(N, body)


def test_trips_that_are_all_alike_are_not_counted() -> None:
    barrier = P.Barrier("block")
    verify_threads(verify(trips(1 << 20, one_place, barrier)))
    assert len({tuple(result) for result in results(trips(5, one_place, barrier))}) == 1
    assert "two threads of a task touch the same element of s" in refused(trips(1 << 20, one_place))


def one_place(trip: Int) -> Int:
    return ZERO


def in_turn(trip: Int) -> Int:
    """Two halves."""
    return trip % 2 * N


def test_trips_that_take_turns_are_looked_at_once() -> None:
    """Every trip writes what the last one does not read. One that reads what the next one writes is refused, and what
    is no turn would have to be looked at trip by trip."""
    for count in (5, 6, 1 << 20):
        verify_threads(verify(trips(count, in_turn)))
        wrong = refused(trips(count, in_turn, read=lambda trip: in_turn(trip + 1)))
        assert "two threads of a task touch the same element of s" in wrong
    assert len({tuple(result) for result in results(trips(5, in_turn))}) == 1
    verify_threads(verify(trips(5, lambda trip: trip // 2 % 2 * N, P.Barrier("block"))))
    assert "cannot be looked at" in refused(trips(1 << 20, lambda trip: trip // 2 % 2 * N, P.Barrier("block")))


def test_a_barrier_separates() -> None:
    program = reversal(P.Barrier("block"))
    verify_threads(verify(program))
    wanted = [n for task in range(2) for n in range((task + 1) * N, task * N, -1)]
    assert results(program) == [wanted] * 7


def test_a_missing_barrier_is_a_race() -> None:
    assert "two threads of a task touch the same element of s" in refused(reversal())
    assert len(set(map(tuple, results(reversal())))) > 1, "it does go wrong"


def test_own_elements_need_no_barrier() -> None:
    buffer = shared("s", N)

    def body(x: P.Buffer, y: P.Buffer, first: Int) -> P.Stmt:
        return P.seq(
            P.Alloc(buffer),
            over_threads(N, lambda t: P.Store(buffer, t, load(x, first + t)), "f"),
            over_threads(N, lambda t: P.Store(y, first + t, load(buffer, t) + 1), "u"),
        )

    verify_threads(verify(function(N, body)))


def pipelined(
    buffers: int, *, wait: bool = True, last_barrier: bool = True, rounds: int = 4, filled: bool = False
) -> P.Function:
    """Sums of rotated rows: while one is added, the next one is copied to another part of shared memory; `filled`: with
    zeros in the place of elements, others of each row."""
    tile = shared("tile", 2 * N)

    def begin(x: P.Buffer, first: Int, n: Int, name: str) -> P.For:
        def each(t: Int) -> P.Stmt:
            to = n % buffers * N + t
            copied = P.Copy(tile, to, x, first + (t + n) % N, 1, asynchronous=True)
            zero = P.Store(tile, to, E.const(0, "int32"))
            return P.If((t + n) % N, as_int(N // 2), copied, zero) if filled else copied

        return over_threads(N, each, name)

    def body(x: P.Buffer, y: P.Buffer, first: Int) -> P.Stmt:
        symbol = Symbol("n", 0, rounds - 1)
        n = of(symbol)

        def add(t: Int) -> P.Stmt:
            return P.Store(y, first + t, load(y, first + t) + load(tile, n % buffers * N + (N - 1 - t)))

        steps = [
            *([P.Wait(0)] if wait else []), P.Barrier("block"),
            P.If(n, as_int(rounds - 1), begin(x, first, n + 1, "c")),
            over_threads(N, add, "a"), *([P.Barrier("block")] if last_barrier else []),
        ]  # fmt: skip
        start = over_threads(N, lambda t: P.Store(y, first + t, E.const(0, "int32")), "z")
        return P.seq(
            P.Alloc(tile), start, begin(x, first, ZERO, "b"), P.For(symbol, as_int(rounds), "serial", P.seq(*steps))
        )

    return function(N, body)


def test_double_buffering_is_proved() -> None:
    program = pipelined(2)
    verify_threads(verify(program))
    rows = np.arange(1, 2 * N + 1).reshape(2, N)
    wanted = sum(np.roll(rows, -n, axis=1)[:, ::-1] for n in range(4)).reshape(-1).tolist()
    assert results(program) == [wanted] * 7


@pytest.mark.parametrize("filled", [False, True])
def test_one_buffer_is_too_few(filled: bool) -> None:
    assert "tile" in refused(pipelined(1, filled=filled))
    assert "tile" in refused(pipelined(1, filled=filled, rounds=5000))


def test_zeros_in_the_place_of_copies() -> None:
    """Which elements are zeros differs from round to round: of many rounds a few are looked at, as if any may be."""
    program = pipelined(2, filled=True)
    verify_threads(verify(program))
    rows = np.arange(1, 2 * N + 1).reshape(2, N)
    kept = np.where(np.arange(N) < N // 2, rows, 0)
    wanted = sum(np.roll(kept, -n, axis=1)[:, ::-1] for n in range(4)).reshape(-1).tolist()
    assert results(program) == [wanted] * 7
    verify_threads(verify(pipelined(2, filled=True, rounds=5000)))


@pytest.mark.parametrize("filled", [False, True])
def test_a_copy_that_is_not_waited_for_is_refused(filled: bool) -> None:
    text = refused(pipelined(2, wait=False, filled=filled))
    assert "is used before the copy of x to tile is waited for" in text
    assert "the copy of x to tile is never waited for" in text


def test_two_buffers_need_no_second_barrier() -> None:
    """The barrier of the next round keeps the copy after next away from what is still read."""
    program = pipelined(2, last_barrier=False)
    verify_threads(verify(program))
    assert results(program) == results(pipelined(2))


def chosen(condition: Callable[[Int, Int], Int], *, trips: int = 1) -> P.Function:
    """Each thread copies an element to shared memory, or stores zero there, by a condition on its first element and on
    how often it came by; then adds it up."""
    tile, symbol = shared("tile", N), Symbol("m", 0, trips - 1)

    def body(x: P.Buffer, y: P.Buffer, first: Int) -> P.Stmt:
        def bring(t: Int) -> P.Stmt:
            copied = P.Copy(tile, t, x, first + t, 1, asynchronous=True)
            each = P.If(condition(first + t, of(symbol)), as_int(N), copied, P.Store(tile, t, E.const(0, "int32")))
            return P.For(symbol, as_int(trips), "serial", each) if trips > 1 else each

        store = over_threads(N, lambda t: P.Store(y, first + t, load(tile, N - 1 - t)), "s")
        return P.seq(P.Alloc(tile), over_threads(N, bring, "b"), P.Wait(0), P.Barrier("block"), store)

    return function(N, body)


def test_who_copies_does_not_store() -> None:
    """Also where a condition is on the task, too, so that it is not known which of the threads copy."""
    program = chosen(lambda at, m: at)
    verify_threads(verify(program))
    assert results(program) == [[*range(N, 0, -1), *[0] * N]] * 7


def test_who_copies_once_and_then_stores_is_refused() -> None:
    text = refused(chosen(lambda at, m: at + m * N, trips=2))
    assert "tile is used before the copy of x to tile is waited for" in text


@pytest.mark.parametrize(
    ("around", "said"),
    [
        (lambda s: over_threads(N // 2, lambda t: s), "in a loop over 4 of 8 threads"),
        (lambda s: over_threads(N, lambda t: P.If(t, as_int(3), s)), "under a condition"),
        (lambda s: P.Branch(E.compare("lt", load(shared("s", N), ZERO), 1), s), "under a condition on data"),
    ],
)
def test_divergent_barriers_are_refused(around: Callable[[P.Stmt], P.Stmt], said: str) -> None:
    text = refused(reversal(around(P.Barrier("block"))))
    assert f"a barrier {said} is not reached by all threads" in text


def test_a_barrier_that_some_never_reach_ends_the_run() -> None:
    program = reversal(over_threads(N, lambda t: P.If(t, as_int(3), P.Barrier("block"))))
    with pytest.raises(SternaError, match="others have ended"):
        results(program, 1)


def test_a_common_condition_is_none() -> None:
    symbol = Symbol("n", 0, 3)
    barrier = P.For(symbol, as_int(4), "serial", P.If(of(symbol), as_int(2), P.Barrier("block")))
    verify_threads(verify(reversal(barrier)))


def test_tasks_are_kept_apart() -> None:
    def body(x: P.Buffer, y: P.Buffer, first: Int) -> P.Stmt:
        return over_threads(N, lambda t: P.Store(y, t, load(x, first + t)))

    assert "two tasks touch the same element of y" in refused(function(N, body))


def test_what_data_decide_is_refused() -> None:
    buffer = shared("s", N)

    def body(x: P.Buffer, y: P.Buffer, first: Int) -> P.Stmt:
        def count(t: Int) -> P.Stmt:
            return P.Store(buffer, position(load(x, first + t), as_int(N)), E.const(1, "int32"))

        return P.seq(P.Alloc(buffer), over_threads(N, count))

    assert "data decide which elements of s are touched" in refused(function(N, body))


def test_open_sizes_are_the_same_for_all_threads() -> None:
    """Where threads differ by constants, what an open dimension adds does not matter."""
    dim, row = Symbol("rows", 1, 100), Symbol("row", 0, 99)
    x, y = (P.dense_buffer(n, "int32", (as_int(100 * N),), s) for n, s in (("x", INPUT), ("y", OUTPUT)))
    place = of(row) * N

    def element(t: Int) -> P.Stmt:
        return P.Store(y, place + t, load(x, place + t))

    body = P.For(row, of(dim), "parallel", over_threads(N, element))
    verify_threads(verify(P.Function("rows", (x,), (), (y,), of(dim), 0, body, ((dim, 0),))))


def test_statements_as_text() -> None:
    text = print_function(pipelined(2))
    for line in (
        "(thread.x)",
        "barrier of the task",
        "wait for group 0",
        "asynchronous, group 0",
        "shared tile: int32[16]",
    ):
        assert line in text


def test_copies_are_within_bounds_and_of_one_type() -> None:
    program = pipelined(2)
    copy = next(s for s in P.walk(program.body) if isinstance(s, P.Copy))
    far = replace(program, body=P.seq(program.body, replace(copy, elements=9, to=as_int(N), at=ZERO)))
    with pytest.raises(SternaError, match="tile"):
        verify(far)
    other = P.dense_buffer("other", "float32", (as_int(N),), SHARED)
    with pytest.raises(SternaError, match="a copy from int32 to float32"):
        verify(replace(program, body=P.Copy(other, ZERO, copy.source, ZERO, 1)))


def test_a_copy_without_threads_is_a_loop() -> None:
    x, y = (P.dense_buffer(n, "int32", (as_int(N),), s) for n, s in (("x", INPUT), ("y", OUTPUT)))
    program = verify_threads(verify(P.Function("copy", (x,), (), (y,), as_int(1), 0, P.Copy(y, as_int(2), x, ZERO, 5))))
    arrays = {"x": np.arange(N, dtype=np.int32), "y": np.zeros(N, np.int32)}
    run_function(program, arrays)
    assert arrays["y"].tolist() == [0, 0, 0, 1, 2, 3, 4, 0]
