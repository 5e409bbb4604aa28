"""Golden sets: inputs of a model and what it should give for them, in the bundle, for every runtime to replay.

`golden.json` names the tensors; `golden.bin` holds them, dense and little-endian, each at a multiple of 64 bytes:

    {"reference": "onnxruntime 1.22", "tolerance": 1e-4,
     "sets": [{"inputs": [{"name", "dtype", "dims", "offset", "bytes"}], "outputs": [...]}]}

Floats may differ by `tolerance` times the output's largest magnitude; everything else is equal.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sterna.debug.interpret import interpret
from sterna.debug.random_inputs import random_inputs
from sterna.debug.reference import reference_for
from sterna.debug.verify import TOLERANCE, trial_sizes
from sterna.driver import dimensions
from sterna.frontends.formats import read_model
from sterna.ir import dtypes
from sterna.runtime.inputs import Array, TensorSpec

if TYPE_CHECKING:
    import os

    import onnx

    Model = str | os.PathLike[str] | onnx.ModelProto


@dataclass(frozen=True)
class GoldenSet:
    """Arrays by name."""

    inputs: Mapping[str, Array]
    outputs: Mapping[str, Array]


def golden_sets(
    model: Model,
    shapes: Mapping[str, Sequence[int] | None] | None,
    dims: Mapping[str, int | tuple[int, int]] | None,
    count: int,
    signature: str | None = None,
) -> tuple[str, list[GoldenSet]]:
    """The reference's name, and `count` sets of random inputs with its outputs; sizes of open dimensions vary.

    The reference is the runtime of the model's format, or where that is not installed the interpreter.
    """
    graph = read_model(model, shapes, dims, signature=signature)
    symbols = dimensions(graph)
    trials: Sequence[Mapping[str, int]] = trial_sizes(symbols) if symbols else [{}]
    reference = reference_for(model, "auto", signature)
    sets = []
    for n in range(count):
        trial = trials[n % len(trials)]
        sized = read_model(model, shapes, {**(dims or {}), **trial}, signature=signature) if trial else graph
        specs = [TensorSpec(v.name, dtypes.to_numpy(v.dtype), v.type.sizes) for v in sized.fed]
        inputs = random_inputs(specs, seed=n)
        sets.append(
            GoldenSet(inputs, interpret(sized, inputs) if reference is None else reference.run(model, inputs, ()))
        )
    return ("the interpreter" if reference is None else reference.name), sets


def golden_files(reference: str, sets: Iterable[GoldenSet], tolerance: float = TOLERANCE) -> dict[str, bytes]:
    """The two files, by name."""
    data = bytearray()

    def row(name: str, array: Array) -> dict[str, Any]:
        data.extend(bytes(-len(data) % 64))
        raw = np.ascontiguousarray(array).tobytes()
        at = len(data)
        data.extend(raw)
        dtype = dtypes.from_numpy(array.dtype)
        return {"name": name, "dtype": dtype, "dims": list(array.shape), "offset": at, "bytes": len(raw)}

    rows = [
        {
            "inputs": [row(name, array) for name, array in each.inputs.items()],
            "outputs": [row(name, array) for name, array in each.outputs.items()],
        }
        for each in sets
    ]
    text = json.dumps({"reference": reference, "tolerance": tolerance, "sets": rows}, separators=(",", ":"))
    return {"golden.json": text.encode(), "golden.bin": bytes(data)}
