"""One innermost statement of a stage as an intrinsic: the vectors that it takes, from the scalars they stand for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sterna.intrinsics import Intrinsic
from sterna.ir.integer import ZERO, Symbol
from sterna.loops import program as P
from sterna.te import expr as E
from sterna.te.expr import Expr


class ScatteredOperandError(Exception):
    """An operand does not lie as a vector of the intrinsic wants it."""


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
