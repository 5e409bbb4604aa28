"""ML programs of Core ML, built with coremltools."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import coremltools as ct
import numpy as np
from coremltools.converters.mil import Builder as mb  # noqa: N813
from coremltools.converters.mil.mil import types

from sterna.debug.interpret import interpret
from sterna.frontends.formats import read_model

_KINDS = {"float32": types.fp32, "float16": types.fp16, "int32": types.int32}


def saved(build: Callable[..., Any], given: Sequence[np.ndarray], folder: Path, opset: Any = ct.target.iOS17) -> Path:
    """A package whose program is `build`, of inputs x0, x1 and so on like the `given` ones."""
    specs = [mb.TensorSpec(shape=x.shape, dtype=_KINDS[x.dtype.name]) for x in given]
    functions = (lambda x0: build(x0), lambda x0, x1: build(x0, x1), lambda x0, x1, x2: build(x0, x1, x2))  # noqa: PLW0108
    program = mb.program(input_specs=specs, opset_version=opset)(functions[len(given) - 1])
    model = ct.convert(
        program, convert_to="mlprogram", compute_precision=ct.precision.FLOAT32, skip_model_load=True,
        minimum_deployment_target=opset, pass_pipeline=ct.PassPipeline.EMPTY,
    )  # fmt: skip
    model.save(folder / "model.mlpackage")
    return folder / "model.mlpackage"


def interpreted(
    build: Callable[..., Any], given: Sequence[np.ndarray], folder: Path, opset: Any = ct.target.iOS17
) -> list[np.ndarray]:
    """The results of a program by the interpreter."""
    graph = read_model(saved(build, given, folder, opset))
    found = interpret(graph, {v.name: x.astype(v.dtype) for v, x in zip(graph.inputs, given, strict=True)})
    return [found[name] for name in graph.output_names]
