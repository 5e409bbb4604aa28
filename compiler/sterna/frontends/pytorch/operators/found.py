"""Operators whose results have as many elements as the data decide."""

from __future__ import annotations

from typing import Any

import numpy as np

from sterna.errors import error
from sterna.frontends.pytorch.translation import Translation, Translator
from sterna.ir.extremum import minimum
from sterna.ir.graph import Value
from sterna.ir.integer import Int, IntLike, as_int
from sterna.ir.limits import walked


def sized(
    t: Translation, operator: str, *inputs: Value | None, most: IntLike, **attributes: Any
) -> tuple[list[Value], Int]:
    """An operator that finds elements and counts them, its last result being the count: the other results with room
    for `most` elements, and how many there are, which is known when the model runs."""
    limit = as_int(most).bounds()[1]
    if limit is None:
        raise error("E0107", f"{t.kind} of a tensor without an upper bound")
    *found, count = t.builder.add_all(
        operator, *inputs, sources=t.sources, name=f"{t.name}/{operator}", size=limit, **attributes
    )
    if count.data is not None:
        return found, as_int(int(count.data))
    return found, t.bind(count, 0, limit)


def nonzero_of(t: Translation, x: Value) -> Value:
    """Positions of what is not 0, one column each: (dimensions, count)."""
    if x.data is not None:
        return t.constant(np.stack(np.nonzero(walked(x.data))).astype(np.int64))
    place = t.builder.scope, x
    known = t.shared.places.get(place)
    if known is None:
        (places,), count = sized(t, "non_zero", x, most=x.type.elements)
        known = t.shared.places[place] = t.cut(places, 1, 0, count)
    return known


def places_of(t: Translation, mask: Value) -> list[Value]:
    """A mask as positions, one tensor for each of its dimensions."""
    found = nonzero_of(t, mask)
    return [t.take(found, 0, n) for n in range(mask.type.rank)]


def nonzero(t: Translation) -> Value:
    return t.transpose(nonzero_of(t, t.tensor()), (1, 0))


def nonzero_numpy(t: Translation) -> list[Value]:
    x = t.tensor("condition" if "condition" in t.arguments else "self")
    return places_of(t, x if x.type.rank else t.reshape(x, (1,)))


def masked_select(t: Translation) -> Value:
    x, mask = t.tensor(), t.cast(t.tensor("mask"), "bool")
    shape = t.broadcast(x, mask)
    flat = t.expand(x, shape)
    flat = t.reshape(flat, (flat.type.elements,))
    hit = t.expand(mask, shape)
    hit = t.reshape(hit, (hit.type.elements,))
    (kept,), count = sized(t, "compress", flat, hit, most=flat.type.elements, axis=0)
    return t.cut(kept, 0, 0, count)


def item(t: Translation) -> Value:
    """One element as a number that is computed."""
    x = t.tensor()
    if x.type.elements != 1:
        raise error("E0108", f"{t.kind} of {x.type}, which is not one element")
    return t.reshape(x, ())


def unique(t: Translation) -> tuple[Value | None, ...]:
    """Sorted values, where each element's is among them, and how often each occurs."""
    x = t.tensor()
    flat = t.reshape(x, (x.type.elements,))
    (values, _, inverse, counts), size = sized(t, "unique", flat, most=flat.shape[0], axis=0, sorted=True)
    return t.cut(values, 0, 0, size), *_asked(t, t.reshape(inverse, x.shape), t.cut(counts, 0, 0, size))


def _asked(t: Translation, places: Value, counts: Value) -> tuple[Value | None, Value | None]:
    """Where each element is among the different ones and how often those occur, if the call asks for them."""
    return places if t.flag("return_inverse") else None, counts if t.flag("return_counts") else None


def unique_slices(t: Translation) -> tuple[Value | None, ...]:
    """Sorted slices along a dimension, which of them each is, and how often each occurs."""
    x = t.tensor()
    axis = t.dim()
    (values, _, inverse, counts), size = sized(t, "unique", x, most=x.shape[axis], axis=axis, sorted=True)
    return t.cut(values, axis, 0, size), *_asked(t, inverse, t.cut(counts, 0, 0, size))


def unique_runs(t: Translation) -> tuple[Value | None, ...]:
    """The first of each run of equal elements or slices, to which run each belongs, and how long the runs are."""
    x = t.tensor()
    flat = t.arg("dim") is None
    rows = t.reshape(x, (x.type.elements,)) if flat else x
    axis = 0 if flat else t.dim()
    count = rows.shape[axis]
    after, before = (t.cut(rows, axis, first, count - 1) for first in (1, 0))
    others = tuple(n for n in range(rows.type.rank) if n != axis)
    changed = t.op("logical_not", t.op("equal", after, before))
    changed = t.op("reduce_any", changed, axes=others, keep_dims=False) if others else changed
    begins = t.op("concat", t.full((minimum(count, 1),), True, "bool"), changed, axis=0)
    run = t.op("sub", t.op("cumulative_sum", t.cast(begins, "int64"), axis=0), t.scalar(1, "int64"))
    (kept,), size = sized(t, "compress", rows, begins, most=count, axis=axis)
    lengths = t.op(
        "scatter_nd", t.full((count,), 0, "int64"), t.reshape(run, (count, 1)), t.full((count,), 1, "int64"),
        reduction="add",
    )  # fmt: skip
    places = t.reshape(run, x.shape) if flat else run
    return t.cut(kept, axis, 0, size), *_asked(t, places, t.cut(lengths, 0, 0, size))


def nonzero_rows(t: Translation) -> Value:
    """The positions of the first `size` elements that are not 0; what is left of the rows is filled."""
    x, size = t.tensor(), t.integer("size")
    found = t.transpose(nonzero_of(t, x), (1, 0))
    rows, rank = found.shape[0], x.type.rank
    index = t.reshape(t.counting(size), (size, 1))
    many = t.as_value(rows)
    wide = t.op("concat", found, t.full((1, rank), t.integer("fill_value", -1), "int64"), axis=0)
    return t.op("gather", wide, t.reshape(t.op("minimum", index, many), (size,)), axis=0)


TRANSLATORS: dict[str, Translator] = {
    "aten.nonzero.default": nonzero,
    "aten.nonzero_numpy.default": nonzero_numpy,
    "aten.where.default": nonzero_numpy,
    "aten.argwhere.default": nonzero,
    "aten.masked_select.default": masked_select,
    "aten.item.default": item,
    "aten._local_scalar_dense.default": item,
    "aten._unique2.default": unique,
    "aten.unique_dim.default": unique_slices,
    "aten.unique_consecutive.default": unique_runs,
    "aten.unique_dim_consecutive.default": unique_runs,
    "aten.nonzero_static.default": nonzero_rows,
}

__all__ = ["TRANSLATORS", "nonzero_of", "places_of", "sized"]
