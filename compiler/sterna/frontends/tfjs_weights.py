"""Weights of TensorFlow.js models: `weightsManifest` of model.json, and the shards that lie beside it.

The bytes of a group's shards follow one another, and its tensors lie there one after the other. A tensor may be stored
in uint8 or uint16 (value = stored * scale + min), or in float16.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from sterna.errors import error
from sterna.ir.graph import Array

_TYPES = {"float32": np.float32, "int32": np.int32, "bool": np.bool_, "uint8": np.uint8, "float16": np.float16}
_STORED = {"uint8": np.uint8, "uint16": np.uint16, "float16": np.float16}
_COMPLEX, _STRING = "complex64", "string"


def tfjs_weights(manifest: Any, read: Callable[[str], bytes]) -> dict[str, Array]:
    """Every weight by its name, in the order of the manifest.

    Args:
        read: the contents of a shard.

    Raises:
        SternaError: E0103, the manifest contradicts itself or the shards; E0111, a weight is of a type that is not
            supported; whatever `read` raises.
    """
    found: dict[str, Array] = {}
    if not isinstance(manifest, list):
        raise error("E0103", "model.json has no list weightsManifest")
    for group in manifest:
        if not isinstance(group, dict) or not _all(group.get("paths"), str) or not _all(group.get("weights"), dict):
            raise error("E0103", "a group of weightsManifest lacks paths or weights")
        content = b"".join(read(path) for path in group["paths"])
        at = 0
        for entry in group["weights"]:
            array, size = _weight(entry, content, at)
            found[str(entry["name"])] = array
            at += size
    return found


def _all(value: Any, kind: type) -> bool:
    return isinstance(value, list) and all(isinstance(each, kind) for each in value)


def _weight(entry: dict[str, Any], content: bytes, at: int) -> tuple[Array, int]:
    """A tensor that begins at a byte, and how many bytes it takes."""
    name, shape, dtype = str(entry.get("name", "")), entry.get("shape"), entry.get("dtype")
    if not name or not isinstance(shape, list) or not all(isinstance(n, int) and n >= 0 for n in shape):
        raise error("E0103", f'the weight "{name}" has no name or no shape')
    if dtype in (_COMPLEX, _STRING) or dtype not in _TYPES:
        raise error("E0111", f'the weight "{name}" is of {dtype}, which is not supported')
    quantization = entry.get("quantization")
    stored = _TYPES[dtype]
    if quantization is not None:
        if not isinstance(quantization, dict) or quantization.get("dtype") not in _STORED:
            raise error("E0103", f'the weight "{name}" is stored in no known type')
        stored = _STORED[quantization["dtype"]]
    count = math.prod(shape)
    size = count * np.dtype(stored).itemsize
    if at + size > len(content):
        raise error("E0103", f'the weight "{name}" takes {size} bytes, and its shards have {len(content) - at} left')
    array: Array = np.frombuffer(content, stored, count, at).reshape(shape)
    if quantization is not None:
        array = _dequantized(name, array, quantization, _TYPES[dtype])
    # Not ascontiguousarray, which gives a number without dimensions one.
    return np.asarray(array, _TYPES[dtype] if dtype != "float16" else np.float32, order="C"), size


def _dequantized(name: str, stored: Array, quantization: dict[str, Any], dtype: type) -> Array:
    """What stored numbers stand for; rounded where the weight is of integers.

    Raises:
        SternaError: E0103, there is no scale or no minimum, or the type of the weight does not hold the numbers.
    """
    array = stored.astype(np.float32)
    if stored.dtype != np.float16:
        with np.errstate(over="ignore", invalid="ignore"):
            array = array * np.float32(_number(quantization, "scale")) + np.float32(_number(quantization, "min"))
        if not np.isfinite(array).all():
            raise error("E0103", f'the weight "{name}" is stored with a scale or a minimum beyond float32')
    if not np.issubdtype(dtype, np.integer):
        return array
    limits, array = np.iinfo(dtype), np.rint(array)
    # The end as a power of 2, which float32 holds; comparisons are false for what is not a number.
    if not ((array >= float(limits.min)) & (array < float(limits.max + 1))).all():
        raise error("E0103", f'the weight "{name}" is stored with numbers beyond {limits.dtype}')
    return array


def _number(quantization: dict[str, Any], key: str) -> float:
    value = quantization.get(key)
    if not isinstance(value, (int, float)) or not math.isfinite(value):
        raise error("E0103", f"a weight's quantization has no {key}")
    return float(value)
