"""Types, constants and declarations as LLVM's language has them."""

from __future__ import annotations

import math
import re
import struct
from functools import lru_cache

from sterna.intrinsics import Intrinsic
from sterna.ir import dtypes
from sterna.te.layout import most_elements

_KIND = {"float32": "float", "float64": "double", "bool": "i1", "float16": "i16", "bfloat16": "i16"}
_SUFFIX = {"float32": "f32", "float64": "f64", "bool": "i1"}


@lru_cache(maxsize=1024)
def kind(dtype: str, lanes: int = 1) -> str:
    """The LLVM type of a value."""
    scalar = _KIND.get(dtype) or f"i{dtypes.bits(dtype)}"
    return scalar if lanes == 1 else f"<{lanes} x {scalar}>"


def memory_kind(dtype: str, lanes: int = 1) -> str:
    """The LLVM type of a value in memory."""
    return kind("uint8" if dtype == "bool" else dtype, lanes)


def suffix(dtype: str, lanes: int) -> str:
    """What an intrinsic's name ends in for a type."""
    scalar = _SUFFIX.get(dtype) or f"i{dtypes.bits(dtype)}"
    return scalar if lanes == 1 else f"v{lanes}{scalar}"


def constant(value: bool | int | float, dtype: str, lanes: int = 1) -> str:
    """A constant; a splat of it if there are lanes."""
    return _constant(repr(value), value, dtype, lanes)


@lru_cache(maxsize=4096)
def _constant(text: str, value: bool | int | float, dtype: str, lanes: int) -> str:
    # Keyed by text too: 0.0 and -0.0 are equal, and so are 1, 1.0 and True.
    if dtype == "bfloat16":
        scalar = str(_bfloat16_bits(float(value)))
    elif dtype == "float16":
        scalar = str(_float16_bits(float(value)))
    elif dtypes.is_float(dtype):
        # Both float types are written as the bits of a double.
        value = float(value)
        if dtype == "float32" and math.isfinite(value):
            value = as_float32(value)
        scalar = f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
    elif dtype == "bool":
        scalar = "true" if value else "false"
    else:
        scalar = str(int(value))
    return scalar if lanes == 1 else splat(kind(dtype), scalar, lanes)


def as_float32(value: float) -> float:
    """The nearest float32, infinite where the value is beyond all."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def _float16_bits(value: float) -> int:
    try:
        return int(struct.unpack("<H", struct.pack("<e", value))[0])
    except OverflowError:
        return 0xFC00 if value < 0 else 0x7C00


def _bfloat16_bits(value: float) -> int:
    if math.isnan(value):
        return 0x7FC0
    bits = int(struct.unpack("<I", struct.pack("<f", as_float32(value)))[0])
    return (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16


def operand_kinds(intrinsic: Intrinsic) -> tuple[str, ...]:
    """The types of the operands of an intrinsic over vectors, its accumulators first, if it adds to them."""
    operands = [kind(t.dtype, most_elements(t.shape)) for t in intrinsic.inputs]
    return (kind(intrinsic.dtype, intrinsic.elements), *operands) if intrinsic.accumulates else tuple(operands)


def declarations_of(text: str, every: bool = False) -> set[str]:
    """Declarations of the LLVM intrinsics that instructions call, or of every function."""
    found = set()
    for result, name, operands in re.findall(rf"call (.+?) (@{'' if every else 'llvm[.]'}[\w.]+)\((.*)\)", text):
        kinds = ", ".join(m[0] for m in re.finditer(r"(?:^|(?<=, ))(?:<\d+ x \w+>|\w+)(?= )", operands))
        found.add(f"declare {result} {name}({kinds})")
    return found


def splat(scalar_kind: str, scalar: str, lanes: int) -> str:
    return "<" + ", ".join([f"{scalar_kind} {scalar}"] * lanes) + ">"


def shuffle_mask(lanes: list[int]) -> str:
    return f"<{len(lanes)} x i32> <" + ", ".join(f"i32 {n}" for n in lanes) + ">"
