"""Recurrent layers: LSTM, RNN and SVDF, over a sequence or one step at a time.

What does not depend on the states, the product of the inputs with their weights, is made for all steps at once; the
rest is the body of a loop. The states live from run to run, as in TensorFlow Lite: what a step leaves is taken over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from sterna.errors import error
from sterna.frontends.tflite.operators import hybrid
from sterna.frontends.tflite.translation import Translation, Translator, quantization_of
from sterna.ir import dtypes
from sterna.ir.graph import Array, Value

#: Gates of the integer kernel have three bits before the point.
_GATE_SCALE = np.float32(2.0**-12)
#: The schema's numbers of activation functions.
_FUNCTIONS: dict[int, Callable[[Translation, Value], Value]] = {
    0: lambda t, x: x,
    1: lambda t, x: t.op("relu", x),
    2: lambda t, x: t.op("clip", x, min=-1.0, max=1.0),
    3: lambda t, x: t.op("clip", x, min=0.0, max=6.0),
    4: lambda t, x: t.op("tanh", x),
}
_FEW_BITS = ("int8", "uint8", "int4")


def activation(t: Translation) -> Callable[[Translation, Value], Value]:
    function = _FUNCTIONS.get(t.option("fused_activation_function"))
    if function is None:
        raise t.unsupported(f"with the fused activation {t.option('fused_activation_function')}")
    return function


def in_time(t: Translation, x: Value, time_major: bool) -> Value:
    """(steps, batch, inputs)."""
    t.sizes(x, 3)
    return x if time_major else t.transpose(x, (1, 0, 2))


def at_step(t: Translation, sequence: Value, number: Value) -> Value:
    return t.op("gather", sequence, number, axis=0)


def over_time(
    t: Translation,
    x: Value,
    states: Sequence[Value],
    step: Callable[[Value, list[Value]], tuple[list[Value], Value]],
    backward: bool = False,
) -> tuple[list[Value], Value]:
    """The states in the end and the results of all steps, (steps, batch, units); `step` gets its position in time."""
    count = t.static(x)[0]

    def body(number: Value, carried: list[Value]) -> tuple[list[Value], list[Value]]:
        place = t.op("sub", t.scalar(count - 1, "int64"), number) if backward else number
        following, row = step(place, carried)
        return following, [row]

    last, (rows,) = t.repeat(count, states, body)
    if backward:
        rank = rows.type.rank
        starts = (count - 1, *(0,) * (rank - 1))
        rows = t.op("slice", rows, starts=starts, sizes=rows.shape, steps=(-1, *(1,) * (rank - 1)))
    return last, rows


def product(t: Translation, x: Value, position: int) -> Value:
    """Rows of floats times the transposed weights at a position; integer weights make the rows integers first."""
    if t.info(position).kind in _FEW_BITS:
        weights = hybrid.signed_weights(t, position).T
        scales = quantization_of(t.info(position)).scales.reshape(())
        asymmetric = bool(t.option("asymmetric_quantize_inputs", False))
        return hybrid.product(t, x, weights, scales, asymmetric)
    return t.op("matmul", x, t.transpose(t.input(position), (1, 0)))


def rows_product(t: Translation, x: Value, position: int) -> Value:
    """`product` of a whole sequence, (steps, batch, inputs)."""
    steps, batch, inputs = t.sizes(x, 3)
    y = product(t, t.reshape(x, (steps * batch, inputs)), position)
    return t.reshape(y, (steps, batch, y.shape[-1]))


# ---------------------------------------------------------------- LSTM
@dataclass(frozen=True)
class _Lstm:
    """One direction of an LSTM: where its operands stand.

    Args:
        first: position of the weights from the input to the input gate; the others follow.
        states: positions of the output state and the cell state.
        norms: position of the layer normalization of the input gate, if there is any.
    """

    t: Translation
    first: int
    states: tuple[int, int]
    norms: int | None

    def has(self, offset: int) -> bool:
        return self.t.has(self.first + offset)

    def norm(self, gate: int) -> int | None:
        position = None if self.norms is None else self.norms + gate
        return position if position is not None and self.t.has(position) else None

    @property
    def gates(self) -> tuple[int, ...]:
        """The gates that are there: without weights of its own, the input gate is 1 less the forget gate."""
        return (0, 1, 2, 3) if self.has(0) else (1, 2, 3)

    def run(self, x: Value, backward: bool = False) -> Value:
        """The results of all steps; what the states hold in the end is left behind."""
        t = self.t
        initial = [t.input(position) for position in self.states]
        if t.option("diagonal_recurrent_tensors", False):
            raise t.unsupported("with diagonal recurrent weights")
        step = self.integer_step(x) if x.dtype == "int8" else self.float_step(x)
        last, rows = over_time(t, x, initial, step, backward)
        t.left_behind |= dict(zip(self.states, last, strict=True))
        return rows

    # -- floats
    def float_step(self, x: Value) -> Callable[[Value, list[Value]], tuple[list[Value], Value]]:
        t, first = self.t, self.first
        if x.dtype != "float32":
            raise t.unsupported(f"on {x.dtype}")
        function = activation(t)
        inputs = {gate: rows_product(t, x, first + gate) for gate in self.gates}

        def gate_of(gate: int, place: Value, h: Value, c: Value) -> Value:
            value = t.op("add", at_step(t, inputs[gate], place), product(t, h, first + 4 + gate))
            peephole = {0: 8, 1: 9, 3: 10}.get(gate)
            if peephole is not None and self.has(peephole):
                value = t.op("add", value, t.op("mul", self.peephole(first + peephole), c))
            norm = self.norm(gate)
            if norm is not None:
                value = t.op("mul", self.normalized(value), t.input(norm))
            if self.has(11 + gate):
                value = t.op("add", value, t.input(first + 11 + gate))
            return function(t, value) if gate == 2 else t.op("sigmoid", value)

        def step(place: Value, carried: list[Value]) -> tuple[list[Value], Value]:
            h, c = carried
            forget, cell = gate_of(1, place, h, c), gate_of(2, place, h, c)
            enter = gate_of(0, place, h, c) if 0 in self.gates else t.op("sub", t.scalar(1.0, "float32"), forget)
            following = self.clipped(t.op("add", t.op("mul", forget, c), t.op("mul", cell, enter)), "cell_clip")
            new = t.op("mul", gate_of(3, place, h, following), function(t, following))
            if self.has(15):
                new = product(t, new, first + 15)
                if self.has(16):
                    new = t.op("add", new, t.input(first + 16))
                new = self.clipped(new, "proj_clip")
            return [new, following], new

        return step

    def clipped(self, x: Value, setting: str) -> Value:
        limit = float(self.t.option(setting, 0.0))
        return self.t.op("clip", x, min=-limit, max=limit) if limit > 0 else x

    def peephole(self, position: int) -> Value:
        t = self.t
        if t.info(position).kind not in _FEW_BITS:
            return t.input(position)
        weights = np.asarray(t.array(position, "weights")).astype(np.float32)
        return t.constant(weights * quantization_of(t.info(position)).scales[0])

    def normalized(self, x: Value) -> Value:
        t, axes = self.t, (x.type.rank - 1,)
        moved = t.op("sub", x, t.op("reduce_mean", x, axes=axes, keep_dims=True))
        spread = t.op("reduce_mean", t.op("mul", moved, moved), axes=axes, keep_dims=True)
        return t.op("mul", moved, t.op("reciprocal", t.op("sqrt", t.moved(spread, 1e-8))))

    # -- integers: activations of 8 bits, gates and cell of 16
    def integer_step(self, x: Value) -> Callable[[Value, list[Value]], tuple[list[Value], Value]]:
        t = self.t
        if len(t.intermediates) not in (0, 5):
            raise t.unsupported("with intermediate tensors of 8 bits")
        if any(self.norm(gate) is not None for gate in range(4)):
            raise t.unsupported("with layer normalization of integers")
        if any(self.has(8 + n) for n in range(3)):
            raise t.unsupported("with peepholes of integers")
        if self.has(15):
            raise t.unsupported("with a projection of integers")
        h_scale, h_zero = t.per_tensor(t.info(self.states[0]))
        cell_scale = t.per_tensor(t.info(self.states[1]))[0]
        cell_power = round(float(np.log2(cell_scale)))
        if 2.0**cell_power != cell_scale or not 0 <= 15 + cell_power <= 4:
            raise t.unsupported(f"with a cell of scale {cell_scale:g}")
        inputs = {gate: self.integer_inputs(x, gate) for gate in self.gates}
        recurrent = {gate: self.integer_recurrence(gate, h_scale, h_zero) for gate in self.gates}
        low, high = dtypes.limits("int16")

        def short(value: Value) -> Value:
            return t.op("clip", value, min=low, max=high)

        def gate_of(gate: int, place: Value, h: Value) -> Value:
            weights, bias, factor = recurrent[gate]
            total = t.op("add", t.op("matmul_integer", h, t.constant(weights)), t.constant(bias))
            value = short(t.op("add", t.scaled(total, factor), at_step(t, inputs[gate], place)))
            function = "tanh" if gate == 2 else "logistic"
            return t.cast(t.op("gate_fixed", t.cast(value, "int16"), function=function), "int32")

        limit = float(t.option("cell_clip", 0.0))
        bound = int(min(max(float(np.float32(limit) / np.float32(cell_scale)), low), high)) if limit > 0 else 0
        hidden = t.per_tensor(t.intermediates[4]) if t.intermediates else (h_scale, h_zero)
        factor = float(np.float32(2.0**-15 / hidden[0] * 2.0**-15))

        def step(place: Value, carried: list[Value]) -> tuple[list[Value], Value]:
            h, c = carried
            forget, cell = gate_of(1, place, h), gate_of(2, place, h)
            enter = gate_of(0, place, h) if 0 in self.gates else t.op("sub", t.scalar(32767, "int32"), forget)
            output = gate_of(3, place, h)
            kept = t.rounding_shift(t.op("mul", forget, t.cast(c, "int32")), 15)
            added = t.rounding_shift(t.op("mul", enter, cell), 30 + cell_power)
            following = short(t.op("add", kept, added))
            if bound:
                following = t.op("clip", following, min=-bound, max=bound)
            state = t.cast(following, "int16")
            shown = t.cast(t.op("gate_fixed", state, function="tanh", integer_bits=15 + cell_power), "int32")
            value = t.moved(t.scaled(t.op("mul", output, shown), factor), hidden[1])
            new = t.cast(t.op("clip", value, min=-128, max=127), "int8")
            return [new, state], new

        return step

    def weights_of(self, position: int) -> Array:
        w = np.asarray(self.t.array(position, "weights"))
        if w.ndim != 2:
            raise error("E0108", f"weights of {list(w.shape)} are no matrix")
        return np.transpose(w)

    def integer_inputs(self, x: Value, gate: int) -> Value:
        """What the inputs add to a gate at every step, saturated to 16 bits, in int32."""
        t = self.t
        weights = self.weights_of(self.first + gate)
        bias = -t.zero(0) * weights.astype(np.int64).sum(0)
        if self.has(11 + gate):
            bias = bias + np.asarray(t.array(self.first + 11 + gate, "a bias")).astype(np.int64)
        steps, batch, inputs = t.sizes(x, 3)
        flat = t.reshape(x, (steps * batch, inputs))
        total = t.op("add", t.op("matmul_integer", flat, t.constant(weights)), t.constant(bias, "int32"))
        scale = np.float32(t.scale(self.first + gate)) * np.float32(t.scale(0)) / _GATE_SCALE
        low, high = dtypes.limits("int16")
        value = t.op("clip", t.scaled(total, float(scale)), min=low, max=high)
        return t.reshape(value, (steps, batch, weights.shape[1]))

    def integer_recurrence(self, gate: int, h_scale: float, h_zero: int) -> tuple[Array, Array, float]:
        """(weights, what the state's zero point adds, the factor) of the product with the state."""
        t, position = self.t, self.first + 4 + gate
        weights = self.weights_of(position)
        bias = (-h_zero * weights.astype(np.int64).sum(0)).astype(np.int32)
        scale = np.float32(t.scale(position)) * np.float32(h_scale) / _GATE_SCALE
        return weights, bias, float(scale)


def sequence_lstm(t: Translation) -> Value:
    time_major = bool(t.option("time_major", False))
    rows = _Lstm(t, 1, (18, 19), 20).run(in_time(t, t.input(0), time_major))
    return rows if time_major else t.transpose(rows, (1, 0, 2))


def lstm(t: Translation) -> tuple[Value | None, ...]:
    """One step of a batch."""
    if t.option("kernel_type"):
        raise t.unsupported("of the basic kind")
    batch, inputs = t.sizes(t.input(0), 2)
    rows = _Lstm(t, 1, (18, 19), 20).run(t.reshape(t.input(0), (1, batch, inputs)))
    return (*(None,) * (len(t.results) - 1), t.reshape(rows, rows.shape[1:]))


def bidirectional_lstm(t: Translation) -> Value | tuple[Value, ...]:
    if t.has(39):
        raise t.unsupported("with an auxiliary input")
    time_major = bool(t.option("time_major", False))
    x = in_time(t, t.input(0), time_major)
    forward = _Lstm(t, 1, (35, 36), None).run(x)
    backward = _Lstm(t, 18, (37, 38), None).run(x, backward=True)
    return _merged(t, forward, backward, time_major)


def _merged(t: Translation, forward: Value, backward: Value, time_major: bool) -> Value | tuple[Value, ...]:
    made = [rows if time_major else t.transpose(rows, (1, 0, 2)) for rows in (forward, backward)]
    return t.op("concat", *made, axis=2) if t.option("merge_outputs", False) else tuple(made)


# ---------------------------------------------------------------- RNN
def _rnn(t: Translation, x: Value, first: int, state: int, backward: bool = False) -> Value:
    """Operands from `first` on: input weights, recurrent weights, bias."""
    if x.dtype != "float32":
        raise t.unsupported(f"on {x.dtype}")
    function = activation(t)
    inputs = rows_product(t, x, first)

    def step(place: Value, carried: list[Value]) -> tuple[list[Value], Value]:
        value = t.op("add", at_step(t, inputs, place), product(t, carried[0], first + 1))
        new = function(t, t.op("add", value, t.input(first + 2)))
        return [new], new

    last, rows = over_time(t, x, [t.input(state)], step, backward)
    t.left_behind[state] = last[0]
    return rows


def rnn(t: Translation) -> Value:
    batch, inputs = t.sizes(t.input(0), 2)
    rows = _rnn(t, t.reshape(t.input(0), (1, batch, inputs)), 1, 4)
    return t.reshape(rows, rows.shape[1:])


def sequence_rnn(t: Translation) -> Value:
    time_major = bool(t.option("time_major", False))
    rows = _rnn(t, in_time(t, t.input(0), time_major), 1, 4)
    return rows if time_major else t.transpose(rows, (1, 0, 2))


def bidirectional_rnn(t: Translation) -> Value | tuple[Value, ...]:
    if t.has(9):
        raise t.unsupported("with an auxiliary input")
    time_major = bool(t.option("time_major", False))
    x = in_time(t, t.input(0), time_major)
    return _merged(t, _rnn(t, x, 1, 4), _rnn(t, x, 5, 8, backward=True), time_major)


# ---------------------------------------------------------------- SVDF
def svdf(t: Translation) -> Value:
    """Singular value decomposition filters: features of each step, then a filter over time that a state remembers."""
    x, state, rank = t.input(0), t.input(4), t.option("rank", 0)
    batch, _ = t.sizes(x, 2)
    filters, memory = t.sizes(t.input(2), 2)
    if rank < 1 or filters % rank:
        raise error("E0109", f"{filters} filters of rank {rank}")
    units = filters // rank
    if x.dtype == "int8":
        return _integer_svdf(t, units, rank, memory)
    if x.dtype != "float32":
        raise t.unsupported(f"on {x.dtype}")
    features = product(t, x, 1)
    following = _pushed(t, t.reshape(state, (batch, filters, memory)), features)
    t.left_behind[4] = t.reshape(following, state.shape)
    weights = t.cast(t.input(2), "float32")
    if t.info(2).kind in _FEW_BITS:
        weights = t.op("mul", weights, t.scalar(t.scale(2), "float32"))
    total = t.op("reduce_sum", t.op("mul", following, weights), axes=(2,), keep_dims=False)
    value = t.op("reduce_sum", t.reshape(total, (batch, units, rank)), axes=(2,), keep_dims=False)
    if t.has(3):
        value = t.op("add", value, t.input(3))
    return activation(t)(t, value)


def _pushed(t: Translation, state: Value, new: Value) -> Value:
    """What each filter remembers, without its oldest entry and with a new one."""
    batch, filters, memory = t.sizes(state, 3)
    row = t.reshape(new, (batch, filters, 1))
    if memory == 1:
        return row
    kept = t.op("slice", state, starts=(0, 0, 1), sizes=(batch, filters, memory - 1), steps=(1, 1, 1))
    return t.op("concat", kept, row, axis=2)


def _integer_svdf(t: Translation, units: int, rank: int, memory: int) -> Value:
    x, state = t.input(0), t.input(4)
    batch, _ = t.sizes(x, 2)
    filters = units * rank
    if t.input(2).dtype != "int16" or state.dtype != "int16":
        raise t.unsupported(f"with a state of {state.dtype} and time weights of {t.input(2).dtype}")
    features, time = np.asarray(t.array(1, "weights")).T, np.asarray(t.array(2, "weights"))
    state_scale, y_scale = t.scale(4), t.per_tensor(t.result())[0]
    # The reference multiplies and divides these scales in float32, then takes them for float64.
    first = float(np.float32(t.scale(0)) * np.float32(t.scale(1)) / np.float32(state_scale))
    second = float(np.float32(state_scale) * np.float32(t.scale(2)) / np.float32(y_scale))
    total = t.op("matmul_integer", x, t.constant(features))
    offset = (-t.zero(0) * features.astype(np.int64).sum(0)).astype(np.int32)
    if offset.any():
        total = t.op("add", total, t.constant(offset))
    low, high = dtypes.limits("int16")
    new = t.cast(t.op("clip", t.scaled(total, first), min=low, max=high), "int16")
    following = _pushed(t, t.reshape(state, (batch, filters, memory)), new)
    t.left_behind[4] = t.reshape(following, state.shape)
    weighted = t.op("mul", t.cast(following, "int32"), t.constant(time.astype(np.int32)))
    sums = t.op("reduce_sum", weighted, axes=(2,), keep_dims=False)
    value = t.op("reduce_sum", t.reshape(sums, (batch, units, rank)), axes=(2,), keep_dims=False)
    if t.has(3):
        value = t.op("add", value, t.input(3))
    return t.stored(t.scaled(value, second), bounds=dtypes.limits(t.result().kind))


TRANSLATORS: dict[str, Translator] = {
    "BIDIRECTIONAL_SEQUENCE_LSTM": bidirectional_lstm,
    "BIDIRECTIONAL_SEQUENCE_RNN": bidirectional_rnn,
    "LSTM": lstm,
    "RNN": rnn,
    "SVDF": svdf,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": sequence_lstm,
    "UNIDIRECTIONAL_SEQUENCE_RNN": sequence_rnn,
}
