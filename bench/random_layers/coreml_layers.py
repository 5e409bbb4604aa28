"""Random models of Core ML, written by coremltools: programs by even numbers, neural networks by odd ones.

python -m random_layers.coreml_layers FOLDER [--cases N] [--first N] [--seed N]
"""

from __future__ import annotations

import contextlib
import io
import logging
from pathlib import Path
from typing import Any

import numpy as np

logging.disable(logging.WARNING)  # coremltools says at length what it was not tried with

import coremltools as ct  # noqa: E402
from coremltools.converters.mil import Builder as mb  # noqa: E402, N813

from random_layers.coreml_movement import MAKERS, STEEP  # noqa: E402
from random_layers.coreml_networks import network  # noqa: E402
from random_layers.coreml_programs import SET, Step  # noqa: E402
from random_layers.drawing import Draw, save_arrays, write_cases  # noqa: E402


def write(d: Draw, folder: Path, number: int) -> str | None:
    with contextlib.redirect_stderr(io.StringIO()):  # it shows how far it is
        return network(d, folder) if number % 2 else program(d, folder)


def program(d: Draw, folder: Path) -> str | None:
    rank = d.of(2, 3, 3, 4, 4, 4, 5)
    shape = (d.whole(1, 3), *(d.whole(1, 9) for _ in range(rank - 1)))
    if rank > 2 and d.flag():
        shape = (shape[0], d.of(2, 4, 8, 9), *shape[2:])
    given = value = d.floats(*shape)
    steps: list[Step] = []
    said, wanted = [f"{list(shape)}"], d.whole(1, 4)
    for _ in range(30):
        if len(steps) == wanted or value.dtype != np.float32:
            break
        maker, ranks = d.of(*MAKERS)
        if value.ndim not in ranks or (steps and maker in STEEP and d.flag(0.6)):
            continue
        try:
            step = maker(d, value)
            made = step(value)
            _of_constant(step, value)
        except (ValueError, RuntimeError, TypeError, NotImplementedError, IndexError, AssertionError):
            continue  # what was drawn does not go together
        if not made.ndim or not made.size or made.size > 20_000 or made.ndim > 5 or not np.isfinite(made).all():
            continue
        steps.append(step)
        said.append(maker.__name__)
        value = made
    if not steps:
        return None

    def function(x: Any) -> Any:
        for step in steps:
            x = step.build(x)
        return x

    built = mb.program(input_specs=[mb.TensorSpec(shape=shape)], opset_version=SET)(lambda x: function(x))  # noqa: PLW0108
    model = ct.convert(
        built, convert_to="mlprogram", compute_precision=ct.precision.FLOAT32, skip_model_load=True,
        minimum_deployment_target=SET, pass_pipeline=ct.PassPipeline.EMPTY,
    )  # fmt: skip
    model.save(str(folder / "model.mlpackage"))
    save_arrays(folder, {"x": given}, [value])
    operations = [each.op_type for each in built.functions["main"].operations if each.op_type != "const"]
    return f"{' -> '.join(said)}: {'; '.join(operations)}"


def _of_constant(step: Step, value: np.ndarray) -> None:
    """Lets coremltools check an operation on what it is given."""
    mb.program(input_specs=[mb.TensorSpec(shape=value.shape)], opset_version=SET)(step.build)


if __name__ == "__main__":
    write_cases(write)
