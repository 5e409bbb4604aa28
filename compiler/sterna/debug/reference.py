"""What a model should give, from the runtime of its own format: outputs, and any tensor by its name."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from sterna.advice import Advice, Option
from sterna.errors import SternaError, error
from sterna.frontends.formats import Model, format_of
from sterna.frontends.tflite import schema as tflite_schema
from sterna.runtime.inputs import Array

Run = Callable[[Model, Mapping[str, Array], Iterable[str]], dict[str, Array]]


@dataclass(frozen=True)
class Reference:
    """A runtime that results are compared with.

    Args:
        name: with its version.
        run: the outputs of a model for some inputs, and the named intermediate tensors as far as it has them.
        again: the outputs, computed in another order of operations where the runtime has one.
    """

    name: str
    run: Run
    again: Run | None = None


def reference_for(model: Model, against: str, signature: str | None = None) -> Reference | None:
    """The runtime that `against` asks for ("auto": that of the model's format, if it is installed).

    Args:
        signature: of a TensorFlow Lite model, which one is run; None: its first graph.

    Returns:
        None for the interpreter.

    Raises:
        SternaError: E0203, it cannot read this format.
    """
    name, distributions, run = _RUNTIMES[format_of(model)]
    if against not in ("auto", "interpreter", name):
        raise error("E0203", f"{against} cannot run this model", fix=Advice(Option("against", name)))
    version = next(filter(None, map(_version, distributions)), None)
    if against == "interpreter" or (against == "auto" and version is None):
        return None
    if signature is not None and run is run_litert:
        return Reference(f"{name} {version}", partial(run_litert, signature=signature))
    return Reference(f"{name} {version}", run, _optimized if run is run_onnxruntime else None)


def _version(distribution: str) -> str | None:
    """The installed version, or None."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def installed(distribution: str) -> str | None:
    """The installed version of a distribution of `RUNTIMES`, or of another that brings the same; or None."""
    names = next((names for _, names, _ in _RUNTIMES.values() if distribution in names), (distribution,))
    return next(filter(None, map(_version, names)), None)


def run_litert(
    model: Model, inputs: Mapping[str, Array], tensors: Iterable[str] = (), signature: str | None = None
) -> dict[str, Array]:
    """A TensorFlow Lite model's outputs by the reference kernels, and the named intermediate tensors; of a signature
    only the outputs, by its names. Where the set of reference kernels lacks an operator of the model, or has it with a
    flaw, the runtime's own kernels compute all of it.

    Raises:
        SternaError: E0004 ai-edge-litert is not installed, E0009 it cannot run the model.
    """
    try:
        from ai_edge_litert import interpreter as litert  # noqa: PLC0415 (optional)
    except ImportError:
        raise error("E0004", "ai-edge-litert is not installed", fix="pip install ai-edge-litert") from None
    wanted = set(tensors)
    kinds = litert.OpResolverType
    try:
        runner = litert.Interpreter(
            model_path=os.fspath(model),
            experimental_op_resolver_type=(
                kinds.BUILTIN_REF if _has_reference_kernels(model) else kinds.BUILTIN_WITHOUT_DEFAULT_DELEGATES
            ),
            experimental_preserve_all_tensors=bool(wanted),
        )
        if signature is not None:
            return dict(runner.get_signature_runner(signature)(**inputs))
        for spec in runner.get_input_details():
            if tuple(spec["shape"]) != inputs[spec["name"]].shape:
                runner.resize_tensor_input(spec["index"], inputs[spec["name"]].shape)
        runner.allocate_tensors()
        for spec in runner.get_input_details():
            runner.set_tensor(spec["index"], inputs[spec["name"]])
        runner.invoke()
        results = {spec["name"]: np.array(runner.get_tensor(spec["index"])) for spec in runner.get_output_details()}
        for spec in runner.get_tensor_details() if wanted else ():
            if spec["name"] in wanted and spec["name"] not in results:
                results[spec["name"]] = np.array(runner.get_tensor(spec["index"]))
        return results
    except Exception as problem:  # its errors have no common type
        raise _cannot("litert", problem) from None


def run_onnxruntime(
    model: str | os.PathLike[str] | onnx.ModelProto,
    inputs: Mapping[str, Array],
    tensors: Iterable[str] = (),
    optimized: bool = False,
) -> dict[str, Array]:
    """The model's outputs, and the named intermediate tensors as far as the model has them.

    Unless it is asked for, nothing is fused or replaced: what comes back is the model as it is written.

    Raises:
        SternaError: E0004 onnxruntime is not installed, E0009 it cannot run the model.
    """
    try:
        import onnxruntime  # noqa: PLC0415 (optional)
    except ImportError:
        raise error("E0004", "onnxruntime is not installed", fix="pip install onnxruntime") from None
    options = onnxruntime.SessionOptions()
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimized else levels.ORT_DISABLE_ALL
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
        fed = {spec.name: _gathered(spec.name, spec.type, inputs) for spec in session.get_inputs()}
        given = {name: value for name, value in fed.items() if value is not None}
        return _spread_out(dict(zip(names, session.run(names, given), strict=True)))
    except SternaError:
        raise
    except Exception as problem:  # onnxruntime's errors have no common type
        raise _cannot("onnxruntime", problem) from None


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


#: Operators that the runtime's set of reference kernels lacks.
NO_REFERENCE_KERNEL = frozenset(("BROADCAST_TO", "CEIL", "ELU", "ROUND", "SEGMENT_SUM"))


def _has_reference_kernels(model: Model) -> bool:
    """Whether all operators of a TensorFlow Lite model have a right reference kernel: SUM reads int8 as uint8."""
    for graph in tflite_schema.load(os.fspath(model)).subgraphs:
        for node in graph.operators:
            if node.is_custom:
                continue
            if node.op in NO_REFERENCE_KERNEL or (node.op == "SUM" and graph.tensors[node.inputs[0]].kind == "int8"):
                return False
    return True


def _optimized(model: Model, inputs: Mapping[str, Array], tensors: Iterable[str] = ()) -> dict[str, Array]:
    return run_onnxruntime(model, inputs, tensors, optimized=True)


def run_xgboost(model: Model, inputs: Mapping[str, Array], tensors: Iterable[str] = ()) -> dict[str, Array]:
    """What XGBoost predicts, under every name that an output may have.

    Raises:
        SternaError: E0004 xgboost is not installed, E0009 it cannot run the model.
    """
    try:
        import xgboost  # noqa: PLC0415 (optional)
    except ImportError:
        raise error("E0004", "xgboost is not installed", fix="pip install xgboost") from None
    try:
        booster = xgboost.Booster(model_file=os.fspath(model))
        booster.set_param({"nthread": 1})
        rows = xgboost.DMatrix(inputs["X"])
        margin, given = booster.predict(rows, output_margin=True), booster.predict(rows)
    except Exception as problem:  # its errors have no common type
        raise _cannot("xgboost", problem) from None
    if margin.ndim > given.ndim:  # multi:softmax, which predicts a class
        odds = np.exp(margin - margin.max(axis=1, keepdims=True))
        given = odds / odds.sum(axis=1, keepdims=True)
    return _predicted(given, margin)


def run_lightgbm(model: Model, inputs: Mapping[str, Array], tensors: Iterable[str] = ()) -> dict[str, Array]:
    """What LightGBM predicts, under every name that an output may have.

    Raises:
        SternaError: E0004 lightgbm is not installed, E0009 it cannot run the model.
    """
    try:
        import lightgbm  # noqa: PLC0415 (optional)
    except ImportError:
        raise error("E0004", "lightgbm is not installed", fix="pip install lightgbm") from None
    try:
        booster = lightgbm.Booster(model_file=os.fspath(model))
        given = booster.predict(inputs["X"], num_threads=1)
        margin = booster.predict(inputs["X"], raw_score=True, num_threads=1)
    except Exception as problem:  # its errors have no common type
        raise _cannot("lightgbm", problem) from None
    return _predicted(given, margin)


def _predicted(given: Array, margin: Array) -> dict[str, Array]:
    two = np.stack([1 - given, given], axis=1) if given.ndim == 1 else given
    return {"probabilities": two, "prediction": given, "margin": margin}


def _cannot(name: str, problem: Exception) -> SternaError:
    reason = str(problem).strip().splitlines()[:3] or [type(problem).__name__]
    return error("E0009", f"{name} cannot run the model", *reason, fix=Advice(Option("against", "interpreter")))


#: Format -> what its own runtime is called, the distributions that bring it, and how it is run.
_RUNTIMES: dict[str, tuple[str, tuple[str, ...], Run]] = {
    "onnx": ("onnxruntime", ("onnxruntime",), run_onnxruntime),
    "tflite": ("litert", ("ai-edge-litert",), run_litert),
    "xgboost": ("xgboost", ("xgboost", "xgboost-cpu"), run_xgboost),
    "lightgbm": ("lightgbm", ("lightgbm",), run_lightgbm),
}
_TITLES = {"onnx": "ONNX", "tflite": "TensorFlow Lite", "xgboost": "XGBoost", "lightgbm": "LightGBM"}
#: What a format is called -> the distribution that brings its runtime.
RUNTIMES = {_TITLES[kind]: distributions[0] for kind, (_, distributions, _) in _RUNTIMES.items()}
REFERENCES = ("auto", *(name for name, _, _ in _RUNTIMES.values()), "interpreter")


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
