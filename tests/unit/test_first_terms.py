"""Reductions that are written out begin with their first term."""

from __future__ import annotations

import numpy as np
import pytest

from sterna.ir.integer import Symbol, as_int, of
from sterna.ir.memory import INPUT, OUTPUT
from sterna.loops import program as P
from sterna.loops.first_terms import first_terms
from sterna.loops.interpreter import run_function
from sterna.te import expr as E
from sterna.te.tensor import combine, identity

X = P.dense_buffer("x", "float32", (as_int(8),), INPUT)
Y = P.dense_buffer("y", "float32", (as_int(8),), OUTPUT)
SUM = P.Variable("sum", "float32", 4)
TOTAL = P.Read("float32", variable=SUM, lanes=4)


def vector(at: int) -> E.Load:
    return E.Load("float32", tensor=X, indices=(as_int(at),), lanes=4)


def begin(combiner: str = "sum") -> P.Stmt:
    return P.Assign(SUM, identity(combiner, "float32").changed(lanes=4))


def add(at: int, combiner: str = "sum") -> P.Stmt:
    return P.Assign(SUM, combine(combiner, TOTAL, vector(at)))


STORE = P.Store(Y, as_int(0), TOTAL)


def result_of(body: P.Stmt) -> np.ndarray:
    memory = {"x": np.arange(-3, 5).astype(np.float32), "y": np.zeros(8, np.float32)}
    run_function(P.Function("k", (X,), (), (Y,), as_int(1), 0, P.seq(P.Declare(SUM), body)), memory)
    return memory["y"]


def assigned(body: P.Stmt) -> list[E.Expr]:
    return [s.value for s in P.walk(body) if isinstance(s, P.Assign)]


@pytest.mark.parametrize("combiner", ["sum", "prod", "min", "max"])
def test_the_first_term_is_what_the_variable_begins_with(combiner: str) -> None:
    body = P.seq(begin(combiner), add(0, combiner), add(4, combiner), STORE)
    after = first_terms(body)
    assert assigned(after)[0] == vector(0)
    assert len(assigned(after)) == 2
    np.testing.assert_array_equal(result_of(after), result_of(body))


def test_the_first_product_is_no_multiply_add() -> None:
    body = P.seq(begin(), P.Assign(SUM, E.fma(vector(0), vector(4), TOTAL)), STORE)
    after = first_terms(body)
    (value,) = assigned(after)
    assert isinstance(value, E.Binary)
    assert (value.op, value.lanes) == ("mul", 4)
    np.testing.assert_array_equal(result_of(after), result_of(body))


def test_what_is_read_or_looped_over_before_stays() -> None:
    other = P.Variable("other", "float32", 4)
    n = Symbol("n", 0, 1)
    twice = P.Assign(SUM, E.fma(TOTAL, vector(0), TOTAL))
    for between in (
        (P.Let(other, TOTAL), add(0)),
        (STORE, add(0)),
        (P.For(n, as_int(2), "serial", P.Assign(SUM, combine("sum", TOTAL, vector(0).changed(indices=(of(n),))))),),
        (twice,),
    ):
        body = P.seq(begin(), *between, STORE)
        after = first_terms(body)
        assert len(assigned(after)) == len(assigned(body))
        np.testing.assert_array_equal(result_of(after), result_of(body))


def test_what_changes_something_stays() -> None:
    body = P.seq(P.Assign(SUM, E.const(1.0, "float32").changed(lanes=4)), add(0), STORE)
    after = first_terms(body)
    assert len(assigned(after)) == 2
    np.testing.assert_array_equal(result_of(after), result_of(body))
