"""Operators that choose elements by positions or conditions, write to such positions, and quantization."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sterna.errors import error
from sterna.frontends.emitter import MOST_TAPS, axes_of
from sterna.frontends.tensorflow.translation import Translation, Translator
from sterna.frontends.tflite.operators import segments
from sterna.frontends.tflite.operators import selection as lite
from sterna.ir import dtypes
from sterna.ir.graph import Value
from sterna.ir.integer import as_int


def gather(t: Translation) -> Any:
    axis = t.integer_of(2, "the axis") if t.has(2) else 0
    return lite.gather(t.again(t.item(0), t.item(1), axis=axis, batch_dims=int(t.option("batch_dims", 0))))  # type: ignore[arg-type]


def gather_nd(t: Translation) -> Any:
    return t.op("gather_nd", t.input(0), t.input(1))


def one_hot(t: Translation) -> Any:
    return lite.one_hot(t.again(*t.items, axis=int(t.option("axis", -1))))  # type: ignore[arg-type]


def reverse_marked(t: Translation) -> Value:
    """Reverse: the dimensions that are marked."""
    marks = np.asarray(t.array(1, "dimensions"), np.bool_).reshape(-1)
    axes = t.constant(np.flatnonzero(marks), "int32")
    return t.input(0) if not marks.any() else lite.reverse(t.again(t.item(0), axes))  # type: ignore[arg-type]


def nth_element(t: Translation) -> Value:
    """The element that stands at a place of each sorted row."""
    x, place, last = t.input(0), t.integer_of(1, "the place"), t.input(0).type.rank - 1
    size = t.extent(x, last)
    if not 0 <= place < size:
        raise error("E0109", f"{t.kind} takes element {place} of {size}")
    k = place + 1 if t.option("reverse", False) else size - place
    values, _ = t.builder.add_all("top_k", x, k=(as_int(k),), axis=last, sources=t.sources, name=f"{t.name}/top_k")
    return t.op("gather", values, t.constant(k - 1, "int64"), axis=last)


def reverse(t: Translation) -> Any:
    return lite.reverse(t)  # type: ignore[arg-type]


def reverse_sequence(t: Translation) -> Any:
    return lite.reverse_sequence(t)  # type: ignore[arg-type]


def where(t: Translation) -> Any:
    return lite.where(t)  # type: ignore[arg-type]


def select(t: Translation) -> Value:
    """Select's condition may be one for each row; SelectV2's broadcasts."""
    condition, a, b = t.input(0), t.input(1), t.input(2)
    if t.kind == "Select" and condition.type.rank == 1 and a.type.rank > 1:
        condition = t.reshape(condition, (*condition.shape, *(1,) * (a.type.rank - 1)))
    return t.op("where", condition, a, b)


def ref_select(t: Translation) -> Value:
    """One of several tensors by a number."""
    count = len(t.inputs) - 1
    if not 1 <= count <= MOST_TAPS:
        raise error("E0103", f"{t.kind} of {count} tensors")
    y = t.input(count)
    for n in range(count - 1, 0, -1):
        y = t.op("where", t.op("equal", t.input(0), t.scalar(n - 1, t.input(0).dtype)), t.input(n), y)
    return y


def scatter_nd(t: Translation) -> Any:
    return lite.scatter_nd(t)  # type: ignore[arg-type]


def sparse_to_dense(t: Translation) -> Value:
    """A tensor of one value with others at given places: rows of coordinates, or numbers of a vector's elements."""
    places, shape, values, rest = t.input(0), tuple(t.dims(1, "sizes")), t.input(2), t.input(3)
    if places.type.rank == 0:
        places = t.reshape(places, (1,))
    if places.type.rank == 1:
        places = t.reshape(places, (places.shape[0], 1))
    if values.type.rank == 0:
        values = t.op("expand", values, shape=(places.shape[0],))
    return t.op("scatter_nd", t.op("expand", rest, shape=shape), places, values, reduction="none")


def _update(reduction: str, sign: int = 1) -> Translator:
    def translate(t: Translation) -> Value:
        values = t.input(2) if sign > 0 else t.op("neg", t.input(2))
        return t.op("scatter_nd", t.input(0), t.input(1), values, reduction=reduction)

    return translate


def top_k(t: Translation) -> tuple[Value, ...]:
    x = t.input(0)
    k = t.dims(1, "the number of elements") if t.has(1) else [as_int(int(t.option("k", 1)))]
    if len(k) != 1:
        raise error("E0108", f"the number of elements must be one element, not {len(k)}")
    values, places = t.builder.add_all(
        "top_k", x, k=tuple(k), axis=x.type.rank - 1, sources=t.sources, name=f"{t.name}/top_k"
    )
    return values, t.cast(places, t.dtype("index_type", "int32"))


def in_top_k(t: Translation) -> Value:
    """Whether fewer than k scores are greater than the target's."""
    scores, targets = t.input(0), t.input(1)
    k = t.integer_of(2, "the number of elements") if t.has(2) else int(t.option("k", 1))
    own = t.op("gather_elements", scores, t.reshape(targets, (*targets.shape, 1)), axis=1)
    better = t.op("reduce_sum", t.cast(t.op("greater", scores, own), "int32"), axes=(1,), keep_dims=False)
    return t.op("less", better, t.scalar(k, "int32"))


def unique(t: Translation) -> Any:
    """Of vectors; UniqueV2 and UniqueWithCountsV2 name the dimension, or none."""
    if t.has(1) and any(axis not in (0, -1) for axis in t.integers(1, "the dimension")):
        raise t.unsupported("along another dimension than the first")
    results = segments.unique(t)  # type: ignore[arg-type]
    return results if t.kind.startswith("UniqueWithCounts") else results[:2]


def band_part(t: Translation) -> Value:
    """A matrix with so many diagonals below and above the main one; negative: all of them."""
    x = t.input(0)
    rows, columns = x.shape[-2:]
    below, above = t.integer_of(1, "how many diagonals"), t.integer_of(2, "how many diagonals")
    i = t.reshape(t.counting(rows, "int64"), (rows, 1))
    j = t.reshape(t.counting(columns, "int64"), (1, columns))
    kept: Value | None = None
    for distance, most in ((t.op("sub", i, j), below), (t.op("sub", j, i), above)):
        if most >= 0:
            near = t.op("less_equal", distance, t.scalar(most, "int64"))
            kept = near if kept is None else t.op("logical_and", kept, near)
    return x if kept is None else t.op("where", kept, x, t.scalar(0, x.dtype))


def roll(t: Translation) -> Value:
    x = t.input(0)
    for shift, axis in zip(t.integers(1, "shifts"), t.integers(2, "axes"), strict=True):
        (place,) = axes_of((axis,), x.type.rank)
        size = t.extent(x, place)
        moved = (np.arange(size) - shift) % max(size, 1)
        x = t.op("gather", x, t.constant(moved, "int64"), axis=place)
    return x


# ---------------------------------------------------------------- quantization
def fake_quant(t: Translation) -> Value:
    """FakeQuantWithMinMax*: to one of 2^num_bits levels and back, 0 being one of them."""
    x = t.input(0)
    if t.kind == "FakeQuantWithMinMaxArgs":
        least, most = np.float32(t.option("min", -6.0)), np.float32(t.option("max", 6.0))
    else:
        least, most = (np.asarray(t.array(n, "a bound"), np.float32) for n in (1, 2))
    low = np.float32(1 if t.option("narrow_range", False) else 0)
    high = np.float32((1 << int(t.option("num_bits", 8))) - 1)
    scale = (most - least) / (high - low)
    if (scale <= 0).any():
        raise error("E0109", f"{t.kind} has the bounds {least} and {most}")
    zero = low - least / scale
    zero = np.where(zero < low, low, np.where(zero > high, high, np.floor(zero + np.float32(0.5)))).astype(np.float32)
    least, most = (low - zero) * scale, (high - zero) * scale
    inverse = np.float32(1) / scale
    kept = t.op("minimum", t.op("maximum", x, t.constant(least, "float32")), t.constant(most, "float32"))
    level = t.op("mul", t.op("sub", kept, t.constant(least, "float32")), t.constant(inverse, "float32"))
    level = t.op("floor", t.op("add", level, t.scalar(0.5, "float32")))
    return t.op("add", t.op("mul", level, t.constant(scale, "float32")), t.constant(least, "float32"))


def quantize_and_dequantize(t: Translation) -> Value:
    """Numbers as the nearest level of a range, which is given or that of the data, for all or along an axis."""
    x = t.input(0)
    signed, axis = bool(t.option("signed_input", True)), int(t.option("axis", -1))
    bits = t.integer_of(3, "bits") if t.has(3) else int(t.option("num_bits", 8))
    low = (-(1 << (bits - 1)) + int(bool(t.option("narrow_range", False)))) if signed else 0
    high = (1 << (bits - 1)) - 1 if signed else (1 << bits) - 1
    wide = [size if n == axis else 1 for n, size in enumerate(x.shape)]
    given = bool(t.option("range_given", t.kind == "QuantizeAndDequantizeV3"))
    others = tuple(n for n in range(x.type.rank) if n != axis)
    huge = dtypes.greatest(x.dtype)  # where nothing bounds how fine levels are
    least, most = (
        t.reshape(t.input(n), wide) if given else t.op(f"reduce_{end}", x, axes=others, keep_dims=True)
        for n, end in ((1, "min"), (2, "max"))
    )

    def side(bound: Value, end: int) -> tuple[Value, Value]:
        """(levels in 1, what a level stands for) if a bound is to be the lowest or the highest level."""
        there = t.op("less" if end < 0 else "greater", bound, t.scalar(0.0, x.dtype))
        one = t.op("where", there, bound, t.scalar(1.0, x.dtype))
        if not end:
            return (
                t.op("expand", t.scalar(huge, x.dtype), shape=bound.shape),
                t.op("expand", t.scalar(0.0, x.dtype), shape=bound.shape),
            )
        scale = t.op("where", there, t.op("div", t.scalar(float(end), x.dtype), one), t.scalar(huge, x.dtype))
        return scale, t.op("div", bound, t.scalar(float(end), x.dtype))

    (below, step_below), (above, step_above) = side(least, low), side(most, high)
    first = t.op("less", below, above)
    scale, step = t.op("where", first, below, above), t.op("where", first, step_below, step_above)
    if given:
        ends = (t.op("mul", t.scalar(float(end), x.dtype), step) for end in (low, high))
        x = t.op("minimum", t.op("maximum", x, next(ends)), next(ends))
    level = t.op("mul", x, scale)
    if t.option("round_mode", "HALF_TO_EVEN") != "HALF_TO_EVEN":
        level = t.op("floor", t.op("add", level, t.scalar(0.5, x.dtype)))
    else:
        level = t.op("round", level)
    return t.op("mul", level, step)


#: Translators of TensorFlow Lite's operators, which do the same here.
_LITE: Mapping[str, Any] = segments.TRANSLATORS


def _shift(direction: str) -> Translator:
    return lambda t: t.op("bit_shift", t.input(0), t.input(1), direction=direction)


TRANSLATORS: dict[str, Translator] = {
    "LeftShift": _shift("LEFT"), "RightShift": _shift("RIGHT"),
    **{f"UnsortedSegment{name}": _LITE[f"UNSORTED_SEGMENT_{name.upper()}"]
       for name in ("Sum", "Max", "Min", "Prod")},
    "FakeQuantWithMinMaxArgs": fake_quant,
    "FakeQuantWithMinMaxVars": fake_quant, "FakeQuantWithMinMaxVarsPerChannel": fake_quant, "Gather": gather,
    "ResourceGather": gather, "ResourceGatherNd": gather_nd, "RefSelect": ref_select,
    "GatherNd": gather_nd, "GatherV2": gather, "InTopK": in_top_k, "InTopKV2": in_top_k, "MatrixBandPart": band_part,
    "OneHot": one_hot,
    "QuantizeAndDequantizeV2": quantize_and_dequantize, "QuantizeAndDequantizeV3": quantize_and_dequantize,
    "QuantizeAndDequantizeV4": quantize_and_dequantize,
    "ReverseSequence": reverse_sequence, "ReverseV2": reverse, "Roll": roll,
    "ScatterNd": scatter_nd, "Select": select, "SelectV2": select, "SparseToDense": sparse_to_dense,
    "TensorScatterAdd": _update("add"),
    "TensorScatterSub": _update("add", -1),
    "TensorScatterMax": _update("max"), "TensorScatterMin": _update("min"), "TensorScatterUpdate": _update("none"),
    "NthElement": nth_element, "Reverse": reverse_marked,
    "TopK": top_k, "TopKV2": top_k, "Where": where,
    **dict.fromkeys(("Unique", "UniqueWithCounts"), unique),
}  # fmt: skip
