"""Functions of NumPy's interface that count, average and interpolate."""

from __future__ import annotations

import numpy as np

from sterna.errors import error
from sterna.frontends.mxnet.translation import Translation, Translator
from sterna.frontends.quantiles import quantiles
from sterna.ir import dtypes
from sterna.ir.graph import Value
from sterna.ir.limits import check_table


def percentile(t: Translation) -> Value:
    x = t.floats(t.input(0))
    if t.said.has("q_scalar"):
        shares = np.asarray(t.said.finite("q_scalar"))
    else:
        shares = np.asarray(t.array(1, "the shares"), np.float64)
        if shares.ndim > 1:
            raise error("E0108", f"{t.kind} takes a share, or a vector of them, not {t.input(1).type}")
    if not ((shares >= 0) & (shares <= 100)).all():
        raise error("E0109", f"{t.kind} of shares that are not from 0 to 100")
    method = t.said.text("interpolation", "linear")
    return quantiles(t, x, shares / 100, t.axes("axis", ""), method, t.said.flag("keepdims"))


def average(t: Translation) -> tuple[Value, ...]:
    """(the mean by weights, their sum)."""
    x = t.floats(t.input(0))
    axes = t.axes("axis", "")
    if t.said.flag("weighted", default=True):
        weights = t.cast(t.input(1), x.dtype)
        whole = t.sum(weights, (0,), keep=False) if weights.type.rank == 1 else None
        if weights.type.rank == 1 and x.type.rank > 1:
            if len(axes) != 1:
                raise error("E0108", f"{t.kind} of {x.type} by {weights.type}")
            weights = t.along(weights, axes[0], x.type.rank)
        weights = t.op("expand", weights, shape=x.shape)
    else:
        weights, whole = t.op("expand", t.number(1, x), shape=x.shape), None
    count = t.sum(weights, axes, keep=False)
    mean = t.op("div", t.sum(t.op("mul", x, weights), axes, keep=False), count)
    return (mean, count if whole is None else whole) if t.said.flag("returned") or t.asked > 1 else (mean,)


def differences(t: Translation) -> Value:
    x, axis, times = t.input(0), t.axis("axis", -1), t.said.integer("n", 1)
    if times < 0:
        raise error("E0109", f"{t.kind} {times} times")
    for _ in range(times):
        size = t.extent(x, axis)
        if size < 1:
            break
        x = t.op("sub", t.part(x, axis, 1, size - 1), t.part(x, axis, 0, size - 1))
    return x


def differences_of_all(t: Translation) -> Value:
    """ediff1d: of neighbours in the order of elements, between what is given for both ends."""
    x, following = t.input(0), iter(range(1, 3))
    x = t.reshape(x, [t.elements(x)])
    size = t.extent(x, 0)
    made = t.op("sub", t.part(x, 0, 1, size - 1), t.part(x, 0, 0, size - 1)) if size > 1 else t.part(x, 0, 0, 0)
    ends = []
    for name in ("to_begin", "to_end"):
        if t.said.flag(f"{name}_arr_given"):
            end = t.cast(t.input(next(following)), x.dtype)
            ends.append(t.reshape(end, [t.elements(end)]))
        elif t.said.has(f"{name}_scalar"):
            ends.append(t.reshape(t.number(t.said.finite(f"{name}_scalar"), x), [1]))
        else:
            ends.append(t.part(x, 0, 0, 0))
    return t.op("concat", ends[0], made, ends[1], axis=0)


def counts(t: Translation) -> Value:
    """bincount: how often 0, 1, ... occur, or the sums of their weights."""
    x, least = t.input(0), t.said.integer("minlength", 0)
    if x.type.rank != 1:
        raise error("E0108", f"{t.kind} takes a vector, not {x.type}")
    if dtypes.is_float(x.dtype):
        raise error("E0111", f"{t.kind} of the type {x.dtype} is not supported")
    by = t.input(1) if t.said.flag("has_weights") else None
    if by is not None and by.shape != x.shape:
        raise error("E0108", f"{t.kind} of {x.type} by {by.type}")
    if x.data is None:
        title = f"{t.kind} of numbers that are computed: the largest of them says how long the result is"
        raise error("E0107", title, fix="compare with numbers in order instead: sum(one_hot(x, count), axis=0)")
    if np.min(x.data, initial=0) < 0:
        raise error("E0109", f"{t.kind} of {int(np.min(x.data))}")
    size = max(least, int(np.max(x.data, initial=-1)) + 1)
    check_table(size, int(np.size(x.data)))
    hits = t.op("equal", t.spread(t.integral(x), 1), t.counting(size))
    if by is None:
        return t.sum(t.cast(hits, "int64"), (0,), keep=False)
    return t.sum(t.op("mul", t.cast(hits, by.dtype), t.spread(by, 1)), (0,), keep=False)


def histogram(t: Translation) -> tuple[Value, Value]:
    """(how many elements are in each part, the parts' ends), the last end belonging to the last part."""
    x = t.floats(t.input(0))
    x = t.reshape(x, [t.elements(x)])
    if t.said.has("bin_cnt"):
        count, bounds = t.said.integer("bin_cnt"), t.said.numbers("range", ())
        if count < 1 or len(bounds) != 2 or bounds[0] >= bounds[1]:
            raise error("E0109", f"{t.kind} of {count} parts from {list(bounds)}")
        edges = t.constant(np.linspace(*bounds, count + 1), x.dtype)
    else:
        edges = t.cast(t.input(1), x.dtype)
        count = t.sizes(edges, 1)[0] - 1
        if count < 1:
            raise error("E0108", f"{t.kind} between {edges.type}")
    check_table(count, t.extent(x, 0))
    column = t.spread(edges, 1)
    above = t.sum(t.cast(t.op("greater_equal", x, column), "int64"), (1,), keep=False)
    beyond = t.sum(t.cast(t.op("greater", x, t.part(column, 0, count, 1)), "int64"), (1,), keep=False)
    ends = t.op("concat", t.part(above, 0, 1, count - 1), beyond, axis=0)
    return t.op("sub", t.part(above, 0, 0, count), ends), edges


def interpolated(t: Translation) -> Value:
    """interp: on the line through points in rising order; outside, the ends, or what is given for them."""
    xp, fp = (t.floats(t.input(n)) for n in range(2))
    (size,) = t.sizes(xp, 1)
    if t.said.has("period"):
        raise t.unsupported("of a period")
    if size < 1 or fp.shape != xp.shape:
        raise error("E0108", f"{t.kind} of {xp.type} and {fp.type}")
    x = t.number(t.said.number("x_scalar", 0.0), xp) if t.said.flag("x_is_scalar") else t.cast(t.input(2), xp.dtype)
    left, right = (
        t.number(t.said.number(name), fp) if t.said.has(name) else t.reshape(t.part(fp, 0, at, 1), [])
        for name, at in (("left", 0), ("right", size - 1))
    )
    check_table(size)
    below = t.cast(t.op("less_equal", xp, t.spread(x, x.type.rank)), "int64")
    place = t.op("sub", t.sum(below, (x.type.rank,), keep=False), t.scalar(1, "int64"))
    place = t.op("minimum", t.op("maximum", place, t.scalar(0, "int64")), t.scalar(max(size - 2, 0), "int64"))
    after = t.op("minimum", t.op("add", place, t.scalar(1, "int64")), t.scalar(size - 1, "int64"))
    x0, x1, y0, y1 = (t.op("gather", v, at, axis=0) for v, at in ((xp, place), (xp, after), (fp, place), (fp, after)))
    width = t.op("sub", x1, x0)
    slope = t.op("div", t.op("sub", y1, y0), t.op("where", t.op("equal", width, t.number(0, x)), t.number(1, x), width))
    y = t.op("add", y0, t.op("mul", slope, t.op("sub", x, x0)))
    last = t.reshape(t.part(xp, 0, size - 1, 1), [])
    y = t.op("where", t.op("equal", x, last), t.reshape(t.part(fp, 0, size - 1, 1), []), y)
    y = t.op("where", t.op("greater", x, last), right, y)
    return t.op("where", t.op("less", x, t.reshape(t.part(xp, 0, 0, 1), [])), left, y)


def polynomial(t: Translation) -> Value:
    """polyval: the highest power's coefficient first."""
    factors, x = t.input(0), t.input(1)
    if dtypes.is_float(factors.dtype) or dtypes.is_float(x.dtype):
        factors, x = t.floats(factors), t.floats(x)
    y = t.op("sub", x, x)
    (count,) = t.sizes(factors, 1)
    check_table(count)
    for n in range(count):
        y = t.op("add", t.op("mul", y, x), t.reshape(t.part(factors, 0, n, 1), []))
    return y


TRANSLATORS: dict[str, Translator] = {
    **dict.fromkeys(("_histogram", "_npi_histogram"), histogram),
    "_npi_average": average,
    "_npi_bincount": counts,
    "_npi_diff": differences,
    "_npi_ediff1d": differences_of_all,
    "_npi_interp": interpolated,
    "_npi_percentile": percentile,
    "_npi_polyval": polynomial,
}
