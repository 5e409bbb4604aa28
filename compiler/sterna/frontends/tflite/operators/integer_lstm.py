"""LSTM of integers: activations of 8 bits, gates and a cell of 16, exact to the bit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sterna.errors import error
from sterna.frontends.tflite.operators.sequences import at_step
from sterna.frontends.tflite.translation import Translation
from sterna.ir import dtypes
from sterna.ir.graph import Array, Value
from sterna.ir.limits import check_table

#: Of a step: from its place in time, and the output and the cell that it finds, to those that it leaves and its result.
Cell = Callable[[Value, list[Value]], tuple[list[Value], Value]]

#: Gates have three bits before the point.
_GATE_SCALE = 2.0**-12
_LOW, _HIGH = dtypes.limits("int16")
INPUT, FORGET, CELL, OUTPUT = range(4)
#: Where the peepholes of gates stand, after the first of the weights.
PEEPHOLES = {INPUT: 8, FORGET: 9, OUTPUT: 10}


@dataclass(frozen=True)
class LstmOperands:
    """Where the operands of one direction of an LSTM stand.

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


def integer_step(lstm: LstmOperands, x: Value, is_batched: bool) -> Cell:
    """A step of the whole batch, (batch, units), for inputs (steps, batch, inputs)."""
    return _Integers(lstm, x, is_batched).step


def _short(t: Translation, value: Value) -> Value:
    return t.op("clip", value, min=_LOW, max=_HIGH)


class _Integers:
    """What does not change from step to step.

    Raises:
        SternaError: E0107, E0108, E0113, E0114.
    """

    def __init__(self, lstm: LstmOperands, x: Value, is_batched: bool):
        t = self.t = lstm.t
        self.lstm, self.is_batched = lstm, is_batched
        if len(t.intermediates) not in (0, 5):
            raise t.unsupported("with intermediate tensors of 8 bits")
        self.h_scale, self.h_zero = t.per_tensor(t.info(lstm.states[0]))
        cell_scale = t.per_tensor(t.info(lstm.states[1]))[0]
        self.cell_power = round(float(np.log2(cell_scale)))
        if 2.0**self.cell_power != cell_scale or not 0 <= 15 + self.cell_power <= 4:
            raise t.unsupported(f"with a cell of scale {cell_scale:g}")
        self.is_normalized = lstm.norm(FORGET) is not None
        self.scales = {gate: self.scale_of(gate) for gate in lstm.gates}
        self.inputs = {gate: self.from_inputs(x, gate) for gate in lstm.gates}
        self.recurrent = {gate: self.from_state(gate) for gate in lstm.gates}
        self.peepholes = {gate: self.from_cell(gate, x) for gate in lstm.gates if lstm.has(PEEPHOLES.get(gate, 10**6))}
        self.cell_bound = self.bound("cell_clip", cell_scale, "int16")
        self.hidden = t.per_tensor(t.intermediates[4]) if t.intermediates else (self.h_scale, self.h_zero)

    def scale_of(self, gate: int) -> float:
        """What one unit of a gate stands for, before its function."""
        t = self.t
        if not self.is_normalized:
            return _GATE_SCALE
        if not t.intermediates:
            raise error("E0103", f"{t.kind} with layer normalization lacks its intermediate tensors")
        return t.per_tensor(t.intermediates[gate])[0]

    def bound(self, setting: str, scale: float, dtype: str) -> int:
        """A limit in units of a scale; 0 for none."""
        limit = np.float32(self.t.option(setting, 0.0))
        low, high = dtypes.limits(dtype)
        return int(min(max(float(limit / np.float32(scale)), low), high)) if limit > 0 else 0

    # -- products
    def weights(self, position: int) -> Array:
        w = np.asarray(self.t.array(position, "weights"))
        if w.ndim != 2:
            raise error("E0108", f"weights of {list(w.shape)} are not a matrix")
        return np.transpose(w)

    def product(self, x: Value, position: int, zero: int, bias: int | None) -> Value:
        """Rows less their zero point times weights, plus the bias at another position, in int32."""
        t, weights = self.t, self.weights(position)
        offset = -zero * weights.astype(np.int64).sum(0)
        if bias is not None and t.has(bias):
            offset = offset + np.asarray(t.array(bias, "a bias")).astype(np.int64)
        return t.op("add", t.op("matmul_integer", x, t.constant(weights)), t.constant(offset.astype(np.int32)))

    def from_inputs(self, x: Value, gate: int) -> Value:
        """What the inputs add to a gate at every step, saturated to 16 bits, in int32."""
        t, position = self.t, self.lstm.first + gate
        steps, batch, inputs = t.sizes(x, 3)
        # The bias follows a normalization, if there is one.
        bias = None if self.is_normalized else self.lstm.first + 11 + gate
        total = self.product(t.reshape(x, (steps * batch, inputs)), position, t.zero(0), bias)
        scale = np.float32(t.scale(position)) * np.float32(t.scale(0)) / np.float32(self.scales[gate])
        return t.reshape(_short(t, t.scaled(total, float(scale))), (steps, batch, total.shape[1]))

    def from_state(self, gate: int) -> float:
        """The factor of the product with the state."""
        scale = np.float32(self.t.scale(self.lstm.first + 4 + gate))
        return float(scale * np.float32(self.h_scale) / np.float32(self.scales[gate]))

    def from_cell(self, gate: int, x: Value) -> tuple[Value, float]:
        """The weights of a peephole, and the factor of their products with the cell.

        The reference kernel takes the outputs for the cells, of which a projection may have more: what lies after so
        many of a step's cells has no peephole, and the weights begin again with every such number.
        """
        t, position = self.t, self.lstm.first + PEEPHOLES[gate]
        weights = np.asarray(t.array(position, "weights")).astype(np.int32)
        cells, outputs = self.weights(self.lstm.first + 4 + gate).shape[::-1]
        if outputs > cells:
            raise t.unsupported("of integers with peepholes and more outputs than cells")
        if outputs < cells:
            together = t.sizes(x, 3)[1] if self.is_batched else 1
            check_table(together, cells)
            flat = np.zeros(together * cells, np.int32)
            flat[: together * outputs] = np.tile(weights[:outputs], together)
            weights = flat.reshape(together, cells)
        factor = np.float32(2.0**self.cell_power * t.scale(position) / self.scales[gate])
        return t.constant(weights), float(factor)

    # -- a step
    def step(self, place: Value, carried: list[Value]) -> tuple[list[Value], Value]:
        t = self.t
        h, state = carried
        c = t.cast(state, "int32")
        forget, cell = self.gate(FORGET, place, h, c), self.gate(CELL, place, h, c)
        is_coupled = INPUT not in self.lstm.gates
        enter = t.op("sub", t.scalar(_HIGH, "int32"), forget) if is_coupled else self.gate(INPUT, place, h, c)
        kept = t.rounding_shift(t.op("mul", forget, c), 15)
        added = t.rounding_shift(t.op("mul", enter, cell), 30 + self.cell_power)
        following = _short(t, t.op("add", kept, added))
        if self.cell_bound:
            following = t.op("clip", following, min=-self.cell_bound, max=self.cell_bound)
        output = self.gate(OUTPUT, place, h, following)
        state = t.cast(following, "int16")
        shown = t.cast(t.op("gate_fixed", state, function="tanh", integer_bits=15 + self.cell_power), "int32")
        factor = float(np.float32(2.0**-15 / self.hidden[0] * 2.0**-15))
        value = t.moved(t.scaled(t.op("mul", output, shown), factor), self.hidden[1])
        new = self.projected(t.cast(t.op("clip", value, min=-128, max=127), "int8"))
        return [new, state], new

    def gate(self, gate: int, place: Value, h: Value, c: Value) -> Value:
        """A gate between 0 and 1 (the cell's between -1 and 1) as Q0.15 in int32."""
        t = self.t
        total = self.product(h, self.lstm.first + 4 + gate, self.h_zero, None)
        value = _short(t, t.op("add", t.scaled(total, self.recurrent[gate]), at_step(t, self.inputs[gate], place)))
        if gate in self.peepholes:
            weights, factor = self.peepholes[gate]
            value = _short(t, t.op("add", value, t.scaled(t.op("mul", c, weights), factor)))
        if self.is_normalized:
            value = self.normalized(value, gate)
        function = "tanh" if gate == CELL else "logistic"
        return t.cast(t.op("gate_fixed", t.cast(value, "int16"), function=function), "int32")

    def normalized(self, x: Value, gate: int) -> Value:
        """Rows shifted to mean 0 and scaled to variance 1, with ten bits after the point, then weighted."""
        t, position, bias = self.t, self.lstm.norm(gate), self.lstm.first + 11 + gate
        assert position is not None
        *_, units = t.static(x)
        wide, rows = t.cast(x, "int64"), {"axes": (x.type.rank - 1,), "keep_dims": True}

        def whole(value: int) -> Value:
            return t.scalar(value, "int64")

        scaled = t.op("mul", t.op("reduce_sum", wide, **rows), whole(1024))
        mean = t.op("div", scaled, whole(units))
        squares = t.op("mul", t.op("reduce_sum", t.op("mul", wide, wide), **rows), whole((1 << 20) // units))
        spread = t.op("div", t.op("sub", squares, t.op("mul", mean, mean)), whole(1 << 20))
        variance, scale = t.cast(spread, "int32"), np.float32(t.scale(position))
        least = t.scalar(max(1, int(np.float32(10000) * scale)), "int32")
        variance = t.op("where", t.op("less", variance, t.scalar(1, "int32")), least, variance)
        multiplier, shift = (t.op("inverse_root_fixed", variance, gives=gives) for gives in ("multiplier", "shift"))
        moved = t.op("sub", t.op("mul", x, t.scalar(1024, "int32")), t.cast(mean, "int32"))
        even = t.op("fixed_multiply", moved, multiplier, shift)
        weighted = t.op("mul", even, t.constant(np.asarray(t.array(position, "weights")), "int32"))
        total = t.op("add", weighted, t.constant(np.asarray(t.array(bias, "a bias")), "int32"))
        half = t.op("where", t.op("greater", total, t.scalar(0, "int32")), whole(512), whole(-512))
        rounded = t.cast(t.op("div", t.op("add", t.cast(total, "int64"), half), whole(1024)), "int32")
        return _short(t, t.scaled(rounded, float(scale), left=12))

    def projected(self, hidden: Value) -> Value:
        """The output of 8 bits from what the gates let through."""
        t, position = self.t, self.lstm.first + 15
        if not self.lstm.has(15):
            return hidden
        total = self.product(hidden, position, self.hidden[1], position + 1)
        factor = np.float32(t.scale(position)) * np.float32(self.hidden[0]) / np.float32(self.h_scale)
        low, high = dtypes.limits("int8")
        value = t.op("clip", t.moved(t.scaled(total, float(factor)), self.h_zero), min=low, max=high)
        bound = self.bound("proj_clip", t.per_tensor(t.result())[0], "int8")
        return t.cast(t.op("clip", value, min=-bound, max=bound) if bound else value, "int8")
