"""Inputs of a model, and what its format's own engine makes of them without optimizing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

Arrays = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """Inputs by name, and the outputs that are right in the model's order.

    Args:
        spread: by how much other right outputs may differ, in parts of the largest.
    """

    inputs: Arrays
    outputs: list[Any]
    spread: float = 0.0


def write_reference(model: Path, case: Case | None, target: Path) -> None:
    """Writes inputs as `in:NAME` and outputs as `out:NUMBER`.

    Args:
        case: None: deterministic random inputs, and what the engine makes of them.
    """
    if case is None:
        case = _tflite(model) if model.suffix == ".tflite" else _onnx(model)
    found = {f"out:{n}": array for n, array in enumerate(case.outputs)}
    partial = target.with_suffix(".partial.npz")
    np.savez(partial, **{f"in:{name}": array for name, array in case.inputs.items()}, **found)
    partial.replace(target)


def _tflite(model: Path) -> Case:
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    engine = Interpreter(model_path=str(model), experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
    engine.allocate_tensors()
    random = np.random.default_rng(3)
    inputs: Arrays = {}
    for place in sorted(engine.get_input_details(), key=lambda detail: detail["name"]):
        inputs[place["name"]] = _random_tflite(place, random)
        engine.set_tensor(place["index"], inputs[place["name"]])
    engine.invoke()
    return Case(inputs, [engine.get_tensor(detail["index"]) for detail in engine.get_output_details()])


def _random_tflite(place: Mapping[str, Any], random: np.random.Generator) -> Any:
    shape, kind = place["shape"], np.dtype(place["dtype"])
    if kind.kind not in "iu":
        return random.standard_normal(shape, np.float32)
    limits = np.iinfo(kind)
    return random.integers(limits.min, limits.max, shape).astype(kind)


def unoptimized(model: Path) -> Any:
    """ONNX Runtime's session of a model as it is."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])


def _onnx(model: Path) -> Case:
    session = unoptimized(model)
    random = np.random.default_rng(3)
    inputs = {given.name: _random_onnx(given, random) for given in session.get_inputs()}
    outputs = session.run(None, inputs)
    if not all(_is_finite(output) for output in outputs):
        # Roots, logarithms and powers are of positive numbers: an output that is NaN compares with none.
        inputs = {name: np.abs(x) if x.dtype.kind == "f" else x for name, x in inputs.items()}
        outputs = session.run(None, inputs)
    return Case(inputs, outputs)


def _is_finite(output: Any) -> bool:
    array = np.asarray(output)
    return array.dtype.kind != "f" or bool(np.isfinite(array).all())


def _random_onnx(given: Any, random: np.random.Generator) -> Any:
    # Of open sizes the first is a batch, the others are lengths.
    shape = [n if isinstance(n, int) and n > 0 else 128 if axis else 1 for axis, n in enumerate(given.shape)]
    if given.type == "tensor(bool)":
        return random.random(shape) < 0.5
    if "int" not in given.type:
        drawn = random.standard_normal(shape, dtype=np.float32)
        return drawn.astype(np.float16) if given.type == "tensor(float16)" else drawn
    if "int8" in given.type:
        limits = np.iinfo(given.type.removeprefix("tensor(").removesuffix(")"))
        return random.integers(limits.min, limits.max, shape, endpoint=True).astype(limits.dtype)
    kind = np.int64 if "64" in given.type else np.int32
    constant = {"attention_mask": 1, "token_type_ids": 0}.get(given.name)
    # Drawn in any case, so that the others are the same with and without a mask.
    drawn = random.integers(1, 999, shape).astype(kind)
    return drawn if constant is None else np.full(shape, constant, kind)
