"""Sums of products in parts: each part in the type of its factors, of 16 bits, the sum of all parts in float32.

The register tile of `contraction` with twice as many lanes. A part stays in registers while it is added up; the sums of
parts are touched once for all its products, in registers as far as there are any, else on the stack.
"""

from __future__ import annotations

from dataclasses import dataclass

from sterna.intrinsics import Intrinsic
from sterna.ir.memory import REGISTER
from sterna.schedule.schedule import Schedule
from sterna.schedule.strategies.analysis import (
    Context,
    contraction_operands,
    inline_elementwise,
    product,
    reductions,
    size,
    stored_apart,
    stride_of,
)
from sterna.schedule.strategies.contraction import tile_tasks
from sterna.schedule.strategies.operands import Contraction, least_cycles
from sterna.schedule.strategies.register_tile import by_lane, largest_tile, tile_shape, tiles
from sterna.te import expr as E
from sterna.te.axis import Axis
from sterna.te.expr import Load
from sterna.te.tensor import Kernel, Tensor


@dataclass(frozen=True)
class _Parts:
    """How a kernel is a sum of parts.

    Args:
        part: the stage that adds up a part; total: the one that adds up parts; both have rows and columns in common.
        outer: the axes of a part that the total reduces.
        contraction: of a part.
        intrinsic: that multiplies and adds in the type of the factors; None where vectors do as the expression says.
    """

    part: Tensor
    total: Tensor
    outer: tuple[Axis, ...]
    contraction: Contraction
    intrinsic: Intrinsic | None


def propose(kernel: Kernel, context: Context) -> Schedule | None:
    """The schedule of a kernel that adds up parts by constant factors, else None."""
    found = _analyse(kernel, context)
    if found is None:
        return None
    contraction, intrinsic = found.contraction, found.intrinsic
    lanes = context.target.lanes(32) if intrinsic is None else intrinsic.lanes
    s = Schedule(kernel, context.target.known_intrinsics)
    acc, out = stored_apart(s, found.total)
    inline_elementwise(s)
    steps = product([a.extent for a in contraction.inner])
    cycles = least_cycles(contraction, lanes * context.target.rate) * product([a.extent for a in found.outer])
    rows, vectors, _ = tile_shape(
        (size(contraction.rows[-1].extent) if contraction.rows else 1,),
        -(-size(contraction.columns.extent) // lanes),
        steps,
        context.target.registers(found.total.dtype),
        context.target.rate,
        context.target.loads_per_cycle,
        lanes,
        largest_tile(contraction, context, lanes, cycles),
        by_lane=by_lane(contraction, context),
        splat_loads=context.target.splat_loads,
    )
    high = size(contraction.rows[-1].extent) if contraction.rows else 1
    across, registers = -(-size(contraction.columns.extent) // lanes), context.target.registers(found.total.dtype)
    rows, vectors = context.choose("tile", lambda: tiles(high, across, registers), (rows, vectors))
    wide = vectors * lanes
    names = {a.name: o.name for a, o in zip(found.total.axes, s.stages[out].tensor.axes, strict=True)}
    column_outer, column_inner = s.split(out, names[found.total.axes[-1].name], wide)
    column_vector, column_lane = s.split(out, column_inner, lanes)
    outer = [names[a.name] for a in found.total.axes[:-1]]
    inner: list[str] = []
    if outer:
        outer[-1], unrolled = s.split(out, outer[-1], rows)
        inner = [unrolled]
    s.reorder(out, column_outer, *outer, *inner, column_vector, column_lane)
    place = tile_tasks(s, out, column_outer, outer, contraction, cycles, context)
    for axis in (*inner, column_vector):
        s.unroll(out, axis)
    whole = intrinsic is not None  # Then a part has all lanes of its vectors, and so have those that read it.
    s.vectorize(out, column_lane, whole)
    s.compute_at(acc, out, place, REGISTER)
    vector, lane = s.split(acc, found.total.axes[-1].name, lanes)
    own = [a.name for a in found.total.axes[:-1]]
    reduction = found.total.reduction
    reduced = [a.name for a in reduction.axes] if reduction is not None else []
    s.reorder(acc, *reduced, *own, vector, lane)
    for axis in (*own, vector):
        s.unroll(acc, axis)
    s.vectorize(acc, lane, whole)
    s.compute_at(found.part.name, acc, reduced[-1], REGISTER)
    _add_up(s, found, lanes, wide, by_lane(contraction, context))
    return s


def _add_up(s: Schedule, found: _Parts, lanes: int, wide: int, taken: bool) -> None:
    """The loops of a part.

    Args:
        wide: columns of a tile.
        taken: whether elements of the left operand are taken from vectors.
    """
    part, contraction, intrinsic = found.part.name, found.contraction, found.intrinsic
    vector, lane = s.split(part, contraction.columns.name, lanes)
    (inner,) = contraction.inner
    depth, group = (inner.name, "") if intrinsic is None else s.split(part, inner.name, 1)
    steps: list[str] = []
    if taken and int(inner.extent) % lanes == 0:
        depth, step = s.split(part, depth, lanes)
        steps = [step]
    around = [a.name for a in found.outer]
    rows = [a.name for a in contraction.rows]
    s.reorder(part, depth, *steps, *around, *rows, vector, lane, *filter(None, [group]))
    for axis in steps:
        s.by_lane(part, axis, lanes)
    for axis in (*around, *rows, vector):
        s.unroll(part, axis)
    if intrinsic is None:
        s.vectorize(part, lane)
    else:
        s.tensorize(part, lane, group, intrinsic.name)
    at = next(d for d, i in enumerate(contraction.right.indices) if i == contraction.columns.var)
    rest = [(d, "") for d in range(len(contraction.right.indices)) if d != at]
    s.pack(contraction.right.tensor.name, {at: wide}, [(at, "o"), *rest, (at, "i")])


def _analyse(kernel: Kernel, context: Context) -> _Parts | None:
    sums = reductions(kernel)
    if len(kernel.outputs) != 1 or len(sums) != 2 or kernel.scan is not None:
        return None
    part, total = sums
    operands, body = contraction_operands(part), total.reduction
    if operands is None or body is None or body.combiner != "sum" or len(part.axes) <= len(total.axes):
        return None
    read = body.a.a if isinstance(body.a, E.Cast) else body.a
    count = len(part.axes) - len(total.axes)
    outer, own = part.axes[:count], part.axes[count:]
    if not isinstance(read, Load) or read.tensor is not part or part.dtype == total.dtype:
        return None
    if read.indices != tuple(a.var for a in (*body.axes, *total.axes)) or not own or own[-1].extent == 1:
        return None
    shape = [a.extent for a in kernel.outputs[0].axes]
    if shape != [a.extent for a in total.axes] or part.reduction is None or len(part.reduction.axes) != 1:
        return None
    columns, rows = own[-1], own[:-1]
    for left, right in (operands, operands[::-1]):
        apart = not any(columns in i.symbols() for i in left.indices)
        packed = right.tensor in kernel.params and columns.var in right.indices
        if apart and packed and not any(a in i.symbols() for i in right.indices for a in rows):
            contraction = Contraction(part, left, right, columns, rows, part.reduction.axes)
            fitting = (i for i in context.target.dot_products if (i.dtype, i.group) == (part.dtype, 1))
            beside = stride_of(left, part.reduction.axes[0], context.strides) == 1
            return _Parts(part, total, outer, contraction, next(fitting, None) if beside else None)
    return None
