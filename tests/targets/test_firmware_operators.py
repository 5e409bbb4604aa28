"""Integer operators of TensorFlow Lite on emulated boards, bit for bit what the reference kernels compute: recurrent
layers with their states, SVDF, softmax, pooling and layers with activations of 16 bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sterna.api import compile_to
from sterna.firmware.remote import BoardFunctions
from sterna_runtime import library, load
from support import boards
from support.tflite_builder import ModelWriter, RefusedError, reference
from support.tflite_nodes import model_of
from support.tools import need

#: Operator, type of its activations, and how many random ones of it.
LAYERS = (
    ("SVDF", "int8", 2),
    ("UNIDIRECTIONAL_SEQUENCE_LSTM", "int8", 2),
    ("SOFTMAX", "int8", 1),
    ("SOFTMAX", "int16", 1),
    ("AVERAGE_POOL_2D", "int16", 1),
    ("MAX_POOL_2D", "int16", 1),
    ("FULLY_CONNECTED", "int16", 1),
    ("CONV_2D", "int16", 1),
    ("DEPTHWISE_CONV_2D", "int16", 1),
    ("TRANSPOSE_CONV", "int16", 1),
    ("BATCH_MATMUL", "int16", 2),
    ("BATCH_MATMUL", "int8", 1),
    ("LOGISTIC", "int16", 1),
    ("TANH", "int16", 1),
)  # fmt: skip


def drawn(operator: str, dtype: str, count: int) -> list[ModelWriter]:
    """Random models of one operator that take this type and that the reference runtime takes."""
    found: list[ModelWriter] = []
    for number in range(200):
        model, _ = model_of(operator, number)
        if len(found) == count:
            return found
        if any(x.dtype != dtype for x in model.feeds.values()):
            continue
        try:
            reference(model.content(), [model.feeds], operator)
        except RefusedError:
            continue
        found.append(model_of(operator, number)[0])
    raise AssertionError(f"too few models of {operator} for {dtype}")


@pytest.mark.family("cortex-m")
@pytest.mark.parametrize("target", ["cortex-m4", "cortex-m55", "riscv32imc"])
def test_integer_layers(target: str, tmp_path: Path) -> None:
    """All of them in one model, run twice: the second run begins with the states that the first one left."""
    model = ModelWriter()
    for layer in LAYERS:
        for each in drawn(*layer):
            model.take(each)
    random = np.random.default_rng(0)
    runs = [model.feeds, {name: random.permutation(x.reshape(-1)).reshape(x.shape) for name, x in model.feeds.items()}]
    content = model.content()
    expected = reference(content, runs)
    (tmp_path / "layers.tflite").write_bytes(content)
    bundle = compile_to(tmp_path / "bundle", tmp_path / "layers.tflite", target)
    need(boards.machine_program(bundle), "emulates boards of microcontrollers")
    how = BoardFunctions(compiler="zig", flags=boards.STRICTLY)
    with library.replaced_by(how), load(bundle) as loaded:
        for feeds, want in zip(runs, expected, strict=True):
            for n, (have, array) in enumerate(zip(loaded.run(feeds).values(), want, strict=True)):
                np.testing.assert_array_equal(have, array, f"output {n}")
