"""Making golden sets: inputs of a model and what it should give for them, in the bundle, for every runtime to replay.

`sterna_runtime.golden` describes the files and reads them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from sterna.bundle.writer import write_bundle
from sterna.debug.comparison import Inputs, Run, compare, with_spread
from sterna.debug.interpret import interpret
from sterna.debug.verify import TOLERANCE, trial_sizes
from sterna.driver import Options, compile_graph, reading
from sterna.frontends.formats import Model, read_model, reference_for
from sterna.frontends.source import Source
from sterna.ir import dtypes
from sterna.ir.graph import Graph
from sterna.ir.sizes import dimensions
from sterna.runtime.signature import specs_of
from sterna.scratch import temporary_directory
from sterna.targets.description import load_target
from sterna_runtime import load
from sterna_runtime.abi import aligned
from sterna_runtime.golden import STRING, GoldenSet, is_float
from sterna_runtime.inputs import Array
from sterna_runtime.random_inputs import random_inputs


def golden_sets(
    model: Model,
    options: Options,
    count: int,
) -> tuple[str, list[GoldenSet]]:
    """The reference's name, and `count` sets of random inputs with its outputs; sizes of open dimensions vary.

    The reference is the runtime of the model's format, or where that is not installed the interpreter; for weights that
    are to be rounded, this machine with the same weights rounded before and stored in fp32. An output that rounding
    alone moves further than others may has a tolerance of its own.

    Args:
        options: what the bundle is compiled with.
    """
    source, asked, weights = Source.of(model), replace(reading(options), static=False), options.weights
    graph = read_model(source, asked)
    symbols = dimensions(graph)
    trials: Sequence[Mapping[str, int]] = trial_sizes(symbols) if symbols else [{}]
    reference = reference_for(source, options=asked)
    sets = []
    for n in range(count):
        trial = trials[n % len(trials)]
        sized = read_model(source, replace(asked, dims={**asked.dims, **trial})) if trial else graph
        inputs = random_inputs(specs_of(sized), seed=n, words=sized.strings)
        again = None
        if weights != "fp32":
            run: Run = partial(_run_rounded, sized, weights)
        elif reference.run is None:
            run = partial(interpret, sized)
        else:
            run, again = partial(_run_reference, reference.run), reference.again
        given = run(inputs)
        # References give more: every name that an output may have, and what the states hold.
        outputs = {name: given[name] for name in sized.result_names}
        same = tuple(compare(name, array, array) for name, array in outputs.items() if is_float(array))
        checks = with_spread(same, run, inputs, outputs, again)
        usual = max(TOLERANCE, options.math)
        own = {check.name: max(usual, 4 * check.spread) for check in checks}
        sets.append(GoldenSet(inputs, outputs, {name: most for name, most in own.items() if most > TOLERANCE}))
    if weights != "fp32":
        return f"this machine with weights rounded to {weights}", sets
    return reference.name, sets


def _run_reference(run: Any, inputs: Inputs) -> dict[str, Array]:
    result: dict[str, Array] = run(inputs, ())
    return result


def _run_rounded(graph: Graph, weights: str, inputs: Inputs) -> dict[str, Array]:
    """The outputs with rounded weights that are stored wide, from kernels of this machine."""
    options = replace(Options(load_target("host"), generator="llvm", weights=weights), widened=True)
    with (
        temporary_directory("golden") as directory,
        load(write_bundle(compile_graph(graph, "model", options), Path(directory) / "bundle")) as bundle,
    ):
        return bundle.run(inputs)


def golden_files(reference: str, sets: Iterable[GoldenSet], tolerance: float = TOLERANCE) -> dict[str, bytes]:
    """The two files, by name."""
    data = bytearray()

    def row(name: str, array: Array, own: float | None = None) -> dict[str, Any]:
        more = {} if own is None else {"tolerance": own}
        if array.dtype == object:
            texts = [str(text) for text in array.reshape(-1)]
            return {"name": name, "dtype": STRING, "dims": list(array.shape), "strings": texts, **more}
        data.extend(bytes(aligned(len(data)) - len(data)))
        raw = np.ascontiguousarray(array).tobytes()
        at = len(data)
        data.extend(raw)
        dtype = dtypes.from_numpy(array.dtype)
        return {"name": name, "dtype": dtype, "dims": list(array.shape), "offset": at, "bytes": len(raw), **more}

    rows = [
        {
            "inputs": [row(name, array) for name, array in each.inputs.items()],
            "outputs": [row(name, array, each.tolerances.get(name)) for name, array in each.outputs.items()],
        }
        for each in sets
    ]
    text = json.dumps({"reference": reference, "tolerance": tolerance, "sets": rows}, separators=(",", ":"))
    return {"golden.json": text.encode(), "golden.bin": bytes(data)}


__all__ = ["GoldenSet", "golden_files", "golden_sets"]
