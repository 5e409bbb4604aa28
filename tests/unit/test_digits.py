"""Tasks and threads over open sizes: what is proved apart is apart for all sizes that are tried one by one."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from sterna.errors import SternaError
from sterna.ir.integer import ZERO, Int, Symbol, as_int, of
from sterna.ir.memory import INPUT
from sterna.loops import program as P
from sterna.loops.printer import print_function
from sterna.loops.races import verify_threads
from sterna.loops.verify import verify
from sterna.te import expr as E
from sterna.te.position import IndexAtom, depends_on_data, position, quotient
from support.open_programs import ONE, drawn, program, races

MORE = int(os.environ.get("STERNA_EXAMPLES", "1"))
SIZE, N, M = Symbol("size", 2, 64), Symbol("n", 1, 64), Symbol("m", 1, 64)
X = P.dense_buffer("x", "int32", (as_int(100),), INPUT)
Body = Callable[[Int, Int, P.Buffer], P.Stmt]


def accepted(function: P.Function) -> bool:
    try:
        verify_threads(function)
    except SternaError:
        return False
    return True


@settings(
    max_examples=150 * MORE, deadline=None, derandomize=MORE == 1, database=None,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
@given(st.data())
def test_what_is_accepted_has_no_race(data: Any) -> None:
    function, dims = drawn(data.draw)
    if accepted(function):
        event("accepted")
        assert races(function, dims, 5) is None, print_function(function)


def product_with_a_digit(task: Int, thread: Int, y: P.Buffer) -> P.Stmt:
    """Rows that lie as many elements apart as the task's number says."""
    return P.If(ZERO, task, P.Store(y, task * of(SIZE) * thread + task, ONE))


def two_products(task: Int, thread: Int, y: P.Buffer) -> P.Stmt:
    """The same by two statements of one thread."""
    stores = (P.Store(y, task * (of(SIZE) * times + 1), ONE) for times in (1, 2))
    return P.If(ZERO, task, P.seq(*stores))


def common_part_that_varies(task: Int, thread: Int, y: P.Buffer) -> P.Stmt:
    """What is added to the number of a row is not the same for all threads."""
    return P.Store(y, of(SIZE) * (quotient(thread + of(N), of(M)) - thread + 3), ONE)


def step_that_varies(task: Int, thread: Int, y: P.Buffer) -> P.Stmt:
    step = quotient(thread + of(N), of(M))
    return P.If(ZERO, step, P.Store(y, step * (3 - thread), ONE))


def divisor_that_varies(task: Int, thread: Int, y: P.Buffer) -> P.Stmt:
    """Iterations of a loop take a task's number apart by sizes of their own."""
    loop = Symbol("loop", 0, 1)
    size = of(M) + of(loop)
    high = quotient(task, size)
    return P.For(loop, as_int(2), "serial", P.Store(y, high * (of(M) + 1) + task - high * size, ONE))


@pytest.mark.parametrize(
    ("body", "tasks", "threads"),
    [
        (product_with_a_digit, of(SIZE) * 9, 2),
        (two_products, of(SIZE) * 9, 1),
        (common_part_that_varies, as_int(1), 4),
        (step_that_varies, as_int(1), 4),
        (divisor_that_varies, of(SIZE), 1),
    ],
)
def test_what_is_not_the_same_for_all_tells_nothing_apart(body: Body, tasks: Int, threads: int) -> None:
    function = program(tasks, threads, body)
    assert races(function, (SIZE, N, M), 5) is not None
    assert not accepted(function)


@pytest.mark.parametrize("tasks", [as_int(1), as_int(3), of(N)])
def test_rows_that_may_be_shorter_than_what_threads_write(tasks: Int) -> None:
    """Threads write 12 elements of rows of an open length."""

    def body(task: Int, thread: Int, y: P.Buffer) -> P.Stmt:
        loop = Symbol("loop", 0, 1)
        store = P.Store(y, of(loop) * of(SIZE) + thread * 3 + task * (2 * of(SIZE) + 12), ONE)
        return P.For(loop, as_int(2), "serial", store)

    function = program(tasks, 4, body)
    assert races(function, (SIZE, N), 5) is not None
    assert not accepted(function)


@pytest.mark.parametrize("tasks", [as_int(9), of(SIZE)])
@pytest.mark.parametrize("is_named", [False, True])
def test_a_position_of_a_variable_is_one_of_data(tasks: Int, is_named: bool) -> None:
    """The variable holds an element of a tensor, for each thread another one."""
    held = P.Variable("held", "int32", 1)
    at = of(IndexAtom(P.Read("int32", variable=held), 0, 9, as_int(9)))
    assert depends_on_data(at)
    assert not depends_on_data(quotient(of(SIZE), of(N)), position(E.index_value(of(SIZE), "int32"), 9))

    def body(task: Int, thread: Int, y: P.Buffer) -> P.Stmt:
        load, name = E.Load("int32", tensor=X, indices=(task * 2 + thread,)), Symbol("at", 0, 9)
        store = P.Store(y, task * 2 + thread + (of(name) if is_named else at), ONE)
        return P.seq(P.Let(held, load), *([P.LetIndex(name, at)] if is_named else ()), store)

    with pytest.raises(SternaError, match="data decide which elements of y are touched"):
        verify_threads(program(tasks, 2, body))


def test_rows_by_different_steps_of_one_symbol() -> None:
    """Two statements whose rows lie one and three steps apart: neither is proved, and nothing breaks."""

    def body(task: Int, thread: Int, y: P.Buffer) -> P.Stmt:
        loop = Symbol("loop", 0, 3)
        stores = (P.Store(y, of(SIZE) * (of(loop) * times + 3) + thread, ONE) for times in (1, 3))
        return P.For(loop, as_int(4), "serial", P.seq(*stores))

    assert not accepted(program(of(SIZE), 2, body))


@pytest.mark.parametrize("is_refused", [False, True])
def test_dividends_are_not_negative(is_refused: bool) -> None:
    """The quotient of a negative number by a size is none of 0 to its end, as all that is known of it says."""

    def body(task: Int, thread: Int, y: P.Buffer) -> P.Stmt:
        past = task - of(N)
        store = P.Store(y, quotient(past, of(M)), ONE)
        return store if is_refused else P.If(of(N) - 1, task, store)

    function = program(as_int(100), 1, body)
    if not is_refused:
        assert verify(function) is function
        return
    with pytest.raises(SternaError, match=r"task - n may be negative, and is divided by m"):
        verify(function)
