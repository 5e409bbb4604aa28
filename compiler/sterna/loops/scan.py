"""From a scheduled recurrence to loops: what it starts as, a serial loop over time, what remains of it.

    start nests                      state[slot 0] = ...
    for t < length                   serial: every step needs the one before
      nests of the step's stages     they read the state at slot t % 2, and write it at slot (t + 1) % 2
    nests after it                   they read the last state

Stages of the step that are not placed inside others are computed one after the other, each in a nest in which the time
axis has the value of the loop; what they keep for each other within the step is allocated anew in every step. A state
has two slots, or one where it is only read to compute the same element of the next.

Where a nest of the step has tasks, workers share its tiles and wait for one another after every nest. What has none is
done by the worker of the first task, and all storage that outlives a nest is in the scratch that workers share.
"""

from __future__ import annotations

from collections.abc import Sequence

from sterna.ir.integer import ONE, ZERO, Int, Symbol, as_int, of
from sterna.ir.memory import SCRATCH, STACK, Scope
from sterna.loops import program as P
from sterna.loops.bodies import Place
from sterna.loops.nest import Region
from sterna.loops.nests import Nests
from sterna.loops.program import Buffer, Stmt, seq
from sterna.schedule.schedule import Schedule
from sterna.te import expr as E
from sterna.te.expr import Reduce
from sterna.te.scan import parts
from sterna.te.tensor import Carry, Scan, Tensor


def sinks(schedule: Schedule, scan: Scan) -> list[str]:
    """Stages that are computed although no other may read them."""
    return [*(c.start.name for c in scan.carries), *schedule.outputs, *(c.next.name for c in scan.carries)]


class Recurrence:
    """The statements of a kernel with a recurrence, made of the nests of its stages."""

    def __init__(self, nests: Nests, scan: Scan):
        self.nests, self.scan = nests, scan
        self.outputs = nests.schedule.outputs

    def statements(self, roots: Sequence[Tensor]) -> list[Stmt]:
        """`roots`: the stages that no other contains, producers first."""
        nests, given = self.nests, {t.name for t in roots}
        stages = [(nests.stages[n].tensor, nests.bodies[n]) for n in nests.order]
        before, steps, after = ([t for t in group if t.name in given] for group in parts(self.scan, stages))
        self._check(after)
        nests.shared = any("parallel" in nests.stages[t.name].annotations.values() for t in steps)
        slots = {carry.next.name: self._slots(carry) for carry in self.scan.carries}
        stmts: list[Stmt] = [P.Alloc(buffer) for buffer in slots.values()]
        starts = {carry.start.name: slots[carry.next.name] for carry in self.scan.carries}
        for t in before:
            if (buffer := starts.get(t.name)) is not None:
                nests.places[t.name] = Place(buffer, tuple(ZERO for _ in t.axes), ZERO)
            elif t.name not in self.outputs:
                stmts.append(self._room(t, Region(tuple(ZERO for _ in t.axes), t.shape)))
            stmts.append(nests.all_of(t))
        loop = self._loop(steps, slots)
        stmts = [s if isinstance(s, P.Alloc) else self._tasks(s) for s in stmts]
        stmts += [P.Barrier(), loop] if nests.shared else [loop]
        last = ZERO if self.scan.reverse else self.scan.length - 1
        self._at(last, self.scan.length, slots)
        return [*stmts, *(self._tasks(nests.all_of(t)) for t in after)]

    def _tasks(self, nest: Stmt) -> Stmt:
        """A nest as a loop over as many tasks as the kernel has: the first ones do its own, or the first all of it."""
        if not self.nests.shared:
            return nest
        n_tasks = self.nests.n_tasks
        task = Symbol(self.nests.unique("task"), 0, int(n_tasks) - 1)
        if not isinstance(nest, P.For) or nest.kind != "parallel":
            return P.For(task, n_tasks, "parallel", P.If(of(task), ONE, nest))
        if nest.extent == n_tasks:
            return nest
        own = seq(P.LetIndex(nest.symbol, of(task)), nest.body)
        return P.For(task, n_tasks, "parallel", P.If(of(task), nest.extent, own))

    def _loop(self, steps: Sequence[Tensor], slots: dict[str, Buffer]) -> Stmt:
        """The loop over time."""
        nests, length = self.nests, self.scan.length
        symbol = nests.symbol(nests.stages[self.scan.carries[0].next.name], "time", length)
        count = ZERO if length == 1 else of(symbol)
        time = length - 1 - count if self.scan.reverse else count
        self._at(time, count + 1, slots)
        for carry in self.scan.carries:
            nests.places[carry.previous.name] = _slot(slots[carry.next.name], time, count)
        body: list[Stmt] = []
        counts = [1]
        for t in steps:
            if t.name not in slots and t.name not in self.outputs:
                least = (time, *(ZERO for _ in t.axes[1:]))
                body.append(self._room(t, Region(least, (ONE, *t.shape[1:]))))
            nests.n_tasks = ONE
            body.append(nests.at_time(t, time))
            counts.append(int(nests.n_tasks) if nests.shared else 1)
        nests.n_tasks = as_int(max(counts))
        if nests.shared:
            body = [x for s in body for x in ((s,) if isinstance(s, P.Alloc) else (self._tasks(s), P.Barrier()))]
        return seq(*body) if length == 1 else P.For(symbol, length, "serial", seq(*body))

    def _at(self, time: Int, count: Int, slots: dict[str, Buffer]) -> None:
        """Every next state is that of a time, which is in the slot of so many steps."""
        for name, buffer in slots.items():
            self.nests.places[name] = _slot(buffer, time, count)

    def _room(self, t: Tensor, region: Region) -> Stmt:
        """Storage of a stage that others of the step read."""
        buffer = self.nests.storage(t.name, t.dtype, region.extent, self._scope())
        self.nests.places[t.name] = Place(buffer, region.least)
        return P.Alloc(buffer)

    def _slots(self, carry: Carry) -> Buffer:
        """Storage of a state: (slots, *its shape)."""
        shape = (as_int(1 if self._in_place(carry) else 2), *carry.next.shape[1:])
        return self.nests.storage(f"{carry.next.name}_state", carry.next.dtype, shape, self._scope())

    def _scope(self) -> Scope:
        """Of what outlives a nest: where threads share the nests, a memory that they share."""
        if any(kind in P.THREADS for s in self.nests.stages.values() for kind in s.annotations.values()):
            return next(m for m in self.nests.schedule.memories if m.reach == "block" and m.loadable)
        return SCRATCH if self.nests.shared else STACK

    def _in_place(self, carry: Carry) -> bool:
        """Whether the state is read only to compute the same element of the next one."""
        bodies, stages = self.nests.bodies, self.nests.stages
        for name in self.nests.order:
            for load in E.loads(bodies[name]):
                if load.tensor.name != carry.previous.name:
                    continue
                own = name == carry.next.name and not isinstance(bodies[name], Reduce)
                if not own or load.indices[1:] != tuple(a.var for a in stages[name].tensor.axes[1:]):
                    return False
        return True

    def _check(self, after: Sequence[Tensor]) -> None:
        """Of a recurrence only the last states remain."""
        length = self.scan.length
        last = ZERO if self.scan.reverse else length - 1
        finals = {carry.next.name for carry in self.scan.carries}
        sequences = {t.name for t in self.nests.kernel.stages if t.axes and t.axes[0].extent == length} - finals
        for t in after:
            for load in E.loads(self.nests.bodies[t.name]):
                name = load.tensor.name
                if (name in finals and load.indices[0] != last) or (name in sequences and name not in self.outputs):
                    self.nests.refuse(
                        f"{t.name} reads {name} at other times than the last", "make the sequence an output of its own"
                    )


def _slot(buffer: Buffer, time: Int, count: Int) -> Place:
    """Where the state of a time lies, after so many steps."""
    return Place(buffer, (time - count % int(buffer.shape[0]), *(ZERO for _ in buffer.shape[1:])))
