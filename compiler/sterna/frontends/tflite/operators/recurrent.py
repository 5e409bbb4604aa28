"""Recurrent layers: LSTM, RNN and SVDF, over a sequence or one step at a time.

What does not depend on the states, the product of the inputs with their weights, is made for all steps at once; the
rest is the core operator `lstm` where that says it, and the body of a loop elsewhere. The states live from run to run,
as in TensorFlow Lite: what a step leaves is taken over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from sterna.errors import error
from sterna.frontends.tflite.operators import hybrid
from sterna.frontends.tflite.operators.integer_lstm import LstmOperands, integer_step
from sterna.frontends.tflite.operators.sequences import at_step, in_time, over_time
from sterna.frontends.tflite.translation import Translation, Translator, quantization_of
from sterna.ir import dtypes
from sterna.ir.graph import Value

#: Gates in the order of the core operator `lstm`, and where the peepholes stand after the first weights, in its order.
_CORE_GATES, _CORE_PEEPHOLES = (0, 3, 1, 2), (8, 10, 9)
#: Activations of the core operators, by the schema's numbers.
_CORE_FUNCTIONS = {1: "relu", 4: "tanh"}

#: The schema's numbers of activation functions.
_FUNCTIONS: dict[int, Callable[[Translation, Value], Value]] = {
    0: lambda t, x: x,
    1: lambda t, x: t.op("relu", x),
    2: lambda t, x: t.op("clip", x, min=-1.0, max=1.0),
    3: lambda t, x: t.op("clip", x, min=0.0, max=6.0),
    4: lambda t, x: t.op("tanh", x),
}


def activation(t: Translation) -> Callable[[Translation, Value], Value]:
    function = _FUNCTIONS.get(t.option("fused_activation_function"))
    if function is None:
        raise t.unsupported(f"with the fused activation {t.option('fused_activation_function')}")
    return function


def product(t: Translation, x: Value, position: int) -> Value:
    """Rows of floats times the transposed weights at a position; integer weights make the rows integers first."""
    if t.info(position).kind in hybrid.INTEGERS:
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
class _Lstm(LstmOperands):
    """One direction of an LSTM.

    Args:
        is_batched: whether the reference kernel takes a step of all sequences before the next step.
    """

    is_batched: bool = True

    def run(self, x: Value, backward: bool = False) -> Value:
        """The results of all steps; what the states hold in the end is left behind."""
        t = self.t
        initial = [t.input(position) for position in self.states]
        if t.option("diagonal_recurrent_tensors", False):
            raise t.unsupported("with diagonal recurrent weights")
        if self.is_core(x):
            last, rows = self.core(x, initial, backward)
        else:
            step = integer_step(self, x, self.is_batched) if x.dtype == "int8" else self.float_step(x)
            last, rows = over_time(t, x, initial, step, backward)
        t.left_behind |= dict(zip(self.states, last, strict=True))
        return rows

    # -- the core operator
    def is_core(self, x: Value) -> bool:
        """Whether the core operator says it: of floats, with all gates, with peepholes of all three or none, and with
        neither normalization nor projection."""
        t, first = self.t, self.first
        matrices = [first + n for n in range(8)]
        peepholes = [first + n for n in _CORE_PEEPHOLES if self.has(n)]
        return (
            x.dtype == "float32"
            and 0 not in t.sizes(x, 3)
            and t.option("fused_activation_function") in _CORE_FUNCTIONS
            and all(t.has(position) and t.input(position).dtype == "float32" for position in (*matrices, *peepholes))
            and 0 not in t.sizes(t.input(first + 4), 2)
            and len(peepholes) in (0, len(_CORE_PEEPHOLES))
            and not self.has(15)
            and not any(self.norm(gate) is not None for gate in self.gates)
        )

    def core(self, x: Value, initial: Sequence[Value], backward: bool) -> tuple[list[Value], Value]:
        """What `over_time` gives."""
        t, first = self.t, self.first
        steps, batch, inputs = t.sizes(x, 3)
        _, units = t.sizes(t.input(first + 4), 2)

        def joined(offset: int) -> Value:
            return t.op("concat", *(t.input(first + offset + gate) for gate in _CORE_GATES), axis=0)

        given = t.op("matmul", t.reshape(x, (steps * batch, inputs)), t.transpose(joined(0), (1, 0)))
        if any(self.has(11 + gate) for gate in _CORE_GATES):
            zeros = t.constant(np.zeros(units, np.float32))
            biases = (t.input(first + 11 + gate) if self.has(11 + gate) else zeros for gate in _CORE_GATES)
            given = t.op("add", given, t.op("concat", *biases, axis=0))
        given = t.reshape(given, (steps, batch, 4, units))
        weight = t.transpose(t.reshape(joined(4), (4, units, units)), (2, 0, 1))
        peepholes = None
        if self.has(_CORE_PEEPHOLES[0]):
            weights = (t.input(first + n) for n in _CORE_PEEPHOLES)
            peepholes = t.reshape(t.op("concat", *weights, axis=0), (3, units))
        function = _CORE_FUNCTIONS[t.option("fused_activation_function")]
        rows, *last = t.builder.add_all(
            "lstm", given, weight, None, *(t.reshape(state, (1, batch, units)) for state in initial), peepholes,
            sources=t.sources, name=f"{t.name}/lstm", results=(None,) * 3, gives=("y", "y_h", "y_c"),
            activations=("sigmoid", function, function), reverse=backward,
            cell_clip=max(0.0, float(t.option("cell_clip", 0.0))),
        )  # fmt: skip
        return [t.reshape(state, (batch, units)) for state in last], t.reshape(rows, (steps, batch, units))

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
        if t.info(position).kind not in hybrid.INTEGERS:
            return t.input(position)
        weights = np.asarray(t.array(position, "weights")).astype(np.float32)
        return t.constant(weights * quantization_of(t.info(position)).scales[0])

    def normalized(self, x: Value) -> Value:
        t, axes = self.t, (x.type.rank - 1,)
        moved = t.op("sub", x, t.op("reduce_mean", x, axes=axes, keep_dims=True))
        spread = t.op("reduce_mean", t.op("mul", moved, moved), axes=axes, keep_dims=True)
        return t.op("mul", moved, t.op("reciprocal", t.op("sqrt", t.moved(spread, 1e-8))))


def sequence_lstm(t: Translation) -> Value:
    time_major = bool(t.option("time_major", False))
    rows = _Lstm(t, 1, (18, 19), 20, time_major).run(in_time(t, t.input(0), time_major))
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
    if t.info(2).kind in hybrid.INTEGERS:
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
