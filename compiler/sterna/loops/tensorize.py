"""One innermost statement of a stage as an intrinsic: the vectors or tiles that it takes, from the scalars they stand
for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sterna.intrinsics import Intrinsic, TileIntrinsic
from sterna.ir.integer import ZERO, Int, Symbol
from sterna.loops import program as P
from sterna.loops.nest import Phase
from sterna.te import expr as E
from sterna.te.expr import Expr


class ScatteredOperandError(Exception):
    """The layout of an operand is not the one that the intrinsic needs."""


def tensorized(
    store: P.Stmt, factors: Sequence[Expr], intrinsic: Intrinsic, lane: tuple[Symbol, int], group: tuple[Symbol, int]
) -> P.Stmt:
    """The statement that adds the products of all lanes and groups to their accumulators.

    Args:
        store: where the accumulator of one lane lies.
        factors: what is multiplied for one lane and one element of the group.
        lane, group: the symbols of those, and how many there are: fewer than the intrinsic's at a tail.

    Raises:
        ScatteredOperandError: a factor is neither contiguous over lanes and group nor the same for all lanes.
    """
    assert isinstance(store, P.Store)
    symbol, lanes = lane
    if store.index.coefficient(symbol) != 1:
        raise ScatteredOperandError(f"accumulators of {store.buffer.name} are not neighbours")
    index = store.index.substitute({symbol: ZERO})
    active = None if lanes == intrinsic.lanes else lanes
    old = E.Load(intrinsic.dtype, tensor=store.buffer, indices=(index,), lanes=intrinsic.lanes, active=active)
    operands = [
        _operand(E.cast(factor, dtype), intrinsic, symbol, group, left)
        for left, factor, dtype in zip((True, False), factors, intrinsic.operands, strict=True)
    ]
    value = P.Apply(intrinsic.dtype, intrinsic=intrinsic, operands=(old, *operands), lanes=intrinsic.lanes)
    return replace(store, index=index, value=value, active=active)


def _operand(factor: Expr, intrinsic: Intrinsic, lane: Symbol, group: tuple[Symbol, int], left: bool) -> Expr:
    """The vector (lanes, group) of a factor. What the group of a tail does not have is zero in that on the right."""
    symbol, depth = group
    width = intrinsic.lanes * intrinsic.group

    def vector(e: Expr) -> Expr:
        if isinstance(e, E.Load):
            (index,) = e.indices
            across, along = index.coefficient(lane), index.coefficient(symbol)
            first = (index.substitute({lane: ZERO, symbol: ZERO}),)
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


def tile_statement(
    phase: Phase,
    memory: P.Stmt,
    tiles: P.Buffer | None,
    factors: Sequence[Expr],
    intrinsic: Intrinsic,
    axes: Sequence[tuple[Symbol, Int]],
) -> P.Stmt:
    """What is done with one tile of accumulators.

    Args:
        phase: INIT, UPDATE or STORE: it becomes zeros, the product of two tiles is added to it, or it is stored.
        memory: the store of one accumulator to where all of them belong behind the reduction.
        tiles: where they are while it runs.
        factors: what is multiplied for one element of each axis.
        axes: the symbols of row, lane, word and group, and how many there are.

    Raises:
        ScatteredOperandError: an operand or the accumulators do not lie in memory as tiles are loaded and stored, in
            rows of consecutive elements; or the axes are not as the intrinsic has them.
    """
    assert isinstance(memory, P.Store)
    assert isinstance(intrinsic, TileIntrinsic)
    (row, rows), (lane, lanes), (word, words), (group, groups) = axes
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
    operands = (
        _tile(factors[0], (inside, deep), (row, int(rows)), lane),
        _tile(factors[1], (inside, (lane, intrinsic.lanes)), deep, row),
    )
    product = P.Apply(tiles.dtype, intrinsic=intrinsic, operands=(old, *operands), lanes=count)
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
