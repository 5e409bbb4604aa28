"""Whether tasks disturb one another: by the elements that each of them touches, and, where the last of those that come
with an index does what is left (`LastTask`), by what those of other indices touch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sterna.ir.integer import Int, Symbol, as_int
from sterna.ir.threads import ThreadAxis
from sterna.loops import program as P
from sterna.loops.digits import apart_by_digits, apart_by_number, rows_of_tasks
from sterna.loops.touched import Access, Place, Touched, UnknownError, is_same_for_all
from sterna.te import expr as E
from sterna.te.position import depends_on_data

Array = np.ndarray[Any, Any]


class Tasks:
    """The tasks of a loop program.

    Args:
        task: the symbol of a task's number; n_tasks: how many there are; counts: threads of each along each axis.
        lanes: threads of a subgroup.
    """

    def __init__(self, task: Symbol | None, n_tasks: Int, counts: Mapping[ThreadAxis, int], lanes: int):
        self.task, self.n_tasks, self.counts = task, n_tasks, counts
        self.touched = Touched(counts, task, n_tasks, lanes)

    def numbered(self, accesses: Sequence[Access]) -> bool:
        """Whether every thread of all tasks has elements of its own, by its number among all."""
        return self.task is not None and apart_by_number(accesses, self.task, self.n_tasks, self.counts)

    def in_rows(self, accesses: Sequence[Access]) -> list[Access] | None:
        """The same at positions among those of a task, where tasks have tiles of rows that open sizes take apart."""
        rows = None if self.task is None else rows_of_tasks(accesses, self.task, self.n_tasks, self.counts)
        if rows is None:
            return None
        return [replace(a, index=index) for a, index in zip(accesses, rows, strict=True)]

    def meeting(self, accesses: Sequence[Access]) -> Iterator[P.Buffer]:
        """The buffers of which two tasks touch the same element, and one of them writes it; memory of their own is that
        of a worker."""
        for buffer, own in _by_buffer(accesses).items():
            if any(a.writes for a in own) and self._meet(own):
                yield buffer

    def _meet(self, accesses: Sequence[Access]) -> bool:
        step = accesses[0].index.coefficient(self.task) if self.task is not None else None
        if step and is_same_for_all(accesses):
            *_, places, _ = self.touched.together(accesses, None)
            if places.size == 0 or int(places.max() - places.min()) < abs(step):
                return False
        if self.parts(accesses) is None:
            return self.task is None or not (
                apart_by_digits(accesses, self.task, self.n_tasks, self.counts)
                or self.numbered(accesses)
                or self.in_rows(accesses)
            )
        return _apart(accesses[0].buffer, [(self, accesses, np.arange(int(self.n_tasks)))])

    def parts(self, accesses: Sequence[Access]) -> list[range] | None:
        """The tasks, some at a time; None where it cannot be looked at what they touch."""
        parts = self.touched.parts_of_tasks(accesses)
        return None if any(self.touched.unknown(a) for a in accesses) else parts


def _apart(buffer: P.Buffer, sides: Sequence[tuple[Tasks, Sequence[Access], Array]]) -> bool:
    """Whether an element that one owner writes is touched by another; each task of a side has an owner."""
    owner = np.full(buffer.elements, -1)
    for writing in (True, False):
        for tasks, accesses, owners in sides:
            chosen = [a for a in accesses if a.writes == writing]
            for part in (tasks.parts(accesses) or ()) if chosen else ():
                who, _, places, _ = tasks.touched.together(chosen, part)
                within = (places >= 0) & (places < owner.size)  # others are kept out by conditions on open sizes
                who, places = owners[who[within]], places[within]
                known = owner[places]
                if ((known >= 0) & (known != who)).any():
                    return True
                if writing:
                    owner[places] = who
                    if (owner[places] != who).any():
                        return True
    return False


def _by_buffer(accesses: Sequence[Access]) -> dict[P.Buffer, list[Access]]:
    """Those of memory that all tasks see."""
    found: dict[P.Buffer, list[Access]] = {}
    for access in accesses:
        if access.buffer.scope.across_tasks:
            found.setdefault(access.buffer, []).append(access)
    return found


# ---------------------------------------------------------------- what the last task does
class Arrivals:
    """The tasks that come to a `LastTask`.

    Args:
        place: where that stands; tasks: all of them.

    Raises:
        UnknownError: it cannot be told who comes with which index.
    """

    def __init__(self, stmt: P.LastTask, place: Place, tasks: Tasks):
        self.stmt, self.place, self.tasks = stmt, place, tasks
        index = place.settled(stmt.index)
        if tasks.task is None or not tasks.n_tasks.is_const or depends_on_data(index):
            raise UnknownError(f"it cannot be told how many tasks have one {stmt.symbol.name}")
        if not index.symbols() <= {tasks.task}:
            raise UnknownError(f"not the task's number alone decides {stmt.symbol.name}")
        every = np.arange(int(tasks.n_tasks))
        self.indices = np.broadcast_to(index.evaluate(lambda _: every), every.shape).astype(np.int64)
        self.many = int(self.indices.max(initial=-1)) + 1

    @property
    def count(self) -> Int:
        """How many indices there are."""
        return as_int(self.many)

    def problems(self) -> Iterator[str]:
        """What is wrong with where it stands, how many come, and what the body names."""
        s, place = self.stmt, self.place
        if place.divergent or place.guards or place.on_data or place.threads or place.local:
            yield f"the last of {s.count} tasks is looked for where not every task comes by once, with all threads"
        if int(self.indices.min(initial=0)) < 0 or not (np.bincount(self.indices) == s.count).all():
            yield f"not {s.count} tasks have the same {s.symbol.name}"
        used = {symbol for inner in P.walk(s.body) for at in P.positions(inner) for symbol in at.symbols()}
        if named := used & {*place.known, self.tasks.task}:
            yield f"{', '.join(sorted(map(str, named)))} of one task is used where any of {s.count} may be the last"
        if left := sorted(_left_behind(s.body)):
            yield f"{', '.join(left)} of one task is read where any of {s.count} may be the last"
        if s.counters in {b for inner in P.walk(s.body) for b in P.touched(inner)}:
            yield f"{s.counters.name} counts tasks, and is used otherwise"

    def meeting(self, before: Sequence[Access], after: Sequence[Access], last: Tasks) -> Iterator[str]:
        """What tasks of one index had touched before they came and what the last of those of another index touches.

        Args:
            before: of all tasks; after: of the body, whose tasks are `last`.
        """
        first, then = _by_buffer(before), _by_buffer(after)
        if self.stmt.counters in first:
            yield f"{self.stmt.counters.name} counts tasks, and is used otherwise"
        for buffer in first.keys() & then.keys():
            sides = [(self.tasks, first[buffer], self.indices), (last, then[buffer], np.arange(self.many))]
            if not any(a.writes for _, accesses, _ in sides for a in accesses):
                continue
            if any(tasks.parts(accesses) is None for tasks, accesses, _ in sides) or _apart(buffer, sides):
                yield f"the last task touches an element of {buffer.name} that one of another index does, one writes it"


def _left_behind(body: P.Stmt) -> set[str]:
    """What a statement reads that only its own task has: variables, and memory that is not the device's."""
    inside = list(P.walk(body))
    own: set[object] = {s.variable for s in inside if isinstance(s, (P.Let, P.Declare))}
    own |= {s.buffer for s in inside if isinstance(s, P.Alloc)}
    values = [e for s in inside if (value := P.value_of(s)) is not None for e in E.walk(value)]
    names = {e.variable.name for e in values if isinstance(e, P.Read) and e.variable not in own}
    buffers = {b for s in inside for b in P.touched(s) if not b.scope.across_tasks and not b.scope.is_allocated}
    return names | {b.name for b in buffers if b not in own}
