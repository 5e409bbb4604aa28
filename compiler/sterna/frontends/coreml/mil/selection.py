"""Operations that pick elements: reductions, gather and scatter, sorting, suppression."""

from __future__ import annotations

import numpy as np

from sterna.errors import error
from sterna.frontends.coreml.mil.translation import Translation, Translator
from sterna.frontends.standard import standard, standard_results
from sterna.ir import dtypes
from sterna.ir.graph import Value

_REDUCTIONS = {
    "reduce_l1_norm": "ReduceL1", "reduce_l2_norm": "ReduceL2", "reduce_log_sum": "ReduceLogSum",
    "reduce_log_sum_exp": "ReduceLogSumExp", "reduce_max": "ReduceMax", "reduce_mean": "ReduceMean",
    "reduce_min": "ReduceMin", "reduce_prod": "ReduceProd", "reduce_sum": "ReduceSum",
    "reduce_sum_square": "ReduceSumSquare",
}  # fmt: skip
_MODES = {"add": "add", "mul": "mul", "max": "max", "min": "min"}


def _reduction(operator: str) -> Translator:
    def translate(t: Translation) -> Value:
        x = t.arg("x")
        axes = t.ints("axes", list(range(x.type.rank)))
        return standard(t, operator, x, t.i64(axes), keepdims=int(t.flag("keep_dims")))

    return translate


def _extreme(operator: str) -> Translator:
    def translate(t: Translation) -> Value:
        made = standard(t, operator, t.arg("x"), axis=t.integer("axis", -1), keepdims=int(t.flag("keep_dims")))
        return t.cast(made, "int32")

    return translate


def _indices(t: Translation, name: str = "indices") -> Value:
    return t.cast(t.arg(name), "int64")


def _gather(t: Translation) -> Value:
    """`batch_dims` leading dimensions belong together."""
    x, indices = t.arg("x"), _indices(t)
    axis, batch = t.integer("axis", 0) % x.type.rank, t.integer("batch_dims", 0)
    batch %= max(indices.type.rank + 1, 1)
    if not batch:
        return standard(t, "Gather", x, indices, axis=axis)
    # Elements of every batch are numbered through: the batches become part of the gathered dimension.
    lead = t.static(x)[:batch]
    order = [*range(batch), axis, *(n for n in range(batch, x.type.rank) if n != axis)]
    moved = t.transpose(x, order)
    size, count = t.extent(x, axis), int(np.prod(lead))
    flat = t.reshape(moved, (count * size, *moved.shape[batch + 1 :]))
    inner = indices.shape[batch:]
    wrapped = t.op("where", t.op("less", indices, t.scalar(0, "int64")), t.scalar(size, "int64"), t.scalar(0, "int64"))
    offsets = (np.arange(count) * size).reshape([*lead, *([1] * len(inner))])
    places = t.op("add", t.op("add", indices, wrapped), t.constant(offsets, "int64"))
    found = standard(t, "Gather", flat, places, axis=0)
    before = axis - batch
    picked = list(range(batch, batch + len(inner)))
    rest = list(range(batch + len(inner), found.type.rank))
    return t.transpose(found, [*range(batch), *rest[:before], *picked, *rest[before:]])


def _gather_nd(t: Translation) -> Value:
    return standard(t, "GatherND", t.arg("x"), _indices(t), batch_dims=t.integer("batch_dims", 0))


def _along(t: Translation) -> Value:
    return standard(t, "GatherElements", t.arg("x"), _indices(t), axis=t.integer("axis", 0))


def _mode(t: Translation, default: str) -> tuple[str | None, Value, Value]:
    """ONNX's reduction, what is scattered into, and the updates."""
    data, updates, mode = t.arg("data"), t.arg("updates"), t.text("mode", default)
    updates = t.cast(updates, data.dtype)
    if mode == "sub":
        return "add", data, standard(t, "Neg", updates)
    if mode == "div":
        if not dtypes.is_float(data.dtype):
            raise t.unsupported("that divides integers")
        return "mul", data, standard(t, "Reciprocal", updates)
    if mode != "update" and mode not in _MODES:
        raise error("E0109", f"there is no way to scatter called {mode}")
    return None if mode == "update" else mode, data, updates


def _scatter(t: Translation) -> Value:
    """Slices along an axis."""
    reduction, data, updates = _mode(t, "add")
    axis, indices = t.integer("axis", 0) % data.type.rank, _indices(t)
    count = indices.type.rank
    rank = data.type.rank
    order = [axis, *(n for n in range(rank) if n != axis)]
    back = [order.index(n) for n in range(rank)]
    moved = t.transpose(data, order)
    inner = updates.type.rank
    taken = [*range(axis, axis + count), *(n for n in range(inner) if not axis <= n < axis + count)]
    places = standard(t, "Unsqueeze", indices, t.i64([count]))
    made = standard(t, "ScatterND", moved, places, t.transpose(updates, taken), reduction=reduction)
    return t.transpose(made, back)


def _scatter_along(t: Translation) -> Value:
    reduction, data, updates = _mode(t, "add")
    return standard(t, "ScatterElements", data, _indices(t), updates, axis=t.integer("axis", 0), reduction=reduction)


def _scatter_nd(t: Translation) -> Value:
    reduction, data, updates = _mode(t, "add")
    return standard(t, "ScatterND", data, _indices(t), updates, reduction=reduction)


def _topk(t: Translation) -> tuple[Value, Value]:
    x, k = t.arg("x"), t.integer("k", 1)
    axis = t.integer("axis", -1)
    k = t.extent(x, axis) if k == -1 else k
    largest = int(not t.flag("ascending"))
    values, places = standard_results(
        t, "TopK", x, t.i64([k]), results=2, axis=axis, largest=largest, sorted=int(t.flag("sort", True))
    )
    dtype = "uint16" if t.text("output_indices_dtype", "int32") == "uint16" else "int32"
    return values, t.cast(places, dtype)


def _argsort(t: Translation) -> Value:
    x, axis = t.arg("x"), t.integer("axis", -1)
    largest = int(not t.flag("ascending"))
    _, places = standard_results(t, "TopK", x, t.i64([t.extent(x, axis)]), results=2, axis=axis, largest=largest)
    return t.cast(places, "int32")


def _cumsum(t: Translation) -> Value:
    x = t.arg("x")
    return standard(
        t, "CumSum", x, t.constant(t.integer("axis", 0), "int64"), exclusive=int(t.flag("exclusive")),
        reverse=int(t.flag("reverse")),
    )  # fmt: skip


def _one_hot(t: Translation) -> Value:
    on = t.maybe("on_value") or t.scalar(1, "int32")
    off = t.maybe("off_value") or t.scalar(0, on.dtype)
    values = standard(t, "Concat", *(t.reshape(t.cast(value, on.dtype), (1,)) for value in (off, on)), axis=0)
    depth = t.i64([t.integer("one_hot_vector_size")])
    # Indices outside the vector give none, also negative ones.
    indices = _indices(t)
    indices = t.op("where", t.op("less", indices, t.scalar(0, "int64")), t.scalar(1 << 40, "int64"), indices)
    return standard(t, "OneHot", indices, depth, values, axis=t.integer("axis", -1))


def _non_zero(t: Translation) -> Value:
    return t.cast(t.transpose(standard(t, "NonZero", t.arg("x")), (1, 0)), "int32")


TRANSLATORS: dict[str, Translator] = {
    **{name: _reduction(operator) for name, operator in _REDUCTIONS.items()},
    "argsort": _argsort,
    "cumsum": _cumsum,
    "gather": _gather,
    "gather_along_axis": _along,
    "gather_nd": _gather_nd,
    "non_zero": _non_zero,
    "one_hot": _one_hot,
    "reduce_argmax": _extreme("ArgMax"),
    "reduce_argmin": _extreme("ArgMin"),
    "scatter": _scatter,
    "scatter_along_axis": _scatter_along,
    "scatter_nd": _scatter_nd,
    "topk": _topk,
}
