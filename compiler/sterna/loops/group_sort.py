"""Sorting by a group of threads: pairs of keys and positions in its shared memory, by a bitonic network (K. E.
Batcher, Sorting Networks and their Applications, 1968) of which every comparison has the lesser pair first: each merge
begins with the second run read backwards. Pairs are compared by key, then by position, so that no two are equal.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from sterna.ir import dtypes
from sterna.ir.integer import Int
from sterna.loops.build import both, either, equal, number, product, unflatten
from sterna.loops.groups import GroupBuilder
from sterna.te import expr as E
from sterna.te.expr import Expr

#: The type of positions.
PLACE = "int32"
#: Rows up to which the proof that tasks are apart compares their elements one by one.
MOST_COMPARED = 1 << 24

#: The key of an element of a row: (row, position).
Key = Callable[[Int, Int], Expr]
#: What is done with a position of a row that comes as the n-th: (row, n, position); emits statements.
Visit = Callable[[Int, Int, Expr], None]


class _Network:
    """Pairs of several rows in shared memory, `size` (a power of two) of each, one row after the other."""

    def __init__(self, p: GroupBuilder, kind: str, rows: int, size: int, lane: Int, threads: int) -> None:
        self.p, self.size, self.lane, self.threads, self.all = p, size, lane, threads, rows * size
        self.keys = p.shared("keys", kind, (self.all,))
        self.places = p.shared("places", PLACE, (self.all,))

    def put(self, at: Int, key: Expr, place: Expr) -> None:
        self.p.put(self.keys, at, value=key)
        self.p.put(self.places, at, value=place)

    def compare(self, low: Int, high: Int) -> None:
        """Brings the lesser of two pairs to `low`."""
        p = self.p
        mine, its = p.at(self.keys, low), p.at(self.keys, high)
        place, other = p.at(self.places, low), p.at(self.places, high)
        less = p.let(either(its < mine, both(equal(its, mine), other < place)))
        self.put(low, E.select(less, its, mine), E.select(less, other, place))
        self.put(high, E.select(less, mine, its), E.select(less, place, other))

    def step(self, distance: int, mirrored: bool = False, first: int = 0, pairs: int = 0) -> None:
        """Compares what lies so far apart; mirrored: within runs of twice that length, the first with the last."""
        pairs = pairs or self.all // 2
        with self.p.loop(-(-pairs // self.threads), "n") as n:
            pair = n * self.threads + self.lane
            with self.p.below(pair, pairs):
                low = first + pair // distance * (2 * distance) + pair % distance
                last = first + pair // distance * (2 * distance) + 2 * distance - 1
                self.compare(low, last - pair % distance if mirrored else low + distance)

    def sort(self, size: int, first: int = 0, many: int = 0) -> None:
        """Every run of `size` pairs, of so many from the first on."""
        run = 1
        while run < size:
            self.step(run, True, first, many // 2)
            self.merge(run // 2, first, many)
            run *= 2

    def merge(self, distance: int, first: int = 0, many: int = 0) -> None:
        while distance:
            self.step(distance, False, first, many // 2)
            distance //= 2


def shared_least(p: GroupBuilder, shape: tuple[Int, ...], axis: int, k: Int, kind: str, key: Key, visit: Visit) -> bool:
    """Visits the positions of the k least keys of every row in their order, where sizes are known and a group's memory
    has room for a row, or for twice k; else False."""
    if not (k.is_const and all(n.is_const and int(n) > 0 for n in shape)) or int(product(shape)) > MOST_COMPARED:
        return False
    extent, rows, most = int(shape[axis]), prod(int(n) for d, n in enumerate(shape) if d != axis), int(k)
    room = p.group.memory.bytes // (dtypes.size(kind) + dtypes.size(PLACE))
    room = 1 << room.bit_length() - 1  # pairs
    size = 1 << (extent - 1).bit_length()
    if 2 <= size <= room:
        _whole(p, extent, rows, most, size, room, kind, key, visit)
        return True
    if 1 <= most <= room // 2:
        _by_chunks(p, extent, rows, most, room // 2, kind, key, visit)
        return True
    return False


def _whole(
    p: GroupBuilder, extent: int, rows: int, most: int, size: int, room: int, kind: str, key: Key, visit: Visit
) -> None:
    """Rows that fit into shared memory, several short ones in a group."""
    threads = min(p.group.most, max(size // 2, min(64, room // 2, rows * size // 2)))
    threads = 1 << threads.bit_length() - 1
    beside = max(1, 2 * threads // size)
    greatest = E.const(dtypes.limits(kind)[1], kind)
    with p.tasks(-(-rows // beside), "block") as block, p.lanes(threads) as lane:
        network = _Network(p, kind, beside, size, lane, threads)
        with p.loop(beside * size // threads, "n") as n:
            at = n * threads + lane
            row, place = block * beside + at // size, at % size
            mine = p.variable("key", greatest)
            with p.below(row, rows), p.below(place, extent):
                mine.set(key(row, place))
            network.put(at, mine.value, number(place, PLACE))
        network.sort(size)
        with p.loop(-(-beside * most // threads), "n") as n:
            at = n * threads + lane
            row, rank = block * beside + at // most, at % most
            with p.below(at, beside * most), p.below(row, rows):
                visit(row, rank, p.at(network.places, at // most * size + rank))


def _by_chunks(
    p: GroupBuilder, extent: int, rows: int, most: int, half: int, kind: str, key: Key, visit: Visit
) -> None:
    """The least of rows that are longer: half of the memory has those found so far in their order, the other one the
    next chunk, which is sorted and merged with them."""
    threads = 1 << min(p.group.most, half // 2).bit_length() - 1
    greatest = E.const(dtypes.limits(kind)[1], kind)
    with p.tasks(rows, "row") as row, p.lanes(threads) as lane:
        network = _Network(p, kind, 1, 2 * half, lane, threads)
        with p.loop(half // threads, "n") as n:
            # Behind all positions of the row.
            network.put(n * threads + lane, greatest, E.const(dtypes.limits(PLACE)[1], PLACE))
        with p.loop(-(-extent // half), "chunk") as c:
            with p.loop(half // threads, "n") as n:
                at = n * threads + lane
                mine = p.variable("key", greatest)
                with p.below(c * half + at, extent):
                    mine.set(key(row, c * half + at))
                network.put(half + at, mine.value, number(c * half + at, PLACE))
            network.sort(half, half, half)
            # Of the least so far and the greatest of the chunk, and so on, the lesser ones are the least of both.
            network.step(half, True)
            network.merge(half // 2, 0, half)
        with p.loop(-(-most // threads), "n") as n:
            rank = n * threads + lane
            with p.below(rank, most):
                visit(row, rank, p.at(network.places, rank))


def coordinates(row: Int, n: Int | Expr, shape: tuple[Int, ...], axis: int) -> tuple[Int | Expr, ...]:
    """Of an element of a row along an axis."""
    rest = unflatten(row, (*shape[:axis], *shape[axis + 1 :]))
    return (*rest[:axis], n, *rest[axis:])
