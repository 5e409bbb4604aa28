"""Tensors of TensorFlow's files as arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sterna.errors import error
from sterna.frontends.tensorflow.model import STRING, dtype_of
from sterna.ir import dtypes
from sterna.ir.graph import Array

MOST_ELEMENTS = 1 << 28
#: Element types of complex numbers.
COMPLEX = {8: "complex64", 18: "complex128"}
#: Fields that hold the elements where `tensor_content` does not.
_FIELDS = {
    "float32": "float_val", "float64": "double_val", "int32": "int_val", "uint8": "int_val", "int16": "int_val",
    "int8": "int_val", "uint16": "int_val", "int64": "int64_val", "bool": "bool_val", "float16": "half_val",
    "bfloat16": "half_val", "uint32": "uint32_val", "uint64": "uint64_val",
}  # fmt: skip


def sizes_of(shape: Any) -> tuple[int, ...] | None:
    """The sizes of a TensorShapeProto, -1 for open ones; None: of unknown rank."""
    sizes = tuple(int(dim.size) for dim in shape.dim)
    if min(sizes, default=0) < -1:
        raise error("E0103", f"a shape has the size {min(sizes)}; -1 is an open one", fix="export the model again")
    return None if shape.unknown_rank else sizes


def array_of(tensor: Any) -> Array:
    """A TensorProto: its bytes, or its elements, the last of which is repeated as often as the shape says.

    Raises:
        SternaError: E0111 of its type, E0103 where content and shape differ, E0112 it is too large.
    """
    sizes = sizes_of(tensor.tensor_shape)
    if sizes is None or any(n < 0 for n in sizes):
        raise error("E0103", "a constant has no shape")
    count = math.prod(sizes)
    if count > MOST_ELEMENTS:
        raise error("E0112", f"a constant of {list(sizes)} is too large")
    if tensor.dtype == STRING:
        made = np.empty(count, object)
        given = list(tensor.string_val) or [b""]
        made[:] = [given[min(n, len(given) - 1)] for n in range(count)]
        return made.reshape(sizes)
    if tensor.dtype in COMPLEX:
        return _complex(tensor, count).reshape(sizes)
    kind = dtypes.to_numpy(dtype_of(tensor.dtype))
    if tensor.tensor_content:
        if len(tensor.tensor_content) != count * kind.itemsize:
            raise error("E0103", f"{len(tensor.tensor_content)} bytes are no constant of {list(sizes)} {kind}")
        return np.frombuffer(tensor.tensor_content, kind).reshape(sizes)
    values = getattr(tensor, _FIELDS[dtype_of(tensor.dtype)])
    if len(values) > count:
        raise error("E0103", f"{len(values)} elements are no constant of {list(sizes)}")
    if kind.itemsize == 2 and _FIELDS[dtype_of(tensor.dtype)] == "half_val":
        flat = np.array(values, np.int32).astype(np.uint16).view(kind)
    else:
        wide = np.array(values, np.float64 if kind.kind == "f" else object if kind.kind == "u" else np.int64)
        flat = wide.astype(kind)
    if len(flat) < count:
        last = flat[-1:] if len(flat) else np.zeros(1, kind)
        flat = np.concatenate([flat, np.broadcast_to(last, count - len(flat))])
    return flat.reshape(sizes)


def _complex(tensor: Any, count: int) -> Array:
    """Complex numbers of a TensorProto: bytes, or pairs of floats, the last of which is repeated."""
    kind = np.dtype(COMPLEX[tensor.dtype])
    if tensor.tensor_content:
        if len(tensor.tensor_content) != count * kind.itemsize:
            raise error("E0103", f"{len(tensor.tensor_content)} bytes are no {count} complex numbers")
        return np.frombuffer(tensor.tensor_content, kind)
    pairs = list(tensor.scomplex_val or tensor.dcomplex_val)
    if len(pairs) % 2 or len(pairs) > 2 * count:
        raise error("E0103", f"{len(pairs)} numbers are no {count} complex ones")
    flat: Array = np.array(pairs, np.float64).view(np.complex128).astype(kind)
    last = flat[-1:] if len(flat) else np.zeros(1, kind)
    return np.concatenate([flat, np.broadcast_to(last, count - len(flat))])
