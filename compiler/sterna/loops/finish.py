"""The passes between lowering and code generation, in order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from sterna.ir import dtypes
from sterna.loops import program as P
from sterna.loops.barriers import with_barriers
from sterna.loops.copies import with_waits
from sterna.loops.first_terms import first_terms
from sterna.loops.limits import as_extremum
from sterna.loops.long_integers import is_long_integer, of_words
from sterna.loops.math import expand_math
from sterna.loops.quotients import divide_by_floats
from sterna.loops.races import verify_threads
from sterna.loops.registers import promote_registers
from sterna.loops.roots import square_root
from sterna.loops.rounding import by_arithmetic
from sterna.loops.share import share
from sterna.loops.shuffles import shuffle_loads
from sterna.loops.small_floats import widen_small_floats
from sterna.loops.tiles import place_tiles
from sterna.loops.unroll import unroll
from sterna.loops.vectorize import vectorize
from sterna.loops.verify import verify
from sterna.te.division import is_quotient
from sterna.te.expr import MATH, Binary, Cast, Expr, Nearest, Unary, rewrite, walk

Body = Callable[[P.Stmt], P.Stmt]


@dataclass(frozen=True)
class LoopPass:
    """One of them. Every one gives a program that the interpreter can run, and that computes the same."""

    name: str
    run: Callable[[P.Function], P.Function]


def _of_bodies(name: str, run: Body) -> LoopPass:
    return LoopPass(name, lambda function: replace(function, body=run(function.body)))


@dataclass(frozen=True)
class Arithmetic:
    """What a processor computes by instructions, so that it is not taken apart.

    Args:
        rounded: what it has instructions for that round (`targets.target`).
        rootless: the types whose square roots it has no instruction for (`targets.features`).
        doubles: whether float64 helps to compute with float32: sines and cosines reduce their arguments in it, and
            powers take logarithms; else integers and pairs of numbers do.
        comparisons: whether vectors of floats are compared; else what limits them is their extrema.
        longs: whether vectors of floats become integers of 64 bits by way of two words (`loops.long_integers`).
    """

    rounded: frozenset[str] = frozenset()
    rootless: frozenset[str] = frozenset()
    doubles: bool = True
    comparisons: bool = True
    longs: bool = False


PLAIN = Arithmetic()


def finish(function: P.Function, arithmetic: Arithmetic = PLAIN) -> P.Function:
    """The loop program that generators render: asynchronous copies waited for, threads kept apart by barriers, vectors
    explicit, loops unrolled, scattered loads as shuffles of whole vectors, registers named, sums begun with their first
    term, tiles placed, math expanded, 16-bit floats computed in 32 bits, integers divided, repeated values shared,
    every access proved in bounds, and threads proved apart.
    """
    for each in loop_passes(arithmetic):
        function = each.run(function)
    return verify_threads(verify(function))


def without_rounding(function: P.Function) -> P.Function:
    """A finished program for a target that has no instructions that round: a lesser one, which runs another's loops."""
    first = next(n for n, each in enumerate(LOOP_PASSES) if each.name == "math")
    for each in LOOP_PASSES[first:]:
        function = each.run(function)
    return verify(function)


#: Lanes of the vectors that instructions round.
_ROUNDED = (4, 8, 16)


def _expand(stmt: P.Stmt, memo: dict[Expr, Expr], has: Arithmetic) -> P.Stmt:
    if (value := P.value_of(stmt)) is not None:
        if (done := memo.get(value)) is None:
            done = _arithmetic(value, has)
            done = rewrite(done, lambda node: _root(node, has.rootless)) if has.rootless else done
            memo[value] = done = done if has.comparisons else rewrite(done, as_extremum)
        stmt = P.with_value(stmt, done)
    return P.map_children(stmt, lambda s: _expand(s, memo, has))


def _arithmetic(value: Expr, has: Arithmetic) -> Expr:
    """The value without elementary functions, quotients of vectors of integers, arithmetic in 16 bits and what no
    instruction rounds; most have none of them."""
    nodes = walk(value)
    if any(_rounds(node) for node in nodes):
        value = rewrite(value, lambda node: _rounded(node, has.rounded))
        nodes = walk(value)
    if any(node.lanes > 1 and is_quotient(node) for node in nodes):
        value = rewrite(value, _divided)
    if has.longs and any(node.lanes > 1 and is_long_integer(node) for node in nodes):
        value = rewrite(value, _of_words)
    if any(node.dtype in dtypes.HALVES for node in nodes):
        return expand_math(widen_small_floats(value), has.doubles)
    has_math = any(isinstance(n, (Unary, Binary)) and n.op in MATH for n in nodes)
    return expand_math(value, has.doubles) if has_math else value


def _divided(node: Expr) -> Expr | None:
    return divide_by_floats(node) if node.lanes > 1 and isinstance(node, Binary) and is_quotient(node) else None


def _of_words(node: Expr) -> Expr | None:
    return of_words(node) if node.lanes > 1 and isinstance(node, Cast) and is_long_integer(node) else None


def _rounds(node: Expr) -> bool:
    return isinstance(node, Nearest) or (isinstance(node, Binary) and node.op == "round_shift")


def _rounded(node: Expr, rounded: frozenset[str]) -> Expr | None:
    """The arithmetic of what rounds; None for all else, and where an instruction does it."""
    if not isinstance(node, (Nearest, Binary)) or not _rounds(node):
        return None
    has = node.op in rounded if isinstance(node, Binary) else "nearest" in rounded and dtypes.bits(node.dtype) == 8
    return None if has and node.lanes in _ROUNDED else by_arithmetic(node)


def _root(node: Expr, rootless: frozenset[str]) -> Expr | None:
    return square_root(node) if isinstance(node, Unary) and node.op == "sqrt" and node.dtype in rootless else None


def loop_passes(arithmetic: Arithmetic = PLAIN) -> tuple[LoopPass, ...]:
    """The passes, in order."""
    if arithmetic == PLAIN:
        return LOOP_PASSES
    math = _of_bodies("math", lambda body: _expand(body, {}, arithmetic))
    return tuple(math if each.name == "math" else each for each in LOOP_PASSES)


LOOP_PASSES: tuple[LoopPass, ...] = (
    _of_bodies("waits", with_waits),
    _of_bodies("barriers", with_barriers),
    _of_bodies("vectorize", vectorize),
    _of_bodies("unroll", unroll),
    _of_bodies("shuffle-loads", shuffle_loads),
    LoopPass("registers", promote_registers),
    _of_bodies("first-terms", first_terms),
    LoopPass("tiles", place_tiles),
    _of_bodies("math", lambda body: _expand(body, {}, PLAIN)),
    _of_bodies("share", share),
)
