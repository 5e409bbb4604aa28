"""Recurrent layers: the serial part of LSTM, GRU and RNN, one direction each.

What does not depend on the states, the product of the whole input sequence with its weights, plus biases, is a matrix
product of its own before these operators: `x` here is its result. The gates are in ONNX's order (LSTM: input, output,
forget, cell; GRU: update, reset, hidden), and results keep ONNX's dimension of directions, of size 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sterna.ir import dtypes
from sterna.ir.graph import TensorType
from sterna.ir.integer import ONE, ZERO, Int
from sterna.ops.activation import elu, softplus
from sterna.ops.operator import Application, Attribute, Case, Fusion, Operand, Operator, Types, unfit
from sterna.ops.types import check_dtype, present, same_dtype
from sterna.te import expr as E
from sterna.te.expr import Expr
from sterna.te.scan import scan
from sterna.te.tensor import Tensor, compute, reduce_axis, total

#: Activation functions of x, alpha and beta, and the defaults of these two (ONNX, operator RNN).
ACTIVATIONS: Mapping[str, tuple[Callable[[Expr, float, float], Expr], float, float]] = {
    "affine": (lambda x, a, b: a * x + b, 1.0, 0.0),
    "elu": (lambda x, a, b: elu(x, a), 1.0, 0.0),
    "hard_sigmoid": (lambda x, a, b: E.maximum(E.minimum(a * x + b, 1.0), 0.0), 0.2, 0.5),
    "leaky_relu": (lambda x, a, b: E.select(x < 0.0, a * x, x), 0.01, 0.0),
    "relu": (lambda x, a, b: E.maximum(x, 0.0), 0.0, 0.0),
    "scaled_tanh": (lambda x, a, b: a * E.unary("tanh", b * x), 1.0, 1.0),
    "sigmoid": (lambda x, a, b: E.unary("sigmoid", x), 0.0, 0.0),
    "softplus": (lambda x, a, b: softplus(x), 0.0, 0.0),
    "softsign": (lambda x, a, b: x / (1.0 + E.unary("abs", x)), 0.0, 0.0),
    "tanh": (lambda x, a, b: E.unary("tanh", x), 0.0, 0.0),
    "thresholded_relu": (lambda x, a, b: E.select(x > a, x, 0.0), 1.0, 0.0),
}


def within(x: Expr, limit: float) -> Expr:
    """x between the negative of a limit and the limit; 0: no limit."""
    return E.maximum(E.minimum(x, limit), -limit) if limit else x


@dataclass(frozen=True)
class _Layer:
    """The sizes and settings that the three operators share.

    Args:
        lengths: steps of each sequence of the batch; None: all of them.
    """

    applied: Application
    x: Tensor
    lengths: Tensor | None

    @property
    def shape(self) -> tuple[Int, Int, Int]:
        """(steps, batch, hidden units)."""
        return (self.x.shape[0], self.x.shape[1], self.x.shape[-1])

    def activation(self, n: int, x: Expr, clipped: bool = True) -> Expr:
        """The n-th function, of x kept within the clip. The cell is not `clipped`, as in ONNX Runtime."""
        if clipped:
            x = within(x, self.applied["clip"])
        function, alpha, beta = ACTIVATIONS[self.applied["activations"][n]]
        given = self.applied["parameters"]
        if given:
            alpha, beta = given[2 * n : 2 * n + 2]
        return function(x, alpha, beta)

    def valid(self, t: Int, n: Int) -> Expr | None:
        """Whether a step is within the sequence's length."""
        if self.lengths is None:
            return None
        return E.compare("lt", E.index_value(t, self.lengths.dtype), self.lengths[n])

    def kept(self, t: Int, n: Int, new: Expr, old: Expr) -> Expr:
        """The next state, which is the old one beyond the sequence's length."""
        valid = self.valid(t, n)
        return new if valid is None else E.select(valid, new, old)

    def state(self, position: int, suffix: str) -> Tensor:
        """A state before the first step: an operand of (1, batch, hidden), or zeros."""
        _, batch, hidden = self.shape
        given = _operand(self.applied, position)
        name = self.applied.stage(suffix)
        if given is None:
            return compute(name, (batch, hidden), lambda n, j: E.const(0, self.x.dtype))
        return compute(name, (batch, hidden), lambda n, j: given[0, n, j])

    def product(self, suffix: str, state: Tensor, weight: Tensor, gate: int | None = None) -> Tensor:
        """State times weight (hidden, gates, hidden): (steps, batch, gates, hidden), without gates for one of them."""
        steps, batch, hidden = self.shape
        k = reduce_axis("k", hidden)
        at = ZERO if hidden == 1 else k.var

        def element(t: Int, n: Int, g: Int, j: Int) -> Expr:
            value = state[t, n, at] * weight[at, g, j]
            return value if hidden == 1 else total(value, k)

        name = self.applied.stage(suffix)
        if gate is None:
            return compute(name, (steps, batch, weight.shape[1], hidden), element)
        chosen = Int({}, gate)
        return compute(name, (steps, batch, hidden), lambda t, n, j: element(t, n, chosen, j))

    def results(self, sequence: Tensor, *states: Tensor) -> tuple[Tensor, ...]:
        """The results asked for: "y" of the sequence, "y_h" and "y_c" of the last states."""
        steps, batch, hidden = self.shape
        last = ZERO if self.applied["reverse"] else steps - 1
        wanted = self.applied["gives"]

        def whole(t: Int, d: Int, n: Int, j: Int) -> Expr:
            valid = self.valid(t, n)
            return sequence[t, n, j] if valid is None else E.select(valid, sequence[t, n, j], 0)

        made = []
        for position, result in enumerate(wanted):
            name = self.applied.name if len(wanted) == 1 else f"{self.applied.name}_{position}"
            if result == "y":
                made.append(compute(name, (steps, ONE, batch, hidden), whole))
            else:
                made.append(_last(name, (ONE, batch, hidden), states[("y_h", "y_c").index(result)], last))
        return tuple(made)


def _operand(applied: Application, position: int) -> Tensor | None:
    """An operand that may be left out."""
    return applied.inputs[position] if position < len(applied.inputs) else None


def _last(name: str, shape: Sequence[Int], state: Tensor, time: Int) -> Tensor:
    return compute(name, shape, lambda d, n, j: state[time, n, j])


# ---------------------------------------------------------------- LSTM
def _lstm(applied: Application) -> tuple[Tensor, ...]:
    x, weight, peepholes = applied.input(0), applied.input(1), _operand(applied, 5)
    layer = _Layer(applied, x, _operand(applied, 2))
    steps, batch, hidden = layer.shape

    def step(h: Tensor, c: Tensor) -> tuple[Tensor, ...]:
        products = layer.product("gates", h, weight)

        def gate(t: Int, n: Int, g: int, j: Int, cell: Expr | None = None) -> Expr:
            value = x[t, n, g, j] + products[t, n, g, j]
            if peepholes is not None and cell is not None:
                value = value + peepholes[g, j] * cell
            return layer.activation(1 if g == 3 else 0, value)

        def cell(t: Int, n: Int, j: Int) -> Expr:
            old = c[t, n, j]
            enter = gate(t, n, 0, j, old)
            forget = 1.0 - enter if applied["input_forget"] else gate(t, n, 2, j, old)
            new = within(forget * old + enter * gate(t, n, 3, j), applied["cell_clip"])
            return layer.kept(t, n, new, old)

        after = compute(applied.stage("c"), (steps, batch, hidden), cell)

        def output(t: Int, n: Int, j: Int) -> Expr:
            new = gate(t, n, 1, j, after[t, n, j]) * layer.activation(2, after[t, n, j], clipped=False)
            return layer.kept(t, n, new, h[t, n, j])

        return compute(applied.stage("h"), (steps, batch, hidden), output), after

    init = (layer.state(3, "h0"), layer.state(4, "c0"))
    h, c = scan(applied.stage("scan"), steps, init, step, applied["reverse"])
    return layer.results(h, h, c)


# ---------------------------------------------------------------- GRU
def _gru(applied: Application) -> tuple[Tensor, ...]:
    x, weight, bias = applied.input(0), applied.input(1), _operand(applied, 4)
    layer = _Layer(applied, x, _operand(applied, 2))
    steps, batch, hidden = layer.shape

    def after(h: Tensor, t: Int, n: Int, j: Int, update: Expr, new: Expr) -> Expr:
        z, old = layer.activation(0, update), h[t, n, j]
        return layer.kept(t, n, (1.0 - z) * layer.activation(1, new) + z * old, old)

    def reset_after(h: Tensor) -> tuple[Tensor, ...]:
        products = layer.product("gates", h, weight)

        def element(t: Int, n: Int, j: Int) -> Expr:
            reset = layer.activation(0, x[t, n, 1, j] + products[t, n, 1, j])
            linear = products[t, n, 2, j] if bias is None else products[t, n, 2, j] + bias[j]
            return after(h, t, n, j, x[t, n, 0, j] + products[t, n, 0, j], x[t, n, 2, j] + reset * linear)

        return (compute(applied.stage("h"), (steps, batch, hidden), element),)

    def reset_before(h: Tensor) -> tuple[Tensor, ...]:
        resets = layer.product("reset", h, weight, 1)
        updates = layer.product("update", h, weight, 0)

        def element(t: Int, n: Int, j: Int) -> Expr:
            return layer.activation(0, x[t, n, 1, j] + resets[t, n, j]) * h[t, n, j]

        remaining = compute(applied.stage("rh"), (steps, batch, hidden), element)
        products = layer.product("hidden", remaining, weight, 2)

        def new(t: Int, n: Int, j: Int) -> Expr:
            return after(h, t, n, j, x[t, n, 0, j] + updates[t, n, j], x[t, n, 2, j] + products[t, n, j])

        return (compute(applied.stage("h"), (steps, batch, hidden), new),)

    step = reset_after if applied["linear_before_reset"] else reset_before
    (h,) = scan(applied.stage("scan"), steps, (layer.state(3, "h0"),), step, applied["reverse"])
    return layer.results(h, h)


# ---------------------------------------------------------------- RNN
def _rnn(applied: Application) -> tuple[Tensor, ...]:
    x, weight = applied.input(0), applied.input(1)
    layer = _Layer(applied, x, _operand(applied, 2))
    steps, batch, hidden = layer.shape

    def step(h: Tensor) -> tuple[Tensor, ...]:
        products = layer.product("gates", h, weight, 0)

        def element(t: Int, n: Int, j: Int) -> Expr:
            new = layer.activation(0, x[t, n, 0, j] + products[t, n, j])
            return layer.kept(t, n, new, h[t, n, j])

        return (compute(applied.stage("h"), (steps, batch, hidden), element),)

    (h,) = scan(applied.stage("scan"), steps, (layer.state(3, "h0"),), step, applied["reverse"])
    return layer.results(h, h)


# ---------------------------------------------------------------- declarations
def _types(gates: int, activations: int, states: int) -> Callable[[Types, Mapping[str, Any]], tuple[TensorType, ...]]:
    def rule(types: Types, attributes: Mapping[str, Any]) -> tuple[TensorType, ...]:
        x, weight = present(types, 0, 1)
        check_dtype(same_dtype((x, weight)), ("float32", "float64"))
        if x.rank != 4 or x.shape[2] != gates:
            raise unfit(f"takes (steps, batch, {gates}, hidden units), not {x}")
        steps, batch, _, hidden = x.shape
        if steps.bounds()[0] == 0:
            raise unfit(f"a sequence of {steps} steps has no last state")
        wanted: list[tuple[int, str, tuple[Int, ...]]] = [(1, x.dtype, (hidden, Int({}, gates), hidden))]
        wanted += [(3 + n, x.dtype, (ONE, batch, hidden)) for n in range(states)]
        if gates == 4:
            wanted.append((5, x.dtype, (Int({}, 3), hidden)))
        if gates == 3:
            wanted.append((4, x.dtype, (hidden,)))
        lengths = types[2] if len(types) > 2 else None
        if lengths is not None:
            wanted.append((2, lengths.dtype if dtypes.is_integer(lengths.dtype) else "int32", (batch,)))
        for position, dtype, shape in wanted:
            given = types[position] if position < len(types) else None
            if given is not None and given != TensorType(dtype, shape):
                raise unfit(f"operand {position} is {given}, not {TensorType(dtype, shape)}")
        names, parameters = attributes["activations"], attributes["parameters"]
        if len(names) != activations or any(name not in ACTIVATIONS for name in names):
            raise unfit(f"activations {', '.join(names)} are not {activations} of {', '.join(ACTIVATIONS)}")
        if len(parameters) not in (0, 2 * activations):
            raise unfit(f"{len(parameters)} parameters for {activations} activations")
        results = attributes["gives"]
        possible = ("y", "y_h", "y_c")[: 1 + states]
        if not results or any(result not in possible for result in results):
            raise unfit(f"results {', '.join(results)} are not of {', '.join(possible)}")
        sequence = TensorType(x.dtype, (steps, ONE, batch, hidden))
        last = TensorType(x.dtype, (ONE, batch, hidden))
        return tuple(sequence if result == "y" else last for result in results)

    return rule


def _attributes(activations: tuple[str, ...], *more: Attribute) -> tuple[Attribute, ...]:
    return (
        Attribute("activations", "strings", f"functions of the gates, of {', '.join(ACTIVATIONS)}", activations),
        Attribute("parameters", "floats", "alpha and beta of each activation; none: their defaults", ()),
        Attribute(
            "clip", "float", "the operands of the gates' activations stay within its negative and it; 0: no limit", 0.0
        ),
        Attribute("reverse", "bool", "from the last step to the first", False),
        Attribute("gives", "strings", "which results: y (all steps), y_h, y_c (last states)", ("y",)),
        *more,
    )


def _cases(gates: int, more: Sequence[Mapping[str, Any]], states: int, extra: Operand | None) -> tuple[Case, ...]:
    """Sizes with tails of every kind, then settings; small weights, so that states stay in the interesting range."""

    def operands(steps: int, batch: int, hidden: int, full: bool, lengths: bool = False) -> tuple[Any, ...]:
        given: list[Any] = [("float32", (steps, batch, gates, hidden)), ("float32", (hidden, gates, hidden))]
        given.append(np.asarray([(3 * n) % steps + 1 for n in range(batch)], np.int32) if lengths else None)
        given += [("float32", (1, batch, hidden)) if full else None for _ in range(states)]
        if extra is not None:
            given.append((extra[0], (*extra[1], hidden)) if full else None)
        return tuple(given)

    sizes = ((1, 1, 1), (3, 1, 5), (4, 2, 16), (1, 3, 24), (5, 4, 1), (3, 5, 33), (2, 1, 130))
    cases = [Case(operands(*size, full=bool(n % 2)), low=-1.0, high=1.0) for n, size in enumerate(sizes)]
    last: tuple[Mapping[str, Any], ...] = (
        {"gives": ("y_h",)},
        {"reverse": True},
        {"clip": 0.5, "reverse": True, "gives": ("y_h",)},
    )
    for n, attributes in enumerate((*last, *more)):
        for lengths in (False, True):
            cases.append(Case(operands(5, 3, 18, bool(n % 2), lengths), attributes, -1.0, 1.0))
    return tuple(cases)


_DIRECTION = "x is (steps, batch, gates, hidden units), the weight (hidden units, gates, hidden units)"

OPERATORS: tuple[Operator, ...] = (
    Operator(
        "lstm",
        f"The recurrence of a long short-term memory; {_DIRECTION}. More operands: sequence lengths, first h and c, "
        "peepholes of the input, output and forget gates.",
        _types(4, 3, 2),
        _lstm,
        Fusion.OPAQUE,
        _attributes(
            ("sigmoid", "tanh", "tanh"),
            Attribute("input_forget", "bool", "whether the forget gate is 1 less the input gate", False),
            Attribute("cell_clip", "float", "cells stay within its negative and it; 0: no limit", 0.0),
        ),
        cases=_cases(
            4,
            (
                {"input_forget": True},
                {"cell_clip": 0.3, "gives": ("y", "y_h", "y_c")},
                {"activations": ("hard_sigmoid", "softsign", "relu"), "gives": ("y_c",)},
                {"activations": ("affine", "scaled_tanh", "elu"), "parameters": (0.3, 0.4, 1.5, 0.7, 0.8, 0.0)},
            ),
            2,
            ("float32", (3,)),
        ),
    ),
    Operator(
        "gru",
        f"The recurrence of gated recurrent units; {_DIRECTION}. More operands: sequence lengths, first h, the bias of "
        "the recurrent product of the hidden gate (for linear_before_reset).",
        _types(3, 2, 1),
        _gru,
        Fusion.OPAQUE,
        _attributes(
            ("sigmoid", "tanh"),
            Attribute("linear_before_reset", "bool", "whether the reset gate acts on the product, not on h", False),
        ),
        cases=_cases(
            3,
            (
                {"linear_before_reset": True},
                {"linear_before_reset": True, "reverse": True},
                {"activations": ("hard_sigmoid", "leaky_relu")},
            ),
            1,
            ("float32", ()),
        ),
    ),
    Operator(
        "rnn",
        f"The recurrence of a simple layer; {_DIRECTION}, with one gate. More operands: sequence lengths, first h.",
        _types(1, 1, 1),
        _rnn,
        Fusion.OPAQUE,
        _attributes(("tanh",)),
        cases=_cases(1, ({"activations": ("softplus",)}, {"activations": ("thresholded_relu",)}), 1, None),
    ),
)

__all__ = ["ACTIVATIONS", "OPERATORS"]
