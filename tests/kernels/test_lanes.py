"""Innermost loops of hand-written programs as vectors."""

from __future__ import annotations

import numpy as np
import pytest

from sterna.ir.integer import Symbol, as_int, of
from sterna.ir.memory import INPUT, OUTPUT, REGISTER
from sterna.loops import program as P
from sterna.loops.build import ProgramBuilder
from sterna.loops.finish import finish
from sterna.loops.interpreter import run_function
from sterna.loops.lanes import in_lanes
from sterna.te import expr as E


def _sums(extent: int, before: int) -> P.Function:
    """Running sums of rows; each sum is kept `before` places further on."""
    shape = (as_int(3), as_int(extent))
    x, y = P.dense_buffer("x0", "float32", shape, INPUT), P.dense_buffer("y0", "float32", shape, OUTPUT)
    p = ProgramBuilder("sums", (x,), (y,))
    total = p.array("total", "float32", (as_int(extent),))
    p.fill(total, 0.0)
    with p.loop(3, "n") as n, p.loop(extent - before, "row") as row:
        after = p.let(total[row] + p.input(0)[n, row])
        p.output[n, row] = after
        total[row + before] = after
    return p.function()


def test_registers_keep_their_loops() -> None:
    shape = (as_int(16),)
    x, y = P.dense_buffer("x0", "float32", shape, INPUT), P.dense_buffer("y0", "float32", shape, OUTPUT)
    kept = P.dense_buffer("kept", "float32", shape, REGISTER)
    n = Symbol("n", 0, 15)
    load = E.Load("float32", tensor=x, indices=(of(n),))
    body = P.seq(P.Alloc(kept), P.For(n, as_int(16), "serial", P.Store(kept, of(n), load)))
    function = P.Function("registers", (x,), (), (y,), as_int(1), 0, body)
    assert not _vector_loops(in_lanes(function, lambda bits: 256 // bits))
    moved = P.For(n, as_int(16), "serial", P.Store(y, of(n), load))
    assert _vector_loops(in_lanes(P.Function("moved", (x,), (), (y,), as_int(1), 0, moved), lambda bits: 256 // bits))


def _vector_loops(function: P.Function) -> int:
    return sum(isinstance(s, P.For) and s.kind == "vectorized" for s in P.walk(function.body))


def _vectors(function: P.Function) -> int:
    return sum(s.value.lanes > 1 for s in P.walk(function.body) if isinstance(s, P.Store))


@pytest.mark.parametrize("extent", [3, 4, 8, 9, 21, 64])
def test_neighbouring_elements_are_vectors_and_what_is_left(extent: int) -> None:
    function = finish(in_lanes(_sums(extent, 0), lambda bits: 256 // bits))
    assert (_vectors(function) > 0) == (extent >= 4)
    x = np.random.default_rng(0).standard_normal((3, extent)).astype(np.float32)
    memory = {"x0": x.ravel(), "y0": np.zeros(x.size, np.float32)}
    run_function(function, memory)
    np.testing.assert_array_equal(memory["y0"].reshape(x.shape), np.cumsum(x, 0, dtype=np.float32))


def test_what_the_next_iteration_reads_stays_one_after_the_other() -> None:
    # All that becomes vectors is the loop that fills the sums with zeros.
    assert _vectors(finish(in_lanes(_sums(64, 1), lambda bits: 256 // bits))) == 1


@pytest.mark.parametrize(
    ("extent", "before", "arrays"), [(5, 0, 0), (8, 0, 0), (12, 0, 0), (64, 0, 1), (9, 1, 1), (3, 0, 1)]
)
def test_a_few_vectors_of_the_stack_are_held_in_registers(extent: int, before: int, arrays: int) -> None:
    """Where all that is written and read are the same ones; what one element of is asked for stays an array."""
    function = finish(in_lanes(_sums(extent, before), lambda bits: 256 // bits))
    assert sum(isinstance(s, P.Alloc) for s in P.walk(function.body)) == arrays
