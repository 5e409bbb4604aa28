"""Where a kernel's operand lies in memory: storage, apart from logical shape."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sterna.ir.integer import ONE, ZERO, Int


@dataclass(frozen=True)
class Layout:
    """Strides of a tensor and the position of its first element, in elements, within a buffer of `size` elements."""

    strides: tuple[Int, ...]
    origin: Int
    size: Int

    @property
    def elements(self) -> int:
        """The most elements that the buffer can have; at least one."""
        return most_elements((self.size,))


def dense_strides(shape: Sequence[Int]) -> tuple[Int, ...]:
    """Strides of a compact tensor, last dimension fastest."""
    strides: list[Int] = []
    step = ONE
    for size in reversed(shape):
        strides.append(step)
        step = step * size
    return tuple(reversed(strides))


def dense_layout(shape: Sequence[Int]) -> Layout:
    """Of a compact tensor that has its buffer to itself."""
    size = ONE
    for n in shape:
        size = size * n
    return Layout(dense_strides(shape), ZERO, size)


def most_elements(shape: Sequence[Int]) -> int:
    """The most elements that a tensor whose dimensions have bounds can have; at least one.

    Raises:
        ValueError: a dimension has no upper bound.
    """
    elements = 1
    for size in shape:
        hi = size.bounds()[1]
        if hi is None:
            raise ValueError(f"{size} has no upper bound")
        elements *= hi
    return max(elements, 1)


def lies_at(multiple: int, each: int, *positions: Int) -> bool:
    """Whether elements of a size at some positions begin at multiples of so many bytes, where their buffers do."""
    steps = (step for p in positions for step in (p.const, *p.terms.values()))
    return all(step * each % multiple == 0 for step in steps)
