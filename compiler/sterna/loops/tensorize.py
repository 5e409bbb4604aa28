"""One innermost statement of a stage as an intrinsic: the vectors, tiles or parts of memory that it takes, from the
scalars they stand for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sterna.intrinsics import Intrinsic
from sterna.ir.integer import ZERO, Int, Symbol
from sterna.loops import program as P
from sterna.loops.nest import Phase
from sterna.te import expr as E
from sterna.te.expr import Expr, Load


class ScatteredOperandError(Exception):
    """The layout of an operand is not the one that the intrinsic needs."""


@dataclass(frozen=True)
class Uses:
    """A stage's innermost statement in the terms of an intrinsic.

    Args:
        store: where the result of one element lies; its value is of no account.
        places: what stands for each operand, wherever the behaviour reads it.
        axes: for each axis of the behaviour the symbol that stands for it, and how many positions it has.
    """

    intrinsic: Intrinsic
    store: P.Store
    places: tuple[tuple[Load, Expr], ...]
    axes: tuple[tuple[Symbol, Int], ...]

    @property
    def factors(self) -> list[Expr]:
        """What stands for each operand where it is first read."""
        found: dict[str, Expr] = {}
        for load, expr in self.places:
            found.setdefault(load.tensor.name, expr)
        return [found[t.name] for t in self.intrinsic.inputs]

    def count(self, n: int) -> int:
        """Positions of one of the axes.

        Raises:
            ScatteredOperandError: they are not constant.
        """
        symbol, extent = self.axes[n]
        if not extent.is_const:
            raise ScatteredOperandError(f"{symbol.name} has {extent} iterations, which is not constant")
        return int(extent)


def vector_statement(uses: Uses) -> P.Stmt:
    """The statement that computes all lanes, of all elements of the group.

    Raises:
        ScatteredOperandError: an operand is neither contiguous over lanes and group nor the same for all lanes.
    """
    intrinsic, store = uses.intrinsic, uses.store
    at = len(intrinsic.behaviour.axes) - 1
    symbol, lanes = uses.axes[at][0], uses.count(at)
    if store.index.coefficient(symbol) != 1:
        raise ScatteredOperandError(f"accumulators of {store.buffer.name} are not neighbours")
    index = store.index.substitute({symbol: ZERO})
    active = None if lanes == intrinsic.lanes else lanes
    lane, group = (symbol, lanes), None
    if intrinsic.behaviour.reduction is not None:
        group = (uses.axes[-1][0], uses.count(-1))
    operands = [
        _operand(E.cast(factor, tensor.dtype), intrinsic, lane, group, left=n == 0)
        for n, (tensor, factor) in enumerate(zip(intrinsic.inputs, uses.factors, strict=True))
    ]
    if intrinsic.accumulates:
        old = E.Load(intrinsic.dtype, tensor=store.buffer, indices=(index,), lanes=intrinsic.lanes, active=active)
        operands.insert(0, old)
    value = P.Apply(intrinsic.dtype, intrinsic=intrinsic, operands=tuple(operands), lanes=intrinsic.lanes)
    return replace(store, index=index, value=value, active=active)


def _operand(
    factor: Expr, intrinsic: Intrinsic, lane: tuple[Symbol, int], group: tuple[Symbol, int] | None, left: bool
) -> Expr:
    """The vector (lanes, group) of a factor. What the group of a tail does not have is zero in that on the right."""
    symbol, depth = group or (Symbol("none"), 1)
    width = intrinsic.lanes * intrinsic.group

    def vector(e: Expr) -> Expr:
        if isinstance(e, E.Load):
            (index,) = e.indices
            across, along = index.coefficient(lane[0]), index.coefficient(symbol)
            first = (index.substitute({lane[0]: ZERO, symbol: ZERO}),)
            if group is None and across == 1:
                return replace(e, indices=first, lanes=width, active=None if lane[1] == width else lane[1])
            if across == intrinsic.group and along == 1:
                # Packed: what a tail does not have is there, as zeros.
                return replace(e, indices=first, lanes=width)
            if across == 0 and depth == 1 and left:
                # The rest of the group may be anything: the other operand has zeros there.
                return P.Broadcast(e.dtype, a=replace(e, indices=first), lanes=width)
            if across == 0 and (along == 1 or depth == 1):
                short = None if depth == intrinsic.group else depth
                part = replace(e, indices=first, lanes=intrinsic.group, active=short)
                return P.Broadcast(e.dtype, a=part, lanes=width)
            if across == 0 and along == 0 and depth == intrinsic.group:
                return P.Broadcast(e.dtype, a=e, lanes=width)
            raise ScatteredOperandError(f"{e.tensor.name}[{index}] has steps of {across} and {along}")
        if isinstance(e, E.Const):
            return replace(e, lanes=width)
        if E.positions(e):
            raise ScatteredOperandError(f"a position is multiplied, {e}")
        return e.with_children(tuple(map(vector, e.children())))

    return vector(factor)


def tile_statement(phase: Phase, tiles: P.Buffer | None, uses: Uses) -> P.Stmt:
    """What is done with one tile of accumulators.

    Args:
        phase: INIT, UPDATE or STORE: it becomes zeros, the product of two tiles is added to it, or it is stored.
        tiles: where the accumulators are while it runs; `uses.store` is where they belong behind the reduction.

    Raises:
        ScatteredOperandError: an operand or the accumulators do not lie in memory as tiles are loaded and stored, in
            rows of consecutive elements; or the axes are not as the intrinsic has them.
    """
    intrinsic, memory = uses.intrinsic, uses.store
    (row, rows), (lane, lanes), (word, words), (group, groups) = uses.axes
    if tiles is None:
        raise ScatteredOperandError("nothing outside of the tile is reduced")
    if not rows.is_const or not words.is_const or lanes != intrinsic.lanes or groups != intrinsic.group:
        raise ScatteredOperandError(f"a tile of {rows} x {lanes}, {words} x {groups} deep")
    pitch = memory.index.coefficient(row)
    if memory.index.coefficient(lane) != 1 or not pitch:
        raise ScatteredOperandError(f"accumulators of {memory.buffer.name} are not neighbours")
    index, count = memory.index.substitute({row: ZERO, lane: ZERO}), int(rows) * intrinsic.lanes
    if phase is Phase.INIT:
        return P.Store(tiles, index, replace(E.const(0, tiles.dtype), lanes=count), rows=int(rows))
    old = E.Load(tiles.dtype, tensor=tiles, indices=(index,), lanes=count, rows=int(rows))
    if phase is Phase.STORE:
        return replace(memory, index=index, value=old, rows=int(rows), pitch=pitch)
    # The axes along a row of either operand, from the inside out, and the one from row to row.
    deep, inside = (word, int(words)), (group, intrinsic.group)
    factors = uses.factors
    operands = (
        _tile(factors[0], (inside, deep), (row, int(rows)), lane),
        _tile(factors[1], (inside, (lane, intrinsic.lanes)), deep, row),
    )
    extents = (int(rows), intrinsic.lanes, int(words), intrinsic.group)
    product = P.Apply(tiles.dtype, intrinsic=intrinsic, operands=(old, *operands), extents=extents, lanes=count)
    return P.Store(tiles, index, product, rows=int(rows))


def _tile(factor: Expr, along: Sequence[tuple[Symbol, int]], down: tuple[Symbol, int], absent: Symbol) -> Expr:
    """The load of a tile whose rows are walked `along` and `down`."""
    if not isinstance(factor, E.Load):
        raise ScatteredOperandError("a factor is computed, and tiles are loaded from memory")
    (index,) = factor.indices
    width = 1
    for symbol, extent in along:
        if index.coefficient(symbol) != width:
            raise ScatteredOperandError(f"{factor.tensor.name}[{index}] has steps of {index.coefficient(symbol)}")
        width *= extent
    symbol, rows = down
    pitch = index.coefficient(symbol)
    if pitch is None or pitch < 0 or index.coefficient(absent) != 0:
        raise ScatteredOperandError(f"{factor.tensor.name}[{index}] has no constant step from row to row")
    start = index.substitute(dict.fromkeys((symbol, *(a for a, _ in along)), ZERO))
    return replace(factor, indices=(start,), lanes=rows * width, rows=rows, pitch=pitch)
