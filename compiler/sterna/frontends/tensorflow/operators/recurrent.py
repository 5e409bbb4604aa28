"""Cells of recurrent layers as single operators (tensorflow/core/ops/rnn_ops.cc)."""

from __future__ import annotations

from sterna.frontends.tensorflow.translation import Translation, Translator
from sterna.ir.graph import Value


def _columns(t: Translation, x: Value, count: int) -> list[Value]:
    """Equal parts of the last dimension."""
    size = t.extent(x, -1) // count
    batch = x.shape[0]
    return [t.op("slice", x, starts=(0, n * size), sizes=(batch, size), steps=(1, 1)) for n in range(count)]


def _step(
    t: Translation, x: Value, cs: Value, h: Value, w: Value, peepholes: tuple[Value, Value, Value], b: Value, order: str
) -> tuple[Value, ...]:
    """One step of a long short-term memory: i, cs, f, o, ci, co, h. `order`: of the gates in the weights."""
    gates = t.op("add", t.op("matmul", t.op("concat", x, h, axis=1), w), b)
    part = dict(zip(order, _columns(t, gates, 4), strict=True))
    uses = bool(t.option("use_peephole", False))
    wci, wcf, wco = peepholes

    def gate(value: Value, state: Value, weight: Value) -> Value:
        return t.op("sigmoid", t.op("add", value, t.op("mul", state, weight)) if uses else value)

    forget = 1.0 if t.kind == "BlockLSTMV2" else float(t.option("forget_bias", 1.0))
    moved = part["f"] if t.kind == "BlockLSTMV2" else t.op("add", part["f"], t.scalar(forget, x.dtype))
    i, f = gate(part["i"], cs, wci), gate(moved, cs, wcf)
    ci = t.op("tanh", part["c"])
    new = t.op("add", t.op("mul", ci, i), t.op("mul", cs, f))
    clip = float(t.option("cell_clip", 3.0 if t.kind == "BlockLSTM" else -1.0 if t.kind == "LSTMBlockCell" else 0.0))
    if clip > 0:
        new = t.op("clip", new, min=-clip, max=clip)
    o = gate(part["o"], new, wco)
    co = t.op("tanh", new)
    return i, new, f, o, ci, co, t.op("mul", co, o)


def lstm_cell(t: Translation) -> tuple[Value, ...]:
    """x, cs_prev, h_prev, w, wci, wcf, wco, b."""
    x, cs, h, w, wci, wcf, wco, b = (t.input(n) for n in range(8))
    return _step(t, x, cs, h, w, (wci, wcf, wco), b, "icfo")


def lstm_block(t: Translation) -> tuple[Value, ...]:
    """seq_len_max, x, cs_prev, h_prev, w, wci, wcf, wco, b; all results of all steps."""
    _, x, cs, h, w, wci, wcf, wco, b = (t.input(n) for n in range(9))
    steps = t.extent(x, 0)
    length = t.array_or_none(0)
    if length is not None and int(length) < steps:
        raise t.unsupported(f"of {int(length)} steps of {steps}")
    order = "ifco" if t.kind == "BlockLSTMV2" else "icfo"  # the second version has them in cuDNN's order

    def step(number: Value, carried: list[Value]) -> tuple[list[Value], list[Value]]:
        made = _step(t, t.op("gather", x, number, axis=0), carried[0], carried[1], w, (wci, wcf, wco), b, order)
        return [made[1], made[6]], list(made)

    _, rows = t.repeat(steps, [cs, h], step)
    return tuple(rows)


def gru_cell(t: Translation) -> tuple[Value, ...]:
    """x, h_prev, w_ru, w_c, b_ru, b_c; r, u, c, h."""
    x, h, w_ru, w_c, b_ru, b_c = (t.input(n) for n in range(6))
    both = t.op("sigmoid", t.op("add", t.op("matmul", t.op("concat", x, h, axis=1), w_ru), b_ru))
    r, u = _columns(t, both, 2)
    c = t.op("tanh", t.op("add", t.op("matmul", t.op("concat", x, t.op("mul", r, h), axis=1), w_c), b_c))
    rest = t.op("mul", t.op("sub", t.scalar(1, x.dtype), u), c)
    return r, u, c, t.op("add", t.op("mul", u, h), rest)


TRANSLATORS: dict[str, Translator] = {
    "BlockLSTM": lstm_block, "BlockLSTMV2": lstm_block, "GRUBlockCell": gru_cell, "LSTMBlockCell": lstm_cell,
}  # fmt: skip
