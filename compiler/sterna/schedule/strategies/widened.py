"""Left operands that dot products take in a wider type than they have: copied to scratch, once for all columns."""

from __future__ import annotations

from math import prod

from sterna.intrinsics import Intrinsic
from sterna.ir import dtypes
from sterna.ir.memory import SCRATCH
from sterna.schedule.schedule import Schedule
from sterna.schedule.strategies.analysis import Context, size
from sterna.schedule.strategies.operands import Contraction
from sterna.schedule.strategies.tasks import make_tasks
from sterna.te.expr import Load

#: Columns from which on a copy is worth making, and the most bytes that it may take.
LEAST_COLUMNS, MOST_BYTES = 4, 4096
#: Rows of a tile.
_ROWS = 8


def widens(intrinsic: Intrinsic, left: Load) -> bool:
    """Whether an intrinsic takes the left operand in a wider type."""
    return dtypes.bits(intrinsic.operands[0]) > dtypes.bits(left.dtype)


def worth_widening(intrinsic: Intrinsic, contraction: Contraction) -> bool:
    """Whether what is copied of the left operand is few bytes in the wider type, and serves columns enough."""
    if not contraction.rows or size(contraction.columns.extent) < LEAST_COLUMNS:
        return False
    windows = _overlap(contraction)
    walked = (*contraction.inner, contraction.rows[-1]) if windows else contraction.inner
    spans = (
        1 + sum((size(a.extent) - 1) * abs(index.coefficient(a) or 0) for a in walked if a in index.symbols())
        for index in contraction.left.indices
    )
    return prod(spans) * dtypes.size(intrinsic.operands[0]) * (1 if windows else _ROWS) <= MOST_BYTES


def _overlap(contraction: Contraction) -> bool:
    """Whether neighbouring rows read elements in common."""
    last = contraction.rows[-1]
    return any(last in i.symbols() and i.symbols() & {*contraction.inner} for i in contraction.left.indices)


def widened_rows(
    s: Schedule,
    out: str,
    wide: str,
    columns: str,
    rows: list[str],
    contraction: Contraction,
    cycles: int,
    context: Context,
) -> str:
    """Widens the rows of a tile, or of a line of windows that overlap along it, and makes the tasks.

    Args:
        wide: the stage that widens; columns: the loop over panels; rows: the outer axes of the rows.

    Returns:
        The axis of one tile.
    """
    lead = rows[:-1] if _overlap(contraction) and len(rows) > 1 else rows
    within = rows[len(lead) :]
    s.reorder(out, *lead, columns, *within)
    place = make_tasks(s, out, lead, cycles, context, lead[-1])
    s.compute_at(wide, out, place, SCRATCH)
    return within[-1] if within else columns
