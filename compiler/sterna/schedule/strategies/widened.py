"""Left operands that are copied to scratch before they are multiplied, once for all columns: those that dot products
take in a wider type than they have, and windows of an image that are laid out one after the other."""

from __future__ import annotations

from math import prod

from sterna.intrinsics import Intrinsic
from sterna.ir import dtypes
from sterna.ir.integer import as_int
from sterna.ir.memory import SCRATCH
from sterna.schedule.schedule import Schedule
from sterna.schedule.strategies.analysis import Context, divisors, size, stride_of
from sterna.schedule.strategies.operands import Contraction
from sterna.schedule.strategies.tasks import make_tasks
from sterna.te.axis import Axis
from sterna.te.expr import Load
from sterna.te.tensor import Tensor

#: Columns from which on a copy is worth making, and the most bytes that it may take.
LEAST_COLUMNS, MOST_BYTES = 4, 4096
#: Rows of a tile.
_ROWS = 8


def widens(intrinsic: Intrinsic, left: Load) -> bool:
    """Whether an intrinsic takes the left operand in a wider type."""
    return dtypes.bits(intrinsic.operands[0]) > dtypes.bits(left.dtype)


def laid_out(left: Load) -> bool:
    """Whether the left operand is what the kernel copies of windows, whose rows become neighbours."""
    source = left.tensor
    if not isinstance(source, Tensor) or not isinstance(source.body, Load):
        return False
    return any(i.coefficient(source.axes[-1]) is None for i in source.body.indices)


def run_of(windows: Tensor, context: Context) -> int:
    """How many neighbours along the last axis of a stage that copies are neighbours where it copies them from, too: of
    windows, the elements of a row."""
    copied, axis = windows.body, windows.axes[-1]
    assert isinstance(copied, Load)
    extent = size(axis.extent)
    return max(n for n in divisors(extent) if n == 1 or _is_run(copied, axis, n, context))


def _is_run(copied: Load, axis: Axis, n: int, context: Context) -> bool:
    """Whether parts of n elements along an axis lie as they do in memory."""
    outer, inner = Axis("outer", axis.extent // n), Axis("inner", as_int(n))
    indices = tuple(i.substitute({axis: outer.var * n + inner.var}) for i in copied.indices)
    return stride_of(copied.changed(indices=indices), inner, context.strides) == 1


def worth_widening(intrinsic: Intrinsic, contraction: Contraction) -> bool:
    """Whether what is copied of the left operand is few bytes in the wider type, and serves columns enough, and rows
    that share what is read of the right one."""
    alone = all(a.extent == 1 for a in contraction.rows)
    if alone or size(contraction.columns.extent) < LEAST_COLUMNS:
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
        wide: the stage that widens, or lays out; columns: the loop over panels; rows: the outer axes of the rows.

    Returns:
        The axis of one tile.
    """
    lead = rows[:-1] if _overlap(contraction) and len(rows) > 1 else rows
    within = rows[len(lead) :]
    s.reorder(out, *lead, columns, *within)
    place = make_tasks(s, out, lead, cycles, context, lead[-1])
    s.compute_at(wide, out, place, SCRATCH)
    if laid_out(contraction.left) and wide == contraction.left.tensor.name:
        _copy_runs(s, wide, context)
    return within[-1] if within else columns


def _copy_runs(s: Schedule, windows: str, context: Context) -> None:
    """Copies the rows of windows by vectors."""
    tensor = s.stages[windows].tensor
    run = run_of(tensor, context)
    lanes = min(context.target.lanes(dtypes.bits(tensor.dtype)), 1 << (run.bit_length() - 1))
    if lanes > 1:
        _, row = s.split(windows, tensor.axes[-1].name, run)
        _, lane = s.split(windows, row, lanes)
        s.vectorize(windows, lane)
