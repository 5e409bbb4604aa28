"""How many neighbouring elements a thread has, so that it reads and stores them at once: vectors of the loop program.

An access of 16 bytes moves four times what one of 4 bytes does, by as many instructions. A thread has neighbours only
where everything that it reads or stores of them lies side by side, at a multiple of their bytes, or is the same for all
of them. Where elements are few, tasks have fewer threads, and as many elements as without neighbours, so that there is
a task for as many multiprocessors.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from math import gcd

from sterna.ir import dtypes
from sterna.ir.integer import ZERO, Atom, Int, Symbol, of
from sterna.ir.memory import SECTOR, Memory
from sterna.schedule.schedule import Schedule
from sterna.schedule.strategies.analysis import Context, expanded, fused, product, stride_of
from sterna.te import expr as E
from sterna.te.axis import Axis
from sterna.te.division import is_quotient
from sterna.te.expr import Reduce
from sterna.te.layout import dense_strides, lies_at
from sterna.te.position import taken_apart
from sterna.te.tensor import Tensor

#: Neighbours that a thread may have.
COUNTS = (8, 4, 2)
#: Threads of a task, at least, for the sake of neighbours: those that access memory together.
FEWEST = 32
#: Elements of a row for each zero behind it.
MOST_PADDED = 8


def neighbours(s: Schedule, out: str, threads: int, context: Context, acc: str = "") -> tuple[int, int]:
    """Elements of an output, neighbours in the order of its axes, that a thread computes, 1 where it has one alone; and
    the threads of a task.

    Args:
        threads: of a task whose threads have one element.
        acc: a stage with a sum for each element of the output, at its own place; "" if there is none.
    """
    device = context.target.threads
    tensor = s.stages[out].tensor
    if device is None or not device.access_bytes or not tensor.axes[-1].extent.is_const:
        return 1, threads
    elements = int(product([a.extent for a in tensor.axes]))
    bodies = [(tensor, expanded(s, s.stages[out].body))]
    if acc:
        sums = s.stages[acc]
        assert isinstance(sums.body, Reduce)
        if sums.body.index is not None:
            return 1, threads
        bodies.append((sums.tensor, expanded(s, sums.body.a)))
    if any(is_quotient(node) for _, body in bodies for node in E.walk(body)):
        return 1, threads  # vectors of integers are divided by way of floats
    last = int(tensor.axes[-1].extent)

    def are(many: int) -> bool:
        return last % many == 0 and all(
            _lie_side_by_side(t, body, _of_known_sizes(t.axes), many, context, {acc}) for t, body in bodies
        )

    def threads_of(many: int) -> int:
        fewer = threads
        while fewer * many > threads and elements < many * fewer * device.multiprocessors:
            fewer //= 2
        return fewer

    enough = (many for many in COUNTS if threads_of(many) >= min(FEWEST, threads) and are(many))
    many = context.choose("neighbours", lambda: (*filter(are, COUNTS), 1), next(enough, 1))
    return many, threads if many == 1 else threads_of(many)


def _of_known_sizes(axes: Sequence[Axis]) -> Sequence[Axis]:
    """The last axes, as many as have known sizes: neighbours are counted along these."""
    unknown = [n for n, axis in enumerate(axes) if not axis.extent.is_const]
    return axes[unknown[-1] + 1 if unknown else 0 :]


def stored_together(s: Schedule, out: str, acc: str, most: int, context: Context) -> int:
    """Neighbours along the last axis of an output that can be one access of each tensor that it reads, and of itself;
    up to so many.

    Args:
        acc: a stage that the output reads at its own place.
    """
    device = context.target.threads
    tensor = s.stages[out].tensor
    if device is None or not device.access_bytes or not tensor.axes[-1].extent.is_const:
        return 1
    body = expanded(s, s.stages[out].body)
    if any(is_quotient(node) for node in E.walk(body)):
        return 1  # vectors of integers are divided by way of floats
    last = tensor.axes[-1:]
    whole = (n for n in COUNTS if n <= most and int(last[0].extent) % n == 0)
    return next((n for n in whole if _lie_side_by_side(tensor, body, last, n, context, {acc})), 1)


def fetched_together(load: E.Load, tiles: Mapping[Axis, int], context: Context) -> int:
    """Neighbours of a tensor's last dimension that a thread brings to shared memory at once, of the tile of it that a
    step needs; 1 where that has parts that do not lie at multiples of them, or the tensor ends among them.

    Args:
        tiles: positions along the axes that the last dimension may be read by.
    """
    device, tensor = context.target.threads, load.tensor
    assert isinstance(tensor, Tensor)
    along = next((axis for axis in tiles if load.indices[-1].coefficient(axis) == 1), None)
    if device is None or not device.access_bytes or along is None or not tensor.shape[-1].is_const:
        return 1
    # A part of a sum begins at a multiple of its terms.
    begin = load.indices[-1] - along.var
    read, axis = ((load,), along) if tensor.body is None else (E.loads(tensor.body), tensor.axes[-1])
    values = () if tensor.body is None else (n for n in E.walk(tensor.body) if isinstance(n, E.IndexValue))
    if any(axis in n.index.symbols() for n in values):
        return 1
    many = gcd(min(device.access_bytes // dtypes.size(tensor.dtype), tiles[along]), int(tensor.shape[-1]))
    many = gcd(many, begin.const, *begin.terms.values())
    for each in read:
        assert isinstance(each.tensor, Tensor)
        if stride_of(each, axis, context.strides) != 1 or each.indices[-1].coefficient(axis) != 1:
            return 1
        strides = context.strides.get(each.tensor.name) or dense_strides(each.tensor.shape)
        first = each.indices[-1] - axis.var if each is not load else ZERO
        steps = (*strides[:-1], first, context.origins.get(each.tensor.name, ZERO))
        many = gcd(many, *(n for step in steps for n in (step.const, *step.terms.values())))
    return many & -many  # what one access can be


def bring_in_order(s: Schedule, local: str, out: str, place: str, shared: Memory, threads: int, many: int = 1) -> None:
    """Lets the threads of a task bring a copy that they share, neighbours along its elements, so many at once."""
    s.compute_at(local, out, place, shared)
    *axes, along = (a.name for a in s.stages[local].tensor.axes)
    if many > 1:
        along, lane = s.split(local, along, many)
        s.vectorize(local, lane)
    _, thread = s.split(local, fused(s, local, [*axes, along]), threads)
    s.bind(local, thread, "thread.x")


def bring(
    s: Schedule,
    local: str,
    reader: str,
    at: str,
    group: tuple[int, int],
    shared: Memory,
    many: int,
    order: Sequence[str] = (),
) -> None:
    """An operand in shared memory, which its reader takes in a loop: all threads of a task bring it.

    Args:
        local: the copy; group: the threads along y and x; many: neighbours that a thread brings at once.
        order: the copy's axes as its elements lie in the device's memory, where the copy lies in another order.
    """
    s.compute_at(local, reader, at, shared)
    *axes, along = order or (a.name for a in s.stages[local].tensor.axes)
    if order:
        s.reorder(local, *axes, along)
    if many > 1:
        along, lane = s.split(local, along, many)
        s.vectorize(local, lane)
    rest, x = s.split(local, fused(s, local, [*axes, along]), group[1])
    _, y = s.split(local, rest, group[0])
    s.bind(local, x, "thread.x")
    s.bind(local, y, "thread.y")


def with_aligned_rows(s: Schedule, load: E.Load, context: Context, most: int = MOST_PADDED) -> E.Load:
    """What is read of a constant whose rows begin at multiples of a sector of memory: with zeros behind each row where
    they would not, and where that adds little, one for so many elements at most; otherwise as it is."""
    device, tensor = context.target.threads, load.tensor
    source = next((p for p in s.kernel.params if p is tensor), None)
    if device is None or not device.access_bytes or source is None or len(source.shape) < 2:
        return load
    bits, own = dtypes.bits(source.dtype), int(source.shape[-1])
    more = -own % (8 * SECTOR // bits)
    if bits < 8 or not more or own < most * more or s.stored_tensor(source) is not source:
        return load
    s.pad_rows(source.name, more)
    longer = (other for stage in s.stages.values() for other in E.loads(stage.body))
    names = {other.tensor.name: other.tensor for other in longer}
    return replace(load, tensor=names[s.stored_tensor(source).name])


def neighbours_along(
    s: Schedule,
    body: E.Expr,
    axes: Sequence[Axis],
    context: Context,
    out: Tensor | None = None,
    sectors: bool = False,
) -> int:
    """Neighbours along some axes of a stage, in their order, that are one access of every tensor that it reads, and of
    an output if it is one; 1 where they are not.

    Args:
        body: of the stage, or what it reduces.
        sectors: whether what is read apart from them has to lie whole sectors of memory apart, as threads side by side
            have it.
    """
    device = context.target.threads
    if device is None or not device.access_bytes or not axes or not all(a.extent.is_const for a in axes):
        return 1
    body, many = expanded(s, body), product([a.extent for a in axes])
    if any(is_quotient(node) for node in E.walk(body)):
        return 1  # vectors of integers are divided by way of floats
    kept = {*s.stages} - {*s.outputs}
    whole = (n for n in COUNTS if many % n == 0)
    return next((n for n in whole if _lie_side_by_side(out, body, axes, n, context, kept, sectors)), 1)


def _lie_side_by_side(
    out: Tensor | None,
    body: E.Expr,
    axes: Sequence[Axis],
    many: int,
    context: Context,
    kept: Collection[str],
    sectors: bool = False,
) -> bool:
    """Whether what runs of elements along some axes read, and they themselves in an output, are runs in memory.

    Args:
        kept: what threads have in registers or shared memory, which begins anywhere.
    """
    device = context.target.threads
    assert device is not None
    (run, lane), at = _positions(axes, many)
    widest = 0
    if out is not None:
        stored = _address(out, tuple(a.var.substitute(at) for a in out.axes), context)
        if not _is_run(stored, lane, many, out.dtype):
            return False
        widest = dtypes.size(out.dtype)
    for load in E.loads(body):
        assert isinstance(load.tensor, Tensor)
        place = _address(load.tensor, tuple(i.substitute(at) for i in load.indices), context)
        if place.coefficient(lane) == 0 or (load.tensor.name in kept and place.coefficient(lane) == 1):
            continue
        if load.tensor.name in kept or not _is_run(place, lane, many, load.dtype):
            return False
        size = dtypes.size(load.dtype)
        if sectors and not lies_at(SECTOR, size, place.substitute(dict.fromkeys(place.symbols() & {run, lane}, ZERO))):
            return False
        widest = max(widest, size)
    values = (n for n in E.walk(body) if isinstance(n, E.IndexValue))
    if any(n.index.substitute(at).coefficient(lane) is None for n in values):
        return False
    return 0 < many * widest <= device.access_bytes


def _positions(axes: Sequence[Axis], many: int) -> tuple[tuple[Symbol, Symbol], Mapping[Atom, Int]]:
    """The numbers of a run of neighbours along some axes, and of an element of it; and what these axes are there."""
    elements = int(product([a.extent for a in axes]))
    run, lane = Symbol("run", 0, elements // many - 1), Symbol("lane", 0, many - 1)
    return (run, lane), taken_apart(axes, of(run) * many + of(lane))


def _address(tensor: Tensor, indices: Sequence[Int], context: Context) -> Int:
    strides = context.strides.get(tensor.name) or dense_strides(tensor.shape)
    begin = context.origins.get(tensor.name, ZERO)
    return sum((index * step for index, step in zip(indices, strides, strict=True)), begin)


def _is_run(place: Int, lane: Symbol, many: int, dtype: str) -> bool:
    """Whether neighbours lie side by side, the first at a multiple of their bytes."""
    size = dtypes.size(dtype)
    return place.coefficient(lane) == 1 and lies_at(many * size, size, place.substitute({lane: ZERO}))
