"""Element types of tensors and expressions.

A data type is one of the strings below, spelled as NumPy and the bundle's `graph.json` spell it; the functions here
answer what the compiler asks of it.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

FLOATS = ("float16", "bfloat16", "float32", "float64")
SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
ALL = (*FLOATS, *SIGNED, *UNSIGNED, "bool")

_BITS = {"bool": 8, "bfloat16": 16}


def is_float(dtype: str) -> bool:
    return dtype in FLOATS


def is_integer(dtype: str) -> bool:
    return dtype in SIGNED or dtype in UNSIGNED


def is_signed(dtype: str) -> bool:
    return dtype in SIGNED


def bits(dtype: str) -> int:
    """Bits of one element in memory (a bool takes a byte)."""
    if dtype in _BITS:
        return _BITS[dtype]
    return int(dtype.lstrip("abcdefghijklmnopqrstuvwxyz"))


def size(dtype: str) -> int:
    """Bytes of one element in memory."""
    return bits(dtype) // 8


def limits(dtype: str) -> tuple[int, int]:
    """Least and greatest value of an integer type."""
    if dtype == "bool":
        return 0, 1
    width = bits(dtype)
    return (-(1 << (width - 1)), (1 << (width - 1)) - 1) if is_signed(dtype) else (0, (1 << width) - 1)


def to_numpy(dtype: str) -> np.dtype:
    """The NumPy type; bfloat16 is ml_dtypes' own."""
    return np.dtype(ml_dtypes.bfloat16) if dtype == "bfloat16" else np.dtype(dtype)


def from_numpy(dtype: np.dtype) -> str:
    """The name of a NumPy type.

    Raises:
        KeyError: the type has no counterpart here (strings, complex, objects).
    """
    name: str = np.dtype(dtype).name
    if name not in ALL:
        raise KeyError(name)
    return name
