"""How a program says that its tensors lie in memory: sizes, strides and where they begin, of which views are told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sterna.errors import SternaError
from sterna.frontends.expressions import parse, symbols_of
from sterna.frontends.pytorch.program import TensorInfo
from sterna.frontends.pytorch.tensors import COMPLEX
from sterna.ir.extremum import maximum
from sterna.ir.integer import Int, as_int, symbol


@dataclass(frozen=True)
class Layout:
    """Numbers of elements: the sizes, the steps between neighbours, the place of the first element."""

    sizes: tuple[Int, ...]
    strides: tuple[Int, ...]
    offset: Int

    @property
    def steps(self) -> tuple[Int, ...]:
        """Strides of the dimensions in which there are steps."""
        return tuple(stride for stride, size in zip(self.strides, self.sizes, strict=True) if size != 1)

    @property
    def is_dense(self) -> bool:
        """Whether elements lie one after the other."""
        # PyTorch counts an empty dimension as 1.
        each = padded = as_int(1)
        for stride, size in zip(reversed(self.strides), reversed(self.sizes), strict=True):
            if size == 1:
                continue
            if stride not in (each, padded):
                return False
            each, padded = each * size, padded * maximum(size, 1)
        return True


def layout_of(tensor: TensorInfo, symbols: Mapping[str, Int]) -> Layout | None:
    """The layout of a tensor; None where the file does not say it, or in a way that is not understood."""
    if len(tensor.strides) != len(tensor.sizes):
        return None
    try:
        sizes, strides, (offset,) = (
            tuple(as_int(n) if isinstance(n, int) else parse(n, symbols) for n in numbers)
            for numbers in (tensor.sizes, tensor.strides, (tensor.offset,))
        )
    except SternaError:
        return None
    return Layout(sizes, strides, offset)


def are_empty(tensors: Sequence[TensorInfo | None]) -> bool:
    """Whether the program says of some results that none has an element: they need not be computed."""
    return bool(tensors) and all(
        info is not None and info.dtype not in COMPLEX and 0 in info.sizes and all(type(n) is int for n in info.sizes)
        for info in tensors
    )


def stand_ins(
    symbols: Mapping[str, Int], limits: Mapping[str, tuple[int, int | None]], *tensors: TensorInfo
) -> dict[str, Int]:
    """The symbols that are known, and for the others of some tensors numbers that are just equal to themselves."""
    found = dict(symbols)
    texts = {
        n for tensor in tensors for n in (*tensor.sizes, *tensor.strides, tensor.offset) if isinstance(n, str)
    }  # fmt: skip
    for name in sorted({name for text in texts for name in symbols_of(text)}):
        found.setdefault(name, symbol(name, *limits.get(name, (0, None))))
    return found
