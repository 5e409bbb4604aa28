"""What a kernel of groups of threads moves between memory and a cache that all groups share.

Groups run in the order of their tasks. Every sector that a group touches is noted once; between two groups that touch
the same sector, others touch theirs, and a cache that forgets what was not used for longest has kept the sector if
that is no more than it holds. How much the groups of a span touch is taken as the mean over all spans of that length,
the footprint (X. Xiang et al., HOTL: A Higher Order Theory of Locality, ASPLOS 2013). Nothing is sampled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod

import numpy as np

from sterna.ir import dtypes
from sterna.ir.integer import Atom, Int
from sterna.ir.memory import PARAM, SECTOR
from sterna.loops import program as P
from sterna.loops.thread_positions import Array, ThreadPositions, Where, is_far, touches
from sterna.te import expr as E

#: Positions that are looked at together, and pairs of a group and a sector that are noted together.
_TOGETHER, _NOTED = 1 << 21, 1 << 26
#: Positions of a kernel from which on nothing is counted: of programs in which few threads do long work.
_MOST = 1 << 31


@dataclass(frozen=True)
class Cached:
    """Bytes of whole sectors, by buffer.

    Args:
        once: what is touched at all; again: what moves once more because the cache has not kept it.
    """

    once: Mapping[P.Buffer, int]
    again: Mapping[P.Buffer, int]


def behind_cache(function: P.Function, cache_bytes: int, subgroup: int) -> Cached | None:
    """What a run of a kernel moves behind a cache of so many bytes; open sizes are taken at their greatest.

    Args:
        subgroup: threads of a group where each runs a task of its own.

    Returns:
        None where that would take too long to count.
    """
    walk = _Walk(function, subgroup)
    walk.visit(function.body, ())
    found = [_Access(walk, *each) for each in walk.found]
    if sum(access.positions for access in found) > _MOST:
        return None
    seen = _Seen({access.buffer: access.sectors for access in found}, walk.groups)
    step = max(1, _NOTED // max(1, seen.total))
    for first in range(0, walk.groups, step):
        groups = np.arange(first, min(walk.groups, first + step))
        seen.note(first, [(access.buffer, access.touched(groups)) for access in found], len(groups))
    return seen.behind(cache_bytes)


# ---------------------------------------------------------------- which sectors groups touch
#: What surrounds a statement, outermost first: loops, names, and sides of choices (True: where the condition holds).
_Path = tuple[P.For | P.LetIndex | P.Let | P.LastTask | tuple[P.If | P.Branch, bool], ...]


class _Walk(ThreadPositions):
    """The accesses of a loop program to the device's memory, and what surrounds each."""

    def __init__(self, function: P.Function, subgroup: int):
        super().__init__(function, subgroup)
        self.found: list[tuple[_Path, P.Buffer, Int, Array]] = []

    def visit(self, stmt: P.Stmt, path: _Path) -> None:
        if isinstance(stmt, P.Seq):
            for each in stmt.stmts:
                self.visit(each, path)
                if isinstance(each, (P.LetIndex, P.Let)):
                    path = (*path, each)
            return
        self.found += [(path, b, index, offsets) for b, index, offsets, _ in touches(stmt) if is_far(b)]
        if isinstance(stmt, (P.For, P.LastTask)):
            self.visit(stmt.body, (*path, stmt))
        elif isinstance(stmt, (P.If, P.Branch)):
            self.visit(stmt.then, (*path, (stmt, True)))
            if stmt.otherwise is not None:
                self.visit(stmt.otherwise, (*path, (stmt, False)))
        else:
            for inner in stmt.inside():
                self.visit(inner, path)


class _Access:
    """One access, by groups: of all loops around it those that its position, or whether it happens, depends on.

    Positions are arrays of (group, an axis for each such loop, thread).
    """

    def __init__(self, walk: _Walk, path: _Path, buffer: P.Buffer, index: Int, offsets: Array):
        self.walk, self.buffer, self.index = walk, buffer, index
        needed, kept = _names(index), []
        for entry in reversed(path):
            if isinstance(entry, P.For):
                if entry.symbol not in needed and entry.kind != "parallel":
                    continue
                needed |= _names(entry.start) | _names(entry.extent)
            elif isinstance(entry, P.LetIndex):
                if entry.symbol not in needed:
                    continue
                needed |= _names(entry.value)
            elif isinstance(entry, P.LastTask):
                needed |= _names(entry.index)
            elif isinstance(entry, P.Let):
                if entry.variable not in needed:
                    continue
                needed |= _named(entry.value)
            elif isinstance(entry[0], P.If):
                needed |= _names(entry[0].index) | _names(entry[0].limit)
            else:
                needed |= _named(entry[0].condition)
            kept.append(entry)
        self.path = kept[::-1]
        self.loops = [e for e in self.path if isinstance(e, P.For) and e.kind != "parallel" and e.kind not in P.THREADS]
        self.trips = [max(0, P.most(loop.extent - loop.start)) for loop in self.loops]
        self.at_once = prod(self.trips) * walk.threads * len(offsets)
        self.positions = self.at_once * walk.groups
        size = dtypes.size(buffer.dtype)
        self.origin = buffer.slot if buffer.scope is PARAM else 0
        self.sectors = -(-(self.origin % SECTOR + size * max(1, buffer.elements)) // SECTOR)
        self.offsets = offsets

    def touched(self, groups: Array) -> Iterator[tuple[Array, Array]]:
        """The groups and the sectors that they touch, some at a time, in any order and repeatedly."""
        pieces: list[Sequence[Array]] = []
        left = self.at_once
        each = max(1, _TOGETHER // max(1, left))
        pieces.append([groups[n : n + each] for n in range(0, len(groups), each)])
        for trips in self.trips:
            left //= max(1, trips)
            each = max(1, _TOGETHER // max(1, left))
            pieces.append([np.arange(n, min(trips, n + each)) for n in range(0, trips, each)])
        for chosen in product(*pieces):
            yield self._some(chosen[0], chosen[1:])

    def _some(self, groups: Array, trips: Sequence[Array]) -> tuple[Array, Array]:
        axes = len(trips) + 2
        walk = self.walk
        along = {loop: _on(axes, 1 + n, place) for n, (loop, place) in enumerate(zip(self.loops, trips, strict=True))}
        where = Where(
            {symbol: np.asarray(symbol.hi) for symbol, _ in walk.function.dims}, {}, np.asarray(True), np.asarray(1)
        )
        active = np.asarray(True)
        for entry in self.path:
            if isinstance(entry, P.For):
                start, extent = walk.position(entry.start, where), walk.position(entry.extent, where)
                if entry.kind in P.THREADS:
                    place = start + _on(axes, axes - 1, walk.number[entry.kind])
                elif entry.kind == "parallel":
                    place = start + _on(axes, 0, groups)
                    if not walk.grouped:
                        place = (
                            start + _on(axes, 0, groups) * walk.threads + _on(axes, axes - 1, np.arange(walk.threads))
                        )
                else:
                    place = start + along[entry]
                where.symbols[entry.symbol] = place
                active = active & (place < extent)
            elif isinstance(entry, P.LetIndex):
                where.symbols[entry.symbol] = walk.position(entry.value, where)
            elif isinstance(entry, P.LastTask):
                # Tasks come in their order: of those of an index the last one in that.
                where.symbols[entry.symbol] = walk.position(entry.index, where)
                active = active & (_on(axes, 0, groups) >= walk.groups - walk.groups // entry.count)
            elif isinstance(entry, P.Let):
                where.values[entry.variable] = walk.value(entry.value, where)
            else:
                choice, side = entry
                if isinstance(choice, P.If):
                    holds = walk.position(choice.index, where) < walk.position(choice.limit, where)
                else:
                    known = walk.value(choice.condition, where)
                    # Where data decide, both sides count.
                    holds = np.asarray(side) if known is None else known.astype(bool)
                active = active & (holds == side)
        at = walk.position(self.index, where)
        first = np.broadcast_to(at, np.broadcast_shapes(at.shape, active.shape, _on(axes, 0, groups).shape))
        chosen = np.broadcast_to(active, first.shape)
        of_group = np.broadcast_to(_on(axes, 0, groups), first.shape)[chosen]
        size = dtypes.size(self.buffer.dtype)
        begin = self.origin % SECTOR
        elements = first[chosen][:, None] + self.offsets
        return np.repeat(of_group, len(self.offsets)), ((elements * size + begin) // SECTOR).reshape(-1)


def _on(axes: int, axis: int, values: Array) -> Array:
    """Values along one of so many axes."""
    return values.reshape([-1 if n == axis else 1 for n in range(axes)])


def _names(index: Int) -> set[Atom | P.Variable]:
    """The loops, names and variables that a position depends on."""
    found: set[Atom | P.Variable] = {*index.symbols()}
    for value in index.expressions():
        found |= _named(value)
    return found


def _named(value: E.Expr) -> set[Atom | P.Variable]:
    found: set[Atom | P.Variable] = set()
    for node in E.walk(value):
        if isinstance(node, P.Read):
            found.add(node.variable)
        for index in E.positions(node):
            found |= _names(index)
    return found


# ---------------------------------------------------------------- what a cache has kept of them
@dataclass
class _Seen:
    """The groups that touched each sector.

    Args:
        sectors: by buffer; groups: how many there are.
    """

    sectors: Mapping[P.Buffer, int]
    groups: int
    starts: dict[P.Buffer, int] = field(init=False)
    #: Of every sector the last group that touched it, -1 before.
    last: Array = field(init=False)
    #: Of every buffer, how often so many other groups ran between two that touch the same sector.
    between: dict[P.Buffer, Counter[int]] = field(init=False)
    #: How often so many groups ran before the first, or after the last, that touches a sector.
    around: Counter[int] = field(init=False)

    def __post_init__(self) -> None:
        ends = np.cumsum([0, *self.sectors.values()])
        self.starts = {buffer: int(start) for buffer, start in zip(self.sectors, ends, strict=False)}
        self.total = int(ends[-1])
        self.last = np.full(self.total, -1)
        self.between = {buffer: Counter() for buffer in self.sectors}
        self.around = Counter()

    def note(self, first: int, accesses: Sequence[tuple[P.Buffer, Iterator[tuple[Array, Array]]]], groups: int) -> None:
        """Notes what the next groups touch."""
        touched = np.zeros((groups, self.total), bool)
        for buffer, found in accesses:
            start = self.starts[buffer]
            for group, sector in found:
                touched[group - first, start + sector] = True
        for n in range(groups):
            (own,) = np.nonzero(touched[n])
            before = self.last[own]
            self.around.update(before[before < 0] + first + n + 1)
            again = own[before >= 0]
            gaps = first + n - 1 - self.last[again]
            for buffer, start in self.starts.items():
                low, high = np.searchsorted(again, (start, start + self.sectors[buffer]))
                values, counts = np.unique(gaps[low:high], return_counts=True)
                self.between[buffer].update(dict(zip(values.tolist(), counts.tolist(), strict=True)))
            self.last[own] = first + n

    def behind(self, cache_bytes: int) -> Cached:
        """What moves behind a cache of so many bytes. Of the two groups that touch a sector, the first touches others
        after it, and the second before it: together as much as one group."""
        touched = {b: int((self.last[s : s + self.sectors[b]] >= 0).sum()) for b, s in self.starts.items()}
        reach = self._reach(sum(touched.values()), cache_bytes // SECTOR)
        again = {b: sum(n for gap, n in gaps.items() if gap + 1 >= reach) for b, gaps in self.between.items()}
        return Cached({b: n * SECTOR for b, n in touched.items()}, {b: n * SECTOR for b, n in again.items()})

    def _reach(self, distinct: int, room: int) -> int:
        """The fewest groups that touch more sectors than there is room for, in the mean; one more than there are where
        all of them do not."""
        around = Counter(self.around)
        around.update(self.groups - 1 - self.last[self.last >= 0])
        for gaps in self.between.values():
            around.update(gaps)
        gap = np.array(sorted(around), np.int64)
        times = np.array([around[n] for n in gap.tolist()], np.int64)
        low, high = 1, self.groups + 1
        while low < high:
            span = (low + high) // 2
            without = (
                (times * np.maximum(0, gap - span + 1)).sum() / (self.groups - span + 1) if span <= self.groups else 0
            )
            if distinct - without > room:
                high = span
            else:
                low = span + 1
        return low
