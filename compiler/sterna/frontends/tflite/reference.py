"""TensorFlow Lite models run by LiteRT."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from sterna.frontends.runtimes import cannot_run, not_installed
from sterna.frontends.tflite.schema import load
from sterna.ir.graph import Array

#: Operators that the runtime's set of reference kernels lacks.
NO_REFERENCE_KERNEL = frozenset(("BROADCAST_TO", "CEIL", "ELU", "ROUND", "SEGMENT_SUM"))

#: Custom operators of MediaPipe that only XNNPACK computes, the runtime's default delegate.
OF_DELEGATE = frozenset(("Convolution2DTransposeBias", "MaxPoolingWithArgmax2D", "MaxUnpooling2D"))


def run_litert(
    model: str | os.PathLike[str],
    inputs: Mapping[str, Array],
    tensors: Iterable[str] = (),
    signature: str | None = None,
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
        raise not_installed("ai-edge-litert") from None
    wanted = set(tensors)
    kinds = litert.OpResolverType
    try:
        runner = litert.Interpreter(
            model_path=os.fspath(model),
            experimental_op_resolver_type=_kernels(model, kinds),
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
        raise cannot_run("litert", problem) from None


def _kernels(model: str | os.PathLike[str], kinds: Any) -> Any:
    """The set of kernels that computes a model."""
    if any(node.op in OF_DELEGATE for graph in load(os.fspath(model)).subgraphs for node in graph.operators):
        return kinds.AUTO
    return kinds.BUILTIN_REF if _has_reference_kernels(model) else kinds.BUILTIN_WITHOUT_DEFAULT_DELEGATES


def check_litert(model: str | os.PathLike[str]) -> None:
    """Whether the runtime has the custom operators of a model.

    Raises:
        SternaError: E0009, it has not.
    """
    if not any(node.is_custom for graph in load(os.fspath(model)).subgraphs for node in graph.operators):
        return
    try:
        from ai_edge_litert import interpreter as litert  # noqa: PLC0415 (optional)
    except ImportError:
        raise not_installed("ai-edge-litert") from None
    try:
        litert.Interpreter(model_path=os.fspath(model)).allocate_tensors()
    except Exception as problem:  # its errors have no common type
        raise cannot_run("litert", problem) from None


def _has_reference_kernels(model: str | os.PathLike[str]) -> bool:
    """Whether all operators of a TensorFlow Lite model have a right reference kernel: SUM reads int8 as uint8."""
    for graph in load(os.fspath(model)).subgraphs:
        for node in graph.operators:
            if node.is_custom:
                continue
            if node.op in NO_REFERENCE_KERNEL or (node.op == "SUM" and graph.tensors[node.inputs[0]].kind == "int8"):
                return False
    return True
