"""The passes between lowering and code generation, in order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from sterna.loops import program as P
from sterna.loops.copies import with_waits
from sterna.loops.first_terms import first_terms
from sterna.loops.math import expand_math
from sterna.loops.quotients import divide_by_floats, is_quotient
from sterna.loops.races import verify_threads
from sterna.loops.registers import promote_registers
from sterna.loops.share import share
from sterna.loops.shuffles import shuffle_loads
from sterna.loops.small_floats import SMALL, widen_small_floats
from sterna.loops.tiles import place_tiles
from sterna.loops.unroll import unroll
from sterna.loops.vectorize import vectorize
from sterna.loops.verify import verify
from sterna.te.expr import MATH, Binary, Expr, Unary, rewrite, walk

Body = Callable[[P.Stmt], P.Stmt]


@dataclass(frozen=True)
class LoopPass:
    """One of them. Every one gives a program that the interpreter can run, and that computes the same."""

    name: str
    run: Callable[[P.Function], P.Function]


def _of_bodies(name: str, run: Body) -> LoopPass:
    return LoopPass(name, lambda function: replace(function, body=run(function.body)))


def finish(function: P.Function) -> P.Function:
    """The loop program that generators render: asynchronous copies waited for, vectors explicit, loops unrolled,
    scattered loads as shuffles of whole vectors, registers named, sums begun with their first term, tiles placed, math
    expanded, 16-bit floats computed in 32 bits, integers divided, repeated values shared, every access proved in
    bounds, and threads proved apart."""
    for each in LOOP_PASSES:
        function = each.run(function)
    return verify_threads(verify(function))


def _expand(stmt: P.Stmt, memo: dict[Expr, Expr]) -> P.Stmt:
    if (value := P.value_of(stmt)) is not None:
        if (done := memo.get(value)) is None:
            memo[value] = done = _arithmetic(value)
        stmt = P.with_value(stmt, done)
    return P.map_children(stmt, lambda s: _expand(s, memo))


def _arithmetic(value: Expr) -> Expr:
    """The value without elementary functions, quotients of vectors of integers and arithmetic in 16 bits; most have
    none of them."""
    nodes = walk(value)
    if any(node.lanes > 1 and is_quotient(node) for node in nodes):
        value = rewrite(value, _divided)
    if any(node.dtype in SMALL for node in nodes):
        return expand_math(widen_small_floats(value))
    return expand_math(value) if any(isinstance(n, (Unary, Binary)) and n.op in MATH for n in nodes) else value


def _divided(node: Expr) -> Expr | None:
    return divide_by_floats(node) if node.lanes > 1 and isinstance(node, Binary) and is_quotient(node) else None


LOOP_PASSES: tuple[LoopPass, ...] = (
    _of_bodies("waits", with_waits),
    _of_bodies("vectorize", vectorize),
    _of_bodies("unroll", unroll),
    _of_bodies("shuffle-loads", shuffle_loads),
    LoopPass("registers", promote_registers),
    _of_bodies("first-terms", first_terms),
    LoopPass("tiles", place_tiles),
    _of_bodies("math", lambda body: _expand(body, {})),
    _of_bodies("share", share),
)
