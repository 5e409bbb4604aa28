"""Elementwise operators, reductions and products of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from sterna.errors import error
from sterna.frontends import special, special_integrals
from sterna.frontends.angles import arc_tangent
from sterna.frontends.emitter import axes_of, is_float
from sterna.frontends.incomplete_gamma import incomplete_gamma
from sterna.frontends.log_sums import running_log_sums
from sterna.frontends.standard import standard
from sterna.frontends.tensorflow.translation import Item, Translation, Translator
from sterna.ir import dtypes
from sterna.ir.graph import Value
from sterna.ops.types import broadcast

#: Operators that are a core operator as they stand.
_SAME = {
    "Abs": "abs", "Acos": "acos", "Acosh": "acosh", "Add": "add", "AddV2": "add", "Asin": "asin", "Asinh": "asinh",
    "Atan": "atan", "Atanh": "atanh", "BitwiseAnd": "bitwise_and", "BitwiseOr": "bitwise_or",
    "BitwiseXor": "bitwise_xor",
    "Ceil": "ceil", "Cos": "cos", "Cosh": "cosh", "Div": "div", "Equal": "equal", "Erf": "erf", "Exp": "exp",
    "Expm1": "expm1", "Log1p": "log1p", "Floor": "floor", "Greater": "greater", "GreaterEqual": "greater_equal",
    "Inv": "reciprocal", "Invert": "bitwise_not", "IsNan": "is_nan",
    "Less": "less", "LessEqual": "less_equal", "Log": "log", "LogicalAnd": "logical_and",
    "LogicalNot": "logical_not", "LogicalOr": "logical_or", "Maximum": "maximum", "Minimum": "minimum", "Mul": "mul",
    "Neg": "neg", "Pow": "pow", "RealDiv": "div", "Reciprocal": "reciprocal", "Relu": "relu", "Rint": "round",
    "Round": "round", "Sigmoid": "sigmoid", "Sin": "sin", "Sinh": "sinh", "Sqrt": "sqrt", "Sub": "sub", "Tan": "tan",
    "Tanh": "tanh", "TruncateDiv": "div", "Mod": "fmod", "TruncateMod": "fmod", "Elu": "elu", "Selu": "selu",
}  # fmt: skip
_REDUCTIONS = {
    "All": "reduce_all", "Any": "reduce_any", "Max": "reduce_max", "Mean": "reduce_mean", "Min": "reduce_min",
    "Prod": "reduce_prod", "Sum": "reduce_sum",
}  # fmt: skip
_BY_STANDARD = {"Softplus": "Softplus", "Softsign": "Softsign", "Sign": "Sign"}


def _same(operator: str) -> Translator:
    def translate(t: Translation) -> Value:
        operands = [t.input(n) for n in range(len(t.inputs))]
        if operator in ("round", "floor", "ceil") and not is_float(operands[0]):
            return operands[0]
        if operator == "fmod":
            return _remainder(t, truncated=True)
        return t.op(operator, *operands)

    return translate


def _standard(operator: str) -> Translator:
    return lambda t: standard(t, operator, *(t.input(n) for n in range(len(t.inputs))))


def _remainder(t: Translation, truncated: bool) -> Value:
    a, b = t.input(0), t.input(1)
    return t.op("fmod" if is_float(a) else "mod", a, b, truncated=truncated)


def floor_div(t: Translation) -> Value:
    a, b = t.input(0), t.input(1)
    if is_float(a):
        return t.op("floor", t.op("div", a, b))
    quotient = t.op("div", a, b)
    if dtypes.limits(a.dtype)[0] == 0:
        return quotient
    # Integers truncate; where there is a rest and the signs differ, the quotient lies one lower.
    rest = t.op("mod", a, b, truncated=False)
    truncated = t.op("sub", a, t.op("mul", quotient, b))
    return t.op("sub", quotient, t.cast(t.op("logical_not", t.op("equal", rest, truncated)), a.dtype))


def not_equal(t: Translation) -> Value:
    return t.op("logical_not", t.op("equal", t.input(0), t.input(1)))


def squared_difference(t: Translation) -> Value:
    d = t.op("sub", t.input(0), t.input(1))
    return t.op("mul", d, d)


def square(t: Translation) -> Value:
    return t.op("mul", t.input(0), t.input(0))


def rsqrt(t: Translation) -> Value:
    return t.op("reciprocal", t.op("sqrt", t.input(0)))


def erfc(t: Translation) -> Value:
    x = t.input(0)
    return t.op("sub", t.scalar(1, x.dtype), t.op("erf", x))


def _where_zero(test: int, build: Any) -> Translator:
    """0 where an operand is 0, else what `build` makes."""

    def translate(t: Translation) -> Value:
        operand = t.input(test)
        zero = t.scalar(0, operand.dtype)
        return t.op("where", t.op("equal", operand, zero), zero, build(t))

    return translate


def is_finite(t: Translation) -> Value:
    x = t.input(0)
    wrong = t.op("logical_or", t.op("is_nan", x), t.op("is_inf", x, negative=True, positive=True))
    return t.op("logical_not", wrong)


def add_n(t: Translation) -> Value:
    y = t.input(0)
    for n in range(1, len(t.inputs)):
        y = t.op("add", y, t.input(n))
    return y


def cast(t: Translation) -> Value:
    x, to = t.input(0), t.dtype("DstT")
    if to == "bool" and x.dtype != "bool":
        return t.op("logical_not", t.op("equal", x, t.scalar(0, x.dtype)))
    return t.cast(x, to)


def clip_by_value(t: Translation) -> Value:
    return t.op("minimum", t.op("maximum", t.input(0), t.input(1)), t.input(2))


def relu6(t: Translation) -> Value:
    return t.op("clip", t.input(0), min=0.0, max=6.0)


def leaky_relu(t: Translation) -> Value:
    return t.op("leaky_relu", t.input(0), alpha=float(t.option("alpha", 0.2)))


def softmax(t: Translation) -> Value:
    return t.op("softmax", t.input(0), axis=-1 % t.input(0).type.rank)


def log_softmax(t: Translation) -> Value:
    return t.op("log_softmax", t.input(0), axis=-1 % t.input(0).type.rank)


def atan2(t: Translation) -> Value:
    return arc_tangent(t, t.input(0), t.input(1))


def _incomplete_gamma(upper: bool) -> Translator:
    def translate(t: Translation) -> Value:
        shape = broadcast([t.input(0).shape, t.input(1).shape])
        a, x = (v if v.shape == shape else t.op("expand", v, shape=shape) for v in (t.input(0), t.input(1)))
        return incomplete_gamma(t, a, x, upper)

    return translate


def incomplete_beta(t: Translation) -> Value:
    shape = broadcast([t.input(n).shape for n in range(3)])
    a, b, x = (v if v.shape == shape else t.op("expand", v, shape=shape) for v in map(t.input, range(3)))
    return special_integrals.incomplete_beta(t, a, b, x)


def next_after(t: Translation) -> Value:
    """The next float towards another one."""
    return special.next_after(t, t.input(0), t.input(1))


# ---------------------------------------------------------------- reductions
def _reduction(operator: str) -> Translator:
    def translate(t: Translation) -> Value:
        x = t.input(0)
        axes = axes_of(t.integers(1, "axes"), x.type.rank)
        if not axes:
            return x
        if operator == "reduce_mean" and not is_float(x):
            total = t.op("reduce_sum", x, axes=tuple(sorted(set(axes))), keep_dims=bool(t.option("keep_dims", False)))
            count = int(np.prod([t.extent(x, a) for a in set(axes)]))
            return t.op("div", total, t.scalar(count, x.dtype))
        return t.op(operator, x, axes=tuple(sorted(set(axes))), keep_dims=bool(t.option("keep_dims", False)))

    return translate


def euclidean_norm(t: Translation) -> Value:
    x = t.input(0)
    squares = t.op("mul", x, x)
    return t.op("sqrt", _reduction("reduce_sum")(t.again(squares, t.item(1))))  # type: ignore[arg-type]


def _arg(operator: str) -> Translator:
    def translate(t: Translation) -> Value:
        (axis,) = axes_of((t.integer_of(1, "an axis") if t.has(1) else 0,), t.input(0).type.rank)
        return t.cast(t.op(operator, t.input(0), axis=axis, keep_dims=False), t.result().kind)

    return translate


def approximately_equal(t: Translation) -> Value:
    distance = t.op("abs", t.op("sub", t.input(0), t.input(1)))
    return t.op("less", distance, t.scalar(t.option("tolerance", 1e-5), distance.dtype))


def _cumulative(operator: str) -> Translator:
    def translate(t: Translation) -> Value:
        (axis,) = axes_of((t.integer_of(1, "an axis"),), t.input(0).type.rank)
        settings = {name: bool(t.option(name, False)) for name in ("exclusive", "reverse")}
        return t.op(operator, t.input(0), axis=axis, **settings)

    return translate


def cumulative_log_sum(t: Translation) -> Value:
    """CumulativeLogsumexp; TensorFlow takes the least number for the logarithm of nothing."""
    x = t.input(0)
    (axis,) = axes_of((t.integer_of(1, "an axis"),), x.type.rank)
    settings = {name: bool(t.option(name, False)) for name in ("exclusive", "reverse")}
    return running_log_sums(t, x, axis, float(np.finfo(dtypes.to_numpy(x.dtype)).min), **settings)


def l2_loss(t: Translation) -> Value:
    x = t.input(0)
    total = t.op("reduce_sum", t.op("mul", x, x), axes=tuple(range(x.type.rank)), keep_dims=False)
    return t.op("mul", total, t.scalar(0.5, x.dtype))


# ---------------------------------------------------------------- products
def _turned(t: Translation, position: int, *names: str) -> Value:
    x = t.input(position)
    if not any(t.option(name, False) for name in names):
        return x
    return t.transpose(x, (*range(x.type.rank - 2), x.type.rank - 1, x.type.rank - 2))


def matmul(t: Translation) -> Value:
    a, b = _turned(t, 0, "transpose_a", "adj_x"), _turned(t, 1, "transpose_b", "adj_y")
    if min(a.type.rank, b.type.rank) < 2:
        raise error("E0108", f"{t.kind} takes matrices, not {a.type} and {b.type}")
    return t.op("matmul", a, b)


def einsum(t: Translation) -> Value:
    operands = [t.input(n) for n in range(len(t.inputs))]
    return standard(t, "Einsum", *operands, equation=str(t.option("equation", "")))


def bias_add(t: Translation) -> Value:
    x, bias = t.input(0), t.input(1)
    if t.first and t.kind != "BiasAddV1" and x.type.rank > 2:
        bias = t.reshape(bias, (*bias.shape, *(1,) * (x.type.rank - 2)))
    return t.op("add", x, bias)


def prelu(t: Translation) -> Value:
    x, slope = t.input(0), t.input(1)
    return t.op("where", t.op("less", x, t.scalar(0, x.dtype)), t.op("mul", x, slope), x)


def per_channel(t: Translation, x: Value, v: Value) -> Value:
    return t.reshape(v, (*v.shape, *(1,) * (x.type.rank - 2))) if t.first else v


def normalized(t: Translation, x: Value, scale: Value, offset: Value, mean: Value, variance: Value) -> Value:
    """(x - mean) / sqrt(variance + epsilon) * scale + offset."""
    epsilon = t.scalar(float(t.option("epsilon", 1e-4)), variance.dtype)
    factor = t.op("reciprocal", t.op("sqrt", t.op("add", variance, epsilon)))
    if t.kind != "BatchNormWithGlobalNormalization" or t.option("scale_after_normalization", False):
        factor = t.op("mul", factor, scale)
    moved = t.op("sub", offset, t.op("mul", mean, factor))
    dtype = x.dtype
    wide = t.cast(x, variance.dtype)
    y = t.op("add", t.op("mul", wide, per_channel(t, x, factor)), per_channel(t, x, moved))
    return t.cast(y, dtype)


def fused_tail(t: Translation, y: Value, first: int = 2) -> Value:
    """What a fused operator of TensorFlow.js or Grappler does after its product: bias, batch norm, activation."""
    position = first
    names = t.option("fused_ops", ())
    for name in names:
        if name == "BiasAdd":
            y = bias_add(t.again(y, t.item(position)))
            position += 1
        elif name == "FusedBatchNorm":
            y = normalized(t, y, *(t.input(position + n) for n in range(4)))
            position += 4
        elif name == "Prelu":
            y = prelu(t.again(y, t.item(len(t.items) - 1)))
        elif name in ("LeakyRelu", "LeakyReLU"):
            y = t.op("leaky_relu", y, alpha=float(t.option("leakyrelu_alpha", 0.2)))
        elif name in ("GeluExact", "GeluApproximate"):
            y = t.op("gelu", y, approximate="tanh" if name == "GeluApproximate" else "none")
        elif name == "_FusedHardSwish":
            y = t.op("hard_swish", y)
        elif name in TRANSLATORS:
            y = TRANSLATORS[name](t.again(y))  # type: ignore[assignment]
        else:
            raise t.unsupported(f"with {name}")
    return y


def fused_matmul(t: Translation) -> Value:
    return fused_tail(t, matmul(t))


# ---------------------------------------------------------------- what is handed on
def identity(t: Translation) -> Item:
    return t.item(0)


def identities(t: Translation) -> tuple[Item, ...]:
    return t.items


def assertion(t: Translation) -> tuple[Item, ...]:
    """Nothing: assertions give no result."""
    return ()


def random_uniform(t: Translation) -> Value:
    """Numbers of the seed that the node has, the same at every run; TensorFlow's own differ at every run."""
    seed = int(t.option("seed", 0)) ^ int(t.option("seed2", 0))
    x = t.op("random_uniform", shape=tuple(t.dims(0, "sizes")), seed=seed & 0x7FFFFFFF)
    return t.cast(x, t.dtype("dtype"))


def random_normal(t: Translation) -> Value:
    """Box and Muller's transformation of uniform numbers."""
    seed = (int(t.option("seed", 0)) ^ int(t.option("seed2", 0))) & 0x3FFFFFFF
    shape = tuple(t.dims(0, "sizes"))
    u, v = (t.op("random_uniform", shape=shape, seed=seed * 2 + n) for n in range(2))
    length = t.op("log", t.op("sub", t.scalar(1, "float32"), u))
    length = t.op("sqrt", t.op("mul", t.scalar(-2, "float32"), length))
    angle = t.op("cos", t.op("mul", v, t.scalar(2 * np.pi, "float32")))
    return t.cast(t.op("mul", length, angle), t.dtype("dtype"))


def _special(function: special.Function) -> Translator:
    return lambda t: function(t, t.input(0))


_SPECIAL: dict[str, special.Function] = {
    "BesselI0": special.grown("bessel_i0e"), "BesselI0e": special.core("bessel_i0e"),
    "BesselI1": special.grown("bessel_i1e"), "BesselI1e": special.core("bessel_i1e"),
    **{f"Bessel{name}": special.core(f"bessel_{name.lower()}") for name in ("J0", "J1", "Y0", "Y1")},
    **{f"Bessel{name}": special.decayed(f"bessel_{name.lower()}e") for name in ("K0", "K1")},
    **{f"Bessel{name}e": special.core(f"bessel_{name.lower()}e") for name in ("K0", "K1")},
    "Dawsn": special_integrals.dawson, "Expint": special_integrals.exponential_integral,
    "FresnelCos": lambda t, x: special_integrals.fresnel(t, x, False),
    "FresnelSin": lambda t, x: special_integrals.fresnel(t, x, True), "Spence": special_integrals.spence,
    "Digamma": special.core("digamma"), "Erfinv": special.core("erfinv"), "Lgamma": special.core("lgamma"),
    "Ndtri": special.core("ndtri"),
}  # fmt: skip

TRANSLATORS: dict[str, Translator] = {
    **{name: _same(operator) for name, operator in _SAME.items()},
    **{name: _standard(operator) for name, operator in _BY_STANDARD.items()},
    **{name: _reduction(operator) for name, operator in _REDUCTIONS.items()},
    "AccumulateNV2": add_n, "AddN": add_n, "ApproximateEqual": approximately_equal, "GuaranteeConst": identity,
    "ArgMax": _arg("arg_max"), "ArgMin": _arg("arg_min"), "Assert": assertion,
    "Atan2": atan2, "RefIdentity": identity, "SparseMatMul": matmul,
    "VarIsInitializedOp": lambda t: t.constant(True, "bool"),
    "BatchMatMul": matmul, "BatchMatMulV2": matmul, "BatchMatMulV3": matmul, "BiasAdd": bias_add,
    "BiasAddV1": bias_add, "Cast": cast, "CheckNumerics": identity, "ClipByValue": clip_by_value,
    "CumulativeLogsumexp": cumulative_log_sum,
    "Cumprod": _cumulative("cumulative_product"), "Cumsum": _cumulative("cumulative_sum"),
    "Betainc": incomplete_beta, "CheckNumericsV2": identity, "NextAfter": next_after, "Print": identity,
    "CustomAggregator": identity, "Igamma": _incomplete_gamma(False), "Igammac": _incomplete_gamma(True),
    "DisableCopyOnRead": assertion, "Einsum": einsum, "EnsureShape": identity, "Erfc": erfc,
    "EuclideanNorm": euclidean_norm, "FloorDiv": floor_div,
    "FloorMod": lambda t: _remainder(t, truncated=False), "Identity": identity, "IdentityN": identities,
    "IsFinite": is_finite, "IsInf": lambda t: t.op("is_inf", t.input(0), negative=True, positive=True),
    "L2Loss": l2_loss, "LeakyRelu": leaky_relu, "LogSoftmax": log_softmax, "MatMul": matmul,
    "NoOp": assertion, "NotEqual": not_equal, "PlaceholderWithDefault": identity, "Prelu": prelu,
    "PreventGradient": identity, "RandomStandardNormal": random_normal, "RandomUniform": random_uniform,
    "Relu6": relu6, "Rsqrt": rsqrt, "Snapshot": identity, "Softmax": softmax, "Square": square,
    "SquaredDifference": squared_difference, "StopGradient": identity, "_FusedMatMul": fused_matmul,
    "DivNoNan": _where_zero(1, lambda t: t.op("div", t.input(0), t.input(1))),
    "MulNoNan": _where_zero(1, lambda t: t.op("mul", t.input(0), t.input(1))),
    **{name: _special(function) for name, function in _SPECIAL.items()},
    "Polygamma": lambda t: special.polygamma(t, t.input(0), t.input(1)),
    "Zeta": lambda t: t.op("zeta", t.input(0), t.input(1)),
    "Xdivy": _where_zero(0, lambda t: t.op("div", t.input(0), t.input(1))),
    "Xlogy": _where_zero(0, lambda t: t.op("mul", t.input(0), t.op("log", t.input(1)))),
    "Xlog1py": _where_zero(0, lambda t: t.op("mul", t.input(0), t.op("log1p", t.item(1)))),
}  # fmt: skip
