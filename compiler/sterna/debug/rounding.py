"""What it costs to store weights in 16 bits: the outputs of a model beside those with the weights as they were."""

from __future__ import annotations

from pathlib import Path

from sterna.bundle.writer import write_bundle
from sterna.compiled import Compiled
from sterna.debug.comparison import TensorCheck, compare
from sterna.scratch import temporary_directory
from sterna_runtime import load
from sterna_runtime.random_inputs import random_inputs


def rounding_errors(narrow: Compiled, wide: Compiled, seed: int = 0) -> tuple[TensorCheck, ...]:
    """Every output of a model whose weights are rounded, compared with that of the same model without, on random inputs
    (of the greatest sizes where dimensions are open).

    Raises:
        SternaError: E0507, the model is compiled for another machine.
    """
    with (
        temporary_directory("rounding") as folder,
        load(write_bundle(narrow, Path(folder) / "narrow")) as rounded,
        load(write_bundle(wide, Path(folder) / "wide")) as plain,
    ):
        inputs = random_inputs([spec.at(plain.dim_sizes) for spec in plain.inputs], seed)
        got, wanted = rounded.run(inputs), plain.run(inputs)
    return tuple(compare(name, got[name], wanted[name]) for name in wanted)
