"""What an ONNX model should give, from onnxruntime: outputs, and any tensor by its name."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import onnx

from sterna.errors import SternaError, error
from sterna.runtime.inputs import Array


def onnxruntime_version() -> str | None:
    """The installed version, or None."""
    try:
        return metadata.version("onnxruntime")
    except metadata.PackageNotFoundError:
        return None


def run_onnxruntime(
    model: str | os.PathLike[str] | onnx.ModelProto, inputs: Mapping[str, Array], tensors: Iterable[str] = ()
) -> dict[str, Array]:
    """The model's outputs, and the named intermediate tensors as far as the model has them.

    Nothing is fused or replaced: what comes back is the model as it is written.

    Raises:
        SternaError: E0004 onnxruntime is not installed, E0009 it cannot run the model.
    """
    try:
        import onnxruntime  # noqa: PLC0415 (optional)
    except ImportError:
        raise error("E0004", "onnxruntime is not installed", fix="pip install onnxruntime") from None
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = min(4, os.cpu_count() or 1)
    wanted = set(tensors)
    try:
        if wanted or isinstance(model, onnx.ModelProto):
            source: Any = _with_outputs(model, wanted).SerializeToString()
        else:
            source = os.fspath(model)
        session = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
        names = [output.name for output in session.get_outputs()]
        taken = {spec.name for spec in session.get_inputs()}
        fed = {name: array for name, array in inputs.items() if name in taken}
        return dict(zip(names, session.run(names, fed), strict=True))
    except SternaError:
        raise
    except Exception as problem:  # onnxruntime's errors have no common type
        reason = str(problem).strip().splitlines()[:3] or [type(problem).__name__]
        raise error("E0009", "onnxruntime cannot run the model", *reason, fix="--against interpreter") from None


def _with_outputs(model: str | os.PathLike[str] | onnx.ModelProto, names: set[str]) -> onnx.ModelProto:
    """A copy of the model, weights inside, that hands out further tensors."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model if isinstance(model, onnx.ModelProto) else onnx.load(Path(model)))
    given = {value.name for value in copy.graph.output}
    for node in copy.graph.node:
        for name in node.output:
            if name in names and name not in given:
                given.add(name)
                copy.graph.output.append(onnx.ValueInfoProto(name=name))
    return copy
