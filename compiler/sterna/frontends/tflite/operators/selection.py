"""Operators that choose elements by computed positions, reverse them or write them to such positions."""

from __future__ import annotations

import re

from sterna.errors import error
from sterna.frontends.emitter import axes_of
from sterna.frontends.tflite.translation import Translation, Translator, quantization_of
from sterna.ir.graph import Value
from sterna.ir.integer import as_int


def gather(t: Translation) -> Value:
    x, indices = t.input(0), t.input(1)
    (axis,) = axes_of([t.option("axis")], x.type.rank)
    batch = t.option("batch_dims")
    batch = batch + indices.type.rank if batch < 0 else batch
    if batch == 0:
        return t.op("gather", x, indices, axis=axis)
    if not 0 <= batch <= min(axis, indices.type.rank) or x.shape[:batch] != indices.shape[:batch]:
        raise error("E0108", f"{batch} shared dimensions of {x.type} and {indices.type}, chosen along {axis}")
    # The chosen dimension first after the shared ones: then coordinates of one number each.
    order = (*range(batch), axis, *(n for n in range(batch, x.type.rank) if n != axis))
    moved = t.transpose(x, order)
    y = t.op("gather_nd", moved, t.reshape(indices, (*indices.shape, 1)), batch_dims=batch)
    rank, chosen = y.type.rank, indices.type.rank - batch
    back = (
        *range(batch),
        *range(batch + chosen, axis + chosen),
        *range(batch, batch + chosen),
        *range(axis + chosen, rank),
    )
    return t.transpose(y, back)


def gather_nd(t: Translation) -> Value:
    return t.op("gather_nd", t.input(0), t.input(1))


def one_hot(t: Translation) -> Value:
    indices = t.input(0)
    depth = t.integer_of(1, "the depth")
    on, off = t.reshape(t.input(2), ()), t.reshape(t.input(3), ())
    axis = t.option("axis")
    axis = indices.type.rank if axis == -1 else axis
    if not 0 <= axis <= indices.type.rank or depth < 0:
        raise error("E0108", f"axis {axis}, depth {depth} for {indices.type}")
    wide = t.reshape(indices, (*indices.shape[:axis], 1, *indices.shape[axis:]))
    places = t.reshape(t.counting(depth, indices.dtype), (depth, *(1,) * (indices.type.rank - axis)))
    return t.op("where", t.op("equal", wide, places), on, off)


def embedding_lookup(t: Translation) -> Value:
    """Rows of a table; those of integers become floats where the result is one, each by its own scale if it has one."""
    table, result = t.input(1), t.result()
    rows = t.op("gather", table, t.input(0), axis=0)
    if result.kind != "float32" or table.dtype == "float32":
        return rows
    q = quantization_of(t.info(1))
    if q.zero_points.any() or (len(q.scales) > 1 and q.axis != 0):
        raise t.unsupported(
            f'of the table "{t.info(1).name}", which has zero points or scales along dimension {q.axis}'
        )
    scales = t.constant(q.scales if len(q.scales) > 1 else q.scales.reshape(()), "float32")
    if len(q.scales) > 1:
        ones = (1,) * (table.type.rank - 1)
        scales = t.reshape(t.op("gather", scales, t.input(0), axis=0), (*t.input(0).shape, *ones))
    return t.op("mul", t.cast(rows, "float32"), scales)


def reverse(t: Translation) -> Value:
    x = t.input(0)
    axes = axes_of(t.integers(1, "axes"), x.type.rank)
    starts = tuple(size - 1 if n in axes else as_int(0) for n, size in enumerate(x.shape))
    return t.op(
        "slice", x, starts=starts, sizes=x.shape, steps=tuple(-1 if n in axes else 1 for n in range(x.type.rank))
    )


def reverse_sequence(t: Translation) -> Value:
    x = t.input(0)
    axis, batch = axes_of((t.option("seq_dim"), t.option("batch_dim")), x.type.rank)
    if axis == batch:
        raise error("E0109", f"seq_dim and batch_dim are both {axis}")
    order = (axis, batch, *(n for n in range(x.type.rank) if n not in (axis, batch)))
    moved = t.op("reverse_sequence", t.transpose(x, order), t.input(1), time_axis=0, batch_axis=1)
    return t.transpose(moved, [order.index(n) for n in range(x.type.rank)])


def where(t: Translation) -> Value:
    """The positions of what is true (or not zero): as many rows as the data decide."""
    if len(t.inputs) != 1:
        raise error("E0103", f"{t.kind} takes 1 input, not {len(t.inputs)}")
    x = t.input(0)
    most = x.type.elements.bounds()[1]
    if not x.type.rank or not most:
        raise t.unsupported(f"of {x.type}")
    places, count = t.builder.add_all("non_zero", x, size=most, sources=t.sources, name=f"{t.name}/non_zero")
    # A condition and its elements in a row are one: what is gathered by either has the same size.
    key = t.builder.scope, t.builder.reshaped_from(x)
    size = t.builder.counted.get(key)
    if size is None:
        symbol = t.builder.name("rows_" + re.sub(r"\W", "_", t.result().name))
        size = t.builder.counted[key] = t.builder.bind_size(count, symbol, 0, most, sources=t.sources)
    found = t.op("slice", places, starts=(0, 0), sizes=(x.type.rank, size), steps=(1, 1))
    return t.cast(t.transpose(found, (1, 0)), t.result().kind)


def scatter_nd(t: Translation) -> Value:
    shape = tuple(t.dims(2, "sizes"))
    zeros = t.op("expand", t.scalar(0, t.input(1).dtype), shape=shape)
    return t.op("scatter_nd", zeros, t.input(0), t.input(1), reduction="add")


def dynamic_update_slice(t: Translation) -> Value:
    """An update written into an operand from a position on, which is clamped so that the update fits."""
    x, update = t.input(0), t.input(1)
    starts = t.input(2)
    sizes, extent = t.static(x), t.static(update)
    if len(sizes) != len(extent) or any(e > s for e, s in zip(extent, sizes, strict=True)):
        raise error("E0108", f"{update.type} does not fit into {x.type}")
    result = x
    places = update
    inside: Value | None = None
    for axis, (size, part) in enumerate(zip(sizes, extent, strict=True)):
        if size == part:
            continue
        one = t.op("slice", starts, starts=(axis,), sizes=(1,), steps=(1,))
        start = t.op("clip", t.cast(t.reshape(one, ()), "int32"), min=0, max=size - part)
        offset = t.op("sub", t.counting(size, "int32"), start)
        places = t.op("gather", places, t.op("clip", offset, min=0, max=part - 1), axis=axis)
        within = t.op(
            "logical_and",
            t.op("greater_equal", offset, t.scalar(0, "int32")),
            t.op("less", offset, t.scalar(part, "int32")),
        )
        within = t.reshape(within, [size if n == axis else 1 for n in range(len(sizes))])
        inside = within if inside is None else t.op("logical_and", inside, within)
    return places if inside is None else t.op("where", inside, places, result)


TRANSLATORS: dict[str, Translator] = {
    "DYNAMIC_UPDATE_SLICE": dynamic_update_slice,
    "EMBEDDING_LOOKUP": embedding_lookup,
    "GATHER": gather,
    "GATHER_ND": gather_nd,
    "ONE_HOT": one_hot,
    "REVERSE_SEQUENCE": reverse_sequence,
    "REVERSE_V2": reverse,
    "SCATTER_ND": scatter_nd,
    "WHERE": where,
}
