"""Ragged tensors: rows of different lengths, one after the other, and the numbers at which each begins (row splits)."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from sterna.errors import error
from sterna.frontends.standard import standard
from sterna.frontends.tensorflow.translation import Translation, Translator
from sterna.ir.graph import Value
from sterna.ir.integer import Int, IntLike, as_int
from sterna.ir.limits import check_table

_FIRST, _ROWS, _SPLITS = "FIRST_DIM_SIZE", "VALUE_ROWIDS", "ROW_SPLITS"


def _part(t: Translation, x: Value, first: int, size: IntLike) -> Value:
    """Neighbouring rows."""
    rank = x.type.rank
    return t.op(
        "slice", x, starts=(first, *[0] * (rank - 1)), sizes=(size, *x.shape[1:]), steps=(1,) * rank
    )  # fmt: skip


def _rows_of_splits(t: Translation, splits: Value, count: Int) -> Value:
    """The row that each of so many values belongs to."""
    after = _part(t, splits, 1, splits.shape[0] - 1)
    passed = t.op("less_equal", t.reshape(after, (1, after.shape[0])), t.reshape(t.counting(count), (count, 1)))
    return t.op("reduce_sum", t.cast(passed, "int64"), axes=(1,), keep_dims=False)


def _starts_of_rows(t: Translation, rows: Value, count: Int) -> Value:
    """At which value each of so many rows begins."""
    before = t.op("less", t.reshape(rows, (1, rows.shape[0])), t.reshape(t.counting(count), (count, 1)))
    return t.op("reduce_sum", t.cast(before, "int64"), axes=(1,), keep_dims=False)


def dense(t: Translation) -> Value:
    """RaggedTensorToTensor: a value stands at its row and its place in it; what is missing is the default."""
    kinds = tuple(t.option("row_partition_types", ()))
    values, default = t.input(1), t.input(2)
    parts = [t.cast(t.input(3 + n), "int64") for n in range(len(t.items) - 3)]
    if len(kinds) != len(parts) or not kinds or any(kind not in (_FIRST, _ROWS, _SPLITS) for kind in kinds):
        raise error("E0109", f"{t.kind} has parts {list(kinds)[:8]}")
    if kinds[0] == _FIRST:
        count: Int = as_int(t.integer_of(3, "the number of rows"))
        kinds, parts = kinds[1:], parts[1:]
    elif kinds[0] == _SPLITS:
        count = parts[0].shape[0] - 1
    else:
        raise t.unsupported(f"whose first part is {kinds[0]}")
    wanted = _shape(t, len(kinds), values)
    sizes: list[Int] = [count if wanted[0] is None else as_int(wanted[0])]
    rows = t.counting(count)
    coordinates = t.reshape(rows, (count, 1))  # of each row of a level
    inside: Value | None = None
    if wanted[0] is not None:
        inside = t.op("less", rows, t.scalar(wanted[0], "int64"))
    for level, (kind, part) in enumerate(zip(kinds, parts, strict=True)):
        above = coordinates.shape[0]
        below = values.shape[0] if level == len(kinds) - 1 else _values_below(kinds[level + 1], parts[level + 1])
        if kind == _SPLITS:
            owner, starts = _rows_of_splits(t, part, below), part
        else:
            owner, starts = t.reshape(part, (below,)), _starts_of_rows(t, part, above)
        column = t.op("sub", t.counting(below), t.op("gather", starts, owner, axis=0))
        size = wanted[level + 1]
        if size is None:
            raise error(
                "E0107", f"{t.kind}: how long the longest row is decides the size of dimension {level + 1}",
                fix="give its shape (`to_tensor(shape=[None, 40])`)",
            )  # fmt: skip
        sizes.append(as_int(size))
        fits = t.op("less", column, t.scalar(size, "int64"))
        inside = fits if inside is None else t.op("logical_and", fits, t.op("gather", inside, owner, axis=0))
        coordinates = t.op(
            "concat", t.op("gather", coordinates, owner, axis=0), t.reshape(column, (below, 1)), axis=1
        )  # fmt: skip
    rest = values.shape[1:]
    # One more row, which is cut off, takes what does not fit.
    assert inside is not None
    apart = t.op("where", t.reshape(inside, (inside.shape[0], 1)), coordinates, _beyond(t, sizes))
    start = t.op("expand", default, shape=(sizes[0] + 1, *sizes[1:], *rest))
    made = standard(t, "ScatterND", start, apart, values)
    return _part(t, made, 0, sizes[0])


def _beyond(t: Translation, sizes: list[Int]) -> Value:
    first = t.dimensions([sizes[0]])
    return t.op("concat", first, t.op("expand", t.scalar(0, "int64"), shape=(len(sizes) - 1,)), axis=0)


def _values_below(kind: str, part: Value) -> Int:
    """How many rows a level has, by what its parts are."""
    if kind == _ROWS:
        raise error("E0113", "RaggedTensorToTensor of several levels by rows is not supported")
    return part.shape[0] - 1


def _shape(t: Translation, levels: int, values: Value) -> list[int | None]:
    """The sizes of rows that are asked for; None where the data decide."""
    said = t.input(0)
    if not said.type.rank:
        return [None] * (levels + 1)
    sizes = t.integers(0, "sizes")
    if len(sizes) != levels + values.type.rank:
        raise error("E0108", f"{t.kind} of {values.type} to {list(sizes)}")
    return [None if n < 0 else n for n in sizes[: levels + 1]]


def sparse(t: Translation) -> tuple[Value, Value, Value]:
    """RaggedTensorToSparse: the coordinates of values, the values, and the sizes that hold them all."""
    levels = int(t.option("RAGGED_RANK", len(t.items) - 1))
    splits, values = [t.cast(t.input(n), "int64") for n in range(levels)], t.input(levels)
    if values.type.rank != 1 or not splits:
        raise t.unsupported(f"of {values.type} in {levels} levels")
    count = splits[0].shape[0] - 1
    coordinates = t.reshape(t.counting(count), (count, 1))
    sizes = [t.dimensions([count])]
    for level, part in enumerate(splits):
        below = values.shape[0] if level == levels - 1 else splits[level + 1].shape[0] - 1
        owner = _rows_of_splits(t, part, below)
        column = t.op("sub", t.counting(below), t.op("gather", part, owner, axis=0))
        coordinates = t.op(
            "concat", t.op("gather", coordinates, owner, axis=0), t.reshape(column, (below, 1)), axis=1
        )  # fmt: skip
        lengths = t.op("sub", _part(t, part, 1, part.shape[0] - 1), _part(t, part, 0, part.shape[0] - 1))
        # No rows have the length 0.
        lengths = t.op("concat", lengths, t.constant([0], "int64"), axis=0)
        sizes.append(t.op("reduce_max", lengths, axes=(0,), keep_dims=True))
    return coordinates, values, t.op("concat", *sizes, axis=0)


def gathered(t: Translation) -> tuple[Value, ...]:
    """RaggedGather: whole rows by their numbers, both known, since they say how many values there are."""
    levels = int(t.option("PARAMS_RAGGED_RANK", len(t.items) - 2))
    splits = [np.asarray(t.array(n, "the ends of rows"), np.int64) for n in range(levels)]
    values, chosen = t.input(levels), np.asarray(t.array(levels + 1, "the rows that are chosen"), np.int64)
    if levels < 1 or any(each.ndim != 1 or not each.size or (np.diff(each) < 0).any() or each[0] for each in splits):
        raise error("E0109", f"{t.kind} of rows whose ends do not rise from 0")
    below: list[IntLike] = [*(each.size - 1 for each in splits[1:]), values.shape[0]]
    for each, count in zip(splits, below, strict=True):
        left = as_int(count) - int(each[-1])
        if left.is_const and int(left) < 0:
            raise error("E0109", f"{t.kind} of {count} values whose rows end at {each[-1]}")
    made: list[np.ndarray] = []
    for axis in range(1, chosen.ndim):  # numbers of several dimensions are rows of rows of one length
        rows = int(np.prod(chosen.shape[:axis]))
        made.append(np.arange(rows + 1) * chosen.shape[axis])
    places = chosen.reshape(-1)
    for ends in splits:
        if places.size and (places.min() < 0 or places.max() >= ends.size - 1):
            raise error("E0109", f"{t.kind} of rows {places.min()} to {places.max()} of {ends.size - 1}")
        lengths = ends[places + 1] - ends[places]
        made.append(np.concatenate([[0], np.cumsum(lengths)]))
        check_table(sum(lengths.tolist()))  # exact, as int64 may not be
        rows_of = [np.arange(ends[n], ends[n + 1]) for n in places]
        places = np.concatenate(rows_of) if rows_of else np.zeros(0, np.int64)
    found = t.op("gather", values, t.constant(places, "int64"), axis=0)
    dtype = t.dtype("Tsplits", "int64")
    return (*(t.constant(each, dtype) for each in made), found)


def ranges(t: Translation) -> tuple[Value, Value]:
    """RaggedRange: the numbers from starts to limits by steps, one range after the other, of ends that are known."""
    ends = [np.atleast_1d(t.array(n, "the ends of ranges")) for n in range(3)]
    if len({each.size for each in ends} - {1}) > 1 or any(each.ndim > 1 for each in ends):
        raise error("E0108", f"{t.kind} from {ends[0].shape} to {ends[1].shape} by {ends[2].shape}")
    if not all(np.isfinite(each).all() for each in ends):
        raise error("E0109", f"{t.kind} with ends or steps that are no finite numbers")
    if not ends[2].all():
        raise error("E0109", f"{t.kind} with steps of 0")
    wide = np.broadcast_arrays(*ends)
    given = zip(*(each.tolist() for each in wide), strict=True)
    # Counted in Python's numbers, which do not overflow, before anything is made.
    check_table(sum(max(math.ceil((Fraction(b) - Fraction(a)) / Fraction(step)), 0) for a, b, step in given))
    rows = [np.arange(*each) for each in zip(*wide, strict=True)]
    splits = np.cumsum([0, *(row.size for row in rows)])
    numbers = np.concatenate(rows) if rows else np.zeros(0)
    return t.constant(splits, t.dtype("Tsplits", "int64")), t.constant(numbers, t.input(0).dtype)


TRANSLATORS: dict[str, Translator] = {
    "RaggedGather": gathered, "RaggedRange": ranges, "RaggedTensorToSparse": sparse, "RaggedTensorToTensor": dense,
}  # fmt: skip
