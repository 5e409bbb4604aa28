"""Expressions as the passes over loops use them: copied with changes, walked, and looked through once."""

from __future__ import annotations

import gc
import sys
from dataclasses import fields, replace

import pytest

from sterna.collector import collecting_seldom
from sterna.ir.integer import symbol
from sterna.ir.memory import INPUT, OUTPUT
from sterna.loops import program as P
from sterna.loops.share import share
from sterna.te import expr as E

X = P.dense_buffer("x", "float32", (symbol("n", 1, 8),), INPUT)
AT = symbol("i", 0, 3)


def load(n: int = 0) -> E.Expr:
    return E.Load("float32", tensor=X, indices=(AT + n,))


def test_changed_is_replace() -> None:
    node = E.binary("add", load(), 2.0)
    assert len(E.walk(node)) == 3
    assert len(E.loads(node)) == 1
    new, wanted = node.changed(a=load(1)), replace(node, a=load(1))
    assert new == wanted
    assert hash(new) == hash(wanted)
    assert [getattr(new, f.name) for f in fields(new)] == [getattr(wanted, f.name) for f in fields(wanted)]
    assert E.loads(new) != E.loads(node), "what the node had remembered is not the new one's"
    with pytest.raises(TypeError, match="no such field: c"):
        node.changed(c=load())


def test_walk_gives_operands_first_and_nothing_twice() -> None:
    shared = E.binary("add", load(), 1.0)
    node = E.binary("mul", shared, E.unary("abs", shared))
    found = E.walk(node)
    assert [type(e).__name__ for e in found] == ["Load", "Const", "Binary", "Unary", "Binary"]
    assert len({id(e) for e in found}) == len(found)


def test_a_statement_changed_keeps_the_rest() -> None:
    store = P.Store(X, AT, load(), stride=2)
    other = store.changed(value=load(1))
    assert (other.buffer, other.stride, other.value) == (X, 2, load(1))
    assert store.value == load()


def _stores(count: int) -> P.Stmt:
    """Stores to two buffers in turns, each of a value of its own that two operands need."""
    outputs = [P.dense_buffer(f"y{n}", "float32", (symbol("n", 1, 8),), OUTPUT) for n in range(2)]
    values = [E.binary("add", load(), float(n)) for n in range(count)]
    return P.seq(
        *(P.Store(outputs[n % 2], AT + n, E.binary("mul", value, E.unary("abs", value)))
          for n, value in enumerate(values))
    )  # fmt: skip


def test_sharing_takes_work_by_the_length_of_a_run() -> None:
    """Counted in calls, which are the same every time."""

    def calls(count: int) -> int:
        body, made = _stores(count), 0

        def counted(frame: object, event: str, argument: object) -> None:
            nonlocal made
            made += event in ("call", "c_call")

        sys.setprofile(counted)
        try:
            share(body)
        finally:
            sys.setprofile(None)
        return made

    assert calls(2000) < 5 * calls(500), "four times as long a run"


def test_the_collector_runs_seldom_while_compiling_and_as_before_after() -> None:
    before = gc.get_threshold()
    with collecting_seldom():
        inside = gc.get_threshold()
        with collecting_seldom():
            assert gc.get_threshold() == inside
        assert gc.get_threshold() == inside
    assert inside[0] > before[0]
    assert gc.get_threshold() == before
    with pytest.raises(ZeroDivisionError), collecting_seldom():
        1 / 0  # noqa: B018
    assert gc.get_threshold() == before
