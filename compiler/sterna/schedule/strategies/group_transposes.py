"""Elements that lie across what is stored, as of a transpose: tiles of them pass through shared memory.

Threads side by side store what lies side by side; what they read lies a row apart, and of every sector that comes from
memory one element is used. So the threads of a task bring a tile along its own rows, and read it from shared memory
along the result's, whose rows there begin in different banks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import product as pairs
from math import gcd

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
    stride_of,
)
from sterna.te.axis import Axis
from sterna.te.expr import Load
from sterna.te.expr import loads as loads_of
from sterna.te.tensor import Kernel, Tensor

#: What others may be tried of a tile's sides.
SIDES = (8, 16, 32, 64, 128)
#: Elements of a tile, at most and at least, and positions of it along either axis that are enough.
MOST, LEAST, SIDE = 1024, 128, 32


def propose(kernel: Kernel, context: Context, shared: Memory) -> Schedule | None:
    """The schedule of an element-wise kernel of one output that reads a tensor across; None if it reads none."""
    if len(kernel.outputs) != 1 or context.target.threads is None:
        return None
    s = Schedule(kernel, context.target.known_intrinsics, context.target.memories)
    inline_elementwise(s)
    (out,) = s.outputs
    tensor = s.stages[out].tensor
    if len(tensor.axes) < 2 or not all(a.extent.is_const for a in tensor.axes):
        return None
    loads = expanded_loads(s, s.stages[out].body)
    found = [(load, axis) for load in loads if (axis := _across(load, tensor, context)) is not None]
    if len(found) != 1 or sum(load.tensor is found[0][0].tensor for load in loads) != 1:
        return None
    ((load, axis),) = found
    least = max(SECTOR // dtypes.size(tensor.dtype), 1)
    whole = int(axis.extent), int(tensor.axes[-1].extent)
    sides = _tile(*whole, product(tensor.shape), least, context)
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


def _tile(down: int, across: int, elements: int, least: int, context: Context) -> tuple[int, int]:
    """Positions of a tile along the axis that is read side by side, and along the one that is stored so, of which a
    sector of memory has `least`: all of a short one, and fewer of both where tasks would be few."""
    assert context.target.threads is not None
    most = MOST
    while most > LEAST and elements < most * context.target.threads.multiprocessors:
        most //= 2
    sides = [min(SIDE, down), min(SIDE, across)]
    for n, whole in enumerate((down, across)):
        if sides[1 - n] < SIDE:
            room = max(SIDE, most // sides[1 - n])
            sides[n] = min(1 << (room.bit_length() - 1), at_least(whole))
    # Rows of a tile stay as long as there are banks.
    floors = (SIDE, min(SIDE, least) if sides[0] >= SIDE else SIDE)
    for n in (1, 0):
        while sides[0] * sides[1] > most and sides[n] > floors[n] and sides[n] % 2 == 0:
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
    s.compute_at(local, out, task, shared)
    _, thread = s.split(local, fused(s, local, [a.name for a in s.stages[local].tensor.axes]), many)
    s.bind(local, thread, "thread.x")
    if more := _apart(sides):
        s.pad_rows(local, more)
