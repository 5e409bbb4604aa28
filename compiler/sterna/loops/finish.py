"""The passes between lowering and code generation, in order."""

from __future__ import annotations

from dataclasses import replace

from sterna.loops import program as P
from sterna.loops.copies import with_waits
from sterna.loops.math import expand_math
from sterna.loops.races import verify_threads
from sterna.loops.registers import promote_registers
from sterna.loops.share import share
from sterna.loops.small_floats import widen_small_floats
from sterna.loops.tiles import place_tiles
from sterna.loops.unroll import unroll
from sterna.loops.vectorize import vectorize
from sterna.loops.verify import verify
from sterna.te.expr import Expr


def finish(function: P.Function) -> P.Function:
    """The loop program that generators render: asynchronous copies waited for, vectors explicit, loops unrolled,
    registers named, tiles placed, math expanded, 16-bit floats computed in 32 bits, repeated values shared, every
    access proved in bounds, and threads proved apart."""
    body = unroll(vectorize(with_waits(function.body)))
    function = place_tiles(promote_registers(replace(function, body=body)))
    body = share(_expand(function.body, {}))
    return verify_threads(verify(replace(function, body=body)))


def _expand(stmt: P.Stmt, memo: dict[Expr, Expr]) -> P.Stmt:
    if (value := P.value_of(stmt)) is not None:
        if (done := memo.get(value)) is None:
            memo[value] = done = expand_math(widen_small_floats(value))
        stmt = P.with_value(stmt, done)
    return P.map_children(stmt, lambda s: _expand(s, memo))
