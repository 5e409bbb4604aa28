"""Kernels whose tasks are run by groups of threads, as on a GPU: the elements of a kernel, its sums, and tiles of
products whose operands the threads of a task bring into their shared memory together.

Other families have a schedule for what is not here: one thread then runs each task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product as pairs
from math import gcd, prod

from sterna.ir import dtypes
from sterna.ir.integer import Int
from sterna.ir.memory import REGISTER, Memory
from sterna.ir.threads import VIRTUAL
from sterna.schedule.schedule import Schedule
from sterna.schedule.strategies import group_attention, group_chain, group_fragments, group_rows, group_transposes
from sterna.schedule.strategies.analysis import (
    Context,
    at_least,
    expanded_loads,
    fused,
    inline_elementwise,
    product,
    reductions,
    size,
    stages_apart,
    stored_apart,
    stride_of,
)
from sterna.schedule.strategies.group_neighbours import (
    bring,
    fetched_together,
    neighbours,
    stored_together,
    with_aligned_rows,
)
from sterna.schedule.strategies.operands import Contraction, contraction_of, single_reduction
from sterna.schedule.strategies.rows import SUMS, keep_lanes, many_terms
from sterna.te.axis import Axis
from sterna.te.expr import Load, Reduce
from sterna.te.tensor import Kernel, Tensor

#: The value of the knob "form" that leaves it to the order of the forms.
FIRST = "first"
#: Rows and columns of a tile, and of the part of it that one thread has in registers.
TILE, OWN = 64, 4
#: What others may be tried for these, and for the terms that are in shared memory at a time.
TILES, OWNS, DEPTHS = (16, 32, 64, 128), (1, 2, 4, 8), (4, 8, 16, 32)
#: Threads of a task that may be tried where each has elements of its own.
THREADS = (32, 64, 128, 256, 512)
#: Terms of a sum whose operands are in shared memory at a time.
DEPTH = 8
#: Rows below which a product is no tile, but sums of their own.
FEW_ROWS = 8
#: Terms of a reduction from which on several threads share it, and results below which they do.
LONG_SUM, FEW_SUMS = 64, 4096
#: Terms from which on several threads share a row, however many rows there are.
SHORT_ROW = 16
#: The share of the shared memory of a task that its operands take.
SHARE = 0.5


def propose(kernel: Kernel, context: Context) -> Schedule | None:
    """The schedule of a kernel for groups of threads, else None; also where tasks have one thread."""
    if context.target.threads is None or kernel.scan is not None:
        return None
    if not all(out.axes for out in kernel.outputs):
        return None
    shared = next((m for m in context.target.memories if m.reach == "block" and m.loadable), None)
    if not reductions(kernel):
        crossed = None if shared is None else group_transposes.propose(kernel, context, shared)
        return crossed or _elements(kernel, context)
    if len(kernel.outputs) > 1:
        return None if shared is None else group_rows.propose(kernel, context, shared)
    stage = single_reduction(kernel)
    if stage is None or not isinstance(stage.body, Reduce) or not _read_in_place(kernel, stage):
        if shared is None:
            return None
        return (
            group_chain.propose(kernel, context)
            or group_attention.propose(kernel, context, shared)
            or group_rows.propose(kernel, context, shared)
        )
    if shared is None:
        return _elements(kernel, context, stage.name)
    forms: dict[str, Callable[[], Schedule | None]] = {
        "fragments": partial(group_fragments.propose, kernel, stage, context, shared),
        "tiles": partial(_tiles, kernel, stage, context, shared),
        "rows": partial(group_rows.propose, kernel, context, shared),
    }
    wanted = context.choose("form", lambda: (*forms, "elements"), FIRST)
    for name, form in forms.items():
        if wanted not in (FIRST, name) or (
            wanted == FIRST and name == "rows" and not _is_for_rows(kernel, stage, context)
        ):
            continue
        found = form()
        if found is not None and (name != "rows" or stage.body.index is None or _exchanges(found)):
            return found
    return _elements(kernel, context, stage.name)


def _is_for_rows(kernel: Kernel, stage: Tensor, context: Context) -> bool:
    """Whether the threads of a task share each sum: there are few sums, or neighbours in memory are terms of one."""
    assert isinstance(stage.body, Reduce)
    terms, elements = (product([a.extent for a in axes]) for axes in (stage.body.axes, kernel.outputs[0].axes))
    return (terms >= LONG_SUM and elements < FEW_SUMS) or (terms >= SHORT_ROW and _is_of_rows(kernel, stage, context))


def _exchanges(s: Schedule) -> bool:
    return any(step.primitive == "across" for step in s.steps)


def _read_in_place(kernel: Kernel, stage: Tensor) -> bool:
    """Whether every element of a reduction is read at its own place, through any stages between."""
    s = Schedule(kernel)
    inline_elementwise(s)
    out = kernel.outputs[0]
    if stage is out:
        return True
    own = tuple(a.var for a in out.axes)
    loads = [load for load in expanded_loads(s, s.stages[out.name].body) if load.tensor is stage]
    return all(load.indices == own for load in loads)


def _is_of_rows(kernel: Kernel, stage: Tensor, context: Context) -> bool:
    """Whether a reduction is over rows of the greatest tensor that it reads: neighbours in memory are its terms, and
    what a thread with a row of its own reads lies far from what the thread beside it does."""
    s = Schedule(kernel)
    inline_elementwise(s)
    body = stage.body
    assert isinstance(body, Reduce)
    read = [(load, load.tensor) for load in expanded_loads(s, body.a) if isinstance(load.tensor, Tensor)]
    if not read or not body.axes or not stage.axes or not all(a.extent.is_const for a in stage.all_axes):
        return False
    greatest, _ = max(read, key=lambda each: product(each[1].shape))
    apart, beside = (stride_of(greatest, axis, context.strides) for axis in (stage.axes[-1], body.axes[-1]))
    return beside == 1 and apart is not None and apart >= int(body.axes[-1].extent)


def _schedule(kernel: Kernel, context: Context) -> Schedule:
    return Schedule(kernel, context.target.known_intrinsics, context.target.memories)


def _elements(kernel: Kernel, context: Context, reduced: str = "") -> Schedule:
    """A thread for every element of the outputs, and its sum in a register if there is one."""
    assert context.target.threads is not None
    most_of_any = context.target.threads.most
    s = _schedule(kernel, context)
    acc = stored_apart(s, kernel.tensor(reduced))[0] if reduced else ""
    inline_elementwise(s, also=stages_apart(s))
    elements = max(product([a.extent for a in out.axes]) for out in kernel.outputs)
    most = min(context.target.threads.preferred, at_least(elements))
    for out in s.outputs:
        *axes, last = (a.name for a in s.stages[out].tensor.axes)
        many, threads = neighbours(s, out, most, context, acc)
        threads = context.choose("threads", lambda: (n for n in THREADS if n <= most_of_any), threads)
        if many > 1 and axes:
            # The last axis by itself, so that it is seen where a sum for each lane lies.
            last, lane = s.split(out, last, many)
            block, thread = s.split(out, fused(s, out, [*axes, last]), threads, overhang=True)
        else:
            block, thread = s.split(out, fused(s, out, [*axes, last]), threads * many, overhang=True)
            if many > 1:
                thread, lane = s.split(out, thread, many)
        if many > 1:
            s.vectorize(out, lane)
        s.parallel(out, block)
        s.bind(out, thread, "thread.x")
        if acc:
            _in_register(s, acc, out, thread, many)
    return s


def _in_register(s: Schedule, acc: str, out: str, thread: str, many: int) -> None:
    """Sums of each thread's own, of parts if they are long: one sum of many terms is off by as many roundings."""
    body = s.stages[acc].body
    assert isinstance(body, Reduce)
    longest = max(body.axes, key=lambda a: size(a.extent), default=None)
    long = longest is not None and longest.extent.is_const and many_terms(body, body.axes)
    if many > 1:
        assert longest is not None
        parts = [acc]
        if long:
            _, part = s.split(acc, longest.name, min(SUMS, size(longest.extent)))
            parts.append(s.rfactor(acc, part, outermost=True))
        for name in parts:
            state = s.stages[name]
            last = state.tensor.axes[-1].name
            terms = [leaf for leaf in state.leaves if leaf in state.reduction_leaves]
            s.reorder(name, *terms, *(leaf for leaf in state.leaves if leaf not in (*terms, last)), last)
            s.vectorize(name, last)
            s.compute_at(name, out, thread, REGISTER)
        if long:
            s.unroll(acc, "lane")
            s.unroll(parts[1], "lane")
        return
    if longest is not None and long:
        keep_lanes(s, acc, longest.name, min(SUMS, size(longest.extent)), out, thread, 1)
        for leaf in list(s.stages[acc].leaves):
            s.unroll(acc, leaf)
    s.compute_at(acc, out, thread, REGISTER)


# ---------------------------------------------------------------- tiles of products
def _is_tiled(c: Contraction) -> bool:
    """Whether a product of two tensors has rows enough that share what a column reads, and sums of known lengths."""
    if c.left.tensor is c.right.tensor:
        return False
    rows = [a for a in c.rows if a not in c.batch]
    # Rows and columns may be of open sizes: their last tile overhangs. Whether none or one tile is there cannot be told
    # from the number of tasks.
    ends = [a.extent.bounds() for a in (c.columns, *rows) if not a.extent.is_const]
    told = all(fewest != 0 or greatest is None or greatest > TILE for fewest, greatest in ends)
    known = told and all(a.extent.is_const for a in c.inner)
    return (
        known and not c.picked and c.columns not in _read_by_left(c) and product([a.extent for a in rows]) >= FEW_ROWS
    )


def _read_by_left(c: Contraction) -> set[Axis]:
    """The axes that positions of the left operand name."""
    return {a for index in c.left.indices for a in index.symbols() if isinstance(a, Axis)}


@dataclass(frozen=True)
class _Tile:
    """The part of a product that a task computes.

    Args:
        down: positions along each axis of rows; across: columns.
        own: rows and columns of a thread, along the last axes; depth: terms whose operands are in shared memory at a
            time.
    """

    down: tuple[int, ...]
    across: int
    own: tuple[int, int]
    depth: int

    @property
    def group(self) -> tuple[int, int]:
        """The threads along rows and columns."""
        return prod(self.down) // self.own[0], self.across // self.own[1]


def _tile(c: Contraction, shared: Memory, context: Context) -> _Tile | None:
    """The tile of a task; None where its threads would be too many, or its operands too large."""
    threads = context.target.threads
    assert threads is not None

    def tile(rows: int, columns: int, own: tuple[int, int], depth: int = DEPTH) -> _Tile:
        down, across = _tile_of(c, rows), min(columns, at_least(size(c.columns.extent)))
        return _Tile(tuple(down), across, (min(own[0], down[-1]), min(own[1], across)), depth)

    def fits(found: _Tile) -> bool:
        return prod(found.group) <= threads.most and _staged_bytes(c, found) <= SHARE * shared.bytes

    own = context.choose("own", lambda: pairs(OWNS, OWNS), (OWN, OWN))

    def others() -> Iterator[tuple[int, int]]:
        return (sides for sides in pairs(TILES, TILES) if fits(tile(*sides, own)))

    by_rule = next(((rows, TILE) for rows in (TILE, TILE // 2, TILE // 4) if fits(tile(rows, TILE, own))), None)
    by_rule = by_rule or next(others(), None)
    if by_rule is None:
        return None
    sides = context.choose("tile", others, by_rule)
    return tile(*sides, own, context.choose("depth", lambda: (n for n in DEPTHS if fits(tile(*sides, own, n))), DEPTH))


def _staged_bytes(c: Contraction, tile: _Tile) -> int:
    """What the operands of a tile take in shared memory, of as many terms as are there at a time."""
    tiles = dict(zip((a for a in c.rows if a not in c.batch), tile.down, strict=True))
    tiles |= {c.columns: min(tile.across, size(c.columns.extent)), c.inner[-1]: tile.depth}
    total = 0
    for load in (c.left, c.right):
        assert isinstance(load.tensor, Tensor)
        spans = []
        for index, n in zip(load.indices, load.tensor.shape, strict=True):
            reach = sum(abs(index.coefficient(a) or 1) * (m - 1) for a, m in tiles.items() if a in index.symbols())
            spans.append(min(size(n), 1 + reach // _step_of(index)))
        total += prod(spans) * dtypes.size(load.dtype)
    return total


def _tiles(kernel: Kernel, stage: Tensor, context: Context, shared: Memory) -> Schedule | None:
    """Tiles of the rows and columns of a product as tasks. Each thread has a few rows and columns in registers; the
    operands pass through shared memory, some terms of the sum at a time."""
    c = contraction_of(stage, kernel, context)
    if c is None or not _is_tiled(c) or (tile := _tile(c, shared, context)) is None:
        return None
    s = _schedule(kernel, context)
    acc, out = stored_apart(s, c.stage)
    inline_elementwise(s)
    c = replace(c, left=with_aligned_rows(s, c.left, context), right=with_aligned_rows(s, c.right, context))
    names = {a: b.name for a, b in zip(c.stage.axes, s.stages[out].tensor.axes, strict=True)}
    rows, down, across, each = [a for a in c.rows if a not in c.batch], tile.down, tile.across, tile.own
    outer = [names[a] for a in c.batch]
    threads: list[str] = []
    for axis, many in zip(rows, down, strict=True):
        block, within = s.split(out, names[axis], many, overhang=True)
        outer.append(block)
        threads.append(within)
    block, columns = s.split(out, names[c.columns], across, overhang=True)
    columns_first = context.choose("order", lambda: (True, False), _columns_outermost(c, down, across, context))
    outer.insert(len(c.batch) if columns_first else len(outer), block)
    # Threads side by side have rows and columns side by side: what one of them has lies as far apart as there are
    # threads, so that they read, store and bring operands next to one another. Columns that are one access stay so.
    together = _columns_together(s, out, acc, c, each[1], context)
    apart = down[-1] // each[0], across // each[1]
    row, threads[-1] = s.split(out, threads[-1], apart[0])
    column, x = s.split(out, columns, apart[1] * together)
    lanes = list[str]()
    if together > 1:
        x, lane = s.split(out, x, together)
        lanes.append(lane)
    s.reorder(out, *outer, *threads, x, row, column, *lanes)
    if lanes:
        s.vectorize(out, lanes[0])
    for strided in (row, column):
        s.bind(out, strided, VIRTUAL)
    s.parallel(out, fused(s, out, outer))
    y = fused(s, out, threads)
    s.bind(out, y, "thread.y")
    s.bind(out, x, "thread.x")
    for axis, step, own in ((c.columns, apart[1] * together, each[1] // together), (rows[-1], apart[0], each[0])):
        if own > 1 and step > 1:
            s.fold(acc, [a.name for a in s.stages[acc].tensor.axes].index(axis.name), step)
    s.compute_at(acc, out, x, REGISTER)
    *others, last = (a.name for a in c.inner)
    part, within = s.split(acc, last, tile.depth)
    s.reorder(acc, *others, part, within, *(a.name for a in s.stages[acc].tensor.axes))
    for axis in s.stages[acc].tensor.axes[: -1 if together > 1 else None]:
        s.unroll(acc, axis.name)
    if together > 1:
        s.vectorize(acc, s.stages[acc].tensor.axes[-1].name)
    for load in (c.left, c.right):
        local = s.cache_read(load.tensor.name, acc)
        for dimension, index in enumerate(load.indices):
            if (step := _step_of(index)) > 1:
                s.stride(local, dimension, step)
        many = fetched_together(load, {c.columns: across, c.inner[-1]: tile.depth}, context)
        bring(s, local, acc, part, tile.group, shared, many)
    return s


def _columns_together(s: Schedule, out: str, acc: str, c: Contraction, most: int, context: Context) -> int:
    """Columns of a thread that are one access to the result and what follows of it, and to the right operand in shared
    memory, whose last dimension they are."""
    right = c.right
    if right.indices[-1] != c.columns.var or any(c.columns in i.symbols() for i in right.indices[:-1]):
        return 1
    return stored_together(s, out, acc, most, context)


def _step_of(index: Int) -> int:
    """How far apart the positions of a dimension that are read lie."""
    return gcd(index.const, *index.terms.values()) if index.terms else 1


def _columns_outermost(c: Contraction, down: Sequence[int], across: int, context: Context) -> bool:
    """Whether tiles are computed in columns rather than in rows: then what a column of tiles reads of the right operand
    comes from memory once, and the left operand once more for every column, unless the cache of all groups holds it."""
    assert context.target.threads is not None
    room = context.target.threads.cache_bytes
    left, right = _bytes_read(c.left, c.batch), _bytes_read(c.right, c.batch)
    rows = [a for a in c.rows if a not in c.batch]
    high = prod(-(-size(a.extent) // tile) for a, tile in zip(rows, down, strict=True))
    wide = -(-size(c.columns.extent) // across)
    by_rows = left + right * (high if right + left // high > room else 1)
    by_columns = right + left * (wide if left + right // wide > room else 1)
    return by_columns < by_rows


def _bytes_read(load: Load, batch: Sequence[Axis]) -> int:
    """What a product of a batch reads of an operand."""
    assert isinstance(load.tensor, Tensor)
    own = [prod(size(a.extent) for a in i.symbols() if isinstance(a, Axis) and a not in batch) for i in load.indices]
    return prod(min(size(n), many) for n, many in zip(load.tensor.shape, own, strict=True)) * dtypes.size(load.dtype)


def _tile_of(c: Contraction, most: int) -> list[int]:
    """How many positions of each row axis a tile has: of the last ones as many as there are, up to so many rows."""
    left, found = most, list[int]()
    for axis in reversed([a for a in c.rows if a not in c.batch]):
        found.insert(0, min(left, at_least(size(axis.extent))))
        left //= found[0]
    return found
