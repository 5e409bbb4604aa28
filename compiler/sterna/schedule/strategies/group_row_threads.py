"""Which threads share the rows of a kernel: how many have a row, how many rows a task has, and what each thread has at
a time of what lies side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import prod

from sterna.ir import dtypes
from sterna.ir.integer import Int
from sterna.ir.threads import ThreadAxis
from sterna.schedule.axes import is_place
from sterna.schedule.decisions import StageSchedule
from sterna.schedule.products import multiplies
from sterna.schedule.schedule import Schedule
from sterna.schedule.strategies.analysis import (
    Context,
    at_least,
    expanded_loads,
    product,
    row_axes,
    size,
    stages_needed,
    stride_of,
)
from sterna.schedule.strategies.group_banks import WORD
from sterna.schedule.strategies.group_neighbours import neighbours_along
from sterna.te import expr as E
from sterna.te.axis import Axis
from sterna.te.expr import Load, Reduce
from sterna.te.tensor import Tensor

#: The parts of a sum that one thread combines at the end.
LAST = 8
#: Rows side by side that a task has where neighbours in memory are rows.
BESIDE = 32
#: Terms from which on several threads share a row, however many rows there are.
SHORT_ROW = 16
#: Tasks below which each has as many threads as it can.
FEW_TASKS = 64
#: Tasks of products for each multiprocessor below which they have as many threads as they can.
WAVES = 4
#: Terms per thread up to which each subgroup of a row reduces all of them, rather than wait for the others.
FEW_TERMS = 4
#: Terms per thread up to which one subgroup has a row of many.
ALONE = 32


#: Threads of a row, and rows of a task, that may be tried.
POWERS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


@dataclass
class Group:
    """The threads of a task.

    Args:
        rows: that a task has; lanes: the threads of a row, along `along`.
        across: the axis along which rows have threads of their own, those of so many neighbouring rows (`each`) the
            same.
        subgroup: threads along x that exchange what they have, and of a row the others are along y; 0: none do.
    """

    rows: int
    lanes: int
    across: ThreadAxis = "thread.y"
    along: ThreadAxis = "thread.x"
    subgroup: int = 0
    each: int = 1


@dataclass
class Roles:
    """Which axes of a stage the rows of a task differ in, and in which of them a row has several elements: columns of
    the row, or `several` that are read each by its number."""

    tile: set[Axis] = field(default_factory=set)
    columns: set[Axis] = field(default_factory=set)
    several: set[Axis] = field(default_factory=set)


class Rows:
    """The rows of an output of a kernel, and how they are shared among threads.

    Attributes:
        work: elements of all stages, about.
        group: the threads, once `takes` has said yes.
    """

    def __init__(self, s: Schedule, out: str, context: Context):
        self.s, self.out, self.context = s, out, context
        self.placed = stages_needed(s, out)
        self.rows, self.rest = row_axes(s, out, self.placed)
        if not self.placed:
            *self.rows, last = s.stages[out].tensor.axes
            self.rest = [last]
        self.work = sum(product([a.extent for a in s.stages[name].axes]) for name in (out, *self.placed))
        self.group = Group(1, 1)
        self.roles: dict[str, Roles] = {}
        self.runs = {name: self._runs(name) for name in (out, *self.placed)}

    def takes(self, group: Group) -> bool:
        """Whether every stage has axes for these threads."""
        self.group, self.roles = group, self._roles(group)
        if not all(self.s.stages[name].tensor.axes for name in (self.out, *self.placed)):
            return False
        if group.subgroup and not all(self._is_exchanged(name) for name in self.placed):
            return False
        if group.each > 1 and self._rows_together(group.rows) % group.each:
            return False
        # Where a task has several rows, every stage has them along one axis that is nothing else.
        return group.rows == 1 or all(len(r.tile) == 1 and not r.tile & r.columns for r in self.roles.values())

    # -- threads
    def threads(self) -> Group:
        """The threads of a task that share its rows."""
        group, threads = self._by_rule(), self.context.target.threads
        if threads is None or not all(a.extent.is_const for a in (*self.rows, *self.rest)):
            return group
        most = threads.most * group.each
        lanes = self.context.choose("lanes", lambda: (n for n in POWERS if n * group.rows <= most), group.lanes)
        beside = at_least(size(self.rows[-1].extent)) if self.rows else 1
        rows = self.context.choose("rows", lambda: (n for n in POWERS if n <= beside and n * lanes <= most), group.rows)
        return replace(group, lanes=lanes, rows=rows, each=group.each if rows > group.each else 1)

    def _by_rule(self) -> Group:
        """As many lanes as a row has terms or elements, and rows enough for the threads of a task."""
        threads = self.context.target.threads
        assert threads is not None
        width = max([product([a.extent for a in self.rest]), *(self._terms(name) for name in self.placed)])
        beside = size(self.rows[-1].extent) if self.rows else 1
        tasks = product([a.extent for a in self.rows])
        total = threads.preferred if tasks >= FEW_TASKS else threads.most
        if any(not a.extent.is_const for a in (*self.rows[1:], *self.rest)):
            # Rows of several outer positions are fused to tasks, of which neighbours may lie far apart. Where elements
            # of rows of an open size lie is not compared one by one: a task has one row.
            return Group(1, min(at_least(width), total))
        if self.rows and self._rows_are_neighbours():
            rows = min(BESIDE, at_least(beside), total)
            if any(self._factors(name) for name in self.placed) and tasks // rows < WAVES * threads.multiprocessors:
                total = threads.most
            each = min(self._rows_together(rows), max(1, rows // 2))
            lanes = max(1, min(at_least(width), each * total // rows))
            return Group(rows, lanes, "thread.x", "thread.y", each=each)
        lanes = min(at_least(width), total)
        rows = max(1, min(threads.preferred // lanes, at_least(beside)))
        # Where a thread has runs of neighbours a row has fewer threads, and a task more rows if there are tasks enough.
        runs = [product([a.extent for a in self.rest]) // self.runs[self.out]]
        runs += [self._terms(name) // self.runs[name] for name in self.placed]
        lanes = min(at_least(max(runs)), lanes)
        more = max(1, min(threads.preferred // lanes, at_least(beside)))
        enough = more > rows and threads.busy(-(-tasks // more)) >= threads.busy(-(-tasks // rows))
        return Group(more if enough else rows, lanes)

    def exchanging(self, group: Group) -> Group | None:
        """The threads of rows whose reductions are by exchanges in subgroups, if the target has these.

        Args:
            group: those without exchanges.
        """
        threads = self.context.target.threads
        assert threads is not None
        lanes = 1 << (group.lanes.bit_length() - 1)
        if threads.subgroup < 2 or lanes < 2 or group.along != "thread.x":
            return None
        longest = max(map(self._terms, self.placed), default=1)
        if longest <= LAST:
            return None
        width = max(product([a.extent for a in self.rest]), longest)
        tasks = product([a.extent for a in self.rows])
        beside = threads.preferred // threads.subgroup
        if lanes > threads.subgroup >= width / ALONE and tasks >= beside * threads.multiprocessors:
            lanes = threads.subgroup  # nobody waits for another subgroup, and there are tasks enough
        uneven = any(not a.extent.is_const for a in self.rest)
        rows = 1 if uneven else group.rows if lanes == group.lanes else max(1, threads.preferred // lanes)
        rows = min(rows, at_least(size(self.rows[-1].extent)) if self.rows else 1)
        subgroup = min(lanes, threads.subgroup)
        across: ThreadAxis = "thread.y" if lanes == subgroup else "thread.z"
        return Group(1 << (rows.bit_length() - 1), lanes, across, "thread.x", subgroup)

    def _is_exchanged(self, name: str) -> bool:
        """Whether a stage is one value of each row, which all threads of the row can have, or no reduction and columns
        of the row."""
        body = self.s.stages[name].body
        if self.roles[name].several:
            return False
        if not isinstance(body, Reduce):
            return True
        extreme = body.index is not None and not is_place(body)
        return not self.roles[name].columns and not extreme and body.combiner != "rescaled"

    def _terms(self, name: str) -> int:
        body = self.s.stages[name].body
        return product([a.extent for a in body.axes]) if isinstance(body, Reduce) else 1

    def _runs(self, name: str) -> int:
        """Neighbours of a row that are one access of all that a stage reads of memory: terms of its reduction, or
        elements of the output."""
        s, state = self.s, self.s.stages[name]
        body, out = state.body, state.tensor if name == self.out else None
        if isinstance(body, Reduce):
            if self._terms(name) <= LAST or body.combiner == "rescaled" or not (body.index is None or is_place(body)):
                return 1
            return neighbours_along(s, body.a, body.axes[-1:], self.context)
        return neighbours_along(s, body, self.rest[-1:], self.context, out) if out is not None else 1

    def _rows_are_neighbours(self) -> bool:
        """Whether neighbours in memory, in the greatest tensor that a reduction reads, are terms of different rows."""
        found = self._greatest()
        if found is None:
            return False
        state, load = found
        assert isinstance(state.body, Reduce)
        own, reduced = state.tensor.axes[-1], state.body.axes[-1]
        steps = [stride_of(load, a, self.context.strides) for a in (own, reduced)]
        return steps[0] == 1 and steps[1] != 1

    def _greatest(self) -> tuple[StageSchedule, Load] | None:
        """The reduction that reads the greatest tensor, and how."""
        found: list[tuple[int, StageSchedule, Load]] = []
        for name in self.placed:
            state = self.s.stages[name]
            if not isinstance(state.body, Reduce) or not state.tensor.axes or not state.body.axes:
                continue
            for load in expanded_loads(self.s, state.body):
                if isinstance(load.tensor, Tensor) and load.tensor.name not in self.s.stages:
                    found.append((product(load.tensor.shape), state, load))
        return max(found, key=lambda each: each[0])[1:] if found else None

    def tasks_in_order(self, axes: Sequence[str]) -> list[str]:
        """Axes of tasks of the output, outermost first: tasks that read the same of the greatest tensor follow one
        another, so that a cache still has it.

        Args:
            axes: those of the rows, the last one cut into blocks.
        """
        found = self._greatest()
        outputs = self.s.stages[self.out].tensor.axes
        if found is None or len(found[0].tensor.axes) != len(outputs):
            return [*axes]
        state, load = found
        named, own = E.axes_of(load), dict(zip(outputs, state.tensor.axes, strict=True))
        again = [name for row, name in zip(self.rows, axes, strict=True) if own[row] not in named]
        return [*(name for name in axes if name not in again), *again]

    def _rows_together(self, rows: int) -> int:
        """Neighbouring rows that are one access of everything that is read and stored of them."""
        roles, s = self._roles(Group(rows, 1)), self.s
        found = [neighbours_along(s, s.stages[self.out].body, self.rows[-1:], self.context, s.stages[self.out].tensor)]
        for name in self.placed:
            body = s.stages[name].body
            if isinstance(body, Reduce) and body.index is not None:
                return 1
            read = body.a if isinstance(body, Reduce) else body
            if any(load.tensor.name not in s.stages for load in expanded_loads(s, read)):
                found.append(neighbours_along(s, read, [*roles[name].tile], self.context, sectors=True))
        return min(found)

    # -- axes
    def _roles(self, group: Group) -> dict[str, Roles]:
        """What the axes of every stage are, from the output's by what is read where."""
        roles = {name: Roles() for name in self.placed}
        roles[self.out] = Roles({*self.rows[-1:]} if group.rows > 1 else set(), set(self.rest))
        for name in (self.out, *reversed(self.placed)):
            state, own = self.s.stages[name], roles[name]
            several = own.columns | {a for a in state.axes if a.reduction}
            for load in expanded_loads(self.s, state.body):
                read = roles.get(load.tensor.name)
                if read is None:
                    continue
                for axis, index in zip(self.s.stages[load.tensor.name].tensor.axes, load.indices, strict=True):
                    named = {a for a in index.symbols() if isinstance(a, Axis)}
                    if named & several or not _plain(index):
                        read.columns.add(axis)
                    if named & own.tile:
                        read.tile.add(axis)
                    if not named and axis.extent != 1:
                        read.several.add(axis)
        return roles

    def bytes(self) -> int:
        """What the stages of a task take in shared memory."""
        total = 0
        for name in self.placed:
            state, role = self.s.stages[name], self.roles[name]
            elements = self.group.rows * product([a.extent for a in role.columns])
            if self.group.subgroup and (isinstance(state.body, Reduce) or not role.columns):
                parts = self.group.lanes if self._has_parts(name) else 0
            else:
                parts = 1 if self._lanes(name) == 0 else 2 * self._lanes(name)
            total += elements * parts * dtypes.size(state.tensor.dtype)
        return total

    def _lanes(self, name: str) -> int:
        """The threads that have a part each of a reduction; 0 where each of its results is one thread's."""
        body = self.s.stages[name].body
        if not isinstance(body, Reduce) or body.index is not None:
            return 0
        results = product([a.extent for a in self.roles[name].columns])
        terms = self._terms(name)
        few = terms <= LAST or results >= min(terms, self.group.lanes)
        return 0 if few else min(terms // self._own(name), self.group.lanes)

    def _own(self, name: str) -> int:
        """Neighbours of a row that a thread has at a time."""
        if self.group.along == "thread.x":
            return self.runs[name]
        # Rows side by side: of a product what all rows have in common, such as the vector of a matrix-vector product.
        body, factors = self.s.stages[name].body, self._factors(name)
        if self.group.each == 1 or not factors or self._terms(name) <= LAST:
            return 1
        assert isinstance(body, Reduce)
        return min(neighbours_along(self.s, body.a.children()[n], body.axes[-1:], self.context) for n in factors)

    def _factors(self, name: str) -> list[int]:
        """The numbers of those factors that a thread brings in runs, of a sum of products."""
        body = self.s.stages[name].body
        if not isinstance(body, Reduce) or not multiplies(body):
            return []
        named = [E.axes_of(e) for e in body.a.children()]
        apart = set[Axis]() if self.group.along == "thread.x" else self.roles[name].tile
        return [n for n, axes in enumerate(named) if axes & {*body.axes} and not axes & apart]

    def _has_parts(self, name: str) -> bool:
        """Whether the subgroups of a row leave parts of a reduction in shared memory for one another."""
        body = self.s.stages[name].body
        several = self.group.lanes > self.group.subgroup and isinstance(body, Reduce) and body.index is None
        return several and self._terms(name) > FEW_TERMS * self.group.subgroup


@dataclass(frozen=True)
class ShortRow:
    """Short rows that follow one another in an input: threads that have a row each would access terms that lie a row
    apart.

    Args:
        tensor: the input; reader: the stage that reads it.
        terms: of a row; dimensions: of the input, that are a row.
    """

    tensor: str
    reader: str
    terms: int
    dimensions: int
    dtype: str

    @property
    def padding(self) -> tuple[int, int]:
        """Elements behind each row in shared memory, and the dimensions of one, so that rows are an odd number of
        words: threads side by side then are in different banks."""
        each = dtypes.size(self.dtype)
        odd = (n for n in range(2 * WORD) if (self.terms + n) * each % (2 * WORD) == WORD)
        return next(odd, 0), self.dimensions


def short_row(s: Schedule, name: str, context: Context) -> ShortRow | None:
    """The short rows that a reduction reads; None where it reads more than that, or otherwise."""
    state = s.stages[name]
    body, axes = state.body, [a for a in state.tensor.axes if a.extent != 1]
    if not isinstance(body, Reduce) or len(axes) != 1 or not all(a.extent.is_const for a in (*axes, *body.axes)):
        return None
    terms = product([a.extent for a in body.axes])
    inputs = [t.name for t in s.kernel.inputs]
    read = {(x.tensor.name, x.indices): x for x in expanded_loads(s, body) if x.tensor.name in inputs}
    # What all rows read is one thread's as another's.
    read = {key: x for key, x in read.items() if axes[0] in E.axes_of(x)}
    if len(read) != 1 or not 1 < terms < SHORT_ROW:
        return None
    (row,) = read.values()
    steps = [stride_of(row, a, context.strides) for a in (*axes, *body.axes)]
    extents = [size(a.extent) for a in body.axes]
    along = [prod(extents[n + 1 :]) for n in range(len(extents))]
    readers = [n for n, other in s.stages.items() if any(x.tensor is row.tensor for x in E.loads(other.body))]
    direct = [n for n in readers if n not in s.outputs and not isinstance(s.stages[n].body, Load)]
    reader = name if name in direct else direct[0] if len(direct) == 1 else ""
    if not reader or steps != [terms, *along]:
        return None
    return ShortRow(row.tensor.name, reader, terms, len(extents), row.dtype)


def _plain(index: Int) -> bool:
    """Whether a position is an axis, or stands still."""
    return all(isinstance(m[0], Axis) and len(m) == 1 for m in index.terms)
