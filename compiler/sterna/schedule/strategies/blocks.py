"""Sums of products in blocks: of bytes by weights that are parts of bytes, each block's sum scaled before it is added.

The register tile of `dot`, with the accumulators of one block's integers beside the float ones of the sum over blocks.
Weights are unpacked in registers: a byte is read once, and each of its parts is a vector of the intrinsic's operand.
"""

from __future__ import annotations

from dataclasses import dataclass

from sterna.intrinsics import Intrinsic
from sterna.ir import dtypes
from sterna.ir.memory import REGISTER
from sterna.schedule.matching import fits
from sterna.schedule.products import factors
from sterna.schedule.schedule import Schedule
from sterna.schedule.strategies.analysis import (
    Context,
    expanded_loads,
    inline_elementwise,
    product,
    reductions,
    size,
    stored_apart,
    stride_of,
)
from sterna.schedule.strategies.register_tile import tiles
from sterna.schedule.strategies.tasks import L2_RATE, make_tasks
from sterna.te import expr as E
from sterna.te.axis import Axis
from sterna.te.expr import Expr, Load
from sterna.te.tensor import Kernel, Tensor

#: The most vectors of columns side by side: the lines of as many streams that are read at once.
MOST_VECTORS = 8


@dataclass(frozen=True)
class _Blocks:
    """The stages of such a kernel, and how an intrinsic computes the inner one.

    Args:
        products: sums of products of integers; total: what adds them up, if there are several blocks.
        weights: the load of the bytes that weights are parts of.
        group: the reduced axis whose neighbours the intrinsic adds up.
        intrinsic: None: products are vectors along the columns.
    """

    products: Tensor
    total: Tensor | None
    weights: Load
    group: Axis
    intrinsic: Intrinsic | None
    lanes: int


def propose(kernel: Kernel, context: Context) -> Schedule | None:
    """The schedule of such a kernel, by dot products if the target has any."""
    found = _analyse(kernel, context)
    if found is None:
        return None
    products, lanes = found.products, found.lanes
    s = Schedule(kernel, context.target.known_intrinsics)
    out = s.outputs[0]
    total = ""
    if found.total is not None:
        total, out = stored_apart(s, found.total)
    inline_elementwise(s)
    *rows, columns = s.stages[out].tensor.axes
    sums = _sums(found, kernel)
    high, wide = product([rows[-1].extent]) if rows else 1, -(-size(columns.extent) // lanes)
    registers = context.target.vector_registers - (found.intrinsic.spare if found.intrinsic else 1)
    mr, nv = context.choose(
        "tile", lambda: tiles(high, wide, registers // (sums + 1)), _tile(high, wide, sums, registers)
    )
    nr = nv * lanes
    column_outer, within = s.split(out, columns.name, nr)
    vector, lane = s.split(out, within, lanes)
    outer, inner = [a.name for a in rows], list[str]()
    if rows:
        outer[-1], unrolled = s.split(out, outer[-1], mr)
        inner = [unrolled]
    s.reorder(out, column_outer, *outer, *inner, vector, lane)
    place = make_tasks(
        s, out, [column_outer, *outer], _cycles(found, context), context, outer[-1] if outer else column_outer
    )
    for axis in (*inner, vector):
        s.unroll(out, axis)
    s.vectorize(out, lane, whole=True)
    if found.total is not None:
        place = _add_up(s, total, out, place, lanes)
        s.compute_at(products.name, total, place, REGISTER)
    else:
        s.compute_at(products.name, out, place, REGISTER)
    _multiply(s, found, context, sums * mr * nv)
    _pack(s, found, nr, total or out)
    return s


def _sums(found: _Blocks, kernel: Kernel) -> int:
    """Sums of integers to an element of one block: what is read of the products at constant positions."""
    reads = [load for stage in kernel.stages for load in stage.reads() if load.tensor is found.products]
    places = zip(found.products.axes, zip(*(load.indices for load in reads), strict=True), strict=True)
    return product([axis.extent for axis, indices in places if all(i.is_const for i in indices)])


def _tile(rows: int, vectors: int, sums: int, registers: int) -> tuple[int, int]:
    """Rows and vectors of a tile: the most products for what is loaded, each with `sums` sums of integers."""
    best, chosen = 0.0, (1, 1)
    for nv in range(1, min(vectors, MOST_VECTORS) + 1):
        for mr in range(1, min(rows, registers) + 1):
            if mr * nv * (sums + 1) + nv + 1 > registers:
                break
            gain = mr * nv / (mr + nv) * min(1.0, mr * nv * sums / 8)
            if gain > best * 1.001:
                best, chosen = gain, (mr, nv)
    return chosen


def _cycles(found: _Blocks, context: Context) -> int:
    """The least cycles of the kernel: for its products, or to read the weights from L2."""
    work = product([a.extent for a in found.products.all_axes])
    weights = found.weights.tensor
    assert isinstance(weights, Tensor)
    rate = found.lanes * (found.intrinsic.group if found.intrinsic else 1) * context.target.rate
    return max(int(work / rate), product(weights.shape) * dtypes.size(weights.dtype) // L2_RATE)


def _add_up(s: Schedule, total: str, out: str, place: str, lanes: int) -> str:
    """Adds up scaled blocks in registers; returns the loop over blocks."""
    s.compute_at(total, out, place, REGISTER)
    *rows, columns = (a.name for a in s.stages[total].tensor.axes)
    (block,) = (leaf for leaf in s.stages[total].leaves if leaf in s.stages[total].reduction_leaves)
    vector, lane = s.split(total, columns, lanes)
    s.reorder(total, block, *rows, vector, lane)
    for axis in (*rows, vector):
        s.unroll(total, axis)
    s.vectorize(total, lane, whole=True)
    return block


def _multiply(s: Schedule, found: _Blocks, context: Context, sums: int) -> None:
    """The products of a block: groups of the reduction, the parts of their bytes, then rows and vectors."""
    t, intrinsic = found.products, found.intrinsic
    vector, lane = s.split(t.name, t.axes[-1].name, found.lanes)
    groups, inner = found.group.name, list[str]()
    if intrinsic is not None:
        groups, group = s.split(t.name, groups, intrinsic.group)
        inner = [group]
    reduction = t.reduction
    assert reduction is not None
    parts = [a.name for a in reduction.axes if a is not found.group]
    kept = [a.name for a in t.axes[:-1]]
    s.reorder(t.name, groups, *parts, *kept, vector, lane, *inner)
    steps = product([a.extent for a in reduction.axes]) // (intrinsic.group if intrinsic else 1)
    if steps * sums <= 2 * context.target.unrolled_products:
        s.unroll(t.name, groups)
    for axis in (*parts, *kept, vector):
        s.unroll(t.name, axis)
    if intrinsic is not None:
        s.tensorize(t.name, lane, *inner, intrinsic.name)
    else:
        s.vectorize(t.name, lane, whole=True)


def _pack(s: Schedule, found: _Blocks, nr: int, reader: str) -> None:
    """Stores the weights in the order in which a tile reads them, and what scales them in panels of as many columns."""
    own = s.stages[reader].tensor
    scaling = [
        load
        for load in expanded_loads(s, s.stages[reader].body)
        if load.tensor in s.kernel.params and own.axes[-1].var in load.indices
    ]
    at = _dimension(found.weights, found.products.axes[-1])
    depth = 1 - at
    order = [(at, "o"), (depth, "o"), (at, "i"), (depth, "i")]
    group = found.intrinsic.group if found.intrinsic else 1
    s.pack(found.weights.tensor.name, {at: nr, depth: group}, order)
    for load in {each.tensor.name: each for each in scaling}.values():
        at = load.indices.index(own.axes[-1].var)
        rest = [(d, "") for d in range(len(load.indices)) if d != at]
        s.pack(load.tensor.name, {at: nr}, [(at, "o"), *rest, (at, "i")])


def _dimension(load: Load, axis: Axis) -> int:
    return load.indices.index(axis.var)


def _analyse(kernel: Kernel, context: Context) -> _Blocks | None:
    found = reductions(kernel)
    if len(kernel.outputs) != 1 or not 1 <= len(found) <= 2 or kernel.scan is not None:
        return None
    products, total = found[0], found[1] if len(found) == 2 else None
    sides = None if products.reduction is None else factors(products.reduction)
    if sides is None or not products.axes or not _adds_blocks(products, total, kernel):
        return None
    for weight, value in (sides, sides[::-1]):
        read = E.loads(weight)
        if (total is None and isinstance(weight, Load)) or not isinstance(value, Load) or len(read) != 1:
            continue
        if read[0].tensor not in kernel.params or len(read[0].indices) != 2 or weight.dtype not in ("int8", "uint8"):
            continue
        fit = _fit(products, total, weight, value, read[0], context)
        if fit is not None:
            return fit
    return None


def _adds_blocks(products: Tensor, total: Tensor | None, kernel: Kernel) -> bool:
    """Whether the total adds up what is computed of the products, and the output has its elements."""
    (out,) = kernel.outputs
    if total is None:
        return out is not products and len(out.axes) >= 1 and out.axes[-1].extent == products.axes[-1].extent
    reduction = total.reduction
    same = len(out.axes) == len(total.axes) and all(
        a.extent == b.extent for a, b in zip(out.axes, total.axes, strict=False)
    )
    return (
        reduction is not None
        and reduction.combiner == "sum"
        and len(reduction.axes) == 1
        and same
        and len(total.axes) <= 2
        and len(products.axes) >= len(total.axes) + 1
    )


def _fit(
    products: Tensor, total: Tensor | None, weight: Expr, value: Load, read: Load, context: Context
) -> _Blocks | None:
    reduction = products.reduction
    columns = products.axes[-1]
    assert reduction is not None
    if columns.var not in read.indices or any(columns in i.symbols() for i in value.indices):
        return None
    depth = read.indices[1 - read.indices.index(columns.var)]
    groups = [
        a
        for a in reduction.axes
        if stride_of(value, a, context.strides) == 1 and depth.coefficient(a) == 1 and a.extent.is_const
    ]
    if len(groups) != 1:
        return None
    for name in context.target.int_dot:
        intrinsic = context.target.known_intrinsics[name]
        left, right = intrinsic.operands
        whole = int(groups[0].extent) % intrinsic.group == 0
        if whole and intrinsic.plain and fits(weight, left) and fits(value, right):
            return _Blocks(products, total, read, groups[0], intrinsic, intrinsic.lanes)
    return _Blocks(products, total, read, groups[0], None, context.target.lanes(32))
