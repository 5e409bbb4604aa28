"""Sums of products over an open length, in tiles through shared memory: whole steps, and a shorter one behind them. In
the interpreter, in random orders, against NumPy; and what is proved of loops of an open length around barriers."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sterna.errors import SternaError
from sterna.ir.integer import Int, Symbol, as_int, of, symbol
from sterna.ir.memory import INPUT, OUTPUT
from sterna.loops import program as P
from sterna.loops.races import verify_threads
from sterna.loops.threads import run_threads
from sterna.targets.target import Threads
from sterna.te.tensor import Kernel, compute, placeholder, reduce_axis, total
from support.open_kernels import computed, program_of
from support.thread_programs import SHARED, WIDE, load, over_threads

#: Lengths beside and at multiples of a step, and of a tile.
LENGTHS = (0, 1, 7, 8, 31, 32, 33, 65)


@cache
def values(columns: int, least: int, most: int) -> P.Function:
    """Shares of attention times its values: batch, rows and terms are of open sizes."""
    batch, length = symbol("batch", 1, 3), symbol("length", least, most)
    x, w = placeholder("x", (batch, length, length)), placeholder("w", (batch, length, columns))
    k = reduce_axis("k", length)
    y = compute("y", (batch, length, columns), lambda n, i, j: total(x[n, i, k.var] * w[n, k.var, j], k))
    return program_of(Kernel("values", (x, w), (), (y,)), Threads(access_bytes=WIDE.access_bytes))


@cache
def between(rows: int, columns: int) -> P.Function:
    """Rows and columns are known; rows lie transposed."""
    length = symbol("length", 0, 100)
    x, w, k = placeholder("x", (length, rows)), placeholder("w", (length, columns)), reduce_axis("k", length)
    y = compute("y", (rows, columns), lambda i, j: total(x[k.var, i] * w[k.var, j], k))
    return program_of(Kernel("between", (x, w), (), (y,)), Threads(access_bytes=WIDE.access_bytes))


def loops_around_barriers(program: P.Function) -> list[P.For]:
    """Those of an open number of iterations."""
    loops = (s for s in P.walk(program.body) if isinstance(s, P.For) and s.kind == "serial" and not s.extent.is_const)
    return [s for s in loops if any(isinstance(inner, P.Barrier) for inner in P.walk(s))]


@settings(max_examples=6, deadline=None, derandomize=True, database=None)
@given(st.integers(1, 2), st.sampled_from(LENGTHS), st.sampled_from([9, 40]), st.sampled_from([0, 1]))
@example(2, 0, 9, 0)
@example(1, 100, 70, 1)
def test_sums_over_an_open_length(batch: int, length: int, columns: int, least: int) -> None:
    program, random = values(columns, least, 100), np.random.default_rng(length)
    assert loops_around_barriers(program)
    length = max(length, least)
    x, w = (random.standard_normal((batch, length, n)).astype(np.float32) for n in (length, columns))
    found = computed(program, {"batch": batch, "length": length}, (batch, length, columns), x=x, w=w)
    np.testing.assert_allclose(found, x @ w, 1e-4, 1e-4)


@pytest.mark.parametrize("most", [5, 8, 9])
def test_fewer_terms_than_a_step_has(most: int) -> None:
    program, random = values(40, 1, most), np.random.default_rng(most)
    for length in (1, most):
        x, w = (random.standard_normal((2, length, n)).astype(np.float32) for n in (length, 40))
        found = computed(program, {"batch": 2, "length": length}, (2, length, 40), x=x, w=w)
        np.testing.assert_allclose(found, x @ w, 1e-4, 1e-4)


@pytest.mark.parametrize("length", LENGTHS)
def test_an_open_length_between_known_sizes(length: int) -> None:
    """Of no terms the sum is 0; what lies beyond the end, which is no number, is not added."""
    program, random = between(20, 12), np.random.default_rng(length)
    assert loops_around_barriers(program)
    x, w = (random.standard_normal((length, n)).astype(np.float32) for n in (20, 12))
    found = computed(program, {"length": length}, (20, 12), x=x, w=w)
    np.testing.assert_allclose(found, x.T @ w, 1e-4, 1e-4)


@pytest.mark.parametrize(("past", "step"), [(0, 0), (0, 1), (9, 0), (7, 2), (40, 40)])
def test_a_length_that_is_a_sum(past: int, step: int) -> None:
    """Products of every position with a few, which lie along the depth; there may be none of either."""
    length = symbol("past", 0, 40) + symbol("step", 0, 40)
    x, w, k = placeholder("x", (4, length, length)), placeholder("w", (4, 5, length)), reduce_axis("k", length)
    y = compute("y", (4, length, 5), lambda n, i, j: total(x[n, i, k.var] * w[n, j, k.var], k))
    program = program_of(Kernel("lengths", (x, w), (), (y,)), Threads(access_bytes=WIDE.access_bytes))
    random, n = np.random.default_rng(past), past + step
    a, b = (random.standard_normal((4, rows, n)).astype(np.float32) for rows in (n, 5))
    found = computed(program, {"past": past, "step": step}, (4, n, 5), x=a, w=b)
    np.testing.assert_allclose(found, a @ b.transpose(0, 2, 1), 1e-4, 1e-4)


def test_barriers_of_an_open_loop_are_needed() -> None:
    program = between(20, 12)
    (loop,) = loops_around_barriers(program)

    def without(s: P.Stmt, inside: bool) -> P.Stmt:
        if isinstance(s, P.Barrier) and inside:
            return P.seq()
        return P.map_children(s, lambda inner: without(inner, inside or s is loop))

    assert verify_threads(program) is program
    with pytest.raises(SternaError, match="two threads of a task touch the same element of"):
        verify_threads(replace(program, body=without(program.body, False)))


def passed_on(body: str) -> P.Function:
    """Threads write elements of shared memory, run through a loop of an open number of iterations, and read those of
    others."""
    threads, n, task = 8, Symbol("n", 0, 8), Symbol("task", 0, 1)
    x, y = (P.dense_buffer(name, "int32", (as_int(2 * threads),), s) for name, s in (("x", INPUT), ("y", OUTPUT)))
    kept, first = P.dense_buffer("kept", "int32", (as_int(32),), SHARED), of(task) * threads

    def put(offset: Int) -> P.Stmt:
        return over_threads(threads, lambda t: P.Store(kept, t + offset, load(x, first + t)), "w")

    moved = of(n) if body == "moves" else as_int(0)
    inside = P.Barrier("block") if body == "waits" else P.seq(P.Barrier("block"), put(moved))
    loop = P.For(n, symbol("rounds", 0, 9), "serial", inside)
    read = over_threads(threads, lambda t: P.Store(y, first + t, load(kept, threads - 1 - t)), "r")
    whole = P.For(task, as_int(2), "parallel", P.seq(P.Alloc(kept), put(as_int(0)), loop, read))
    return P.Function("passed_on", (x,), (), (y,), as_int(2), 0, whole)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("waits", "two threads of a task touch the same element of kept, one writes it"),
        ("writes", "two threads of a task touch the same element of kept, one writes it"),
        ("moves", "the loop n around a barrier has no constant number of iterations"),
    ],
)
def test_loops_of_which_there_may_be_no_iteration(body: str, why: str) -> None:
    """A barrier that stands in such a loop alone keeps nothing apart that is around it; nor is it known what is written
    where each iteration has elements of its own."""
    with pytest.raises(SternaError, match=why):
        verify_threads(passed_on(body))


def test_no_iteration_means_no_barrier() -> None:
    program = passed_on("waits")
    (rounds,) = {a for s in P.walk(program.body) if isinstance(s, P.For) for a in s.extent.symbols()}
    found = {0: set[bytes](), 1: set[bytes]()}
    for count, seed in product(found, range(8)):
        memory = {"x": np.arange(16, dtype=np.int32), "y": np.zeros(16, np.int32)}
        run_threads(program, memory, {rounds: count}, order=np.random.default_rng(seed))
        found[count].add(memory["y"].tobytes())
    assert len(found[1]) == 1 < len(found[0])
