"""Proves that the threads of a task, and tasks among one another, do not disturb each other, or says where they may.

The program of a task is walked once; its loops around barriers and waits are run through number by number. Between two
barriers lies an interval. In it, the elements that each thread touches are worked out exactly, from the positions of
its loads and stores. A program is refused where

- two threads touch the same element in one interval, and one of them writes it;
- a barrier stands where not all threads of the task come by, or where that cannot be told; so does a loop over threads,
  some of whose iterations nobody would run;
- a thread touches what an asynchronous copy writes, or writes what it reads, before waiting for it, or never waits;
- the operands of a product are written, or its sums used, before it is waited for, or it never is;
- a tile is touched by a subgroup that holds it together where not all of its threads come by, or where they disagree;
- an exchange stands where not all threads of the task come by, within another value, or between threads that the task
  does not have;
- two tasks touch the same element, and one of them writes it, unless the other is the last of those that it counts
  among (`loops.between_tasks`).

What cannot be told is refused: elements that data decide, loops around barriers of a length that is not known, unless
all iterations are alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from sterna.errors import Diagnostic, SternaError
from sterna.ir.integer import Int, Symbol, as_int, of
from sterna.loops import program as P
from sterna.loops.between_tasks import Arrivals, Tasks
from sterna.loops.digits import elements_of, with_known_steps
from sterna.loops.in_flight import Products
from sterna.loops.iterations import Alike, events, synchronizes
from sterna.loops.program import Buffer, Function
from sterna.loops.touched import (
    MOST_OF_TILE,
    Access,
    Place,
    UnknownError,
    exclude_each_other,
    lie_apart,
    race,
)
from sterna.te import expr as E
from sterna.te.position import depends_on_data

#: Statements that are walked; more are refused.
MOST_EVENTS = 1 << 14
#: Statements of a loop that has copies in it, and no barriers, up to which it is run through number by number: inner
#: loops, which begin the copies of a block, most often are; outer ones, which wait for it too, are taken as a whole.
MOST_COUNTED, MOST_COUNTED_WAITS = 1 << 10, 1 << 6


def verify_threads(function: Function) -> Function:
    """Checks a program whose tasks have threads, copy asynchronously, or keep something in memory that all of them
    see; others are as they are.

    Raises:
        SternaError: E0306, everything that may go wrong.
    """
    kept = (s.buffer for s in P.walk(function.body) if isinstance(s, P.Alloc))
    counted = any(isinstance(s, P.LastTask) for s in P.walk(function.body))
    shared = function.has_fetches or counted or any(b.scope.across_tasks for b in kept)
    if not function.has_threads and not shared:
        return function
    problems = ["tasks are counted that one thread each runs"] if counted and not function.has_threads else []
    for s in P.walk(function.body):
        if isinstance(s, P.For) and s.kind == "parallel":
            problems += _Task(s.body, s.symbol, function.n_tasks, function.body).problems()
    if not any(isinstance(s, P.For) and s.kind == "parallel" for s in P.walk(function.body)):
        problems += _Task(function.body, None, as_int(1), function.body).problems()
    if problems:
        raise SternaError([Diagnostic("E0306", f"kernel {function.name}: {p}") for p in dict.fromkeys(problems)])
    return function


@dataclass(frozen=True, eq=False)
class _Pending:
    """An asynchronous copy that nobody has waited for yet."""

    statement: P.Copy
    reads: Access
    writes: Access
    batch: int | None = None


class _Task:
    """The walk through one task."""

    def __init__(self, body: P.Stmt, task: Symbol | None, n_tasks: Int, tiles: P.Stmt):
        """`tiles`: where it is said who holds tiles, and how many threads there are."""
        self.body, self.tiles = body, tiles
        self.counts, self.lanes = P.thread_counts(tiles), P.subgroup(tiles)
        self.tasks = Tasks(task, n_tasks, self.counts, self.lanes)
        self.touched = self.tasks.touched
        #: The tasks that come to where one of them is the last, what they had touched then, and what that does.
        self.last: tuple[Arrivals, int, _Task] | None = None
        #: A number for each statement of a whole subgroup, in the order in which they are met.
        self.collective: dict[int, int] = {}
        self.written = {buffer for s in P.walk(body) if (buffer := P.written(s)) is not None}
        self.found: list[str] = []
        self.interval: list[Access] = []
        self.all: list[Access] = []
        self.pending: list[_Pending] = []
        self.products = Products()
        #: Batches of copies that there are of a group.
        self.batches: dict[int, int] = {}
        self.events = self.conditions = 0
        self.exchanging = {s for s in P.walk(body) if _exchanges(s)}
        self.alike = Alike(self.written, self.exchanging)

    def problems(self) -> list[str]:
        try:
            self.walk(self.body, Place())
            self.close()
            self.found += [f"{_copy(p.statement)} is never waited for" for p in self.pending]
            self.found += self.products.never_waited_for()
            if self.tasks.n_tasks.bounds()[1] not in (0, 1):
                for buffer in self.tasks.meeting(self.all):
                    self.found.append(f"two tasks touch the same element of {buffer.name}, one writes it")
            if self.last is not None:
                arrivals, touched, body = self.last
                self.found += arrivals.meeting(self.all, body.all, body.tasks)
                if touched != len(self.all):
                    self.found.append("a task touches memory behind what the last one does")
        except UnknownError as problem:
            self.found.append(str(problem))
        return self.found

    # -- the walk
    def walk(self, s: P.Stmt, place: Place) -> None:
        self.events += 1
        if self.events > MOST_EVENTS:
            raise UnknownError(f"more than {MOST_EVENTS} statements between its barriers cannot be looked at")
        if isinstance(s, P.Seq):
            for inner in s.stmts:
                if isinstance(inner, P.LetIndex):
                    self.walk(inner, place)
                    place = place.named(inner.symbol, inner.value)
                else:
                    self.walk(inner, place)
            return
        self.touch(s, place)
        if s in self.exchanging:
            self.exchange(s, place)
        if isinstance(s, P.For):
            self.loop(s, place)
        elif isinstance(s, P.If):
            self.branches(s, place)
        elif isinstance(s, P.Branch):
            for branch in (s.then, s.otherwise):
                if branch is not None:
                    self.conditions += 1
                    why = place.divergent or "under a condition on data"
                    on_data = (*place.on_data, self.conditions)
                    self.walk(branch, replace(place, on_data=on_data, divergent=why, parted=frozenset(P.THREADS)))
        elif isinstance(s, P.Barrier):
            if place.divergent:
                self.found.append(f"a barrier {place.divergent} is not reached by all threads")
            self.close()
        elif isinstance(s, P.Commit):
            self.commit(s, place)
        elif isinstance(s, P.Wait):
            self.wait(s, place)
        elif isinstance(s, P.Settle):
            if place.divergent:
                self.found.append(f"a wait for products {place.divergent} is not of all threads")
            self.products.settle(s.in_flight)
        elif isinstance(s, P.Tiles):
            self.walk(s.body, place)
        elif isinstance(s, P.LastTask):
            self.last_task(s, place)

    def last_task(self, s: P.LastTask, place: Place) -> None:
        """All threads wait for one another; the body is that of tasks of its own, one for each index."""
        if self.last is not None or self.pending:
            self.found.append("a task is counted twice, or while copies go on")
        arrivals = Arrivals(s, place, self.tasks)
        self.found += arrivals.problems()
        self.close()
        body = _Task(s.body, s.symbol, arrivals.count, self.tiles)
        self.found += body.problems()
        self.last = arrivals, len(self.all), body

    def exchange(self, s: P.Stmt, place: Place) -> None:
        """All threads come by an exchange, and the one that each needs is there."""
        if not (isinstance(s, P.Let) and isinstance(s.value, P.Exchange)):
            self.found.append("an exchange is a part of another value")
            return
        distance, have = s.value.distance, self.counts["thread.x"]
        if place.divergent:
            self.found.append(f"the exchange of {s.variable.name} {place.divergent} is not reached by all threads")
        if distance < 1 or distance & (distance - 1) or have % (2 * distance):
            self.found.append(f"{s.variable.name} comes from {distance} threads away, and a task has {have} along x")
        if _exchanges(P.Let(s.variable, s.value.a)):
            self.found.append("an exchange is a part of another value")

    def branches(self, s: P.If, place: Place) -> None:
        put = place.asked if s in self.alike.either else place.settled
        index, limit = put(s.index), put(s.limit)
        sides = [(s.then, (index, limit)), (s.otherwise, (limit - 1, index))]
        if (limit - index).is_const:
            sides = [sides[0] if int(limit - index) > 0 else sides[1]]
        divergent = place.divergent or ("" if self.is_common((index, limit), place) else "under a condition")
        axes = {place.threads[a][0] for side in (index, limit) for a in side.symbols() if a in place.threads}
        for inner, guard in sides:
            if inner is not None:
                guards = place.guards if len(sides) == 1 else (*place.guards, guard)
                self.walk(inner, replace(place, guards=guards, divergent=divergent, parted=place.parted | axes))

    def loop(self, s: P.For, place: Place) -> None:
        start, extent = place.settled(s.start), place.settled(s.extent)
        if s.kind in P.THREADS:
            if not start.is_const or not extent.is_const:
                raise UnknownError(f"the loop over threads {s.symbol.name} has no constant extent")
            first, count = int(start), int(extent) - int(start)
            least, end = place.numbers.get(s.kind, (0, self.counts[s.kind]))
            if first < least or int(extent) > end or s.kind in place.parted:
                self.found.append(f"the loop over threads {s.symbol.name} stands where not all of them come by")
            numbers = {**place.numbers, s.kind: (first, int(extent))}
            inside = replace(place, threads={**place.threads, s.symbol: (s.kind, first)}, numbers=numbers)
            if count < self.counts[s.kind]:
                why = f"in a loop over {count} of {self.counts[s.kind]} threads"
                # The symbol of a loop of one iteration is a constant to all arithmetic; this one is not.
                number = Symbol(s.symbol.name, 0, None)
                guards = (*place.guards, (of(number), extent))
                threads = {**inside.threads, number: (s.kind, first)}
                inside = replace(inside, threads=threads, guards=guards, divergent=place.divergent or why)
            self.walk(s.body, inside)
            return
        if not synchronizes(s.body):
            inside = self.inside(s, start, extent, place)
            leaves = any(isinstance(inner, P.Break) for inner in P.walk(s.body))
            if leaves or not self.is_common((start, extent), place):
                why = "in a loop that threads leave one by one"
                inside = replace(inside, divergent=place.divergent or why)
            self.walk(s.body, inside)
        elif start.is_const and extent.is_const and self.can_count(s, int(extent) - int(start)):
            leaves = any(isinstance(inner, P.Break) for inner in P.walk(s.body))
            inside = replace(place, divergent=place.divergent or ("in a loop that data may leave" if leaves else ""))
            alike = self.alike.is_alike(s)
            slots = 0 if alike else self.alike.slots(s)
            for n in self.numbers(s, int(start), int(extent), alike, slots):
                self.walk(s.body, inside.iteration(s.symbol, as_int(n), alike or slots > 0))
        elif self.is_common((start, extent), place) and self.alike.is_alike(s):
            self.loop_of_open_length(s, start, place)
        elif any(isinstance(inner, P.Barrier) for inner in P.walk(s.body)):
            raise UnknownError(f"the loop {s.symbol.name} around a barrier has no constant number of iterations")
        else:
            # A copy that one iteration begins may still go on in the next one.
            for _ in range(2):
                self.walk(s.body, self.inside(s, start, extent, place))

    def loop_of_open_length(self, s: P.For, start: Int, place: Place) -> None:
        """A loop whose iterations are all alike: of two of them the second one meets the first. There may be none, and
        then what stands before the loop meets what stands behind it."""
        before = list(self.interval)
        for n in range(2):
            self.walk(s.body, place.iteration(s.symbol, start + n, alike=True))
        self.interval = [*before, *(access for access in self.interval if access not in before)]

    def numbers(self, s: P.For, start: int, extent: int, alike: bool, slots: int) -> Iterator[int]:
        """The iterations of a loop that are looked at, in their order. Of iterations that are all alike, the second one
        meets the first. Where those are alike that take the same slot of a ring, no round differs from one that finds
        what the one before it has found; the last iterations are looked at again, which have less to bring."""
        if alike:
            yield from range(start, min(extent, start + 2))
            return
        if not slots:
            yield from range(start, extent)
            return
        end, n, left = min(extent, self.alike.last(s, extent)), start, None
        while n < extent:
            if n < end and (n - start) % slots == 0:
                now = self.left_behind()
                if now == left:
                    n += max(0, end - n) // slots * slots
                left = now
            yield n
            n += 1

    def left_behind(self) -> list[tuple[object, ...]]:
        """What an iteration may meet of those before it: copies that go on, and what is touched since the last
        barrier."""
        pending: list[tuple[object, ...]] = [
            (p.statement, p.writes.index, p.batch is not None and self.batches[p.statement.group] - p.batch)
            for p in self.pending
        ]
        used = [a for a in self.interval if a.buffer in self.written]
        return [*pending, *((a.buffer, a.index, a.writes) for a in (*self.products.accesses(), *used))]

    def can_count(self, s: P.For, iterations: int) -> bool:
        """Whether a loop is run through number by number: around barriers always, else while that is not too much."""
        if any(isinstance(inner, P.Barrier) for inner in P.walk(s.body)):
            return True
        if iterations <= 2:
            return True  # as many as are looked at otherwise
        waits = any(isinstance(inner, P.Wait) for inner in P.walk(s.body))
        return iterations * events(s.body) <= (MOST_COUNTED_WAITS if waits else MOST_COUNTED)

    def inside(self, s: P.For, start: Int, extent: Int, place: Place) -> Place:
        """The body of a loop that each thread runs through by itself."""
        lo, hi = start.bounds()[0], extent.bounds()[1]
        if lo is None or hi is None:
            raise UnknownError(f"the loop {s.symbol.name} has no bound")
        guards = place.guards
        if not extent.is_const:
            guards = (*guards, (of(s.symbol), extent))
        if not start.is_const:
            guards = (*guards, (start - 1, of(s.symbol)))
        return replace(place, local={**place.local, s.symbol: (int(lo), max(0, int(hi) - int(lo)))}, guards=guards)

    def is_common(self, values: Sequence[Int], place: Place) -> bool:
        """Whether all threads of a task agree on the values."""
        own = (atom in place.threads or atom in place.local for value in values for atom in value.atoms())
        return not depends_on_data(*values) and not any(own)

    # -- what is touched
    def touch(self, s: P.Stmt, place: Place) -> None:
        """The loads and stores of a statement itself."""
        together = self.together(s, place) if self.lanes > 1 and P.is_collective(s) else 0
        operands = list[Access]()
        for load in P.own_loads(s):
            assert isinstance(load.tensor, Buffer)
            for access in self.parts(load.tensor, load.indices[0], load, False, place, together):
                self.access(access)
                operands.append(access)
        self.found += self.products.statement(s, operands)
        if isinstance(s, P.Store):
            for access in self.parts(s.buffer, s.index, s, True, place, together):
                self.access(access)
        elif isinstance(s, P.Instruction):
            for part in (*s.slices, s.result):
                for first, span, step in part.runs():
                    self.access(Access(part.buffer, place.settled(first), span, step, part is s.result, place))
        elif isinstance(s, P.Copy):
            reads = Access(s.source, place.settled(s.at), s.elements, 1, False, place)
            writes = Access(s.destination, place.settled(s.to), s.elements, 1, True, place)
            self.access(reads)
            self.access(writes)
            if s.asynchronous:
                self.pending.append(_Pending(s, reads, writes))

    def parts(
        self, buffer: Buffer, index: Int, touched: E.Load | P.Store, writes: bool, place: Place, together: int
    ) -> Iterator[Access]:
        lanes = touched.lanes if isinstance(touched, E.Load) else touched.value.lanes
        index = place.settled(index)
        if touched.rows:
            width = lanes // touched.rows
            for row in range(touched.rows):
                number = together and together + row * width
                yield Access(buffer, index + row * touched.pitch, width, 1, writes, place, number)
        else:
            span = lanes if touched.active is None else touched.active
            yield Access(buffer, index, span, touched.stride if lanes > 1 else 1, writes, place)

    def together(self, s: P.Stmt, place: Place) -> int:
        """The first of the numbers that elements have which a subgroup touches by a statement."""
        assert isinstance(s, (P.Store, P.Let, P.Assign))
        x = {symbol for symbol, (axis, _) in place.threads.items() if axis == "thread.x"}
        everyone = 0, self.counts["thread.x"]
        alone = place.on_data or "thread.x" in place.parted or place.numbers.get("thread.x", everyone) != everyone
        decides = {a for guard in place.guards for side in guard for a in side.symbols()}
        placed = {a for index in P.positions(s) for a in place.settled(index).symbols()}
        name = s.buffer.name if isinstance(s, P.Store) else s.variable.name
        if self.counts["thread.x"] % self.lanes:
            self.found.append(f"subgroups of {self.lanes} threads hold {name}, and there are {self.counts['thread.x']}")
        elif alone or x & decides:
            self.found.append(f"the tile {name} is not reached by all threads of a subgroup")
        elif x & placed:
            self.found.append(f"threads of a subgroup disagree where the tile {name} lies")
        return self.collective.setdefault(id(s), 1 + len(self.collective) * MOST_OF_TILE)

    def access(self, access: Access) -> None:
        for pending in self.pending:
            clashes = (pending.writes, *((pending.reads,) if access.writes else ()))
            same = not access.together  # of a subgroup it may be any thread
            if same and exclude_each_other(pending.writes.place, access.place):
                continue
            if any(c.buffer is access.buffer and self.meet(c, access, same_thread=same) for c in clashes):
                self.found.append(f"{access.buffer.name} is used before {_copy(pending.statement)} is waited for")
        self.found += self.products.access(access, lambda a, b: self.meet(a, b, same_thread=False))
        if not (access.buffer.scope.private or access.buffer.scope.is_tiles):
            self.interval.append(access)
            self.all.append(access)

    def commit(self, s: P.Commit, place: Place) -> None:
        """Makes a batch of the copies of a group."""
        if place.divergent:
            self.found.append(f"a batch of group {s.group} {place.divergent} is not of all threads")
        batch = self.batches.get(s.group, 0)
        self.batches[s.group] = batch + 1

        def own(p: _Pending) -> bool:
            return p.statement.group == s.group and p.batch is None

        self.pending = [replace(p, batch=batch) if own(p) else p for p in self.pending]

    def wait(self, s: P.Wait, place: Place) -> None:
        """Ends the copies of a group by every thread that comes by here, but for those that may go on."""

        def always(p: _Pending) -> bool:
            """Whether all that began it wait here."""
            began = p.writes.place
            return set(place.guards) <= set(began.guards) and set(place.on_data) <= set(began.on_data)

        def ends(p: _Pending) -> bool:
            last = self.batches.get(s.group, 0) - s.in_flight
            return p.statement.group == s.group and (not s.in_flight or (p.batch is not None and p.batch < last))

        self.pending = [p for p in self.pending if not (ends(p) and always(p))]

    # -- intervals
    def close(self) -> None:
        """Compares what threads touch between two barriers; copies that go on belong to the next interval, too."""
        by_buffer: dict[Buffer, list[Access]] = {}
        for access in self.interval:
            by_buffer.setdefault(access.buffer, []).append(access)
        for buffer, accesses in by_buffer.items():
            several = int(np.prod(list(self.counts.values()))) > 1
            if several and any(a.writes for a in accesses) and self.threads_meet(accesses):
                self.found.append(f"two threads of a task touch the same element of {buffer.name}, one writes it")
            for other, uses in by_buffer.items() if several else ():
                if other is not buffer and other.meets(buffer) and self.overwritten(accesses, uses):
                    self.found.append(f"{buffer.name} and {other.name} lie at the same bytes, with no barrier between")
        self.interval = [a for p in self.pending for a in (p.reads, p.writes) if not a.buffer.scope.private]

    def overwritten(self, accesses: Sequence[Access], others: Sequence[Access]) -> bool:
        """Whether a task may write what has another use at the same time: not by one side of a condition that all of
        its threads agree on where the other side has that use."""

        def sides(uses: Iterable[Access]) -> set[frozenset[Int]]:  # what is below zero there
            return {frozenset(g[0] - g[1] for g in a.place.guards if self.is_common(g, a.place)) for a in uses}

        pairs = product(sides(a for a in accesses if a.writes), sides(others))
        return any(not any(-below - 1 in there for below in here) for here, there in pairs)

    def threads_meet(self, accesses: Sequence[Access]) -> bool:
        if (known := with_known_steps([elements_of(a, self.counts) for a in accesses])) is not None:
            accesses = [replace(a, index=index) for a, index in zip(accesses, known, strict=True)]
        try:
            return any(race(*part) for part in self.touched.by_thread(accesses))
        except UnknownError:
            if self.tasks.numbered(accesses):
                return False
            if (rows := self.tasks.in_rows(accesses)) is None:
                raise
            return any(race(*part) for part in self.touched.by_thread(rows))

    def meet(self, a: Access, b: Access, same_thread: bool) -> bool:
        """Whether one thread touches an element by both."""
        if lie_apart(a, b):
            return False
        for threads, places, writes in self.touched.by_thread([replace(a, writes=True), replace(b, writes=False)]):
            keys = threads * (int(places.max(initial=0)) + 1) + places if same_thread else places
            if np.isin(np.unique(keys[writes]), keys[~writes]).any():
                return True
        return False


def _exchanges(s: P.Stmt) -> bool:
    """Whether a value of a statement itself is another thread's."""
    value = s.computes()
    return value is not None and any(isinstance(node, P.Exchange) for node in E.walk(value))


def _copy(s: P.Copy) -> str:
    return f"the copy of {s.source.name} to {s.destination.name}"
