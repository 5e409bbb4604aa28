"""Recurrent layers: operands and results are (Seq, B, C, 1, 1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sterna.frontends.coreml.layers.translation import Layer, Translator
from sterna.frontends.standard import standard_results
from sterna.ir.graph import Array, Value

_GATES = ("input", "output", "forget")


def _activations(t: Layer, given: Sequence[Any]) -> dict[str, Any]:
    """ONNX's settings of activations, with the parameters of those that have them."""
    names, alphas, betas = [], [], []
    plain = {"ReLU": "Relu", "tanh": "Tanh", "sigmoid": "Sigmoid", "softsign": "Softsign", "softplus": "Softplus"}
    one = {"leakyReLU": "LeakyRelu", "thresholdedReLU": "ThresholdedRelu", "ELU": "Elu"}
    two = {"linear": "Affine", "scaledTanh": "ScaledTanh", "sigmoidHard": "HardSigmoid"}
    for each in given:
        kind = each.WhichOneof("NonlinearityType")
        if kind in plain:
            names.append(plain[kind])
        elif kind in one or kind in two:
            settings = getattr(each, kind)
            names.append({**one, **two}[kind])
            alphas.append(settings.alpha)
            if kind in two:
                betas.append(settings.beta)
        else:
            raise t.unsupported(f"with the activation {kind}")
    return {"activations": names, "activation_alpha": alphas or None, "activation_beta": betas or None}


class _Run:
    """What the layers have in common."""

    def __init__(self, t: Layer, inputs: int, outputs: int):
        self.t, self.columns, self.size = t, inputs, outputs
        x = t.input(0)
        self.x = t.reshape(x, (x.shape[0], x.shape[1], inputs))

    def stack(self, held: Sequence[Any], columns: int) -> Array:
        """Matrices of the gates below each other."""
        return np.concatenate([self.t.weights(each, self.size, columns) for each in held])

    def vectors(self, held: Sequence[Any], given: bool) -> Array:
        if not given:
            return np.zeros(len(held) * self.size, np.float32)
        return np.concatenate([self.t.weights(each, self.size) for each in held])

    def constant(self, parts: Sequence[Array]) -> Value:
        return self.t.constant(np.stack(parts))

    def states(self, first: int, count: int) -> list[Value | None]:
        """Operands that hold states, of one direction each, as (directions, batch, size)."""
        t = self.t

        def state(position: int) -> Value | None:
            parts = [t.optional(position + 2 * n) for n in range(count)]
            if any(part is None for part in parts):
                return None
            rows = [t.reshape(part, (1, part.shape[1], self.size)) for part in parts if part is not None]
            return rows[0] if count == 1 else t.op("concat", *rows, axis=0)

        return [state(first), state(first + 1)]

    def result(self, y: Value, last: Sequence[Value], sequence: bool) -> list[Value]:
        """Steps, each where its operand stands in either direction, or the last one; then each direction's states."""
        t = self.t
        directions = t.extent(y, 1)

        def wide(rows: Value) -> Value:
            moved = t.transpose(rows, (0, 2, 1, 3))
            return t.reshape(moved, (*moved.shape[:2], directions * self.size, 1, 1))

        if sequence:
            steps = wide(y)
        else:
            steps = wide(t.reshape(last[0], (1, *last[0].shape)))
        made = [steps]
        for direction in range(directions):
            for value in last:
                row = t.op("gather", value, t.constant([direction], "int64"), axis=0)
                made.append(t.reshape(row, (1, row.shape[1], self.size, 1, 1)))
        return made


def _direction(reverse: bool) -> str:
    return "reverse" if reverse else "forward"


def _simple(t: Layer) -> list[Value]:
    p = t.params
    run = _Run(t, int(p.inputVectorSize), int(p.outputVectorSize))
    w, r = run.stack([p.weightMatrix], run.columns), run.stack([p.recursionMatrix], run.size)
    bias = np.concatenate([run.vectors([p.biasVector], p.hasBiasVector), np.zeros(run.size, np.float32)])
    state = run.states(1, 1)[0]
    y, h = standard_results(
        t, "RNN", run.x, run.constant([w]), run.constant([r]), run.constant([bias]), None, state, results=2,
        hidden_size=run.size, direction=_direction(p.reverseInput), **_activations(t, [p.activation]),
    )  # fmt: skip
    return run.result(y, [h], p.sequenceOutput)


def _gru(t: Layer) -> list[Value]:
    p = t.params
    run = _Run(t, int(p.inputVectorSize), int(p.outputVectorSize))
    gates = ("update", "reset", "output")
    w = run.stack([getattr(p, f"{gate}GateWeightMatrix") for gate in gates], run.columns)
    r = run.stack([getattr(p, f"{gate}GateRecursionMatrix") for gate in gates], run.size)
    bias = run.vectors([getattr(p, f"{gate}GateBiasVector") for gate in gates], p.hasBiasVectors)
    bias = np.concatenate([bias, np.zeros_like(bias)])
    y, h = standard_results(
        t, "GRU", run.x, run.constant([w]), run.constant([r]), run.constant([bias]), None, run.states(1, 1)[0],
        results=2, hidden_size=run.size, direction=_direction(p.reverseInput), **_activations(t, p.activations),
    )  # fmt: skip
    return run.result(y, [h], p.sequenceOutput)


def _lstm_weights(run: _Run, held: Any, params: Any) -> tuple[Array, Array, Array, Array]:
    """(weights, recursion, biases, peepholes) in ONNX's order: input, output, forget, block."""

    def named(end: str, gates: Sequence[str]) -> list[Any]:
        return [getattr(held, f"{g}Gate{end}") for g in gates]

    w = run.stack([*named("WeightMatrix", _GATES), held.blockInputWeightMatrix], run.columns)
    r = run.stack([*named("RecursionMatrix", _GATES), held.blockInputRecursionMatrix], run.size)
    bias = run.vectors([*named("BiasVector", _GATES), held.blockInputBiasVector], params.hasBiasVectors)
    if params.forgetBias:
        bias = bias.copy()
        bias[2 * run.size : 3 * run.size] += 1
    peephole = run.vectors(named("PeepholeVector", _GATES), params.hasPeepholeVectors)
    return w, r, np.concatenate([bias, np.zeros_like(bias)]), peephole


def _lstm(t: Layer) -> list[Value]:
    p = t.params
    both = t.kind == "biDirectionalLSTM"
    run = _Run(t, int(p.inputVectorSize), int(p.outputVectorSize))
    parts = [_lstm_weights(run, held, p.params) for held in (p.weightParams if both else [p.weightParams])]
    w, r, b, peephole = (run.constant(rows) for rows in zip(*parts, strict=True))
    given = [*p.activationsForwardLSTM, *p.activationsBackwardLSTM] if both else list(p.activations)
    h, c = run.states(1, len(parts))
    clip = p.params.cellClipThreshold
    made = standard_results(
        t, "LSTM", run.x, w, r, b, None, h, c, peephole if p.params.hasPeepholeVectors else None, results=3,
        hidden_size=run.size, direction="bidirectional" if both else _direction(p.reverseInput),
        input_forget=int(p.params.coupledInputAndForgetGate), clip=clip if 0 < clip < 1e4 else None,
        **_activations(t, given),
    )  # fmt: skip
    return run.result(made[0], made[1:], p.params.sequenceOutput)


TRANSLATORS: dict[str, Translator] = {
    "biDirectionalLSTM": _lstm,
    "gru": _gru,
    "simpleRecurrent": _simple,
    "uniDirectionalLSTM": _lstm,
}
