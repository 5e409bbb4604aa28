"""Operations on every element: arithmetic, comparisons, activations."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sterna.frontends.coreml.mil.constants import TYPES
from sterna.frontends.coreml.mil.translation import Translation, Translator
from sterna.frontends.emitter import Emitter
from sterna.frontends.standard import standard
from sterna.ir import dtypes
from sterna.ir.graph import Value

_ONNX_UNARY = {
    "abs": "Abs", "acos": "Acos", "asin": "Asin", "atan": "Atan", "atanh": "Atanh", "ceil": "Ceil", "cos": "Cos",
    "cosh": "Cosh", "erf": "Erf", "exp": "Exp", "floor": "Floor", "logical_not": "Not", "relu": "Relu",
    "round": "Round", "sign": "Sign", "sigmoid": "Sigmoid", "sin": "Sin", "sinh": "Sinh", "softplus": "Softplus",
    "softsign": "Softsign", "sqrt": "Sqrt", "tan": "Tan", "tanh": "Tanh",
}  # fmt: skip
_ONNX_BINARY = {
    "add": "Add", "equal": "Equal", "greater": "Greater", "greater_equal": "GreaterOrEqual", "less": "Less",
    "less_equal": "LessOrEqual", "logical_and": "And", "logical_or": "Or", "logical_xor": "Xor", "maximum": "Max",
    "minimum": "Min", "mul": "Mul", "pow": "Pow", "real_div": "Div", "sub": "Sub",
}  # fmt: skip
_ORDER = ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32")


def agreed(t: Translation, x: Value, y: Value) -> tuple[Value, Value]:
    """Operands of one type, the wider of the two."""
    if x.dtype == y.dtype:
        return x, y
    wide = max(x.dtype, y.dtype, key=lambda dtype: _ORDER.index(dtype) if dtype in _ORDER else len(_ORDER))
    return t.cast(x, wide), t.cast(y, wide)


def _unary(operator: str) -> Translator:
    return lambda t: standard(t, operator, t.arg("x"))


def _binary(operator: str) -> Translator:
    return lambda t: standard(t, operator, *agreed(t, t.arg("x"), t.arg("y")))


def number(t: Translation, value: float, x: Value) -> Value:
    """A constant of the element type of `x`."""
    return t.scalar(value, x.dtype)


def _not_equal(t: Translation) -> Value:
    return standard(t, "Not", standard(t, "Equal", *agreed(t, t.arg("x"), t.arg("y"))))


def _mod(t: Translation) -> Value:
    """The sign is that of the divisor."""
    x, y = agreed(t, t.arg("x"), t.arg("y"))
    if not dtypes.is_float(x.dtype):
        return standard(t, "Mod", x, y)
    return t.op("sub", x, t.op("mul", standard(t, "Floor", t.op("div", x, y)), y))


def _floor_div(t: Translation) -> Value:
    x, y = agreed(t, t.arg("x"), t.arg("y"))
    if dtypes.is_float(x.dtype):
        return standard(t, "Floor", t.op("div", x, y))
    rest = standard(t, "Mod", x, y)
    return standard(t, "Div", t.op("sub", x, rest), y)


def _cast(t: Translation) -> Value:
    x, name = t.arg("x"), t.text("dtype")
    known = {"fp16": "float16", "fp32": "float32", "fp64": "float64", "half": "float16", "float": "float32"}
    wanted = known.get(name) or TYPES.get(name.upper().replace("FP", "FLOAT"))
    if wanted is None:
        raise t.unsupported(f"to {name}")
    return standard(t, "Cast", x, to=_ONNX_TYPES[wanted]) if wanted != x.dtype else x


_ONNX_TYPES = {
    "float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "bool": 9, "float16": 10,
    "float64": 11, "uint32": 12, "uint64": 13,
}  # fmt: skip


def _clip(t: Translation) -> Value:
    x = t.arg("x")
    return standard(t, "Clip", x, number(t, t.number("alpha"), x), number(t, t.number("beta"), x))


def _plus_epsilon(t: Translation, default: float) -> Value:
    x, epsilon = t.arg("x"), t.number("epsilon", default)
    return t.op("add", x, number(t, epsilon, x)) if epsilon else x


def _threshold(t: Translation) -> Value:
    x = t.arg("x")
    return t.op("maximum", x, number(t, t.number("alpha"), x))


def _linear(t: Translation) -> Value:
    x = t.arg("x")
    scaled = t.op("mul", x, number(t, t.number("alpha", 1.0), x))
    return t.op("add", scaled, number(t, t.number("beta", 0.0), x))


def _clamped(t: Translation) -> Value:
    x = t.arg("x")
    leaky = standard(t, "LeakyRelu", x, alpha=float(t.number("alpha")))
    return t.op("minimum", leaky, number(t, t.number("beta"), x))


def _scaled_tanh(t: Translation) -> Value:
    x = t.arg("x")
    inner = standard(t, "Tanh", t.op("mul", x, number(t, t.number("beta", 1.0), x)))
    return t.op("mul", inner, number(t, t.number("alpha", 1.0), x))


def _thresholded(t: Translation) -> Value:
    x = t.arg("x")
    low = number(t, t.number("alpha", 1.0), x)
    return t.op("where", t.op("less", x, low), number(t, 0.0, x), x)


def gelu(t: Emitter, x: Value, mode: str) -> Value:
    """Exact, or by an approximation."""
    if mode == "SIGMOID_APPROXIMATION":
        return t.op("mul", x, standard(t, "Sigmoid", t.op("mul", x, t.scalar(1.702, x.dtype))))
    return standard(t, "Gelu", x, approximate="tanh" if mode == "TANH_APPROXIMATION" else "none")


def per_channel(t: Translation, name: str, x: Value) -> Value:
    """A vector along the second dimension, or one number."""
    value = t.cast(t.arg(name), x.dtype)
    return t.reshape(value, (value.type.elements, *([1] * (x.type.rank - 2)))) if value.type.rank == 1 else value


def _parametric_softplus(t: Translation) -> Value:
    x = t.arg("x")
    inner = standard(t, "Softplus", t.op("mul", x, per_channel(t, "beta", x)))
    return t.op("mul", inner, per_channel(t, "alpha", x))


def _softmax(t: Translation) -> Value:
    return standard(t, "Softmax", t.arg("x"), axis=t.integer("axis", -1))


def _silu(t: Translation) -> Value:
    x = t.arg("x")
    return t.op("mul", x, standard(t, "Sigmoid", x))


def _select(t: Translation) -> Value:
    a, b = agreed(t, t.arg("a"), t.arg("b"))
    return standard(t, "Where", t.cast(t.arg("cond"), "bool"), a, b)


def _inverse(t: Translation) -> Value:
    return standard(t, "Reciprocal", _plus_epsilon(t, 1e-4))


def _rsqrt(t: Translation) -> Value:
    return standard(t, "Reciprocal", standard(t, "Sqrt", _plus_epsilon(t, 1e-12)))


def _exp2(t: Translation) -> Value:
    x = t.arg("x")
    return standard(t, "Pow", number(t, 2.0, x), x)


def _square(t: Translation) -> Value:
    return t.op("mul", t.arg("x"), t.arg("x"))


def _prelu(t: Translation) -> Value:
    return standard(t, "PRelu", t.arg("x"), per_channel(t, "alpha", t.arg("x")))


def _relu6(t: Translation) -> Value:
    return t.op("clip", t.arg("x"), min=0.0, max=6.0)


def _hard_sigmoid(t: Translation) -> Value:
    alpha, beta = float(np.float32(t.number("alpha", 0.2))), float(np.float32(t.number("beta", 0.5)))
    return standard(t, "HardSigmoid", t.arg("x"), alpha=alpha, beta=beta)


def _alpha(operator: str, default: float) -> Callable[[Translation], Value]:
    return lambda t: standard(t, operator, t.arg("x"), alpha=float(t.number("alpha", default)))


TRANSLATORS: dict[str, Translator] = {
    **{name: _unary(operator) for name, operator in _ONNX_UNARY.items()},
    **{name: _binary(operator) for name, operator in _ONNX_BINARY.items()},
    "cast": _cast,
    "clamped_relu": _clamped,
    "clip": _clip,
    "elu": _alpha("Elu", 1.0),
    "exp2": _exp2,
    "floor_div": _floor_div,
    "gelu": lambda t: gelu(t, t.arg("x"), t.text("mode", "EXACT")),
    "identity": lambda t: t.arg("x"),
    "inverse": _inverse,
    "leaky_relu": _alpha("LeakyRelu", 0.01),
    "linear_activation": _linear,
    "log": lambda t: standard(t, "Log", _plus_epsilon(t, 1e-45)),
    "mod": _mod,
    "not_equal": _not_equal,
    "prelu": _prelu,
    "relu6": _relu6,
    "rsqrt": _rsqrt,
    "scaled_tanh": _scaled_tanh,
    "select": _select,
    "sigmoid_hard": _hard_sigmoid,
    "silu": _silu,
    "softmax": _softmax,
    "softplus_parametric": _parametric_softplus,
    "square": _square,
    "threshold": _threshold,
    "thresholded_relu": _thresholded,
}
