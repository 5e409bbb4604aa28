"""Sums of products of bytes, or of 16-bit floats, by the target's dot products: matrix products, convolutions and dense
layers.

The register tile of `contraction`, with groups of neighbouring elements of the reduction added up by one intrinsic: the
weights are packed so that the group of each column lies together, and the activations of a group are repeated in all
lanes. What the reduction lacks of a whole group is zero in the packed weights.
"""

from __future__ import annotations

from dataclasses import dataclass

from sterna.intrinsics import Intrinsic
from sterna.ir import dtypes
from sterna.ir.integer import ZERO, of
from sterna.ir.memory import REGISTER
from sterna.schedule.products import contains
from sterna.schedule.schedule import Schedule
from sterna.schedule.strategies.ahead import fetch_ahead
from sterna.schedule.strategies.analysis import (
    Context,
    contraction_operands,
    inline_elementwise,
    product,
    size,
    stored_apart,
    stride_of,
)
from sterna.schedule.strategies.contraction import padded_tiles, tile_tasks
from sterna.schedule.strategies.operands import Contraction, analyse, least_cycles, single_reduction
from sterna.schedule.strategies.padding import padded_of
from sterna.schedule.strategies.register_tile import largest_tile, tile_shape, tiles
from sterna.schedule.strategies.widened import laid_out, widened_rows, widens, worth_widening
from sterna.targets.target import Target
from sterna.te.axis import Axis
from sterna.te.expr import Load
from sterna.te.tensor import Kernel, Tensor

#: Instructions that make results of a vector of sums, or of one: its bias, its scale, its limits, its store.
_SCALED = 12
#: Cycles that a sum waits for its last product, where one instruction multiplies and adds up.
_LATENCY = 4.0
#: Sums of a tile in general registers, of which there are so many; addresses and the counter of a loop take some.
_SUMS, _GENERAL, _ADDRESSES = 8, 14, 4


@dataclass(frozen=True)
class _Fit:
    """How an intrinsic computes a contraction.

    Args:
        group: the reduced axis whose neighbours it adds up.
        offset: whether the activations are read with the other signedness.
        grouped: whether the right operand lies as the intrinsic takes it, and is not packed.
    """

    intrinsic: Intrinsic
    contraction: Contraction
    group: Axis
    offset: bool
    grouped: bool = False


def propose(kernel: Kernel, context: Context) -> Schedule | None:
    """The schedule of a kernel with one contraction of bytes or 16-bit floats by constant ones, or of bytes by some in
    groups, if the target has dot products."""
    fit = _fit(kernel, context) or _grouped(kernel, context)
    if fit is None:
        return None
    contraction, intrinsic = fit.contraction, fit.intrinsic
    lanes, depth = intrinsic.lanes, intrinsic.group
    s = Schedule(kernel, context.target.known_intrinsics)
    acc, out = stored_apart(s, contraction.stage)
    if fit.offset:
        s.offset(acc, contraction.left.tensor.name)
    if intrinsic.couples > 1:
        _couple(s, acc, contraction, fit.group, context)
    padded = padded_of(contraction.stage, context)
    kept = [] if padded is None else [padded.stage.name]
    wide = ""
    if laid_out(contraction.left):
        wide = contraction.left.tensor.name
        kept = [wide]
    if widens(intrinsic, contraction.left):
        wide = s.cache_read(contraction.left.tensor.name, acc, intrinsic.operands[0])
        # What pads then widens, too.
        kept = [wide]
    inline_elementwise(s, kept)
    cycles = _cycles(contraction, intrinsic, out != contraction.stage.name, context.target)
    mr, nv = _tile(contraction, intrinsic, context, largest_tile(contraction, context, lanes, cycles))
    if not context.panels.get(contraction.right.tensor.name):
        mr, nv = context.choose("tile", lambda: _tiles(contraction, intrinsic, context), (mr, nv))
    nr = nv * lanes
    names = {a.name: o.name for a, o in zip(contraction.stage.axes, s.stages[out].tensor.axes, strict=True)}
    column_outer, column_inner = s.split(out, names[contraction.columns.name], nr)
    column_vector, column_lane = s.split(out, column_inner, _stored_lanes(s, out, intrinsic, nr, context))
    rows = [names[r.name] for r in contraction.rows]
    inner: list[str] = []
    if rows:
        rows[-1], unrolled = s.split(out, rows[-1], mr)
        inner = [unrolled]
    s.reorder(out, column_outer, *rows, *inner, column_vector, column_lane)
    if padded is not None:
        place = padded_tiles(s, out, padded, column_outer, rows, contraction, context, wide)
    elif wide:
        place = widened_rows(s, out, wide, column_outer, rows, contraction, cycles, context)
    else:
        place = tile_tasks(s, out, column_outer, rows, contraction, cycles, context)
    for axis in inner:
        s.unroll(out, axis)
    s.unroll(out, column_vector)
    s.vectorize(out, column_lane, whole=True)
    s.compute_at(acc, out, place, REGISTER)
    vector, lane = s.split(acc, contraction.columns.name, lanes)
    groups, group = s.split(acc, fit.group.name, depth)
    window = _shared_window(fit, context, mr * nv, nv)
    part = _by_lane(fit, context)
    if part > 1:
        groups, step = s.split(acc, groups, part)
        s.by_lane(acc, step, 1 << (part * depth - 1).bit_length())
    reduced = [groups if a is fit.group else a.name for a in contraction.inner if a is not window]
    within = [a.name for a in (*contraction.rows, window) if a is not None]
    block = [lane]
    if intrinsic.rows > 1:
        last = within.index(contraction.rows[-1].name)
        within[last], row = s.split(acc, within[last], intrinsic.rows)
        block.insert(0, row)
    if context.target.by_lane and intrinsic.rows == 1:
        # Each vector of weights is there for all rows, one after the other: it takes one register.
        order = [*([step] if part > 1 else []), vector, *within]
    else:
        order = [*within, vector]
    s.reorder(acc, *reduced, *order, *block, group)
    for axis in within:
        s.unroll(acc, axis)
    s.unroll(acc, vector)
    s.tensorize(acc, *block, group, intrinsic.name)
    if not fit.grouped:
        pack_groups(
            s,
            contraction.right,
            contraction.columns,
            fit.group,
            (nr, lanes // intrinsic.parts),
            (depth, depth // intrinsic.woven if intrinsic.woven > 1 else intrinsic.adjoining),
            intrinsic.woven > 1,
        )
        if padded is None:
            fetch_ahead(s, acc, out, column_outer, rows, contraction, context)
    return s


def _cycles(contraction: Contraction, intrinsic: Intrinsic, scaled: bool, target: Target) -> int:
    """The least cycles of a kernel: for its products, of which a step adds up a group, and to make results of the
    sums, which takes as long where they are short."""
    sums = product([a.extent for a in contraction.stage.axes]) / intrinsic.lanes
    results = _SCALED * sums / target.rate if scaled else 0
    return least_cycles(contraction, intrinsic.elements * intrinsic.depth * target.rate) + int(results)


def _tile(contraction: Contraction, intrinsic: Intrinsic, context: Context, most: tuple[int, int]) -> tuple[int, int]:
    """Rows and vectors of the register tile."""
    target, rows = context.target, size(contraction.rows[-1].extent) if contraction.rows else 1
    vectors = -(-size(contraction.columns.extent) // intrinsic.lanes)
    steps = -(-product([a.extent for a in contraction.inner]) // intrinsic.depth)
    if intrinsic.lanes == 1:
        return _single_sums(intrinsic, rows, vectors, steps, most, target)
    given = context.panels.get(contraction.right.tensor.name, 0) // intrinsic.lanes
    if target.by_lane:
        return _fewest_instructions(intrinsic, rows, vectors, steps, most, target.registers(intrinsic.dtype), given)
    tile_rows, tile_vectors, _ = tile_shape(
        (rows,),
        vectors,
        steps,
        target.registers(intrinsic.dtype) - intrinsic.spare,
        target.rate,
        target.loads_per_cycle,
        intrinsic.lanes,
        most,
        given=given,
        splat_loads=target.splat_loads,
        latency=intrinsic.latency or _LATENCY,
    )
    return tile_rows, tile_vectors


def _tiles(contraction: Contraction, intrinsic: Intrinsic, context: Context) -> list[tuple[int, int]]:
    """The tiles that may be worth a trial: of whole blocks of an intrinsic that gives several rows."""
    rows = size(contraction.rows[-1].extent) if contraction.rows else 1
    vectors = -(-size(contraction.columns.extent) // intrinsic.lanes)
    found = tiles(rows, vectors, context.target.registers(intrinsic.dtype))
    high = intrinsic.rows
    return [
        (m, n)
        for m, n in found
        if high == 1 or ((m % high == 0 or m == rows) and (n * intrinsic.lanes % 4 == 0 or n == vectors))
    ]


def _single_sums(
    intrinsic: Intrinsic, rows: int, columns: int, steps: int, most: tuple[int, int], target: Target
) -> tuple[int, int]:
    """The tile of the fewest instructions where each sum is one number in a general register: products, loads, what
    prepares operands, the loop, and what makes results, of vectors of sums if the target has vectors."""
    lanes = target.lanes(32)
    best: tuple[float, int, int] | None = None
    for wide in range(1, min(columns, most[1], _SUMS) + 1):
        for high in range(1, min(rows, most[0], _SUMS // wide) + 1):
            cost = 0.0
            for m, times in ((high, rows // high), (rows % high, 1)):
                for n, across in ((wide, columns // wide), (columns % wide, 1)):
                    if m and n and times and across:
                        stored = n if n % lanes else n // lanes
                        cost += times * across * (steps * _step(intrinsic, m, n, target) + _SCALED * m * stored)
            if best is None or cost < best[0] * 0.999:
                best = (cost, high, wide)
    assert best is not None
    return best[1], best[2]


def _step(intrinsic: Intrinsic, rows: int, columns: int, target: Target) -> float:
    """Instructions of a step of so many single sums, and those that move what has no register: vectors are operands in
    registers of their own; words that are prepared take two general ones, those of a row and of all columns that more
    rows are multiplied by."""
    sums = rows * columns
    products = intrinsic.instructions * sums + (1 + intrinsic.prepares) * rows + (1 + intrinsic.unpacks) * columns
    if target.vector_bits:
        return products + (2 if sums > target.registers("int32") - 2 else 0)
    held = sums + 2 * (columns if rows > 1 else 1) + 2 + _ADDRESSES
    return products + 3 + 2 * max(0, sums - 4) + 4 * max(0, held - _GENERAL)


def _fewest_instructions(
    intrinsic: Intrinsic, rows: int, vectors: int, steps: int, most: tuple[int, int], registers: int, given: int
) -> tuple[int, int]:
    """The tile of the fewest instructions, which is what counts where they begin two or three at a time: products, what
    prepares the left operands, loads of the right ones two at a time, and what begins and stores a tile.

    Args:
        given: its vectors, where panels of weights have that many already, else 0.
    """
    high, wide = intrinsic.rows, intrinsic.sizes[1] // 16
    best: tuple[float, int, int] | None = None
    for nv in (given,) if given else range(1, min(vectors, most[1], registers) + 1):
        for mr in range(1, min(-(-rows // high) * high, most[0], registers) + 1):
            m = -(-mr // high)
            held = m * nv * intrinsic.parts + nv * wide + max(m, intrinsic.prepares) + intrinsic.spare
            ragged = (mr % high and mr != rows) or (nv * intrinsic.lanes % 4 and nv != vectors)
            if ragged or (held > registers and m * nv > 1 and not (given and m == 1)):
                continue
            cost = 0.0
            for a, times in ((mr, rows // mr), (rows % mr, 1)):
                for b, columns in ((nv, vectors // nv), (vectors % nv, 1)):
                    if a and b and times and columns:
                        part = -(-a // high)
                        step = part * b * intrinsic.instructions + part * intrinsic.prepares + b * wide / 2 + 2
                        stored = a * -(-b * intrinsic.lanes // 8)
                        cost += times * columns * (steps * step + 20 + 16 * stored)
            if best is None or cost < best[0] * 0.999:
                best = (cost, mr, nv)
    assert best is not None
    return best[1], best[2]


def _stored_lanes(s: Schedule, out: str, intrinsic: Intrinsic, columns: int, context: Context) -> int:
    """Lanes of the vectors of a panel of so many columns that the result is computed in: where instructions narrow two
    vectors at once, bytes are computed in two."""
    lanes, target = intrinsic.lanes, context.target
    if intrinsic.rows > 1 or intrinsic.lanes == 1:
        lanes = min(columns, target.lanes(32))
    narrowed = 2 * target.lanes(32) if target.rounds_bytes and dtypes.bits(s.stages[out].tensor.dtype) == 8 else 0
    return narrowed if narrowed > lanes and columns % narrowed == 0 else lanes


def _by_lane(fit: _Fit, context: Context) -> int:
    """Groups of activations that one vector brings, of which each step of the reduction repeats one."""
    intrinsic, steps = fit.intrinsic, -(-size(fit.group.extent) // fit.intrinsic.group)
    if not context.target.by_lane or intrinsic.rows > 1:
        return 1
    return min(context.target.lanes(dtypes.bits(intrinsic.operands[0])) // intrinsic.group, steps)


def _shared_window(fit: _Fit, context: Context, accumulators: int, vectors: int) -> Axis | None:
    """The axis of a window along the rows of a tile: neighbouring rows share what they read. It is walked innermost,
    so that each group of activations is repeated once, if registers also hold the weights of all its places. Where
    a repeated group is an operand in memory and nothing more, there is nothing to gain, and weights that are read in
    another order cost 3 % (ResNet-18)."""
    left, contraction = fit.contraction.left, fit.contraction
    if not contraction.rows or not fit.offset:
        return None
    step = stride_of(left, contraction.rows[-1], context.strides)
    for axis in contraction.inner:
        if axis is fit.group or step is None or stride_of(left, axis, context.strides) != step:
            continue
        places = size(axis.extent)
        needed = accumulators + places * (vectors + 1) + fit.intrinsic.spare + 2
        if places > 1 and needed <= context.target.registers(contraction.stage.dtype):
            return axis
    return None


def _fit(kernel: Kernel, context: Context) -> _Fit | None:
    contraction = analyse(kernel, context)
    if contraction is None or contraction.right.tensor not in kernel.params:
        return None
    found = [i for i in context.target.dot_products if i.dtype == contraction.stage.dtype]
    reduced = [a for a in contraction.inner if stride_of(contraction.left, a, context.strides) == 1]
    if not found or len(reduced) != 1 or any(contraction.columns in i.symbols() for i in contraction.left.indices):
        return None
    (group,) = reduced
    if size(group.extent) == 1:
        return None
    # Both must be dimensions of the weights as they are, so that they can be packed.
    if any(a.var not in contraction.right.indices for a in (group, contraction.columns)):
        return None
    if laid_out(contraction.left) and not contraction.rows:
        return None
    # Where elements of several parts take turns shows only if there are elements of several parts.
    found = [i for i in found if i.woven == 1 or size(group.extent) > i.group // i.woven]
    found = [
        i
        for i in found
        if _holds(i, contraction, context) and (i.couples == 1 or _couples(contraction, group, context))
    ]
    as_it_is = [i for i in found if contains(i.operands[0], contraction.left.dtype)]
    otherwise = [i for i in found if {i.operands[0], contraction.left.dtype} == {"int8", "uint8"}]
    fitting = as_it_is or otherwise
    if not fitting:
        return None
    # Of two that take as long the one whose results come sooner, then the narrower one, which wastes no lanes.
    chosen = min(fitting, key=lambda i: (_instructions(i, contraction, group), i.latency, i.lanes))
    return _Fit(chosen, contraction, group, offset=not as_it_is)


def _holds(intrinsic: Intrinsic, contraction: Contraction, context: Context) -> bool:
    """Whether an intrinsic takes every weight, and enough rows."""
    right = contraction.right.tensor
    if not contains(intrinsic.operands[1], right.dtype) or (
        intrinsic.bounds and right.name not in context.known.symmetric
    ):
        return False
    if widens(intrinsic, contraction.left) and not worth_widening(intrinsic, contraction):
        return False
    return intrinsic.rows == 1 or bool(contraction.rows and size(contraction.rows[-1].extent) >= intrinsic.rows)


def _couples(contraction: Contraction, group: Axis, context: Context) -> bool:
    """Whether weights that are neighbours along an axis can be coupled: two by two, of sums that fit in 24 bits."""
    left, right = contraction.left, contraction.right
    last = right.indices[-1] == of(contraction.columns)
    fits = last and (right.tensor.name, "") in context.known.light
    whole = left.dtype == right.dtype == "int8" and size(group.extent) % 2 == 0
    return fits and whole and padded_of(contraction.stage, context) is None and not laid_out(left)


def _couple(s: Schedule, acc: str, contraction: Contraction, group: Axis, context: Context) -> None:
    """Couples weights, and takes what is added to the sums with them, where they fit in 24 bits with that, too."""
    weights, added = contraction.right.tensor.name, s.addend(acc)
    s.couple(acc, weights, group.name, *([added] if added and (weights, added) in context.known.light else []))


def _instructions(intrinsic: Intrinsic, contraction: Contraction, group: Axis) -> float:
    """Instructions for the products of all columns with one row."""
    rows = size(contraction.rows[-1].extent) if contraction.rows else 1
    whole = -(-rows // intrinsic.rows) / rows
    columns = -(-size(contraction.columns.extent) // intrinsic.lanes)
    return whole * columns * -(-size(group.extent) // intrinsic.depth) * intrinsic.instructions


def _grouped(kernel: Kernel, context: Context) -> _Fit | None:
    """How an intrinsic computes a product whose right operand is computed and has groups of rows side by side."""
    stage = single_reduction(kernel)
    operands = None if stage is None else contraction_operands(stage)
    if stage is None or operands is None or stage.dtype != "int32" or not stage.axes or not context.target.int_dot:
        return None
    columns, inner = stage.axes[-1], stage.reduction.axes if stage.reduction is not None else ()
    for left, right in (operands, operands[::-1]):
        if len(inner) != 1 or len(right.indices) < 3 or right.indices[-2] != columns.var:
            continue
        (k,) = inner
        for intrinsic in (context.target.known_intrinsics[name] for name in context.target.int_dot):
            if not intrinsic.plain:
                continue
            depth, (first, second) = intrinsic.group, intrinsic.operands
            lies = (right.indices[-3], right.indices[-1]) == (k.var // depth, k.var % depth)
            room = right.tensor.shape[-2] if isinstance(right.tensor, Tensor) else ZERO
            whole = room.is_const and int(room) % intrinsic.lanes == 0
            fits = contains(first, left.dtype) and contains(second, right.dtype)
            if not (lies and whole and fits and stride_of(left, k, context.strides) == 1):
                continue
            if any(columns in i.symbols() for i in left.indices):
                continue
            rows = stage.axes[:-1]
            batch = tuple(a for a in rows if any(a in i.symbols() for i in right.indices))
            shared = tuple(a for a in rows if a not in batch)
            contraction = Contraction(stage, left, right, columns, (*batch, *shared), inner)
            return _Fit(intrinsic, contraction, k, offset=False, grouped=True)
    return None


def pack_groups(
    s: Schedule,
    right: Load,
    column: Axis,
    depth: Axis,
    columns: tuple[int, int],
    group: tuple[int, int],
    woven: bool = False,
) -> None:
    """Stores the weights in panels of columns, in the order in which a tile reads them, groups innermost.

    Args:
        column, depth: axes that index dimensions of the weights as they are.
        columns: of a panel and of a vector; group: neighbours along `depth`, and how many of them lie side by side.
        woven: these are not side by side, but the first ones of all such parts, then the second ones.
    """
    across, along = (right.indices.index(a.var) for a in (column, depth))
    rest = [(d, "") for d in range(len(right.indices)) if d not in (across, along)]
    order = [(across, "o"), *rest, (along, "o")]
    if group[0] == group[1]:
        s.pack(right.tensor.name, {across: columns[0], along: group[0]}, [*order, (across, "i"), (along, "i")])
    else:
        within = [(across, "m"), (along, "m"), (across, "i"), (along, "i")]
        if woven:
            within = [(across, "m"), (across, "i"), (along, "i"), (along, "m")]
        s.pack(right.tensor.name, {across: columns, along: group}, [*order, *within])
