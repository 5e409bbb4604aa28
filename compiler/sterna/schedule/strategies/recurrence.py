"""Kernels with a recurrence: the products of a step in registers, everything element-wise where it is needed.

The last stage of a step, and each one that a product of the same step reads whole, is a *root*: one nest per step, in
tiles of MR rows by NV vectors of hidden units. Products (with one accumulator per gate) and the other states are
computed within the tile of the root that reads them: weights are packed so that a tile reads all of its gates in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sterna.ir import dtypes
from sterna.ir.memory import REGISTER, STATE
from sterna.schedule.schedule import Schedule
from sterna.schedule.strategies.analysis import Context, contraction_operands, expanded_loads, product, size, stride_of
from sterna.schedule.strategies.register_tile import MOST_PRODUCTS, PAIRED, STEPS, most_steps, part_by_lane
from sterna.schedule.strategies.register_tile import tiles as tiles_of
from sterna.schedule.strategies.tasks import L2_RATE, shared
from sterna.te.axis import Axis
from sterna.te.expr import Load, Reduce
from sterna.te.scan import parts
from sterna.te.tensor import Kernel, Scan, Tensor


@dataclass
class _Root:
    """A nest of the step, and the stages that are computed in its tiles.

    Args:
        straight: whether the last axis of all of them is that of the root.
    """

    stage: Tensor
    placed: list[Tensor] = field(default_factory=list)
    straight: bool = True

    @property
    def columns(self) -> Axis | None:
        """The axis that vectors run along."""
        return self.stage.axes[-1] if len(self.stage.axes) > 1 else None


def propose(kernel: Kernel, context: Context) -> Schedule | None:
    """The schedule of a kernel with a recurrence, else None."""
    scan = kernel.scan
    if scan is None:
        return None
    s = Schedule(kernel)
    before, steps, after = parts(scan, [(t, t.body) for t in kernel.stages if t.body is not None])
    kept = kept_stages(s, scan, steps)
    for t in kernel.stages:
        if t.name not in kept:
            s.inline(t.name)
    lanes = context.lanes(kernel)
    packed: set[str] = set()
    for root in _roots(s, [t for t in steps if t.name in kept]):
        _schedule(s, root, context, lanes, packed)
    for t in (*before, *after):
        if t.name in kept and not isinstance(t.body, Reduce):
            _vectors(s, t, lanes)
    return s


def kept_stages(s: Schedule, scan: Scan, steps: Sequence[Tensor]) -> set[str]:
    """Stages that are stored: states, outputs, reductions, and what a reduction of the step reads."""
    kept = {*s.outputs, *(name for carry in scan.carries for name in (carry.start.name, carry.next.name))}
    kept |= {name for name, state in s.stages.items() if isinstance(state.body, Reduce)}
    inside = {t.name for t in steps}
    for t in steps:
        if isinstance(t.body, Reduce):
            kept |= {load.tensor.name for load in t.reads() if load.tensor.name in inside}
    return kept


def _roots(s: Schedule, steps: Sequence[Tensor]) -> list[_Root]:
    """The nests of a step in order, and what is placed in each."""
    homes: dict[str, _Root] = {}
    roots: list[_Root] = []
    for t in reversed(steps):
        readers = {r.name: [x for x in expanded_loads(s, s.stages[r.name].body) if x.tensor is t] for r in steps}
        found = {id(homes[name]): homes[name] for name, loads in readers.items() if loads}
        home = next(iter(found.values())) if len(found) == 1 and t.name not in s.outputs else None
        if home is not None and all(
            _fits(t, s.stages[name].tensor, loads, home) for name, loads in readers.items() if loads
        ):
            home.placed.append(t)
            for name, loads in readers.items():
                last = s.stages[name].tensor.axes[-1].var
                home.straight &= all(load.indices[-1] == last for load in loads)
            homes[t.name] = home
            continue
        homes[t.name] = _Root(t)
        roots.append(homes[t.name])
    return roots[::-1]


def _fits(t: Tensor, reader: Tensor, loads: Sequence[Load], home: _Root) -> bool:
    """Whether a stage can be computed for the tile of the root: its reader, which is in the tile, needs of it only
    what stands at the reader's own position, for any constant index of further axes."""
    if isinstance(reader.body, Reduce) or len(reader.axes) != len(home.stage.axes):
        return False
    own = [a.var for a in reader.axes]
    for load in loads:
        taken = [i for i in load.indices if not i.is_const]
        if taken != [v for v, a in zip(own, reader.axes, strict=True) if a.lo != a.hi]:
            return False
        if not isinstance(t.body, Reduce) and len(load.indices) != len(own):
            return False
    return all(a.extent == b.extent for a, b in zip(reader.axes, home.stage.axes, strict=True))


def _schedule(s: Schedule, root: _Root, context: Context, lanes: int, packed: set[str]) -> None:
    name, stage = root.stage.name, root.stage
    if isinstance(stage.body, Reduce):
        return
    columns = root.columns
    products = [t for t in root.placed if isinstance(t.body, Reduce)]
    time, *others = [a.name for a in stage.axes]
    if columns is None:
        place = time
        lanes = nr = 1
    else:
        lanes = lanes if root.straight else 1
        gates = sum(product([a.extent for a in t.axes]) for t in products) // product([a.extent for a in stage.axes])
        rows = stage.axes[-2] if len(stage.axes) > 2 else None
        vectors = -(-size(columns.extent) // lanes)
        panels = _panels(s, stage, products, vectors, context)
        mr, nv = _tile(
            size(rows.extent) if rows is not None else 1, vectors, max(gates, 1), context.target.registers(stage.dtype),
            context.target.rate, context.target.loads_per_cycle, -(-vectors // panels),
            lanes if any(_by_lane(t, context) for t in products) else 0,
            context.target.splat_loads, context.target.tile_registers,
        )  # fmt: skip
        if not products:
            mr, nv = 1, min(-(-vectors // panels), 4)
        if rows is not None and not rows.extent.is_const:
            # Where the size of the batch is unknown, no tile may cover all of it.
            mr = min(mr, max(1, size(rows.extent) // 2))
        else:
            high, wide = size(rows.extent) if rows is not None else 1, -(-vectors // panels)
            registers = context.target.registers(stage.dtype) // max(gates, 1)
            mr, nv = context.choose("tile", lambda: tiles_of(high, wide, registers), (mr, nv))
        nr = nv * lanes
        outer, inner = s.split(name, columns.name, nr)
        vector, lane = s.split(name, inner, lanes)
        order, unrolled = [outer, *others[:-1]], [vector]
        if rows is not None:
            tiles, within = s.split(name, rows.name, mr)
            order[-1] = tiles
            unrolled = [within, vector]
        s.reorder(name, time, *order, *unrolled, lane)
        place = order[-1]
        if panels > 1:
            s.parallel(name, outer)
        for axis in unrolled:
            s.unroll(name, axis)
        s.vectorize(name, lane)
    states = {carry.next.name for carry in _scan(s).carries}
    for t in root.placed:
        s.compute_at(t.name, name, place, STATE if t.name in states else REGISTER)
        _placed(s, t, columns, lanes, context, nr // lanes)
        if isinstance(t.body, Reduce) and columns is not None:
            _pack(s, t, nr, packed)


def _panels(s: Schedule, stage: Tensor, products: Sequence[Tensor], vectors: int, context: Context) -> int:
    """How many panels of columns there must be at least. Where a step is long, workers share it: they wait for one
    another after every step, which takes a fraction of what it takes to call them.

    Args:
        products: what is computed in the tiles of the stage.
        vectors: of its columns.
    """
    target = context.target
    if not target.barriers or any(not a.extent.is_const for a in stage.axes[1:]):
        return 1
    operands = {load.tensor for t in products for load in contraction_operands(t) or ()}
    weights = sum(product(list(p.shape)) * dtypes.size(p.dtype) for p in s.kernel.params if p in operands)
    work = sum(context.cycles(s.kernel, product([a.extent for a in t.all_axes[1:]])) for t in products)
    step = max(work, weights // L2_RATE)
    return min(target.cores, vectors) if shared(target, 2 * step) else 1


def _scan(s: Schedule) -> Scan:
    assert s.kernel.scan is not None
    return s.kernel.scan


def _placed(s: Schedule, t: Tensor, columns: Axis | None, lanes: int, context: Context, vectors: int) -> None:
    """The nest of a stage within a tile of so many vectors: reduction loops, then rows and gates, then vectors."""
    spatial = [a.name for a in t.axes]
    reduced = [a.name for a in t.reduction.axes] if t.reduction is not None else []
    written = ""
    if reduced and columns is not None:
        assert t.reduction is not None
        beside = vectors * (product([a.extent for a in t.axes]) // size(columns.extent))
        most = (n for n in STEPS if n * beside <= MOST_PRODUCTS)
        if lanes > 1 and _by_lane(t, context):
            steps = most_steps(1, beside, lanes, context, taken=True, dtype=t.dtype)
            steps = context.choose("unrolled", lambda: most, steps)
            reduced[-1:] = s.split(t.name, reduced[-1], part_by_lane(t.reduction.axes[-1], lanes, steps))
            s.by_lane(t.name, reduced[-1], lanes)
        elif (steps := context.choose("unrolled", lambda: most, 1)) > 1:
            reduced[-1:] = s.split(t.name, reduced[-1], steps)
            written = reduced[-1]
    if columns is not None and len(spatial) > 1:
        vector, lane = s.split(t.name, spatial[-1], lanes)
        spatial[-1:] = [vector, lane]
    s.reorder(t.name, *reduced, *spatial)
    if written:
        s.unroll(t.name, written)
    for axis in spatial[:-1] if columns is not None else spatial:
        s.unroll(t.name, axis)
    if columns is not None and len(spatial) > 1:
        s.vectorize(t.name, spatial[-1])


def _by_lane(t: Tensor, context: Context) -> bool:
    """Whether a product takes its left operand from vectors: neighbouring steps read what lies side by side."""
    operands = contraction_operands(t)
    if operands is None or t.reduction is None or not context.target.by_lane:
        return False
    last = t.reduction.axes[-1]
    lefts = [load for load in operands if not any(t.axes[-1] in i.symbols() for i in load.indices)]
    return len(lefts) == 1 and stride_of(lefts[0], last, context.strides) == 1


def _tile(
    rows: int,
    vectors: int,
    gates: int,
    registers: int,
    rate: float,
    loads: float,
    most: int,
    by_lane: int = 0,
    splat_loads: bool = True,
    together: int = 0,
) -> tuple[int, int]:
    """(MR, NV): as `contraction.tile_shape`, where every vector of columns has an accumulator per gate.

    Args:
        by_lane: elements of the left operand that a load brings, 0 where it is repeated in all lanes; splat_loads:
            whether a load repeats it.
        together: registers for accumulators and all operands of a step, 0 where operands need not be there at once. Of
            one row, half of a step's weights or products are there beside the repeated element: V8 keeps 9 and 10 sums
            of three and two gates on the stack, and 8 of one and four in registers.
    """
    best: tuple[float, int, int] | None = None
    for nv in range(1, min(vectors, 8, most) + 1):
        for mr in range(1, min(rows, registers) + 1):
            wide = nv * gates
            operands = mr + (wide if mr > 1 else 2) if by_lane else (wide if mr > 1 else 0) + 1
            fits = mr * wide + operands <= registers and wide * by_lane <= PAIRED
            if together and not by_lane:
                fits &= mr * wide + (wide if mr > 1 else wide // 2 + 1) + mr <= together
            if not fits and mr * nv > 1:
                break
            cost = 0.0
            for m, many_m in ((mr, rows // mr), (rows % mr, 1)):
                for n, many_n in ((nv, vectors // nv), (vectors % nv, 1)):
                    if m and n and many_m and many_n:
                        busy = max(m * n * gates / rate, (m + n * gates) / loads)
                        if by_lane:
                            busy = (m * n * gates + m / by_lane + n * gates / 2) / rate
                        elif not splat_loads:
                            busy = (m * n * gates + m + n * gates / 2) / rate
                        cost += many_m * many_n * max(busy, 4.0)
            if best is None or cost < best[0] * 0.999:
                best = (cost, mr, nv)
    assert best is not None
    return best[1], best[2]


def _pack(s: Schedule, t: Tensor, nr: int, packed: set[str]) -> None:
    """Stores constant weights in panels of NR columns, in the order in which a tile reads them."""
    operands = contraction_operands(t)
    for load in operands or ():
        tensor = load.tensor
        if tensor.name in packed or not any(p is tensor for p in s.kernel.params):
            continue
        at = next((d for d, i in enumerate(load.indices) if i == t.axes[-1].var), None)
        if at is None:
            continue
        # What this product does not vary along comes first.
        fixed = [(d, "") for d, i in enumerate(load.indices) if i.is_const]
        rest = [(d, "") for d, i in enumerate(load.indices) if d != at and not i.is_const]
        # Then the steps of the reduction, of which each reads all gates.
        steps = {a.var for a in t.reduction.axes} if t.reduction is not None else set()
        rest.sort(key=lambda part: load.indices[part[0]] not in steps)
        s.pack(tensor.name, {at: nr}, [*fixed, (at, "o"), *rest, (at, "i")])
        packed.add(tensor.name)


def _vectors(s: Schedule, t: Tensor, lanes: int) -> None:
    """Vectors along the last axis."""
    if lanes > 1 and size(t.axes[-1].extent) > 1:
        _, lane = s.split(t.name, t.axes[-1].name, lanes)
        s.vectorize(t.name, lane)
