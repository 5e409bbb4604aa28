"""How the axes of a sum of products are used: by its left operand, by its right one, or to add up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sterna.ir import dtypes
from sterna.ir.integer import ZERO, Atom, Int, as_int
from sterna.schedule.strategies.analysis import Context, contraction_operands, product, reductions, size, stride_of
from sterna.schedule.strategies.tasks import L2_RATE
from sterna.te.axis import Axis
from sterna.te.expr import Load
from sterna.te.groups import sizes_of_groups
from sterna.te.layout import dense_strides
from sterna.te.tensor import Kernel, Tensor


@dataclass(frozen=True)
class Contraction:
    """How the axes of a contraction are used: `columns` by the right operand alone, `rows` by the left one.

    Args:
        picked: columns of a vector, where small groups of them read elements of the left operand that lie near one
            another, so that these are picked from one vector; 0 where all columns read the same element.
        beside: an axis of the batch that is a row all the same: its products lie side by side, and a tile has several.
    """

    stage: Tensor
    left: Load
    right: Load
    columns: Axis
    rows: tuple[Axis, ...]
    inner: tuple[Axis, ...]
    picked: int = 0
    beside: Axis | None = None

    @property
    def batch(self) -> tuple[Axis, ...]:
        """The rows, first ones, of which each has a right operand of its own."""
        own = (a for a in self.rows if any(a in i.symbols() for i in self.right.indices))
        return tuple(a for a in own if a is not self.beside)


def analyse(kernel: Kernel, context: Context) -> Contraction | None:
    stage = single_reduction(kernel)
    return None if stage is None else contraction_of(stage, kernel, context)


def single_reduction(kernel: Kernel) -> Tensor | None:
    """The only stage that reduces, if the only output has its elements."""
    found = reductions(kernel)
    if len(found) != 1 or len(kernel.outputs) != 1:
        return None
    (stage,) = found
    if len(kernel.outputs[0].axes) != len(stage.axes) or any(
        a.extent != b.extent for a, b in zip(stage.axes, kernel.outputs[0].axes, strict=True)
    ):
        return None
    return stage


def contraction_of(stage: Tensor, kernel: Kernel, context: Context) -> Contraction | None:
    """How a stage is a contraction, if the register-tiled core can compute it."""
    operands = contraction_operands(stage)
    if operands is None or not stage.axes or stage.axes[-1].extent == 1:
        return None
    columns = stage.axes[-1]
    for left, right in (operands, operands[::-1]):
        picked = 0
        if any(columns in i.symbols() for i in left.indices) and not _in_blocks(left, columns, context):
            picked = _columns_picked(left, columns, context)
            if not picked:
                continue
        if not any(columns in i.symbols() for i in right.indices):
            continue
        packable = any(p is right.tensor for p in kernel.params)
        if not packable and stride_of(right, columns, context.strides) != 1:
            continue
        assert stage.reduction is not None
        rows = stage.axes[:-1]
        # Of a batch, every product has its own right operand: rows of a tile share theirs.
        batch = tuple(a for a in rows if any(a in i.symbols() for i in right.indices))
        shared = tuple(a for a in rows if a not in batch)
        if batch and not shared and not packable and _is_window(right, batch, stage.reduction.axes):
            continue
        return Contraction(stage, left, right, columns, (*batch, *shared), stage.reduction.axes, picked)
    return None


def _is_window(load: Load, axes: Sequence[Axis], reduced: Sequence[Axis]) -> bool:
    """Whether neighbours along some of the axes read elements in common."""
    found = ({a for a in (*axes, *reduced) if a in index.symbols()} for index in load.indices)
    return any(not each.isdisjoint(axes) and not each.isdisjoint(reduced) for each in found)


def _in_blocks(left: Load, columns: Axis, context: Context) -> bool:
    """Whether the left operand reads one channel for a whole vector of columns: the groups of a grouped convolution
    are as wide as vectors."""
    lanes = context.target.lanes(32)
    values: dict[Atom, Int] = {columns: columns.var - columns.var % lanes}
    return all(
        columns not in i.symbols() or (size(columns.extent) % lanes == 0 and i.substitute(values) == i)
        for i in left.indices
    )


def _columns_picked(left: Load, columns: Axis, context: Context) -> int:
    """How many columns are a vector where groups of them, smaller than it, read elements of the left operand that one
    vector holds; 0 if there are no such groups."""
    lanes = context.target.lanes(32)
    sizes = sizes_of_groups([left], columns)
    if len(sizes) != 1 or lanes == 1:
        return 0
    (size,) = sizes
    for groups in range(lanes // size, 1, -1):
        apart = [_apart(left, columns, n * size, context) for n in range(groups)]
        steps = [each for each in apart if each is not None]
        if len(steps) == groups and max(steps) - min(steps) < lanes:
            return groups * size
    return 0


def _apart(left: Load, columns: Axis, column: int, context: Context) -> int | None:
    """Elements from what column 0 reads to what another one reads; None if that varies."""
    assert isinstance(left.tensor, Tensor)
    strides = context.strides.get(left.tensor.name) or dense_strides(left.tensor.shape)
    total = ZERO
    for index, stride in zip(left.indices, strides, strict=True):
        total = total + (index.substitute({columns: as_int(column)}) - index.substitute({columns: ZERO})) * stride
    return int(total) if total.is_const else None


def least_cycles(contraction: Contraction, multiply_adds: float) -> int:
    """The least cycles of a contraction: for its multiply-adds (in a cycle), or to read the weights from L2."""
    work = product([a.extent for a in (*contraction.stage.axes, *contraction.inner)]) / multiply_adds
    return max(int(work), bytes_of(contraction.right) // L2_RATE)


def bytes_of(load: Load) -> int:
    assert isinstance(load.tensor, Tensor)
    return product(list(load.tensor.shape)) * dtypes.size(load.tensor.dtype)
