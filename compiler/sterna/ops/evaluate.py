"""Operators applied to arrays, through their tensor expressions or loop programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sterna.ir import dtypes
from sterna.ir.graph import Array, TensorType, tensor_type
from sterna.ir.limits import memory_of
from sterna.ir.memory import INPUT, OUTPUT
from sterna.loops.interpreter import run_function
from sterna.loops.program import Buffer, dense_buffer
from sterna.ops.operator import Operator
from sterna.ops.table import operator
from sterna.te.interpreter import run_kernel
from sterna.te.tensor import Kernel, Tensor, placeholder

#: Elements that a loop program of constants may read and bytes that it may make while a model is compiled.
MOST_INTERPRETED = 1 << 20
#: Elements that constants may have which repeat themselves, as those of an expanded number.
MOST_REPEATED = 1 << 26


def evaluate(
    op: str,
    inputs: Sequence[Array | None],
    attributes: Mapping[str, Any],
    outputs: Sequence[TensorType] | None = None,
) -> tuple[Array, ...]:
    """The results of one operator.

    Args:
        attributes: complete ones (`Operator.complete`).
        outputs: the results' types, if they are known already.

    Returns:
        New arrays, or views of the operand where the operator only views it.
    """
    declaration = operator(op)
    if declaration.view is not None and inputs[0] is not None:
        return (declaration.view(inputs[0], attributes),)
    types = tuple(None if a is None else tensor_type(dtypes.from_numpy(a.dtype), a.shape) for a in inputs)
    if outputs is None:
        outputs = declaration.types(types, attributes)
    if all(t.is_static and 0 in t.sizes for t in outputs):
        return tuple(np.empty(t.sizes, dtypes.to_numpy(t.dtype)) for t in outputs)
    if declaration.program is not None:
        return _run(declaration, inputs, attributes, outputs)
    tensors: list[Tensor | None] = []
    arrays: dict[str, Array] = {}
    for n, (array, kind) in enumerate(zip(inputs, types, strict=True)):
        if array is None or kind is None:
            tensors.append(None)
            continue
        tensors.append(placeholder(f"x{n}", kind.shape, dtypes.storage(kind.dtype)))
        arrays[f"x{n}"] = dtypes.stored(array)
    results = declaration.compute(tensors, attributes, outputs, "y")
    kernel = Kernel(op, tuple(t for t in tensors if t is not None), (), results)
    computed = run_kernel(kernel, arrays)
    return tuple(
        computed[tensor.name].view(dtypes.to_numpy(kind.dtype)) for tensor, kind in zip(results, outputs, strict=True)
    )


def is_quick(op: str, arrays: Sequence[Array], size: int) -> bool:
    """Whether an operator of constants is computed in a moment, as far as what it reads and makes says so.

    Args:
        size: bytes of its results.
    """
    elements = sum(array.size for array in arrays)
    if operator(op).program is not None:
        # Loop programs are interpreted statement by statement.
        return elements + size <= MOST_INTERPRETED
    # What repeats itself costs the model nothing, and the evaluation as much as any other element.
    return elements <= MOST_REPEATED or elements <= sum(memory_of(array) for array in arrays)


def _run(
    operator: Operator, inputs: Sequence[Array | None], attributes: Mapping[str, Any], outputs: Sequence[TensorType]
) -> tuple[Array, ...]:
    """The results of an opaque operator."""
    buffers: list[Buffer | None] = []
    memory: dict[str, Array] = {}
    for n, array in enumerate(inputs):
        if array is None:
            buffers.append(None)
            continue
        kind = tensor_type(dtypes.from_numpy(array.dtype), array.shape)
        buffers.append(dense_buffer(f"x{n}", dtypes.storage(kind.dtype), kind.shape, INPUT, n))
        flat = np.ascontiguousarray(dtypes.stored(array)).reshape(-1)
        memory[f"x{n}"] = flat if flat.size else np.zeros(1, flat.dtype)
    results = [
        dense_buffer(f"y{n}", dtypes.storage(kind.dtype), kind.shape, OUTPUT, n) for n, kind in enumerate(outputs)
    ]
    memory |= {b.name: np.zeros(b.elements, dtypes.to_numpy(b.dtype)) for b in results}
    run_function(operator.write(buffers, attributes, results), memory)
    return tuple(
        memory[b.name][: int(kind.elements)].reshape(kind.sizes).view(dtypes.to_numpy(kind.dtype))
        for b, kind in zip(results, outputs, strict=True)
    )
