"""Axes: the dimensions of stages and of reductions, as variables."""

from __future__ import annotations

from sterna.ir.integer import Int, IntLike, Symbol, as_int, of


class Axis(Symbol):
    """The variable of one dimension of a stage, or of a reduction: 0 <= axis < extent."""

    __slots__ = ("extent", "reduction")

    def __init__(self, name: str, extent: IntLike, reduction: bool = False):
        self.extent = as_int(extent)
        hi = self.extent.bounds()[1]
        super().__init__(name, 0, None if hi is None else max(hi - 1, 0))
        self.reduction = reduction

    @property
    def var(self) -> Int:
        return of(self)
