"""Activation functions (torch.nn.functional)."""

from __future__ import annotations

from sterna.frontends.emitter import is_float
from sterna.frontends.pytorch.translation import Translation, Translator
from sterna.ir import dtypes
from sterna.ir.graph import Value


def _plain(operator: str) -> Translator:
    return lambda t: t.op(operator, t.floating())


def relu(t: Translation) -> Value:
    x = t.tensor()
    return t.op("relu", x) if is_float(x) or dtypes.is_signed(x.dtype) else x


def relu6(t: Translation) -> Value:
    return t.op("clip", t.tensor(), min=0.0, max=6.0)


def hardtanh(t: Translation) -> Value:
    return t.op("clip", t.tensor(), min=t.number("min_val", -1.0), max=t.number("max_val", 1.0))


def gelu(t: Translation) -> Value:
    return t.op("gelu", t.tensor(), approximate=str(t.arg("approximate", "none")))


def silu(t: Translation) -> Value:
    x = t.tensor()
    return t.op("mul", x, t.op("sigmoid", x))


def elu(t: Translation) -> Value:
    """scale * (x, where positive; alpha * (exp(input_scale * x) - 1))."""
    x = t.tensor()
    alpha, scale, inner = (t.number(name, 1.0) for name in ("alpha", "scale", "input_scale"))
    if scale == 1 and inner == 1:
        return t.op("elu", x, alpha=alpha)
    wide = t.op("mul", x, t.scalar(inner, x.dtype)) if inner != 1 else x
    below = t.op("mul", t.op("expm1", wide), t.scalar(alpha, x.dtype))
    y = t.op("where", t.op("greater", x, t.scalar(0, x.dtype)), x, below)
    return t.op("mul", y, t.scalar(scale, x.dtype)) if scale != 1 else y


def leaky_relu(t: Translation) -> Value:
    return t.op("leaky_relu", t.tensor(), alpha=t.number("negative_slope", 0.01))


def prelu(t: Translation) -> Value:
    x, slope = t.tensor("self"), t.tensor("weight")
    if slope.type.rank == 1 and x.type.rank > 1:
        slope = t.reshape(slope, (1, slope.shape[0], *(1 for _ in range(x.type.rank - 2))))
    return t.op("prelu", x, slope)


def celu(t: Translation) -> Value:
    return t.op("celu", t.tensor(), alpha=t.number("alpha", 1.0))


def hard_sigmoid(t: Translation) -> Value:
    return t.op("hard_sigmoid", t.tensor(), alpha=1 / 6, beta=0.5)


def log_sigmoid(t: Translation) -> Value:
    return t.op("neg", t.op("softplus", t.op("neg", t.tensor())))


def softplus(t: Translation) -> Value:
    """log(1 + exp(beta * x)) / beta; the same as x beyond the threshold."""
    x, beta = t.tensor(), t.number("beta", 1)
    wide = t.op("mul", x, t.scalar(beta, x.dtype)) if beta != 1 else x
    y = t.op("softplus", wide)
    y = t.op("div", y, t.scalar(beta, x.dtype)) if beta != 1 else y
    return t.op("where", t.op("greater", wide, t.scalar(t.number("threshold", 20), x.dtype)), x, y)


def softshrink(t: Translation) -> Value:
    amount = t.number("lambd", 0.5)
    return t.op("shrink", t.tensor(), bias=amount, lambd=amount)


def hardshrink(t: Translation) -> Value:
    return t.op("shrink", t.tensor(), bias=0.0, lambd=t.number("lambd", 0.5))


def threshold(t: Translation) -> Value:
    x = t.tensor()
    above = t.op("greater", x, t.as_value(t.operand("threshold"), x.dtype))
    return t.op("where", above, x, t.as_value(t.operand("value"), x.dtype))


def glu(t: Translation) -> Value:
    x = t.tensor()
    axis = t.dim(default=-1)
    half = t.extent(x, axis) // 2
    return t.op("mul", t.cut(x, axis, 0, half), t.op("sigmoid", t.cut(x, axis, half, half)))


def rrelu(t: Translation) -> Value:
    if t.flag("training"):
        raise t.unsupported("in training", "export the module after model.eval()")
    # Outside training the middle of the range is the slope.
    slope = (t.number("lower", 0.125) + t.number("upper", 1 / 3)) / 2
    return t.op("leaky_relu", t.tensor(), alpha=slope)


def _softmax(operator: str) -> Translator:
    def translate(t: Translation) -> Value:
        x = t.tensor()
        x = t.cast(x, str(t.arg("dtype"))) if t.arg("dtype") else t.floating()
        if not x.type.rank:
            return t.reshape(t.op(operator, t.reshape(x, (1,)), axis=0), ())
        return t.op(operator, x, axis=t.dim())

    return translate


def safe_softmax(t: Translation) -> Value:
    """Rows of which nothing is seen are 0."""
    x = t.floating()
    axis = t.dim()
    seen = t.op("greater", t.op("reduce_max", x, axes=(axis,), keep_dims=True), t.scalar(float("-inf"), x.dtype))
    y = t.op("softmax", t.op("where", seen, x, t.scalar(0, x.dtype)), axis=axis)
    return t.op("where", seen, y, t.scalar(0, x.dtype))


TRANSLATORS: dict[str, Translator] = {
    **{
        f"aten.{name}.default": function
        for name, function in {
            "relu": relu, "relu6": relu6, "hardtanh": hardtanh, "gelu": gelu, "silu": silu, "elu": elu,
            "sigmoid": _plain("sigmoid"), "special_expit": _plain("sigmoid"), "tanh": _plain("tanh"),
            "leaky_relu": leaky_relu, "prelu": prelu, "_prelu_kernel": prelu, "celu": celu, "mish": _plain("mish"),
            "selu": lambda t: t.op("selu", t.tensor()), "hardswish": _plain("hard_swish"),
            "hardsigmoid": hard_sigmoid, "log_sigmoid": log_sigmoid, "softplus": softplus,
            "log_sigmoid_forward": lambda t: (log_sigmoid(t), t.tensor()), "softshrink": softshrink,
            "hardshrink": hardshrink, "threshold": threshold, "glu": glu, "rrelu": rrelu,
            "rrelu_with_noise": rrelu,
            "_softmax": _softmax("softmax"), "_log_softmax": _softmax("log_softmax"), "_safe_softmax": safe_softmax,
            "softsign": _plain("softsign"),
        }.items()
    },
    "aten.softmax.int": _softmax("softmax"), "aten.log_softmax.int": _softmax("log_softmax"),
    "aten.special_softmax.int": _softmax("softmax"), "aten.special_log_softmax.int": _softmax("log_softmax"),
}  # fmt: skip
