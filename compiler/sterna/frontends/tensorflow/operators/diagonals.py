"""Diagonals of matrices: read, written, and matrices made of them; several at once, shorter ones filled up.

Diagonals stand in a tensor from the uppermost down, each as long as the longest; `align` says at which end the shorter
ones begin (TensorFlow, MatrixDiagPartV3).
"""

from __future__ import annotations

import numpy as np

from sterna.errors import error
from sterna.frontends.tensorflow.translation import Translation, Translator
from sterna.ir.graph import Array, Value
from sterna.ir.integer import IntLike
from sterna.ir.limits import check_table


def _numbers(t: Translation, position: int) -> tuple[int, int]:
    """The lowest and the uppermost diagonal; 0 is the main one."""
    if t.kind in ("MatrixDiag", "MatrixDiagPart", "MatrixSetDiag") or not t.has(position):
        return 0, 0
    numbers = t.integers(position, "the diagonals")
    if len(numbers) not in (1, 2) or numbers[0] > numbers[-1]:
        raise error("E0109", f"{t.kind} of the diagonals {numbers}")
    return numbers[0], numbers[-1]


def _table(t: Translation, rows: int, columns: int, low: int, high: int) -> Array:
    """(diagonals, longest) -> the element of a matrix, row after row; -1 where a diagonal is shorter."""
    if rows < 1 or columns < 1 or not -rows < low <= high < columns:
        raise error("E0109", f"{t.kind} of the diagonals {low} to {high} of {rows} x {columns}")
    longest = min(rows + min(high, 0), columns - max(low, 0))
    check_table(high - low + 1, longest, 8)
    check_table(rows, columns, 8)
    above, below = str(t.option("align", "RIGHT_LEFT" if t.kind.endswith("V3") else "LEFT_LEFT")).split("_")
    table = np.full((high - low + 1, longest), -1, np.int64)
    for n, number in enumerate(range(high, low - 1, -1)):
        down, across = max(-number, 0), max(number, 0)
        size = min(rows - down, columns - across)
        first = longest - size if (above if number >= 0 else below) == "RIGHT" else 0
        table[n, first : first + size] = down * columns + across + np.arange(size) * (columns + 1)
    return table


def _taken(t: Translation, flat: Value, table: Array, missing: Value) -> Value:
    """Elements of the last dimension at the places of a table, and others where it has -1."""
    axis = flat.type.rank - 1
    y = t.op("gather", flat, t.constant(np.maximum(table, 0)), axis=axis)
    return t.op("where", t.constant(table < 0), missing, y) if (table < 0).any() else y


def part(t: Translation) -> Value:
    x = t.input(0)
    if x.type.rank < 2:
        raise error("E0108", f"{t.kind} of {x.type}")
    low, high = _numbers(t, 1)
    rows, columns = t.extent(x, -2), t.extent(x, -1)
    table = _table(t, rows, columns, low, high)
    filling = t.cast(t.reshape(t.input(2), ()), x.dtype) if t.has(2) else t.scalar(0, x.dtype)
    flat = t.reshape(x, (*x.shape[:-2], rows * columns))
    return _taken(t, flat, table[0] if low == high else table, filling)


def _written(t: Translation, diagonals: Value, size: tuple[int, int], numbers: tuple[int, int], rest: Value) -> Value:
    """Matrices with diagonals, and elsewhere `rest`."""
    rows, columns = size
    table = _table(t, rows, columns, *numbers)
    shape: tuple[IntLike, ...] = diagonals.shape
    if numbers[0] == numbers[1]:
        shape = (*shape[:-1], 1, shape[-1])
    if len(shape) < 2 or tuple(shape[-2:]) != table.shape:
        raise error("E0108", f"{t.kind} of {diagonals.type} for {rows} x {columns}")
    places = np.full(rows * columns, -1, np.int64)
    places[table[table >= 0]] = np.flatnonzero(table >= 0)
    flat = t.reshape(diagonals, (*shape[:-2], table.size))
    return _taken(t, flat, places.reshape(rows, columns), rest)


def diagonal(t: Translation) -> Value:
    """MatrixDiag: square matrices of the least size, or those whose sizes operands say."""
    x = t.input(0)
    if x.type.rank < 1:
        raise error("E0108", f"{t.kind} of {x.type}")
    low, high = _numbers(t, 1)
    length = t.extent(x, -1)
    rows, columns = (t.integer_of(n, "a size") if t.has(n) else -1 for n in (2, 3))
    least = length - min(high, 0), length + max(low, 0)  # of both sizes, for the longest diagonal
    if rows < 0 and columns < 0:
        rows = columns = max(least)
    rows, columns = (least[0] if rows < 0 else rows), (least[1] if columns < 0 else columns)
    filling = t.cast(t.reshape(t.input(4), ()), x.dtype) if t.has(4) else t.scalar(0, x.dtype)
    return _written(t, x, (rows, columns), (low, high), filling)


def with_diagonal(t: Translation) -> Value:
    x = t.input(0)
    if x.type.rank < 2:
        raise error("E0108", f"{t.kind} of {x.type}")
    size = t.extent(x, -2), t.extent(x, -1)
    return _written(t, t.input(1), size, _numbers(t, 2), x)


def diagonal_tensor(t: Translation) -> Value:
    """Diag: a tensor of twice the dimensions, whose elements stand where both halves of the position agree."""
    x = t.input(0)
    flat = t.reshape(x, (x.type.elements,))
    count = t.extent(flat, 0)
    made = _written(t, flat, (count, count), (0, 0), t.scalar(0, x.dtype))
    return t.reshape(made, (*x.shape, *x.shape))


def diagonal_of_tensor(t: Translation) -> Value:
    """DiagPart, which undoes Diag."""
    x, half = t.input(0), t.input(0).type.rank // 2
    if x.type.rank % 2 or not half or x.shape[:half] != x.shape[half:]:
        raise error("E0108", f"{t.kind} of {x.type}")
    count = int(np.prod([t.extent(x, n) for n in range(half)]))
    table = _table(t, count, count, 0, 0)[0]
    return t.reshape(_taken(t, t.reshape(x, (count * count,)), table, t.scalar(0, x.dtype)), x.shape[:half])


_VERSIONS: dict[str, Translator] = {"MatrixDiag": diagonal, "MatrixDiagPart": part, "MatrixSetDiag": with_diagonal}

TRANSLATORS: dict[str, Translator] = {
    **{f"{name}{version}": function for name, function in _VERSIONS.items() for version in ("", "V2", "V3")},
    **{f"Batch{name}": function for name, function in _VERSIONS.items()},
    "Diag": diagonal_tensor, "DiagPart": diagonal_of_tensor,
}  # fmt: skip
