"""Recurrent layers."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from support.nodes.case import NodeCase
from support.nodes.draw import BOOL, Draw, array, one_of, shape_of, some, strategy


@strategy("LSTM", "GRU", "RNN")
def recurrent(draw: Draw, op: str) -> NodeCase:
    steps, batch, inputs, hidden = shape_of(draw, 4, 4, 1)
    hidden, inputs = min(hidden, 5), min(inputs, 5)
    direction = one_of(draw, "forward", "reverse", "bidirectional")
    d, gates = 2 if direction == "bidirectional" else 1, {"LSTM": 4, "GRU": 3, "RNN": 1}[op]
    w, r = (
        array(draw, (d, gates * hidden, inputs), low=-1, high=1),
        array(draw, (d, gates * hidden, hidden), low=-1, high=1),
    )
    bias = array(draw, (d, 2 * gates * hidden), low=-1, high=1) if draw(st.booleans()) else None
    lengths = np.array([draw(st.integers(1, steps)) for _ in range(batch)], np.int32) if draw(st.booleans()) else None
    states = [
        array(draw, (d, batch, hidden), low=-1, high=1) if draw(st.booleans()) else None
        for _ in range(2 if op == "LSTM" else 1)
    ]
    peepholes = [array(draw, (d, 3 * hidden), low=-1, high=1)] if op == "LSTM" and draw(st.booleans()) else []
    attributes: dict[str, Any] = {"hidden_size": hidden, "direction": direction, **some(draw, clip=st.just(0.7))}
    attributes |= some(draw, linear_before_reset=BOOL) if op == "GRU" else {}
    attributes |= some(draw, input_forget=BOOL) if op == "LSTM" else {}
    operands = (array(draw, (steps, batch, inputs)), w, r, bias, lengths, *states, *peepholes)
    return NodeCase(op, operands, frozenset({1, 2, 3, 7}), attributes, 3 if op == "LSTM" else 2, loose=20)
