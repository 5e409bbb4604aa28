"""Weights that L2 does not keep, asked for before they are read."""

from __future__ import annotations

from collections.abc import Sequence

from sterna.ir import dtypes
from sterna.schedule.schedule import Schedule
from sterna.schedule.strategies.analysis import Context, product
from sterna.schedule.strategies.operands import Contraction, bytes_of
from sterna.schedule.strategies.tasks import extent_of

#: Rounds over a panel from which on the first, which waits for memory, does not count.
MOST_ROUNDS = 16
#: Of L2, what a panel may take, or the next one does not fit beside it.
SHARE_OF_L2 = 0.75


def fetch_ahead(
    s: Schedule, acc: str, out: str, columns: str, rows: Sequence[str], contraction: Contraction, context: Context
) -> None:
    """Lets the sums of a tile ask for the next panel of a packed constant, which comes from memory.

    Args:
        columns: the loop over panels; rows: those over tiles within it, each of which reads the whole panel.
    """
    target, right = context.target, contraction.right
    packing = s.packings.get(right.tensor.name)
    if not target.prefetches or packing is None or bytes_of(right) <= target.l2_bytes or not rows:
        return
    if any(row in i.symbols() for i in right.indices for row in contraction.rows):
        return
    state = s.stages[acc]
    loops = [leaf for leaf in state.leaves if leaf in state.reduction_leaves and leaf not in state.annotations]
    extents = [extent_of(s.stages[out], row) for row in rows]
    panel = product(packing.packed.shape[1:]) * dtypes.size(right.tensor.dtype)
    rounds = product(extents)
    if loops and 1 < rounds <= MOST_ROUNDS and panel <= SHARE_OF_L2 * target.l2_bytes:
        s.prefetch(acc, loops[-1], right.tensor.name, columns, list(rows))
