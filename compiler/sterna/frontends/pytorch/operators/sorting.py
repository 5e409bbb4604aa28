"""Order."""

from __future__ import annotations

from sterna.frontends.pytorch.translation import Translation, Translator
from sterna.ir import dtypes
from sterna.ir.graph import Value
from sterna.ir.integer import Int, IntLike, as_int


def best(t: Translation, x: Value, k: IntLike, axis: int, largest: bool) -> tuple[Value, Value]:
    """The k largest or smallest along a dimension, in order, and where they stand."""
    wide = t.cast(x, "int32") if x.dtype == "bool" else x
    values, places = t.builder.add_all(
        "top_k", wide, k=(as_int(k),), axis=axis, largest=largest, sources=t.sources, name=f"{t.name}/top_k"
    )
    return t.cast(values, x.dtype), places


def topk(t: Translation) -> tuple[Value, Value]:
    x = t.tensor()
    if not x.type.rank:
        return x, t.scalar(0, "int64")
    return best(t, x, t.size_from(t.arg("k")), t.dim(default=-1), t.flag("largest", True))


def sort(t: Translation) -> tuple[Value, Value]:
    x = t.tensor()
    if not x.type.rank:
        return x, t.scalar(0, "int64")
    axis = t.dim(default=-1)
    return best(t, x, x.shape[axis], axis, t.flag("descending"))


def argsort(t: Translation) -> Value:
    return sort(t)[1]


def _ranked(t: Translation, k: Int) -> tuple[Value, Value]:
    """The element of that rank (from 0) along a dimension, the smallest first, and where it stands."""
    x = t.tensor()
    if not x.type.rank:
        return x, t.scalar(0, "int64")
    axis = t.dim(default=-1)
    values, places = best(t, x, k + 1, axis, False)
    found = [t.cut(part, axis, k, 1) for part in (values, places)]
    if not t.flag("keepdim"):
        found = [t.take(part, axis, 0) for part in found]
    return found[0], found[1]


def kth_value(t: Translation) -> tuple[Value, Value]:
    return _ranked(t, t.size_from(t.arg("k")) - 1)


def median(t: Translation) -> tuple[Value, Value]:
    """The lower of the two in the middle."""
    x = t.tensor()
    return _ranked(t, (x.shape[t.dim()] - 1) // 2 if x.type.rank else as_int(0))


def median_of_all(t: Translation) -> Value:
    x = t.tensor()
    return _ranked(t.having(self=t.reshape(x, (x.type.elements,))), (x.type.elements - 1) // 2)[0]


def search_sorted(t: Translation) -> Value:
    """Where elements would stand in a sorted row."""
    rows = t.tensor("sorted_sequence" if "sorted_sequence" in t.arguments else "boundaries")
    x = t.as_value(t.operand("self"))
    sorter = t.maybe("sorter")
    if sorter is not None:
        rows = t.op("gather_elements", rows, sorter, axis=rows.type.rank - 1)
    right = t.flag("right") or t.arg("side") == "right"
    rows, x = t.together(rows, x)
    operator = "less_equal" if right else "less"
    if rows.type.rank == 1:
        row = t.reshape(rows, (*(1 for _ in x.shape), rows.shape[0]))
    else:
        row = t.unsqueeze(rows, rows.type.rank - 1)
    before = t.op(operator, row, t.unsqueeze(x, x.type.rank))
    found = t.op("reduce_sum", t.cast(before, "int64"), axes=(before.type.rank - 1,), keep_dims=False)
    return t.cast(found, "int32") if t.flag("out_int32") else found


def _running_greatest(t: Translation, x: Value, axis: int, largest: bool) -> Value:
    """The greatest or least element so far along a dimension."""
    if x.dtype == "bool":
        return t.cast(_running_greatest(t, t.cast(x, "int32"), axis, largest), "bool")
    if largest:
        return t.op("cumulative_max", x, axis=axis)
    if dtypes.is_float(x.dtype):
        return t.op("neg", t.op("cumulative_max", t.op("neg", x), axis=axis))
    # ~x falls as x rises, for every integer.
    return t.op("bitwise_not", t.op("cumulative_max", t.op("bitwise_not", x), axis=axis))


def _running_extreme(t: Translation, x: Value, axis: int, largest: bool) -> tuple[Value, Value]:
    size = t.extent(x, axis)
    places = t.reshape(t.counting(size, "int32"), [size if n == axis else 1 for n in range(x.type.rank)])
    y = _running_greatest(t, x, axis, largest)
    # An element that is the extreme of what came so far stays that until a later one is.
    hit = t.op("equal", x, y)
    if dtypes.is_float(x.dtype):
        hit = t.op("logical_or", hit, t.op("is_nan", x))
    found = t.op("where", hit, t.expand(places, x.shape), t.scalar(0, "int32"))
    return y, t.cast(_running_greatest(t, found, axis, True), "int64")


def running_extreme(largest: bool) -> Translator:
    """cummax, cummin: the extreme of what came so far, and the last place where it stands."""

    def translate(t: Translation) -> tuple[Value, Value]:
        x = t.tensor()
        if not x.type.rank:
            return x, t.scalar(0, "int64")
        rank, axis = x.type.rank, t.dim()
        if axis < rank - 1 or rank == 1:
            return _running_extreme(t, x, axis, largest)
        # Rows side by side are vectors.
        found = _running_extreme(t, t.transpose(x, (axis, *range(rank - 1))), 0, largest)
        values, places = (t.transpose(part, (*range(1, rank), 0)) for part in found)
        return values, places

    return translate


def _named(function: Translator, *names: str) -> dict[str, Translator]:
    return {f"aten.{name}": function for name in names}


TRANSLATORS: dict[str, Translator] = {
    **_named(topk, "topk.default"), **_named(sort, "sort.default", "sort.stable"),
    **_named(argsort, "argsort.default", "argsort.stable"), **_named(kth_value, "kthvalue.default"),
    **_named(median, "median.dim"), **_named(median_of_all, "median.default"),
    **_named(search_sorted, "searchsorted.Tensor", "searchsorted.Scalar", "bucketize.Tensor", "bucketize.Scalar"),
    **_named(running_extreme(True), "cummax.default"), **_named(running_extreme(False), "cummin.default"),
}  # fmt: skip
