"""LSTM, GRU and RNN: one product of the whole sequence with the input weights, then the recurrence of each direction.

ONNX, operators LSTM, GRU and RNN, version 22: X is (steps, batch, inputs), W (directions, gates * hidden, inputs), R
(directions, gates * hidden, hidden), B (directions, 2 * gates * hidden); Y (steps, directions, batch, hidden).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sterna.errors import error
from sterna.frontends.onnx.operators.shapes import cut
from sterna.frontends.onnx.translation import Translation, Translator, is_float
from sterna.ir import dtypes
from sterna.ir.graph import Value
from sterna.ir.integer import IntLike, as_int

#: ONNX's names of activation functions, in lower case: ours, and which of alpha and beta they take, by default.
_ACTIVATIONS: dict[str, tuple[str, tuple[float, ...]]] = {
    "affine": ("affine", (1.0, 0.0)),
    "elu": ("elu", (1.0,)),
    "hardsigmoid": ("hard_sigmoid", (0.2, 0.5)),
    "leakyrelu": ("leaky_relu", (0.01,)),
    "relu": ("relu", ()),
    "scaledtanh": ("scaled_tanh", (1.0, 1.0)),
    "sigmoid": ("sigmoid", ()),
    "softplus": ("softplus", ()),
    "softsign": ("softsign", ()),
    "tanh": ("tanh", ()),
    "thresholdedrelu": ("thresholded_relu", (1.0,)),
}


@dataclass(frozen=True)
class _Kind:
    """What tells the three operators apart."""

    operator: str
    gates: int
    activations: tuple[str, ...]
    results: tuple[str, ...] = ("y", "y_h")


def _settings(t: Translation, kind: _Kind, directions: int) -> list[dict[str, Any]]:
    """The activations of each direction with their parameters, which the model lists for those that take them."""
    count = len(kind.activations)
    names = t.attribute("activations")
    if names is None or "activations" not in t.node.given:
        names = kind.activations * directions
    if len(names) != count * directions:
        raise error("E0109", f"{len(names)} activations for {directions} directions; {count * directions} are needed")
    alphas, betas = list(t.attribute("activation_alpha") or ()), list(t.attribute("activation_beta") or ())
    functions: list[str] = []
    parameters: list[float] = []
    for name in names:
        known = _ACTIVATIONS.get(name.lower())
        if known is None:
            raise error("E0109", f'there is no activation "{name}"')
        function, defaults = known
        functions.append(function)
        given = [values.pop(0) if values else d for d, values in zip(defaults, (alphas, betas), strict=False)]
        parameters += [*given, *[0.0] * (2 - len(given))]
    return [
        {
            "activations": tuple(functions[d * count : (d + 1) * count]),
            "parameters": tuple(parameters[2 * d * count : 2 * (d + 1) * count]),
        }
        for d in range(directions)
    ]


def _part(t: Translation, x: Value, axis: int, start: int, size: int) -> Value:
    """Some elements along one dimension."""
    starts, sizes = [0] * x.type.rank, list(x.shape)
    starts[axis], sizes[axis] = start, as_int(size)
    return cut(t, x, starts, sizes)


def _translator(kind: _Kind) -> Translator:
    def translate(t: Translation) -> tuple[Value | None, ...]:
        return _Layer(t, kind).translate()

    return translate


class _Layer:
    """One node on its way."""

    def __init__(self, t: Translation, kind: _Kind):
        self.t, self.kind = t, kind
        self.batch_first = bool(t.attribute("layout", 0))
        x, w, r = t.input(0), t.input(1), t.input(2)
        if not is_float(x):
            raise error("E0108", f"{t.node.op} of {x.type}")
        self.dtype = x.dtype
        self.wide = "float32" if x.dtype in dtypes.HALVES else x.dtype
        if x.type.rank != 3:
            raise error("E0108", f"{t.node.op} takes sequences of three dimensions, not {x.type}")
        self.batch, self.steps = x.shape[:2] if self.batch_first else x.shape[1::-1]
        self.inputs, self.hidden = x.shape[2], t.sizes(r, 3)[2]
        direction = t.attribute("direction", "forward")
        if direction == "foward":  # so GRU of operator set 1 spells its default
            direction = "forward"
        if direction not in ("forward", "reverse", "bidirectional"):
            raise error("E0109", f'there is no direction "{direction}"')
        self.directions = 2 if direction == "bidirectional" else 1
        self.reverse = direction == "reverse"
        rows = kind.gates * self.hidden
        self._expect(w, "W", (self.directions, rows, self.inputs))
        self._expect(r, "R", (self.directions, rows, self.hidden))
        if t.attribute("hidden_size", self.hidden) != self.hidden:
            raise error("E0109", f"hidden_size is {t.attribute('hidden_size')}, and R is {r.type}")
        if any(n.bounds()[0] == 0 for n in (self.steps, self.batch)) or not self.hidden:
            raise t.unsupported(f"of {x.type} with {self.hidden} hidden units")

    def _expect(self, value: Value, name: str, sizes: Sequence[IntLike]) -> Value:
        if value.shape != tuple(map(as_int, sizes)):
            raise error("E0108", f"{name} is {value.type}, not of [{', '.join(map(str, sizes))}]")
        return value

    def _wide(self, value: Value) -> Value:
        return self.t.cast(value, self.wide)

    def _operand(self, position: int, name: str, sizes: Sequence[IntLike]) -> Value | None:
        value = self.t.optional(position)
        return None if value is None else self._wide(self._expect(value, name, sizes))

    def translate(self) -> tuple[Value | None, ...]:
        """The node's results, those that nothing reads left out."""
        t = self.t
        x = self._wide(t.input(0))
        if self.batch_first:
            x = t.transpose(x, (1, 0, 2))
        x = t.reshape(x, (self.steps * self.batch, self.inputs))
        used = [*t.used, *[False] * 3]
        wanted = tuple(name for n, name in enumerate(self.kind.results) if used[n]) or ("y",)
        settings = _settings(t, self.kind, self.directions)
        parts = [self._direction(x, d, wanted, settings[d]) for d in range(self.directions)]
        results: list[Value | None] = [None] * len(self.kind.results)
        for n, name in enumerate(wanted):
            values = [part[n] for part in parts]
            axis = 1 if name == "y" else 0
            value = values[0] if len(values) == 1 else t.op("concat", *values, axis=axis)
            if self.batch_first:
                value = t.transpose(value, (2, 0, 1, 3) if name == "y" else (1, 0, 2))
            results[self.kind.results.index(name)] = t.cast(value, self.dtype)
        return tuple(results)

    def _direction(self, x: Value, d: int, wanted: Sequence[str], settings: dict[str, Any]) -> tuple[Value, ...]:
        t, gates, hidden = self.t, self.kind.gates, self.hidden
        options = {**settings, "clip": float(t.attribute("clip") or 0.0), "reverse": self.reverse or d == 1}
        options["gives"] = tuple(wanted)
        w = t.reshape(_part(t, self._wide(t.input(1)), 0, d, 1), (gates * hidden, self.inputs))
        r = t.reshape(_part(t, self._wide(t.input(2)), 0, d, 1), (gates, hidden, hidden))
        product = t.op("matmul", x, t.transpose(w, (1, 0)))
        bias, rest = self._bias(d, bool(t.attribute("linear_before_reset", 0)))
        if bias is not None:
            product = t.op("add", product, bias)
        operands = [t.reshape(product, (self.steps, self.batch, gates, hidden)), t.transpose(r, (2, 0, 1))]
        states = [self._state(n, d) for n in range(5, 5 + len(self.kind.results) - 1)]
        more: list[Value | None] = [self._lengths(), *states]
        if self.kind.operator == "lstm":
            options["input_forget"] = bool(t.attribute("input_forget", 0))
            peepholes = self._operand(7, "P", (self.directions, 3 * hidden))
            more.append(None if peepholes is None else t.reshape(_part(t, peepholes, 0, d, 1), (3, hidden)))
        elif self.kind.operator == "gru":
            options["linear_before_reset"] = bool(t.attribute("linear_before_reset", 0))
            more.append(rest)
        return t.builder.add_all(
            self.kind.operator,
            *operands,
            *more,
            sources=t.sources,
            name=f"{t.node.name}/{self.kind.operator}",
            results=(None,) * len(wanted),
            **options,
        )

    def _bias(self, d: int, before_reset: bool) -> tuple[Value | None, Value | None]:
        """What is added to the product of the inputs: both biases, as far as the recurrent one is not a matter of its
        own, which is the other result."""
        t, rows, hidden = self.t, self.kind.gates * self.hidden, self.hidden
        given = self._operand(3, "B", (self.directions, 2 * rows))
        if given is None:
            return None, None
        own = t.reshape(_part(t, given, 0, d, 1), (2 * rows,))
        first, second = _part(t, own, 0, 0, rows), _part(t, own, 0, rows, rows)
        if self.kind.operator != "gru" or not before_reset:
            return t.op("add", first, second), None
        kept = t.pad(_part(t, second, 0, 0, 2 * hidden), (0,), (hidden,))
        return t.op("add", first, kept), _part(t, second, 0, 2 * hidden, hidden)

    def _state(self, position: int, d: int) -> Value | None:
        sizes = (self.directions, self.batch, self.hidden)
        if self.batch_first:
            value = self._operand(position, "an initial state", (sizes[1], sizes[0], sizes[2]))
            value = None if value is None else self.t.transpose(value, (1, 0, 2))
        else:
            value = self._operand(position, "an initial state", sizes)
        return None if value is None else _part(self.t, value, 0, d, 1)

    def _lengths(self) -> Value | None:
        """The lengths of the sequences, unless all of them are known to be whole."""
        value = self.t.optional(4)
        if value is None:
            return None
        self._expect(value, "sequence_lens", (self.batch,))
        most = self.steps.bounds()[1]
        if value.data is not None and most is not None and bool(np.all(value.data >= most)):
            return None
        return value


TRANSLATORS: dict[str, Translator] = {
    "GRU": _translator(_Kind("gru", 3, ("sigmoid", "tanh"))),
    "LSTM": _translator(_Kind("lstm", 4, ("sigmoid", "tanh", "tanh"), ("y", "y_h", "y_c"))),
    "RNN": _translator(_Kind("rnn", 1, ("tanh",))),
}
