"""Operators of StableHLO that stand in TensorFlow Lite's files, and those that came of them: windows, gaps, shifts.

What a graph inside an operator does is known by its one operator (`reducer`, which `schema` notes), as in TensorFlow
Lite's own kernels. The specification is https://openxla.org/stablehlo/spec.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sterna.errors import error
from sterna.frontends.contractions import contracted
from sterna.frontends.standard import standard, standard_results
from sterna.frontends.tflite.operators.stablehlo_windows import (
    cut,
    edged,
    reduce,
    reduce_window,
    reduce_window_of_lite,
    reducer_of,
    spread,
)
from sterna.frontends.tflite.translation import Translation, Translator
from sterna.ir import dtypes
from sterna.ir.graph import Value
from sterna.ir.integer import IntLike, as_int
from sterna.ir.limits import check_table
from sterna.ops.types import broadcast

_COMPARED = {0: ("equal", False), 1: ("equal", True), 2: ("greater_equal", False), 3: ("greater", False),
             4: ("less_equal", False), 5: ("less", False)}  # fmt: skip


def _plain(t: Translation) -> None:
    """Refuses integers that stand for real numbers: their scales may differ."""
    for n in range(len(t.inputs)):
        if t.has(n) and t.is_quantized(n):
            raise t.unsupported("of quantized tensors")


def _core(operator: str) -> Translator:
    def translate(t: Translation) -> Value:
        _plain(t)
        return t.op(operator, *(t.input(n) for n in range(len(t.inputs))))

    return translate


def _either(of_bools: str, of_numbers: str) -> Translator:
    """Of truths, or of numbers (`AND` and `OR`: of their bits)."""

    def translate(t: Translation) -> Value:
        _plain(t)
        return t.op(of_bools if t.input(0).dtype == "bool" else of_numbers, t.input(0), t.input(1))

    return translate


def _cubic_root(t: Translation) -> Value:
    x = t.input(0)
    root = t.op("pow", t.op("abs", x), t.scalar(1 / 3, x.dtype))
    return t.op("mul", t.op("sign", x), root)


def _clamp(t: Translation) -> Value:
    low, x, high = (t.input(n) for n in range(3))
    return t.op("minimum", t.op("maximum", x, low), high)


def _compare(t: Translation) -> Value:
    _plain(t)
    operator, negated = _COMPARED.get(int(t.option("comparison_direction", 0)), ("", False))
    if not operator:
        raise t.unsupported(f"by {t.option('comparison_direction')}")
    a, b = t.input(0), t.input(1)
    if a.dtype == "bool" and operator != "equal":
        a, b = t.cast(a, "int32"), t.cast(b, "int32")  # what is false comes first
    found = t.op(operator, a, b)
    return t.op("logical_not", found) if negated else found


def _convert(t: Translation) -> Value:
    return t.cast(t.input(0), t.result().kind)


def _divide(t: Translation) -> Value:
    _plain(t)
    return standard(t, "Div", t.input(0), t.input(1))


def _remainder(t: Translation) -> Value:
    """With the sign of the dividend."""
    _plain(t)
    a, b = t.input(0), t.input(1)
    return t.op("fmod" if dtypes.is_float(a.dtype) else "mod", a, b, truncated=True)


def _root(t: Translation) -> Value:
    return t.op("reciprocal", t.op("sqrt", t.input(0)))


# ---------------------------------------------------------------- movement
def _broadcast(t: Translation) -> Value:
    """Dimensions put at given places of a larger shape."""
    x, shape = t.input(0), t.result().shape
    places = t.option("broadcast_dimensions", ())
    if len(places) != x.type.rank or any(not 0 <= n < len(shape) for n in places):
        raise error("E0108", f"{t.kind} of {x.type} at {list(places)} of {list(shape)}")
    wide: list[IntLike] = [1] * len(shape)
    for size, place in zip(x.shape, places, strict=True):
        wide[place] = size
    order = np.argsort(places)
    return t.op("expand", t.reshape(t.transpose(x, [int(n) for n in order]), wide), shape=tuple(map(as_int, shape)))


def _concatenate(t: Translation) -> Value:
    return t.op("concat", *(t.input(n) for n in range(len(t.inputs))), axis=int(t.option("dimension", 0)))


def _is_within(sizes: Sequence[IntLike], x: Value) -> bool:
    """Whether a part of such sizes is one of the tensor; what is only known at run time may be."""
    return len(sizes) == x.type.rank and all(
        (not as_int(size).is_const or int(size) >= 0) and (not as_int(whole - size).is_const or int(whole - size) >= 0)
        for size, whole in zip(sizes, x.shape, strict=True)
    )


def _slice(t: Translation) -> Value:
    x = t.input(0)
    first, end, steps = (t.option(name, ()) for name in ("start_indices", "limit_indices", "strides"))
    if (
        not len(first) == len(end) == len(steps) == x.type.rank
        or min(*steps, 1) < 1
        or any(not 0 <= a <= b for a, b in zip(first, end, strict=True))
        or not _is_within(end, x)
    ):
        raise error("E0108", f"{t.kind} of {x.type} from {list(first)} to {list(end)}")
    sizes = tuple(-(-(b - a) // s) for a, b, s in zip(first, end, steps, strict=True))
    return t.op("slice", x, starts=tuple(first), sizes=sizes, steps=tuple(steps))


def _starts(t: Translation, first: int, x: Value, sizes: Sequence[IntLike]) -> Value:
    """Where a part begins, so that it lies inside: (1, rank) positions, one operand for each dimension."""
    rows = []
    for n, size in enumerate(sizes):
        at = t.cast(t.reshape(t.input(first + n), (1,)), "int64")
        last = t.dimensions([x.shape[n] - size])
        rows.append(t.op("minimum", t.op("maximum", at, t.scalar(0, "int64")), last))
    return t.reshape(t.op("concat", *rows, axis=0), (1, len(rows))) if len(rows) > 1 else t.reshape(rows[0], (1, 1))


def _moving(t: Translation, x: Value, start: Value, sizes: Sequence[IntLike]) -> Value:
    """The part of such sizes that begins at a computed place."""
    for n, size in enumerate(sizes):
        if size == x.shape[n]:
            continue
        at = t.op("slice", start, starts=(0, n), sizes=(1, 1), steps=(1, 1))
        places = t.op("add", t.counting(size), t.reshape(at, (1,)))
        x = t.op("gather", x, places, axis=n)
    return x


def _dynamic_slice(t: Translation) -> Value:
    x, sizes = t.input(0), t.option("slice_sizes", ())
    if not _is_within(sizes, x):
        raise error("E0108", f"{t.kind} of {x.type} to {list(sizes)}")
    if not x.type.rank:
        return t.op("identity", x)
    return _moving(t, x, _starts(t, 1, x, sizes), sizes)


def _dynamic_update(t: Translation) -> Value:
    """A part that begins at a computed place anew."""
    x, update = t.input(0), t.input(1)
    if not _is_within(update.shape, x):
        raise error("E0108", f"{t.kind} of {x.type} by {update.type}")
    if not x.type.rank:
        return t.op("identity", update)
    start = _starts(t, 2, x, update.shape)
    rank = x.type.rank
    columns = []
    for n, size in enumerate(update.shape):
        at = t.op("slice", start, starts=(0, n), sizes=(1, 1), steps=(1, 1))
        row = t.op("add", t.counting(size), t.reshape(at, (1,)))
        row = t.reshape(row, [size if m == n else 1 for m in range(rank)])
        columns.append(t.reshape(t.op("expand", row, shape=update.shape), (*update.shape, 1)))
    places = t.op("concat", *columns, axis=rank) if rank > 1 else columns[0]
    return standard(t, "ScatterND", x, places, update)


def _pad(t: Translation) -> Value:
    x = t.input(0)
    low, high, gaps = (t.option(name, ()) for name in ("edge_padding_low", "edge_padding_high", "interior_padding"))
    if not len(low) == len(high) == len(gaps) == x.type.rank:
        raise error("E0108", f"{t.kind} of {x.type} by {list(low)}, {list(high)}, {list(gaps)}")
    value = t.reshape(t.input(1), ())
    return edged(t, spread(t, x, gaps, value), low, high, value)


def _dilate(t: Translation) -> Value:
    """Elements so far apart, a value between them."""
    x, factors = t.input(0), t.integers(1, "distances")
    if len(factors) != x.type.rank or min(factors, default=1) < 1:
        raise error("E0108", f"{t.kind} of {x.type} by {factors}")
    return spread(t, x, [n - 1 for n in factors], t.reshape(t.input(2), ()))


def _iota(t: Translation) -> Value:
    shape, axis = t.result().shape, int(t.option("iota_dimension", 0))
    if not 0 <= axis < len(shape):
        raise error("E0109", f"{t.kind} along dimension {axis} of {list(shape)}")
    check_table(*shape)
    row = np.arange(shape[axis]).reshape([-1 if n == axis else 1 for n in range(len(shape))])
    return t.constant(np.broadcast_to(row, shape), t.result().kind)


# ---------------------------------------------------------------- products and reductions
def _dot_general(t: Translation) -> Value:
    a, b = t.input(0), t.input(1)
    _plain(t)
    batch_a, batch_b, inner_a, inner_b = (
        tuple(t.option(f"{side}_{what}_dimensions", ()))
        for what in ("batching", "contracting") for side in ("lhs", "rhs")
    )  # fmt: skip
    if not batch_a:
        return contracted(t, a, b, inner_a, inner_b)
    left = [n for n in range(a.type.rank) if n not in batch_a + inner_a]
    right = [n for n in range(b.type.rank) if n not in batch_b + inner_b]

    def size(x: Value, axes: Sequence[int]) -> IntLike:
        total: IntLike = 1
        for n in axes:
            total = x.shape[n] * total
        return total

    lead = [a.shape[n] for n in batch_a]
    one = t.reshape(t.transpose(a, (*batch_a, *left, *inner_a)), (*lead, size(a, left), size(a, inner_a)))
    other = t.reshape(t.transpose(b, (*batch_b, *inner_b, *right)), (*lead, size(b, inner_b), size(b, right)))
    made = t.op("matmul", one, other)
    return t.reshape(made, [*lead, *(a.shape[n] for n in left), *(b.shape[n] for n in right)])


# ---------------------------------------------------------------- gather and scatter
def _index_rows(t: Translation, indices: Value) -> Value:
    """Indices with their vectors in the last dimension."""
    place = int(t.option("index_vector_dim", 0))
    rank = indices.type.rank
    if place == rank:
        return t.reshape(indices, (*indices.shape, 1))
    if not 0 <= place < rank:
        raise error("E0109", f"{t.kind} with vectors in dimension {place} of {indices.type}")
    return t.transpose(indices, (*(n for n in range(rank) if n != place), place))


def _are_places(dimensions: Sequence[int], rank: int) -> bool:
    """Whether these are different dimensions of so many."""
    return len({*dimensions}) == len(dimensions) and all(0 <= n < rank for n in dimensions)


def _gather(t: Translation) -> Value:
    """Parts of such sizes that begin where vectors of indices say, kept inside."""
    x, rows = t.input(0), t.cast(_index_rows(t, t.input(1)), "int64")
    sizes, starts = tuple(t.option("slice_sizes", ())), tuple(t.option("start_index_map", ()))
    collapsed, offsets = tuple(t.option("collapsed_slice_dims", ())), tuple(t.option("offset_dims", ()))
    rank, lead = x.type.rank, rows.shape[:-1]
    kept = [n for n in range(rank) if n not in collapsed]
    wrong = (
        t.extent(rows, -1) != len(starts)
        or len(offsets) != len(kept)
        or not _are_places(starts, rank)
        or not _are_places(collapsed, rank)
        or not _are_places(offsets, len(lead) + len(kept))
    )
    if wrong or not _is_within(sizes, x) or any(sizes[n] > 1 for n in collapsed):
        raise error("E0108", f"{t.kind} of {x.type} by {t.input(1).type} to {list(sizes)}")
    window = [as_int(sizes[n]) for n in kept]
    columns = []
    for n in range(rank):
        own = [sizes[n] if m == n else 1 for m in kept]
        within = t.reshape(t.counting(sizes[n]) if n in kept else t.scalar(0, "int64"), [*[1] * len(lead), *own])
        if n in starts:
            k = starts.index(n)
            at = cut(t, rows, rows.type.rank - 1, k, 1)
            last = t.dimensions([x.shape[n] - sizes[n]])
            at = t.op("minimum", t.op("maximum", at, t.scalar(0, "int64")), last)
            within = t.op("add", within, t.reshape(at, [*lead, *[1] * len(kept)]))
        columns.append(t.reshape(t.op("expand", within, shape=(*lead, *window)), [*lead, *window, 1]))
    places = t.op("concat", *columns, axis=len(lead) + len(kept)) if rank > 1 else columns[0]
    made = t.op("gather_nd", x, places, batch_dims=0)
    # Batches first, then what each vector found: its dimensions go where `offset_dims` says.
    order: list[int] = []
    batch, inner = iter(range(len(lead))), iter(range(len(lead), len(lead) + len(kept)))
    for n in range(len(lead) + len(kept)):
        order.append(next(inner) if n in offsets else next(batch))
    return t.transpose(made, order)


_SCATTERED = {"add": "add", "mul": "mul", "maximum": "max", "minimum": "min"}


def _scatter(t: Translation) -> Value:
    """Updates joined with parts that begin where vectors of indices say; what would lie outside is left out."""
    x, rows, updates = t.input(0), t.cast(_index_rows(t, t.input(1)), "int64"), t.input(2)
    windows, inserted = tuple(t.option("update_window_dims", ())), tuple(t.option("inserted_window_dims", ()))
    places = tuple(t.option("scatter_dims_to_operand_dims", ()))
    name = str(t.option("reducer", "")).removeprefix("STABLEHLO_")
    reduction = "none" if name == "=" else _SCATTERED.get(reducer_of(t)[1])
    rank, lead = x.type.rank, rows.shape[:-1]
    if not _are_places(windows, updates.type.rank) or not (_are_places(inserted, rank) and _are_places(places, rank)):
        raise error("E0108", f"{t.kind} of {x.type} by {updates.type} at {t.input(1).type}")
    kept = [n for n in range(rank) if n not in inserted]
    batch = [n for n in range(updates.type.rank) if n not in windows]
    if reduction is None or len(kept) != len(windows) or t.extent(rows, -1) != len(places) or len(batch) != len(lead):
        raise t.unsupported(f"of {x.type} by {updates.type} at {t.input(1).type}")
    values = t.transpose(updates, (*batch, *windows))
    window = values.shape[len(lead) :]
    columns, inside = [], []
    for n in range(rank):
        own = [window[kept.index(n)] if m == n else 1 for m in kept]
        count = t.counting(window[kept.index(n)]) if n in kept else t.scalar(0, "int64")
        within = t.reshape(count, [*[1] * len(lead), *own])
        if n in places:
            at = cut(t, rows, rows.type.rank - 1, places.index(n), 1)
            within = t.op("add", within, t.reshape(at, [*lead, *[1] * len(kept)]))
        at = t.reshape(t.op("expand", within, shape=(*lead, *window)), [*lead, *window, 1])
        columns.append(at)
        if n in places or window[kept.index(n)] != x.shape[n]:
            inside.append(t.op("greater_equal", at, t.scalar(0, "int64")))
            inside.append(t.op("less", at, t.dimensions([x.shape[n]])))
    if not rank:
        raise t.unsupported(f"of {x.type}")
    where = t.op("concat", *columns, axis=len(lead) + len(kept)) if rank > 1 else columns[0]
    if not inside:
        return standard(t, "ScatterND", x, where, values, reduction=reduction)
    fits = inside[0]
    for more in inside[1:]:
        fits = t.op("logical_and", fits, more)
    # One more row, which is cut off, takes what lies outside.
    beyond = t.dimensions([x.shape[0]])
    if rank > 1:
        beyond = t.op("concat", beyond, t.constant(np.zeros(rank - 1), "int64"), axis=0)
    wide = t.pad(x, (0,) * rank, (1, *(0,) * (rank - 1)))
    wide = standard(t, "ScatterND", wide, t.op("where", fits, where, beyond), values, reduction=reduction)
    return cut(t, wide, 0, 0, x.shape[0])


def _sort(t: Translation) -> Value:
    """By a comparison with the least, or the greatest, first."""
    name = str(t.option("reducer", ""))
    if len(t.inputs) != 1 or name not in ("LESS", "GREATER", "<", ">"):
        raise t.unsupported("of several tensors, or by a graph that is not one comparison")
    x, axis = t.input(0), int(t.option("dimension", 0))
    count = t.constant([t.extent(x, axis)], "int64")
    return standard_results(
        t, "TopK", x, count, results=2, axis=axis, largest=int(name in ("GREATER", ">")), sorted=1
    )[0]  # fmt: skip


def _shift_left(t: Translation) -> Value:
    a, b = t.input(0), t.input(1)
    shape = broadcast([a.shape, b.shape])
    return t.op("bit_shift", t.op("expand", a, shape=shape), t.op("expand", b, shape=shape), direction="LEFT")


def _reshape(t: Translation) -> Value:
    return t.reshape(t.input(0), t.result().shape)


def _transpose(t: Translation) -> Value:
    x, order = t.input(0), tuple(t.option("permutation", ()))
    if len(order) != x.type.rank or not _are_places(order, x.type.rank):
        raise error("E0108", f"{t.kind} of {x.type} in the order {list(order)}")
    return t.transpose(x, order)


_NAMED: dict[str, Translator] = {
    **{name.upper(): _core(operator) for name, operator in {
        "abs": "abs", "cosine": "cos", "exponential": "exp", "floor": "floor", "log": "log",
        "logistic": "sigmoid", "negate": "neg",
        "power": "pow", "select": "where", "subtract": "sub", "tanh": "tanh",
    }.items()},
    **{name.upper(): _either(of_bools, of_numbers) for name, of_bools, of_numbers in (
        ("add", "logical_or", "add"), ("and", "logical_and", "bitwise_and"), ("maximum", "logical_or", "maximum"),
        ("minimum", "logical_and", "minimum"), ("multiply", "logical_and", "mul"), ("or", "logical_or", "bitwise_or"),
    )},
    "BROADCAST_IN_DIM": _broadcast, "CBRT": _cubic_root, "CLAMP": _clamp, "COMPARE": _compare,
    "CONCATENATE": _concatenate, "CONVERT": _convert, "DIVIDE": _divide, "DOT_GENERAL": _dot_general,
    "DYNAMIC_SLICE": _dynamic_slice, "DYNAMIC_UPDATE_SLICE": _dynamic_update, "GATHER": _gather, "IOTA": _iota,
    "PAD": _pad, "REDUCE": reduce, "REDUCE_WINDOW": reduce_window, "REMAINDER": _remainder, "RESHAPE": _reshape,
    "RSQRT": _root, "SCATTER": _scatter, "SHIFT_LEFT": _shift_left, "SLICE": _slice, "SORT": _sort,
    "TRANSPOSE": _transpose,
}  # fmt: skip
TRANSLATORS: dict[str, Translator] = {
    **{f"STABLEHLO_{name}": function for name, function in _NAMED.items()},
    "DILATE": _dilate,
    "REDUCE_WINDOW": reduce_window_of_lite,
}
