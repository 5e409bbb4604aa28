"""Activations of 16 bits whose sums of products need 64: weights stay bytes, and results are TensorFlow Lite's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sterna.api import compile_to
from sterna.debug.interpret import interpret
from sterna.firmware.description import read_firmware
from sterna.firmware.machines import machine_for
from sterna.firmware.measure import How, measure
from sterna.frontends import tflite
from support import boards
from support.tflite_builder import ModelWriter, Scale, reference
from support.tools import need


def layer(op: str, channels: int, size: int = 1, dtype: str = "int64") -> ModelWriter:
    """A dense layer of 16 outputs, or a convolution of 8 over rows of 3."""
    model = ModelWriter()
    g, random = model.main, np.random.default_rng(channels)
    dense = op == "FULLY_CONNECTED"
    outputs = 16 if dense else 8
    shape = (outputs, channels) if dense else (outputs, 1, size, channels)
    x = g.input(
        random.integers(-32768, 32768, (2, channels) if dense else (1, 2, 3, channels)).astype(np.int16), Scale(2e-4)
    )
    weights = g.constant(random.integers(100, 128, shape).astype(np.int8), Scale([0.01] * outputs, [0] * outputs))
    bias = random.integers(-9000, 9000, outputs).astype(dtype)
    operands = [x, weights, g.constant(bias, Scale([2e-6] * outputs, [0] * outputs))]
    y = g.output("int16", (2, outputs) if dense else (1, 2, 3, outputs), Scale(0.002 * channels / 64))
    settings = {"fusedActivationFunction": 0, "quantizedBiasType": g.tensors[operands[2]].type}
    if dense:
        g.op(op, operands, [y], "FullyConnectedOptions", weightsFormat=0, keepNumDims=False, **settings)
    else:
        steps = {"strideH": 1, "strideW": 1, "dilationHFactor": 1, "dilationWFactor": 1}
        g.op(op, operands, [y], "Conv2DOptions", padding=0, **steps, **settings)
    return model


@pytest.mark.parametrize(
    ("op", "channels", "size", "parts"),
    [("FULLY_CONNECTED", 500, 1, 1), ("FULLY_CONNECTED", 1300, 1, 3), ("CONV_2D", 700, 1, 2), ("CONV_2D", 400, 3, 3),
     ("CONV_2D", 1, 700, 0)],
)  # fmt: skip
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_sums_of_parts(op: str, channels: int, size: int, parts: int, dtype: str, tmp_path: Path) -> None:
    """As many products of bytes as needed; a channel whose sum alone needs 64 bits has products of 64 bits."""
    model = layer(op, channels, size, dtype)
    (tmp_path / "model.tflite").write_bytes(model.content())
    graph = tflite.read(tmp_path / "model.tflite")
    assert sum(node.op in ("conv_integer", "matmul_integer") for node in graph.nodes) == parts
    (want,) = reference(model.content(), [model.feeds], op)[0]
    (have,) = interpret(graph, model.feeds).values()
    np.testing.assert_array_equal(have, want)


@pytest.mark.family("cortex-m4")
@pytest.mark.parametrize("channels", [254, 1024])
def test_a_dense_layer_on_a_board(channels: int, tmp_path: Path) -> None:
    """Two products an instruction, and no float64, which the core has no instructions for. Two numbers are left
    of a row, or none."""
    need("qemu-system-arm", "emulates boards of microcontrollers")
    need("arm-none-eabi-gcc", "compiles for Cortex-M")
    model = layer("FULLY_CONNECTED", channels)
    (tmp_path / "model.tflite").write_bytes(model.content())
    bundle = compile_to(tmp_path / "bundle", tmp_path / "model.tflite", "cortex-m4")
    assert boards.unresolved(boards.objects_of_gcc(bundle, tmp_path), tmp_path) == set()
    firmware = read_firmware(bundle)
    (tmp_path / "program").mkdir()
    given = list(model.feeds.values())
    found = measure(firmware, machine_for(firmware), tmp_path / "program", given, How("gcc", False, ("-O2",)))
    (want,) = reference(model.content(), [model.feeds], "FULLY_CONNECTED")[0]
    np.testing.assert_array_equal(found.outputs[0].reshape(want.shape), want)
    assert found.weights < 16 * channels + 600
    assert found.instructions < 2 * 2 * 16 * channels
