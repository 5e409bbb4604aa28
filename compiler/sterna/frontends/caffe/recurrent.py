"""Recurrent layers of BVLC's Caffe: rows of (steps, streams, ...), and which steps go on a sequence.

Where `cont` is 0 at a step, what was remembered does not count: a sequence begins. What a run remembers at its end is
what the next begins with, unless `expose_hidden` makes it an operand and a result. Blobs: of the operand, its bias, [of
the static operand], of what is remembered, [of the result, its bias].
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sterna.errors import error
from sterna.frontends.caffe.translation import Translation
from sterna.ir.graph import Value

#: From what the operand gives at a step, whether it goes on, and what is remembered, to what is, and the result.
_Step = Callable[[Value, Value, list[Value]], tuple[list[Value], Value]]


class _Layer:
    """What the layers have in common.

    Args:
        gates: products of each unit.
        kept: names of what is remembered.
    """

    def __init__(self, t: Translation, gates: int, kept: Sequence[str]):
        self.t, self.kept = t, kept
        s, x = t.settings("recurrent_param"), t.x
        self.units, self.exposed = s.integer("num_output"), s.flag("expose_hidden")
        if self.units < 1 or x.type.rank < 2:
            raise error("E0109", f"num_output is {self.units} for {x.type}")
        self.steps, self.streams = t.extent(x, 0), t.extent(x, 1)
        if t.sizes(t.input(1), 2) != (self.steps, self.streams):
            raise error("E0108", f"{t.input(1).type} does not say which of {self.steps} steps go on")
        self.static = len(t.inputs) > 2 + (len(kept) if self.exposed else 0)
        self.wide = gates * self.units
        inner = t.product(x.shape[2:])
        given = self.product(t.reshape(x, (self.steps, self.streams, inner)), 0, self.wide)
        given = t.op("add", given, t.numbers(t.fitted(1, "bias", self.wide)))
        if self.static:
            still = t.input(2)
            rows = t.reshape(still, (self.streams, t.product(still.shape[1:])))
            given = t.op("add", given, self.product(rows, 2, self.wide))
        self.given = given
        #: Position of the blob of what is remembered.
        self.own = 3 if self.static else 2

    def product(self, x: Value, position: int, outputs: int) -> Value:
        """Rows by a blob (outputs, inputs)."""
        t = self.t
        matrix = t.fitted(position, "weights", outputs, t.extent(x, x.type.rank - 1))
        return t.op("matmul", x, t.numbers(matrix.T))

    def run(self, step: _Step) -> list[Value]:
        """The results of all steps, then what is remembered if that is exposed."""
        t, size = self.t, (self.streams, self.units)
        first = 3 if self.static else 2
        if self.exposed:
            before = [t.reshape(t.input(first + n), size) for n in range(len(self.kept))]
        else:
            before = [t.state(name, size) for name in self.kept]
        goes_on = t.reshape(t.input(1), (self.steps, self.streams, 1))

        def body(number: Value, carried: list[Value]) -> tuple[list[Value], list[Value]]:
            given, here = (t.op("gather", value, number, axis=0) for value in (self.given, goes_on))
            after, y = step(given, here, carried)
            return after, [y]

        after, (rows,) = t.repeat(self.steps, before, body)
        if not self.exposed:
            for name, value in zip(self.kept, after, strict=True):
                t.leave(name, value)
            return [rows]
        return [rows, *(t.reshape(value, (1, *size)) for value in after)]


def long_memory(t: Translation) -> list[Value]:
    """LSTM, its gates in the order input, forget, output, block."""
    layer = _Layer(t, 4, ("h", "c"))

    def step(given: Value, here: Value, kept: list[Value]) -> tuple[list[Value], Value]:
        h, c = (t.op("mul", value, here) for value in kept)
        gates = t.op("add", given, layer.product(h, layer.own, layer.wide))

        def gate(n: int) -> Value:
            size = (layer.streams, layer.units)
            return t.op("slice", gates, starts=(0, n * layer.units), sizes=size, steps=(1, 1))

        i, f, o = (t.op("sigmoid", gate(n)) for n in range(3))
        c = t.op("add", t.op("mul", f, c), t.op("mul", i, t.op("tanh", gate(3))))
        h = t.op("mul", o, t.op("tanh", c))
        return [h, c], h

    return layer.run(step)


def simple_recurrence(t: Translation) -> list[Value]:
    """RNN: h = tanh(W h + what the operand gives), and the result tanh(V h + b)."""
    layer = _Layer(t, 1, ("h",))

    def step(given: Value, here: Value, kept: list[Value]) -> tuple[list[Value], Value]:
        before = t.op("mul", kept[0], here)
        h = t.op("tanh", t.op("add", given, layer.product(before, layer.own, layer.units)))
        bias = t.numbers(t.fitted(layer.own + 2, "bias", layer.units))
        return [h], t.op("tanh", t.op("add", layer.product(h, layer.own + 1, layer.units), bias))

    return layer.run(step)
