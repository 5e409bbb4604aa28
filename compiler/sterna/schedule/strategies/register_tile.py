"""The register tile of a sum of products: how many rows and vectors, and how many steps its body holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import gcd

from sterna.ir import dtypes
from sterna.schedule.strategies.analysis import CACHE_LINE, Context, product, size, stride_of
from sterna.schedule.strategies.operands import Contraction
from sterna.schedule.strategies.tasks import shared
from sterna.targets.target import Target
from sterna.te.axis import Axis

#: Vectors that pairs of loads reach from one address: 1 KB with registers of 128 bits.
PAIRED = 64
#: Vectors of the widest tile.
MOST_VECTORS = 8
#: Vectors that a tile may have in a trial, whatever the target says of its registers.
LEAST_TILES = 32
#: Steps of a reduction that may be tried written out, as long as the products of vectors are no more than that.
STEPS, MOST_PRODUCTS = (1, 2, 4, 8, 16, 32, 64), 384
#: Cycles that a sum of vectors waits for its last product; two products begin in each. Eight sums would hide the four
#: cycles of the instruction if each began in the very cycle in which its last one ends; that many reach 86 % of the
#: rate (128 x 384 by 384 x 384, sixteen registers, Zen 5).
LATENCY = 4.6
#: Bytes that come from behind L2 in a cycle.
L3_RATE = 16


@dataclass(frozen=True)
class RegisterTile:
    """A tile of `rows` by `vectors`, each of `lanes` columns."""

    rows: int
    vectors: int
    lanes: int

    @property
    def columns(self) -> int:
        return self.vectors * self.lanes


def register_tile(
    contraction: Contraction,
    lanes: int,
    context: Context,
    most: tuple[int, int] | None = None,
    lengths: Sequence[int] | None = None,
) -> RegisterTile:
    """The tile of the least estimated time.

    Args:
        most: rows and vectors that it may have; as many as caches and registers hold if it is None.
        lengths: of the parts that the rows are computed in, if they are cut into any.
    """
    vectors = -(-size(contraction.columns.extent) // lanes)
    panel = context.panels.get(contraction.right.tensor.name, 0)
    rows, vectors, _ = tile_shape(
        tuple(lengths) if lengths else (size(contraction.rows[-1].extent) if contraction.rows else 1,),
        vectors,
        product([a.extent for a in contraction.inner]),
        room(context.target, contraction.stage.dtype),
        context.target.rate,
        context.target.loads_per_cycle,
        lanes,
        most or (rows_in_cache(contraction, context) if contraction.rows else 1, vectors),
        context.target.l2_bytes if context.target.l1_bytes else 0,
        context.target.tile_registers,
        by_lane(contraction, context),
        panel // lanes,
        context.target.written(contraction.stage.dtype),
        context.target.splat_loads,
    )
    if not panel:
        high = max(lengths) if lengths else size(contraction.rows[-1].extent) if contraction.rows else 1
        wide = min(-(-size(contraction.columns.extent) // lanes), most[1] if most else MOST_VECTORS)
        registers = context.target.registers(contraction.stage.dtype)
        rows, vectors = context.choose("tile", lambda: tiles(high, wide, registers), (rows, vectors))
    return RegisterTile(rows, vectors, lanes)


def tiles(rows: int, vectors: int, registers: int) -> list[tuple[int, int]]:
    """The tiles that may be worth a trial, of at most so many rows and vectors: also some that take more registers than
    the target is said to have."""
    most = max(2 * registers, LEAST_TILES)
    high, wide = min(rows, most), min(vectors, MOST_VECTORS)
    return [(m, n) for n in range(1, wide + 1) for m in range(1, min(high, most // n) + 1)]


def largest_tile(contraction: Contraction, context: Context, lanes: int, cycles: int) -> tuple[int, int]:
    """The most rows and vectors of a tile. Where one tile would be all of a kernel that is worth sharing, it is
    several, side by side.

    Args:
        lanes: columns of a vector.
        cycles: of the kernel.
    """
    vectors = -(-size(contraction.columns.extent) // lanes)
    rows, target = product([a.extent for a in contraction.rows]), context.target
    panels = 1
    if rows <= target.registers(contraction.stage.dtype) and shared(target, cycles):
        panels = max(1, min(target.cores, vectors // 2))
    return rows_in_cache(contraction, context) if contraction.rows else 1, -(-vectors // panels)


def rows_in_cache(contraction: Contraction, context: Context) -> int:
    """How many rows of the left operand can be walked side by side without evicting one another from L1.

    Lines whose addresses differ by a multiple of the size of one way fall into the same set, which holds one line a
    way. A tile reads one line of every row again and again; rows of 1,024 floats, say, all share a set.
    """
    target = context.target
    if not target.l1_bytes:
        return 1 << 30
    stride = stride_of(contraction.left, contraction.rows[-1], context.strides)
    if stride is None:
        return 1 << 30
    way = target.l1_bytes // target.l1_ways
    apart = abs(stride) * dtypes.size(contraction.left.tensor.dtype)
    return target.l1_ways * (way // gcd(way, apart)) if apart >= CACHE_LINE else 1 << 30


def room(target: Target, dtype: str) -> int:
    """Registers of which the sums of a tile of that type and its operands leave one over."""
    return target.registers(dtype) + target.fills_registers


@lru_cache(maxsize=4096)
def tile_shape(
    rows: tuple[int, ...],
    vectors: int,
    depth: int,
    registers: int,
    rate: float,
    loads: float,
    lanes: int,
    most: tuple[int, int],
    l2_bytes: int = 0,
    together: int = 0,
    by_lane: bool = False,
    given: int = 0,
    written: int = 0,
    splat_loads: bool = True,
    latency: float = LATENCY,
) -> tuple[int, int, float]:
    """(MR, NV, cycles): the tile of the least estimated time over all its full and partial instances, at most `most`;
    of rows in parts of so many.

    A step of the reduction is bound by its multiply-adds (`rate` per cycle), its loads (`loads` per cycle) or, where a
    panel of the right operand does not stay in L2 until the next tile, by the rate of what lies behind. A tile costs
    a few cycles to begin and to store.

    Args:
        together: registers for accumulators and all operands of a step, 0 where operands need not be there at once.
        by_lane: whether a load brings as many elements of the left operand as a vector has lanes, which stay in a
            register for so many steps; vectors of the right operand are loaded two at a time.
        given: NV, where panels of the right operand have that many already; 0 where it is to be found.
        written: multiply-adds of all instances together, each of which is code of its own; 0 for any number.
        splat_loads: whether loads repeat elements of the left operand in all lanes.
        latency: cycles that a sum waits for its last product.
    """
    vector = lanes * dtypes.size("float32")
    best: tuple[float, int, int] | None = None
    for nv in (given,) if given else range(1, min(vectors, MOST_VECTORS, most[1]) + 1):
        for mr in range(1, min(max(rows), registers, most[0]) + 1):
            # One register is left over (`room`): compilers load the next operand before the last use of the one before
            # it, and a sum that lies on the stack meanwhile is waited for in every step.
            # Vectors that are multiplied once are loaded one at a time.
            fits = mr * nv + (1 if mr == 1 and lanes > 1 else nv) + 1 < registers
            if together or by_lane:
                fits = mr * nv + nv + mr <= (together or registers)
            if not fits and mr * nv > 1 and not (given and mr == 1):
                break
            cost = 0.0
            heights = {mr, *(n % mr for n in rows)}
            if written and mr * nv > 1 and sum(heights) * (nv + vectors % nv) > written:
                continue
            for m, many_m in ((mr, sum(n // mr for n in rows)), *((n % mr, 1) for n in rows)):
                for n, many_n in ((nv, vectors // nv), (vectors % nv, 1)):
                    if m and n and many_m and many_n:
                        far = l2_bytes and depth * nv * vector > l2_bytes
                        busy = max(m * n / rate, (m + n) / loads)
                        # Narrow machines do as many instructions in a cycle as multiply-adds, whatever they do.
                        if by_lane:
                            busy = (m * n + m / lanes + n / 2) / rate
                        elif not splat_loads and lanes > 1:
                            # Instructions overwrite an operand: of all rows but one, a product begins with a copy.
                            busy = (1.5 * m * n + m + n / 3) / rate
                        step = max(busy, latency if lanes > 1 else 1.0)
                        step = max(step, n * vector / L3_RATE) if far else step
                        cost += many_m * many_n * (depth * step + 12 + 2 * m * n)
            if best is None or cost < best[0] * 0.999:
                best = (cost, mr, nv)
    assert best is not None
    return best[1], best[2], best[0]


def tile_cycles(rows: int, columns: int, depth: int, lanes: int, target: Target) -> float:
    """Cycles that the product of so many rows is estimated to take in the best of its tiles.

    Args:
        columns: of the result; depth: terms of each sum; lanes: columns of a vector.
    """
    vectors = -(-columns // lanes)
    return tile_shape(
        (rows,), vectors, depth, room(target, "float32"), target.rate, target.loads_per_cycle, lanes,
        (rows, vectors), 0, target.tile_registers, target.by_lane, 0, target.written("float32"), target.splat_loads,
    )[2]  # fmt: skip


def by_lane(contraction: Contraction, context: Context) -> bool:
    """Whether vectors are multiplied by elements of vectors of the left operand: the target does, and elements of
    neighbouring steps or rows lie side by side."""
    along = (*contraction.inner[-1:], *contraction.rows[-1:])
    beside = any(stride_of(contraction.left, axis, context.strides) == 1 for axis in along)
    return context.target.by_lane and not contraction.picked and beside


def most_steps(rows: int, vectors: int, lanes: int, context: Context, taken: bool, dtype: str) -> int:
    """Steps of a reduction that the body of a tile may hold, of so many rows and vectors: the target says how many
    multiply-adds. Where each vector of the right operand is used for few of them, it says how many may be loaded.

    Args:
        taken: whether operands of the left are taken from vectors of so many lanes; dtype: of the sums.
    """
    target = context.target
    products = min(target.unrolled_products, target.written(dtype) or target.unrolled_products)
    steps = products // (rows * vectors)
    return min(steps, max(lanes, PAIRED // vectors)) if taken else steps


def part_by_lane(axis: Axis, lanes: int, most: int) -> int:
    """How many steps of a long reduction are written out: whole vectors, without a tail if that is not much less."""
    extent = size(axis.extent) if axis.extent.is_const else 0
    wanted = max(1, most // lanes) if extent else 1
    even = max((n for n in range(1, wanted + 1) if extent % (n * lanes) == 0), default=0)
    return lanes * (even if 2 * even >= wanted else wanted)


def crowded(contraction: Contraction, tile: RegisterTile, context: Context) -> bool:
    """Whether pairs of loads reach several rows of the left operand from one address, but not all: compilers load two
    neighbouring vectors of these rows at a time then, and move sums where registers are too few for them (3 x 3 of 64
    channels: 1.33 instructions a multiply-add, 1.20 if a step takes one vector of each row)."""
    apart = stride_of(contraction.left, contraction.rows[-1], context.strides) if contraction.rows else None
    if apart is None or tile.rows * (tile.vectors + 2) <= context.target.registers(contraction.stage.dtype):
        return False
    return 3 * abs(apart) <= PAIRED * tile.lanes < (tile.rows - 1) * abs(apart)
