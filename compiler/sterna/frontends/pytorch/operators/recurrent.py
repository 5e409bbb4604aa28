"""Recurrent layers. PyTorch's gates stand in another order than ONNX's, by which the layers are made."""

from __future__ import annotations

from typing import Any

from sterna.errors import error
from sterna.frontends.pytorch.operators.matrices import product
from sterna.frontends.pytorch.operators.movement import reversed_along
from sterna.frontends.pytorch.translation import Translation, Translator
from sterna.frontends.standard import standard_results
from sterna.ir.graph import Value

#: Operator -> (that of ONNX, where each of its gates stands among PyTorch's, settings).
_KINDS: dict[str, tuple[str, tuple[int, ...], dict[str, Any]]] = {
    "lstm": ("LSTM", (0, 3, 1, 2), {}),
    "gru": ("GRU", (1, 0, 2), {"linear_before_reset": 1}),
    "rnn_tanh": ("RNN", (0,), {"activations": ("Tanh",)}),
    "rnn_relu": ("RNN", (0,), {"activations": ("Relu",)}),
}


def _ordered(t: Translation, x: Value, order: tuple[int, ...]) -> Value:
    """A weight with its gates in another order."""
    size = t.extent(x, 0) // len(order)
    if len(order) == 1:
        return x
    return t.op("concat", *(t.cut(x, 0, gate * size, size) for gate in order), axis=0)


def layers(kind: str) -> Translator:
    operator, order, settings = _KINDS[kind]
    states = 2 if kind == "lstm" else 1

    def translate(t: Translation) -> tuple[Value, ...]:
        if t.flag("train") and t.number("dropout", 0.0):
            raise t.unsupported("with dropout", "export the module after model.eval()")
        x = t.tensor("input")
        given = t.arg("hx")
        initial = list(given) if isinstance(given, list) else [t.tensor("hx")]
        single = x.type.rank == 2
        if single:
            x, initial = t.unsqueeze(x, 1), [t.unsqueeze(each, 1) for each in initial]
        elif t.flag("batch_first"):
            x = t.transpose(x, (1, 0, 2))
        directions = 2 if t.flag("bidirectional") else 1
        params, biased = t.tensors("params"), t.flag("has_biases", True)
        count, each = t.integer("num_layers", 1), 4 if biased else 2
        projected = kind == "lstm" and len(params) == count * directions * (each + 1)
        each += projected
        if len(params) != count * directions * each:
            raise error("E0103", f"{t.kind} has {len(params)} weights for {count} layers")
        last: list[list[Value]] = [[] for _ in range(states)]
        for layer in range(count):
            parts = [params[(layer * directions + d) * each :][:each] for d in range(directions)]
            begins = [t.cut(state, 0, layer * directions, directions) for state in initial]
            made = _projected(t, x, parts, begins) if projected else _layer(
                t, operator, order, settings, x, parts, begins)  # fmt: skip
            y, *ends = made
            for kept, end in zip(last, ends, strict=True):
                kept.append(end)
            # (time, directions, batch, hidden) as (time, batch, directions * hidden)
            steps, _, batch, hidden = y.shape
            x = t.reshape(t.transpose(y, (0, 2, 1, 3)), (steps, batch, hidden * directions))
        ends = [kept[0] if count == 1 else t.op("concat", *kept, axis=0) for kept in last]
        if single:
            return tuple(t.reshape(v, (v.shape[0], v.shape[2])) for v in (x, *ends))
        return (t.transpose(x, (1, 0, 2)) if t.flag("batch_first") else x, *ends)

    return translate


def _layer(
    t: Translation, operator: str, order: tuple[int, ...], settings: dict[str, Any], x: Value,
    parts: list[list[Value]], initial: list[Value],
) -> tuple[Value, ...]:  # fmt: skip
    """One layer in its directions: the results of every step, and the states in the end."""
    stacked = []
    for n in range(len(parts[0])):
        rows = [t.unsqueeze(_ordered(t, part[n], order), 0) for part in parts]
        stacked.append(rows[0] if len(rows) == 1 else t.op("concat", *rows, axis=0))
    w, r, *biases = stacked
    bias = t.op("concat", *biases, axis=1) if biases else None
    settings = dict(settings)
    if len(parts) == 2:
        settings["direction"] = "bidirectional"
        if "activations" in settings:
            settings["activations"] = tuple(settings["activations"]) * 2
    hidden = t.extent(r, 2)
    return standard_results(
        t, operator, x, w, r, bias, None, *initial, results=1 + len(initial), hidden_size=hidden, **settings
    )


def _projected(t: Translation, x: Value, parts: list[list[Value]], initial: list[Value]) -> tuple[Value, ...]:
    """An LSTM layer whose hidden state is a product of what its gates give (H. Sak and others, 2014).

    Returns:
        (steps, directions, batch, projection), and the states (directions, batch, ...) in the end.
    """
    steps, results, ends = t.extent(x, 0), [], list[list[Value]]()
    for n, (w, r, *biases, projection) in enumerate(parts):
        given = product(t, x, t.transpose(w, (1, 0)))
        for bias in biases:
            given = t.op("add", given, bias)
        hidden = t.extent(r, 0) // 4
        turned = t.transpose(r, (1, 0)), t.transpose(projection, (1, 0))

        def step(
            number: Value, carried: list[Value], n: int = n, given: Value = given, hidden: int = hidden,
            turned: tuple[Value, Value] = turned,
        ) -> tuple[list[Value], list[Value]]:  # fmt: skip
            h, c = carried
            place = t.op("sub", t.scalar(steps - 1, "int64"), number) if n else number
            gates = t.op("add", t.take(t.op("gather", given, t.reshape(place, (1,)), axis=0), 0, 0),
                         product(t, h, turned[0]))  # fmt: skip
            i, f, g, o = (t.cut(gates, 1, k * hidden, hidden) for k in range(4))
            h, c = _lstm_states(t, i, f, g, o, c)
            h = product(t, h, turned[1])
            return [h, c], [h]

        (h, c), (rows,) = t.repeat(steps, [t.take(state, 0, n) for state in initial], step)
        results.append(t.unsqueeze(reversed_along(t, rows, (0,)) if n else rows, 1))
        ends.append([t.unsqueeze(h, 0), t.unsqueeze(c, 0)])
    if len(parts) == 1:
        return results[0], *ends[0]
    return (t.op("concat", *results, axis=1), *(t.op("concat", *both, axis=0) for both in zip(*ends, strict=True)))


def _lstm_states(t: Translation, i: Value, f: Value, g: Value, o: Value, c: Value) -> tuple[Value, Value]:
    """The hidden state and the cell that gates make of the cell before."""
    kept = t.op("mul", t.op("sigmoid", f), c)
    cell = t.op("add", kept, t.op("mul", t.op("sigmoid", i), t.op("tanh", g)))
    return t.op("mul", t.op("sigmoid", o), t.op("tanh", cell)), cell


def _gates(t: Translation, x: Value, h: Value) -> tuple[Value, Value]:
    """What the input and the hidden state give to the gates."""
    found = []
    for value, weight, bias in ((x, "w_ih", "b_ih"), (h, "w_hh", "b_hh")):
        y = product(t, value, t.transpose(t.tensor(weight), (1, 0)))
        given = t.maybe(bias)
        found.append(y if given is None else t.op("add", y, given))
    return found[0], found[1]


def _cut(t: Translation, x: Value, n: int, count: int) -> Value:
    size = t.extent(x, 1) // count
    return t.cut(x, 1, n * size, size)


def lstm_cell(t: Translation) -> tuple[Value, Value]:
    states = t.tensors("hx")
    if len(states) != 2:
        raise error("E0103", f"{t.kind} is given {len(states)} states")
    a, b = _gates(t, t.tensor("input"), states[0])
    both = t.op("add", a, b)
    i, f, g, o = (_cut(t, both, n, 4) for n in range(4))
    return _lstm_states(t, i, f, g, o, states[1])


def gru_cell(t: Translation) -> Value:
    h = t.tensor("hx")
    a, b = _gates(t, t.tensor("input"), h)
    r, z = (t.op("sigmoid", t.op("add", _cut(t, a, n, 3), _cut(t, b, n, 3))) for n in range(2))
    new = t.op("tanh", t.op("add", _cut(t, a, 2, 3), t.op("mul", r, _cut(t, b, 2, 3))))
    return t.op("add", new, t.op("mul", z, t.op("sub", h, new)))


def plain_cell(function: str) -> Translator:
    def translate(t: Translation) -> Value:
        return t.op(function, t.op("add", *_gates(t, t.tensor("input"), t.tensor("hx"))))

    return translate


TRANSLATORS: dict[str, Translator] = {
    **{f"aten.{kind}.input": layers(kind) for kind in _KINDS},
    "aten.lstm_cell.default": lstm_cell,
    "aten.gru_cell.default": gru_cell,
    "aten.rnn_tanh_cell.default": plain_cell("tanh"),
    "aten.rnn_relu_cell.default": plain_cell("relu"),
}
