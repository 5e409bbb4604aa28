"""What a nest computes at its innermost: stages' bodies with positions in buffers for indices of tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from sterna.errors import Diagnostic, SternaError
from sterna.ir import dtypes
from sterna.ir.extremum import Extremum, maximum, minimum
from sterna.ir.integer import ZERO, Atom, Int, Symbol, as_int, of
from sterna.ir.remainders import between, rejoined
from sterna.loops import program as P
from sterna.loops.inline import inlined
from sterna.loops.nest import Cursor, Nest, Phase
from sterna.loops.program import Buffer, Stmt, seq
from sterna.schedule.decisions import StageSchedule
from sterna.schedule.products import contains, factors
from sterna.schedule.schedule import Schedule
from sterna.te import expr as E
from sterna.te.conditions import settled
from sterna.te.expr import Expr, Load, Reduce
from sterna.te.layout import lies_at
from sterna.te.position import rewrite_index
from sterna.te.tensor import combine, identity

#: The symbol that numbers iterations whose elements lie side by side, and how many there are.
Run = tuple[Symbol, int]


@dataclass(frozen=True)
class Place:
    """Storage of a stage within the scope being emitted.

    Args:
        least: the indices of the stage's first element there.
        slot: where the storage has one dimension more than the stage, in front: the position in it.
        blocks: (dimension, size), where the storage lies in blocks: those dimensions count blocks, and the positions
            in a block come behind them.
        turned: elements by which each row, the last dimension, is turned against the one before it.
    """

    buffer: Buffer
    least: tuple[Int, ...]
    slot: Int | None = None
    blocks: tuple[tuple[int, int], ...] = ()
    turned: int = 0

    def offset(self, indices: Sequence[Int]) -> Int:
        """Of an element of the stage, in the buffer."""
        inside = tuple(between(i - least) for i, least in zip(indices, self.least, strict=True))
        if self.blocks:
            sizes = dict(self.blocks)
            within = tuple(inside[d] % size for d, size in self.blocks)
            return self.buffer.offset((*(i // sizes.get(d, 1) for d, i in enumerate(inside)), *within))
        if self.turned:
            row = ZERO
            for position, rows in zip(inside[:-1], self.buffer.shape[:-1], strict=True):
                row = row * rows + position
            inside = (*inside[:-1], (inside[-1] + row * self.turned) % self.buffer.shape[-1])
        if self.slot is None:
            return rejoined(self.buffer.offset(inside))
        # A stage of one element has an axis all the same, which its storage beside the slot has not.
        return self.buffer.offset((self.slot, *inside)[: len(self.buffer.shape)])


class Bodies:
    """The statements of stages' elements, and names that are free.

    Attributes:
        bodies: of the stages, with what is inlined in them.
        places: of what has been computed, or has been given, where the statement stands.
        threads: symbols that differ from thread to thread where the statement stands, and the number of their values.
        lanes: those of them that differ from thread to thread along x.
        meanings: the positions that have names.
        overhangs: whether positions may lie beyond a tensor, in the last of some tiles.
    """

    def __init__(self, schedule: Schedule):
        self.schedule = schedule
        self.kernel = schedule.kernel
        self.stages = schedule.stages
        self.bodies = inlined(self.stages)
        self.places: dict[str, Place] = {}
        self.threads: dict[Symbol, Int] = {}
        self.lanes: set[Symbol] = set()
        self.meanings: dict[Atom, Int] = {}
        self.overhangs = any(s.overhanging for s in self.stages.values())
        self.names: dict[str, int] = {}

    def _store(self, cursor: Cursor) -> Stmt:
        """What stands inside all loops of a nest."""
        nest, s = cursor.nest, cursor.nest.stage
        starts = cursor.phase is Phase.INIT
        values = self._axis_values(nest, spatial_only=starts)
        indices = tuple(values[a] for a in s.tensor.axes)
        body = self.bodies[s.name]
        run = run_of(nest)
        if not isinstance(body, Reduce):
            value = self.resolved(body, values, run)
            guards, kept = list[tuple[Int, Int]](), dict[Atom, Int]()
            for d in s.overhanging:
                beyond = (indices[d] - s.tensor.shape[d]).bounds()[1]
                if beyond is None or beyond >= 0:
                    guards.append((indices[d], s.tensor.shape[d]))
                    # What is not stored beyond the output need not be kept from being read there.
                    if (clamp := clamp_of(indices[d], s.tensor.shape[d], run)) is not None:
                        kept[clamp[0]] = clamp[1]
            value = E.substitute_index(value, kept) if kept else value
            store: P.Stmt = self._write(s.name, indices, settled(value) if nest.parts else value)
            for index, limit in guards:
                store = P.If(index, limit, store)
            return store
        best = f"{s.name}_best"
        if starts:
            if body.index is None or body.combiner == "rescaled":
                return self._write(s.name, indices, identity(body.combiner, body.dtype))
            # Where no element is better than that one, as none of uint8 zeros is greater than 0, the first one wins.
            first = self.resolved(body.index, {**values, **dict.fromkeys(body.axes, ZERO)})
            return seq(
                self._write(best, (ZERO,), identity(body.combiner, body.a.dtype)),
                self._write(s.name, indices, first),
            )
        old = self.resolved(s.tensor[indices], {})
        if body.combiner == "rescaled":
            return self._rescaled(nest, body, values, indices)
        if body.index is not None:
            return self._extreme(nest, body, values, indices, best)
        if (
            body.combiner == "sum"
            and isinstance(body.a, E.Binary)
            and body.a.op == "mul"
            and dtypes.is_float(body.dtype)
        ):
            a, b = (self.resolved(x, values, run) for x in (body.a.a, body.a.b))
            return self._write(s.name, indices, E.fma(a, b, old))
        if (
            (pair := factors(body)) is not None
            and body.dtype == "int32"
            and all(contains("int16", x.dtype) for x in pair)
        ):
            a, b = (E.cast(self.resolved(x, values, run), body.dtype) for x in pair)
            return self._write(s.name, indices, old + E.binary("short_product", a, b))
        return self._write(s.name, indices, combine(body.combiner, old, self.resolved(body.a, values, run)))

    def _rescaled(self, nest: Nest, body: Reduce, values: Mapping[Atom, Int], indices: tuple[Int, ...]) -> Stmt:
        """One more term of a rescaled sum, by what `loops.rescaled` has found for this iteration."""
        assert body.index is not None
        name, named = nest.stage.name, E.axes_of(body.a)
        own = [i for a, i in zip(nest.stage.tensor.axes, indices, strict=True) if a in named]

        def factor(which: str) -> Expr:
            place = self.places[f"{name}_{which}"]
            return Load(body.a.dtype, tensor=place.buffer, indices=(place.offset(own),))

        old = self.resolved(nest.stage.tensor[indices], {})
        term = self.resolved(body.index, values) * factor("of_term")
        return self._write(name, indices, E.fma(old, factor("of_sum"), term))

    def _extreme(
        self, nest: Nest, body: Reduce, values: Mapping[Atom, Int], indices: tuple[Int, ...], best: str
    ) -> Stmt:
        """One step of argmin or argmax: the first extreme wins; a NaN wins over numbers, as in NumPy."""
        assert body.index is not None
        place = self.places[best]
        old = Load(body.a.dtype, tensor=place.buffer, indices=(ZERO,))
        new = self.resolved(body.a, values)
        better = is_better(body.combiner, new, old)
        index = self.resolved(body.index, values)
        return seq(
            self._write(
                nest.stage.name, indices, E.select(better, index, self.resolved(nest.stage.tensor[indices], {}))
            ),
            self._write(best, (ZERO,), E.select(better, new, old)),
        )

    def _axis_values(self, nest: Nest, spatial_only: bool = False) -> dict[Atom, Int]:
        values = nest.axis_values(spatial_only)
        if isinstance(values, str):
            self._uncovered(nest.stage.name, values)
        return values

    def _write(self, stage: str, indices: tuple[Int, ...], value: Expr) -> Stmt:
        place = self.places[stage]
        return P.Store(place.buffer, place.offset(indices), value)

    def resolved(self, body: Expr, values: Mapping[Atom, Int], run: Run | None = None) -> Expr:
        """The body with axes replaced by their values and loads turned to flat offsets of buffers.

        Args:
            run: neighbours that are to stay neighbours where they lie beyond a tensor.
        """

        def rule(node: Expr, again: Callable[[Expr], Expr]) -> Expr | None:
            if isinstance(node, E.IndexValue):
                position = rewrite_index(node.index, again)
                return None if position is node.index else node.changed(index=position)
            if not isinstance(node, Load) or isinstance(node.tensor, Buffer):
                return None
            place = self.places.get(node.tensor.name)
            if place is None:
                self.refuse(
                    f"{node.tensor.name} is read before it is computed", "place its stage at or outside its reader"
                )
            indices = tuple(self.regained(rewrite_index(i, again)) for i in node.indices)
            if self.overhangs and place.buffer.scope.kind == "argument":
                indices = tuple(_within(i, n, run) for i, n in zip(indices, place.buffer.shape, strict=True))
            return node.changed(tensor=place.buffer, indices=(place.offset(indices),))

        return E.rewrite_within(E.substitute_index(body, values), rule)

    def regained(self, index: Int) -> Int:
        """A position in a stage, where it was made of the parts of one that was fused, as that."""
        named = index.symbols() & self.meanings.keys()
        if not named or len(index.terms) < 2:
            return index
        found = rejoined(index.substitute({s: self.meanings[s] for s in named}))
        return self.regained(found) if len(found.terms) < len(index.terms) else index

    # -- names
    def follows(self, symbol: Symbol, index: Int, extent: Int) -> None:
        """Notes a name for a position, which differs from thread to thread if the position does."""
        self.meanings[symbol] = index
        if not self.threads.keys().isdisjoint(index.symbols()):
            self.threads[symbol] = extent
        if not self.lanes.isdisjoint(index.symbols()):
            self.lanes.add(symbol)

    def symbol(self, s: StageSchedule, axis: str, extent: Int | int) -> Symbol:
        hi = as_int(extent).bounds()[1]
        return Symbol(self.unique(loop_name(s, axis)), 0, None if hi is None else max(hi - 1, 0))

    def unique(self, name: str) -> str:
        n = self.names.get(name, 0)
        self.names[name] = n + 1
        return name if n == 0 else f"{name}_x{n}"  # registers and copies of unrolled loops get other letters

    def _uncovered(self, stage: str, axis: str) -> NoReturn:
        self.refuse(f"axis {axis} of stage {stage} is not covered by its loops", "keep both parts of a split")

    def refuse(self, why: str, fix: str) -> NoReturn:
        raise SternaError(
            Diagnostic("E0303", f"this schedule cannot be lowered: {why}", (f"kernel {self.kernel.name}",), fix)
        )


def is_better(combiner: str, new: Expr, old: Expr) -> Expr:
    """Whether one value goes before another in argmin or argmax, whatever their places."""
    better = E.compare("gt" if combiner == "argmax" else "lt", new, old)
    if dtypes.is_float(new.dtype):
        first_nan = E.binary("and", E.unary("isnan", new), E.unary("logical_not", E.unary("isnan", old)))
        return E.binary("or", better, first_nan)
    return better


def run_of(nest: Nest) -> Run | None:
    """The iterations of a nest's innermost loop, where they are to be one access: lanes of a vector, or elements of a
    copy."""
    s = nest.stage
    if not s.leaves or not (s.transferred or s.annotations.get(s.leaves[-1]) == "vectorized"):
        return None
    value, extent = nest.bound.get(s.leaves[-1], ZERO), nest.extent(s.leaves[-1])
    found = [a for a in value.symbols() if isinstance(a, Symbol)]
    return (found[0], int(extent)) if len(found) == 1 and value == of(found[0]) and extent.is_const else None


def _in_runs(index: Int, size: Int, run: Run | None) -> tuple[Int, Int, int]:
    """A position as the number of its run and that within it, of runs that a dimension has whole ones of; and how many
    positions a run has. One position each where it has not."""
    if run is None or not size.is_const or index.coefficient(run[0]) != 1:
        return index, ZERO, 1
    lane, many = run
    first = index.substitute({lane: ZERO})
    return (first // many, of(lane), many) if lies_at(many, 1, first, size) else (index, ZERO, 1)


def _within(index: Int, size: Int, run: Run | None) -> Int:
    """A position, or one at the end of the dimension that it lies beyond; of a run of them all or none."""
    number, lane, many = _in_runs(index, size, run)
    return maximum(minimum(number, size // many - 1), 0) * many + lane


def clamp_of(index: Int, size: Int, run: Run | None = None) -> tuple[Extremum, Int] | None:
    """The atom that `_within` makes of a position, if it is that alone, and what it is equal to where the position is
    not beyond the dimension. None where nothing is made of it."""
    number, _, many = _in_runs(index, size, run)
    within = maximum(minimum(number, size // many - 1), 0)
    if within == number or within.const or list(within.terms.values()) != [1]:
        return None
    ((atom, *others),) = within.terms
    return (atom, number) if not others and isinstance(atom, Extremum) else None


def loop_name(s: StageSchedule, axis: str) -> str:
    return f"{s.name}_{axis}".replace(".", "_").replace("+", "_")
