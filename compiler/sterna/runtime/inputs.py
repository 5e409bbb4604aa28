"""What a caller gives for the model's inputs, checked: all problems of all inputs in one error."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sterna.errors import Diagnostic, SternaError

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class TensorSpec:
    """A tensor of a signature.

    bfloat16 is the dtype of `ml_dtypes`; without that package it shows as uint16, bit for bit.
    """

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of the dense tensor."""
        return math.prod(self.shape) * self.dtype.itemsize

    def __str__(self) -> str:
        return f"{self.name} {self.dtype}[{', '.join(str(size) for size in self.shape)}]"


def dtype_from_name(name: str) -> np.dtype[Any]:
    """The NumPy type for a dtype of graph.json."""
    if name != "bfloat16":
        plain: np.dtype[Any] = np.dtype(name)
        return plain
    try:
        import ml_dtypes  # noqa: PLC0415 (optional, and slow to import)
    except ImportError:
        return np.dtype(np.uint16)
    narrow: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
    return narrow


def as_array(spec: TensorSpec, given: Any) -> Array | list[Diagnostic]:
    """`given` as an array of the right dtype and shape, or what is wrong with it.

    An array, or an object with `__dlpack__`, is taken as it is, without a copy; numbers and nested lists are converted.
    """
    if isinstance(given, np.ndarray) and given.dtype == spec.dtype and given.shape == spec.shape:
        return given
    where = f"the model wants {spec}"
    try:
        if isinstance(given, np.ndarray):
            array = given
        elif hasattr(given, "__dlpack__"):
            array = np.from_dlpack(given)
        elif hasattr(given, "__array__"):
            array = np.asarray(given)
        else:
            array = np.asarray(given, dtype=spec.dtype)
    except (TypeError, ValueError, RuntimeError, BufferError, OverflowError) as reason:
        title = f'input "{spec.name}" cannot be made an array: {type(given).__name__}: {reason}'
        return [Diagnostic("E0606", title, (where,))]
    problems = []
    if array.dtype != spec.dtype:
        fix = f'array.astype("{spec.dtype}")'
        problems.append(Diagnostic("E0603", f'input "{spec.name}" has dtype {array.dtype}', (where,), fix))
    if array.shape != spec.shape:
        same_size = array.size == math.prod(spec.shape)
        fix = f"array.reshape{spec.shape}" if same_size else "compile the model for that shape: --shape"
        title = f'input "{spec.name}" has shape {list(array.shape)}'
        problems.append(Diagnostic("E0604", title, (where,), fix))
    return problems or array


def _list(specs: Sequence[TensorSpec]) -> str:
    return "its inputs: " + (", ".join(str(spec) for spec in specs) or "none")


def match_inputs(specs: Sequence[TensorSpec], given: Mapping[str, Any] | Sequence[Any]) -> list[Array]:
    """The arrays in the model's order. Raises a SternaError with everything that is wrong."""
    problems: list[Diagnostic] = []
    if isinstance(given, Mapping):
        by_name = dict(given)
    elif isinstance(given, Sequence) and not isinstance(given, (str, bytes)):
        by_name = dict(zip((spec.name for spec in specs), given, strict=False))
        if len(given) > len(specs):
            title = f"{len(given)} inputs were given; the model has {len(specs)}"
            problems.append(Diagnostic("E0602", title, (_list(specs),)))
    else:
        title = f"the inputs are a {type(given).__name__}; a mapping by name or a sequence is needed"
        raise SternaError(Diagnostic("E0606", title, (_list(specs),)))
    known = {spec.name for spec in specs}
    problems += [
        Diagnostic("E0602", f'the model has no input "{name}"', (_list(specs),))
        for name in by_name
        if name not in known
    ]
    arrays = []
    for spec in specs:
        if spec.name not in by_name:
            problems.append(Diagnostic("E0601", f'input "{spec.name}" is missing', (f"the model wants {spec}",)))
            continue
        array = as_array(spec, by_name[spec.name])
        if isinstance(array, np.ndarray):
            arrays.append(array)
        else:
            problems += array
    if problems:
        raise SternaError(problems)
    return arrays
