"""The elements that the threads of a task touch, worked out one by one: from the position of each access, the loops and
threads that it names, and the conditions under which it is reached."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from sterna.ir.integer import Atom, Int, Symbol, of
from sterna.ir.remainders import rejoined
from sterna.ir.threads import ThreadAxis
from sterna.loops.elements import part_of
from sterna.loops.program import Buffer
from sterna.te.position import IndexAtom, depends_on_data

#: Elements of one statement that are looked at one by one; more are refused.
MOST_ELEMENTS = 1 << 22
#: Elements of all tasks that are looked at where theirs do not lie a constant step apart.
MOST_OF_TASKS = 1 << 26

Array = np.ndarray[Any, Any]
#: index < limit, where a statement is reached.
Guard = tuple[Int, Int]


@dataclass(frozen=True)
class Place:
    """Where a statement stands: what its symbols are, and under which conditions it is reached.

    Args:
        threads: symbols that number threads: (axis, first).
        local: symbols of loops that each thread runs through by itself: (first, how many).
        known: symbols that have one value here; varying: those of them that stand for other values, too, as the number
            of an iteration does for those that are alike: conditions that these answer otherwise are not known.
        guards: conditions, those that threads disagree on among them; on_data: numbers of conditions on data.
        divergent: why not all threads come by, if so.
        numbers: along an axis, those of the threads that come by: (first, end); all where none are said.
        parted: axes along which a condition decides who comes by.
    """

    threads: Mapping[Symbol, tuple[ThreadAxis, int]] = field(default_factory=dict)
    local: Mapping[Symbol, tuple[int, int]] = field(default_factory=dict)
    known: Mapping[Atom, Int] = field(default_factory=dict)
    varying: Mapping[Atom, Int] = field(default_factory=dict)
    guards: tuple[Guard, ...] = ()
    on_data: tuple[int, ...] = ()
    divergent: str = ""
    numbers: Mapping[ThreadAxis, tuple[int, int]] = field(default_factory=dict)
    parted: frozenset[ThreadAxis] = frozenset()

    def settled(self, index: Int) -> Int:
        """The position with all that is known put in."""
        return rejoined(index.substitute(self.known)) if self.known else index

    def asked(self, index: Int) -> Int:
        """The position with all that is known put in, but for what varies, which has a name of its own here."""
        return rejoined(index.substitute({**self.known, **self.varying})) if self.known else index

    def named(self, symbol: Symbol, value: Int) -> Place:
        """This place, with a name for a value."""
        varying = self.varying and {**self.varying, symbol: self.asked(value)}
        return replace(self, known={**self.known, symbol: self.settled(value)}, varying=varying)

    def iteration(self, symbol: Symbol, number: Int, alike: bool) -> Place:
        """This place in an iteration of a loop; `alike`: it stands for others, too."""
        varying = self.varying
        if alike:
            varying = {**varying, symbol: of(Symbol(symbol.name, 0, None))}
        elif varying:
            varying = {**varying, symbol: number}
        return replace(self, known={**self.known, symbol: number}, varying=varying)


#: More elements than a tile has.
MOST_OF_TILE = 1 << 12


@dataclass(frozen=True, eq=False)
class Access:
    """The elements that one statement touches: `span` of them, `stride` apart, from a position on.

    Args:
        together: of a row of a tile that a subgroup loads or stores together, a number that the first of its elements
            has among those of all such statements; 0 of what each thread touches by itself.
    """

    buffer: Buffer
    index: Int
    span: int
    stride: int
    writes: bool
    place: Place
    together: int = 0


class UnknownError(Exception):
    """It cannot be told which elements are touched."""


class Touched:
    """What accesses touch, for every thread and, where it makes a difference, for every task.

    Which thread of a subgroup touches an element of what it loads or stores together is not known: it is none that
    touches anything else, but the same one whenever the same statement is reached.

    Args:
        counts: threads along each axis; task: the symbol of a task's number; n_tasks: how many there are.
        lanes: threads of a subgroup.
    """

    def __init__(self, counts: Mapping[ThreadAxis, int], task: Symbol | None, n_tasks: Int, lanes: int = 1):
        self.counts, self.task, self.n_tasks, self.lanes = counts, task, n_tasks, lanes

    def by_thread(self, accesses: Sequence[Access]) -> Iterator[tuple[Array, Array, Array]]:
        """(thread, element, whether it writes) of all accesses to a buffer: once if tasks make no difference, else for
        each task.

        Raises:
            UnknownError: it cannot be told.
        """
        if is_same_for_all(accesses):
            _, threads, places, writes = self.together(accesses, None)
            yield threads, places, writes
            return
        if (parts := self.parts_of_tasks(accesses)) is None:
            raise UnknownError(f"it cannot be told which elements of {accesses[0].buffer.name} threads touch")
        for part in parts:
            tasks, threads, places, writes = self.together(accesses, part)
            # Tasks are compared for themselves.
            yield threads, tasks * (int(places.max(initial=0)) + 1) + places, writes

    def parts_of_tasks(self, accesses: Sequence[Access]) -> list[range] | None:
        """The tasks, some at a time whose elements are not too many; None where they cannot be looked at."""
        if self.task is None or not self.n_tasks.is_const:
            return None
        common = {part_of(a.index, self.unknown(a)) for a in accesses}
        if len(common) > 1 or None in common:
            return None
        tasks = int(self.n_tasks)
        each = sum(int(np.prod(self.sizes(a), dtype=object)) for a in accesses)
        if each > MOST_ELEMENTS or tasks * each > MOST_OF_TASKS:
            return None
        step = max(1, MOST_ELEMENTS // max(1, each))
        return [range(n, min(n + step, tasks)) for n in range(0, tasks, step)]

    def unknown(self, access: Access) -> set[Atom]:
        """The symbols of a position that are neither a task's nor a thread's: open sizes."""
        return _free(access) - {self.task}

    def together(self, accesses: Sequence[Access], tasks: range | None) -> tuple[Array, Array, Array, Array]:
        """(task, thread, element, whether it writes) of all accesses."""
        parts = [self.of(a, tasks) for a in accesses]
        writes = [np.full(places.size, a.writes) for a, (*_, places) in zip(accesses, parts, strict=True)]
        task, thread, place = (np.concatenate(each) for each in zip(*parts, strict=True))
        return task, thread, place, np.concatenate(writes)

    def sizes(self, access: Access) -> list[int]:
        """How many threads there are along each axis, and iterations of each loop that decides what is touched."""
        return [*self.counts.values(), *(count for _, count in _local(access).values()), access.span]

    def of(self, access: Access, tasks: range | None) -> tuple[Array, Array, Array]:
        """(task, thread, element) of every element that any thread touches, less what depends on unknown sizes alone.

        Args:
            tasks: those that are meant; None where the task's number is one of the unknown.
        """
        place, free, local = access.place, _free(access), _local(access)
        sizes = [1 if tasks is None else len(tasks), *self.sizes(access)]
        if int(np.prod(sizes, dtype=object)) > MOST_ELEMENTS:
            raise UnknownError(f"more than {MOST_ELEMENTS} elements of {access.buffer.name} cannot be looked at")
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
                if depends_on_data(Int({(atom,): 1}, 0)):
                    raise UnknownError(f"data decide which elements of {access.buffer.name} are touched")
                if any(a not in free for part in atom.parts() for a in part.symbols()):
                    raise UnknownError(f"sizes decide which elements of {access.buffer.name} a thread touches")
                return 0
            return 0 if atom in free else values[atom]

        places = np.broadcast_to(access.index.evaluate(value) + axes[-1] * access.stride, sizes)
        reached = np.ones(sizes, bool)
        for low, limit in place.guards:
            # A condition on what is not known may hold.
            if all(a in values for n in (low, limit) for a in n.symbols()) and not depends_on_data(low, limit):
                reached &= np.broadcast_to(low.evaluate(value) < limit.evaluate(value), sizes)
        counts = list(self.counts.values())
        thread = np.arange(int(np.prod(counts)))
        if access.together:
            thread = int(np.prod(counts)) * access.together + thread // self.lanes
        # Neighbours along x, the first axis, are neighbours in a subgroup.
        thread = thread.reshape(counts[::-1]).T.reshape(1, *counts, *[1] * (len(sizes) - len(counts) - 1))
        if access.together:
            thread = thread + int(np.prod(counts)) * axes[-1]
        task = axes[0] + (0 if tasks is None else tasks.start)
        return np.broadcast_to(task, sizes)[reached], np.broadcast_to(thread, sizes)[reached], places[reached]


def _free(access: Access) -> set[Atom]:
    """The symbols whose values are not known: dimensions, and the task's number."""
    place = access.place
    return {a for a in access.index.symbols() if a not in place.threads and a not in place.local}


def _local(access: Access) -> dict[Symbol, tuple[int, int]]:
    """The loops of a thread that the position or a condition names; others touch the same elements again and
    again."""
    guards = access.place.guards
    named = {*access.index.symbols(), *(a for guard in guards for side in guard for a in side.symbols())}
    return {symbol: ends for symbol, ends in access.place.local.items() if symbol in named}


def is_same_for_all(accesses: Sequence[Access]) -> bool:
    """Whether all positions have the same part that is made of what is not known."""
    common = {part_of(a.index, _free(a)) for a in accesses}
    return len(common) == 1 and None not in common


def race(who: Array, places: Array, writes: Array) -> bool:
    """Whether two touch one place, and one of them writes there."""
    if not writes.any():
        return False
    each = int(who.max()) + 1
    if each * (int(places.max()) + 1) > 1 << 61:
        who = np.unique(who, return_inverse=True)[1]
        each = int(who.max()) + 1
    keys = np.sort((places * each + who) * 2 + writes)
    places, who, writes = keys // 2 // each, keys // 2 % each, keys % 2 == 1
    starts = np.flatnonzero(np.r_[True, places[1:] != places[:-1]])
    several = np.minimum.reduceat(who, starts) != np.maximum.reduceat(who, starts)
    return bool((several & np.logical_or.reduceat(writes, starts)).any())


def exclude_each_other(a: Place, b: Place) -> bool:
    """Whether no thread comes by both places: they are on either side of a condition that a thread answers in one way,
    whenever it comes by."""

    def varies(guard: Guard) -> bool:
        return depends_on_data(*guard) or not all(a.local.keys().isdisjoint(side.symbols()) for side in guard)

    otherwise = {(limit - 1, index) for index, limit in a.guards}
    return any(not varies(guard) for guard in otherwise.intersection(b.guards))


def lie_apart(a: Access, b: Access) -> bool:
    """Whether all elements of one lie before those of the other, as in another slot of a ring."""
    (first, last), (other, end) = a.index.bounds(), b.index.bounds()
    before = last is not None and other is not None and last + (a.span - 1) * a.stride < other
    behind = end is not None and first is not None and end + (b.span - 1) * b.stride < first
    return before or behind
