"""Weights in float32 that float16 holds exactly, stored in it: half of what a page fetches.

Kernels read float32, as fast as those of the network in float32; the runtime widens such weights once, when it loads
the bundle. That is for machines without an instruction that widens (`Target.widens_params`): elsewhere kernels read
float16 (`schedule.strategies.weights`), which also halves what memory has to deliver.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sterna.compiled import Compiled
from sterna.ir.graph import Array

#: Elements of an array, and bytes saved in all, from which on it is worth it.
LEAST_ELEMENTS = 64
LEAST_SAVED = 1024

#: Where so many float32 begin in memory.
Range = tuple[int, int]


def widened_ranges(compiled: Compiled) -> tuple[Range, ...]:
    """The arrays of a bundle's weights that are stored in float16, the last first; none where nothing widens them."""
    if not compiled.options.target.widens_params:
        return ()
    found: set[Range] = set()
    for number, (at, size) in zip(compiled.kernel_of, compiled.params_at, strict=True):
        for buffer in compiled.kernels[number].function.params if size else ():
            place = at + buffer.slot, buffer.elements
            if buffer.dtype == "float32" and buffer.elements >= LEAST_ELEMENTS and _is_exact(_at(compiled, place)):
                found.add(place)
    saved = 2 * sum(count for _, count in found)
    return tuple(sorted(found, reverse=True)) if saved >= LEAST_SAVED else ()


def narrowed(params: bytes, ranges: Sequence[Range]) -> bytes:
    """The file of weights that are `params` in memory: what is in none of the ranges stands there as it is."""
    parts, end = [], 0
    for at, count in reversed(ranges):
        wide = np.frombuffer(params, np.float32, count, at)
        parts += [params[end:at], wide.astype(np.float16).tobytes()]
        end = at + 4 * count
    return b"".join((*parts, params[end:])) if parts else params


def _at(compiled: Compiled, place: Range) -> Array:
    at, count = place
    return np.frombuffer(compiled.params, np.float32, count, at)


def _is_exact(data: Array) -> bool:
    """Whether float16 holds all numbers, which are finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        narrow = data.astype(np.float16)
    return bool(np.isfinite(narrow).all()) and narrow.astype(np.float32).tobytes() == data.tobytes()
