"""Chains: several kernels as one, of which a group of threads computes all stages one after the other, with what lies
between in its shared memory: dense layers of one row, a normalization and a small product, pooling and a classifier.

Axes of the output along which no stage combines elements (rows of a batch) are *slices*: each is a task of its own. The
last one of several is none, as its elements lie side by side in memory.
Without any there is one task. Of a slice every stage that is kept is a *nest*: its elements are the threads. A sum that
only one nest reads, each element at its own place, is in a register of the thread that needs it. Where a nest has fewer
elements than there are threads, several of them add up parts of a sum, which a tree in shared memory combines.
Which groups of nodes are a chain is decided by `passes.chains`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sterna.ir import dtypes
from sterna.ir.integer import Symbol
from sterna.ir.memory import REGISTER, SECTOR, Memory
from sterna.schedule.schedule import Schedule
from sterna.schedule.strategies import group_attention
from sterna.schedule.strategies.analysis import (
    Context,
    at_least,
    cheap,
    expanded_loads,
    fused,
    inline_elementwise,
    product,
    readers,
    reductions,
    size,
    stages_needed,
    stride_of,
)
from sterna.schedule.strategies.rows import SUMS, keep_lanes, many_terms
from sterna.targets.target import Target
from sterna.te import expr as E
from sterna.te.axis import Axis
from sterna.te.expr import Load, Reduce
from sterna.te.tensor import Kernel, Tensor

#: What one step of a tree combines, and the parts that one thread combines at its end.
STEP, LAST = 4, 8
#: Terms of a sum that each of several threads has, at least.
LEAST_TERMS = 4
#: Tasks below which each has as many threads as it can.
FEW_TASKS = 64
#: Elements of threads side by side from which on constants are stored for them.
SIDE = 16
#: Stages of a chain, at most: what is proved of a task grows with its barriers.
MOST_NESTS = 24
_ONE_TASK = 1 << 30


@dataclass(frozen=True)
class Nest:
    """What a group of threads does between two barriers.

    Args:
        work: elements and terms of sums, of one task; elements: that threads have one each of.
        read: bytes that it reads of the device's memory; stored: that it keeps in shared memory.
    """

    work: int
    elements: int
    read: int
    stored: int


@dataclass(frozen=True)
class Chain:
    """A chain as it is scheduled.

    Args:
        tasks: slices; threads: of a task.
    """

    schedule: Schedule
    tasks: int
    threads: int
    nests: tuple[Nest, ...]

    @property
    def stored(self) -> int:
        """Bytes of shared memory."""
        return sum(nest.stored for nest in self.nests)


def propose(kernel: Kernel, context: Context) -> Schedule | None:
    """The schedule of a kernel that is a chain, else None."""
    found = chain_of(kernel, context)
    return None if found is None else found.schedule


def chain_of(kernel: Kernel, context: Context) -> Chain | None:
    """A kernel as a chain; None where it is none, or attention, where a size is open, an element has less than a byte,
    or shared memory does not hold what lies between."""
    target = context.target
    shared = next((m for m in target.memories if m.reach == "block" and m.loadable), None)
    if target.threads is None or shared is None or not _can(kernel):
        return None
    if group_attention.found_in(kernel, context) is not None:
        return None  # another strategy has it
    sliced = {own[t] for own in _followed_axes(kernel).values() for t in kernel.stages if t in own}
    if not any(a.extent != 1 and a not in sliced for t in _inner(kernel) for a in t.axes):
        return None  # all are reductions of a row: `group_rows` has them
    found = _Scheduling(kernel, slices_of(kernel), shared, context).run()
    return found if len(found.nests) <= MOST_NESTS and found.stored <= shared.bytes else None


def _can(kernel: Kernel) -> bool:
    if kernel.scan is not None or len(kernel.outputs) != 1 or any(t.must_hold for t in kernel.stages):
        return False
    tensors = (*kernel.inputs, *kernel.params, *kernel.stages)
    if not all(n.is_const for t in tensors for n in t.shape) or any(dtypes.bits(t.dtype) < 8 for t in tensors):
        return False
    found = reductions(kernel)
    known = all(a.extent.is_const for t in found for a in t.all_axes)
    return len(found) > 1 and known and bool(kernel.outputs[0].axes) and all(t.axes for t in found)


def _inner(kernel: Kernel) -> list[Tensor]:
    """The reductions that others read, or that read others: those whose elements threads hand one another."""
    return [t for t in reductions(kernel) if t not in kernel.outputs or _after_reductions(t)]


def _after_reductions(t: Tensor) -> bool:
    """Whether a stage reads a reduction, maybe through others."""
    pending, seen = [load.tensor for load in t.reads()], set[int]()
    while pending:
        other = pending.pop()
        if id(other) in seen or not isinstance(other, Tensor) or other.body is None:
            continue
        if other.reduction is not None:
            return True
        seen.add(id(other))
        pending += [load.tensor for load in other.reads()]
    return False


# ---------------------------------------------------------------- slices
def slices_of(kernel: Kernel) -> dict[Axis, dict[Tensor, Axis]]:
    """The axes of the output that are slices, and the axis of every stage that each of them is."""
    (out,) = kernel.outputs
    # What lies side by side would be strewn over tasks, each of which reads a little of every sector of memory.
    last = out.axes[1:][-1:]
    return {axis: own for axis, own in _followed_axes(kernel).items() if axis not in last}


def _followed_axes(kernel: Kernel) -> dict[Axis, dict[Tensor, Axis]]:
    """The axes of the output along which no stage combines elements, and of every stage the axis that each is."""
    (out,) = kernel.outputs
    found = {axis: _followed(kernel, out, axis) for axis in out.axes if axis.extent != 1}
    return {axis: own for axis, own in found.items() if own is not None}


def _followed(kernel: Kernel, out: Tensor, axis: Axis) -> dict[Tensor, Axis] | None:
    """The axis of each stage that an axis of the output is, from what is read where; None where an element of it needs
    what a stage computes at other positions, too."""
    own: dict[Tensor, Axis] = {out: axis}
    for t in reversed(kernel.stages):
        if t is out:
            continue
        at: set[int | None] = set()
        for reader in readers(kernel, t):
            mine = own.get(reader)
            for load in reader.reads():
                if load.tensor is t:
                    at.add(None if mine is None else _dimension(load, mine))
        if at == {None}:
            # The same for all slices: nothing, if it is not much.
            if t.reduction is not None or _after_reductions(t):
                return None
            continue
        where = next(iter(at))
        if len(at) != 1 or where is None or where < 0 or t.axes[where].extent != axis.extent:
            return None
        own[t] = t.axes[where]
    return own


def _dimension(load: Load, axis: Axis) -> int | None:
    """The only dimension of a load that an axis goes along, in steps of one; None where there is none, -1 where the
    axis is a part of a position."""
    named = [d for d, index in enumerate(load.indices) if axis in index.symbols()]
    if not named:
        return None
    return named[0] if len(named) == 1 and load.indices[named[0]] == axis.var else -1


# ---------------------------------------------------------------- the schedule
class _Scheduling:
    """The steps for a chain, and what they make."""

    def __init__(self, kernel: Kernel, slices: Mapping[Axis, Mapping[Tensor, Axis]], shared: Memory, context: Context):
        self.kernel, self.shared, self.context = kernel, shared, context
        self.s = Schedule(kernel, context.target.known_intrinsics, context.target.memories)
        self.sliced = {t.name: {own[t].name for own in slices.values() if t in own} for t in kernel.stages}
        self.out = kernel.outputs[0].name
        self.tasks = product([a.extent for a in slices])
        self.group = _threads_of(self.tasks, context.target)
        self.nests: list[Nest] = []

    def run(self) -> Chain:
        """The schedule."""
        s, out = self.s, self.out
        if isinstance(s.stages[out].body, Reduce):
            self.sliced[s.cache_write(out)] = self.sliced[out]
        inline_elementwise(s, _kept(self.kernel, s))
        self._pack()
        stored = stages_needed(s, out)
        homes = {name: home for name in stored if (home := self._home(name, stored))}
        task, thread = self._output()
        places = {out: thread}
        for name in (*(n for n in stored if n not in homes), out):
            if name != out and isinstance(s.stages[name].body, Reduce):
                acc = s.cache_write(name)
                self.sliced[acc] = self.sliced[name]
                homes[acc] = name
            if name != out:
                s.compute_at(name, out, task, self.shared)
            sums = [acc for acc, home in homes.items() if home == name]
            for acc in sums:
                self._parts(acc, name, task)
            if name != out:
                places[name] = self._threads(name)
            self._count(name, sums, stored=name != out)
            for acc in sums:
                self._in_register(acc, name, places[name])
        for name in stored:
            self._turn(name)
        threads = min(self.group, at_least(max(nest.elements for nest in self.nests)))
        return Chain(s, self.tasks, threads, tuple(self.nests))

    def _pack(self) -> None:
        """Stores constants of which a sum reads a row for each element so that what threads side by side read lies side
        by side."""
        params, places = {t.name: t for t in self.kernel.params}, dict[str, set[tuple[str, int]]]()
        for name, state in self.s.stages.items():
            own = [a for a in state.tensor.axes if a.name not in self.sliced.get(name, ())]
            for load in expanded_loads(self.s, state.body):
                if load.tensor.name in params:
                    at = load.indices.index(own[-1].var) if own and own[-1].var in load.indices else -1
                    places.setdefault(load.tensor.name, set()).add((name, at))
        for name, found in places.items():
            ((stage, at),) = found if len(found) == 1 else (("", -1),)
            last = len(params[name].shape) - 1
            if (
                0 <= at < last
                and isinstance(self.s.stages[stage].body, Reduce)
                and size(params[name].shape[at]) >= SIDE
            ):
                self.s.pack(name, {}, [(d, "") for d in (*(d for d in range(last + 1) if d != at), at)])

    def _home(self, name: str, stored: Sequence[str]) -> str:
        """The nest that alone reads a sum, each element at its own place; "" where there is none."""
        if not isinstance(self.s.stages[name].body, Reduce):
            return ""
        reading = {
            other: loads
            for other in (*stored, self.out)
            if (loads := [x for x in expanded_loads(self.s, self.s.stages[other].body) if x.tensor.name == name])
        }
        if len(reading) != 1:
            return ""
        ((other, loads),) = reading.items()
        reader = self.s.stages[other]
        own = tuple(a.var for a in reader.tensor.axes)
        same = reader.tensor.shape == self.s.stages[name].tensor.shape and all(x.indices == own for x in loads)
        return other if same and not isinstance(reader.body, Reduce) else ""

    def _axes(self, name: str) -> tuple[list[str], list[str]]:
        """The axes of a stage that are slices, and the others."""
        own = [a.name for a in self.s.stages[name].tensor.axes]
        sliced = self.sliced[name]
        return [a for a in own if a in sliced], [a for a in own if a not in sliced]

    def _elements(self, name: str) -> int:
        """Of a slice."""
        sliced = self.sliced[name]
        return product([a.extent for a in self.s.stages[name].tensor.axes if a.name not in sliced])

    def _output(self) -> tuple[str, str]:
        """The loops of the output; the axes of tasks and of threads."""
        s, out = self.s, self.out
        sliced, rest = self._axes(out)
        if not sliced:
            whole, rest[0] = s.split(out, rest[0], _ONE_TASK)
            sliced = [whole]
        if not rest:
            sliced[-1], own = s.split(out, sliced[-1], 1)
            rest = [own]
        s.reorder(out, *sliced, *rest)
        task = fused(s, out, sliced)
        s.parallel(out, task)
        _, thread = s.split(out, fused(s, out, rest), self.group)
        s.bind(out, thread, "thread.x")
        return task, thread

    def _threads(self, name: str) -> str:
        """Gives the elements of a nest to the threads; the axis of these."""
        s = self.s
        sliced, rest = self._axes(name)
        s.reorder(name, *sliced, *rest)
        if rest:
            _, thread = s.split(name, fused(s, name, rest), self.group)
        else:
            _, thread = s.split(name, sliced[-1], 1)
        s.bind(name, thread, "thread.x")
        return thread

    def _parts(self, acc: str, home: str, task: str) -> None:
        """Lets several threads add up parts of a sum where there are more than its nest has elements."""
        s = self.s
        body = s.stages[acc].body
        assert isinstance(body, Reduce)
        terms, elements = product([a.extent for a in body.axes]), at_least(self._elements(home))
        lanes = min(self.group // elements, at_least(terms) // LEAST_TERMS)
        if body.index is not None or terms <= LAST or lanes < 2:
            return
        beside = not self._terms_are_neighbours(acc, body)
        # Of several axes the last terms would be at positions that nobody proves, if they did not come out even.
        even = lanes if len(body.axes) == 1 else min(lanes, terms & -terms)
        longest = max(body.axes, key=lambda a: size(a.extent))
        alone = min(lanes, at_least(size(longest.extent) + 1) // 2)
        reduced, lanes = longest.name, alone
        if max(even, alone) < 2:
            return
        if even >= alone:
            reduced, lanes = fused(s, acc, [a.name for a in body.axes]), even
        while lanes > 1:
            _, lane = s.split(acc, reduced, lanes)
            part = s.rfactor(acc, lane, outermost=beside)
            self.sliced[part] = self.sliced[acc]
            s.compute_at(part, self.out, task, self.shared)
            own = s.cache_write(part)
            self.sliced[own] = self.sliced[acc]
            thread = self._threads(part)
            self._count(part, [own], stored=True)
            self._in_register(own, part, thread)
            reduced, lanes = "lane", lanes // STEP if lanes > LAST else 0

    def _terms_are_neighbours(self, name: str, body: Reduce) -> bool:
        """Whether neighbours in memory, of the tensor of which a slice reads most, are terms of one sum."""
        found = [
            (self._of_slice(name, load), stride_of(load, body.axes[-1], self.context.strides) == 1)
            for load in expanded_loads(self.s, body)
            if isinstance(load.tensor, Tensor) and load.tensor.name not in self.s.stages
        ]
        return max(found, key=lambda each: each[0])[1] if found else False

    def _of_slice(self, name: str, load: Load) -> int:
        """Elements of a tensor that a slice of a stage asks for, with what lies in a sector beside each where that is
        another slice's, or a thread's with a row of its own, at another time."""
        t, tensor = load.tensor, self.s.stages[name].tensor
        assert isinstance(t, Tensor)
        sliced = {a for a in tensor.axes if a.name in self.sliced[name]}
        own = -(-product(t.shape) // product([a.extent for a in sliced & E.axes_of(load)]))
        apart = bool(t.shape) and not sliced.isdisjoint(load.indices[-1].symbols())
        if self._elements(name) >= self.group:
            (*_, thread) = (a for a in tensor.axes if a not in sliced)
            apart |= stride_of(load, thread, self.context.strides) not in (0, 1)
        return own * SECTOR // dtypes.size(t.dtype) if apart else own

    def _in_register(self, acc: str, nest: str, thread: str) -> None:
        """A sum of each thread's own, of parts if it is long: one sum of many terms is off by as many roundings."""
        s = self.s
        body = s.stages[acc].body
        assert isinstance(body, Reduce)
        longest = max(body.axes, key=lambda a: size(a.extent), default=None)
        names = [a.name for a in s.stages[acc].axes]
        whole = s.stages[acc].leaves == names and "lane" not in names  # no sum in parts already
        if longest is not None and whole and many_terms(body, body.axes):
            keep_lanes(s, acc, longest.name, min(SUMS, size(longest.extent)), nest, thread, 1)
            for leaf in list(s.stages[acc].leaves):
                s.unroll(acc, leaf)
        s.compute_at(acc, nest, thread, REGISTER)

    def _turn(self, name: str) -> None:
        """Turns the rows of a stage in shared memory where threads side by side read elements of rows below one
        another, which are in few banks if a row is an even number of words."""
        s, tensor = self.s, self.s.stages[name].tensor
        words = 4 // min(4, dtypes.size(tensor.dtype))
        if s.stages[name].attach is None or len(tensor.shape) < 2 or size(tensor.shape[-1]) // words % 2:
            return
        if s.stages[name].scope != self.shared:
            return
        across = False
        for reader in s.stages.values():
            rest = [a for a in reader.tensor.axes if a.name not in self.sliced.get(reader.name, ())]
            for load in (x for x in expanded_loads(s, reader.body) if x.tensor is tensor):
                if any(not isinstance(atom, Symbol) for index in load.indices for atom in index.atoms()):
                    return  # of a quotient nobody proves where it is in a turned row
                across |= bool(rest) and any(rest[-1] in index.symbols() for index in load.indices[:-1])
        if across:
            s.swizzle(name, words)

    # -- what it takes
    def _count(self, name: str, sums: Sequence[str], stored: bool) -> None:
        """Adds a nest with its sums to what the estimate counts, before these are cut into parts in registers."""
        s = self.s
        elements = self._elements(name)
        work, read = elements, self._read(name)
        for acc in sums:
            state = s.stages[acc]
            assert isinstance(state.body, Reduce)
            work += elements * product([a.extent for a in state.body.axes])
            read += self._read(acc)
        nbytes = elements * dtypes.size(s.stages[name].tensor.dtype)
        kept = -(-nbytes // self.shared.boundary) * self.shared.boundary if stored else nbytes
        self.nests.append(Nest(work, elements, read if stored else read + nbytes, kept if stored else 0))

    def _read(self, name: str) -> int:
        """Bytes of the device's memory that a slice of a stage reads, each once."""
        found: dict[str, int] = {}
        for load in expanded_loads(self.s, self.s.stages[name].body):
            t = load.tensor
            if isinstance(t, Tensor) and t.name not in self.s.stages:
                nbytes = self._of_slice(name, load) * dtypes.size(t.dtype)
                found[t.name] = max(found.get(t.name, 0), nbytes)
        return sum(found.values())


def _threads_of(tasks: int, target: Target) -> int:
    """Threads of a task, at most; a power of two."""
    assert target.threads is not None
    most = target.threads.preferred if tasks >= FEW_TASKS else target.threads.most
    return 1 << (most.bit_length() - 1)


def _kept(kernel: Kernel, s: Schedule) -> list[str]:
    """Element-wise stages that are worth keeping: what takes some computing, or waits for a reduction, and is read more
    than once. What only moves elements is done where they are read."""
    times: dict[Tensor, int] = {}
    kept = []
    for t in reversed(kernel.stages):
        elements = max(1, product([a.extent for a in t.axes]))
        times[t] = sum(
            -(-product([a.extent for a in r.all_axes]) // elements) * (times[r] if isinstance(r.body, Load) else 1)
            for r in readers(kernel, t)
        )
        if t.name in s.outputs or t.body is None or isinstance(t.body, (Reduce, Load, E.Const)) or times[t] < 2:
            continue
        if not cheap(t.body) or _after_reductions(t):
            kept.append(t.name)
    return kept
