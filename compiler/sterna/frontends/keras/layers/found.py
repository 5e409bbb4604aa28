"""Functions of keras.ops that find and count elements, make numbers in order, and refuse what has no known form."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np

from sterna.errors import error
from sterna.frontends import special
from sterna.frontends.emitter import axes_of
from sterna.frontends.interpolation import between
from sterna.frontends.keras.layers.arguments import axes_in, option, tensor, two_operands
from sterna.frontends.keras.layers.functions import real
from sterna.frontends.keras.layers.rearranging import along, flat
from sterna.frontends.keras.translation import Result, Translation, Translator
from sterna.ir import dtypes
from sterna.ir.graph import Value
from sterna.ir.limits import check_table


def _unique(t: Translation) -> Result:
    """The different elements, or slices, in rising order; `size` of them if that is said, else as many as there are."""
    axis, size = option(t, 5, "axis", None), option(t, 6, "size", None)
    x = flat(t, t.x) if axis is None else t.x
    at = 0 if axis is None else axes_of((int(axis),), x.type.rank)[0]
    wanted = [bool(option(t, 99, f"return_{key}", False)) for key in ("index", "inverse", "counts")]
    if size is None:
        values, first, inverse, counts = t.standard_results(
            "Unique", x, results=4, axis=None if axis is None else at, sorted=1
        )  # fmt: skip
    else:
        values, first, inverse, counts = _unique_of_size(t, x, at, int(size), option(t, 7, "fill_value", None))
    inverse = inverse if axis is not None else t.reshape(inverse, t.x.shape)
    found = [t.cast(v, "int32") for v, said in zip((first, inverse, counts), wanted, strict=True) if said]
    return [values, *found] if found else values


def _unique_of_size(t: Translation, x: Value, axis: int, size: int, fill: Any) -> tuple[Value, ...]:
    most = t.extent(x, axis)
    if size < 1 or most < 1:
        raise error("E0109", f"{t.kind} of {size} of {x.type}")
    values, first, inverse, counts, count = t.builder.add_all(
        "unique", x, size=most, axis=axis, sorted=True, sources=t.sources, name=f"{t.name}/unique"
    )
    there = t.op("less", t.counting(most), t.reshape(count, (1,)))

    def cut(v: Value, at: int, rest: Any) -> Value:
        shape = [most if n == at else 1 for n in range(v.type.rank)]
        v = t.op("where", t.reshape(there, shape), v, t.scalar(rest, v.dtype))
        if size <= most:
            return t.part(v, at, 0, size)
        after = [0] * v.type.rank
        after[at] = size - most
        return t.pad(v, (0,) * v.type.rank, after, rest)

    return cut(values, axis, 0 if fill is None else fill), cut(first, 0, 1), inverse, cut(counts, 0, 0)


def _nonzero(t: Translation) -> Result:
    """Where elements are not 0: a vector for each dimension, as long as there are such elements."""
    found = t.standard("NonZero", t.x)
    return [t.cast(t.reshape(t.part(found, 0, n, 1), found.shape[1:]), "int32") for n in range(t.x.type.rank)]


def _histogram(t: Translation) -> Result:
    x, count, bounds = real(t, flat(t, t.x)), int(option(t, 1, "bins", 10)), option(t, 2, "range", None)
    if count < 1:
        raise error("E0109", f"{t.kind} of {count} parts")
    check_table(count, t.extent(x, 0))
    if bounds is None:
        low, high = (t.reduced(f"reduce_{end}", x, (0,)) for end in ("min", "max"))
        half = t.op("where", t.op("equal", low, high), t.scalar(0.5, x.dtype), t.scalar(0, x.dtype))
        low, high = t.op("sub", low, half), t.op("add", high, half)
    else:
        low, high = (t.scalar(float(each), x.dtype) for each in bounds)
    steps = t.constant(np.arange(count + 1) / count, x.dtype)
    edges = t.op("add", low, t.op("mul", t.op("sub", high, low), steps))
    column = t.reshape(edges, (count + 1, 1))
    from_there = t.reduced("reduce_sum", t.cast(t.op("greater_equal", x, column), "int32"), (1,))
    beyond = t.reduced("reduce_sum", t.cast(t.op("greater", x, high), "int32"), (0,), True)
    ends = t.op("concat", t.part(from_there, 0, 1, count - 1), beyond, axis=0) if count > 1 else beyond
    return [t.op("sub", t.part(from_there, 0, 0, count), ends), edges]


def _bincount(t: Translation) -> Value:
    """How often 0, 1, ... occur in each row: of constants, whose largest is known."""
    x, weights, least = t.x, option(t, 1, "weights", None), int(option(t, 2, "minlength", 0))
    highest = {"bool": 1, "uint8": 255, "int8": 127}.get(x.dtype)
    if x.data is not None:
        size = max(least, int(np.max(x.data, initial=-1)) + 1)
    elif highest is not None and least > highest:
        size = least
    else:
        raise t.unsupported(
            "of numbers that are computed, whose largest says how long the result is,",
            "compare with numbers in order instead: ops.sum(ops.one_hot(x, count), axis=-2)",
        )
    check_table(size)
    hits = t.op("equal", t.reshape(x, (*x.shape, 1)), t.constant(np.arange(size), x.dtype))
    if weights is None:
        return t.reduced("reduce_sum", t.cast(hits, "int32"), (x.type.rank - 1,))
    by = tensor(t, weights, None)
    return t.reduced(
        "reduce_sum", t.op("mul", t.cast(hits, by.dtype), t.reshape(by, (*by.shape, 1))), (by.type.rank - 1,)
    )


# ---------------------------------------------------------------- numbers
def _rising(kind: str) -> Translator:
    """linspace, logspace and geomspace between computed ends."""

    def translate(t: Translation) -> Result:
        start, stop = two_operands(t, ("start", "stop"))
        start, stop = real(t, start), real(t, stop)
        count, closed = int(option(t, 2, "num", 50)), bool(option(t, 3, "endpoint", True))
        if count < 1:
            raise error("E0109", f"{t.kind} of {count} numbers")
        check_table(count)
        parts = max(count - 1 if closed else count, 1)
        rank = max(start.type.rank, stop.type.rank)
        at = int(option(t, 99, "axis", 0)) % (rank + 1)
        start, stop = (t.reshape(v, (*(1,) * (rank - v.type.rank), *v.shape)) for v in (start, stop))
        start, stop = (t.reshape(v, (*v.shape[:at], 1, *v.shape[at:])) for v in (start, stop))
        sign = t.op("sign", start)
        if kind == "geomspace":
            start, stop = (t.op("log", t.op("abs", v)) for v in (start, stop))
        shape = [count if n == at else 1 for n in range(rank + 1)]
        step = t.scaled(t.op("sub", stop, start), 1 / parts)
        made = t.op("add", start, t.op("mul", step, t.constant(np.arange(count).reshape(shape), start.dtype)))
        if kind == "geomspace":
            made = t.op("mul", sign, t.op("exp", made))
        if kind == "logspace":
            made = t.op("exp", t.scaled(made, math.log(float(option(t, 4, "base", 10)))))
        dtype = option(t, 99, "dtype", None)
        made = made if dtype is None else t.cast(made, str(dtype))
        if kind == "linspace" and option(t, 4, "retstep", False):
            return [made, t.reshape(step, [s for n, s in enumerate(step.shape) if n != at])]
        return made

    return translate


def _full(t: Translation) -> Value:
    value = tensor(t, option(t, 1, "fill_value", None) if "fill_value" in t.kwargs else t.x, None)
    shape = tuple(int(n) for n in t.layer.config.get("shape", ()))
    return t.op("expand", t.cast(value, str(option(t, 99, "dtype", None) or "float32")), shape=shape)


def _next(t: Translation) -> Value:
    a, b = two_operands(t)
    return special.next_after(t, real(t, a), real(t, b))


def _view(t: Translation) -> Value:
    dtype = str(option(t, 1, "dtype", None) or t.x.dtype)
    if dtype == t.x.dtype:
        return t.x
    if dtypes.bits(dtype) != dtypes.bits(t.x.dtype):
        raise t.unsupported(f"of {t.x.dtype} as {dtype}, which is of another size,")
    return t.op("bit_cast", t.x, to=dtype)


def _angle(t: Translation) -> Value:
    x = real(t, t.x)
    below = t.op("less", x, t.scalar(0, x.dtype))
    return t.op("where", below, t.scalar(math.pi, x.dtype), t.scalar(0, x.dtype))


def _correlations(t: Translation) -> Value:
    """corrcoef: of every row with every other."""
    x = real(t, t.x)
    rows = t.reshape(x, (1, *x.shape)) if x.type.rank < 2 else x
    apart = t.op("sub", rows, t.reduced("reduce_mean", rows, (1,), True))
    shared = t.op("matmul", apart, t.transpose(apart, (1, 0)))
    size = t.op("sqrt", t.reduced("reduce_sum", t.op("mul", apart, apart), (1,), True))
    made = t.op("clip", t.op("div", shared, t.op("mul", size, t.transpose(size, (1, 0)))), min=-1.0, max=1.0)
    return t.reshape(made, ()) if x.type.rank < 2 else made


def _correlated(t: Translation) -> Value:
    """correlate, of vectors."""
    a, b = (real(t, v) for v in two_operands(t))
    (n,), (m,) = t.sizes(a, 1), t.sizes(b, 1)
    mode, turned = str(option(t, 2, "mode", "valid")), n < m
    if mode not in ("valid", "same", "full"):
        raise t.unsupported(f"with the mode {mode}")
    if turned:
        (a, b), (n, m) = (b, a), (m, n)
    before = {"valid": 0, "same": m // 2, "full": m - 1}[mode]
    after = {"valid": 0, "same": m - m // 2 - 1, "full": m - 1}[mode]
    y = t.standard("Conv", t.reshape(a, (1, 1, n)), t.reshape(b, (1, 1, m)), pads=(before, after))
    count = n + before + after - m + 1
    y = t.reshape(y, (count,))
    return t.op("slice", y, starts=(count - 1,), sizes=(count,), steps=(-1,)) if turned else y


# ---------------------------------------------------------------- with elements that are no numbers
def _replaced(t: Translation, value: float) -> Value:
    x = t.x
    return x if not dtypes.is_float(x.dtype) else t.op("where", t.op("is_nan", x), t.scalar(value, x.dtype), x)


def _cumulative(operator: str, neutral: float) -> Translator:
    def translate(t: Translation) -> Value:
        x, (_, axis) = _replaced(t, neutral), along(t)
        x = flat(t, x) if option(t, 1, "axis", None) is None else x
        dtype = option(t, 2, "dtype", None)
        x = x if dtype is None else t.cast(x, str(dtype))
        return t.op(operator, t.cast(x, "int32") if x.dtype == "bool" else x, axis=axis)

    return translate


def _best(operator: str, least: float) -> Translator:
    """nanargmax and nanargmin; -1 where there is no number."""

    def translate(t: Translation) -> Value:
        x, axis = _replaced(t, least), option(t, 1, "axis", None)
        keep = bool(option(t, 2, "keepdims", False))
        x = flat(t, x) if axis is None else x
        at = 0 if axis is None else axes_of((int(axis),), x.type.rank)[0]
        found = t.cast(t.op(operator, x, axis=at, keep_dims=keep), "int32")
        if dtypes.is_float(t.x.dtype):
            lost = t.op("is_nan", flat(t, t.x) if axis is None else t.x)
            found = t.op("where", t.reduced("reduce_all", lost, (at,), keep), t.scalar(-1, "int32"), found)
        return t.reshape(found, (1,) * t.x.type.rank) if keep and axis is None else found

    return translate


def _quantile(share: float) -> Translator:
    """nanmedian (0), nanquantile (1) and nanpercentile (100): a row's own count of numbers says where they stand."""

    def translate(t: Translation) -> Value:
        x = real(t, t.x)
        given: Any = 0.5 if not share else option(t, 1, "q", 0.5)
        if isinstance(given, Value):
            if given.data is None:
                raise error("E0107", f"{t.kind} needs its shares to be constant")
            given = given.data
        q = np.asarray(given, np.float64) / (share or 1.0)
        axes = axes_in(t, x, 2 if share else 1)
        method, keep = str(option(t, 99, "method", "linear")), bool(option(t, 99, "keepdims", False))
        if method not in ("linear", "lower", "higher", "midpoint", "nearest"):
            raise t.unsupported(f"with the method {method}")
        rest = [n for n in range(x.type.rank) if n not in axes]
        count = int(np.prod([t.extent(x, n) for n in axes]))
        rows = t.reshape(t.transpose(x, (*rest, *axes)), (*(x.shape[n] for n in rest), count))
        there = t.op("logical_not", t.op("is_nan", rows))
        held = t.reduced("reduce_sum", t.cast(there, x.dtype), (-1,), True)
        rows = t.op("where", there, rows, t.scalar(math.inf, x.dtype))
        ordered, _ = t.standard_results(
            "TopK", rows, t.constant([count], "int64"), results=2, axis=-1, largest=0, sorted=1
        )
        place = t.op("mul", t.shifted(held, -1.0), t.constant(q.reshape(-1), x.dtype))
        place = t.op("maximum", place, t.scalar(0, x.dtype))
        low, high = t.op("floor", place), t.op("ceil", place)
        part = {
            "linear": lambda: t.op("sub", place, low), "lower": lambda: t.op("sub", low, low),
            "higher": lambda: t.op("sub", high, low), "midpoint": lambda: t.scaled(t.op("sub", high, low), 0.5),
            "nearest": lambda: t.op("sub", t.op("round", place), low),
        }[method]()  # fmt: skip
        below, above = (
            t.op("gather_elements", ordered, t.cast(n, "int64"), axis=len(rest)) for n in (low, high)
        )  # fmt: skip
        made = between(t, below, above, part)
        none = t.op("equal", held, t.scalar(0, x.dtype))
        made = t.op("where", none, t.scalar(math.nan, x.dtype), made)
        made = t.transpose(made, (len(rest), *range(len(rest))))
        ends = [1 if n in axes else x.shape[n] for n in range(x.type.rank)] if keep else [x.shape[n] for n in rest]
        return t.reshape(made, ends if np.ndim(q) == 0 else [q.size, *ends])

    return translate


# ---------------------------------------------------------------- names of dimensions
def _rearranged(t: Translation) -> Value:
    """rearrange: dimensions named, split and joined by a pattern, as "b (h i) w c -> b h w (i c)"."""
    x, pattern = t.x, str(option(t, 1, "pattern", ""))
    sides = [re.findall(r"\w+|\(.*?\)", side) for side in pattern.split("->")]
    if len(sides) != 2 or len(sides[0]) != x.type.rank:
        raise error("E0109", f"the pattern {pattern!r} for {x.type}")
    sizes: dict[str, Any] = {key: int(v) for key, v in t.kwargs.items() if key != "pattern" and isinstance(v, int)}
    names: list[str] = []
    for size, part in zip(x.shape, sides[0], strict=True):
        inner = re.findall(r"\w+", part)
        unknown = [name for name in inner if name not in sizes or not part.startswith("(")]
        known = math.prod(int(sizes[name]) for name in inner if name not in unknown)
        if len(unknown) > 1 or known < 1:
            raise error("E0109", f"the pattern {pattern!r} leaves the sizes of {', '.join(unknown)} open")
        sizes |= dict.fromkeys(unknown, size // known if known > 1 else size)
        names += inner
    wanted = [re.findall(r"\w+", part) for part in sides[1]]
    order = [name for part in wanted for name in part]
    if sorted(order) != sorted(names) or len(set(names)) != len(names):
        raise error("E0109", f"the pattern {pattern!r} has other dimensions on its right")
    x = t.transpose(t.reshape(x, [sizes[name] for name in names]), [names.index(name) for name in order])
    shape = []
    for part in wanted:
        joined: Any = 1
        for name in part:
            joined = sizes[name] * joined
        shape.append(joined)
    return t.reshape(x, shape)


OPERATIONS: dict[str, Translator] = {
    "angle": _angle,
    "bincount": _bincount,
    "corrcoef": _correlations,
    "correlate": _correlated,
    "full": _full,
    "geomspace": _rising("geomspace"),
    "histogram": _histogram,
    "linspace": _rising("linspace"),
    "logspace": _rising("logspace"),
    "nanargmax": _best("arg_max", -math.inf),
    "nanargmin": _best("arg_min", math.inf),
    "nancumprod": _cumulative("cumulative_product", 1.0),
    "nancumsum": _cumulative("cumulative_sum", 0.0),
    "nanmedian": _quantile(0),
    "nanpercentile": _quantile(100),
    "nanquantile": _quantile(1),
    "nextafter": _next,
    "nonzero": _nonzero,
    "rearrange": _rearranged,
    "unique": _unique,
    "view": _view,
}
