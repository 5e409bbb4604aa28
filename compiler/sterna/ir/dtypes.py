"""Element types of tensors and expressions.

A data type is one of the strings below, spelled as NumPy and the bundle's `graph.json` spell it; the functions here
answer what the compiler asks of it.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from sterna_runtime.abi import DTYPES

FLOATS = ("float16", "bfloat16", "float32", "float64")
#: Floats of 16 bits.
HALVES = FLOATS[:2]
SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
ALL = (*FLOATS, *SIGNED, *UNSIGNED, "bool")
#: Types of weights and activations that no arithmetic is done in: they are moved, and converted from and to the others.
#: An element takes a byte in memory, its bits the lowest of them.
NARROW_FLOATS = (
    "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn",
)  # fmt: skip
NARROW_INTEGERS = ("int4", "uint4", "int2", "uint2")
NARROW = (*NARROW_FLOATS, *NARROW_INTEGERS)
#: Text. A kernel sees the number of a string: its place in `Graph.strings`, or any other number, which no string of
#: the model has. It is moved, and compared and looked up by its number.
STRING = "string"
_NUMBER_OF_STRING = np.dtype([(STRING, np.int64)])

_BITS = {**{name: 8 * size for name, _, size in DTYPES}, STRING: 64}


def is_float(dtype: str) -> bool:
    return dtype in FLOATS


def is_integer(dtype: str) -> bool:
    return dtype in SIGNED or dtype in UNSIGNED


def is_signed(dtype: str) -> bool:
    return dtype in SIGNED or dtype in ("int4", "int2")


def storage(dtype: str) -> str:
    """The type of an element's memory, in which kernels see it: bytes for the narrow types, numbers of strings."""
    if dtype == STRING:
        return "int64"
    return "uint8" if dtype in NARROW else dtype


def stored(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The array, one of a narrow type seen as bytes, one of strings as their numbers."""
    if array.dtype == _NUMBER_OF_STRING:
        return array.view(np.int64)
    return array.view(np.uint8) if array.dtype.name in NARROW else array


def bits(dtype: str) -> int:
    """Bits of one element in memory (a bool takes a byte)."""
    return _BITS[dtype]


def size(dtype: str) -> int:
    """Bytes of one element in memory."""
    return bits(dtype) // 8


def limits(dtype: str) -> tuple[int, int]:
    """Least and greatest value of an integer type."""
    if dtype == "bool":
        return 0, 1
    width = int(dtype[-1]) if dtype in NARROW_INTEGERS else bits(dtype)
    return (-(1 << (width - 1)), (1 << (width - 1)) - 1) if is_signed(dtype) else (0, (1 << width) - 1)


def greatest(dtype: str) -> float:
    """The greatest finite number of a floating-point type."""
    return float(ml_dtypes.finfo(to_numpy(dtype)).max)  # type: ignore[no-untyped-call]


def highest_bit(dtype: str) -> int:
    """The number of an integer type that has only its highest bit set."""
    low, high = limits(dtype)
    return low or high // 2 + 1


def to_numpy(dtype: str) -> np.dtype:
    """The NumPy type; bfloat16 and the narrow ones are those of ml_dtypes, strings a record of their number."""
    if dtype == STRING:
        return _NUMBER_OF_STRING
    return np.dtype(getattr(ml_dtypes, dtype)) if dtype == "bfloat16" or dtype in NARROW else np.dtype(dtype)


def from_numpy(dtype: np.dtype) -> str:
    """The name of a NumPy type.

    Raises:
        KeyError: the type has no counterpart here (complex, objects).
    """
    if dtype == _NUMBER_OF_STRING:
        return STRING
    name: str = np.dtype(dtype).name
    if name not in ALL and name not in NARROW:
        raise KeyError(name)
    return name
