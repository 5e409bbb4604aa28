"""Counts, quantiles and what else describes a sample."""

from __future__ import annotations

import math

import numpy as np

from sterna.errors import error
from sterna.frontends.emitter import is_float
from sterna.frontends.pytorch.operators.matrices import product
from sterna.frontends.pytorch.operators.pointwise import times
from sterna.frontends.pytorch.operators.reductions import norm_of, reduced
from sterna.frontends.pytorch.operators.sorting import best
from sterna.frontends.pytorch.promotion import float_type
from sterna.frontends.pytorch.translation import Translation, Translator
from sterna.ir import dtypes
from sterna.ir.graph import Value
from sterna.ir.integer import Int, as_int


def counted(t: Translation, places: Value, size: Int, weights: Value | None, dtype: str) -> Value:
    """How often each number from 0 to size - 1 occurs, or the sum of its weights; others do not count."""
    many = places.type.elements
    places = t.cast(t.reshape(places, (many,)), "int64")
    limit = t.as_value(size)
    outside = t.op("logical_or", t.op("less", places, t.scalar(0, "int64")), t.op("greater_equal", places, limit))
    index = t.reshape(t.op("where", outside, limit, places), (many, 1))
    given = t.full((many,), 1, dtype) if weights is None else t.cast(t.reshape(weights, (many,)), dtype)
    # What does not count goes to one more place, which is cut off.
    found = t.op("scatter_nd", t.full((size + 1,), 0, dtype), index, given, reduction="add")
    return t.cut(found, 0, 0, size)


def histogram(t: Translation) -> Value:
    """How many elements are in each of `bins` equal parts of a range, that of all elements where none is given."""
    x, bins = t.tensor(), t.integer("bins", 100)
    low, high = (t.as_value(t.arg(name, 0), "float32") for name in ("min", "max"))
    own = t.cast(x, float_type(x.dtype))
    axes = tuple(range(x.type.rank))
    if float(t.number("min", 0)) == float(t.number("max", 0)):
        low, high = (reduced(t, f"reduce_{name}", own, axes, False) for name in ("min", "max"))
        alike, one = t.op("equal", low, high), t.scalar(1, own.dtype)
        low, high = t.op("where", alike, t.op("sub", low, one), low), t.op("where", alike, t.op("add", high, one), high)
    low, high = t.cast(low, own.dtype), t.cast(high, own.dtype)
    share = t.op("mul", t.op("sub", own, low), t.scalar(bins, own.dtype))
    place = t.cast(t.op("floor", t.op("div", share, t.op("sub", high, low))), "int64")
    place = t.op("where", t.op("equal", own, high), t.scalar(bins - 1, "int64"), place)
    outside = t.op("logical_or", t.op("less", own, low), t.op("greater", own, high))
    place = t.op("where", outside, t.scalar(-1, "int64"), place)
    return t.cast(counted(t, place, as_int(bins), None, "int64"), x.dtype)


def histogram_and_edges(t: Translation) -> tuple[Value, Value]:
    """The sums of weights between edges, which are given, or of so many equal parts of a range (histogram)."""
    x, weight = t.floating(), t.maybe("weight")
    x = t.reshape(x, (x.type.elements,))
    edges = t.arg("bins", 100)
    if isinstance(edges, Value) and edges.type.rank:
        count = t.extent(edges, 0) - 1
    else:
        count = t.integer("bins", 100)
        if count < 1:
            raise error("E0109", f"{t.kind} of {count} parts")
        given = t.arg("range")
        ends: list[Value] = []
        for n, name in enumerate(("min", "max")):
            if x.type.elements == 0:
                given = given or (0.0, 1.0)
            own = t.scalar(given[n], x.dtype) if given else reduced(t, f"reduce_{name}", x, (0,), False)
            ends.append(own)
        alike, half = t.op("equal", *ends), t.scalar(0.5, x.dtype)
        low, high = (t.op("where", alike, t.op(side, end, half), end) for side, end in zip(
            ("sub", "add"), ends, strict=True))  # fmt: skip
        shares = np.arange(count + 1) / count
        below, above = (t.constant(part, x.dtype) for part in (1 - shares, shares))
        edges = t.op("add", t.op("mul", low, below), t.op("mul", high, above))
    # The last part has its upper edge, too.
    passed = t.op("less_equal", t.reshape(edges, (1, count + 1)), t.unsqueeze(x, 1))
    place = t.op("reduce_sum", t.cast(passed, "int64"), axes=(1,), keep_dims=False)
    place = t.op("sub", place, t.scalar(1, "int64"))
    last = t.op("equal", x, t.take(edges, 0, count))
    found = counted(t, t.op("where", last, t.scalar(count - 1, "int64"), place), as_int(count), weight, x.dtype)
    if t.flag("density"):
        widths = t.op("sub", t.cut(edges, 0, 1, count), t.cut(edges, 0, 0, count))
        total = t.op("reduce_sum", found, axes=(0,), keep_dims=False)
        found = t.op("div", t.op("div", found, total), widths)
    return found, edges


def occurrences(t: Translation) -> Value:
    """How often each number occurs, or the sum of its weights (bincount). The greatest one must have a bound."""
    x, weights = t.cast(t.tensor(), "int64"), t.maybe("weights")
    most = t.declared_limit()
    if most is None:
        fix = "say a bound by torch._check(result.shape[0] <= n), or count with torch.zeros(n).scatter_add"
        raise error("E0107", f"{t.kind} gives a tensor without an upper bound", fix=fix)
    dtype = "int64" if weights is None else weights.dtype if weights.dtype == "float32" else "float64"
    highest = reduced(t, "reduce_max", x, (0,), False)
    count = t.op("maximum", t.op("add", highest, t.scalar(1, "int64")), t.scalar(t.integer("minlength", 0), "int64"))
    return counted(t, x, t.bind(count, 0, most), weights, dtype)


def _place(t: Translation, values: Value, index: Value, axis: int) -> Value:
    return t.op("gather_elements", values, index, axis=axis)


def _quantile(skips: bool) -> Translator:
    """Of sorted elements, between those on both sides of the place that a share stands for.

    Args:
        skips: what is no number does not count.
    """

    def translate(t: Translation) -> Value:
        x, q = t.tensor(), t.as_value(t.operand("q"), t.tensor().dtype)
        axis, keep, rank = t.arg("dim"), t.flag("keepdim"), x.type.rank
        shape = x.shape
        if not rank:
            x, axis = t.reshape(x, (1,)), 0
        if axis is None:
            x, axis = t.reshape(x, (x.type.elements,)), 0
        axis = t.axis(int(axis), x.type.rank)
        many, missing = q.type.rank == 1, t.op("is_nan", x)
        row = t.op("where", missing, t.scalar(math.inf, x.dtype), x)
        values, _ = best(t, row, x.shape[axis], axis, False)
        gone = t.op("reduce_sum", t.cast(missing, "int64"), axes=(axis,), keep_dims=True)
        count = t.op("sub", t.as_value(x.shape[axis]), gone) if skips else t.full(gone.shape, x.shape[axis], "int64")
        last = t.cast(t.op("sub", count, t.scalar(1, "int64")), x.dtype)
        # The shares stand where the dimension was, and go to the front in the end.
        shares = t.reshape(q, [q.type.elements if n == axis else 1 for n in range(x.type.rank)])
        place = t.op("mul", last, shares)
        low = t.op("maximum", t.op("floor", place), t.scalar(0, x.dtype))
        high = t.op("maximum", t.op("ceil", place), t.scalar(0, x.dtype))
        below, above = (_place(t, values, t.cast(edge, "int64"), axis) for edge in (low, high))
        y = _between(t, below, above, t.op("sub", place, low))
        nothing = t.op("equal", count, t.scalar(0, "int64")) if skips else t.op(
            "greater", gone, t.scalar(0, "int64"))  # fmt: skip
        y = t.op("where", nothing, t.scalar(math.nan, x.dtype), y)
        moved = t.transpose(y, (axis, *(n for n in range(y.type.rank) if n != axis)))
        kept = [size for n, size in enumerate(x.shape) if n != axis]
        if keep and rank:
            kept = [as_int(1) if t.arg("dim") is None or n == axis else size for n, size in enumerate(shape[:rank])]
        return t.reshape(moved, (*([q.shape[0]] if many else []), *kept))

    return translate


def _between(t: Translation, below: Value, above: Value, share: Value) -> Value:
    kind = str(t.arg("interpolation", "linear"))
    half = t.scalar(0.5, share.dtype)
    if kind == "linear":
        return t.op("add", below, t.op("mul", share, t.op("sub", above, below)))
    if kind == "midpoint":
        return t.op("mul", t.op("add", below, above), half)
    if kind == "nearest":
        return t.op("where", t.op("less_equal", share, half), below, above)
    if kind in {"lower", "higher"}:
        return below if kind == "lower" else above
    raise error("E0109", f"the interpolation of {t.kind} is {kind!r}")


def mean_of_numbers(t: Translation) -> Value:
    """Without what is no number."""
    x = t.floating()
    axes, keep, missing = t.axes("dim", x.type.rank), t.flag("keepdim"), t.op("is_nan", x)
    total = reduced(t, "reduce_sum", t.op("where", missing, t.scalar(0, x.dtype), x), axes, keep)
    count = reduced(t, "reduce_sum", t.cast(t.op("logical_not", missing), x.dtype), axes, keep)
    return t.op("div", total, count)


def median_of_numbers(t: Translation) -> Value | tuple[Value, Value]:
    """The lower of the two in the middle of those that are numbers."""
    x = t.tensor()
    whole = t.arg("dim") is None
    if whole or not x.type.rank:
        x = t.reshape(x, (x.type.elements,))
    axis = 0 if whole or x.type.rank == 1 else t.axis(t.integer("dim"), x.type.rank)
    missing = t.op("is_nan", x) if is_float(x) else t.full(x.shape, False, "bool")
    row = t.op("where", missing, t.scalar(math.inf, x.dtype), x) if is_float(x) else x
    values, places = best(t, row, x.shape[axis], axis, False)
    count = t.op("reduce_sum", t.cast(t.op("logical_not", missing), "int64"), axes=(axis,), keep_dims=True)
    zero = t.scalar(0, "int64")
    middle = t.op("maximum", t.op("sub", count, t.scalar(1, "int64")), zero)
    middle = t.op("bit_shift", middle, t.scalar(1, "int64"), direction="RIGHT")
    value = _place(t, values, middle, axis)
    if is_float(x):
        value = t.op("where", t.op("equal", count, zero), t.scalar(math.nan, x.dtype), value)
    if whole:
        return t.reshape(value, ())
    shape = value.shape if t.flag("keepdim") else [size for n, size in enumerate(value.shape) if n != axis]
    shape = shape if t.tensor().type.rank else ()
    return t.reshape(value, shape), t.reshape(_place(t, places, middle, axis), shape)


def mode(t: Translation) -> tuple[Value, Value]:
    """The least of the most frequent values, and the last place where it stands."""
    x = t.tensor()
    if not x.type.rank:
        return x, t.scalar(0, "int64")
    axis, rank = t.dim(default=-1), x.type.rank
    values, _ = best(t, x, x.shape[axis], axis, False)
    moved, own = (t.transpose(v, (*(n for n in range(rank) if n != axis), axis)) for v in (values, x))
    alike = t.op("equal", t.unsqueeze(moved, rank - 1), t.unsqueeze(moved, rank))
    often = t.op("reduce_sum", t.cast(alike, "int64"), axes=(rank,), keep_dims=False)
    found = _place(t, moved, t.op("arg_max", often, axis=rank - 1, keep_dims=True), rank - 1)
    here = t.op("where", t.op("equal", own, found), t.counting(x.shape[axis]), t.scalar(-1, "int64"))
    where = t.op("reduce_max", here, axes=(rank - 1,), keep_dims=True)
    kept = [as_int(1) if n == axis else size for n, size in enumerate(x.shape) if n != axis or t.flag("keepdim")]
    return t.reshape(found, kept), t.reshape(where, kept)


def _covariance(t: Translation, x: Value, correction: int) -> Value:
    """Of the rows of a matrix."""
    if x.type.rank < 2:
        x = t.reshape(x, (1, x.type.elements))
    gap = t.op("sub", x, t.op("reduce_mean", x, axes=(1,), keep_dims=True))
    count = t.op("maximum", t.as_value(x.shape[1] - correction, x.dtype), t.scalar(0, x.dtype))
    return t.op("div", product(t, gap, t.transpose(gap, (1, 0))), count)


def covariance(t: Translation) -> Value:
    if t.maybe("fweights") is not None or t.maybe("aweights") is not None:
        raise t.unsupported("with weights")
    found = _covariance(t, t.floating(), t.integer("correction", 1))
    return t.reshape(found, ()) if t.tensor().type.rank < 2 else found


def correlation(t: Translation) -> Value:
    c = _covariance(t, t.floating(), 1)
    rows = t.extent(c, 0)
    deviation = t.op("sqrt", t.cut(t.reshape(c, (rows * rows,)), 0, 0, rows, rows + 1))
    c = t.op("div", t.op("div", c, t.reshape(deviation, (rows, 1))), t.reshape(deviation, (1, rows)))
    return t.op("clip", c, min=-1.0, max=1.0) if t.tensor().type.rank > 1 else t.reshape(c, ())


def _trapezoids(running: bool) -> Translator:
    """The area below points: the sum of the means of neighbours times their distance."""

    def translate(t: Translation) -> Value:
        y, x = t.tensor("y"), t.maybe("x")
        axis = t.axis(t.integer("dim", -1), y.type.rank)

        def neighbours(v: Value, at: int) -> tuple[Value, Value]:
            return t.cut(v, at, 1, v.shape[at] - 1), t.cut(v, at, 0, v.shape[at] - 1)

        # Sums and steps of integers, and their products, are integers and wrap; only what is halved is real.
        area = t.op("add", *neighbours(y, axis))
        if x is not None:
            at = 0 if x.type.rank == 1 else axis
            steps = t.op("sub", *neighbours(x, at))
            if x.type.rank == 1:
                steps = t.reshape(steps, [steps.shape[0] if n == axis else 1 for n in range(y.type.rank)])
            area = times(t, *t.together(area, steps))
        else:
            area = times(t, *t.together(area, t.arg("dx", 1)))
        if running:
            area = t.cast(area, float_type(area.dtype))
            return t.op("mul", t.op("cumulative_sum", area, axis=axis), t.scalar(0.5, area.dtype))
        area = t.cast(area, area.dtype if dtypes.is_float(area.dtype) else "int64")
        total = t.op("reduce_sum", area, axes=(axis,), keep_dims=False)
        total = t.cast(total, float_type(total.dtype))
        return t.op("mul", total, t.scalar(0.5, total.dtype))

    return translate


def renormalized(t: Translation) -> Value:
    """Slices whose norm is larger than `maxnorm`, brought down to it."""
    x = t.tensor()
    axis, most = t.dim(), t.number("maxnorm")
    others = tuple(n for n in range(x.type.rank) if n != axis)
    size = norm_of(t, x, t.number("p"), others, True)
    factor = t.op("div", t.scalar(most, x.dtype), t.op("add", size, t.scalar(1e-7, x.dtype)))
    above = t.op("greater", size, t.scalar(most, x.dtype))
    return t.op("mul", x, t.op("where", above, factor, t.scalar(1, x.dtype)))


def pair_distances(t: Translation) -> Value:
    """The distances of all pairs of rows, each pair once (pdist)."""
    x = t.tensor()
    rows = t.extent(x, 0)
    pairs = [(i, j) for i in range(rows) for j in range(i + 1, rows)]
    a, b = (t.op("gather", x, t.constant([pair[n] for pair in pairs], "int64"), axis=0) for n in range(2))
    return norm_of(t, t.op("sub", a, b), t.number("p", 2.0), (1,), False)


def ascending(t: Translation) -> Value:
    """The first dimension sorted (msort)."""
    x = t.tensor()
    return best(t, x, x.shape[0], 0, False)[0] if x.type.rank else x


def _named(function: Translator, *names: str) -> dict[str, Translator]:
    return {f"aten.{name}": function for name in names}


TRANSLATORS: dict[str, Translator] = {
    **_named(histogram, "histc.default"),
    **_named(histogram_and_edges, "histogram.bins_tensor", "histogram.bin_ct"),
    **_named(occurrences, "bincount.default"),
    **_named(_quantile(False), "quantile.default", "quantile.scalar"),
    **_named(_quantile(True), "nanquantile.default", "nanquantile.scalar"),
    **_named(mean_of_numbers, "nanmean.default"), **_named(mode, "mode.default"),
    **_named(median_of_numbers, "nanmedian.default", "nanmedian.dim"),
    **_named(covariance, "cov.default"), **_named(correlation, "corrcoef.default"),
    **_named(_trapezoids(False), "trapezoid.x", "trapezoid.dx", "trapz.x", "trapz.dx"),
    **_named(_trapezoids(True), "cumulative_trapezoid.x", "cumulative_trapezoid.dx"),
    **_named(renormalized, "renorm.default"), **_named(pair_distances, "pdist.default", "_pdist_forward.default"),
    **_named(ascending, "msort.default"),
}  # fmt: skip

__all__ = ["TRANSLATORS", "counted"]
