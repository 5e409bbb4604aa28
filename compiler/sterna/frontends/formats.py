"""Which front end reads a model: a file says it by its content."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Union

import numpy as np

from sterna.advice import Advice
from sterna.advice import dims as dims_given
from sterna.errors import Diagnostic, SternaError, error
from sterna.frontends import boosted as boosted_frontend
from sterna.frontends import onnx as onnx_frontend
from sterna.frontends import tflite as tflite_frontend
from sterna.ir.graph import Graph

if TYPE_CHECKING:
    import onnx

Model = Union[str, "os.PathLike[str]", "onnx.ModelProto"]


def format_of(model: Model) -> str:
    """What a model is, by its content: `tflite`, `xgboost`, `lightgbm`, or else `onnx`."""
    if not isinstance(model, (str, os.PathLike)):
        return "onnx"
    return "tflite" if tflite_frontend.is_tflite(model) else boosted_frontend.library_of(model) or "onnx"


def read_model(
    model: Model,
    shapes: Mapping[str, Sequence[int] | None] | None = None,
    dims: Mapping[str, int | tuple[int, int]] | None = None,
    *,
    static: bool = False,
    signature: str | None = None,
) -> Graph:
    """A model as a graph of core operators; see the front ends' own `read`.

    Raises:
        SternaError: E0106, a signature of a model in a format that has none; whatever the front end raises.
    """
    _check_dims(dims or {})
    # Where a file's numbers overflow, what is made of them is infinite, as anywhere else in the compiler.
    with np.errstate(all="ignore"):
        return _read(model, shapes or {}, dims or {}, static, signature)


def _read(
    model: Model,
    shapes: Mapping[str, Sequence[int] | None],
    dims: Mapping[str, int | tuple[int, int]],
    static: bool,
    signature: str | None,
) -> Graph:
    kind = format_of(model)
    if signature is not None and kind != "tflite":
        raise error("E0106", f'the model has no signature "{signature}"', "only TensorFlow Lite models have signatures")
    if kind == "onnx":
        return onnx_frontend.read(model, shapes, dims, static=static)
    assert isinstance(model, (str, os.PathLike))
    known = {name: sizes for name, sizes in shapes.items() if sizes is not None}
    if kind == "tflite":
        return tflite_frontend.read(model, known, dims, signature)
    return boosted_frontend.read(model, known, dims)


def _check_dims(given: Mapping[str, int | tuple[int, int]]) -> None:
    """Refuses sizes that no dimension has (E0106), also 0 for one that never has another: nothing would be computed."""
    problems = []
    for name, size in given.items():
        lo, hi = size if isinstance(size, tuple) else (size, size)
        if 0 <= lo <= hi and hi > 0:
            continue
        text = f"{lo}..{hi}" if isinstance(size, tuple) else str(size)
        empty = dims_given({name: (0, 8)})
        fix = Advice(dims_given({name: 1}), ", or ", empty, " for one that may be empty when the model runs")
        problems.append(Diagnostic("E0106", f"the dimension {name} cannot be {text}", (), fix))
    if problems:
        raise SternaError(problems)
