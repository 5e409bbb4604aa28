"""Activation functions: element-wise, floats only unless said otherwise."""

from __future__ import annotations

import math
from typing import Any

from sterna.ops.elementwise import FLOATS, absolute, binary, unary
from sterna.ops.operator import Attribute, Case, Operator, case
from sterna.ops.types import NUMBERS, SIGNED_NUMBERS
from sterna.te import expr as E
from sterna.te.expr import Expr


def setting(name: str, doc: str, default: Any) -> Attribute:
    return Attribute(name, "float", doc, default)


def _exp(x: Expr) -> Expr:
    return E.unary("exp", x)


def _clip(x: Expr, min: float | None, max: float | None) -> Expr:
    low = x if min is None else E.maximum(x, min)
    return low if max is None else E.minimum(low, max)


def softplus(x: Expr) -> Expr:
    # exp never overflows this way.
    return E.maximum(x, 0.0) + E.unary("log1p", _exp(-absolute(x)))


def _mish(x: Expr) -> Expr:
    # tanh(log(1 + e)) is ((1 + e)^2 - 1) / ((1 + e)^2 + 1), which is 1 from here on, before the square overflows.
    e = _exp(E.minimum(x, 5.0 if x.dtype == "float16" else 20.0))
    n = e * (e + 2.0)
    return x * (n / (n + 2.0))


def _gelu(x: Expr, approximate: str) -> Expr:
    if approximate == "tanh":
        return 0.5 * x * (1.0 + E.unary("tanh", math.sqrt(2.0 / math.pi) * (x + 0.044715 * x * x * x)))
    return 0.5 * x * (1.0 + E.unary("erf", x * math.sqrt(0.5)))


def _celu(x: Expr, alpha: float) -> Expr:
    return E.maximum(x, 0.0) + E.minimum(alpha * E.unary("expm1", E.minimum(x, 0.0) / alpha), 0.0)


def _selu(x: Expr, alpha: float, gamma: float) -> Expr:
    return gamma * E.select(x > 0.0, x, alpha * E.unary("expm1", E.minimum(x, 0.0)))


def elu(x: Expr, alpha: float) -> Expr:
    return E.select(x < 0.0, alpha * E.unary("expm1", E.minimum(x, 0.0)), x)


def _shrink(x: Expr, bias: float, lambd: float) -> Expr:
    return E.select(x < -lambd, x + bias, E.select(x > lambd, x - bias, 0))


def _hard_sigmoid(x: Expr, alpha: float, beta: float) -> Expr:
    return E.maximum(E.minimum(alpha * x + beta, 1.0), 0.0)


OPERATORS: tuple[Operator, ...] = (
    unary("relu", "max(x, 0); NaN stays NaN", lambda x: E.maximum(x, 0), SIGNED_NUMBERS, onnx="Relu"),
    unary(
        "clip",
        "x kept between two constants; a bound left out does not bind",
        _clip,
        NUMBERS,
        attributes=(setting("min", "lower bound or None", None), setting("max", "upper bound or None", None)),
        cases=(case(("float32", (3, 4)), min=0.0, max=6.0, high=9.0), case(("int8", (9,)), min=-1, max=2)),
    ),
    unary(
        "leaky_relu",
        "x where positive, else alpha x",
        lambda x, alpha: E.select(x < 0.0, alpha * x, x),
        onnx="LeakyRelu",
        attributes=(setting("alpha", "slope below 0", 0.01),),
    ),
    binary(
        "prelu",
        "x where positive, else slope x",
        lambda x, slope: E.select(x < 0, slope * x, x),
        onnx="PRelu",
        cases=(case(("float32", (2, 3, 4)), ("float32", (3, 1))),),
    ),
    unary(
        "elu",
        "x where positive, else alpha (exp(x) - 1)",
        elu,
        onnx="Elu",
        attributes=(setting("alpha", "limit below 0, negated", 1.0),),
    ),
    unary(
        "celu",
        "max(0, x) + min(0, alpha (exp(x / alpha) - 1))",
        _celu,
        onnx="Celu",
        attributes=(setting("alpha", "the smoothness", 1.0),),
    ),
    unary(
        "selu",
        "gamma x where positive, else gamma alpha (exp(x) - 1)",
        _selu,
        onnx="Selu",
        attributes=(setting("alpha", "", 1.67326319217681884765625), setting("gamma", "", 1.05070102214813232421875)),
    ),
    unary(
        "thresholded_relu",
        "x where above alpha, else 0",
        lambda x, alpha: E.select(x > alpha, x, 0.0),
        onnx="ThresholdedRelu",
        attributes=(setting("alpha", "the threshold", 1.0),),
    ),
    unary(
        "shrink",
        "x moved by bias toward 0, 0 between -lambd and lambd",
        _shrink,
        onnx="Shrink",
        attributes=(setting("bias", "", 0.0), setting("lambd", "", 0.5)),
    ),
    unary(
        "hard_sigmoid",
        "max(0, min(1, alpha x + beta))",
        _hard_sigmoid,
        onnx="HardSigmoid",
        attributes=(setting("alpha", "", 0.2), setting("beta", "", 0.5)),
        low=-6.0,
        high=6.0,
    ),
    unary(
        "hard_swish",
        "x max(0, min(1, x / 6 + 1 / 2))",
        lambda x: x * _hard_sigmoid(x, 1 / 6, 0.5),
        onnx="HardSwish",
        low=-6.0,
        high=6.0,
    ),
    unary("softplus", "log(1 + exp(x))", softplus, onnx="Softplus", low=-9.0, high=9.0),
    unary("softsign", "x / (1 + |x|)", lambda x: x / (1.0 + absolute(x)), onnx="Softsign"),
    unary("mish", "x tanh(log(1 + exp(x)))", _mish, onnx="Mish"),
    unary(
        "gelu",
        "x times the normal distribution's cumulative probability of x",
        _gelu,
        onnx="Gelu",
        attributes=(Attribute("approximate", "string", "exact, or by tanh", "none", ("none", "tanh")),),
        cases=(Case((("float32", (9,)),), {"approximate": "tanh"}),),
    ),
)

__all__ = ["FLOATS", "OPERATORS"]
