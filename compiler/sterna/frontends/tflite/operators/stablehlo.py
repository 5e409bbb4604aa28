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


def _either(of_bools: str, of_bits: str) -> Translator:
    """Of truths, or of the bits of integers."""
    return lambda t: t.op(of_bools if t.input(0).dtype == "bool" else of_bits, t.input(0), t.input(1))


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
    found = t.op(operator, t.input(0), t.input(1))
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


def _slice(t: Translation) -> Value:
    x = t.input(0)
    first, end, steps = (t.option(name, ()) for name in ("start_indices", "limit_indices", "strides"))
    if not len(first) == len(end) == len(steps) == x.type.rank or min(steps, default=1) < 1:
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
    if len(sizes) != x.type.rank:
        raise error("E0108", f"{t.kind} of {x.type} to {list(sizes)}")
    return _moving(t, x, _starts(t, 1, x, sizes), sizes)


def _dynamic_update(t: Translation) -> Value:
    """A part that begins at a computed place anew."""
    x, update = t.input(0), t.input(1)
    if update.type.rank != x.type.rank:
        raise error("E0108", f"{t.kind} of {x.type} by {update.type}")
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


def _spread(t: Translation, x: Value, gaps: Sequence[int], value: Value) -> Value:
    """So many elements of a value between neighbours."""
    for n, gap in enumerate(gaps):
        if gap < 0:
            raise error("E0109", f"{t.kind} with gaps of {gap}")
        size = x.shape[n]
        if not gap or size == 0:
            continue
        wide = t.reshape(x, [*x.shape[: n + 1], 1, *x.shape[n + 1 :]])
        fill = t.op("expand", value, shape=(*x.shape[: n + 1], gap, *x.shape[n + 1 :]))
        both = t.op("concat", wide, fill, axis=n + 1)
        both = t.reshape(both, [size * (gap + 1) if m == n else s for m, s in enumerate(x.shape)])
        x = _cut(t, both, n, 0, size * (gap + 1) - gap)
    return x


def _cut(t: Translation, x: Value, axis: int, first: IntLike, size: IntLike) -> Value:
    starts = tuple(first if n == axis else 0 for n in range(x.type.rank))
    sizes = tuple(size if n == axis else s for n, s in enumerate(x.shape))
    return t.op("slice", x, starts=starts, sizes=sizes, steps=(1,) * x.type.rank)


def _edged(t: Translation, x: Value, low: Sequence[int], high: Sequence[int], value: Value) -> Value:
    """A value around a tensor; where amounts are negative, less of it."""
    for n, (a, b) in enumerate(zip(low, high, strict=True)):
        x = _cut(t, x, n, max(-a, 0), x.shape[n] - max(-a, 0) - max(-b, 0)) if min(a, b) < 0 else x
        for amount, is_first in ((a, True), (b, False)):
            if amount > 0:
                fill = t.op(
                    "expand", value, shape=tuple(as_int(amount) if m == n else s for m, s in enumerate(x.shape))
                )
                x = t.op("concat", *((fill, x) if is_first else (x, fill)), axis=n)
    return x


def _pad(t: Translation) -> Value:
    x = t.input(0)
    low, high, gaps = (t.option(name, ()) for name in ("edge_padding_low", "edge_padding_high", "interior_padding"))
    if not len(low) == len(high) == len(gaps) == x.type.rank:
        raise error("E0108", f"{t.kind} of {x.type} by {list(low)}, {list(high)}, {list(gaps)}")
    value = t.reshape(t.input(1), ())
    return _edged(t, _spread(t, x, gaps, value), low, high, value)


def _dilate(t: Translation) -> Value:
    """Elements so far apart, a value between them."""
    x, factors = t.input(0), t.integers(1, "distances")
    if len(factors) != x.type.rank or min(factors, default=1) < 1:
        raise error("E0108", f"{t.kind} of {x.type} by {factors}")
    return _spread(t, x, [n - 1 for n in factors], t.reshape(t.input(2), ()))


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


#: The one operator of an inner graph -> the reduction, its elements' join, and what joins without a change.
_REDUCERS: dict[str, tuple[str, str]] = {
    "ADD": ("reduce_sum", "add"), "MUL": ("reduce_prod", "mul"), "MULTIPLY": ("reduce_prod", "mul"),
    "MAXIMUM": ("reduce_max", "maximum"), "MINIMUM": ("reduce_min", "minimum"),
    "LOGICAL_AND": ("reduce_all", "logical_and"), "AND": ("reduce_all", "logical_and"),
    "LOGICAL_OR": ("reduce_any", "logical_or"), "OR": ("reduce_any", "logical_or"),
}  # fmt: skip


def _reducer(t: Translation) -> tuple[str, str]:
    name = str(t.option("reducer", "")).removeprefix("STABLEHLO_")
    if name not in _REDUCERS:
        raise t.unsupported(f"by a graph that is not one sum, product, maximum or minimum ({name or 'several'})")
    return _REDUCERS[name]


def _reduce(t: Translation) -> Value:
    if len(t.inputs) != 2:
        raise t.unsupported(f"of {len(t.inputs) // 2} tensors")
    x, start = t.input(0), t.reshape(t.input(1), ())
    operator, join = _reducer(t)
    return t.op(join, t.op(operator, x, axes=tuple(t.option("dimensions", ())), keep_dims=False), start)


def _windows(
    t: Translation,
    x: Value,
    start: Value,
    sizes: Sequence[int],
    strides: Sequence[int],
    steps: Sequence[int],
    join: str,
) -> Value:
    """The join of all elements of each window, one dimension after the other."""
    for n, (size, stride, step) in enumerate(zip(sizes, strides, steps, strict=True)):
        if min(size, stride, step) < 1:
            raise error("E0109", f"{t.kind} of windows of {size} elements, {step} apart, by {stride}")
        extent = t.extent(x, n)
        count = max((extent - (size - 1) * step - 1) // stride + 1, 0)
        if size == 1 and stride == 1:
            continue
        check_table(size)
        taps = [
            t.op(
                "slice", x, starts=tuple(k * step if m == n else 0 for m in range(x.type.rank)),
                sizes=tuple(as_int(count) if m == n else s for m, s in enumerate(x.shape)),
                steps=tuple(stride if m == n else 1 for m in range(x.type.rank)),
            )
            for k in range(size)
        ]  # fmt: skip
        x = taps[0]
        for tap in taps[1:]:
            x = t.op(join, x, tap)
    return t.op(join, x, start)


def _reduce_window(t: Translation) -> Value:
    x = t.input(0)
    if len(t.inputs) != 2:
        raise t.unsupported(f"of {len(t.inputs) // 2} tensors")
    rank, start = x.type.rank, t.reshape(t.input(1), ())
    _, join = _reducer(t)

    def option(name: str, default: int) -> tuple[int, ...]:
        values = tuple(t.option(name, ())) or (default,) * rank
        if len(values) != rank:
            raise error("E0108", f"{t.kind} of {x.type} with {name} {list(values)}")
        return values

    pads = tuple(t.option("padding", ())) or (0,) * (2 * rank)
    if len(pads) != 2 * rank:
        raise error("E0108", f"{t.kind} of {x.type} with padding {list(pads)}")
    x = _edged(t, _spread(t, x, [n - 1 for n in option("base_dilations", 1)], start), pads[::2], pads[1::2], start)
    return _windows(
        t, x, start, option("window_dimensions", 1), option("window_strides", 1), option("window_dilations", 1), join
    )


def _reduce_window_of_lite(t: Translation) -> Value:
    """REDUCE_WINDOW: sizes, strides and distances are operands, and the reduction is a setting."""
    names = {1: "add", 2: "mul", 3: "minimum", 4: "maximum", 5: "logical_and", 6: "logical_or"}
    join = names.get(int(t.option("reduce_function", 0)))
    if join is None:
        raise t.unsupported(f"by the function {t.option('reduce_function')}")
    sizes, strides, steps = (t.integers(n, "windows") for n in (2, 3, 4))
    if not len(sizes) == len(strides) == len(steps) == t.input(0).type.rank:
        raise error("E0108", f"{t.kind} of {t.input(0).type} by windows {sizes}")
    return _windows(t, t.input(0), t.reshape(t.input(1), ()), sizes, strides, steps, join)


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


def _gather(t: Translation) -> Value:
    """Parts of such sizes that begin where vectors of indices say, kept inside."""
    x, rows = t.input(0), t.cast(_index_rows(t, t.input(1)), "int64")
    sizes, starts = tuple(t.option("slice_sizes", ())), tuple(t.option("start_index_map", ()))
    collapsed, offsets = tuple(t.option("collapsed_slice_dims", ())), tuple(t.option("offset_dims", ()))
    rank, lead = x.type.rank, rows.shape[:-1]
    kept = [n for n in range(rank) if n not in collapsed]
    if len(sizes) != rank or t.extent(rows, -1) != len(starts) or len(offsets) != len(kept):
        raise error("E0108", f"{t.kind} of {x.type} by {t.input(1).type} to {list(sizes)}")
    window = [as_int(sizes[n]) for n in kept]
    columns = []
    for n in range(rank):
        own = [sizes[n] if m == n else 1 for m in kept]
        within = t.reshape(t.counting(sizes[n]) if n in kept else t.scalar(0, "int64"), [*[1] * len(lead), *own])
        if n in starts:
            k = starts.index(n)
            at = _cut(t, rows, rows.type.rank - 1, k, 1)
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
    """Updates joined with parts that begin where vectors of indices say."""
    x, rows, updates = t.input(0), t.cast(_index_rows(t, t.input(1)), "int64"), t.input(2)
    windows, inserted = tuple(t.option("update_window_dims", ())), tuple(t.option("inserted_window_dims", ()))
    places = tuple(t.option("scatter_dims_to_operand_dims", ()))
    name = str(t.option("reducer", "")).removeprefix("STABLEHLO_")
    reduction = "none" if name == "=" else _SCATTERED.get(_reducer(t)[1])
    rank, lead = x.type.rank, rows.shape[:-1]
    kept = [n for n in range(rank) if n not in inserted]
    batch = [n for n in range(updates.type.rank) if n not in windows]
    if reduction is None or len(kept) != len(windows) or t.extent(rows, -1) != len(places) or len(batch) != len(lead):
        raise t.unsupported(f"of {x.type} by {updates.type} at {t.input(1).type}")
    values = t.transpose(updates, (*batch, *windows))
    window = values.shape[len(lead) :]
    columns = []
    for n in range(rank):
        own = [window[kept.index(n)] if m == n else 1 for m in kept]
        count = t.counting(window[kept.index(n)]) if n in kept else t.scalar(0, "int64")
        within = t.reshape(count, [*[1] * len(lead), *own])
        if n in places:
            at = _cut(t, rows, rows.type.rank - 1, places.index(n), 1)
            within = t.op("add", within, t.reshape(at, [*lead, *[1] * len(kept)]))
        columns.append(t.reshape(t.op("expand", within, shape=(*lead, *window)), [*lead, *window, 1]))
    where = t.op("concat", *columns, axis=len(lead) + len(kept)) if rank > 1 else columns[0]
    return standard(t, "ScatterND", x, where, values, reduction=reduction)


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
    return t.transpose(t.input(0), t.option("permutation", ()))


_NAMED: dict[str, Translator] = {
    **{name.upper(): _core(operator) for name, operator in {
        "abs": "abs", "add": "add", "cosine": "cos", "exponential": "exp", "floor": "floor", "log": "log",
        "logistic": "sigmoid", "maximum": "maximum", "minimum": "minimum", "multiply": "mul", "negate": "neg",
        "power": "pow", "select": "where", "subtract": "sub", "tanh": "tanh",
    }.items()},
    "AND": _either("logical_and", "bitwise_and"), "BROADCAST_IN_DIM": _broadcast, "CBRT": _cubic_root,
    "CLAMP": _clamp, "COMPARE": _compare, "CONCATENATE": _concatenate, "CONVERT": _convert, "DIVIDE": _divide,
    "DOT_GENERAL": _dot_general, "DYNAMIC_SLICE": _dynamic_slice, "DYNAMIC_UPDATE_SLICE": _dynamic_update,
    "GATHER": _gather, "IOTA": _iota, "OR": _either("logical_or", "bitwise_or"), "PAD": _pad, "REDUCE": _reduce,
    "REDUCE_WINDOW": _reduce_window, "REMAINDER": _remainder, "RESHAPE": _reshape, "RSQRT": _root,
    "SCATTER": _scatter, "SHIFT_LEFT": _shift_left, "SLICE": _slice, "SORT": _sort, "TRANSPOSE": _transpose,
}  # fmt: skip
TRANSLATORS: dict[str, Translator] = {
    **{f"STABLEHLO_{name}": function for name, function in _NAMED.items()},
    "DILATE": _dilate,
    "REDUCE_WINDOW": _reduce_window_of_lite,
}
