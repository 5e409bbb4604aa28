"""Functions of keras.ops that order, sum and count elements, beside those in `operations`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sterna.errors import error
from sterna.frontends.keras.layers.arguments import axes_in, option, tensor, two_operands
from sterna.frontends.keras.layers.functions import real
from sterna.frontends.keras.layers.rearranging import along, axis_of
from sterna.frontends.keras.translation import Translation, Translator
from sterna.frontends.quantiles import quantiles
from sterna.ir import dtypes
from sterna.ir.graph import Value


def _sorted(t: Translation) -> tuple[Value, Value]:
    """In rising order, and where from."""
    x, axis = along(t, default=-1) if "axis" in t.kwargs or t.layer.config.get("axis", 0) is not None else along(t)
    count = t.constant([t.extent(x, axis)], "int64")
    values, places = t.standard_results("TopK", x, count, results=2, axis=axis, largest=0, sorted=1)
    return values, t.cast(places, "int32")


def _cumulative(operator: str) -> Translator:
    def translate(t: Translation) -> Value:
        x, axis = along(t)
        dtype = option(t, 2, "dtype", None)
        x = x if dtype is None else t.cast(x, str(dtype))
        x = t.cast(x, "int32") if x.dtype == "bool" else x
        return t.op(operator, x, axis=axis)

    return translate


def _kept(operator: str, neutral: Callable[[Value], Any]) -> Translator:
    """A reduction that passes NaN over."""

    def translate(t: Translation) -> Value:
        x, axes = t.x, axes_in(t, t.x)
        keep = bool(option(t, 2, "keepdims", False))
        if not dtypes.is_float(x.dtype):
            return t.reduced(operator, x, axes, keep)
        lost = t.op("is_nan", x)
        made = t.reduced(operator, t.op("where", lost, t.scalar(neutral(x), x.dtype), x), axes, keep)
        if operator not in ("reduce_max", "reduce_min"):
            return made
        none = t.reduced("reduce_all", lost, axes, keep)
        return t.op("where", none, t.scalar(np.nan, x.dtype), made)

    return translate


def _present(t: Translation, x: Value, axes: tuple[int, ...], keep: bool) -> tuple[Value, Value, Value]:
    """Which elements are numbers, their sum and how many there are."""
    there = t.op("logical_not", t.op("is_nan", x))
    total = t.reduced("reduce_sum", t.op("where", there, x, t.scalar(0, x.dtype)), axes, keep)
    return there, total, t.reduced("reduce_sum", t.cast(there, x.dtype), axes, keep)


def _nan_mean(t: Translation) -> Value:
    x = real(t, t.x)
    _, total, count = _present(t, x, axes_in(t, x), bool(option(t, 2, "keepdims", False)))
    return t.op("div", total, count)


def _nan_variance(root: bool) -> Translator:
    def translate(t: Translation) -> Value:
        x = real(t, t.x)
        axes, keep = axes_in(t, x), bool(option(t, 2, "keepdims", False))
        there, total, count = _present(t, x, axes, True)
        apart = t.op("where", there, t.op("sub", x, t.op("div", total, count)), t.scalar(0, x.dtype))
        squares = t.reduced("reduce_sum", t.op("mul", apart, apart), axes, keep)
        count = t.reduced("reduce_sum", t.cast(there, x.dtype), axes, keep)
        made = t.op("div", squares, count)
        return t.op("sqrt", made) if root else made

    return translate


def _average(t: Translation) -> Value:
    x, weights = real(t, t.x), option(t, 2, "weights", None)
    axes = axes_in(t, x)
    if weights is None:
        return t.reduced("reduce_mean", x, axes)
    by = t.cast(tensor(t, weights, x), x.dtype)
    if by.type.rank < x.type.rank and len(axes) == 1:
        by = t.reshape(by, [by.shape[0] if n == axes[0] else 1 for n in range(x.type.rank)])
    by = t.op("expand", by, shape=x.shape)
    total = t.reduced("reduce_sum", t.op("mul", x, by), axes)
    return t.op("div", total, t.reduced("reduce_sum", by, axes))


def _count_nonzero(t: Translation) -> Value:
    hits = t.op("logical_not", t.op("equal", t.x, t.scalar(0, t.x.dtype)))
    return t.reduced("reduce_sum", t.cast(hits, "int32"), axes_in(t, t.x))


def _ptp(t: Translation) -> Value:
    axes, keep = axes_in(t, t.x), bool(option(t, 2, "keepdims", False))
    return t.op("sub", t.reduced("reduce_max", t.x, axes, keep), t.reduced("reduce_min", t.x, axes, keep))


def _diff(t: Translation) -> Value:
    x = t.x
    axis = axis_of(t, x, 2)
    for _ in range(int(option(t, 1, "n", 1))):
        size = t.extent(x, axis)
        x = t.op("sub", t.part(x, axis, 1, size - 1), t.part(x, axis, 0, size - 1))
    return x


def _quantile(share: float, position: int = 1) -> Translator:
    """Shares of `share` each: 1 for quantiles, 100 for percents; 0 for the middle."""

    def translate(t: Translation) -> Value:
        x = real(t, t.x)
        q = 0.5 if not share else np.asarray(_constant(t, option(t, 1, "q", 0.5)), np.float64) / share
        at = position if share else 1
        axes, method = axes_in(t, x, at + (1 if share else 0)), str(option(t, at + 2, "method", "linear"))
        keep = bool(option(t, at + (3 if share else 1), "keepdims", False))
        return quantiles(t, x, np.asarray(q), axes, method, keep)

    return translate


def _constant(t: Translation, value: Any) -> Any:
    if isinstance(value, Value):
        if value.data is None:
            raise error("E0107", f"{t.kind} needs its shares to be constant")
        return value.data
    return value


def _placed(t: Translation, sequence: Value, values: Value, right: bool) -> Value:
    """How many elements of a sorted sequence stand before each value."""
    wide = t.reshape(values, (*values.shape, 1))
    before = t.op("less_equal" if right else "less", sequence, wide)
    return t.reduced("reduce_sum", t.cast(before, "int32"), (-1,))


def _search_sorted(t: Translation) -> Value:
    a, b = two_operands(t, ("sorted_sequence", "values"))
    return _placed(t, a, b, str(option(t, 2, "side", "left")) == "right")


def _digitized(t: Translation) -> Value:
    x = t.x
    bins = tensor(t, option(t, 1, "bins", []), None)
    wide = real(t, x)
    return _placed(t, t.cast(bins, wide.dtype), wide, True)


def _trapezoid(t: Translation) -> Value:
    y = real(t, t.x)
    axis = axis_of(t, y, 3)
    size = t.extent(y, axis)
    given, step = option(t, 1, "x", None), float(option(t, 2, "dx", 1.0))
    pairs = t.op("add", t.part(y, axis, 1, size - 1), t.part(y, axis, 0, size - 1))
    if given is None:
        return t.scaled(t.reduced("reduce_sum", pairs, (axis,)), step / 2)
    x = t.cast(tensor(t, given, y), y.dtype)
    along = axis if x.type.rank == y.type.rank else 0
    wide = t.op("sub", t.part(x, along, 1, size - 1), t.part(x, along, 0, size - 1))
    if x.type.rank == 1:
        wide = t.reshape(wide, [size - 1 if n == axis else 1 for n in range(y.type.rank)])
    return t.scaled(t.reduced("reduce_sum", t.op("mul", pairs, wide), (axis,)), 0.5)


OPERATIONS: dict[str, Translator] = {
    # Which of the elements on one side of `kth` stands where is left open.
    "argpartition": lambda t: _sorted(t)[1],
    "argsort": lambda t: _sorted(t)[1],
    "average": _average,
    "count_nonzero": _count_nonzero,
    "cumprod": _cumulative("cumulative_product"),
    "cumsum": _cumulative("cumulative_sum"),
    "diff": _diff,
    "digitize": _digitized,
    "median": _quantile(0),
    "nanmax": _kept("reduce_max", lambda x: -np.inf),
    "nanmean": _nan_mean,
    "nanmin": _kept("reduce_min", lambda x: np.inf),
    "nanprod": _kept("reduce_prod", lambda x: 1),
    "nanstd": _nan_variance(True),
    "nansum": _kept("reduce_sum", lambda x: 0),
    "nanvar": _nan_variance(False),
    "percentile": _quantile(100),
    "ptp": _ptp,
    "quantile": _quantile(1),
    "search_sorted": _search_sorted,
    "sort": lambda t: _sorted(t)[0],
    "trapezoid": _trapezoid,
}
