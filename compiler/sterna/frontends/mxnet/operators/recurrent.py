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

    def matrix(self, rows: int, columns: int) -> Value:
        """The next matrix, as it is."""
        first, self.at = self.at, self.at + rows * columns
        return self.t.reshape(self.t.part(self.vector, 0, first, rows * columns), [rows, columns])

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
    operator, order = _MODES[mode]
    x, hidden, layers = t.input(0), t.said.integer("state_size"), t.said.integer("num_layers")
    projection = (t.said.optional("projection_size") or 0) if mode == "lstm" else 0
    if x.type.rank != 3 or hidden < 1 or not 0 < layers <= 1024 or projection < 0:
        raise error("E0108", f"{t.kind} of {layers} layers of {hidden} units over {x.type}")
    both = t.said.flag("bidirectional")
    directions = 2 if both else 1
    vector = t.input(1)
    width = t.extent(x, 2)
    wide = projection or hidden
    inner = (layers - 1) * (directions * wide + wide + 2)
    wanted = directions * (len(order) * hidden * (width + wide + 2 + inner) + layers * projection * hidden)
    if vector.type.rank != 1 or vector.type.elements != wanted:
        raise error("E0108", f"{t.kind} needs {wanted} weights, not {vector.type}")
    states = [
        _state(t, n, layers * directions, units)
        for n, units in zip(range(2, 4 if mode == "lstm" else 3), (wide, hidden), strict=False)
    ]
    if projection or (mode == "lstm" and any(t.said.has(f"lstm_state_clip_{end}") for end in ("min", "max"))):
        return _stepwise(t, states, layers, directions, hidden, projection)
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


def _stepwise(
    t: Translation, states: Sequence[Value], layers: int, directions: int, hidden: int, projection: int
) -> tuple[Value, ...]:
    """An LSTM whose states are projected to fewer units, or whose cells are kept within bounds: step by step."""
    if t.said.flag("use_sequence_length"):
        raise t.unsupported("with lengths, and with projections or clipped cells,")
    x, reader = t.input(0), _Weights(t, t.input(1), range(4), hidden)
    wide, weights = projection or hidden, []
    for layer in range(layers):
        size = t.extent(x, 2) if layer == 0 else directions * wide
        for _ in range(directions):
            matrices = [reader.take(size), reader.take(wide)]
            weights.append([*matrices, *([reader.matrix(projection, hidden)] if projection else [])])
    biases = [t.op("add", reader.take(0), reader.take(0)) for _ in weights]
    limits = [
        t.said.number(f"lstm_state_clip_{end}") if t.said.has(f"lstm_state_clip_{end}") else default
        for end, default in (("min", -np.inf), ("max", np.inf))
    ]
    last: list[list[Value]] = [[], []]
    for layer in range(layers):
        parts = []
        for d in range(directions):
            place = layer * directions + d
            initial = [t.squeezed(t.part(state, 0, place, 1), 0) for state in states]
            y, *final = _run(t, x, weights[place], biases[place], initial, limits, reverse=d == 1)
            parts.append(y)
            for values, value in zip(last, final, strict=True):
                values.append(t.spread(value, 0))
        x = _joined(t, parts, 2)
    return x, *(_joined(t, values, 0) for values in last)


def _run(
    t: Translation, x: Value, weights: Sequence[Value], bias: Value, initial: Sequence[Value],
    limits: Sequence[float], *, reverse: bool,
) -> tuple[Value, Value, Value]:  # fmt: skip
    """All steps of a layer in one direction: (steps, N, units), the last state, the last cell."""
    count, turned = t.extent(x, 0), [t.transpose(w, (1, 0)) for w in weights]
    given = t.op("add", t.op("matmul", x, turned[0]), bias)

    def step(number: Value, carried: list[Value]) -> tuple[list[Value], list[Value]]:
        h, c = carried
        place = t.reshape(t.cast(number, "int64"), (1,))
        place = t.op("sub", t.scalar(count - 1, "int64"), place) if reverse else place
        total = t.op("add", t.squeezed(t.op("gather", given, place, axis=0), 0), t.op("matmul", h, turned[1]))
        hidden = t.extent(c, 1)
        i, f, g, o = (t.part(total, 1, n * hidden, hidden) for n in range(4))
        kept = t.op("mul", t.op("sigmoid", f), c)
        c = t.op("add", kept, t.op("mul", t.op("sigmoid", i), t.op("tanh", g)))
        if np.isfinite(limits).any():
            c = t.op("clip", c, min=limits[0], max=limits[1])
        h = t.op("mul", t.op("sigmoid", o), t.op("tanh", c))
        h = t.op("matmul", h, turned[2]) if len(turned) > 2 else h
        return [h, c], [h]

    (h, c), (rows,) = t.repeat(count, initial, step)
    if reverse:
        rows = t.op("gather", rows, t.constant(np.arange(count)[::-1].copy(), "int64"), axis=0)
    return rows, h, c


def _state(t: Translation, position: int, count: int, hidden: int) -> Value:
    """A first state; one of a single sequence is that of all."""
    x, state = t.input(0), t.input(position)
    if state.type.rank != 3 or state.shape[0] != count or state.shape[2] != hidden:
        raise error("E0108", f"{t.kind} needs a first state of [{count}, batch, {hidden}], not {state.type}")
    if state.shape[1] == 1 and x.shape[1] != 1:
        return t.op("expand", state, shape=(state.shape[0], x.shape[1], state.shape[2]))
    return state


TRANSLATORS: dict[str, Translator] = {"RNN": recurrent, "_npx_rnn": recurrent}
