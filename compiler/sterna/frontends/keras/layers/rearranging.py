"""Functions of keras.ops that move, sort, sum and join elements, beside those in `operations`."""

from __future__ import annotations

from typing import Any

import numpy as np

from sterna.errors import error
from sterna.frontends.emitter import MOST_PARTS, axes_of
from sterna.frontends.keras.layers.arguments import option, tensor, two_operands
from sterna.frontends.keras.translation import Result, Translation, Translator, values_in
from sterna.frontends.linear_algebra import diagonal
from sterna.ir.graph import Value
from sterna.ir.limits import check_table


def flat(t: Translation, x: Value) -> Value:
    sizes: Any = 1
    for size in x.shape:
        sizes = size * sizes
    return t.reshape(x, (sizes,))


def listed(t: Translation, *keys: str) -> list[Value]:
    """The tensors of the first argument."""
    given = t.args[0] if t.args else next((t.kwargs[key] for key in keys if key in t.kwargs), None)
    return values_in(given)


def axis_of(t: Translation, x: Value, position: int = 1, key: str = "axis", default: int = -1) -> int:
    (axis,) = axes_of((int(option(t, position, key, default)),), x.type.rank)
    return axis


def along(t: Translation, position: int = 1, default: int | None = None) -> tuple[Value, int]:
    """The operand and its axis; without one all elements in a row."""
    axis = option(t, position, "axis", default)
    if axis is None:
        return flat(t, t.x), 0
    return t.x, axes_of((int(axis),), t.x.type.rank)[0]


def _roll(t: Translation) -> Value:
    shift, axis = option(t, 1, "shift", 0), option(t, 2, "axis", None)
    x = t.x if axis is not None else flat(t, t.x)
    axes = [0] if axis is None else [axis] if isinstance(axis, int) else list(axis)
    shifts = [shift] * len(axes) if isinstance(shift, int) else list(shift)
    for by, at_axis in zip(shifts, axes, strict=True):
        at = axes_of((int(at_axis),), x.type.rank)[0]
        size = t.extent(x, at)
        first = -int(by) % size if size else 0
        if first:
            x = t.op("concat", t.part(x, at, first, size - first), t.part(x, at, 0, first), axis=at)
    return x if axis is not None else t.reshape(x, t.x.shape)


def _moved(t: Translation) -> Value:
    source, target = option(t, 1, "source", 0), option(t, 2, "destination", 0)
    rank = t.x.type.rank
    sources, targets = (
        list(axes_of([n] if isinstance(n, int) else tuple(n), rank)) for n in (source, target)
    )  # fmt: skip
    order = [n for n in range(rank) if n not in sources]
    for at, axis in sorted(zip(targets, sources, strict=True)):
        order.insert(at, axis)
    return t.transpose(t.x, order)


def _swapped(t: Translation) -> Value:
    rank = t.x.type.rank
    a, b = axes_of((int(option(t, 1, "axis1", 0)), int(option(t, 2, "axis2", 1))), rank)
    order = list(range(rank))
    order[a], order[b] = b, a
    return t.transpose(t.x, order)


def _flipped(t: Translation, axis: int) -> Value:
    return reversed_along(t, t.x, axis)


def reversed_along(t: Translation, x: Value, axis: int) -> Value:
    starts, steps = [0] * x.type.rank, [1] * x.type.rank
    starts[axis], steps[axis] = t.extent(x, axis) - 1, -1
    return t.op("slice", x, starts=tuple(starts), sizes=x.shape, steps=tuple(steps))


def _rotated(t: Translation) -> Value:
    x, turns = t.x, int(option(t, 1, "k", 1)) % 4
    a, b = axes_of(tuple(option(t, 2, "axes", (0, 1))), x.type.rank)
    order = list(range(x.type.rank))
    order[a], order[b] = b, a
    if turns == 2:
        return reversed_along(t, reversed_along(t, x, a), b)
    if turns == 1:
        return t.transpose(reversed_along(t, x, b), order)
    return reversed_along(t, t.transpose(x, order), b) if turns == 3 else x


def _triangle(upper: bool) -> Translator:
    def translate(t: Translation) -> Value:
        return t.standard("Trilu", t.x, t.constant(int(option(t, 1, "k", 0)), "int64"), upper=int(upper))

    return translate


def _diagonal(t: Translation, total: bool = False) -> Value:
    """Of the matrices in two dimensions, in the last one."""
    x, offset = t.x, int(option(t, 1, "offset", 0))
    a, b = axes_of((int(option(t, 2, "axis1", 0)), int(option(t, 3, "axis2", 1))), x.type.rank)
    x = t.transpose(x, (*(n for n in range(x.type.rank) if n not in (a, b)), a, b))
    rows, columns = t.extent(x, -2), t.extent(x, -1)
    count = min(rows + min(offset, 0), columns - max(offset, 0))
    if count < 1:
        raise error("E0109", f"the diagonal {offset} of {x.type}")
    x = t.part(t.part(x, -2, max(-offset, 0), count), -1, max(offset, 0), count)
    found = diagonal(t, x)
    return t.reduced("reduce_sum", found, (-1,)) if total else found


def _diag(t: Translation) -> Value:
    """A vector on the diagonal of a matrix, or the diagonal of a matrix."""
    x, k = t.x, int(option(t, 1, "k", 0))
    if t.layer.kind.lower() == "diag" and x.type.rank == 2:
        rows, columns = t.static(x)
        count = min(rows + min(k, 0), columns - max(k, 0))
        return diagonal(t, t.part(t.part(x, 0, max(-k, 0), count), 1, max(k, 0), count))
    x = flat(t, x)
    size = t.extent(x, 0) + abs(k)
    check_table(size, size)
    # The diagonal above the main one begins in the first row, one below it in the first column.
    wide = t.reshape(t.pad(x, (0,), (abs(k),)), (size, 1) if k >= 0 else (1, size))
    return t.op("where", t.constant(np.eye(size, k=k, dtype=bool)), wide, t.scalar(0, x.dtype))


def _joined(axis: int, rank: int) -> Translator:
    """hstack, vstack, dstack: operands of fewer dimensions get them."""

    def translate(t: Translation) -> Value:
        values = listed(t, "xs")
        wide = []
        for x in values:
            shape: list[Any] = list(x.shape)
            if rank == 3 and len(shape) < 3:
                shape = [*([1] if len(shape) == 1 else []), *shape, 1]
            while len(shape) < rank:
                shape.insert(0, 1)
            wide.append(t.reshape(x, shape))
        at = 0 if axis == 1 and wide[0].type.rank == 1 else axis
        return t.op("concat", *wide, axis=at) if len(wide) > 1 else wide[0]

    return translate


def _append(t: Translation) -> Value:
    a, b = two_operands(t)
    axis = option(t, 2, "axis", None)
    if axis is None:
        return t.op("concat", flat(t, a), flat(t, b), axis=0)
    return t.op("concat", a, b, axis=int(axis) % a.type.rank)


def _parts(axis: int | None) -> Translator:
    """hsplit, vsplit, dsplit, and array_split, whose first parts are larger."""

    def translate(t: Translation) -> Result:
        x = t.x
        at = int(option(t, 2, "axis", 0)) % x.type.rank if axis is None else min(axis, x.type.rank - 1)
        given, size = option(t, 1, "indices_or_sections", 1), t.extent(x, at)
        if isinstance(given, int):
            if not 1 <= given <= min(max(size, 1), MOST_PARTS):
                raise error("E0108", f"{size} elements in {given} parts")
            sizes = [size // given + (n < size % given) for n in range(given)]
            starts = np.cumsum([0, *sizes])[:-1].tolist()
        else:
            starts = [0, *(int(n) for n in np.asarray(given).reshape(-1))]
        ends = [*starts[1:], size]
        return [t.part(x, at, start, end - start) for start, end in zip(starts, ends, strict=True)]

    return translate


def _unstacked(t: Translation) -> Result:
    x = t.x
    axis = axis_of(t, x, 2, default=0)
    rest = [size for n, size in enumerate(x.shape) if n != axis]
    return [t.reshape(t.part(x, axis, n, 1), rest) for n in range(t.extent(x, axis))]


def _grid(t: Translation) -> Result:
    """Vectors along the dimensions of a grid, by columns first unless `indexing` says "ij"."""
    values = [flat(t, x) for x in (values_in(list(t.args)) or listed(t))]
    order = list(range(len(values)))
    if str(option(t, 99, "indexing", "xy")) == "xy" and len(values) > 1:
        order[0], order[1] = 1, 0
    shape = [values[n].shape[0] for n in order]
    return [
        t.op("expand", t.reshape(x, [x.shape[0] if order[n] == k else 1 for n in range(len(values))]), shape=shape)
        for k, x in enumerate(values)
    ]


def _take_along(t: Translation) -> Value:
    x, places = t.x, tensor(t, option(t, 1, "indices", None), None)
    places = t.cast(places, "int64")
    axis = option(t, 2, "axis", None)
    if axis is None:
        return t.standard("GatherElements", flat(t, x), flat(t, places), axis=0)
    at = int(axis) % x.type.rank
    # Sizes of 1 stand for all elements, but along the axis.
    shape = [b if n == at or a == 1 else a for n, (a, b) in enumerate(zip(x.shape, places.shape, strict=True))]
    places = t.op("expand", places, shape=shape)
    wide = [x.shape[n] if n == at else size for n, size in enumerate(shape)]
    return t.standard("GatherElements", t.op("expand", x, shape=wide), places, axis=at)


def _isin(t: Translation) -> Value:
    a, b = two_operands(t, ("x1", "x2"))
    hits = t.op("equal", t.reshape(a, (*a.shape, 1)), flat(t, b))
    found = t.reduced("reduce_any", hits, (-1,))
    return t.op("logical_not", found) if option(t, 3, "invert", False) else found


def _update_slice(t: Translation) -> Value:
    """`updates` written at a start that is known, or computed."""
    x = t.x
    starts, updates = option(t, 1, "start_indices", None), option(t, 2, "updates", None)
    values = t.cast(tensor(t, updates, x), x.dtype)
    sizes = t.static(values)
    grid = np.stack(np.meshgrid(*(np.arange(n) for n in sizes), indexing="ij"), -1)
    check_table(*grid.shape)
    start = tensor(t, list(starts) if isinstance(starts, tuple) else starts, None)
    return t.op("scatter_nd", x, t.op("add", t.constant(grid, "int64"), t.cast(start, "int64")), values)


def _slice(t: Translation) -> Value:
    x, shape = t.x, [int(n) for n in option(t, 2, "shape", ())]
    start = tensor(t, option(t, 1, "start_indices", None), None)
    if start.data is not None:
        return t.op("slice", x, starts=tuple(int(n) for n in start.data), sizes=tuple(shape), steps=(1,) * len(shape))
    for axis, size in enumerate(shape):
        first = t.cast(t.part(start, 0, axis, 1), "int64")
        x = t.op("gather", x, t.op("add", first, t.constant(np.arange(size), "int64")), axis=axis)
    return x


def _scatter(t: Translation) -> Value:
    """Of indices and values, into zeros; equal indices add up."""
    places, values = (tensor(t, option(t, n, key, None), None) for n, key in enumerate(("indices", "values")))
    zeros = t.op("expand", t.scalar(0, values.dtype), shape=tuple(int(n) for n in option(t, 2, "shape", ())))
    return t.op("scatter_nd", zeros, t.cast(places, "int64"), values, reduction="add")


def _scatter_update(t: Translation) -> Value:
    x = t.x
    places, values = (tensor(t, option(t, n + 1, key, None), None) for n, key in enumerate(("indices", "updates")))
    how = option(t, 3, "reduction", None)
    named = {None: "none", "add": "add", "max": "max", "min": "min", "mul": "mul"}
    return t.op("scatter_nd", x, t.cast(places, "int64"), t.cast(values, x.dtype), reduction=named[how])


def _select(t: Translation) -> Value:
    conditions, choices = (values_in(option(t, n, key, [])) for n, key in enumerate(("condlist", "choicelist")))
    made = tensor(t, option(t, 2, "default", 0), choices[0])
    for condition, choice in reversed(list(zip(conditions, choices, strict=True))):
        made = t.op("where", t.cast(condition, "bool"), choice, made)
    return made


def _unravelled(t: Translation) -> Result:
    x, shape = t.x, [int(n) for n in option(t, 1, "shape", ())]
    made: list[Value | None] = []
    for n, size in enumerate(shape):
        step = int(np.prod(shape[n + 1 :]))
        wide = t.cast(x, "int64")
        made.append(t.cast(t.op("mod", t.op("div", wide, t.scalar(step, "int64")), t.scalar(size, "int64")), x.dtype))
    return made


OPERATIONS: dict[str, Translator] = {
    "append": _append,
    "array": lambda t: t.x,
    "array_split": _parts(None),
    "diag": _diag,
    "diagflat": _diag,
    "diagonal": _diagonal,
    "dsplit": _parts(2),
    "dstack": _joined(2, 3),
    "fliplr": lambda t: _flipped(t, 1),
    "flipud": lambda t: _flipped(t, 0),
    "hsplit": lambda t: _parts(1 if t.x.type.rank > 1 else 0)(t),
    "hstack": _joined(1, 1),
    "is_in": _isin,
    "meshgrid": _grid,
    "moveaxis": _moved,
    "ndim": lambda t: t.scalar(t.x.type.rank, "int32"),
    "roll": _roll,
    "rot90": _rotated,
    "scatter": _scatter,
    "scatter_update": _scatter_update,
    "select": _select,
    "size": lambda t: t.reshape(t.cast(t.dimensions([t.x.type.elements]), "int32"), ()),
    "slice": _slice,
    "slice_update": _update_slice,
    "swapaxes": _swapped,
    "take_along_axis": _take_along,
    "trace": lambda t: _diagonal(t, total=True),
    "tril": _triangle(False),
    "triu": _triangle(True),
    "unravel_index": _unravelled,
    "unstack": _unstacked,
    "vsplit": _parts(0),
    "vstack": _joined(0, 2),
}
