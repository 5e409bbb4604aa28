"""Features as small integers, which the nodes of `coded_tree_ensemble` compare: `x <= value` holds exactly where
`code(x) <= code(value)`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sterna.ir.graph import Array
from sterna.ops.forest import smallest
from sterna.ops.forest_trees import Trees

#: Instructions of a code on a grid, of its rank, of one step of a search, and for a feature that is not at its
#: column's place.
GRID, RANK, SEARCH, MOVED = 14, 2, 9, 2
#: The most bits of a code.
HALF = 16
#: Infinity's bits, and the least of a float's that is negative.
_INFINITE, _SIGN = 0x7F800000, 1 << 31


@dataclass(frozen=True)
class Columns:
    """What codes are made of.

    Args:
        features: of every column; those for which NaN leads to the second child come first.
        last: columns of that kind.
        values: of every column, in rising order.
    """

    features: tuple[int, ...]
    last: int
    values: tuple[Array, ...]
    place: Mapping[tuple[bool, int], int]

    @property
    def moved(self) -> bool:
        return self.features != tuple(range(len(self.features)))


@dataclass(frozen=True)
class Codes:
    """Codes of one kind.

    Args:
        code: of a column's value; less than the greatest.
        greatest: that a feature may have.
        cost: instructions of a row.
        attributes: of `coded_tree_ensemble`.
        values: what columns are compared with, in rising order, column after column; None on a grid.
        starts: where the values of a column begin, and their number after the last; None on a grid.
        ranks: of a place on the grid: how many values lie below it. None if places are codes.
    """

    code: Mapping[tuple[int, float], int]
    greatest: int
    cost: float
    attributes: Mapping[str, Any]
    values: Array | None = None
    starts: Array | None = None
    ranks: Array | None = None

    @property
    def bits(self) -> int:
        """Of a code. A place on a grid may be the greatest number of as many bits instead of the greatest place."""
        return self.greatest.bit_length()


def columns_of(trees: Trees, features: int) -> Columns:
    asked: dict[tuple[bool, int], set[float]] = {}
    for tree in trees.nodes:
        for feature, value, missing, *_ in tree:
            asked.setdefault((missing, feature), set()).add(value)
    if not asked:  # all trees are leaves
        asked[False, 0] = {0.0}
    if not any(missing for missing, _ in asked) and len(asked) * (GRID + MOVED) >= features * GRID:
        for feature in range(features):  # all of them, at their places
            asked.setdefault((False, feature), set())
    order = sorted(asked)
    return Columns(
        tuple(feature for _, feature in order),
        sum(not missing for missing, _ in order),
        tuple(np.array(sorted(asked[each])) for each in order),
        {each: n for n, each in enumerate(order)},
    )


def codes_of(columns: Columns, kind: str) -> Iterator[Codes]:
    """All kinds that there are for features of type `kind`."""
    grid = _on_grid(columns, kind)
    if grid is not None:
        yield grid
        yield _ranked(grid, len(columns.features))
    searched = _searched(columns, kind)
    if searched is not None:
        yield searched


def ordered(values: Array) -> Array:
    """Integers in the order of float32 numbers, 0 for both zeros."""
    bits = values.astype(np.float32).view(np.uint32).astype(np.int64)
    return np.where(bits >= _SIGN, _SIGN - bits, bits)


def _on_grid(columns: Columns, kind: str) -> Codes | None:
    """Codes that are the ordered bits of a float, shifted."""
    if kind != "float32":
        return None
    keys = [ordered(values) for values in columns.values]
    every = np.unique(np.concatenate(keys))
    gaps = int(np.bitwise_or.reduce(np.diff(every))) if every.size > 1 else 1 << 20
    shift = min((gaps & -gaps).bit_length() - 1, 24)
    least, greatest = int(every[0]) - (1 << shift) + 1, int(every[-1] - every[0] >> shift) + 1
    if greatest >= 1 << HALF or least < -_INFINITE or every[-1] > _INFINITE:
        return None
    code = {
        (n, float(value)): int(key - every[0] >> shift)
        for n, values in enumerate(columns.values)
        for value, key in zip(values, keys[n], strict=True)
    }
    cost = len(columns.features) * (GRID + MOVED * columns.moved)
    return Codes(code, greatest, cost, {"shift": shift, "least": least, "greatest": greatest, "compared": kind})


def _ranked(grid: Codes, columns: int) -> Codes:
    """Codes of fewer bits: places on the grid with which nothing is compared do not count."""
    used = np.unique(np.array(list(grid.code.values())))
    code = {each: int(np.searchsorted(used, place)) for each, place in grid.code.items()}
    ranks = smallest(np.searchsorted(used, np.arange(1 << grid.bits)))
    return Codes(code, len(used), grid.cost + RANK * columns, grid.attributes, ranks=ranks)


def _searched(columns: Columns, kind: str) -> Codes | None:
    """Codes that count the values of a feature that are below it."""
    counts = np.array([len(values) for values in columns.values])
    most = int(counts.max())
    if most >= 1 << HALF:
        return None
    code = {(n, float(value)): k for n, values in enumerate(columns.values) for k, value in enumerate(values)}
    cost = SEARCH * float(sum(int(count).bit_length() for count in counts)) + MOVED * len(counts)
    flat = np.concatenate(columns.values).astype(kind)
    starts = smallest(np.concatenate([[0], np.cumsum(counts)]))
    return Codes(code, most, cost, {"shift": 0, "least": 0, "greatest": most, "compared": kind}, flat, starts)
