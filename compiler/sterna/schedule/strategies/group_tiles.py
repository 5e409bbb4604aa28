"""Products in tiles, whose operands the threads of a task bring into their shared memory together: matrix products and
convolutions (implicit GEMM)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product as pairs
from math import gcd, prod

from sterna.ir import dtypes
from sterna.ir.integer import ZERO, Int, of
from sterna.ir.memory import REGISTER, SECTOR, Memory
from sterna.ir.threads import VIRTUAL
from sterna.schedule.products import factors
from sterna.schedule.schedule import Schedule
from sterna.schedule.strategies.analysis import (
    Context,
    at_least,
    fused,
    inline_elementwise,
    product,
    size,
    stored_apart,
    stride_of,
)
from sterna.schedule.strategies.group_banks import in_banks
from sterna.schedule.strategies.group_dots import DEPTH as WORDS_DEPTH
from sterna.schedule.strategies.group_dots import DEPTHS as WORDS_DEPTHS
from sterna.schedule.strategies.group_dots import (
    MOST_TOGETHER,
    Reading,
    bring_packed,
    bring_rows,
    dots_of,
    in_words,
    multiply,
)
from sterna.schedule.strategies.group_neighbours import bring, fetched_together, stored_together, with_aligned_rows
from sterna.schedule.strategies.group_order import bytes_read, in_panels, panel_of
from sterna.schedule.strategies.operands import Contraction, contraction_of
from sterna.te import expr as E
from sterna.te.axis import Axis
from sterna.te.expr import Load, Reduce
from sterna.te.layout import dense_strides, lies_at
from sterna.te.tensor import Kernel, Tensor

#: Rows and columns of a tile, and of the part of it that one thread has in registers.
TILE, OWN = 64, 4
#: Terms of a sum whose operands are in shared memory at a time, and those where they come out even: some are brought
#: while others are multiplied.
DEPTH, EVEN = 8, (16, 8)
#: Terms of a step where rows begin anywhere and are copied element by element: a subgroup copies of one row at a time.
ODD = 32
#: Such parts of a sum that are there together, and columns of a tile from which on parts are long.
BUFFERS, MANY_COLUMNS = 2, 64
#: What others may be tried for these.
TILES, OWNS, DEPTHS = (16, 32, 64, 128), (1, 2, 4, 8), (4, 8, 16, 32)
#: Rows below which a product is no tile, but sums of their own.
FEW_ROWS = 8
#: The share of the shared memory of a task that its operands take.
SHARE = 0.5


def propose(kernel: Kernel, stage: Tensor, context: Context, shared: Memory) -> Schedule | None:
    """Tiles of the rows and columns of a product as tasks. Each thread has a few rows and columns in registers; the
    operands pass through shared memory, some terms of the sum at a time."""
    c = contraction_of(stage, kernel, context)
    if c is None or not _is_tiled(c):
        return None
    dots = dots_of(c, kernel, context)
    c = c if dots else _with_groups(c, context)
    if (tile := _tile(c, shared, context, bool(dots))) is None:
        return None
    s = Schedule(kernel, context.target.known_intrinsics, context.target.memories)
    acc, out = stored_apart(s, c.stage)
    inline_elementwise(s)
    if dots:
        c = in_words(s, acc, c)
    else:
        c = replace(c, left=with_aligned_rows(s, c.left, context), right=with_aligned_rows(s, c.right, context))
    names = {a: b.name for a, b in zip(c.stage.axes, s.stages[out].tensor.axes, strict=True)}
    rows, down, across = [a for a in c.rows if a not in c.batch], tile.down, tile.across
    own, each = tile.own, tile.each
    blocks: list[str] = []
    threads: list[str] = []
    for axis, many in zip(rows, down, strict=True):
        block, within = s.split(out, names[axis], many, overhang=True)
        blocks.append(block)
        threads.append(within)
    block, columns = s.split(out, names[c.columns], across, overhang=True)
    outer = [*(names[a] for a in c.batch), *in_panels(s, out, blocks, block, *_panel(c, tile, context))]
    # Threads side by side have rows and columns side by side: what one of them has lies as far apart as there are
    # threads, so that they read, store and bring operands next to one another. Columns that are one access stay so.
    if dots:
        together = stored_together(s, out, acc, min(each, MOST_TOGETHER), context)
    else:
        together = _columns_together(s, out, acc, c, each, context)
    virtual = list[str]()
    for n, (long, many) in enumerate(zip(down, own, strict=True)):
        if many > 1:
            row, threads[n] = s.split(out, threads[n], long // many)
            virtual.append(row)
    column, x = s.split(out, columns, across // each * together)
    lanes = list[str]()
    if together > 1:
        x, lane = s.split(out, x, together)
        lanes.append(lane)
    s.reorder(out, *outer, *threads, x, *virtual, column, *lanes)
    if lanes:
        s.vectorize(out, lanes[0])
    for strided in (*virtual, column):
        s.bind(out, strided, VIRTUAL)
    s.parallel(out, fused(s, out, outer))
    y = fused(s, out, threads)
    s.bind(out, y, "thread.y")
    s.bind(out, x, "thread.x")
    # By axes of the sums: what a tile has of each, and the threads that share it.
    tiles, sharing = {c.inner[-1].name: min(tile.depth, size(c.inner[-1].extent))}, dict[str, tuple[int, int]]()
    shares = ((axis.name, long, many, 1) for axis, long, many in zip(rows, down, own, strict=True))
    for name, long, many, run in (*shares, (c.columns.name, across, each, together)):
        step, within = long // many * run, name
        if run < many and step > 1:
            each_of, within = s.fold(acc, [a.name for a in s.stages[acc].tensor.axes].index(name), step)
            tiles |= {each_of: many // run, within: step}
        else:
            tiles[name] = long
        sharing[within] = (long // many, run)
    s.compute_at(acc, out, x, REGISTER)
    *others, last = (a.name for a in c.inner)
    part, within = s.split(acc, last, tile.depth)
    if dots:
        multiply(s, acc, [*others, part], within, together, dots)
        reading = Reading(acc, part, last, tiles, sharing, tile.group)
        many = fetched_together(c.left, {c.inner[-1]: tile.depth}, context)
        local = c.left.tensor.name
        if local not in s.stages:
            local = s.cache_read(local, acc)
            _without_gaps(s, local, c.left, rows, context)
        bring_rows(s, local, reading, shared, many)
        local = s.cache_read(c.right.tensor.name, acc)
        bring_packed(s, local, c, reading, shared)
        return s
    s.reorder(acc, *others, part, within, *(a.name for a in s.stages[acc].tensor.axes))
    if tile.buffers:
        part = fused(s, acc, [*others, part])
        s.pipeline(acc, part, tile.buffers)
    for axis in s.stages[acc].tensor.axes[: -1 if together > 1 else None]:
        s.unroll(acc, axis.name)
    if together > 1:
        s.vectorize(acc, s.stages[acc].tensor.axes[-1].name)
    for load in (c.left, c.right):
        local = s.cache_read(load.tensor.name, acc, *_widened(s, acc, load, context))
        alone = _without_gaps(s, local, load, rows, context)
        _apart(s, local, acc, c)
        order = in_banks(s, local, acc, last, tiles, sharing)
        if order is None and not alone:
            _of_one_term(s, local, load, rows)
            order = in_banks(s, local, acc, last, tiles, sharing)
        many = fetched_together(load, {c.columns: across, c.inner[-1]: tile.depth}, context)
        bring(s, local, acc, part, tile.group, shared, many, order or ())
    return s


def _widened(s: Schedule, acc: str, load: Load, context: Context) -> list[str]:
    """The type that an operand of 16 bits has in shared memory: that of the sum, so that it is widened once and not by
    each thread that multiplies it. What is copied while threads compute stays as it is."""
    body = s.stages[acc].body
    assert isinstance(body, Reduce)
    if not _is_widened(load, context):
        return []
    multiplied = [e for e in factors(body) or () if isinstance(e, Load) and e.tensor.name == load.tensor.name]
    return [body.dtype] if len(multiplied) == 1 else []


def _is_widened(load: Load, context: Context) -> bool:
    """Whether an operand is of 16 bits, and wider in shared memory."""
    threads = context.target.threads
    return load.dtype in dtypes.HALVES and threads is not None and not threads.asynchronous_bytes


def _is_tiled(c: Contraction) -> bool:
    """Whether a product of two tensors has rows enough that share what a column reads."""
    if c.left.tensor is c.right.tensor:
        return False
    rows = [a for a in c.rows if a not in c.batch]
    return not c.picked and c.columns not in _read_by_left(c) and product([a.extent for a in rows]) >= FEW_ROWS


def _with_groups(c: Contraction, context: Context) -> Contraction:
    """The product with an axis of its batch as rows, the last ones, where products along it lie side by side and are so
    narrow that one alone has parts of sectors of memory, as groups of few channels are."""
    beside = c.stage.axes[-2] if len(c.stage.axes) > 1 else None
    if beside not in c.batch or not beside.extent.is_const or not c.columns.extent.is_const:
        return c
    terms, columns = stride_of(c.left, beside, context.strides), size(c.columns.extent)
    if not terms or terms > size(c.inner[-1].extent) or columns > TILE // 2:
        return c
    if terms * dtypes.size(c.left.dtype) % SECTOR == 0 and columns * dtypes.size(c.stage.dtype) % SECTOR == 0:
        return c
    return replace(c, rows=(*(a for a in c.rows if a is not beside), beside), beside=beside)


def _apart(s: Schedule, local: str, acc: str, c: Contraction) -> None:
    """Gives the copy of an operand a dimension for products that lie side by side in one with their terms."""
    if c.beside is None:
        return
    beside = next(a for a in s.stages[acc].tensor.axes if a.name == c.beside.name)
    (load,) = (each for each in E.loads(s.stages[acc].body) if each.tensor.name == local)
    step = load.indices[-1].coefficient(beside)
    if step and step > 1:
        s.fold(local, len(load.indices) - 1, step)


def _read_by_left(c: Contraction) -> set[Axis]:
    """The axes that positions of the left operand name."""
    return {a for index in c.left.indices for a in index.symbols() if isinstance(a, Axis)}


@dataclass(frozen=True)
class _Tile:
    """The part of a product that a task computes.

    Args:
        down: positions along each axis of rows; across: columns.
        own: rows of a thread, along each of these axes; each: columns of a thread.
        depth: terms whose operands are in shared memory at a time; buffers: such parts that are there together; 0
            where none is brought while another one is multiplied.
    """

    down: tuple[int, ...]
    across: int
    own: tuple[int, ...]
    each: int
    depth: int
    buffers: int = 0

    @property
    def group(self) -> tuple[int, int]:
        """The threads along rows and columns."""
        return prod(self.down) // prod(self.own), self.across // self.each


def _tile(c: Contraction, shared: Memory, context: Context, words: bool) -> _Tile | None:
    """The tile of a task; None where its threads would be too many, or its operands too large."""
    threads = context.target.threads
    assert threads is not None
    by_rule, depths = (WORDS_DEPTH, WORDS_DEPTHS) if words else (DEPTH, DEPTHS)

    def tile(rows: int, columns: int, own: tuple[int, int], depth: int = by_rule) -> _Tile:
        many = size(c.columns.extent)
        down, across = _tile_of(c, rows), min(columns, at_least(many))
        if c.beside is not None:
            # Threads side by side have what lies side by side of all of them.
            across, own = many, (own[0], gcd(own[1], many))
        return _Tile(tuple(down), across, _own_of(down, own[0]), min(own[1], across), depth)

    def fits(found: _Tile) -> bool:
        return prod(found.group) <= threads.most and _staged_bytes(c, found, context) <= SHARE * shared.bytes

    own = context.choose("own", lambda: pairs(OWNS, OWNS), (OWN, OWN))

    def others() -> Iterator[tuple[int, int]]:
        return (sides for sides in pairs(TILES, TILES) if fits(tile(*sides, own)))

    fit = [(rows, TILE) for rows in (TILE, TILE // 2, TILE // 4) if fits(tile(rows, TILE, own))]
    # Products side by side are several tasks' work.
    enough = (each for each in fit if c.beside is None or _tasks(c, tile(*each, own)) >= threads.multiprocessors)
    found = next(enough, None) or next(reversed(fit), None) or next(others(), None)
    if found is None:
        return None
    sides = context.choose("tile", others, found)
    inner = [a.extent for a in c.inner]
    known = not words and all(n.is_const for n in inner)

    def together(depth: int) -> int:
        """How many parts of so many terms are in shared memory together."""
        found = tile(*sides, own, min(depth, size(inner[-1])))
        if not known or size(inner[-1]) % found.depth or product(inner) <= found.depth:
            return 0
        if BUFFERS * _staged_bytes(c, found, context) <= SHARE * shared.bytes:
            return BUFFERS
        # Where there is no room for two, one of twice as many terms has as many barriers, and half the text.
        return 1 if found.depth == EVEN[0] and fits(found) else 0

    # Few columns have few threads side by side, which would read rows of so many terms from the same banks.
    even = EVEN if tile(*sides, own).across >= MANY_COLUMNS else EVEN[1:]
    if c.beside is not None and size(inner[-1]) <= EVEN[0]:
        even = (size(inner[-1]),)  # of several products that lie side by side all terms do
        by_rule = even[0]
    by_rule = next((n for n in even if together(n)), by_rule)
    if not words and by_rule == DEPTH and _is_odd(c, context) and fits(tile(*sides, own, ODD)):
        by_rule = ODD
    depth = context.choose("depth", lambda: (n for n in depths if fits(tile(*sides, own, n))), by_rule)
    return replace(tile(*sides, own, depth), buffers=together(depth))


def _is_odd(c: Contraction, context: Context) -> bool:
    """Whether rows of the left operand are copied element by element: of neighbours, an odd number, and long."""
    along = c.inner[-1]
    if len(c.inner) > 1 or not along.extent.is_const or c.left.indices[-1] != of(along):
        return False
    terms = size(along.extent)
    return terms % 2 == 1 and terms > ODD and stride_of(c.left, along, context.strides) == 1


def _tasks(c: Contraction, tile: _Tile) -> int:
    """How many tasks there are of a tile."""
    rows = zip((a for a in c.rows if a not in c.batch), tile.down, strict=True)
    across = -(-size(c.columns.extent) // tile.across)
    return product([a.extent for a in c.batch]) * across * prod(-(-size(a.extent) // n) for a, n in rows)


def _own_of(down: Sequence[int], most: int) -> tuple[int, ...]:
    """How many positions of each row axis of a tile one thread has, so many in all: of the first axes, so that threads
    side by side have positions side by side."""
    left, found = most, list[int]()
    for tile in down:
        found.append(min(left, tile))
        left //= found[-1]
    return tuple(found)


def _staged_bytes(c: Contraction, tile: _Tile, context: Context) -> int:
    """What the operands of a tile take in shared memory, of as many terms as are there at a time."""
    tiles = dict(zip((a for a in c.rows if a not in c.batch), tile.down, strict=True))
    tiles |= {c.columns: min(tile.across, size(c.columns.extent)), c.inner[-1]: tile.depth}
    total = 0
    for load in (c.left, c.right):
        assert isinstance(load.tensor, Tensor)
        spans, alone = [], _is_of_one_term(load, context)
        for index, n in zip(load.indices, load.tensor.shape, strict=True):
            reach = sum(abs(index.coefficient(a) or 1) * (m - 1) for a, m in tiles.items() if a in index.symbols())
            apart = alone and index is not load.indices[-1]
            step = _step_of_rows(index, [a for a in c.rows if a not in c.batch]) if apart else _step_of(index)
            spans.append(min(size(n), 1 + reach // step))
        total += prod(spans) * dtypes.size(c.stage.dtype if _is_widened(load, context) else load.dtype)
    return total


def _without_gaps(s: Schedule, local: str, load: Load, rows: Sequence[Axis], context: Context) -> bool:
    """Lets the copy of an operand have no positions between those that a tile reads, such as windows leave that advance
    by several: none that are never read, and of the others only those of one term of the sum, where what lies between
    is in other sectors of memory. Returns whether it is."""
    for dimension, index in reversed([*enumerate(load.indices)]):
        if (step := _step_of(index)) > 1:
            s.stride(local, dimension, step)
    if apart := _is_of_one_term(load, context):
        _of_one_term(s, local, load, rows)
    return apart


def _is_of_one_term(load: Load, context: Context) -> bool:
    """Whether what lies between the positions of one term of the sum is in other sectors of memory than those."""
    tensor = load.tensor
    assert isinstance(tensor, Tensor)
    strides = context.strides.get(tensor.name) or dense_strides(tensor.shape)
    return lies_at(SECTOR, dtypes.size(load.dtype), *strides[:-1], context.origins.get(tensor.name, ZERO))


def _of_one_term(s: Schedule, local: str, load: Load, rows: Sequence[Axis]) -> None:
    """Lets the copy of an operand have positions of one term of the sum alone."""
    for dimension, index in reversed([*enumerate(load.indices[:-1])]):
        if _step_of(index) == 1 and (step := _step_of_rows(index, rows)) > 1:
            s.fold(local, dimension, step)


def _columns_together(s: Schedule, out: str, acc: str, c: Contraction, most: int, context: Context) -> int:
    """Columns of a thread that are one access to the result and what follows of it, and to the right operand in shared
    memory, whose last dimension they are."""
    right = c.right
    if right.indices[-1] != c.columns.var or any(c.columns in i.symbols() for i in right.indices[:-1]):
        return 1
    return stored_together(s, out, acc, most, context)


def _step_of_rows(index: Int, rows: Sequence[Axis]) -> int:
    """How far apart those of one term lie, where all rows are as far apart; else 1, but for what all positions are."""
    every = {index.coefficient(a) or 1 for a in rows if a in index.symbols()}
    return max(1, *every, _step_of(index)) if len(every) == 1 else _step_of(index)


def _step_of(index: Int) -> int:
    """How far apart the positions of a dimension that are read lie."""
    return gcd(index.const, *index.terms.values()) if index.terms else 1


def _panel(c: Contraction, tile: _Tile, context: Context) -> tuple[int, int]:
    """How many columns of tiles are a panel, and how many there are."""
    rows = [a for a in c.rows if a not in c.batch]
    high = prod(-(-size(a.extent) // n) for a, n in zip(rows, tile.down, strict=True))
    wide = -(-size(c.columns.extent) // tile.across)
    read = bytes_read(c.left, c.batch), bytes_read(c.right, c.batch)
    result = product([a.extent for a in (*rows, c.columns)]) * dtypes.size(c.stage.dtype)
    return panel_of(read, result, high, wide, context, c.columns.extent.is_const), wide


def _tile_of(c: Contraction, most: int) -> list[int]:
    """How many positions of each row axis a tile has: of the last ones as many as there are, up to so many rows; and of
    products side by side so many that they have as many columns as one has elsewhere."""
    left, found = most, list[int]()
    if c.beside is not None:
        found.append(min(at_least(size(c.beside.extent)), TILE // at_least(size(c.columns.extent))))
    for axis in reversed([a for a in c.rows if a not in c.batch and a is not c.beside]):
        found.insert(0, min(left, at_least(size(axis.extent))))
        left //= found[0]
    return found
