"""How many words a kernel reads from and writes to each buffer: what memories of different speed are given out by.

Every load and store of the loop program is counted as often as the loops around it run, of a choice the side with more.
Registers and arrays on the stack are counted too; whoever asks looks for the buffers that it knows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from math import prod

from sterna.ir import dtypes
from sterna.loops.program import Branch, Copy, For, Function, If, Instruction, LastTask, Store, own_loads
from sterna.loops.statements import Stmt
from sterna.loops.values import Buffer

#: Bytes of a word: what a small core's bus moves at a time.
WORD = 4


def traffic(function: Function) -> Mapping[Buffer, int]:
    """Words by buffer, in a run of all tasks of a kernel; where a size is open, of the greatest."""
    return _within(function.body)


def _within(stmt: Stmt) -> Counter[Buffer]:
    total: Counter[Buffer] = Counter()
    for buffer, words in _own(stmt):
        total[buffer] += words
    if isinstance(stmt, (If, Branch)):
        sides = [_within(side) for side in stmt.inside()]
        return total + sides[0] if len(sides) == 1 else total + (sides[0] | sides[1])
    for inner in stmt.inside():
        total += _within(inner)
    if isinstance(stmt, LastTask):
        # One of so many tasks runs it.
        return Counter({buffer: -(-words // stmt.count) for buffer, words in total.items()})
    if isinstance(stmt, For):
        times = _times(stmt)
        return Counter({buffer: words * times for buffer, words in total.items()})
    return total


def _times(loop: For) -> int:
    """How often a loop runs, at most; a bound that depends on another loop's number is taken at its greatest."""
    most = (loop.extent - loop.start).bounds()[1]
    return 1 if most is None else max(0, most)


def _own(stmt: Stmt) -> Iterator[tuple[Buffer, int]]:
    """What a statement itself moves."""
    for load in own_loads(stmt):
        assert isinstance(load.tensor, Buffer)
        yield load.tensor, _words(load.tensor, load.lanes, load.stride)
    if isinstance(stmt, Store):
        yield stmt.buffer, _words(stmt.buffer, stmt.value.lanes, stmt.stride)
    elif isinstance(stmt, Copy):
        yield stmt.source, _words(stmt.source, stmt.elements, 1)
        yield stmt.destination, _words(stmt.destination, stmt.elements, 1)
    elif isinstance(stmt, Instruction):
        for place in (stmt.result, *stmt.slices):
            step = place.strides[-1] if place.strides else 1
            inner = place.shape[-1] if place.shape else 1
            yield place.buffer, prod(place.shape[:-1]) * _words(place.buffer, inner, step)


def _words(buffer: Buffer, elements: int, stride: int) -> int:
    """Neighbours share words; a scalar takes one to itself."""
    if stride not in (0, 1):
        return elements * -(-dtypes.size(buffer.dtype) // WORD)
    return max(1, -(-elements * dtypes.size(buffer.dtype) // WORD))
