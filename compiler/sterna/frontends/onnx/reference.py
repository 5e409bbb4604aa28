"""ONNX models run by ONNX Runtime."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import onnx

from sterna.errors import SternaError
from sterna.frontends.onnx.inputs import fixed_values
from sterna.frontends.runtimes import cannot_run, not_installed
from sterna.ir.graph import Array


def run_onnxruntime(
    model: str | os.PathLike[str] | onnx.ModelProto,
    inputs: Mapping[str, Array],
    tensors: Iterable[str] = (),
    optimized: bool = False,
    fixed: Mapping[str, Any] | None = None,
) -> dict[str, Array]:
    """The model's outputs, and the named intermediate tensors as far as the model has them.

    Unless it is asked for, nothing is fused or replaced: what comes back is the model as it is written.

    Args:
        fixed: what the user says that some inputs always are.

    Raises:
        SternaError: E0004 onnxruntime is not installed, E0009 it cannot run the model.
    """
    try:
        import onnxruntime  # noqa: PLC0415 (optional)
    except ImportError:
        raise not_installed("onnxruntime") from None
    options = onnxruntime.SessionOptions()
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimized else levels.ORT_DISABLE_ALL
    options.log_severity_level = 4
    # Where the processor lacks VNNI, products of bytes are added up in 16 bits, which saturate, unless this is said.
    options.add_session_config_entry("session.x64quantprecision", "1")
    options.intra_op_num_threads = min(4, os.cpu_count() or 1)
    wanted = set(tensors)
    try:
        if wanted or isinstance(model, onnx.ModelProto):
            source: Any = _with_outputs(model, wanted).SerializeToString()
        else:
            source = os.fspath(model)
        session = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
        names = [output.name for output in session.get_outputs()]
        inputs = {**_fixed(model, fixed or {}), **inputs}
        fed = {spec.name: _gathered(spec.name, spec.type, inputs) for spec in session.get_inputs()}
        given = {name: value for name, value in fed.items() if value is not None}
        return _spread_out(dict(zip(names, session.run(names, given), strict=True)))
    except SternaError:
        raise
    except Exception as problem:  # onnxruntime's errors have no common type
        raise cannot_run("onnxruntime", problem) from None


def _fixed(model: str | os.PathLike[str] | onnx.ModelProto, values: Mapping[str, Any]) -> dict[str, Array]:
    if not values:
        return {}
    proto = model if isinstance(model, onnx.ModelProto) else onnx.load(os.fspath(model), load_external_data=False)
    return fixed_values(proto.graph.input, values)


def _gathered(name: str, kind: str, inputs: Mapping[str, Array]) -> Any:
    """What ONNX Runtime takes for an input: an array, of a sequence a list, or None for an optional of nothing."""
    if not kind.removeprefix("optional(").startswith("seq("):
        return inputs.get(name)
    elements = [key for key in (f"{name}[{n}]" for n in range(len(inputs))) if key in inputs]
    return [inputs[key] for key in elements] if elements or not kind.startswith("optional(") else None


def _spread_out(results: Mapping[str, Any]) -> dict[str, Array]:
    """Outputs by their names in a bundle: a sequence is its tensors, an optional of nothing is not there."""
    found: dict[str, Array] = {}
    for name, value in results.items():
        if isinstance(value, list):
            found.update({f"{name}[{n}]": array for n, array in enumerate(value)})
        elif value is not None:
            found[name] = value
    return found


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
