"""Depthwise separable convolutions as one kernel: a window reduction over channels (depthwise), the matrix product that
reads it (pointwise), and, if it is there, the matrix product whose padded result the window reads (an expansion).

The tensors between never leave L2 (M. Sandler et al., MobileNetV2: Inverted Residuals and Linear Bottlenecks, 2018,
section 5.1, observe that they do not have to be stored). A task is a block of rows of the result. It first computes the
rows of the expansion that its windows touch, then row by row the windows into a buffer of one row, which L1 holds, and
from there the product. Rows that two blocks touch are computed by both.
"""

from __future__ import annotations

from dataclasses import dataclass

from sterna.ir import dtypes
from sterna.ir.integer import of
from sterna.ir.memory import SCRATCH
from sterna.schedule.schedule import Schedule
from sterna.schedule.strategies.analysis import (
    Context,
    divisors,
    inline_elementwise,
    product,
    reductions,
    size,
    stored_apart,
)
from sterna.schedule.strategies.contraction import accumulate, split_tiles, write_tiles
from sterna.schedule.strategies.operands import Contraction, contraction_of
from sterna.schedule.strategies.register_tile import register_tile, tile_cycles
from sterna.schedule.strategies.tasks import block_tasks
from sterna.schedule.strategies.window import channel_steps, store_tiles
from sterna.targets.target import Target
from sterna.te.expr import Load
from sterna.te.tensor import Kernel, Tensor

#: The share of L2 for the rows of a task; inputs and weights pass through the rest.
SHARE_OF_CACHE = 0.75
#: Tasks of an image, for several threads to share: more where no task computes anything twice.
TASKS_OF_ALL, TASKS_OF_WINDOWS = 4, 16
#: The share of L2 up to which a depthwise result is still there when the product reads it.
SHARE_THAT_STAYS = 0.25
#: Extra cycles to write and read again a cache line that lies beyond L2. Measured on a server: 4 to 8 where others use
#: L3 too, 2 where nobody does.
LINE_CYCLES = 8
CACHE_LINE = 64
_SPATIAL = 2


@dataclass(frozen=True)
class Rows:
    """A product over the channels of an image.

    Args:
        rows, columns: of the image; depth, results: channels of its operand and of its result.
    """

    rows: int
    columns: int
    depth: int
    results: int

    def cycles_by_row(self, target: Target, lanes: int) -> float:
        """How much longer it takes row by row: rows end within a tile."""
        row, image = (
            tile_cycles(positions, self.results, self.depth, lanes, target)
            for positions in (self.columns, self.rows * self.columns)
        )
        return self.rows * row - image


@dataclass(frozen=True)
class Sizes:
    """What decides about one separable convolution.

    Args:
        rows: of the result; stride, window: of the depthwise part, in rows, dilation counted.
        window_row, wide_row: bytes of a row of the depthwise result, and of a row of the padded tensor that it reads.
        wide_rows: of that tensor. wide_products: multiply-adds that compute it; 0 if it is not computed here.
        products: those that are computed here, row by row.
    """

    rows: int
    stride: int
    window: int
    window_row: int
    wide_row: int
    wide_rows: int
    wide_products: int
    products: tuple[Rows, ...] = ()

    def block(self, target: Target) -> int | None:
        """Rows of the result that one task computes, if its part of the tensors between fits the cache."""
        room = target.l2_bytes * SHARE_OF_CACHE - self.window_row
        wide_row = self.wide_row if self.wide_products else 0
        most = max(1, self.rows // (TASKS_OF_ALL if self.wide_products else TASKS_OF_WINDOWS))
        fitting = [n for n in range(1, most + 1) if self.rows % n == 0 and self.touched(n) * wide_row <= room]
        return max(fitting, default=None)

    def touched(self, rows: int) -> int:
        """Rows that the windows of these rows of the result read."""
        return (rows - 1) * self.stride + self.window

    def gain(self, target: Target, lanes: int) -> float:
        """Cycles that one kernel saves: traffic that stays in the cache, minus what is computed twice, and what tiles
        within a row of the image take longer than tiles of all of it."""
        rows = self.block(target)
        if rows is None:
            return 0.0
        result = self.rows * self.window_row
        longer = sum(product.cycles_by_row(target, lanes) for product in self.products)
        if not self.wide_products:
            return (result - SHARE_THAT_STAYS * target.l2_bytes) / CACHE_LINE * LINE_CYCLES - longer
        saved = result + self.wide_rows * self.wide_row - 2 * target.l2_bytes
        again = (self.touched(rows) * (self.rows // rows) / self.wide_rows - 1) * self.wide_products
        return saved / CACHE_LINE * LINE_CYCLES - again / (lanes * target.rate) - longer


@dataclass(frozen=True)
class _Chain:
    """The stages of such a kernel: the window reduction and what stores it, the product; the padded stage and the
    product that it stores, if there is one."""

    window: Tensor
    stored: Tensor
    product: Contraction
    padded: Tensor | None = None
    expansion: Contraction | None = None


def propose(kernel: Kernel, context: Context) -> Schedule | None:
    """The schedule of a kernel of such reductions, else None."""
    chain = _analyse(kernel, context)
    if chain is None:
        return None
    s = Schedule(kernel)
    acc, out = stored_apart(s, chain.product.stage)
    inline_elementwise(s, [t.name for t in (chain.stored, chain.padded) if t is not None])
    lanes = context.lanes(kernel)
    sizes = _sizes(chain)
    rows = context.choose("block", lambda: divisors(sizes.rows), sizes.block(context.target) or 1)
    tile = register_tile(chain.product, lanes, context)
    loops = split_tiles(s, out, chain.product, tile)
    *before, row, tiles = loops.rows
    block, row = s.split(out, row, rows)
    s.reorder(out, *before, block, row, loops.columns, tiles, *loops.inner, loops.vector, loops.lane)
    task = block_tasks(s, out, before, block, context)
    write_tiles(s, out, loops)
    accumulate(s, acc, out, tiles, chain.product, tile, context)
    s.compute_at(chain.stored.name, out, row, SCRATCH)
    store_tiles(s, chain.stored.name, chain.window, chain.window.name, lanes, context)
    if chain.padded is not None and chain.expansion is not None:
        _expand(s, chain.padded, chain.expansion, out, task, lanes, context)
    return s


def _expand(
    s: Schedule, padded: Tensor, expansion: Contraction, out: str, task: str, lanes: int, context: Context
) -> None:
    """The rows of the expansion that a task needs, padded: border and interior apart."""
    name = padded.name
    s.compute_at(name, out, task, SCRATCH)
    s.partition(name, *(a.name for a in padded.axes[:-1]))
    tile = register_tile(expansion, lanes, context)
    loops = split_tiles(s, name, expansion, tile)
    *rows, tiles = loops.rows
    s.reorder(name, *rows, loops.columns, tiles, *loops.inner, loops.vector, loops.lane)
    write_tiles(s, name, loops)
    accumulate(s, expansion.stage.name, name, tiles, expansion, tile, context)


def _analyse(kernel: Kernel, context: Context) -> _Chain | None:
    """The stages of such a kernel; None if there is another kind of reduction, or something else between them."""
    found = reductions(kernel)
    if not 2 <= len(found) <= 3 or len(kernel.outputs) != 1:
        return None
    *before, window, last = found
    contraction = contraction_of(last, kernel, context)
    if contraction is None or len(contraction.rows) < _SPATIAL or not _same_elements(kernel.outputs[0], last):
        return None
    stored = contraction.left.tensor
    if not isinstance(stored, Tensor) or stored.body is None or stored is window or not _same_elements(stored, window):
        return None
    if contraction.left.indices[:-1] != tuple(of(a) for a in contraction.rows) or not channel_steps(window, context):
        return None
    data = _data(window)
    if data is None or not isinstance(data.tensor, Tensor) or (data.tensor.body is None) != (not before):
        return None
    if not before:
        return _Chain(window, stored, contraction)
    expansion = contraction_of(before[0], kernel, context)
    padded = data.tensor
    if expansion is None or len(expansion.rows) != len(padded.axes) - 1 or padded.shape[-1] != before[0].shape[-1]:
        return None
    return _Chain(window, stored, contraction, padded, expansion)


def _same_elements(reader: Tensor, source: Tensor) -> bool:
    """Whether a stage is an element-wise function of another: every path keeps the position of an element."""
    if reader is source:
        return True
    if reader.reduction is not None or reader.body is None:
        return False
    here = tuple(of(a) for a in reader.axes)
    return reader.shape == source.shape and all(
        x.indices == here and _same_elements(x.tensor, source)
        for x in reader.reads()
        if isinstance(x.tensor, Tensor) and _depends(x.tensor, source)
    )


def _depends(stage: Tensor, source: Tensor) -> bool:
    """Whether a stage is computed from another."""
    return stage is source or any(isinstance(x.tensor, Tensor) and _depends(x.tensor, source) for x in stage.reads())


def _data(window: Tensor) -> Load | None:
    """What a depthwise convolution slides over: the operand that depends on the row."""
    *_, row, _column, _channel = window.axes
    found = [x for x in window.reads() if len(x.indices) == len(window.axes) and row in x.indices[-3].symbols()]
    return found[0] if len(found) == 1 else None


def _sizes(chain: _Chain) -> Sizes:
    """What decides about the rows of a task, from the stages."""
    data = _data(chain.window)
    r = chain.window.reduction
    assert data is not None
    assert r is not None
    along = data.indices[-3]
    item = dtypes.size(chain.stored.dtype)
    wide = data.tensor
    assert isinstance(wide, Tensor)
    down = [(a, along.coefficient(a) or 0) for a in r.axes]
    return Sizes(
        rows=size(chain.stored.shape[-3]),
        stride=along.coefficient(chain.window.axes[-3]) or 1,
        window=1 + sum((size(a.extent) - 1) * step for a, step in down),
        window_row=product(chain.stored.shape[-2:]) * item,
        wide_row=product(wide.shape[-2:]) * item,
        wide_rows=size(wide.shape[-3]),
        wide_products=product([a.extent for a in chain.expansion.stage.all_axes]) if chain.expansion else 0,
    )
