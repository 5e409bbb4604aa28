"""Rows that the threads of a task reduce together: softmax, normalizations, means and variances, extremes, long sums.

A task has one row or several: the axes of the output that select what every reduction computes. Each thread combines
some of the terms of a reduction in a register. Where the target has subgroups, the threads of one exchange what they
have, and each ends with the result in a register; of several subgroups each thread first combines parts that all of
them left in shared memory. Where it has none, a tree in shared memory combines what the threads have, a quarter of
them at each step (M. Harris, Optimizing Parallel Reduction, 2007: a thread reads what lies a whole step away,
so that neighbours read neighbours). What remains of the row is computed by all of them again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sterna.ir.memory import REGISTER, Memory
from sterna.schedule.schedule import Schedule
from sterna.schedule.strategies.analysis import (
    Context,
    at_least,
    fused,
    inline_elementwise,
    size,
    stages_apart,
    worth_keeping,
)
from sterna.schedule.strategies.group_banks import between_runs
from sterna.schedule.strategies.group_neighbours import neighbours_along
from sterna.schedule.strategies.group_row_threads import LAST, Roles, Rows, short_row
from sterna.te.expr import Reduce
from sterna.te.tensor import Kernel

#: What one step of the tree combines.
STEP = 4
#: The share of the shared memory of a task that its rows take.
SHARE = 0.5


def propose(kernel: Kernel, context: Context, shared: Memory) -> Schedule | None:
    """The schedule of a kernel with reductions, else None; none that reduces several axes of open sizes together."""
    found = [t.reduction for t in kernel.stages if t.reduction is not None]
    if not found or any(len(r.axes) > 1 and not all(a.extent.is_const for a in r.axes) for r in found):
        return None
    known = all(a.extent.is_const for r in found for a in r.axes)
    for keep in (True, False) if known else (False,):
        s = Schedule(kernel, context.target.known_intrinsics, context.target.memories)
        new = stages_apart(s)
        kept = worth_keeping(kernel, s) if keep else []
        for out in s.outputs:
            if isinstance(s.stages[out].body, Reduce):
                s.cache_write(out)
        inline_elementwise(s, kept, new)
        copies = dict[str, tuple[int, int]]()
        for name in [n for n, state in s.stages.items() if isinstance(state.body, Reduce)]:
            row = short_row(s, name, context)
            if row is not None and row.terms <= LAST:
                copies[s.cache_read(row.tensor, row.reader)] = row.padding
        every = [_Steps(s, out, context) for out in s.outputs]
        # The threads of all outputs are those of the one that has most to do.
        first = max(every, key=lambda rows: rows.work)
        shared_rows = first.threads()
        exchanging = first.exchanging(shared_rows)
        if exchanging is not None and not context.choose("exchanged", lambda: (True, False), True):
            exchanging = None
        groups = [exchanging, shared_rows]
        groups.append(replace(shared_rows, lanes=max(1, shared_rows.lanes // shared_rows.each), each=1))
        groups += [replace(group, rows=1, each=1) for group in groups if group is not None]
        if not any(group is not None and all(rows.takes(group) for rows in every) for group in groups):
            return None
        if all(rows.bytes() <= SHARE * shared.bytes for rows in every):
            for rows in every:
                rows.schedule(shared)
            for local, padding in copies.items():
                if padding[0]:
                    s.pad_rows(local, *padding)
            return s
    return None


class _Steps(Rows):
    """The steps of a schedule for the threads that share rows."""

    def schedule(self, shared: Memory) -> None:
        """The steps of the output and of the stages that it needs."""
        block = self._output()
        for name in self.placed:
            if self.group.subgroup and isinstance(self.s.stages[name].body, Reduce):
                self._exchange(name, block, shared)
            elif self.group.subgroup and not self.roles[name].columns:
                # Of one value of a row each thread has its own, rather than wait for another's.
                self.s.compute_at(name, self.out, block, REGISTER)
            else:
                self._place(name, block, shared)

    def _output(self) -> str:
        """The loops of the output: tasks, rows of a task, threads of a row. Returns the axis of the tasks, or of the
        rows where each thread has what it exchanged of its row."""
        s, out, columns = self.s, self.out, [a.name for a in self.rest]
        if self.rows:
            *outer, last = [a.name for a in self.rows]
            uneven = not self.rows[-1].extent.is_const or size(self.rows[-1].extent) % self.group.rows != 0
            block, row = s.split(out, last, self.group.rows, overhang=uneven)
            outer = self.tasks_in_order([*outer, block])
        else:
            whole, columns[0] = s.split(out, columns[0], 1 << 30)
            outer, row = [whole], ""
        together = list[str]()
        if self.group.each > 1:
            row, each = s.split(out, row, self.group.each)
            together.append(each)
        s.reorder(out, *outer, *([row] if row else []), *columns, *together)
        for each in together:
            s.vectorize(out, each)
        task = fused(s, out, outer)
        s.parallel(out, task)
        if columns:
            self._bind(out, fused(s, out, self._in_vectors(out, columns, self._own(out))), self.group.lanes)
        else:
            row = self._bind(out, row, 1)[0]
        if self.group.rows > 1:
            s.bind(out, row, self.group.across)
        return row if self.group.rows > 1 and self.group.subgroup else task

    def _bind(self, stage: str, axis: str, lanes: int) -> tuple[str, str]:
        """Gives so many iterations at a time to the threads of a row; the axes of what is left, and of the threads."""
        s, subgroup = self.s, self.group.subgroup
        overhang = stage == self.out and any(not a.extent.is_const for a in self.rest)
        rest, lane = s.split(stage, axis, lanes, overhang=overhang)
        if 0 < subgroup < self.group.lanes:
            other, lane = s.split(stage, lane, min(subgroup, lanes))
            s.bind(stage, other, "thread.y")
        s.bind(stage, lane, self.group.along)
        return rest, lane

    def _in_vectors(self, stage: str, columns: Sequence[str], many: int) -> list[str]:
        """Makes so many neighbours along the last of some axes one vector; the axes with what is left of that."""
        if many == 1:
            return [*columns]
        last, lane = self.s.split(stage, columns[-1], many)
        self.s.vectorize(stage, lane)
        return [*columns[:-1], last]

    def _terms_of(self, name: str) -> tuple[str, tuple[str, ...]]:
        """The only reduced axis of a stage, whose terms are brought in runs where those are one access; and the stages
        that bring them."""
        s, body, many = self.s, self.s.stages[name].body, self._own(name)
        assert isinstance(body, Reduce)
        if many == 1:
            return fused(s, name, [a.name for a in body.axes]), ()
        return "run", s.by_runs(name, many, *self._factors(name))

    def _bring(self, terms: Sequence[str], stage: str, loop: str) -> None:
        """Brings the terms of a run in the loop of a stage over runs."""
        for each in terms:
            self.s.compute_at(each, stage, loop, REGISTER)
            self.s.vectorize(each, "term")
            for leaf in self.s.stages[each].leaves[:-1]:
                self.s.unroll(each, leaf)
        if terms:
            self.s.unroll(stage, "term")

    def _exchange(self, name: str, block: str, shared: Memory) -> None:
        """A reduction of a row, of which every thread of the row has the result in a register."""
        s = self.s
        body, lanes = s.stages[name].body, self.group.lanes
        assert isinstance(body, Reduce)
        terms = self._terms(name)
        if terms > LAST:
            reduced, brought = self._terms_of(name)
            if self._has_parts(name):
                _, lane = s.split(name, reduced, min(terms // self._own(name), lanes))
                part = s.rfactor(name, lane)
                self._shared(part, self.roles[name], block, shared, "lane", brought)
                reduced, brought = "lane", ()
            rest, lane = s.split(name, reduced, self.group.subgroup)
            if s.stages[name].iterations(reduced) is None:
                s.reorder(name, lane, rest)  # each thread comes by, and asks whether it has one term more
            s.across(name, lane, self.group.subgroup)
            self._bring(brought, name, lane)
        s.compute_at(name, self.out, block, REGISTER)

    def _place(self, name: str, block: str, shared: Memory) -> None:
        """A stage at the start of each task."""
        lanes, role = self._lanes(name), self.roles[name]
        s = self.s
        if lanes:
            reduced, brought = self._terms_of(name)
            while lanes:
                _, lane = s.split(name, reduced, lanes)
                # Threads side by side have parts side by side, in banks of their own: of one row, or of as many rows.
                beside = self.group.across == "thread.x"
                part = s.rfactor(name, lane, outermost=beside)
                self._shared(part, role, block, shared, "lane", brought)
                if beside and (padding := between_runs(self.group.rows, self.group.each, s.stages[part].tensor.dtype)):
                    s.pad_rows(part, padding)
                brought = ()
                reduced, lanes = "lane", at_least(lanes) // STEP if lanes > LAST else 0
        self._shared(name, role, block, shared)

    def _shared(
        self, stage: str, role: Roles, block: str, shared: Memory, lane: str = "", brought: Sequence[str] = ()
    ) -> None:
        """Computes a stage of a task in shared memory: its threads along the axis of lanes, or of its columns.

        Args:
            brought: stages of the terms that it combines.
        """
        s = self.s
        s.compute_at(stage, self.out, block, shared)
        own = s.stages[stage].tensor.axes
        sums = s.cache_write(stage) if isinstance(s.stages[stage].body, Reduce) else ""
        names = {a.name for a in role.tile}
        tile = neighbouring = next((a.name for a in own if a.name in names), "")
        names = {a.name for a in role.columns}
        role_axes = [a for a in own if a.name in names]
        columns = [a.name for a in role_axes]
        others = [a.name for a in own if a.name not in (tile, lane, *columns)]
        order = [*others, *([tile] if tile else []), *columns, *([lane] if lane else [])]
        s.reorder(stage, *order)
        if lane:
            last, thread = "", lane
            if self.group.subgroup:
                _, thread = self._bind(stage, lane, self.group.lanes)
            else:
                s.bind(stage, lane, self.group.along)
        elif columns:
            many = (
                1
                if sums or self.group.each > 1
                else neighbours_along(s, s.stages[stage].body, role_axes[-1:], self.context)
            )
            columns = self._in_vectors(stage, columns, many)
            last, thread = self._bind(stage, fused(s, stage, columns), self.group.lanes)
        else:
            last, thread = self._bind(stage, order[-1], 1)
            tile = last if tile == order[-1] else tile
        if self.group.rows > 1:
            _, row = s.split(stage, tile, self.group.rows)
            if self.group.each > 1:
                row, each = s.split(stage, row, self.group.each)
                s.reorder(stage, *(leaf for leaf in s.stages[stage].leaves if leaf != each), each)
                s.vectorize(stage, each)
            s.bind(stage, row, self.group.across)
        if sums:
            s.compute_at(sums, stage, thread, REGISTER)
            if self.group.each > 1:
                s.reorder(sums, *(leaf for leaf in s.stages[sums].leaves if leaf != neighbouring), neighbouring)
                s.vectorize(sums, neighbouring)
            if brought:
                s.reorder(sums, "run", "term")
                self._bring(brought, sums, "run")
