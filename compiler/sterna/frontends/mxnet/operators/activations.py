"""Activation functions and softmax."""

from __future__ import annotations

from sterna.errors import error
from sterna.frontends.mxnet.operators.layers import rows
from sterna.frontends.mxnet.translation import Translation, Translator
from sterna.ir.graph import Value

_FUNCTIONS = {
    "relu": "relu", "sigmoid": "sigmoid", "tanh": "tanh", "softrelu": "softplus", "softsign": "softsign",
    "mish": "mish",
}  # fmt: skip


def _activated(t: Translation, x: Value, name: str) -> Value:
    if name == "log_sigmoid":  # -log(1 + exp(-x))
        return t.op("neg", t.op("softplus", t.op("neg", x)))
    if name not in _FUNCTIONS:
        raise t.unsupported(f"of the kind {name[:30]}")
    return t.op(_FUNCTIONS[name], x)


def activation(t: Translation) -> Value:
    return _activated(t, t.input(0), t.said.text("act_type"))


def leaky(t: Translation) -> Value | tuple[Value, Value]:
    """All kinds of LeakyReLU; the random slope of `rrelu` is its mean in inference, and its second result, the slopes
    that were drawn, is 0."""
    x, kind = t.input(0), t.said.text("act_type", "leaky")
    slope = t.said.finite("slope", 0.25)
    if kind == "prelu":
        gamma = t.input(1)
        if x.type.rank > 1 and gamma.type.rank == 1:
            gamma = t.along(gamma, 1, x.type.rank)
        return t.op("prelu", x, gamma)
    if kind == "rrelu":
        low, high = t.said.finite("lower_bound", 0.125), t.said.finite("upper_bound", 0.334)
        y = t.op("leaky_relu", x, alpha=(low + high) / 2)
        return (y, t.op("expand", t.number(0, x), shape=x.shape)) if t.asked > 1 else y
    if kind == "leaky":
        return t.op("leaky_relu", x, alpha=slope)
    if kind == "elu":
        return t.op("elu", x, alpha=slope)
    if kind == "selu":
        return t.op("selu", x)
    if kind == "gelu":
        return t.op("gelu", x)
    if kind in ("gelu_erf", "gelu_tanh"):
        return t.op("gelu", x, approximate="tanh" if kind == "gelu_tanh" else "none")
    raise t.unsupported(f"of the kind {kind[:30]}")


def scaled(t: Translation) -> Value:
    """The first operand over the temperature."""
    x = t.floats(t.input(0), t.dtype("float32"))
    heat = t.said.finite("temperature", 1.0)
    if heat == 0:
        raise error("E0109", f"{t.kind} of the temperature 0")
    return x if heat == 1 else t.op("div", x, t.number(heat, x))


def _typed(t: Translation, y: Value) -> Value:
    return t.cast(y, t.dtype("float32")) if t.said.has("dtype") else y


def _lengths(t: Translation, x: Value, axis: int, length: Value) -> Value:
    """Whether each element is among the first of its row."""
    places = t.along(t.counting(x.shape[axis]), axis, x.type.rank)
    return t.op("less", places, t.spread(t.integral(length), axis))


def softmax(t: Translation) -> Value:
    """Elements beyond the length of a row (`use_length`) are 0."""
    x = scaled(t)
    axis = t.axis("axis", -1)
    if t.kind.endswith("softmin"):
        x = t.op("neg", x)
    if not (t.said.flag("use_length") and t.has(1)):
        return _typed(t, t.op("softmax", x, axis=axis))
    inside = _lengths(t, x, axis, t.input(1))
    low = t.number(-1e30 if x.dtype != "float16" else -6e4, x)
    y = t.op("softmax", t.op("where", inside, x, low), axis=axis)
    return _typed(t, t.op("where", inside, y, t.number(0, y)))


def log_softmax(t: Translation) -> Value:
    if t.said.flag("use_length"):
        raise t.unsupported("with lengths")
    return _typed(t, t.op("log_softmax", scaled(t), axis=t.axis("axis", -1)))


def masked_softmax(t: Translation) -> Value:
    """Where the mask is 0, so is the result."""
    x = scaled(t)
    mask = t.truth(t.input(1))
    low = t.number(-1e30 if x.dtype != "float16" else -6e4, x)
    y = t.op("softmax", t.op("where", mask, x, low), axis=t.axis("axis", -1))
    return t.op("where", mask, y, t.number(0, y))


def softmax_activation(t: Translation) -> Value:
    x = t.input(0)
    if t.said.choice("mode", "instance", "instance", "channel") == "channel":
        return t.op("softmax", x, axis=1)
    return t.reshape(t.op("softmax", rows(t, x), axis=1), x.shape)


def softmax_output(t: Translation) -> Value:
    x = t.input(0)
    if t.said.flag("multi_output"):
        return t.op("softmax", x, axis=1)
    if t.said.flag("preserve_shape"):
        return t.op("softmax", x, axis=x.type.rank - 1)
    return t.reshape(t.op("softmax", rows(t, x), axis=1), x.shape)


def hard_sigmoid(t: Translation) -> Value:
    return t.op(
        "hard_sigmoid", t.input(0), alpha=t.said.finite("alpha", 0.2), beta=t.said.finite("beta", 0.5)
    )  # fmt: skip


def same(t: Translation) -> Value:
    return t.op("identity", t.input(0))


def logistic(t: Translation) -> Value:
    return t.op("sigmoid", t.input(0))


def _unary(name: str) -> Translator:
    return lambda t: _activated(t, t.floats(t.input(0)), name)


TRANSLATORS: dict[str, Translator] = {
    "Activation": activation,
    "LeakyReLU": leaky,
    "LinearRegressionOutput": same,
    "LogisticRegressionOutput": logistic,
    "MAERegressionOutput": same,
    "SVMOutput": same,
    "Softmax": softmax_output,
    "SoftmaxActivation": softmax_activation,
    "SoftmaxOutput": softmax_output,
    "_npx_activation": activation,
    "_npx_leaky_relu": leaky,
    "_npx_log_softmax": log_softmax,
    "_npx_masked_softmax": masked_softmax,
    "_npx_relu": _unary("relu"),
    "_npx_sigmoid": _unary("sigmoid"),
    "_npx_softmax": softmax,
    "hard_sigmoid": hard_sigmoid,
    "log_sigmoid": _unary("log_sigmoid"),
    "log_softmax": log_softmax,
    "masked_softmax": masked_softmax,
    "mish": _unary("mish"),
    "relu": _unary("relu"),
    "sigmoid": _unary("sigmoid"),
    "softmax": softmax,
    "softmin": softmax,
    "softsign": _unary("softsign"),
}
