"""Which front end reads a model: a file says it by its content."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Union

from sterna.frontends import onnx as onnx_frontend
from sterna.frontends import tflite as tflite_frontend
from sterna.ir.graph import Graph

if TYPE_CHECKING:
    import onnx

Model = Union[str, "os.PathLike[str]", "onnx.ModelProto"]


def is_tflite(model: Model) -> bool:
    """Whether a model is a TensorFlow Lite file."""
    return isinstance(model, (str, os.PathLike)) and tflite_frontend.is_tflite(model)


def read_model(
    model: Model,
    shapes: Mapping[str, Sequence[int] | None] | None = None,
    dims: Mapping[str, int | tuple[int, int]] | None = None,
    *,
    static: bool = False,
) -> Graph:
    """A model as a graph of core operators; see the front ends' own `read`."""
    if isinstance(model, (str, os.PathLike)) and tflite_frontend.is_tflite(model):
        known = {name: sizes for name, sizes in (shapes or {}).items() if sizes is not None}
        return tflite_frontend.read(model, known, dims)
    return onnx_frontend.read(model, shapes, dims, static=static)
