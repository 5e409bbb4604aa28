"""DarkNet's activation functions."""

from __future__ import annotations

from collections.abc import Callable

from sterna.frontends.darknet.translation import Translation
from sterna.ir.graph import Value

Function = Callable[[Translation, Value], Value]
_TINY = 1e-4  # added to sums that are divided by


def _where(t: Translation, condition: Value, yes: Value, no: Value) -> Value:
    return t.op("where", condition, yes, no)


def _ramp(t: Translation, x: Value) -> Value:
    return t.op("add", t.op("relu", x), t.op("mul", x, t.number(0.1)))


def _loggy(t: Translation, x: Value) -> Value:
    return t.op("sub", t.op("mul", t.op("sigmoid", x), t.number(2.0)), t.number(1.0))


def _plse(t: Translation, x: Value) -> Value:
    """Three lines, which meet at -4 and 4."""
    middle = t.op("add", t.op("mul", x, t.number(0.125)), t.number(0.5))
    low = t.op("mul", t.op("add", x, t.number(4.0)), t.number(0.01))
    high = t.op("add", t.op("mul", t.op("sub", x, t.number(4.0)), t.number(0.01)), t.number(1.0))
    inner = _where(t, t.op("greater", x, t.number(4.0)), high, middle)
    return _where(t, t.op("less", x, t.number(-4.0)), low, inner)


def _stair(t: Translation, x: Value) -> Value:
    whole = t.op("floor", x)
    half = t.op("floor", t.op("mul", x, t.number(0.5)))
    even = t.op("equal", t.op("mul", t.op("floor", t.op("mul", whole, t.number(0.5))), t.number(2.0)), whole)
    return _where(t, even, half, t.op("add", t.op("sub", x, whole), half))


def _lhtan(t: Translation, x: Value) -> Value:
    high = t.op("add", t.op("mul", t.op("sub", x, t.number(1.0)), t.number(0.001)), t.number(1.0))
    inner = _where(t, t.op("greater", x, t.number(1.0)), high, x)
    return _where(t, t.op("less", x, t.number(0.0)), t.op("mul", x, t.number(0.001)), inner)


def _hard_mish(t: Translation, x: Value) -> Value:
    inside = t.op("clip", t.op("add", x, t.number(2.0)), min=0.0, max=2.0)
    return t.op("mul", t.op("mul", x, inside), t.number(0.5))


def _norm_chan(t: Translation, x: Value) -> Value:
    """What is above 0, divided by its sum over the channels."""
    above = t.op("relu", x)
    total = t.op("reduce_sum", above, axes=(1,), keep_dims=True)
    return t.op("div", above, t.op("add", total, t.number(_TINY)))


def _norm_chan_softmax(most: bool) -> Function:
    def function(t: Translation, x: Value) -> Value:
        moved = t.op("sub", x, t.op("reduce_max", x, axes=(1,), keep_dims=True)) if most else x
        power = t.op("exp", moved)
        total = t.op("reduce_sum", power, axes=(1,), keep_dims=True)
        return t.op("div", power, t.op("add", total, t.number(_TINY)))

    return function


FUNCTIONS: dict[str, Function] = {
    "linear": lambda t, x: x,
    "logistic": lambda t, x: t.op("sigmoid", x),
    "loggy": _loggy,
    "relu": lambda t, x: t.op("relu", x),
    "relu6": lambda t, x: t.op("clip", x, min=0.0, max=6.0),
    "elu": lambda t, x: t.op("elu", x),
    "selu": lambda t, x: t.op("selu", x),
    "gelu": lambda t, x: t.op("gelu", x, approximate="tanh"),
    "relie": lambda t, x: t.op("leaky_relu", x, alpha=0.01),
    "ramp": _ramp,
    "leaky": lambda t, x: t.op("leaky_relu", x, alpha=0.1),
    "revleaky": lambda t, x: t.op("leaky_relu", x, alpha=0.1),
    "tanh": lambda t, x: t.op("tanh", x),
    "plse": _plse,
    "stair": _stair,
    "hardtan": lambda t, x: t.op("clip", x, min=-1.0, max=1.0),
    "lhtan": _lhtan,
    "swish": lambda t, x: t.op("mul", x, t.op("sigmoid", x)),
    "mish": lambda t, x: t.op("mish", x),
    "hard_mish": _hard_mish,
    "normalize_channels": _norm_chan,
    "normalize_channels_softmax": _norm_chan_softmax(False),
    "normalize_channels_softmax_maxval": _norm_chan_softmax(True),
}


def activated(t: Translation, x: Value, default: str = "linear") -> Value:
    """What the layer's own activation makes of a result.

    Raises:
        SternaError: E0113, there is no such function.
    """
    return function(t, t.section.text("activation", default).lower())(t, x)


def function(t: Translation, name: str) -> Function:
    """An activation function by its name.

    Raises:
        SternaError: E0113, there is no such function.
    """
    if name not in FUNCTIONS:
        raise t.unsupported(f"with the activation {name}")
    return FUNCTIONS[name]
