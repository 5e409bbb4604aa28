"""Recurrent layers of DarkNet. One run is one step, as DarkNet's programs run them; what they remember is a state.

`src/rnn_layer.c`, `crnn_layer.c`, `gru_layer.c`, `lstm_layer.c` and `conv_lstm_layer.c` of AlexeyAB's fork are the
reference, for the order of the weights as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sterna.frontends.darknet.activations import activated, function
from sterna.frontends.darknet.products import convolution_of, convolved, product
from sterna.frontends.darknet.translation import Translation
from sterna.ir.graph import Value

#: `logistic` of a section -> the activation function of the state; 0 is that of the layer.
_OF_STATES = {1: "logistic", 2: "loggy"}
#: One of the products of a layer: of an operand, with so many results.
_Product = Callable[[Value, int], Value]
#: A step of training bounds the cells of `[conv_lstm]` to this, times the steps that are trained at a time.
_BOUND = 32


def _normalizes(t: Translation) -> bool:
    return bool(t.section.integer("batch_normalize"))


def _products(t: Translation, x: Value, outputs: int, count: int) -> list[Value]:
    """As many products of one operand as a layer has gates."""
    return [product(t, x, outputs, _normalizes(t)) for _ in range(count)]


def _sums(t: Translation, one: Sequence[Value], other: Sequence[Value]) -> list[Value]:
    return [t.op("add", a, b) for a, b in zip(one, other, strict=True)]


def rnn(t: Translation) -> Value:
    """The sum of what the operand and the last state give; from it the result."""
    return _simple(t, t.row(), lambda x, count: product(t, x, count, _normalizes(t)), (), t.section.integer("logistic"))


def crnn(t: Translation) -> Value:
    """As `rnn`, with convolutions for products."""
    x = t.picture()
    t.refuse("xnor")
    if t.section.positive("stride") > 1:
        raise t.unsupported("with a stride")  # the state would not have the sizes of what is added to it
    return _simple(t, x, lambda value, count: convolved(t, value, count, _normalizes(t)), x.shape[2:], 0)


def _simple(t: Translation, x: Value, multiplied: _Product, sizes: Sequence[object], logistic: int) -> Value:
    s = t.section
    hidden, outputs = s.positive("hidden"), s.positive("output")
    activation = function(t, s.text("activation", "logistic").lower())
    of_state = function(t, _OF_STATES[logistic]) if logistic in _OF_STATES else activation
    before = t.state("state", (hidden, *(int(size) for size in sizes)))  # type: ignore[call-overload]
    new = activation(t, multiplied(x, hidden))
    after = t.op("add", new, of_state(t, multiplied(before, hidden)))
    if s.integer("shortcut"):
        after = t.op("add", after, before)
    t.leave("state", after)
    return activation(t, multiplied(after, outputs))


def gru(t: Translation) -> Value:
    """The new value is logistic, too, unless `tanh=1` says otherwise."""
    outputs = t.section.positive("output")
    h = t.state("state", (outputs,))
    xz, xr, xh = _products(t, t.row(), outputs, 3)
    hz, hr = _products(t, h, outputs, 2)
    z, r = t.logistic(t.op("add", xz, hz)), t.logistic(t.op("add", xr, hr))
    (hh,) = _products(t, t.op("mul", r, h), outputs, 1)
    new = t.op("tanh" if t.section.integer("tanh") else "sigmoid", t.op("add", xh, hh))
    # z h + (1 - z) new
    y = t.op("add", new, t.op("mul", z, t.op("sub", h, new)))
    t.leave("state", y)
    return y


def lstm(t: Translation) -> Value:
    outputs = t.section.positive("output")
    h, c = t.state("state", (outputs,)), t.state("cell", (outputs,))
    of_state = _products(t, h, outputs, 4)
    f, i, g, o = _sums(t, of_state, _products(t, t.row(), outputs, 4))
    kept = t.op("add", t.op("mul", t.logistic(f), c), t.op("mul", t.logistic(i), t.op("tanh", g)))
    y = t.op("mul", t.logistic(o), t.op("tanh", kept))
    t.leave("state", y)
    t.leave("cell", kept)
    return y


def conv_lstm(t: Translation) -> Value:
    """As `lstm`, with convolutions for products; with `peephole` the gates see the cell, by convolutions, too.

    With `bottleneck` one convolution brings the last result and the operand together, and the gates see that alone.
    The cell that goes to the next run is bounded.
    """
    s, x = t.section, t.picture()
    t.refuse("xnor")
    outputs, sizes = s.positive("output"), [t.extent(x, axis) for axis in (2, 3)]
    if s.positive("stride") > 1:
        raise t.unsupported("with a stride")  # the state would not have the sizes of what is added to it
    narrow = bool(s.integer("bottleneck"))
    if narrow and s.integer("shortcut"):
        raise t.unsupported("with bottleneck and shortcut")
    h, c = t.state("state", (outputs, *sizes)), t.state("cell", (outputs, *sizes))
    activation = function(t, s.text("lstm_activation", "tanh").lower())

    def convolutions(channels: int, count: int) -> list[Callable[[Value], Value]]:
        made = [convolution_of(t, channels, outputs, _normalizes(t)) for _ in range(count)]
        return [lambda value, one=one: activated(t, one(value)) for one in made]  # type: ignore[misc]

    peepholes = convolutions(outputs, 3) if s.integer("peephole") else []
    if narrow:
        (joined,) = convolutions(outputs + t.extent(x, 1), 1)
        both = activation(t, joined(t.op("concat", h, x, axis=1)))
        f, i, g, o = (one(both) for one in convolutions(outputs, 4))
    else:
        of_state = [one(h) for one in convolutions(outputs, 4)]
        f, i, g, o = _sums(t, of_state, [one(x) for one in convolutions(t.extent(x, 1), 4)])
    if peepholes:
        f, i = _sums(t, (f, i), [one(c) for one in peepholes[:2]])
    kept = t.op("add", t.op("mul", t.logistic(f), c), t.op("mul", t.logistic(i), activation(t, g)))
    if peepholes:
        o = t.op("add", o, peepholes[2](kept))
    y = t.op("mul", t.logistic(o), activation(t, kept))
    bound = s.number_of("state_constrain", float(_BOUND * t.steps))
    t.leave("state", y)
    t.leave("cell", t.op("clip", kept, min=-bound, max=bound) if bound else kept)
    return y
