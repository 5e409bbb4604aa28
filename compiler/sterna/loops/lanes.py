"""Innermost loops of hand-written programs as vectors.

A loop that only moves or computes elements which lie side by side is cut into vectors and what is left of them. What C
compilers make of such a loop depends on how long it is and on what stands around it: one unrolls a row of 64 elements
into 64 loads and stores.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sterna.ir import dtypes
from sterna.ir.integer import Atom, Int, Symbol, as_int, of
from sterna.loops import program as P
from sterna.loops.unroll import written_out
from sterna.te import expr as E

#: Iterations below which a loop stays as it is.
SHORT = 4


def in_lanes(function: P.Function, lanes: Callable[[int], int]) -> P.Function:
    """The program with its loops over neighbouring elements as vectors.

    Args:
        lanes: of a vector, by the bits of an element.
    """
    return replace(function, body=_rewritten(function.body, lanes))


def _rewritten(stmt: P.Stmt, lanes: Callable[[int], int]) -> P.Stmt:
    if not isinstance(stmt, P.For) or stmt.kind != "serial" or not _side_by_side(stmt):
        return P.map_children(stmt, lambda s: _rewritten(s, lanes))
    count = stmt.extent - stmt.start
    width = lanes(max(32, *(dtypes.bits(dtype) for dtype in _types(stmt))))
    return _cut(stmt, int(count), width) if width > 1 and count.is_const and int(count) >= SHORT else stmt


def _cut(loop: P.For, count: int, width: int) -> P.Stmt:
    """The loop as one over vectors, and the rest of less than a vector."""
    whole, rest, name = count // width, count % width, loop.symbol.name
    block, lane = Symbol(f"{name}_block", 0, max(whole - 1, 0)), Symbol(f"{name}_lane", 0, width - 1)
    vectors: P.Stmt | None = None
    if whole:
        inside = _at(loop, loop.start + of(block) * width + of(lane))
        vectors = P.For(block, as_int(whole), "serial", P.For(lane, as_int(width), "vectorized", inside))
    left: P.Stmt | None = None
    if rest:
        last = Symbol(f"{name}_last", 0, rest - 1)
        inside = _renamed(_at(loop, loop.start + whole * width + of(last)))
        left = P.For(last, as_int(rest), "vectorized", inside)
    return P.seq(vectors, left)


def _at(loop: P.For, place: Int) -> P.Stmt:
    """The body for one iteration."""
    values: dict[Atom, Int] = {loop.symbol: place}
    return written_out(loop.body, values)


def _renamed(body: P.Stmt) -> P.Stmt:
    """The same with names of its own."""
    lets = [s for s in P.members(body) if isinstance(s, P.Let)]
    names = {s.variable: replace(s.variable, name=f"{s.variable.name}_last") for s in lets}

    def rule(node: E.Expr) -> E.Expr | None:
        known = names.get(node.variable) if isinstance(node, P.Read) else None
        return None if known is None else P.Read(node.dtype, variable=known)

    stmts = P.members(P.map_values(body, rule))
    return P.seq(*(replace(s, variable=names[s.variable]) if isinstance(s, P.Let) else s for s in stmts))


def _types(loop: P.For) -> set[str]:
    found = {s.buffer.dtype for s in P.members(loop.body) if isinstance(s, P.Store)}
    for s in P.members(loop.body):
        if (value := P.value_of(s)) is not None:
            found |= {node.dtype for node in E.walk(value)}
    return found - {"bool"}


def _side_by_side(loop: P.For) -> bool:
    """Whether all that a loop does is to store neighbouring elements, which no iteration has from another one."""
    members = P.members(loop.body)
    stores = [s for s in members if isinstance(s, P.Store)]
    if not stores or any(not isinstance(s, (P.Let, P.Store)) for s in members):
        return False
    places: dict[P.Buffer, Int] = {}
    for store in stores:
        if store.index.coefficient(loop.symbol) != 1 or places.setdefault(store.buffer, store.index) != store.index:
            return False
        if _apart(store.buffer) or store.value.lanes != 1:
            return False
    for s in members:
        value = P.value_of(s)
        assert value is not None
        if isinstance(s, P.Let) and (s.variable.dtype == "bool" or s.variable.lanes != 1):
            return False
        for node in E.walk(value):
            if isinstance(node, E.IndexValue) and node.index.coefficient(loop.symbol) is None:
                return False
            if isinstance(node, E.Load) and not _plain(node, loop.symbol, places):
                return False
    return True


def _apart(buffer: P.Buffer) -> bool:
    """Whether a buffer's elements are no neighbours in memory that vectors hold: each of a register's has its name."""
    return buffer.dtype == "bool" or buffer.scope.is_variables or buffer.scope.is_tiles


def _plain(load: E.Load, symbol: Symbol, places: dict[P.Buffer, Int]) -> bool:
    """Whether a load is of neighbouring elements, or of one, that the loop does not write for another iteration."""
    buffer, (index,) = load.tensor, load.indices
    assert isinstance(buffer, P.Buffer)
    if _apart(buffer) or load.lanes != 1 or buffer.may_alias:
        return False
    if buffer in places and index != places[buffer]:
        return False
    return index.coefficient(symbol) in (-1, 0, 1)
