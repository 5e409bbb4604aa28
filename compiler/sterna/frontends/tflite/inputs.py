"""Types of a model's inputs, with the shapes and dimensions that the user gives.

The format has no names for open dimensions. Here the first one is called `batch`, another at position n `dim<n>`; one
that the user says nothing of has the size that the file stands ready with, as in TensorFlow Lite's interpreter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sterna.errors import Diagnostic, SternaError
from sterna.frontends.tflite.constants import LARGEST_TENSOR, element_type
from sterna.frontends.tflite.schema import TensorInfo
from sterna.ir.graph import TensorType, tensor_type
from sterna.ir.integer import Int, as_int, symbol

Shapes = Mapping[str, Sequence[int]]
Dims = Mapping[str, int | tuple[int, int]]


def dimension_name(position: int) -> str:
    """What an open dimension is called."""
    return "batch" if position == 0 else f"dim{position}"


def declared_dims(tensor: TensorInfo) -> tuple[int | str, ...]:
    """Sizes, and the names of open dimensions."""
    return tuple(size if size >= 0 else dimension_name(n) for n, size in enumerate(tensor.signature))


def input_types(tensors: Sequence[TensorInfo], shapes: Shapes, dims: Dims) -> tuple[list[TensorType], list[Diagnostic]]:
    """The type of every input, and what is wrong with what the user gives: E0106, E0111, E0112."""
    names = [tensor.name for tensor in tensors]
    problems = [
        Diagnostic("E0106", f'the model has no input "{name}"', (), f"its inputs: {', '.join(names)}")
        for name in shapes
        if name not in names
    ]
    symbols: dict[str, Int] = {}
    open_dims = {d for tensor in tensors for d in declared_dims(tensor) if isinstance(d, str)}
    for name, size in dims.items():
        lo, hi = size if isinstance(size, tuple) else (size, size)
        if name not in open_dims:
            known = ", ".join(sorted(open_dims)) or "none"
            problems.append(
                Diagnostic("E0106", f'the model has no dimension "{name}"', (), f"its open dimensions: {known}")
            )
        elif not 0 < lo <= hi:
            text = f"{lo}..{hi}" if isinstance(size, tuple) else str(size)
            problems.append(Diagnostic("E0106", f"the dimension {name} cannot be {text}"))
        else:
            symbols[name] = as_int(lo) if lo == hi else symbol(name, lo, hi)
    types = []
    for tensor in tensors:
        try:
            dtype = element_type(tensor)
        except SternaError as mistake:
            problems += mistake.diagnostics
            continue
        given, declared = shapes.get(tensor.name), declared_dims(tensor)
        # Sizes that are not open may be changed as well, as `resize_tensor_input` does.
        if given is not None and (len(given) != len(declared) or any(size < 1 for size in given)):
            text = f'the input "{tensor.name}" is {list(declared)}, which {list(given)} does not fit'
            problems.append(Diagnostic("E0106", text))
            continue
        ready = tensor.shape if given is None else given
        row = [
            symbols.get(d, as_int(size)) if isinstance(d, str) and given is None else as_int(size)
            for d, size in zip(declared, ready, strict=True)
        ]
        kind = tensor_type("int8" if dtype in ("int4", "int2") else dtype, row)
        if kind.is_static and any(size < 1 for size in kind.sizes):
            problems.append(Diagnostic("E0105", f'the input "{tensor.name}" has no size: {list(tensor.shape)}'))
        elif (kind.bytes.bounds()[1] or 0) > LARGEST_TENSOR:
            problems.append(Diagnostic("E0112", f'the input "{tensor.name}" of {kind} is too large'))
        types.append(kind)
    return types, problems
