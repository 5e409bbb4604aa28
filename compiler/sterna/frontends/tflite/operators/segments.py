"""Operators that gather what belongs together: segments, sparse elements, bounds, diagonals, different elements."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from sterna.errors import error
from sterna.frontends.tflite.translation import Translation, Translator
from sterna.ir import dtypes
from sterna.ir.graph import Value
from sterna.ir.limits import check_table


# ---------------------------------------------------------------- segments
def _neutral(dtype: str, reduction: str) -> float | int:
    """What a segment without elements gives."""
    if reduction in ("add", "mul"):
        return int(reduction == "mul")
    low, high = _limits(dtype)
    return low if reduction == "max" else high


def _limits(dtype: str) -> tuple[float | int, float | int]:
    if dtypes.is_float(dtype):
        most = float(np.finfo(dtype).max)
        return -most, most
    return dtypes.limits(dtype)


def gathered(t: Translation, x: Value, places: Value, count: int, reduction: str) -> Value:
    """Slices of x reduced by the segment that each belongs to; segments that there are not do not count."""
    rank = places.type.rank
    if x.shape[:rank] != places.shape:
        raise error("E0108", f"segments {places.type} of {x.type}")
    rest = x.shape[rank:]
    check_table(count, *(int(size) for size in rest if size.is_const))
    start = t.op("expand", t.scalar(_neutral(x.dtype, reduction), x.dtype), shape=(count + 1, *rest))
    known = t.op("greater_equal", places, t.scalar(0, places.dtype))
    place = t.op("where", known, places, t.scalar(count, places.dtype))
    made = t.op("scatter_nd", start, t.reshape(place, (*places.shape, 1)), x, reduction=reduction)
    zeros = (0,) * (1 + len(rest))
    return t.op("slice", made, starts=zeros, sizes=(count, *rest), steps=(1,) * len(zeros))


def sorted_segments(t: Translation, position: int) -> int:
    """How many segments there are, of rows that follow each other; which row is of which must be known."""
    places = np.asarray(t.array(position, "segments"))
    if places.ndim != 1 or (np.diff(places) < 0).any() or (places < 0).any():
        raise error("E0108", "the segments do not increase")
    return int(places[-1]) + 1 if places.size else 0


def segment_sum(t: Translation) -> Value:
    return gathered(t, t.input(0), t.input(1), sorted_segments(t, 1), "add")


def _unsorted(reduction: str) -> Translator:
    def translate(t: Translation) -> Value:
        count = t.integer_of(2, "the number of segments")
        if count < 1:
            raise error("E0108", f"the number of segments is {count}")
        return gathered(t, t.input(0), t.input(1), count, reduction)

    return translate


# ---------------------------------------------------------------- sparse elements
def sparse_to_dense(t: Translation) -> Value:
    """Elements at positions, and another number everywhere else."""
    places, shape, values = t.input(0), t.dims(1, "sizes"), t.input(2)
    rank = len(shape)
    if places.type.rank < 2:
        if rank != 1:
            raise error("E0108", f"positions {places.type} in a tensor of {rank} dimensions")
        places = t.reshape(places, (places.type.elements, 1))
    count = places.shape[0]
    dense = t.op("expand", t.reshape(t.input(3), ()), shape=tuple(shape))
    given = t.op("expand", values, shape=(count,)) if values.type.rank == 0 else values
    return t.op("scatter_nd", dense, places, given, reduction="none")


def bucketize(t: Translation) -> Value:
    """How many bounds are not above each element."""
    x, bounds = t.input(0), np.asarray(t.option("boundaries", ()), np.float32)
    if (np.diff(bounds) < 0).any():
        raise error("E0109", "the boundaries do not increase")
    if not bounds.size:
        return t.op("expand", t.scalar(0, "int32"), shape=x.shape)
    wide = x if x.dtype == "float64" else t.cast(x, "float32")
    reached = t.op("greater_equal", t.reshape(wide, (*x.shape, 1)), t.constant(bounds, wide.dtype))
    return t.op("reduce_sum", t.cast(reached, "int32"), axes=(x.type.rank,), keep_dims=False)


# ---------------------------------------------------------------- diagonals
def _diagonal(t: Translation, values: Value, rows: int, columns: int, others: Value) -> Value:
    """Matrices with values on the diagonal."""
    size = min(rows, columns)
    if values.shape[-1] != size:
        raise error("E0108", f"{values.type} on the diagonal of {rows} x {columns}")
    lead: Sequence[object] = values.shape[:-1]
    spread = t.pad(values, (0,) * values.type.rank, (*(0,) * len(lead), columns - size))
    check_table(rows, columns)
    on = t.constant(np.eye(rows, columns, dtype=bool))
    return t.op("where", on, t.reshape(spread, (*lead, 1, columns)), others)


def matrix_diag(t: Translation) -> Value:
    x = t.input(0)
    size = t.extent(x, -1)
    return _diagonal(t, x, size, size, t.scalar(0, x.dtype))


def matrix_set_diag(t: Translation) -> Value:
    x = t.input(0)
    if x.type.rank < 2:
        raise error("E0108", f"{t.kind} of {x.type}")
    return _diagonal(t, t.input(1), t.extent(x, -2), t.extent(x, -1), x)


# ---------------------------------------------------------------- different elements
def unique(t: Translation) -> tuple[Value, ...]:
    """The different elements in the order in which they come, as many as the data decide, which each one is, and how
    often each occurs."""
    x = t.input(0)
    most = x.type.elements.bounds()[1]
    if x.type.rank != 1 or not most:
        raise t.unsupported(f"of {x.type}")
    values, _, inverse, counts, count = t.builder.add_all(
        "unique", x, size=most, axis=None, sorted=False, sources=t.sources, name=f"{t.name}/unique"
    )
    symbol = t.builder.name("different_" + re.sub(r"\W", "_", t.result().name))
    size = t.builder.bind_size(count, symbol, 1, most, sources=t.sources)
    found, counts = (t.op("slice", part, starts=(0,), sizes=(size,), steps=(1,)) for part in (values, counts))
    return found, *(t.cast(part, t.result(1).kind) for part in (inverse, counts))


TRANSLATORS: dict[str, Translator] = {
    "BUCKETIZE": bucketize,
    "MATRIX_DIAG": matrix_diag,
    "MATRIX_SET_DIAG": matrix_set_diag,
    "SEGMENT_SUM": segment_sum,
    "SPARSE_TO_DENSE": sparse_to_dense,
    "UNIQUE": unique,
    "UNSORTED_SEGMENT_MAX": _unsorted("max"),
    "UNSORTED_SEGMENT_MIN": _unsorted("min"),
    "UNSORTED_SEGMENT_PROD": _unsorted("mul"),
    "UNSORTED_SEGMENT_SUM": _unsorted("add"),
}
