"""How operators that only move elements move those that are known as expressions (`contents`, `shares`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from sterna.ir.graph import Array

LARGEST = 64  # elements of a tensor worth following
MOST_EXPANDED = 1 << 12  # elements of one that is made larger

Rule = Callable[[Sequence[Array], Mapping[str, Any]], Array | None]


def object_array(elements: Sequence[Any], shape: Sequence[int]) -> Array:
    """An array of objects; NumPy must not look into the elements."""
    flat = np.empty(len(elements), object)
    for n, element in enumerate(elements):
        flat[n] = element
    return flat.reshape(tuple(shape))


def _gather(arrays: Sequence[Array], attributes: Mapping[str, Any]) -> Array | None:
    data, index = arrays
    if not all(n.is_const for n in index.reshape(-1)):
        return None
    chosen = np.array([int(n) for n in index.reshape(-1)]).reshape(index.shape)
    return np.asarray(np.take(data, chosen, axis=attributes["axis"]), object)


def _slice(arrays: Sequence[Array], attributes: Mapping[str, Any]) -> Array | None:
    cut = []
    for start, size, step in zip(attributes["starts"], attributes["sizes"], attributes["steps"], strict=True):
        stop = int(start) + int(size) * step
        cut.append(slice(int(start), None if stop < 0 else stop, step))
    return np.asarray(arrays[0][tuple(cut)], object)


def _reshape(arrays: Sequence[Array], attributes: Mapping[str, Any]) -> Array | None:
    return arrays[0].reshape([int(n) for n in attributes["shape"]])


def _expand(arrays: Sequence[Array], attributes: Mapping[str, Any]) -> Array | None:
    sizes = [int(n) for n in attributes["shape"]]
    return np.broadcast_to(arrays[0], sizes) if math.prod(sizes) <= MOST_EXPANDED else None


MOVES: Mapping[str, Rule] = {
    "gather": _gather,
    "slice": _slice,
    "reshape": _reshape,
    "concat": lambda arrays, a: np.concatenate(arrays, axis=a["axis"]),
    "expand": _expand,
    "identity": lambda arrays, a: arrays[0],
}
