"""Where the buffers of a memory plan lie: a pool in every memory of the target that tensors may live in.

What is touched most per byte comes first, into the fastest memory that has room for it. That what is touched most as
a whole comes first, or the largest, is tried too, and what waits for the memories least is kept; where not all fit so,
the largest go into the slowest memory. A target without such memories has one pool of any size, the arena.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np

from sterna.errors import SternaError, error
from sterna.ir.graph import Value
from sterna.ir.memory import Memory
from sterna_runtime.abi import ALIGNMENT, aligned


@dataclass(frozen=True)
class Life:
    """A buffer, and the calls from the first to the last in which it is needed.

    Args:
        members: the values that lie there one after the other; scratch has none.
        touches: how often a word of it is read or written in a run; before kernels are lowered, how many calls do.
    """

    members: tuple[Value, ...]
    size: int
    first: int
    last: int
    touches: float

    @property
    def traffic(self) -> float:
        """Bytes that are read and written in a run."""
        return self.touches * self.size


@dataclass(frozen=True)
class Pool:
    """A block of memory that buffers lie in.

    Args:
        memory: of the target; None where there is one arena of any size.
        bytes: from its start to the end of the last buffer.
        least: alignment of its buffers, if the memory does not ask for more.
    """

    memory: Memory | None
    bytes: int
    least: int = ALIGNMENT

    @property
    def name(self) -> str:
        return "arena" if self.memory is None else self.memory.name

    @property
    def alignment(self) -> int:
        """Of its address."""
        return self.least if self.memory is None else max(self.least, self.memory.alignment)


#: Orders in which the buffers of an arena are tried beside the first, at most; and how many placements those may be.
_ORDERS, _PLACEMENTS = 64, 4096
#: (index of the pool, offset there in bytes).
Place = tuple[int, int]


def lay_out(
    lives: Sequence[Life], memories: Sequence[Memory], alignment: int = ALIGNMENT
) -> tuple[list[Place], tuple[Pool, ...]]:
    """A place for every buffer, and the pools that are used, fastest first; at least one.

    Raises:
        SternaError: E0206, the memories are too small.
    """
    if not memories:
        return _used(lives, _tightest(lives, alignment), [None], alignment)
    fastest = sorted(memories, key=lambda m: -m.bytes_per_cycle)
    ways: list[Callable[[Life], tuple[float, ...]]] = [_by_size]
    if len(memories) > 1:
        ways = [_by_touches, _by_traffic, _by_size]
    found = [places for order in ways if (places := _in_memories(lives, fastest, alignment, order)) is not None]
    if not found and len(memories) > 1:
        places = _in_memories(lives, fastest[::-1], alignment, _by_size)
        found = [] if places is None else [[(len(fastest) - 1 - pool, offset) for pool, offset in places]]
    if not found:
        raise _too_small(lives, fastest, alignment)
    return _used(lives, min(found, key=lambda places: _waiting(lives, places, fastest)), fastest, alignment)


def _in_memories(
    lives: Sequence[Life], memories: Sequence[Memory], alignment: int, key: Callable[[Life], tuple[float, ...]]
) -> list[Place] | None:
    """Places in an order, and while something finds no room, in that with it first."""
    order = _sorted(lives, key)
    tried: set[tuple[int, ...]] = set()
    for _ in range(1 + min(_ORDERS, _PLACEMENTS // max(1, len(lives)))):
        tried.add(tuple(order))
        found = _placed(lives, [_Room(len(lives), memory, alignment) for memory in memories], order)
        if not isinstance(found, int):
            return found
        order = [found, *(n for n in order if n != found)]
        if tuple(order) in tried:
            break
    return None


def _waiting(lives: Sequence[Life], places: Sequence[Place], memories: Sequence[Memory]) -> float:
    """Cycles in which the memories move what a run reads and writes."""
    return sum(life.traffic / memories[pool].bytes_per_cycle for life, (pool, _) in zip(lives, places, strict=True))


def _tightest(lives: Sequence[Life], alignment: int) -> list[Place]:
    """The places in one arena of any size: the largest first, and while that is above what is alive at one time, also
    in other orders, of which the least arena is kept.

    A large buffer that is placed early may stand between two that meet it: the one with which the arena ends goes first
    in the next order.
    """
    least = most_alive(lives, max((life.last for life in lives), default=0) + 1)
    order = _sorted(lives, _by_size)
    best: tuple[int, list[Place]] | None = None
    tried: set[tuple[int, ...]] = set()
    for _ in range(1 + min(_ORDERS, _PLACEMENTS // max(1, len(lives)))):
        places = _placed(lives, [_Room(len(lives), None, alignment)], order)
        assert not isinstance(places, int)  # there is no end to the room
        ends = [offset + life.size for life, (_, offset) in zip(lives, places, strict=True)]
        end = max(ends, default=0)
        if best is None or end < best[0]:
            best = end, places
        if end <= least:
            break
        tried.add(tuple(order))
        last = max(range(len(lives)), key=ends.__getitem__)
        order = [last, *(n for n in order if n != last)]
        if tuple(order) in tried:
            break
    assert best is not None
    return best[1]


def most_alive(lives: Sequence[Life], calls: int) -> int:
    """The most bytes that are needed at one call."""
    changes = [0] * (calls + 2)
    for life in lives:
        changes[life.first] += life.size
        changes[life.last + 1] -= life.size
    return max(accumulate(changes[: max(calls, 1)]), default=0)


def _sorted(lives: Sequence[Life], key: Callable[[Life], tuple[float, ...]]) -> list[int]:
    return sorted(range(len(lives)), key=lambda n: key(lives[n]))


def _by_size(life: Life) -> tuple[float, ...]:
    return -life.size, life.first


def _by_touches(life: Life) -> tuple[float, ...]:
    return -life.touches, -life.size, life.first


def _by_traffic(life: Life) -> tuple[float, ...]:
    return -life.traffic, -life.size, life.first


class _Room:
    """The buffers that have their places in one memory, in the order of their offsets; for each its place and its
    life."""

    def __init__(self, most: int, memory: Memory | None, alignment: int):
        self.rows = np.empty((4, most), np.int64)  # start, end, first, last
        self.count = 0
        self.limit = None if memory is None else memory.bytes
        self.unit = Pool(memory, 0, alignment).alignment

    def add(self, life: Life) -> int | None:
        """Places a buffer at the lowest offset where nothing lies while it lives; None where there is no room."""
        size = -(-life.size // self.unit) * self.unit
        start, end, first, last = self.rows[:, : self.count]
        meets = np.flatnonzero((first <= life.last) & (life.first <= last))
        free = np.concatenate([np.zeros(1, np.int64), np.maximum.accumulate(end[meets])])  # before each, and at the end
        gaps = np.flatnonzero(start[meets] - free[:-1] >= size)
        offset = int(free[gaps[0]] if gaps.size else free[-1])
        if self.limit is not None and offset + life.size > self.limit:
            return None
        at = int(np.searchsorted(start, offset))
        self.rows[:, at + 1 : self.count + 1] = self.rows[:, at : self.count].copy()
        self.rows[:, at] = offset, offset + size, life.first, life.last
        self.count += 1
        return offset


def _placed(lives: Sequence[Life], rooms: Sequence[_Room], order: Iterable[int]) -> list[Place] | int:
    """Each buffer, in an order, in the first room that has a place for it; the number of the one that finds none."""
    places: list[Place] = [(0, 0)] * len(lives)
    for n in order:
        found = next(_fitting(lives[n], rooms), None)
        if found is None:
            return n
        places[n] = found
    return places


def _fitting(life: Life, rooms: Sequence[_Room]) -> Iterator[Place]:
    for pool, room in enumerate(rooms):
        offset = room.add(life)
        if offset is not None:
            yield pool, offset


def _used(
    lives: Sequence[Life], places: Sequence[Place], memories: Sequence[Memory | None], alignment: int
) -> tuple[list[Place], tuple[Pool, ...]]:
    ends = [0] * len(memories)
    for life, (pool, offset) in zip(lives, places, strict=True):
        ends[pool] = max(ends[pool], offset + life.size)
    kept = [n for n, end in enumerate(ends) if end] or [0]
    number = {pool: n for n, pool in enumerate(kept)}
    moved = [(number.get(pool, 0), offset) for pool, offset in places]
    return moved, tuple(Pool(memories[n], ends[n], alignment) for n in kept)


def _too_small(lives: Sequence[Life], fastest: Sequence[Memory], alignment: int) -> SternaError:
    """What is there, what is needed, and what it would take of the largest memory."""
    largest = max(fastest, key=lambda m: m.bytes)
    # What finds no room in the others goes there, however large it is.
    others = [m for m in fastest if m is not largest]
    tried = [*others, replace(largest, bytes=sum(aligned(life.size, alignment) + largest.alignment for life in lives))]
    places = _placed(lives, [_Room(len(lives), memory, alignment) for memory in tried], _sorted(lives, _by_size))
    assert not isinstance(places, int)
    needed = max(offset + life.size for life, (pool, offset) in zip(lives, places, strict=True) if pool == len(others))
    have = " and ".join(f"{m.name} ({m.bytes} bytes)" for m in fastest)
    calls = max(life.last for life in lives) + 1
    return error(
        "E0206",
        f"what lies between kernels does not fit into {have}",
        f"at one time {most_alive(lives, calls)} bytes are needed, beside inputs, outputs and weights",
        f"{largest.name} would have to have {needed} bytes, {needed - largest.bytes} more",
        fix="a board with more memory, smaller inputs, a smaller model or one with narrower types",
    )
