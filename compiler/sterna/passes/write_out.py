"""Firmware's loops: the innermost ones that a run spends its time in are written out by several iterations, and all
stay rolled beyond that, whatever the compiler.

What compilers make of loops differs: gcc keeps them, LLVM writes most of them out, a network's code three times over.
Neither knows how often a loop is run. Here that is known, and a kilobyte of code has to save a share of the model's
instructions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from sterna.ir import dtypes
from sterna.loops import program as P
from sterna.loops.effort import BYTES, LOOP, Innermost, effort, innermost
from sterna.loops.unroll import by_several
from sterna.passes.context import PassContext
from sterna.passes.stages import Finished, Planned, owners
from sterna.targets.target import Target

#: Of a model's instructions, what a byte of code has to save, by what code is to be.
_LEAST_SAVED = {"fast": 0.04 / 1024, "small": 0.1 / 1024, "smallest": math.inf}
#: How many instructions it has to save in any case: a model that takes a thousand is best kept small.
_LEAST_INSTRUCTIONS = 2.0
#: Instructions before a loop whose iterations the processor counts.
_COUNTER = 3 * LOOP
#: Iterations that may become one.
_COUNTS = range(2, 17)


def write_out(finished: Finished, context: PassContext) -> Finished:
    """The same kernels, with the loops that are worth it written out."""
    kernels, bits = finished.kernels, context.target.vector_bits
    runs = [finished.kernel_of.count(n) for n in range(len(kernels))]
    total = sum(times * effort(kernel.function, bits).instructions for times, kernel in zip(runs, kernels, strict=True))
    least = max(_LEAST_SAVED[context.target.code] * total, _LEAST_INSTRUCTIONS)
    done: dict[int, P.Function] = {}
    for owner in owners(kernels):
        users = [(kernel, times) for kernel, times in zip(kernels, runs, strict=True) if kernel.code is owner.code]
        counts = {id(each.loop): _count(each, least, context.target) for each in _innermost(users, bits)}
        done[id(owner.code)] = replace(owner.code, body=_rolled(owner.code.body, counts))
    return replace(finished, kernels=tuple(_with_code(kernel, done[id(kernel.code)]) for kernel in kernels))


def _innermost(users: Sequence[tuple[Planned, int]], vector_bits: int) -> Iterator[Innermost]:
    """The innermost loops of one code, with how often a run of the model comes around them by all that have it."""
    found = [
        innermost(kernel.code, vector_bits, {symbol: kernel.arguments[n] for symbol, n in kernel.code.dims})
        for kernel, _ in users
    ]
    for same in zip(*found, strict=True):
        iterations = (times * each.iterations for each, (_, times) in zip(same, users, strict=True))
        yield replace(same[0], iterations=sum(iterations))


def _count(each: Innermost, least: float, target: Target) -> int:
    """How many iterations of a loop become one: the most of which the last are still worth their bytes."""
    trips, count = each.loop.extent - each.loop.start, 1
    if each.loop.kind != "serial" or trips.bounds()[0] == 0 or any(not _may_repeat(s) for s in P.walk(each.loop.body)):
        return 1
    if target.vector_bits == 0 and any(map(_is_of_floats, P.walk(each.loop.body))):
        return 1  # tiles of floats are as large as code may be (`float_products`); without FPU, loops are nothing
    entries = each.iterations / int(trips) if trips.is_const else 0.0

    def overhead(count: int) -> float:
        if trips == count:
            return 0.0
        return entries * _COUNTER if target.counted_loops else LOOP * (each.iterations / count + entries)

    for more in _COUNTS:
        if trips % more == 0 and overhead(count) - overhead(more) >= least * (more - count) * each.written * BYTES:
            count = more
    return count


def _may_repeat(s: P.Stmt) -> bool:
    """Whether a statement may stand in a loop's body several times."""
    return not isinstance(s, (P.Break, P.Alloc, P.Barrier, P.Tiles, P.Commit, P.Wait, P.Settle, P.Copy))


def _is_of_floats(s: P.Stmt) -> bool:
    value = P.value_of(s)
    return value is not None and dtypes.is_float(value.dtype)


def _rolled(stmt: P.Stmt, counts: Mapping[int, int]) -> P.Stmt:
    """A statement whose loops stay as they are but for those of which several iterations become one. Loops that data
    end, and those around them, are left to compilers: nothing here knows how often they are run."""
    if isinstance(stmt, P.For) and (count := counts.get(id(stmt), 1)) > 1:
        stmt = by_several(stmt, count)
        return stmt.changed(rolled=True) if isinstance(stmt, P.For) else stmt
    done = P.map_children(stmt, lambda s: _rolled(s, counts))
    if not isinstance(done, P.For) or any(isinstance(s, P.Break) for s in P.walk(done.body)):
        return done
    return done.changed(rolled=True)


def _with_code(kernel: Planned, code: P.Function) -> Planned:
    return replace(kernel, function=code) if kernel.general is None else replace(kernel, general=code)
