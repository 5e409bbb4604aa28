"""Barriers of the threads of a task, placed where one thread touches what another one writes.

No schedule or strategy writes one. `with_barriers` walks a task as all of its threads run it. A barrier comes before
the first statement that reads or overwrites what another thread wrote since the last one, or overwrites what it read;
and at the end of the body of a loop whose next iteration would do so. Elements are compared one by one where formulas
say which they are; where data do, or there are too many, threads are taken to meet. Where threads part (in a loop over
some of them, under a condition that they disagree on) none can stand. `loops.races` proves of the result, as of every
program, that nothing is missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from sterna.ir.integer import ZERO, Atom, Int, Symbol, as_int, of
from sterna.ir.threads import NUMBER, THREADS, ThreadAxis
from sterna.loops import program as P
from sterna.loops.digits import Elements, with_known_steps
from sterna.loops.elements import part_of
from sterna.loops.prove import Range
from sterna.loops.residues import turns, turns_of
from sterna.loops.touched import MOST_OF_TILE
from sterna.te.position import depends_on_data

_BARRIER = P.Barrier("block")
#: Elements of two statements that are compared one by one.
MOST_COMPARED = 1 << 18
_REMEMBERED = 32  # statements


def with_barriers(body: P.Stmt) -> P.Stmt:
    """The program with every barrier of threads that it needs and does not have yet.

    Loops with barriers stay rolled: across a barrier a compiler can move nothing, and ptxas, which writes such loops
    out all the same, runs out of registers.
    """
    if not any(isinstance(s, P.For) and s.kind in THREADS for s in P.walk(body)):
        return body
    if any(isinstance(s, P.For) and s.kind == "parallel" for s in P.walk(body)):
        return _rolled(_of_tasks(body))
    return _rolled(_Task(body).placed(body, _Place())[0])


def _rolled(stmt: P.Stmt) -> P.Stmt:
    if not any(isinstance(s, P.Barrier) for s in P.walk(stmt)):
        return stmt
    done = P.map_children(stmt, _rolled)
    return done.changed(rolled=True) if isinstance(done, P.For) and done.kind == "serial" else done


def _of_tasks(stmt: P.Stmt) -> P.Stmt:
    if isinstance(stmt, P.For) and stmt.kind == "parallel":
        task = _Task(stmt.body)
        return stmt.changed(body=task.placed(stmt.body, _Place())[0])
    return P.map_children(stmt, _of_tasks)


@dataclass(frozen=True)
class _Place:
    """Where a statement stands.

    Args:
        known: what symbols stand for: the numbers of threads, and positions that were given a name.
        varying: symbols whose values differ from thread to thread.
        parted: not all threads of the task come by.
        numbers: those that do along an axis, (first, end), where it is not all.
        guards: (index, limit) of conditions index < limit under which they do.
    """

    known: Mapping[Atom, Int] = field(default_factory=dict)
    varying: frozenset[Symbol] = frozenset()
    parted: bool = False
    numbers: Mapping[ThreadAxis, tuple[int, int]] = field(default_factory=dict)
    guards: tuple[tuple[Int, Int], ...] = ()

    def settled(self, index: Int) -> Int:
        return index.substitute(self.known) if self.known else index

    def is_common(self, *positions: Int) -> bool:
        """Whether all threads agree on the positions."""
        symbols = {s for p in positions for s in p.symbols()}
        return not depends_on_data(*positions) and self.varying.isdisjoint(symbols)


@dataclass(frozen=True, eq=False)
class _Use:
    """Elements that a statement touches.

    Args:
        index: in terms of threads' numbers; None where no formula says which.
        numbers, guards: of the threads that touch them, as of a `_Place`.
        tile: elements from the first one on, in the order of a tile, that a subgroup of threads touches together; by
            `statement`. It may be any of its threads that touches one, but it always is the same one by that statement.
        group: of the asynchronous copies that fill it, where they begin and where they are waited for; waits: it is
            where they are, for other threads from here on.
        loops: (first, iterations) of those around it, out to where it is compared.
    """

    buffer: P.Buffer
    index: Int | None
    writes: bool
    numbers: Mapping[ThreadAxis, tuple[int, int]]
    guards: tuple[tuple[Int, Int], ...]
    tile: tuple[int, ...] = ()
    statement: P.Stmt | None = None
    group: int | None = None
    waits: bool = False
    loops: Mapping[Symbol, tuple[int, int]] = field(default_factory=dict)

    def within(self, loop: P.For) -> _Use:
        """As seen from outside of a loop."""
        named = [self.index, *(side for guard in self.guards for side in guard)]
        if self.index is None or not any(n is not None and loop.symbol in n.symbols() for n in named):
            return self
        first, end = loop.start.bounds()[0], loop.extent.bounds()[1]
        if first is None or end is None:
            return replace(self, index=None)
        # Of an open number of iterations, as many as there may be.
        return replace(self, loops={**self.loops, loop.symbol: (int(first), max(0, int(end) - int(first)))})


@dataclass(frozen=True)
class _Uses:
    """What a statement touches before its first barrier and after its last; the same where there is none."""

    head: tuple[_Use, ...] = ()
    tail: tuple[_Use, ...] = ()
    has_barrier: bool = False

    @property
    def all(self) -> tuple[_Use, ...]:
        return (*self.head, *self.tail) if self.has_barrier else self.head

    def within(self, loop: P.For) -> _Uses:
        """As seen from outside of a loop."""
        head, tail = (tuple(use.within(loop) for use in uses) for uses in (self.head, self.tail))
        return _Uses(head, tail, self.has_barrier)


class _Task:
    """The walk through a task.

    Args:
        counts: how many threads it has along each axis; lanes: how many of them are a subgroup that holds tiles.
    """

    def __init__(self, body: P.Stmt):
        self.counts, self.lanes = P.thread_counts(body), P.subgroup(body)
        #: What asynchronous copies of a group fill: for other threads, when they have been waited for.
        self.filled: dict[int, set[P.Buffer]] = {}
        #: The groups whose copies are in batches.
        self.batched = {s.group for s in P.walk(body) if isinstance(s, P.Commit)}
        for s in P.walk(body):
            if isinstance(s, P.Copy) and s.asynchronous:
                self.filled.setdefault(s.group, set()).add(s.destination)
        self.collective: dict[P.Stmt, int] = {}
        #: What was worked out last: statements between two barriers are compared in pairs.
        self.elements = lru_cache(_REMEMBERED)(self._elements)

    def placed(self, s: P.Stmt, place: _Place) -> tuple[P.Stmt, _Uses]:
        """A statement with barriers inside, and what it touches."""
        if isinstance(s, P.Seq):
            return self.sequence(s, place)
        if isinstance(s, P.Barrier):
            return s, _Uses(has_barrier=s.reach == "block")
        if isinstance(s, P.For):
            return self.loop(s, place)
        if isinstance(s, (P.If, P.Branch)):
            return self.branches(s, place)
        if isinstance(s, P.Tiles):
            body, uses = self.placed(s.body, place)
            return s.changed(body=body), uses
        if isinstance(s, P.LastTask):
            # It is a barrier before its body; threads that do not run that touch nothing more.
            body, uses = self.placed(s.body, _Place())
            return s.changed(body=body), _Uses((), uses.tail, True)
        own = tuple(self.touched(s, place))
        return s, _Uses(own, own)

    def sequence(self, s: P.Seq, place: _Place) -> tuple[P.Stmt, _Uses]:
        out: list[P.Stmt] = []
        head: list[_Use] = []
        since: list[_Use] = []
        divided = False
        for n, inner in enumerate(s.stmts):
            stmt, uses = self.placed(inner, place)
            if isinstance(inner, P.LetIndex):
                place = self.named(inner, place)
            # What others have copied, too, is there behind the barrier, and what is copied next may replace what they
            # have read before it.
            waited = n > 0 and self.ends_batches(s.stmts[n - 1])
            if not place.parted and (waited or self.meet(since, uses.head)):
                out.append(_BARRIER)
                since, divided = [], True
            out.append(stmt)
            if not divided:
                head += uses.head
            if uses.has_barrier:
                since, divided = list(uses.tail), True
            else:
                since += uses.head
        return P.seq(*out), _Uses(tuple(head), tuple(since), divided)

    def loop(self, s: P.For, place: _Place) -> tuple[P.Stmt, _Uses]:
        if s.kind in THREADS:
            body, uses = self.placed(s.body, self.over_threads(s, place))
            return s.changed(body=body), uses
        common = place.is_common(s.start, s.extent)
        inside = replace(place, parted=place.parted or not common)
        body, uses = self.placed(s.body, inside)
        uses = uses.within(s)
        # The lanes of a vector are computed at once.
        at_once = s.kind == "vectorized" and not uses.has_barrier
        if not (inside.parted or at_once) and self.meet(uses.tail, uses.head):
            body, uses = P.seq(body, _BARRIER), _Uses(uses.head, (), True)
        extent = s.extent - s.start
        if uses.has_barrier and not (extent.is_const and int(extent) > 0):
            # Without an iteration there is no barrier.
            uses = _Uses(uses.all, uses.all)
        return s.changed(body=body), uses

    def over_threads(self, s: P.For, place: _Place) -> _Place:
        """The place inside of a loop over threads."""
        assert s.kind in THREADS
        everyone = s.start == ZERO and s.extent.is_const and int(s.extent) == self.counts[s.kind]
        number, numbers = of(NUMBER[s.kind]) + s.start, place.numbers
        if not everyone and s.start.is_const and s.extent.is_const:
            numbers = {**numbers, s.kind: (0, int(s.extent) - int(s.start))}
        return replace(
            place,
            known={**place.known, s.symbol: number},
            varying=place.varying | {s.symbol, NUMBER[s.kind]},
            parted=place.parted or not everyone,
            numbers=numbers,
        )

    def named(self, s: P.LetIndex, place: _Place) -> _Place:
        known = {**place.known, s.symbol: place.settled(s.value)}
        varying = place.varying if place.is_common(s.value) else place.varying | {s.symbol}
        return replace(place, known=known, varying=varying)

    def branches(self, s: P.If | P.Branch, place: _Place) -> tuple[P.Stmt, _Uses]:
        common = isinstance(s, P.If) and place.is_common(s.index, s.limit)
        inside = replace(place, parted=place.parted or not common)
        parts: list[_Uses] = []

        def branch(inner: P.Stmt) -> P.Stmt:
            guarded = inside
            if isinstance(s, P.If):
                index, limit = place.settled(s.index), place.settled(s.limit)
                guard = (index, limit) if inner is s.then else (limit - 1, index)
                guarded = replace(inside, guards=(*place.guards, guard))
            stmt, uses = self.placed(inner, guarded)
            parts.append(uses)
            return stmt

        stmt = P.map_children(s, branch)
        parts += [_Uses()] * (2 - len(parts))
        if all(p.has_barrier for p in parts):
            return stmt, _Uses((*parts[0].head, *parts[1].head), (*parts[0].tail, *parts[1].tail), True)
        every = (*parts[0].all, *parts[1].all)
        return stmt, _Uses(every, every)

    def ends_batches(self, s: P.Stmt) -> bool:
        """Whether a statement waits for batches of copies."""
        return isinstance(s, P.Wait) and s.group in self.batched

    # -- what is touched
    def touched(self, s: P.Stmt, place: _Place) -> Iterable[_Use]:
        together = s if P.is_collective(s) else None
        for load in P.own_loads(s):
            assert isinstance(load.tensor, P.Buffer)
            tile = _tile(load.rows, load.lanes, load.pitch)
            yield from self.use(load.tensor, load.indices[0], False, place, tile, together)
        if isinstance(s, P.Store):
            tile = _tile(s.rows, s.value.lanes, s.pitch)
            yield from self.use(s.buffer, s.index, True, place, tile, together)
        elif isinstance(s, P.Copy):
            run = tuple(range(s.elements))
            group = s.group if s.asynchronous else None
            yield from self.use(s.source, s.at, False, place, run)
            yield from (replace(use, group=group) for use in self.use(s.destination, s.to, True, place, run))
        elif isinstance(s, P.Wait):
            for buffer in self.filled.get(s.group, ()):
                yield from (replace(use, group=s.group, waits=True) for use in self.use(buffer, None, True, place))
        elif isinstance(s, P.Instruction):
            for part in (*s.slices, s.result):
                yield from self.use(part.buffer, None, part is s.result, place)

    def use(
        self,
        buffer: P.Buffer,
        index: Int | None,
        writes: bool,
        place: _Place,
        tile: tuple[int, ...] = (),
        together: P.Stmt | None = None,
    ) -> Iterable[_Use]:
        if not (buffer.scope.private or buffer.scope.is_tiles):
            told = None if index is None else place.settled(index)
            by_data = told is not None and depends_on_data(told)
            yield _Use(buffer, None if by_data else told, writes, place.numbers, place.guards, tile, together)

    def meet(self, before: Sequence[_Use], after: Sequence[_Use]) -> bool:
        """Whether a thread touches by one what another one touches by the other, and one of them writes."""
        return any(
            (a.writes or b.writes)
            and a.buffer.meets(b.buffer)
            and not (a.buffer is b.buffer and a.group is not None and a.group == b.group and None in (a.index, b.index))
            and not b.waits
            and not self.apart(a, b)
            for a in before
            for b in after
        )

    def apart(self, a: _Use, b: _Use) -> bool:
        """Whether it is known that threads touch elements of their own by both of them."""
        if a.buffer is not b.buffer or a.index is None or b.index is None:
            return False
        if (known := with_known_steps([self.places(a), self.places(b)])) is not None:
            a, b = replace(a, index=known[0]), replace(b, index=known[1])
        first, second = self.elements(a), self.elements(b)
        if first is None or second is None:
            return False
        if first[0] != second[0]:
            return self.in_other_slots(a, b, (first[0], second[0]))
        threads, places = (np.concatenate(each) for each in zip(first[1:], second[1:], strict=True))
        order = np.lexsort((threads, places))
        same = places[order][1:] == places[order][:-1]
        return not (same & (threads[order][1:] != threads[order][:-1])).any()

    def in_other_slots(self, a: _Use, b: _Use, common: tuple[Int, Int]) -> bool:
        """Whether the two lie in slots of a ring that are others in every iteration, which have so much in common."""

        def apart(values: Mapping[Atom, Int]) -> bool:
            assert a.index is not None
            assert b.index is not None
            first = self.elements(replace(a, index=a.index.substitute(values)))
            second = self.elements(replace(b, index=b.index.substitute(values)))
            if first is None or second is None or first[0] != second[0]:
                return False
            return not np.isin(first[2], second[2]).any()

        return any(all(map(apart, turns(*known))) for known in turns_of(common))

    def places(self, use: _Use) -> Elements:
        """Where a use's elements lie, for proofs."""
        assert use.index is not None
        ranges = {NUMBER[axis]: Range(ZERO, as_int(count - 1)) for axis, count in self.counts.items()}
        ranges |= {s: Range(as_int(first), as_int(first + n - 1)) for s, (first, n) in use.loops.items()}
        last = use.index + max(use.tile, default=0)
        return Elements(use.index, last, tuple(limit - 1 - low for low, limit in use.guards), ranges)

    def _elements(self, use: _Use) -> tuple[Int, np.ndarray[Any, Any], np.ndarray[Any, Any]] | None:
        """(what all elements have in common, the thread that touches each, where it lies beyond that); None where it
        cannot be told."""
        index, counts = use.index, list(self.counts.values())
        assert index is not None
        if use.statement is not None:
            counts[0] //= self.lanes  # one thread, along x, for a subgroup
        tile = np.array(use.tile or (0,))
        sizes = [*counts, *(count for _, count in use.loops.values()), len(tile)]
        if int(np.prod(sizes, dtype=object)) > MOST_COMPARED:
            return None
        grid = np.indices(sizes, sparse=True)
        values: dict[Atom, Any] = {NUMBER[axis]: grid[n] for n, axis in enumerate(self.counts)}
        if use.statement is not None:
            values[NUMBER["thread.x"]] = grid[0] * self.lanes
        for n, (symbol, (first, _)) in enumerate(use.loops.items()):
            values[symbol] = grid[len(counts) + n] + first
        common = part_of(index, index.symbols() - values.keys())
        if common is None:
            return None
        places = np.broadcast_to((index - common).evaluate(values.__getitem__) + tile[grid[-1]], sizes)
        numbers = np.arange(prod(counts)).reshape(*counts, *[1] * (len(sizes) - len(counts)))
        if use.statement is not None:
            first = 1 + self.collective.setdefault(use.statement, len(self.collective)) * MOST_OF_TILE
            numbers = prod(self.counts.values()) * (first + grid[-1]) + numbers
        threads = np.broadcast_to(numbers, sizes)
        reached = np.zeros(sizes, bool)
        who = {axis: ends for axis, ends in use.numbers.items() if use.statement is None or axis != "thread.x"}
        reached[tuple(slice(*who.get(axis, (None,))) for axis in self.counts)] = True
        for low, limit in use.guards:
            # A condition on what is not known may hold.
            if {*low.symbols(), *limit.symbols()} <= values.keys() and not depends_on_data(low, limit):
                reached &= low.evaluate(values.__getitem__) < limit.evaluate(values.__getitem__)
        return common, threads[reached], places[reached]


def _tile(rows: int, lanes: int, pitch: int) -> tuple[int, ...]:
    """The elements of a tile in memory, from its first; () of what is no tile."""
    if not rows:
        return ()
    return tuple(row * pitch + n for row in range(rows) for n in range(lanes // rows))
