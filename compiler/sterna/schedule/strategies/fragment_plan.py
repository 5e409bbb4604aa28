"""Which fragments compute a sum of products, and how its matrices are cut into tiles and steps of them: the choices of
`group_fragments`, by the target's data, the sizes, and where elements lie.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product as pairs
from math import ceil, prod

from sterna.intrinsics import DOTS_OF_WORDS, FRAGMENTS, Intrinsic
from sterna.intrinsics.fragment import ORDERS
from sterna.ir import dtypes
from sterna.ir.memory import BANKS, SECTOR, Memory
from sterna.schedule.matrices import multiplied, rounding_of
from sterna.schedule.strategies.analysis import Context, at_least, product, size, stride_of
from sterna.schedule.strategies.group_banks import WORD
from sterna.schedule.strategies.group_images import Image, image_of
from sterna.schedule.strategies.group_order import bytes_read, panel_of
from sterna.targets.target import Threads
from sterna.te import expr as E
from sterna.te.axis import Axis
from sterna.te.expr import Load, Reduce
from sterna.te.tensor import Kernel, Tensor

#: Rows and columns of the tile of a task, at most and at least, as far as it is halved for the sake of more tasks.
MOST, LEAST = 64, 32
#: Larger tiles, where there are so many tasks for each multiprocessor. A tile asks for both matrices once for so many
#: columns and rows, and of 64 x 64 it waits for the cache that all tasks share.
LARGE, WAVES = ((256, 128), (128, 256), (128, 128), (128, 64), (64, 128)), 2
#: Rows, columns and depth below which most of a fragment would be of no use.
FEW = 8
#: Tasks that keep a device busy.
BUSY = 64
#: Subgroups of a task, and elements of its tile that each has at most: more are more registers than a thread has.
SUBGROUPS, OWN = 4, 64 * 64
#: Threads of a subgroup.
THREADS = 32
#: Bytes along the depth that shared memory holds of a row at a time.
ALONG = 64
#: Bytes of the longest row that shared memory holds as a whole where parts of it are no whole sectors, and bytes of
#: all rows of a tile that may be longer.
LONGEST, ROOM = 192, 28 << 10
#: Bytes of a copy that a thread makes at a time, and of a sum.
COPIED, SUM = 16, 4
#: Steps in depth whose matrices are in shared memory together, at least and at most: some are brought while another is
#: multiplied.
BUFFERS, MOST_BUFFERS = 2, 4
#: Rows of an image for each one that its last tile may reach beyond it, at least, if no tile is to have rows of two.
MOST_BEYOND = 8
#: What others may be tried of a tile's sides and of these.
SIDES, MANY_SUBGROUPS, MANY_STEPS, MANY_BUFFERS = (16, 32, 64, 128, 256), (1, 2, 4, 8), (1, 2, 3, 4), (2, 3, 4)
#: Bytes between the rows of a matrix in shared memory that let neighbouring rows lie in other banks.
PADDING = 16
#: Runs of so many bytes that shared memory takes in a turn.
TURN = BANKS * WORD // PADDING


@dataclass(frozen=True)
class Plan:
    """How fragments compute a sum of products.

    Args:
        swapped: whether the second factor is the left one; turned: see `Schedule.as_matrices`.
        batch, rows: axes of the result; folded: reduced axes that are the depth.
        depth: of a step; tile: rows and columns of a task; subgroups: along both.
        taps: positions of the reduced axes that are not folded, each of which takes steps of its own.
        buffers: steps whose matrices are in shared memory together.
        panel: columns of tiles that are one (`group_order`), and how many there are.
        image: what the windows that are the rows of the left factor slide over, if it comes to shared memory first.
        packed: the dimensions of the right factor, a constant, in the order in which its terms lie side by side; () as
            they are.
    """

    intrinsic: Intrinsic
    swapped: bool
    turned: tuple[bool, bool]
    batch: tuple[Axis, ...]
    rows: tuple[Axis, ...]
    folded: tuple[Axis, ...]
    depth: int
    tile: tuple[int, int]
    subgroups: tuple[int, int]
    taps: int
    buffers: int = BUFFERS
    panel: tuple[int, int] = (1, 1)
    image: Image | None = None
    packed: tuple[int, ...] = ()

    @property
    def terms(self) -> int:
        """Terms that the intrinsic adds up."""
        return terms_of(self.intrinsic)

    @property
    def in_memory(self) -> bool:
        """Whether both matrices are multiplied where they lie."""
        return _is_in_memory(self.intrinsic)

    @property
    def threads(self) -> int:
        """Threads that hold a fragment together."""
        assert self.intrinsic.tiles is not None
        return self.intrinsic.tiles.threads

    @property
    def groups(self) -> int:
        """Such threads, of a task."""
        return prod(self.subgroups)

    @property
    def rows_at_once(self) -> int:
        """Rows of a tile whose sums are in shared memory together, where the matrices of all steps have been: as many
        as take no more."""
        rows, columns = self.tile
        least = self.subgroups[0] * self.intrinsic.size("row")
        fit = (n for n in range(rows, least, -least) if rows % n == 0 and _sums_bytes(n, columns) <= _step_bytes(self))
        return next(fit, least)


def pays(kernel: Kernel, stage: Tensor, context: Context) -> bool:
    """Whether fragments compute a stage sooner than threads do by themselves, by the target's rates and the share of
    the fragments that is of use."""
    plan, device, threads = plan_of(kernel, stage, context), context.target.device, context.target.threads
    if plan is None or device is None or threads is None:
        return plan is not None
    used = 1.0
    for axes, axis in ((plan.rows, "row"), (stage.axes[-1:], "lane"), (plan.folded, "w")):
        many, whole = product([a.extent for a in axes]), plan.intrinsic.size(axis)
        used *= many / (-(-many // whole) * whole)
    words = (DOTS_OF_WORDS[name] for name in threads.dots)
    other = next((dot for dot in words if dot.operands == plan.intrinsic.operands), None)
    return used * device.rate(plan.intrinsic) > device.rate(other)


def terms_of(intrinsic: Intrinsic) -> int:
    """Terms that an intrinsic adds up."""
    return intrinsic.size("w") * intrinsic.size("g")


def multiplied_by(stage: Tensor, swapped: bool) -> tuple[E.Expr, E.Expr]:
    """The left and the right factor of a sum of products."""
    pair = multiplied(stage.body) if stage.body is not None else None
    assert pair is not None
    return pair[::-1] if swapped else pair


def right_of(stage: Tensor, swapped: bool) -> Load:
    """What is read of the right factor, one that is loaded."""
    _, load = multiplied_by(stage, swapped)
    assert isinstance(load, Load)
    return load


def plan_of(kernel: Kernel, stage: Tensor, context: Context) -> Plan | None:
    assert context.target.threads is not None
    reduction, pair = stage.reduction, multiplied(stage.body) if stage.body is not None else None
    if reduction is None or pair is None or not stage.axes:
        return None
    if not context.target.fragments or not all(a.extent.is_const for a in reduction.axes):
        return None
    columns = stage.axes[-1]
    swapped = columns in E.axes_of(pair[0])
    a, b = pair[::-1] if swapped else pair
    if columns in E.axes_of(a) or columns not in E.axes_of(b):
        return None
    # An axis of one position has no place within rows: what lies beyond the last row would be of another one.
    batch = tuple(axis for axis in stage.axes[:-1] if axis in E.axes_of(b) or axis.extent == 1)
    rows = tuple(axis for axis in stage.axes[:-1] if axis not in batch)
    many = [product([axis.extent for axis in axes]) for axes in (rows, (columns,), reduction.axes)]
    if not rows or min(many) < FEW:
        return None
    turned = (
        is_along(a, (rows[-1],), context) and not is_along(a, reduction.axes, context),
        is_along(b, reduction.axes, context) and not is_along(b, (columns,), context),
    )
    types, rounding = (a.dtype, b.dtype, reduction.dtype), rounding_of(reduction)
    found = intrinsic_of(context, types, rounding, turned)
    if found is None:
        return None
    folded, packed = _folded(reduction, found), tuple[int, ...]()
    assert found.tiles is not None
    if found.tiles.along_terms and not turned[1] and isinstance(b, Load) and any(b.tensor is p for p in kernel.params):
        other = intrinsic_of(context, types, rounding, (turned[0], True))
        packed = _along_terms(b, columns, folded) if other is not None else ()
        if other is not None and packed:
            found, turned = other, (turned[0], True)
    lead, taps = product([axis.extent for axis in batch]), many[2] // product([axis.extent for axis in folded])
    tile = _large_tile(many[0], many[1], lead, context) if len(folded) == 1 else None
    tile = tile or _tile(many[0], many[1], lead)
    depth = _depth(folded, found, tile)
    subgroups = _subgroups(tile, max(SUBGROUPS, prod(tile) // OWN))
    return Plan(found, swapped, turned, batch, rows, folded, depth, tile, subgroups, taps, packed=packed)


def _along_terms(load: Load, columns: Axis, folded: Sequence[Axis]) -> tuple[int, ...]:
    """The dimensions of a matrix in the order in which what is added up lies side by side; () where columns have no
    dimension of their own."""
    if columns.var not in load.indices:
        return ()
    across = load.indices.index(columns.var)
    terms = [d for d, i in enumerate(load.indices) if d != across and not i.symbols().isdisjoint(folded)]
    return (*(d for d in range(len(load.indices)) if d not in (across, *terms)), across, *terms)


def _steps(folded: Sequence[Axis], intrinsic: Intrinsic) -> int:
    """Fragments along the depth."""
    return ceil(product([axis.extent for axis in folded]) / intrinsic.size("w"))


def chosen(plan: Plan, stage: Tensor, context: Context, shared: Memory) -> Plan:
    """The plan with what somebody else chooses of it."""
    threads = context.target.threads
    assert threads is not None

    def fits(tried: Plan) -> bool:
        own = prod(tried.tile) <= OWN * prod(tried.subgroups)
        return own and shared_bytes(tried) <= shared.most and THREADS * prod(tried.subgroups) <= threads.most

    def of(tile: tuple[int, int], subgroups: int) -> Plan:
        return replace(plan, tile=tile, subgroups=_subgroups(tile, subgroups))

    def many_of(tile: tuple[int, int]) -> int:
        return max(SUBGROUPS, prod(tile) // OWN)

    sides = (sides for sides in pairs(SIDES, SIDES) if fits(of(sides, many_of(sides))))
    tile = context.choose("tile", lambda: sides, plan.tile)
    many = context.choose("subgroups", lambda: (n for n in MANY_SUBGROUPS if fits(of(tile, n))), many_of(tile))
    plan = of(tile, many)
    whole, word = _steps(plan.folded, plan.intrinsic), plan.intrinsic.size("w")
    depths = (n * word for n in MANY_STEPS if whole % n == 0 and fits(replace(plan, depth=n * word)))
    plan = replace(plan, depth=context.choose("depth", lambda: depths, plan.depth))
    steps = plan.taps * ceil(whole * word / plan.depth)
    more = (n for n in MANY_BUFFERS if n <= steps and fits(replace(plan, buffers=n)))
    by_rule = min(steps, buffers_of(plan, stage, context, shared))
    return replace(plan, buffers=context.choose("buffers", lambda: more, by_rule))


def buffers_of(plan: Plan, stage: Tensor, context: Context, shared: Memory, spare: int = 0) -> int:
    """Steps that are in shared memory together where copies go on while threads multiply: enough that what a
    multiprocessor multiplies while it waits for memory is on its way, and one more, as steps do not take turns evenly;
    no more than lets as many tasks run together as there are registers for.

    Args:
        spare: those that are neither multiplied nor on their way.
    """
    threads, device = context.target.threads, context.target.device
    assert threads is not None
    if not threads.asynchronous_bytes or device is None:
        return BUFFERS
    many = plan.threads * plan.groups
    together = min(threads.together(many, prod(plan.tile) // many), _tasks_of_each(plan, stage, threads))
    rows, columns = plan.tile
    # Bytes that a multiprocessor takes in the time in which its memory answers.
    work = device.rate(plan.intrinsic) / threads.multiprocessors * device.latency_ns
    waiting = work * _size(plan) * (1 / rows + 1 / columns)
    step = (rows + columns) * plan.depth * _size(plan)
    wanted = spare + min(MOST_BUFFERS, 2 + ceil(waiting / (step * together)))
    room = max(shared.bytes // together, shared.share(together))
    fit = (n for n in range(wanted, BUFFERS, -1) if shared_bytes(replace(plan, buffers=n)) <= room)
    return next(fit, BUFFERS)


def _tasks_of_each(plan: Plan, stage: Tensor, threads: Threads) -> int:
    """The tasks of a multiprocessor, where all have as many."""
    many = [product([a.extent for a in axes]) for axes in (plan.rows, stage.axes[-1:], plan.batch)]
    return ceil(many[2] * ceil(many[0] / plan.tile[0]) * ceil(many[1] / plan.tile[1]) / threads.multiprocessors)


def with_image(plan: Plan, kernel: Kernel, stage: Tensor, shared: Memory) -> Plan:
    """The plan with what windows slide over in shared memory where their elements would be gathered otherwise; in
    shorter steps in depth if there is no room for it else, and with tiles within one image of a batch, as those that
    reach into the next one slide over both."""
    factor, _ = multiplied_by(stage, plan.swapped)
    given = isinstance(factor, Load) and any(factor.tensor is t for t in kernel.inputs)
    runs = all(size(plan.folded[-1].extent) % n == 0 for n in (plan.intrinsic.size("w"), COPIED // _size(plan)))
    if not given or plan.turned[0] or len(plan.folded) < 2 or runs:
        return plan
    assert isinstance(factor, Load)
    plans, within = [plan], product([a.extent for a in plan.rows[1:]])
    known = all(a.extent.is_const for a in plan.rows[1:])
    if len(plan.rows) > 1 and known and -within % plan.tile[0] * MOST_BEYOND <= within:
        plans.append(replace(plan, batch=(*plan.batch, plan.rows[0]), rows=plan.rows[1:]))
    # Half as many positions may be within one line, where more are in two.
    half = plan.tile[0] // 2
    if half >= LEAST and size(plan.rows[-1].extent) % half == 0 and size(plan.rows[-1].extent) % plan.tile[0]:
        tile = (half, plan.tile[1])
        plans.append(replace(plan, tile=tile, subgroups=_subgroups(tile, plan.groups)))
    depths = dict.fromkeys((plan.depth, plan.intrinsic.size("w")))
    for each, depth, buffers in pairs(plans, depths, range(plan.buffers, min(BUFFERS, plan.buffers) - 1, -1)):
        image = image_of(factor, each.rows, each.folded, each.tile[0], depth)
        tried: Plan = replace(each, depth=depth, buffers=buffers, image=image)
        if image is not None and shared_bytes(tried) + image.bytes <= shared.bytes:
            return tried
    return plan


def in_order(plan: Plan, stage: Tensor, context: Context) -> Plan:
    """The plan with panels of tiles."""
    factors = multiplied_by(stage, plan.swapped)
    left, right = (sum(bytes_read(load, plan.batch) for load in E.loads(e)) for e in factors)
    rows, columns = product([a.extent for a in plan.rows]), size(stage.axes[-1].extent)
    high, wide = ceil(rows / plan.tile[0]), ceil(columns / plan.tile[1])
    result = rows * columns * dtypes.size(stage.dtype)
    if not all(a.extent.is_const for a in plan.rows[1:]):
        return replace(plan, panel=(wide, wide))  # a row's number is taken apart, and a task's by numbers alone
    known = stage.axes[-1].extent.is_const
    return replace(plan, panel=(panel_of((left, right), result, high, wide, context, known), wide))


def is_along(factor: E.Expr, axes: Sequence[Axis], context: Context) -> bool:
    """Whether neighbours along one of some axes lie side by side in memory."""
    return any(stride_of(load, axis, context.strides) == 1 for load in E.loads(factor)[:1] for axis in axes)


def intrinsic_of(
    context: Context, types: tuple[str, str, str], rounding: str, turned: tuple[bool, bool]
) -> Intrinsic | None:
    """The target's intrinsic for factors of these types that are rounded and lie so, and sums of the last one."""
    assert context.target.threads is not None
    orders = tuple(ORDERS[turns] for turns in turned)
    known = (FRAGMENTS[name] for name in context.target.fragments if not _is_in_memory(FRAGMENTS[name]))
    wanted = {"rounding": rounding, "orders": orders}
    return next((i for i in known if (*i.operands, i.dtype) == types and wanted.items() <= i.settings.items()), None)


def _is_in_memory(intrinsic: Intrinsic) -> bool:
    return intrinsic.tiles is not None and intrinsic.tiles.in_memory


def _depth(folded: Sequence[Axis], intrinsic: Intrinsic, tile: tuple[int, int]) -> int:
    """Terms of a step: of whole sectors of memory, if those of whole rows are, else a whole row, if it is not too
    long for a tile; else as much of a row as the threads of a subgroup copy at once, where that is little."""
    each, word, steps = dtypes.size(intrinsic.operands[0]), intrinsic.size("w"), _steps(folded, intrinsic)
    found = [n for n in MANY_STEPS if n * word * each <= ALONG and steps % n == 0]
    long = [axis.extent for axis in folded if axis.extent != 1]
    # Windows are gathered, and no row of theirs lies in memory.
    even = len(long) > 1 or product(long) * each % SECTOR == 0
    whole = [n for n in found if (even and n * word * each % SECTOR == 0) or n == steps]
    if whole:
        return word * max(whole)
    if steps * word * each <= max(LONGEST, ROOM // sum(tile)):
        return word * steps
    # Every row begins at another place of a sector: a subgroup that copies parts of several asks for more of them.
    terms = product(long)
    at_once = THREADS * min(COPIED // each, terms & -terms)
    return at_once if not even and at_once % word == 0 and at_once * each <= LONGEST else word * max(found)


def _folded(reduction: Reduce, intrinsic: Intrinsic) -> tuple[Axis, ...]:
    """The last reduced axes, as many as are a sector of memory, where fragments divide them, such as the channels of a
    convolution; else all together."""
    words, sector = intrinsic.size("w"), SECTOR // dtypes.size(intrinsic.operands[0])
    for n in range(len(reduction.axes) - 1, 0, -1):
        terms = product([a.extent for a in reduction.axes[n:]])
        if terms % words == 0 and terms >= sector:
            return tuple(reduction.axes[n:])
    return tuple(reduction.axes)


def _tile(rows: int, columns: int, batch: int) -> tuple[int, int]:
    """Rows and columns of a task: as many as there are or fit, but fewer where that would be few tasks."""
    tile = [max(16, min(MOST, at_least(n))) for n in (rows, columns)]
    while batch * ceil(rows / tile[0]) * ceil(columns / tile[1]) < BUSY and max(tile) > LEAST:
        tile[tile.index(max(tile))] //= 2
    return tile[0], tile[1]


def _large_tile(rows: int, columns: int, batch: int, context: Context) -> tuple[int, int] | None:
    """The large tile that computes and asks for least; None where there are too few tasks of it."""
    threads = context.target.threads
    assert threads is not None

    def tasks(tile: tuple[int, int]) -> int:
        return batch * ceil(rows / tile[0]) * ceil(columns / tile[1])

    def cost(tile: tuple[int, int]) -> float:
        whole = ceil(tasks(tile) / threads.multiprocessors) * prod(tile)
        return whole * (1 + MOST * (1 / tile[0] + 1 / tile[1]))

    enough = [tile for tile in LARGE if tasks(tile) >= WAVES * threads.multiprocessors]
    found = min([*enough, (MOST, MOST)], key=cost)
    return found if found in enough else None


def _subgroups(tile: tuple[int, int], most: int) -> tuple[int, int]:
    """How many subgroups there are along a tile, at most so many: each has a fragment at least."""
    down = min(max(2, tile[0] // 64), most, tile[0] // 16)
    across = min(most // down, tile[1] // 16)
    return min(most // across, tile[0] // 16), across


def shared_bytes(plan: Plan) -> int:
    """Of both matrices in the steps that are there together, and then of sums."""
    return max(_step_bytes(plan), _sums_bytes(plan.rows_at_once, plan.tile[1]))


def _sums_bytes(rows: int, columns: int) -> int:
    return rows * (SUM * columns + PADDING)


def _step_bytes(plan: Plan) -> int:
    """Of both matrices in the steps that are there together."""
    (rows, columns), depth = plan.tile, plan.depth
    if plan.in_memory:
        return plan.buffers * _size(plan) * depth * (rows + columns)
    left = (depth, rows) if plan.turned[0] else (rows, depth)
    right = (columns, depth) if plan.turned[1] else (depth, columns)
    matrices = sum(lines * (_size(plan) * along + PADDING) for lines, along in (left, right))
    return plan.buffers * (matrices + 2 * 64)


def _size(plan: Plan) -> int:
    """Bytes of an element of both matrices."""
    return dtypes.size(plan.intrinsic.operands[0])
