"""How many neighbouring elements a thread has, so that it reads and stores them at once: vectors of the loop program.

An access of 16 bytes moves four times what one of 4 bytes does, by as many instructions. A thread has neighbours only
where everything that it reads or stores of them lies side by side, at a multiple of their bytes, or is the same for all
of them, and as many as leave a task for every multiprocessor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sterna.ir import dtypes
from sterna.ir.integer import ZERO, Atom, Int, Symbol, of
from sterna.loops.copies import lies_at
from sterna.schedule.schedule import Schedule
from sterna.schedule.strategies.analysis import Context, expanded, product
from sterna.te import expr as E
from sterna.te.axis import Axis
from sterna.te.division import is_quotient
from sterna.te.layout import dense_strides
from sterna.te.tensor import Tensor

#: Neighbours that a thread may have.
COUNTS = (8, 4, 2)


def neighbours(s: Schedule, out: str, threads: int, context: Context) -> int:
    """Elements of an output, neighbours in the order of its axes, that a thread computes; 1 where it has one alone.

    Args:
        threads: of a task.
    """
    device = context.target.threads
    tensor = s.stages[out].tensor
    if device is None or not device.access_bytes or not all(a.extent.is_const for a in tensor.axes):
        return 1
    elements = int(product([a.extent for a in tensor.axes]))
    body = expanded(s, s.stages[out].body)
    if any(is_quotient(node) for node in E.walk(body)):
        return 1  # vectors of integers are divided by way of floats
    loads = E.loads(body)
    for many in COUNTS:
        enough = elements >= many * threads * device.multiprocessors
        if elements % many == 0 and enough and _lie_side_by_side(tensor, body, loads, many, context):
            return many
    return 1


def _lie_side_by_side(
    tensor: Tensor, body: E.Expr, loads: Sequence[E.Load], many: int, context: Context
) -> bool:
    device = context.target.threads
    assert device is not None
    lane, at = _positions(tensor, many)
    widest = dtypes.size(tensor.dtype)
    stored = _address(tensor, tuple(at[a] for a in tensor.axes), context)
    if not _is_run(stored, lane, many, tensor.dtype):
        return False
    for load in loads:
        assert isinstance(load.tensor, Tensor)
        place = _address(load.tensor, tuple(i.substitute(at) for i in load.indices), context)
        if place.coefficient(lane) == 0:
            continue
        if not _is_run(place, lane, many, load.dtype):
            return False
        widest = max(widest, dtypes.size(load.dtype))
    values = (n for n in E.walk(body) if isinstance(n, E.IndexValue))
    if any(n.index.substitute(at).coefficient(lane) is None for n in values):
        return False
    return many * widest <= device.access_bytes


def _positions(tensor: Tensor, many: int) -> tuple[Symbol, Mapping[Atom, Int]]:
    """The number of an element among the neighbours, and the axes of an element of any run of them."""
    elements = int(product([a.extent for a in tensor.axes]))
    run, lane = Symbol("run", 0, elements // many - 1), Symbol("lane", 0, many - 1)
    flat, at = of(run) * many + of(lane), dict[Atom, Int]()
    for n, axis in enumerate(reversed(tensor.axes)):
        extent = int(axis.extent)
        at[axis] = flat if n == len(tensor.axes) - 1 else flat % extent
        flat = flat // extent
    return lane, at


def _address(tensor: Tensor, indices: Sequence[Int], context: Context) -> Int:
    strides = context.strides.get(tensor.name) or dense_strides(tensor.shape)
    begin = context.origins.get(tensor.name, ZERO)
    return sum((index * step for index, step in zip(indices, strides, strict=True)), begin)


def _is_run(place: Int, lane: Symbol, many: int, dtype: str) -> bool:
    """Whether neighbours lie side by side, the first at a multiple of their bytes."""
    size = dtypes.size(dtype)
    return place.coefficient(lane) == 1 and lies_at(many * size, size, place.substitute({lane: ZERO}))
