"""The tile of a product that a task computes by fragments of matrices, and the subgroups that share it."""

from __future__ import annotations

from math import ceil, gcd, prod

from sterna.ir.memory import SECTOR
from sterna.schedule.strategies.analysis import Context, at_least

#: Rows and columns of the tile of a task, at most and at least, as far as it is halved for the sake of more tasks.
MOST, LEAST = 64, 32
#: Columns of the longest row of a result that is one task's because it is no whole sectors.
LONG_ROW = 128
#: Larger tiles, where there are so many tasks for each multiprocessor. A tile asks for both matrices once for so many
#: columns and rows, and of 64 x 64 it waits for the cache that all tasks share.
LARGE, WAVES = ((256, 128), (128, 256), (128, 128), (128, 64), (64, 128)), 2
#: Tasks that keep a device busy, and those that are enough for the sake of whole rows.
BUSY, SOME = 64, 16
#: Subgroups of a task, and elements of its tile that each has at most: more are more registers than a thread has.
SUBGROUPS, OWN = 4, 64 * 64


def tile_of(rows: int, columns: int, batch: int, each: int) -> tuple[int, int]:
    """Rows and columns of a task: as many as there are or fit, but fewer where that would be few tasks. Rows of the
    result that are no whole sectors of memory are one task's, as parts of them are in more sectors than they fill; long
    ones where there are enough tasks all the same.

    Args:
        each: bytes of an element of the result.
    """
    high, wide = (max(16, min(MOST, at_least(n))) for n in (rows, columns))

    def tasks() -> int:
        return batch * ceil(rows / high) * ceil(columns / wide)

    whole = -(-columns // 16) * 16
    if columns * each % SECTOR and (whole <= MOST or (whole <= LONG_ROW and batch * ceil(rows / LEAST) >= SOME)):
        wide = whole
        while tasks() < BUSY and high > LEAST:
            high //= 2
        return high, wide
    while tasks() < BUSY and max(high, wide) > LEAST:
        high, wide = (high // 2, wide) if high >= wide else (high, wide // 2)
    return high, wide


def large_tile(rows: int, columns: int, batch: int, context: Context) -> tuple[int, int] | None:
    """The large tile that computes and asks for least; None where there are too few tasks of it."""
    threads = context.target.threads
    assert threads is not None

    def tasks(tile: tuple[int, int]) -> int:
        return batch * ceil(rows / tile[0]) * ceil(columns / tile[1])

    def cost(tile: tuple[int, int]) -> float:
        whole = ceil(tasks(tile) / threads.multiprocessors) * prod(tile)
        return whole * (1 + MOST * (1 / tile[0] + 1 / tile[1]))

    enough = [tile for tile in LARGE if tasks(tile) >= WAVES * threads.multiprocessors]
    found = min([*enough, (MOST, MOST)], key=cost)
    return found if found in enough else None


def subgroups_of(tile: tuple[int, int], most: int) -> tuple[int, int]:
    """How many subgroups there are along a tile, at most so many: each has a fragment at least."""
    down = min(max(2, tile[0] // 64), most, tile[0] // 16)
    fragments = tile[1] // 16
    across = next((n for n in (most // down, most // down + 1) if fragments % n == 0), gcd(most // down, fragments))
    return max(down, min(most // across, tile[0] // 16)), across
