"""Accesses of a thread to several neighbouring elements at once.

The loop program says it with vectors. Of targets whose values are scalars a vector is a few accesses as wide as its
place allows, and all else is done lane by lane.
"""

from __future__ import annotations

from sterna.ir import dtypes
from sterna.ir.integer import ZERO, Int
from sterna.ir.memory import INPUT, OUTPUT
from sterna.loops import program as P
from sterna.loops.copies import WIDTHS, lies_at
from sterna.te import expr as E


def at_once(access: E.Load | P.Store, widest: int) -> int:
    """Elements of a vector in memory that threads share with others that each access takes: as many as lie side by
    side at a multiple of their bytes, as the buffer does. 1: an element at a time.

    Args:
        widest: bytes of an access.
    """
    if isinstance(access, E.Load):
        assert isinstance(access.tensor, P.Buffer)
        buffer, index, lanes = access.tensor, access.indices[0], access.lanes
    else:
        buffer, index, lanes = access.buffer, access.index, access.value.lanes
    apart = access.stride != 1 or access.rows or access.active not in (None, lanes)
    if lanes == 1 or apart or buffer.scope.private or buffer.scope.is_tiles:
        return 1
    return neighbours(buffer, index, lanes, widest)


def neighbours(buffer: P.Buffer, index: Int, count: int, widest: int) -> int:
    """Of so many neighbours from a position on, those that an access of at most so many bytes takes."""
    if buffer.scope.in_scratch:
        return 1
    size = dtypes.size(buffer.dtype)
    # Inputs and outputs begin at multiples of the greatest width; all else does so from where it lies on.
    begin = ZERO if buffer.scope in (INPUT, OUTPUT) else buffer.begin
    wide = (n // size for n in WIDTHS if size <= n <= widest and lies_at(n, size, index) and lies_at(n, 1, begin))
    return max((n for n in wide if count % n == 0), default=1)
