"""The inputs of a TensorFlow Lite model.

The format has no names for open dimensions. Here the first one is called `batch`, another at position n `dim<n>`.
"""

from __future__ import annotations

from collections.abc import Sequence

from sterna.errors import Diagnostic, SternaError
from sterna.frontends.inputs import InputInfo, Shapes
from sterna.frontends.inputs import input_types as types_of
from sterna.frontends.tflite.constants import element_type
from sterna.frontends.tflite.schema import TensorInfo
from sterna.ir.graph import TensorType
from sterna_runtime.arguments import Dims


def dimension_name(position: int) -> str:
    """What an open dimension is called."""
    return "batch" if position == 0 else f"dim{position}"


def declared_dims(tensor: TensorInfo) -> tuple[int | str, ...]:
    """Sizes, and the names of open dimensions."""
    return tuple(size if size >= 0 else dimension_name(n) for n, size in enumerate(tensor.signature))


def input_types(tensors: Sequence[TensorInfo], shapes: Shapes, dims: Dims) -> tuple[list[TensorType], list[Diagnostic]]:
    """The type of every input, and what is wrong with them or with what the user gives: E0105, E0106, E0111, E0112."""
    infos: list[InputInfo] = []
    problems: list[Diagnostic] = []
    for tensor in tensors:
        try:
            dtype = element_type(tensor)
        except SternaError as mistake:
            problems += mistake.diagnostics
            continue
        declared = declared_dims(tensor)
        ready = tuple(tensor.shape)
        infos.append(InputInfo(tensor.name, "int8" if dtype in ("int4", "int2") else dtype, declared, ready))
    if problems:
        return [], problems
    return types_of(infos, shapes, dims)
