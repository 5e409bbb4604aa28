"""Tensors with some elements replaced, or added to."""

from __future__ import annotations

import math

import numpy as np

from sterna.frontends.emitter import is_float
from sterna.frontends.pytorch.operators.forms import strided
from sterna.frontends.pytorch.operators.gathering import indices_of, layout_of, masked_indices
from sterna.frontends.pytorch.operators.movement import bounds_of, place_in
from sterna.frontends.pytorch.operators.pointwise import floor_quotient, times
from sterna.frontends.pytorch.translation import Translation, Translator
from sterna.ir import dtypes
from sterna.ir.graph import Value
from sterna.ir.integer import Int, IntLike, as_int

_REDUCTIONS = {
    "": "none", "add": "add", "sum": "add", "multiply": "mul", "prod": "mul", "amax": "max", "amin": "min",
    "mean": "add",
}  # fmt: skip


def scatter(t: Translation) -> Value:
    """Elements of `src`, or one number, at the positions that `index` says along a dimension."""
    x, index = t.tensor(), t.cast(t.tensor("index"), "int64")
    axis = t.dim() if x.type.rank else 0
    reduce = "add" if "scatter_add" in t.kind else str(t.arg("reduce", ""))
    if reduce not in _REDUCTIONS:
        raise t.unsupported(f"with the reduction {reduce}")
    if "src" in t.arguments and t.arg("src") is not None:
        updates = t.cast(t.tensor("src"), x.dtype)
        for n in range(index.type.rank):
            if updates.shape[n] != index.shape[n]:
                updates = t.cut(updates, n, 0, index.shape[n])
    else:
        updates = t.full(index.shape, t.arg("value", 0), x.dtype)
    scalar = not x.type.rank
    if scalar:
        x, index, updates = (t.reshape(v, (1,)) for v in (x, index, updates))
    own = t.flag("include_self", True)
    y = x
    if not own:
        neutral = t.full(index.shape, _neutral(reduce, x.dtype), x.dtype)
        y = t.op("scatter_elements", x, index, neutral, axis=axis)
    y = t.op("scatter_elements", y, index, updates, axis=axis, reduction=_REDUCTIONS[reduce])
    if reduce == "mean":
        counts = t.full(x.shape, int(own), x.dtype)
        ones = t.full(index.shape, 1, x.dtype)
        counts = t.op("scatter_elements", counts, index, ones, axis=axis, reduction="add")
        y = _quotient(t, y, counts if own else t.op("maximum", counts, t.scalar(1, x.dtype)))
    return t.reshape(y, ()) if scalar else y


def _neutral(reduce: str, dtype: str) -> float | int:
    """What a reduction leaves as it is: elements without `include_self` begin with it."""
    if reduce in {"amax", "amin"}:
        if dtype.startswith(("float", "bfloat")):
            return float("-inf") if reduce == "amax" else float("inf")
        return dtypes.limits(dtype)[0 if reduce == "amax" else 1]
    return 1 if reduce == "prod" else 0


def _quotient(t: Translation, y: Value, counts: Value) -> Value:
    """Sums by counts; those of integers are rounded down."""
    return t.op("div", y, counts) if is_float(y) else floor_quotient(t, y, counts)


def index_add_by_mask(t: Translation) -> Value:
    """x[i, j] += values where a mask holds, and nothing elsewhere (_unsafe_masked_index_put_accumulate)."""
    mask, values = t.tensor("mask"), t.tensor("values")
    counted = t.op("where", mask, values, t.scalar(0, values.dtype))
    return index_put(t.having(indices=masked_indices(t, mask), values=counted, accumulate=True))


def index_put(t: Translation) -> Value:
    """x[i, :, j] = values, or += with `accumulate`."""
    x, values = t.tensor(), t.cast(t.tensor("values"), t.tensor().dtype)
    given = t.arg("indices", [])
    if len(given) == 1 and isinstance(given[0], Value) and given[0].dtype == "bool" and not t.flag("accumulate"):
        mask = given[0]
        if values.type.elements == 1 or values.type.rank <= x.type.rank - mask.type.rank:
            wide = t.reshape(mask, (*mask.shape, *(1 for _ in range(x.type.rank - mask.type.rank))))
            one = t.reshape(values, ()) if values.type.elements == 1 else values
            return t.op("where", wide, one, x)
    indices = indices_of(t, x)
    indexed, rest, place = layout_of(indices)
    used = [each for each in indices if each is not None]
    if not used:
        return t.expand(values, x.shape)
    shape = t.broadcast(*used)
    parts = [
        t.unsqueeze(t.expand(t.clamp_index(each, x.shape[n]), shape), len(shape))
        for each, n in zip(used, indexed, strict=True)
    ]
    order = (*indexed, *rest)
    moved = t.transpose(x, order)
    inner = [x.shape[n] for n in rest]
    # The values have the shape of x[indices]; there the index's dimensions may stand between the others.
    target = [*inner[:place], *shape, *inner[place:]]
    values = t.expand(values, target)
    if place:
        count = len(shape)
        values = t.transpose(values, (*range(place, place + count), *range(place), *range(place + count, len(target))))
    joined = t.op("concat", *parts, axis=len(shape)) if len(parts) > 1 else parts[0]
    made = t.op("scatter_nd", moved, joined, values, reduction="add" if t.flag("accumulate") else "none")
    return t.transpose(made, [order.index(n) for n in range(x.type.rank)])


def replaced(t: Translation, x: Value, part: Value, axis: int, start: IntLike, step: int = 1) -> Value:
    """A tensor with a slice of it replaced."""
    start, size, count = as_int(start), x.shape[axis], part.shape[axis]
    if step == 1:
        if count == size:
            return part
        pieces = [t.cut(x, axis, 0, start), part, t.cut(x, axis, start + count, size - start - count)]
        kept = [piece for piece in pieces if piece.shape[axis] != 0]
        return kept[0] if len(kept) == 1 else t.op("concat", *kept, axis=axis)
    places = t.op("mul", t.counting(count), t.scalar(step, "int64"))
    if start != 0:
        places = t.op("add", places, t.as_value(start))
    return _rows_replaced(t, x, axis, places, part, "none")


def _rows_replaced(t: Translation, x: Value, axis: int, places: Value, rows: Value, reduction: str) -> Value:
    """A tensor with slices along a dimension replaced, at computed places."""
    index = t.reshape(places, (places.shape[0], 1))
    return t.op("scatter_nd", x, index, rows, axis=axis, reduction=reduction)


def slice_scatter(t: Translation) -> Value:
    x = t.tensor()
    axis = t.dim(default=0)
    start, count, step = bounds_of(t, x.shape[axis])
    shape: list[Int] = [count if n == axis else size for n, size in enumerate(x.shape)]
    return replaced(t, x, t.expand(t.cast(t.tensor("src"), x.dtype), shape), axis, start, step)


def select_scatter(t: Translation) -> Value:
    x = t.tensor()
    axis = t.dim()
    part = t.unsqueeze(t.cast(t.tensor("src"), x.dtype), axis)
    index = t.arg("index")
    shape = [as_int(1) if n == axis else size for n, size in enumerate(x.shape)]
    if isinstance(index, Value) and index.data is None and index.contents is None:
        place = t.reshape(t.clamp_index(index, x.shape[axis]), (1,))
        return _rows_replaced(t, x, axis, place, t.expand(part, shape), "none")
    return replaced(t, x, t.expand(part, shape), axis, place_in(x.shape[axis], t.size_from(index)))


def diagonal_scatter(t: Translation) -> Value:
    x = t.tensor()
    return diagonal_replaced(
        t,
        x,
        t.cast(t.tensor("src"), x.dtype),
        t.dim("dim1", default=0),
        t.dim("dim2", default=1),
        t.integer("offset", 0),
    )


def diagonal_replaced(t: Translation, x: Value, part: Value, a: int, b: int, offset: int) -> Value:
    """A tensor with a diagonal replaced; the part has the diagonal last."""
    count = int(part.shape[-1])
    order = [n for n in range(x.type.rank) if n not in (a, b)]
    moved = t.transpose(x, (a, b, *order))
    rows = [max(-offset, 0) + n for n in range(count)]
    columns = [max(offset, 0) + n for n in range(count)]
    index = t.constant([list(pair) for pair in zip(rows, columns, strict=True)], "int64")
    updates = t.transpose(part, (part.type.rank - 1, *range(part.type.rank - 1)))
    made = t.op("scatter_nd", moved, index, updates)
    full = [a, b, *order]
    return t.transpose(made, [full.index(n) for n in range(x.type.rank)])


def strided_scatter(t: Translation) -> Value:
    """A tensor with the elements replaced that sizes and strides say (as_strided_scatter)."""
    x, src = t.tensor(), t.tensor("src")
    count, flat = src.type.elements, t.reshape(x, (x.type.elements,))
    own = t.having(self=t.reshape(t.counting(x.type.elements), x.shape))
    places = t.reshape(strided(own), (count, 1))
    made = t.op("scatter_nd", flat, places, t.reshape(t.cast(src, x.dtype), (count,)))
    return t.reshape(made, x.shape)


def fill_diagonal(t: Translation) -> Value:
    """One number on the diagonal, which begins anew below a tall matrix with `wrap`."""
    x = t.tensor()
    sizes = t.static(x)
    step = sum(math.prod(sizes[n + 1 :]) for n in range(len(sizes)))
    end = math.prod(sizes) if t.flag("wrap") or len(sizes) > 2 else min(sizes[0], sizes[1]) * sizes[1]
    mask = np.zeros(math.prod(sizes), bool)
    mask[:end:step] = True
    return t.op("where", t.constant(mask.reshape(sizes), "bool"), t.as_value(t.arg("fill_value"), x.dtype), x)


def _index_rows(reduction: str, name: str) -> Translator:
    """index_add, index_copy, index_fill: whole slices at the positions that `index` says."""

    def translate(t: Translation) -> Value:
        own = t.tensor()
        axis = t.dim()
        x = own if own.type.rank else t.reshape(own, (1,))
        places = t.cast(t.tensor("index"), "int64")
        places = t.clamp_index(t.reshape(places, (places.type.elements,)), x.shape[axis])
        shape = [places.shape[0] if n == axis else size for n, size in enumerate(x.shape)]
        rows = t.expand(t.as_value(t.operand(name), x.dtype), shape)
        if t.arg("alpha", 1) != 1:
            rows = times(t, rows, t.as_value(t.arg("alpha"), x.dtype))
        if reduction == "add" and x.dtype == "bool":  # a sum of truth values is whether one is true
            bits, rows = (t.cast(v, "uint8") for v in (x, rows))
            return t.cast(t.reshape(_rows_replaced(t, bits, axis, places, rows, "max"), own.shape), "bool")
        return t.reshape(_rows_replaced(t, x, axis, places, rows, reduction), own.shape)

    return translate


def masked_scatter(t: Translation) -> Value:
    """The elements of `source`, in order, where the mask holds."""
    x, source, mask = t.tensor(), t.tensor("source"), t.cast(t.tensor("mask"), "bool")
    shape = t.broadcast(x, mask)
    x, mask = t.expand(x, shape), t.expand(mask, shape)
    flat = t.reshape(mask, (x.type.elements,))
    number = t.op("cumulative_sum", t.cast(flat, "int64"), axis=0, exclusive=True)
    many = source.type.elements
    if many == 0:
        return x
    number = t.op("minimum", number, t.as_value(many - 1))
    taken = t.op("gather", t.reshape(t.cast(source, x.dtype), (many,)), number, axis=0)
    return t.reshape(t.op("where", flat, taken, t.reshape(x, (x.type.elements,))), x.shape)


def _named(function: Translator, *names: str) -> dict[str, Translator]:
    return {f"aten.{name}": function for name in names}


TRANSLATORS: dict[str, Translator] = {
    **_named(scatter, "scatter.src", "scatter.value", "scatter.reduce", "scatter.value_reduce", "scatter_add.default",
             "scatter_reduce.two"),
    **_named(index_add_by_mask, "_unsafe_masked_index_put_accumulate.default"),
    **_named(index_put, "index_put.default", "_unsafe_index_put.default", "_index_put_impl.default"),
    **_named(slice_scatter, "slice_scatter.default"), **_named(select_scatter, "select_scatter.default"),
    **_named(diagonal_scatter, "diagonal_scatter.default"),
    **_named(_index_rows("add", "source"), "index_add.default"),
    **_named(_index_rows("none", "source"), "index_copy.default"),
    **_named(_index_rows("none", "value"), "index_fill.int_Scalar", "index_fill.int_Tensor"),
    **_named(strided_scatter, "as_strided_scatter.default"), **_named(fill_diagonal, "fill_diagonal.default"),
    **_named(masked_scatter, "masked_scatter.default"),
}  # fmt: skip
