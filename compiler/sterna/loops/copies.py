"""Copies by statement: nests that only move elements become `Copy`, and every asynchronous one is waited for.

Neither a schedule nor a strategy writes a `Wait`. `with_waits` puts one before the first statement that reads or writes
what a copy fills, or writes what it reads, and at the latest where the memory on either side ends its life.
`loops.races` proves of the result, as of every program, that no copy is used before it is waited for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeGuard

from sterna.ir.extremum import minimum
from sterna.ir.integer import ZERO, Atom, Int, of
from sterna.loops import program as P
from sterna.te import expr as E
from sterna.te.conditions import limits

#: Loops whose iterations may become one copy.
_PLAIN = ("serial", "unrolled", "lanes", "vectorized")


def as_copies(stmt: P.Stmt, destination: P.Buffer, asynchronous: bool, group: int) -> P.Stmt:
    """A nest with copies for its stores of what it loads into a buffer; each copy is as long as the elements lie one
    after the other on both sides. Where zeros take the place of what is not there, they are stored."""
    if isinstance(stmt, P.Store) and stmt.buffer is destination:
        load, sides = stmt.value, list[tuple[Int, Int, P.Stmt]]()
        while isinstance(load, E.Select) and isinstance(load.b, E.Const):
            found = limits(load.condition)
            if found is None:
                return stmt
            sides += [(*each, replace(stmt, value=load.b)) for each in found]
            load = load.a
        if not isinstance(load, E.Load) or load.lanes != 1 or not isinstance(load.tensor, P.Buffer):
            return stmt
        at = load.indices[0]
        for index, limit, _ in sides:
            at = _without(at, minimum(index, limit - 1), index)
        made: P.Stmt = P.Copy(destination, stmt.index, load.tensor, at, 1, asynchronous, group)
        for index, limit, filled in reversed(sides):
            made = P.If(index, limit, made, filled)
        return made
    if not isinstance(stmt, P.For) or stmt.kind not in _PLAIN:
        return P.map_children(stmt, lambda s: as_copies(s, destination, asynchronous, group))
    body = as_copies(stmt.body, destination, asynchronous, group)
    if (longer := _at_once(stmt, body)) is not None:
        return longer
    changed = any(isinstance(s, P.Copy) for s in P.walk(body))
    return replace(stmt, kind="serial" if changed else stmt.kind, body=body)


def _without(at: Int, clamp: Int, index: Int) -> Int:
    """A position without what keeps an index from being beyond a limit that it is below."""
    atoms = [atom for monomial in clamp.terms for atom in monomial]
    return at.substitute({atoms[0]: index}) if len(atoms) == 1 and clamp == of(atoms[0]) else at


def _at_once(loop: P.For, body: P.Stmt) -> P.Stmt | None:
    """A loop over copies as one, where all of them have elements side by side; of copies that zeros may take the place
    of, where the loop does not decide that."""
    if isinstance(body, P.If) and body.otherwise is not None:
        copy = _at_once(loop, body.then)
        if copy is None or loop.symbol in body.index.symbols() | body.limit.symbols():
            return None
        kind: P.LoopKind = "vectorized" if isinstance(body.otherwise, P.Store) else "serial"
        return replace(body, then=copy, otherwise=replace(loop, kind=kind, body=body.otherwise))
    if not isinstance(body, P.Copy) or not loop.extent.is_const or loop.start != ZERO:
        return None
    if {index.coefficient(loop.symbol) for index in (body.to, body.at)} != {body.elements}:
        return None
    first: dict[Atom, Int] = {loop.symbol: ZERO}
    to, at = body.to.substitute(first), body.at.substitute(first)
    return replace(body, to=to, at=at, elements=body.elements * int(loop.extent))


def with_waits(body: P.Stmt) -> P.Stmt:
    """The program with a wait for every asynchronous copy that has none yet."""
    if not any(is_to_wait_for(s) for s in P.walk(body)):
        return body
    placed, pending = _placed(body, frozenset(s.group for s in P.walk(body) if isinstance(s, P.Commit)))
    return P.seq(placed, *_waits(pending))


def _placed(stmt: P.Stmt, batched: frozenset[int]) -> tuple[P.Stmt, tuple[P.Copy, ...]]:
    """A statement with waits inside, and the copies that may go on after it; those of groups that are in batches have
    waits already."""
    if is_to_wait_for(stmt):
        return stmt, () if stmt.group in batched else (stmt,)
    if isinstance(stmt, P.Seq):
        return _sequence(stmt, batched)
    if not (inside := P.children(stmt)):
        return stmt, ()
    pending: tuple[P.Copy, ...] = ()

    def branch(s: P.Stmt) -> P.Stmt:
        nonlocal pending
        placed, in_flight = _placed(s, batched)
        if isinstance(stmt, P.Tiles):
            pending = in_flight
            return placed
        ending = in_flight
        if isinstance(stmt, P.If):
            # Whoever takes the other side waits for nothing.
            pending, ending = (*pending, *in_flight), ()
        elif isinstance(stmt, P.For) and stmt.kind in P.THREADS:
            # A thread has one iteration at most.
            pending, ending = in_flight, ()
        elif isinstance(stmt, P.For) and stmt.kind != "parallel":
            # The next iteration begins while the copy goes on.
            moving = _following(stmt)
            ending = tuple(c for c in in_flight if moving.isdisjoint(c.to.symbols()) or _meets(inside[0], c))
            pending = tuple(c for c in in_flight if c not in ending)
        return P.seq(placed, *_waits(ending))

    return P.map_children(stmt, branch), pending


def _following(loop: P.For) -> set[Atom]:
    """The symbol of a loop, and those of positions in it that follow from it."""
    found: set[Atom] = {loop.symbol}
    for s in P.walk(loop.body):
        if isinstance(s, P.LetIndex) and not found.isdisjoint(s.value.symbols()):
            found.add(s.symbol)
    return found


def is_to_wait_for(stmt: P.Stmt) -> TypeGuard[P.Copy]:
    """Whether a statement is a copy whose wait nobody has written."""
    return isinstance(stmt, P.Copy) and stmt.asynchronous and not stmt.fetched


def _sequence(stmt: P.Seq, batched: frozenset[int]) -> tuple[P.Stmt, tuple[P.Copy, ...]]:
    out: list[P.Stmt] = []
    pending: tuple[P.Copy, ...] = ()
    for s in stmt.stmts:
        if isinstance(s, P.Wait):
            pending = tuple(c for c in pending if c.group != s.group)
        due = tuple(c for c in pending if _leaves(s) or _meets(s, c))
        out += _waits(due)
        placed, in_flight = _placed(s, batched)
        out.append(placed)
        # A wait is for all copies of the group.
        groups = {c.group for c in due}
        pending = (*(c for c in pending if c.group not in groups), *in_flight)
    own = {s.buffer for s in stmt.stmts if isinstance(s, P.Alloc)}
    ending = tuple(c for c in pending if c.destination in own or c.source in own)
    return P.seq(*out, *_waits(ending)), tuple(c for c in pending if c not in ending)


def _meets(stmt: P.Stmt, copy: P.Copy) -> bool:
    """Whether a statement other than the copy touches what the copy fills, or writes what it reads."""
    for s in P.walk(stmt):
        if s is copy:
            continue
        if copy.destination in P.touched(s) or P.written(s) is copy.source:
            return True
    return False


def _leaves(stmt: P.Stmt) -> bool:
    """Whether a statement may leave the loop around it."""
    return isinstance(stmt, P.Break) or any(_leaves(s) for s in P.children(stmt) if not isinstance(stmt, P.For))


def _waits(copies: Sequence[P.Copy]) -> tuple[P.Stmt, ...]:
    return tuple(P.Wait(group) for group in dict.fromkeys(c.group for c in copies))
