"""One innermost statement of a stage as an intrinsic: the vectors, tiles or parts of memory that it takes, from the
scalars they stand for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sterna.intrinsics import Intrinsic
from sterna.ir.integer import ZERO, Int, Symbol, of
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
        if isinstance(e, E.IndexValue) and not {lane[0], symbol} & e.index.symbols():
            return P.Broadcast(e.dtype, a=e, lanes=width)
        if E.positions(e):
            raise ScatteredOperandError(f"a position is multiplied, {e}")
        return e.with_children(tuple(map(vector, e.children())))

    return vector(factor)


def memory_statement(uses: Uses, unique: Callable[[str], str]) -> P.Stmt:
    """The instruction that computes all elements, after names for the values that it takes.

    Args:
        unique: gives a name that nothing else has.

    Raises:
        ScatteredOperandError: an axis has a tail, an operand is computed and not loaded, or its elements do not lie the
            constant steps apart that the intrinsic needs.
    """
    intrinsic, store = uses.intrinsic, uses.store
    for n, axis in enumerate(intrinsic.axes):
        if uses.count(n) != int(axis.extent):
            raise ScatteredOperandError(f"{uses.axes[n][0].name} has {uses.count(n)} iterations, not {axis.extent}")
    behaviour = intrinsic.behaviour
    result = _slice(store.buffer, store.index, behaviour.name, tuple(of(a) for a in behaviour.axes), uses)
    operands: list[P.Slice | P.Variable] = []
    values: list[P.Stmt] = []
    for tensor in intrinsic.inputs:
        places = [(load, expr) for load, expr in uses.places if load.tensor is tensor]
        if tensor.name not in intrinsic.places:
            if any(expr != places[0][1] for _, expr in places):
                raise ScatteredOperandError(f"its operand {tensor.name} stands for several values")
            value = P.Variable(unique(f"{store.buffer.name}_{tensor.name}"), tensor.dtype, 1)
            operands.append(value)
            values.append(P.Let(value, places[0][1]))
            continue
        slices = []
        for load, expr in places:
            if not isinstance(expr, Load) or not isinstance(expr.tensor, P.Buffer):
                raise ScatteredOperandError(f"what stands for its operand {tensor.name} is computed, not loaded")
            slices.append(_slice(expr.tensor, expr.indices[0], tensor.name, load.indices, uses))
        first, *others = slices
        if any((o.buffer, o.start, o.strides) != (first.buffer, first.start, first.strides) for o in others):
            raise ScatteredOperandError(f"its operand {tensor.name} stands for elements of several places")
        operands.append(first)
    return P.seq(*values, P.Instruction(intrinsic, result, tuple(operands)))


def _slice(buffer: P.Buffer, flat: Int, name: str, indices: Sequence[Int], uses: Uses) -> P.Slice:
    """Where an operand lies, from the position of its element at `indices` of the behaviour's axes."""
    axes = dict(zip(uses.intrinsic.axes, (symbol for symbol, _ in uses.axes), strict=True))
    steps = {a: flat.coefficient(symbol) for a, symbol in axes.items()}
    shape = [index.bounds()[1] for index in indices]
    extents = tuple(1 if most is None else most + 1 for most in shape)
    strides: dict[int, int] = {}
    while True:
        # A dimension's step is known where an axis moves along no other one whose step is not.
        known = len(strides)
        for axis, step in steps.items():
            moving = {d: index.coefficient(axis) for d, index in enumerate(indices) if axis in index.symbols()}
            unknown = [d for d in moving if d not in strides]
            if len(unknown) == 1 and step is not None:
                rest = step - sum((moving[d] or 0) * strides[d] for d in moving if d in strides)
                strides[unknown[0]] = rest // (moving[unknown[0]] or 1)
        if len(strides) == known:
            break
    start = flat - sum((index * strides.get(d, 0) for d, index in enumerate(indices)), ZERO).substitute(
        {a: of(symbol) for a, symbol in axes.items()}
    )
    if start.symbols() & set(axes.values()):
        raise ScatteredOperandError(f"{buffer.name}[{flat}] does not lie in constant steps, as its operand {name} does")
    wanted = uses.intrinsic.places[name].strides
    found = tuple(strides.get(d, wanted[d] or 0) for d in range(len(indices)))
    for d, (have, want) in enumerate(zip(found, wanted, strict=True)):
        if want is not None and have != want and extents[d] > 1:
            why = f"its operand {name} needs a step of {want} along dimension {d}, and {buffer.name} has {have}"
            raise ScatteredOperandError(why)
    return P.Slice(buffer, start, found, extents)


def tile_statement(phase: Phase, tiles: P.Buffer | None, uses: Uses) -> P.Stmt:
    """What is done with one tile of accumulators.

    Args:
        phase: INIT, UPDATE or STORE: it becomes zeros, the product of two tiles is added to it, or it is stored.
        tiles: where the accumulators are while it runs; `uses.store` is where they belong after the reduction.

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
