"""What a kernel of groups of threads asks of memory, counted from its loop program.

The threads of a subgroup access memory together: each access takes as many sectors of the device's memory as its
addresses touch, and in shared memory as many turns as words of one bank are wanted. Every statement is looked at for
all threads of a task at once, and for `PLACES` samples of what surrounds it, spread evenly over every loop and over the
tasks; counts are exact where all iterations do the same. Where data decide, the side of a choice that moves more
counts, and positions are spread over what they may be.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from sterna.intrinsics import Intrinsic
from sterna.ir import dtypes
from sterna.ir.integer import Atom, Int
from sterna.ir.memory import BANKS, INPUT, OUTPUT, PARAM, SECTOR
from sterna.loops import program as P
from sterna.loops.cached import Cached, behind_cache
from sterna.loops.thread_positions import Access, ThreadPositions, Where, is_far, is_shared, touches
from sterna.loops.wide import Widths
from sterna.te import expr as E
from sterna.te.layout import most_elements

Array = np.ndarray[Any, Any]
#: Bytes of the words of a bank.
WORD = 4
#: Threads that access memory together, where the target does not say.
SUBGROUP = 32
#: Bytes of the cache that all groups share, where the target does not say.
CACHE_BYTES = 1 << 20
#: Bytes from which on an access is a wide one.
_WIDE = 8
#: Of a generator that has the accesses of all threads as wide as their places allow.
_WIDEST = Widths(16, 0, 16, 16)
#: Samples of the loops and tasks around a statement.
PLACES = 32
#: Bytes of shared memory that are accessed in a turn.
_TURN = BANKS * WORD


@dataclass(frozen=True)
class Accesses:
    """What a run of a kernel asks of memory.

    Args:
        groups, threads: how many groups of threads run it, and how many threads are in each.
        shared_bytes: of shared memory, per group.
        requested: bytes of the sectors that all accesses to the device's memory touch, by buffer.
        least: bytes of the elements that the kernel reads or writes at all, by buffer; moved: what comes from and goes
            to memory behind a cache that all groups share (`loops.cached`).
        accesses: of subgroups to the device's memory; coalesced: those whose elements are neighbours, or lie in as few
            sectors as hold so many bytes.
        shared_accesses: of subgroups to shared memory; conflicts: further turns that they take because different words
            of one bank are wanted.
        fragments: multiply-adds by instructions over fragments of matrices; dots: by dot products of words of bytes.
        bytes: that threads read and write of the device's memory; wide_bytes: those by accesses of 8 bytes and more.
    """

    groups: int
    threads: int
    shared_bytes: int
    requested: Mapping[P.Buffer, float]
    least: Mapping[P.Buffer, float]
    moved: Mapping[P.Buffer, float]
    accesses: float
    coalesced: float
    shared_accesses: float
    conflicts: float
    fragments: float
    dots: float
    bytes: float
    wide_bytes: float

    @property
    def requested_bytes(self) -> float:
        return sum(self.requested.values())

    @property
    def least_bytes(self) -> float:
        return sum(self.least.values())

    @property
    def moved_bytes(self) -> float:
        return sum(self.moved.values())


def accesses(
    function: P.Function, subgroup: int = SUBGROUP, cache_bytes: int = CACHE_BYTES, widths: Widths = _WIDEST
) -> Accesses:
    """Counts a finished loop program; open sizes are taken at their greatest.

    Args:
        subgroup: threads that access memory together.
        cache_bytes: of the cache that all groups share.
        widths: of accesses, as the kernels' generator has them.
    """
    count = _Count(function, subgroup, widths)
    count.visit(function.body, count.start())
    total = count.total
    least, moved = _behind(total.requested, behind_cache(function, cache_bytes, subgroup))
    return Accesses(
        count.groups,
        count.threads,
        max((s.buffer.end for s in P.walk(function.body) if isinstance(s, P.Alloc) and is_shared(s.buffer)), default=0),
        dict(total.requested),
        least,
        moved,
        total.accesses,
        total.coalesced,
        total.shared_accesses,
        total.conflicts,
        total.fragments,
        total.dots,
        total.bytes,
        total.wide_bytes,
    )


def _behind(
    requested: Mapping[P.Buffer, float], cached: Cached | None
) -> tuple[dict[P.Buffer, float], dict[P.Buffer, float]]:
    """(least, moved) by buffer: of whole sectors only what there is of the tensor counts. What is not looked at closely
    moves whenever it is requested."""
    least, moved = {}, {}
    for buffer, asked in requested.items():
        once, behind = min(float(_bytes(buffer)), asked), asked
        if cached is not None:
            once = min(once, float(cached.once[buffer]))
            behind = once + cached.again[buffer]
        if buffer.scope in (INPUT, PARAM, OUTPUT):
            least[buffer] = once
        moved[buffer] = max(once, behind)
    return least, moved


def _bytes(buffer: P.Buffer) -> int:
    return most_elements(buffer.shape) * dtypes.size(buffer.dtype)


@dataclass
class _Total:
    requested: dict[P.Buffer, float]
    accesses: float = 0.0
    coalesced: float = 0.0
    shared_accesses: float = 0.0
    conflicts: float = 0.0
    fragments: float = 0.0
    dots: float = 0.0
    bytes: float = 0.0
    wide_bytes: float = 0.0

    def add(self, other: _Total) -> None:
        for buffer, count in other.requested.items():
            self.requested[buffer] = self.requested.get(buffer, 0.0) + count
        own = ("accesses", "coalesced", "shared_accesses", "conflicts", "fragments", "dots", "bytes", "wide_bytes")
        for name in own:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class _Count(ThreadPositions):
    """A walk over a loop program."""

    def __init__(self, function: P.Function, subgroup: int, widths: Widths):
        super().__init__(function, subgroup)
        self.widths = widths
        self.random = np.random.default_rng(0)
        self.total = _Total({})

    def start(self) -> Where:
        everywhere = np.ones((PLACES, self.threads), bool)
        dims: dict[Atom, Array] = {symbol: np.asarray(symbol.hi) for symbol, _ in self.function.dims}
        once = np.full((PLACES, 1), 1 / PLACES)
        return Where(dims, {}, everywhere, once if self._has_tasks() else once * self.groups)

    def _has_tasks(self) -> bool:
        return any(isinstance(s, P.For) and s.kind == "parallel" for s in P.walk(self.function.body))

    # -- statements
    def visit(self, stmt: P.Stmt, where: Where) -> None:
        if isinstance(stmt, P.Seq):
            inner = replace(where, symbols=dict(where.symbols), values=dict(where.values))
            for each in stmt.stmts:
                self.visit(each, inner)
            return
        self._own(stmt, where)
        if isinstance(stmt, P.LetIndex):
            where.symbols[stmt.symbol] = self.position(stmt.value, where)
        elif isinstance(stmt, (P.Let, P.Assign)):
            where.values[stmt.variable] = self.value(stmt.value, where) if isinstance(stmt, P.Let) else None
        elif isinstance(stmt, P.For):
            self.visit(stmt.body, self._iteration(stmt, where))
        elif isinstance(stmt, P.If):
            holds = self.position(stmt.index, where) < self.position(stmt.limit, where)
            self._sides(stmt, holds, where)
        elif isinstance(stmt, P.Branch):
            known = self.value(stmt.condition, where)
            if known is not None:
                self._sides(stmt, known.astype(bool), where)
            else:
                self._costlier(stmt, where)
        elif isinstance(stmt, P.LastTask):
            symbols = {**where.symbols, stmt.symbol: self.position(stmt.index, where)}
            self.visit(stmt.body, replace(where, symbols=symbols, times=where.times / stmt.count))
        elif isinstance(stmt, P.Tiles):
            self.visit(stmt.body, where)

    def _sides(self, stmt: P.If | P.Branch, holds: Array, where: Where) -> None:
        self.visit(stmt.then, replace(where, active=where.active & holds))
        if stmt.otherwise is not None:
            self.visit(stmt.otherwise, replace(where, active=where.active & ~holds))

    def _costlier(self, stmt: P.Branch, where: Where) -> None:
        """Counts the side that moves more."""
        outer, sides = self.total, []
        for side in stmt.inside():
            self.total = _Total({})
            self.visit(side, where)
            sides.append(self.total)
        self.total = outer
        self.total.add(max(sides, key=lambda side: sum(side.requested.values())))

    def _iteration(self, loop: P.For, where: Where) -> Where:
        """An iteration of a loop for each sample: for each thread its own, or any of those that all threads run."""
        start, extent = self.position(loop.start, where), self.position(loop.extent, where)
        symbols = dict(where.symbols)
        if loop.kind in P.THREADS:
            symbols[loop.symbol] = place = start + self.number[loop.kind]
            return replace(where, symbols=symbols, active=where.active & (place < extent))
        trips = np.broadcast_to(np.where(where.active, np.maximum(extent - start, 0), 0), where.active.shape)
        most = trips.max(axis=1, keepdims=True)
        strata = (self.random.permutation(PLACES)[:, None] + 0.5) / PLACES
        if loop.kind == "parallel" and not self.grouped:
            first = np.floor(strata * np.ceil(most / self.threads)) * self.threads
            place = start + first.astype(np.int64) + np.arange(self.threads)
            times = where.times * np.ceil(most / self.threads)
        else:
            place = start + np.floor(strata * most).astype(np.int64)
            times = where.times * most
        symbols[loop.symbol] = place
        return replace(where, symbols=symbols, active=where.active & (place < extent), times=times)

    def _own(self, stmt: P.Stmt, where: Where) -> None:
        """What a statement itself asks for."""
        for buffer, index, offsets, by in touches(stmt):
            many, wide = self._at_once(by, len(offsets)), self._is_wide(by)
            every = self.subgroup if P.is_collective(stmt) else 1
            for first in range(0, len(offsets), many):
                self._access(buffer, index, offsets[first : first + many], where, wide, every)
        for intrinsic in _applied(stmt):
            if intrinsic.tiles is not None:
                # All threads of a subgroup, or of a warpgroup, have a part of each fragment.
                groups = self._by_subgroup(where.active, False, intrinsic.tiles.threads)
                at_once = groups.any(axis=-1).sum(axis=1, keepdims=True)
                products = prod(int(a.extent) for a in intrinsic.axes)
                self.total.fragments += float((where.times * at_once).sum()) * products
            elif intrinsic.of_words:
                at_once = where.active.sum(axis=1, keepdims=True)
                self.total.dots += float((where.times * at_once).sum()) * intrinsic.elements * intrinsic.depth

    def _at_once(self, by: Access, many: int) -> int:
        """Of how many elements each of a thread's accesses is in what the generator writes."""
        if isinstance(by, P.Copy):
            return max(1, self.widths.copied_at_once(by) // dtypes.size(by.source.dtype))
        if isinstance(by, P.Instruction) or by.rows:
            return many
        return many if by.stride == 0 else self.widths.at_once(by)

    def _is_wide(self, by: Access) -> bool:
        """Whether a thread's accesses are wide ones in what the generator writes."""
        if isinstance(by, P.Copy):
            return self.widths.copied_at_once(by) >= _WIDE
        if isinstance(by, P.Instruction):
            return False
        dtype = by.dtype if isinstance(by, E.Load) else by.buffer.dtype
        return self.widths.at_once(by) * dtypes.size(dtype) >= _WIDE

    def _access(self, buffer: P.Buffer, index: Int, offsets: Array, where: Where, wide: bool, every: int = 1) -> None:
        """Counts an access to some elements, which so many threads make together."""
        if not (is_shared(buffer) or is_far(buffer)):
            return
        size = dtypes.size(buffer.dtype)
        first = np.broadcast_to(self.position(index, where), where.active.shape)
        # A slot is an offset into params or shared memory, elsewhere the number of a buffer, which is aligned.
        origin = buffer.slot if buffer.scope is PARAM or is_shared(buffer) else 0
        at = ((first[:, ::every, None] + offsets) * size + origin).astype(np.int64)
        active = np.broadcast_to(where.active[:, ::every, None], at.shape)
        width = self.subgroup // every
        if is_shared(buffer):
            width = max(1, min(width, _TURN // (size * len(offsets))))
        at, active = (self._by_subgroup(each, 0, width) for each in (at, active))
        any_active = active.any(axis=-1)
        times = where.times * any_active
        if is_shared(buffer):
            words = _distinct(at // WORD, active)
            turns = np.zeros(any_active.shape)
            for bank in range(BANKS):
                turns = np.maximum(turns, ((words % BANKS == bank) & (words >= 0)).sum(axis=-1))
            least = np.ceil((words >= 0).sum(axis=-1) / BANKS)
            self.total.shared_accesses += float(times.sum())
            self.total.conflicts += float((times * (turns - least)).sum())
            return
        elements = _distinct(at, active)
        wanted = (elements >= 0).sum(axis=-1) * size
        sectors = (_distinct(at // SECTOR, active) >= 0).sum(axis=-1)
        low, high = np.where(active, at, np.iinfo(np.int64).max).min(axis=-1), np.where(active, at, -1).max(axis=-1)
        together = (sectors <= np.ceil(wanted / SECTOR)) | (high - low + size == wanted)
        self.total.requested[buffer] = self.total.requested.get(buffer, 0.0) + float((times * sectors).sum()) * SECTOR
        moved = float((where.times * where.active[:, ::every].sum(axis=1, keepdims=True)).sum()) * len(offsets) * size
        self.total.bytes += moved
        self.total.wide_bytes += moved if wide else 0.0
        self.total.accesses += float(times.sum())
        self.total.coalesced += float((times * together).sum())

    def _by_subgroup(self, values: Array, fill: Any, width: int = 0) -> Array:
        """(sample, thread, ...) as (sample, subgroup, all that its threads have)."""
        width = width or self.subgroup
        short = -values.shape[1] % width
        shape = (values.shape[0], short, *values.shape[2:])
        whole = np.concatenate([values, np.full(shape, fill, values.dtype)], axis=1) if short else values
        return whole.reshape(values.shape[0], whole.shape[1] // width, -1)


def _applied(stmt: P.Stmt) -> Iterator[Intrinsic]:
    if isinstance(stmt, P.Instruction):
        yield stmt.intrinsic
    if (value := stmt.computes()) is not None:
        yield from (node.intrinsic for node in E.walk(value) if isinstance(node, P.Apply))


def _distinct(values: Array, active: Array) -> Array:
    """Along the last axis every different value once, -1 elsewhere."""
    ordered = np.sort(np.where(active, values, -1), axis=-1)
    repeated = np.zeros(ordered.shape, bool)
    repeated[..., 1:] = ordered[..., 1:] == ordered[..., :-1]
    return np.where(repeated, -1, ordered)
