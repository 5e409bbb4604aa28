"""Loops whose iterations bring what the next ones read while they compute: software pipelines over several buffers.

    bring 0                                   into the first of two buffers
    for n < count - 1
      bring n + 1                             into the other one
      compute n
    compute count - 1

What an iteration fills before it computes is brought `depth - 1` iterations earlier, into buffers that take turns. The
loop is written out by as many iterations as there are buffers, so that each statement names one of them: whoever asks
which elements meet, as barriers and the verifier do, finds buffers apart, and one barrier an iteration is enough.
Asynchronous copies are waited for at the end of the iteration before the one that reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from sterna.ir.integer import ZERO, Atom, Int, Symbol, as_int, of
from sterna.loops import program as P
from sterna.loops.copies import is_to_wait_for
from sterna.loops.unroll import Copies


class UnpipelinedError(Exception):
    """A loop that cannot be pipelined, and why."""


def pipelined(
    loop: P.For, depth: int, another: Callable[[P.Buffer], P.Buffer], group: Callable[[], int], name: str
) -> P.Stmt:
    """A serial loop as a pipeline.

    Args:
        depth: buffers for each that an iteration fills and reads; no more than there are iterations.
        another: makes one more buffer like one.
        group: gives a number that no asynchronous copy has; name: of the loop's symbol.

    Raises:
        UnpipelinedError: it brings nothing, or its length is not known.
    """
    if not loop.extent.is_const or loop.start != ZERO:
        raise UnpipelinedError("its number of iterations is not constant")
    count = int(loop.extent)
    depth = min(depth, count)
    if depth < 2:
        return loop
    bring, compute, filled = _parts(loop.body)
    slots = {b: [b, *(another(b) for _ in range(depth - 1))] for b in filled}
    begun = dict.fromkeys(c.group for c in P.walk(bring) if is_to_wait_for(c))
    groups = {g: [group() for _ in range(depth)] for g in begun}
    names: dict[str, int] = {}

    def at(part: P.Stmt, n: Int, slot: int) -> P.Stmt:
        """A part of an iteration, on the buffers whose turn it is."""
        values: dict[Atom, Int] = {loop.symbol: n}
        made = Copies(values, {b: each[slot] for b, each in slots.items()}, {}, names, {}).stmt(part)
        return _in_groups(made, {g: each[slot] for g, each in groups.items()})

    def waits(slot: int) -> list[P.Stmt]:
        return [P.Wait(each[slot]) for each in groups.values()]

    ahead = depth - 1

    def step(n: Int, turn: int) -> list[P.Stmt]:
        """An iteration that brings and computes; its turn is its number, but for whole rounds."""
        brought = at(bring, n + ahead, (turn + ahead) % depth)
        return [brought, at(compute, n, turn % depth), *waits((turn + 1) % depth)]

    out: list[P.Stmt] = [P.Alloc(b) for each in slots.values() for b in each]
    out += (at(bring, as_int(n), n) for n in range(ahead))
    out += waits(0)
    rounds, rest = divmod(count - ahead, depth)
    if rounds > 1:
        turn = Symbol(name, 0, rounds - 1)
        body = P.seq(*(s for u in range(depth) for s in step(of(turn) * depth + u, u)))
        out.append(P.For(turn, as_int(rounds), "serial", body))
    first = rounds * depth if rounds > 1 else 0
    for n in range(first, rounds * depth + rest):
        out += step(as_int(n), n)
    for n in range(count - ahead, count):
        out += [at(compute, as_int(n), n % depth), *(waits((n + 1) % depth) if n + 1 < count else ())]
    return P.seq(*out)


def _parts(body: P.Stmt) -> tuple[P.Stmt, P.Stmt, Sequence[P.Buffer]]:
    """What of an iteration brings, what computes, and the buffers between both.

    Raises:
        UnpipelinedError: nothing is brought, or what is brought depends on what the loop computes.
    """
    members = P.members(body)
    own = [s.buffer for s in members if isinstance(s, P.Alloc) and s.buffer.scope.has_offsets]
    written = {buffer for s in P.walk(body) if (buffer := P.written(s)) is not None}
    bring: list[P.Stmt] = []
    compute: list[P.Stmt] = []
    for s in members:
        if isinstance(s, P.LetIndex):
            bring.append(s)
            compute.append(s)
        elif isinstance(s, P.Alloc) and s.buffer in own:
            continue
        elif not _computes(s, own, written):
            bring.append(s)
        else:
            compute.append(s)
    filled = [b for b in own if any(P.written(s) is b for each in bring for s in P.walk(each))]
    if not filled:
        raise UnpipelinedError("no stage that lies in a memory is computed in it, from what is there already")
    if any(P.written(s) in filled for each in compute for s in P.walk(each)):
        raise UnpipelinedError("what it brings is changed while it computes")
    kept = [P.Alloc(b) for b in own if b not in filled]
    return P.seq(*bring), P.seq(*kept, *compute), filled


def _computes(s: P.Stmt, own: Sequence[P.Buffer], written: set[P.Buffer]) -> bool:
    """Whether a statement does more than fill buffers of the iteration from what the loop leaves alone."""
    fills = {buffer for inner in P.walk(s) if (buffer := P.written(inner)) is not None}
    named = any(isinstance(inner, (P.Let, P.Declare, P.Assign, P.Alloc, P.Require)) for inner in P.walk(s))
    reads = {buffer for inner in P.walk(s) for buffer in P.touched(inner)} - fills
    return named or not fills or not fills <= {*own} or not reads.isdisjoint(written)


def _in_groups(stmt: P.Stmt, groups: Mapping[int, int]) -> P.Stmt:
    if isinstance(stmt, P.Copy) and stmt.group in groups:
        return replace(stmt, group=groups[stmt.group])
    return P.map_children(stmt, lambda s: _in_groups(s, groups)) if groups else stmt
