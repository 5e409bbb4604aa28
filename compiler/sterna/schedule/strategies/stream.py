"""One row times a computed matrix, which is read once: in the order in which it lies, or memory is what is waited for.

No row of a tile shares what another one loads. A row of the matrix that registers hold, or a long part of it, is added
to sums in registers; of a longer one, several are walked side by side, and the sums lie in a cache meanwhile.
"""

from __future__ import annotations

from sterna.ir import dtypes
from sterna.ir.memory import REGISTER, SCRATCH
from sterna.schedule.schedule import Schedule
from sterna.schedule.strategies.analysis import (
    Context,
    divisors,
    evenly,
    inline_elementwise,
    results_in_vectors,
    size,
    stored_apart,
)
from sterna.schedule.strategies.operands import Contraction, analyse, least_cycles
from sterna.schedule.strategies.tasks import make_tasks, shared
from sterna.te.axis import Axis
from sterna.te.tensor import Kernel

#: Rows of the matrix that are walked side by side: streams that a processor fetches ahead. Rows a power of two apart
#: share sets of the caches, so that eight are slower than four.
SIDE_BY_SIDE = 4
#: Parts of a row, and bytes of one from which on it may as well be walked by itself.
MOST_PARTS, LONG_PART = 4, 1024
#: Vectors of sums that may be tried in registers.
HELD = (1, 2, 4, 6, 8, 12, 16, 24)
#: Sums that hide one another's latency.
SUMS = 8
#: The share of L1 for the sums of a row; the rows of the matrix pass through the rest.
SHARE_OF_L1 = 0.25


def propose(kernel: Kernel, context: Context) -> Schedule | None:
    """The schedule of a kernel of such a product for each of a batch, or for one, else None."""
    contraction = analyse(kernel, context)
    if contraction is None or not _streams(kernel, contraction, context):
        return None
    s = Schedule(kernel)
    acc, out = stored_apart(s, contraction.stage)
    inline_elementwise(s)
    lanes = context.lanes(kernel)
    *rows, columns = (a.name for a in s.stages[out].tensor.axes)
    vectors = -(-size(contraction.columns.extent) // lanes)
    most = context.target.registers(contraction.stage.dtype)
    held = _held(vectors, lanes, most // 2)
    held = context.choose("held", lambda: (0, *(n for n in HELD if n <= min(vectors, most))), held)
    across = held
    if not held:
        by_rule = _block(vectors, lanes, contraction, context)
        across = context.choose("block", lambda: (-(-vectors // n) for n in (1, 2, 4, 8, 16, 32)), by_rule)
    block, within = s.split(out, columns, lanes * across)
    vector, lane = s.split(out, within, lanes)
    s.reorder(out, *rows, block, vector, lane)
    cycles = least_cycles(contraction, lanes * context.target.rate)
    place = make_tasks(s, out, [*rows, block], cycles, context, block)
    s.vectorize(out, lane)
    (depth,) = contraction.inner
    if held:
        s.unroll(out, vector)
        _in_registers(s, acc, out, place, depth, held, lanes)
    else:
        _in_cache(s, acc, out, place, contraction, lanes, context)
    return s


def _streams(kernel: Kernel, contraction: Contraction, context: Context) -> bool:
    """Whether every row has a computed matrix of its own, along whose rows vectors lie; a window's rows overlap."""
    right, own = contraction.right, {contraction.columns, *contraction.inner}
    if any(len(own.intersection(index.symbols())) > 1 for index in right.indices):
        return False
    batch = all(any(row in index.symbols() for index in right.indices) for row in contraction.rows)
    known = all(a.extent.is_const for a in contraction.stage.all_axes)
    floats = contraction.stage.dtype == "float32" and not contraction.picked and context.lanes(kernel) > 1
    return batch and known and floats and len(contraction.inner) == 1 and right.tensor not in kernel.params


def _held(vectors: int, lanes: int, most: int) -> int:
    """Vectors whose sums are held in registers: a row, or one of a few long parts of it; 0 where that is neither."""
    parts = -(-vectors // most)
    if parts > 1 and (parts > MOST_PARTS or most * lanes * dtypes.size("float32") < LONG_PART):
        return 0
    return -(-vectors // parts)


def _block(vectors: int, lanes: int, contraction: Contraction, context: Context) -> int:
    """Vectors of a row whose sums are kept at a time: those that L1 holds, or of each core, where there is one row."""
    target = context.target
    most = vectors
    if target.l1_bytes:
        most = max(1, int(target.l1_bytes * SHARE_OF_L1) // (lanes * dtypes.size("float32")))
    if not contraction.rows and shared(target, least_cycles(contraction, lanes * target.rate)):
        most = min(most, -(-vectors // target.cores))
    return evenly(vectors, most)


def _in_registers(s: Schedule, acc: str, out: str, place: str, depth: Axis, vectors: int, lanes: int) -> None:
    """Sums in registers, several for each result where there are few results."""
    sums = _divisor(depth, max(1, SUMS // vectors))
    if sums > 1:
        _, part = s.split(acc, depth.name, sums)
        partial = s.rfactor(acc, part, outermost=True)
        s.compute_at(partial, out, place, REGISTER)
        results_in_vectors(s, partial, s.stages[partial].tensor.axes[-1].name, lanes)
    s.compute_at(acc, out, place, REGISTER)
    for loop in results_in_vectors(s, acc, s.stages[acc].tensor.axes[-1].name, lanes):
        if sums > 1:
            s.unroll(acc, loop)


def _in_cache(
    s: Schedule, acc: str, out: str, place: str, contraction: Contraction, lanes: int, context: Context
) -> None:
    """Sums in a cache, to which the products with several rows, far apart, are added at a time."""
    (depth,) = contraction.inner
    streams = _divisor(depth, SIDE_BY_SIDE)
    several = context.choose("side_by_side", lambda: divisors(int(depth.extent), 4 * SIDE_BY_SIDE), streams)
    s.compute_at(acc, out, place, SCRATCH)
    added = depth.name
    if several > 1:
        _, added = s.split(acc, depth.name, int(depth.extent) // several)
        products = s.rfactor(acc, added, outermost=True)
        added = s.stages[acc].leaves[-1]
    vector, lane = s.split(acc, contraction.columns.name, lanes)
    s.reorder(acc, added, *(r.name for r in contraction.rows), vector, lane)
    s.vectorize(acc, lane)
    if several > 1:
        s.compute_at(products, acc, vector, REGISTER)
        for loop in results_in_vectors(s, products, contraction.columns.name, lanes):
            s.unroll(products, loop)


def _divisor(axis: Axis, most: int) -> int:
    """The greatest number up to `most` that divides an extent."""
    return next(n for n in range(most, 0, -1) if int(axis.extent) % n == 0)
