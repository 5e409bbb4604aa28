"""One innermost statement of a stage as an intrinsic: the vectors, tiles or parts of memory that it takes, from the
scalars they stand for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from sterna.intrinsics import Intrinsic
from sterna.ir import dtypes
from sterna.ir.integer import ZERO, Atom, Int, Symbol, as_int, of
from sterna.loops import program as P
from sterna.loops.nest import Phase
from sterna.loops.values import joined
from sterna.loops.wide import is_aligned
from sterna.te import expr as E
from sterna.te.axis import Axis
from sterna.te.expr import Expr, Load
from sterna.te.layout import dense_strides, most_elements
from sterna.te.tensor import Tensor

#: The most bits that a generator repeats as one number.
WORD = 64


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

    def places_of(self, operand: Tensor) -> list[tuple[Load, Expr]]:
        """The places where the behaviour reads an operand, each once, and what stands for it there, of its type."""
        found: dict[Load, Expr] = {}
        for load, expr in self.places:
            if load.tensor is operand:
                found.setdefault(load, E.cast(expr, load.dtype))
        return list(found.items())

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
    """The statement that computes all rows and lanes, of all elements of the group.

    Raises:
        ScatteredOperandError: the accumulators are not neighbours, or an operand does not lie in constant steps.
    """
    intrinsic, store = uses.intrinsic, uses.store
    index, active = accumulators_of(uses)
    operands = [_operand(uses.places_of(t), uses, left=n == 0) for n, t in enumerate(intrinsic.inputs)]
    lanes = intrinsic.elements
    if intrinsic.accumulates:
        old = E.Load(intrinsic.dtype, tensor=store.buffer, indices=(index,), lanes=lanes, active=active)
        operands.insert(0, old)
    value = P.Apply(intrinsic.dtype, intrinsic=intrinsic, operands=tuple(operands), lanes=lanes)
    return replace(store, index=index, value=value, active=active)


def accumulators_of(uses: Uses) -> tuple[Int, int | None]:
    """Where the vector of an intrinsic's results begins, and how many of them there are, if they are not all. Results
    of several rows lie in blocks that are whole.

    Raises:
        ScatteredOperandError: they are not neighbours.
    """
    intrinsic, store = uses.intrinsic, uses.store
    rank, step = len(intrinsic.behaviour.axes), 1
    for n in reversed(range(rank)):
        symbol, extent = uses.axes[n][0], int(intrinsic.axes[n].extent)
        if store.index.coefficient(symbol) != step and uses.count(n) > 1:
            raise ScatteredOperandError(f"accumulators of {store.buffer.name} are not neighbours")
        step *= extent
    lanes = uses.count(rank - 1)
    index = store.index.substitute(dict.fromkeys((symbol for symbol, _ in uses.axes[:rank]), ZERO))
    return index, None if rank > 1 or lanes == intrinsic.lanes else lanes


def _operand(read: Sequence[tuple[Load, Expr]], uses: Uses, left: bool) -> Expr:
    """The vector of a factor, as the behaviour reads it. What the group of a tail does not have is zero in that on the
    right, and anything in that on the left, if they are integers.

    Args:
        read: the places where the behaviour reads it, and what stands for it there: the same but for positions.
    """
    intrinsic = uses.intrinsic
    symbols = {symbol for symbol, _ in uses.axes}
    lane = len(intrinsic.behaviour.axes) - 1
    width = most_elements(read[0][0].tensor.shape)  # type: ignore[attr-defined]
    whole = [int(a.extent) for a in intrinsic.axes]

    def loaded(loads: Sequence[Load]) -> Expr:
        first = loads[0]
        base = first.indices[0].substitute(dict.fromkeys(symbols, ZERO))
        places: list[int | None] = [None] * width
        missing, order, across = set(), [], False
        for (place, _), load in zip(read, loads, strict=True):
            (index,) = load.indices
            own = [n for n, a in enumerate(intrinsic.axes) if any(a in i.symbols() for i in place.indices)]
            across = across or uses.axes[lane][0] in index.symbols()
            for at in product(*(range(whole[n]) for n in own)):
                position = intrinsic.position(place, {intrinsic.axes[n]: k for n, k in zip(own, at, strict=True)})
                apart = index.substitute({uses.axes[n][0]: as_int(k) for n, k in zip(own, at, strict=True)}) - base
                if not apart.is_const or load.tensor is not first.tensor:
                    raise ScatteredOperandError(f"{load.tensor.name}[{index}] does not move in constant steps")
                places[position] = int(apart)
                order.append(position)
                if any(k >= uses.count(n) for n, k in zip(own, at, strict=True)):
                    missing.add(position)
        # Neighbours in an order that no tensor has were packed so, and padded with zeros.
        of_its_own = across or (order != sorted(order) and len(read) == 1)
        packed = intrinsic.behaviour.reduction is not None and of_its_own and places == list(range(width))
        if not packed:
            places = [None if n in missing else place for n, place in enumerate(places)]
        # Of floats, zero times what happens to be there may be NaN.
        anything = left and not dtypes.is_float(read[0][0].dtype)
        return _picked(first, base, places, anything, repeats=intrinsic.elements > 1)

    def vector(same: Sequence[Expr]) -> Expr:
        e = same[0]
        if any(type(other) is not type(e) or other.dtype != e.dtype for other in same):
            raise ScatteredOperandError(f"{e} stands for an operand, and {same[-1]}, too")
        if isinstance(e, E.Load):
            return loaded([load for load in same if isinstance(load, E.Load)])
        if isinstance(e, E.Const):
            return replace(e, lanes=width)
        if isinstance(e, E.IndexValue) and not symbols & e.index.symbols():
            return P.Broadcast(e.dtype, a=e, lanes=width)
        if E.positions(e):
            raise ScatteredOperandError(f"a position is multiplied, {e}")
        children = zip(*(other.children() for other in same), strict=True)
        return e.with_children(tuple(map(vector, children)))

    return vector([expr for _, expr in read])


def _picked(load: Load, base: Int, places: Sequence[int | None], anything: bool, repeats: bool = True) -> Expr:
    """The vector of elements at some distances from a position: a part of memory, one that is repeated, or the two
    halves of the vector joined.

    Args:
        anything: whether elements that have no place may be any, and not only zero.
        repeats: whether parts of the vector may be equal, which is one load and not several.
    """
    lanes = len(places)

    def same(a: int | None, b: int | None) -> bool:
        return a == b or (anything and (a is None or b is None))

    known = [n for n, place in enumerate(places) if place is not None]
    if not known:
        if anything:
            raise ScatteredOperandError(f"{load.tensor.name} has no element in place of an operand")
        return E.Const(load.dtype, value=0, lanes=lanes)
    if lanes == 1:
        return replace(load, indices=(base + (places[0] or 0),))
    for period in (1 << n for n in range((lanes - 1).bit_length() if repeats else 0)):
        if all(same(place, places[n % period]) for n, place in enumerate(places)) and places[0] is not None:
            part = _picked(load, base, places[:period], anything)
            if part.lanes * dtypes.bits(load.dtype) > WORD:
                return joined(*[part] * (lanes // period))
            return P.Broadcast(load.dtype, a=part, lanes=lanes)
    first = places[0]
    if first is not None and known == list(range(len(known))) and all(places[n] == first + n for n in known):
        active = None if len(known) == lanes else len(known)
        return replace(load, indices=(base + first,), lanes=lanes, active=active)
    if lanes == 2:
        raise ScatteredOperandError(f"{load.tensor.name} has steps of {places[1]} where an operand has neighbours")
    halves = [places[: lanes // 2], places[lanes // 2 :]]
    if anything:
        halves = [half if any(place is not None for place in half) else halves[1 - n] for n, half in enumerate(halves)]
    a, b = (_picked(load, base, half, anything, repeats) for half in halves)
    return joined(a, b)


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


def tile_statement(phase: Phase, tiles: P.Buffer | None, uses: Uses, written_out: Collection[Symbol] | None) -> P.Stmt:
    """What is done with one tile of accumulators.

    Args:
        phase: INIT, UPDATE or STORE: it becomes zeros, the product of two tiles is added to it, or it is stored.
        tiles: where the accumulators are while it runs; `uses.store` is where they belong after the reduction.
        written_out: the symbols of loops that are written out. They alone number the tiles of a subgroup of threads,
            which has some of the accumulators. None: they belong in the tiles.

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
    stored = index
    if written_out is not None and intrinsic.tiles is not None and intrinsic.tiles.threads > 1:
        index = Int({m: n for m, n in index.terms.items() if all(atom in written_out for atom in m)}, 0)
    if phase is Phase.INIT:
        return P.Store(tiles, index, replace(E.const(0, tiles.dtype), lanes=count), rows=int(rows))
    old = E.Load(tiles.dtype, tensor=tiles, indices=(index,), lanes=count, rows=int(rows))
    if phase is Phase.STORE:
        _check_rows(intrinsic, memory.buffer, pitch, stored, intrinsic.lanes)
        return replace(memory, index=stored, value=old, rows=int(rows), pitch=pitch)
    if intrinsic.tiles is not None and intrinsic.tiles.in_memory:
        operands = [_in_blocks(read, factor, uses) for read, factor in zip(intrinsic.reads, uses.factors, strict=True)]
        sums = P.Apply(tiles.dtype, intrinsic=intrinsic, operands=(old, *operands), lanes=count)
        return P.Store(tiles, index, sums, rows=int(rows))
    counts = {row: int(rows), lane: intrinsic.lanes, word: int(words), group: intrinsic.group}
    symbols = dict(zip(intrinsic.axes, counts, strict=True))
    operands = []
    for read, factor in zip(intrinsic.reads, uses.factors, strict=True):
        down, *along = [(symbols[a], counts[symbols[a]]) for a in _axes_of_rows(intrinsic, read)]
        others = {s: n for s, n in counts.items() if s not in (down[0], *(symbol for symbol, _ in along))}
        operands.append(_tile(factor, along, down, others))
        tile = operands[-1]
        _check_rows(intrinsic, factor, tile.pitch, tile.indices[0], tile.lanes // tile.rows)
    extents = (int(rows), intrinsic.lanes, int(words), intrinsic.group)
    sums = P.Apply(tiles.dtype, intrinsic=intrinsic, operands=(old, *operands), extents=extents, lanes=count)
    return P.Store(tiles, index, sums, rows=int(rows))


def stored_tile(store: P.Store, load: Load, intrinsic: Intrinsic, row: tuple[Symbol, int], lane: Symbol) -> P.Stmt:
    """The statement that stores a tile.

    Args:
        store: of one of its elements; load: of that element.
        intrinsic: by which tiles are multiplied; row: of a tile, and how many there are; lane: of a tile.

    Raises:
        ScatteredOperandError: the elements do not lie in memory as tiles are stored, in rows of consecutive elements.
    """
    symbol, rows = row
    pitch = store.index.coefficient(symbol)
    if not pitch or any(index.coefficient(lane) != 1 for index in (store.index, load.indices[0])):
        raise ScatteredOperandError(f"elements of {store.buffer.name} are not neighbours")
    index, tile = (n.substitute({symbol: ZERO, lane: ZERO}) for n in (store.index, load.indices[0]))
    _check_rows(intrinsic, store.buffer, pitch, index, intrinsic.lanes)
    value = replace(load, indices=(tile,), lanes=rows * intrinsic.lanes, rows=rows)
    return replace(store, index=index, value=value, rows=rows, pitch=pitch)


def _check_rows(intrinsic: Intrinsic, of: P.Buffer | Expr, pitch: int, start: Int, width: int) -> None:
    """Refuses rows, of so many elements, that lie otherwise than the hardware loads and stores them."""
    assert intrinsic.tiles is not None
    need, each = intrinsic.tiles.row_bytes, dtypes.size(of.dtype)
    buffer = of.tensor if isinstance(of, E.Load) else of
    if pitch * each % need:
        raise ScatteredOperandError(f"rows lie {pitch * each} bytes apart, not whole pieces of {need} bytes")
    begin = min(2 * need, width * each)
    if isinstance(buffer, P.Buffer) and need > 1 and not is_aligned(begin, buffer, start):
        raise ScatteredOperandError(f"{buffer.name} may begin at other places than multiples of {begin} bytes")


def _in_blocks(read: Load, factor: Expr, uses: Uses) -> Load:
    """The load of an operand that is multiplied where it lies: in rows, each the behaviour's of all but its first
    dimension, a constant step apart.

    Raises:
        ScatteredOperandError: it is computed, has a tail, or lies otherwise.
    """
    intrinsic = uses.intrinsic
    if not isinstance(factor, E.Load):
        raise ScatteredOperandError("a factor is computed, and tiles are multiplied where they lie")
    symbols = {axis: symbol for axis, (symbol, _) in zip(intrinsic.axes, uses.axes, strict=True)}
    if any(uses.count(n) != int(axis.extent) for n, axis in enumerate(intrinsic.axes)):
        raise ScatteredOperandError("a tile has fewer positions than are multiplied at once")
    own = [a for a in intrinsic.axes if any(a in index.symbols() for index in read.indices)]
    grid = np.meshgrid(*(np.arange(int(a.extent)) for a in own), indexing="ij")
    places: dict[Atom, np.ndarray] = dict(zip(own, grid, strict=True))
    (index,) = factor.indices
    start = index.substitute(dict.fromkeys(symbols.values(), ZERO))
    moved = index - start
    if not moved.symbols() <= {symbols[a] for a in own}:
        raise ScatteredOperandError(f"{factor.tensor.name}[{index}] has no constant steps")
    behind: dict[Atom, np.ndarray] = {symbols[a]: at for a, at in zip(own, grid, strict=True)}
    assert isinstance(read.tensor, Tensor)
    strides, width = dense_strides(read.tensor.shape), most_elements(read.tensor.shape[1:])
    wanted = sum(i.evaluate(places.__getitem__) * int(n) for i, n in zip(read.indices, strides, strict=True))
    lies = np.empty(most_elements(read.tensor.shape), np.int64)
    lies[wanted] = moved.evaluate(behind.__getitem__)
    rows = lies.reshape(-1, width)
    pitch = int(rows[1, 0]) if len(rows) > 1 else width
    if not (rows == np.arange(len(rows))[:, None] * pitch + np.arange(width)).all():
        raise ScatteredOperandError(f"{factor.tensor.name}[{index}] does not lie in blocks")
    _check_rows(intrinsic, factor, pitch, start, width)
    return replace(factor, indices=(start,), lanes=lies.size, rows=len(rows), pitch=pitch)


def _axes_of_rows(intrinsic: Intrinsic, read: Load) -> list[Axis]:
    """How the tile of an operand lies: the axis from row to row, then those along a row, from the inside out."""
    steps = {a: intrinsic.position(read, {b: int(a is b) for b in intrinsic.axes}) for a in intrinsic.axes}
    width = most_elements(read.tensor.shape[1:])  # type: ignore[attr-defined]
    along = sorted((a for a, step in steps.items() if 0 < step < width), key=lambda a: steps[a])
    return [next(a for a, step in steps.items() if step == width), *along]


def _tile(
    factor: Expr, along: Sequence[tuple[Symbol, int]], down: tuple[Symbol, int], others: Mapping[Symbol, int]
) -> Load:
    """The load of a tile whose rows are walked `along` and `down`; of `others` it depends on those of one position."""
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
    if pitch is None or pitch < 0 or any(s in index.symbols() for s, n in others.items() if n > 1):
        raise ScatteredOperandError(f"{factor.tensor.name}[{index}] has no constant step from row to row")
    start = index.substitute(dict.fromkeys((symbol, *others, *(a for a, _ in along)), ZERO))
    return replace(factor, indices=(start,), lanes=rows * width, rows=rows, pitch=pitch)
