"""Single calls of PyTorch's operators, in programs of their own, run by the interpreter."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from sterna.debug.interpret import interpret
from sterna.frontends.formats import read_model
from support.exported_programs import Program


def called(target: str, /, *results: str, **arguments: Any) -> list[np.ndarray]:
    """The results of one call: arrays among the arguments are inputs, lists of arrays lists of inputs.

    Args:
        results: their names; those that begin with "_", which only training needs, are no outputs.
    """
    program = Program()
    inputs: dict[str, np.ndarray] = {}

    def named(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            name = f"in{len(inputs)}"
            inputs[name] = value
            return program.input(name, value.shape, value.dtype.name)
        if isinstance(value, list) and any(isinstance(item, np.ndarray) for item in value):
            return [named(item) for item in value]
        return value

    given_ = {name: named(value) for name, value in arguments.items()}
    made = program.call(target, *results, **given_)
    for value in made if isinstance(made, tuple) else (made,):
        if not str(value).startswith("_"):
            program.output(value)
    with tempfile.TemporaryDirectory() as folder:
        graph = read_model(program.write(Path(folder) / "model.pt2"))
        return list(interpret(graph, inputs).values())


def close(found: np.ndarray, wanted: np.ndarray, tolerance: float = 2e-5) -> None:
    assert found.shape == np.shape(wanted)
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)
