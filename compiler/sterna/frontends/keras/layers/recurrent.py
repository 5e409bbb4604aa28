"""Recurrent layers: LSTM, GRU and SimpleRNN, cells by themselves or stacked, in both directions, and ConvLSTM.

A layer of one cell with ONNX's activations and without a mask is ONNX's operator of that kind, and so a kernel of its
own. All others are a loop over the steps that applies the cell.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sterna.errors import error
from sterna.frontends.keras.config import Layer, layer_of
from sterna.frontends.keras.layers.activations import function_of
from sterna.frontends.keras.stores import Store, places
from sterna.frontends.keras.translation import Result, Translation, Translator, values_in
from sterna.ir.graph import Array, Value

#: From the operand of a step and the states to the result and the following states.
Step = Callable[[Value, list[Value]], tuple[Value, list[Value]]]
#: Activations of Keras that ONNX's recurrent operators have: their name there.
_ONNX = {
    "tanh": "Tanh", "sigmoid": "Sigmoid", "relu": "Relu", "linear": "Affine", "softplus": "Softplus",
    "softsign": "Softsign",
}  # fmt: skip
#: Orders of gates: Keras' i f c o and z r h; ONNX's i o f c and z r h.
_LSTM_ORDER = (0, 3, 1, 2)


@dataclass
class Cell:
    """A cell: the sizes of its states, and a step."""

    sizes: list[tuple[int, ...]]
    step: Step


def _settings(layer: Layer, key: str, default: Any) -> Any:
    value = layer.config.get(key, default)
    return default if value is None else value


def _weights(layer: Layer, store: Store) -> tuple[Array, Array, Array | None]:
    names = ("kernel", "recurrent_kernel", *(("bias",) if _settings(layer, "use_bias", True) else ()))
    kernel, recurrent, *bias = store.variables(names)
    return kernel, recurrent, bias[0] if bias else None


def _functions(t: Translation, layer: Layer) -> tuple[Callable[[Value], Value], Callable[[Value], Value]]:
    """The activation of the result, and that of the gates."""
    default = "sigmoid" if t.context.major >= 3 else "hard_sigmoid"
    names = layer.config.get("activation", "tanh"), layer.config.get("recurrent_activation", default)
    one, other = (function_of(t, name) for name in names)
    return lambda x: one(t, x), lambda x: other(t, x)


def _gates(t: Translation, x: Value, count: int) -> list[Value]:
    units = t.extent(x, -1) // count
    return [t.part(x, -1, n * units, units) for n in range(count)]


def _product(t: Translation, x: Value, weight: Array, bias: Array | None = None) -> Value:
    y = t.op("matmul", x, t.weight(weight, x))
    return y if bias is None else t.op("add", y, t.weight(bias, y))


def simple_cell(t: Translation, layer: Layer, store: Store) -> Cell:
    kernel, recurrent, bias = _weights(layer, store)
    activation, _ = _functions(t, layer)

    def step(x: Value, states: list[Value]) -> tuple[Value, list[Value]]:
        y = activation(t.op("add", _product(t, x, kernel, bias), _product(t, states[0], recurrent)))
        return y, [y]

    return Cell([(recurrent.shape[0],)], step)


def lstm_cell(t: Translation, layer: Layer, store: Store) -> Cell:
    kernel, recurrent, bias = _weights(layer, store)
    activation, gate = _functions(t, layer)

    def step(x: Value, states: list[Value]) -> tuple[Value, list[Value]]:
        h, c = states
        z = t.op("add", _product(t, x, kernel, bias), _product(t, h, recurrent))
        i, f, new, o = _gates(t, z, 4)
        kept = t.op("add", t.op("mul", gate(f), c), t.op("mul", gate(i), activation(new)))
        y = t.op("mul", gate(o), activation(kept))
        return y, [y, kept]

    return Cell([(recurrent.shape[0],)] * 2, step)


def gru_cell(t: Translation, layer: Layer, store: Store) -> Cell:
    kernel, recurrent, bias = _weights(layer, store)
    activation, gate = _functions(t, layer)
    after = bool(_settings(layer, "reset_after", t.context.major >= 3))
    own, other = (bias, None) if bias is None or bias.ndim == 1 else (bias[0], bias[1])
    units = recurrent.shape[0]

    def step(x: Value, states: list[Value]) -> tuple[Value, list[Value]]:
        (h,) = states
        xz, xr, xh = _gates(t, _product(t, x, kernel, own), 3)
        if after:
            hz, hr, hh = _gates(t, _product(t, h, recurrent, other), 3)
            z, r = gate(t.op("add", xz, hz)), gate(t.op("add", xr, hr))
            new = activation(t.op("add", xh, t.op("mul", r, hh)))
        else:
            hz, hr = _gates(t, _product(t, h, recurrent[:, : 2 * units]), 2)
            z, r = gate(t.op("add", xz, hz)), gate(t.op("add", xr, hr))
            new = activation(t.op("add", xh, _product(t, t.op("mul", r, h), recurrent[:, 2 * units :])))
        # z h + (1 - z) new
        y = t.op("add", new, t.op("mul", z, t.op("sub", h, new)))
        return y, [y]

    return Cell([(units,)], step)


def stacked_cells(t: Translation, layer: Layer, store: Store) -> Cell:
    entries = layer.config.get("cells")
    if not isinstance(entries, list) or not entries:
        raise error("E0103", "StackedRNNCells has no cells")
    layers = [layer_of(entry, f"cell {n}") for n, entry in enumerate(entries)]
    cells = [
        cell_of(t, inner, store.child("cells", number, inner.name, inner.kind))
        for number, inner in zip(places([inner.kind for inner in layers]), layers, strict=True)
    ]

    def step(x: Value, states: list[Value]) -> tuple[Value, list[Value]]:
        following: list[Value] = []
        for cell in cells:
            own, states = states[: len(cell.sizes)], states[len(cell.sizes) :]
            x, new = cell.step(x, own)
            following += new
        return x, following

    return Cell([size for cell in cells for size in cell.sizes], step)


_CELLS: dict[str, Callable[[Translation, Layer, Store], Cell]] = {
    "SimpleRNNCell": simple_cell,
    "LSTMCell": lstm_cell,
    "GRUCell": gru_cell,
    "StackedRNNCells": stacked_cells,
}


def cell_of(t: Translation, layer: Layer, store: Store) -> Cell:
    """The cell that a layer is.

    Raises:
        SternaError: E0113, it is of another kind.
    """
    if layer.kind not in _CELLS:
        raise t.unsupported(f"of the cell {layer.kind}")
    return _CELLS[layer.kind](t, layer, store)


# ---------------------------------------------------------------- layers
def _operands(t: Translation, count: int) -> tuple[Value, list[Value]]:
    """The sequence, and the initial states that the call gives."""
    values = values_in(t.args[0] if t.args else t.kwargs.get("sequences", t.kwargs.get("inputs")))
    states = values[1:] + [v for each in t.args[1:] for v in values_in(each)] + values_in(t.kwargs.get("initial_state"))
    if not values or (states and len(states) != count):
        raise error("E0108", f"{t.kind} takes a sequence and {count} states, not {len(states)}")
    return values[0], states


def _initial(t: Translation, x: Value, cell: Cell, given: list[Value]) -> list[Value]:
    if given:
        return given
    batch = x.shape[0]
    if t.setting("stateful", False):
        found = []
        for n, size in enumerate(cell.sizes):
            zeros = np.zeros((t.extent(x, 0), *size), np.float32)
            name = f"{t.name}/state{n}" if len(cell.sizes) > 1 else f"{t.name}/state"
            value = Value(t.builder.name(name), t.constant(zeros, x.dtype).type)
            t.context.states.append((value.name, value, zeros))
            found.append(value)
        return found
    return [t.op("expand", t.scalar(0.0, x.dtype), shape=(batch, *size)) for size in cell.sizes]


def _finished(t: Translation, y: Value, rows: Value | None, states: list[Value], initial: list[Value]) -> Result:
    """What the layer gives, of the last result and all of them."""
    if t.setting("stateful", False):
        known = {name: value for name, value, _ in t.context.states}
        for before, after in zip(initial, states, strict=True):
            if before.name in known:
                t.context.left_behind[before.name] = after
    result = rows if t.setting("return_sequences", False) else y
    assert result is not None
    return [result, *states] if t.setting("return_state", False) else result


def _looped(t: Translation, x: Value, cell: Cell, given: list[Value], mask: Value | None) -> Result:
    """A loop over the steps of (N, steps, ...)."""
    if mask is not None and mask.type.rank != 2:
        raise t.unsupported(f"with a mask of {mask.type}")
    steps = t.extent(x, 1)
    backward = bool(t.setting("go_backwards", False))
    in_time = t.transpose(x, (1, 0, *range(2, x.type.rank)))
    counts = None if mask is None else t.transpose(mask, (1, 0))
    initial = _initial(t, x, cell, given)
    zeroed = bool(t.setting("zero_output_for_mask", False))
    size = cell.sizes[_result_state(cell, t)]
    before = t.op("expand", t.scalar(0.0, x.dtype), shape=(x.shape[0], *size))

    def body(number: Value, carried: list[Value]) -> tuple[list[Value], list[Value]]:
        place = t.op("sub", t.scalar(steps - 1, "int64"), number) if backward else number
        last, states = carried[0], carried[1:]
        y, following = cell.step(t.op("gather", in_time, place, axis=0), states)
        if counts is None:
            return [y, *following], [y]
        here = t.op("gather", counts, place, axis=0)
        following = [_chosen(t, here, new, old) for new, old in zip(following, states, strict=True)]
        kept = _chosen(t, here, y, last)
        shown = _chosen(t, here, y, t.scalar(0.0, y.dtype)) if zeroed else kept
        return [kept, *following], [shown]

    carried, (rows,) = t.repeat(steps, [before, *initial], body)
    in_batch = t.transpose(rows, (1, 0, *range(2, rows.type.rank)))
    result = _finished(t, carried[0], in_batch, carried[1:], initial)
    if mask is not None and t.setting("return_sequences", False):
        t.context.masks[in_batch] = mask
    return result


def _result_state(cell: Cell, t: Translation) -> int:
    """Which state has the sizes of the result: the first of the last cell in a stack."""
    inner = t.layer.config.get("cell")
    last = inner
    while isinstance(last, dict) and last.get("class_name") == "StackedRNNCells":
        last = last["config"]["cells"][-1]
    kind = last.get("class_name") if isinstance(last, dict) else t.kind
    return len(cell.sizes) - (2 if kind in ("LSTMCell", "LSTM") else 1)


def _chosen(t: Translation, here: Value, new: Value, old: Value) -> Value:
    condition = t.reshape(here, (here.shape[0], *(1,) * (new.type.rank - 1)))
    return t.op("where", condition, new, old)


def rnn(t: Translation) -> Result:
    layer = t.layer.layer("cell")
    if isinstance(t.layer.config.get("cell"), list):
        raise t.unsupported("with a list of cells")
    cell = cell_of(t, layer, t.store.child("cell", name=layer.name))
    x, given = _operands(t, len(cell.sizes))
    return _looped(t, x, cell, given, t.mask)


def _of_one_cell(operator: str) -> Translator:
    """LSTM, GRU and SimpleRNN."""

    def translate(t: Translation) -> Result:
        store = t.store.child("cell") if not t.store.count() else t.store
        kinds = {"LSTM": lstm_cell, "GRU": gru_cell, "RNN": simple_cell}
        cell = kinds[operator](t, t.layer, store)
        x, given = _operands(t, len(cell.sizes))
        default = "sigmoid" if t.context.major >= 3 else "hard_sigmoid"
        names = [t.layer.config.get("activation", "tanh")]
        names = names if operator == "RNN" else [t.layer.config.get("recurrent_activation", default), *names]
        names = names + names[-1:] if operator == "LSTM" else names
        mask = t.mask
        if (
            mask is not None
            or t.setting("time_major", False)
            or any(str(n) not in (*_ONNX, "hard_sigmoid") for n in names)
        ):
            if t.setting("time_major", False):
                raise t.unsupported("with time_major")
            return _looped(t, x, cell, given, mask)
        return _fused(t, operator, x, cell, given, [str(n) for n in names], _weights(t.layer, store))

    return translate


def _fused(
    t: Translation, operator: str, x: Value, cell: Cell, given: list[Value], names: Sequence[str],
    weights: tuple[Array, Array, Array | None],
) -> Result:  # fmt: skip
    """ONNX's operator over (steps, N, inputs)."""
    kernel, recurrent, bias = weights
    units = recurrent.shape[0]
    gates = recurrent.shape[1] // units
    order = _LSTM_ORDER if operator == "LSTM" else tuple(range(gates))

    def arranged(array: Array) -> Array:
        """(rows, gates * units) as (1, gates * units, rows), gates in ONNX's order."""
        rows = array.reshape(-1, gates, units)[:, order, :].reshape(-1, gates * units)
        return np.ascontiguousarray(rows.T)[None]

    own = np.zeros(gates * units, np.float32) if bias is None else bias
    both = own if own.ndim == 2 else np.stack([own, np.zeros_like(own)])
    settings: dict[str, Any] = {"hidden_size": units}
    alphas, betas, functions = [], [], []
    for name in names:
        if name == "hard_sigmoid":
            functions.append("HardSigmoid")
            alphas.append(0.2 if t.context.major < 3 else 1.0 / 6.0)
            betas.append(0.5)
        else:
            functions.append(_ONNX[name])
            if name == "linear":
                alphas.append(1.0)
                betas.append(0.0)
    settings["activations"] = functions
    if alphas:
        settings |= {"activation_alpha": alphas, "activation_beta": betas}
    if operator == "GRU":
        settings["linear_before_reset"] = int(bool(t.setting("reset_after", t.context.major >= 3)))
    backward = bool(t.setting("go_backwards", False))
    if backward:
        settings["direction"] = "reverse"
    initial = _initial(t, x, cell, given)
    wide = [t.reshape(state, (1, *state.shape)) for state in initial]
    flat = np.concatenate([arranged(row[None])[..., 0] for row in both], axis=1)
    operands = [t.transpose(x, (1, 0, 2)), t.weight(arranged(kernel), x), t.weight(arranged(recurrent), x)]
    found = t.standard_results(
        operator, *operands, t.weight(flat, x), None, *wide, results=1 + len(cell.sizes), **settings
    )
    rows = t.reshape(found[0], (found[0].shape[0], *found[0].shape[2:]))
    rows = t.transpose(rows, (1, 0, 2))
    if backward:  # the result of the last step first, as Keras gives them
        rows = t.op("slice", rows, starts=(0, t.extent(rows, 1) - 1, 0), sizes=rows.shape, steps=(1, -1, 1))
    states = [t.reshape(state, state.shape[1:]) for state in found[1:]]
    return _finished(t, states[0], rows, states, initial)


def bidirectional(t: Translation) -> Result:
    """Two layers, one of which reads backward; its results are turned around and joined with the other's."""
    forward = t.layer.layer("layer")
    if isinstance(t.layer.config.get("backward_layer"), dict):
        backward = t.layer.layer("backward_layer")
    else:
        config = {**forward.config, "go_backwards": not forward.config.get("go_backwards", False)}
        backward = Layer(forward.kind, forward.module, forward.name, config)
    # Keras sets this, whatever the layers say: what is masked gives zeros in a sequence.
    forward, backward = (
        replace(each, config={**each.config, "zero_output_for_mask": each.config.get("return_sequences", False)})
        for each in (forward, backward)
    )
    values = values_in(t.args[0]) + [v for each in t.args[1:] for v in values_in(each)]
    values += values_in(t.kwargs.get("initial_state"))
    states = values[1:]
    half = len(states) // 2
    keywords = {} if t.mask is None else {"mask": t.mask}
    found = []
    for name, layer, own in (("forward", forward, states[:half]), ("backward", backward, states[half:])):
        inner = t.store.child(f"{name}_layer", name=layer.name)
        made = t.within(layer, inner, [values[0], *own] if own else values[0], **keywords)
        found.append(made if isinstance(made, list) else [made])
    (first, *after), (second, *after_second) = found
    if bool(forward.config.get("return_sequences", False)):
        second = _turned(t, second)
    mode = t.layer.config.get("merge_mode", "concat")
    both = {"concat": None, "sum": "add", "mul": "mul", "ave": "add"}
    if mode is None:
        if t.mask is not None and forward.config.get("return_sequences", False):
            t.context.masks[second] = t.mask
        return [first, second, *after, *after_second]
    if mode not in both:
        raise t.unsupported(f"with merge_mode {mode}")
    if mode == "concat":
        y = t.op("concat", first, second, axis=first.type.rank - 1)
    else:
        y = t.op(str(both[mode]), first, second)
        y = t.scaled(y, 0.5) if mode == "ave" else y
    if t.mask is not None and forward.config.get("return_sequences", False):
        t.context.masks[y] = t.mask
    return [y, *after, *after_second] if forward.config.get("return_state", False) else y


def _turned(t: Translation, x: Value) -> Value:
    """A sequence from its last step to its first."""
    rank = x.type.rank
    starts = (0, t.extent(x, 1) - 1, *(0,) * (rank - 2))
    return t.op("slice", x, starts=starts, sizes=x.shape, steps=(1, -1, *(1,) * (rank - 2)))


def conv_lstm(t: Translation) -> Result:
    """An LSTM whose products are convolutions: kernel (spatial..., inputs, 4 * filters)."""
    store = t.store.child("cell") if not t.store.count() else t.store
    kernel, recurrent, bias = _weights(t.layer, store)
    activation, gate = _functions(t, t.layer)
    x = t.x
    rank = x.type.rank - 3
    if kernel.ndim != rank + 2:
        raise error("E0108", f"the kernel has {kernel.ndim} dimensions for {x.type}")
    if t.channels_first:
        x = t.transpose(x, (0, 1, *range(3, x.type.rank), 2))
    strides, dilations = t.positive("strides", rank), t.positive("dilation_rate", rank)
    pad = "SAME_UPPER" if t.setting("padding", "valid") == "same" else "VALID"

    def convolved(value: Value, weight: Array, **settings: Any) -> Value:
        order = (weight.ndim - 1, weight.ndim - 2, *range(weight.ndim - 2))
        made = t.standard("Conv", t.to_first(value), t.weight(weight.transpose(order), value), **settings)
        return t.to_last(made)

    filters = recurrent.shape[-2]
    spatial = []
    for n in range(rank):
        size, reach = t.extent(x, 2 + n), (kernel.shape[n] - 1) * dilations[n] + 1
        spatial.append(-(-size // strides[n]) if pad == "SAME_UPPER" else (size - reach) // strides[n] + 1)

    def step(value: Value, states: list[Value]) -> tuple[Value, list[Value]]:
        h, c = states
        own = convolved(value, kernel, strides=strides, dilations=dilations, auto_pad=pad)
        own = own if bias is None else t.op("add", own, t.weight(bias, own))
        z = t.op("add", own, convolved(h, recurrent, auto_pad="SAME_UPPER"))
        i, f, new, o = _gates(t, z, 4)
        kept = t.op("add", t.op("mul", gate(f), c), t.op("mul", gate(i), activation(new)))
        y = t.op("mul", gate(o), activation(kept))
        return y, [y, kept]

    made = _looped(t, x, Cell([(*spatial, filters)] * 2, step), [], t.mask)
    if not t.channels_first:
        return made
    found: list[Value | None] = [_channels_second(t, each, rank) for each in values_in(made)]
    return found if isinstance(made, list) else found[0]


def _channels_second(t: Translation, x: Value, rank: int) -> Value:
    """A result with channels before its so many dimensions of space."""
    first = x.type.rank - rank - 1
    made = t.transpose(x, (*range(first), x.type.rank - 1, *range(first, x.type.rank - 1)))
    if (mask := t.context.masks.get(x)) is not None:
        t.context.masks[made] = mask
    return made


LAYERS: dict[str, Translator] = {
    "LSTM": _of_one_cell("LSTM"),
    "GRU": _of_one_cell("GRU"),
    "SimpleRNN": _of_one_cell("RNN"),
    "RNN": rnn,
    "Bidirectional": bidirectional,
    "ConvLSTM1D": conv_lstm,
    "ConvLSTM2D": conv_lstm,
    "ConvLSTM3D": conv_lstm,
}
