"""Activation functions (keras.activations), by name and as layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sterna.errors import error
from sterna.frontends.custom import how_to_register
from sterna.frontends.keras.config import layer_of
from sterna.frontends.keras.stores import snake_case
from sterna.frontends.keras.translation import Translation, Translator
from sterna.ir.graph import Value

Function = Callable[[Translation, Value], Value]


def relu(t: Translation, x: Value, slope: float = 0.0, most: float | None = None, threshold: float = 0.0) -> Value:
    """x from the threshold on, up to `most`; below it slope * (x - threshold)."""
    if threshold == 0.0:
        y = t.op("leaky_relu", x, alpha=slope) if slope else t.op("relu", x)
    else:
        low = t.scaled(t.shifted(x, -threshold), slope) if slope else t.scalar(0.0, x.dtype)
        y = t.op("where", t.op("greater_equal", x, t.scalar(threshold, x.dtype)), x, low)
    return y if most is None else t.op("minimum", y, t.scalar(most, y.dtype))


def _hard_sigmoid(t: Translation, x: Value) -> Value:
    """clip(x / 6 + 1 / 2) since version 3, clip(x / 5 + 1 / 2) before."""
    alpha = 1.0 / 6.0 if t.context.major >= 3 else 0.2
    return t.op("hard_sigmoid", x, alpha=alpha, beta=0.5)


def _glu(t: Translation, x: Value, axis: int = -1) -> Value:
    size = t.extent(x, axis)
    if size % 2:
        raise error("E0108", f"glu halves a dimension of {size}")
    first, second = t.part(x, axis, 0, size // 2), t.part(x, axis, size // 2, size // 2)
    return t.op("mul", first, t.op("sigmoid", second))


def _sparse_plus(t: Translation, x: Value) -> Value:
    """0 up to -1, x from 1 on, between them (x + 1)^2 / 4."""
    inside = t.op("clip", x, min=-1.0, max=1.0)
    square = t.shifted(inside, 1.0)
    middle = t.scaled(t.op("mul", square, square), 0.25)
    return t.op("add", middle, t.op("relu", t.shifted(x, -1.0)))


def _squareplus(t: Translation, x: Value, b: float = 4.0) -> Value:
    return t.scaled(t.op("add", x, t.op("sqrt", t.shifted(t.op("mul", x, x), b))), 0.5)


def _sparsemax(t: Translation, x: Value) -> Value:
    """As Keras has it, along the last axis: the threshold is of sums of sums, where the paper has a sum (Martins and
    Astudillo, 2016)."""
    size, axis = t.extent(x, -1), x.type.rank - 1
    ordered, _ = t.standard_results("TopK", x, t.constant([size], "int64"), results=2, axis=-1)
    sums = t.op("cumulative_sum", ordered, axis=axis, exclusive=False, reverse=False)
    steps = t.constant([float(n) for n in range(1, size + 1)], x.dtype)
    inside = t.op("greater", t.shifted(t.op("mul", ordered, steps), 1.0), sums)
    count = t.reduced("reduce_sum", t.cast(inside, x.dtype), (axis,), keep=True)
    kept = t.op("where", inside, sums, t.scalar(0.0, x.dtype))
    level = t.op("div", t.shifted(t.reduced("reduce_sum", kept, (axis,), keep=True), -1.0), count)
    return t.op("relu", t.op("sub", x, level))


FUNCTIONS: dict[str, Function] = {
    "linear": lambda t, x: x,
    "relu": relu,
    "relu6": lambda t, x: t.op("clip", x, min=0.0, max=6.0),
    "leaky_relu": lambda t, x: t.op("leaky_relu", x, alpha=0.2),
    "elu": lambda t, x: t.op("elu", x),
    "selu": lambda t, x: t.op("selu", x),
    "celu": lambda t, x: t.op("celu", x),
    "gelu": lambda t, x: t.op("gelu", x),
    "softplus": lambda t, x: t.op("softplus", x),
    "softsign": lambda t, x: t.op("softsign", x),
    "tanh": lambda t, x: t.op("tanh", x),
    "sigmoid": lambda t, x: t.op("sigmoid", x),
    "exponential": lambda t, x: t.op("exp", x),
    "hard_sigmoid": _hard_sigmoid,
    "silu": lambda t, x: t.op("mul", x, t.op("sigmoid", x)),
    "hard_silu": lambda t, x: t.op("hard_swish", x),
    "mish": lambda t, x: t.op("mish", x),
    "softmax": lambda t, x: t.op("softmax", x, axis=-1),
    "log_softmax": lambda t, x: t.op("log_softmax", x, axis=-1),
    "log_sigmoid": lambda t, x: t.op("neg", t.op("softplus", t.op("neg", x))),
    "hard_tanh": lambda t, x: t.op("clip", x, min=-1.0, max=1.0),
    "tanh_shrink": lambda t, x: t.op("sub", x, t.op("tanh", x)),
    "soft_shrink": lambda t, x: t.op("shrink", x, bias=0.5, lambd=0.5),
    "hard_shrink": lambda t, x: t.op("shrink", x, bias=0.0, lambd=0.5),
    "sparse_plus": _sparse_plus,
    "sparse_sigmoid": lambda t, x: t.op("clip", t.shifted(t.scaled(x, 0.5), 0.5), min=0.0, max=1.0),
    "sparsemax": _sparsemax,
    "squareplus": _squareplus,
    "glu": _glu,
    "threshold": lambda t, x: t.op("thresholded_relu", x, alpha=0.0),
}
FUNCTIONS |= {"swish": FUNCTIONS["silu"], "hard_swish": FUNCTIONS["hard_silu"]}


def function_of(t: Translation, given: Any) -> Function:
    """The function that a setting names, or a serialized layer of that kind.

    Raises:
        SternaError: E0113, there is none.
    """
    if given is None:
        return FUNCTIONS["linear"]
    if isinstance(given, str) and given.lower() in FUNCTIONS:
        return FUNCTIONS[given.lower()]
    if isinstance(given, dict):
        kind, config = given.get("class_name"), given.get("config")
        if kind in ("function", "__function__") and isinstance(config, str) and config in FUNCTIONS:
            return FUNCTIONS[config]
        if isinstance(kind, str) and isinstance(config, dict):
            if kind in LAYERS:
                layer = layer_of(given, "an activation")
                return lambda inner, x: inner.within(layer, inner.store, x)
            if snake_case(kind) in FUNCTIONS:
                return FUNCTIONS[snake_case(kind)]
        given = config if isinstance(config, str) else kind
    fix = "use an activation of keras.activations, or " + how_to_register("keras", t.kind)
    raise t.unsupported(f"with the activation {given}, of which the file has only the name,", fix)


def activated(t: Translation, x: Value, key: str = "activation") -> Value:
    """What the layer's own activation makes of a result."""
    return function_of(t, t.layer.config.get(key))(t, x)


# ---------------------------------------------------------------- layers
def _activation(t: Translation) -> Value:
    return activated(t, t.x)


def _relu_layer(t: Translation) -> Value:
    slope = t.setting("negative_slope", 0.0)
    return relu(t, t.x, float(_number(slope)), _most(t), float(_number(t.setting("threshold", 0.0))))


def _most(t: Translation) -> float | None:
    value = t.layer.config.get("max_value")
    return None if value is None else float(_number(value))


def _number(value: Any) -> float:
    """A setting that old files keep as a serialized array."""
    if isinstance(value, dict):
        value = value.get(
            "value", (value.get("config") or {}).get("value") if isinstance(value.get("config"), dict) else 0
        )
    return float(value)


def _leaky(t: Translation) -> Value:
    slope = t.setting("negative_slope", t.setting("alpha", 0.3))
    return t.op("leaky_relu", t.x, alpha=_number(slope))


def _softmax(t: Translation) -> Value:
    x, axis = t.x, t.setting("axis", -1)
    mask = t.argument(1, "mask")
    if isinstance(mask, Value):
        # As Keras does: what does not count is moved far below.
        low = t.scalar(-3e4 if x.dtype == "float16" else -1e9, x.dtype)
        x = t.op("add", x, t.op("where", mask, t.scalar(0.0, x.dtype), low))
    if isinstance(axis, int):
        return t.op("softmax", x, axis=axis)
    top = t.reduced("reduce_max", x, axis, keep=True)
    power = t.op("exp", t.op("sub", x, top))
    return t.op("div", power, t.reduced("reduce_sum", power, axis, keep=True))


def _prelu(t: Translation) -> Value:
    (alpha,) = t.variables("alpha")
    return t.op("prelu", t.x, t.weight(alpha, t.x))


LAYERS: dict[str, Translator] = {
    "Activation": _activation,
    "ReLU": _relu_layer,
    "LeakyReLU": _leaky,
    "PReLU": _prelu,
    "ELU": lambda t: t.op("elu", t.x, alpha=_number(t.setting("alpha", 1.0))),
    "ThresholdedReLU": lambda t: t.op("thresholded_relu", t.x, alpha=_number(t.setting("theta", 1.0))),
    "Softmax": _softmax,
}
