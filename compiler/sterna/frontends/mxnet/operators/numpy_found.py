"""Elements that are found, chosen, put in, left out and written over, in both interfaces."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sterna.errors import error
from sterna.frontends.mxnet.translation import Translation, Translator
from sterna.frontends.standard import standard, standard_results
from sterna.ir.graph import Value
from sterna.ir.integer import as_int
from sterna.ir.limits import check_table


# ---------------------------------------------------------------- found
def non_zero(t: Translation) -> Value:
    """The coordinates of elements that are not 0, a row for each."""
    x = t.input(0)
    if not x.type.rank:
        raise error("E0108", f"{t.kind} of {x.type}")
    return t.transpose(standard(t, "NonZero", x), (1, 0))


def unique(t: Translation) -> tuple[Value, ...]:
    """The different elements, or slices, in rising order; where they are, and how often, if that is asked for."""
    x = t.input(0)
    axis = t.axis("axis") if t.said.has("axis") else None
    if not x.type.rank:
        x = t.reshape(x, [1])
    results = standard_results(t, "Unique", x, results=4, axis=axis, sorted=1)
    asked = [t.said.flag(f"return_{name}") for name in ("index", "inverse", "counts")]
    return (results[0], *(v for v, wanted in zip(results[1:], asked, strict=True) if wanted))


def masked(t: Translation) -> Value:
    """boolean_mask: the slices where a vector, as long as the dimension, is not 0."""
    x, mask, axis = t.input(0), t.input(1), t.axis("axis", 0)
    if mask.shape != x.shape[axis : axis + 1]:
        raise error("E0108", f"{t.kind} of {x.type} along dimension {axis} by {mask.type}")
    return standard(t, "Compress", x, t.truth(mask), axis=axis)


def indexed(t: Translation) -> Value:
    """Slices by a mask, or by positions, of which negative ones count from the end."""
    x, index = t.input(0), t.input(1)
    if index.dtype != "bool":
        return t.op("gather", x, t.integral(index), axis=0)
    rank = index.type.rank
    if not 1 <= rank <= x.type.rank or index.shape != x.shape[:rank]:
        raise error("E0108", f"{t.kind} of {x.type} by {index.type}")
    count = as_int(index.type.elements)
    flat = t.reshape(x, [count, *x.shape[rank:]])
    return standard(t, "Compress", flat, t.reshape(index, [count]), axis=0)


# ---------------------------------------------------------------- written over
def _under_mask(t: Translation) -> tuple[Value, Value, int]:
    """The tensor, the mask as wide as it, and the dimension where the mask begins."""
    x, mask = t.input(0), t.truth(t.input(1))
    start = t.said.integer("start_axis", 0)
    if not 0 <= start <= x.type.rank - mask.type.rank or mask.shape != x.shape[start : start + mask.type.rank]:
        raise error("E0108", f"{t.kind} of {x.type} where {mask.type} from dimension {start}")
    return x, t.reshape(mask, [*[1] * start, *mask.shape, *[1] * (x.type.rank - start - mask.type.rank)]), start


def number_under_mask(t: Translation) -> Value:
    x, mask, _ = _under_mask(t)
    return t.op("where", mask, t.number(t.said.number("value"), x), x)


def tensor_under_mask(t: Translation) -> Value:
    """Values where the mask is true: one of them; one for all that is true, of the sizes before and after the mask's
    dimensions; or one for each, in the mask's first dimension. Their number must be that of what is true."""
    x, mask, start = _under_mask(t)
    values, given = t.cast(t.input(2), x.dtype), t.truth(t.input(1))
    if all(size == 1 for size in values.shape):
        return t.op("where", mask, t.reshape(values, []), x)
    before, after = x.shape[:start], x.shape[start + given.type.rank :]
    own = values.shape[start : values.type.rank - len(after)]
    if values.shape != (*before, *own, *after) or len(own) > 1:
        raise error("E0108", f"{t.kind} of {x.type} where {given.type} from dimension {start} by {values.type}")
    ones = [1] * given.type.rank
    if not own or own[0] == 1:
        return t.op("where", mask, t.reshape(values, [*before, *ones, *after]), x)
    flat = t.cast(t.reshape(given, [given.type.elements]), "int64")
    found, zero = t.sum(flat, (0,), keep=False), t.scalar(0, "int64")
    count = t.reshape(t.dimensions([own[0]]), [])
    x = t.agree(x, t.op("logical_or", t.op("equal", found, count), t.op("equal", found, zero)))
    if own[0] == 0:
        return x
    one = t.scalar(1, "int64")
    places = t.op("sub", t.op("cumulative_sum", flat, axis=0), one)
    places = t.op("minimum", t.op("maximum", places, zero), t.op("sub", count, one))
    rows = t.op("gather", values, places, axis=start)
    return t.op("where", mask, t.reshape(rows, [*before, *given.shape, *after]), x)


def _part(t: Translation, x: Value) -> tuple[Value, list[list[int]]]:
    """Which elements are in a slice (broadcast), and for every dimension where a position is in the slice."""
    begins, ends = t.said.optional_integers("begin"), t.said.optional_integers("end")
    steps = t.said.optional_integers("step", ())
    if not x.type.rank:
        raise error("E0108", f"{t.kind} of {x.type}")
    if max(len(begins), len(ends), len(steps)) > x.type.rank:
        raise error("E0109", f"{t.kind} of {x.type} from {list(begins)} to {list(ends)}")
    inside: Value | None = None
    places = []
    for n in range(x.type.rank):
        first, end, step = (row[n] if n < len(row) else None for row in (begins, ends, steps))
        size = t.extent(x, n)
        chosen = range(size)[slice(first, end, step or None)]
        row = [-1] * size
        for at, place in enumerate(chosen):
            row[place] = at
        places.append(row)
        mask = t.along(t.constant(np.array(row) >= 0, "bool"), n, x.type.rank)
        inside = mask if inside is None else t.op("logical_and", inside, mask)
    assert inside is not None
    return inside, places


def slice_written(t: Translation) -> Value:
    x, values = t.input(0), t.cast(t.input(1), t.input(0).dtype)
    inside, places = _part(t, x)
    sizes = [max(row) + 1 for row in places]
    if min(sizes) == 0:
        return t.op("identity", x)
    if values.type.rank > x.type.rank:
        raise error("E0108", f"{t.kind} of {x.type} by {values.type}")
    values = t.op("expand", values, shape=tuple(map(as_int, sizes)))
    for n, row in enumerate(places):
        if row != list(range(len(row))):
            values = t.op("gather", values, t.vector([max(at, 0) for at in row]), axis=n)
    return t.op("where", inside, values, x)


def slice_filled(t: Translation) -> Value:
    x = t.input(0)
    return t.op("where", _part(t, x)[0], t.number(t.said.number("scalar", 0.0), x), x)


def elements_written(t: Translation) -> Value:
    """Elements at coordinates, which lie along the first dimension."""
    x, values, places = t.input(0), t.input(1), t.integral(t.input(2))
    return standard(t, "ScatterND", x, t.moved(places, 0, places.type.rank - 1), values)


def _written(reduction: str) -> Translator:
    """index_update and index_add: coordinates lie along the first dimension; values are broadcast."""

    def translate(t: Translation) -> Value:
        x, places, values = t.input(0), t.integral(t.input(1)), t.cast(t.input(2), t.input(0).dtype)
        count = t.extent(places, 0)
        if count > x.type.rank:
            raise error("E0108", f"{t.kind} of {x.type} at {places.type}")
        shape = (*places.shape[1:], *x.shape[count:])
        values = t.op("expand", values, shape=shape)
        return standard(t, "ScatterND", x, t.moved(places, 0, places.type.rank - 1), values, reduction=reduction)

    return translate


def rows_written(t: Translation) -> Value:
    """index_copy: whole rows by their positions."""
    x, places, rows = t.input(0), t.integral(t.input(1)), t.input(2)
    return standard(t, "ScatterND", x, t.reshape(places, [places.type.elements, 1]), rows)


def rows_kept(t: Translation) -> Value:
    """sparse_retain: rows by their positions, the others 0."""
    x, places = t.input(0), t.integral(t.input(1))
    same = t.op("equal", t.reshape(places, [places.type.elements, 1]), t.counting(x.shape[0]))
    kept = t.op("reduce_any", same, axes=(0,), keep_dims=False)
    return t.op("where", t.along(kept, 0, x.type.rank), x, t.number(0, x))


# ---------------------------------------------------------------- put in and left out
def _chosen(t: Translation, size: int, operand: int) -> list[int] | int:
    """Positions: one of the settings, a slice of them, or an operand that is constant."""
    if t.said.has("int_ind"):
        return t.said.integer("int_ind")
    if t.said.has("start") or t.said.has("stop") or t.said.has("step"):
        ends = (t.said.optional(name) for name in ("start", "stop", "step"))
        return list(range(size))[slice(*ends)]
    return t.integers(operand, "positions")


def _row(t: Translation) -> tuple[Value, int]:
    """The tensor and the dimension; without one all elements in one row."""
    x = t.input(0)
    return (x, t.axis("axis")) if t.said.has("axis") else (t.reshape(x, [t.elements(x)]), 0)


def left_out(t: Translation) -> Value:
    x, axis = _row(t)
    size = t.extent(x, axis)
    check_table(size)
    try:
        places = np.delete(np.arange(size), _chosen(t, size, 1))
    except IndexError as problem:
        raise error("E0109", f"{t.kind} of {x.type}: {problem}") from None
    return t.op("gather", x, t.vector(places.tolist()), axis=axis)


def put_in(t: Translation) -> Value:
    """insert: values before positions; one number stands for all."""
    (x, axis), rank = _row(t), t.input(0).type.rank if t.said.has("axis") else 1
    size, has_number = t.extent(x, axis), t.said.has("val")
    chosen = _chosen(t, size, 1 if has_number else 2)
    values = t.number(t.said.number("val"), x) if has_number else t.cast(t.input(1), x.dtype)
    if values.type.rank > rank:
        raise error("E0108", f"{t.kind} of {values.type} into {x.type}")
    if not isinstance(chosen, int) and len(chosen) == 1 and t.kind.endswith("slice"):
        chosen = chosen[0]  # as NumPy has it: then several slices may go before one position
    values = t.reshape(values, [*[1] * (rank - values.type.rank), *values.shape])
    if isinstance(chosen, int):
        values = t.moved(values, 0, axis)
        chosen = [chosen] * t.extent(values, axis)
    check_table(size + len(chosen))
    try:
        order = np.insert(np.arange(size), chosen, np.arange(len(chosen)) + size)
    except IndexError as problem:
        raise error("E0109", f"{t.kind} of {x.type}: {problem}") from None
    shape = tuple(as_int(len(chosen)) if n == axis else s for n, s in enumerate(x.shape))
    both = t.op("concat", x, t.op("expand", values, shape=shape), axis=axis)
    return t.op("gather", both, t.vector(order.tolist()), axis=axis)


def checked(t: Translation) -> Value:
    """constraint_check: true, and a run in which an element is not fails."""
    x = t.truth(t.input(0))
    y = t.op("reduce_all", x, axes=tuple(range(x.type.rank)), keep_dims=False)
    return t.agree(t.scalar(True, "bool"), y)


def _named(function: Translator, names: Sequence[str]) -> dict[str, Translator]:
    return dict.fromkeys(names, function)


TRANSLATORS: dict[str, Translator] = {
    **_named(elements_written, ("_scatter_set_nd", "_npi_scatter_set_nd")),
    **_named(indexed, ("_npi_advanced_indexing",)),
    **_named(left_out, ("_npi_delete",)),
    **_named(masked, ("_contrib_boolean_mask", "_npi_boolean_mask")),
    **_named(non_zero, ("_npx_nonzero", "_npi_nonzero")),
    **_named(put_in, ("_npi_insert_scalar", "_npi_insert_slice", "_npi_insert_tensor")),
    **_named(slice_filled, ("_slice_assign_scalar", "_npi_slice_assign_scalar", "_crop_assign_scalar")),
    **_named(slice_written, ("_slice_assign", "_npi_slice_assign", "_crop_assign")),
    "_contrib_index_copy": rows_written,
    "_npi_boolean_mask_assign_scalar": number_under_mask,
    "_npi_boolean_mask_assign_tensor": tensor_under_mask,
    "_npi_unique": unique,
    "_npx_constraint_check": checked,
    "_npx_index_add": _written("add"),
    "_npx_index_update": _written("none"),
    "_sparse_retain": rows_kept,
}
