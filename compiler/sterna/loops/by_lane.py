"""Loops of kind "lanes": written out, with what they repeat in all lanes taken from vectors.

A product of a vector and a number that is repeated needs one load for every number. Numbers that lie side by side can
be loaded as one vector instead, of which each product takes a lane: the multiplication by an element of NEON, a shuffle
elsewhere. The same goes for small groups of bytes, which dot products repeat.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sterna.ir.integer import Int
from sterna.loops import program as P
from sterna.te import expr as E
from sterna.te.expr import Expr, Load

#: Operations of one operand that are done on a whole vector before a lane is taken.
_ELEMENTWISE = (E.Cast, E.Bitcast, E.Unary)


def from_lanes(stmt: P.Stmt, width: int) -> P.Stmt:
    """Rewrites every run of straight-line statements inside what a loop has been written out to.

    Args:
        width: elements of a vector.
    """
    out: list[P.Stmt] = []
    run: list[P.Stmt] = []
    for s in P.members(stmt):
        if isinstance(s, (P.Store, P.Assign, P.Let)):
            run.append(s)
            continue
        out += _run(run, width)
        run = []
        out.append(P.map_children(s, lambda inner: from_lanes(inner, width)) if P.children(s) else s)
    return P.seq(*out, *_run(run, width))


@dataclass(frozen=True)
class _Repeated:
    """A value that is repeated in all lanes: what one load reads, and what is done to it."""

    value: Expr
    load: Load

    @property
    def start(self) -> int:
        return self.load.indices[0].const


def _run(stmts: Sequence[P.Stmt], width: int) -> list[P.Stmt]:
    """Statements one after another."""
    written = {s.buffer for s in stmts if isinstance(s, P.Store)}
    stores = any(not b.scope.is_variables for b in written)
    groups: dict[tuple[P.Buffer, Int, int], dict[Expr, _Repeated]] = {}
    for s in stmts:
        value = P.value_of(s)
        assert value is not None
        for found in _repeated(value):
            buffer = found.load.tensor
            assert isinstance(buffer, P.Buffer)
            # What the statements themselves may change is read where it stands.
            if buffer in written or (buffer.may_alias and stores):
                continue
            (index,) = found.load.indices
            key = (buffer, index - index.const, found.load.lanes)
            groups.setdefault(key, {})[found.value] = found
    taken: dict[Expr, Expr] = {}
    for (_, _, size), group in groups.items():
        if size >= width:
            continue  # no vector holds two of them
        for first, lanes, active, members in _vectors(list(group.values()), size, width):
            for each in members:
                (index,) = each.load.indices
                vector = each.load.changed(indices=(index - each.start + first,), lanes=lanes, active=active)
                whole = _on(each.value, vector)
                taken[each.value] = P.Lane(whole.dtype, a=whole, lane=each.start - first, lanes=size)
    if not taken:
        return list(stmts)
    memo: dict[Expr, Expr] = {}

    def rule(node: Expr) -> Expr | None:
        lane = taken.get(node.a) if isinstance(node, P.Broadcast) else None
        return None if lane is None else node.changed(a=lane)

    return [P.with_value(s, E.rewrite(value, rule, memo)) for s in stmts if (value := P.value_of(s)) is not None]


def _repeated(value: Expr) -> Iterator[_Repeated]:
    for node in E.walk(value):
        if isinstance(node, P.Broadcast):
            inner = node.a
            while isinstance(inner, _ELEMENTWISE):
                (inner,) = inner.children()
            if isinstance(inner, Load) and _plain(inner):
                yield _Repeated(node.a, inner)


def _plain(load: Load) -> bool:
    """Whether a load reads neighbours in memory that vectors hold."""
    buffer = load.tensor
    assert isinstance(buffer, P.Buffer)
    apart = buffer.dtype == "bool" or buffer.scope.is_variables or buffer.scope.is_tiles
    return not apart and not load.rows and load.active is None and (load.lanes == 1 or load.stride == 1)


def _vectors(
    repeated: Sequence[_Repeated], size: int, width: int
) -> Iterator[tuple[int, int, int | None, list[_Repeated]]]:
    """The vectors that values of one buffer lie in, as few as can be: first element, lanes, how many of them are
    loaded, and the values. What lies in none with another one is left alone.

    Args:
        size: elements of a value.
    """
    left = sorted(repeated, key=lambda each: each.start)
    low, high = left[0].start, left[-1].start + size
    while left:
        first, lanes, active = left[0].start, width, None
        if first + width > high:
            # No element beyond the last: the vector begins earlier, or is a shorter one.
            first = max(low, high - width)
            span = high - first
            lanes = 1 << (span - 1).bit_length()
            active = None if span == lanes else span
        members = [each for each in left if each.start + size <= first + lanes]
        left = left[len(members) :]
        if len({each.start for each in members}) > 1:
            yield first, lanes, active, members


def _on(value: Expr, vector: Load) -> Expr:
    """What is done to a load, done to another one."""
    if isinstance(value, Load):
        return vector
    (inner,) = value.children()
    return value.with_children((_on(inner, vector),))
