"""Arithmetic, element by element."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sterna.frontends.emitter import is_float
from sterna.frontends.pytorch.promotion import Operand, result_type
from sterna.frontends.pytorch.translation import Translation, Translator
from sterna.frontends.standard import standard
from sterna.ir import dtypes
from sterna.ir.graph import Value

Unary = Callable[[Translation], Value]


def _scaled(t: Translation, name: str = "alpha") -> Operand:
    """The second operand, times alpha."""
    other, alpha = t.operand("other"), t.arg(name, 1)
    if alpha == 1:
        return other
    if isinstance(other, Value):
        if other.dtype == "bool":
            other = t.cast(other, "int64" if isinstance(alpha, int) else "float32")
        return t.op("mul", other, t.as_value(alpha, other.dtype if not _lifts(alpha, other) else "float32"))
    product: Operand = other * alpha
    return product


def _lifts(number: object, value: Value) -> bool:
    return isinstance(number, float) and not is_float(value)


def plus(t: Translation, a: Value, b: Value) -> Value:
    """The sum of two of one type; of truth values, whether one is true."""
    return t.op("logical_or" if a.dtype == "bool" else "add", a, b)


def times(t: Translation, a: Value, b: Value) -> Value:
    """The product of two of one type; of truth values, whether both are true."""
    return t.op("logical_and" if a.dtype == "bool" else "mul", a, b)


def add(t: Translation) -> Value:
    return plus(t, *t.together(t.operand("self"), _scaled(t)))


def sub(t: Translation) -> Value:
    return t.op("sub", *t.together(t.operand("self"), _scaled(t)))


def rsub(t: Translation) -> Value:
    own, alpha = t.operand("self"), t.arg("alpha", 1)
    a, b = t.together(own, t.operand("other"))
    return t.op("sub", b, t.op("mul", a, t.as_value(alpha, a.dtype)) if alpha != 1 else a)


def mul(t: Translation) -> Value:
    return times(t, *t.together(t.operand("self"), t.operand("other")))


def floor_quotient(t: Translation, a: Value, b: Value) -> Value:
    """floor(a / b), of integers too."""
    if is_float(a):
        return t.op("floor", t.op("div", a, b))
    return t.op("div", t.op("sub", a, t.op("mod", a, b)), b)


def truncated(t: Translation, x: Value) -> Value:
    """x without its fraction."""
    if not is_float(x):
        return x
    return t.op("where", t.op("less", x, t.scalar(0, x.dtype)), t.op("ceil", x), t.op("floor", x))


def div(t: Translation) -> Value:
    mode = t.arg("rounding_mode", "")
    a, b = t.together(t.operand("self"), t.operand("other"), floats=not mode)
    if a.dtype == "bool":
        a, b = t.cast(a, "int64"), t.cast(b, "int64")
    if mode == "floor":
        return floor_quotient(t, a, b)
    if mode == "trunc":
        return truncated(t, t.op("div", a, b)) if is_float(a) else t.op("div", a, b)
    return t.op("div", a, b)


def floor_divide(t: Translation) -> Value:
    return floor_quotient(t, *t.together(t.operand("self"), t.operand("other")))


def remainder(t: Translation) -> Value:
    """Of the sign of the divisor."""
    a, b = t.together(t.operand("self"), t.operand("other"))
    if not is_float(a):
        return t.op("mod", a, b)
    return t.op("fmod", a, b)


def fmod(t: Translation) -> Value:
    """Of the sign of the dividend."""
    a, b = t.together(t.operand("self"), t.operand("other"))
    return t.op("fmod" if is_float(a) else "mod", a, b, truncated=True)


def power(t: Translation) -> Value:
    base, exponent = t.operand("self"), t.operand("exponent")
    if isinstance(base, Value) and isinstance(exponent, (int, float)) and not isinstance(exponent, bool):
        x = t.cast(base, result_type((base, exponent)))
        if exponent == 2:
            return t.op("mul", x, x)
        if exponent == 3:
            return t.op("mul", t.op("mul", x, x), x)
        if exponent == 1:
            return x
        if is_float(x) and exponent == 0.5:
            return t.op("sqrt", x)
        if is_float(x) and exponent == -0.5:
            return t.op("reciprocal", t.op("sqrt", x))
        if is_float(x) and exponent == -1:
            return t.op("reciprocal", x)
    a, b = t.together(base, exponent)
    return standard(t, "Pow", a, b)


def extreme_of(t: Translation, operator: str, a: Value, b: Value) -> Value:
    """The larger ("maximum") or smaller ("minimum") of two of one type; true is larger than false."""
    if a.dtype == "bool":
        return t.op("logical_or" if operator == "maximum" else "logical_and", a, b)
    return t.op(operator, a, b)


def extremum(operator: str) -> Translator:
    """The larger or smaller of two; where one is not a number, neither is the result."""
    return lambda t: extreme_of(t, operator, *t.together(t.operand("self"), t.operand("other")))


def numeric_extremum(operator: str) -> Translator:
    """The larger or smaller of two that is a number (fmax, fmin)."""

    def translate(t: Translation) -> Value:
        a, b = t.together(t.operand("self"), t.operand("other"))
        if not is_float(a):
            return extreme_of(t, operator, a, b)
        found = t.op("where", t.op("is_nan", b), a, t.op(operator, a, b))
        return t.op("where", t.op("is_nan", a), t.expand(b, t.broadcast(a, b)), found)

    return translate


def clamp(t: Translation) -> Value:
    """Both limits, or one; each a number or a tensor."""
    low, high = t.arg("min"), t.arg("max")
    given = [each for each in (low, high) if each is not None]
    dtype = result_type([t.tensor("self"), *given])
    x = t.cast(t.tensor("self"), dtype)
    if is_float(x) and all(isinstance(each, (int, float)) for each in given) and given:
        limits = {key: float(v) for key, v in (("min", low), ("max", high)) if v is not None}
        return t.op("clip", x, **limits)
    if low is not None:
        x = extreme_of(t, "maximum", x, t.as_value(low, dtype))
    return x if high is None else extreme_of(t, "minimum", x, t.as_value(high, dtype))


def clamp_one(name: str, operator: str) -> Translator:
    return lambda t: extreme_of(t, operator, *t.together(t.tensor("self"), t.operand(name)))


def unary(operator: str, floats: bool = False) -> Unary:
    """A core operator of one tensor; `floats`: integers become floats first."""

    def translate(t: Translation) -> Value:
        return t.op(operator, t.floating() if floats else t.tensor())

    return translate


def rounding(operator: str) -> Unary:
    """Rounds floats; integers stay what they are."""

    def translate(t: Translation) -> Value:
        x = t.tensor()
        return t.op(operator, x) if is_float(x) else x

    return translate


def round_decimals(t: Translation) -> Value:
    x, places = t.floating(), t.integer("decimals", 0)
    factor = t.scalar(10.0 ** abs(places), x.dtype)
    if not places:
        return t.op("round", x)
    there, back = ("mul", "div") if places > 0 else ("div", "mul")
    return t.op(back, t.op("round", t.op(there, x, factor)), factor)


def absolute(t: Translation) -> Value:
    x = t.tensor()
    return x if x.dtype == "bool" else t.op("abs", x)


def negative(t: Translation) -> Value:
    x = t.tensor()
    return t.op("neg", x) if is_float(x) or x.dtype.startswith("int") else t.op("sub", t.scalar(0, x.dtype), x)


def sign(t: Translation) -> Value:
    x = t.tensor()
    if x.dtype == "bool":
        return x
    if x.dtype.startswith("uint"):
        return t.cast(t.op("greater", x, t.scalar(0, x.dtype)), x.dtype)
    return t.op("sign", x)


def square(t: Translation) -> Value:
    x = t.tensor()
    x = t.cast(x, "int64") if x.dtype == "bool" else x
    return t.op("mul", x, x)


def reciprocal_root(t: Translation) -> Value:
    return t.op("reciprocal", t.op("sqrt", t.floating()))


def fraction(t: Translation) -> Value:
    x = t.tensor()
    return t.op("sub", x, truncated(t, x))


def product_sum(operator: str) -> Translator:
    """self + value * tensor1 (* or /) tensor2."""

    def translate(t: Translation) -> Value:
        dtype = result_type([t.tensor("self"), t.tensor("tensor1"), t.tensor("tensor2")])
        x, a, b = (t.cast(t.tensor(name), dtype) for name in ("self", "tensor1", "tensor2"))
        value = t.arg("value", 1)
        both = t.op(operator, a, b)
        return t.op("add", x, both if value == 1 else t.op("mul", both, t.as_value(value, dtype)))

    return translate


def lerp(t: Translation) -> Value:
    a, b = t.together(t.tensor("self"), t.tensor("end"))
    weight = t.as_value(t.operand("weight"), a.dtype)
    return t.op("add", a, t.op("mul", weight, t.op("sub", b, a)))


def where(t: Translation) -> Value:
    a, b = t.together(t.operand("self"), t.operand("other"))
    return t.op("where", t.cast(t.tensor("condition"), "bool"), a, b)


def masked_fill(t: Translation) -> Value:
    x = t.tensor()
    value = t.as_value(t.operand("value"), x.dtype)
    mask = t.cast(t.tensor("mask"), "bool")
    return t.op("where", mask, value, t.expand(x, t.broadcast(x, mask)))


def nan_to_num(t: Translation) -> Value:
    x = t.tensor()
    if not is_float(x):
        return x
    least = float(np.finfo(np.float32 if x.dtype == "bfloat16" else dtypes.to_numpy(x.dtype)).min)
    zero = t.scalar(0, x.dtype)
    for test, value, sign_ in (
        (None, t.arg("nan", 0.0), 0),
        (1, t.arg("posinf", -least), 1),
        (-1, t.arg("neginf", least), -1),
    ):
        if test is None:
            found = t.op("is_nan", x)
        else:
            side = t.op("greater" if sign_ > 0 else "less", x, zero)
            found = t.op("logical_and", t.op("is_inf", x), side)
        x = t.op("where", found, t.scalar(float(value), x.dtype), x)
    return x


def converted(t: Translation) -> Value:
    """Into the element type that `dtype` names."""
    return t.cast(t.tensor(), t.scalar_type(t.tensor().dtype))


def converted_as(name: str) -> Translator:
    return lambda t: t.cast(t.tensor(), t.tensor(name).dtype)


def same(t: Translation) -> Value:
    """The operand as it is."""
    return t.tensor(t.given())


def dropout(t: Translation) -> Value:
    if t.flag("train") and t.number("p", 0.5) > 0:
        raise t.unsupported("in training", "export the module after model.eval()")
    return same(t)


def bitwise(operator: str, logical: str) -> Translator:
    def translate(t: Translation) -> Value:
        a, b = t.together(t.operand("self"), t.operand("other"))
        return t.op(logical if a.dtype == "bool" else operator, a, b)

    return translate


def bitwise_not(t: Translation) -> Value:
    x = t.tensor()
    return t.op("logical_not" if x.dtype == "bool" else "bitwise_not", x)


def shift(direction: str) -> Translator:
    def translate(t: Translation) -> Value:
        a, b = t.together(t.operand("self"), t.operand("other"))
        return t.op("bit_shift", a, b, direction=direction)

    return translate


def copy(t: Translation) -> Value:
    x = t.tensor("self")
    return t.expand(t.cast(t.tensor("src"), x.dtype), x.shape)


def fill(t: Translation) -> Value:
    x = t.tensor("self")
    return t.full(x.shape, t.arg("value", 0), x.dtype)


def _each(function: Translator, *names: str) -> dict[str, Translator]:
    return dict.fromkeys(names, function)


_PAIR = ("Tensor", "Scalar")


def _pairs(function: Translator, *names: str) -> dict[str, Translator]:
    return {f"aten.{name}.{overload}": function for name in names for overload in _PAIR}


_UNARY: dict[str, Unary] = {
    "exp": unary("exp", True), "log": unary("log", True), "sqrt": unary("sqrt", True), "sin": unary("sin", True),
    "cos": unary("cos", True), "tan": unary("tan", True), "asin": unary("asin", True), "acos": unary("acos", True),
    "atan": unary("atan", True), "sinh": unary("sinh", True), "cosh": unary("cosh", True),
    "asinh": unary("asinh", True), "acosh": unary("acosh", True), "atanh": unary("atanh", True),
    "erf": unary("erf", True), "special_erf": unary("erf", True), "reciprocal": unary("reciprocal", True),
    "floor": rounding("floor"), "ceil": rounding("ceil"), "round": rounding("round"), "abs": absolute,
    "neg": negative, "sign": sign, "sgn": sign, "square": square, "rsqrt": reciprocal_root, "frac": fraction,
    "trunc": lambda t: truncated(t, t.tensor()), "fix": lambda t: truncated(t, t.tensor()),
    "positive": same, "absolute": absolute, "negative": negative, "arctan": unary("atan", True),
    "arcsin": unary("asin", True), "arccos": unary("acos", True), "arctanh": unary("atanh", True),
}  # fmt: skip

TRANSLATORS: dict[str, Translator] = {
    **{f"aten.{name}.default": function for name, function in _UNARY.items()},
    **_pairs(add, "add"), **_pairs(sub, "sub", "subtract"), **_pairs(rsub, "rsub"), **_pairs(mul, "mul", "multiply"),
    **_pairs(div, "div", "divide", "true_divide"),
    **_each(div, *(f"aten.{name}.{overload}_mode" for name in ("div", "divide") for overload in _PAIR)),
    **_pairs(remainder, "remainder"), **_pairs(fmod, "fmod"),
    **_each(floor_divide, "aten.floor_divide.default", "aten.floor_divide.Scalar"),
    **_each(remainder, "aten.remainder.Scalar_Tensor"),
    **_each(power, "aten.pow.Tensor_Tensor", "aten.pow.Tensor_Scalar", "aten.pow.Scalar"),
    **_each(extremum("maximum"), "aten.maximum.default", "aten.max.other"),
    **_each(extremum("minimum"), "aten.minimum.default", "aten.min.other"),
    "aten.fmax.default": numeric_extremum("maximum"), "aten.fmin.default": numeric_extremum("minimum"),
    **_each(clamp, "aten.clamp.default", "aten.clamp.Tensor", "aten.clip.default", "aten.clip.Tensor"),
    **_each(clamp_one("min", "maximum"), "aten.clamp_min.default", "aten.clamp_min.Tensor"),
    **_each(clamp_one("max", "minimum"), "aten.clamp_max.default", "aten.clamp_max.Tensor"),
    "aten.round.decimals": round_decimals,
    "aten.addcmul.default": product_sum("mul"), "aten.addcdiv.default": product_sum("div"),
    **_each(lerp, "aten.lerp.Scalar", "aten.lerp.Tensor"),
    **_each(where, "aten.where.self", "aten.where.ScalarOther", "aten.where.ScalarSelf", "aten.where.Scalar"),
    **_each(masked_fill, "aten.masked_fill.Scalar", "aten.masked_fill.Tensor"),
    "aten.nan_to_num.default": nan_to_num,
    **_each(converted, "aten.to.dtype", "aten.to.dtype_layout", "aten.to.device", "aten._to_copy.default",
            "prims.convert_element_type.default", "aten._cast.default"),
    "aten.type_as.default": converted_as("other"), "aten.to.other": converted_as("other"),
    **_each(same, "aten.clone.default", "aten.contiguous.default", "aten.alias.default", "aten.detach.default",
            "aten.lift_fresh_copy.default", "aten.lift_fresh.default", "aten.lift.default", "aten.detach_copy.default",
            "aten.alias_copy.default", "aten.to.prim_Device", "aten.conj.default", "aten.resolve_conj.default",
            "aten.resolve_neg.default", "aten.cpu.default", "aten.requires_grad.default", "aten._conj.default",
            "aten.conj_physical.default", "aten._conj_physical.default"),
    **_each(dropout, "aten.dropout.default", "aten.feature_dropout.default", "aten.alpha_dropout.default",
            "aten.feature_alpha_dropout.default"),
    **_pairs(bitwise("bitwise_and", "logical_and"), "bitwise_and", "__and__"),
    "aten.bitwise_and.Scalar_Tensor": bitwise("bitwise_and", "logical_and"),
    **_pairs(bitwise("bitwise_or", "logical_or"), "bitwise_or", "__or__"),
    "aten.bitwise_or.Scalar_Tensor": bitwise("bitwise_or", "logical_or"),
    **_pairs(bitwise("bitwise_xor", "logical_xor"), "bitwise_xor", "__xor__"),
    "aten.bitwise_xor.Scalar_Tensor": bitwise("bitwise_xor", "logical_xor"),
    "aten.bitwise_not.default": bitwise_not,
    **_each(shift("LEFT"), "aten.bitwise_left_shift.Tensor", "aten.bitwise_left_shift.Tensor_Scalar",
            "aten.__lshift__.Scalar", "aten.__lshift__.Tensor", "aten.bitwise_left_shift.Scalar_Tensor"),
    **_each(shift("RIGHT"), "aten.bitwise_right_shift.Tensor", "aten.bitwise_right_shift.Tensor_Scalar",
            "aten.__rshift__.Scalar", "aten.__rshift__.Tensor", "aten.bitwise_right_shift.Scalar_Tensor"),
    "aten.copy.default": copy, "aten.zero.default": fill,
    **_each(fill, "aten.fill.Scalar", "aten.fill.Tensor"),
}  # fmt: skip
