"""The static memory plan: an offset in one arena for every buffer.

Buffers whose lives overlap do not overlap in memory; large buffers are placed first, each at the lowest offset that
fits (greedy by size: Pisarchyk and Lee, Efficient Memory Management for Deep Neural Net Inference, 2020). Where a
kernel reads an input only at the element it writes, the output takes the memory of an input that dies there.

One plan covers all regions. A life is a range of calls; what enters or leaves a loop lives as long as the loop. What a
loop carries has one place. The value for the next iteration is made right there, and its copy goes, where nothing reads
the present one any more once the new one is begun (the classical coalescing of copies: Chaitin, Register allocation and
spilling via graph coloring, 1982).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np

from sterna.ir import dtypes
from sterna.ir.graph import Graph, Value
from sterna.passes.kernels import Call
from sterna.passes.linearize import Choice, Control, Repeat
from sterna.passes.views import Storage, Views
from sterna.te.layout import most_elements

#: Bytes: of every buffer's offset, and of the address of the arena itself. Kernels load and store by their elements; a
#: vector that crosses no cache line is what 64 buys, and the kernel ABI promises it of weights and scratch.
ALIGNMENT = 64


@dataclass(frozen=True)
class MemoryPlan:
    """Offsets by root value.

    Args:
        offsets: bytes from the start of the arena, of every value that owns a buffer there.
        arena_bytes: size of the arena; live_bytes: the most that is alive at one time, which no plan can undercut.
        fleeting: values whose memory later nodes take before a run ends, or that only some runs compute.
        moved: values that are made in the memory of an output of the graph.
    """

    offsets: dict[Value, int]
    arena_bytes: int
    live_bytes: int
    fleeting: frozenset[Value]
    moved: dict[Value, Value] = field(default_factory=dict)

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
        places = [self.owner(views.storage(value).root) for value in (call.inputs[0], call.outputs[0])]
        return self.offsets.get(places[0], places[0]) == self.offsets.get(places[1], places[1])


@dataclass(eq=False)
class _Buffer:
    size: int
    first: int
    last: int
    members: list[Value]
    touched: set[int]
    fixed: bool = False
    offset: int = -1

    def take(self, other: _Buffer) -> None:
        """Becomes the buffer of another's members too, which it holds before its own."""
        self.first, self.last = min(self.first, other.first), max(self.last, other.last)
        self.members = other.members + self.members
        self.touched |= other.touched


def plan_memory(
    graph: Graph, calls: Sequence[Call], views: Views, keep_all: bool = False, control: Sequence[Control] = ()
) -> MemoryPlan:
    """Places every intermediate buffer.

    Args:
        keep_all: no memory is reused, so that every intermediate tensor can be looked at after a run.
        control: of the calls (`passes.linearize`).
    """
    buffers = _lives(graph, calls, views, control)
    if keep_all:
        for b in buffers.values():
            b.first, b.last = 0, len(calls)
    else:
        _coalesce(calls, views, buffers)
        _share(calls, views, buffers)
    every = list({id(b): b for b in buffers.values()}.values())
    unique = [b for b in every if not b.fixed]
    live = _most_alive(unique, len(calls))
    placed = _Placed(len(unique))
    for buffer in sorted(unique, key=lambda b: (-b.size, b.first)):
        buffer.offset = placed.add(buffer)
    arena = max((b.offset + b.size for b in unique), default=0)
    offsets = {v: b.offset for b in unique for v in b.members}
    moved = {v: b.members[-1] for b in every if b.fixed for v in b.members[:-1]}
    fleeting = frozenset() if keep_all else _fleeting(unique) | _sometimes(unique, control)
    return MemoryPlan(offsets, arena, live, fleeting, moved)


def _most_alive(buffers: Sequence[_Buffer], calls: int) -> int:
    """The most bytes that are needed at one call."""
    changes = [0] * (calls + 2)
    for b in buffers:
        changes[b.first] += b.size
        changes[b.last + 1] -= b.size
    return max(accumulate(changes[: max(calls, 1)]), default=0)


class _Placed:
    """The buffers that have their places, in the order of their offsets; for each its place and its life."""

    def __init__(self, most: int):
        self.rows = np.empty((4, most), np.int64)  # start, end, first, last
        self.count = 0

    def add(self, buffer: _Buffer) -> int:
        """Places a buffer at the lowest offset where nothing lies while it lives."""
        start, end, first, last = self.rows[:, : self.count]
        meets = np.flatnonzero((first <= buffer.last) & (buffer.first <= last))
        free = np.concatenate([np.zeros(1, np.int64), np.maximum.accumulate(end[meets])])  # before each, and at the end
        gaps = np.flatnonzero(start[meets] - free[:-1] >= buffer.size)
        offset = int(free[gaps[0]] if gaps.size else free[-1])
        at = int(np.searchsorted(start, offset))
        self.rows[:, at + 1 : self.count + 1] = self.rows[:, at : self.count].copy()
        self.rows[:, at] = offset, offset + buffer.size, buffer.first, buffer.last
        self.count += 1
        return offset


def _lives(graph: Graph, calls: Sequence[Call], views: Views, control: Sequence[Control]) -> dict[Value, _Buffer]:
    """The buffer of every root with the range of calls in which it is needed."""
    fixed = {views.storage(v).root for v in (*graph.arguments, *graph.results)}
    buffers: dict[Value, _Buffer] = {}

    def touch(value: Value, position: int) -> None:
        root = views.storage(value).root
        if root not in buffers:
            buffers[root] = _Buffer(_size(root), position, position, [root], set(), root in fixed)
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
    for value in graph.live_in:
        # What one run leaves to the next is nobody else's, before its first reader and behind its last.
        state = buffers.setdefault(value, _Buffer(_size(value), 0, 0, [value], set()))
        state.first, state.last = 0, len(calls)
    return buffers


def _size(root: Value) -> int:
    """Bytes of a buffer."""
    return -(-most_elements(root.shape) * dtypes.size(root.dtype) // ALIGNMENT) * ALIGNMENT


def _fleeting(buffers: Sequence[_Buffer]) -> frozenset[Value]:
    """All but the last owner of shared memory, and those whose memory a later buffer overlaps."""
    lost: set[Value] = set()
    first = np.array([b.first for b in buffers], np.int64)
    start = np.array([b.offset for b in buffers], np.int64)
    end = start + np.array([b.size for b in buffers], np.int64)
    for b in buffers:
        lost.update(b.members[:-1])
        # What begins behind the buffer's life is another one.
        if ((first > b.last) & (start < b.offset + b.size) & (b.offset < end)).any():
            lost.update(b.members)
    return frozenset(lost)


def _sometimes(buffers: Sequence[_Buffer], control: Sequence[Control]) -> frozenset[Value]:
    """Values that live within a region, which may not run."""
    return frozenset(
        v for b in buffers for v in b.members if any(c.first <= b.first and b.last < c.last for c in control)
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
