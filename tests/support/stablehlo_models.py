"""Models of one operator of StableHLO in TensorFlow Lite's files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from sterna.debug.interpret import interpret
from sterna.frontends.formats import read_model
from support.tflite_builder import ModelWriter, reference


def model(
    op: str,
    operands: list[np.ndarray],
    held: tuple[int, ...],
    result: np.ndarray,
    options: str = "",
    inner: tuple[str, str] = ("", ""),
    **settings: Any,
) -> ModelWriter:
    """One operator; `inner`: the operator of its inner graph of two elements, and the setting that names this graph."""
    writer = ModelWriter()
    places = [writer.main.constant(x) if n in held else writer.main.input(x) for n, x in enumerate(operands)]
    made = writer.main.output(result.dtype.name, result.shape)
    if inner[0]:
        body = writer.graph("body")
        a, b = (body.tensor(result.dtype.name, ()) for _ in range(2))
        c = body.tensor(result.dtype.name, ())
        body.inputs, body.outputs = [a, b], [c]
        table = {
            "ADD": "AddOptions",
            "MUL": "MulOptions",
            "MAXIMUM": "MaximumMinimumOptions",
            "MINIMUM": "MaximumMinimumOptions",
        }.get(inner[0], "")
        body.op(inner[0], [a, b], [c], table)
        settings[inner[1]] = 1
    writer.main.op(op, places, [made], options, **settings)
    return writer


def compared(folder: Path, writer: ModelWriter, wanted: np.ndarray, by_litert: bool = True) -> None:
    (folder / "model.tflite").write_bytes(writer.content())
    (found,) = interpret(read_model(folder / "model.tflite"), writer.feeds).values()
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    if by_litert:
        ((theirs,),) = reference(writer.content(), [writer.feeds])
        np.testing.assert_allclose(found, theirs, rtol=1e-5, atol=1e-6)
