"""Programs of tasks and threads over open sizes, and the search for races in them: by all sizes up to some, all tasks
and all threads, one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import product
from typing import Any

import numpy as np
from hypothesis import strategies as st

from sterna.ir.integer import ZERO, Atom, Int, Symbol, as_int, of
from sterna.ir.memory import OUTPUT
from sterna.loops import program as P
from sterna.te import expr as E
from sterna.te.position import Quotient, quotient

Draw = Callable[[st.SearchStrategy[Any]], Any]
#: index < limit.
Guard = tuple[Int, Int]
ONE = E.const(1.0, "float32")
#: Elements of what programs write: more than any position.
MOST = 1 << 20


def program(tasks: Int, threads: int, body: Callable[[Int, Int, P.Buffer], P.Stmt]) -> P.Function:
    """A program that writes y.

    Args:
        body: makes what a thread does, of the numbers of its task and of itself, and of y.
    """
    task, thread = Symbol("task", 0, MOST), Symbol("thread", 0, threads - 1)
    y = P.dense_buffer("y", "float32", (as_int(MOST),), OUTPUT)
    inner = P.For(thread, as_int(threads), "thread.x", body(of(task), of(thread), y))
    return P.Function("open", (), (), (y,), tasks, 0, P.For(task, tasks, "parallel", inner))


def races(function: P.Function, dims: tuple[Symbol, ...], most: int) -> Mapping[Symbol, int] | None:
    """The least sizes, up to `most`, with which two threads touch one element and one of them writes it; None where
    there are none. Tasks and threads are all compared with each other: there are no barriers."""
    for sizes in product(*(range(d.lo or 0, most + 1) for d in dims)):
        values: dict[Atom, Any] = dict(zip(dims, sizes, strict=True))
        if _race(function, values):
            return dict(zip(dims, sizes, strict=True))
    return None


def _race(function: P.Function, sizes: dict[Atom, Any]) -> bool:
    tasks = int(_value(function.n_tasks, sizes))
    writers: dict[int, set[tuple[int, ...]]] = {}
    everyone: dict[int, set[tuple[int, ...]]] = {}
    if tasks == 0:
        return False
    for index, lanes, writes, loops, guards in _touched(function.body, (), ()):
        counts = [tasks if loop.kind == "parallel" else int(loop.extent) for loop in loops]
        grid = np.indices(counts)
        values = sizes | {loop.symbol: numbers for loop, numbers in zip(loops, grid, strict=True)}
        reached = np.ones(counts, bool)
        for low, limit in guards:
            reached &= _value(low, values) < _value(limit, values)
        places = np.broadcast_to(_value(index, values), counts)[reached].tolist()
        who = zip(*(numbers[reached].tolist() for numbers in grid[:2]), strict=True)
        for place, thread in zip(places, who, strict=True):
            for lane in range(lanes):
                everyone.setdefault(place + lane, set()).add(thread)
                if writes:
                    writers.setdefault(place + lane, set()).add(thread)
    return any(len(everyone[place]) > 1 for place in writers)


def _value(index: Int, values: Mapping[Atom, Any]) -> Any:
    def of_atom(atom: Atom) -> Any:
        if isinstance(atom, Quotient):
            return _value(atom.dividend, values) // np.maximum(1, _value(atom.divisor, values))
        return values[atom]

    return index.evaluate(of_atom)


Touched = tuple[Int, int, bool, tuple[P.For, ...], tuple[Guard, ...]]


def _touched(stmt: P.Stmt, loops: tuple[P.For, ...], guards: tuple[Guard, ...]) -> Iterator[Touched]:
    """(first element, how many, whether it writes, loops, conditions) of stores and loads."""
    if isinstance(stmt, P.For):
        yield from _touched(stmt.body, (*loops, stmt), guards)
    elif isinstance(stmt, P.If):
        yield from _touched(stmt.then, loops, (*guards, (stmt.index, stmt.limit)))
    elif isinstance(stmt, P.Seq):
        for inner in stmt.stmts:
            yield from _touched(inner, loops, guards)
    elif isinstance(stmt, P.Store):
        yield stmt.index, stmt.value.lanes, True, loops, guards
    elif isinstance(stmt, P.Let) and isinstance(stmt.value, E.Load):
        yield stmt.value.indices[0], 1, False, loops, guards


# ---------------------------------------------------------------- at random
def drawn(draw: Draw) -> tuple[P.Function, tuple[Symbol, ...]]:
    """A program and its open sizes. Positions are made of digits of a task's number, as the strategies' are, with now
    and then another step, condition or order, which may or may not keep threads apart."""
    n, m = Symbol("n", draw(st.integers(0, 2)), 40), Symbol("m", draw(st.integers(1, 2)), 30)
    threads, trips = draw(st.sampled_from([1, 2, 4])), draw(st.sampled_from([1, 1, 2]))
    sizes = [_size(draw, n, m) for _ in range(draw(st.integers(1, 3)))]
    elements = as_int(1)
    for size in sizes:
        elements = elements * size
    # Either threads are numbered on across tasks, or each task has a digit for them.
    is_flat = draw(st.booleans())
    tasks = (elements + threads - 1) // threads if is_flat else elements
    loop = Symbol("loop", 0, trips - 1)

    def accesses(task: Int, thread: Int, y: P.Buffer) -> P.Stmt:
        made = []
        for number in range(draw(st.integers(1, 2))):
            whole = task * threads + thread if is_flat else task
            digits = _digits(whole, sizes)
            own = [] if is_flat else [(thread, as_int(threads))]
            for each in (*own, *([(of(loop), as_int(trips))] if trips > 1 else ())):
                digits.insert(draw(st.integers(0, len(digits))), each)
            index, guards = _position(draw, digits, (n, m))
            lanes = draw(st.sampled_from([1, 1, 2]))
            guards += [(whole, elements + _little(draw))] if is_flat else []
            index = index * lanes + (draw(st.integers(0, 2)) * _size(draw, n, m) if number else 0)
            is_store = number == 0 or draw(st.booleans())
            made.append(_guarded(_store(y, index, lanes) if is_store else _load(y, index), guards))
        body = P.seq(*made)
        return P.For(loop, as_int(trips), "serial", body) if trips > 1 else body

    return program(tasks, threads, accesses), (n, m)


def _size(draw: Draw, n: Symbol, m: Symbol) -> Int:
    return draw(st.sampled_from([of(n), of(m), of(n), of(m), as_int(2), as_int(3), of(n) * 2, of(m) + 1]))


def _little(draw: Draw) -> int:
    return draw(st.sampled_from([0, 0, 0, 0, -1, 1]))


def _digits(whole: Int, sizes: list[Int]) -> list[tuple[Int, Int]]:
    """A number taken apart by sizes, the first digit first, each with its size."""
    found: list[tuple[Int, Int]] = []
    for size in reversed(sizes[1:]):
        high = quotient(whole, size)
        found.insert(0, (whole - high * size, size))
        whole = high
    return [(whole, sizes[0]), *found]


def _position(draw: Draw, digits: list[tuple[Int, Int]], dims: tuple[Symbol, Symbol]) -> tuple[Int, list[Guard]]:
    """Digits by steps that are about the products of the sizes after them, and conditions on some."""
    if draw(st.integers(0, 4)) == 0:
        digits = draw(st.permutations(digits))
    index, step, guards = ZERO, as_int(1), list[Guard]()
    for digit, size in reversed(digits):
        if draw(st.integers(0, 3)) == 0:
            guards.append((digit, size + _little(draw)))
        index = index + digit * (step + (_little(draw) if draw(st.booleans()) else 0))
        step = step * size if draw(st.integers(0, 9)) else _size(draw, *dims)
    return index, guards


def _guarded(stmt: P.Stmt, guards: list[Guard]) -> P.Stmt:
    for low, limit in guards:
        stmt = P.If(low, limit, stmt)
    return stmt


def _store(y: P.Buffer, index: Int, lanes: int) -> P.Stmt:
    return P.Store(y, index, ONE if lanes == 1 else P.Broadcast("float32", lanes=lanes, a=ONE))


def _load(y: P.Buffer, index: Int) -> P.Stmt:
    return P.Let(P.Variable("v", "float32", 1), E.Load("float32", tensor=y, indices=(index,)))
