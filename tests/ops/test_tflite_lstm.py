"""TensorFlow Lite's LSTM of floats as the core operator, beside its form as a loop and the reference kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sterna.api import compile_model
from sterna.bundle.writer import write_bundle
from sterna.debug.interpret import interpret
from sterna.driver import Options, compile_graph
from sterna.frontends import tflite
from sterna.frontends.tflite.operators import recurrent
from sterna.ir.graph import Graph
from sterna.pipeline import optimize
from sterna.targets.description import load_target
from sterna_runtime import load
from support.tflite_builder import GraphWriter, ModelWriter, Scale, reference
from support.trained import trained

KINDS = ("UNIDIRECTIONAL_SEQUENCE_LSTM", "LSTM", "BIDIRECTIONAL_SEQUENCE_LSTM")
OPTIONS = {
    "UNIDIRECTIONAL_SEQUENCE_LSTM": "UnidirectionalSequenceLSTMOptions",
    "LSTM": "LSTMOptions",
    "BIDIRECTIONAL_SEQUENCE_LSTM": "BidirectionalSequenceLSTMOptions",
}
RELU, RELU_6, TANH = 1, 3, 4
QUICK = settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


@dataclass(frozen=True)
class Layer:
    """A layer and its sizes.

    Args:
        peepholes: gates that see the cell, of 0 (input), 1 (forget), 3 (output).
        weights: the type that weights are stored in; int8 stands for floats, float16 is widened by the model.
    """

    kind: str = KINDS[0]
    steps: int = 4
    batch: int = 2
    inputs: int = 3
    units: int = 5
    time_major: bool = False
    peepholes: Sequence[int] = ()
    function: int = TANH
    cell_clip: float = 0.0
    coupled: bool = False
    projected: bool = False
    normalized: bool = False
    weights: str = "float32"
    seed: int = 0

    def model(self) -> ModelWriter:
        random, model = np.random.default_rng(self.seed), ModelWriter()
        g: GraphWriter = model.main

        def weight(*shape: int) -> int:
            data = random.uniform(-0.8, 0.8, shape)
            if self.weights == "int8":
                return g.constant((data * 127).astype(np.int8), Scale(1 / 127))
            stored = g.constant(data.astype(self.weights))
            if self.weights == "float32":
                return stored
            wide = g.tensor("float32", shape)
            g.op("DEQUANTIZE", [stored], [wide])
            return wide

        def numbers(*shape: int) -> int:
            return g.constant(random.uniform(-0.5, 0.5, shape).astype(np.float32))

        gates = range(1, 4) if self.coupled else range(4)
        batch, units = self.batch, self.units
        outer = (self.steps, batch) if self.time_major else (batch, self.steps)
        outer = (batch,) if self.kind == "LSTM" else outer
        operands = [g.input(random.uniform(-2, 2, (*outer, self.inputs)).astype(np.float32))]
        directions = 2 if self.kind.startswith("B") else 1
        for _ in range(directions):
            operands += [weight(units, self.inputs) if n in gates else -1 for n in range(4)]
            operands += [weight(units, units) if n in gates else -1 for n in range(4)]
            operands += [weight(units) if n in self.peepholes else -1 for n in (0, 1, 3)]
            operands += [numbers(units) if n in gates else -1 for n in range(4)]
            operands += [weight(units, units) if self.projected else -1, -1]
        operands += [g.tensor("float32", (batch, units), is_variable=True) for _ in range(2 * directions)]
        if self.normalized:
            operands += [numbers(units) for _ in range(4)]
        given = {"fusedActivationFunction": self.function, "cellClip": self.cell_clip}
        if self.kind != "LSTM":
            given["timeMajor"] = self.time_major
        if directions == 2:
            operands += [-1] * 9
            given["mergeOutputs"] = True
        g.op(self.kind, operands, [g.output("float32", (*outer, directions * units))], OPTIONS[self.kind], **given)
        return model


def read(layer: Layer, folder: Path) -> Graph:
    file = folder / "layer.tflite"
    file.write_bytes(layer.model().content())
    return tflite.read(file)


def operators_of(graph: Graph) -> set[str]:
    return {node.op for node in graph.nodes}


@st.composite
def layers(draw: st.DrawFn) -> Layer:
    kind, time_major = draw(st.sampled_from(KINDS)), draw(st.booleans())
    steps, batch, inputs, units = (draw(st.integers(1, most)) for most in (6, 3, 6, 9))
    if kind.startswith("B") and not time_major:
        batch = 1  # The reference kernel reads memory that it never wrote for further batches outside.
    return Layer(
        kind, 1 if kind == "LSTM" else steps, batch, inputs, units, time_major,
        peepholes=draw(st.sampled_from([(), (0, 1, 3)])), function=draw(st.sampled_from([RELU, TANH])),
        cell_clip=draw(st.sampled_from([0.0, 0.3, 10.0])), seed=draw(st.integers(0, 1 << 16)),
    )  # fmt: skip


@QUICK
@given(layer=layers())
def test_core_operator_is_the_loop(layer: Layer, tmp_path_factory: pytest.TempPathFactory) -> None:
    """From any states to the result and the states that are left behind."""
    folder = tmp_path_factory.mktemp("layer")
    graph = read(layer, folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recurrent._Lstm, "is_core", lambda self, x: False)
        loop = read(layer, folder)
    assert "lstm" in operators_of(graph)
    assert "loop" not in operators_of(graph)
    assert "lstm" not in operators_of(loop)
    assert [v.type for v in graph.outputs] == [v.type for v in loop.outputs]
    random = np.random.default_rng(layer.seed)
    feeds = {v.name: random.uniform(-1, 1, v.type.sizes).astype(np.float32) for v in graph.inputs}
    found, wanted = (list(interpret(optimize(g, check=True), feeds).values()) for g in (graph, loop))
    assert len(found) == len(graph.outputs)
    for have, want in zip(found, wanted, strict=True):
        np.testing.assert_allclose(have, want, rtol=2e-6, atol=2e-6 * max(1.0, float(np.abs(want).max())))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("function", [RELU, TANH])
def test_runs_are_those_of_the_reference_kernels(kind: str, function: int, tmp_path: Path) -> None:
    """The second run begins with the states that the first one left, the third one again without any."""
    layer = Layer(kind, batch=1, peepholes=(0, 1, 3), function=function, cell_clip=0.4, seed=7)
    model = layer.model()
    runs = [model.feeds, {name: -x for name, x in model.feeds.items()}]
    (first, second) = reference(model.content(), runs)
    assert not np.allclose(second[0], reference(model.content(), runs[1:])[0][0])
    compiled = compile_graph(read(layer, tmp_path), "layer", Options(load_target("host")))
    with load(write_bundle(compiled, tmp_path / "bundle")) as bundle:
        for feeds, want in zip(runs, (first, second), strict=True):
            np.testing.assert_allclose(next(iter(bundle.run(feeds).values())), want[0], rtol=2e-6, atol=2e-6)
        bundle.reset_state()
        np.testing.assert_allclose(next(iter(bundle.run(runs[0]).values())), first[0], rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize(
    "change",
    [
        {"coupled": True}, {"projected": True}, {"normalized": True}, {"weights": "int8"}, {"peepholes": (3,)},
        {"function": RELU_6},
    ],
    ids=lambda change: next(iter(change)),
)  # fmt: skip
def test_what_the_core_operator_does_not_say_is_a_loop(change: dict[str, object], tmp_path: Path) -> None:
    assert "lstm" in operators_of(read(Layer(), tmp_path))
    graph = read(replace(Layer(), **change), tmp_path)  # type: ignore[arg-type]
    assert "loop" in operators_of(graph)
    assert "lstm" not in operators_of(graph)


def test_weights_of_16_bits_are_stored_as_they_are(tmp_path: Path) -> None:
    layer = Layer(inputs=64, units=64, weights="float16")
    wide = layer.inputs * layer.units * 8 * 4
    compiled = compile_graph(read(layer, tmp_path), "layer", Options(load_target("host")))
    with load(write_bundle(compiled, tmp_path / "bundle")) as bundle:
        assert bundle.memory()["params"] < 0.55 * wide


def test_no_node_of_the_trained_model_stays_on_the_cpu() -> None:
    compiled = compile_model(trained("tflm_mnist_lstm_f32").file, "webgpu")
    assert "lstm" in {kernel.function.name.split("_", 1)[1] for kernel in compiled.kernels}
    assert not [call for call in compiled.calls if call.stay is not None]
