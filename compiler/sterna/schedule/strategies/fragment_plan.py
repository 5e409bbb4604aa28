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
from sterna.schedule.strategies.analysis import Context, product, size, stride_of
from sterna.schedule.strategies.fragment_tiles import LEAST, OWN, SUBGROUPS, large_tile, subgroups_of, tile_of
from sterna.schedule.strategies.group_banks import WORD
from sterna.schedule.strategies.group_images import Image, image_of
from sterna.schedule.strategies.group_order import bytes_read, panel_of
from sterna.targets.target import Threads
from sterna.te import expr as E
from sterna.te.axis import Axis
from sterna.te.expr import Load, Reduce
from sterna.te.tensor import Kernel, Tensor

#: Rows and depth below which most of a fragment would be of no use. Of columns a few are enough where that `pays`, as
#: of an image or of a mask: threads by themselves would share no more of what they read.
FEW, FEW_COLUMNS = 8, 2
#: Threads of a subgroup.
THREADS = 32
#: The share of fragments along the depth that is of use, at least, where taps have fragments of their own.
MOSTLY = 0.75
#: Bytes along the depth that shared memory holds of a row at a time.
ALONG = 64
#: Bytes of the longest row that shared memory holds as a whole where parts of it are no whole sectors, and bytes of
#: all rows of a tile that may be longer.
LONGEST, ROOM = 256, 28 << 10
#: Bytes of a copy that a thread makes at a time, and of a sum.
COPIED, SUM = 16, 4
#: Steps in depth whose matrices are in shared memory together, at least and at most: some are brought while another is
#: multiplied.
BUFFERS, MOST_BUFFERS = 2, 4
#: Matrices side by side that a task may have.
BESIDE = (2, 4)
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
        beside, many: an axis of the batch whose matrices lie side by side in memory, row by row, and how many of them
            one task has: as many as are whole sectors.
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
    beside: Axis | None = None
    many: int = 1

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
        most = _step_bytes(self) // self.many
        fit = (n for n in range(rows, least, -least) if rows % n == 0 and _sums_bytes(n, columns) <= most)
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
    # Of groups of few columns, tiles have several side by side (`group_tiles`).
    fewest = FEW_COLUMNS if all(axis.extent == 1 for axis in batch) else FEW
    if not rows or min(many[0], many[2]) < FEW or many[1] < fewest:
        return None
    turned = (
        is_along(a, (rows[-1],), context) and not is_along(a, reduction.axes, context),
        is_along(b, reduction.axes, context) and not is_along(b, (columns,), context),
    )
    types, rounding = (a.dtype, b.dtype, reduction.dtype), rounding_of(reduction)
    found = intrinsic_of(context, types, rounding, turned)
    if found is None:
        return None
    folded, packed = _folded(reduction, found, fewest == FEW), tuple[int, ...]()
    assert found.tiles is not None
    if found.tiles.along_terms and not turned[1] and isinstance(b, Load) and any(b.tensor is p for p in kernel.params):
        other = intrinsic_of(context, types, rounding, (turned[0], True))
        packed = _along_terms(b, columns, folded) if other is not None else ()
        if other is not None and packed:
            found, turned = other, (turned[0], True)
    each = dtypes.size(kernel.outputs[0].dtype)
    beside, together, by_group = _beside(kernel, (a, b), stage, found, folded, each, context)
    together = 1 if packed or any(turned) else together
    lead = product([axis.extent for axis in batch]) // together
    taps = many[2] // product([axis.extent for axis in folded])
    tile = large_tile(many[0], many[1], lead, context) if len(folded) == 1 and together == 1 else None
    tile = tile or tile_of(many[0], many[1], lead, each)
    depth = _depth(folded, found, tile)
    subgroups = subgroups_of(tile, max(SUBGROUPS, prod(tile) // OWN))
    plan = Plan(found, swapped, turned, batch, rows, folded, depth, tile, subgroups, taps, packed=packed)
    runs = depth * dtypes.size(a.dtype) // COPIED, tile[1] * SUM // PADDING
    if together > 1 and free_runs(plan, True) and all(2 * TURN % n == 0 for n in runs):
        return replace(plan, packed=by_group, beside=beside, many=together)
    return plan


def _beside(
    kernel: Kernel,
    pair: tuple[E.Expr, E.Expr],
    stage: Tensor,
    intrinsic: Intrinsic,
    folded: Sequence[Axis],
    each: int,
    context: Context,
) -> tuple[Axis | None, int, tuple[int, ...]]:
    """The axis of a batch whose rows lie side by side, as those of a convolution's groups do, where one row alone is no
    whole sectors; how many together are, and the dimensions of their constant right factor one after the other. 1 of
    any other product.

    Args:
        each: bytes of an element of the result.
    """
    a, b = pair
    axis = stage.axes[-2] if len(stage.axes) > 1 else stage.axes[-1]
    alone = (None, 1, ())
    if not isinstance(a, Load) or not isinstance(b, Load) or run_of(folded, intrinsic) == 1:
        return alone
    if not any(b.tensor is p for p in kernel.params) or axis.var not in b.indices or axis not in E.axes_of(a):
        return alone
    apart, columns = stride_of(a, axis, context.strides), stage.axes[-1].extent
    if not axis.extent.is_const or not columns.is_const or apart != size(folded[-1].extent):
        return alone
    lengths = size(columns) * each, size(folded[-1].extent) * dtypes.size(a.dtype)
    most = next((n for n in (1, *BESIDE) if not any(n * length % SECTOR for length in lengths)), 1)
    at = b.indices.index(axis.var)
    order = (at, *(d for d in range(len(b.indices)) if d != at))
    return (axis, most, order) if most > 1 and size(axis.extent) % most == 0 else alone


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


def fitting(plan: Plan, shared: Memory) -> Plan:
    """The plan with a smaller tile where shared memory has no room for two steps of it, which rows of a result or of
    the depth that are whole may be."""
    high, wide = plan.tile
    while shared_bytes(plan) > shared.most and max(high, wide) > LEAST:
        high, wide = (high // 2, wide) if high >= wide else (high, max(LEAST, 1 << (wide - 1).bit_length() - 1))
        plan = replace(plan, tile=(high, wide), subgroups=subgroups_of((high, wide), plan.groups))
    return plan


def chosen(plan: Plan, stage: Tensor, context: Context, shared: Memory) -> Plan:
    """The plan with what somebody else chooses of it."""
    threads = context.target.threads
    assert threads is not None
    plan = fitting(plan, shared)

    def fits(tried: Plan) -> bool:
        own = prod(tried.tile) <= OWN * prod(tried.subgroups)
        return own and shared_bytes(tried) <= shared.most and THREADS * prod(tried.subgroups) <= threads.most

    def of(tile: tuple[int, int], subgroups: int) -> Plan:
        return replace(plan, tile=tile, subgroups=subgroups_of(tile, subgroups))

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
    return ceil(
        many[2] // plan.many * ceil(many[0] / plan.tile[0]) * ceil(many[1] / plan.tile[1]) / threads.multiprocessors
    )


def with_image(plan: Plan, kernel: Kernel, stage: Tensor, shared: Memory) -> Plan:
    """The plan with what windows slide over in shared memory where their elements would be gathered otherwise; in
    shorter steps in depth if there is no room for it else, and with tiles within one image of a batch, as those that
    reach into the next one slide over both."""
    factor, _ = multiplied_by(stage, plan.swapped)
    given = isinstance(factor, Load) and any(factor.tensor is t for t in (*kernel.inputs, *kernel.stages))
    along = size(plan.folded[-1].extent) * _size(plan)
    runs = along % COPIED == 0 and along >= SECTOR
    if not given or plan.turned[0] or len(plan.folded) < 2 or runs or plan.many > 1:
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
        plans.append(replace(plan, tile=tile, subgroups=subgroups_of(tile, plan.groups)))
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
    return at_once if not even and at_once % word == 0 and at_once * each < LONGEST else word * max(found)


def _folded(reduction: Reduce, intrinsic: Intrinsic, grouped: bool) -> tuple[Axis, ...]:
    """The last reduced axes, as many as are a sector of memory, where they are runs that threads copy and fragments
    are mostly full of them, such as the channels of a convolution; else all together. Windows that overlap within a
    sector are better brought as an image, where they are not those of groups."""
    words, sector = intrinsic.size("w"), SECTOR // dtypes.size(intrinsic.operands[0])
    for n in range(len(reduction.axes) - 1, 0, -1):
        folded = tuple(reduction.axes[n:])
        terms = product([a.extent for a in folded])
        even = terms % words == 0 or (run_of(folded, intrinsic) > 1 and (n == len(reduction.axes) - 1 or grouped))
        if even and terms >= sector and terms >= MOSTLY * words * ceil(terms / words):
            return folded
    return tuple(reduction.axes)


def run_of(folded: Sequence[Axis], intrinsic: Intrinsic) -> int:
    """Terms that a thread copies at once, if those of a sum are whole runs of so many side by side; else 1."""
    run = COPIED // dtypes.size(intrinsic.operands[0])
    whole = size(folded[-1].extent) % run == 0 and product([a.extent for a in folded]) % run == 0
    return run if whole and intrinsic.size("w") % run == 0 else 1


def shared_bytes(plan: Plan) -> int:
    """Of both matrices in the steps that are there together, and then of sums."""
    return max(_step_bytes(plan), plan.many * _sums_bytes(plan.rows_at_once, plan.tile[1]))


def _sums_bytes(rows: int, columns: int) -> int:
    """Of one matrix."""
    return rows * (SUM * columns + PADDING)


def _step_bytes(plan: Plan) -> int:
    """Of both matrices in the steps that are there together."""
    (rows, columns), depth = plan.tile, plan.depth
    if plan.in_memory:
        return plan.buffers * _size(plan) * depth * (rows + columns)
    left = (depth, rows) if plan.turned[0] else (rows, depth)
    right = (columns, depth) if plan.turned[1] else (depth, columns)
    behind = [PADDING * max(1, free_runs(plan, turned)) for turned in (not plan.turned[0], plan.turned[1])]
    matrices = sum(n * (_size(plan) * along + more) for (n, along), more in zip((left, right), behind, strict=True))
    return plan.buffers * (plan.many * matrices + 2 * 64)


def free_runs(plan: Plan, along_depth: bool) -> int:
    """Runs that are free behind each row of a matrix that is filled up by zeros, where what there is of a row, all of
    it in one step, is no whole sectors of memory; 0 of others. Threads side by side copy what lies side by side there
    of several rows. It is in different banks if rows lie as far apart as there, but for whole turns, and so is what
    fragments are loaded from, as that is an odd number of runs."""
    bytes_of = product([a.extent for a in plan.folded]) * _size(plan)
    if not along_depth or not bytes_of % SECTOR or run_of(plan.folded, plan.intrinsic) == 1:
        return 0
    more = plan.depth * _size(plan) - bytes_of
    return -more // COPIED % TURN if more > 0 else 0


def _size(plan: Plan) -> int:
    """Bytes of an element of both matrices."""
    return dtypes.size(plan.intrinsic.operands[0])
