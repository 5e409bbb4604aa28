"""Orders within loop programs: comparisons that are total, keys that are integers, heaps and sorts of positions."""

from __future__ import annotations

from collections.abc import Callable

from sterna.ir import dtypes
from sterna.ir.extremum import minimum
from sterna.ir.integer import Int, IntLike, as_int
from sterna.loops.build import Array, ProgramBuilder, Variable, both, either, equal, integer, negated, number, unequal
from sterna.te import expr as E
from sterna.te.expr import Expr

#: Whether the element at one position comes before that at another; may emit statements.
Before = Callable[[Expr, Expr], Expr]
#: What is done with a position that comes as the n-th of all; emits statements.
Visit = Callable[[Int, Expr], None]
#: So many pairs are sorted by counting who comes before whom: comparisons that vectors make, and no branch.
COUNTED = 256
BLOCK = 32  # elements that are tested at once
DIGIT = 8  # bits by which longer rows are distributed at once


def greater(a: Expr, b: Expr) -> Expr:
    """a > b in an order in which NaN is the greatest and equal to itself."""
    if not dtypes.is_float(a.dtype):
        return E.cast(a, "int32") > E.cast(b, "int32") if a.dtype == "bool" else a > b
    return either(a > b, both(E.unary("isnan", a), negated(E.unary("isnan", b))))


def ranked(a: Expr, b: Expr, i: Expr, j: Expr, largest: bool) -> Expr:
    """Whether a at position i comes before b at position j: by value, and where they are equal by position."""
    first, second = (a, b) if largest else (b, a)
    return either(greater(first, second), both(negated(greater(second, first)), i < j))


def key_type(dtype: str) -> str:
    """The type of `sort_key` of values of a type."""
    return "int64" if dtypes.size(dtype) == 8 else "int32"


def sort_key(value: Expr, descending: bool) -> Expr:
    """A signed integer that orders as the value does: equal values have equal keys, NaN is the greatest."""
    kind, dtype = key_type(value.dtype), value.dtype
    greatest = E.const(dtypes.limits(kind)[1], kind)
    if dtypes.is_float(dtype):
        wide = value if dtypes.size(dtype) == dtypes.size(kind) else E.cast(value, "float32")
        bits = E.bitcast(wide, kind)
        # Negative floats order by magnitude, the other way round; both zeros are 0.
        sign = E.binary("shift_right", bits, E.const(dtypes.bits(kind) - 1, kind))
        key = E.binary("xor", bits, E.binary("and", sign, greatest))
        key = E.select(equal(wide, 0.0), E.const(0, kind), key)
        key = E.select(E.unary("isnan", wide), greatest, key)
    elif dtype in ("uint32", "uint64"):
        key = E.binary("xor", E.bitcast(value, kind), E.const(dtypes.limits(kind)[0], kind))
    else:
        key = E.cast(value, kind)
    return E.unary("invert", key) if descending else key


def kth_least(p: ProgramBuilder, keys: Array, k: Expr) -> Expr:
    """A limit that k keys of the first row do not exceed, and more of them only where they equal the k-th: found bit by
    bit, as counting takes no branches."""
    kind = keys.dtype
    least, greatest = (E.const(n, kind) for n in dtypes.limits(kind))
    limit, bit = p.variable("limit", greatest), p.variable("bit", least)
    with p.loop(8 * dtypes.size(kind), "step"):
        trial = p.let(E.binary("xor", limit.value, bit.value))
        total = p.variable("total", 0, "int32")
        with p.loop(keys.shape[1], "n") as n:
            total.add(E.cast(keys[0, n] <= trial, "int32"))
        with p.when(total.value >= k):
            limit.set(trial)
        p.leave_if(equal(total.value, k))
        bit.set(E.binary("and", E.binary("shift_right", bit.value, E.const(1, kind)), greatest))
    return limit.value


def visit_least(p: ProgramBuilder, keys: Array, k: Int, visit: Visit) -> None:
    """Visits the positions of the k least of a few keys in their order; of equal ones the first comes first.

    Each is the least of those behind the one before it, in two passes that vectors make.
    """
    kind, (extent,) = keys.dtype, keys.shape
    least, greatest = (E.const(n, kind) for n in dtypes.limits(kind))
    last_key, last_place = p.variable("last_key", least), p.variable("last_place", -1, "int32")

    def behind(n: Int, key: Expr) -> Expr:
        return either(key > last_key.value, both(equal(key, last_key.value), number(n, "int32") > last_place.value))

    with p.loop(k, "rank") as rank:
        next_key = p.variable("next_key", greatest)
        with p.loop(extent, "n") as n:
            key = keys[n]
            next_key.set(E.minimum(next_key.value, E.select(behind(n, key), key, greatest)))
        end = number(extent, "int32")
        next_place = p.variable("next_place", end)
        with p.loop(extent, "n") as n:
            key = keys[n]
            here = both(equal(key, next_key.value), behind(n, key))
            next_place.set(E.minimum(next_place.value, E.select(here, number(n, "int32"), end)))
        last_key.set(next_key.value)
        last_place.set(next_place.value)
        visit(rank, last_place.value)


def visit_few(p: ProgramBuilder, key: Callable[[Int], Expr], extent: Int, k: int, visit: Visit) -> None:
    """Visits the positions of the k least keys of at least k in their order; of equal ones the first comes first.

    The few are kept in their order. Most blocks of a row hold nothing less than the last of them, and are passed over
    as a whole.
    """
    place = integer(extent)
    first = [key(as_int(n)) for n in range(k)]
    keys = [p.variable("kept", each) for each in first]
    places = [p.variable("kept_place", n, place) for n in range(k)]

    def insert(mine: Expr, at: Expr, count: int) -> None:
        """Into the first `count` in front of the last, which leaves."""
        smaller = [p.let(mine < keys[n].value) for n in range(count)]
        for n in reversed(range(count)):
            for kept, new in ((keys, mine), (places, at)):
                own = E.select(smaller[n], new, kept[n].value)
                kept[n].set(E.select(smaller[n - 1], kept[n - 1].value, own) if n else own)

    for rank in range(1, k):  # all that came before are in order
        insert(first[rank], E.const(rank, place), rank + 1)
    blocks = (extent - k) // BLOCK

    def consider(n: Int) -> None:
        mine = p.let(key(n))
        with p.when(mine < keys[-1].value):
            insert(mine, number(n, place), k)

    with p.loop(blocks, "block") as b:
        some = p.variable("some", 0, "int32")
        with p.loop(BLOCK, "n") as n:
            some.set(E.binary("or", some.value, E.cast(key(b * BLOCK + n + k) < keys[-1].value, "int32")))
        with p.when(unequal(some.value, 0)), p.loop(BLOCK, "n") as n:
            consider(b * BLOCK + n + k)
    with p.loop(extent, "n", start=blocks * BLOCK + k) as n:
        consider(n)
    for rank, found in enumerate(places):
        visit(as_int(rank), found.value)


class Pairs:
    """Keys and the positions that they come from, in the order of the positions; at most `capacity` of them."""

    def __init__(self, p: ProgramBuilder, key: str, place: str, capacity: IntLike):
        self.p = p
        self.capacity = as_int(capacity)
        self.counted = (self.capacity.bounds()[1] or 0) <= COUNTED
        rows = 1 if self.counted else 2
        self.keys = p.array("keys", key, (rows, self.capacity))
        self.places = p.array("places", place, (rows, self.capacity))

    def put(self, n: Int | Variable, key: Expr, place: Expr) -> None:
        self.keys[0, n] = key
        self.places[0, n] = place

    def visit_sorted(self, count: Int, most: IntLike, visit: Visit) -> None:
        """Visits the first `most` positions by key; those of equal keys in their order, but in any order of visits."""
        if self.counted:
            self._count(count, as_int(most), visit)
        else:
            self._distribute(count, as_int(most), visit)

    def _count(self, count: Int, most: Int, visit: Visit) -> None:
        p = self.p
        with p.loop(count, "n") as n:
            mine = self.keys[0, n]
            rank = p.variable("rank", 0, "int32")
            with p.loop(n, "m") as m:
                rank.add(E.cast(self.keys[0, m] <= mine, "int32"))
            with p.loop(count, "m", start=n) as m:
                rank.add(E.cast(self.keys[0, m] < mine, "int32"))
            with p.when(rank.value < number(most, "int32")):
                visit(p.index(rank, most), self.places[0, n])

    def _distribute(self, count: Int, most: Int, visit: Visit) -> None:
        """By one digit after the other, the last one first, from one half of the memory to the other."""
        p, kind, place = self.p, self.keys.dtype, self.places.dtype
        mask, n_digits = (1 << DIGIT) - 1, 8 * dtypes.size(self.keys.dtype) // DIGIT
        starts = p.array("starts", place, (1 << DIGIT,))
        side = p.variable("side", 0, "int32")
        with p.loop(n_digits, "digit") as digit:
            source, target = p.index(side, 2), p.index(1 - side.value, 2)
            shift = p.let(number(digit * DIGIT, kind))
            # The sign stands in the highest digit: negative keys come first.
            flip = p.let(E.select(equal(number(digit, kind), n_digits - 1), E.const(1 << (DIGIT - 1), kind), 0))

            def bucket(key: Expr, shift: Expr = shift, flip: Expr = flip) -> Int:
                low = E.binary("and", E.binary("shift_right", key, shift), E.const(mask, kind))
                return p.index(E.binary("xor", low, flip), 1 << DIGIT)

            p.fill(starts, 0)
            last = p.variable("last", 0, place)
            with p.loop(count, "n") as n:
                at = bucket(self.keys[source, n])
                members = p.let(starts[at] + 1)
                starts[at] = members
                last.set(members)
            # Where all keys have the same digit they stay where they are.
            with p.when(unequal(last.value, number(count, place))):
                start = p.variable("start", 0, place)
                with p.loop(1 << DIGIT, "b") as b:
                    members = starts[b]
                    starts[b] = start.value
                    start.add(members)
                with p.loop(count, "n") as n:
                    key, moved = self.keys[source, n], self.places[source, n]
                    at = bucket(key)
                    to = starts[at]
                    starts[at] = to + 1
                    there = p.index(to, self.capacity)
                    self.keys[target, there] = key
                    self.places[target, there] = moved
                side.set(1 - side.value)
        final = p.index(side, 2)
        with p.loop(minimum(count, most), "n") as n:
            visit(n, self.places[final, n])


def gather_least(p: ProgramBuilder, pairs: Pairs, key: Callable[[Int], Expr], extent: Int, k: Int) -> Variable:
    """Puts the pairs of the k least keys of a row, and of few others, into `pairs`; how many they are.

    The least keys of several times k classes give a limit at once that only a little more than k keys do not exceed, so
    most blocks are passed over as a whole. Where the limit lets too many through (rows in bad order, many equal keys),
    those gathered so far give a lower one.
    """
    kind, place = pairs.keys.dtype, pairs.places.dtype
    most, longest = int(k.bounds()[1] or 1), int(extent.bounds()[1] or 1)
    n_classes = min(max(1 << (4 * most - 1).bit_length(), 4 * BLOCK), longest)
    wanted = number(k, "int32")
    lows = p.array("lows", kind, (1, n_classes))
    p.fill(lows, dtypes.limits(kind)[1])
    whole = extent // n_classes
    with p.loop(whole, "round") as m, p.loop(n_classes, "class") as c:
        lows[0, c] = E.minimum(lows[0, c], key(m * n_classes + c))
    with p.loop(extent - whole * n_classes, "class") as c:
        lows[0, c] = E.minimum(lows[0, c], key(whole * n_classes + c))
    limit = p.variable("most", kth_least(p, lows, wanted))
    count = p.variable("count", 0, place)

    def put(n: Int) -> None:
        mine = key(n)
        pairs.put(count, mine, number(n, place))  # the next one comes over it if it does not belong to them
        count.add(E.cast(mine <= limit.value, place))

    full = pairs.capacity - 2 * BLOCK
    with p.loop(extent // BLOCK, "block") as b:
        some = p.variable("some", 0, "int32")
        with p.loop(BLOCK, "n") as n:
            some.set(E.binary("or", some.value, E.cast(key(b * BLOCK + n) <= limit.value, "int32")))
        with p.when(unequal(some.value, 0)):
            with p.when(count.value > number(full, place)):
                limit.set(_keep_least(p, pairs, count, wanted))
            with p.loop(BLOCK, "n") as n:
                put(b * BLOCK + n)
    with p.loop(extent, "n", start=extent // BLOCK * BLOCK) as n:
        put(n)
    return count


def _keep_least(p: ProgramBuilder, pairs: Pairs, count: Variable, wanted: Expr) -> Expr:
    """Keeps the pairs of the k least keys; of equal ones the first. What later keys must not exceed to belong to them:
    one equal to the greatest kept comes behind it."""
    kind = pairs.keys.dtype
    with p.loop(pairs.capacity, "n", start=p.bound(count, pairs.capacity)) as n:
        pairs.keys[0, n] = dtypes.limits(kind)[1]
    kth = p.let(kth_least(p, pairs.keys, wanted))
    below = p.variable("below", 0, "int32")
    size = p.bound(count, pairs.capacity)
    with p.loop(size, "n") as n:
        below.add(E.cast(pairs.keys[0, n] < kth, "int32"))
    room = p.variable("room", wanted - below.value)
    count.set(0)
    with p.loop(size, "n") as n:
        mine, position = pairs.keys[0, n], pairs.places[0, n]
        ties = p.let(both(equal(mine, kth), room.value > 0))
        with p.when(ties):
            room.add(-1)
        with p.when(either(mine < kth, ties)):
            pairs.put(count, mine, position)
            count.add(1)
    return E.select(equal(kth, dtypes.limits(kind)[0]), kth, kth - 1)


def sift_down(p: ProgramBuilder, heap: Array, start: Expr | Variable, size: Expr | Variable, before: Before) -> None:
    """Restores the order of a heap whose element at `start` may belong further down.

    The root of the heap is the position that comes last. `size` is how many there are, at least one.
    """
    n = heap.shape[0]
    count = p.let(size.value if isinstance(size, Variable) else size)
    hole = p.variable("hole", start.value if isinstance(start, Variable) else start)
    item = heap[hole]
    most = max(int(n.bounds()[1] or 1), 1).bit_length()
    with p.loop(most, "level"):
        left = p.let(hole.value + hole.value + 1)
        p.leave_if(left >= count)
        child = p.variable("child", left)
        with p.when(left + 1 < count), p.when(before(heap[left], heap[left + 1])):
            child.set(left + 1)
        later = heap[child]
        p.leave_if(before(later, item))
        heap[hole] = later
        hole.set(child.value)
    heap[hole] = item


def make_heap(p: ProgramBuilder, heap: Array, size: IntLike, before: Before) -> None:
    """Turns an array of positions into a heap."""
    half = as_int(size) // 2
    with p.loop(half, "n") as n:
        sift_down(p, heap, number(half - 1 - n, heap.dtype), number(as_int(size), heap.dtype), before)


def sort_heap(p: ProgramBuilder, heap: Array, size: IntLike, before: Before) -> None:
    """Turns a heap into the positions in their order."""
    with p.loop(as_int(size) - 1, "n") as n:
        last = as_int(size) - 1 - n
        worst, moved = heap[0], heap[last]
        heap[0] = moved
        heap[last] = worst
        sift_down(p, heap, E.const(0, heap.dtype), number(last, heap.dtype), before)


def sort(p: ProgramBuilder, positions: Array, size: IntLike, before: Before) -> None:
    """Sorts positions."""
    make_heap(p, positions, size, before)
    sort_heap(p, positions, size, before)


__all__ = [
    "BLOCK",
    "Before",
    "Pairs",
    "gather_least",
    "greater",
    "key_type",
    "kth_least",
    "make_heap",
    "ranked",
    "sift_down",
    "sort",
    "sort_heap",
    "sort_key",
    "visit_least",
]
