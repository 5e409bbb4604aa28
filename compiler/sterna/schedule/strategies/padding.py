"""What a window slides over, padded by the kernel itself: the rows that a block of results reads, a few at a time."""

from __future__ import annotations

from dataclasses import dataclass

from sterna.ir import dtypes
from sterna.ir.integer import Int
from sterna.ir.memory import SCRATCH
from sterna.schedule.schedule import Schedule
from sterna.schedule.strategies.analysis import Context, product, size
from sterna.targets.target import Target
from sterna.te.conditions import cuts
from sterna.te.expr import Reduce
from sterna.te.tensor import Tensor

#: Of L1 and L2, what padded rows of a block may take.
SHARE_OF_L1, SHARE_OF_L2 = 0.5, 0.25
#: Rows of results of a block from which on few rows are padded for two of them.
LEAST_ROWS = 4


@dataclass(frozen=True)
class Padded:
    """What a window slides over where the kernel pads it: the stage that does, the axis of the results whose blocks it
    is padded for, and how many results along it are a block."""

    stage: Tensor
    axis: int
    rows: int


def padded_of(stage: Tensor, context: Context) -> Padded | None:
    """What the windows of a stage slide over, if the kernel pads that itself."""
    r = stage.reduction
    assert r is not None
    for load in stage.reads():
        source = load.tensor
        if not isinstance(source, Tensor) or source.body is None or not conditional(source):
            continue
        slid = [n for n, a in enumerate(stage.axes) if any(a in i.symbols() and _reduces(i, r) for i in load.indices)]
        if not slid:
            continue
        # Lanes are along the last axis, which is no loop to be cut into blocks, unless it is the only one.
        axis = min(slid[0], max(len(stage.axes) - 2, 0))
        place = next(i for i in load.indices if stage.axes[axis] in i.symbols())
        stride = place.coefficient(stage.axes[axis]) or 1
        window = 1 + sum((size(a.extent) - 1) * abs(place.coefficient(a) or 0) for a in r.axes)
        row = product(source.shape[load.indices.index(place) + 1 :]) * dtypes.size(source.dtype)
        rows = size(stage.axes[axis].extent)
        return Padded(source, axis, _block_rows(rows, stride, window, row, context) if len(stage.axes) > 1 else rows)
    return None


def conditional(t: Tensor) -> bool:
    """Whether an axis of a stage falls into parts, as of a tensor with padding."""
    return t.body is not None and any(len(cuts(t.body, a)) > 2 for a in t.axes if a.extent.is_const)


def _reduces(index: Int, reduction: Reduce) -> bool:
    return not index.symbols().isdisjoint(reduction.axes)


def _block_rows(rows: int, stride: int, window: int, row: int, context: Context) -> int:
    """Rows of results whose padded rows stay in L1, or in L2 where those would be few; of blocks that are all alike."""
    target = context.target
    found = 1
    for cache in (target.l1_bytes * SHARE_OF_L1, target.l2_bytes * SHARE_OF_L2):
        most = max(int((cache / row - window) / stride) + 1, LEAST_ROWS)
        found = max(n for n in range(1, min(rows, most) + 1) if rows % n == 0)
        if found >= min(rows, LEAST_ROWS):
            break
    return found


def pad_rows(s: Schedule, out: str, task: str, name: str, lanes: int, target: Target) -> None:
    """Pads the rows that a block of results needs, by the stage of that name: border and interior apart.

    Args:
        lanes: of the sums. Where few rows are padded at a time, so that most are copied for several blocks, they are
            copied by whole registers of their own type.
    """
    s.compute_at(name, out, task, SCRATCH)
    tensor = s.stages[name].tensor
    # Of an open size every element asks where it is.
    if known := [a.name for a in tensor.axes if a.extent.is_const]:
        s.partition(name, *known)
    whole = target.lanes(dtypes.bits(tensor.dtype))
    if target.saves_memory and size(tensor.axes[-1].extent) % whole == 0:
        lanes = whole
    if lanes > 1:
        _, lane = s.split(name, tensor.axes[-1].name, lanes)
        s.vectorize(name, lane)
