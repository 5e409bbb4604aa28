"""Tensors as PyTorch stores them: a run of elements, with sizes, strides and an offset into it."""

from __future__ import annotations

import math
import struct
import zipfile
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from sterna.errors import error
from sterna.ir.graph import Array

#: The schema's numbers of element types (torch/_export/serde/schema.py, ScalarType).
SCALAR_TYPES = {
    1: "uint8", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 6: "float16", 7: "float32", 8: "float64",
    9: "complex32", 10: "complex64", 11: "complex128", 12: "bool", 13: "bfloat16", 28: "uint16",
    29: "float8_e4m3fn", 30: "float8_e5m2", 31: "float8_e4m3fnuz", 32: "float8_e5m2fnuz", 33: "float8_e8m0fnu",
    34: "uint32", 35: "uint64",
}  # fmt: skip
COMPLEX = frozenset(("complex32", "complex64", "complex128"))
MOST_DIMENSIONS = 64
#: What Python raises where an archive is damaged.
BROKEN = (
    zipfile.BadZipFile, OSError, NotImplementedError, EOFError, RuntimeError, ValueError, LookupError, OverflowError,
    struct.error, zlib.error,
)  # fmt: skip


def scalar_type(code: Any, what: str) -> str:
    """The element type of a number in a file.

    Raises:
        SternaError: E0111, there is none of that number.
    """
    found = SCALAR_TYPES.get(code) if isinstance(code, int) else None
    if found is None:
        raise error("E0111", f"{what} has the element type {code}, which is not supported")
    return found


def strided(storage: Array, sizes: Any, strides: Any, offset: Any, where: str) -> Array:
    """A view of stored elements, not copied.

    Raises:
        SternaError: E0101, it reaches beyond them.
    """
    numbers = (*_numbers(sizes), *_numbers(strides), *_numbers((offset,)))
    rank = len(sizes)
    if len(strides) != rank or rank > MOST_DIMENSIONS or any(n < 0 or n >= 1 << 48 for n in numbers):
        raise error("E0101", f"{where} holds a tensor of {sizes} with strides {strides}")
    sizes, strides = numbers[:rank], numbers[rank : 2 * rank]
    count = math.prod(sizes)
    last = offset + sum((n - 1) * stride for n, stride in zip(sizes, strides, strict=True))
    if count and last >= storage.size:
        raise error("E0101", f"{where} lacks elements of a tensor of {list(sizes)}", "it is damaged, or not whole")
    if not count:
        return np.zeros(sizes, storage.dtype)
    step = storage.dtype.itemsize
    view = np.lib.stride_tricks.as_strided(storage[offset:], sizes, [stride * step for stride in strides])
    view.flags.writeable = False
    return view


def _numbers(values: Sequence[Any]) -> tuple[int, ...]:
    if not isinstance(values, (tuple, list)) or not all(type(n) is int for n in values):
        raise error("E0101", f"a tensor's layout is {values!r}"[:200])
    return tuple(values)


#: Bytes that a compressed part of a file may become. PyTorch compresses none.
LARGEST_COMPRESSED = 256 << 20


def check_member(info: zipfile.ZipInfo, where: str, limit: int = 1 << 40) -> None:
    """Refuses a part of an archive before it is unpacked, where it is larger than the limit, or than it can be.

    Raises:
        SternaError: E0112.
    """
    most = limit if info.compress_type == zipfile.ZIP_STORED else min(limit, LARGEST_COMPRESSED)
    stored = info.compress_type == zipfile.ZIP_STORED
    if info.file_size > most or (stored and info.file_size != info.compress_size):
        raise error("E0112", f"{where}: {info.filename} is of {info.file_size} bytes")
