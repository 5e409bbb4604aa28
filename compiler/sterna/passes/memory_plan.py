"""The static memory plan: an offset in one arena for every buffer.

Buffers whose lives overlap do not overlap in memory; large buffers are placed first, each at the lowest offset that
fits (greedy by size: Pisarchyk and Lee, Efficient Memory Management for Deep Neural Net Inference, 2020). Where a
kernel reads an input only at the element it writes, the output takes the memory of an input that dies there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sterna.ir import dtypes
from sterna.ir.graph import Graph, Value
from sterna.passes.kernels import Call
from sterna.passes.views import Views
from sterna.te.layout import most_elements

ALIGNMENT = 64


@dataclass(frozen=True)
class MemoryPlan:
    """Offsets by root value.

    Args:
        offsets: bytes from the start of the arena, of every value that owns a buffer there.
        arena_bytes: size of the arena; live_bytes: the most that is alive at one time, which no plan can undercut.
        fleeting: values whose memory later nodes take before a run ends.
    """

    offsets: dict[Value, int]
    arena_bytes: int
    live_bytes: int
    fleeting: frozenset[Value]

    def survives(self, root: Value) -> bool:
        """Whether a buffer still holds its value after a run."""
        return root not in self.fleeting


@dataclass
class _Buffer:
    size: int
    first: int
    last: int
    members: list[Value]
    offset: int = -1


def plan_memory(graph: Graph, calls: Sequence[Call], views: Views, keep_all: bool = False) -> MemoryPlan:
    """Places every intermediate buffer.

    Args:
        keep_all: no memory is reused, so that every intermediate tensor can be looked at after a run.
    """
    fixed = {views.storage(v).root for v in (*graph.inputs, *graph.outputs)}
    buffers: dict[Value, _Buffer] = {}
    for n, call in enumerate(calls):
        for value in (*call.outputs, *call.inputs):
            root = views.storage(value).root
            if root in fixed:
                continue
            buffer = buffers.get(root)
            if buffer is None:
                size = -(-most_elements(root.shape) * dtypes.size(root.dtype) // ALIGNMENT) * ALIGNMENT
                buffers[root] = _Buffer(size, n, n, [root])
            else:
                buffer.last = n
    if keep_all:
        for b in buffers.values():
            b.first, b.last = 0, len(calls)
    else:
        _share(calls, views, buffers)
    placed: list[_Buffer] = []
    unique = list({id(b): b for b in buffers.values()}.values())
    live = max((sum(b.size for b in unique if b.first <= n <= b.last) for n in range(len(calls))), default=0)
    for buffer in sorted(unique, key=lambda b: (-b.size, b.first)):
        taken = sorted(
            (b.offset, b.offset + b.size) for b in placed if b.first <= buffer.last and buffer.first <= b.last
        )
        offset = 0
        for start, end in taken:
            if start - offset >= buffer.size:
                break
            offset = max(offset, end)
        buffer.offset = offset
        placed.append(buffer)
    arena = max((b.offset + b.size for b in placed), default=0)
    return MemoryPlan({v: b.offset for b in unique for v in b.members}, arena, live, _fleeting(unique))


def _fleeting(buffers: Sequence[_Buffer]) -> frozenset[Value]:
    """All but the last owner of shared memory, and those whose memory a later buffer overlaps."""
    lost: set[Value] = set()
    for b in buffers:
        lost.update(b.members[:-1])
        if any(
            o is not b and o.first > b.last and o.offset < b.offset + b.size and b.offset < o.offset + o.size
            for o in buffers
        ):
            lost.update(b.members)
    return frozenset(lost)


def _share(calls: Sequence[Call], views: Views, buffers: dict[Value, _Buffer]) -> None:
    """Joins buffers of outputs with those of inputs that die where they are read for the same element."""
    for n, call in enumerate(calls):
        if len(call.outputs) != 1:
            continue
        target = views.storage(call.outputs[0])
        into = buffers.get(target.root)
        if into is None or into.first != n or target.origin != 0:
            continue
        for position in call.in_place:
            source = views.storage(call.inputs[position])
            buffer = buffers.get(source.root)
            if buffer is None or buffer is into or buffer.last != n or buffer.size != into.size:
                continue
            if source.strides != target.strides or source.origin != target.origin != 0:
                continue
            others = [
                v for i, v in enumerate(call.inputs) if i != position and buffers.get(views.storage(v).root) is buffer
            ]
            if others:
                continue
            buffer.last = into.last
            for member in into.members:
                buffers[member] = buffer
            buffer.members += into.members
            break
