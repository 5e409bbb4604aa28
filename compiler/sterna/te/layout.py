"""Where a kernel's operand lies in memory: storage, apart from logical shape."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Layout:
    """Strides of a tensor and the position of its first element, in elements, within a buffer of `elements`."""

    strides: tuple[int, ...]
    origin: int
    elements: int
