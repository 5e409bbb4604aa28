"""Loads of scattered lanes as loads of whole vectors and shuffles.

A vector whose lanes lie apart in memory is loaded element by element, one load and one insertion each. Where the lanes
lie within a few vectors, those are loaded instead and the lanes are picked from them; where several such vectors lie
side by side, they are the columns of a matrix whose rows are consecutive, and the matrix is transposed in registers.
Of a matrix of a few long rows, whose columns are written one after the other, the rows are woven into whole vectors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from sterna.ir import dtypes
from sterna.loops import program as P
from sterna.te import expr as E
from sterna.te.expr import Expr, Load

#: Bits within which an instruction interleaves the elements of two vectors of any width.
_BLOCK = 128
#: The most vectors that one of scattered lanes is picked from: a load and a shuffle each.
_NEAR = 4


def shuffle_loads(stmt: P.Stmt) -> P.Stmt:
    """Rewrites every run of straight-line statements inside a statement."""
    return _Shuffling().block(stmt)


@dataclass
class _Shuffling:
    """Runs being rewritten; `matrices` counts those that were turned, for names that no other has."""

    matrices: int = 0

    def block(self, stmt: P.Stmt) -> P.Stmt:
        out: list[P.Stmt] = []
        run: list[P.Store] = []
        for s in P.members(stmt):
            if isinstance(s, P.Store):
                run.append(s)
                continue
            out += self.run(run)
            run = []
            out.append(P.map_children(s, self.block) if P.children(s) else s)
        return P.seq(*out, *self.run(run))

    def run(self, stores: Sequence[P.Store]) -> list[P.Stmt]:
        """Stores one after another."""
        out: list[P.Stmt] = []
        rest: list[P.Store] = []
        while stores:
            lanes = _weavable(stores)
            if not lanes:
                rest.append(stores[0])
                stores = stores[1:]
                continue
            out += [*self.scattered(rest), *_weave(stores[:lanes], self.matrices)]
            self.matrices += 1
            rest, stores = [], stores[lanes:]
        return [*out, *self.scattered(rest)]

    def scattered(self, stores: Sequence[P.Store]) -> list[P.Stmt]:
        """Stores one after another, none of which are copies of long rows."""
        scattered = dict.fromkeys(load for s in stores for load in E.loads(s.value) if _scattered(load))
        if not scattered:
            return list(stores)
        written = {s.buffer for s in stores}
        columns: dict[tuple[object, ...], dict[int, Load]] = {}
        for load in scattered:
            buffer, (index,) = load.tensor, load.indices
            assert isinstance(buffer, P.Buffer)
            # What the stores themselves may change is read where it stands.
            if buffer not in written and not buffer.may_alias:
                matrix = (buffer, load.stride, load.lanes, load.active, index - index.const)
                columns.setdefault(matrix, {})[index.const] = load
        lets: list[P.Stmt] = []
        ready: dict[Expr, Expr] = {}
        for found in columns.values():
            for block in _neighbours(sorted(found), next(iter(found.values())).lanes):
                if 4 * len(block) >= found[block[0]].lanes and len(block) > 1:
                    lets += _transpose([found[at] for at in block], self.matrices, ready)
                    self.matrices += 1
        for load in scattered:
            if load not in ready and (picked := _picked(load)) is not None:
                ready[load] = picked
        memo: dict[Expr, Expr] = {}
        return [*lets, *(replace(s, value=E.rewrite(s.value, ready.get, memo)) for s in stores)]


def _scattered(load: Load) -> bool:
    return load.lanes > 1 and load.stride > 1 and not load.rows and load.dtype != "bool"


def _weavable(stores: Sequence[P.Store]) -> int:
    """How many stores, from the first one on, copy neighbouring columns of the same few rows to consecutive places: as
    many as a vector of one instruction's block has lanes, or half of them; 0 where there are fewer."""
    first = stores[0]
    load = first.value
    if not isinstance(load, Load) or not _scattered(load):
        return 0
    source, rows = load.tensor, load.lanes
    assert isinstance(source, P.Buffer)
    if rows & (rows - 1) or source is first.buffer or source.may_alias or first.buffer.may_alias:
        return 0

    def follows(n: int) -> bool:
        s = stores[n]
        whole = s.stride == 1 and not s.rows and s.active is None and load.active is None
        placed = s.buffer is first.buffer and s.index == first.index + n * rows
        return whole and placed and s.value == replace(load, indices=(load.indices[0] + n,))

    most = next((n for n in range(len(stores)) if not follows(n)), len(stores))
    block = _BLOCK // dtypes.bits(load.dtype)
    return next((lanes for lanes in (block, block // 2) if rows < lanes <= most), 0)


def _weave(stores: Sequence[P.Store], number: int) -> list[P.Stmt]:
    """Copies of as many columns as a vector has lanes, by vectors of the rows: perfect shuffles of the first half of
    them with the second, as often as their number can be halved."""
    lets: list[P.Let] = []
    first = stores[0]
    column, lanes = first.value, len(stores)
    assert isinstance(column, Load)
    count, (index,) = column.lanes, column.indices
    rows: list[Expr] = []
    for n in range(count):
        row = replace(column, indices=(index + n * column.stride,), stride=1, lanes=lanes)
        rows.append(_named(f"row{number}_{n}", row, lets))
    for stage in range(count.bit_length() - 1):
        new: list[Expr] = []
        for n in range(count // 2):
            for part in (0, lanes // 2):
                order = tuple(part + lane // 2 + lanes * (lane % 2) for lane in range(lanes))
                mixed = P.Shuffle(column.dtype, a=rows[n], b=rows[n + count // 2], order=order, lanes=lanes)
                new.append(_named(f"mix{number}_{stage}_{len(new)}", mixed, lets))
        rows = new
    return [*lets, *(replace(first, index=first.index + n * lanes, value=row) for n, row in enumerate(rows))]


def _neighbours(places: Sequence[int], most: int) -> list[list[int]]:
    """Runs of consecutive numbers, at most so many each."""
    runs: list[list[int]] = []
    for place in places:
        if runs and place == runs[-1][-1] + 1 and len(runs[-1]) < most:
            runs[-1].append(place)
        else:
            runs.append([place])
    return runs


def _transpose(columns: Sequence[Load], number: int, ready: dict[Expr, Expr]) -> list[P.Stmt]:
    """Loads the rows of a matrix of which the loads are the columns, and transposes it.

    Args:
        number: makes names unlike those of other matrices; ready: learns where each column is afterwards.
    """
    made: list[P.Let] = []
    first = columns[0]
    lanes, (index,) = first.lanes, first.indices
    count = lanes if first.active is None else first.active
    width = None if len(columns) == lanes else len(columns)
    rows: list[Expr] = []
    for n in range(lanes):
        if n >= count:
            # Lanes that nobody looks at.
            rows.append(rows[0])
            continue
        row = replace(first, indices=(index + n * first.stride,), stride=1, active=width)
        rows.append(_named(f"row{number}_{n}", row, made))
    for stage, exchanges in enumerate(_exchanges(lanes, dtypes.bits(first.dtype))):
        new = list(rows)
        for to, (a, b), order in exchanges:
            value = P.Shuffle(first.dtype, a=rows[a], b=rows[b], order=order, lanes=lanes)
            new[to] = _named(f"mix{number}_{stage}_{to}", value, made)
        rows = new
    ready.update(zip(columns, rows, strict=False))
    return _read(made, rows[: len(columns)])


def _read(lets: Sequence[P.Let], values: Sequence[Expr]) -> list[P.Stmt]:
    """Those of some definitions that values need, in order."""
    needed = {e.variable for value in values for e in E.walk(value) if isinstance(e, P.Read)}
    kept: list[P.Stmt] = []
    for let in reversed(lets):
        if let.variable in needed:
            needed |= {e.variable for e in E.walk(let.value) if isinstance(e, P.Read)}
            kept.append(let)
    return kept[::-1]


def _exchanges(lanes: int, bits: int) -> Iterator[list[tuple[int, tuple[int, int], tuple[int, ...]]]]:
    """The steps that transpose a square matrix of vectors: which row becomes which lanes of which two.

    Within blocks of 128 bits, rows are interleaved as in a perfect shuffle, which is one instruction of every machine;
    then blocks change places, by bits of their numbers (J. O. Eklundh, A Fast Computer Method for Matrix Transposing,
    1972).
    """
    block = min(lanes, _BLOCK // bits)
    half = block // 2
    step = 1
    while step < block:
        exchanges = []
        for first in range(0, lanes, block):
            for n in range(half):
                rows = (first + n, first + n + half)
                for part in (0, 1):
                    places = [lane // block * block + part * half + lane % block // 2 for lane in range(lanes)]
                    order = tuple(place + lanes * (lane % 2) for lane, place in enumerate(places))
                    exchanges.append((first + 2 * n + part, rows, order))
        yield exchanges
        step *= 2
    while step < lanes:
        exchanges = []
        for n in range(lanes):
            if not n & step:
                low = tuple(lane if not lane & step else lanes + lane - step for lane in range(lanes))
                high = tuple(lane + step if not lane & step else lanes + lane for lane in range(lanes))
                exchanges += [(n, (n, n + step), low), (n + step, (n, n + step), high)]
        yield exchanges
        step *= 2


def _picked(load: Load) -> Expr | None:
    """The lanes picked from the vectors that they lie in; None where those are too many."""
    lanes, (index,) = load.lanes, load.indices
    count = lanes if load.active is None else load.active
    last = (count - 1) * load.stride
    if last // lanes >= _NEAR:
        return None
    picked: Expr | None = None
    for n in range(last // lanes + 1):
        rest = last + 1 - n * lanes
        part = replace(load, indices=(index + n * lanes,), stride=1, active=None if rest >= lanes else rest)
        places = [lane * load.stride - n * lanes for lane in range(lanes)]
        if picked is None:
            picked = P.Shuffle(load.dtype, a=part, order=tuple(min(at, lanes - 1) for at in places), lanes=lanes)
        else:
            order = tuple(lanes + at if 0 <= at < lanes else lane for lane, at in enumerate(places))
            picked = P.Shuffle(load.dtype, a=picked, b=part, order=order, lanes=lanes)
    return picked


def _named(name: str, value: Expr, lets: list[P.Let]) -> Expr:
    variable = P.Variable(name, value.dtype, value.lanes)
    lets.append(P.Let(variable, value))
    return P.Read(variable.dtype, variable=variable, lanes=variable.lanes)
