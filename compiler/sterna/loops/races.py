"""Proves that the threads of a task, and tasks among one another, do not disturb each other, or says where they may.

The program of a task is walked once; its loops around barriers and waits are run through number by number. Between two
barriers lies an interval. In it, the elements that each thread touches are worked out exactly, from the positions of
its loads and stores. A program is refused where

- two threads touch the same element in one interval, and one of them writes it;
- a barrier stands where not all threads of the task come by, or where that cannot be told; so does a loop over threads,
  some of whose iterations nobody would run;
- a thread touches what an asynchronous copy writes, or writes what it reads, before waiting for it, or never waits;
- two tasks touch the same element, and one of them writes it.

What cannot be told is refused: elements that data decide, loops around barriers of a length that is not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np

from sterna.errors import Diagnostic, SternaError
from sterna.ir.integer import Atom, Int, Symbol, as_int, of
from sterna.ir.threads import ThreadAxis
from sterna.loops import program as P
from sterna.loops.elements import part_of
from sterna.loops.program import Buffer, Function
from sterna.te import expr as E
from sterna.te.position import IndexAtom

#: Elements of one statement that are looked at one by one, and statements that are walked; more are refused.
MOST_ELEMENTS = 1 << 22
MOST_EVENTS = 1 << 14
#: Statements of a loop that has copies in it, and no barriers, up to which it is run through number by number: inner
#: loops, which begin the copies of a block, most often are; outer ones, which wait for it too, are taken as a whole.
MOST_COUNTED, MOST_COUNTED_WAITS = 1 << 10, 1 << 6
#: Elements of all tasks that are looked at where theirs do not lie a constant step apart.
MOST_OF_TASKS = 1 << 26

Array = np.ndarray[Any, Any]
#: index < limit, where a statement is reached.
Guard = tuple[Int, Int]


def verify_threads(function: Function) -> Function:
    """Checks a program whose tasks have threads, copy asynchronously, or keep something in memory that all of them
    see; others are as they are.

    Raises:
        SternaError: E0306, everything that may go wrong.
    """
    kept = (s.buffer for s in P.walk(function.body) if isinstance(s, P.Alloc))
    if not function.has_threads and not function.has_fetches and not any(b.scope.across_tasks for b in kept):
        return function
    problems: list[str] = []
    for s in P.walk(function.body):
        if isinstance(s, P.For) and s.kind == "parallel":
            problems += _Task(s.body, s.symbol, function.n_tasks).problems()
    if not any(isinstance(s, P.For) and s.kind == "parallel" for s in P.walk(function.body)):
        problems += _Task(function.body, None, as_int(1)).problems()
    if problems:
        raise SternaError([Diagnostic("E0306", f"kernel {function.name}: {p}") for p in dict.fromkeys(problems)])
    return function


@dataclass(frozen=True)
class _Place:
    """Where a statement stands: what its symbols are, and under which conditions it is reached.

    Args:
        threads: symbols that number threads: (axis, first).
        local: symbols of loops that each thread runs through by itself: (first, how many).
        known: symbols that have one value here.
        guards: conditions, those that threads disagree on among them; on_data: numbers of conditions on data.
        divergent: why not all threads come by, if so.
        numbers: along an axis, those of the threads that come by: (first, end); all where none are said.
        parted: axes along which a condition decides who comes by.
    """

    threads: Mapping[Symbol, tuple[ThreadAxis, int]] = field(default_factory=dict)
    local: Mapping[Symbol, tuple[int, int]] = field(default_factory=dict)
    known: Mapping[Atom, Int] = field(default_factory=dict)
    guards: tuple[Guard, ...] = ()
    on_data: tuple[int, ...] = ()
    divergent: str = ""
    numbers: Mapping[ThreadAxis, tuple[int, int]] = field(default_factory=dict)
    parted: frozenset[ThreadAxis] = frozenset()

    def settled(self, index: Int) -> Int:
        """The position with all that is known put in."""
        return index.substitute(self.known) if self.known else index


@dataclass(frozen=True, eq=False)
class _Access:
    """The elements that one statement touches: `span` of them, `stride` apart, from a position on."""

    buffer: Buffer
    index: Int
    span: int
    stride: int
    writes: bool
    place: _Place


@dataclass(frozen=True, eq=False)
class _Pending:
    """An asynchronous copy that nobody has waited for yet."""

    statement: P.Copy
    reads: _Access
    writes: _Access


class _UnknownError(Exception):
    """It cannot be told which elements are touched."""


class _Task:
    """The walk through one task."""

    def __init__(self, body: P.Stmt, task: Symbol | None, n_tasks: Int):
        self.body, self.task, self.n_tasks = body, task, n_tasks
        self.counts = P.thread_counts(body)
        self.written = {buffer for s in P.walk(body) if (buffer := P.written(s)) is not None}
        self.found: list[str] = []
        self.interval: list[_Access] = []
        self.all: list[_Access] = []
        self.pending: list[_Pending] = []
        self.events = self.conditions = 0

    def problems(self) -> list[str]:
        try:
            self.walk(self.body, _Place())
            self.close()
            self.found += [f"{_copy(p.statement)} is never waited for" for p in self.pending]
            if self.n_tasks != as_int(1):
                self.check_tasks()
        except _UnknownError as problem:
            self.found.append(str(problem))
        return self.found

    # -- the walk
    def walk(self, s: P.Stmt, place: _Place) -> None:
        self.events += 1
        if self.events > MOST_EVENTS:
            raise _UnknownError(f"more than {MOST_EVENTS} statements between its barriers cannot be looked at")
        if isinstance(s, P.Seq):
            for inner in s.stmts:
                if isinstance(inner, P.LetIndex):
                    self.walk(inner, place)
                    place = replace(place, known={**place.known, inner.symbol: place.settled(inner.value)})
                else:
                    self.walk(inner, place)
            return
        self.touch(s, place)
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
        elif isinstance(s, P.Wait):
            self.wait(s, place)
        elif isinstance(s, P.Tiles):
            self.walk(s.body, place)

    def branches(self, s: P.If, place: _Place) -> None:
        index, limit = place.settled(s.index), place.settled(s.limit)
        sides = [(s.then, (index, limit)), (s.otherwise, (limit - 1, index))]
        if (limit - index).is_const:
            sides = [sides[0] if int(limit - index) > 0 else sides[1]]
        divergent = place.divergent or ("" if self.is_common((index, limit), place) else "under a condition")
        axes = {place.threads[a][0] for side in (index, limit) for a in side.symbols() if a in place.threads}
        for inner, guard in sides:
            if inner is not None:
                guards = place.guards if len(sides) == 1 else (*place.guards, guard)
                self.walk(inner, replace(place, guards=guards, divergent=divergent, parted=place.parted | axes))

    def loop(self, s: P.For, place: _Place) -> None:
        start, extent = place.settled(s.start), place.settled(s.extent)
        if s.kind in P.THREADS:
            if not start.is_const or not extent.is_const:
                raise _UnknownError(f"the loop over threads {s.symbol.name} has no constant extent")
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
        if not _synchronizes(s.body):
            self.walk(s.body, self.inside(s, start, extent, place))
        elif start.is_const and extent.is_const and self.can_count(s, int(extent) - int(start)):
            leaves = any(isinstance(inner, P.Break) for inner in P.walk(s.body))
            divergent = place.divergent or ("in a loop that data may leave" if leaves else "")
            # Of iterations that are all alike, the second one meets the first.
            last = min(int(extent), int(start) + 2) if self.is_alike(s) else int(extent)
            for n in range(int(start), last):
                self.walk(s.body, replace(place, known={**place.known, s.symbol: as_int(n)}, divergent=divergent))
        elif any(isinstance(inner, P.Barrier) for inner in P.walk(s.body)):
            raise _UnknownError(f"the loop {s.symbol.name} around a barrier has no constant number of iterations")
        else:
            # A copy that one iteration begins may still go on in the next one.
            for _ in range(2):
                self.walk(s.body, self.inside(s, start, extent, place))

    def is_alike(self, s: P.For) -> bool:
        """Whether every iteration of a loop reaches the same statements and touches the same elements of all that the
        task writes; copies that go on into later iterations may be waited for in any of them."""
        moving = {s.symbol}
        for inner in P.walk(s.body):
            if isinstance(inner, P.Wait) or (isinstance(inner, P.Copy) and inner.asynchronous):
                return False
            if not any(moving & index.symbols() for index in P.positions(inner)):
                continue
            if isinstance(inner, P.LetIndex):
                moving.add(inner.symbol)
            elif not isinstance(inner, (P.Store, P.Let, P.Assign)) or not self.only_reads(inner, moving):
                return False
        return True

    def only_reads(self, s: P.Stmt, moving: set[Symbol]) -> bool:
        """Whether a statement has such symbols only where it reads what the task never writes."""
        if any(moving & index.symbols() for index in P.positions_of(s)):
            return False
        read = (load for load in P.own_loads(s) if any(moving & index.symbols() for index in load.indices))
        return not any(load.tensor in self.written for load in read)

    def can_count(self, s: P.For, iterations: int) -> bool:
        """Whether a loop is run through number by number: around barriers always, else while that is not too much."""
        if any(isinstance(inner, P.Barrier) for inner in P.walk(s.body)):
            return True
        if iterations <= 2:
            return True  # as many as are looked at otherwise
        waits = any(isinstance(inner, P.Wait) for inner in P.walk(s.body))
        return iterations * _events(s.body) <= (MOST_COUNTED_WAITS if waits else MOST_COUNTED)

    def inside(self, s: P.For, start: Int, extent: Int, place: _Place) -> _Place:
        """The body of a loop that each thread runs through by itself."""
        lo, hi = start.bounds()[0], extent.bounds()[1]
        if lo is None or hi is None:
            raise _UnknownError(f"the loop {s.symbol.name} has no bound")
        guards = place.guards
        if not extent.is_const:
            guards = (*guards, (of(s.symbol), extent))
        if not start.is_const:
            guards = (*guards, (start - 1, of(s.symbol)))
        return replace(place, local={**place.local, s.symbol: (int(lo), max(0, int(hi) - int(lo)))}, guards=guards)

    def is_common(self, values: Sequence[Int], place: _Place) -> bool:
        """Whether all threads of a task agree on the values."""
        return not any(
            isinstance(atom, IndexAtom) or atom in place.threads or atom in place.local
            for value in values
            for atom in value.atoms()
        )

    # -- what is touched
    def touch(self, s: P.Stmt, place: _Place) -> None:
        """The loads and stores of a statement itself."""
        for load in P.own_loads(s):
            assert isinstance(load.tensor, Buffer)
            for access in self.parts(load.tensor, load.indices[0], load, False, place):
                self.access(access)
        if isinstance(s, P.Store):
            for access in self.parts(s.buffer, s.index, s, True, place):
                self.access(access)
        elif isinstance(s, P.Instruction):
            for part in (*s.slices, s.result):
                for first, span, step in part.runs():
                    self.access(_Access(part.buffer, place.settled(first), span, step, part is s.result, place))
        elif isinstance(s, P.Copy):
            reads = _Access(s.source, place.settled(s.at), s.elements, 1, False, place)
            writes = _Access(s.destination, place.settled(s.to), s.elements, 1, True, place)
            self.access(reads)
            self.access(writes)
            if s.asynchronous:
                self.pending.append(_Pending(s, reads, writes))

    def parts(
        self, buffer: Buffer, index: Int, touched: E.Load | P.Store, writes: bool, place: _Place
    ) -> Iterator[_Access]:
        lanes = touched.lanes if isinstance(touched, E.Load) else touched.value.lanes
        index = place.settled(index)
        if touched.rows:
            for row in range(touched.rows):
                yield _Access(buffer, index + row * touched.pitch, lanes // touched.rows, 1, writes, place)
        else:
            span = lanes if touched.active is None else touched.active
            yield _Access(buffer, index, span, touched.stride if lanes > 1 else 1, writes, place)

    def access(self, access: _Access) -> None:
        for pending in self.pending:
            clashes = (pending.writes, *((pending.reads,) if access.writes else ()))
            if any(c.buffer is access.buffer and self.meet(c, access, same_thread=True) for c in clashes):
                self.found.append(f"{access.buffer.name} is used before {_copy(pending.statement)} is waited for")
        if not access.buffer.scope.private:
            self.interval.append(access)
            self.all.append(access)

    def wait(self, s: P.Wait, place: _Place) -> None:
        """Ends the copies of a group by every thread that comes by here."""

        def always(p: _Pending) -> bool:
            """Whether all that began it wait here."""
            began = p.writes.place
            return set(place.guards) <= set(began.guards) and set(place.on_data) <= set(began.on_data)

        self.pending = [p for p in self.pending if p.statement.group != s.group or not always(p)]

    # -- intervals
    def close(self) -> None:
        """Compares what threads touch between two barriers; copies that go on belong to the next interval, too."""
        by_buffer: dict[Buffer, list[_Access]] = {}
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

    def overwritten(self, accesses: Sequence[_Access], others: Sequence[_Access]) -> bool:
        """Whether a task may write what has another use at the same time: not by one side of a condition that all of
        its threads agree on where the other side has that use."""

        def sides(uses: Iterable[_Access]) -> set[frozenset[Int]]:  # what is below zero there
            return {frozenset(g[0] - g[1] for g in a.place.guards if self.is_common(g, a.place)) for a in uses}

        pairs = product(sides(a for a in accesses if a.writes), sides(others))
        return any(not any(-below - 1 in there for below in here) for here, there in pairs)

    def threads_meet(self, accesses: Sequence[_Access]) -> bool:
        return any(_race(*part) for part in self.elements(accesses))

    def meet(self, a: _Access, b: _Access, same_thread: bool) -> bool:
        """Whether one thread touches an element by both."""
        for threads, places, writes in self.elements([replace(a, writes=True), replace(b, writes=False)]):
            keys = threads * (int(places.max(initial=0)) + 1) + places if same_thread else places
            if np.isin(np.unique(keys[writes]), keys[~writes]).any():
                return True
        return False

    def elements(self, accesses: Sequence[_Access]) -> Iterator[tuple[Array, Array, Array]]:
        """(thread, element, whether it writes) of all accesses to a buffer: once if tasks make no difference, else for
        each task.

        Raises:
            _UnknownError: it cannot be told.
        """
        common = {part_of(a.index, self.free(a)) for a in accesses}
        if len(common) == 1 and None not in common:
            _, threads, places, writes = self.together(accesses, None)
            yield threads, places, writes
            return
        if (parts := self.parts_of_tasks(accesses)) is None:
            raise _UnknownError(f"it cannot be told which elements of {accesses[0].buffer.name} threads touch")
        for part in parts:
            tasks, threads, places, writes = self.together(accesses, part)
            # Tasks are compared for themselves.
            yield threads, tasks * (int(places.max(initial=0)) + 1) + places, writes

    def parts_of_tasks(self, accesses: Sequence[_Access]) -> list[range] | None:
        """The tasks, some at a time whose elements are not too many; None where they cannot be looked at."""
        if self.task is None or not self.n_tasks.is_const:
            return None
        tasks = int(self.n_tasks)
        each = sum(int(np.prod(self.sizes(a), dtype=object)) for a in accesses)
        if each > MOST_ELEMENTS or tasks * each > MOST_OF_TASKS:
            return None
        step = max(1, MOST_ELEMENTS // max(1, each))
        return [range(n, min(n + step, tasks)) for n in range(0, tasks, step)]

    def together(self, accesses: Sequence[_Access], tasks: range | None) -> tuple[Array, Array, Array, Array]:
        """(task, thread, element, whether it writes) of all accesses."""
        parts = [self.touched(a, tasks) for a in accesses]
        writes = [np.full(places.size, a.writes) for a, (*_, places) in zip(accesses, parts, strict=True)]
        task, thread, place = (np.concatenate(each) for each in zip(*parts, strict=True))
        return task, thread, place, np.concatenate(writes)

    def free(self, access: _Access) -> set[Atom]:
        """The symbols whose values are not known: dimensions, and the task's number."""
        place = access.place
        return {a for a in access.index.symbols() if a not in place.threads and a not in place.local}

    def sizes(self, access: _Access) -> list[int]:
        """How many threads there are along each axis, and iterations of each loop that decides what is touched."""
        return [*self.counts.values(), *(count for _, count in self.local(access).values()), access.span]

    def local(self, access: _Access) -> dict[Symbol, tuple[int, int]]:
        """The loops of a thread that the position or a condition names; others touch the same elements again and
        again."""
        guards = access.place.guards
        named = {*access.index.symbols(), *(a for guard in guards for side in guard for a in side.symbols())}
        return {symbol: ends for symbol, ends in access.place.local.items() if symbol in named}

    def touched(self, access: _Access, tasks: range | None) -> tuple[Array, Array, Array]:
        """(task, thread, element) of every element that any thread touches, less what depends on unknown sizes alone.

        Args:
            tasks: those that are meant; None where the task's number is one of the unknown.
        """
        place, free, local = access.place, self.free(access), self.local(access)
        sizes = [1 if tasks is None else len(tasks), *self.sizes(access)]
        if int(np.prod(sizes, dtype=object)) > MOST_ELEMENTS:
            raise _UnknownError(f"more than {MOST_ELEMENTS} elements of {access.buffer.name} cannot be looked at")
        axes = np.indices(sizes, sparse=True)
        values: dict[Atom, Any] = {}
        if tasks is not None:
            assert self.task is not None
            free = free - {self.task}
            values[self.task] = axes[0] + tasks.start
        for n, kind in enumerate(self.counts):
            values |= {s: axes[1 + n] + first for s, (axis, first) in place.threads.items() if axis == kind}
        for n, (symbol, (first, _)) in enumerate(local.items()):
            values[symbol] = axes[1 + len(self.counts) + n] + first

        def value(atom: Atom) -> Any:
            if isinstance(atom, IndexAtom):
                raise _UnknownError(f"data decide which elements of {access.buffer.name} are touched")
            return 0 if atom in free else values[atom]

        places = np.broadcast_to(access.index.evaluate(value) + axes[-1] * access.stride, sizes)
        reached = np.ones(sizes, bool)
        for low, limit in place.guards:
            # A condition on what is not known may hold.
            if all(a in values for n in (low, limit) for a in n.symbols()) and not _depends_on_data(low, limit):
                reached &= np.broadcast_to(low.evaluate(value) < limit.evaluate(value), sizes)
        counts = list(self.counts.values())
        thread = np.arange(int(np.prod(counts))).reshape(1, *counts, *[1] * (len(sizes) - len(counts) - 1))
        task = axes[0] + (0 if tasks is None else tasks.start)
        return np.broadcast_to(task, sizes)[reached], np.broadcast_to(thread, sizes)[reached], places[reached]

    # -- tasks
    def check_tasks(self) -> None:
        """Compares what tasks touch; memory of their own is that of a worker."""
        by_buffer: dict[Buffer, list[_Access]] = {}
        for access in self.all:
            if access.buffer.scope.across_tasks:
                by_buffer.setdefault(access.buffer, []).append(access)
        for buffer, accesses in by_buffer.items():
            if any(a.writes for a in accesses) and self.tasks_meet(accesses):
                self.found.append(f"two tasks touch the same element of {buffer.name}, one writes it")

    def tasks_meet(self, accesses: Sequence[_Access]) -> bool:
        step = accesses[0].index.coefficient(self.task) if self.task is not None else None
        common = {part_of(a.index, self.free(a)) for a in accesses}
        if step and len(common) == 1 and None not in common:
            *_, places, _ = self.together(accesses, None)
            if places.size == 0 or int(places.max() - places.min()) < abs(step):
                return False
        parts = self.parts_of_tasks(accesses)
        if parts is None:
            return True
        owner = np.full(accesses[0].buffer.elements, -1)
        for writing in (True, False):
            chosen = [a for a in accesses if a.writes == writing]
            for part in parts if chosen else ():
                tasks, _, places, _ = self.together(chosen, part)
                known = owner[places]
                if ((known >= 0) & (known != tasks)).any():
                    return True
                if writing:
                    owner[places] = tasks
                    if (owner[places] != tasks).any():
                        return True
        return False


def _race(who: Array, places: Array, writes: Array) -> bool:
    """Whether two touch one place, and one of them writes there."""
    if not writes.any():
        return False
    each = int(who.max()) + 1
    keys = np.sort((places * each + who) * 2 + writes)
    places, who, writes = keys // 2 // each, keys // 2 % each, keys % 2 == 1
    starts = np.flatnonzero(np.r_[True, places[1:] != places[:-1]])
    several = np.minimum.reduceat(who, starts) != np.maximum.reduceat(who, starts)
    return bool((several & np.logical_or.reduceat(writes, starts)).any())


def _depends_on_data(*values: Int) -> bool:
    return any(isinstance(atom, IndexAtom) for value in values for atom in value.atoms())


def _synchronizes(s: P.Stmt) -> bool:
    return any(
        isinstance(inner, (P.Barrier, P.Wait)) or (isinstance(inner, P.Copy) and inner.asynchronous)
        for inner in P.walk(s)
    )


def _events(s: P.Stmt) -> int:
    """The statements of a walk through a loop's body."""
    inside = sum(map(_events, P.children(s)))
    if isinstance(s, P.For) and s.extent.is_const and s.start.is_const and _synchronizes(s.body):
        inside *= max(0, int(s.extent) - int(s.start))
    return 1 + inside


def _copy(s: P.Copy) -> str:
    return f"the copy of {s.source.name} to {s.destination.name}"
