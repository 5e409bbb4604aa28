"""Tensors that are made of numbers."""

from __future__ import annotations

import math

import numpy as np

from sterna.frontends.pytorch.promotion import float_type, number_type, result_type
from sterna.frontends.pytorch.translation import Translation, Translator
from sterna.ir import dtypes
from sterna.ir.division import ceil_div
from sterna.ir.graph import Value
from sterna.ir.integer import as_int
from sterna.ir.limits import check_table


def _filled(value: float) -> Translator:
    def translate(t: Translation) -> Value:
        return t.full(t.sizes_of("size"), value, t.scalar_type("float32"))

    return translate


def _filled_like(value: float) -> Translator:
    def translate(t: Translation) -> Value:
        x = t.tensor()
        return t.full(x.shape, value, t.scalar_type(x.dtype))

    return translate


def _new_filled(value: float) -> Translator:
    def translate(t: Translation) -> Value:
        return t.full(t.sizes_of("size"), value, t.scalar_type(t.tensor().dtype))

    return translate


def full(t: Translation) -> Value:
    value = t.operand("fill_value")
    return t.full(
        t.sizes_of("size"), value, t.scalar_type(value.dtype if isinstance(value, Value) else number_type(value))
    )


def full_like(t: Translation) -> Value:
    x = t.tensor()
    return t.full(x.shape, t.operand("fill_value"), t.scalar_type(x.dtype))


def new_full(t: Translation) -> Value:
    return t.full(t.sizes_of("size"), t.operand("fill_value"), t.scalar_type(t.tensor().dtype))


def arange(t: Translation) -> Value:
    start, end, step = (
        t.size_from(given) if isinstance(given, Value) and given in t.shared.expressions else given
        for given in (t.arg("start", 0), t.arg("end", 0), t.arg("step", 1))
    )
    dtype = t.scalar_type(result_type((start, end, step)))
    if any(isinstance(n, Value) and n.contents is None and n.data is None for n in (start, end, step)):
        raise t.unsupported("with limits that are computed from the data")
    # Whole numbers may stand beside open sizes, whatever type they are given in.
    start, end, step = (
        int(given) if isinstance(given, float) and given.is_integer() else given for given in (start, end, step)
    )
    if any(isinstance(n, float) for n in (start, end, step)):
        first, last, stride = (
            t.number(name, default) for name, default in (("start", 0.0), ("end", 0.0), ("step", 1.0))
        )
        count = max(math.ceil((last - first) / stride), 0)
        if dtypes.is_integer(dtype):  # counts as many, of whole numbers
            first, stride = int(first), int(stride)
        values = t.op("mul", t.cast(t.counting(count), "float64"), t.scalar(stride, "float64"))
        values = t.op("add", values, t.scalar(first, "float64"))
        return t.cast(t.cast(values, "int64") if dtypes.is_integer(dtype) else values, dtype)  # -4 is 252 in 8 bits
    low, high, stride_ = (t.size_from(n) for n in (start, end, step))
    by = int(stride_)
    count_ = ceil_div(high - low, by) if by > 0 else ceil_div(low - high, -by)
    if count_.is_const:
        count_ = as_int(max(int(count_), 0))
    values = t.counting(count_)
    if by != 1:
        values = t.op("mul", values, t.scalar(by, "int64"))
    if low != 0:
        values = t.op("add", values, t.as_value(low))
    return t.cast(values, dtype)


def _is_known(t: Translation, *names: str) -> bool:
    found = (t.arg(name) for name in names)
    return not any(isinstance(each, Value) and each.data is None and each.contents is None for each in found)


def _between(t: Translation, dtype: str) -> Value:
    """Numbers of equal distance from `start` to `end`, which the data may decide, for a result of a type: ends of
    integers are whole (`_ends`)."""
    steps = t.integer("steps")
    check_table(steps)
    whole = dtype if dtypes.is_integer(dtype) else ""
    kind = float_type(dtype)
    start, end = (t.cast(t.as_value(t.operand(name), whole or kind), kind) for name in ("start", "end"))
    # As PyTorch does it, one half from the start and the other from the end: whole numbers come out whole.
    step = t.op("div", t.op("sub", end, start), t.scalar(max(steps - 1, 1), kind))
    number = np.arange(steps)
    up = t.op("add", start, t.op("mul", step, t.constant(number, kind)))
    down = t.op("sub", end, t.op("mul", step, t.constant(number[::-1], kind)))
    return t.op("where", t.constant(number < max(steps // 2, 1), "bool"), up, down)


def linspace(t: Translation) -> Value:
    dtype = t.scalar_type("float32")
    if not _is_known(t, "start", "end"):
        return t.cast(_between(t, dtype), dtype)
    check_table(t.integer("steps"))
    return t.constant(np.linspace(*_ends(t, dtype), t.integer("steps")).astype(dtypes.to_numpy(dtype)))


def _ends(t: Translation, dtype: str) -> tuple[float, float]:
    """The first and the last number, as the type of the result has them: whole ones where it is one of integers."""
    start, end = t.number("start"), t.number("end")
    return (math.trunc(start), math.trunc(end)) if dtypes.is_integer(dtype) else (start, end)


def logspace(t: Translation) -> Value:
    dtype, base = t.scalar_type("float32"), t.number("base", 10.0)
    if not _is_known(t, "start", "end"):
        powers = _between(t, dtype)
        return t.cast(t.op("pow", t.scalar(base, powers.dtype), powers), dtype)
    steps = t.integer("steps")
    check_table(steps)
    return t.constant(np.logspace(*_ends(t, dtype), steps, base=base), dtype)


def eye(t: Translation) -> Value:
    rows = t.size_from(t.arg("n"))
    columns = t.size_from(t.arg("m", rows))
    same = t.op("equal", t.reshape(t.counting(rows), (rows, 1)), t.reshape(t.counting(columns), (1, columns)))
    return t.cast(same, t.scalar_type("float32"))


def scalar_tensor(t: Translation) -> Value:
    value = t.operand("s")
    return t.as_value(value, t.scalar_type("float32"))


def triangle_indices(upper: bool) -> Translator:
    def translate(t: Translation) -> Value:
        rows, columns, offset = t.integer("row"), t.integer("col"), t.integer("offset", 0)
        check_table(rows, columns)
        found = (np.triu_indices if upper else np.tril_indices)(rows, offset, columns)
        return t.constant(np.stack(found), "int64")

    return translate


def window(kind: str) -> Translator:
    """hann_window, hamming_window, blackman_window, bartlett_window."""

    def translate(t: Translation) -> Value:
        size = t.integer("window_length")
        check_table(size)
        whole = size if t.flag("periodic", True) else size - 1
        n = np.arange(size) * (2 * math.pi / max(whole, 1))
        if kind == "hann":
            values = 0.5 - 0.5 * np.cos(n)
        elif kind == "hamming":
            alpha = t.number("alpha", 0.54)
            values = alpha - t.number("beta", 0.46) * np.cos(n)
        elif kind == "blackman":
            values = 0.42 - 0.5 * np.cos(n) + 0.08 * np.cos(2 * n)
        else:
            values = 1 - np.abs(2 * np.arange(size) / max(whole, 1) - 1)
        return t.constant(values if size > 1 else np.ones(size), t.scalar_type("float32"))

    return translate


def one_hot(t: Translation) -> Value:
    x, classes = t.tensor(), t.integer("num_classes", -1)
    if classes < 0:
        raise t.unsupported("without num_classes", "say how many classes there are")
    same = t.op("equal", t.unsqueeze(x, x.type.rank), t.constant(list(range(classes)), x.dtype))
    return t.cast(same, "int64")


def _named(function: Translator, *names: str) -> dict[str, Translator]:
    return {f"aten.{name}": function for name in names}


#: What is random in training is refused where it is used; memory that is not filled may hold anything, as zeros.
TRANSLATORS: dict[str, Translator] = {
    **_named(_filled(0), "zeros.default", "empty.memory_format", "empty_strided.default", "empty_permuted.default",
             "zeros.names", "_efficientzerotensor.default"),
    **_named(_filled(1), "ones.default"),
    **_named(_filled_like(0), "zeros_like.default", "empty_like.default"),
    **_named(_filled_like(1), "ones_like.default"),
    **_named(_new_filled(0), "new_zeros.default", "new_empty.default", "new_empty_strided.default"),
    **_named(_new_filled(1), "new_ones.default"),
    **_named(full, "full.default"), **_named(full_like, "full_like.default"), **_named(new_full, "new_full.default"),
    **_named(arange, "arange.default", "arange.start", "arange.start_step"),
    **_named(linspace, "linspace.default", "linspace.Tensor_Tensor",
             "linspace.Tensor_Scalar", "linspace.Scalar_Tensor"),
    **_named(logspace, "logspace.default", "logspace.Tensor_Tensor", "logspace.Tensor_Scalar",
             "logspace.Scalar_Tensor"),
    **_named(eye, "eye.default", "eye.m"), **_named(scalar_tensor, "scalar_tensor.default"),
    **_named(triangle_indices(False), "tril_indices.default"), **_named(triangle_indices(True), "triu_indices.default"),
    **{f"aten.{kind}_window.{overload}": window(kind) for kind in ("hann", "hamming", "blackman", "bartlett")
       for overload in ("default", "periodic", "periodic_alpha", "periodic_alpha_beta")},
    **_named(one_hot, "one_hot.default"),
}  # fmt: skip
