"""LSTM, GRU and simple recurrent layers."""

from __future__ import annotations

from typing import Any

import numpy as np

from sterna.frontends.coreml.mil.translation import Translation, Translator
from sterna.frontends.standard import standard_results
from sterna.ir.graph import Array, Value

_ACTIVATIONS = {
    "hard_sigmoid": "HardSigmoid", "linear": "Affine", "relu": "Relu", "scaled_tanh": "ScaledTanh",
    "sigmoid": "Sigmoid", "sigmoid_hard": "HardSigmoid", "tanh": "Tanh", "softsign": "Softsign",
    "softplus": "Softplus", "leaky_relu": "LeakyRelu", "elu": "Elu", "thresholded_relu": "ThresholdedRelu",
}  # fmt: skip
#: Where ONNX's gates stand among ours: input, forget, output, cell -> i, o, f, c; reset, output, update -> z, r, h.
_LSTM, _GRU, _RNN = (0, 2, 1, 3), (2, 0, 1), (0,)


def _ordered(array: Array, order: tuple[int, ...]) -> Array:
    size = array.shape[0] // len(order)
    return np.concatenate([array[n * size : (n + 1) * size] for n in order])


def _activation(t: Translation, name: str, default: str) -> str:
    found = t.text(name, default)
    if found not in _ACTIVATIONS:
        raise t.unsupported(f"with the activation {found}")
    return _ACTIVATIONS[found]


def _translator(operator: str, order: tuple[int, ...]) -> Translator:
    def translate(t: Translation) -> tuple[Value, ...]:
        x = t.arg("x")
        both = t.text("direction", "forward") == "bidirectional"
        ends = ("", "_back") if both else ("",)
        w, r, b, p = [], [], [], []
        for end in ends:
            w.append(_ordered(t.table(f"weight_ih{end}"), order))
            r.append(_ordered(t.table(f"weight_hh{end}"), order))
            rows = w[-1].shape[0]
            bias = t.table(f"bias{end}") if t.given(f"bias{end}") else np.zeros(rows)
            # In old operator sets the biases of input and state stand in two rows, and are added.
            bias = _ordered(bias.sum(axis=0) if bias.ndim == 2 else bias, order)
            other = _ordered(t.table("input_bias"), order) if t.given("input_bias") else np.zeros(rows)
            # Operator set CoreML8: with `reset_after` the bias is the state's, and the reset gate applies to it, too.
            after = operator == "GRU" and t.flag("reset_after")
            b.append(np.concatenate([other, bias] if after else [bias + other, np.zeros(rows)]))
            if operator == "LSTM":
                held = t.table(f"peephole{end}") if t.given(f"peephole{end}") else np.zeros(3 * (rows // 4))
                p.append(_ordered(held, (0, 2, 1)))
        hidden = r[0].shape[1]

        def state(name: str) -> Value:
            """(batch, directions * size) as (directions, batch, size)."""
            value = t.arg(name)
            return t.transpose(t.reshape(value, (value.shape[0], len(ends), hidden)), (1, 0, 2))

        output = _activation(t, "activation", "tanh")
        if operator == "LSTM":
            inner = [_activation(t, "recurrent_activation", "sigmoid"), _activation(t, "cell_activation", "tanh")]
            activations = [*inner, output]
        elif operator == "GRU":
            activations = [_activation(t, "recurrent_activation", "sigmoid"), output]
        else:
            activations = [output]
        inputs = [x, *(t.constant(np.stack(part), x.dtype) for part in (w, r, b)), None, state("initial_h")]
        settings: dict[str, Any] = {"clip": float(t.number("clip"))} if t.given("clip") and operator == "LSTM" else {}
        if operator == "GRU":  # the reset gate applies to the product, not to the state
            settings["linear_before_reset"] = 1
        if operator == "LSTM":
            peephole = t.constant(np.stack(p), x.dtype) if np.any(p) else None
            inputs += [state("initial_c"), peephole]
        made = standard_results(
            t, operator, *inputs, results=3 if operator == "LSTM" else 2, hidden_size=hidden,
            direction=t.text("direction", "forward"), activations=activations * len(ends), **settings,
        )  # fmt: skip

        def joined(value: Value) -> Value:
            moved = t.transpose(value, (1, 0, 2))
            return t.reshape(moved, (moved.shape[0], len(ends) * hidden))

        last = [joined(value) for value in made[1:]]
        if not t.flag("output_sequence"):
            return t.reshape(last[0], (1, *last[0].shape)), *last
        steps = t.transpose(made[0], (0, 2, 1, 3))
        return t.reshape(steps, (*steps.shape[:2], len(ends) * hidden)), *last

    return translate


TRANSLATORS: dict[str, Translator] = {
    "gru": _translator("GRU", _GRU),
    "lstm": _translator("LSTM", _LSTM),
    "rnn": _translator("RNN", _RNN),
}
