"""Comparisons, tests and logic."""

from __future__ import annotations

from sterna.frontends.emitter import is_float
from sterna.frontends.pytorch.translation import Translation, Translator
from sterna.ir import dtypes
from sterna.ir.graph import Value


def _compared(operator: str, negated: bool = False) -> Translator:
    def translate(t: Translation) -> Value:
        a, b = t.together(t.operand("self"), t.operand("other"))
        if a.dtype == "bool" and operator != "equal":
            a, b = t.cast(a, "int32"), t.cast(b, "int32")
        found = t.op(operator, a, b)
        return t.op("logical_not", found) if negated else found

    return translate


def _logical(operator: str) -> Translator:
    def translate(t: Translation) -> Value:
        return t.op(operator, as_bool(t, t.tensor("self")), as_bool(t, t.tensor("other")))

    return translate


def as_bool(t: Translation, x: Value) -> Value:
    """Whether elements are not 0."""
    return x if x.dtype == "bool" else t.op("logical_not", t.op("equal", x, t.scalar(0, x.dtype)))


def logical_not(t: Translation) -> Value:
    return t.op("logical_not", as_bool(t, t.tensor()))


def _tested(operator: str, answer: bool = False, **attributes: bool) -> Translator:
    """A test of floats; of integers the answer is always the same."""

    def translate(t: Translation) -> Value:
        x = t.tensor()
        return t.op(operator, x, **attributes) if is_float(x) else t.full(x.shape, answer, "bool")

    return translate


def is_finite(t: Translation) -> Value:
    x = t.tensor()
    if not is_float(x):
        return t.full(x.shape, True, "bool")
    return t.op("logical_not", t.op("logical_or", t.op("is_nan", x), t.op("is_inf", x)))


def is_negative(t: Translation, x: Value) -> Value:
    """Of floats: whether the sign is set, that of -0.0 too; not of NaN."""
    zero = t.scalar(0, x.dtype)
    return t.op("logical_or", t.op("less", x, zero), t.op("less", t.op("div", t.scalar(1, x.dtype), x), zero))


def sign_bit(t: Translation) -> Value:
    x = t.tensor()
    if is_float(x):
        return is_negative(t, x)
    if dtypes.limits(x.dtype)[0] == 0:
        return t.full(x.shape, False, "bool")
    return t.op("less", x, t.scalar(0, x.dtype))


def is_close(t: Translation) -> Value:
    a, b = t.together(t.tensor("self"), t.tensor("other"), floats=True)
    gap = t.op("abs", t.op("sub", a, b))
    most = t.op("mul", t.op("abs", b), t.scalar(t.number("rtol", 1e-5), a.dtype))
    near = t.op("less_equal", gap, t.op("add", most, t.scalar(t.number("atol", 1e-8), a.dtype)))
    return t.op("logical_or", t.op("equal", a, b), t.op("logical_and", near, t.op("logical_not", t.op("is_inf", b))))


def is_in(t: Translation) -> Value:
    """Whether elements are among others."""
    a, b = t.together(t.operand("elements"), t.operand("test_elements"))
    row = t.reshape(b, (*(1 for _ in range(a.type.rank)), b.type.elements))
    same = t.op("equal", t.unsqueeze(a, a.type.rank), row)
    found = t.op("reduce_any", same, axes=(a.type.rank,), keep_dims=False)
    return t.op("logical_not", found) if t.flag("invert") else found


_COMPARISONS = {
    "eq": _compared("equal"), "ne": _compared("equal", True), "lt": _compared("less"), "le": _compared("less_equal"),
    "gt": _compared("greater"), "ge": _compared("greater_equal"),
}  # fmt: skip
_LONG = {"greater": "gt", "less": "lt", "greater_equal": "ge", "less_equal": "le", "not_equal": "ne"}

TRANSLATORS: dict[str, Translator] = {
    **{f"aten.{name}.{kind}": f for name, f in _COMPARISONS.items() for kind in ("Tensor", "Scalar")},
    **{f"aten.{name}.{kind}": _COMPARISONS[short] for name, short in _LONG.items() for kind in ("Tensor", "Scalar")},
    "aten.logical_and.default": _logical("logical_and"),
    "aten.logical_or.default": _logical("logical_or"),
    "aten.logical_xor.default": _logical("logical_xor"),
    "aten.logical_not.default": logical_not,
    "aten.isnan.default": _tested("is_nan"),
    "aten.isinf.default": _tested("is_inf"),
    "aten.isposinf.default": _tested("is_inf", negative=False),
    "aten.isneginf.default": _tested("is_inf", positive=False),
    "aten.isfinite.default": is_finite,
    "aten.signbit.default": sign_bit,
    "aten.isclose.default": is_close,
    "aten.isreal.default": lambda t: t.full(t.tensor().shape, True, "bool"),
    **{f"aten.isin.{name}": is_in for name in ("Tensor_Tensor", "Tensor_Scalar", "Scalar_Tensor")},
}
