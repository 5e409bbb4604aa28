"""Elements that lie across what is stored, as of a transpose: tiles of them pass through shared memory.

Threads side by side store what lies side by side; what they read lies a row apart, and of every sector that comes from
memory one element is used. So the threads of a task bring a tile along its own rows, and read it from shared memory
along the result's, whose rows there begin in different banks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from itertools import product as pairs
from math import gcd, prod

from sterna.ir import dtypes
from sterna.ir.integer import ZERO
from sterna.ir.memory import BANKS, SECTOR, Memory
from sterna.schedule.schedule import Schedule
from sterna.schedule.strategies.analysis import (
    Context,
    at_least,
    expanded_loads,
    fused,
    inline_elementwise,
    product,
    size,
    stride_of,
)
from sterna.schedule.strategies.group_banks import SUBGROUP, waiting
from sterna.schedule.strategies.group_neighbours import bring_in_order
from sterna.te.axis import Axis
from sterna.te.expr import Load
from sterna.te.expr import loads as loads_of
from sterna.te.tensor import Kernel, Tensor

#: What the knob "form" may say of a kernel over open sizes.
TILES, ELEMENTS = "tiles", "elements"
#: What others may be tried of a tile's sides.
SIDES = (8, 16, 32, 64, 128)
#: Elements of a tile, at most and at least, and positions of it along either axis that are enough.
MOST, LEAST, SIDE = 1024, 128, 32
#: Elements of a tile of several axes, at most, and of one that is small.
MOST_OF_BOX, SMALL = 2048, 1024
#: Elements of a tile from which is told how threads wait for banks: it repeats itself.
SAMPLED = 8 * BANKS
#: Elements that lie side by side of a tile of several axes, in what is read and in what is stored.
RUNS = (128, 64, 32, 16)


def propose(kernel: Kernel, context: Context, shared: Memory) -> Schedule | None:
    """The schedule of an element-wise kernel of one output that reads a tensor across; None if it reads none."""
    if len(kernel.outputs) != 1 or context.target.threads is None:
        return None
    s = Schedule(kernel, context.target.known_intrinsics, context.target.memories)
    inline_elementwise(s)
    (out,) = s.outputs
    tensor = s.stages[out].tensor
    if len(tensor.axes) < 2:
        return None
    loads = expanded_loads(s, s.stages[out].body)
    found = [(load, axis) for load in loads if (axis := _across(load, tensor, context)) is not None]
    if len(found) != 1 or sum(load.tensor is found[0][0].tensor for load in loads) != 1:
        return None
    ((load, axis),) = found
    # Of open sizes it may not be proved that tiles are apart; then threads have elements.
    if not all(a.extent.is_const for a in tensor.axes) and context.choose("form", lambda: (ELEMENTS,), TILES) != TILES:
        return None
    whole = size(axis.extent), size(tensor.axes[-1].extent)
    sides = _tile(*whole, product(tensor.shape), max(SECTOR // dtypes.size(tensor.dtype), 1), context)
    if box := _box(load, tensor, {axis: sides[0], tensor.axes[-1]: sides[1]}, context):
        return _boxes(s, out, load, box, context.target.threads.preferred, shared)
    sides = context.choose("tile", lambda: _others(*whole), sides)
    pitch = sides[0] + _apart(sides)
    if sides[0] * sides[1] < LEAST or pitch * sides[1] * dtypes.size(load.dtype) > shared.bytes:
        return None
    _tiles(s, out, load, axis, sides, shared, context)
    return s


def _across(load: Load, tensor: Tensor, context: Context) -> Axis | None:
    """The axis of a result along which a tensor lies side by side, where that is not the result's last one, and the
    tensor is read at positions of the result's axes."""
    assert isinstance(load.tensor, Tensor)
    last, named = tensor.axes[-1], [a for a in tensor.axes for i in load.indices if i == a.var]
    plain = len(named) + sum(i == ZERO for i in load.indices) == len(load.indices)
    if not plain or len(set(named)) < len(named) or last not in named or load.dtype == "bool":
        return None
    if dtypes.bits(load.dtype) < 8 or stride_of(load, last, context.strides) == 1 or load.indices[-1] == ZERO:
        return None
    along = next(a for a in named if load.indices[-1] == a.var)
    return along if along is not last and stride_of(load, along, context.strides) == 1 and along.extent != 1 else None


def _box(load: Load, tensor: Tensor, sides: Mapping[Axis, int], context: Context) -> dict[Axis, int]:
    """Positions of a tile along the axes of a result where more than two make runs, in what is read and in what is
    stored, of which threads ask for fewer sectors; {} where two do as well, or a size is open.

    Args:
        sides: of the tile along two axes.
    """
    assert context.target.threads is not None
    stored = [a for a in tensor.axes if a.extent != 1]
    read = [a for i in load.indices for a in stored if i == a.var]
    if len(stored) < 3 or not all(a.extent.is_const for a in stored):
        return {}
    if min(size(read[-1].extent), size(stored[-1].extent)) >= SIDE:
        return {}
    elements, each = product(tensor.shape), dtypes.size(load.dtype)
    few = SECTOR // each
    tried = [(_last(read, a, few), _last(stored, b, few)) for a, b in pairs(RUNS, RUNS)]
    boxes = [{a: max(one.get(a, 1), two.get(a, 1)) for a in stored} for one, two in tried]
    # Those with a task for each multiprocessor, or that are small.
    room = min(MOST_OF_BOX, max(SMALL, elements // context.target.threads.multiprocessors))
    boxes = [box for n, box in enumerate(boxes) if LEAST <= prod(box.values()) <= room and box not in boxes[:n]]
    by_two = {a: sides.get(a, 1) for a in stored}
    boxes = [*([by_two] if prod(by_two.values()) >= LEAST else []), *boxes]
    if not boxes:
        return {}
    best = min(boxes, key=lambda box: _sectors(read, box, each, False) + _sectors(stored, box, each, True))
    return {} if best is by_two else {a: n for a, n in best.items() if n > 1}


def _last(axes: Sequence[Axis], run: int, sector: int) -> dict[Axis, int]:
    """How many positions of each of the last axes make a run of so many elements, at least, that is whole sectors."""
    found, many = dict[Axis, int](), 1
    for axis in reversed(axes):
        if many < run or many % sector:
            whole = sector // gcd(sector, many)
            found[axis] = min(-(-run // many // whole) * whole or whole, size(axis.extent))
            many *= found[axis]
    return found


def _sectors(order: Sequence[Axis], box: Mapping[Axis, int], each: int, stored: bool) -> float:
    """Sectors that subgroups ask for, of all tiles, as the elements lie in memory: of those beyond the end nothing is
    stored, and the last ones are read again."""
    extents = [size(a.extent) for a in order]
    strides, total = [prod(extents[n + 1 :]) for n in range(len(order))], 0.0
    # Along each axis: a tile that is whole, and the last one where it is not; and how many there are.
    kinds = list[list[tuple[int, int]]]()
    for axis, extent in zip(order, extents, strict=True):
        whole, rest = divmod(extent, box[axis])
        first = [(min(1, whole - 1) * box[axis], whole)] if whole else []
        kinds.append([*first, (whole * box[axis], 1)] if rest else first)
    for tile in pairs(*kinds):
        lines = [range(first, first + box[axis]) for (first, _), axis in zip(tile, order, strict=True)]
        places = [
            -1
            if stored and any(n >= extent for n, extent in zip(at, extents, strict=True))
            else sum(min(n, e - 1) * step for n, e, step in zip(at, extents, strides, strict=True)) * each // SECTOR
            for at in pairs(*lines)
        ]
        asked = sum(len({*places[n : n + SUBGROUP]} - {-1}) for n in range(0, len(places), SUBGROUP))
        total += asked * prod(many for _, many in tile)
    return total


def _tile(down: int, across: int, elements: int, sector: int, context: Context) -> tuple[int, int]:
    """Positions of a tile along the axis that is read side by side, and along the one that is stored so, of which a
    sector of memory has so many: all of a short one, and fewer of both where tasks would be few."""
    assert context.target.threads is not None
    most = MOST
    while most > LEAST and elements < most * context.target.threads.multiprocessors:
        most //= 2
    # Of rows that are no whole sectors, parts are in more sectors than they fill: short ones stay whole.
    sides = [n if SIDE < n < 2 * SIDE and n % sector else min(SIDE, n) for n in (down, across)]
    for n, whole in enumerate((down, across)):
        if sides[1 - n] < SIDE:
            room = max(SIDE, most // sides[1 - n])
            sides[n] = min(1 << (room.bit_length() - 1), at_least(whole))
    # Rows of a tile stay as long as there are banks, and parts of rows as threads that store them together.
    part = sector if across % sector == 0 else SIDE
    floors = (SIDE, min(SIDE, part) if sides[0] >= SIDE else SIDE)
    for n in (1, 0):
        while sides[0] * sides[1] > most and sides[n] > floors[n] and sides[n] % 2 == 0 and sides[n] <= SIDE:
            sides[n] //= 2
    return sides[0], sides[1]


def _others(down: int, across: int) -> Iterator[tuple[int, int]]:
    """What may be tried of a tile's sides."""
    most = at_least(down), at_least(across)
    return (
        sides
        for sides in pairs(SIDES, SIDES)
        if sides[0] <= most[0] and sides[1] <= most[1] and LEAST <= sides[0] * sides[1] <= MOST
    )


def _apart(sides: tuple[int, int]) -> int:
    """Elements behind each row of a tile that let what a subgroup reads down its rows be in different banks."""
    row, rows = sides

    def turns(more: int) -> int:
        return max(Counter((n % rows * (row + more) + n // rows) % BANKS for n in range(BANKS)).values())

    return min(range(BANKS), key=lambda more: (turns(more), more))


def _boxes(s: Schedule, out: str, load: Load, box: Mapping[Axis, int], threads: int, shared: Memory) -> Schedule:
    """The schedule with tiles of several axes."""
    outer, inner = list[str](), list[str]()
    for axis in s.stages[out].tensor.axes:
        block, within = axis.name, ""
        if (side := box.get(axis, 1)) > 1:
            block, within = s.split(out, axis.name, side, overhang=True)
        outer.append(block)
        inner += [within] * (side > 1)
    s.reorder(out, *outer, *inner)
    task = fused(s, out, outer)
    s.parallel(out, task)
    _, thread = s.split(out, fused(s, out, inner), threads)
    s.bind(out, thread, "thread.x")
    reader = next(n for n, stage in s.stages.items() if any(e.tensor is load.tensor for e in loads_of(stage.body)))
    local = s.cache_read(load.tensor.name, reader)
    bring_in_order(s, local, out, task, shared, threads)
    sides = [next((n for a, n in box.items() if i == a.var), 1) for i in load.indices]
    stored = [next(d for d, i in enumerate(load.indices) if i == a.var) for a in box]
    if more := _behind(sides, stored, dtypes.size(load.dtype)):
        s.pad_rows(local, *more)
    return s


def _behind(sides: Sequence[int], order: Sequence[int], each: int) -> tuple[int, int] | None:
    """How many elements to leave free behind how many of the last dimensions of a tile, so that threads which read it
    in another order of its dimensions, and others which store it as it lies, wait for banks as little as can be."""

    def turns(more: int, behind: int) -> int:
        strides = [prod(sides[d + 1 :]) for d in range(len(sides))]
        rows = prod(sides[len(sides) - behind :])
        strides = [n if n < rows else n // rows * (rows + more) for n in strides]
        total = 0
        for walked in (order, range(len(sides))):  # by threads that read it, and by those that bring it
            walk = islice(pairs(*(range(sides[d]) for d in walked)), SAMPLED)
            places = [sum(n * strides[d] for n, d in zip(at, walked, strict=True)) for at in walk]
            total += sum(waiting(places[n : n + BANKS], each) for n in range(0, len(places), BANKS))
        return total

    behind = [d for d in range(1, len(sides)) if prod(sides[:-d]) > 1]
    found = dict[tuple[int, int], int]()
    for tried in [(0, 1), *((more, d) for more in range(1, BANKS + 1) for d in behind)]:
        found[tried] = turns(*tried)
        if not found[tried]:
            break
    best = min(found, key=lambda tried: (found[tried], tried[0]))
    return best if best[0] else None


def _tiles(
    s: Schedule, out: str, load: Load, axis: Axis, sides: tuple[int, int], shared: Memory, context: Context
) -> None:
    threads = context.target.threads
    assert threads is not None
    *axes, last = (a.name for a in s.stages[out].tensor.axes)
    block, row = s.split(out, axis.name, sides[0], overhang=True)
    outer, column = s.split(out, last, sides[1], overhang=True)
    s.reorder(out, *(a for a in axes if a != axis.name), block, outer, row, column)
    task = fused(s, out, [*(a for a in axes if a != axis.name), block, outer])
    many = gcd(sides[0] * sides[1], threads.preferred)
    s.parallel(out, task)
    _, thread = s.split(out, s.fuse(out, row, column), many)
    s.bind(out, thread, "thread.x")
    reader = next(n for n, stage in s.stages.items() if any(e.tensor is load.tensor for e in loads_of(stage.body)))
    local = s.cache_read(load.tensor.name, reader)
    bring_in_order(s, local, out, task, shared, many)
    if more := _apart(sides):
        s.pad_rows(local, more)
