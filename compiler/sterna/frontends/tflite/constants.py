"""Tensors that the file holds, as arrays."""

from __future__ import annotations

import math

import numpy as np

from sterna.errors import SternaError, error
from sterna.frontends.tflite.schema import Quantization, Sparsity, TensorInfo
from sterna.ir import dtypes
from sterna.ir.graph import Array
from sterna.ir.limits import check_table
from sterna.ops.builder import too_large

#: Element types that have none of ours; complex ones may stand between operators.
COMPLEX = ("complex64", "complex128")
#: Bits of an element where several share a byte.
_PACKED = {"int4": 4, "uint4": 4, "int2": 2}


def element_type(tensor: TensorInfo) -> str:
    """Our name of a tensor's element type.

    Raises:
        SternaError: E0111, it is not supported.
    """
    if tensor.kind in dtypes.ALL or tensor.kind in _PACKED:
        return tensor.kind
    raise error("E0111", f"elements of type {tensor.kind} are not supported", f'the tensor "{tensor.name}"')


def constant_array(tensor: TensorInfo) -> Array:
    """The elements of a constant; a read-only view of the file's bytes where that is possible.

    Elements of few bits come as int8 or uint8: no arithmetic of TensorFlow Lite knows them otherwise.

    Raises:
        SternaError: E0103 it does not fit its shape, E0111 its element type, E0112 its size.
    """
    dtype = element_type(tensor)
    assert tensor.content is not None
    what = f'the tensor "{tensor.name}"'
    if any(size < 0 for size in tensor.shape):
        raise error("E0103", f"{what} has negative dimensions: {list(tensor.shape)}")
    count = math.prod(tensor.shape)
    if too_large(tensor.shape, dtypes.size(dtype)):
        raise error("E0112", f"{what} of shape {list(tensor.shape)} is too large")
    if tensor.sparsity is not None:
        return _densified(tensor, tensor.sparsity, _elements(tensor.content, dtype, None, what), count)
    return _elements(tensor.content, dtype, count, what).reshape(tensor.shape)


def _elements(content: Array, dtype: str, count: int | None, what: str) -> Array:
    """So many elements out of bytes; None: as many as there are."""
    bits = _PACKED.get(dtype, dtypes.bits(dtype))
    if count is None:
        count = len(content) * 8 // bits
    size = -(-count * bits // 8)
    if len(content) != size:
        raise error("E0103", f"{what} needs {size} bytes and has {len(content)}")
    if dtype in _PACKED:
        parts = np.stack([(content >> shift) & ((1 << bits) - 1) for shift in range(0, 8, bits)], axis=-1)
        flat = parts.reshape(-1)[:count]
        if dtype.startswith("u"):
            return flat
        sign = 1 << (bits - 1)
        signed: Array = np.subtract(flat.astype(np.int8) ^ sign, np.int8(sign))
        return signed
    kind = dtypes.to_numpy(dtype)
    return np.frombuffer(content.tobytes() if not content.flags.c_contiguous else content, kind.newbyteorder("<"))


def _densified(tensor: TensorInfo, sparsity: Sparsity, values: Array, count: int) -> Array:
    """The dense array of a sparse one, which is a tree: each level lists the positions along one dimension."""
    problem = error("E0103", f'the sparse tensor "{tensor.name}" is malformed')
    rank, blocks = len(tensor.shape), len(sparsity.block_map)
    dimensions = sparsity.dimensions
    if sorted(sparsity.order) != list(range(rank + blocks)) or len(dimensions) != rank + blocks:
        raise problem
    check_table(count)
    check_table(len(dimensions), values.size)
    at: dict[int, Array] = {}
    node = np.zeros(1, np.int64)
    for dimension, level in zip(sparsity.order, dimensions, strict=True):
        if isinstance(level, int):
            if not level > 0 or node.size * level > max(count, values.size):
                raise problem
            place = np.tile(np.arange(level), node.size)
            parent = np.repeat(np.arange(node.size), level)
            node = node[parent] * level + place
        else:
            segments, indices = np.array(level[0], np.int64), np.array(level[1], np.int64)
            if not segments.size or (np.diff(segments) < 0).any() or segments[0] < 0 or segments[-1] > indices.size:
                raise problem
            if (node + 1 >= segments.size).any():
                raise problem
            counts = segments[node + 1] - segments[node]
            parent = np.repeat(np.arange(node.size), counts)
            before = np.repeat(np.cumsum(counts) - counts, counts)
            node = segments[node][parent] + np.arange(parent.size) - before
            place = indices[node]
        at = {known: positions[parent] for known, positions in at.items()}
        at[dimension] = place
    if node.size and int(node.max()) >= values.size:
        raise problem
    places = [at[n] for n in range(rank)]
    for n, dimension in enumerate(sparsity.block_map):
        size = dimensions[sparsity.order.index(rank + n)]
        if not 0 <= dimension < rank or not isinstance(size, int):
            raise problem
        places[dimension] = places[dimension] * size + at[rank + n]
    if any((place < 0).any() or (place >= size).any() for place, size in zip(places, tensor.shape, strict=True)):
        raise problem
    dense = np.zeros(tensor.shape, values.dtype)
    dense[tuple(places)] = values[node]
    return dense


def check_quantization(tensor: TensorInfo, quantization: Quantization) -> list[SternaError]:
    """What is wrong with the way in which a tensor is quantized (E0114)."""
    what = f'the tensor "{tensor.name}"'
    problems = []
    scales, zeros = quantization.scales, quantization.zero_points

    def refuse(title: str) -> None:
        problems.append(error("E0114", f"{what} {title}", fix="export the model again"))

    if not np.isfinite(scales).all():
        refuse(f"is quantized with a scale that is not a number: {_first(scales, ~np.isfinite(scales))}")
    elif (scales <= 0).any():
        refuse(f"is quantized with a scale of {_first(scales, scales <= 0)}")
    if len(zeros) not in (1, len(scales)):
        refuse(f"has {len(scales)} scales and {len(zeros)} zero points")
    if len(scales) > 1:
        axis = quantization.axis
        if len(tensor.shape) == 1:
            axis = 0  # of a bias, converters write that of the weights
        if not 0 <= axis < len(tensor.shape):
            refuse(f"is quantized along dimension {axis}, and has {len(tensor.shape)} dimensions")
        elif tensor.shape[axis] != len(scales):
            refuse(f"has {len(scales)} scales for {tensor.shape[axis]} elements of dimension {axis}")
    dtype = tensor.kind
    if dtype in ("int32", "int64", "int16") or dtype in ("int8", "uint8") or dtype in _PACKED:
        low, high = dtypes.limits(dtype)
    else:
        return problems
    if zeros.size and not ((zeros >= low) & (zeros <= high)).all():
        refuse(f"is of {dtype} and its zero point is {_first(zeros, (zeros < low) | (zeros > high))}")
    return problems


def _first(values: Array, wrong: Array) -> float:
    return float(values[wrong][0])
