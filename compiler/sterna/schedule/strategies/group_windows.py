"""Windows whose elements threads side by side would find apart: of few channels, with strides, or along the rows of
planes. A task brings the part of the tensor that its windows slide over side by side, and reads it from shared memory.

Pools, depthwise convolutions, and filters of one column. Of others, threads with a window each read whole sectors, and
the windows of neighbours are in a cache.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product as pairs
from math import ceil, gcd, prod

from sterna.ir import dtypes
from sterna.ir.integer import ZERO, as_int
from sterna.ir.memory import SECTOR, Memory
from sterna.schedule.schedule import Schedule
from sterna.schedule.strategies.analysis import Context, fused, inline_elementwise, product, size, stored_apart
from sterna.schedule.strategies.group_banks import SUBGROUP, WORD, waiting
from sterna.schedule.strategies.group_neighbours import (
    bring_in_order,
    fetched_together,
    neighbours,
    neighbours_along,
    stored_together,
)
from sterna.schedule.strategies.group_sums import in_register
from sterna.schedule.strategies.padding import conditional
from sterna.schedule.strategies.rows import SUMS, many_terms
from sterna.te.axis import Axis
from sterna.te.expr import Load, Reduce
from sterna.te.expr import loads as loads_of
from sterna.te.layout import dense_strides
from sterna.te.tensor import Kernel, Tensor

#: The share of the shared memory of a task that its part of a tensor takes.
SHARE = 0.5
#: Of accesses, those that ask for more than they need from which on windows are brought, one of so many.
APART = 8
#: Accesses of subgroups from which that is told.
SAMPLES = 16
#: Positions of a task along the last axes, and elements, at least and at most, and at most where there are few.
SIDES, LEAST, MOST, FEW = (1, 2, 4, 8, 16, 32, 64, 128), 128, 2048, 512
#: Bytes of constants that are brought, too, where all threads read the same.
WEIGHTS = 4096
#: Sectors that a run of elements counts more where it begins anywhere: what it shares with another, and an access that
#: is to two runs.
ENDS = 2
#: Bytes of shared memory that are accessed in a turn.
TURN = 128


@dataclass(frozen=True)
class _Place:
    """Where the elements of a tensor lie in memory: the first one, and steps along its dimensions.

    Args:
        begin: a number that the place of the first element is a multiple of.
    """

    begin: int
    strides: tuple[int, ...]


@dataclass(frozen=True)
class _Slid:
    """What windows slide over: how a window's element is read of it, and what of it lies in memory as it is."""

    load: Load
    source: Tensor
    place: _Place

    def apart(self, axis: Axis) -> int:
        """Elements of memory between neighbours along an axis."""
        return sum(n * (i.coefficient(axis) or 0) for n, i in zip(self.place.strides, self.load.indices, strict=True))

    def shape(self, extents: Mapping[Axis, int]) -> list[int]:
        """Of the part that so many positions along each axis read."""
        return [1 + sum(abs(i.coefficient(a) or 0) * (n - 1) for a, n in extents.items()) for i in self.load.indices]


def propose(kernel: Kernel, stage: Tensor, context: Context, shared: Memory) -> Schedule | None:
    """The schedule of a kernel whose only sum is over windows that lie so; None of any other."""
    slid = _slid(kernel, stage, context)
    if slid is None or not _is_apart(kernel, stage, slid, context):
        return None
    sides = _tile(stage, slid, _place(kernel.outputs[0], context), context, shared)
    if sides is None:
        return None
    s = Schedule(kernel, context.target.known_intrinsics, context.target.memories)
    acc, out = stored_apart(s, stage)
    padded = [slid.load.tensor.name] if slid.load.tensor.name in s.stages else []
    inline_elementwise(s, padded)
    (local,) = padded or [s.cache_read(slid.load.tensor.name, acc)]
    tiles = dict(zip(stage.axes, sides, strict=True)) | _taps(stage)
    most = _together(s, out, acc, prod(sides), context), fetched_together(slid.load, tiles, context)
    room = int(SHARE * shared.bytes) // dtypes.size(slid.load.dtype)
    many, wide, behind = _without_waiting(stage, slid, sides, most, room)
    outer, inner = list[str](), list[str]()
    for axis, side in zip(s.stages[out].tensor.axes, sides, strict=True):
        block, within = s.split(out, axis.name, side, overhang=size(axis.extent) % side != 0)
        outer.append(block)
        inner.append(within)
    lanes = list[str]()
    if many > 1:
        inner[-1], lane = s.split(out, inner[-1], many)
        lanes.append(lane)
    s.reorder(out, *outer, *inner, *lanes)
    for lane in lanes:
        s.vectorize(out, lane)
    task = fused(s, out, outer)
    s.parallel(out, task)
    threads = _threads(prod(sides) // many, context)
    _, thread = s.split(out, fused(s, out, inner), threads)
    s.bind(out, thread, "thread.x")
    bring_in_order(s, local, out, task, shared, threads, wide)
    if behind is not None:
        s.pad_rows(local, *behind)
    for weights in _of_all_threads(kernel, stage):
        bring_in_order(s, s.cache_read(weights.name, acc), out, task, shared, threads)
    in_register(s, acc, out, thread, many)
    return s


def _of_all_threads(kernel: Kernel, stage: Tensor) -> list[Tensor]:
    """Constants of which all threads read the same element at a time, and few bytes in all."""
    body, found = stage.body, list[Tensor]()
    assert isinstance(body, Reduce)
    for load in loads_of(body.a):
        t = load.tensor
        if t not in kernel.params or not isinstance(t, Tensor) or not all(n.is_const for n in t.shape):
            continue
        same = all(i.symbols().isdisjoint(stage.axes) for i in load.indices)
        if same and t not in found and 1 < product(t.shape) <= WEIGHTS // max(1, dtypes.size(t.dtype)):
            found.append(t)
    return found


def _taps(stage: Tensor) -> dict[Axis, int]:
    """Positions along the axes of a window; those that `in_register` cuts into parts come out even."""
    body = stage.body
    assert isinstance(body, Reduce)
    taps = {a: size(a.extent) for a in body.axes}
    if many_terms(body, body.axes):
        longest = max(body.axes, key=lambda a: taps[a])
        parts = min(SUMS, taps[longest])
        taps[longest] = ceil(taps[longest] / parts) * parts
    return taps


def _slid(kernel: Kernel, stage: Tensor, context: Context) -> _Slid | None:
    """What the windows of a stage slide over, the greatest tensor that it reads; None where it has no windows."""
    body = stage.body
    assert isinstance(body, Reduce)
    axes = [*stage.axes, *body.axes]
    if body.index is not None or not all(a.extent.is_const for a in axes):
        return None
    found = list[_Slid]()
    for load in loads_of(body.a):
        tensor = source = load.tensor
        assert isinstance(tensor, Tensor)
        if tensor.body is not None and conditional(tensor):
            source = loads_of(tensor.body)[0].tensor
            assert isinstance(source, Tensor)
        if source not in kernel.inputs or len(source.shape) != len(tensor.shape):
            continue
        strides = context.strides.get(source.name) or dense_strides(source.shape)
        known = all(n.is_const for n in (*strides, *source.shape)) and dtypes.bits(load.dtype) >= 8
        if known and all(i.coefficient(a) is not None for i in load.indices for a in axes):
            found.append(_Slid(load, source, _place(source, context)))
    if not found or sum(x.load.tensor is y.load.tensor for x in found for y in found) > len(found):
        return None
    greatest = max(found, key=lambda each: product(each.source.shape))
    slides = any(
        not i.symbols().isdisjoint(stage.axes) and not i.symbols().isdisjoint(body.axes) for i in greatest.load.indices
    )
    return greatest if slides else None


def _is_apart(kernel: Kernel, stage: Tensor, slid: _Slid, context: Context) -> bool:
    """Whether threads with neighbouring windows would ask for more sectors than they need."""
    threads = context.target.threads
    assert threads is not None
    s = Schedule(kernel, context.target.known_intrinsics, context.target.memories)
    acc, out = stored_apart(s, stage)
    inline_elementwise(s)
    many, _ = neighbours(s, out, threads.preferred, context, acc)
    extents, steps = [size(a.extent) for a in stage.axes], [slid.apart(a) for a in stage.axes]
    at_once, elements, each = SUBGROUP * many, prod(extents), dtypes.size(slid.load.dtype)
    accesses = elements // at_once
    if not accesses:
        return False
    bad = 0
    for n in range(SAMPLES):
        # Each at another place of a line.
        first = min(n * accesses // SAMPLES + n, accesses - 1) * at_once
        places = {_at(first + k, extents, steps) for k in range(at_once)}
        sectors = {place * each // SECTOR for place in places}
        together = max(places) - min(places) + 1 == len(places)
        bad += not together and len(sectors) > ceil(len(places) * each / SECTOR)
    return bad * APART > SAMPLES


def _at(number: int, extents: Sequence[int], steps: Sequence[int]) -> int:
    """Where an element is of a result that is counted along its axes."""
    place = 0
    for extent, step in zip(reversed(extents), reversed(steps), strict=True):
        number, digit = divmod(number, extent)
        place += digit * step
    return place


def _place(tensor: Tensor, context: Context) -> _Place:
    """Of a tensor whose first element is at no open position."""
    strides = context.strides.get(tensor.name) or dense_strides(tensor.shape)
    begin = context.origins.get(tensor.name, ZERO)
    return _Place(gcd(begin.const, *begin.terms.values()), tuple(int(n) if n.is_const else 0 for n in strides))


def _tile(stage: Tensor, slid: _Slid, stored: _Place, context: Context, shared: Memory) -> tuple[int, ...] | None:
    """Positions of a task along each axis of a result: those of which tasks ask for the fewest sectors, if there is a
    task for each multiprocessor.

    Args:
        stored: the result.
    """
    threads = context.target.threads
    assert threads is not None
    extents, each = [size(a.extent) for a in stage.axes], dtypes.size(slid.load.dtype)
    elements, taps = prod(extents), _taps(stage)
    own = dtypes.size(stage.dtype)

    def tasks(sides: Sequence[int]) -> int:
        return prod(ceil(n / side) for n, side in zip(extents, sides, strict=True))

    def part(sides: Sequence[int]) -> list[int]:
        return slid.shape(dict(zip(stage.axes, sides, strict=True)) | taps)

    def fits(sides: Sequence[int]) -> bool:
        most = FEW if elements < MOST * threads.multiprocessors else MOST
        *lines, last = part(sides)
        return min(LEAST, elements) <= prod(sides) <= most and prod(lines) * (last * each + WORD) <= room

    def cost(sides: Sequence[int]) -> float:
        read = _sectors(part(sides), list(map(int, slid.source.shape)), slid.place, each)
        return tasks(sides) * (read + _sectors(sides, extents, stored, own))

    room = SHARE * shared.bytes
    return min(filter(fits, _sides(extents)), key=cost, default=None)


def _sides(extents: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """What a tile may have along the last three axes, and one position along others."""
    last = [sorted({n, *(side for side in SIDES if side < n)}) for n in extents[-3:]]
    lead = [1] * (len(extents) - len(last))
    return ((*lead, *sides) for sides in pairs(*last))


def _sectors(part: Sequence[int], shape: Sequence[int], place: _Place, each: int) -> float:
    """Sectors of memory that a part of a tensor touches, about: runs of it that lie side by side."""
    run, runs, beside = 1, 1, 1
    for n, whole, step in zip(reversed(part), reversed(shape), reversed(place.strides), strict=True):
        if runs == 1 and step == beside:
            run *= min(n, whole)
            beside = step * whole if n >= whole else 0
        else:
            runs *= n
    begins = (run, place.begin, *(step for step in place.strides if step >= run))
    even = all(n * each % SECTOR == 0 for n in begins)
    return runs * (run * each / SECTOR + (0 if even else ENDS))


def _together(s: Schedule, out: str, acc: str, elements: int, context: Context) -> int:
    """Neighbours along the last axis that a thread has."""
    body, axes = s.stages[acc].body, s.stages[acc].tensor.axes
    assert isinstance(body, Reduce)
    many = min(stored_together(s, out, acc, 8, context), neighbours_along(s, body.a, axes[-1:], context))
    while many > 1 and elements < many * SUBGROUP:
        many //= 2
    return many


def _threads(elements: int, context: Context) -> int:
    assert context.target.threads is not None
    many = context.target.threads.preferred
    while many > SUBGROUP and many > elements:
        many //= 2
    return many


def _without_waiting(
    stage: Tensor, slid: _Slid, sides: Sequence[int], most: tuple[int, int], room: int
) -> tuple[int, int, tuple[int, int] | None]:
    """How many neighbours a thread computes and how many it brings at once, at most so many, and how many elements are
    free behind how many last dimensions of the part in shared memory, so that threads that read neighbouring windows
    wait for banks as little as can be.

    Args:
        room: elements that the part may have.
    """
    shape, each = slid.shape(dict(zip(stage.axes, sides, strict=True)) | _taps(stage)), dtypes.size(slid.load.dtype)
    word, dense = max(1, WORD // each), [int(n) for n in dense_strides([as_int(n) for n in shape])]

    def turns(many: int, more: int, behind: int) -> int:
        row = prod(shape[len(shape) - behind :])
        strides = [n if n < row else n // row * (row + more) for n in dense]
        apart = [
            sum(n * (i.coefficient(a) or 0) for n, i in zip(strides, slid.load.indices, strict=True))
            for a in stage.axes
        ]
        total, at_once, threads = 0, min(SUBGROUP, TURN // (each * many)), prod(sides) // many
        for first in range(0, min(threads, 4 * SUBGROUP), at_once):
            reading = [_at((first + n) * many, sides, apart) for n in range(min(at_once, threads - first))]
            total += waiting(dict.fromkeys(p + k for p in reading for k in range(many)), each)
        return total

    rows = [d for d in range(1, len(shape)) if prod(shape[:-d]) > 1]
    found = list[tuple[int, tuple[int, int, tuple[int, int] | None]]]()
    for many, wide in dict.fromkeys((min(most[0], n), min(most[1], max(n, m))) for n in (8, word) for m in (8, word)):
        step = max(many, wide, word)
        tried = [(0, 1), *((n * step, d) for d in rows for n in range(1, 9))]
        fit = [(m, d) for m, d in tried if prod(shape) + m * prod(shape[: len(shape) - d]) <= room]
        least = min((turns(many, m, d), m * prod(shape[: len(shape) - d]), m, d) for m, d in fit)
        found.append((least[0], (many, wide, least[2:] if least[2] else None)))
    # Fewer where at most half as many wait then.
    return next((how for waits, how in found if 2 * waits <= found[0][0]), found[0][1])
