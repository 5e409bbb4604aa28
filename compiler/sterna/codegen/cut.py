"""Which kernels share a translation unit: decided by the length of their text alone, while they are made one by one.

A compiler's time goes by the length of a kernel's text, and a unit costs something of its own: a process, the
declarations that all begin with. So units are large in the middle; small at first, when processors wait for something
to do; and small at the end, when one that is left over would be waited for.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, TypeVar

K = TypeVar("K")

#: Characters of text at which a unit is closed: at least and at most.
LEAST, MOST = 24 << 10, 96 << 10
#: Into how many units what is left would go.
_SHARES = 4


@dataclass
class Cut(Generic[K]):
    """The kernels of a model, cut into units as they come.

    Args:
        kernels: how many will come.
    """

    kernels: int
    least: int = LEAST
    most: int = MOST
    open: list[K] = field(default_factory=list)
    closed: int = 0
    _size: int = 0
    _done: int = 0
    _seen: int = 0

    def add(self, kernel: K, size: int) -> list[K]:
        """Takes another kernel; the unit that is complete with it, or none. The last kernels stay `open`."""
        self.open.append(kernel)
        self._size += size
        self._done += size
        self._seen += 1
        left = self.kernels - self._seen
        rest = left * self._done // self._seen
        limit = min(max(min(self._done - self._size, rest // _SHARES), self.least), self.most)
        if left <= 0 or self._size < limit:
            return []
        unit, self.open, self._size = self.open, [], 0
        self.closed += 1
        return unit
