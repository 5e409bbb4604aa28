"""Random recurrent layers, run twice: the second run begins with the state that the first one left."""

from __future__ import annotations

import numpy as np

from support.tflite_builder import GraphWriter, ModelWriter, Scale
from support.tflite_nodes.draw import Draw, register


def _weight(d: Draw, g: GraphWriter, shape: tuple[int, ...], hybrid: bool) -> int:
    if hybrid:
        scale = Scale(float(np.float32(d.random.uniform(0.002, 0.02))))
        return g.constant(d.random.integers(-127, 128, shape).astype(np.int8), scale)
    return g.constant(d.elements("float32", shape, -0.8, 0.8))


def _state(g: GraphWriter, shape: tuple[int, ...], dtype: str = "float32", scale: Scale | None = None) -> int:
    return g.tensor(dtype, shape, scale, is_variable=True)


def _lstm_operands(
    d: Draw, g: GraphWriter, inputs: int, cells: int, outputs: int, hybrid: bool, coupled: bool, peephole: bool,
    projection: bool,
) -> list[int]:  # fmt: skip
    """The 17 operands from the weights of the input gate to the bias of the projection."""
    gates = range(1, 4) if coupled else range(4)
    into = [_weight(d, g, (cells, inputs), hybrid) if n in gates else -1 for n in range(4)]
    back = [_weight(d, g, (cells, outputs), hybrid) if n in gates else -1 for n in range(4)]
    peepholes = [_weight(d, g, (cells,), hybrid) if peephole and n in gates else -1 for n in (0, 1, 3)]
    biases = [g.constant(d.elements("float32", (cells,), -0.5, 0.5)) if n in gates else -1 for n in range(4)]
    ends = [-1, -1]
    if projection:
        ends[0] = _weight(d, g, (outputs, cells), hybrid)
        if d.chance():
            ends[1] = g.constant(d.elements("float32", (outputs,), -0.5, 0.5))
    return [*into, *back, *peepholes, *biases, *ends]


def _clips(d: Draw) -> dict[str, float]:
    return {"cellClip": 0.5 if d.chance(0.2) else 0.0, "projClip": 0.4 if d.chance(0.2) else 0.0}


def _sizes(d: Draw) -> tuple[int, int, int, int]:
    return d.below(4, 1), d.below(6, 1), d.below(6, 1), d.below(6, 1)


@register("UNIDIRECTIONAL_SEQUENCE_LSTM")
def sequence_lstm(d: Draw) -> ModelWriter:
    model = ModelWriter()
    g = model.main
    if d.chance(0.3):
        return _integer_lstm(d, model)
    batch, steps, inputs, cells = _sizes(d)
    hybrid, projection, time_major = d.chance(0.4), d.chance(0.3), d.chance()
    outputs = d.below(6, 1) if projection else cells
    shape, result = (batch, steps, inputs), (batch, steps, outputs)
    if time_major:
        shape, result = (steps, batch, inputs), (steps, batch, outputs)
    x = g.input(d.elements("float32", shape, -2, 2))
    operands = [x, *_lstm_operands(d, g, inputs, cells, outputs, hybrid, d.chance(0.2), d.chance(0.3), projection)]
    operands += [_state(g, (batch, outputs)), _state(g, (batch, cells))]
    if d.chance(0.25) and not hybrid:
        operands += [g.constant(d.elements("float32", (cells,), 0.5, 1.5)) if operands[1 + n] != -1 else -1
                     for n in range(4)]  # fmt: skip
    g.op("UNIDIRECTIONAL_SEQUENCE_LSTM", operands, [g.output("float32", result)], "UnidirectionalSequenceLSTMOptions",
         fusedActivationFunction=4, timeMajor=time_major, asymmetricQuantizeInputs=hybrid and d.chance(),
         **_clips(d))  # fmt: skip
    return model


def _integers(d: Draw, g: GraphWriter, shape: tuple[int, ...], dtype: str, most: int, scale: Scale) -> int:
    return g.constant(d.random.integers(-most, most + 1, shape).astype(dtype), scale)


def _integer_lstm(d: Draw, model: ModelWriter) -> ModelWriter:
    """8 bits with a cell of 16."""
    g = model.main
    batch, steps, inputs, cells = _sizes(d)
    projection, peephole, normalized, time_major = (d.chance(0.4) for _ in range(4))
    outputs = d.below(cells + 1, 1) if projection else cells
    x_scale = Scale(float(np.float32(d.random.uniform(0.005, 0.03))), d.below(40, -40))
    h_scale = Scale(1 / 128, d.below(20, -20))
    outer = (steps, batch) if time_major else (batch, steps)
    x = g.input(d.elements("int8", (*outer, inputs)), x_scale)
    weight_scales = [float(np.float32(d.random.uniform(0.003, 0.01))) for _ in range(8)]
    gates = range(1, 4) if d.chance(0.2) else range(4)
    operands = [x]
    for n in range(8):
        shape = (cells, inputs) if n < 4 else (cells, outputs)
        operands.append(_integers(d, g, shape, "int8", 127, Scale(weight_scales[n])) if n % 4 in gates else -1)
    for n in (0, 1, 3):
        wanted = peephole and n in gates
        operands.append(_integers(d, g, (cells,), "int16", 32767, Scale(2.0**-15)) if wanted else -1)
    for n in range(4):
        scale = Scale(weight_scales[n] * float(x_scale.scale))
        most = 30000 if normalized else 2000
        operands.append(_integers(d, g, (cells,), "int32", most, scale) if n in gates else -1)
    hidden = Scale(float(np.float32(1 / 140)), d.below(20, -20)) if projection else h_scale
    if projection:
        unit = float(np.float32(d.random.uniform(0.002, 0.006)))
        operands.append(_integers(d, g, (outputs, cells), "int8", 127, Scale(unit)))
        bias = _integers(d, g, (outputs,), "int32", 900, Scale(unit * float(hidden.scale)))
        operands.append(bias if d.chance() else -1)
    else:
        operands += [-1, -1]
    operands.append(_state(g, (batch, outputs), "int8", h_scale))
    operands.append(_state(g, (batch, cells), "int16", Scale(2.0 ** -d.number(11, 12, 13))))
    units = [2.0**-12] * 4
    if normalized:
        units = [float(np.float32(d.random.uniform(1e-4, 4e-4))) for _ in range(4)]
        scales = [Scale(float(np.float32(d.random.uniform(2e-5, 9e-5)))) for _ in range(4)]
        operands += [_integers(d, g, (cells,), "int16", 32767, scales[n]) if n in gates else -1 for n in range(4)]
    middle = [g.tensor("int16", (), Scale(unit)) for unit in units]
    middle.append(g.tensor("int8", (), hidden))
    y = g.output("int8", (*outer, outputs), h_scale)
    clips = {"cellClip": 2.0 if d.chance(0.3) else 0.0, "projClip": 0.5 if d.chance(0.3) else 0.0}
    g.op("UNIDIRECTIONAL_SEQUENCE_LSTM", operands, [y], "UnidirectionalSequenceLSTMOptions", intermediates=middle,
         fusedActivationFunction=4, timeMajor=time_major, **clips)  # fmt: skip
    return model


@register("LSTM")
def lstm(d: Draw) -> ModelWriter:
    model = ModelWriter()
    g = model.main
    batch, _, inputs, cells = _sizes(d)
    hybrid, projection = d.chance(0.4), d.chance(0.3)
    outputs = d.below(6, 1) if projection else cells
    x = g.input(d.elements("float32", (batch, inputs), -2, 2))
    operands = [x, *_lstm_operands(d, g, inputs, cells, outputs, hybrid, d.chance(0.2), d.chance(0.3), projection)]
    operands += [_state(g, (batch, outputs)), _state(g, (batch, cells))]
    g.op("LSTM", operands, [g.output("float32", (batch, outputs))], "LSTMOptions", fusedActivationFunction=4,
         asymmetricQuantizeInputs=hybrid and d.chance(), **_clips(d))  # fmt: skip
    return model


@register("BIDIRECTIONAL_SEQUENCE_LSTM")
def bidirectional_lstm(d: Draw) -> ModelWriter:
    model = ModelWriter()
    g = model.main
    batch, steps, inputs, cells = _sizes(d)
    hybrid, time_major, merged = d.chance(0.4), d.chance(), d.chance()
    # The reference kernel reads memory that it never wrote for further batches outside.
    batch = batch if time_major else 1
    outer = (steps, batch) if time_major else (batch, steps)
    operands = [g.input(d.elements("float32", (*outer, inputs), -2, 2))]
    for _ in range(2):
        operands += _lstm_operands(d, g, inputs, cells, cells, hybrid, False, d.chance(0.3), False)
    operands += [_state(g, (batch, cells)) for _ in range(4)]
    operands += [-1] * 9
    results = [g.output("float32", (*outer, cells * (2 if merged else 1)))]
    if not merged:
        results.append(g.output("float32", (*outer, cells)))
    g.op("BIDIRECTIONAL_SEQUENCE_LSTM", operands, results, "BidirectionalSequenceLSTMOptions",
         fusedActivationFunction=4, timeMajor=time_major, mergeOutputs=merged,
         asymmetricQuantizeInputs=hybrid and d.chance(), **_clips(d))  # fmt: skip
    return model


def _rnn_operands(d: Draw, g: GraphWriter, batch: int, inputs: int, units: int, hybrid: bool) -> list[int]:
    weights = [_weight(d, g, (units, inputs), hybrid), _weight(d, g, (units, units), hybrid)]
    return [*weights, g.constant(d.elements("float32", (units,))), _state(g, (batch, units))]


@register("RNN", "UNIDIRECTIONAL_SEQUENCE_RNN", "BIDIRECTIONAL_SEQUENCE_RNN")
def rnn(d: Draw) -> ModelWriter:
    model = ModelWriter()
    g = model.main
    batch, steps, inputs, units = _sizes(d)
    hybrid, time_major, merged = d.chance(0.4), d.chance(), d.chance()
    kind = d.pick(("RNN", "UNIDIRECTIONAL_SEQUENCE_RNN", "BIDIRECTIONAL_SEQUENCE_RNN"))
    # The reference kernel mixes up the scales of steps of such a layer.
    time_major = time_major and not (hybrid and kind == "BIDIRECTIONAL_SEQUENCE_RNN")
    outer = (batch,) if kind == "RNN" else (steps, batch) if time_major else (batch, steps)
    operands = [g.input(d.elements("float32", (*outer, inputs), -2, 2))]
    operands += _rnn_operands(d, g, batch, inputs, units, hybrid)
    settings = {"fusedActivationFunction": d.number(1, 3, 4), "asymmetricQuantizeInputs": hybrid and d.chance()}
    width, count = units, 1
    if kind == "BIDIRECTIONAL_SEQUENCE_RNN":
        operands += [*_rnn_operands(d, g, batch, inputs, units, hybrid), -1, -1, -1]
        width, count = (2 * units, 1) if merged else (units, 2)
        settings["mergeOutputs"] = merged
    if kind != "RNN":
        settings["timeMajor"] = time_major
    options = {"RNN": "RNNOptions", "UNIDIRECTIONAL_SEQUENCE_RNN": "SequenceRNNOptions"}
    results = [g.output("float32", (*outer, width)) for _ in range(count)]
    g.op(kind, operands, results, options.get(kind, "BidirectionalSequenceRNNOptions"), **settings)
    return model


@register("SVDF")
def svdf(d: Draw) -> ModelWriter:
    model = ModelWriter()
    g = model.main
    batch, memory, inputs, units = _sizes(d)
    rank, kind = d.below(4, 1), d.pick(("float32", "hybrid", "int8"))
    filters = units * rank
    if kind == "int8":
        scales = [float(np.float32(v)) for v in d.random.uniform(0.005, 0.02, 3)]
        state = Scale(scales[0] * scales[1] * 4)
        operands = [
            g.input(d.elements("int8", (batch, inputs)), Scale(scales[0], d.below(30, -30))),
            g.constant(d.elements("int8", (filters, inputs)), Scale(scales[1])),
            g.constant(d.random.integers(-9000, 9000, (filters, memory)).astype(np.int16), Scale(scales[2] / 256)),
            g.constant(d.random.integers(-2000, 2000, units).astype(np.int32), Scale(scales[2] * float(state.scale))),
            _state(g, (batch, memory * filters), "int16", state),
        ]
        result = g.output("int8", (batch, units), Scale(float(np.float32(d.random.uniform(0.05, 0.3))), d.below(20)))
    else:
        operands = [g.input(d.elements("float32", (batch, inputs)))]
        operands += [
            _weight(d, g, (filters, inputs), kind == "hybrid"),
            _weight(d, g, (filters, memory), kind == "hybrid"),
        ]
        operands += [g.constant(d.elements("float32", (units,))), _state(g, (batch, memory * filters))]
        result = g.output("float32", (batch, units))
    function = 1 if kind == "int8" else d.number(0, 1)
    g.op("SVDF", operands, [result], "SVDFOptions", rank=rank, fusedActivationFunction=function,
         asymmetricQuantizeInputs=kind == "hybrid" and d.chance())  # fmt: skip
    return model
