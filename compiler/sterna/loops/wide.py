"""Accesses of a thread to several neighbouring elements at once.

The loop program says it with vectors, and with copies of several elements. Of generators whose values are scalars a
vector is a few accesses as wide as its place allows, and all else is done lane by lane.
"""

from __future__ import annotations

from dataclasses import dataclass

from sterna.ir import dtypes
from sterna.ir.integer import ZERO, Int
from sterna.ir.memory import INPUT, OUTPUT, PARAM, Memory, Scope
from sterna.loops import program as P
from sterna.loops.thread_positions import is_far, is_shared
from sterna.te import expr as E
from sterna.te.layout import lies_at
from sterna_runtime.abi import ALIGNMENT

#: Bytes that one access of a thread may move.
WIDTHS = (1, 2, 4, 8, 16)
#: What inputs and outputs on a device begin at multiples of, also those that programs bind (STERNA_DEVICE_ALIGNMENT).
_BOUND = 16


@dataclass(frozen=True)
class Widths:
    """How wide the accesses of a thread are at most in what a generator writes, in bytes; 0: an element at a time.

    Args:
        vectors: of what is a vector in the loop program; lanes: elements of one access, 0: any number; least: bytes of
            an access of several elements, which are single ones otherwise.
        copies: of copies; asynchronous: of those that go on while the threads compute.
    """

    vectors: int = 0
    lanes: int = 0
    copies: int = 0
    asynchronous: int = 0
    least: int = 0

    def at_once(self, access: E.Load | P.Store) -> int:
        """Elements of a vector in memory that threads share with others that each access takes: as many as lie side by
        side at a multiple of their bytes. 1: an element at a time."""
        if isinstance(access, E.Load):
            assert isinstance(access.tensor, P.Buffer)
            buffer, index, lanes = access.tensor, access.indices[0], access.lanes
        else:
            buffer, index, lanes = access.buffer, access.index, access.value.lanes
        apart = access.stride != 1 or access.rows or access.active not in (None, lanes)
        if lanes == 1 or apart or buffer.scope.private or buffer.scope.is_tiles or buffer.scope.in_scratch:
            return 1
        size = dtypes.size(buffer.dtype)
        widest = min(self.vectors, self.lanes * size) if self.lanes else self.vectors
        found = _widest(lanes * size, size, widest, (buffer, index))
        return found // size if found >= self.least else 1

    def copied_at_once(self, copy: P.Copy) -> int:
        """Bytes that each access of a copy moves: as many as both places allow."""
        size = dtypes.size(copy.source.dtype)
        widest = max(self.copies, self.asynchronous) if is_asynchronous(copy) else self.copies
        return _widest(copy.elements * size, size, widest, (copy.source, copy.at), (copy.destination, copy.to))


def is_asynchronous(copy: P.Copy) -> bool:
    """Whether a copy may go on while the threads of a task compute: one from the device's memory to the task's."""
    return copy.asynchronous and is_far(copy.source) and is_shared(copy.destination)


def is_aligned(multiple: int, buffer: P.Buffer, index: Int) -> bool:
    """Whether an element of a buffer is known to begin at a multiple of so many bytes."""
    # The slot of what a call brings is its number.
    begin = ZERO if buffer.scope in (INPUT, OUTPUT) else buffer.begin
    known = _known(buffer.scope) % multiple == 0 and lies_at(multiple, 1, begin)
    return known and lies_at(multiple, dtypes.size(buffer.dtype), index)


def _known(scope: Scope) -> int:
    """What the first byte of a place for buffers is a multiple of, on a device."""
    if isinstance(scope, Memory) and not scope.in_scratch:
        return scope.alignment
    if scope in (INPUT, OUTPUT):
        return _BOUND
    return ALIGNMENT if scope is PARAM or scope.in_scratch else 1


def _widest(nbytes: int, size: int, most: int, *places: tuple[P.Buffer, Int]) -> int:
    """Bytes of the widest accesses by which so many bytes can be moved; those of an element if no wider ones."""
    wide = (n for n in WIDTHS if size < n <= most and nbytes % n == 0)
    return max((n for n in wide if all(is_aligned(n, *place) for place in places)), default=size)
