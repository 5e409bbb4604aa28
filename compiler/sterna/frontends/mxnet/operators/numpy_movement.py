"""Functions of NumPy's interface that move, join, pad and cut tensors, and that make tensors of sizes."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from sterna.errors import error
from sterna.frontends import decompositions
from sterna.frontends.emitter import axes_of
from sterna.frontends.mxnet.operators.indexing import diagonal
from sterna.frontends.mxnet.operators.shapes import split_v2
from sterna.frontends.mxnet.translation import Translation, Translator
from sterna.ir.graph import Value
from sterna.ir.integer import as_int
from sterna.ir.limits import check_table


# ---------------------------------------------------------------- dimensions
def _of_rank(t: Translation, x: Value, rank: int) -> Value:
    """At least so many dimensions, as NumPy adds them: a vector is a row, of three dimensions in the middle."""
    missing = rank - x.type.rank
    if missing <= 0:
        return x
    if rank == 3 and x.type.rank:
        return t.reshape(x, [1, *x.shape, 1] if x.type.rank == 1 else [*x.shape, 1])
    return t.reshape(x, [*[1] * missing, *x.shape])


def _at_least(rank: int) -> Translator:
    return lambda t: tuple(t.op("identity", _of_rank(t, x, rank)) for x in t.all_inputs())


def move_axes(t: Translation) -> Value:
    x = t.input(0)
    rank = x.type.rank
    sources, targets = (axes_of(t.said.integers(name), rank) for name in ("source", "destination"))
    if len(sources) != len(targets) or len({*sources}) < len(sources) or len({*targets}) < len(targets):
        raise error("E0109", f"{t.kind} of dimensions {list(sources)} to {list(targets)}")
    order = [n for n in range(rank) if n not in sources]
    for target, source in sorted(zip(targets, sources, strict=True)):
        order.insert(target, source)
    return t.transpose(x, order)


def roll_axis(t: Translation) -> Value:
    """One dimension before another."""
    x = t.input(0)
    axis, start, rank = t.axis("axis"), t.said.integer("start", 0), x.type.rank
    start += rank * (start < 0)
    if not 0 <= start <= rank:
        raise error("E0109", f"{t.kind} of {x.type} before dimension {start}")
    return t.moved(x, axis, start - (axis < start))


def _reversed(t: Translation, x: Value, axes: Sequence[int]) -> Value:
    starts = tuple(size - 1 if n in axes else as_int(0) for n, size in enumerate(x.shape))
    return t.op(
        "slice", x, starts=starts, sizes=x.shape, steps=tuple(-1 if n in axes else 1 for n in range(x.type.rank))
    )


def turn(t: Translation) -> Value:
    """rot90: a quarter turn, so many times."""
    x = t.input(0)
    axes = axes_of(t.said.integers("axes", (0, 1)), x.type.rank)
    if len(axes) != 2 or axes[0] == axes[1]:
        raise error("E0109", f"{t.kind} of {x.type} in dimensions {list(axes)}")
    count = t.said.integer("k", 1) % 4
    if not count:
        return t.op("identity", x)
    if count == 2:
        return _reversed(t, x, axes)
    order = list(range(x.type.rank))
    order[axes[0]], order[axes[1]] = axes[1], axes[0]
    if count == 1:
        return t.transpose(_reversed(t, x, axes[1:]), order)
    return _reversed(t, t.transpose(x, order), axes[1:])


def roll(t: Translation) -> Value:
    """Elements moved on, around the end."""
    x = t.input(0)
    shifts, is_flat = t.said.integers("shift"), not t.said.has("axis")
    y = t.reshape(x, [t.elements(x)]) if is_flat else x
    axes = (0,) * len(shifts) if is_flat else axes_of(t.said.integers("axis"), x.type.rank)
    if len(shifts) != len(axes):
        if min(len(shifts), len(axes)) != 1:
            raise error("E0109", f"{t.kind} of dimensions {list(axes)} by {list(shifts)}")
        count = max(len(shifts), len(axes))
        shifts, axes = shifts * (count // len(shifts)), axes * (count // len(axes))
    for shift, axis in zip(shifts, axes, strict=True):
        size = t.extent(y, axis)
        if size and (cut := shift % size):
            parts = t.part(y, axis, size - cut, cut), t.part(y, axis, 0, size - cut)
            y = t.op("concat", *parts, axis=axis)
    return t.reshape(y, x.shape)


# ---------------------------------------------------------------- joined and divided
def _stacked(axis: int, rank: int) -> Translator:
    """hstack (of vectors along their only dimension), vstack and dstack."""

    def translate(t: Translation) -> Value:
        values = [_of_rank(t, x, rank) for x in t.all_inputs()]
        at = 0 if axis == 1 and values[0].type.rank == 1 else axis
        return t.op("concat", *values, axis=at)

    return translate


def columns(t: Translation) -> Value:
    """column_stack: vectors as columns."""
    values = [t.reshape(x, [t.elements(x), 1]) if x.type.rank < 2 else x for x in t.all_inputs()]
    return t.op("concat", *values, axis=1)


def split_columns(t: Translation) -> Value | tuple[Value | None, ...]:
    """hsplit: along the second dimension, or a vector's only one."""
    if t.input(0).type.rank == 1:
        t.said.given["axis"] = "0"
    return split_v2(t)


def _numbers(t: Translation, name: str) -> list[int]:
    """The integers of nested tuples."""
    return [int(n) for n in re.findall(r"-?\d{1,9}", t.said.text(name))]


def pad(t: Translation) -> Value:
    x, widths = t.input(0), _numbers(t, "pad_width")
    rank = x.type.rank
    widths = widths * rank if len(widths) == 2 else widths
    if len(widths) != 2 * rank or min(widths, default=0) < 0:
        raise error("E0109", f"{t.kind} of {x.type} by {widths[:16]}")
    before, after = widths[::2], widths[1::2]
    mode = t.said.choice("mode", "constant", "constant", "edge", "reflect", "symmetric", "maximum", "minimum")
    if mode in ("constant", "edge"):
        settings = {"value": t.said.finite("constant_value", 0.0)} if mode == "constant" else {"mode": mode}
        return t.op("pad", x, before=tuple(before), after=tuple(after), **settings)
    if mode == "reflect" and t.said.text("reflect_type", "even") != "even":
        raise t.unsupported("with the setting reflect_type")
    for axis, (low, high) in enumerate(zip(before, after, strict=True)):
        if not low and not high:
            continue
        if mode in ("reflect", "symmetric"):
            numbers = np.arange(t.extent(x, axis))
            padded = np.pad(numbers, (low, high), "reflect" if mode == "reflect" else "symmetric")
            x = t.op("gather", x, t.vector(padded.tolist()), axis=axis)
            continue
        best = t.op("reduce_max" if mode == "maximum" else "reduce_min", x, axes=(axis,), keep_dims=True)
        sides = [
            t.op("expand", best, shape=tuple(as_int(n) if m == axis else s for m, s in enumerate(x.shape)))
            for n in (low, high)
        ]
        x = t.op("concat", sides[0], x, sides[1], axis=axis)
    return x


# ---------------------------------------------------------------- diagonals and triangles
def diagonal_of_matrix(t: Translation) -> Value:
    """Nothing where the offset is beyond the matrix."""
    if t.input(0).type.rank < 2:
        raise error("E0108", f"{t.kind} takes tensors of at least 2 dimensions, not {t.input(0).type}")
    return diagonal(t)


def trace(t: Translation) -> Value:
    found = diagonal_of_matrix(t)
    return t.sum(found, (found.type.rank - 1,), keep=False)


def matrix_of_diagonal(t: Translation) -> Value:
    """diagflat: all elements on one diagonal."""
    t.inputs = (t.reshape(t.input(0), [t.elements(t.input(0))]),)
    return diagonal(t)


def _triangle(upper: bool) -> Translator:
    def translate(t: Translation) -> Value:
        x = t.input(0)
        if x.type.rank == 1:  # as many rows, each of them the vector
            x = t.op("expand", x, shape=(x.shape[0], x.shape[0]))
        return decompositions.triangle(t, x, upper, t.said.integer("k", 0))

    return translate


def filled_diagonal(t: Translation) -> Value:
    """Numbers, one after the other, along the main diagonal; again below a matrix that is tall, if that is said."""
    x, values = t.input(0), t.said.numbers("val", ())
    sizes = t.static(x)
    wraps = t.said.flag("wrap")
    if len(sizes) < 2 or not values or (len(sizes) > 2 and len({*sizes}) > 1):
        raise error("E0108", f"{t.kind} of {x.type}")
    check_table(*sizes)
    mask = np.zeros(sizes, np.int8)
    np.fill_diagonal(mask, 1, wrap=wraps)
    chosen = np.zeros(sizes)
    chosen[mask == 1] = np.resize(np.array(values), int(mask.sum()))
    return t.op("where", t.constant(mask == 1, "bool"), t.constant(chosen, x.dtype), x)


def _size(t: Translation, name: str, default: int | None = None) -> int:
    size = t.said.integer(name, default)
    if size < 0:
        raise error("E0109", f"{t.kind} with {name} {size}")
    return size


def ones_below(t: Translation) -> Value:
    """tri: 1 on and below a diagonal."""
    rows = _size(t, "N")
    width = _size(t, "M", rows)
    check_table(rows, width)
    return t.constant(np.tri(rows, width, t.said.integer("k", 0)), t.dtype("float32"))


def places_below(t: Translation) -> tuple[Value, ...]:
    """tril_indices: rows and columns."""
    rows = _size(t, "n")
    width = _size(t, "m", rows)
    check_table(rows, width)
    return tuple(t.constant(each, "int64") for each in np.tril_indices(rows, t.said.integer("k", 0), width))


def places_of_diagonal(t: Translation) -> Value:
    """diag_indices_from: a row for each dimension."""
    x = t.input(0)
    size = t.extent(x, 0)
    if x.type.rank < 2 or any(t.extent(x, n) != size for n in range(x.type.rank)):
        raise error("E0108", f"{t.kind} of {x.type}")
    return t.constant(np.tile(np.arange(size), (x.type.rank, 1)), "int64")


# ---------------------------------------------------------------- made of settings
def unit_matrix(t: Translation) -> Value:
    sizes = t.said.integers("shape", ())
    if len(sizes) != 2 or min(sizes) < 0:
        raise error("E0109", f"{t.kind} of {list(sizes)}")
    check_table(*sizes)
    return t.constant(np.eye(*sizes), t.dtype("float32"))


def grid(t: Translation) -> Value:
    """indices: the coordinates of every element of a tensor of so many dimensions."""
    sizes = t.said.integers("dimensions", ())
    if min(sizes, default=0) < 0:
        raise error("E0109", f"{t.kind} of {list(sizes)}")
    check_table(len(sizes), *sizes)
    return t.constant(np.indices(sizes), t.dtype("int32"))


def own_coordinates(t: Translation) -> Value:
    """index_array: the coordinates of every element, in the last dimension."""
    x = t.input(0)
    sizes = t.static(x)
    named = axes_of(t.said.integers("axes", tuple(range(len(sizes)))), len(sizes))
    check_table(len(sizes), *sizes)
    return t.constant(np.moveaxis(np.indices(sizes)[list(named)], 0, -1), "int64")


def log_space(t: Translation) -> Value:
    count = _size(t, "num", 50)
    check_table(count)
    powers = np.linspace(
        t.said.finite("start"), t.said.finite("stop"), count, endpoint=t.said.flag("endpoint", default=True)
    )
    with np.errstate(over="ignore"):
        return t.constant(np.power(t.said.finite("base", 10.0), powers), t.dtype("float32"))


def _window(function: object) -> Translator:
    def translate(t: Translation) -> Value:
        size = _size(t, "M", 0)
        check_table(size)
        return t.constant(function(size), t.dtype("float32"))  # type: ignore[operator]

    return translate


def repeated(t: Translation) -> Value:
    """repeats: every element as often as said for it."""
    x, counts = t.input(0), t.said.integers("repeats", ())
    x, axis = (x, t.axis("axis")) if t.said.has("axis") else (t.reshape(x, [t.elements(x)]), 0)
    size = t.extent(x, axis)
    counts = counts * size if len(counts) == 1 else counts
    if len(counts) != size or min(counts, default=0) < 0:
        raise error("E0109", f"{t.kind} of {size} elements by {list(counts)[:16]}")
    check_table(sum(counts))
    return t.op("gather", x, t.vector(np.repeat(np.arange(size), counts).tolist()), axis=axis)


TRANSLATORS: dict[str, Translator] = {
    **{f"{prefix}atleast_{n}d": _at_least(n) for n in (1, 2, 3) for prefix in ("_np_", "_npi_")},
    **dict.fromkeys(("_np_diagflat", "_npi_diagflat"), matrix_of_diagonal),
    **dict.fromkeys(("_np_diagonal", "_npi_diagonal"), diagonal_of_matrix),
    **dict.fromkeys(("_np_moveaxis", "_npi_moveaxis"), move_axes),
    **dict.fromkeys(("_np_roll", "_npi_roll"), roll),
    **dict.fromkeys(("_np_trace", "_npi_trace"), trace),
    "_contrib_index_array": own_coordinates,
    "_npi_blackman": _window(np.blackman),
    "_npi_column_stack": columns,
    "_npi_diag_indices_from": places_of_diagonal,
    "_npi_dsplit": split_v2,
    "_npi_dstack": _stacked(2, 3),
    "_npi_fill_diagonal": filled_diagonal,
    "_npi_hamming": _window(np.hamming),
    "_npi_hanning": _window(np.hanning),
    "_npi_hsplit": split_columns,
    "_npi_hstack": _stacked(1, 1),
    "_npi_identity": unit_matrix,
    "_npi_indices": grid,
    "_npi_logspace": log_space,
    "_npi_pad": pad,
    "_npi_repeats": repeated,
    "_npi_rollaxis": roll_axis,
    "_npi_rot90": turn,
    "_npi_tri": ones_below,
    "_npi_tril": _triangle(upper=False),
    "_npi_tril_indices": places_below,
    "_npi_triu": _triangle(upper=True),
    "_npi_vstack": _stacked(0, 2),
}
