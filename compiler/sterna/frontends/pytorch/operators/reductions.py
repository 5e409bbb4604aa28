"""Reductions and running sums."""

from __future__ import annotations

import math
from typing import Any

from sterna.errors import error
from sterna.frontends.emitter import is_float
from sterna.frontends.log_sums import running_log_sums
from sterna.frontends.pytorch.operators.comparisons import as_bool
from sterna.frontends.pytorch.promotion import float_type, kind
from sterna.frontends.pytorch.translation import Translation, Translator
from sterna.frontends.rotations import singular
from sterna.ir import dtypes
from sterna.ir.graph import Value
from sterna.ir.integer import Int, as_int


def reduced(t: Translation, operator: str, x: Value, axes: tuple[int, ...], keep: bool) -> Value:
    """A core reduction; of a tensor without dimensions, the tensor."""
    return t.op(operator, x, axes=axes, keep_dims=keep) if axes else x


def _axes(t: Translation, x: Value) -> tuple[int, ...]:
    return t.axes("dim", x.type.rank)


def _added(t: Translation) -> Value:
    """The operand in the type that sums are made in."""
    x = t.tensor()
    return t.cast(x, t.scalar_type(x.dtype if kind(x.dtype) == 2 else "int64"))


def total(t: Translation) -> Value:
    x = _added(t)
    return reduced(t, "reduce_sum", x, _axes(t, x), t.flag("keepdim"))


def nan_total(t: Translation) -> Value:
    x = _added(t)
    if is_float(x):
        x = t.op("where", t.op("is_nan", x), t.scalar(0, x.dtype), x)
    return reduced(t, "reduce_sum", x, _axes(t, x), t.flag("keepdim"))


def mean(t: Translation) -> Value:
    x = t.tensor()
    x = t.cast(x, t.scalar_type(float_type(x.dtype)))
    return reduced(t, "reduce_mean", x, _axes(t, x), t.flag("keepdim"))


def product(t: Translation) -> Value:
    x = _added(t)
    return reduced(t, "reduce_prod", x, _axes(t, x), t.flag("keepdim"))


def _extreme_of(t: Translation, operator: str, x: Value) -> Value:
    """The greatest (reduce_max) or least (reduce_min); true is greater than false."""
    if x.dtype == "bool":
        operator = "reduce_any" if operator == "reduce_max" else "reduce_all"
    return reduced(t, operator, x, _axes(t, x), t.flag("keepdim"))


def _extreme(operator: str) -> Translator:
    return lambda t: _extreme_of(t, operator, t.tensor())


def _extreme_and_place(operator: str, argument: str) -> Translator:
    """max.dim, min.dim: the values, and where they stand."""

    def translate(t: Translation) -> tuple[Value, Value]:
        x = t.tensor()
        wide = t.cast(x, "int32") if x.dtype == "bool" else x
        if not x.type.rank:
            return x, t.scalar(0, "int64")
        axis, keep = t.dim(), t.flag("keepdim")
        values = t.op(operator, wide, axes=(axis,), keep_dims=keep)
        return t.cast(values, x.dtype), t.op(argument, wide, axis=axis, keep_dims=keep)

    return translate


def both_extremes(t: Translation) -> tuple[Value, Value]:
    x = t.tensor()
    return _extreme_of(t, "reduce_min", x), _extreme_of(t, "reduce_max", x)


def _place(operator: str) -> Translator:
    def translate(t: Translation) -> Value:
        x = t.tensor()
        x = t.cast(x, "int32") if x.dtype == "bool" else x
        if not x.type.rank:
            return t.scalar(0, "int64")
        if t.arg("dim") is None:
            flat = t.reshape(x, (x.type.elements,))
            found = t.op(operator, flat, axis=0, keep_dims=False)
            return t.reshape(found, (1,) * x.type.rank) if t.flag("keepdim") else found
        return t.op(operator, x, axis=t.dim(), keep_dims=t.flag("keepdim"))

    return translate


def _truth(operator: str) -> Translator:
    def translate(t: Translation) -> Value:
        x = as_bool(t, t.tensor())
        found = reduced(t, operator, x, _axes(t, x), t.flag("keepdim"))
        return t.cast(found, "uint8") if t.tensor().dtype == "uint8" else found

    return translate


def _count(x: Value, axes: tuple[int, ...]) -> Int:
    return math.prod((x.shape[axis] for axis in axes), start=as_int(1))


def variance_of(t: Translation) -> tuple[Value, Value]:
    """(variance, mean), the dimensions kept; `correction` or `unbiased` says by what is divided."""
    x = t.floating()
    axes = _axes(t, x)
    correction = t.arg("correction")
    less = (1.0 if t.flag("unbiased", True) else 0.0) if correction is None else float(correction)
    average = reduced(t, "reduce_mean", x, axes, True)
    gap = t.op("sub", x, average)
    squares = reduced(t, "reduce_sum", t.op("mul", gap, gap), axes, True)
    count = t.as_value(_count(x, axes), x.dtype)
    divisor = t.op("maximum", t.op("sub", count, t.scalar(less, x.dtype)), t.scalar(0, x.dtype))
    return t.op("div", squares, divisor), average


def _dropped(t: Translation, x: Value) -> Value:
    """Without the dimensions that were reduced, unless they are kept."""
    if t.flag("keepdim"):
        return x
    axes = _axes(t, x)
    return t.reshape(x, [size for n, size in enumerate(x.shape) if n not in axes])


def variance(t: Translation) -> Value:
    return _dropped(t, variance_of(t)[0])


def deviation(t: Translation) -> Value:
    return t.op("sqrt", variance(t))


def variance_mean(t: Translation) -> tuple[Value, Value]:
    found, average = variance_of(t)
    return _dropped(t, found), _dropped(t, average)


def deviation_mean(t: Translation) -> tuple[Value, Value]:
    found, average = variance_of(t)
    return t.op("sqrt", _dropped(t, found)), _dropped(t, average)


def norm_of(t: Translation, x: Value, order: float, axes: tuple[int, ...], keep: bool) -> Value:
    """The vector norm of an order; of 16 bits in float32, as powers leave the range of halves."""
    if x.dtype in dtypes.HALVES:
        return t.cast(norm_of(t, t.cast(x, "float32"), order, axes, keep), x.dtype)
    size = t.op("abs", x)
    if abs(order) == math.inf:
        return reduced(t, "reduce_max" if order > 0 else "reduce_min", size, axes, keep)
    if order == 0:
        return reduced(t, "reduce_sum", t.cast(as_bool(t, x), x.dtype), axes, keep)
    if order == 1:
        return reduced(t, "reduce_sum", size, axes, keep)
    if order == 2:
        return t.op("sqrt", reduced(t, "reduce_sum", t.op("mul", x, x), axes, keep))
    powers = t.op("pow", size, t.scalar(order, x.dtype))
    return t.op("pow", reduced(t, "reduce_sum", powers, axes, keep), t.scalar(1 / order, x.dtype))


def norm(t: Translation) -> Value:
    x = t.floating()
    x = t.cast(x, str(t.arg("dtype"))) if t.arg("dtype") else x
    order = t.arg("p", t.arg("ord", 2.0))
    if isinstance(order, str):
        raise t.unsupported(f"of the kind {order}")
    return norm_of(t, x, float(order), _axes(t, x), t.flag("keepdim"))


def norm_of_rest(t: Translation) -> Value:
    """Over all dimensions but one (norm_except_dim)."""
    v, axis = t.tensor("v"), t.integer("dim", 0)
    kept = -1 if axis == -1 else t.axis(axis, v.type.rank)  # -1: one norm of the whole tensor
    return norm_of(t, v, t.number("pow", 2), tuple(n for n in range(v.type.rank) if n != kept), kept >= 0)


def any_norm(t: Translation) -> Value:
    """linalg.norm and linalg.matrix_norm of the orders that are one sum: none given, or Frobenius."""
    x, order = t.floating(), t.arg("ord")
    axes = t.axes("dim", x.type.rank)
    if order is None or order == "fro" or len(axes) == 1:
        number = 2.0 if order is None or isinstance(order, str) else float(order)
        return norm_of(t, x, number, axes, t.flag("keepdim"))
    return norm_of_matrices(t, x, order, axes, t.flag("keepdim"))


def norm_of_matrices(t: Translation, x: Value, order: Any, axes: tuple[int, ...], keep: bool) -> Value:
    """The greatest or least sum of a column or row; of singular values the greatest, the least, or the sum ("nuc")."""
    if len(axes) != 2:
        raise error("E0109", f"{t.kind} of {len(axes)} dimensions")
    a = t.transpose(x, (*(n for n in range(x.type.rank) if n not in axes), *axes))
    end = "reduce_min" if order != "nuc" and order < 0 else "reduce_max"
    if order == "nuc" or abs(order) == 2:
        s = singular(t, a)[1]
        if s.shape[-1] == 0 and end == "reduce_max":  # of no singular value, the greatest is 0
            s = t.full((*s.shape[:-1], 1), 0, s.dtype)
        y = t.op("reduce_sum" if order == "nuc" else end, s, axes=(s.type.rank - 1,), keep_dims=False)
    elif abs(order) in (1, math.inf):
        summed = a.type.rank - (2 if abs(order) == 1 else 1)
        sums = t.op("reduce_sum", t.op("abs", a), axes=(summed,), keep_dims=False)
        y = t.op(end, sums, axes=(sums.type.rank - 1,), keep_dims=False)
    else:
        raise t.unsupported(f"of the order {order}")
    return t.reshape(y, [1 if n in axes else size for n, size in enumerate(x.shape)]) if keep else y


def log_sum_exp(t: Translation) -> Value:
    x = t.floating()
    axes, keep = _axes(t, x), t.flag("keepdim")
    high = reduced(t, "reduce_max", x, axes, True)
    finite = t.op("where", t.op("is_inf", high), t.scalar(0, x.dtype), high)
    summed = reduced(t, "reduce_sum", t.op("exp", t.op("sub", x, finite)), axes, keep)
    if not keep:
        finite = t.reshape(finite, [size for n, size in enumerate(x.shape) if n not in axes])
    return t.op("add", t.op("log", summed), finite)


def _running(operator: str) -> Translator:
    def translate(t: Translation) -> Value:
        x = _added(t)
        return t.op(operator, x, axis=t.dim()) if x.type.rank else x

    return translate


def log_cumulative(t: Translation) -> Value:
    x = t.floating()
    return x if not x.type.rank else running_log_sums(t, x, t.dim(), float("-inf"))


def count_nonzero(t: Translation) -> Value:
    x = t.cast(as_bool(t, t.tensor()), "int64")
    return reduced(t, "reduce_sum", x, _axes(t, x), False)


def distance(t: Translation) -> Value:
    """The norm of the difference of two tensors (dist)."""
    a, b = t.together(t.tensor("self"), t.tensor("other"), floats=True)
    gap = t.op("sub", a, b)
    return norm_of(t, gap, t.number("p", 2.0), tuple(range(gap.type.rank)), False)


def _named(function: Translator, *names: str) -> dict[str, Translator]:
    return {f"aten.{name}": function for name in names}


TRANSLATORS: dict[str, Translator] = {
    **_named(total, "sum.default", "sum.dim_IntList"), **_named(nan_total, "nansum.default"),
    **_named(mean, "mean.default", "mean.dim"), **_named(product, "prod.default", "prod.dim_int"),
    **_named(_extreme("reduce_max"), "amax.default", "max.default"),
    **_named(_extreme("reduce_min"), "amin.default", "min.default"),
    **_named(_extreme_and_place("reduce_max", "arg_max"), "max.dim"),
    **_named(_extreme_and_place("reduce_min", "arg_min"), "min.dim"),
    **_named(both_extremes, "aminmax.default", "_aminmax.default", "_aminmax.dim"),
    **_named(_place("arg_max"), "argmax.default"), **_named(_place("arg_min"), "argmin.default"),
    **_named(_truth("reduce_any"), "any.default", "any.dim", "any.dims", "_is_any_true.default"),
    **_named(_truth("reduce_all"), "all.default", "all.dim", "all.dims", "_is_all_true.default"),
    **_named(variance, "var.default", "var.dim", "var.correction"),
    **_named(deviation, "std.default", "std.dim", "std.correction"),
    **_named(variance_mean, "var_mean.default", "var_mean.dim", "var_mean.correction"),
    **_named(deviation_mean, "std_mean.default", "std_mean.dim", "std_mean.correction"),
    **_named(norm, "norm.Scalar", "norm.ScalarOpt_dim", "norm.ScalarOpt_dim_dtype", "norm.ScalarOpt_dtype",
             "native_norm.default", "native_norm.ScalarOpt_dim_dtype",
             "linalg_vector_norm.default"),
    **_named(norm_of_rest, "norm_except_dim.default"),
    **_named(any_norm, "linalg_norm.default", "linalg_norm.ord_str"),
    **_named(log_sum_exp, "logsumexp.default", "special_logsumexp.default"),
    **_named(_running("cumulative_sum"), "cumsum.default"), **_named(_running("cumulative_product"), "cumprod.default"),
    **_named(log_cumulative, "logcumsumexp.default"),
    **_named(count_nonzero, "count_nonzero.default", "count_nonzero.dim_IntList"),
    **_named(distance, "dist.default"),
}  # fmt: skip
