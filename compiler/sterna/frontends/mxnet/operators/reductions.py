"""Sums, means, norms and greatest elements over axes, and products of matrices."""

from __future__ import annotations

import math

from sterna.errors import error
from sterna.frontends.contractions import contracted
from sterna.frontends.mxnet.translation import Translation, Translator
from sterna.ir.graph import Value
from sterna.ir.integer import as_int

_TRUTHS = ("reduce_all", "reduce_any")
#: What one more element does to a result.
_JOINS = {"reduce_sum": "add", "reduce_prod": "mul", "reduce_max": "maximum", "reduce_min": "minimum"}


def _reduced(operator: str, *, clears_nan: bool = False) -> Translator:
    def translate(t: Translation) -> Value:
        x = t.input(0)
        if operator == "reduce_mean":
            x = t.floats(x)
        if clears_nan:
            x = t.op("where", t.op("is_nan", x), t.number(1 if operator == "reduce_prod" else 0, x), x)
        if t.said.has("dtype"):
            x = t.cast(x, t.dtype("float32"))
        axes = t.axes()
        keep = t.said.flag("keepdims")
        if operator in _TRUTHS:
            x = t.truth(x)
        elif x.dtype == "bool":
            x = t.cast(x, "int64")
        y = t.op(operator, x, axes=axes, keep_dims=keep) if axes else x
        if t.said.has("initial"):
            y = t.op(_JOINS[operator], y, t.number(t.said.number("initial"), y))
        # Before NumPy's shapes there were none without dimensions: [1].
        return t.reshape(y, [1]) if not (y.type.rank or t.is_numpy or t.kind.startswith("_np")) else y

    return translate


def norm(t: Translation) -> Value:
    x, order = t.floats(t.input(0)), t.said.integer("ord", 2)
    if order not in (1, 2):
        raise t.unsupported(f"of the order {order}")
    axes, keep = t.axes(), t.said.flag("keepdims")
    y = t.sum(t.op("abs", x) if order == 1 else t.op("mul", x, x), axes, keep)
    y = y if order == 1 else t.op("sqrt", y)
    return t.reshape(y, [1]) if not (y.type.rank or t.is_numpy or t.kind.startswith("_np")) else y


def moments(t: Translation) -> tuple[Value, Value]:
    x = t.input(0)
    axes = t.axes("axes")
    mean = t.mean(x, axes)
    difference = t.op("sub", x, mean)
    variance = t.mean(t.op("mul", difference, difference), axes)
    if not t.said.flag("keepdims"):
        shape = [size for n, size in enumerate(x.shape) if n not in axes] or [as_int(1)]
        mean, variance = t.reshape(mean, shape), t.reshape(variance, shape)
    return mean, variance


def variance(t: Translation) -> Value:
    x = t.floats(t.input(0))
    axes = t.axes()
    difference = t.op("sub", x, t.mean(x, axes))
    squares = t.op("mul", difference, difference)
    if less := t.said.integer("ddof", 0):
        count = math.prod(t.extent(x, n) for n in axes)
        if count <= less:
            raise error("E0109", f"{t.kind} of {count} elements with {less} degrees of freedom less")
        y = t.op("div", t.sum(squares, axes, t.said.flag("keepdims")), t.number(count - less, squares))
    else:
        y = t.mean(squares, axes, t.said.flag("keepdims"))
    return t.op("sqrt", y) if t.kind.endswith("std") else y


def _position(operator: str) -> Translator:
    def translate(t: Translation) -> Value:
        x = t.input(0)
        keep, is_new = t.said.flag("keepdims"), t.kind.startswith("_np")
        if t.kind == "argmax_channel":
            y = t.op(operator, x, axis=1, keep_dims=False, last=False)
        elif t.said.has("axis"):
            y = t.op(operator, x, axis=t.axis("axis"), keep_dims=keep, last=False)
        else:
            flat = t.reshape(x, [t.elements(x)])
            y = t.op(operator, flat, axis=0, keep_dims=not is_new, last=False)
        if y.type.rank == 0 and not (t.is_numpy or is_new):
            y = t.reshape(y, [1])
        return t.cast(y, "int64" if is_new else "float32")

    return translate


# ---------------------------------------------------------------- products
def turned(t: Translation, x: Value) -> Value:
    """The last two dimensions the other way around."""
    order = list(range(x.type.rank))
    order[-2:] = order[:-3:-1]
    return t.transpose(x, order)


def dot(t: Translation) -> Value:
    """The sum over the last dimension of the first operand and the first of the second; transposed, the other way."""
    a, b = t.input(0), t.input(1)
    if a.type.rank < 1 or b.type.rank < 1:
        return t.op("mul", a, b)
    # Here a transposed tensor of more dimensions has its first one last, or its last one first.
    if t.said.flag("transpose_a") and a.type.rank > 1:
        a = t.moved(a, 0, a.type.rank - 1)
    if t.said.flag("transpose_b") and b.type.rank > 1:
        b = t.moved(b, b.type.rank - 1, 0)
    inner, shape = a.shape[-1], [*a.shape[:-1], *b.shape[1:]]
    left, right = as_int(1), as_int(1)
    for size in a.shape[:-1]:
        left = left * size
    for size in b.shape[1:]:
        right = right * size
    y = t.op("matmul", t.reshape(a, [left, inner]), t.reshape(b, [b.shape[0], right]))
    return t.reshape(y, shape if shape or t.is_numpy or t.kind.startswith("_np") else [1])


def batch_dot(t: Translation) -> Value:
    a, b = t.input(0), t.input(1)
    if min(a.type.rank, b.type.rank) < 2:
        raise error("E0108", f"{t.kind} of {a.type} and {b.type}")
    a = turned(t, a) if t.said.flag("transpose_a") else a
    b = turned(t, b) if t.said.flag("transpose_b") else b
    y = t.op("matmul", a, b)
    factor = t.said.finite("alpha", 1.0)
    return y if factor == 1 else t.op("mul", y, t.number(factor, y))


def gemm(t: Translation) -> Value:
    """alpha A B + beta C."""
    if t.said.integer("axis", -2) != -2:
        raise t.unsupported("along another axis")
    y, c = batch_dot(t), t.input(2)
    factor = t.said.finite("beta", 1.0)
    return t.op("add", y, c if factor == 1 else t.op("mul", c, t.number(factor, c)))


def gemm2(t: Translation) -> Value:
    if t.said.integer("axis", -2) != -2:
        raise t.unsupported("along another axis")
    return batch_dot(t)


def syrk(t: Translation) -> Value:
    """alpha A A', or alpha A' A."""
    a = t.input(0)
    left, right = (turned(t, a), a) if t.said.flag("transpose") else (a, turned(t, a))
    y = t.op("matmul", left, right)
    factor = t.said.finite("alpha", 1.0)
    return y if factor == 1 else t.op("mul", y, t.number(factor, y))


def numpy_matmul(t: Translation) -> Value:
    a, b = t.input(0), t.input(1)
    if min(a.type.rank, b.type.rank) < 2:
        return numpy_dot(t)
    return t.op("matmul", a, b)


def numpy_dot(t: Translation) -> Value:
    """As NumPy's: of more than two dimensions the last and the last but one meet."""
    a, b = t.input(0), t.input(1)
    if b.type.rank > 2:
        return contracted(t, a, b, (a.type.rank - 1,), (b.type.rank - 2,))
    return dot(t)


_SUM, _MEAN, _MAX, _MIN, _PROD = (
    _reduced(f"reduce_{name}") for name in ("sum", "mean", "max", "min", "prod")
)  # fmt: skip
TRANSLATORS: dict[str, Translator] = {
    "_np_max": _MAX, "_np_min": _MIN, "_np_prod": _PROD, "_np_sum": _SUM, "_npi_mean": _MEAN, "_npi_argmax": _position(
        "arg_max"
    ), "_npi_argmin": _position("arg_min"), "_np_dot": numpy_dot, "_npi_matmul": numpy_matmul, "_npi_std": variance,
    "_npi_var": variance, "_npx_batch_dot": batch_dot, "argmax": _position("arg_max"), "argmax_channel": _position(
        "arg_max"
    ), "argmin": _position("arg_min"), "batch_dot": batch_dot, "dot": dot, "_linalg_gemm": gemm, "linalg_gemm": gemm,
    "_linalg_gemm2": gemm2, "linalg_gemm2": gemm2, "_linalg_syrk": syrk, "linalg_syrk": syrk, "max": _MAX,
    "max_axis": _MAX, "mean": _MEAN, "min": _MIN, "min_axis": _MIN, "moments": moments, "nanprod": _reduced(
        "reduce_prod", clears_nan=True
    ), "nansum": _reduced("reduce_sum", clears_nan=True), "norm": norm, "prod": _PROD, "sum": _SUM, "sum_axis": _SUM,
    "_np_all": _reduced("reduce_all"), "_np_any": _reduced("reduce_any"),
    "_square_sum": lambda t: t.sum(t.op("mul", t.input(0), t.input(0)), t.axes(), t.said.flag("keepdims")),
}  # fmt: skip
