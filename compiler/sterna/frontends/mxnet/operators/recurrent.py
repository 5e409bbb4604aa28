"""The fused recurrent operator: layers and directions with all weights in one vector.

First the weights of the input and of the state, layer by layer and direction by direction, then all biases in the same
order. Gates: i, f, g, o of an LSTM; r, z, n of a GRU, whose reset comes after the product.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sterna.errors import error
from sterna.frontends.mxnet.translation import Translation, Translator
from sterna.frontends.standard import standard_results
from sterna.ir.graph import Value

#: Mode -> ONNX's operator, and the place among these gates of each of its gates.
_MODES = {
    "rnn_relu": ("RNN", (0,)),
    "rnn_tanh": ("RNN", (0,)),
    "lstm": ("LSTM", (0, 3, 1, 2)),
    "gru": ("GRU", (1, 0, 2)),
}


@dataclass
class _Weights:
    """The vector of weights, read from its beginning on."""

    t: Translation
    vector: Value
    order: Sequence[int]
    hidden: int
    at: int = 0

    def take(self, columns: int) -> Value:
        """The next matrix (gates * hidden, columns), or vector if there are no columns; gates in ONNX's order."""
        t, rows, size = self.t, len(self.order) * self.hidden, max(columns, 1)
        count = rows * size
        shape = (len(self.order), self.hidden, size)
        final = [rows, columns] if columns else [rows]
        if self.vector.data is not None:
            part = np.asarray(self.vector.data).reshape(-1)[self.at : self.at + count].reshape(shape)
            self.at += count
            return t.constant(np.ascontiguousarray(part[list(self.order)]).reshape(final), self.vector.dtype)
        cut = t.reshape(t.part(self.vector, 0, self.at, count), shape)
        self.at += count
        gates = [t.part(cut, 0, n, 1) for n in self.order]
        return t.reshape(t.op("concat", *gates, axis=0) if len(gates) > 1 else gates[0], final)


def _joined(t: Translation, parts: Sequence[Value], axis: int) -> Value:
    if all(part.data is not None for part in parts):
        return t.constant(np.concatenate([np.asarray(part.data) for part in parts], axis), parts[0].dtype)
    return t.op("concat", *parts, axis=axis) if len(parts) > 1 else parts[0]


def recurrent(t: Translation) -> tuple[Value, ...]:
    mode = t.said.choice("mode", "lstm", *_MODES)
    if t.said.optional("projection_size"):
        raise t.unsupported("with projections")
    if t.said.has("lstm_state_clip_min") or t.said.has("lstm_state_clip_max"):
        raise t.unsupported("with clipped states")
    operator, order = _MODES[mode]
    x, hidden, layers = t.input(0), t.said.integer("state_size"), t.said.integer("num_layers")
    if x.type.rank != 3 or hidden < 1 or not 0 < layers <= 1024:
        raise error("E0108", f"{t.kind} of {layers} layers of {hidden} units over {x.type}")
    both = t.said.flag("bidirectional")
    directions = 2 if both else 1
    vector = t.input(1)
    width = t.extent(x, 2)
    inner = (layers - 1) * (directions * hidden + hidden + 2)
    wanted = directions * len(order) * hidden * (width + hidden + 2 + inner)
    if vector.type.rank != 1 or vector.type.elements != wanted:
        raise error("E0108", f"{t.kind} needs {wanted} weights, not {vector.type}")
    states = [_state(t, n, layers * directions, hidden) for n in range(2, 4 if mode == "lstm" else 3)]
    lengths = None
    if t.said.flag("use_sequence_length"):
        lengths = t.cast(t.input(4 if mode == "lstm" else 3), "int32")
    reader = _Weights(t, vector, order, hidden)
    matrices: list[tuple[Value, Value]] = []
    for layer in range(layers):
        size = width if layer == 0 else directions * hidden
        pairs = [(reader.take(size), reader.take(hidden)) for _ in range(directions)]
        first, second = ([t.spread(pair[n], 0) for pair in pairs] for n in (0, 1))
        matrices.append((_joined(t, first, 0), _joined(t, second, 0)))
    last: list[list[Value]] = [[], []]
    for layer in range(layers):
        biases = [_joined(t, [reader.take(0), reader.take(0)], 0) for _ in range(directions)]
        bias = _joined(t, [t.spread(b, 0) for b in biases], 0)
        given = [t.part(state, 0, layer * directions, directions) for state in states]
        y, *final = standard_results(
            t, operator, x, *matrices[layer], bias, lengths, *given,
            results=3 if mode == "lstm" else 2, hidden_size=hidden,
            direction="bidirectional" if both else "forward",
            activations=["Relu"] * directions if mode == "rnn_relu" else None,
            linear_before_reset=1 if mode == "gru" else None,
        )  # fmt: skip
        for values, value in zip(last, final, strict=False):
            values.append(value)
        x = t.reshape(t.transpose(y, (0, 2, 1, 3)), [y.shape[0], y.shape[2], directions * hidden])
    kept = [t.op("concat", *values, axis=0) if len(values) > 1 else values[0] for values in last if values]
    return x, *kept


def _state(t: Translation, position: int, count: int, hidden: int) -> Value:
    """A first state; one of a single sequence is that of all."""
    x, state = t.input(0), t.input(position)
    if state.type.rank != 3 or state.shape[0] != count or state.shape[2] != hidden:
        raise error("E0108", f"{t.kind} needs a first state of [{count}, batch, {hidden}], not {state.type}")
    if state.shape[1] == 1 and x.shape[1] != 1:
        return t.op("expand", state, shape=(state.shape[0], x.shape[1], state.shape[2]))
    return state


TRANSLATORS: dict[str, Translator] = {"RNN": recurrent, "_npx_rnn": recurrent}
