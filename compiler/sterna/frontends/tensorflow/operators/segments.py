"""Operators that gather what belongs together, and that part tensors and put them together again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sterna.errors import error
from sterna.frontends.tensorflow.translation import Translation, Translator
from sterna.frontends.tflite.operators import segments as lite
from sterna.frontends.tflite.operators import selection
from sterna.ir.graph import Value
from sterna.ir.limits import check_table

_GATHERED: Any = lite.gathered  # it takes what all translations of operators have


def _reduced(t: Translation, x: Value, places: Value, count: int, reduction: str) -> Value:
    """Rows reduced by segment; `reduction` may be a mean, or a sum over the square root of how many rows there are."""
    if reduction not in ("mean", "sqrt"):
        found: Value = _GATHERED(t, x, places, count, reduction)
        return found
    total = _GATHERED(t, x, places, count, "add")
    rows = t.op("maximum", _rows(t, places, count, x), t.scalar(1, x.dtype))
    return t.op("div", total, rows if reduction == "mean" else t.op("sqrt", rows))


def _rows(t: Translation, places: Value, count: int, x: Value) -> Value:
    """How many rows each segment has, to broadcast to reduced rows of x."""
    ones = t.op("expand", t.scalar(1, x.dtype), shape=places.shape)
    counted = _GATHERED(t, ones, places, count, "add")
    return t.reshape(counted, (count, *(1,) * (x.type.rank - places.type.rank)))


def _segments(reduction: str) -> Translator:
    """Of rows in order: in the first version 0 is the maximum and the minimum of no rows; the second takes a number of
    segments, and others give what changes nothing."""

    def translate(t: Translation) -> Value:
        x, places = t.input(0), t.input(1)
        if t.has(2):
            return _reduced(t, x, places, t.integer_of(2, "the number of segments"), reduction)
        count = lite.sorted_segments(t, 1)  # type: ignore[arg-type]
        found = _reduced(t, x, places, count, reduction)
        empty = np.setdiff1d(np.arange(count), t.array(1, "segments"))
        if not empty.size or reduction in ("add", "mul", "mean", "sqrt"):
            return found
        nothing = np.zeros((count, *(1,) * (x.type.rank - 1)), np.bool_)
        nothing[empty] = True
        return t.op("where", t.constant(nothing), t.scalar(0, x.dtype), found)

    return translate


def _sparse_segments(reduction: str) -> Translator:
    """Of rows that are named by number, as embeddings of several words are."""

    def translate(t: Translation) -> Value:
        x = t.op("gather", t.input(0), t.input(1), axis=0)
        count = t.integer_of(3, "the number of segments") if t.has(3) else lite.sorted_segments(t, 2)  # type: ignore[arg-type]
        return _reduced(t, x, t.input(2), count, reduction)

    return translate


def sparse_product(t: Translation) -> Value:
    """A matrix of given elements, 0 elsewhere, times another one."""
    places, values, shape, other = t.input(0), t.input(1), tuple(t.dims(2, "sizes")), t.input(3)
    dense = t.op("expand", t.scalar(0, values.dtype), shape=shape)
    dense = t.op("scatter_nd", dense, places, values, reduction="add")
    turned = [
        t.transpose(x, (1, 0)) if t.option(name, False) else x
        for name, x in (("adjoint_a", dense), ("adjoint_b", other))
    ]
    return t.op("matmul", *turned)


# ---------------------------------------------------------------- parts
def dynamic_partition(t: Translation) -> tuple[Value, ...]:
    """Rows by the part that each belongs to: as many in each as the data decide."""
    x, parts, count = t.input(0), t.input(1), int(t.option("num_partitions", 1))
    rank = parts.type.rank
    if x.shape[:rank] != parts.shape or not 1 <= count <= 1 << 16:
        raise error("E0108", f"{count} parts {parts.type} of {x.type}")
    rows = t.reshape(x, (parts.type.elements, *x.shape[rank:]))
    flat = t.reshape(parts, (parts.type.elements,))
    found = []
    for number in range(count):
        if parts.data is not None:
            places = t.constant(np.flatnonzero(np.asarray(parts.data) == number), "int64")
        else:
            places = selection.where(t.again(_members(t, flat, number)))  # type: ignore[arg-type]
            places = t.reshape(places, (places.shape[0],))
        found.append(t.op("gather", rows, places, axis=0))
    return tuple(found)


def _members(t: Translation, parts: Value, number: int) -> Value:
    """Which rows belong to a part: one value for all tensors that are parted by the same numbers, whose parts have the
    same sizes then."""
    source = t.builder.reshaped_from(parts)
    for node in t.builder.nodes:
        first, second = node.inputs if node.op == "equal" else (None, None)
        if first is None or second is None or second.data is None or second.data.size != 1:
            continue
        if second.data.item() == number and t.builder.reshaped_from(first) is source:
            return node.outputs[0]
    return t.op("equal", parts, t.scalar(number, parts.dtype))


def dynamic_stitch(t: Translation) -> Value:
    """Rows put where their numbers say; of several with one number the last is there. Numbers that are not known are
    taken to be all from 0 on, each once, as those of parts are."""
    if len(t.items) % 2 or not t.items:
        raise error("E0103", f"{t.kind} has {len(t.items)} operands")
    half = len(t.items) // 2
    numbers, rows = [t.input(n) for n in range(half)], [t.input(half + n) for n in range(half)]
    rest: Sequence[Any] = rows[0].shape[numbers[0].type.rank :]
    flat = [t.reshape(x, (x.type.elements,)) for x in numbers]
    data = [_as_many(t, x, n, rest) for x, n in zip(rows, numbers, strict=True)]
    places = t.op("concat", *flat, axis=0) if half > 1 else flat[0]
    values = t.op("concat", *data, axis=0) if half > 1 else data[0]
    if all(t.known(n) for n in range(half)):
        size: Any = 1 + max((int(np.max(x.data)) for x in flat if x.data is not None and x.data.size), default=-1)
        check_table(size, *(int(extent) for extent in rest if extent.is_const))
    else:
        size = values.shape[0]
        places = t.agree(places, *_all_there(t, places))
    start = t.op("expand", t.scalar(0, values.dtype), shape=(size, *rest))
    return t.op("scatter_nd", start, t.reshape(places, (*places.shape, 1)), values, reduction="none")


def _as_many(t: Translation, x: Value, numbers: Value, rest: Sequence[Any]) -> Value:
    """Rows for numbers: one for each. Where both are as many as the data decide, that is tested at run time."""
    have, want = x.shape[:1], numbers.shape
    if len(have) != 1 or len(want) != 1 or have == want or (have[0].is_const and want[0].is_const):
        return t.reshape(x, (numbers.type.elements, *rest))
    same = t.op("equal", t.dimensions(have), t.dimensions(want))
    return t.op("gather", x, t.agree(t.counting(want[0]), same), axis=0)


def _all_there(t: Translation, places: Value) -> tuple[Value, ...]:
    """Whether the largest of so many numbers is their count less one."""
    largest = t.op("reduce_max", places, axes=(0,), keep_dims=True)
    count = t.cast(t.dimensions(places.shape), places.dtype)
    return (t.op("equal", largest, t.op("sub", count, t.scalar(1, places.dtype))),)


def in_place(t: Translation) -> Value:
    """InplaceUpdate, InplaceAdd, InplaceSub: rows of a tensor anew, by their numbers."""
    x, places, rows = t.input(0), t.input(1), t.input(2)
    rows = t.op("neg", rows) if t.kind == "InplaceSub" else rows
    reduction = "none" if t.kind == "InplaceUpdate" else "add"
    return t.op("scatter_nd", x, t.reshape(places, (*places.shape, 1)), rows, reduction=reduction)


def unravel_index(t: Translation) -> Value:
    """The coordinates, a row for each dimension, of elements by their numbers."""
    x, sizes = t.input(0), t.integers(1, "sizes")
    if not sizes or min(sizes) < 1:
        raise error("E0109", f"{t.kind} in a tensor of {sizes}")
    steps = [int(np.prod(sizes[n + 1 :], dtype=np.int64)) for n in range(len(sizes))]
    rows = [
        t.op("mod", t.op("div", x, t.scalar(step, x.dtype)), t.scalar(size, x.dtype))
        for step, size in zip(steps, sizes, strict=True)
    ]
    return t.op("concat", *(t.reshape(row, (1, *row.shape)) for row in rows), axis=0)


def cross(t: Translation) -> Value:
    """The cross product of vectors of three elements."""
    a, b = t.input(0), t.input(1)
    last = a.type.rank - 1

    def turned(x: Value, by: int) -> Value:
        return t.op("gather", x, t.constant((np.arange(3) + by) % 3, "int64"), axis=last)

    return t.op("sub", t.op("mul", turned(a, 1), turned(b, 2)), t.op("mul", turned(a, 2), turned(b, 1)))


TRANSLATORS: dict[str, Translator] = {
    **{f"Segment{name}{version}": _segments(kind) for version in ("", "V2")
       for name, kind in (("Sum", "add"), ("Prod", "mul"), ("Min", "min"), ("Max", "max"))},
    "SegmentMean": _segments("mean"),
    **{f"SparseSegment{name}{count}": _sparse_segments(kind) for count in ("", "WithNumSegments")
       for name, kind in (("Sum", "add"), ("Mean", "mean"), ("SqrtN", "sqrt"))},
    "Cross": cross, "DynamicPartition": dynamic_partition, "DynamicStitch": dynamic_stitch,
    "InplaceAdd": in_place, "InplaceSub": in_place, "InplaceUpdate": in_place, "ParallelDynamicStitch": dynamic_stitch,
    "SparseTensorDenseMatMul": sparse_product, "UnravelIndex": unravel_index,
}  # fmt: skip
