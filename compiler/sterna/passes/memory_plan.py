"""The static memory plan: a pool and an offset there for every buffer; most targets have one pool, the arena.

Buffers whose lives overlap do not overlap in memory; large buffers are placed first, each at the lowest offset that
fits (greedy by size: Pisarchyk and Lee, Efficient Memory Management for Deep Neural Net Inference, 2020). Where a
kernel reads an input only at the element it writes, the output takes the memory of an input that dies there.

One plan covers all regions. A life is a range of calls; what enters or leaves a loop lives as long as the loop. What a
loop carries has one place. The value for the next iteration is made right there, and its copy goes, where nothing reads
the present one any more once the new one is begun (the classical coalescing of copies: Chaitin, Register allocation and
spilling via graph coloring, 1982).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from sterna.ir import dtypes
from sterna.ir.graph import Graph, Value
from sterna.ir.memory import INPUT, OUTPUT, Memory
from sterna.loops.program import Function
from sterna.loops.traffic import WORD, traffic
from sterna.loops.values import Buffer
from sterna.passes.kernels import Call
from sterna.passes.linearize import Choice, Control, Repeat
from sterna.passes.pools import Life, Place, Pool, lay_out, most_alive
from sterna.passes.views import Storage, Views
from sterna.te.layout import most_elements
from sterna_runtime.abi import ALIGNMENT, aligned

#: Of a loop whose number of iterations is not known.
_SOME_TRIPS = 16


@dataclass(frozen=True)
class MemoryPlan:
    """Places by root value.

    Args:
        offsets: bytes from the start of its pool, of every value that owns a buffer there.
        pool_of: which pool that is; pools: of what memory and size. A target has one, the arena, unless it declares
            memories that tensors may live in.
        live_bytes: the most that is alive at one time, which no plan can undercut.
        fleeting: values whose memory later nodes take before a run ends, or that only some runs compute.
        moved: values that are made in the memory of an output of the graph.
        lives: the buffers that have been placed; sometimes: values of those that live within a region.
        scratch: for each call, where its scratch lies, if that has a place in a pool.
        positions: of the calls, as lives count them; without any, each has its own.
        alignment: of every buffer.
        words: by pool, how many a run reads and writes there, as far as kernels have been counted.
    """

    offsets: dict[Value, int]
    pool_of: dict[Value, int]
    pools: tuple[Pool, ...]
    live_bytes: int
    fleeting: frozenset[Value]
    moved: dict[Value, Value] = field(default_factory=dict)
    lives: tuple[Life, ...] = ()
    sometimes: frozenset[Value] = frozenset()
    scratch: tuple[Place | None, ...] = ()
    positions: tuple[int, ...] = ()
    alignment: int = ALIGNMENT
    words: tuple[int, ...] = ()

    @property
    def arena_bytes(self) -> int:
        """Bytes of all pools."""
        return sum(pool.bytes for pool in self.pools)

    def survives(self, root: Value) -> bool:
        """Whether a buffer still holds its value after a run."""
        return root not in self.fleeting

    def owner(self, root: Value) -> Value:
        """The value whose memory a buffer is: itself, or an output of the graph."""
        return self.moved.get(root, root)

    def needless(self, call: Call, views: Views) -> bool:
        """Whether a call only copies a region's result to where it is already."""
        if not call.assigns or not call.inputs:
            return False
        source, target = (self._place(views, value) for value in (call.inputs[0], call.outputs[0]))
        return source == target

    def _place(self, views: Views, value: Value) -> Place | Value:
        root = self.owner(views.storage(value).root)
        return (self.pool_of[root], self.offsets[root]) if root in self.offsets else root

    def with_scratch(
        self, sizes: Sequence[int], memories: Sequence[Memory], moved: Traffic | None = None
    ) -> MemoryPlan:
        """The same buffers with the scratch of every call among them, which lives as long as the call.

        Args:
            sizes: of the calls, in bytes.
            moved: what they read and write; None: not known, so that scratch comes before all tensors.

        Raises:
            SternaError: E0206, it does not fit.
        """
        where = self.positions or range(len(sizes))
        needed = {
            n: Life((), aligned(size, self.alignment), at, at, math.inf if moved is None else moved.scratch[n] / size)
            for n, (size, at) in enumerate(zip(sizes, where, strict=True))
            if size
        }
        scratch = tuple(needed.values())
        lives = self.lives if moved is None else tuple(map(moved.told, self.lives))
        every = (*scratch, *lives)
        alive = most_alive(every, 1 + max((life.last for life in every), default=0))
        plan = _laid_out(lives, self.sometimes, self.moved, alive, memories, self.alignment, scratch)
        placed = dict(zip(needed, plan.scratch, strict=True))
        words = [0.0] * len(plan.pools)
        if moved is not None:
            pools = [
                *(place[0] for place in plan.scratch if place),
                *(plan.pool_of[life.members[-1]] for life in lives),
            ]
            for life, pool in zip((*scratch, *lives), pools, strict=True):
                words[pool] += life.traffic / WORD
        at = tuple(placed.get(n) for n in range(len(sizes)))
        return replace(
            plan, scratch=at, positions=self.positions, words=() if moved is None else tuple(map(round, words))
        )


@dataclass(frozen=True)
class Traffic:
    """Bytes that calls read and write in a run: of the scratch of each, and of every buffer by its members."""

    scratch: Sequence[float]
    values: Mapping[Value, float]

    def told(self, life: Life) -> Life:
        """The buffer with how often its words are touched."""
        return replace(
            life, touches=sum(self.values.get(v, 0.0) for v in life.members) / life.size if life.size else 0.0
        )


def traffic_of(
    calls: Sequence[Call], functions: Sequence[Function], views: Views, control: Sequence[Control]
) -> Traffic:
    """Of calls and the loop program of each."""
    scratch, values = [0.0] * len(calls), dict[Value, float]()
    counted: dict[Function, Mapping[Buffer, int]] = {}
    for n, (call, function, runs) in enumerate(zip(calls, functions, _runs(len(calls), control), strict=False)):
        if function not in counted:
            counted[function] = traffic(function)
        for buffer, words in counted[function].items():
            side = {INPUT: call.inputs, OUTPUT: call.outputs}.get(buffer.scope)
            if side is not None:
                root = views.storage(side[buffer.slot]).root
                values[root] = values.get(root, 0.0) + words * runs * WORD
            elif buffer.scope.in_scratch:
                scratch[n] += words * runs * WORD
    return Traffic(scratch, values)


@dataclass(eq=False)
class _Buffer:
    size: int
    first: int
    last: int
    members: list[Value]
    touched: set[int]
    fixed: bool = False

    def take(self, other: _Buffer) -> None:
        """Becomes the buffer of another's members too, which it holds before its own."""
        self.first, self.last = min(self.first, other.first), max(self.last, other.last)
        self.members = other.members + self.members
        self.touched |= other.touched


def plan_memory(
    graph: Graph,
    calls: Sequence[Call],
    views: Views,
    keep_all: bool = False,
    control: Sequence[Control] = (),
    memories: Sequence[Memory] = (),
    alignment: int = ALIGNMENT,
    lent: bool = False,
) -> MemoryPlan:
    """Places every intermediate buffer.

    Args:
        lent: buffers may lie in an output of the graph, until that is written.
        keep_all: no memory is reused, so that every intermediate tensor can be looked at after a run.
        memories: that the buffers may lie in; none: one arena of any size.
        control: of the calls (`passes.linearize`).
        alignment: of every buffer.
    """
    buffers = _lives(graph, calls, views, control, alignment)
    if keep_all:
        for b in buffers.values():
            b.first, b.last = 0, len(calls)
    else:
        _coalesce(calls, views, buffers)
        _share(calls, views, buffers)
        if lent and not control and len(memories) < 2:
            _lend(graph, calls, views, buffers)
    every = list({id(b): b for b in buffers.values()}.values())
    unique = [b for b in every if not b.fixed]
    runs = _runs(len(calls), control)
    lives = tuple(Life(tuple(b.members), b.size, b.first, b.last, sum(runs[n] for n in b.touched)) for b in unique)
    moved = {v: b.members[-1] for b in every if b.fixed for v in b.members[:-1]}
    return _laid_out(lives, _sometimes(lives, control), moved, most_alive(lives, len(calls)), memories, alignment)


def _runs(calls: int, control: Sequence[Control]) -> list[int]:
    """How often each call runs, about."""
    runs = [1] * (calls + 1)  # one more: what control reads behind the last call
    for c in control:
        if isinstance(c, Repeat):
            trips = _SOME_TRIPS if c.count is None else max(1, c.count)
            runs[c.first : c.last] = [n * trips for n in runs[c.first : c.last]]
    return runs


def _laid_out(
    lives: tuple[Life, ...],
    sometimes: frozenset[Value],
    moved: dict[Value, Value],
    live_bytes: int,
    memories: Sequence[Memory],
    alignment: int,
    scratch: tuple[Life, ...] = (),
) -> MemoryPlan:
    """The plan of buffers whose lives are known, and scratch if there is any."""
    places, pools = lay_out((*scratch, *lives), memories, alignment)
    own = places[len(scratch) :]
    offsets = {v: offset for life, (_, offset) in zip(lives, own, strict=True) for v in life.members}
    pool_of = {v: pool for life, (pool, _) in zip(lives, own, strict=True) for v in life.members}
    fleeting = _fleeting(lives, own) | sometimes
    at = tuple(places[: len(scratch)])
    return MemoryPlan(offsets, pool_of, pools, live_bytes, fleeting, moved, lives, sometimes, at, alignment=alignment)


def _lives(
    graph: Graph, calls: Sequence[Call], views: Views, control: Sequence[Control], alignment: int
) -> dict[Value, _Buffer]:
    """The buffer of every root with the range of calls in which it is needed."""
    fixed = {views.storage(v).root for v in (*graph.arguments, *graph.results)}
    buffers: dict[Value, _Buffer] = {}

    def touch(value: Value, position: int) -> None:
        root = views.storage(value).root
        if root not in buffers:
            buffers[root] = _Buffer(_size(root, alignment), position, position, [root], set(), root in fixed)
        b = buffers[root]
        b.first, b.last = min(b.first, position), max(b.last, position)
        b.touched.add(position)

    for n, call in enumerate(calls):
        for value in (*call.outputs, *call.inputs):
            touch(value, n)
    for c in control:
        if isinstance(c, Choice):
            touch(c.condition, c.first)
            continue
        if c.trips is not None:
            touch(c.trips, c.first)
        for read in (c.condition, c.number):
            if read is not None:
                touch(read, c.first)
                touch(read, c.last - 1)
    for c in reversed(control):  # inner loops before outer ones
        if isinstance(c, Repeat):
            for b in buffers.values():
                if any(c.first <= n < c.last for n in b.touched):
                    # What comes from before must last until the end, what is needed afterwards be there from the start.
                    if b.first < c.first:
                        b.last = max(b.last, c.last)
                    if b.last >= c.last:
                        b.first = min(b.first, c.first)
    for value in (*graph.live_in, *(value for call in calls for value in call.counters)):
        # The memory of a state is never shared: before its first reader and after its last, it is for the next run.
        state = buffers.setdefault(value, _Buffer(_size(value, alignment), 0, 0, [value], set()))
        state.first, state.last = 0, len(calls)
    return buffers


def _size(root: Value, alignment: int) -> int:
    """Bytes of a buffer."""
    return aligned(_bytes(root), alignment)


def _fleeting(lives: Sequence[Life], places: Sequence[Place]) -> frozenset[Value]:
    """All but the last owner of shared memory, and those whose memory a later buffer overlaps."""
    lost: set[Value] = set()
    first = np.array([life.first for life in lives], np.int64)
    pool, start = np.array(places, np.int64).reshape(-1, 2).T
    end = start + np.array([life.size for life in lives], np.int64)
    for life, (own, offset) in zip(lives, places, strict=True):
        lost.update(life.members[:-1])
        # A buffer that begins after this one's life is another.
        over = (pool == own) & (start < offset + life.size) & (offset < end)
        if ((first > life.last) & over).any():
            lost.update(life.members)
    return frozenset(lost)


def _sometimes(lives: Sequence[Life], control: Sequence[Control]) -> frozenset[Value]:
    """Values that live within a region, which may not run."""
    return frozenset(
        v for b in lives for v in b.members if any(c.first <= b.first and b.last < c.last for c in control)
    )


def _coalesce(calls: Sequence[Call], views: Views, buffers: dict[Value, _Buffer]) -> None:
    """Lets results of regions be made where they belong.

    A buffer can be made in the memory that it is copied to, if that is the last use of it, and if between its first use
    and the copy nothing touches that memory, unless to compute an element in the place of the one that is read.
    """
    for n, call in enumerate(calls):
        if not call.assigns or not call.inputs:
            continue
        source, target = (views.storage(value) for value in (call.inputs[0], call.outputs[0]))
        made, place = buffers[source.root], buffers[target.root]
        if made is place or made.fixed or made.last != n or made.size != place.size or not _alike(source, target):
            continue
        if source.root.type.bytes != target.root.type.bytes:
            continue
        between = {p for p in place.touched if made.first <= p < n}
        if between and (between != {made.first} or not _in_place(calls[made.first], place, made, views, buffers)):
            continue
        place.take(made)
        for member in made.members:
            buffers[member] = place


def _lend(graph: Graph, calls: Sequence[Call], views: Views, buffers: dict[Value, _Buffer]) -> None:
    """Lets buffers that are needed before an output of the graph is written lie in its memory, which nobody reads
    until then, where that makes the arena smaller: at every moment when most is alive, the largest that may."""
    arguments = {views.storage(v).root for v in graph.arguments}
    roots = {views.storage(v).root for v in graph.results} - arguments
    outputs = [buffers[root] for root in roots if root in buffers]
    hosts: dict[int, list[_Buffer]] = {id(out): [] for out in outputs}

    def may(b: _Buffer, out: _Buffer) -> bool:
        last = out.members[-1]
        fits = all(v.dtype == last.dtype and _bytes(v) <= _bytes(last) for v in b.members)
        free = all(b.last < other.first or other.last < b.first for other in hosts[id(out)])
        return fits and free and b.last < out.first

    def placed() -> list[_Buffer]:
        taken = {id(b) for inside in hosts.values() for b in inside}
        return [b for b in {id(b): b for b in buffers.values()}.values() if not b.fixed and id(b) not in taken]

    def alive(each: Sequence[_Buffer], n: int) -> int:
        return sum(b.size for b in each if b.first <= n <= b.last)

    states = {id(buffers[v]) for v in graph.live_in if v in buffers}
    most = before = max((alive(placed(), n) for n in range(len(calls))), default=0)
    while True:
        rest = placed()
        moment = max(range(len(calls)), key=lambda n: (alive(rest, n), n), default=0)
        most = alive(rest, moment)
        found = [
            (b.size, n, b, out)
            for n, b in enumerate(rest)
            for out in outputs
            if b.first <= moment <= b.last and id(b) not in states and may(b, out)
        ]
        if not found:
            break
        *_, b, out = max(found, key=lambda each: each[:2])
        hosts[id(out)].append(b)
    if most < before:
        for out in outputs:
            for b in hosts[id(out)]:
                out.members = b.members + out.members
                for member in b.members:
                    buffers[member] = out


def _bytes(root: Value) -> int:
    return most_elements(root.shape) * dtypes.size(root.dtype)


def _alike(a: Storage, b: Storage) -> bool:
    return a.strides == b.strides and a.origin == b.origin == 0


def _in_place(call: Call, read: _Buffer, written: _Buffer, views: Views, buffers: dict[Value, _Buffer]) -> bool:
    """Whether a call reads one buffer only where it writes the same element of the other."""
    if len(call.outputs) != 1 or buffers[views.storage(call.outputs[0]).root] is not written:
        return False
    target = views.storage(call.outputs[0])
    reading = [k for k, v in enumerate(call.inputs) if buffers[views.storage(v).root] is read]
    return bool(reading) and all(k in call.in_place and _alike(views.storage(call.inputs[k]), target) for k in reading)


def _share(calls: Sequence[Call], views: Views, buffers: dict[Value, _Buffer]) -> None:
    """Joins buffers of outputs with those of inputs that die where they are read for the same element."""
    for n, call in enumerate(calls):
        if len(call.outputs) != 1:
            continue
        target = views.storage(call.outputs[0])
        into = buffers[target.root]
        if into.fixed or into.first != n:
            continue
        for position in call.in_place:
            source = views.storage(call.inputs[position])
            buffer = buffers[source.root]
            if buffer.fixed or buffer is into or buffer.last != n or buffer.size != into.size:
                continue
            if not _alike(source, target):
                continue
            others = [
                v for i, v in enumerate(call.inputs) if i != position and buffers[views.storage(v).root] is buffer
            ]
            if others:
                continue
            into.take(buffer)
            for member in buffer.members:
                buffers[member] = into
            break
