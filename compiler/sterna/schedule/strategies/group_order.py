"""In which order the tiles of a product are computed: so that what they share stays in the cache of all groups.

Tiles are taken panel by panel, each some columns of tiles wide, and within a panel row by row. With one panel these are
rows of all columns, with panels of one column they are columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from sterna.ir import dtypes
from sterna.schedule.schedule import Schedule
from sterna.schedule.strategies.analysis import Context, size
from sterna.te.axis import Axis
from sterna.te.expr import Load
from sterna.te.tensor import Tensor


def in_panels(s: Schedule, out: str, rows: Sequence[str], columns: str, panel: int, many: int) -> list[str]:
    """The axes of tiles of an output, outermost first.

    Args:
        rows: axes of tiles along rows; columns: that along columns, of which there are `many`; panel: so many are one.
    """
    if panel == many:
        return [*rows, columns]
    if panel == 1:
        return [columns, *rows]
    outer, inner = s.split(out, columns, panel)
    return [outer, *rows, inner]


def panel_of(read: tuple[int, int], result: int, high: int, wide: int, context: Context, known: bool = True) -> int:
    """How many columns of tiles are a panel: those with which least comes from memory, by what the cache of all groups
    holds.

    Args:
        read: bytes of a product's operands; result: of what it computes.
        high, wide: tiles along rows and columns; known: whether there are as many columns in every run.
    """
    assert context.target.threads is not None
    room, (left, right) = context.target.threads.cache_bytes, read

    def moved(panel: int) -> int:
        """Of both operands: the right one's part stays while the rows of a panel are computed, if it fits beside a row
        of the left one and of the result. The left one comes for every panel, unless all of it stays beside the parts
        and the result of one panel and the next."""
        part, row = right * panel // wide, result * panel // (wide * high)
        again = wide // panel if panel < wide and left + 2 * part + row * high > room else 1
        return right * (1 if part + row + left // high <= room else high) + left * again

    panels = [n for n in range(wide, 0, -1) if wide % n == 0 and (known or n in (1, wide))]
    return context.choose("panel", lambda: panels, min(panels, key=moved))


def bytes_read(load: Load, batch: Sequence[Axis]) -> int:
    """What a product of a batch reads of an operand."""
    assert isinstance(load.tensor, Tensor)
    own = [prod(size(a.extent) for a in i.symbols() if isinstance(a, Axis) and a not in batch) for i in load.indices]
    return prod(min(size(n), many) for n, many in zip(load.tensor.shape, own, strict=True)) * dtypes.size(load.dtype)
