"""Bounds inference: which part of a stage its readers need within one iteration of the loop it is placed at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sterna.ir.division import ceil_div, divide_exactly
from sterna.ir.extremum import Extremum
from sterna.ir.integer import ONE, ZERO, Atom, FloorDiv, Int, Mod, Symbol, as_int
from sterna.ir.remainders import rejoined
from sterna.loops.nest import Nest, Region
from sterna.loops.prove import at_least_zero
from sterna.schedule.decisions import Fuse, Split, StageSchedule
from sterna.te import expr as E
from sterna.te.expr import Expr
from sterna.te.position import Quotient
from sterna.te.tensor import Tensor

#: Indices, and the symbols that vary in them with the number of their values.
_Access = tuple[tuple[Int, ...], Mapping[Symbol, Int]]


def infer_regions(
    nest: Nest,
    stages: Mapping[str, StageSchedule],
    bodies: Mapping[str, Expr],
    order: Sequence[str],
    threads: Mapping[Symbol, Int],
    entered: Mapping[str, tuple[Symbol, Int]],
) -> dict[str, Region] | str:
    """The region of every stage placed at or below the current loop of a nest, or the name of an axis that no loop
    determines.

    Args:
        bodies: by stage name, with inlined stages substituted.
        order: stages, producers first.
        threads: symbols that differ from thread to thread, and the number of their values: what threads share is
            needed for all of them.
        entered: as of `Nest.opened`.
    """
    below = {nest.stage.name}
    for name in reversed(order):
        at = stages[name].attach
        if at is not None and at[0] in below:
            below.add(name)
    below.discard(nest.stage.name)
    overhang = any(s.overhanging for s in stages.values())
    regions: dict[str, Region] = {}
    accesses: dict[str, list[_Access]] = {}
    # What lies beyond the end of a tensor is not read (`Bodies.resolved`).
    opened, free = (nest.in_whole_tiles() if overhang else nest).opened()
    values = opened.axis_values()
    if isinstance(values, str):
        return values
    _collect(bodies, nest.stage.name, values, free, accesses)
    for name in reversed(order):
        if name not in below or name not in accesses:
            continue
        s = stages[name]
        if threads and s.scope is not None and not s.scope.private:
            accesses[name] = [(indices, {**varying, **threads}) for indices, varying in accesses[name]]
        regions[name] = region = _whole_tiles(s, _union(s.tensor, accesses[name], overhang))
        opened, inside = Nest(s, region).opened(entered)
        values = opened.axis_values()
        if isinstance(values, str):
            return values
        for _, outside in accesses[name]:
            # In the loops over threads around it a thread stands still where its own loops are those.
            inside.update({symbol: n for symbol, n in outside.items() if not entered or symbol not in threads})
        _collect(bodies, name, values, inside, accesses)
    return regions


def _whole_tiles(s: StageSchedule, region: Region) -> Region:
    """The region of a stage that is computed in tiles: with fewer rows than a tile has it begins earlier, with fewer
    lanes or beyond fused rows it reaches into what is computed and left out."""
    if s.tensorized is None or s.tensorized.row is None:
        return region
    tiled = s.tensorized.axes[:2]
    row, lane = (next((r for r in s.relations if isinstance(r, Split) and r.inner == axis), None) for axis in tiled)
    least, extent = list(region.least), list(region.extent)
    pitches = {r.second: r.pitch for r in s.relations if isinstance(r, Fuse) and r.pitch}
    for d, axis in enumerate(s.tensor.axes):
        if axis.name in tiled:
            least[d], extent[d] = ZERO, axis.extent
        if axis.name in pitches:
            extent[d] = as_int(pitches[axis.name])
        if lane is not None and axis.name == lane.parent:
            extent[d] = ceil_div(extent[d], lane.factor) * lane.factor
        if row is None or axis.name != row.parent:
            continue
        if extent[d].is_const and least[d].is_const and int(extent[d]) < row.factor:
            least[d], extent[d] = axis.extent - row.factor, as_int(row.factor)
    return Region(tuple(least), tuple(extent))


def _collect(
    bodies: Mapping[str, Expr],
    stage: str,
    values: Mapping[Atom, Int],
    free: Mapping[Symbol, Int],
    accesses: dict[str, list[_Access]],
) -> None:
    for load in E.loads(bodies[stage]):
        if load.tensor.name in bodies:
            indices = tuple(rejoined(i.substitute(values)) for i in load.indices)
            accesses.setdefault(load.tensor.name, []).append((indices, free))


def _union(tensor: Tensor, accesses: Sequence[_Access], overhang: bool) -> Region:
    """The least box that holds all accesses; a whole dimension where it cannot be told. Where tiles overhang, it may
    reach beyond the tensor."""
    least: list[Int] = []
    extent: list[Int] = []
    for d, size in enumerate(tensor.shape):
        low, high = _range([_span(indices[d], free) for indices, free in accesses], size)
        # The last block of a factored reduction reads less than its full lanes; nothing reads past the tensor.
        if overhang:
            pass
        elif (width := high - low).is_const and size.is_const and int(width) >= int(size):
            low, high = ZERO, size
        elif (
            # What has a constant extent, as registers must have, keeps it where the tensor's size is open.
            low.is_const
            and high != size
            and (size.is_const or not high.is_const)
            and at_least_zero(high - size, {}, ())
        ):
            high = size
        least.append(low)
        extent.append(high - low)
    return Region(tuple(least), tuple(extent))


def _range(spans: Sequence[tuple[Int, Int] | None], size: Int) -> tuple[Int, Int]:
    first = spans[0]
    if first is None:
        return ZERO, size
    low, high = first[0], first[0] + first[1]
    for span in spans[1:]:
        if span is None:
            return ZERO, size
        shift, rise = span[0] - low, span[0] + span[1] - high
        if not shift.is_const or not rise.is_const:
            return ZERO, size
        low = span[0] if int(shift) < 0 else low
        high = span[0] + span[1] if int(rise) > 0 else high
    return low, high


def _span(index: Int, free: Mapping[Symbol, Int]) -> tuple[Int, Int] | None:
    """(least value, number of values) of an index while the free symbols vary and all others stand still."""
    low, width = as_int(index.const), ONE
    for monomial, coefficient in index.terms.items():
        atom = monomial[0]
        varying = any(a in free for m in monomial for a in (m, *(x for p in m.parts() for x in p.atoms())))
        if not varying:
            low = low + Int({monomial: coefficient}, 0)
            continue
        if len(monomial) > 1:
            return None
        if isinstance(atom, Symbol):
            last = free[atom] - 1
            width = width + last * abs(coefficient)
            if coefficient < 0:
                low = low + last * coefficient
        elif isinstance(atom, FloorDiv) and coefficient > 0:
            inner = _span(atom.value, free)
            if inner is None:
                return None
            low = low + (inner[0] // atom.divisor) * coefficient
            # From the beginning of a block on, none is cut at both ends.
            cut = 1 if inner[0] % atom.divisor == ZERO else 2
            width = width + ((inner[1] + (atom.divisor - cut)) // atom.divisor - (2 - cut)) * coefficient
        elif isinstance(atom, Quotient) and coefficient > 0:
            # Of an open number of positions: as many as there are whole blocks of them.
            inner = _span(atom.dividend, free)
            count = None if inner is None or inner[0] != ZERO else divide_exactly(inner[1], atom.divisor)
            if count is None:
                return None
            width = width + (count - 1) * coefficient
        elif isinstance(atom, Mod) and coefficient > 0:
            width = width + (atom.divisor - 1) * coefficient
        elif isinstance(atom, Extremum) and coefficient > 0 and (limited := _limited(atom, free)) is not None:
            low, width = low + limited[0] * coefficient, width + (limited[1] - 1) * coefficient
        else:
            return None
    return low, width


def _limited(atom: Extremum, free: Mapping[Symbol, Int]) -> tuple[int, int] | None:
    """The least value, and the number of values up to the greatest, of an extremum of positions that are known but for
    free symbols."""
    spans = [_span(operand, free) for operand in atom.operands]
    known = [(int(low), int(low + n) - 1) for low, n in filter(None, spans) if low.is_const and n.is_const]
    if len(known) < len(spans):
        return None
    pick = min if atom.kind == "min" else max
    least, greatest = (pick(ends) for ends in zip(*known, strict=True))
    return least, greatest - least + 1
